"""Which cells of two tables count the same, and rounding that keeps what they add up to.

A *link* says that some cells of one table add up to the same as some cells of another, key by key:
a key is a value of each attribute that both tables know.  Tables are rounded one after another,
each to those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.estimate.above import above
from eree.estimate.measured import MeasuredTable
from eree.policy.schema import Value
from eree.random.exact import Array, Integers
from eree.release.release import Release

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Rounds in which what rounding has left over goes on, where links cross each other.
_ROUNDS = 128


@dataclass(frozen=True, eq=False)
class Link:
    """Cells of two tables that add up to the same: their places among all, and the key of each.

    The table of `cells` comes after that of `others`, and is the one that gives way.
    """

    cells: Integers
    cell_keys: Integers
    others: Integers
    other_keys: Integers
    keys: int
    table: str = ""

    def matrix(self, number: int) -> csr_array:
        """A row for each key, a column for each of a number of cells: what is to be zero."""
        from scipy.sparse import csr_array

        signs = np.append(np.ones(len(self.cells)), -np.ones(len(self.others)))
        keys = np.append(self.cell_keys, self.other_keys)
        cells = np.append(self.cells, self.others)
        return csr_array((signs, (keys, cells)), shape=(self.keys, number))

    def apart(self, values: Integers) -> Integers:
        """By how much the cells are more than the others, for each key."""
        more = _added(self.cell_keys, values[self.cells], self.keys)
        return np.rint(more - self.sums(values)).astype(np.int64)

    def sums(self, values: Integers | Array) -> Array:
        """What the others add up to, for each key."""
        return _added(self.other_keys, values[self.others], self.keys)

    def givers(self, linked: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Which cells give way: those of a key side by side, in the fewest links first.

        The others come last.  With the sign of each, where a key starts, and how many it has.
        """
        cells, keys = np.append(self.cells, self.others), np.append(self.cell_keys, self.other_keys)
        signs = np.repeat([-1, 1], [len(self.cells), len(self.others)])
        order = np.lexsort((linked[cells], signs, keys))
        _, first, number = np.unique(keys[order], return_index=True, return_counts=True)
        return cells[order], signs[order], first, number


def _added(keys: Integers, values: Integers | Array, number: int) -> Array:
    """What values add up to by key."""
    found = np.zeros(number)
    np.add.at(found, keys, values)
    return found


def rounded(values: Array, links: Sequence[Link]) -> Integers:
    """Integers near some values that add up along all links as the values do.

    What rounding leaves over is moved, one link after another, between cells that all links before
    it have in the same sum.  Where links cross and there are no such cells, it goes round.
    """
    found = np.rint(values).astype(np.int64)
    before: list[Link] = []
    for link in links:
        if before and before[-1].table != link.table:
            before = []
        apart = link.apart(found)
        if apart.any():
            _move(found, link, apart, before)
        before.append(link)
    return _gone_round(found, links)


def _gone_round(best: Integers, links: Sequence[Link]) -> Integers:
    """What is left over goes to one cell of each key, and from round to round to the next.

    At first to one in the fewest links; the others of a link come last.  A round that leaves more
    is undone.  Where three links or more cross, numbers may be left some units apart.
    """
    least = sum(int(np.abs(link.apart(best)).sum()) for link in links)
    linked = np.zeros(len(best), dtype=np.int64)
    for link in links:
        linked[link.cells] += 1
    givers = [link.givers(linked) for link in links] if least else []
    for turn in range(_ROUNDS if least else 0):
        found = best.copy()
        for link, (cells, signs, first, number) in zip(links, givers, strict=True):
            giving = first + turn % number
            found[cells[giving]] += signs[giving] * link.apart(found)
        left = sum(int(np.abs(link.apart(found)).sum()) for link in links)
        if left <= least:
            best, least = found, left
        if not left:
            break
    return best


def _move(found: Integers, link: Link, apart: Integers, before: Sequence[Link]) -> None:
    """Take from the sums of a link what they are apart by, and leave those of others as they are.

    Cells are edges between the sums of the link and classes of cells that the links before it do
    not tell apart.  Along a tree of edges, from its leaves on, each sum gets what it lacks and each
    class stays as it is; trees start where nothing has to: at cells that are in no other sum.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    cells = np.unique(np.concatenate([one.cells for one in (link, *before)]))
    keys = np.full(len(cells), link.keys)  # which stands for none
    keys[np.searchsorted(cells, link.cells)] = link.cell_keys
    classes, linked = np.zeros((2, len(cells)), dtype=np.int64)
    for one in before:
        own = np.zeros(len(cells), dtype=np.int64)
        own[np.searchsorted(cells, one.cells)] = one.cell_keys + 1
        classes = np.unique(classes * (one.keys + 1) + own, return_inverse=True)[1].reshape(-1)
        linked += own
    classes += link.keys + 1
    root = int(classes.max()) + 1
    free = np.unique([*keys[keys == link.keys], *classes[linked == 0]]).astype(np.int64)
    edges = csr_array((np.ones(len(cells)), (keys, classes)), shape=(root + 1, root + 1))
    parts, label = connected_components(edges, directed=False)
    held = np.isin(np.arange(parts), label[free])
    starts = np.append(free, np.unique(label, return_index=True)[1][~held])
    starts = starts[starts != root]
    tops = csr_array((np.ones(len(starts)), (starts, np.full(len(starts), root))), edges.shape)
    order, parent = breadth_first_order(edges + tops, root, directed=False)
    lacks = np.zeros(root + 1, dtype=np.int64)
    lacks[: link.keys] = -apart
    places = zip(keys.tolist(), classes.tolist(), strict=True)
    cell = dict(zip(places, cells.tolist(), strict=True))
    for node in order[:0:-1].tolist():
        above, lack = int(parent[node]), int(lacks[node])
        if lack and above != root:
            found[cell[min(node, above), max(node, above)]] += lack
            lacks[above] -= lack


def non_negative(values: Array, links: Sequence[Link]) -> Integers:
    """Integers of zero or more near some values; the cells of every link add up to the others.

    Of every key the values are lowered alike, down to zero at most, until they have the sum of the
    others, and the largest remainders are rounded up.  Of two links of a table that cross each
    other the first one holds.
    """
    found = np.maximum(np.rint(values), 0).astype(np.int64)
    for _table, own in groupby(links, key=lambda link: link.table):
        for link in reversed(list(own)):
            found[link.cells] = _split(values[link.cells], link.cell_keys, link.sums(found))
    return found


def _split(values: Array, keys: Integers, sums: Array) -> Integers:
    """Integers of zero or more that add up to some sums by key and are near the values."""
    order = np.lexsort((-values, keys))
    value, key = values[order], keys[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    number = np.diff(np.append(first, len(key)))
    rank = np.arange(len(key)) - np.repeat(first, number) + 1
    added = np.cumsum(value)
    added -= np.repeat(added[first] - value[first], number)
    lower = (added - sums[key]) / rank  # by this much, if the largest up to here are kept
    last = np.maximum.reduceat(np.where(value > lower, rank, 0), first)
    kept = np.maximum(last, 1)
    above = np.maximum(value - np.repeat(lower[first + kept - 1], number), 0.0)
    above[rank > np.repeat(kept, number)] = 0.0
    whole = np.floor(above + 1e-9)
    left = np.rint(sums[key[first]] - np.add.reduceat(whole, first)).astype(np.int64)
    remainders = np.lexsort((whole - above, key))
    place = np.empty(len(key), dtype=np.int64)
    place[remainders] = rank
    whole += place <= np.repeat(left, number)
    found = np.empty(len(key), dtype=np.int64)
    found[order] = whole.astype(np.int64)
    return found


# ------------------------------------------------------------------ what two tables both know


@dataclass(frozen=True, eq=False)
class _Known:
    """A table among others: where its rows start, and all attributes that they have a value of."""

    name: str
    start: int
    columns: Mapping[str, pa.ChunkedArray[Any]]
    where: Mapping[str, frozenset[Value]]
    drawn_with: tuple[str, ...]

    @classmethod
    def of(cls, release: Release, name: str, table: MeasuredTable, start: int) -> _Known:
        columns = {attribute: table.rows[attribute] for attribute in table.marginal.by}
        for coarse, one in above(release, table.marginal.by).items():
            if one.whole:
                columns[coarse] = one.of(table.rows[one.fine])
        where = {name: frozenset(values) for name, values in table.marginal.where.items()}
        return cls(name, start, columns, where, table.measurement.drawn_with)

    def kept_by(self, where: Mapping[str, frozenset[Value]]) -> NDArray[np.intp] | None:
        """Its rows that a filter keeps; None where that cannot be told."""
        rows = next(iter(self.columns.values()), None)
        kept = np.ones(1 if rows is None else len(rows), dtype=np.bool_)
        for name, values in where.items():
            if name in self.where and self.where[name] <= values:
                continue
            if name not in self.columns:
                return None
            column = self.columns[name]
            listed: list[Any] = sorted(values, key=str)
            kept &= pc.is_in(column, pa.array(listed, column.type)).to_numpy()
        return np.flatnonzero(kept)


def links_of(
    release: Release, tables: Mapping[str, MeasuredTable], *, drawn_apart: bool = False
) -> list[Link]:
    """All links between tables whose rows lie one after another, each table after those before it.

    A table that leaves workplaces out counts other jobs than any other, and has none.  One whose
    workplaces were scaled comes last: it gives way to the others, and nothing to it.

    With `drawn_apart` none between marginals of one draw, whose totals are the same already, and of
    what several of them have in common with another table only the first.
    """
    before: list[_Known] = []
    found: list[Link] = []
    start = 0
    for name, table in tables.items():
        own = _Known.of(release, name, table, start)
        start += table.rows.num_rows
        if table.mechanism.bound is not None:
            continue
        others = before
        if drawn_apart:
            mates = [known for known in before if known.name in own.drawn_with]
            others = [o for o in before if o not in mates and not _told_by(mates, own, o)]
        links = [link for other in _enough(own, others) if (link := _link(own, other))]
        found += sorted(links, key=lambda link: -link.keys)  # what is coarser follows from finer
        if not table.measurement.clips:
            before.append(own)
    return found


def _told_by(mates: Iterable[_Known], own: _Known, other: _Known) -> bool:
    """Whether one of some tables has all that two others have in common, and of the same jobs."""
    common = own.columns.keys() & other.columns.keys()
    told = [mate for mate in mates if mate.kept_by(other.where) is not None]
    return any(common <= mate.columns.keys() for mate in told)


def _enough(own: _Known, others: Sequence[_Known]) -> list[_Known]:
    """Those of some tables, which agree with each other, that another has to agree with.

    One that knows less in common than another of the same jobs adds nothing.
    """
    common = [own.columns.keys() & other.columns.keys() for other in others]
    return [
        other
        for i, other in enumerate(others)
        if not any(
            other.where == own.where == others[j].where
            and (common[i] < common[j] or (common[i] == common[j] and j < i))
            for j in range(len(others))
        )
    ]


def _link(own: _Known, other: _Known) -> Link | None:
    """What two tables both count; None where that cannot be told, or is nothing."""
    cells, others = own.kept_by(other.where), other.kept_by(own.where)
    if cells is None or others is None or not (len(cells) or len(others)):
        return None
    both = [
        pa.concat_arrays(
            [
                own.columns[name].take(cells).combine_chunks(),
                other.columns[name].take(others).combine_chunks(),
            ]
        )
        for name in own.columns
        if name in other.columns
    ]
    keys = _keys(both, len(cells) + len(others))
    first, second = keys[: len(cells)], keys[len(cells) :]
    number = int(keys.max()) + 1
    return Link(cells + own.start, first, others + other.start, second, number, own.name)


def _keys(columns: Iterable[pa.Array[Any]], rows: int) -> Integers:
    """A number for each row: the same where all columns have the same values."""
    found: Integers = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = column.dictionary_encode()
        own = codes.indices.to_numpy().astype(np.int64)
        both = found * len(codes.dictionary) + own
        found = np.unique(both, return_inverse=True)[1].reshape(-1)
    return found
