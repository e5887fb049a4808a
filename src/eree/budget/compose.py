"""What several releases cost together: the most that any one workplace meets.

Prices add up, except over disjoint sets of workplaces: a step changes one workplace, and a table
whose filter leaves that workplace out does not see it.  So the price of all tables together is the
greatest sum, over all combinations of public attributes that a workplace can have, of the prices
of the tables that keep it.  Which workers a filter keeps is of no help: one step may change them
all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee, sum_of
from eree.policy.neighbours import Neighbours
from eree.policy.schema import Schema, Value

#: Combinations of filters that are looked at before prices are simply added up.
_MOST_COMBINATIONS = 200_000


@dataclass(frozen=True)
class Charge:
    """The price of one table, and the workplaces that its filter keeps.

    `kept` gives the values that the filter keeps of each public column of workplaces it looks at.
    """

    name: str
    price: Guarantee
    kept: Mapping[str, frozenset[Value]] = field(default_factory=dict)


def kept_workplaces(
    schema: Schema, where: Mapping[str, tuple[Value, ...]]
) -> dict[str, frozenset[Value]]:
    """What a filter keeps of workplaces, as values of their columns; groups are taken apart."""
    kept: dict[str, frozenset[Value]] = {}
    for name, values in where.items():
        attribute = schema.attributes[name]
        if attribute.owner != "workplace":
            continue
        column = schema.column(name).name
        fine = (
            frozenset(v for v, group in attribute.members.items() if group in values)
            if attribute.of
            else frozenset(values)
        )
        kept[column] = kept.get(column, fine) & fine
    return kept


def share_nothing(
    one: Mapping[str, frozenset[Value]], other: Mapping[str, frozenset[Value]]
) -> bool:
    """Whether two filters keep no workplace in common, for want of a value of some column."""
    return any(not one[column] & other[column] for column in one.keys() & other.keys())


def together(charges: Sequence[Charge], neighbours: Neighbours) -> Guarantee:
    """The price of all charges together, under the relation that they were made for."""
    if any(charge.price.neighbours != neighbours for charge in charges):
        raise Refusal("prices under different neighbours cannot be added; bring them to one")
    columns = sorted({column for charge in charges for column in charge.kept})
    left = [_MOST_COMBINATIONS]
    return sum_of(neighbours, *_most(tuple(charges), tuple(columns), left))


def _most(
    charges: tuple[Charge, ...], columns: tuple[str, ...], left: list[int]
) -> tuple[Fraction, Fraction]:
    """The greatest sums of epsilon and of delta that one workplace can meet."""
    left[0] -= 1
    plain = (
        sum((charge.price.epsilon for charge in charges), Fraction(0)),
        sum((charge.price.delta for charge in charges), Fraction(0)),
    )
    if not columns or left[0] < 0:  # too many combinations: the plain sum is never too little
        return plain
    column, rest = columns[0], columns[1:]
    free = frozenset(i for i, charge in enumerate(charges) if column not in charge.kept)
    values = {value for charge in charges for value in charge.kept.get(column, ())}
    meeting = {free} | {
        free | {i for i, charge in enumerate(charges) if value in charge.kept.get(column, ())}
        for value in values
    }
    largest = [one for one in meeting if not any(one < other for other in meeting)]
    found = [_most(tuple(charges[i] for i in sorted(one)), rest, left) for one in largest]
    return max(e for e, _ in found), max(d for _, d in found)
