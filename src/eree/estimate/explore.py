"""Errors against epsilon: what the tables of a plan would be like at other prices.

Nothing is paid and no confidential row is read: errors are those that mechanisms state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from eree.cells import Cell
from eree.errors import Refusal, expect
from eree.estimate.predict import predict
from eree.estimate.sizes import WorkerShares, WorkplaceSizes
from eree.policy.neighbours import exact, plain
from eree.policy.settings import read_toml
from eree.release.plan import Plan

#: Prices that are looked at, as multiples of the plan's own.
TIMES = tuple(Fraction(n, 8) for n in (2, 3, 4, 6, 8, 12, 16, 24, 32))
#: Workers of the largest workplace of the cells whose error is shown where no sizes are known.
WORKERS = 100


@dataclass(frozen=True)
class AtPrice:
    """A table at an epsilon: its mechanism and its error, or why it cannot be had.

    With public sizes `error` is the sum of all errors as a share of all jobs; else the mean error
    of a cell whose largest workplace has 100 workers.
    """

    table: str
    times: str
    epsilon: str
    mechanism: str
    error: float | None
    why: str = ""


@dataclass(frozen=True)
class Exploration:
    """All tables of a plan at several prices.

    Attributes:
        points: The error of each table at each price.
        shares: Whether errors are shares of all jobs.

    Examples:
        >>> eree.explore("plan.toml").of("jobs")[0].epsilon
        '0.5'
    """

    points: tuple[AtPrice, ...]
    shares: bool

    @property
    def tables(self) -> list[str]:
        """The names of the tables, in the plan's order."""
        return list(dict.fromkeys(point.table for point in self.points))

    @property
    def what(self) -> str:
        """What an error is."""
        if self.shares:
            return "error of all cells, as a share of jobs"
        return f"mean error of a cell whose largest workplace has {WORKERS} workers"

    def __str__(self) -> str:
        shown = [point.times for point in self.of(self.tables[0]) if len(point.times) <= 4]
        width = max(map(len, self.tables))
        lines = [f"{'':{width}}{''.join(f'{times:>8}' for times in shown)}"]
        for table in self.tables:
            errors = {point.times: point.error for point in self.of(table)}
            texts = [_as_text(errors[times], self.shares) for times in shown]
            lines.append(f"{table:{width}}{''.join(f'{text:>8}' for text in texts)}")
        whys = dict.fromkeys(f"  - {point.why}" for point in self.points if point.why)
        return "\n".join([f"{self.what},\nby multiples of the plan's epsilon:", *lines, *whys])

    def of(self, table: str) -> list[AtPrice]:
        """A table at all prices, the smallest first."""
        return [point for point in self.points if point.table == table]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"error": self.what, "points": [asdict(point) for point in self.points]}

    def draw(self, out: str | os.PathLike[str]) -> Path:
        """Draw errors against epsilon into a new PNG or SVG file."""
        path = Path(out)
        if path.suffix not in (".png", ".svg"):
            raise Refusal(f"{path} must end in .png or .svg")
        if path.exists():
            raise Refusal(f"{path} exists already; choose another name or remove it")
        try:
            from eree.figures.explore import PricedErrors, exploration_figure
        except ImportError:
            raise Refusal("pictures need matplotlib: pip install 'eree[plot]'") from None
        lines = []
        for table in self.tables:
            had = [point for point in self.of(table) if point.error is not None]
            epsilons = [float(Fraction(point.epsilon)) for point in had]
            errors = [point.error or 0.0 for point in had]
            own = next((i for i, point in enumerate(had) if point.times == "1"), None)
            lines.append(PricedErrors(table, epsilons, errors, own))
        try:
            exploration_figure(path, lines, what=self.what, percent=self.shares)
        except OSError as error:
            raise Refusal(f"{path} cannot be written: {error.strerror}") from None
        return path


def _as_text(error: float | None, share: bool) -> str:
    return "-" if error is None else f"{error:.2%}" if share else f"{error:.3g}"


def explore(
    file: str | os.PathLike[str],
    *,
    sizes: str | os.PathLike[str] | None = None,
    shares: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Exploration:
    """The errors of each table of a plan from a quarter to four times its epsilon.

    `sizes` and `shares` are the files of `WorkplaceSizes` and `WorkerShares`.  A table with a
    target has the epsilon that it needs, and is left out; so are numbers of workplaces.

    Args:
        file: The file of a plan.
        sizes: A CSV file of public numbers of workplaces by class of size.
        shares: A CSV file of public shares of workers.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.explore("plan.toml").tables
        ['jobs', 'sexes']
    """
    expect(file, (str, os.PathLike), "the name of a plan's file")
    path = Path(file)
    plan = Plan.read(path)  # refuses what is wrong with it
    known = None if sizes is None else WorkplaceSizes.read(sizes, plan.schema)
    people = None if shares is None else WorkerShares.read(shares, plan.schema)
    raw = read_toml(path, missing=f"there is no plan {path}")
    asked = [
        table
        for table in raw["table"]
        if not table.get("target") and table.get("count", "jobs") == "jobs"
    ]
    if not asked:
        raise Refusal("no table of jobs of this plan has an epsilon or a share to explore")
    found = []
    for i, table in enumerate(asked):
        for j, times in enumerate(TIMES):
            if progress:
                done = (i + j / len(TIMES)) / len(asked)
                progress(f"{table['name']} at {plain(times)} times its epsilon", done)
            found += _at(raw, table, times, path, known, people)
    order = {name: place for place, name in enumerate(table.name for table in plan.tables)}
    found.sort(key=lambda point: order[point.table])
    return Exploration(tuple(found), known is not None)


def _at(
    raw: Mapping[str, Any],
    table: Mapping[str, Any],
    times: Fraction,
    path: Path,
    sizes: WorkplaceSizes | None,
    shares: WorkerShares | None,
) -> list[AtPrice]:
    """A table, or its marginals, with an epsilon times the plan's."""
    total = exact(raw["privacy"]["epsilon"], "privacy.epsilon")
    own = exact(table["epsilon"], "epsilon") if "epsilon" in table else None
    price = total * exact(table["share"], "share") if own is None else own
    settings = {
        **raw,
        "privacy": raw["privacy"] | {"epsilon": plain(times * total)},
        "table": [table if own is None else {**table, "epsilon": plain(times * own)}],
    }
    said = plain(times), plain(times * price)
    try:
        plan = Plan.of(settings, folder=path.parent, file=path.name)
    except Refusal as refusal:
        why = str(refusal)
        names = [table["name"]]
        if table.get("marginals"):
            whole = Plan.of({**raw, "table": [table]}, folder=path.parent, file=path.name)
            names = [one.name for one in whole.tables]
        return [AtPrice(name, *said, "", None, why) for name in names]
    found = []
    for one in plan.tables:
        made = one.measurement.mechanism
        error: float | None = made.total_error(Cell(WORKERS))
        why = ""
        if sizes is not None:
            ahead = predict(plan, one, sizes, shares)
            error, why = ahead.share, ahead.why
        found.append(AtPrice(one.name, *said, made.name, error, why))
    return found
