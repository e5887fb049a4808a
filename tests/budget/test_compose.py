"""Prices of several tables: what brute force over all workplaces finds, and never less."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.budget.compose import Charge, share_nothing, together
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, Strong

STRONG = Strong("0.1")
COLUMNS = {"state": ("17", "18", "19"), "sector": ("11", "23")}


def charge(epsilon: object, delta: object = 0, **kept: set[str]) -> Charge:
    price = Guarantee(STRONG, epsilon, delta)
    return Charge("t", price, {name: frozenset(values) for name, values in kept.items()})


def test_one_table_for_each_state_costs_the_greatest() -> None:
    charges = [charge("1/2", state={"17"}), charge("1", state={"18"}), charge("1/3", state={"19"})]
    assert together(charges, STRONG).epsilon == 1


def test_overlapping_tables_add_up() -> None:
    assert together([charge(1), charge("1/2", state={"17"})], STRONG).epsilon == Fraction(3, 2)
    both = [charge(1, state={"17", "18"}), charge("1/2", state={"18", "19"})]
    assert together(both, STRONG).epsilon == Fraction(3, 2)


def test_filters_on_different_attributes_prove_nothing() -> None:
    assert together([charge(1, state={"17"}), charge(1, sector={"11"})], STRONG).epsilon == 2


def test_tables_that_meet_in_pairs_but_never_all_at_once() -> None:
    """Three sets of which every two share a state: no workplace is in all three."""
    ring = [
        charge(1, state={"17", "18"}),
        charge(1, state={"18", "19"}),
        charge(1, state={"17", "19"}),
    ]
    assert together(ring, STRONG).epsilon == 2


def test_a_filter_that_keeps_nothing_costs_nothing_beside_others() -> None:
    assert together([charge(3, state=set()), charge(1)], STRONG).epsilon == 1


def test_nothing_costs_nothing_and_relations_do_not_mix() -> None:
    assert together([], STRONG).epsilon == 0
    with pytest.raises(Refusal, match="different neighbours"):
        together([Charge("t", Guarantee(EDGE, 1))], STRONG)


def test_deltas_that_add_up_to_one_are_refused_and_not_clipped() -> None:
    """A little below 1 is no sum of theirs, and a ledger would pay less than was asked for."""
    half = Fraction(1, 2)
    words = "the deltas add up to 1, and with 1 or more nothing is promised"
    with pytest.raises(Refusal, match=words):
        together([charge(1, half), charge(1, half)], STRONG)
    with pytest.raises(Refusal, match=words):
        Guarantee(STRONG, 1, half) + Guarantee(STRONG, 1, half)
    below = together([charge(1, half), charge(1, half - Fraction(1, 10**30))], STRONG)
    assert below.delta == 1 - Fraction(1, 10**30)
    apart = [charge(1, half, state={"17"}), charge(1, half, state={"18"})]
    assert together(apart, STRONG).delta == half


def test_too_many_combinations_are_added_up() -> None:
    charges = [charge(1, **{f"c{i}": {str(i), str(i + 1)}, f"c{i + 1}": {"x"}}) for i in range(40)]
    assert 1 <= together(charges, STRONG).epsilon <= 40


kept = st.fixed_dictionaries(
    {},
    optional={
        name: st.frozensets(st.sampled_from([*values, "none such"]))
        for name, values in COLUMNS.items()
    },
)


@given(
    st.lists(st.tuples(kept, st.fractions(0, 3, max_denominator=7), st.integers(0, 9)), max_size=6)
)
def test_the_price_is_the_most_that_any_workplace_meets(
    tables: list[tuple[dict[str, frozenset[str]], Fraction, int]],
) -> None:
    charges = [
        Charge("t", Guarantee(STRONG, epsilon, Fraction(delta, 100)), filters)
        for filters, epsilon, delta in tables
    ]
    sums = []
    for place in product(*((*values, "none such", "other") for values in COLUMNS.values())):
        workplace = dict(zip(COLUMNS, place, strict=True))
        met = [c.price for c in charges if all(workplace[name] in v for name, v in c.kept.items())]
        sums.append((sum(p.epsilon for p in met), sum(p.delta for p in met)))
    found = together(charges, STRONG)
    assert found.epsilon == max(e for e, _ in sums)
    assert found.delta == max(d for _, d in sums)


@given(st.data())
def test_filters_share_nothing_if_no_workplace_passes_both(data: st.DataObject) -> None:
    kept = [
        {
            name: frozenset(data.draw(st.sets(st.sampled_from(values))))
            for name, values in COLUMNS.items()
            if data.draw(st.booleans())
        }
        for _ in range(2)
    ]
    workplaces = [dict(zip(COLUMNS, values, strict=True)) for values in product(*COLUMNS.values())]
    both = [w for w in workplaces if all(w[name] in one[name] for one in kept for name in one)]
    empty = any(not values for one in kept for values in one.values())
    assert share_nothing(*kept) == (not both) or empty
