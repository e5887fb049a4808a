"""What the tests of uses of a release share: the truth, and releases drawn again and again."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import eree
import pages
from eree.estimate.totals import Areas
from eree.release.record import RECORD, digest_of, file_digest, record_text

#: A row for each workplace, and what the rows may be added up to.
SITES = ["workplace_id", "place", "sector", "ownership", "sex", "education"]
PEOPLE = SITES[1:]


def shown(folder: Path) -> None:
    """Publish the key of workplaces."""
    path = folder / "schema.toml"
    text = path.read_text(encoding="utf-8")
    key = 'key = "workplace_id"\n'
    path.write_text(text.replace(key, f"{key}publish_key = true\n", 1), encoding="utf-8")


def true_sums(tables: eree.Tables, cells: Sequence[str], by: Sequence[str]) -> Counter[Any]:
    """The true counts of areas, from the exact cells of a marginal."""
    exact = eree.tabulate(tables, by=cells).confidential
    sums: Counter[Any] = Counter()
    for row in exact.to_pylist():
        sums[tuple(row[name] for name in by)] += row["count"]
    return sums


def with_members(
    folder: Path,
    group: str,
    change: Callable[[pa.Table], pa.Table],
    number: int | None = None,
) -> eree.Release:
    """A release with other members of a group, and the record of someone who means it."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    [about] = [one for one in record["members"] if one["group"] == group]
    [file] = about["files"]
    rows = change(parquet.read_table(folder / file))
    parquet.write_table(rows, folder / file)
    about["files"][file] = file_digest(folder / file)
    about["rows"] = rows.num_rows if number is None else number
    record["digest"] = digest_of(record)
    (folder / RECORD).write_text(record_text(record), encoding="utf-8")
    return eree.Release.open(folder)


class Redrawing:
    """A release whose one table is drawn anew for every seed."""

    def __init__(
        self, release: eree.Release, tables: eree.Tables, table: str, folder: Path
    ) -> None:
        self.release, self.table, self.folder = release, table, folder
        areas = Areas.read(release, table, ())
        exact = eree.tabulate(tables, by=areas.counted.by).confidential
        self.measurement = measurement = areas.measurement
        self.statistics = [
            measurement.grouped(exact[name].to_numpy()) for name in measurement.statistics
        ]
        self.rows = release.table(table)

    def drawn(self, seed: int) -> eree.Release:
        noisy = self.measurement.mechanism.draw(
            *self.statistics, random=eree.SeededRandom(seed)
        ).ravel()
        place = self.rows.column_names.index("noisy")
        home = self.folder / str(seed)
        (home / "tables").mkdir(parents=True)
        for folder in ("areas", "members"):
            shutil.copytree(self.release.folder / folder, home / folder)
        anew = self.rows.set_column(place, "noisy", pa.array(np.asarray(noisy)))
        parquet.write_table(anew, home / "tables" / f"{self.table}.parquet")
        return eree.Release(home, self.release.record)


def eree_command(*arguments: object, cwd: Path | None = None) -> tuple[int, str, str]:
    """How a command ends: its status, and what it prints on either stream."""
    done = pages.command(*map(str, arguments), cwd=cwd)
    return done.status, done.out, done.err
