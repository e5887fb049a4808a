"""What a calibrated cube shows of its calibration: sums near the controls, and a true report.

The noisy cells as they were drawn are not published, and a calibration cannot be done again.  What
can be checked is in the published tables: how far the cells are from the control tables, and what
the calibration says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np

from eree.survey.calibrate.calibrated import Calibrated
from eree.survey.calibrate.controls import Control
from eree.survey.calibrate.margins import Array, Margin, Whole
from eree.survey.calibrate.noise import METHODS, RAKED
from eree.survey.calibrate.rake import RakeReport
from eree.survey.calibrate.rounding import LIMIT
from eree.survey.plan import Mode
from eree.survey.protected import ProtectedCube

#: How many standard deviations a control may be from the cells of least squares.
#:
#: The difference is a sum of a_j K_j over all noise that was drawn.  Residuals of least squares
#: have a variance, the sum of a_j² v_j, of at most that of the control itself.  For noise K of rate
#: r, capped or not, E e^(tK) <= 1 / (1 - t² / r²).  With b_j = 1 / r_j, s² the sum of 2 a_j² b_j²
#: and t = 1 / s that gives E e^(t sum) <= 2, so P(|sum| > k s) <= 4 e^-k.  Noise as published is
#: rounded after it was multiplied, to at most 3/2 of it: 60 are no fewer than 40, and for a billion
#: control cells the chance of a false alarm is below 2e-8.
MOST_DEVIATIONS = 60
#: Controls without noise count as if they had this share of the variance of their cells.
_SURE = 1e-9
#: What sums of floating-point numbers and an iterative solver may miss, as a share of the sizes.
_NUMERIC = 1e-9
#: The tolerance of raking.
_CONVERGED = 1e-6
_RAKED = frozenset({"reconciled", *(field.name for field in fields(RakeReport))})
_BADLY_SAID = "is not written as eree writes it"

Found = Iterator[tuple[str, str]]


def calibration_faults(mode: Mode, cube: ProtectedCube) -> Found:
    """The places and rules of all that a calibration could not have given."""
    final, report = cube.calibrated, cube.calibrated.report
    if not _well_said(cube):
        yield "calibration", _BADLY_SAID
        return
    if not cube.controls:
        return
    best = final.cells if final.reference is None else final.reference
    # how much wider the tails of a law are than its variance says, by a cap or in small noise
    laws = (mode.cells, *mode.tables.values())
    wide = max(2 / float(law.law.rate) ** 2 / law.variance for law in laws)
    for number, control in enumerate(cube.controls, start=1):
        margin, wanted = control.noise.margin(cube.shape), control.in_order(cube.shape)
        cells = _cells_of(margin, final)
        variance = np.maximum(control.variance, _SURE * final.noise.cell * cells)
        if final.method == "none":  # given up: cells and controls are as they were drawn
            variance = control.variance + final.noise.cell * cells
        apart = np.abs(_floats(margin.sums(best)) - _floats(wanted))
        limit = MOST_DEVIATIONS * np.sqrt(wide * variance) + _slack(margin, best, final)
        if (apart > limit + _NUMERIC * np.abs(_floats(wanted))).any():
            yield f"control-{number}", "is further from the cells than noise can be"
    if final.method in RAKED:
        yield from _raked(final, cube.controls, report)


def _well_said(cube: ProtectedCube) -> bool:
    """Whether a report has the entries of its method, each of its type and in its range."""
    final, report = cube.calibrated, cube.calibrated.report
    names = frozenset(report)
    if final.method == "none":
        given_up = bool(cube.controls) and report.get("given_up") in METHODS[1:]
        return names == frozenset({"given_up"}) if given_up else not names
    if final.method == "least-squares":
        if final.present is None:
            gained = len(final.noise.gains)
            said = {"solver": "closed form", "effects": gained}
            return report == said and type(report["effects"]) is int
        known = {"solver": "conjugate gradients", "rounds": report.get("rounds")}
        return report == known and _whole(report["rounds"])
    contradict = any(not control.exact for control in cube.controls)
    if names != _RAKED or report["reconciled"] is not contradict:
        return False
    counts = ("cycles", "stuck", "clipped", "clipped_controls")
    converged, diverged, apart = (report[n] for n in ("converged", "diverged", "difference"))
    return (
        all(_whole(report[name]) for name in counts)
        and type(converged) is bool
        and type(diverged) is bool
        and isinstance(apart, float)
        and 0 <= apart < float("inf")
        and converged is (apart <= _CONVERGED and not diverged)
        and (diverged or report["cycles"] != 0)
    )


def _raked(final: Calibrated, controls: tuple[Control, ...], report: Mapping[str, object]) -> Found:
    """What raking says of itself, made anew from the cells and what they were raked to."""
    reference, clipped = final.reference, final.method == "rake-nonnegative"
    assert reference is not None
    lows, highs, below, sure = [0.0], [0.0], 0, 0
    for control in controls:
        margin = control.noise.margin(final.noise.shape)
        whole = margin.sums(reference) if report["reconciled"] else _in_order(control, final)
        target = _floats(whole) * (_cells_of(margin, final) > 0)
        below += int((target < 0).sum())
        target = np.maximum(target, 0) if clipped else target
        sure += int((target != 0).sum())
        size = np.abs(target)
        size = np.where(size > 0, size, float(size.mean()) or 1.0)
        apart = np.abs(_floats(margin.sums(final.cells)) - target)
        slack = _slack(margin, final.cells, final)  # each cell was rounded after the report
        lows.append(float(((apart - slack) / size).max()))
        highs.append(float(((apart + slack) / size).max()))
    most = min(LIMIT, (1 << 62) // final.cells.size)
    ran_away = int(np.abs(final.cells).max(initial=0)) >= most  # and was cut
    said = float(str(report["difference"]))
    if not ran_away and not max(lows) <= said * (1 + _NUMERIC) <= max(highs) * (1 + 2 * _NUMERIC):
        yield "calibration", "tells another difference to the controls than the cells have"
    counts = {name: int(str(report[name])) for name in ("stuck", "clipped", "clipped_controls")}
    if counts["stuck"] > sure or counts["clipped_controls"] != (below if clipped else 0):
        yield "calibration", "counts other controls than there are"
    fewest, most_below = _negative(final, controls) if clipped else (0, 0)
    if not fewest <= counts["clipped"] <= most_below:
        yield "calibration", "counts other negative cells than its reference gives"


def _negative(final: Calibrated, controls: tuple[Control, ...]) -> tuple[int, int]:
    """The fewest and the most negative cells that there can have been before raking.

    Least squares x of cells y and controls c has (x - y) / v = sum of A' (c - A x) / w, so that y
    follows from the reference but for its rounding, where all controls have noise.  A cell that
    was negative is 0.
    """
    reference, present = final.reference, final.present
    assert reference is not None
    zeros = final.cells == 0 if present is None else (final.cells == 0) & present
    if any(control.exact for control in controls):
        return 0, int(zeros.sum())
    drawn = _floats(reference)
    size = float(np.abs(drawn).sum())
    near = np.ones(drawn.shape)
    for control in controls:
        margin = control.noise.margin(final.noise.shape)
        wanted = _floats(_in_order(control, final))
        share = final.noise.cell / control.variance
        apart = wanted - _floats(margin.sums(reference))
        drawn -= _spread(margin, share * apart)
        loose = _cells_of(margin, final) + _NUMERIC * (size + float(np.abs(wanted).sum()))
        near += _spread(margin, share * loose)
    there = np.ones(drawn.shape, np.bool_) if present is None else present
    surely, perhaps = there & (drawn < -near), there & (drawn < near)
    if (surely & ~zeros).any():
        return 1, 0  # no count will do
    return int(surely.sum()), int((perhaps & zeros).sum())


def _spread(margin: Margin, values: Array) -> Array:
    """Values of a margin in every cell of the cube."""
    thin = [n if axis in margin.kept else 1 for axis, n in enumerate(margin.levels)]
    return np.broadcast_to(values.reshape(thin), margin.levels)


def _slack(margin: Margin, cells: Whole, final: Calibrated) -> Array:
    """What rounding each cell by less than a thousandth, and arithmetic, may do to sums."""
    return _cells_of(margin, final) + _NUMERIC * margin.sums(np.abs(_floats(cells)))


def _cells_of(margin: Margin, final: Calibrated) -> Array:
    """How many cells with noise each sum of a margin has."""
    shape = final.noise.shape.levels
    there = np.ones(shape) if final.present is None else _floats(final.present)
    return np.asarray(margin.sums(there), dtype=np.float64)


def _in_order(control: Control, final: Calibrated) -> Whole:
    return control.in_order(final.noise.shape)


def _floats(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Array:
    return np.asarray(values, dtype=np.float64)


def _whole(value: object) -> bool:
    """Whether a value counts something."""
    return type(value) is int and value >= 0
