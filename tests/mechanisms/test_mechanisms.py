"""Every mechanism: probabilities, draws and errors agree, and what makes no sense is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cases import FALSE_ALARM, FIXED, SCALED, TRANSFORMED, every, made
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.mechanism import LIMIT, Mechanism
from eree.mechanisms.registry import MECHANISMS, calibrate, mechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Strong, Weak
from eree.random.exact import exactly
from eree.random.source import SeededRandom
from selection import combinations, examples

CELLS = [(0, 0), (1, 1), (7, 4), (60, 60), (2_000, 900)]


def probability_within(chosen: Mechanism, error: int, count: int, largest: int) -> float:
    with exactly():
        cell = Cell(count, largest)
        outside = [chosen.tail(cell, error + 1, side) for side in (1, -1)]
        return float(1 - outside[0] - outside[1])


def classes(chosen: Mechanism, count: int, largest: int) -> list[tuple[int, float]]:
    """Cut points c of outputs, each with P(output < c), that leave at least 1 in 200 between."""
    found: list[tuple[int, float]] = []
    with exactly():
        for side in (-1, 1):
            distance = 1
            while True:
                probability = float(chosen.tail(Cell(count, largest), distance, side))
                if probability < 5e-3:
                    break
                cut = (
                    (count + distance, 1 - probability)
                    if side > 0
                    else (count - distance + 1, probability)
                )
                found.append(cut)
                distance += max(distance // 3, 1)
    cuts = [(-LIMIT, 0.0)]
    for cut in sorted(found):
        if cut[1] - cuts[-1][1] > 4e-3:
            cuts.append(cut)
    return cuts[1:]


def fit(outputs: Any, cuts: list[tuple[int, float]]) -> float:
    below = np.array([0.0, *(probability for _, probability in cuts), 1.0])
    observed = np.bincount(
        np.searchsorted([cut for cut, _ in cuts], outputs, side="right"), minlength=len(cuts) + 1
    )
    return float(stats.chisquare(observed, np.diff(below) * len(outputs)).pvalue)


@pytest.mark.parametrize(
    ("name", "count", "largest"), combinations(list(MECHANISMS), CELLS, each=2)
)
def test_draws_follow_the_stated_probabilities_and_no_others(
    name: str, count: int, largest: int
) -> None:
    """Chi-square and Kolmogorov-Smirnov; a scale a tenth off on either side is rejected."""
    n = 200_000
    chosen = made(name)
    outputs = chosen.draw(
        np.full(n, count), np.full(n, largest), random=SeededRandom(17 * count + largest)
    )
    cuts = classes(chosen, count, largest)
    assert len(cuts) >= 2
    assert fit(outputs, cuts) > FALSE_ALARM
    gap = max(abs(float((outputs < cut).mean()) - below) for cut, below in cuts)
    assert stats.kstwobign.sf(gap * math.sqrt(n)) > FALSE_ALARM
    for epsilon in (Fraction(20, 9), Fraction(20, 11)):
        off = made(name, epsilon=epsilon, **({"cap": 7, "delta": "0.001"} if "cap" in name else {}))
        assert fit(outputs, [(cut, 1 - below_of(off, cut, count, largest)) for cut, _ in cuts]) < (
            FALSE_ALARM
        )


def below_of(chosen: Mechanism, cut: int, count: int, largest: int) -> float:
    """P(output >= cut)."""
    with exactly():
        cell = Cell(count, largest)
        if cut > count:
            return float(chosen.tail(cell, cut - count, 1))
        return float(1 - chosen.tail(cell, count - cut + 1, -1))


@pytest.mark.parametrize(
    ("name", "count", "largest"), combinations(list(MECHANISMS), CELLS, each=3, start=2)
)
def test_errors_agree_with_draws_and_with_probabilities(
    name: str, count: int, largest: int
) -> None:
    n = 200_000
    chosen = made(name)
    outputs = chosen.draw(np.full(n, count), np.full(n, largest), random=SeededRandom(count))
    size = np.abs(outputs - count)
    error = chosen.expected_error(Cell(count, largest))
    spread = size.std() / math.sqrt(n)
    assert abs(size.mean() - error.mean_absolute) < 5.5 * spread
    for off in (0.9, 1.1):
        assert abs(size.mean() - off * error.mean_absolute) > 5.5 * spread
    squares = size.astype(np.float64) ** 2
    spread = squares.std() / math.sqrt(n)
    assert abs(squares.mean() - error.root_mean_square**2) < 8 * spread  # squares have heavy tails
    for level, within in error.quantiles.items():
        assert probability_within(chosen, within, count, largest) >= level
        assert within == 0 or probability_within(chosen, within - 1, count, largest) < level
        assert abs((size <= within).mean() - probability_within(chosen, within, count, largest)) < (
            5.5 / math.sqrt(n)
        )


@every
def test_the_mean_error_is_the_sum_of_the_probabilities(name: str) -> None:
    """Mean and mean square summed output by output, against the closed forms and tail sums."""
    chosen = made(name, "0.2" if name in SCALED + TRANSFORMED else None, "4")
    for count, largest in ((3, 3), (40, 30)):
        most = 1_500
        probabilities = {
            k: math.exp(chosen.log_pmf(Cell(count, largest), count + k))
            for k in range(-most, most + 1)
        }
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
        error = chosen.expected_error(Cell(count, largest))
        mean = sum(abs(k) * probability for k, probability in probabilities.items())
        assert mean == pytest.approx(error.mean_absolute, rel=2e-4)
        square = sum(k * k * probability for k, probability in probabilities.items())
        assert square == pytest.approx(error.root_mean_square**2, rel=0.02)


@every
def test_probabilities_add_up_to_one_with_those_at_the_limit(name: str) -> None:
    chosen = made(name)
    with exactly():
        cell = Cell(12, 5)
        inside = sum((chosen.pmf(cell, k) for k in range(2, 30)), arb(0))
        outside = chosen.tail(cell, 30 - 12, 1) + chosen.tail(cell, 12 - 1, -1)
        assert (inside + outside).overlaps(arb(1))
        assert abs(float(inside + outside) - 1) < 1e-60
        assert chosen.pmf(cell, LIMIT + 1) == 0
        assert chosen.pmf(cell, LIMIT) >= 0
    assert chosen.log_pmf(Cell(0), LIMIT + 1) == -math.inf


def test_an_output_beyond_the_limit_is_set_to_it() -> None:
    """A distribution without a bound on its draws gives integers of 61 bits at most."""
    chosen = mechanism("log-laplace", alpha="0.2", epsilon="0.3647")  # lambda just below 1
    counts = np.full(300_000, 10**17)
    outputs = chosen.draw(counts, random=SeededRandom(5))
    share = float((outputs == LIMIT).mean())
    probability = math.exp(chosen.log_pmf(Cell(10**17), LIMIT))
    assert outputs.max() == LIMIT
    assert abs(share - probability) < 5.5 * math.sqrt(probability / len(outputs))


@examples(20, torture=300)
@given(
    st.sampled_from(list(MECHANISMS)),
    st.fractions(Fraction(1, 100), Fraction(1, 5), max_denominator=100),
    st.fractions(Fraction(1, 4), 4, max_denominator=50),
    st.integers(0, 500),
)
def test_less_epsilon_is_never_less_noise(
    name: str, alpha: Fraction, epsilon: Fraction, largest: int
) -> None:
    cap: dict[str, Any] = {"cap": 50, "delta": "0.01"} if name == "capped-laplace" else {}
    if name == "smooth-laplace-exact":
        cap = {"delta": "0.001"}  # its own default grows as epsilon falls
    try:
        strict = mechanism(name, alpha=alpha, epsilon=epsilon, **cap)
    except Refusal as refusal:
        words = ("needs epsilon of", "delta", "takes an alpha", "does not exist at this alpha")
        assert any(word in str(refusal) for word in words)
        return
    loose = mechanism(name, alpha=alpha, epsilon=epsilon * Fraction(11, 10), **cap)
    cell = Cell(largest)
    # plateaus of integers of workers are chosen for large sizes, not for each
    room = 0.05 if name == "leaning-staircase" else 1e-9
    assert loose.mean_error(cell)[0] <= strict.mean_error(cell)[0] * (1 + room)


@pytest.mark.parametrize("name", SCALED)
def test_noise_grows_with_the_largest_workplace(name: str) -> None:
    """Every tail does, so an interval for a larger workplace holds for a smaller one."""
    chosen = made(name)
    with exactly():
        for distance in (1, 2, 5, 40, 3_000):
            tails = [float(chosen.tail(Cell(0, x), distance, 1)) for x in (10, 11, 20, 21, 900)]
            assert tails == sorted(tails)


def test_the_default_meets_its_targets() -> None:
    """At alpha = 0.1: 0.30 and 0.53 S at epsilon 2; 0.04 and 0.26 S at epsilon 4."""
    for epsilon, small, large in ((2, 0.30, 0.53), (4, 0.04, 0.26)):
        chosen = mechanism("auto", alpha="0.1", epsilon=epsilon)
        assert chosen.certify().holds
        assert chosen.expected_error(Cell(0, 1)).mean_absolute <= small
        for largest in (200, 201, 1_000, 100_000):
            error = chosen.mean_error(Cell(0, largest))[0]
            assert error <= large * float(Fraction(largest, 10))


def test_the_default_is_the_best_of_its_choice() -> None:
    grid = combinations(["0.01", "0.1", "0.2"], ["0.5", "1", "2", "4"], each=2)
    for alpha, epsilon in grid:
        chosen = mechanism("auto", alpha=alpha, epsilon=epsilon)
        for name in ("smooth-pareto", "radial", "smooth-gamma-tight"):
            try:
                other = mechanism(name, alpha=alpha, epsilon=epsilon)
            except Refusal:
                continue
            products = [
                m.mean_error(Cell(0, 1))[0] * m.mean_error(Cell(0, 10**5))[0]
                for m in (chosen, other)
            ]
            assert products[0] <= products[1] * 1.01
    with pytest.raises(Refusal, match="needs epsilon of"):
        mechanism("auto", alpha="0.2", epsilon="0.1")


@pytest.mark.parametrize("name", SCALED)
def test_worker_cells_under_strong_neighbours_need_the_whole_workplace(name: str) -> None:
    strong = made(name)
    assert strong.statistics() == ("count", "largest")
    assert strong.statistics(worker_attributes=True) == ("count", "largest_total")
    weak = calibrate(name, Guarantee(Weak("0.1", ["sex"]), 2, strong.guarantee.delta))
    assert weak.statistics(worker_attributes=True) == ("count", "largest")
    assert weak.mean_error(Cell(9)) == strong.mean_error(Cell(9))


@pytest.mark.parametrize("name", TRANSFORMED)
def test_distributions_of_the_count_alone_are_refused_in_worker_cells_under_strong_neighbours(
    name: str,
) -> None:
    strong = made(name)
    assert strong.statistics() == ("count",)
    with pytest.raises(Refusal, match=r"no guarantee under strong neighbours .* use smooth-pareto"):
        strong.statistics(worker_attributes=True)
    weak = calibrate(name, Guarantee(Weak("0.1", ["sex"]), 2))
    assert weak.statistics(worker_attributes=True) == ("count",)


def test_a_worker_cell_with_its_own_largest_loses_what_the_methods_say() -> None:
    """1 man and 99 women, then 10 men: one strong step, but 13.5 for the men's cell alone."""
    chosen = made("smooth-pareto")
    loss = chosen.log_pmf(Cell(1), 1) - chosen.log_pmf(Cell(10), 1)
    assert loss == pytest.approx(13.5, abs=0.1)
    whole = chosen.log_pmf(Cell(1, 100), 1) - chosen.log_pmf(Cell(10, 109), 1)
    assert abs(whole) <= 2


@pytest.mark.parametrize("name", FIXED)
def test_fixed_noise_needs_the_count_alone(name: str) -> None:
    assert made(name).statistics(worker_attributes=True) == ("count",)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gauss", {}, "there is no mechanism named 'gauss'; there are auto, smooth-pareto"),
        (
            "smooth-pareto",
            {"alpha": "0.2", "epsilon": "0.3"},
            r"needs epsilon of 0.3647 or more \(above 2 ln",
        ),
        ("smooth-pareto", {"alpha": None}, "smooth-pareto needs an alpha, such as '0.1'"),
        ("smooth-pareto", {"theta": 3}, "has no parameter 'theta'; it takes no parameters"),
        (
            "smooth-gamma",
            {"epsilon": "0.4"},
            r"smooth-gamma needs epsilon of 0.4771 or more \(above 5 ln",
        ),
        (
            "smooth-gamma-tight",
            {"epsilon": "0.2"},
            r"needs epsilon of 0.28[0-9]+ or more \(above 3 ln",
        ),
        ("radial", {"epsilon": "0.09"}, r"radial needs epsilon of 0.09541 or more \(above ln"),
        ("log-laplace", {"epsilon": "0.19"}, r"needs epsilon of 0.1907 or more \(above 2 ln"),
        ("log-laplace-tight", {"epsilon": "0.09"}, r"needs epsilon of 0.09532 or more \(above ln"),
        ("log-laplace-tight", {"aim": "best"}, "aim must be plain, unbiased, absolute or squares"),
        (
            "log-laplace-tight",
            {"epsilon": "0.15", "aim": "squares"},
            r"needs epsilon of 0.1907 or more for the aim squares",
        ),
        ("log-laplace", {"additive": "0.5"}, "additive must be at least 1 worker"),
        ("linlog", {"epsilon": "0.09"}, r"needs epsilon of 0.09532 or more \(above ln"),
        (
            "smooth-laplace",
            {"delta": "1e-6"},
            r"needs a delta of 0.00002776 or more, or epsilon of 2.634 or more",
        ),
        ("smooth-laplace", {"delta": "0"}, r"needs a delta of 0.00002776 or more; raise it"),
        ("smooth-laplace-exact", {"delta": 0}, "needs a delta above 0"),
        (
            "smooth-laplace-exact",
            {"delta": "1e-30"},
            r"needs a delta of 7.225e-11 or more, or epsilon of 6.573 or more",
        ),
        ("truncated-laplace", {"theta": 0}, "theta must be an integer of workers from 1"),
        ("capped-laplace", {"cap": 0}, "cap must be an integer from 1"),
        (
            "capped-laplace",
            {"cap": 1},
            r"needs a delta of 0.1066 or more with a cap of 1, or a cap of 7 or more",
        ),
        ("capped-laplace", {"delta": 0}, "needs a delta above 0"),
        ("smooth-pareto", {"alpha": "1e-7"}, "takes an alpha from 0.000001 to 1000; for less use"),
        ("smooth-pareto", {"alpha": "1e400"}, "takes an alpha from 0.000001 to 1000"),
        ("radial", {"epsilon": "501"}, "radial takes an epsilon from 0.000001 to 500"),
        ("smooth-laplace-exact", {"delta": "1e-400"}, "takes a delta of 0, or from 1e-300"),
        (
            "log-laplace-tight",
            {"epsilon": "0.0955", "aim": "absolute"},
            r"needs epsilon of 0.09[0-9]+ or more for the aim absolute",
        ),
        ("edge-geometric", {"epsilon": 0}, "edge-geometric takes an epsilon from 0.000001 to 500"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        mechanism(name, **({"alpha": "0.1", "epsilon": "2"} | settings))


def test_mechanisms_are_for_their_own_neighbours() -> None:
    for name in SCALED + TRANSFORMED:
        for relation in (EDGE, NODE):
            with pytest.raises(Refusal, match=f"{name} needs strong or weak neighbours"):
                calibrate(name, Guarantee(relation, 2, "0.01"))
    for name in FIXED:
        with pytest.raises(Refusal, match=r"is for (edge|node) neighbours; under strong or weak"):
            calibrate(name, Guarantee(Strong("0.1"), 2, "0.01"))


def test_counts_and_sizes_that_cannot_be_are_refused_without_a_value() -> None:
    chosen = made("smooth-pareto")
    random = SeededRandom(1)
    for counts, largests in (
        (np.array([1]), np.array([1, 2])),
        (np.array([-77]), np.array([1])),
        (np.array([1]), np.array([-77])),
        (np.array([0.5]), np.array([1])),
        (np.array([[77]]), np.array([[1, 2]])),
        (np.array([1 << 60]), np.array([1])),
    ):
        with pytest.raises(Refusal) as caught:
            chosen.draw(counts, largests, random=random)
        assert "77" not in str(caught.value)
    assert chosen.draw(np.array([]), np.array([]), random=random).tolist() == []
    with pytest.raises(Refusal, match="must be from 0 to below 2\\^60"):
        chosen.expected_error(Cell(0, -1))
    for wrong in (5.5, "7", None):
        with pytest.raises(Refusal, match="must be integers"):
            chosen.log_pmf(Cell(wrong, 3), 1)
    with pytest.raises(Refusal, match="level must be"):
        chosen.quantile(1.0, Cell(0, 3))


@every
def test_no_float_of_the_noise_reaches_an_output(name: str) -> None:
    chosen = made(name)
    outputs = chosen.draw(np.array([3, 5]), np.array([3, 5]), random=SeededRandom(1))
    assert outputs.dtype == np.int64


@every
def test_a_mechanism_is_frozen_plain_data(name: str) -> None:
    chosen = made(name)
    assert chosen == made(name)
    assert all(Fraction(value) > 0 for value in chosen.parameters.values())
    with pytest.raises(AttributeError):
        chosen.guarantee = None
    assert type(chosen).__doc__
    assert "Theorem." in "".join(kind.__doc__ or "" for kind in type(chosen).__mro__)


def test_truncation_says_how_cells_are_bounded() -> None:
    chosen: Any = made("truncated-laplace", theta=20)
    assert chosen.bound.theta == 20
    assert chosen.parameters == {"theta": "20"}


@pytest.mark.parametrize("name", SCALED)
def test_a_scale_is_never_taken_for_granted(name: str) -> None:
    """Without the largest workplace the noise would be that of a cell with one worker."""
    chosen = made(name)
    with pytest.raises(Refusal, match="every cell needs a count and the size of its largest"):
        chosen.draw(np.array([10**6]), random=SeededRandom(1))
    one, workplace = Cell(10**6), Cell(10**6, 10**6)
    assert one == workplace
    assert chosen.quantile(0.9, one) > chosen.quantile(0.9, Cell(10**6, 1))


@every
def test_numbers_of_numpy_are_whole_numbers_too(name: str) -> None:
    chosen = made(name)
    plain = chosen.log_pmf(Cell(7, 5), 8)
    assert chosen.log_pmf(Cell(np.uint8(7), np.int32(5)), np.int64(8)) == plain
    assert chosen.quantile(Fraction(1, 2), Cell(7, 5)) == chosen.quantile(0.5, Cell(7, 5))


@pytest.mark.parametrize("name", ["radial", "edge-geometric", "smooth-gamma"])
def test_draws_do_not_depend_on_the_precision_that_somebody_set(name: str) -> None:
    chosen, drawn = made(name), []
    for bits in (24, 53, 400):
        with exactly(bits):
            fresh = calibrate(name, chosen.guarantee)
            drawn.append(fresh.draw(np.arange(20_000), np.arange(20_000), random=SeededRandom(1)))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] == drawn[2]).all()


@pytest.mark.parametrize(
    ("name", "alpha", "epsilon"),
    combinations(
        ["linlog", "linlog-integer", "log-laplace-tight"],
        [("0.001", "100"), ("0.1", "0.192"), ("0.1", "2")],
        each=2,
    ),
)
def test_the_error_does_not_jump_where_sums_give_way_to_integrals(
    name: str, alpha: str, epsilon: str
) -> None:
    chosen: Any = made(name, alpha, epsilon)
    for count in (20_500, 3_000_000):
        near, far = (chosen.mean_error(Cell(count + d, 0)) for d in (0, 1))
        assert near[0] == pytest.approx(far[0], rel=2e-3)
        assert chosen.real_error(Cell(count))[0] == pytest.approx(near[0], rel=0.01) or (
            near[0] < 3  # where the noise is small, rounding matters
        )
