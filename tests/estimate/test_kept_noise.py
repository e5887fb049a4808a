"""What is kept of noise and looked up says the same as what is computed cell by cell."""

from __future__ import annotations

from math import erfc, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

import eree
from eree.estimate import evidence as evidence_file
from eree.estimate import largest as largest_file
from eree.estimate.calibration import Calibrated
from eree.estimate.evidence import CalibratedTable, Evidence
from eree.estimate.largest import (
    _INSIDE,
    _NEAR,
    LargestWorkplace,
    _others,
    equally_likely,
    posterior_of_largest,
    prior_of_largest,
)
from eree.estimate.noise import NoiseBySize, noise_of_cells
from eree.estimate.quantiles import MOST_KURTOSIS, quantiles, shortest
from eree.estimate.size_distribution import SizeDistribution, not_rising, size_classes

LEAST = size_classes()
NOISY = np.array([-40, -1, 0, 1, 2, 9, 33, 99, 100, 101, 700, 1_234, 20_000, 450_000, 33, 9])
WORKPLACES = np.array([1, 2, 1, 1, 3, 2, 7, 1, 20, 2, 300, 1, 40, 900, 7, 3])
KINDS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0, 1])


@pytest.fixture(scope="module")
def sizes() -> SizeDistribution:
    rng = np.random.default_rng(1)
    drawn = {("a",): rng.lognormal(1.6, 1.5, 20_000), ("b",): rng.lognormal(3, 1, 9_000)}
    numbers = {
        kind: np.bincount(
            np.searchsorted(LEAST, np.rint(own), side="right") - 1, minlength=len(LEAST)
        ).astype(np.float64)
        for kind, own in drawn.items()
    }
    return SizeDistribution.from_numbers(("kind",), numbers, LEAST)


@pytest.fixture(scope="module")
def noise(sizes: SizeDistribution) -> NoiseBySize:
    made = eree.mechanism("auto", alpha="0.1", epsilon="2")
    return noise_of_cells(made, tuple(sizes.sizes.tolist()))


def cell_by_cell(noise: NoiseBySize, sizes: SizeDistribution) -> NDArray[np.float64]:
    """The posterior by its formula, without anything that is kept."""
    rows = []
    for y, m, kind in zip(NOISY, WORKPLACES, KINDS, strict=True):
        near = max(0.5, _NEAR * abs(y))
        one, own = np.array([m]), np.array([kind])
        likely = np.zeros(len(LEAST))
        for j, (least, greatest) in enumerate(zip(sizes.least, sizes.greatest, strict=True)):
            low, high = (end[j] for end in noise.reach)
            if y + near - low < least or y - near - high > m * greatest:
                continue
            mean, variance = (each[:, j] for each in sizes.moments)
            inside = np.linspace(least, greatest, _INSIDE) if least < greatest else [least]
            others = _others(sizes, one - 1, own, j, mean, variance)[0]
            counts = np.add.outer(others, inside)
            between = noise.up_to(j, y + near - counts) - noise.up_to(j, y - near - counts - 1e-6)
            likely[j] = between.mean() / near
        prior = prior_of_largest(sizes, one, own)[0]
        whole = (prior * likely).sum()
        rows.append(prior * likely / whole if whole else prior)
    return np.stack(rows)


@pytest.mark.parametrize("kept", [4_096, 1])
def test_the_posterior_is_that_of_each_cell(
    noise: NoiseBySize, sizes: SizeDistribution, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_file, "_MOST_KEPT", kept)
    expected = cell_by_cell(noise, sizes)
    found = posterior_of_largest(noise, sizes, NOISY, WORKPLACES, KINDS)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-300)
    known, which = LargestWorkplace.of(noise, sizes, WORKPLACES, KINDS)
    points = known.points(NOISY, which, noise.variance)
    assert points.tolist() == equally_likely(found, noise.variance).tolist()


def test_a_count_that_no_size_is_near_has_its_prior(
    noise: NoiseBySize, sizes: SizeDistribution
) -> None:
    far, one, kind = np.array([-(10**7)]), np.array([2]), np.array([0])
    found = posterior_of_largest(noise, sizes, far, one, kind)
    assert found.tolist() == prior_of_largest(sizes, one, kind).tolist()


@pytest.mark.parametrize("kept", [1 << 18, 1])
def test_joint_ends_are_those_of_all_cells_asked_again(
    noise: NoiseBySize, sizes: SizeDistribution, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence_file, "_MOST_KEPT", kept)
    own = Evidence(WORKPLACES, KINDS, NOISY, noise)
    made = Calibrated(noise, own.points(sizes, noise.variance))
    cells, starts = np.arange(len(NOISY)), np.array([0, 1, 4, 9, 10, 14])
    sums, table = np.add.reduceat(NOISY, starts), CalibratedTable(made, sizes, own)
    for miss in (1e-4, 1e-2, 1e-6, 1e-4):  # what was found for one is known for the next
        low, high = table.joint_ends(sums, cells, starts, miss)
        moments, down = made.moments(cells, starts), made.joint_reach(cells, starts, 1 - miss)
        each = noise.variance[made.points].mean(1)
        number = np.diff(np.append(starts, len(cells)))
        up = np.rint(NOISY + each * np.repeat(down / moments.variance, number)).astype(np.int64)
        posterior = posterior_of_largest(noise, sizes, up, WORKPLACES, KINDS)
        larger = Calibrated(noise, equally_likely(posterior, noise.variance))
        reach = np.maximum(down, larger.joint_reach(cells, starts, 1 - miss, most=True))
        assert low.tolist() == np.maximum(np.ceil(sums - moments.mean - down), 0).tolist()
        assert high.tolist() == np.maximum(np.floor(sums - moments.mean + reach), 0).tolist()


@given(st.lists(st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6)), min_size=1, max_size=60))
@settings(max_examples=300, deadline=None)
def test_numbers_that_do_not_rise_are_those_of_isotonic_regression(numbers: list[float]) -> None:
    given_ = np.array(numbers, dtype=np.float64)
    found = not_rising(given_)
    assert found.tolist() == isotonic_regression(given_, increasing=False).x.tolist()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12])
def test_quantiles_miss_as_much_as_they_say(level: float) -> None:
    """Newton's steps against a finer sum over variances with a gamma distribution."""
    for kurtosis in (0.02, MOST_KURTOSIS):
        shape = 3 / kurtosis
        logs = np.linspace(-40 / min(shape, 1.0) ** 0.5 - 6, np.log(1 + 60 / shape), 40_000)
        weight = np.exp(shape * (logs - np.exp(logs) + 1))
        at = float(quantiles(np.array([kurtosis]), level)[0])
        beyond = [erfc(at / sqrt(2) / deviation) for deviation in np.exp(logs / 2)]
        assert weight @ beyond / weight.sum() == pytest.approx(1 - level, rel=1e-4)


TAILS = st.lists(st.integers(0, 64), min_size=6, max_size=6).map(
    lambda numbers: np.array([sorted(numbers, reverse=True)]) / 128
)


@given(TAILS, TAILS, st.integers(1, 100))
@settings(max_examples=500, deadline=None)
def test_the_shortest_interval_is_that_of_all_that_miss_no_more(
    below: NDArray[np.float64], above: NDArray[np.float64], parts: int
) -> None:
    """All pairs of distances are tried; where none is enough, the last ones are taken."""
    distances, miss = np.array([0, 1, 2, 3, 5, 9]), parts / 128
    down, up = (int(end[0]) for end in shortest(below, above, distances, miss))
    enough = below[0][:, None] + above[0] <= miss
    if not enough.any():
        assert (down, up) == (9, 9)
        return
    assert enough[np.searchsorted(distances, down), np.searchsorted(distances, up)]
    assert down + up == np.add.outer(distances, distances)[enough].min()


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99, 0.9999])
def test_cells_that_are_asked_for_in_parts_have_the_same_ends(
    noise: NoiseBySize, sizes: SizeDistribution, level: float
) -> None:
    points = Evidence(WORKPLACES, KINDS, NOISY, noise).points(sizes, noise.variance)
    whole, parts = Calibrated(noise, points), Calibrated(noise, points)
    expected = whole.cell_ends(NOISY, level)
    for some in (np.array([3]), np.array([5, 3, 12]), np.arange(len(NOISY))):
        found = parts.sum_ends(NOISY[some], some, np.arange(len(some)), level)
        assert [side.tolist() for side in found] == [side[some].tolist() for side in expected]


def test_an_interval_of_a_cell_misses_no_more_than_its_level(
    noise: NoiseBySize, sizes: SizeDistribution
) -> None:
    """And no interval between other distances from zero is shorter: all of them are tried."""
    points = Evidence(WORKPLACES, KINDS, NOISY, noise).points(sizes, noise.variance)
    distances, (below, above) = noise.distances, noise.tails
    for level in (0.8, 0.95):
        down, up = Calibrated(noise, points)._shortest(points, level)
        for row, one, two in zip(points, down, up, strict=True):
            enough = below[row].mean(0)[:, None] + above[row].mean(0) <= 1 - level + 1e-12
            lengths = distances[:, None] + distances
            assert enough[np.searchsorted(distances, one), np.searchsorted(distances, two)]
            assert one + two == lengths[enough].min()
