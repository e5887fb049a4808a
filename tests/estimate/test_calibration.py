"""What is known of the noise of released cells, against brute force."""

from __future__ import annotations

from math import exp, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import eree
import eree_study
from eree.estimate.calibration import Calibrated, _distinct
from eree.estimate.largest import equally_likely, posterior_of_largest, prior_of_largest
from eree.estimate.noise import NoiseBySize, noise_of_cells, noise_of_groups
from eree.estimate.quantiles import ends_around, quantiles, shortest
from eree.estimate.rank import number_above, own_ranks
from eree.estimate.size_distribution import SizeDistribution, size_classes

LEAST = size_classes()


def made(epsilon: str = "2") -> eree.Mechanism:
    return eree.mechanism("auto", alpha="0.1", epsilon=epsilon)


def distribution(sizes: NDArray[np.int64]) -> SizeDistribution:
    """All workplaces of one kind, with such sizes."""
    numbers = np.bincount(np.searchsorted(LEAST, sizes, side="right") - 1, minlength=len(LEAST))
    return SizeDistribution.from_numbers((), {(): numbers.astype(np.float64)}, LEAST)


@pytest.fixture(scope="module")
def noise() -> NoiseBySize:
    return noise_of_cells(made(), tuple(distribution(LEAST).sizes.tolist()))


# ----------------------------------------------------------------------------- sizes of workplaces


def test_classes_hold_one_size_each_where_they_are_small_and_a_tenth_beyond() -> None:
    assert LEAST[:23].tolist() == [*range(22), 23]
    assert (np.diff(LEAST[22:]) / LEAST[22:-1] <= 0.1).all()


def profile(sizes: dict[str, NDArray[np.int64]], noise: float = 0.0, seed: int = 1) -> pa.Table:
    """A released profile of some sectors, large sizes pooled."""
    rng, rows = np.random.default_rng(seed), []
    everyone = np.concatenate(list(sizes.values()))
    for sector, own in sizes.items():
        rows += [(sector, t, (own >= t).sum(), len(own)) for t in LEAST[1:] if t <= 100]
    rows += [(None, t, (everyone >= t).sum(), len(everyone)) for t in LEAST[1:] if t > 100]
    names = ("sector", "at_least", "noisy", "workplaces")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    off = np.rint(rng.laplace(0, noise, len(rows))) if noise else 0
    columns["noisy"] = (np.array(columns["noisy"]) + off).astype(np.int64)
    return pa.table(columns)


def sizes_of(number: int, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.rint(rng.lognormal(1.6, 1.5, number)).astype(np.int64)


def test_a_profile_without_noise_gives_the_sizes_back() -> None:
    sizes = {"11": sizes_of(4_000, 1), "72": np.minimum(sizes_of(9_000, 2) * 2, 100)}
    found = SizeDistribution.from_profile(profile(sizes), ("sector",), 1e-9)
    assert found.kinds == (("11",), ("72",))
    for shares, own in zip(found.shares, sizes.values(), strict=False):
        small = LEAST <= 90
        true = np.array([(own >= t).mean() for t in LEAST[small]])
        assert np.abs(np.cumsum(shares[::-1])[::-1][small] - true).max() < 0.001
    pooled = found.told_apart_by(())
    true = np.array([np.mean(np.concatenate(list(sizes.values())) >= t) for t in LEAST])
    assert np.abs(np.cumsum(pooled.shares[0, ::-1])[::-1] - true).max() < 0.002


def test_a_noisy_profile_is_near_and_never_rises() -> None:
    sizes = {"11": sizes_of(30_000, 3), "72": sizes_of(60_000, 4)}
    found = SizeDistribution.from_profile(profile(sizes, noise=25.0), ("sector",), 25.0)
    assert (found.shares >= 0).all()
    for at in (1, 5, 20, 100, 400):
        place = int(np.searchsorted(LEAST, at))
        numbers = found.shares[2, place:].sum() * found.weights[2]
        true = sum((own >= LEAST[place]).sum() for own in sizes.values())
        assert numbers == pytest.approx(true, rel=0.05, abs=80)


@pytest.mark.parametrize("thresholds", [[1], [10, 100], [5], [1, 20, 50, 1_000]])
def test_a_profile_of_few_thresholds_has_a_tail_that_falls(thresholds: list[int]) -> None:
    sizes = sizes_of(50_000, 5)
    columns = {
        "at_least": thresholds,
        "noisy": [int((sizes >= t).sum()) for t in thresholds],
        "workplaces": [len(sizes)] * len(thresholds),
    }
    found = SizeDistribution.from_profile(pa.table(columns), (), 1.0)
    beyond = np.cumsum(found.shares[0][::-1])[::-1]
    assert (np.diff(beyond) <= 1e-12).all()
    for t, number in zip(thresholds, columns["noisy"], strict=True):
        place = int(np.searchsorted(LEAST, t))
        assert beyond[place] * len(sizes) == pytest.approx(number, rel=0.15)
    assert beyond[-1] < 0.01


def test_kinds_that_a_profile_does_not_know_are_as_all() -> None:
    sizes = {"11": sizes_of(500, 1), "72": sizes_of(900, 2)}
    found = SizeDistribution.from_profile(profile(sizes), ("sector",), 1.0)
    assert found.rows_of(pa.table({"sector": ["72", "11", "99"]})).tolist() == [1, 0, 2]
    assert found.shares[2] == pytest.approx(found.told_apart_by(()).shares[0])


# ------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize("size", [1, 21, 40, 300, 5_000])
def test_draws_show_the_noise_that_the_mechanism_states(noise: NoiseBySize, size: int) -> None:
    """A scale 10% off would be seen; the limits are 4 standard errors and more."""
    place = int(np.searchsorted(LEAST, size, side="right")) - 1
    mean, square = made().mean_error(eree.Cell(int(noise.sizes[place])))
    assert np.abs(noise.draws[place]).mean() == pytest.approx(mean, rel=0.05)
    assert sqrt(noise.variance[place] + noise.mean[place] ** 2) == pytest.approx(square, rel=0.07)


def test_means_are_the_mechanisms_own(noise: NoiseBySize) -> None:
    biases = [made().bias(eree.Cell(int(size))) for size in noise.sizes]
    assert noise.mean.tolist() == biases
    vector = eree.mechanism("vector-radial", alpha="0.1", epsilon="4", cells=3)
    assert not noise_of_cells(vector, (5, 50)).mean.any()


def test_cells_drawn_at_once_add_up_to_their_group() -> None:
    vector = eree.mechanism("vector-radial", alpha="0.1", epsilon="4", cells=4)
    each, whole = noise_of_cells(vector, (50, 500)), noise_of_groups(vector, (50, 500), 4)
    made_of = 4 * each.variance + 12 * each.covariance
    assert made_of == pytest.approx(whole.variance, rel=0.05)


# ---------------------------------------------------------------------- the largest workplace


@pytest.mark.parametrize(("workplaces", "seed"), [(1, 1), (2, 2), (7, 3), (40, 4)])
def test_the_posterior_is_that_of_simulated_cells(
    noise: NoiseBySize, workplaces: int, seed: int
) -> None:
    """Cells of which all is known: among those with about such noisy counts, the largest ones."""
    rng, sizes = np.random.default_rng(seed), sizes_of(20_000, 9)
    drawn = rng.choice(sizes, (60_000, workplaces))
    largest, counts = drawn.max(1), drawn.sum(1)
    noisy = made().draw(counts, largest, random=eree.SeededRandom(seed))
    dist = distribution(sizes)
    for share in (0.2, 0.5, 0.9):
        at = int(np.quantile(noisy, share))
        near = np.abs(noisy - at) <= max(0.02 * at, 0)
        found = posterior_of_largest(
            noise, dist, *(np.array([n]) for n in (at, workplaces)), np.zeros(1, dtype=np.int64)
        )[0]
        assert found.sum() == pytest.approx(1)
        mean = float(found @ np.log1p(dist.sizes))
        true = np.log1p(largest[near])
        assert mean == pytest.approx(true.mean(), abs=0.08 + 5 * true.std() / sqrt(near.sum()))


@given(st.integers(1, 400), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_the_prior_is_the_distribution_of_the_largest_of_many(workplaces: int, seed: int) -> None:
    dist = distribution(sizes_of(3_000, seed))
    found = prior_of_largest(dist, np.array([workplaces]), np.zeros(1, dtype=np.int64))[0]
    # a thousandth is of sizes that the model knows nothing of
    assert np.cumsum(found) == pytest.approx(dist.up_to[0] ** workplaces, abs=1e-3)
    assert (found > 0).all()


@given(st.lists(st.integers(0, 100), min_size=2, max_size=8), st.integers(25, 90))
@settings(max_examples=50, deadline=None)
def test_equally_likely_classes_have_the_mean_variance(weights: list[int], start: int) -> None:
    variance = LEAST.astype(np.float64) ** 2 + 1
    posterior = np.zeros((1, len(LEAST)))
    posterior[0, start : start + len(weights)] = np.array(weights)[: len(LEAST) - start]
    if not posterior.sum():
        return
    posterior /= posterior.sum()
    points = equally_likely(posterior, variance)
    assert variance[points].mean() == pytest.approx(float(posterior[0] @ variance), rel=0.12)


# ------------------------------------------------------------------------- intervals and sums


@given(st.integers(0, 10_000), st.floats(0.02, 0.4))
@settings(max_examples=60, deadline=None)
def test_the_shortest_interval_is_the_shortest(seed: int, miss: float) -> None:
    rng = np.random.default_rng(seed)
    pmf = rng.dirichlet(np.full(21, 0.4))  # of -10 ... 10
    distances = np.arange(11)
    below = np.array([[pmf[: 10 - d].sum() for d in distances]])
    above = np.array([[pmf[11 + d :].sum() for d in distances]])
    down, up = (int(side[0]) for side in shortest(below, above, distances, miss))
    assert pmf[10 - down : 11 + up].sum() >= 1 - miss - 1e-9
    lengths = [
        a + b for a in distances for b in distances if pmf[10 - a : 11 + b].sum() >= 1 - miss
    ]
    assert down + up <= min(lengths, default=20)


def test_quantiles_are_normal_without_kurtosis_and_laplace_with_three() -> None:
    for level in (0.5, 0.9, 0.999, 0.99999):
        normal, laplace = quantiles(np.array([0.0, 3.0]), level)
        assert normal == pytest.approx(stats.norm.ppf((1 + level) / 2), rel=1e-6)
        assert exp(-sqrt(2) * laplace) == pytest.approx(1 - level, rel=0.05)


def test_sums_of_small_noise_are_those_of_all_their_probabilities(noise: NoiseBySize) -> None:
    points = np.array([[3] * 8, [10] * 8, [30] * 4 + [34] * 4], dtype=np.uint8)
    calibrated = Calibrated(noise, points)
    rng = np.random.default_rng(1)
    parts = [
        noise.draws[rng.choice(row, 400_000), rng.integers(noise.draws.shape[1], size=400_000)]
        for row in points
    ]
    sums = np.sum(parts, axis=0)
    cells, starts = np.arange(3), np.array([0])
    for level in (0.5, 0.9, 0.99):
        low, high = calibrated.sum_ends(np.array([1_000]), cells, starts, level)
        inside = (1_000 - high[0] <= sums) & (sums <= 1_000 - low[0])
        assert inside.mean() >= level - 0.003
        narrower = (1_000 - high[0] < sums) & (sums <= 1_000 - low[0])
        assert narrower.mean() < level + 0.003


def test_large_sums_have_the_moments_of_their_cells(noise: NoiseBySize) -> None:
    points = np.array([[60] * 8, [62] * 8, [70] * 4 + [75] * 4], dtype=np.uint8)
    found = Calibrated(noise, points).moments(np.arange(3), np.array([0, 1]))
    each = noise.variance[points].mean(1)
    assert found.variance == pytest.approx([each[0], each[1] + each[2]])
    assert found.uncertain == pytest.approx([0, noise.variance[points[2]].var()])
    assert found.mean == pytest.approx([noise.mean[60], noise.mean[points[1:]].mean(1).sum()])


def test_ends_hold_an_integer_and_none_below_zero() -> None:
    low, high = ends_around(np.array([5.4, -3.0, 7.0]), np.full(3, 0.1), np.full(3, 0.1))
    assert (low.tolist(), high.tolist()) == ([5, 0, 7], [5, 0, 7])


def test_ranks_for_themselves_hold_in_their_share() -> None:
    """90% of 40 × 300 true ranks; a right interval is below 86% in fewer than 1 of 10^6 runs."""
    rng = np.random.default_rng(3)
    true = np.rint(np.sort(rng.lognormal(6, 1.2, 300))[::-1])
    deviations = 0.1 * true + 2
    ranks = 1 + np.array([(true > one).sum() for one in true])
    held = []
    for _ in range(40):
        estimates = true + rng.normal(0, deviations)
        low, high = (np.rint(estimates + s * 1.645 * deviations).astype(np.int64) for s in (-1, 1))
        best, worst = own_ranks(estimates, deviations, low, high, 0.9)
        held.append(((best <= ranks) & (ranks <= worst)).mean())
    assert 0.86 < np.mean(held) < 0.97


@given(st.integers(0, 2**32), st.integers(1, 400), st.floats(0.1, 3), st.floats(0, 2))
def test_how_many_are_above_is_what_all_pairs_say(
    seed: int, count: int, wide: float, rough: float
) -> None:
    rng = np.random.default_rng(seed)
    means = np.rint(rng.lognormal(5, wide, count))
    deviations = np.maximum(0.2 * means * rng.lognormal(0, rough, count), 0.1)
    at = np.concatenate([means, means - 3 * deviations, means + 1e3, [-1e12, 2.0**62]])
    each = stats.norm.cdf((means - at[:, None]) / deviations)
    true = np.array([each.sum(1), (each * (1 - each)).sum(1)])
    for found, own, off in zip(number_above(means, deviations, at), true, (1e5, 75e3), strict=True):
        np.testing.assert_allclose(found, own, atol=count / off + 1e-9, rtol=0)


# ---------------------------------------------------------------------- before anything is paid


def test_a_plan_says_how_wide_intervals_and_ranks_will_be(tmp_path: Path) -> None:
    """What was promised of the data of a synthetic county, within a factor of two."""
    data = eree_study.synthesize(tmp_path / "data", jobs=60_000)
    plan = eree.Plan.of(
        {
            "data": str(data),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "8"},
            "table": [
                {"name": "jobs", "by": ["tract", "sector"], "epsilon": "2"},
                {"name": "poor", "by": ["tract", "sex", "education"], "epsilon": "0.9"},
            ],
        }
    )
    jobs, poor = (table.widths for table in eree.expected_accuracy(plan).tables)
    assert jobs is not None
    assert poor is not None
    assert jobs.assumed
    assert jobs.warning == ""
    assert "too wide to rank by tract" in poor.warning
    release = eree.publish(
        plan, eree.load(data), ledger=None, out=tmp_path / "out", random=eree.SeededRandom(1)
    )
    for by, said in ((["tract", "sector"], jobs.cells), (["tract"], jobs.sums["tract"])):
        rows = eree.area_totals(release, "jobs", by).rows
        wide = (rows["high"].to_numpy() - rows["low"].to_numpy()).sum() / 2 / 60_000
        assert 0.5 * said < wide < 2 * said
    ranks = eree.rank(release, "jobs", ["tract"]).rows
    span = (ranks["own_worst"].to_numpy() - ranks["own_best"].to_numpy() + 1).mean()
    assert 0.5 * jobs.ranks["tract"][0] < span < 2 * jobs.ranks["tract"][0]


# ------------------------------------------------------------- where the model knows nothing


@pytest.mark.parametrize("noisy", [1_000, 20_000, 500_000])
def test_a_count_that_the_model_calls_impossible_is_believed(
    noise: NoiseBySize, noisy: int
) -> None:
    small = distribution(np.arange(1, 30))
    one = np.ones(1, dtype=np.int64)
    found = posterior_of_largest(noise, small, noisy * one, one, 0 * one)
    low, high = Calibrated(noise, equally_likely(found, noise.variance)).cell_ends(noisy * one, 0.9)
    true = made().draw(np.full(4_000, noisy), np.full(4_000, noisy), random=eree.SeededRandom(1))
    held = (true - noisy >= noisy - high[0]) & (true - noisy <= noisy - low[0])
    assert 0.8 < held.mean() < 0.97


def test_noise_that_no_draw_shows_has_finite_ends(tmp_path: Path) -> None:
    data = eree_study.synthesize(tmp_path / "data", jobs=5_000)
    plan = eree.Plan.of(
        {
            "data": str(data),
            "privacy": {"neighbours": "edge", "epsilon": "40"},
            "table": [{"name": "jobs", "by": ["place", "sector"], "epsilon": "20"}],
        }
    )
    release = eree.publish(
        plan, eree.load(data), ledger=None, out=tmp_path / "out", random=eree.SeededRandom(1)
    )
    rows = eree.rank(release, "jobs", ["sector"]).rows
    assert rows["low"].to_pylist() == rows["noisy"].to_pylist() == rows["high"].to_pylist()
    assert rows["best"].to_pylist() == rows["rank"].to_pylist() == rows["worst"].to_pylist()


def test_a_profile_that_counts_nothing_apart_is_one_of_all() -> None:
    columns = {"sector": [None] * 2, "at_least": [200, 500], "noisy": [90, 20]}
    rows = pa.table({**columns, "workplaces": [5_000] * 2}).cast(
        pa.schema(
            [
                ("sector", pa.string()),
                *((n, pa.int64()) for n in [*columns][1:]),
                ("workplaces", pa.int64()),
            ]
        )
    )
    found = SizeDistribution.from_profile(rows, ("sector",), 1.0)
    assert found.attributes == ()
    assert found.shares[0].sum() == pytest.approx(1)


@pytest.mark.parametrize("level", [0.9, 0.999, 0.99999])
def test_far_levels_are_kept_though_no_draw_shows_them(noise: NoiseBySize, level: float) -> None:
    points = np.array([[40] * 8, [90] * 8], dtype=np.uint8)
    low, high = Calibrated(noise, points).cell_ends(np.full(2, 10**7), level)
    for i, place in enumerate((40, 90)):
        cell = eree.Cell(int(noise.sizes[place]))
        above, below = 10**7 - low[i], high[i] - 10**7
        miss = made().tail(cell, int(above) + 1, 1) + made().tail(cell, int(below) + 1, -1)
        assert float(miss) <= 1.15 * (1 - level)


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(0, 137), min_size=width, max_size=width), min_size=1, max_size=60
        )
    )
)
def test_points_that_differ_are_listed_once_in_their_order(points: list[list[int]]) -> None:
    classes = np.array(points, dtype=np.uint8)
    distinct, back = _distinct(classes)
    assert distinct.tolist() == sorted(map(list, set(map(tuple, points))))
    assert distinct.dtype == np.uint8 and distinct[back].tolist() == points
