"""Protect a cube: where a confidential cube, secret chance and the ledger meet.

The order is that of every release: what can be refused is refused first, by public facts alone;
then the price is reserved; then noise is drawn, and what follows sees noisy values only; then the
files appear, all at once; then the reservation is settled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eree.budget.ledger import Ledger
from eree.errors import Refusal
from eree.noise.coins import Coins
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact
from eree.release.issue import Issue, Progress, new_folder
from eree.release.record import beginning, file_digest
from eree.release.release import Release
from eree.release.signature import Signer
from eree.survey.as_published import AsPublished
from eree.survey.bounds import Bounds, By, Shares, Squares, Unit
from eree.survey.columns import NOISY, VARIANCE, write_table
from eree.survey.cube_record import (
    CELLS,
    KIND,
    control_name,
    levels_of,
    table_entry,
    total_entry,
)
from eree.survey.guaranteed import Guaranteed
from eree.survey.noisy import (
    LIMIT,
    Calibrated,
    Calibration,
    NoisyCube,
    SurveyCube,
    check_controls,
    possible_of,
)
from eree.survey.protected import ProtectedCube
from eree.survey.shape import Shape

Mode = Guaranteed | AsPublished
MODES: Mapping[str, type[Mode]] = {kind.name: kind for kind in (Guaranteed, AsPublished)}


def protect_cube(
    cube: SurveyCube,
    *,
    epsilon: Exact,
    delta: Exact = 0,
    mode: Literal["guaranteed", "as-published"] = "guaranteed",
    unit: Unit = "record",
    ledger: Ledger | None,
    out: str | os.PathLike[str],
    controls: Sequence[Sequence[str]] = (),
    shares: Shares | None = None,
    squares: Squares | None = None,
    calibrate: Calibration | None = None,
    cap: int | None = None,
    exact_controls: bool | None = None,
    keep_empty: Exact | None = None,
    coins: Coins | None = None,
    signer: Signer | None = None,
    progress: Progress | None = None,
) -> ProtectedCube:
    """Turn a confidential cube into a public one, and pay for it.

    `controls` are tables, each named by its variables, that get a share of the price of their own;
    `squares` adds the noisy sum of the squared weights of records, or of the squared totals of
    establishments, for a model of sampling variances.  `calibrate` sees what was noised, and
    nothing else.  The folder `out` must be new or empty.

    The mode `as-published` needs a `cap`, and takes its delta from it.  It publishes control tables
    without noise unless `exact_controls` is false, and of the empty cells the share `keep_empty`.
    """
    tell = progress or (lambda _step, _done: None)
    chance = coins or Coins()
    target = new_folder(Path(out))
    tables = tuple(map(tuple, controls))
    check_controls(cube.shape, tables)
    cube.shape.checked()
    _check_arrays(cube)
    bounds = Bounds(cube.most_weight, cube.most_records)
    chosen: Mode
    if mode == "as-published":
        if unit != "record" or shares is not None or squares is not None or delta:
            raise Refusal(
                "as published, records are protected at the delta that the cap gives; leave out"
                " unit, delta, shares and squares"
            )
        if cap is None:
            raise Refusal("as published, noise has a cap; give one, such as 7")
        whole = 1 if keep_empty is None else keep_empty
        exactly = exact_controls is not False
        chosen = AsPublished(bounds, epsilon, cap, tables, exact_controls=exactly, keep_empty=whole)
    elif mode == "guaranteed":
        if cap is not None or exact_controls is not None or keep_empty is not None:
            raise Refusal(
                "cap, exact_controls and keep_empty are for cubes as published; a guaranteed cube"
                " takes its cap from delta, has noise in all tables and keeps every empty cell"
            )
        divided = shares or Shares.usual(tables, variance=squares is not None)
        if set(divided.controls) != set(tables):
            raise Refusal("shares must be given for the control tables, and for no others")
        total = Guarantee(bounds.relation(unit), epsilon, delta)
        chosen = Guaranteed(bounds, unit, total, divided, squares)
    else:
        raise Refusal(f"there is no mode {mode!r}; there are {', '.join(MODES)}")
    issue = Issue(chosen.price, target, ledger, chance, signer)

    def make(folder: Path, release: str) -> dict[str, Any]:
        tell("drawing the noise", 0.1)
        noisy = chosen.draw(cube, chance)
        tell("calibrating", 0.4)
        final = _calibrated(noisy, calibrate)
        tell("writing the cube", 0.7)
        written = _write(folder, chosen, noisy, final)
        return _record(chosen, cube.shape, release, final, private=chance.secret) | written

    names = " × ".join(variable.name for variable in cube.shape.variables)
    return ProtectedCube.of(Release.open(issue.issue(make, _what(chosen, names), tell)))


def _what(mode: Mode, names: str) -> dict[str, str]:
    """What the ledger is told: names alone."""
    told = {"cube": names, "mode": mode.name}
    if mode.controls:
        told["controls"] = "; ".join(" × ".join(by) or "total" for by in mode.controls)
    if mode.losses:
        told["losses"] = f"the price covers {mode.covers}"
    return told


def _check_arrays(cube: SurveyCube) -> None:
    """Refuse arrays of another shape or kind than the cube's, without quoting one."""
    for array in (cube.weighted, cube.unweighted):
        if array.dtype != np.int64 or array.shape != cube.shape.levels:
            raise Refusal("the cells of a cube are whole numbers (int64) in the shape of the cube")


def _calibrated(noisy: NoisyCube, calibrate: Calibration | None) -> Calibrated:
    """The cells that are published; what a calibration returns is checked."""
    if calibrate is None:
        return Calibrated(noisy.cells, noisy.noise_variance, {})
    made = calibrate(noisy)
    levels, present = noisy.shape.levels, noisy.present
    for cells in (made.cells, *made.columns.values()):
        if cells.dtype != np.int64 or cells.shape != levels or (np.abs(cells) > LIMIT).any():
            raise Refusal("a calibration must return whole thousandths of a job for every cell")
        if present is not None and cells[~present].any():
            raise Refusal("a calibration must leave 0 where a cell cannot be, or was left out")
    left = np.asarray(made.noise_variance, dtype=np.float64)
    if left.shape not in ((), levels) or not (np.isfinite(left).all() and (left >= 0).all()):
        raise Refusal("a calibration must tell the noise variance that it leaves in every cell")
    names = {variable.name for variable in noisy.shape.variables} | {NOISY, VARIANCE}
    if names & set(made.columns):
        raise Refusal("a calibration must not name its columns as those of the cube are named")
    try:
        said = json.loads(json.dumps(made.method, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise Refusal("a calibration must describe itself in plain data, such as JSON") from None
    return Calibrated(made.cells, left, said or {"method": "unnamed"}, made.columns)


def _write(folder: Path, mode: Mode, noisy: NoisyCube, final: Calibrated) -> dict[str, Any]:
    """Write the cells and the control tables; returns what the record says of them."""
    home, shape = folder / "tables", noisy.shape
    home.mkdir()
    names = tuple(variable.name for variable in shape.variables)
    others = dict(final.columns)
    entry = table_entry(
        CELLS, names, shape.levels, noisy.present, mode.cells, noisy.noise_variance, tuple(others)
    )
    files = write_table(
        home, CELLS, shape.variables, final.cells, final.noise_variance, noisy.present, others
    )
    entries = [entry | _digests(files)]
    for number, table in enumerate(noisy.controls, start=1):
        name, by, possible = control_name(number), table.by, possible_of(shape, table.by)
        variables = [shape.variable(variable) for variable in by]
        files = write_table(home, name, variables, table.noisy, table.noise_variance, possible)
        noise = mode.tables.get(by)
        entry = table_entry(name, by, levels_of(shape, by), possible, noise, table.noise_variance)
        entries.append(entry | _digests(files))
    totals = []
    if mode.variance is not None:
        totals = [total_entry(total, mode.variance) for total in noisy.totals]
    return {"tables": entries, "totals": totals}


def _digests(files: Sequence[Path]) -> dict[str, Any]:
    return {"files": {f"tables/{path.name}": file_digest(path) for path in files}}


def _record(
    mode: Mode, shape: Shape, release: str, final: Calibrated, *, private: bool
) -> dict[str, Any]:
    """Everything that a release says of itself but its tables and its digest."""
    return (
        beginning(release, mode.price, private=private and not mode.losses)
        | {"kind": KIND, "private": private, "covers": mode.covers}
        | {"assumptions": mode.assumptions, "losses": mode.losses}
        | mode.as_json()
        | shape.as_json()
        | {"calibration": final.method or None}
    )


def mode_of(record: Mapping[str, Any]) -> Mode:
    """The mode that a record speaks of, made anew from its settings."""
    kind = MODES.get(record["mode"])
    if kind is None:
        raise Refusal(f"the release was made in a mode that is none of {', '.join(MODES)}")
    return kind.of(record)


__all__ = ["MODES", "By", "Mode", "mode_of", "protect_cube"]
