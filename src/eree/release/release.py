"""A release: public for ever.  What was made of it may be read without any secret."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as parquet

from eree.budget.reservation import Reservation
from eree.errors import Refusal, Unreadable, hint
from eree.policy.guarantee import Guarantee
from eree.policy.plain_data import guarantee_of, parsed, sha256
from eree.policy.schema import Schema
from eree.release.contents import SCALED_TO, area_columns, columns_of, misread, schema_of
from eree.release.members import MEMBERS, Members
from eree.release.record import FORMAT, RECORD, file_digest, file_fault
from eree.release.tabular import Tabular

P = ParamSpec("P")
R = TypeVar("R")

#: The folder that says which areas lie in which.
AREAS = "areas"
#: Where estimates have the public sizes that they were made with: no table is called so.
PUBLIC_SIZES = Path("estimates", "_sizes.csv")
#: As many folders are named where one was expected.
_MOST_NAMED = 10


@dataclass(frozen=True)
class Release:
    """A folder of protected tables, with the record of what was promised and paid.

    `release.table("name")` are the rows of a table; `release["name"]` are the same for a notebook.
    Functions that take a release take the name of its folder as well.

    Attributes:
        folder: The folder.
        record: The record.
        public_sizes: A file of public numbers of workplaces by class of size that intervals are to
            go by, if there is one.

    Examples:
        >>> eree.Release.open("out").tables
        ('jobs', 'sexes')
    """

    folder: Path
    record: Mapping[str, Any] = field(repr=False)
    public_sizes: Path | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Release:
        """Read the record of a release; `eree verify` checks that it is untouched.

        What the record says of tables is refused when it is asked for, if any of it is damaged.
        """
        path = Path(folder) / RECORD
        try:
            record = parsed(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Unreadable(_no_release(Path(folder))) from None
        except (OSError, ValueError, RecursionError):  # a number of many digits is a ValueError
            raise Unreadable(f"{path} cannot be read as a release's record") from None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise Unreadable(f"{path} is no record that this version of eree knows")
        sizes = Path(folder) / PUBLIC_SIZES
        return cls(Path(folder), record, sizes if sizes.is_file() else None)

    @property
    def identity(self) -> str:
        """The random name of the release."""
        if "release" not in self.record:
            raise self._damaged("release")
        return str(self.record["release"])

    @cached_property
    def place(self) -> tuple[str, int]:
        """The folder from the root on, links followed, and when public sizes were put there."""
        sizes = self.public_sizes
        return str(self.folder.resolve()), 0 if sizes is None else sizes.stat().st_mtime_ns

    @property
    def content(self) -> str | None:
        """The digest of what estimates are made of, as it is now; none if it is not as recorded.

        Nor has a release that nobody paid for any: nothing that is learnt of one is worth keeping.
        """
        return content_of(self) if self.private else None

    @property
    def data_set(self) -> str:
        """How the data are called, by their declaration."""
        return str(self.record["protects"]["data_set"])

    @property
    def period(self) -> str:
        """The time that the release is about, where that was said."""
        return str(self.record["period"])

    @property
    def described(self) -> Mapping[str, str]:
        """What it is about, in its publisher's words: title, source, publisher, and so on."""
        said: Mapping[str, str] = self.record["about"]
        return said

    @property
    def private(self) -> bool:
        """Whether the guarantee holds for what is published; never with a seeded source."""
        return self.record.get("private") is True and not self.rehearsal

    @property
    def rehearsal(self) -> bool:
        """Whether it was made of synthetic data to try a plan, and is no release."""
        return "rehearsal" in self.record

    @property
    def seeded(self) -> bool:
        """Whether the noise was drawn from a seeded source, which no ledger pays for."""
        return not self.private and "ledger" not in self.record

    @property
    def warning(self) -> str:
        """What has to be said of everything that is made of it, if it protects nothing."""
        if self.rehearsal:
            return "This is a rehearsal, made of synthetic data, and no release."
        seeded = "The noise was drawn from a seeded source: this release protects nothing."
        return "" if self.private else seeded

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        return guarantee_of(self.record["guarantee"])

    @property
    def reservation(self) -> Reservation:
        """The entry of the ledger that paid for the release, as the release remembers it."""
        try:
            paid = self.record["ledger"]
            entry, digest, ledger = int(paid["entry"]), str(paid["hash"]), str(paid["id"])
            return Reservation(entry, digest, self.guarantee, self.identity, ledger)
        except (KeyError, TypeError, ValueError):
            raise Refusal(f"{self.folder} was paid from no ledger") from None

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(str(table["name"]) for table in self._listed)

    @cached_property
    def _listed(self) -> list[Mapping[str, Any]]:
        """What the record says of each table; refused where it is not written as a record is."""
        listed = self.record.get("tables")
        if "kind" in self.record:  # a cube, whose record is read by `ProtectedCube`
            named = isinstance(listed, list) and all(
                isinstance(table, dict) and isinstance(table.get("name"), str) for table in listed
            )
            place = None if named else "tables"
        else:
            place = misread(self.record)
        if place is not None:
            raise self._damaged(place)
        return list(listed or ())

    def _damaged(self, place: str) -> Unreadable:
        return Unreadable(
            f"the record of the release in {self.folder} is damaged ({place} is not what a"
            " release writes); run 'eree verify'"
        )

    @cached_property
    def schema(self) -> Schema:
        """The attributes of the tables, as the public knows them."""
        assert self._listed is not None  # refuses a damaged record
        return schema_of(self.record, self.folder)

    def members(self, group: str) -> pa.Table:
        """The codes that a group is made of, in order, and the value of the group of each."""
        members = self.schema.attributes[group].members
        assert isinstance(members, Members)  # others are not read from a release
        return members.rows

    def about(self, name: str) -> Mapping[str, Any]:
        """What the record says of a table."""
        for table in self._listed:
            if table["name"] == name:
                return table
        known = f"it has {', '.join(self.tables)}{hint(name, self.tables)}"
        raise Refusal(f"the release has no table {name!r}; {known}")

    def of_workplaces(self, name: str) -> bool:
        """Whether a table has numbers of workplaces by size, and not of jobs."""
        return self.about(name).get("profile") is not None

    def about_jobs(self, name: str) -> Mapping[str, Any]:
        """What the record says of a table of jobs; refused where it counts workplaces."""
        if self.of_workplaces(name):
            raise Refusal(f"table {name} counts workplaces by size, not jobs; name one of jobs")
        return self.about(name)

    def table(self, name: str) -> pa.Table:
        """The public rows of a table."""
        return self.columns(name)

    def columns(self, name: str, some: Sequence[str] | None = None) -> pa.Table:
        """Some columns of a table, or all of them."""
        about = self.about(name)
        if Path(name).name != name:
            raise Unreadable("a table's name leads out of the release; run 'eree verify'")
        try:
            file = parquet.ParquetFile(self.folder / "tables" / f"{name}.parquet")
            rows = file.read(None if some is None else list(some))
        except (OSError, ValueError, pa.ArrowException):  # a name with NUL is a ValueError
            raise Unreadable(
                f"the file of table {name} cannot be read; run 'eree verify'"
            ) from None
        if "kind" not in self.record and not self._fits(file.schema_arrow, rows, about):
            raise Unreadable(
                f"table {name} has other columns or rows than the record says; run 'eree verify'"
            )
        return rows

    def coded(self, name: str, _by: Iterable[str]) -> pa.Table:
        """The rows of a table of jobs: attributes, maybe as codes, and what was counted."""
        return self.table(name)

    def __getitem__(self, name: str) -> ReleasedTable:
        return ReleasedTable(self, name, self.table(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    @cached_property
    def areas(self) -> Mapping[str, pa.Table]:
        """For attributes of workplaces that lie in coarser ones: their codes, and those above.

        A code lies in no one code of an attribute where the field is null.
        """
        schema, found = self.schema, dict[str, pa.Table]()
        for about in self.record["areas"]:
            for file in about["files"]:
                path, name = self.folder / AREAS / Path(file).name, about["of"]
                try:
                    rows = parquet.ParquetFile(path).read()
                except (OSError, ValueError, pa.ArrowException):
                    rows = None
                wanted = area_columns(schema, about)
                if rows is None or not (
                    (rows.schema.names, rows.schema.types) == (wanted.names, wanted.types)
                    and rows.num_rows == about["rows"] == len(set(rows[name].to_pylist()))
                    and rows[name].null_count == 0
                ):
                    raise Unreadable(
                        f"what the release says of the areas above {name} cannot be read; run"
                        " 'eree verify'"
                    )
                found[name] = rows
        return found

    def _fits(self, found: pa.Schema, rows: pa.Table, about: Mapping[str, Any]) -> bool:
        """Whether a file has the rows, the attributes and the numbers that the record promises."""
        scaled, profile = SCALED_TO in found.names, self.of_workplaces(about["name"])
        wanted = columns_of(self.schema, about["by"], scaled=scaled, profile=profile)
        if (found.names, found.types) != (wanted.names, wanted.types):
            return False
        empty = any(rows[n].null_count for n in rows.column_names if not wanted.field(n).nullable)
        return not empty and rows.num_rows == about["rows"]

    def __str__(self) -> str:
        names = ", ".join(self.tables)
        return f"{said_of(self)} in {self.folder}: {names}"


@dataclass(frozen=True, repr=False)
class ReleasedTable(Tabular):
    """A table of a release, as a notebook shows it and data frames take it."""

    release: Release
    name: str
    rows: pa.Table

    def _table(self) -> pa.Table:
        return self.rows

    def _title(self) -> str:
        return f"{self.name} of {said_of(self.release)}"


def said_of(release: Release) -> str:
    """A release in a few words, and whether it protects anything."""
    what = "rehearsal" if release.rehearsal else "release"
    title = ", ".join(filter(None, (release.described.get("title"), release.period)))
    named = f"{what} {release.identity[:8]}{f' ({title})' if title else ''}"
    return f"{named}{', which is not private' * (not release.private)}"


def content_of(release: Release) -> str | None:
    """A digest of a record, if its Parquet files have their own, and of the public sizes."""
    folder, sizes = release.folder, release.public_sizes
    try:
        listed = [one for home in ("tables", AREAS, MEMBERS) for one in release.record[home]]
        for file, digest in (pair for one in listed for pair in one["files"].items()):
            if file.endswith(".parquet") and file_fault(folder / file, digest):
                return None
        return sha256([release.record, "" if sizes is None else file_digest(sizes)])
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None  # as of a damaged record


def _no_release(folder: Path) -> str:
    """What is said of a folder that is no release; releases in it are named."""
    inside = sorted(str(path.parent) for path in folder.glob(f"*/{RECORD}"))
    if not inside:
        return f"{folder} holds no {RECORD}; name the folder of a release"
    more = " and others" if len(inside) > _MOST_NAMED else ""
    names = ", ".join(inside[:_MOST_NAMED])
    return f"{folder} is no release, but holds some; name them: {names}{more}"


def opening(
    function: Callable[Concatenate[Release, P], R],
) -> Callable[Concatenate[Release | str | os.PathLike[str], P], R]:
    """A function of a release that takes the name of its folder as well."""

    @wraps(function)
    def opened(release: Release | str | os.PathLike[str], *args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(release, (str, os.PathLike)):
            release = Release.open(release)
        if not isinstance(release, Release):
            raise Refusal("give a release, or the name of its folder")
        return function(release, *args, **kwargs)

    return opened  # type: ignore[return-value]  # its first argument has a name as well
