"""Neighbour relations against their definitions, by brute force."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.policy.neighbours import (
    EDGE,
    ESTABLISHMENT,
    NODE,
    RECORD,
    Neighbours,
    Strong,
    Weak,
    distance,
    exact,
    implies,
    plain,
    steps_between,
)

alphas = st.fractions(Fraction(1, 100), 2, max_denominator=100)
histograms = st.lists(st.integers(0, 40), min_size=1, max_size=4)
growths = st.lists(st.integers(0, 5), min_size=4, max_size=4)


def weak_by_definition(alpha: Fraction, before: list[int], joined: list[int]) -> bool:
    types = range(len(before))
    sets = [c for r in range(1, len(before) + 1) for c in combinations(types, r)]
    return any(joined) and all(
        sum(joined[i] for i in c) <= max(alpha * sum(before[i] for i in c), 1) for c in sets
    )


@given(alphas, histograms, growths)
def test_weak_neighbours_bound_every_set_of_types(
    alpha: Fraction, before: list[int], joined: list[int]
) -> None:
    joined = joined[: len(before)]
    after = [h + d for h, d in zip(before, joined, strict=True)]
    assert Weak(alpha, ["t"]).allows(before, after) == weak_by_definition(alpha, before, joined)
    if any(joined):
        assert not Weak(alpha, ["t"]).allows(after, before)


@given(alphas, histograms, growths)
def test_strong_neighbours_bound_the_size_alone(
    alpha: Fraction, before: list[int], joined: list[int]
) -> None:
    after = [h + d for h, d in zip(before, joined, strict=False)]
    size, grown = sum(before), sum(after)
    expected = size < grown <= max((1 + alpha) * size, size + 1)
    assert Strong(alpha).allows(before, after) == expected


def test_growth_is_exact_where_floats_are_not() -> None:
    assert int(0.29 * 100) == 28
    assert Strong("0.29").growth(100) == 29
    assert [Strong("0.1").growth(x) for x in (0, 1, 9, 10, 19, 20, 30)] == [1, 1, 1, 1, 1, 2, 3]


relations: list[Neighbours] = [
    EDGE,
    NODE,
    Strong("1/10"),
    Strong("1/2"),
    Weak("1/10", ["sex"]),
    Weak("1/2", ["sex"]),
    Weak("1/2", ["sex", "age"]),
]


def spread(relation: Neighbours, joint: list[int]) -> list[int]:
    """A histogram over sex × age as the relation sees it."""
    if isinstance(relation, Weak) and relation.types == ("sex",):
        return [joint[0] + joint[1], joint[2] + joint[3]]
    return joint


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), growths)
def test_what_is_implied_has_no_neighbours_that_the_paid_relation_lacks(
    before: list[int], joined: list[int]
) -> None:
    after = [h + d for h, d in zip(before, joined, strict=True)]
    for paid, wanted in product(relations, relations):
        if implies(paid, wanted) and wanted.allows(spread(wanted, before), spread(wanted, after)):
            # coarser types may see no change at all: then nothing has to be hidden
            seen = spread(paid, before), spread(paid, after)
            assert paid.allows(*seen) or seen[0] == seen[1]


WITNESSES = {  # paid does not imply wanted: one step of wanted that paid does not allow
    (EDGE, Strong("1/10")): ([20, 0, 0, 0], [22, 0, 0, 0]),
    (Strong("1/10"), Strong("1/2")): ([20, 0, 0, 0], [25, 0, 0, 0]),
    (Weak("1/2", ["sex"]), Strong("1/10")): ([99, 0, 1, 0], [99, 0, 5, 0]),
    (Weak("1/2", ["sex", "age"]), Weak("1/2", ["sex"])): ([9, 1, 0, 0], [9, 4, 0, 0]),
    (Strong("1/2"), NODE): ([1, 0, 0, 0], [9, 0, 0, 0]),
}


@pytest.mark.parametrize(("pair", "step"), WITNESSES.items())
def test_what_is_not_implied_has_a_witness(
    pair: tuple[Neighbours, Neighbours], step: tuple[list[int], list[int]]
) -> None:
    paid, wanted = pair
    assert not implies(paid, wanted)
    assert wanted.allows(spread(wanted, step[0]), spread(wanted, step[1]))
    assert not paid.allows(spread(paid, step[0]), spread(paid, step[1]))


def test_every_relation_implies_itself_and_the_edge_and_node_implies_all() -> None:
    for relation in relations:
        assert implies(relation, relation)
        assert implies(relation, EDGE)
        assert implies(NODE, relation)


SURVEYED: list[Neighbours] = [RECORD, ESTABLISHMENT]


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4), growths)
def test_survey_neighbours_imply_those_whose_steps_they_allow(
    before: list[int], joined: list[int]
) -> None:
    after = [h + d for h, d in zip(before, joined, strict=True)]
    for paid, wanted in product(SURVEYED, SURVEYED):
        if implies(paid, wanted):
            assert paid.allows(before, after) or not wanted.allows(before, after)
    assert not implies(RECORD, ESTABLISHMENT)
    assert ESTABLISHMENT.allows([0] * 4, joined) == any(joined)
    assert RECORD.allows([0] * 4, joined) == (sum(joined) == 1)
    assert ESTABLISHMENT.allows(before, after) == (
        any(joined) if not any(before) else sum(joined) == 1
    )
    assert RECORD.allows(before, after) == (sum(joined) == 1)
    assert not any(relation.allows(after, before) for relation in SURVEYED if any(joined))


def test_a_survey_and_linked_tables_promise_nothing_to_each_other() -> None:
    for surveyed, linked in product(SURVEYED, relations):
        assert not implies(surveyed, linked)
        assert not implies(linked, surveyed)


def shortest(relation: Strong, common: int, leave: int, join: int, others: int) -> int:
    """The policy distance by breadth-first search over who is present."""
    caps = (common, leave, join, others)
    start, goal = (common, leave, 0, 0), (common, 0, join, 0)
    seen, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        if here == goal:
            return seen[here]
        size = sum(here)
        up = product(*(range(cap - h + 1) for cap, h in zip(caps, here, strict=True)))
        down = product(*(range(-h, 1) for h in here))
        for move in (*up, *down):
            change = sum(move)
            smaller = min(size, size + change)
            if any(move) and abs(change) <= relation.growth(smaller):
                there = tuple(h + m for h, m in zip(here, move, strict=True))
                if there not in seen:
                    seen[there] = seen[here] + 1
                    queue.append(there)
    raise AssertionError("every workforce can be reached")


@pytest.mark.parametrize("alpha", ["1/3", "1/2", "3/2"])
def test_the_policy_distance_is_the_shortest_way(alpha: str) -> None:
    relation = Strong(alpha)
    for common, leave, join in product(range(6), range(4), range(4)):
        stay = {f"c{i}" for i in range(common)}
        first = frozenset(stay | {f"a{i}" for i in range(leave)})
        second = frozenset(stay | {f"b{i}" for i in range(join)})
        expected = shortest(relation, common, leave, join, others=2)
        assert distance(relation, {"w": first}, {"w": second}) == expected


def test_distances_add_up_over_workplaces_and_other_workplaces_are_out_of_reach() -> None:
    none, one = frozenset[str](), frozenset({"a"})
    assert distance(EDGE, {"v": none, "w": one}, {"v": one, "w": none}) == 2
    assert distance(NODE, {"v": none}, {"v": one}) == 1
    assert distance(Strong("0.1"), {"v": none}, {"w": none}) is None


def test_steps_between_sizes() -> None:
    assert steps_between(Strong("0.1"), 15, 18) == 3
    assert steps_between(Strong("0.1"), 100, 121) == 2
    assert steps_between(EDGE, 100, 121) == 21
    assert steps_between(NODE, 1, 10**9) == 1
    assert steps_between(NODE, 7, 7) == 0
    with pytest.raises(Refusal, match="the smaller one first"):
        steps_between(EDGE, 3, 2)


def test_parameters_are_exact_or_refused() -> None:
    assert exact("0.1", "alpha") + exact("0.2", "alpha") == exact("3/10", "alpha")
    for wrong in (0.1, True, None, "a lot", "1/0"):
        with pytest.raises(Refusal, match="alpha must be"):
            exact(wrong, "alpha")
    for zero in (0, "-1"):
        with pytest.raises(Refusal, match="alpha must be above 0"):
            Strong(zero)
    for types in ("sex", [], ["sex", "sex"]):
        with pytest.raises(Refusal, match="worker attributes as types"):
            Weak("0.1", types)
    assert Weak("0.1", ["sex", "age"]) == Weak("1/10", ["age", "sex"])


def test_exact_numbers_are_written_for_people() -> None:
    shown = {Fraction(5, 2): "2.5", Fraction(3): "3", Fraction(1, 3): "1/3", Fraction(0): "0"}
    shown |= {Fraction(1, 10**6): "0.000001", Fraction(-1, 8): "-0.125", Fraction(1, 2**40): ""}
    for value, text in shown.items():
        assert plain(value) == (text or str(value))
        assert Fraction(plain(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "1e999999999",
        "1E-99999",
        "1" * 2_100,
        "1e1_000_000",
        "1e\uff19\uff19\uff19\uff19\uff19\uff19\uff19\uff19\uff19",
    ],
)
def test_a_number_that_nobody_could_write_down_is_refused_at_once(text: str) -> None:
    with pytest.raises(Refusal, match="epsilon must be a number"):
        exact(text, "epsilon")
