"""Estimates of a release: every cell with its calibrated interval, in a folder beside the tables.

Tables agree there: what two of them both count is the same number.  Estimates are made of the
release alone and cost no budget.  `tables/` stays what was measured; `estimates/` can be made again
by anyone, and `eree verify` does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.errors import Refusal, hint
from eree.estimate.agreement import UNIT, Agreement, agreement_of
from eree.estimate.calibrated import calibrated_table, sizes_from
from eree.estimate.evidence import Fit
from eree.estimate.listing import checked_level
from eree.estimate.sizes import WorkplaceSizes
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED
from eree.partial import appearing_folder
from eree.random.exact import Array
from eree.release.record import file_digest, file_fault
from eree.release.release import PUBLIC_SIZES, Release, opening

FOLDER, INDEX = "estimates", "estimates.json"
FORMAT = 1
#: Ends that are made again may differ by one job, or by this share of the interval: sums of
#: doubles are not the same on every machine.
TOLERANCE = 0.02


@dataclass(frozen=True)
class CellEstimates:
    """The folder of the estimates of a release, with the tables in it.

    Attributes:
        release: The release.
        folder: Where its estimates are.
        tables: The names of the tables.
        fits: Checks of the model, for tables whose totals another table of the release has too.
        agreement: The estimates, which agree in all tables.

    Examples:
        >>> eree.write_estimates("sizes").table("sizes").num_rows > 0
        True
    """

    release: Release
    folder: Path
    tables: tuple[str, ...]
    fits: Mapping[str, Fit]
    agreement: Agreement = field(repr=False)

    def __str__(self) -> str:
        fits = [f"  {name}: {fit.words}" for name, fit in self.fits.items()]
        agree = [f"  {self.agreement.words}"] if self.agreement.changes else []
        return "\n".join([f"{self.folder}: estimates of {', '.join(self.tables)}.", *agree, *fits])

    def table(self, name: str) -> pa.Table:
        """The estimates of a table."""
        if name not in self.tables:
            known = ", ".join(self.tables) + hint(name, self.tables)
            raise Refusal(f"there are no estimates of a table {name!r}; there are of {known}")
        return parquet.read_table(self.folder / f"{name}.parquet")


@opening
def write_estimates(
    release: Release,
    sizes: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[str, float], None] | None = None,
) -> CellEstimates:
    """Write the estimates of all tables of jobs into `estimates/` of a release.

    Columns: the attributes, `noisy`, `estimate` (which adds up to the same in all tables),
    `biased_count` (the estimates as integers of zero or more: as such they are too large on
    average), `low` and `high` (calibrated), `guaranteed_low` and `guaranteed_high`, all at the
    level of the release.

    Args:
        release: A release, or the name of its folder.
        sizes: A CSV file of public numbers of workplaces by class of size, as `WorkplaceSizes`
            reads it; it is kept beside the estimates, and intervals go by it from then on.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.write_estimates("out").tables
        ('jobs', 'sexes')
    """
    target = release.folder / FOLDER
    if target.exists():
        raise Refusal(f"{target} exists already; remove it to make the estimates again")
    names = _of_jobs(release)
    said, fits = [], {}
    given = None if sizes is None else WorkplaceSizes.read(sizes, release.schema)
    with appearing_folder(target) as folder:
        if sizes is not None and given is not None:
            own = folder / PUBLIC_SIZES.name
            own.write_bytes(Path(sizes).read_bytes())
            release = replace(release, public_sizes=own)
        tell = progress or (lambda _step, _done: None)
        tell("making the tables agree", 0.0)
        agreed = agreement_of(release)
        for i, name in enumerate(names):
            tell(f"estimating {name}", (i + 0.5) / (len(names) + 0.5))
            rows = estimated_cells(release, name)
            files = {suffix: folder / f"{name}.{suffix}" for suffix in ("parquet", "csv")}
            parquet.write_table(rows, files["parquet"], compression="zstd")
            arrow_csv.write_csv(rows, files["csv"])
            digests = {path.name: file_digest(path) for path in files.values()}
            known = calibrated_table(release, name)
            about: dict[str, Any] = {
                "name": name,
                "sizes": sizes_from(release, name),
                "files": digests,
            }
            if known is not None and known.fit is not None:
                fits[name] = known.fit
                about["fit"] = asdict(known.fit)
            said.append(about)
        index = {
            "format": FORMAT,
            "eree": version("eree"),
            "release": release.identity,
            "digest": release.record["digest"],
            "tables": said,
        }
        if release.public_sizes is not None:
            index["public_sizes"] = file_digest(release.public_sizes)
        (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    opened = Release.open(release.folder)
    return CellEstimates(opened, target, tuple(names), fits, agreed)


def _of_jobs(release: Release) -> list[str]:
    """The tables of jobs that have a cell."""
    return [n for n in release.tables if not release.of_workplaces(n) and release.about(n)["rows"]]


def estimated_cells(release: Release, name: str) -> pa.Table:
    """The estimates of all cells of a table, in the order of their attributes."""
    level = checked_level(release.record["level"])
    areas = Areas.read(release, name, release.about(name)["by"])
    rows, agreed = areas.totals(level, simultaneous=False).rows, agreement_of(release)
    cells = agreed.tables[name].start + areas.place
    counts, estimates = agreed.counts[cells], agreed.estimates[cells] / UNIT
    if agreed.changes:
        low, high = areas.ends_around(estimates, agreed.errors.some(cells), level)
        ends = {"low": pa.array(low), "high": pa.array(high, mask=high == UNBOUNDED)}
        for column, values in {"estimate": pa.array(estimates), **ends}.items():
            rows = rows.set_column(rows.column_names.index(column), column, values)
    at = rows.column_names.index("low")
    return rows.add_column(at, "biased_count", pa.array(counts)).drop(["cells"])


def faults_of_estimates(release: Release) -> list[tuple[str, str]]:
    """What is wrong with the estimates beside a release: files and rules."""
    folder = release.folder / FOLDER
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        said = {str(table["name"]): dict(table["files"]) for table in index["tables"]}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return [(INDEX, "is missing, or is not written as estimates are")]
    if index.get("digest") != release.record["digest"]:
        return [(INDEX, "is of another release")]
    listed = {file: digest for files in said.values() for file, digest in files.items()}
    given = {PUBLIC_SIZES.name: index["public_sizes"]} if "public_sizes" in index else {}
    if (release.public_sizes is not None) != bool(given):
        return [(INDEX, "does not say which public sizes it was made with")]
    wanted = {f"{name}.{suffix}" for name in said for suffix in ("parquet", "csv")}
    names = _of_jobs(release)
    if sorted(said) != sorted(names) or set(listed) != wanted:
        return [(INDEX, "does not name the tables of the release")]
    listed |= given
    sources = {str(table["name"]): table.get("sizes") for table in index["tables"]}
    if any(sources[name] != sizes_from(release, name) for name in names):
        return [(INDEX, "does not say what the sizes are known from")]
    found = [
        (path.name, "is no part of the estimates")
        for path in sorted(folder.iterdir())
        if path.name not in (*listed, INDEX) or path.is_symlink()
    ]
    for file, digest in listed.items():
        if rule := file_fault(folder / file, str(digest)):
            found.append((file, rule.replace("the record", INDEX)))
    return found or _not_made_again(release, folder, names)


def _not_made_again(release: Release, folder: Path, names: list[str]) -> list[tuple[str, str]]:
    """Files that are not what the release gives."""
    try:
        again = {name: estimated_cells(release, name) for name in names}
    except Refusal:
        return [(INDEX, "is of estimates that cannot be made again")]
    return [
        (f"{name}.parquet", "is not what the release gives, made again")
        for name in names
        if not _alike(folder / f"{name}.parquet", again[name])
    ] + [
        (f"{name}.csv", "is not the twin of its Parquet file")
        for name in names
        if (folder / f"{name}.csv").read_bytes() != _lines(folder / f"{name}.parquet")
    ]


def _lines(file: Path) -> bytes:
    """The text that the twin of a file has."""
    text = BytesIO()
    try:
        arrow_csv.write_csv(parquet.read_table(file), text)
    except (OSError, ValueError, pa.ArrowException):
        return b""
    return text.getvalue()


def _alike(file: Path, again: pa.Table) -> bool:
    """Whether a file has the same estimates, but for what machines differ in."""
    try:
        rows = parquet.read_table(file)
    except (OSError, ValueError, pa.ArrowException):
        return False
    if rows.schema.names != again.schema.names or rows.num_rows != again.num_rows:
        return False
    about = ("estimate", "biased_count", "low", "high")
    exact = [name for name in again.column_names if name not in about]
    if any(not rows[name].equals(again[name]) for name in exact):
        return False
    if rows["high"].is_null().to_pylist() != again["high"].is_null().to_pylist():
        return False
    numbers = {name: (_filled(rows, name), _filled(again, name)) for name in about}
    width = np.maximum(numbers["high"][1] - numbers["low"][1], 0)
    allowed = np.maximum(1.0, TOLERANCE * width)
    return all(bool((np.abs(one - two) <= allowed).all()) for one, two in numbers.values())


def _filled(rows: pa.Table, name: str) -> Array:
    """A column as numbers; a high end that is not known is 0."""
    found: Array = np.nan_to_num(np.array(rows[name].to_pylist(), dtype=np.float64))
    return found
