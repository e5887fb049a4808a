"""What is wanted: marginals over attributes of workplaces and workers, or a size profile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import SupportsIndex

import pyarrow as pa

from eree.errors import Refusal, hint, integer
from eree.policy.neighbours import Edge, Neighbours, Strong, Weak
from eree.policy.schema import Attribute, Schema, Value

#: A job in the unit of scaled counts.
JOB = 1000


@dataclass(frozen=True)
class DropFrom:
    """Leave out every large workplace.

    Args:
        theta: The workers, all of them, unfiltered, from which on a workplace is left out.

    Examples:
        >>> eree.tabulate(eree.load("data"), by=["county"], bound=eree.DropFrom(50))
        <Cells of county...: ... cells, confidential>
    """

    theta: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "theta", _bound("theta", self.theta))


@dataclass(frozen=True)
class ScaleTo:
    """Scale large workplaces down, keeping their shares.

    A scaled count is kept in thousandths of a job and rounded down, so that every engine comes to
    the same figure: `floor(1000 * count * total / size) / 1000`.

    Args:
        total: The workers that larger workplaces are scaled down to.

    Examples:
        >>> eree.tabulate(eree.load("data"), by=["county"], bound=eree.ScaleTo(50))
        <Cells of county...: ... cells, confidential>
    """

    total: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _bound("total", self.total))


#: The column of totals; no attribute can have its name.
TOTAL = "_total"


@dataclass(frozen=True, eq=False)
class ScaleEach:
    """Scale as `ScaleTo` does, the workplaces of every workplace cell to a total of its own.

    Args:
        totals: A row for each workplace cell: the workplace attributes of `by`, and `_total`.  What
            has no row is not counted.

    Examples:
        >>> import pyarrow as pa
        >>> each = eree.ScaleEach(pa.table({"county": ["17001"], "_total": [50]}))
        >>> eree.tabulate(eree.load("data"), by=["county"], bound=each)
        <Cells of county...: ... cells, confidential>
    """

    totals: pa.Table

    def __post_init__(self) -> None:
        if TOTAL not in self.totals.column_names or self.totals[TOTAL].type != pa.int64():
            raise Refusal(f"totals need a column {TOTAL} of integers")
        if self.totals[TOTAL].null_count:
            raise Refusal("every row of totals needs a total")
        totals = self.totals[TOTAL].to_numpy()
        for end in (totals.min(), totals.max()) if len(totals) else ():
            _bound("total", end)

    def check(self, keys: Iterable[str]) -> None:
        """Refuse totals that are not for cells of these attributes."""
        names, wanted = self.totals.column_names, [*keys, TOTAL]
        if sorted(names) != sorted(wanted):
            raise Refusal(f"totals must have the columns {', '.join(wanted)}")


Bound = DropFrom | ScaleTo | ScaleEach

#: Where a bound is larger than this, products of two counts no longer fit a 64-bit number.
GREATEST_BOUND = 10**9


def _bound(name: str, value: int) -> int:
    words = f"{name} must be an integer of workers from 1 to {GREATEST_BOUND:,}"
    return integer(value, words, 1, GREATEST_BOUND)


@dataclass(frozen=True)
class Marginal:
    """Counts of jobs by attributes, among the workplaces and workers that a filter keeps.

    Made by `Marginal.over`, which refuses what the schema does not declare.

    Attributes:
        by: The attributes to count by.
        where: The values to keep of some attributes.
        bound: What limits how much a workplace adds.

    Examples:
        >>> eree.Marginal.over(eree.read_schema("data"), ["county", "sex"]).by
        ('county', 'sex')
    """

    by: tuple[str, ...]
    where: Mapping[str, tuple[Value, ...]]
    bound: Bound | None = None

    @classmethod
    def over(
        cls,
        schema: Schema,
        by: Iterable[str],
        where: Mapping[str, Value | Iterable[Value]] | None = None,
        bound: Bound | None = None,
    ) -> Marginal:
        """Check a request against the schema."""
        if isinstance(by, str) or not isinstance(by, Iterable):
            raise Refusal("by must be a list of attributes, such as ['place', 'sector']")
        names = tuple(by)
        for name in names:
            _attribute(schema, name, "by")
        if len(set(names)) < len(names):
            raise Refusal("by names an attribute twice; name each once")
        if bound is not None and not isinstance(bound, Bound):
            raise Refusal("bound must be DropFrom(theta), ScaleTo(total) or ScaleEach(totals)")
        if isinstance(bound, ScaleEach):
            bound.check(name for name in names if schema.attributes[name].owner == "workplace")
        if where is not None and not isinstance(where, Mapping):
            raise Refusal("where must give each attribute its values, such as {'sex': ['F']}")
        kept = {
            name: _values(_attribute(schema, name, "where"), values)
            for name, values in (where or {}).items()
        }
        return cls(names, kept, bound)

    @staticmethod
    def filter_from_text(schema: Schema, texts: Iterable[str]) -> dict[str, list[Value]]:
        """A filter from texts such as `state=17,18`; a repeated attribute keeps more values."""
        kept: dict[str, list[Value]] = {}
        for text in texts:
            name, sign, listed = text.partition("=")
            if not sign:
                raise Refusal(f"{text!r} is not a filter; write it as attribute=value,value")
            attribute = _attribute(schema, name.strip(), "where")
            for value in listed.split(","):
                text = value.strip()
                whole = attribute.kind == "integer" and re.fullmatch("-?[0-9]{1,19}", text)
                kept.setdefault(attribute.name, []).append(int(text) if whole else text)
        return kept

    def worker_cells(self, schema: Schema) -> int:
        """How many worker cells every workplace cell has; their values are declared."""
        return prod(
            len(schema.attributes[name].values or ())
            for name in self.by
            if schema.attributes[name].owner == "worker"
        )

    def rows(self, schema: Schema, groups: int) -> int:
        """How many rows the table of so many workplace cells has."""
        return groups * self.worker_cells(schema)

    def touches_workers(self, schema: Schema) -> bool:
        """Whether a worker attribute stands in `by` or `where`."""
        names = (*self.by, *self.where)
        return any(schema.attributes[name].owner == "worker" for name in names)

    def __str__(self) -> str:
        kept = " and ".join(
            f"{name} in {', '.join(map(str, values))}" for name, values in self.where.items()
        )
        return (" × ".join(self.by) or "total") + (f" where {kept}" if kept else "")


@dataclass(frozen=True)
class Marginals(Marginal):
    """Several marginals of the same workers, counted at once: one row for every workplace cell.

    `by` are attributes of workplaces; `blocks` are the worker attributes of each marginal.  A row
    has the counts of all marginals, block after block.  Made by `Marginals.of`.
    """

    blocks: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(
        cls,
        schema: Schema,
        by: Iterable[str],
        where: Mapping[str, Value | Iterable[Value]] | None,
        blocks: Iterable[Iterable[str]],
    ) -> Marginals:
        """Check a request against the schema."""
        asked, own = Marginal.over(schema, by, where), tuple(map(tuple, blocks))

        def owners(names: Iterable[str]) -> set[str]:
            return {schema.attributes[name].owner for name in names}

        fine = all(owners(Marginal.over(schema, block).by) == {"worker"} for block in own)
        if not own or not fine or "worker" in owners(asked.by):
            raise Refusal(
                "marginals that are counted at once are by attributes of workplaces, and each of"
                " attributes of workers"
            )
        return cls(asked.by, asked.where, None, own)

    def each(self) -> list[Marginal]:
        """The marginals one by one."""
        return [Marginal((*self.by, *block), self.where) for block in self.blocks]

    def sizes(self, schema: Schema) -> list[int]:
        """How many counts each of them has."""
        return [marginal.worker_cells(schema) for marginal in self.each()]

    def counts(self, schema: Schema) -> list[str]:
        """The columns of all counts of a row."""
        return [f"_count_{i}" for i in range(sum(self.sizes(schema)))]

    def touches_workers(self, _schema: Schema) -> bool:
        """They do."""
        return True


#: Thresholds that nobody names end here; none is above the other.
_LAST_THRESHOLD, MOST_THRESHOLD = 60_000, 1_000_000
#: The alpha of the thresholds under edge neighbours, which have none.
_EDGE_ALPHA = "1/10"
#: Thresholds above this are counted over all groups at once, where nothing else is asked for.
POOLED_FROM = 100


@dataclass(frozen=True)
class SizeProfile(Marginal):
    """Numbers of workplaces with at least so many workers, by public attributes of workplaces.

    `sizes` are the thresholds; those above `pooled_from` are counted over all groups at once.
    Made by `SizeProfile.of`, which refuses what cannot be counted.
    """

    sizes: tuple[int, ...] = ()
    pooled_from: int = POOLED_FROM

    @classmethod
    def of(
        cls,
        schema: Schema,
        by: Iterable[str],
        where: Mapping[str, Value | Iterable[Value]] | None,
        sizes: Iterable[int],
        pooled_from: int = POOLED_FROM,
    ) -> SizeProfile:
        """Check a request against the schema."""
        asked = Marginal.over(schema, by, where)
        if asked.touches_workers(schema):
            raise Refusal(
                "workplaces are counted by and among attributes of workplaces; leave those of"
                " workers out"
            )
        pooled = integer(pooled_from, "pooled_from must be an integer of workers, 0 or more", 0)
        return cls(asked.by, asked.where, None, checked_thresholds(sizes), pooled)

    @property
    def pooled(self) -> tuple[bool, ...]:
        """Of each threshold, whether it is counted over all groups at once."""
        return tuple(size > self.pooled_from for size in self.sizes)

    def rows(self, _schema: Schema, groups: int) -> int:
        """Every threshold for every group, or once for all of them."""
        pooled = sum(self.pooled)
        return groups * (len(self.sizes) - pooled) + (pooled if groups else 0)

    def __str__(self) -> str:
        whole = super().__str__()
        by = whole if self.by else whole.removeprefix("total").strip()
        return f"workplaces by size{(' × ' if self.by else ' ') * bool(by)}{by}"


def checked_thresholds(sizes: Iterable[int]) -> tuple[int, ...]:
    """Thresholds of a size profile; refuses what are none."""
    words = (
        f"sizes must be increasing integers of workers from 1 to {MOST_THRESHOLD:,}, such as"
        " [1, 10, 100]"
    )
    found = tuple(integer(size, words, 1, MOST_THRESHOLD) for size in sizes)
    if not found or any(one >= other for one, other in pairwise(found)):
        raise Refusal(words)
    return found


def default_thresholds(relation: Neighbours) -> tuple[int, ...]:
    """Thresholds of which one step passes one at most, as close together as that allows."""
    if not isinstance(relation, (Strong, Weak, Edge)):
        raise Refusal(
            f"under {relation.name} neighbours one step may pass all thresholds, and each costs its"
            " part; name a few with sizes, such as [1, 10, 100]"
        )
    growing = Strong(_EDGE_ALPHA) if isinstance(relation, Edge) else relation
    found, size = [], 1
    while size <= _LAST_THRESHOLD:
        found.append(size)
        size += growing.growth(size - 1)
    return tuple(found)


def _attribute(schema: Schema, name: object, place: str) -> Attribute:
    attribute = schema.attributes.get(name) if isinstance(name, str) else None
    if attribute is None:
        known = [a.name for a in schema.attributes.values() if not a.confidential]
        listed = ", ".join(known) + hint(name, known)
        raise Refusal(f"{place} names {name!r}, which the schema does not declare; it has {listed}")
    if attribute.confidential:
        raise Refusal(
            f"{attribute.name} is a confidential workplace attribute and cannot stand in {place};"
            " only public ones can"
        )
    return attribute


def _values(attribute: Attribute, given: object) -> tuple[Value, ...]:
    name = attribute.name
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = (given,)
    values = tuple(_value(attribute, value) for value in given)
    if not values:
        raise Refusal(f"where keeps no value of {name}; list at least one")
    if len(set(values)) < len(values):
        raise Refusal(f"where lists a value of {name} twice; list each once")
    if attribute.values is not None:
        for value in values:
            if value not in attribute.values:
                known = ", ".join(map(str, attribute.values[:12]))
                more = ", …" if len(attribute.values) > 12 else ""
                more += hint(value, map(str, attribute.values))
                raise Refusal(f"{value!r} is not a declared value of {name}; it has {known}{more}")
    return values


def _value(attribute: Attribute, value: object) -> Value:
    """One value of a filter, in the type of its attribute."""
    words = "texts"
    if attribute.kind == "integer":
        words = "integers of 64 bits"
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            whole = value.__index__()  # numpy's integers are welcome too
            if -(2**63) <= whole < 2**63:
                return whole
    elif isinstance(value, str) and value.encode("utf-8", "replace").decode() == value:
        return value
    raise Refusal(f"where gives {attribute.name} values of another type; its values are {words}")
