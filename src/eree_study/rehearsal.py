"""A rehearsal: a plan taken all the way on synthetic data of the office's schema.

No confidential file is opened and no budget of the office is spent.  Every file says that it is a
rehearsal: tables are called so, the record has the mark, and verification finds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.data.tables import Tables, load
from eree.data.tabulate import tabulate
from eree.errors import integer
from eree.estimate.estimates import CellEstimates, write_estimates
from eree.estimate.memo import memo
from eree.estimate.predict import expected_accuracy
from eree.partial import appearing_folder
from eree.policy.guarantee import Guarantee
from eree.policy.settings import read_toml
from eree.random.exact import Integers
from eree.release.draw import PlannedTable
from eree.release.issue import new_folder
from eree.release.plan import Plan
from eree.release.publish import publish
from eree.release.release import Release
from eree.verification.recheck import REHEARSAL, Verification
from eree.verification.verify import verify
from eree.workload import Marginal, SizeProfile
from eree_study.synth.rehearsed import rehearsed_tables

PREFIX = "rehearsal-"
NOTICE = (
    "A REHEARSAL: everything here was made from synthetic workers and jobs.  It says nothing about"
    " the data, it is no release, and nothing of it may be published.\n"
)
MOST_WORKPLACES = 10_000_000


@dataclass(frozen=True)
class Rehearsed:
    """How near a rehearsed table is to the synthetic counts that it was made of.

    `error` is the sum of absolute errors as a share of all jobs in it; `guaranteed` and
    `calibrated` are the shares of true counts within the two kinds of intervals, if it has them.
    """

    table: str
    cells: int
    error: float
    guaranteed: float
    calibrated: float | None


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal made, and what it found.

    Attributes:
        folder: Where it is.
        price: What it would cost.
        workplaces: How many workplaces were made.
        of_workplaces: How many the plan's own data have.
        tables: What was found of each table.
        verification: What was rechecked.

    Examples:
        >>> eree_study.rehearse("plan.toml", "rehearsed", workplaces=500).price.epsilon
        Fraction(6, 1)
    """

    folder: Path
    price: Guarantee
    workplaces: int
    of_workplaces: int
    tables: tuple[Rehearsed, ...]
    verification: Verification

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong but that it is a rehearsal."""
        return [fault.rule for fault in self.verification.faults] == [REHEARSAL]

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "folder": str(self.folder),
            "rehearsal": True,
            "sound": self.sound,
            "epsilon": str(self.price.epsilon),
            "delta": str(self.price.delta),
            "workplaces": self.workplaces,
            "of_workplaces": self.of_workplaces,
            "tables": [asdict(table) for table in self.tables],
        }


def rehearse(
    plan: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workplaces: int = 100_000,
    seed: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> Rehearsal:
    """Take a plan through everything, on synthetic data, into a new folder.

    Workplaces have the public attributes of the plan's own, so many of them at most; workers and
    jobs are made of what the schema declares.  The ledger is the rehearsal's own, and is spent.

    Args:
        plan: The file of a plan.
        out: A new folder.
        workplaces: How many workplaces at most.
        seed: Where data and noise start.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.rehearse("plan.toml", "rehearsal", workplaces=500).sound
        True
    """
    tell = progress or (lambda _step, _done: None)
    words = f"workplaces must be an integer from 1 to {MOST_WORKPLACES:,}"
    most = integer(workplaces, words, 1, MOST_WORKPLACES)
    seed = integer(seed, "the seed must be an integer of 0 or more", 0)
    target, planned = new_folder(Path(out)), _marked(Path(plan))
    everything = planned.frame.workplaces_by(Marginal.over(planned.schema, []))
    there = int(everything["_workplaces"].to_numpy().sum())
    with appearing_folder(target) as folder:
        tell("making synthetic workers and jobs", 0.0)
        frames = rehearsed_tables(planned.frame, most=most, seed=seed)
        tables = load(frames, planned.data, progress=lambda s, f: tell(s, 0.1 + 0.2 * f))
        ahead = expected_accuracy(planned, progress=lambda s, f: tell(s, 0.3 + 0.1 * f))
        price, name = planned.price(), planned.schema.data_set
        # all of it is spent by the rehearsal, so that nothing else can ever be paid from it
        ledger = Ledger.create(folder / f"{PREFIX}ledger.db", price, data_set=name)
        page = f"{NOTICE}\n{memo(ahead, ledger.left())}"
        (folder / f"{PREFIX}memo.md").write_text(page, encoding="utf-8")
        release = publish(
            planned,
            tables,
            ledger=ledger,
            out=folder / "rehearsal",
            rehearsal=True,
            progress=lambda s, f: tell(s, 0.4 + 0.2 * f),
        )
        made = write_estimates(release, progress=lambda s, f: tell(s, 0.6 + 0.1 * f))
        found = verify(release, ledger=ledger, progress=lambda s, f: tell(s, 0.7 + 0.2 * f))
        tell("comparing with the synthetic counts", 0.9)
        near = [
            _compared(release, tables, table, made)
            for table in planned.tables
            if not isinstance(table.marginal, SizeProfile)
        ]
        (folder / "REHEARSAL.txt").write_text(NOTICE, encoding="utf-8")
    return Rehearsal(Path(out), price, tables.workplaces, there, tuple(near), found)


def _marked(file: Path) -> Plan:
    """A plan whose tables are called rehearsals."""
    Plan.read(file)  # its faults are told in its own names
    raw = read_toml(file, missing=f"there is no plan {file}; write one, or see 'eree demo'")
    tables = [_titled(table) | {"name": f"{PREFIX}{table['name']}"} for table in raw["table"]]
    said = {**raw, "about": _titled(raw.get("about", {})), "table": tables}
    return Plan.of(said, folder=file.parent, file=file.name)


def _titled(said: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a plan or a table, with a title that says what it is."""
    return {**said, "title": f"REHEARSAL {said.get('title', '')}"[:200].strip()}


def _compared(
    release: Release, tables: Tables, table: PlannedTable, made: CellEstimates
) -> Rehearsed:
    """A table beside what it was made of."""
    by: list[tuple[str, Literal["ascending", "descending"]]]
    by = [(name, "ascending") for name in table.marginal.by]
    exact = tabulate(tables, table.marginal.by, table.marginal.where).confidential
    rows, calibrated = release.table(table.name), None
    if table.name in made.tables:
        calibrated = parquet.read_table(made.folder / f"{table.name}.parquet")
    if by:
        exact, rows = exact.sort_by(by), rows.sort_by(by)
        calibrated = calibrated.sort_by(by) if calibrated is not None else None
    counts = exact["count"].to_numpy()
    errors = np.abs(rows["employment"].to_numpy() - counts)
    return Rehearsed(
        table.name,
        rows.num_rows,
        float(errors.sum() / max(counts.sum(), 1)),
        _within(rows, counts),
        None if calibrated is None else _within(calibrated, counts),
    )


def _within(rows: pa.Table, counts: Integers) -> float:
    """The share of counts between two ends; a high end that is empty, NaN, is no bound."""
    low = rows["low"].to_numpy()
    high = rows["high"].cast(pa.float64()).to_numpy()
    return float(np.mean((low <= counts) & ~(counts > high)))
