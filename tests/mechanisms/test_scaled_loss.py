"""The worst loss of scaled laws: its argument step by step, and brute force against its bound."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from cases import ONE_WEIGHT, cells, made
from eree.mechanisms.scaled import ScaledMechanism
from eree.mechanisms.scaled_loss import worst_loss

every_pure = pytest.mark.parametrize("name", ONE_WEIGHT)


def scaled(name: str, *given: Any) -> ScaledMechanism:
    chosen = made(name, *given)
    assert isinstance(chosen, ScaledMechanism)
    return chosen


def test_neighbours_are_a_shift_and_a_ratio_as_the_bound_says() -> None:
    for alpha in (Fraction(1, 10), Fraction(29, 100), Fraction(1, 3)):
        for x, after, joined in cells(alpha, 120):
            before_scale, after_scale = max(alpha * x, 1), max(alpha * after, 1)
            rho, ratio = joined / before_scale, after_scale / before_scale
            assert rho <= 1
            assert 1 <= ratio <= 1 + alpha * rho


@every_pure
def test_the_bound_is_tight(name: str) -> None:
    """Whole cells come as near to it as doubles can tell."""
    certificate = scaled(name).certify()
    assert 0 <= certificate.found_epsilon - certificate.worst_pair.loss < 1e-6


def test_the_losses_known_from_theory_are_found() -> None:
    assert scaled("smooth-gamma").certify().found_epsilon == pytest.approx(0.863, abs=5e-4)
    assert scaled("smooth-pareto").certify().found_epsilon == pytest.approx(2, abs=2e-5)


@every_pure
@pytest.mark.parametrize(("alpha", "epsilon"), [("0.1", "2"), ("0.2", "1.5"), ("0.05", "0.5")])
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
        rho = rng.choice([1.0, rng.uniform(0, 1)])
        ratio = 1 + float(alpha) * rho * rng.choice([0.0, 1.0, rng.uniform(0, 1)])
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
    """F left of the new centre and G right of the old one grow with rho; G left of it falls."""
    chosen = scaled(name)
    rng = np.random.default_rng(3)
    weight = chosen.log_weight
    for _ in range(400):
        small, rho = np.sort(rng.uniform(0, 1, 2))
        ratio = 1 + 0.1 * small * rng.uniform(0, 1)
        a = 10 ** rng.uniform(-2, 3, 50)  # distance beyond a centre
        s = rng.uniform(0, small, 50)  # distance between the centres
        for less, more in (
            (weight(a) - weight((a + small) / ratio), weight(a) - weight((a + rho) / ratio)),
            (weight(s) - weight((small - s) / ratio), weight(s) - weight((rho - s) / ratio)),
            (weight(a / ratio) - weight(a + small), weight(a / ratio) - weight(a + rho)),
            (weight(s / ratio) - weight(small - s), weight(s / ratio) - weight(rho - s)),
            (weight((a + rho) / ratio) - weight(a), weight((a + small) / ratio) - weight(a)),
        ):
            assert (less <= more + 1e-12).all()
        assert (weight(a + small) - weight(a / ratio) <= 0).all()  # F right of the new centre


@every_pure
def test_far_out_the_weight_falls_no_more_than_the_law_says(name: str) -> None:
    chosen = scaled(name)
    rng = np.random.default_rng(4)
    for near in (chosen.far, chosen.far / 1.1, 10 * chosen.far):
        x = near * 10 ** rng.uniform(0, 4, 4_000)
        for stretch in (0.9, 1.0, 1.03, 1.1):
            drop = chosen.log_weight(x) - chosen.log_weight(stretch * x + 1)
            assert (drop <= chosen.most_drop(np.array([stretch]), near) + 1e-9).all()


def test_a_law_without_a_bound_on_dilation_is_caught() -> None:
    """Laplace noise of scale S has no finite loss when the scale changes: pure privacy fails."""
    assert worst_loss(scaled("smooth-laplace"), 0.1).found == math.inf


def without_floor(chosen: ScaledMechanism) -> ScaledMechanism:
    """The same law with S = alpha x, not at least 1."""

    class Sunk(type(chosen)):
        def law(self, largests: Any) -> Any:
            law = super().law(largests)
            object.__setattr__(law, "scales", Unfloored(law.scales))
            return law

    class Unfloored:
        def __init__(self, scales: Any) -> None:
            self.__dict__.update(vars(scales))

        def of(self, cell: int) -> Fraction:
            return max(self.alpha * int(self.sizes[cell]), Fraction(1, 1000)) * self.factor

    return Sunk(*(getattr(chosen, field.name) for field in fields(chosen)))


@every_pure
def test_a_scale_a_tenth_too_small_is_caught(name: str) -> None:
    chosen = made(name)
    match name:
        case "smooth-pareto":
            wrong = replace(chosen, slope=chosen.slope * Fraction(10, 9))
        case "smooth-gamma" | "smooth-gamma-tight":
            wrong = replace(chosen, width=Fraction(3**0.75) / 2)
        case "radial":
            wrong = replace(chosen, rate=chosen.rate * Fraction(10, 9))
        case _:
            wrong = replace(chosen, drop=chosen.drop * Fraction(10, 9))
    certificate = wrong.certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2


def test_a_power_that_forgets_dilation_is_caught() -> None:
    chosen: Any = made("smooth-pareto")
    for wrong in (
        replace(chosen, power=chosen.power * Fraction(11, 10)),
        replace(made("smooth-staircase"), growth=Fraction(105, 100)),
        replace(made("radial"), bend=Fraction(4, 100)),
    ):
        assert not wrong.certify().holds


@every_pure
def test_a_missing_floor_is_caught(name: str) -> None:
    """With S = alpha x one worker who joins one other is no longer hidden."""
    certificate = without_floor(scaled(name)).certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2


@pytest.mark.parametrize("name", ONE_WEIGHT)
def test_chances_of_another_scale_than_the_law_says_are_caught(name: str) -> None:
    """S = floor(alpha x) agrees at multiples of 1 / alpha, and loses 14 from 19 to 20 workers."""
    chosen = scaled(name)

    class Floored(type(chosen)):
        def law(self, largests: Any) -> Any:
            return super().law(np.asarray(largests) // 10 * 10)

    wrong = Floored(*(getattr(chosen, field.name) for field in fields(chosen)))
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
        ("smooth-staircase", "0.0001", "0.00031"),
        ("smooth-staircase", "2", "6"),
        ("smooth-laplace", "0.9", "20"),
        ("smooth-laplace", "20", "1"),
        ("smooth-laplace", "0.001", "100"),
        ("smooth-laplace-exact", "1", "1"),
        ("smooth-laplace-exact", "0.15", "0.279525"),
    ],
)
def test_claims_hold_at_the_ends_of_what_is_allowed(name: str, alpha: str, epsilon: str) -> None:
    assert made(name, alpha, epsilon).certify().holds
