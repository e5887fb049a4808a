"""Which databases a release must not tell apart: the neighbour relations.

Two databases are neighbours when one workplace's workforce E grows to E' (E is part of E', and
everything else stays), and the relation allows that growth in one step.  A guarantee holds in both
directions.  A workforce is seen as a histogram over worker types, so that a relation can speak of
its make-up; where only the size matters the histogram has one entry.

A survey has relations of its own: a record joins, or an establishment with all its records.  They
and those of linked tables say nothing about each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from eree.errors import Refusal, integer

#: NumPy's integers count as integers.
Exact = Fraction | int | str | Decimal
#: An exponent of four digits or more (of any script: Python reads them all), or a text longer than
#: any number that is meant.
_UNWRITABLE = re.compile(r"[eE][+-]?[\d_]{4,}|.{2100}", re.DOTALL)


def exact(value: Exact, name: str) -> Fraction:
    """A parameter without rounding: a text such as "0.1" or "1/3", an integer, fraction or decimal.

    A float is refused: 0.1 as a float is not one tenth, and a budget has no tolerance.
    """
    if isinstance(value, (Fraction, str, Decimal)):
        try:
            if isinstance(value, (str, Decimal)) and _UNWRITABLE.search(str(value)):
                raise ValueError  # Fraction would write out all the zeros of 1e999999999
            return Fraction(value)
        except (ValueError, ArithmeticError):  # of infinity, or by zero
            raise Refusal(f"{name} must be a number, such as '0.1' or '1/3'") from None
    found = f"{name} must be exact, and what Python calls {type(value).__name__} is not"
    return Fraction(integer(value, f"{found}: write a text, such as '0.1', or a fraction"))


def plain(value: Fraction) -> str:
    """An exact number for people: 2.5 where a decimal is exact and short, else 1/3."""
    for digits in range(13):
        if (value * 10**digits).denominator == 1:
            return f"{Decimal(value.numerator * 10**digits // value.denominator).scaleb(-digits):f}"
    return str(value)


def _check_alpha(alpha: Fraction) -> None:
    if alpha <= 0:
        raise Refusal("alpha must be above 0; for alpha = 0 use edge neighbours")


@dataclass(frozen=True)
class Strong:
    """Strong neighbours: any workers may join a workplace, at most max(alpha |E|, 1) of them.

    Args:
        alpha: The growth that is protected, such as "0.1".

    Examples:
        >>> eree.Strong("0.1").growth(50)
        5
    """

    alpha: Fraction
    name: Literal["strong"] = "strong"

    def __init__(self, alpha: Exact) -> None:
        object.__setattr__(self, "alpha", exact(alpha, "alpha"))
        _check_alpha(self.alpha)

    def growth(self, size: int) -> int:
        """The most workers that can join a workplace of `size` workers in one step."""
        return max(int(self.alpha * size), 1)

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether the growth from one histogram to another is one step."""
        joined = _joined(before, after)
        return joined is not None and 0 < sum(joined) <= self.growth(sum(before))


@dataclass(frozen=True)
class Weak:
    """Weak neighbours over named worker types: every set of types grows by alpha or by one.

    For every set C of types, the workers who join in C are at most max(alpha * (workers of C), 1).

    Args:
        alpha: The growth that is protected, such as "0.1".
        types: Worker attributes; types are the combinations of their values.

    Examples:
        >>> eree.Weak("0.1", ["sex", "education"]).types
        ('education', 'sex')
    """

    alpha: Fraction
    types: tuple[str, ...]
    name: Literal["weak"] = "weak"

    def __init__(self, alpha: Exact, types: Sequence[str]) -> None:
        if isinstance(types, str) or not types or len(set(types)) < len(tuple(types)):
            raise Refusal("weak neighbours need worker attributes as types, such as ['sex', 'age']")
        object.__setattr__(self, "alpha", exact(alpha, "alpha"))
        object.__setattr__(self, "types", tuple(sorted(types)))
        _check_alpha(self.alpha)

    def growth(self, size: int) -> int:
        """The most workers of one type that can join `size` workers of that type in one step."""
        return max(int(self.alpha * size), 1)

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether the growth from one histogram over types to another is one step.

        A set of types that grows by more than one and by more than alpha forbids it.  The worst
        set takes every type that grows by more than alpha; if at most one worker joined there, it
        takes besides the growing type with the most to spare.
        """
        joined = _joined(before, after)
        if joined is None or not any(joined):
            return False
        excess = [d - self.alpha * h for h, d in zip(before, joined, strict=True)]
        over = [i for i, e in enumerate(excess) if e > 0]
        if sum(joined[i] for i in over) > 1:
            return False
        rest = [i for i, d in enumerate(joined) if d and i not in over]
        surplus = sum(excess[i] for i in over)
        return not over or not rest or surplus + max(excess[i] for i in rest) <= 0


@dataclass(frozen=True)
class Edge:
    """Edge neighbours: one worker joins.  Protects workers; says nothing of workplaces."""

    name: Literal["edge"] = "edge"

    def growth(self, _size: int) -> int:
        """One worker, whatever the size."""
        return 1

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether one worker joined."""
        joined = _joined(before, after)
        return joined is not None and sum(joined) == 1


@dataclass(frozen=True)
class Node:
    """Node neighbours: any number of workers join one workplace."""

    name: Literal["node"] = "node"

    def growth(self, _size: int) -> None:
        """There is no limit."""

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether any worker joined."""
        joined = _joined(before, after)
        return joined is not None and any(joined)


@dataclass(frozen=True)
class Record:
    """Record neighbours of a survey: one record joins.  Says little of whole establishments."""

    name: Literal["record"] = "record"

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether one record joined; a histogram counts the records of an establishment."""
        joined = _joined(before, after)
        return joined is not None and sum(joined) == 1


@dataclass(frozen=True)
class Establishment:
    """Establishment neighbours of a survey: one establishment joins with all its records.

    How many they are does not matter.  That one record joins an establishment is a step as well.
    """

    name: Literal["establishment"] = "establishment"

    def allows(self, before: Sequence[int], after: Sequence[int]) -> bool:
        """Whether an establishment joined, or one record; a histogram counts those of one."""
        joined = _joined(before, after)
        return joined is not None and (sum(joined) == 1 or (any(joined) and not any(before)))


EDGE = Edge()
"""The relation of edge neighbours: one worker joins one workplace.

Examples:
    >>> eree.EDGE.growth(50)
    1
"""

NODE = Node()
"""The relation of node neighbours: any number of workers join one workplace.

Examples:
    >>> eree.NODE.allows([10, 20], [10, 500])
    True
"""

RECORD = Record()
"""The relation of record neighbours: one record of a survey joins.

Examples:
    >>> eree.Guarantee(eree.RECORD, 2).neighbours.name
    'record'
"""

ESTABLISHMENT = Establishment()
"""The relation of establishment neighbours: one establishment joins with all its records.

Examples:
    >>> eree.Guarantee(eree.ESTABLISHMENT, 2).neighbours.name
    'establishment'
"""

#: Relations of linked tables, and of all data.
Linked = Strong | Weak | Edge | Node
Neighbours = Linked | Record | Establishment


def implies(paid: Neighbours, wanted: Neighbours) -> bool:
    """Whether a guarantee under `paid` is one, at the same price, under `wanted`.

    It is where every pair of neighbours under `wanted` is one under `paid`:

    - node neighbours include all others, and every relation includes the edge neighbours;
    - strong neighbours include those of a smaller alpha, strong or weak: the set of all types
      already bounds the size;
    - weak neighbours include those of a smaller alpha over types at least as fine, because finer
      types have more sets that must not grow too much;
    - of a survey, establishment neighbours include record neighbours.
    """
    match paid, wanted:
        case (Establishment(), Record() | Establishment()) | (Record(), Record()):
            return True
        case (Record() | Establishment(), _) | (_, Record() | Establishment()):
            return False
        case (Node(), _) | (_, Edge()):
            return True
        case Strong(), Strong() | Weak():
            return paid.alpha >= wanted.alpha
        case Weak(), Weak():
            return paid.alpha >= wanted.alpha and set(paid.types) <= set(wanted.types)
    return False


def steps_between(relation: Linked, smaller: int, larger: int) -> int:
    """How many growth steps lead from `smaller` to `larger` workers (of one type, if weak).

    Each step goes as far as it may: growth never shrinks with size, so that is the shortest way.
    """
    if not 0 <= smaller <= larger:
        raise Refusal("sizes must be integers of workers, the smaller one first")
    if isinstance(relation, Edge):
        return larger - smaller
    steps = 0
    while smaller < larger:
        grown = relation.growth(smaller)
        smaller = larger if grown is None else smaller + grown
        steps += 1
    return steps


def distance(
    relation: Strong | Edge | Node,
    first: Mapping[str, frozenset[str]],
    second: Mapping[str, frozenset[str]],
) -> int | None:
    """The policy distance of two databases: steps from one to the other, or None for never.

    A database is the set of workers of each workplace.  Which workplaces exist is public, so
    databases with other workplaces are infinitely far apart.  One step changes one workplace, so
    distances add up; within a workplace the shortest way lets all who join come before anyone
    leaves, because larger workforces may change by more.
    """
    if set(first) != set(second):
        return None
    total = 0
    for workplace, before in first.items():
        after = second[workplace]
        most = len(before | after)
        total += steps_between(relation, len(before), most)
        total += steps_between(relation, len(after), most)
    return total


def _joined(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """Who joined, by type; None if anyone left."""
    joined = [b - a for a, b in zip(before, after, strict=True)]
    return None if any(d < 0 for d in joined) else joined
