"""Certificates: what they find is what brute force over whole cells finds, and never less."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from flint import arb
from scipy.integrate import quad

from cases import PURE_SCALED, TRANSFORMED, cells, every, made
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.published.certificate import greatest_delta
from eree.mechanisms.registry import MECHANISMS, mechanism
from eree.policy.neighbours import Strong
from eree.random.exact import exactly
from selection import combinations

GRID = [("0.1", "2"), ("0.1", "4"), ("0.05", "0.67"), ("0.2", "1"), ("0.01", "0.25"), ("0.15", "2")]
TENTH = Fraction(1, 10)
LEAST = {
    "smooth-pareto": 2,
    "smooth-gamma": 5,
    "smooth-gamma-tight": 3,
    "log-laplace": 2,
    "leaning-staircase": 26,  # and at least 0.75
}


@pytest.mark.parametrize(("name", "alpha", "epsilon"), combinations(list(MECHANISMS), GRID, each=2))
def test_no_more_is_found_than_was_claimed(name: str, alpha: str, epsilon: str) -> None:
    try:
        chosen = mechanism(name, alpha=alpha, epsilon=epsilon)
    except Refusal:
        least = LEAST.get(name, 1) * math.log1p(float(alpha))
        assert float(epsilon) <= least * (1 + 2e-3)
        return
    certificate = chosen.certify()
    assert certificate.holds
    assert Fraction(certificate.found_epsilon) <= Fraction(float(Fraction(epsilon)))
    assert certificate.found_delta <= certificate.claimed_delta
    # a tight mechanism leaves hardly anything of its claim unused
    if name not in ("smooth-gamma", "smooth-gamma-tight", "log-laplace", "truncated-laplace"):
        assert certificate.found_epsilon > 0.998 * float(Fraction(epsilon))
    if certificate.claimed_delta == 0:
        assert certificate.worst_pair.loss <= certificate.found_epsilon
        assert certificate.worst_pair.loss > 0.997 * certificate.found_epsilon


@pytest.mark.parametrize(
    ("name", "alpha"),
    combinations([*PURE_SCALED, *TRANSFORMED], [TENTH, Fraction(29, 100)], each=1),
)
def test_no_pair_of_neighbouring_cells_loses_more_than_was_found(
    name: str, alpha: Fraction
) -> None:
    """Brute force over whole cells and outputs, from the probabilities of the outputs.

    A cell of several workplaces has a count of its own; the noise of scaled distributions does not
    see it, and those on transformed counts lose most where one workplace is the whole cell.
    """
    chosen = made(name, alpha, "2")
    found = chosen.certify().found_epsilon
    logs: dict[tuple[int, int, int], float] = {}

    def log_probability(output: int, count: int, largest: int) -> float:
        key = (output - count, 0, largest) if name in PURE_SCALED else (output, count, 0)
        if key not in logs:
            logs[key] = chosen.log_pmf(Cell(key[1], key[2]), key[0])
        return logs[key]

    worst = 0.0
    sizes = {*range(14), 19, 20, 21, 30}
    for x, after, joined in cells(alpha, 31):
        if x not in sizes:
            continue
        for output in (-8, -1, *range(x - 2, x + joined + 3), x + 20, x + 90):
            old, new = log_probability(output, x, x), log_probability(output, x + joined, after)
            if old > -math.inf or new > -math.inf:
                worst = max(worst, abs(old - new))
    assert worst <= found + 1e-12  # logarithms of size 100 are subtracted in doubles
    assert worst > 0.5 * found  # the cells of this test come near the worst


@lru_cache
def upper_tails(chosen: Mechanism, size: int) -> list[float]:
    """P(K >= d) for d from 1 on, exact."""
    with exactly():
        return [float(chosen.tail(Cell(0, size), d, 1)) for d in range(1, 1_000)]


def hockey_stick(chosen: Mechanism, x: int, after: int, joined: int, epsilon: float) -> float:
    """Both directions, by exact sums over the outputs."""
    outputs = np.arange(-900, 901)
    old = np.array([0.0] * len(outputs))
    new = old.copy()
    tails = [upper_tails(chosen, size) for size in (x, after)]
    for place, (tail, centre) in enumerate(zip(tails, (0, joined), strict=True)):
        probabilities = np.array([1 - 2 * tail[0], *(-np.diff(tail))])
        values = probabilities[np.minimum(np.abs(outputs - centre), len(probabilities) - 1)]
        if place:
            new = values
        else:
            old = values
    factor = math.exp(epsilon)
    return float(
        max(np.maximum(old - factor * new, 0).sum(), np.maximum(new - factor * old, 0).sum())
    )


@pytest.mark.parametrize(
    ("name", "alpha"),
    combinations(["smooth-laplace", "smooth-laplace-exact"], [TENTH, Fraction(1, 5)], each=1),
)
def test_no_pair_of_cells_has_a_greater_delta_than_was_found(name: str, alpha: Fraction) -> None:
    chosen = made(name, alpha, "1")
    certificate = chosen.certify()
    worst = 0.0
    for x in (0, 4, 5, 9, 10, 11, 20, 60):
        for y in {x, max(x - 1, 0), x // 2}:
            for joined in {1, Strong(alpha).growth(y)}:
                worst = max(worst, hockey_stick(chosen, x, max(x, y + joined), joined, 1.0))
    assert worst <= certificate.found_delta * (1 + 1e-9)
    assert worst > 0.5 * certificate.found_delta
    assert certificate.worst_pair.delta <= certificate.found_delta


@pytest.mark.parametrize(("shift", "ratio"), [(1.0, 1.1), (1.0, 1.05), (0.5, 1.05), (1.0, 1.001)])
def test_the_excess_of_two_laplace_distributions_is_its_integral(
    shift: float, ratio: float
) -> None:
    """The closed form behind the delta, against numerical integration."""
    rate, epsilon = 0.6, 0.7
    growth = ratio - 1

    def excess(t: float) -> float:
        new = rate / (2 * ratio) * math.exp(-rate * abs(t - shift) / ratio)
        return max(new - math.exp(epsilon) * rate / 2 * math.exp(-rate * abs(t)), 0.0)

    far = (epsilon + math.log(ratio)) / (rate * growth / ratio) * 3 + 50
    whole = sum(
        quad(excess, a, b, limit=500)[0] for a, b in ((-far, -1), (-1, 0), (0, shift), (shift, far))
    )
    closed = (1 - 1 / ratio) * math.exp(-(epsilon + math.log(ratio)) / growth)
    assert whole == pytest.approx(closed * math.cosh(rate * shift / growth), rel=1e-4, abs=1e-12)


def test_the_greatest_delta_is_the_stated_one() -> None:
    """alpha / (1 + alpha) e^(-(epsilon + b) / alpha) cosh(a / alpha), and 8.0e-7 as published."""
    for alpha, epsilon, rate in ((0.1, 2.0, 1.0), (0.2, 1.0, 0.7), (0.05, 0.5, 0.25)):
        stated = alpha / (1 + alpha) * math.exp(-(epsilon + math.log1p(alpha)) / alpha)
        stated *= math.cosh(rate / alpha)
        exact = [Fraction(str(value)) for value in (alpha, epsilon, rate)]
        with exactly():
            assert float(greatest_delta(*exact)) == pytest.approx(stated, rel=1e-8)
    assert made("smooth-laplace").certify().found_delta == pytest.approx(8.0e-7, rel=0.01)


def test_the_published_delta_is_too_small_for_a_large_epsilon() -> None:
    """At alpha = 0.1 and epsilon 20 the paper's condition holds, and its delta does not."""
    alpha, epsilon = TENTH, Fraction(20)
    published = math.exp(-20 / (2 * math.log1p(0.1)))
    with exactly():
        true = float(greatest_delta(alpha, epsilon, epsilon / 2))
    assert true > 1.5 * published
    chosen = made("smooth-laplace", alpha, epsilon)
    assert chosen.certify().holds
    assert float(chosen.guarantee.delta) == pytest.approx(true, rel=1e-6)


def test_a_delta_that_is_exceeded_is_caught() -> None:
    chosen: Any = made("smooth-laplace-exact")
    wrong = replace(chosen, width=chosen.width * Fraction(9, 10))
    certificate = wrong.certify()
    assert not certificate.holds
    assert certificate.worst_pair.delta > certificate.claimed_delta
    far = replace(chosen, width=Fraction(1, 3))  # one step alone costs 3
    assert far.certify().found_delta > 0.3


@pytest.mark.parametrize("name", TRANSFORMED)
def test_noise_on_a_transformed_count_that_is_a_tenth_less_is_caught(name: str) -> None:
    chosen: Any = made(name)
    share = Fraction(9, 20) if name == "log-laplace" else Fraction(9, 10)
    certificate = replace(chosen, spread=chosen.spread * share).certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2


def test_an_offset_below_one_over_alpha_is_caught() -> None:
    """The floor of Log-Laplace: with less, the first worker shows."""
    chosen: Any = made("log-laplace-tight")
    certificate = replace(chosen, offset=Fraction(5)).certify()
    assert not certificate.holds
    assert certificate.worst_pair.before.count == 0


def test_a_slope_that_grows_too_slowly_far_out_is_caught() -> None:
    chosen: Any = made("linlog")
    assert not replace(chosen, rate=chosen.rate * Fraction(9, 10)).certify().holds


def test_fixed_noise_loses_exactly_what_theory_says() -> None:
    assert made("edge-geometric", None).certify().bound == 2
    assert made("truncated-laplace", theta=20).certify().bound == Fraction(19, 10)
    capped = made("capped-laplace", None)
    assert capped.parameters == {"cap": "7"}
    assert capped.certify().found_delta == pytest.approx(6.33e-7, rel=1e-3)


def test_a_node_that_is_larger_than_the_bound_is_protected_too() -> None:
    """From theta - 1 workers to theta the bounded count falls to 0; that is protected as well."""
    chosen = made("truncated-laplace", theta=20)
    for before, after in ((0, 19), (19, 0), (5, 19)):
        for output in (-40, 0, 3, 19, 90):
            loss = chosen.log_pmf(Cell(before), output) - chosen.log_pmf(Cell(after), output)
            assert abs(loss) <= 1.9 + 1e-12


@every
def test_a_certificate_is_plain_data(name: str) -> None:
    found = json.loads(json.dumps(made(name).certify().as_json()))
    assert found["mechanism"] == name
    assert found["holds"] is True
    assert found["found_epsilon"] <= found["claimed_epsilon"]
    assert found["found_delta"] <= found["claimed_delta"]
    assert set(found["worst_pair"]) == {"before", "after", "output", "loss", "delta"}


def test_the_bound_never_rounds_down() -> None:
    """A ball's upper end is kept as a fraction, whatever its last bits."""
    from eree.mechanisms.certificate import NEVER, upper

    with exactly(64):
        third = arb(1) / 3
        assert upper(third) >= Fraction(1, 3)
        assert upper(third) - Fraction(1, 3) < Fraction(1, 2**60)
        assert upper(arb("nan")) == NEVER
