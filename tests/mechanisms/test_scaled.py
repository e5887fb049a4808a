"""Scaled mechanisms: chances, draws, errors and certificates agree, and none calls another."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eree.errors import Refusal
from eree.mechanisms.certificate import worst_loss
from eree.mechanisms.registry import MECHANISMS, mechanism
from eree.mechanisms.scaled import ScaledMechanism
from eree.noise.coins import SeededCoins
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, Strong, Weak

GRID = [("0.1", "2"), ("0.1", "4"), ("0.05", "0.67"), ("0.2", "1"), ("0.01", "0.25")]
FALSE_ALARM = 1e-6
every = pytest.mark.parametrize("name", MECHANISMS)


def neighbours(alpha: Fraction, most: int) -> list[tuple[int, int, int]]:
    """All (largest before, largest after, workers who joined) up to a size, by definition."""
    strong = Strong(alpha)
    return [
        (x, max(x, y + joined), joined)
        for x in range(most)
        for y in range(x + 1)
        for joined in range(1, strong.growth(y) + 1)
    ]


def test_neighbours_are_a_shift_and_a_ratio_as_the_certificate_says() -> None:
    for alpha in (Fraction(1, 10), Fraction(29, 100), Fraction(1, 3)):
        for x, after, joined in neighbours(alpha, 120):
            before_scale, after_scale = max(alpha * x, 1), max(alpha * after, 1)
            rho, ratio = joined / before_scale, after_scale / before_scale
            assert rho <= 1
            assert 1 <= ratio <= 1 + alpha * rho


@every
@pytest.mark.parametrize(("alpha", "epsilon"), GRID)
def test_the_certificate_finds_no_more_than_was_claimed(
    name: str, alpha: str, epsilon: str
) -> None:
    try:
        chosen = mechanism(name, alpha=alpha, epsilon=epsilon)
    except Refusal:
        assert float(epsilon) <= {"smooth-gamma": 5, "smooth-gamma-tight": 3}.get(
            name, 2
        ) * math.log1p(float(alpha)) * (1 + 1e-6)
        return
    certificate = chosen.certify()
    assert certificate.holds
    assert certificate.loss.found - certificate.loss.attained < 1e-6
    if name == "smooth-pareto":
        assert certificate.found_epsilon > 0.997 * float(epsilon)  # and hardly less


def test_the_losses_known_from_theory_are_found() -> None:
    published = mechanism("smooth-gamma", alpha="0.1", epsilon=2).certify()
    assert published.found_epsilon == pytest.approx(0.863, abs=5e-4)
    pareto = mechanism("smooth-pareto", alpha="0.1", epsilon=2).certify()
    assert pareto.found_epsilon == pytest.approx(2, abs=2e-5)


@every
def test_no_pair_of_neighbouring_cells_loses_more_than_the_certificate_found(name: str) -> None:
    """Brute force over integer cells and outputs, from the chances of the outputs."""
    chosen = mechanism(name, alpha="0.1", epsilon=2)
    found = chosen.certify().found_epsilon
    outputs = range(-8, 30)
    logs: dict[int, list[float]] = {}

    def log_chances(largest: int) -> list[float]:
        if largest not in logs:
            logs[largest] = [
                chosen.log_pmf(output=k, count=0, largest=largest) for k in range(-30, 31)
            ]
        return logs[largest]

    worst = 0.0
    sizes = [*range(14), 19, 20, 21, 30]
    for x, after, joined in neighbours(Fraction(1, 10), 31):
        if x in sizes:
            for k in outputs:
                old, new = log_chances(x)[k + 30], log_chances(after)[k - joined + 30]
                worst = max(worst, abs(old - new))
    assert worst <= found
    assert worst > 0.5 * found  # the cells of this test come near the worst


@every
@pytest.mark.parametrize(("alpha", "epsilon"), [("0.1", "2"), ("0.2", "1.5"), ("0.05", "0.5")])
def test_random_shifts_and_ratios_lose_no_more_than_was_found(
    name: str, alpha: str, epsilon: str
) -> None:
    """Any real scale, shift and ratio that neighbours can have, and any output."""
    chosen = mechanism(name, alpha=alpha, epsilon=epsilon)
    found = chosen.certify().found_epsilon
    rng = np.random.default_rng(8)
    k = np.arange(1.0, 60_000.0)
    low, high = chosen.normaliser_elasticity()
    worst = 0.0
    for _ in range(300):
        scale = 10 ** rng.uniform(0, 2.5)
        rho = rng.choice([1.0, rng.uniform(0, 1)])
        ratio = 1 + float(alpha) * rho * rng.choice([0.0, 1.0, rng.uniform(0, 1)])
        sums = [1 + 2 * np.exp(chosen.log_weight(k / s)).sum() for s in (scale, ratio * scale)]
        growth = math.log(sums[1] / sums[0]) if name == "smooth-pareto" else math.log(ratio)
        assert low * math.log(ratio) - 1e-4 <= growth <= high * math.log(ratio) + 1e-4
        t = np.concatenate([rng.normal(0, 3, 200), 10 ** rng.uniform(-3, 3, 200), [0.0, rho]])
        old = chosen.log_weight(np.abs(t))
        loss = old - chosen.log_weight(np.abs(t - rho) / ratio) + growth
        worst = max(worst, float(np.abs(loss).max()))
    assert 0.9 * found < worst <= found + 1e-4


def broken(chosen: ScaledMechanism) -> dict[str, Any]:
    """Mechanisms with a mistake in them."""
    match chosen.name:
        case "smooth-pareto":
            return {
                "scale 10% too small": replace(chosen, slope=chosen.slope * Fraction(10, 9)),  # type: ignore[call-arg,attr-defined]
                "power 10% too large": replace(chosen, power=chosen.power * Fraction(11, 10)),  # type: ignore[call-arg,attr-defined]
            }
    return {"no room for dilation": replace(chosen, width=Fraction(3**0.75) / 2)}  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["smooth-pareto", "smooth-gamma-tight"])
def test_a_broken_mechanism_is_caught(name: str) -> None:
    for mistake, wrong in broken(mechanism(name, alpha="0.1", epsilon=2)).items():
        certificate = wrong.certify()
        assert not certificate.holds, mistake
        assert certificate.loss.attained > 2, mistake


def test_a_law_without_a_bound_on_dilation_is_caught() -> None:
    """Laplace noise of scale S has no finite loss when the scale changes: pure privacy fails."""

    class Laplace:
        greatest_elasticity = 1e9

        def log_weight(self, t: Any) -> Any:
            return -t

        def normaliser_elasticity(self) -> tuple[float, float]:
            return 1.0, 1.0

    assert worst_loss(Laplace(), 0.1).attained > 50


@every
@pytest.mark.parametrize("largest", [0, 15, 200])
def test_draws_errors_and_chances_agree(name: str, largest: int) -> None:
    chosen = mechanism(name, alpha="0.1", epsilon=2)
    n, count = 100_000, 1_000
    counts, largests = np.full(n, count), np.full(n, largest)
    noise = chosen.draw(counts, largests, coins=SeededCoins(largest)) - count
    error = chosen.expected_error(largest=largest, count=count)
    spread = np.abs(noise).std() / math.sqrt(n)
    assert abs(np.abs(noise).mean() - error.mean_absolute) < 5.5 * spread
    # a scale a tenth off on either side is rejected by the same test
    for off in (0.9, 1.1):
        assert abs(np.abs(noise).mean() - off * error.mean_absolute) > 5.5 * spread
    values = range(-3, 4)
    chances = [
        math.exp(chosen.log_pmf(output=count + k, count=count, largest=largest)) for k in values
    ]
    observed = [int((noise == k).sum()) for k in values]
    rest = n - sum(observed)
    p = stats.chisquare([*observed, rest], [n * c for c in [*chances, 1 - sum(chances)]]).pvalue
    assert p > FALSE_ALARM
    within = chosen.quantile(0.9, largest=largest)
    assert (np.abs(noise) <= within).mean() > 0.9 - 0.006
    assert within == 0 or (np.abs(noise) <= within - 1).mean() < 0.9 + 0.006


@every
def test_the_error_is_the_sum_of_the_chances(name: str) -> None:
    chosen = mechanism(name, alpha="0.2", epsilon=4)
    error = chosen.expected_error(largest=30)
    chances = [math.exp(chosen.log_pmf(output=k, count=0, largest=30)) for k in range(400)]
    total = chances[0] + 2 * sum(chances[1:])
    assert total == pytest.approx(1, abs=1e-5)
    mean = 2 * sum(k * c for k, c in enumerate(chances))
    assert mean == pytest.approx(error.mean_absolute, rel=3e-3)


def test_the_default_law_reaches_its_targets() -> None:
    """At alpha = 0.1: 0.30 and 0.53 S at epsilon 2; 0.04 and 0.26 S at epsilon 4."""
    for epsilon, small, large in ((2, 0.30, 0.53), (4, 0.04, 0.26)):
        chosen = mechanism("smooth-pareto", alpha="0.1", epsilon=epsilon)
        assert chosen.expected_error(largest=1).mean_absolute <= small
        for largest in (200, 201, 1_000, 100_000):
            error = chosen.expected_error(largest=largest).mean_absolute
            assert error <= large * float(Fraction(largest, 10))


@settings(max_examples=30)
@given(
    st.sampled_from(list(MECHANISMS)),
    st.fractions(Fraction(1, 100), Fraction(1, 5), max_denominator=100),
    st.fractions(Fraction(1, 4), 4, max_denominator=50),
    st.integers(0, 500),
)
def test_less_epsilon_is_never_less_noise(
    name: str, alpha: Fraction, epsilon: Fraction, largest: int
) -> None:
    try:
        strict = mechanism(name, alpha=alpha, epsilon=epsilon)
    except Refusal as refusal:
        assert "needs epsilon above" in str(refusal)
        return
    loose = mechanism(name, alpha=alpha, epsilon=epsilon * Fraction(11, 10))
    assert loose.expected_error(largest=largest).mean_absolute <= strict.expected_error(
        largest=largest
    ).mean_absolute * (1 + 1e-9)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        Refusal, match="there is no mechanism named 'gauss'; there are smooth-pareto"
    ):
        mechanism("gauss", alpha="0.1", epsilon=2)
    with pytest.raises(Refusal, match="above 2 ln"):
        mechanism("smooth-pareto", alpha="0.2", epsilon="0.3")
    with pytest.raises(Refusal, match="smooth-gamma needs epsilon above 5 ln"):
        mechanism("smooth-gamma", alpha="0.1", epsilon="0.4")
    for kind, relation in product(MECHANISMS.values(), (EDGE,)):
        with pytest.raises(Refusal, match="needs strong or weak neighbours"):
            kind.calibrate(Guarantee(relation, 2))
    chosen = mechanism("smooth-pareto", alpha="0.1", epsilon=2)
    with pytest.raises(Refusal, match="every cell needs"):
        chosen.draw(np.array([1]), np.array([1, 2]), coins=SeededCoins(1))
    with pytest.raises(Refusal, match="must not be negative"):
        chosen.expected_error(largest=-1)
    with pytest.raises(Refusal, match="level must be"):
        chosen.quantile(1.0, largest=3)


def test_a_weak_guarantee_calibrates_alike() -> None:
    weak = MECHANISMS["smooth-pareto"].calibrate(Guarantee(Weak("0.1", ["sex"]), 2))
    strong = mechanism("smooth-pareto", alpha="0.1", epsilon=2)
    assert weak.expected_error(largest=9) == strong.expected_error(largest=9)


@every
def test_the_shift_drops_out_as_the_certificate_argues(name: str) -> None:
    """F left of the new centre and G right of the old one grow with rho; G left of it falls."""
    chosen = mechanism(name, alpha="0.1", epsilon=2)
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
