"""The staircase far out and cut off: no probability is lost, and no fault is overlooked."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from eree.cells import Cell
from eree.mechanisms.mechanism import LIMIT
from eree.mechanisms.staircase.certificate import (
    certify_staircase,
    far_loss,
    probabilities_agree,
    worst_loss,
)
from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.exact_density import Side
from eree.mechanisms.staircase.pieces import Table, integer_moments, point_moments, scaled_norms
from eree.random.exact import exactly
from staircases import broken, probabilities_of, staircase, with_distribution


@pytest.mark.parametrize(("epsilon", "size"), [("1", 0), ("2", 20), ("4", 5_000)])
def test_probabilities_far_out_keep_their_digits(epsilon: str, size: int) -> None:
    """Against the density in doubles, where one piece holds all that is rounded to an output."""
    chosen = staircase("0.1", epsilon)
    densities = chosen.densities
    size_bin = densities.grid.bin_of(size)
    for side, part in zip(
        (1, -1), densities.whole_sides(densities.shape_of(size_bin)[0], 1e19), strict=True
    ):
        for away in (10**13, 3 * 10**16):
            i = int(np.searchsorted(part.edge, away / densities.scale(size_bin)))
            middle = round((part.edge[i - 1] + part.edge[i]) / 2 * densities.scale(size_bin))
            found = chosen.log_pmf(Cell(size, size), size + side * middle)
            expected = part.log_density[i] - math.log(densities.scale(size_bin))
            assert found == pytest.approx(expected, rel=1e-13)


def test_outputs_at_the_limit_have_all_that_lies_beyond() -> None:
    chosen = staircase()
    for output, side in ((LIMIT, 1), (-LIMIT, -1)):
        with exactly():
            tail = chosen.distribution(np.array([5])).tail(LIMIT - side * 5, side, 0)
            assert chosen.pmf(Cell(5), output).overlaps(tail)
        assert chosen.pmf(Cell(5), 2 * output) == 0


@pytest.mark.parametrize(("alpha", "epsilon"), [("0.1", "1"), ("0.05", "0.8")])
def test_the_certificate_holds_where_epsilon_is_small(alpha: str, epsilon: str) -> None:
    certificate = certify_staircase(staircase(alpha, epsilon))
    assert certificate.holds
    assert certificate.found_epsilon == pytest.approx(float(Fraction(epsilon)), rel=1e-5)


class FarFromRight(StaircaseDensities):
    """Densities that are a tenth too low beyond a distance that no table covers."""

    def whole_sides(self, size_bin: int, distance: float) -> tuple[Side, Side]:
        def lower(side: Side) -> Side:
            far = np.where(side.edge > 1e12, math.log(0.9), 0.0)
            return replace(side, log_density=side.log_density + far)

        right, left = super().whole_sides(size_bin, distance)
        return (lower(right), left) if size_bin == 20 else (right, left)


def test_a_density_that_is_wrong_far_out_is_found() -> None:
    sound = staircase().densities
    wrong = FarFromRight(sound.grid, sound.drop, sound.levels)
    wrong.__dict__["_tables"] = dict(enumerate(sound.tables(np.arange(sound.levels.last + 1))))
    assert far_loss(broken(wrong), [20]).found > 2.05
    assert far_loss(broken(wrong), [30]).found <= 2
    assert worst_loss(broken(wrong)).found <= 2


def test_all_outputs_there_are_are_looked_at() -> None:
    densities = staircase().densities
    for size_bin in (0, 20, densities.levels.last):
        right, left = densities.whole_sides(size_bin, 4.0 * LIMIT)
        for side in (right, left):
            assert side.edge[-1] > LIMIT
            assert (np.diff(side.edge) > 0).all()
            assert (np.diff(side.log_density) < 0).all()


@pytest.mark.parametrize(
    ("alpha", "epsilon"), [("0.1", "1"), ("0.1", "4"), ("0.5", "2.1"), ("0.001", "0.8")]
)
def test_what_lies_beyond_the_pieces_is_bounded_and_rare(alpha: str, epsilon: str) -> None:
    """Draws trust the bound: against the exact probability of all that lies further out."""
    chosen = staircase(alpha, epsilon)
    densities = chosen.densities
    bins = np.array([0, 1, 20, 45, 100, densities.levels.last // 2, densities.levels.last])
    tops = densities.grid.numbers(int(bins.max()) + 1).top
    for size_bin, table in zip(bins, densities.tables(bins), strict=True):
        size = int(tops[size_bin])
        beyond = sum(
            float(chosen.tail(Cell(size), math.ceil(end) + 1, side))
            for side, end in ((1, table.edges[-1]), (-1, -table.edges[0]))
        )
        assert beyond < table.tail_bound < 2.0**-26


@pytest.mark.parametrize("size", [7, 33, 140])
def test_pieces_that_are_not_the_exact_ones_are_found_at_every_size(size: int) -> None:
    """A density that is a millionth off, and one of which a hundred-thousandth is missing."""

    def tilted(table: Table) -> Table:
        masses = table.density * np.diff(table.edges)
        right = table.edges[:-1] > 0
        more = 1 + 1e-6 * np.where(right, 1.0, -masses[right].sum() / masses[~right].sum())
        return replace(table, density=table.density * more)

    assert not probabilities_agree(with_distribution(size, tilted))
    assert not probabilities_agree(
        with_distribution(size, lambda t: replace(t, density=t.density * (1 - 1e-5)))
    )


def test_ways_of_more_steps_than_are_listed_change_no_density() -> None:
    sound = staircase().densities
    more = StaircaseDensities(sound.grid, sound.drop, sound.levels)
    more.__dict__["spare"] = sound.spare + 6
    bins = np.arange(0, sound.levels.last + 1, 5)
    for mine, theirs in zip(sound.tables(bins), more.tables(bins), strict=True):
        probability = np.append(0.0, np.cumsum(theirs.density * np.diff(theirs.edges)))
        seen = np.append(0.0, np.cumsum(mine.density * np.diff(mine.edges)))
        np.testing.assert_allclose(
            np.interp(theirs.edges, mine.edges, seen), probability, atol=1e-13
        )


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_means_and_moments_of_noise_that_is_cut_off_are_bounded(epsilon: str) -> None:
    """Probabilities of integers, cut off where half of `probability` is left on each side."""
    chosen, probability, orders = staircase("0.1", epsilon), 2.0**-12, np.arange(2.0, 25)
    for size in (0, 20, 33, 88, 640):
        spread = chosen.cut_moments(probability, np.array([size]), orders)
        most = int(chosen.half_width(1 - 1e-12, np.array([size]))[0])
        probabilities = probabilities_of(chosen, size, most + 1)
        k = np.arange(-most - 1, most + 2)
        below, above = np.cumsum(probabilities), np.cumsum(probabilities[::-1])[::-1]
        start, end = (below <= probability / 2).sum(), (above > probability / 2).sum()
        cut = np.zeros_like(probabilities)
        cut[start:end] = probabilities[start:end]
        cut[start] = below[start] - probability / 2  # the points beyond the cut count as 0
        cut[end - 1] -= probability / 2 - (above[end] if end < len(probabilities) else 0.0)
        cut[k == 0] += 1 - cut.sum()
        mean = (k * cut).sum()
        assert -spread.down[0] <= mean + 1e-6 and mean - 1e-6 <= spread.up[0]
        for order, norm in zip(orders, spread.norms[:, 0], strict=True):
            moment = abs(((k - mean) ** order * cut).sum())
            assert norm**order >= moment * (1 - 1e-4) - 1e-9, (size, order)
        if size == 0:  # there it is not a bound for all that are smaller, but the moment itself
            assert spread.norms[0, 0] ** 2 == pytest.approx(((k - mean) ** 2 * cut).sum(), rel=1e-4)


def test_moments_of_distributions_that_are_scaled_up_are_those_of_integers_and_a_little_more() -> (
    None
):
    densities, orders = staircase().densities, np.arange(2.0, 25)
    (table,) = densities.tables(np.array([densities.levels.last]))
    cut = 150.0, 190.0
    _, signed, sizes = point_moments(table, cut, orders)
    for scale in (3.0, 10.5, 40.2):
        _, norms = integer_moments(table, scale, cut, orders)
        bound = scaled_norms(signed, sizes, np.array([scale]), orders)[:, 0]
        assert (bound >= norms * (1 - 1e-9)).all()
        assert (bound <= norms * (1 + 1 / scale)).all()


def test_the_greatest_mean_is_a_bound_of_the_bias_for_the_largest_workplaces_too() -> None:
    chosen = staircase()
    for size in (5, 43, 79, 300, 10**4, 10**6, 10**8, 10**10):
        spread = chosen.cut_moments(2.0**-39, np.array([size]), np.arange(2.0, 25))
        assert -spread.down[0] <= chosen.bias(Cell(0, size)) <= spread.up[0]
