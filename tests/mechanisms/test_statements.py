"""What is printed of a guarantee with a delta, against the exact probabilities of mechanisms."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flint import arb

import eree
from eree.cells import Cell
from eree.mechanisms.mechanism import Mechanism
from eree.policy.neighbours import Edge, Strong, exact
from eree.random.exact import exact_ball, exactly

#: Name, alpha and epsilon, delta, and whether more than the addend is the probability of more loss.
CASES = [
    ("smooth-laplace-exact", "0.1", "2", "0.0001", True),
    ("smooth-laplace-exact", "0.037", "0.7", "0.0001", True),
    ("smooth-laplace-exact", "0.31", "2.7", "0.001", True),
    ("smooth-laplace", "0.1", "2", None, False),
    ("smooth-laplace", "0.1", "1", None, False),
    ("capped-laplace", None, "1", "0.00003", False),
    ("capped-laplace", None, "0.3", "0.01", False),
]


def made(name: str, alpha: str | None, epsilon: str, delta: str | None) -> Mechanism:
    return eree.mechanism(name, alpha=alpha, epsilon=epsilon, delta=delta)


def neighbours(mechanism: Mechanism) -> Iterator[tuple[Cell, Cell]]:
    """Cells of one workplace that one step leads from and to."""
    relation = mechanism.guarantee.neighbours
    assert isinstance(relation, (Strong, Edge))
    for size in (0, 1, 30, 200):
        grown = size + relation.growth(size)
        yield Cell(size), Cell(grown)
        yield Cell(grown), Cell(size)


def excess(mechanism: Mechanism, one: Cell, other: Cell) -> tuple[arb, arb]:
    """The mass of one distribution beyond e^epsilon times the other, and where there is such: all
    outputs.

    Far out nothing comes back, so that all from there on is counted as mass: a little too much.
    """
    factor = exact_ball(mechanism.guarantee.epsilon).exp()
    middle = (one.count + other.count) // 2
    far = max(mechanism.quantile(1 - 1e-12, Cell(c.count, c.largest)) for c in (one, other))
    beyond, where = arb(0), arb(0)
    for output in range(middle - far, middle + far + 1):
        new, old = (mechanism.pmf(Cell(cell.count, cell.largest), output) for cell in (one, other))
        if new > factor * old:
            beyond += new - factor * old
            where += new
    ends = ((middle + far + 1, 1), (middle - far - 1, -1))
    rest = sum(
        (
            mechanism.tail(Cell(one.count, one.largest), side * (end - one.count), side)
            for end, side in ends
        ),
        arb(0),
    )
    return beyond + rest, where + rest


@pytest.mark.parametrize(("name", "alpha", "epsilon", "delta", "more"), CASES)
def test_the_printed_inequality_holds_and_no_more_is_said(
    name: str, alpha: str | None, epsilon: str, delta: str | None, more: bool
) -> None:
    """Every event: the worst one is where one distribution is above e^epsilon times the other."""
    mechanism = made(name, alpha, epsilon, delta)
    words = mechanism.guarantee.statements()[0].words
    stated = re.search(
        r"at most ([0-9.,e+]+) times .* plus ([0-9.e-]+); that does not bound", words
    )
    assert stated is not None, words
    addend = exact(stated[2], "addend")
    with exactly():
        assert exact_ball(mechanism.guarantee.epsilon).exp() <= exact_ball(
            exact(stated[1].replace(",", ""), "factor")
        )
        found = [excess(mechanism, *pair) for pair in neighbours(mechanism)]
        assert all(beyond <= exact_ball(addend) for beyond, _ in found)
        exceeded = max((where for _, where in found), key=float)
        if more:  # the words must not call this a probability of failure: it is many times as large
            assert exceeded > 4 * exact_ball(addend)
    for said in ("chance", "but for", "fail", "odds by at most"):
        assert said not in words


def test_the_probability_that_odds_change_by_more_is_eleven_times_delta() -> None:
    """What the page on promises says of smooth-laplace-exact: (1 + alpha) / alpha, here 11."""
    mechanism = made("smooth-laplace-exact", "0.1", "2", "0.0001")
    with exactly():
        _, where = excess(mechanism, Cell(550), Cell(500))
        assert 10.5e-4 < float(where) < 11.5e-4
