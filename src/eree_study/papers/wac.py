"""A year of LODES by tract: how wrong its columns are, infused and from releases at one price.

The Workplace Area Characteristics have columns of all jobs, of jobs by industry, and of six kinds
of workers.  All of them are paid for by one epsilon.  What is compared is the sum over all tracts
of the errors of the columns of a kind, in percent of all jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from eree.errors import Refusal
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import parsed
from eree_study.figures.wac import Dots, wac_figure
from eree_study.papers.comparison import Estimate
from eree_study.papers.contenders import PUBLISHED
from eree_study.papers.study import Study, begin, population_of, write_whole
from eree_study.papers.wac_columns import (
    INFUSION,
    KINDS,
    READ,
    WORKERS,
    Truth,
    attributes_of,
    infused,
    published,
    released,
)
from eree_study.papers.workloads import Counted
from eree_study.synth.population import USUAL, Progress, assumptions_named

EPSILONS = ("2", "4", "8")
#: The six kinds of workers at once.
TOGETHER = "workers"
#: What is measured at once: a way, an epsilon (infusion has none) and a trial.
_Part = tuple[str, str | None, int]


@dataclass(frozen=True)
class WacRow:
    """The error of the columns of a kind, in percent of all jobs: a line of `wac.csv`."""

    way: str
    epsilon: str | None
    kind: str
    error: float
    standard_error: float
    ratio: float
    trials: int


@dataclass(frozen=True)
class WacStudy:
    """What a study of a LODES year found.

    Attributes:
        study: What was compared, on what.
        epsilons: The privacy losses that were tried.
        rows: The figures.
        refused: What could not be had, and why.
        files: The files that were written.

    Examples:
        >>> found = eree_study.wac_study("wac", jobs=20_000, epsilons=["4"])
        >>> found.rows[0].way
        'infusion'
    """

    study: Study
    epsilons: tuple[str, ...]
    rows: tuple[WacRow, ...]
    refused: Mapping[tuple[str, str], str]
    files: tuple[Path, ...]

    def row(self, way: str, epsilon: str | None, kind: str = TOGETHER) -> WacRow | None:
        """One figure, or None where there is none."""
        of = (row for row in self.rows if (row.way, row.epsilon, row.kind) == (way, epsilon, kind))
        return next(of, None)

    @property
    def words(self) -> list[str]:
        """The six kinds of workers together, a line for each way; then what could not be had."""
        ways = dict.fromkeys(row.way for row in self.rows if row.kind == TOGETHER)
        lines = [f"{'six kinds of workers, times infusion':38}{self._line(self.epsilons)}"]
        for way in ways:
            if not way.startswith(INFUSION):
                ratios = [self.row(way, epsilon) for epsilon in self.epsilons]
                said = ["-" if row is None else f"{row.ratio:.3g}" for row in ratios]
                lines.append(f"{way:38}{self._line(said)}")
        lines += [f"{way} at epsilon {e}: none, {why}" for (way, e), why in self.refused.items()]
        return lines

    @staticmethod
    def _line(cells: Iterable[str]) -> str:
        return "".join(f"{cell:>8}" for cell in cells)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            **self.study.settings(),
            "rows": [
                {
                    name: None if value != value else value  # one trial has no standard error
                    for name, value in asdict(row).items()
                }
                for row in self.rows
            ],
            "refused": [
                {"way": way, "epsilon": epsilon, "why": why}
                for (way, epsilon), why in self.refused.items()
            ],
            "files": [str(file) for file in self.files],
        }


def wac_study(
    out: str | os.PathLike[str],
    *,
    jobs: int = 250_000,
    trials: int = 1,
    seed: int = 1,
    assumptions: str = USUAL,
    epsilons: Iterable[str] = EPSILONS,
    progress: Progress | None = None,
) -> WacStudy:
    """Compare the columns of LODES by tract, infused and released, on a synthetic population.

    A study that was stopped goes on where it was.  It writes `wac.csv` and a picture.

    Args:
        out: The folder of the study, new or with a study of the same settings.
        jobs: How many jobs the population has.
        trials: How often each way is tried.
        seed: Where population and noise start.
        assumptions: Those of the population: "usual", or "other".
        epsilons: The privacy losses to try.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.wac_study("wac", jobs=20_000, epsilons=["4"]).files[0].name
        'wac.csv'
    """
    tell = progress or (lambda _step, _done: None)
    asked = [exact(epsilon, "epsilon") for epsilon in epsilons]
    wanted = [plain(epsilon) for epsilon in sorted(set(asked))]
    if not wanted or min(asked) <= 0:
        raise Refusal("a study needs an epsilon above 0, such as 4")
    if trials < 1:
        raise Refusal("a study needs at least one trial")
    assumptions_named(assumptions)
    study = Study(Path(out), jobs, trials, seed, assumptions)
    begin(study)
    _measure(study, wanted, tell)
    kept = {part: _read(_file(study, *part)) for part in _parts(study, wanted)}
    refused = {(w, e): one["refused"] for (w, e, _), one in kept.items() if e and "refused" in one}
    rows = tuple(_rows(study, kept))
    files = tuple(_write(study, rows, wanted))
    tell("done", 1.0)
    return WacStudy(study, tuple(wanted), rows, refused, files)


# ---------------------------------------------------------------------------------- errors


def _measure(study: Study, epsilons: Sequence[str], tell: Progress) -> None:
    """Measure what is not measured yet; every part is a file with errors in jobs."""
    parts = [
        (way, epsilon, trial)
        for way, epsilon, trial in _parts(study, epsilons)
        if not _file(study, way, epsilon, trial).exists()
    ]
    if not parts:
        return
    (study.folder / "wac").mkdir(exist_ok=True)
    tables = population_of(study, lambda step, done: tell(step, 0.1 * done))
    tell("counting", 0.1)
    truth = Truth.of(tables)
    if any(way in (INFUSION, *PUBLISHED) for way, *_ in parts):
        counted = {kind: Counted.of(tables, attributes_of(kind)) for kind in KINDS}
    for done, (way, epsilon, trial) in enumerate(parts):
        tell(f"{way} at epsilon {epsilon}" if epsilon else way, 0.2 + 0.8 * done / len(parts))
        if epsilon is None:
            found = dict(infused(counted, study))
        elif way in PUBLISHED:
            found = published(counted, way, Fraction(epsilon))
        else:
            found = released(study, tables, truth, way, epsilon, trial)
        write_whole(_file(study, way, epsilon, trial), found)


def _parts(study: Study, epsilons: Sequence[str]) -> Iterator[_Part]:
    yield INFUSION, None, 0
    for epsilon in epsilons:
        yield from ((way, epsilon, 0) for way in PUBLISHED)
    for trial in range(study.trials):
        for epsilon in epsilons:
            for way in READ:
                yield way, epsilon, trial


def _file(study: Study, way: str, epsilon: str | None, trial: int) -> Path:
    price = (epsilon or "none").replace("/", "-of-")
    return study.folder / "wac" / f"{way}_{price}_{trial}.json"


# ---------------------------------------------------------------------------------- results


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise Refusal(f"{path} was damaged; remove it and run the study again") from None
    return found


def _rows(study: Study, kept: Mapping[_Part, Mapping[str, Any]]) -> Iterator[WacRow]:
    """All figures, each with its ratio to infusion of the same kind."""
    found: dict[tuple[str, str | None], dict[str, list[float]]] = {}
    for (_way, epsilon, _trial), measured in kept.items():
        for name, errors in measured.items():
            if name == "refused":
                continue
            own = found.setdefault((name, epsilon), {kind: [] for kind in KINDS})
            for kind in KINDS:
                own[kind] += errors[kind]
    estimates = {
        (*of, kind): Estimate.of(values)
        for of, errors in found.items()
        for kind, values in _with_sum(errors).items()
    }
    for (way, epsilon, kind), one in estimates.items():
        percent = one.times(100 / study.jobs)
        ratio = one.value / estimates[INFUSION, None, kind].value
        trials = 0 if way in PUBLISHED else one.trials
        error = 0.0 if way in PUBLISHED else percent.error
        yield WacRow(way, epsilon, kind, percent.value, error, ratio, trials)


def _with_sum(errors: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """With the six kinds of workers together."""
    together = np.sum([errors[kind] for kind in WORKERS], axis=0).tolist()
    return {**errors, TOGETHER: together}


def _write(study: Study, rows: Sequence[WacRow], epsilons: Sequence[str]) -> Iterator[Path]:
    """`wac.csv`, and a picture as PNG and SVG."""
    path = study.folder / "wac.csv"
    arrow_csv.write_csv(pa.Table.from_pylist([asdict(row) for row in rows]), path)
    yield path
    ways = dict.fromkeys(row.way for row in rows if not row.way.startswith(INFUSION))
    dots = [
        Dots(way, epsilon, {row.kind: row.ratio for row in rows if _of(row, way, epsilon)})
        for epsilon in epsilons
        for way in ways
    ]
    note = f"{study.jobs:,} synthetic jobs ({study.assumptions} assumptions), by tract"
    for suffix in ("png", "svg"):
        path = study.folder / f"wac.{suffix}"
        wac_figure(path, dots=dots, kinds=[*KINDS, TOGETHER], epsilons=epsilons, note=note)
        yield path


def _of(row: WacRow, way: str, epsilon: str) -> bool:
    return (row.way, row.epsilon) == (way, epsilon)
