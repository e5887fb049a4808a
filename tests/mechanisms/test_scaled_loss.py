"""The worst loss of scaled noise: its argument step by step, and brute force against its bound."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from cases import ONE_WEIGHT, cells, made
from eree.cells import Cell
from eree.mechanisms.scaled.certificate import OneStep, worst_loss
from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.scaled.radial import Radial
from eree.mechanisms.scaled.scaled import ScaledMechanism
from eree.policy.neighbours import Strong
from selection import combinations

every_pure = pytest.mark.parametrize("name", ONE_WEIGHT)


def scaled(name: str, *given: Any) -> ScaledMechanism:
    chosen = made(name, *given)
    assert isinstance(chosen, ScaledMechanism)
    return chosen


def shares(alpha: Fraction) -> list[Fraction]:
    """Paces of a scale: alpha, what radial noise needs, less than that, and more than alpha."""
    needed = Fraction(math.log1p(alpha))
    return [alpha, needed, alpha / (1 + alpha), needed * Fraction(9, 10), alpha * Fraction(5, 4)]


@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(29, 100), Fraction(1, 3), Fraction(2)])
def test_neighbours_are_a_shift_and_a_ratio_as_the_bound_says(alpha: Fraction) -> None:
    x, after, joined = np.array(list(cells(alpha, 120 if alpha < 1 else 50)), dtype=np.float64).T
    for pace in shares(alpha):
        step = OneStep(float(alpha), float(pace))
        before_scale, after_scale = (np.maximum(float(pace) * size, 1) for size in (x, after))
        rho, ratio = joined / before_scale, after_scale / before_scale
        most = step.most_shift(ratio)
        assert (ratio >= 1).all()
        assert (ratio <= step.most_ratio * (1 + 1e-12)).all()
        assert (rho <= most * (1 + 1e-12)).all()
        assert (rho / most).max() > 0.999
        assert pace > alpha or (ratio / step.most_ratio).max() > 0.99
        if pace == alpha:
            assert step.most_ratio == float(1 + alpha)
            assert step.most_shift(np.array([1.0, 1 + float(alpha)])) == pytest.approx([1, 1])


@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(29, 100), Fraction(1, 3), Fraction(2)])
def test_no_step_takes_more_than_unit_time_as_the_radial_proof_says(alpha: Fraction) -> None:
    """Time passes as workers join over the scale of the largest workplace so far."""
    b = math.log1p(alpha)

    def until(u: float) -> float:
        """The integral of 1 / max(b u, 1) from 0."""
        return u if b * u <= 1 else 1 / b + math.log(b * u) / b

    worst, short = 0.0, 0.0
    growth = Strong(alpha).growth
    for x in range(90):
        for y in range(x + 1):
            for joined in range(1, growth(y) + 1):
                stays = min(max(x - y, 0), joined) / max(b * x, 1)
                grows = until(y + joined) - until(x) if y + joined > x else 0.0
                assert stays + grows <= until(y + joined) - until(y) + 1e-12
                worst = max(worst, stays + grows)
                short = max(short, (stays + grows) if x > 2 * y else 0.0)
    assert 1 - 1e-3 < worst <= 1 + 1e-12
    assert 0 < short <= 1


def test_the_scale_of_the_radial_distribution_is_the_smaller_one() -> None:
    """ln(1 + alpha) x where others have alpha x, and 1 up to 1 / ln(1 + alpha) workers."""
    chosen: Any = made("radial")
    assert chosen.pace == chosen.curve
    assert 0 <= chosen.pace - Fraction(math.log1p(0.1)) < Fraction(1, 2**39)
    assert scaled("smooth-pareto").pace == Fraction(1, 10)
    turn = chosen.power_from

    def moment(n: int) -> float:
        def density(t: float) -> float:
            return float(t**n * np.exp(chosen.log_weight(np.array([t]))[0]))

        return quad(density, 0, turn)[0] + quad(density, turn, np.inf)[0]

    mean = moment(1) / moment(0)
    for size in (10**5, 10**6):
        scale = size * math.log1p(0.1)
        assert chosen.real_error(Cell(0, size))[0] == pytest.approx(scale * mean, rel=1e-6)
        assert chosen.mean_error(Cell(0, size))[0] == pytest.approx(scale * mean, rel=1e-6)
    assert chosen.real_error(Cell(0, 10))[0] == pytest.approx(mean, rel=1e-6)
    assert chosen.real_error(Cell(0, 11))[0] == pytest.approx(11 * math.log1p(0.1) * mean, rel=1e-6)


@every_pure
def test_the_bound_is_tight(name: str) -> None:
    """Whole cells come as near to it as doubles can tell."""
    certificate = scaled(name).certify()
    assert 0 <= certificate.found_epsilon - certificate.worst_pair.loss < 1e-6


def test_the_losses_known_from_theory_are_found() -> None:
    assert scaled("smooth-gamma").certify().found_epsilon == pytest.approx(0.863, abs=5e-4)
    assert scaled("smooth-pareto").certify().found_epsilon == pytest.approx(2, abs=2e-5)


@pytest.mark.parametrize(
    ("name", "alpha", "epsilon"),
    combinations(ONE_WEIGHT, [("0.1", "2"), ("0.2", "1.5"), ("0.05", "0.5")], each=1),
)
def test_random_shifts_and_ratios_lose_no_more_than_was_found(
    name: str, alpha: str, epsilon: str
) -> None:
    """Any real scale, shift and ratio that neighbours can have, and any output."""
    chosen = scaled(name, alpha, epsilon)
    found = chosen.certify().found_epsilon
    rng = np.random.default_rng(8)
    k = np.arange(1.0, 60_000.0)
    low, high = chosen.normaliser_elasticity()
    worst = 0.0
    for _ in range(300):
        scale = 10 ** rng.uniform(0, 2.5)
        ratio = 1 + float(alpha) * rng.choice([0.0, 1.0, rng.uniform(0, 1)])
        rho = float(chosen.one_step.most_shift(ratio)) * rng.choice([1.0, rng.uniform(0, 1)])
        growth = math.log(ratio)
        if name == "smooth-pareto":
            sums = [1 + 2 * np.exp(chosen.log_weight(k / s)).sum() for s in (scale, ratio * scale)]
            growth = math.log(sums[1] / sums[0])
        assert low * math.log(ratio) - 1e-4 <= growth <= high * math.log(ratio) + 1e-4
        t = np.concatenate([rng.normal(0, 3, 200), 10 ** rng.uniform(-3, 3, 200), [0.0, rho]])
        old = chosen.log_weight(np.abs(t))
        loss = old - chosen.log_weight(np.abs(t - rho) / ratio) + growth
        worst = max(worst, float(np.abs(loss).max()))
    assert 0.9 * found < worst <= found + 1e-4


@every_pure
def test_the_shift_drops_out_as_the_bound_argues(name: str) -> None:
    """F left of the old centre and G right of the new one are the greatest, and grow with rho."""
    chosen = scaled(name)
    rng = np.random.default_rng(3)
    weight = chosen.log_weight
    for _ in range(400):
        small, rho = np.sort(rng.uniform(0, 1.06, 2))
        ratio = 1 + 0.1 * rng.uniform(0, 1)
        a = 10 ** rng.uniform(-2, 3, 50)  # distance beyond a centre
        s = rng.uniform(0, small, 50)  # distance between the centres
        for less, more in (
            (weight(a) - weight((a + small) / ratio), weight(a) - weight((a + rho) / ratio)),
            (weight(a / ratio) - weight(a + small), weight(a / ratio) - weight(a + rho)),
            # F between the centres, and F at the old one
            (
                weight(s) - weight((small - s) / ratio),
                -weight(small / ratio + 0 * s),
            ),
            # G between the centres, and G at the new one
            (weight(s / ratio) - weight(small - s), -weight(small + 0 * s)),
            # G left of the old centre, and G as far right of the new one
            (weight((a + small) / ratio) - weight(a), weight(a / ratio) - weight(a + small)),
        ):
            assert (less <= more + 1e-12).all()
        assert (weight(a + small) - weight(a / ratio) <= 0).all()  # F right of the new centre


@pytest.mark.parametrize(("alpha", "epsilon"), [("0.1", "2"), ("0.1", "0.3"), ("0.3", "0.5")])
def test_the_losses_are_monotone_where_the_weight_is_a_power_at_both_points(
    alpha: str, epsilon: str
) -> None:
    chosen = scaled("radial", alpha, epsilon)
    turn, most = chosen.power_from, chosen.one_step.most_ratio
    assert chosen.power_until == turn
    for ratio in np.linspace(1, most, 7):
        shift = float(chosen.one_step.most_shift(ratio))
        for a in (np.linspace(0, turn, 3_000), turn * most + np.geomspace(1e-3, 1e3, 3_000)):
            for first, second in ((a, (a + shift) / ratio), (a / ratio, a + shift)):
                inside = (second <= turn) if a[0] == 0 else (np.minimum(first, second) >= turn)
                steps = np.diff((chosen.log_weight(first) - chosen.log_weight(second))[inside])
                assert (steps >= -1e-12).all() or (steps <= 1e-12).all()


@every_pure
def test_far_out_the_weight_falls_no_more_than_the_distribution_says(name: str) -> None:
    chosen = scaled(name)
    rng = np.random.default_rng(4)
    for near in (chosen.far, chosen.far / 1.1, 10 * chosen.far):
        x = near * 10 ** rng.uniform(0, 4, 4_000)
        for stretch in (0.9, 1.0, 1.03, 1.1):
            for shift in (0.95, 1.0, 1.05):
                drop = chosen.log_weight(x) - chosen.log_weight(stretch * x + shift)
                most = chosen.most_drop(np.array([stretch]), near, np.array([shift]))
                assert (drop <= most + 1e-9).all()


def test_a_distribution_without_a_bound_on_dilation_is_caught() -> None:
    """Laplace noise of scale S has no finite loss when the scale changes: pure privacy fails."""
    assert worst_loss(scaled("smooth-laplace"), OneStep(0.1, 0.1)).found == math.inf


def without_floor(chosen: ScaledMechanism) -> ScaledMechanism:
    """The same distribution with S = pace x, not at least 1."""

    class Sunk(type(chosen)):
        def distribution(self, largests: Any) -> Any:
            distribution = super().distribution(largests)
            object.__setattr__(distribution, "scales", Unfloored(distribution.scales))
            return distribution

    class Unfloored:
        def __init__(self, scales: Any) -> None:
            self.__dict__.update(vars(scales))

        def of(self, cell: int) -> Fraction:
            return max(self.pace * int(self.sizes[cell]), Fraction(1, 1000)) * self.factor

    return Sunk(*(getattr(chosen, field.name) for field in fields(chosen)))


@every_pure
def test_a_scale_a_tenth_too_small_is_caught(name: str) -> None:
    chosen = made(name)
    match name:
        case "smooth-pareto":
            wrong = replace(chosen, slope=chosen.slope * Fraction(10, 9))
        case "smooth-gamma" | "smooth-gamma-tight":
            wrong = replace(chosen, width=Fraction(3**0.75) / 2)
        case _:
            wrong = replace(chosen, rate=chosen.rate * Fraction(10, 9))
    certificate = wrong.certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2


def test_a_power_that_forgets_dilation_is_caught() -> None:
    chosen: Any = made("smooth-pareto")
    for wrong in (
        replace(chosen, power=chosen.power * Fraction(11, 10)),
        replace(made("radial"), curve=Fraction(4, 100)),
    ):
        assert not wrong.certify().holds


@pytest.mark.parametrize(
    ("share", "least"), [(Fraction(9, 10), 2.1), (Fraction(10, 11) / Fraction(953102, 10**6), 2.05)]
)
def test_a_radial_distribution_whose_scale_grows_too_slowly_is_caught(
    share: Fraction, least: float
) -> None:
    """A tenth less than ln(1 + alpha) x, and alpha / (1 + alpha) x: what can have joined it."""

    class Slow(Radial):
        @property
        def pace(self) -> Fraction:
            return self.curve * share

    wrong = Slow.calibrate(made("radial").guarantee)
    certificate = wrong.certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > least
    assert certificate.found_epsilon >= certificate.worst_pair.loss


def test_a_radial_distribution_drawn_at_another_scale_than_it_says_is_caught() -> None:
    class Other(Radial):
        def scales(self, largests: Any, factor: Fraction) -> Scales:
            return Scales(largests, self.curve * Fraction(99, 100), factor)

    assert not Other.calibrate(made("radial").guarantee).certify().holds


@every_pure
def test_a_missing_floor_is_caught(name: str) -> None:
    """With S = pace x one worker who joins one other is no longer protected."""
    certificate = without_floor(scaled(name)).certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2


@pytest.mark.parametrize("name", ONE_WEIGHT)
def test_probabilities_of_another_scale_than_the_distribution_says_are_caught(name: str) -> None:
    """S = floor(alpha x) agrees at multiples of 1 / alpha, and loses 14 from 19 to 20 workers."""
    chosen = scaled(name)

    class Floored(type(chosen)):
        def distribution(self, largests: Any) -> Any:
            return super().distribution(np.asarray(largests) // 10 * 10)

    wrong = Floored(*(getattr(chosen, field.name) for field in fields(chosen)))
    assert not wrong.certify().holds


@pytest.mark.parametrize("name", ONE_WEIGHT)
def test_a_scale_that_stops_growing_is_caught(name: str) -> None:
    """From 50,000 workers on, noise no longer grows, and a step of 10% is soon wider than it."""
    chosen = scaled(name)

    class Capped(type(chosen)):
        def distribution(self, largests: Any) -> Any:
            return super().distribution(np.minimum(np.asarray(largests), 50_000))

    wrong = Capped(*(getattr(chosen, field.name) for field in fields(chosen)))
    assert not wrong.certify().holds


@pytest.mark.parametrize(
    ("name", "alpha", "epsilon"),
    [
        ("smooth-pareto", "0.1", "12"),
        ("smooth-pareto", "0.001", "4"),
        ("smooth-pareto", "0.1", "0.1907"),
        ("smooth-pareto", "1", "1.4"),
        ("smooth-pareto", "0.00001", "1"),
        ("radial", "5", "2"),
        ("radial", "10", "2.41"),
        ("radial", "0.1", "400"),
        ("smooth-laplace", "0.9", "20"),
        ("smooth-laplace", "20", "1"),
        ("smooth-laplace", "0.001", "100"),
        ("smooth-laplace-exact", "1", "1"),
        ("smooth-laplace-exact", "0.15", "0.279525"),
    ],
)
def test_claims_hold_at_the_ends_of_what_is_allowed(name: str, alpha: str, epsilon: str) -> None:
    assert made(name, alpha, epsilon).certify().holds
