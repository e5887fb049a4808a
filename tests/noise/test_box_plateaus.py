"""The staircase of boxes: its density, its probabilities and one of its numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from eree.mechanisms.vector.boxes import BoxPlateaus, _mean, best_first
from selection import combinations

Array = NDArray[np.float64]


def by_definition(plateaus: BoxPlateaus, box: list[tuple[float, float]]) -> float:
    """The integral of q^(s(up) + s(down)) over a box, from the definition alone.

    All axes are cut at the ends of plateaus; between cuts a number has one plateau above 0 and one
    below, and the greatest of them are those of up and down.
    """
    first, most = float(plateaus.first), 40
    ends = first + np.arange(most)
    lengths, ups, downs = [], [], []
    for low, high in box:
        inside = [cut for cut in (*-ends, 0.0, *ends) if low < cut < high]
        edges = np.unique([low, *inside, high])
        middle = (edges[1:] + edges[:-1]) / 2
        lengths.append(np.diff(edges))
        ups.append(np.ceil(np.maximum(middle - first, 0)))
        downs.append(np.ceil(np.maximum(-middle - first, 0)))

    def combined(parts: list[Array], how: Any) -> Array:
        total = parts[0]
        for part in parts[1:]:
            total = how.outer(total, part)
        return total

    sums = combined(ups, np.maximum) + combined(downs, np.maximum)
    weights = np.exp(-float(plateaus.drop) * sums)
    return float((combined(lengths, np.multiply) * weights).sum())


PLATEAUS = [
    (Fraction(1, 2), Fraction(2)),
    (Fraction(29, 32), Fraction(4)),
    (Fraction(5, 2), Fraction(1)),
    (Fraction(1, 9), Fraction(3, 2)),
]
in_rows = pytest.mark.parametrize(("first", "drop", "d"), combinations(PLATEAUS, [1, 2, 3], each=2))


@in_rows
def test_the_probability_of_a_box_is_the_integral_of_the_density(
    first: Fraction, drop: Fraction, d: int
) -> None:
    plateaus, rng = BoxPlateaus(first, drop, d), np.random.default_rng(d)
    whole = by_definition(plateaus, [(-38.0, 38.0)] * d)
    for width in (1.0, 0.3, 4.0):
        for _ in range(12):
            lows = np.round(rng.normal(0, 3, d) * 8) / 8
            box = [(float(low), float(low) + width) for low in lows]
            stated = plateaus.box([(arb(low), arb(high)) for low, high in box], [1] * d)
            assert float(stated) == pytest.approx(by_definition(plateaus, box) / whole, rel=1e-9)
    same = plateaus.box([(arb(-1), arb(2))], [d])
    assert float(same) == pytest.approx(
        by_definition(plateaus, [(-1.0, 2.0)] * d) / whole, rel=1e-9
    )


@in_rows
def test_one_number_has_the_tail_of_the_density(first: Fraction, drop: Fraction, d: int) -> None:
    plateaus = BoxPlateaus(first, drop, d)
    one = plateaus.one_number(plateaus.steps())
    whole = by_definition(plateaus, [(-38.0, 38.0)] * d)
    for x in (0.0, 0.05, float(first), float(first) + 1, 2.3, 6.0):
        beyond = by_definition(plateaus, [(x, 38.0), *[(-38.0, 38.0)] * (d - 1)]) / whole
        assert float(plateaus.tail(arb(x))) == pytest.approx(beyond, rel=1e-9)
        assert one.tail(np.array([x]))[0] == pytest.approx(beyond, rel=1e-9)
        assert one.tail(np.array([-x]))[0] == pytest.approx(1 - beyond, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "drop", "d"),
    [(*PLATEAUS[1], 8), (*PLATEAUS[2], 36), (Fraction(3), Fraction(1, 2), 5)],
)
def test_wide_distributions_agree_with_themselves(first: Fraction, drop: Fraction, d: int) -> None:
    """In doubles and in enclosures: tails, plateaus, moments and probabilities of the sides."""
    plateaus = BoxPlateaus(first, drop, d)
    one = plateaus.one_number(plateaus.steps())
    with ctx.workprec(320):
        for x in (0.0, 0.7, 3.4, 11.0, 60.0):
            exact = plateaus.tail(arb(x))
            assert exact.rel_accuracy_bits() > 250
            assert one.tail(np.array([x]))[0] == pytest.approx(float(exact), rel=1e-9)
        low, high = (plateaus.tail(arb(x)) for x in (1.25, 1.0))
        alone = [(arb(1), arb("1.25")), (arb(-130), arb(130))]
        assert float(plateaus.box(alone, [1, d - 1])) == pytest.approx(float(high - low), rel=1e-9)
        assert abs(_mean(plateaus) - plateaus.moments[0]) < 1e-9
    near = np.arange(len(one.logs)) + one.first
    starts = np.concatenate([[0.0], near[:-1]])
    mass = 2 * np.exp(one.logs)
    assert (mass * (near - starts)).sum() == pytest.approx(1)
    assert (mass * (near**2 - starts**2) / 2).sum() == pytest.approx(plateaus.moments[0])
    assert (mass * (near**3 - starts**3) / 3).sum() == pytest.approx(plateaus.moments[1])
    beyond = 1 - np.cumsum(plateaus.probabilities)
    assert np.allclose(plateaus.tails, beyond[: len(plateaus.tails)], rtol=1e-6, atol=1e-12)
    assert plateaus.tails[-1] < 2.0**-20


def test_a_tail_that_begins_at_the_end_of_a_plateau_is_enclosed() -> None:
    """A ball around the end knows not on which side it lies."""
    plateaus = BoxPlateaus(Fraction(1, 3), Fraction(2), 3)
    for k in range(4):
        end = arb(1) / 3 + k
        around = plateaus.tail(end + arb(0, 1e-12))
        for x in (end - 1e-13, end + 1e-13):
            assert around.overlaps(plateaus.tail(x))
        assert around.rad() < 1e-10


@pytest.mark.parametrize(
    ("drop", "d"), combinations(["0.3", "1", "2", "4", "9"], [1, 2, 8, 40], each=1)
)
def test_no_other_first_of_its_grid_is_better(drop: str, d: int) -> None:
    best = best_first(Fraction(drop), d)
    least = BoxPlateaus(best, Fraction(drop), d).moments[0]
    for e in range(-9, 9):
        for i in range(16):
            other = Fraction(2) ** e * (16 + i) / 16
            assert least <= BoxPlateaus(other, Fraction(drop), d).moments[0] * (1 + 1e-9)
    assert least < (d + 2) / 3 / float(drop)  # what noise that falls evenly has


def test_one_number_alone_is_the_staircase_of_one_count() -> None:
    """For one cell the best first is known: 1 / (1 + e^(epsilon / 2)), of steps that are 1."""
    for drop in (1, 2, 4, 6):
        assert float(best_first(Fraction(drop), 1)) == pytest.approx(
            1 / (1 + np.exp(drop / 2)), rel=1 / 16
        )


def test_a_first_does_not_depend_on_what_doubles_round() -> None:
    """Where doubles leave several, enclosures decide; ties go to the lesser."""
    drop = Fraction(2)
    for d in (1, 8):
        best = BoxPlateaus(best_first(drop, d), drop, d)
        with ctx.workprec(128):
            means = [_mean(BoxPlateaus(best.first * f, drop, d)) for f in (Fraction(16, 17), 1)]
        assert means[1] < means[0]
