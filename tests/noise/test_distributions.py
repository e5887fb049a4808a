"""Draws against stated probabilities, and the fast path against the slow one, draw for draw."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb
from scipy import stats

from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.scaled.distributions import (
    LatticePareto,
    RoundedLaplace,
    RoundedQuartic,
    Scales,
)
from eree.mechanisms.scaled.radial import RadialShape, RoundedRadial
from eree.random import exact
from eree.random.exact import Doubt, Verdict, ball, draw, settle, sure_floor, sure_less, sure_round
from eree.random.source import SeededRandom
from selection import EVERYTHING, combinations

#: A right distribution fails a test of its draws less often than once in a million runs.
FALSE_ALARM = 1e-6
TENTH = Fraction(1, 10)
SIZES = [0, 1, 9, 10, 15, 37, 200, 4_000]


def noise_of(name: str, sizes: Any, stretch: Fraction = Fraction(1)) -> Any:
    sizes = np.asarray(sizes, dtype=np.int64)
    match name:
        case "laplace":
            return RoundedLaplace(Scales(sizes, TENTH, stretch * Fraction(2, 3)))
        case "quartic":
            return RoundedQuartic(Scales(sizes, TENTH, stretch * Fraction(3, 2)))
        case "radial":
            shape = RadialShape(Fraction(2), Fraction(953, 10_000))
            return RoundedRadial(Scales(sizes, TENTH, stretch), shape)
        case "geometric":
            return CappedGeometric(Fraction(1, 3) / stretch)
        case "capped":
            return CappedGeometric(Fraction(1, 3) / stretch, 40)
    return LatticePareto(Scales(sizes, TENTH, stretch * 10), Fraction(2097, 100))


DISTRIBUTIONS = ["laplace", "quartic", "pareto", "radial", "geometric", "capped"]
every_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def probabilities(chosen: Any, cuts: list[int]) -> np.ndarray[Any, Any]:
    """Probabilities of the classes of |noise| between cuts: 0, then from each cut to the next."""
    tails = [float(2 * chosen.tail(cut, 0)) for cut in cuts]
    return np.array([1 - tails[0], *(a - b for a, b in zip(tails, [*tails[1:], 0.0], strict=True))])


def fit(drawn: np.ndarray[Any, Any], chosen: Any, cuts: list[int]) -> float:
    """The p-value of draws against a distribution, over classes of |noise|."""
    observed = np.bincount(
        np.searchsorted(cuts, np.abs(drawn), side="right"), minlength=len(cuts) + 1
    )
    return float(stats.chisquare(observed, probabilities(chosen, cuts) * len(drawn)).pvalue)


def classes(chosen: Any) -> list[int]:
    """Cuts that leave at least one draw in a thousand in each class."""
    cuts = [1]
    while 2 * float(chosen.tail(2 * cuts[-1], 0)) > 2e-3:
        step = max(cuts[-1] // 4, 1)
        cuts.append(cuts[-1] + step)
    return cuts


@pytest.mark.parametrize(("name", "size"), combinations(DISTRIBUTIONS, SIZES, each=3))
def test_draws_follow_the_stated_probabilities_and_no_others(name: str, size: int) -> None:
    n = 200_000
    chosen = noise_of(name, [size] * n)
    drawn = draw(chosen, n, SeededRandom(size))
    cuts = classes(chosen)
    assert fit(drawn, chosen, cuts) > FALSE_ALARM
    for stretch in (Fraction(9, 10), Fraction(11, 10)):
        assert fit(drawn, noise_of(name, [size], stretch), cuts) < FALSE_ALARM
    signs = np.count_nonzero(drawn > 0), np.count_nonzero(drawn < 0)
    assert stats.binomtest(signs[0], sum(signs)).pvalue > FALSE_ALARM


@every_distribution
def test_the_fast_path_and_the_slow_path_agree_draw_for_draw(name: str) -> None:
    n = 20_000 if EVERYTHING else 1_600
    chosen = noise_of(name, [SIZES[i % len(SIZES)] for i in range(n)])
    words = SeededRandom(11).words(chosen.uniforms * n).reshape(chosen.uniforms, n)
    values, verdicts = chosen.fast(words, np.arange(n))
    for i in range(n):
        settled = settle(chosen, words[:, i], i, SeededRandom(i))
        if verdicts[i] == Verdict.ACCEPT:
            assert settled == values[i]
        elif verdicts[i] == Verdict.REJECT:
            assert settled is None
    assert np.count_nonzero(verdicts == Verdict.DOUBT) < 5


@every_distribution
def test_draws_that_are_all_in_doubt_follow_the_distribution_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fast path that never dares, every draw takes the slow one."""
    monkeypatch.setattr(exact, "COARSE", 1.0)
    n = 4_000
    chosen = noise_of(name, [37] * n)
    cuts = classes(chosen)[::2]
    assert fit(draw(chosen, n, SeededRandom(2)), chosen, cuts) > FALSE_ALARM


@every_distribution
def test_extreme_words_are_decided_and_finite(name: str) -> None:
    """All zeros and all ones, where a logarithm or a tangent of a float would be lost."""
    chosen = noise_of(name, [0, 40_000])
    for word in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        words = np.full((chosen.uniforms, 2), word, dtype=np.uint64)
        for cell, verdict in enumerate(chosen.fast(words, np.arange(2))[1]):
            settled = settle(chosen, words[:, cell], cell, SeededRandom(word % 97))
            assert verdict in list(Verdict)
            assert settled is None or abs(settled) < 10**30


@every_distribution
def test_probabilities_add_up_to_one(name: str) -> None:
    """The tail falls from below a half to nothing, and a step of it is a probability."""
    chosen = noise_of(name, [15])
    steps = [chosen.tail(k, 0) for k in range(1, 41)]
    assert all(a > b for a, b in pairwise(steps))
    assert arb(0) < steps[-1] < steps[0] < arb("0.5")


def test_the_lattice_distribution_has_its_shape() -> None:
    chosen = noise_of("pareto", [15])
    probability = [chosen.tail(k, 0) - chosen.tail(k + 1, 0) for k in range(1, 5)]
    zero = 1 - 2 * chosen.tail(1, 0)
    scale, power = arb("15"), arb(2097) / 100
    for k, p in enumerate(probability, start=1):
        assert (p / zero).overlaps((1 + k / scale) ** -power)


def test_the_laplace_distribution_is_the_integral_of_its_density() -> None:
    chosen = noise_of("laplace", [0])
    probability = chosen.tail(2, 0) - chosen.tail(3, 0)
    scale = 2 / 3
    grid = np.linspace(1.5, 2.5, 100_001)
    assert float(probability) == pytest.approx(
        np.trapezoid(np.exp(-grid / scale) / (2 * scale), grid), rel=1e-9
    )


def test_the_quartic_distribution_is_the_integral_of_its_density() -> None:
    chosen = noise_of("quartic", [0])
    probability = chosen.tail(2, 0) - chosen.tail(3, 0)
    scale = 3 / 2
    grid = np.linspace(1.5, 2.5, 100_001)
    density = np.sqrt(2) / np.pi / scale / (1 + (grid / scale) ** 4)
    assert float(probability) == pytest.approx(np.trapezoid(density, grid), rel=1e-9)


def test_a_ball_holds_the_bits_it_was_made_of() -> None:
    for numerator, bits in ((0, 64), (2**64 - 1, 64), (12345, 128)):
        made = ball(numerator, bits)
        assert made.contains(arb(numerator) / arb(2) ** bits)
        assert made.contains(arb(numerator + 1) / arb(2) ** bits)
        assert not made.contains(arb(numerator + 2) / arb(2) ** bits)


def test_doubt_is_raised_rather_than_guessed() -> None:
    wide = arb(1, "0.1")
    for question in (
        lambda: sure_floor(wide),
        lambda: sure_round(wide + arb("0.5")),
        lambda: sure_less(wide, arb(1)),
    ):
        with pytest.raises(Doubt):
            question()
    assert (sure_round(wide), sure_floor(arb("-0.5")), sure_less(wide, arb(2))) == (1, -1, True)


def test_scales_are_exact_where_floats_are_not() -> None:
    scales = Scales(np.array([100, 3]), Fraction(29, 100), Fraction(1))
    assert scales.of(0) == 29
    assert scales.of(1) == 1
    assert scales.near(np.array([0, 1])).tolist() == pytest.approx([29.0, 1.0], rel=2.0**-50)


@pytest.mark.parametrize(
    ("name", "function", "argument"),
    [
        ("log", np.log, lambda u: u),
        ("expm1", np.expm1, lambda u: -np.log(u) / 3),
        ("log1p", np.log1p, lambda u: 1 / u - 1),
        ("exp", np.exp, lambda u: np.log(u)),
        ("tan", np.tan, lambda u: u * np.pi / 2),
    ],
)
def test_doubles_are_as_good_as_the_error_bounds_assume(
    name: str, function: Any, argument: Any
) -> None:
    """The bounds of the fast paths allow each function an error of 2^-49 of its value."""
    rng = np.random.default_rng(5)
    points = argument(np.concatenate([rng.random(4_000), 2.0 ** -rng.uniform(0, 20, 4_000)]))
    for point, value in zip(points.tolist(), function(points).tolist(), strict=True):
        truth = getattr(arb(point), name)()
        assert abs(arb(value) - truth) <= abs(truth) * arb(2) ** -49


class SameBits(SeededRandom):
    """A source that go on with the same word for ever."""

    def __init__(self, word: int) -> None:
        super().__init__(0)
        self.word = word

    def words(self, count: int) -> Any:
        return np.full(count, self.word, dtype=np.uint64)


@pytest.mark.parametrize("words", [(25604415781994, 290578899), (15915300113476, 112270071)])
def test_a_rejection_that_the_next_bits_decide_is_left_to_them(words: tuple[int, int]) -> None:
    """Far out the probability to accept is less than the last bits of a word can show."""
    chosen = RoundedQuartic(Scales(np.array([5]), TENTH, Fraction(3285, 1000)))
    row = np.array(words, dtype=np.uint64)[:, None]
    verdict = chosen.fast(row, np.array([0]))[1][0]
    ends = {settle(chosen, row[:, 0], 0, SameBits(word)) for word in (0, 2**64 - 1)}
    assert verdict == Verdict.DOUBT or len(ends) == 1
