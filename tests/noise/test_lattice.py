"""Rows: joint probabilities, draws, and the fast path against the slow one, draw for draw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq_poly
from scipy import stats
from scipy.integrate import quad

from drawn_rows import check_fast_against_slow
from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.transformed.transform import Knots
from eree.mechanisms.vector.boxes import BoxPlateaus
from eree.mechanisms.vector.lattice import (
    VectorLatticePareto,
    points_at,
    points_within,
    weighted_sum,
    whole,
)
from eree.mechanisms.vector.radial_density import RoundedVectorRadial, VectorRadialShape
from eree.mechanisms.vector.transformed_rows import TransformedBoxes
from eree.mechanisms.vector.two_stage import LaplaceOfThousandths
from eree.random import exact
from eree.random.exact import Verdict, draw, draw_rows, near_choice, settle, sure_choice
from eree.random.source import SeededRandom
from selection import combinations

#: A right distribution fails a test of its draws less often than once in a million runs.
FALSE_ALARM = 1e-6
TENTH = Fraction(1, 10)
CURVE = Fraction(953, 10_000)
SIZES = [0, 1, 9, 10, 15, 37, 200, 4_000]


def noise_of(name: str, sizes: Any, width: int, stretch: Fraction = Fraction(1)) -> Any:
    """A distribution of rows; `sizes` has a number per group."""
    sizes = np.asarray(sizes, dtype=np.int64)
    match name:
        case "radial":
            shape = VectorRadialShape(Fraction(2), CURVE, width)
            return RoundedVectorRadial(Scales(sizes, TENTH, stretch), shape)
        case "boxes":
            counts = np.stack([sizes + 12 * i for i in range(width)], axis=1)
            transform = Knots((Fraction(0), Fraction(10)), (Fraction(1),), Fraction(1), CURVE)
            return TransformedBoxes(
                transform, counts, stretch, BoxPlateaus(Fraction(5, 4), Fraction(2), width)
            )
    return VectorLatticePareto(Scales(sizes, TENTH, stretch * 12), Fraction(2097, 100), width)


DISTRIBUTIONS = ["pareto", "radial", "boxes"]
every_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def probability(chosen: Any, row: tuple[int, ...]) -> float:
    return float(chosen.pmf(row, 0))


def classes(drawn: Any, most: int = 60) -> list[tuple[int, ...]]:
    """The rows that were drawn most often, and often enough."""
    seen = Counter(map(tuple, drawn.tolist()))
    return [row for row, times in seen.most_common(most) if times >= len(drawn) * 5e-4]


def fit(drawn: Any, chosen: Any, rows: list[tuple[int, ...]]) -> float:
    """The p-value of draws against joint probabilities of some rows, and of all others together."""
    seen = Counter(map(tuple, drawn.tolist()))
    probabilities = [probability(chosen, row) for row in rows]
    observed = [seen[row] for row in rows]
    observed.append(len(drawn) - sum(observed))
    expected = np.array([*probabilities, 1 - sum(probabilities)]) * len(drawn)
    assert expected.min() > 20
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize(
    ("name", "size", "width"),
    combinations(DISTRIBUTIONS, [(0, 2), (15, 2), (37, 2), (3, 3), (0, 4)], each=2),
)
def test_draws_follow_the_stated_joint_probabilities_and_no_others(
    name: str, size: int, width: int
) -> None:
    """The rows compared are those of one half of the draws; the other half is tested."""
    n = 200_000
    chosen = noise_of(name, [size] * 2 * n, width)
    drawn = draw_rows(chosen, 2 * n, SeededRandom(size))
    rows = classes(drawn[:n])
    assert fit(drawn[n:], chosen, rows) > FALSE_ALARM
    for stretch in (Fraction(9, 10), Fraction(11, 10)):
        assert fit(drawn[n:], noise_of(name, [size], width, stretch), rows) < FALSE_ALARM


@pytest.mark.parametrize(("name", "width"), combinations(DISTRIBUTIONS, [1, 3, 8, 20], each=2))
def test_the_fast_path_and_the_slow_path_agree_draw_for_draw(name: str, width: int) -> None:
    n = 600
    chosen = noise_of(name, [SIZES[i % len(SIZES)] for i in range(n)], min(width, 18))
    check_fast_against_slow(chosen, n)


@every_distribution
def test_draws_that_are_all_in_doubt_follow_the_distribution_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fast path that never dares, every draw takes the slow one."""
    sampled = draw_rows(noise_of(name, [5] * 30_000, 2), 30_000, SeededRandom(1))
    monkeypatch.setattr(exact, "COARSE", 1.0)
    n = 4_000
    chosen = noise_of(name, [5] * n, 2)
    assert fit(draw_rows(chosen, n, SeededRandom(2)), chosen, classes(sampled, 12)) > FALSE_ALARM


@every_distribution
def test_extreme_words_are_decided_and_finite(name: str) -> None:
    """All zeros and all ones, where a logarithm of a float would be lost."""
    chosen = noise_of(name, [0, 40_000], 3)
    for word in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        words = np.full((chosen.uniforms, 2), word, dtype=np.uint64)
        for group, verdict in enumerate(chosen.fast(words, np.arange(2))[1]):
            settled = settle(chosen, words[:, group], group, SeededRandom(word % 97))
            assert verdict in list(Verdict)
            assert settled is None or max(map(abs, settled)) < 10**60


@every_distribution
def test_one_number_of_a_row_has_the_probabilities_of_the_row_added_up(name: str) -> None:
    chosen = noise_of(name, [3], 2)
    most = 700 if name == "pareto" else 250
    spread = range(-most, most + 1)
    with ctx.workprec(120):
        for first in (0, 1, 4, 15):
            added = sum(probability(chosen, (first, other)) for other in spread)
            if name == "boxes":
                single = chosen.tail(first, 1, 3) - chosen.tail(first + 1, 1, 3)
            elif first:
                single = chosen.tail(first, 0) - chosen.tail(first + 1, 0)
            else:
                single = 1 - 2 * chosen.tail(1, 0)
            assert added == pytest.approx(float(single), rel=1e-6)


@every_distribution
def test_the_numbers_of_a_row_are_alike(name: str) -> None:
    """Any order and, around the centre, any signs have the same probability."""
    if name == "boxes":  # the same counts and one direction
        chosen = replace(noise_of(name, [0], 3), counts=np.zeros((1, 3), dtype=np.int64))
        rows = [(1, -2, 3), (3, 1, -2), (-3, -1, 2)]  # straight below 10, so both directions too
    else:
        chosen = noise_of(name, [15], 3)
        rows = [(1, -2, 3), (3, 1, -2), (-3, -1, -2), (2, 3, 1)]
    assert {round(1e12 * probability(chosen, row)) for row in rows} == {
        round(1e12 * probability(chosen, rows[0]))
    }


# ------------------------------------------------------------------------------ choices of numbers


def test_every_choice_of_numbers_is_as_likely_as_every_other() -> None:
    n, d = 200_000, 6
    for wanted in (1, 3, 5):
        words = SeededRandom(wanted).words(d * n).reshape(d, n)
        chosen, doubt = near_choice(words, np.full(n, float(wanted)))
        assert not doubt.any()
        assert (chosen.sum(axis=0) == wanted).all()
        seen = Counter(map(tuple, chosen.T.tolist()))
        assert len(seen) == math.comb(d, wanted)
        assert stats.chisquare(list(seen.values())).pvalue > FALSE_ALARM


def test_nothing_and_everything_are_chosen_without_doubt() -> None:
    wide = [arb("0.5", "0.5")] * 4
    assert sure_choice(wide, 0) == [False] * 4
    assert sure_choice(wide, 4) == [True] * 4
    with pytest.raises(exact.Doubt):
        sure_choice(wide, 2)


# ------------------------------------------------------------------------------ the lattice


def lattice(d: int, most: int) -> Iterator[tuple[int, ...]]:
    """All integer vectors up to a norm."""
    for row in product(range(-most, most + 1), repeat=d):
        if sum(map(abs, row)) <= most:
            yield row


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_lattice_points_are_counted(d: int) -> None:
    norms = Counter(sum(map(abs, row)) for row in lattice(d, 7))
    for m in range(1, 8):
        assert points_at(d)(m) == norms[m]
        assert points_within(d)(m) == sum(norms[i] for i in range(m + 1))
    assert points_within(d)(0) == 1
    assert points_within(0)(5) == 1


@pytest.mark.parametrize(("d", "m"), [(2, 3), (3, 1), (3, 2), (3, 4), (4, 2)])
def test_a_row_of_a_norm_is_any_of_that_norm(d: int, m: int) -> None:
    n = 300_000
    drawn = draw_rows(noise_of("pareto", [12] * n, d), n, SeededRandom(m))
    seen = Counter(map(tuple, drawn[np.abs(drawn).sum(axis=1) == m].tolist()))
    points = [row for row in lattice(d, m) if sum(map(abs, row)) == m]
    observed = [seen[row] for row in points]
    assert min(observed) > 20
    assert stats.chisquare(observed).pvalue > FALSE_ALARM


@pytest.mark.parametrize("size", [0, 15, 60])
def test_the_norm_of_a_row_has_its_distribution(size: int) -> None:
    """Norms weigh as many points as there are times the weight; d = 8, by an independent sum."""
    n, d = 100_000, 8
    chosen = noise_of("pareto", [size] * n, d)
    norms = np.abs(draw_rows(chosen, n, SeededRandom(size))).sum(axis=1)
    a, p = float(chosen.scales.of(0)), float(chosen.power)
    m = np.arange(1.0, 200_000.0)
    points = np.zeros_like(m)
    for j in range(1, d + 1):
        ways = np.ones_like(m)
        for i in range(j - 1):
            ways *= np.maximum(m - 1 - i, 0) / (i + 1)
        points += math.comb(d, j) * 2**j * ways
    weights = np.concatenate([[1.0], points * (1 + m / a) ** -p])
    probabilities = weights / weights.sum()
    cuts = np.unique(np.searchsorted(np.cumsum(probabilities), np.linspace(0.01, 0.99, 30)) + 1)
    expected = np.add.reduceat(probabilities, np.concatenate([[0], cuts])) * n
    observed = np.bincount(np.searchsorted(cuts, norms, side="right"), minlength=len(cuts) + 1)
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    assert float(whole(d, chosen.scales.of(0), chosen.power)) == pytest.approx(weights.sum())


def test_sums_over_the_lattice_are_those_of_its_points() -> None:
    a, p = Fraction(120, 7), Fraction(31)

    def weigh(m: int) -> float:
        return float((1 + m / float(a)) ** -31)

    for d, most in ((1, 600), (2, 90), (3, 30)):
        direct = sum(weigh(sum(map(abs, row))) for row in lattice(d, most))
        assert float(whole(d, a, p)) == pytest.approx(direct, rel=1e-6)
    for n in range(4):
        direct = sum(m**n * weigh(m) for m in range(3, 600))
        summed = weighted_sum(fmpq_poly([0] * n + [1]), 3, a, p)
        assert float(summed) == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize(
    ("d", "slope", "power"),
    [(1, "1/10", 42), (8, "88/1000", 42), (30, "7/1000", 400), (60, "1/100", "123/2"), (3, 1, 5)],
)
def test_probabilities_on_the_lattice_are_known_to_many_digits(
    d: int, slope: Any, power: Any
) -> None:
    with ctx.workprec(320):
        for size in (0, 15, 1_000, 10**6, 10**9):
            scales = Scales(np.array([size]), TENTH, 1 / Fraction(slope))
            chosen = VectorLatticePareto(scales, Fraction(power), d)
            for value in (chosen.moments(0)[0], chosen.tail(1, 0), chosen.tail(1_000, 0)):
                assert value.rel_accuracy_bits() > 280


# ------------------------------------------------------------------------------ the radial
# distribution


def weight(shape: VectorRadialShape, t: float) -> float:
    """The density by its slopes alone."""
    rate, curve, d = float(shape.rate), float(shape.curve), shape.width
    turn = d / rate
    inner = (rate - d * curve) / curve * math.log1p(-curve * min(t, turn))
    outer = (rate + d * curve) / curve * math.log((1 + curve * max(t, turn)) / (1 + curve * turn))
    return math.exp(inner - outer)


@pytest.mark.parametrize("d", [1, 2, 8])
def test_the_radial_distribution_is_the_integral_of_its_density(d: int) -> None:
    shape = VectorRadialShape(Fraction(2), CURVE, d)
    turn = d / 2

    def integral(power: int, start: float) -> float:
        """Of (t - start)^power times the density, from `start` on."""
        ends = [start, *(end for end in (turn, 4 * turn, 40 * turn, 4_000 * turn) if end > start)]
        return sum(
            quad(lambda t: (t - start) ** power * weight(shape, t), low, high, limit=400)[0]
            for low, high in pairwise(ends)
        )

    mass = integral(d - 1, 0.0)
    for n in (1, 2):
        moment = integral(d - 1 + n, 0.0) / mass
        assert float(shape.norm_moment(n)) == pytest.approx(moment, rel=1e-6)
    for x in (0.0, 0.3, 0.9 * turn, 1.5 * turn, 9 * turn):
        tail = integral(d - 1, x) / mass / 2
        stated = shape.tail_integral(arb(x)) / shape.tail_integral(arb(0)) / 2
        assert float(stated) == pytest.approx(tail, rel=1e-6)
        assert shape.near_tail(np.array([x]))[0] == pytest.approx(tail, rel=1e-6)


# ------------------------------------------------------------------------------ thousandths


@pytest.mark.parametrize("count", [0, 400, 1_500, 2_999, 70_000])
def test_scaled_counts_are_protected_with_their_thousandths(count: int) -> None:
    n = 200_000
    scale = Fraction(5, 3)
    which = np.zeros(n, dtype=np.intp)
    chosen = LaplaceOfThousandths(np.full(n, count), (scale,), which)
    drawn = draw(chosen, n, SeededRandom(count))
    centre = round(count / 1000)
    values = range(centre - 6, centre + 7)
    expected = np.array([float(chosen.pmf(value, 0)) for value in values])
    low, high = chosen.tail(centre - 7, -1, 0), chosen.tail(centre + 7, 1, 0)
    assert expected.sum() + float(low + high) == pytest.approx(1, abs=1e-12)
    seen = [(drawn == value).sum() for value in values]
    rest = n - sum(seen)
    p = stats.chisquare([*seen, rest], np.array([*expected, float(low + high)]) * n).pvalue
    assert p > FALSE_ALARM
    for off in (Fraction(9, 10), Fraction(11, 10)):
        other = LaplaceOfThousandths(np.array([count]), (scale * off,), which[:1])
        wrong = np.array([float(other.pmf(value, 0)) for value in values])
        p = stats.chisquare([*seen, rest], np.array([*wrong, 1 - wrong.sum()]) * n).pvalue
        assert p < FALSE_ALARM
    words = SeededRandom(3).words(1_000)
    values_, verdicts = chosen.fast(words[None, :], np.arange(1_000))
    for i in np.flatnonzero(verdicts == Verdict.ACCEPT):
        assert settle(chosen, words[None, i], int(i), SeededRandom(1)) == values_[i]
