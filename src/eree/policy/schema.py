"""The schema of three linked tables: what is public, what is confidential, what values exist.

A workplace's existence and attributes are public, unless an attribute is marked confidential.  A
worker's attributes are confidential, and the list of values they may take is declared here: it is
never learnt from the data, because a value that only the data knows would reveal who is in it.

An attribute of jobs is read from the job table and protected as one of workers: what is protected
is the table of counted jobs, where the attributes of a worker are as much the job's as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Literal

Value = str | int
Encoding = Literal["utf-8", "latin-1"]
Kind = Literal["string", "integer"]
Owner = Literal["workplace", "worker"]
Table = Literal["workplace", "worker", "job"]

DATA_SET = "data"
"""How data are called whose declaration does not say it."""

#: Columns that eree adds to a table of cells, of released or of infused counts, or of workplaces.
RESERVED = frozenset(
    (
        *("count", "largest", "largest_total", "workplaces"),
        *("employment", "noisy", "low", "high", "scaled_to", "guarantee", "filter"),
        *("estimate", "biased_count", "guaranteed_low", "guaranteed_high", "cells"),
        *("at_least", "number"),
    )
)


@dataclass(frozen=True)
class Provenance:
    """What strata of workplaces were made of: a table of sizes of a release, cut at these sizes.

    The release is named by its random name and by the digest of its record.
    """

    release: str
    digest: str
    table: str
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Classes:
    """How a column of numbers, or of dates, is sorted into the values of an attribute.

    Each value has those from its `least` one to before the next; by year it is the year of a date.
    """

    values: tuple[Value, ...]
    least: tuple[Decimal, ...] | tuple[date, ...]
    by_year: bool = False

    @property
    def of_dates(self) -> bool:
        """Whether the column holds dates, not numbers."""
        return isinstance(self.least[0], date)


@dataclass(frozen=True)
class Attribute:
    """One attribute of workplaces, workers or jobs.

    Attributes:
        name: How plans and tables call it.
        table: The table that holds its column.
        label: What people call it.
        kind: What its column holds, "string" or "integer"; None where either will do.
        values: Its values; None where it takes whatever public ones the table of workplaces holds.
        labels: What people call them.
        confidential: Whether it is of workplaces and not public, and so never counted by.
        of: The finer attribute that a group is computed from.
        members: Which value of a group each of the finer ones is sent to.
        provenance: The released sizes that a group was made of, if any.
        missing: The value of a field that has none.
        classes: Classes of the numbers or dates that its column holds.

    Examples:
        >>> eree.read_schema("data").attributes["sex"].values
        ('F', 'M')
    """

    name: str
    table: Table
    label: str
    kind: Kind | None
    values: tuple[Value, ...] | None
    labels: Mapping[str, str] = field(default_factory=dict)
    confidential: bool = False
    of: str | None = None
    members: Mapping[Value, str] = field(default_factory=dict)
    provenance: Provenance | None = None
    missing: Value | None = None
    classes: Classes | None = None

    @property
    def owner(self) -> Owner:
        """Whose attribute it is to whoever counts and protects: that of a job is its worker's."""
        return "workplace" if self.table == "workplace" else "worker"

    def describe(self, value: Value) -> str:
        """The label of a value, or the value itself where none was declared."""
        return self.labels.get(str(value), str(value))


@dataclass(frozen=True)
class Dialect:
    """How the CSV files of a table are written; the separator may be left to their name.

    The names of folders are columns where `partitions` says so: `year=2024`.
    """

    separator: str = ""
    encoding: Encoding = "utf-8"
    partitions: tuple[str, ...] = ()


PLAIN = Dialect()


@dataclass(frozen=True)
class DatabaseTable:
    """A table, or a view, of a database: of a DuckDB file, or of PostgreSQL.

    `name` may begin with the schema and a dot.  `file` is the DuckDB file; without it `address`
    names the environment variable that holds the address of PostgreSQL, so that no password stands
    in a declaration.
    """

    name: str
    file: str = ""
    address: str = ""

    def __str__(self) -> str:
        return f"{self.name} in {self.file or 'PostgreSQL'}"


@dataclass(frozen=True)
class KeyedTable:
    """Where the workplace or the worker table lies, and which column names its rows.

    Of a table in a database `file` is what reports call it.
    """

    file: str
    key: str
    ignore: tuple[str, ...] = ()
    dialect: Dialect = PLAIN
    database: DatabaseTable | None = None


@dataclass(frozen=True)
class Counted:
    """Which jobs of a worker count: so many at most, or one `chosen` among all by a rule."""

    most: int = 1
    chosen: bool = False


@dataclass(frozen=True)
class JobTable:
    """Where the job table lies; `primary` marks the jobs that count, without it all do.

    No worker has more than `most_per_worker` of those.  That is said of the data and checked; it
    selects nothing.  A `greatest` is the column by which one job of each worker is chosen.
    """

    file: str
    worker: str
    workplace: str
    primary: str | None = None
    ignore: tuple[str, ...] = ()
    most_per_worker: int = 1
    dialect: Dialect = PLAIN
    greatest: str | None = None
    database: DatabaseTable | None = None

    @property
    def counted(self) -> Counted:
        """How many jobs of a worker count, and whether they were chosen."""
        return Counted(self.most_per_worker, self.greatest is not None)


@dataclass(frozen=True)
class Reference:
    """A public table about the values of one workplace attribute (such as places)."""

    name: str
    file: str
    key: str
    dialect: Dialect = PLAIN
    database: DatabaseTable | None = None


@dataclass(frozen=True, repr=False)
class Schema:
    """The whole declaration, free of contradictions.

    Attributes:
        workplace: The table of workplaces.
        worker: The table of workers.
        job: The table that links them.
        attributes: All attributes, by name.
        hierarchies: Public attributes of workplaces that lie in each other, the finest first.
        references: Public tables about the values of workplace attributes.
        data_set: The name of the data set.
        draft: Whether `eree schema init` made it from files: its lists of values may come from
            confidential rows.

    Examples:
        >>> "sector" in eree.read_schema("data").attributes
        True
    """

    workplace: KeyedTable
    worker: KeyedTable
    job: JobTable
    attributes: Mapping[str, Attribute]
    hierarchies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: Mapping[str, Reference] = field(default_factory=dict)
    data_set: str = DATA_SET
    draft: bool = False

    def __repr__(self) -> str:
        return f"<Schema of {self.data_set}: {', '.join(self.attributes)}>"

    def columns_of(self, table: Table) -> tuple[Attribute, ...]:
        """The attributes that are columns of a table, in the order of the declaration."""
        return tuple(a for a in self.attributes.values() if a.table == table and a.of is None)

    @property
    def public_columns(self) -> frozenset[str]:
        """The names of the columns of workplaces that are public."""
        return frozenset(a.name for a in self.columns_of("workplace") if not a.confidential)

    def declared(self, table: str) -> KeyedTable | JobTable | Reference:
        """What is declared of `workplace`, `worker`, `job` or `reference.NAME`."""
        if table.startswith("reference."):
            return self.references[table.removeprefix("reference.")]
        tables: dict[str, KeyedTable | JobTable] = {
            "workplace": self.workplace,
            "worker": self.worker,
            "job": self.job,
        }
        return tables[table]

    def key(self, owner: Owner) -> str:
        """The column that names the rows of a table."""
        return (self.workplace if owner == "workplace" else self.worker).key

    def link(self, owner: Owner) -> str:
        """The column of the job table that points to a workplace or a worker."""
        return self.job.workplace if owner == "workplace" else self.job.worker

    def column(self, name: str) -> Attribute:
        """The attribute that holds the column behind `name`: itself, or what it groups."""
        attribute = self.attributes[name]
        return attribute if attribute.of is None else self.attributes[attribute.of]
