"""Protect a cube: where a confidential cube, secret randomness and the ledger meet.

The order is that of every release: what can be refused is refused first, by public facts alone;
then the price is reserved; then noise is drawn, and what follows sees noisy values only; then the
files appear, all at once; then the reservation is settled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eree.budget.ledger import Ledger
from eree.errors import Refusal
from eree.random.source import Random
from eree.release.issue import Issue, Progress, new_folder
from eree.release.record import beginning, file_digest
from eree.release.release import Release
from eree.release.settings import About
from eree.release.signature import Signer
from eree.survey.calibrate.calibration import Calibrated, NoiseModel, calibrate
from eree.survey.cube import Cube
from eree.survey.files import (
    CELLS,
    KIND,
    REFERENCE,
    control_name,
    levels_of,
    table_entry,
    total_entry,
    write_table,
)
from eree.survey.modes import Mode, NoisyCube
from eree.survey.plan import CubePlan, plan_cube
from eree.survey.protected import ProtectedCube
from eree.survey.query import Query


def protect_cube(
    cube: Cube,
    *,
    ledger: Ledger | None,
    out: str | os.PathLike[str],
    period: str = "",
    about: Mapping[str, str] | None = None,
    random: Random | None = None,
    signer: Signer | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ProtectedCube:
    """Turn a confidential cube into a public one as `CubeSettings` say, and pay for it.

    `period` is the time that the survey is about, for the ledger and the record, and `about` what
    else they say of it: title, source, publisher, contact, licence, note.  The folder `out` must be
    new or empty.

    Args:
        cube: The confidential cube.
        ledger: What pays for it; None only with `SeededRandom`.
        out: A new or empty folder.
        period: The time that the survey is about.
        about: Title, source, publisher and so on.
        random: A source of randomness; secret without one.
        signer: A key that signs the release.
        progress: Called with a step and the share that is done.
        **settings: Those of `CubeSettings`.

    Examples:
        >>> cube = eree.Cube.load("cube.eree")
        >>> total = eree.plan_cube(cube, epsilon=2).price
        >>> ledger = eree.Ledger.create("survey.db", total, data_set=cube.protects.data_set)
        >>> eree.protect_cube(cube, ledger=ledger, out="protected", epsilon=2)
        <ProtectedCube ...>
    """
    tell = progress or (lambda _step, _done: None)
    random = random or Random()
    words = About.of(about or {})
    target = new_folder(Path(out))
    plan = plan_cube(cube, **settings)
    _check_arrays(cube)
    chosen = plan.mode
    if chosen.losses and not cube.sums.records:
        raise Refusal("a cube without records has no average weight to carry noise by")
    issue = Issue(chosen.price, cube.protects, target, ledger, random, signer, period, words)

    def make(folder: Path, release: str) -> dict[str, Any]:
        tell("drawing the noise", 0.1)
        noisy = chosen.draw(cube, random)
        tell("calibrating", 0.4)
        final = _calibrated(plan, noisy, random)
        tell("writing the cube", 0.7)
        written = _write(folder, chosen, noisy, final)
        sampling = chosen.sampling(final.cells, noisy.totals)
        reported = {
            "calibration": {"method": final.method, **final.report},
            "sampling": None if sampling is None else sampling.as_json(),
        }
        return _record(plan, release, private=random.secret) | reported | written

    names = " × ".join(variable.name for variable in plan.shape.variables)
    return ProtectedCube.of(Release.open(issue.issue(make, _what(plan, names), tell)))


def _what(plan: CubePlan, names: str) -> dict[str, str]:
    """What the ledger keeps: names alone."""
    mode = plan.mode
    kept = {"cube": names, "mode": mode.name}
    if mode.controls:
        kept["controls"] = "; ".join(" × ".join(by) or "total" for by in mode.controls)
    if mode.losses:
        kept["losses"] = f"the price covers {mode.covers}"
    return kept


def _check_arrays(cube: Cube) -> None:
    """Refuse arrays of another shape or kind than the cube's, without quoting one."""
    for array in (cube.weighted, cube.unweighted):
        if array.dtype != np.int64 or array.shape != cube.shape.levels:
            raise Refusal("the cells of a cube are integers (int64) in the shape of the cube")


def _calibrated(plan: CubePlan, noisy: NoisyCube, random: Random) -> Calibrated:
    """The cells that are published.  A price that is paid buys a cube, calibrated or not."""
    shape, variance, present = noisy.shape, noisy.noise_variance, noisy.present
    raw = Calibrated(noisy.cells, NoiseModel(shape, "none", variance), {}, None, present)
    if plan.method == "none":
        return raw
    noise = NoiseModel(shape, plan.method, variance, tuple(c.noise for c in noisy.controls))
    contradict = any(not control.exact for control in noisy.controls)
    try:
        return calibrate(
            noise,
            noisy.cells,
            noisy.controls,
            random=random,
            cycles=plan.cycles,
            reconcile=contradict,
            kept=noisy.kept,
        )
    except Refusal:
        return replace(raw, report={"given_up": plan.method})


def _write(folder: Path, mode: Mode, noisy: NoisyCube, final: Calibrated) -> dict[str, Any]:
    """Write the cells and the control tables; returns what the record says of them."""
    home, shape = folder / "tables", noisy.shape
    home.mkdir()
    names = tuple(variable.name for variable in shape.variables)
    others = {} if final.reference is None else {REFERENCE: final.reference}
    variances = final.variances(Query(names))
    entry = table_entry(
        CELLS, names, shape.levels, noisy.present, mode.cells, noisy.noise_variance, tuple(others)
    )
    files = write_table(home, CELLS, shape.variables, final.cells, variances, noisy.present, others)
    entries = [entry | _digests(files)]
    for number, table in enumerate(noisy.controls, start=1):
        name, by = control_name(number), table.variables
        possible, noise = shape.possible_in(by), mode.tables.get(by)
        variables = [shape.variable(variable) for variable in by]
        files = write_table(home, name, variables, table.values, table.variance, possible)
        entry = table_entry(name, by, levels_of(shape, by), possible, noise, table.variance)
        entries.append(entry | _digests(files))
    totals = []
    if mode.variance is not None:
        totals = [total_entry(total, mode.variance) for total in noisy.totals]
    return {"tables": entries, "totals": totals}


def _digests(files: Sequence[Path]) -> dict[str, Any]:
    return {"files": {f"tables/{path.name}": file_digest(path) for path in files}}


def _record(plan: CubePlan, release: str, *, private: bool) -> dict[str, Any]:
    """What a release says of itself before anything is drawn; with losses it is never private."""
    mode = plan.mode
    return (
        beginning(release, mode.price, private=private and not mode.losses)
        | {"kind": KIND, "covers": mode.covers}
        | {"assumptions": mode.assumptions, "losses": mode.losses}
        | mode.as_json()
        | plan.shape.as_json()
    )
