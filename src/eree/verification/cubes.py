"""Rechecks a release of any kind without the confidential data; here, a protected cube.

The noisy cells as they were drawn are not published, and a calibration cannot be done again.  What
can be checked of it is in the published tables: how far the cells are from the control tables, and
what the calibration says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.errors import Refusal
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.policy.protected import Protected, read_protected
from eree.survey.calibrate.calibration import LIMIT, Calibrated
from eree.survey.calibrate.controls import Control, CubeMarginal
from eree.survey.calibrate.rake import RakeReport
from eree.survey.files import (
    CELLS,
    MOST_CSV_ROWS,
    REFERENCE,
    as_text,
    control_name,
    levels_of,
    table_entry,
    total_entry,
)
from eree.survey.laplace import ShiftNoise
from eree.survey.modes import AsPublished, Mode, mode_of, noises
from eree.survey.protected import ProtectedCube
from eree.survey.query import Query
from eree.survey.settings import METHODS, RAKED
from eree.survey.shape import By, Integers, Mask, Reals
from eree.verification.recheck import Recheck

#: How many standard deviations a control may be from the cells of least squares.
#:
#: The difference is a sum of a_j K_j over all noise that was drawn.  Residuals of least squares
#: have a variance, the sum of a_j² v_j, of at most that of the control itself.  For noise K of rate
#: r, capped or not, E e^(tK) <= 1 / (1 - t² / r²).  With b_j = 1 / r_j, s² the sum of 2 a_j² b_j²
#: and t = 1 / s that gives E e^(t sum) <= 2, so P(|sum| > k s) <= 4 e^-k.  Noise as published is
#: rounded after it was multiplied, to at most 3/2 of it: 60 are no fewer than 40, and for a billion
#: control cells the probability of a false alarm is below 2e-8.
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
#: A variance that should be 0 may be as much of that of a cell, by rounding.
_TINY = 1e-9


class CubeRecheck(Recheck):
    """One pass over a release of a cube."""

    def contents(self) -> None:
        """Prices, noise, calibration and variances."""
        self.tell("reading the cube", 0.2)
        cube = ProtectedCube.of(self.release)  # refuses rows that are missing or out of order
        mode = mode_of(self.record)
        self._settings(mode, cube)
        self._parts(mode, cube)
        self._calibration(mode, cube)
        self._rows(cube)
        self._price(mode)

    def declared(self) -> Protected:
        """What the record says is protected."""
        return read_protected(self.record["protects"])

    @property
    def promised(self) -> bool:
        """Whether a cube of this mode is private; one with losses never is."""
        return str(self.record["mode"]) != AsPublished.name

    def _settings(self, mode: Mode, cube: ProtectedCube) -> None:
        """What the mode says must be what the record says, and the other way round."""
        expected = mode.as_json() | cube.shape.as_json()
        expected |= {"covers": mode.covers, "assumptions": mode.assumptions, "losses": mode.losses}
        statements = [] if mode.losses else [s.words for s in mode.price.statements()]
        for name, value in (expected | {"statements": statements}).items():
            if self.record[name] != value:
                self.fault(name, "is not what the settings of the cube give")
        if mode.losses:
            self.checks.append("the cube is as published: its price covers " + mode.covers)

    def _parts(self, mode: Mode, cube: ProtectedCube) -> None:
        """Every price, mechanism and variance made again, and every mechanism certified."""
        self.tell("certifying the noise", 0.5)
        shape, said = cube.shape, self.record["tables"]
        names = tuple(variable.name for variable in shape.variables)
        wanted_tables: dict[str, tuple[By, tuple[int, ...], Mask | None, ShiftNoise | None]]
        wanted_tables = {CELLS: (names, shape.levels, cube.present, mode.cells)}
        for number, by in enumerate(mode.controls, start=1):
            levels, possible = levels_of(shape, by), shape.possible_in(by)
            wanted_tables[control_name(number)] = (by, levels, possible, mode.tables.get(by))
        if [table["name"] for table in said] != list(wanted_tables):
            self.fault("tables", "are not the cells and the control tables of the settings")
            return
        for table, (name, (by, levels, present, noise)) in zip(
            said, wanted_tables.items(), strict=True
        ):
            variance = 0.0 if noise is None else noise.variance
            others = [REFERENCE] if name == CELLS and cube.calibrated.method in RAKED else []
            entry = table_entry(name, by, levels, present, noise, variance, others)
            entry["files"] = table["files"]
            if mode.losses and noise is not None:  # as published it depends on the weights
                entry["noise_variance"] = said[0]["noise_variance"]
            if entry != table:
                self.fault(name, "is not what the price gives")
            wanted = 2 if table["rows"] <= MOST_CSV_ROWS else 1
            ends = ("parquet", "csv")[:wanted]
            if list(table["files"]) != [f"tables/{name}.{suffix}" for suffix in ends]:
                self.fault(name, "has other files than a table has")
        totals = []
        if mode.variance is not None:
            totals = [
                total_entry(replace(total, noise_variance=mode.variance.variance), mode.variance)
                for total in cube.totals
            ]
        named = [] if mode.variance is None else [self.record["squares"]]
        if totals != self.record["totals"] or [total["name"] for total in totals] != named:
            self.fault("totals", "are not what the price gives")
        distinct = set(noises(mode))
        for noise in distinct:
            if not noise.certify().holds:
                self.fault("tables", f"{noise.name} does not keep its claim")
        one = "1 mechanism keeps its claim, by its certificate"
        several = f"{len(distinct)} mechanisms keep their claims, by their certificates"
        self.checks.append(one if len(distinct) == 1 else several)

    def _calibration(self, mode: Mode, cube: ProtectedCube) -> None:
        """What is said of the calibration and of sampling.

        The noisy cells as they were drawn are not published, so that a calibration cannot be done
        again; see `calibration_faults` for what is checked of it.
        """
        self.tell("checking the calibration", 0.6)
        method = cube.calibrated.method
        for place, rule in calibration_faults(mode, cube):
            self.fault(place, rule)
        if method == "rake-nonnegative" and (cube.noisy < 0).any():
            self.fault(CELLS, "has cells below 0, which its calibration cannot give")
        sampling = mode.sampling(cube.noisy, cube.totals)
        if (None if sampling is None else sampling.as_json()) != self.record["sampling"]:
            self.fault("sampling", "is not what the cells and the sum of squares give")
        said = "as drawn" if method == "none" else f"calibrated by {method} (not done again)"
        self.checks.append(f"the cells are {said}; variances follow from the noise")

    def _rows(self, cube: ProtectedCube) -> None:
        """Reals, and the CSV twins of small tables."""
        self.tell("checking the rows", 0.7)
        left = cube.noise_variance
        known = cube.calibrated.variances(Query([v.name for v in cube.shape.variables]))
        if cube.present is not None:
            left, known = left[cube.present], known[cube.present]
        if not (np.isfinite(left).all() and (left >= 0).all()):
            self.fault(CELLS, "has variances that are no variances")
        elif not np.allclose(left, known, rtol=1e-9, atol=_TINY * cube.drawn_variance):
            self.fault(CELLS, "has other variances than the noise")
        home = self.release.folder / "tables"
        for table in self.record["tables"]:
            if len(table["files"]) > 1 and not _alike(home, table["name"]):
                self.fault(table["name"], "differs from its CSV twin")
        count = len(self.record["tables"])
        self.checks.append(
            f"{count} table{'s have' if count > 1 else ' has'} every row in its place"
        )

    def _price(self, mode: Mode) -> None:
        """The prices of the parts must add up to the guarantee."""
        total = guarantee_of(self.record["guarantee"])
        first, *others = (noise.guarantee for noise in noises(mode))
        for other in others:
            first += other
        if first != total or mode.price != total:
            self.fault("guarantee", "is not what the prices of the parts add up to")
        self.checks.append(
            f"the prices add up to epsilon {plain(total.epsilon)}, delta {plain(total.delta)}"
        )


def _alike(home: Path, name: str) -> bool:
    """Whether a table and its CSV twin say the same."""
    try:
        rows = as_text(parquet.read_table(home / f"{name}.parquet"))
        kinds = arrow_csv.ConvertOptions(
            column_types=rows.schema, strings_can_be_null=False, quoted_strings_can_be_null=False
        )
        twin = arrow_csv.read_csv(home / f"{name}.csv", convert_options=kinds)
        return bool(twin.cast(rows.schema).equals(rows))
    except (OSError, pa.ArrowException, ValueError):
        raise Refusal(f"the table {name} or its CSV twin cannot be read") from None


def calibration_faults(mode: Mode, cube: ProtectedCube) -> Found:
    """The places and rules of all that a calibration could not have given."""
    final, report = cube.calibrated, cube.calibrated.report
    if not _well_said(cube):
        yield "calibration", _BADLY_SAID
        return
    if not cube.controls:
        return
    best = final.cells if final.reference is None else final.reference
    # how much wider the tails of noise are than its variance says, by a cap or in small noise
    drawn = (mode.cells, *mode.tables.values())
    wide = max(2 / float(noise.distribution.rate) ** 2 / noise.variance for noise in drawn)
    for number, control in enumerate(cube.controls, start=1):
        marginal, wanted = control.noise.marginal(cube.shape), control.in_order(cube.shape)
        cells = _cells_of(marginal, final)
        variance = np.maximum(control.variance, _SURE * final.noise.cell * cells)
        if final.method == "none":  # given up: cells and controls are as they were drawn
            variance = control.variance + final.noise.cell * cells
        apart = np.abs(_floats(marginal.sums(best)) - _floats(wanted))
        limit = MOST_DEVIATIONS * np.sqrt(wide * variance) + _slack(marginal, best, final)
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
    """What raking says of itself, made again from the cells and what they were raked to."""
    reference, clipped = final.reference, final.method == "rake-nonnegative"
    assert reference is not None
    lows, highs, below, sure = [0.0], [0.0], 0, 0
    for control in controls:
        marginal = control.noise.marginal(final.noise.shape)
        whole = (
            marginal.sums(reference)
            if report["reconciled"]
            else control.in_order(final.noise.shape)
        )
        target = _floats(whole) * (_cells_of(marginal, final) > 0)
        below += int((target < 0).sum())
        target = np.maximum(target, 0) if clipped else target
        sure += int((target != 0).sum())
        size = np.abs(target)
        size = np.where(size > 0, size, float(size.mean()) or 1.0)
        apart = np.abs(_floats(marginal.sums(final.cells)) - target)
        slack = _slack(marginal, final.cells, final)  # each cell was rounded after the report
        lows.append(float(((apart - slack) / size).max()))
        highs.append(float(((apart + slack) / size).max()))
    most = min(LIMIT, (1 << 62) // final.cells.size)
    ran_away = int(np.abs(final.cells).max(initial=0)) >= most  # and was cut
    said = float(str(report["difference"]))
    if not ran_away and not max(lows) <= said * (1 + _NUMERIC) <= max(highs) * (1 + 2 * _NUMERIC):
        yield "calibration", "reports another difference to the controls than the cells have"
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
        marginal = control.noise.marginal(final.noise.shape)
        wanted = _floats(control.in_order(final.noise.shape))
        share = final.noise.cell / control.variance
        apart = wanted - _floats(marginal.sums(reference))
        drawn -= _spread(marginal, share * apart)
        loose = _cells_of(marginal, final) + _NUMERIC * (size + float(np.abs(wanted).sum()))
        near += _spread(marginal, share * loose)
    there = np.ones(drawn.shape, np.bool_) if present is None else present
    surely, perhaps = there & (drawn < -near), there & (drawn < near)
    if (surely & ~zeros).any():
        return 1, 0  # no count will do
    return int(surely.sum()), int((perhaps & zeros).sum())


def _spread(marginal: CubeMarginal, values: Reals) -> Reals:
    """Values of a marginal in every cell of the cube."""
    thin = [n if axis in marginal.kept else 1 for axis, n in enumerate(marginal.levels)]
    return np.broadcast_to(values.reshape(thin), marginal.levels)


def _slack(marginal: CubeMarginal, cells: Integers, final: Calibrated) -> Reals:
    """What rounding each cell by less than a thousandth, and arithmetic, may do to sums."""
    return _cells_of(marginal, final) + _NUMERIC * marginal.sums(np.abs(_floats(cells)))


def _cells_of(marginal: CubeMarginal, final: Calibrated) -> Reals:
    """How many cells with noise each sum of a marginal has."""
    shape = final.noise.shape.levels
    there = np.ones(shape) if final.present is None else _floats(final.present)
    return np.asarray(marginal.sums(there), dtype=np.float64)


def _floats(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Reals:
    return np.asarray(values, dtype=np.float64)


def _whole(value: object) -> bool:
    """Whether a value counts something."""
    return type(value) is int and value >= 0
