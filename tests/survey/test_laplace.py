"""The noise of a cube: its probabilities, its draws, and its certificate against brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, fsum, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.registry import mechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import ESTABLISHMENT, RECORD
from eree.random.exact import exactly
from eree.random.source import SeededRandom
from eree.survey.laplace import ShiftNoise, rounded_up, shift_delta

#: A right distribution fails a test of its draws less often than once in a million runs.
FALSE_ALARM = 1e-6
#: Table 2 of the query tool's paper, as printed.
TABLE_2 = {
    7: "0.0000006",
    6: "0.0000047",
    5: "0.0000346",
    4: "0.0002555",
    3: "0.0018878",
    2: "0.013949",
    1: "0.10307",
    0: "0.76159",
}


def probability(noise: ShiftNoise, value: int) -> float:
    with exactly():
        return float(noise.probability(value))


@pytest.mark.parametrize(("size", "printed"), TABLE_2.items())
def test_table_2_of_the_query_tool_to_its_last_digit(size: int, printed: str) -> None:
    noise = ShiftNoise.published("2", 7)
    digits = len(printed.partition(".")[2])
    for value in {size, -size}:
        assert f"{probability(noise, value):.{digits}f}" == printed
    assert probability(noise, 8) == 0
    assert float(noise.guarantee.delta) == pytest.approx(6.33e-7, rel=2e-3)
    assert probability(noise, 7) <= noise.guarantee.delta


def test_the_distribution_is_that_of_the_registered_mechanism() -> None:
    noise, registered = ShiftNoise.published("2", 7), mechanism("capped-laplace", epsilon="2")
    for value in range(-8, 9):
        log_pmf = registered.log_pmf(Cell(20), 20 + value)
        assert probability(noise, value) == pytest.approx(exp(log_pmf), rel=1e-12, abs=0)


def test_section_4_of_the_query_tool_has_its_variance() -> None:
    assert f"{ShiftNoise.published('7', 1).variance:.5f}" == "0.00182"


# -------------------------------------------------------------------------------- draws


def fit(drawn: Any, noise: ShiftNoise, cuts: list[int]) -> float:
    """The p-value of draws over the classes that cuts make: below the first, between, beyond."""
    with exactly():
        distribution = noise.distribution
        tails = [
            1.0 - float(distribution.tail(1 - c, 0)) if c <= 0 else float(distribution.tail(c, 0))
            for c in cuts
        ]
    expected = -np.diff([1.0, *tails, 0.0]) * len(drawn)
    observed = np.bincount(np.searchsorted(cuts, drawn, side="right"), minlength=len(cuts) + 1)
    return float(stats.chisquare(observed, expected).pvalue)


def noise_of(epsilon: Fraction, shift: int, delta: str) -> ShiftNoise:
    return ShiftNoise.calibrate(Guarantee(ESTABLISHMENT, epsilon, delta), shift)


@pytest.mark.parametrize(
    ("epsilon", "shift", "delta"),
    [("2", 1, "0"), ("1/2", 40_000_000, "0"), ("1", 2_000_000, "1e-6"), ("3", 7, "1e-3")],
)
def test_draws_follow_the_stated_distribution_and_no_other_scale(
    epsilon: str, shift: int, delta: str
) -> None:
    """On both sides of zero; noise a tenth too small or too large is rejected."""
    noise = noise_of(Fraction(epsilon), shift, delta)
    drawn = noise.draw(300_000, SeededRandom(3))
    scale = shift / float(Fraction(epsilon))
    cuts = sorted({round(scale * log(share)) for share in (0.05, 0.2, 0.5, 0.8)} | {0, 1})
    cuts = sorted({*cuts, *(1 - cut for cut in cuts)})
    assert fit(drawn, noise, cuts) > FALSE_ALARM
    for stretch in (Fraction(9, 10), Fraction(11, 10)):
        other = ShiftNoise(
            Guarantee(ESTABLISHMENT, noise.guarantee.epsilon / stretch, delta), shift, noise.cap
        )
        assert fit(drawn, other, cuts) < FALSE_ALARM
    assert noise.cap is None or np.abs(drawn).max() <= noise.cap


def test_single_draws_follow_the_same_distribution() -> None:
    noise, random = noise_of(Fraction(1), 3, "0"), SeededRandom(5)
    drawn = np.array([noise.draw_one(random) for _ in range(20_000)])
    cuts = [-6, -3, -1, 0, 1, 2, 4, 7]
    assert fit(drawn, noise, cuts) > FALSE_ALARM
    for epsilon in ("9/10", "11/10"):
        assert fit(drawn, noise_of(Fraction(epsilon), 3, "0"), cuts) < FALSE_ALARM


def test_a_single_draw_may_be_larger_than_any_machine_word() -> None:
    noise = noise_of(Fraction(1, 20), 10**40, "0")
    drawn = [noise.draw_one(SeededRandom(seed)) for seed in range(20)]
    assert max(map(abs, drawn)) > 2**64
    assert len({value % 1_000 for value in drawn}) > 15  # to the last digit


@pytest.mark.parametrize(("shift", "cap"), [(1, None), (5, None), (1, 1), (2, 9), (4, 40)])
def test_the_variance_is_that_of_the_distribution(shift: int, cap: int | None) -> None:
    noise = ShiftNoise(Guarantee(RECORD, "3/2"), shift, cap)
    weights = {k: exp(-1.5 * abs(k) / shift) for k in range(-(cap or 400), (cap or 400) + 1)}
    whole = fsum(weights.values())
    squares = fsum(k * k * weight for k, weight in weights.items())
    assert noise.variance == pytest.approx(squares / whole, rel=1e-12)


def test_the_variance_of_wide_noise_loses_no_digits() -> None:
    noise = noise_of(Fraction(1, 1000), 10**8, "0")
    assert noise.variance == pytest.approx(2e22, rel=1e-12)
    capped = noise_of(Fraction(1, 1000), 10**8, "1e-6")
    assert capped.cap is not None
    c = capped.cap / 1e11  # so wide a distribution is the density e^-|z| between -c and c
    expected = (2 - exp(-c) * (c * c + 2 * c + 2)) / (1 - exp(-c))
    assert capped.variance == pytest.approx(expected * 1e22, rel=1e-9)


# -------------------------------------------------------------------------- certificates


def brute(probabilities: dict[Any, float], moved: dict[Any, float], epsilon: float) -> float:
    """The sum of max(0, P - e^epsilon Q) over all outputs."""
    return fsum(max(0.0, p - exp(epsilon) * moved.get(k, 0.0)) for k, p in probabilities.items())


def table(distribution: CappedGeometric, widest: int) -> dict[int, float]:
    weights = {k: exp(-float(distribution.rate) * abs(k)) for k in range(-widest, widest + 1)}
    whole = fsum(weights.values())
    return {k: weight / whole for k, weight in weights.items()}


@given(
    rate=st.fractions(Fraction(1, 20), 3, max_denominator=40),
    cap=st.none() | st.integers(1, 12),
    shift=st.integers(1, 30),
    epsilon=st.fractions(0, 8, max_denominator=30),
)
def test_the_delta_of_a_shift_is_the_sum_over_all_outputs_in_both_directions(
    rate: Fraction, cap: int | None, shift: int, epsilon: Fraction
) -> None:
    distribution = CappedGeometric(rate, cap)
    here = table(distribution, cap or 900)
    with exactly():
        found = float(shift_delta(distribution, shift, epsilon))
    for moved in (shift, -shift):
        there = {k + moved: probability for k, probability in here.items()}
        assert brute(here, there, float(epsilon)) == pytest.approx(found, rel=1e-9, abs=1e-12)
        assert brute(there, here, float(epsilon)) == pytest.approx(found, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "shift", "cap"), [("1", 2, 3), ("2", 3, 4), ("1/2", 4, 4)])
def test_no_moves_of_several_numbers_lose_more_than_one_number_that_moves_by_all(
    epsilon: str, shift: int, cap: int
) -> None:
    """All moves of three numbers, up and down, that add up to the shift or less."""
    noise = ShiftNoise(Guarantee(RECORD, epsilon), shift, cap)
    single = table(noise.distribution, cap)
    found = noise.certify().found
    rows = {row: np.prod([single[k] for k in row]) for row in product(single, repeat=3)}
    worst = 0.0
    for moves in product(range(-shift, shift + 1), repeat=3):
        if 0 < sum(map(abs, moves)) <= shift:
            there = {
                tuple(np.add(row, moves).tolist()): probability for row, probability in rows.items()
            }
            worst = max(worst, brute(rows, there, float(Fraction(epsilon))))
    assert worst <= float(found) * (1 + 1e-12)
    assert worst == pytest.approx(float(found), rel=1e-9)


def test_a_calibrated_cap_is_the_least_that_keeps_the_claim() -> None:
    for epsilon, shift, delta in (("2", 1, "1e-6"), ("1", 50, "1e-4"), ("1/10", 7, "1/5")):
        noise = noise_of(Fraction(epsilon), shift, delta)
        assert noise.cap is not None
        assert noise.certify().holds
        assert noise.name == "capped-laplace"
        if noise.cap > shift:
            assert not ShiftNoise(noise.guarantee, shift, noise.cap - 1).certify().holds
    assert noise_of(Fraction(2), 1, "1e-6").cap == 7  # that of Table 2


def test_noise_a_tenth_too_small_does_not_pass() -> None:
    for delta in ("0", "1e-6"):
        noise = noise_of(Fraction(1), 1_000, delta)
        smaller = CappedGeometric(noise.distribution.rate * Fraction(10, 9), noise.cap)
        with exactly():
            assert shift_delta(smaller, 1_000, Fraction(1)) > 0.01
            assert shift_delta(noise.distribution, 1_000, Fraction(1)) <= float(Fraction(delta))
            assert shift_delta(noise.distribution, 1_001, Fraction(1)) > float(Fraction(delta))


def test_several_records_as_published_cost_more_than_one() -> None:
    """Shift m at m epsilon: the claim for one record says little of an establishment."""
    distribution = ShiftNoise.published("2", 7).distribution
    with exactly():
        found = [float(shift_delta(distribution, m, Fraction(2 * m))) for m in (1, 2, 3, 7)]
    assert found == pytest.approx([6.333e-7, 5.313e-6, 3.989e-5, 0.1192], rel=1e-3)


def test_pure_noise_loses_epsilon_and_no_more() -> None:
    noise = noise_of(Fraction(3, 2), 40, "0")
    assert (noise.name, noise.parameters) == ("discrete-laplace", {"shift": "40"})
    certificate = noise.certify()
    assert (certificate.found, certificate.found_delta, certificate.holds) == (0, 0.0, True)
    losses = [
        abs(log(probability(noise, k)) - log(probability(noise, k - 40)))
        for k in range(-100, 141, 10)
    ]
    assert max(losses) == pytest.approx(1.5, rel=1e-12)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Refusal, match="cap must be an integer from 1"):
        ShiftNoise.published("2", 0)
    with pytest.raises(Refusal, match="takes an epsilon from"):
        ShiftNoise.published("1000", 2)
    with pytest.raises(Refusal, match="a shift must be at least 1"):
        ShiftNoise(Guarantee(RECORD, 1), 0)
    with pytest.raises(Refusal, match="a cap must not be below the shift"):
        ShiftNoise(Guarantee(RECORD, 1), 4, 3)


@given(st.fractions(Fraction(1, 10**12), 1).filter(bool), st.integers(1, 6))
def test_a_delta_is_rounded_up_to_few_digits_and_only_just(number: Fraction, digits: int) -> None:
    found = rounded_up(number, digits)
    assert number <= found < number * (1 + Fraction(1, 10 ** (digits - 1)))
    assert len(str(int(found * 10**24)).rstrip("0")) <= digits + 1
