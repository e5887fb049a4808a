"""Selected cases meet every value, and all pairs between properties that share them."""

from __future__ import annotations

from itertools import product

import pytest

import selection
from selection import combinations


@pytest.mark.parametrize(
    ("first", "second", "each"), [(15, 5, 2), (5, 11, 3), (2, 5, 3), (4, 4, 1)]
)
def test_every_value_is_met(first: int, second: int, each: int) -> None:
    cases = combinations(range(first), range(second), each=each)
    assert len(cases) == len(set(cases)) == first * each or selection.EVERYTHING
    for place, values in enumerate((first, second)):
        assert {case[place] for case in cases} == set(range(values))


def test_two_properties_share_all_pairs() -> None:
    one = combinations(range(15), range(5), each=2)
    other = combinations(range(15), range(5), each=3, start=2)
    assert {*one, *other} == set(product(range(15), range(5)))


def test_torture_takes_every_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EVERYTHING", True)
    assert combinations("ab", [(1, 2), (3, 4)], each=1) == [
        ("a", 1, 2),
        ("a", 3, 4),
        ("b", 1, 2),
        ("b", 3, 4),
    ]
    assert selection.examples(5, torture=70).max_examples == 70


def test_a_selection_that_would_leave_a_value_out_is_an_error() -> None:
    with pytest.raises(AssertionError, match="never be met"):
        combinations(range(2), range(5), each=2)
