"""All thresholds of a size profile for one price: the theorem, its certificate, and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import eree
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.registry import calibrate
from eree.mechanisms.threshold_geometric import ThresholdGeometric
from eree.policy.neighbours import EDGE, NODE, RECORD, Linked, Strong, Weak
from eree.random.source import SeededRandom
from eree.workload import default_thresholds
from selection import examples

NAME = "threshold-geometric"
LARGEST = 60


def made(relation: Any, epsilon: Any = 1, **given: Any) -> ThresholdGeometric:
    found = calibrate(NAME, eree.Guarantee(relation, epsilon), given)
    assert isinstance(found, ThresholdGeometric)
    return found


@dataclass(frozen=True)
class Population:
    """Histograms of the workers of some workplaces over two types, and the groups they are in."""

    groups: list[int]
    staff: list[tuple[int, int]]

    def rows(self, sizes: Sequence[int], pooled_from: int) -> list[int]:
        """Every number of a profile, by looking at every workplace."""
        found = []
        for size in sizes:
            reaching = [
                g for g, held in zip(self.groups, self.staff, strict=True) if sum(held) >= size
            ]
            if size > pooled_from:
                found.append(len(reaching))
            else:
                found += [reaching.count(group) for group in range(3)]
        return found


@st.composite
def populations(draw: st.DrawFn) -> Population:
    number = draw(st.integers(1, 5))
    several = {"min_size": number, "max_size": number}
    workers = st.integers(0, LARGEST // 2)
    groups = draw(st.lists(st.integers(0, 2), **several))
    return Population(groups, draw(st.lists(st.tuples(workers, workers), **several)))


relations = st.one_of(
    st.fractions("1/50", 3, max_denominator=60).map(Strong),
    st.fractions("1/50", 3, max_denominator=60).map(lambda alpha: Weak(alpha, ["sex"])),
    st.sampled_from([EDGE, NODE]),
)
thresholds = st.lists(st.integers(1, 2 * LARGEST), min_size=1, max_size=12, unique=True).map(sorted)


def steps(relation: Linked, before: tuple[int, int]) -> list[tuple[int, int]]:
    """All that one step makes of a workforce, up to a size."""
    one, other = before
    grown = ((one + i, other + j) for i in range(LARGEST) for j in range(LARGEST - i))
    return [after for after in grown if relation.allows(before, after)]


@examples(120, torture=3000)
@given(st.data(), populations(), relations, thresholds, st.integers(0, 2 * LARGEST))
def test_one_step_changes_the_probability_of_all_rows_together_by_e_to_epsilon_at_most(
    data: st.DataObject, one: Population, relation: Linked, some: list[int], pooled_from: int
) -> None:
    """Half of the steps are the longest there are, half of the thresholds all that are passed."""
    epsilon = data.draw(st.fractions("1/100", 5, max_denominator=100))
    place = data.draw(st.integers(0, len(one.staff) - 1))
    before = one.staff[place]
    possible = sorted(steps(relation, before), key=sum)
    longest = data.draw(st.booleans())
    after = possible[-1] if longest else data.draw(st.sampled_from(possible))
    between = range(sum(before) + 1, sum(after) + 1)
    dense = data.draw(st.booleans())
    sizes = list(between) if dense else some
    mechanism = made(relation, epsilon, sizes=sizes)
    other = replace(one, staff=[*one.staff[:place], after, *one.staff[place + 1 :]])
    counts, neighbours = (each.rows(sizes, pooled_from) for each in (one, other))
    shifts = st.lists(st.integers(-4, 4), min_size=len(counts), max_size=len(counts))
    outputs = [n + shift for n, shift in zip(counts, data.draw(shifts), strict=True)]
    for output in (outputs, counts, neighbours):
        loss = sum(
            mechanism.log_pmf(Cell(b), y) - mechanism.log_pmf(Cell(a), y)
            for a, b, y in zip(counts, neighbours, output, strict=True)
            if a != b
        )
        assert abs(loss) <= float(epsilon) * (1 + 1e-9)


@examples(60, torture=2000)
@given(relations, thresholds)
def test_the_most_thresholds_that_a_step_passes_are_those_of_brute_force(
    relation: Linked, sizes: list[int]
) -> None:
    mechanism = made(relation, Fraction(7, 10), sizes=sizes)
    most = 0
    for before in range(sizes[-1]):
        growth = relation.growth(before)
        for after in range(before + 1, sizes[-1] + 1 if growth is None else before + growth + 1):
            most = max(most, sum(before < size <= after for size in sizes))
    assert mechanism.passed == most
    certificate = mechanism.certify()
    assert certificate.holds
    assert certificate.bound == Fraction(7, 10)
    assert certificate.worst_pair.loss == pytest.approx(0.7)


@examples(40, torture=1000)
@given(st.fractions("1/1000", 10, max_denominator=1000))
def test_the_thresholds_that_follow_from_alpha_are_passed_one_at_a_time(alpha: Fraction) -> None:
    relation = Strong(alpha)
    sizes = default_thresholds(relation)
    assert made(relation).sizes == sizes
    assert made(relation).passed == 1
    assert 60_000 - relation.growth(sizes[-1]) < sizes[-1] <= 60_000
    # one of them nearer to the one before, and a step passes both
    for i in range(1, min(len(sizes), 40)):
        if sizes[i] - 1 > sizes[i - 1]:
            nearer = [*sizes[:i], sizes[i] - 1]
            assert made(relation, sizes=nearer).passed == 2


def test_the_thresholds_of_one_tenth_are_those_of_the_page() -> None:
    sizes = default_thresholds(Strong("0.1"))
    assert sizes[:28] == (*range(1, 22), 23, 25, 27, 29, 31, 34, 37)
    assert (len(sizes), sizes[-1]) == (107, 58_290)
    assert default_thresholds(EDGE) == sizes == default_thresholds(Weak("0.1", ["sex"]))


def test_a_mechanism_that_passes_more_than_it_says_does_not_keep_its_claim() -> None:
    honest = made(Strong("0.5"), sizes=[10, 11, 12])
    assert honest.passed == 3
    certificate = replace(honest, passed=2).certify()
    assert not certificate.holds
    assert certificate.bound == Fraction(3, 2)
    pair = certificate.worst_pair
    assert (pair.before, pair.after) == (Cell(8), Cell(12))


def test_the_error_is_that_of_the_probabilities() -> None:
    mechanism = made(Strong("0.1"), "0.04")
    assert mechanism.mean_error(Cell(0))[0] == pytest.approx(24.9933, abs=1e-4)
    outputs = range(-2_000, 2_001)
    mass = np.exp([mechanism.log_pmf(Cell(0), output) for output in outputs])
    away = np.abs(outputs)
    assert mass.sum() == pytest.approx(1)
    assert mechanism.mean_error(Cell(0)) == pytest.approx(
        (float((mass * away).sum()), float(np.sqrt((mass * away**2).sum())))
    )


def fit(noise: Any, rate: float) -> float:
    """How likely geometric noise of a rate differs as much from the draws: 20 classes of them."""
    q = np.exp(-rate)
    edges = np.unique(np.round(np.linspace(-2.2, 2.2, 20) / rate))
    below = np.where(edges < 0, q**-edges / (1 + q), 1 - q ** (edges + 1) / (1 + q))
    expected = np.diff(below, prepend=0, append=1) * len(noise)
    observed = np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1)
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize(("epsilon", "sizes"), [("0.04", [1]), ("0.6", [10, 11, 12])])
def test_draws_have_the_stated_probabilities(epsilon: str, sizes: list[int]) -> None:
    """A false alarm in a million seeds; a scale 10% off is found at the same level."""
    mechanism = made(Strong("0.5"), epsilon, sizes=sizes)
    counts = np.arange(100_000) % 1_000
    noise = mechanism.draw(counts, random=SeededRandom(5)) - counts
    rate = float(mechanism.guarantee.epsilon) / len(sizes)
    assert fit(noise, rate) > 1e-6
    for off in (0.9, 1.1):
        assert fit(noise, rate / off) < 1e-6


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_cover_as_often_as_they_say(level: float) -> None:
    """Four standard deviations below the level: a false alarm in 30,000 seeds."""
    mechanism, n = made(EDGE, "0.3"), 20_000
    for count in (0, 3, 1_000):
        noisy = mechanism.draw(np.full(n, count), random=SeededRandom(count))
        low, high = mechanism.interval(noisy.reshape(-1, 1), level)
        covered = ((low <= count) & (count <= high)).mean()
        assert covered > level - 4 * np.sqrt(level * (1 - level) / n)


@pytest.mark.parametrize(
    ("relation", "given", "words"),
    [
        (Strong("0.1"), {"sizes": [3, 3]}, "sizes must be increasing integers"),
        (Strong("0.1"), {"sizes": [0, 3]}, "sizes must be increasing integers"),
        (Strong("0.1"), {"sizes": "3,1"}, "sizes must be increasing integers"),
        (Strong("0.1"), {"sizes": "1,x"}, "sizes must be increasing integers"),
        (Strong("0.1"), {"sizes": [1, 10**6 + 1]}, "sizes must be increasing integers"),
        (Strong("0.1"), {"sizes": [1.5]}, "sizes must be increasing integers"),
        (Strong("0.1"), {"theta": 3}, "has no parameter 'theta'; it takes only sizes"),
        (NODE, {}, "under node neighbours one step may pass all thresholds"),
        (RECORD, {}, "is for workplaces; a survey's neighbours are records"),
    ],
)
def test_what_has_no_guarantee_is_refused(relation: Any, given: Any, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        made(relation, **given)


def test_a_delta_and_too_little_for_each_threshold_are_refused() -> None:
    with pytest.raises(Refusal, match="needs no delta"):
        calibrate(NAME, eree.Guarantee(Strong("0.1"), 1, "1e-6"))
    with pytest.raises(Refusal, match="take fewer sizes"):
        made(NODE, "0.000003", sizes=[1, 2, 3, 4])


def test_without_an_alpha_a_worker_alone_is_protected() -> None:
    mechanism = eree.mechanism(NAME, epsilon="0.5", sizes="1,2,3")
    assert mechanism.guarantee.neighbours == EDGE
    assert mechanism.parameters == {"sizes": "(1, 2, 3)", "passed": "1"}
    assert eree.mechanism(NAME, epsilon="0.5", sizes=7).parameters["sizes"] == "(7,)"
