"""Runs the study: makes a population, counts it, and compares everyone on both cores.

A study is a folder.  Each workload at each alpha and epsilon is a part of its own, written whole,
so that a study that was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from pydantic import TypeAdapter

from eree.data.tables import Tables, load
from eree.errors import Refusal
from eree.mechanisms.grid import ALPHAS, EPSILONS, on_every_core
from eree.partial import is_partial, replacing_file, sweep
from eree.policy.plain_data import parsed
from eree_study.papers.comparison import Comparison, Row
from eree_study.papers.contenders import SHRUNK_AT, Contender, contenders
from eree_study.papers.drafts import drafts
from eree_study.papers.limits import limits
from eree_study.papers.workloads import (
    WHOLE,
    WORKLOADS,
    Counted,
    Workload,
    counted_for,
    workload_named,
)
from eree_study.papers.workplaces import by_workplace
from eree_study.synth import synthesize
from eree_study.synth.population import USUAL, Progress, assumptions_named

DEFAULT_JOBS = 250_000
SETTINGS = "study.json"
#: Rises whenever figures of an older study cannot stand beside new ones.
FORMAT = 6
#: The file with the main measures of all places together, which the pages' tables are made of.
OF_ALL_PLACES = "study-errors.csv"
MAIN = ("l1_ratio", "l2_ratio", "relative_ratio", "spearman")
#: What the query engine may use while it counts.
MEMORY = "2GB"
_ROWS = TypeAdapter(list[Row])
_KINDS = {"float": pa.float64(), "int": pa.int64()}
_COLUMNS = pa.schema([pa.field(f.name, _KINDS.get(str(f.type), pa.string())) for f in fields(Row)])


@dataclass(frozen=True)
class Study:
    """What is compared, on what, and how often.

    Attributes:
        folder: Where it is.
        jobs: The jobs of the population.
        trials: How often each method is tried at most; slow ones less often.
        seed: Where population and noise start.
        assumptions: Those of the population.
        version: That of eree, and of the format.

    Examples:
        >>> study = eree_study.run_study("study", jobs=5_000, trials=1, only=["ranking-1"])
        >>> eree_study.Study.read(study.folder) == study
        True
    """

    folder: Path
    jobs: int
    trials: int
    seed: int
    assumptions: str = USUAL
    version: str = field(default_factory=lambda: f"{version('eree')}, format {FORMAT}")

    def settings(self) -> dict[str, int | str]:
        """What must stay the same if a study goes on."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @classmethod
    def read(cls, folder: Path) -> Study:
        """The study of a folder."""
        try:
            kept = parsed((folder / SETTINGS).read_text(encoding="utf-8"))
            jobs, trials, seed = (int(kept[name]) for name in ("jobs", "trials", "seed"))
            return cls(folder, jobs, trials, seed, str(kept["assumptions"]), str(kept["version"]))
        except KeyError:
            raise Refusal(
                f"{folder} holds a study of another version of eree; run a new one elsewhere"
            ) from None
        except (OSError, ValueError, TypeError):
            raise Refusal(
                f"{folder} holds no study; run one with 'eree study run --out {folder}'"
            ) from None


@dataclass(frozen=True)
class Part:
    """One workload at one alpha and epsilon; without an alpha, those that have none."""

    workload: str
    alpha: str | None
    epsilon: str

    def file(self, folder: Path) -> Path:
        """Where its figures stand."""
        return folder / "parts" / f"{self.workload}_{self.alpha or 'none'}_{self.epsilon}.json"

    @classmethod
    def of(cls, file: Path) -> Part:
        """The part whose figures stand in a file."""
        workload, alpha, epsilon = file.stem.split("_")
        return cls(workload, None if alpha == "none" else alpha, epsilon)

    def describe(self) -> str:
        """For people to read."""
        return f"{self.workload} at {f'alpha {self.alpha}, ' if self.alpha else ''}" + (
            f"epsilon {self.epsilon}"
        )


class Results:
    """All figures of a study, by what they are of, and the parts that were run.

    A part that was run has no figure of a mechanism that does not exist there.
    """

    def __init__(self, rows: Iterable[Row], parts: Iterable[Part]) -> None:
        self.rows = sorted(rows, key=_order)
        self.parts = frozenset(parts)
        self._by = {
            (r.workload, r.mechanism, r.alpha, r.epsilon, r.stratum, r.measure): r
            for r in self.rows
        }

    @classmethod
    def read(cls, folder: Path) -> Results:
        """The parts of a study that are there."""
        rows, parts = [], []
        for path in sorted((folder / "parts").glob("*.json")):
            try:
                read = _ROWS.validate_json(path.read_bytes(), strict=True)
                rows += sorted(read, key=_order)  # here an alpha that is no number shows
                parts.append(Part.of(path))
            except (ValueError, TypeError):
                raise Refusal(f"{path} was damaged; remove it and run the study again") from None
        if not rows:
            raise Refusal(f"the study in {folder} has no part yet; run it first")
        return cls(rows, parts)

    def row(
        self,
        workload: str,
        mechanism: str,
        alpha: str | None,
        epsilon: str | None,
        measure: str = "l1_ratio",
        stratum: str = WHOLE,
    ) -> Row | None:
        """One figure with its standard error, or None where there is none."""
        return self._by.get((workload, mechanism, alpha, epsilon, stratum, measure))

    def write(self, folder: Path) -> list[Path]:
        """`errors.parquet`, `errors.csv`, and `study-errors.csv` for readers of the pages."""
        table = pa.Table.from_pylist([asdict(row) for row in self.rows], schema=_COLUMNS)
        paths = [folder / name for name in ("errors.parquet", "errors.csv", OF_ALL_PLACES)]
        parquet.write_table(table, paths[0])
        arrow_csv.write_csv(table, paths[1])
        self._write_all_places(paths[2])
        return paths

    def _write_all_places(self, path: Path) -> None:
        """A line for each mechanism at each point: its main measures over all places together."""
        points: dict[tuple[str, ...], dict[str, str]] = {}
        for row in self.rows:
            if row.stratum != WHOLE or row.measure not in MAIN:
                continue
            point = row.workload, row.mechanism, row.alpha or "", row.epsilon or ""
            figures = points.setdefault(point, {"delta": f"{row.delta:.3g}"})
            figures[row.measure] = f"{row.value:.6g}"
            figures[f"{row.measure}_error"] = f"{row.standard_error:.3g}"
        measured = ["delta", *(column for name in MAIN for column in (name, f"{name}_error"))]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["workload", "mechanism", "alpha", "epsilon", *measured])
            for place, figures in points.items():
                writer.writerow([*place, *(figures.get(name, "") for name in measured)])

    @classmethod
    def of_all_places(cls, path: Path) -> Results:
        """The figures of a `study-errors.csv`; how many trials they are of is not kept."""
        rows, parts = [], set()
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                workload, mechanism = workload_named(line["workload"]), line["mechanism"]
                alpha, epsilon = line["alpha"] or None, line["epsilon"]
                of = (workload.study, workload.name, mechanism, alpha, epsilon)
                parts.add(Part(workload.name, alpha, epsilon))
                rows += [
                    Row(
                        *(*of, float(line["delta"]), WHOLE, name, float(line[name])),
                        *(float(line[f"{name}_error"] or "nan"), 0),
                    )
                    for name in MAIN
                    if line[name]
                ]
        return cls(rows, parts)


def _order(row: Row) -> tuple[object, ...]:
    return (
        row.study,
        row.workload,
        row.mechanism,
        float(row.alpha or 0),
        float(row.epsilon or 0),
        row.stratum,
        row.measure,
    )


def run_study(
    out: str | os.PathLike[str],
    *,
    jobs: int = DEFAULT_JOBS,
    trials: int = 20,
    seed: int = 1,
    assumptions: str = USUAL,
    only: Iterable[str] = (),
    progress: Progress | None = None,
    processes: int | None = None,
) -> Study:
    """Run, or go on with, a study in a folder of its own; only some workloads if they are named.

    Args:
        out: The folder of the study, new or with a study of the same settings.
        jobs: How many jobs the population has.
        trials: How often each method is tried.
        seed: Where population and noise start.
        assumptions: Those of the population: "usual", or "other".
        only: The workloads to run; all without them.
        progress: Called with a step and the share that is done.
        processes: How many processes work at once.

    Examples:
        >>> study = eree_study.run_study("study", jobs=5_000, trials=1, only=["ranking-1"])
        >>> study.trials
        1
    """
    tell = progress or (lambda _step, _done: None)
    study = Study(Path(out), jobs, trials, seed, assumptions)
    assumptions_named(assumptions)
    wanted = [workload_named(name) for name in only] or list(WORKLOADS.values())
    if trials < 1:
        raise Refusal("a study needs at least one trial")
    begin(study)
    _count(study, wanted, lambda step, done: tell(step, 0.1 * done))
    parts = [part for part in parts_of(wanted) if not part.file(study.folder).exists()]
    parts.sort(key=_takes_long)
    given = [(study, part) for part in parts]
    for done, (number, _) in enumerate(on_every_core(work, given, processes), start=1):
        tell(parts[number].describe(), 0.1 + 0.9 * done / len(parts))
    tell("done", 1.0)
    return study


def begin(study: Study) -> None:
    """Make the folder, or see that it holds the same study."""
    if (study.folder / SETTINGS).exists():
        if Study.read(study.folder) != study:
            raise Refusal(
                f"{study.folder} holds a study with other settings, or of another version of eree;"
                " name a new folder with --out"
            )
    elif study.folder.exists() and not all(map(is_partial, study.folder.iterdir())):
        raise Refusal(f"{study.folder} is not a new or empty folder; name another with --out")
    else:
        study.folder.mkdir(parents=True, exist_ok=True)
        write_whole(study.folder / SETTINGS, study.settings())
    (study.folder / "parts").mkdir(exist_ok=True)
    for folder in (study.folder, study.folder / "cells", study.folder / "parts"):
        sweep(folder)


def _count(study: Study, wanted: list[Workload], tell: Progress) -> None:
    """Make the population and count what the workloads look at; both stay for the next time."""
    missing = {
        workload.cells: workload for workload in wanted if not workload.file(study.folder).exists()
    }
    if not missing:
        return
    tables = population_of(study, tell)
    (study.folder / "cells").mkdir(exist_ok=True)
    for done, workload in enumerate(missing.values()):
        tell(f"counting {workload.cells}", 0.4 + 0.6 * done / len(missing))
        path = workload.file(study.folder)
        with replacing_file(path) as partial:
            counted_for(tables, workload).save(partial)


def population_of(study: Study, tell: Progress) -> Tables:
    """The population of a study; it is made if it is not there yet."""
    data = study.folder / "data"
    if not data.exists():
        tell("making a population", 0.0)
        synthesize(data, jobs=study.jobs, seed=study.seed, assumptions=study.assumptions)
    tell("checking it", 0.3)
    return load(data, memory_limit=MEMORY)


def parts_of(wanted: Iterable[Workload]) -> Iterator[Part]:
    """Everything that has to be done for some workloads."""
    for workload in wanted:
        for alpha in (None, *ALPHAS):
            for epsilon in EPSILONS:
                yield Part(workload.name, alpha, epsilon)


def _takes_long(part: Part) -> bool:
    """Whether estimates are shrunk in a part: those come last."""
    together = WORKLOADS[part.workload].paying == "together"
    return together and (Fraction(part.alpha or 0), Fraction(part.epsilon)) in SHRUNK_AT


def work(study: Study, part: Part) -> None:
    """Compare everyone in one part, and write the figures down."""
    comparison = _comparison(study, part.workload)
    alpha = Fraction(part.alpha) if part.alpha is not None else None
    epsilon, workers = Fraction(part.epsilon), comparison.cells.workers
    rows = []
    if alpha is None and part.epsilon == EPSILONS[0]:
        rows += list(comparison.infusion())
    known: dict[Contender, list[Row]] = {}
    taking_part = (
        one
        for those in (contenders, drafts, by_workplace, limits)
        for one in those(comparison.workload, workers, alpha, epsilon)
    )
    for one in taking_part:
        nameless = replace(one, name="")  # what is chosen by 'auto' takes part by its name as well
        if nameless not in known:
            known[nameless] = list(comparison.rows(one, alpha, epsilon))
        rows += [replace(row, mechanism=one.name) for row in known[nameless]]
    write_whole(part.file(study.folder), [asdict(row) for row in rows])


@lru_cache(maxsize=1)
def _comparison(study: Study, name: str) -> Comparison:
    workload = workload_named(name)
    cells = Counted.read(workload.file(study.folder))
    return Comparison(workload, cells, trials=study.trials, seed=study.seed)


def write_whole(path: Path, data: object) -> None:
    """A file that is there whole or not at all."""
    with replacing_file(path) as partial:
        partial.write_text(json.dumps(data), encoding="utf-8")
