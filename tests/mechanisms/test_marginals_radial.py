"""Several marginals from one draw: steps, volumes, draws, rounding, errors and certificates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import accumulate, chain, pairwise, product
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import eree
from cases import FALSE_ALARM
from drawn_rows import check_fast_against_slow
from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.registry import calibrate, mechanism
from eree.mechanisms.vector.marginals_density import _slices, number_of, volume
from eree.mechanisms.vector.marginals_radial import MarginalsRadial
from eree.mechanisms.vector.radial import VectorRadial
from eree.mechanisms.vector.scaled import probabilities_agree
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, Strong, Weak
from eree.random.exact import exactly
from eree.random.source import SeededRandom
from selection import examples
from test_cli import run

#: Age, earnings, race, ethnicity, education and sex, as LODES publishes them.
LODES = (3, 3, 6, 2, 4, 2)
SOME = [(2, 2), (3, 2), (4,), (2, 3, 4), (2, 2, 2, 2), (5, 3)]
LARGE = 10**6  # where rounding no longer shows

several = pytest.mark.parametrize("blocks", SOME, ids=str)
small_blocks = st.lists(st.integers(2, 4), min_size=1, max_size=4).map(tuple)


def made(blocks: Sequence[int] = LODES, epsilon: Any = 4, alpha: Any = "0.1") -> MarginalsRadial:
    found = mechanism("marginals-radial", alpha=alpha, epsilon=epsilon, blocks=blocks)
    assert isinstance(found, MarginalsRadial)
    return found


def split(row: Any, blocks: Sequence[int]) -> list[Any]:
    """The blocks of a row, or of rows."""
    return [row[..., a:b] for a, b in pairwise(accumulate(blocks, initial=0))]


def norm(rows: Any, blocks: Sequence[int]) -> Any:
    """max_k |z_k|."""
    return np.maximum.reduce([np.abs(block).sum(-1) for block in split(rows, blocks)])


def noise(chosen: MarginalsRadial, size: int, groups: int, seed: int) -> Any:
    """Noise of groups whose largest workplace has a size, as it is released."""
    counts = np.zeros((groups, chosen.cells), dtype=np.int64)
    return chosen.draw(counts, np.full(groups, size), random=SeededRandom(seed))


def candidates(blocks: tuple[int, ...], number: int, seed: int) -> Any:
    """Uniform rows of one sum: the sum from -1 to 1, and all counts but one of each block.

    These are uniform among those of an L1 norm of at most 1, which they have in the ball.
    """
    rng = np.random.default_rng(seed)
    t, rows = rng.uniform(-1, 1, number), []
    for v in blocks:
        sizes = rng.dirichlet(np.ones(v), number)[:, : v - 1]
        part = sizes * rng.choice([-1, 1], sizes.shape)
        rows += [part, (t - part.sum(1))[:, None]]
    return np.concatenate(rows, axis=1)


@cache
def uniform_points(blocks: tuple[int, ...], number: int) -> Any:
    """Uniform points of the ball by brute force: this knows no volume, path or beta number."""
    found: list[Any] = []
    while sum(map(len, found)) < number:
        points = candidates(blocks, 200_000, len(found))
        found.append(points[norm(points, blocks) <= 1])
    return np.concatenate(found)[:number]


def oracle(chosen: MarginalsRadial, number: int) -> Any:
    """Draws of Z by other means: a point of the ball, pushed out to a norm from a table."""
    points = uniform_points(chosen.blocks, number)
    t = np.geomspace(1e-4, 400, 200_001)
    heights = t ** (chosen.dimensions - 1) * np.exp(chosen.log_weight(t))
    within = integrate.cumulative_simpson(heights, x=t, initial=0)
    norms = np.interp(np.random.default_rng(4).random(number), within / within[-1], t)
    return points * (norms / norm(points, chosen.blocks))[:, None]


def statistics_of(blocks: Sequence[int]) -> list[Callable[[Any], Any]]:
    """Numbers of a row whose distributions are compared."""
    first, last = slice(0, blocks[0]), slice(-blocks[-1], None)
    return [
        lambda z: z[:, 0],
        lambda z: z[:, -1],
        lambda z: z[:, first].sum(1),
        lambda z: norm(z, blocks),
        lambda z: np.abs(z[:, last]).sum(1),
        lambda z: z[:, first].min(1),
        lambda z: z[:, 0] * z[:, 1],
        lambda z: z[:, 0] * z[:, -1],
        lambda z: z[:, 0] - 2 * z[:, 1] + 0.3 * z[:, -1],
    ]


# ------------------------------------------------------------------------------ steps


@examples(80, torture=2_000)
@given(
    small_blocks,
    st.fractions(Fraction(1, 20), 1, max_denominator=20),
    st.integers(0, 30),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_every_strong_step_lies_in_the_ball(
    blocks: tuple[int, ...], alpha: Fraction, grows: int, other: int, rng: Any
) -> None:
    """Workers with values of all attributes, counted one by one before and after a growth."""

    def workers(number: int) -> list[tuple[int, ...]]:
        return [tuple(rng.randrange(v) for v in blocks) for _ in range(number)]

    def counted(people: list[tuple[int, ...]]) -> Any:
        tables = [[sum(w[k] == c for w in people) for c in range(v)] for k, v in enumerate(blocks)]
        return np.concatenate(tables)

    strong = Strong(alpha)
    beside, before = workers(other), workers(grows)
    joined = workers(rng.randint(1, strong.growth(grows)))
    if rng.random() < 0.5:  # all of a kind
        joined = joined[:1] * len(joined)
    step = counted(beside + before + joined) - counted(beside + before)
    assert len({int(block.sum()) for block in split(step, blocks)}) == 1
    scale = max(alpha * max(grows, other), Fraction(1))
    assert norm(step, blocks) == len(joined) <= scale
    # in the scale that is drawn: at most what the certificate takes a step to be
    chosen = made(blocks, 50, alpha)
    own = [max(float(chosen.pace) * x, 1.0) for x in (max(grows, other), grows + len(joined))]
    ratio = max(own) / own[0]
    most = chosen.one_step.most_shift(np.array(ratio))
    assert ratio <= chosen.one_step.most_ratio * (1 + 1e-12)
    assert len(joined) / own[0] <= float(most) * (1 + 1e-9)


@examples(60, torture=1_000)
@given(small_blocks, st.randoms(use_true_random=False))
def test_the_ball_is_the_hull_of_the_steps(blocks: tuple[int, ...], rng: Any) -> None:
    """A point of the ball as a mean of steps and their opposites: no norm has a smaller ball."""
    t = Fraction(rng.randint(-12, 12), 12)
    up, down = (1 + t) / 2, (1 - t) / 2
    point: list[Fraction] = []
    sides = []
    for v in blocks:
        cuts = [sorted(Fraction(rng.randint(0, 9), 9) for _ in range(v - 1)) for _ in range(2)]
        shares = [[b - a for a, b in pairwise([Fraction(0), *cut, Fraction(1)])] for cut in cuts]
        sides.append(shares)
        point += [up * a - down * b for a, b in zip(*shares, strict=True)]
    assert all(sum(map(abs, block)) <= 1 for block in split(np.array(point), blocks))
    mean = [Fraction(0)] * len(point)
    for values in product(*map(range, blocks)):
        columns = [c + a for c, a in zip(values, accumulate(blocks, initial=0), strict=False)]
        for share, side in ((up, 0), (-down, 1)):
            weight = share * math.prod(
                sides[k][side][c] for k, c in enumerate(values)
            )  # of one step
            for column in columns:
                mean[column] += weight
    assert mean == point


# ------------------------------------------------------------------------------ volumes


@pytest.mark.parametrize("v", [2, 3, 4, 6, 9])
def test_the_volume_of_a_slice_is_that_of_its_orthants(v: int) -> None:
    """By the number j of counts above 0 and the norm r, integrated numerically."""
    for t in (Fraction(0), Fraction(1, 3), Fraction(-3, 4), Fraction(1)):

        def at(r: float, t: float = float(t)) -> float:
            p, q = (r + t) / 2, (r - t) / 2
            return sum(
                math.comb(v, j)
                * (p ** (j - 1) / math.factorial(j - 1))
                * (q ** (v - j - 1) / math.factorial(v - j - 1))
                for j in range(1, v)
            )

        size = abs(float(t))
        expected = size ** (v - 1) / math.factorial(v - 1) + integrate.quad(at, size, 1)[0] / 2
        y = (1 - t**2) / 4
        found = _slices((v,))(fmpq(y.numerator, y.denominator))
        assert float(found) == pytest.approx(expected, rel=1e-9)


@several
def test_the_volume_of_the_ball_is_that_of_the_points_in_it(blocks: tuple[int, ...]) -> None:
    number, tried = 200_000, 2 * math.prod(2 ** (v - 1) / math.factorial(v - 1) for v in blocks)
    inside = int((norm(candidates(blocks, number, 0), blocks) <= 1).sum())
    share = float(volume(blocks)) / tried
    assert stats.binomtest(inside, number, share).pvalue > FALSE_ALARM
    assert stats.binomtest(inside, number, share * 1.1).pvalue < FALSE_ALARM


@several
def test_counts_and_sums_of_the_ball_have_the_stated_density(blocks: tuple[int, ...]) -> None:
    """The coefficients of each number, none below 0, against points found by brute force."""
    points, radial = uniform_points(blocks, 20_000), made(blocks, 20).shape
    degree = radial.width - 1
    for values, numbers in ((None, split(points, blocks)[0].sum(1)), (blocks[0], points[:, 0])):
        coefficients = number_of(radial, blocks, values).coefficients
        assert len(coefficients) == radial.width
        assert min(coefficients) >= 0
        assert 2 * sum(coefficients) == radial.width  # a density on both sides of 0

        def below(x: Any, coefficients: Any = coefficients) -> Any:
            parts = [
                float(c) / radial.width * stats.beta.cdf(x, degree - j + 1, j + 1)
                for j, c in enumerate(coefficients)
            ]
            return 2 * sum(parts)

        assert stats.kstest(np.abs(numbers), below).pvalue > FALSE_ALARM


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 9), Fraction(9, 4), Fraction(40)])
def test_integrals_of_the_weight_are_those_of_numerical_ones(x: Fraction) -> None:
    chosen = made((3, 2))
    shape, turn, c = chosen.shape, chosen.steepest, float(chosen.curve)
    with exactly(128):
        at = arb(fmpq(x.numerator, x.denominator))
        found = [float(part) for part in shape.tail_integrals(at, 6)]
        same = float(shape.tail_integral(at))
    assert found[shape.width - 1] == pytest.approx(same, rel=1e-14)
    near = shape.near_tail_integral(np.array([float(x)]), np.arange(1, 7)[:, None])[:, 0]
    assert near / near[0] == pytest.approx(np.array(found) / found[0], rel=1e-10)
    for n, part in enumerate(found, 1):

        def at_t(t: float, n: int = n) -> float:
            return float((t - float(x)) ** (n - 1) * np.exp(chosen.log_weight(np.array([t]))[0]))

        ends = [float(x), *([turn] if turn > x else []), max(float(x), turn) + 3, np.inf]
        parts = [integrate.quad(at_t, a, b)[0] for a, b in pairwise(ends)]
        assert part == pytest.approx(c**n * sum(parts), rel=1e-7)


# ------------------------------------------------------------------------------ draws


@pytest.mark.parametrize(
    ("blocks", "epsilon"), [((2, 2), 4), ((3, 2), "0.45"), ((2, 3, 4), 2), ((5, 3), 4)], ids=str
)
def test_draws_are_those_of_the_density(blocks: tuple[int, ...], epsilon: Any) -> None:
    """Against points of the ball by brute force; a scale 10% off either way is seen."""
    chosen, number = made(blocks, epsilon), 40_000
    scale = float(chosen.pace) * LARGE
    drawn, expected = noise(chosen, LARGE, number, 5) / scale, oracle(chosen, number)
    for of in statistics_of(blocks):
        assert stats.ks_2samp(of(drawn), of(expected)).pvalue > FALSE_ALARM
    for off in (0.9, 1.1):
        sizes = norm(off * drawn, blocks), norm(expected, blocks)
        assert stats.ks_2samp(*sizes).pvalue < FALSE_ALARM


@pytest.mark.parametrize("size", [3, 60])
@pytest.mark.parametrize("blocks", [LODES, (2, 2), (5,)], ids=str)
def test_released_counts_have_the_stated_probabilities(blocks: tuple[int, ...], size: int) -> None:
    """One count of each block and the sum, against exact tails; scales 10% off are seen."""
    chosen = made(blocks)
    drawn = split(noise(chosen, size, 30_000, 7), blocks)
    numbers = [(chosen.marginal(k), block[:, -1]) for k, block in enumerate(drawn)]
    shapes = [(m.distribution(np.array([size])), column) for m, column in numbers]
    whole = replace(shapes[0][0], number=chosen.total)
    for off in (1.0, 0.9, 1.1):
        fits = []
        for distribution, column in [(whole, drawn[0].sum(1)), *shapes][: None if off == 1 else 1]:
            scales = replace(distribution.scales, factor=Fraction(off).limit_denominator(100))
            fits.append(fit(replace(distribution, scales=scales), column))
        if off == 1.0:
            assert min(fits) > FALSE_ALARM
        else:
            assert min(fits) < FALSE_ALARM


def fit(distribution: Any, column: Any) -> float:
    """How likely numbers differ as much from the tails, in about 20 classes."""
    step = max(int(np.quantile(np.abs(column), 0.97)) // 9, 1)
    edges = [1 + step * i for i in range(10)]
    with exactly(128):
        tails = [0.5, *(float(distribution.tail(edge, 0)) for edge in edges), 0.0]
    middle = 1 - 2 * tails[1]
    expected = [-b + a for a, b in pairwise(tails[1:])]
    sides = []
    for sign in (1, -1):
        ends = [*edges, np.inf]
        sides += [
            int(((sign * column >= a) & (sign * column < b)).sum()) for a, b in pairwise(ends)
        ]
    observed = [int((column == 0).sum()), *sides]
    probabilities = np.array([middle, *expected, *expected])
    kept = probabilities * len(column) > 5
    rest = [len(column) - sum(np.array(observed)[kept])]
    chances = [*probabilities[kept], max(1 - probabilities[kept].sum(), 1e-12)]
    found = np.array([*np.array(observed)[kept], *rest])
    use = np.array(chances) * len(column) > 1
    total = np.array(chances)[use] * found[use].sum() / np.array(chances)[use].sum()
    return float(stats.chisquare(found[use], total).pvalue)


@pytest.mark.parametrize(("blocks", "size"), [((2, 2), 5), ((3, 2), 5), ((2, 2), 25)], ids=str)
def test_released_rows_have_the_mean_of_the_density(blocks: tuple[int, ...], size: int) -> None:
    """All counts together: the density, averaged over the parts that rounding takes away."""
    chosen, number = made(blocks), 60_000
    drawn = noise(chosen, size, number, 9)
    rows, times = np.unique(drawn, axis=0, return_counts=True)
    order = np.argsort(-times)[:60]
    rows, times = rows[order], times[order]
    chances = np.array([float(probability(chosen, row, size)) for row in rows])
    assert chances.sum() < 1
    expected = np.array([*chances, 1 - chances.sum()]) * number
    observed = np.array([*times, number - times.sum()])
    kept = expected > 20
    assert (
        stats.chisquare(
            observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()
        ).pvalue
        > FALSE_ALARM
    )
    assert abs(observed[kept].sum() - expected[kept].sum()) < 5 * math.sqrt(number) * 0.5


@cache
def roundings(blocks: tuple[int, ...], power: int) -> Any:
    """What rounding may have taken from each count: differences of even points of a cube."""
    points = stats.qmc.Sobol(2 + sum(v - 1 for v in blocks), seed=1).random_base2(power)
    start, end, between = points[:, :1], points[:, 1:2], points[:, 2:]
    ends = np.cumsum([0, *(v - 1 for v in blocks)]).tolist()
    thetas = [np.concatenate([start, between[:, a:b], end], 1) for a, b in pairwise(ends)]
    return np.concatenate([np.diff(each, axis=1) for each in thetas], axis=1)


def probability(chosen: MarginalsRadial, row: Any, size: int, power: int = 13) -> Any:
    """That of released noise: the density over all that rounds to it."""
    scale = max(float(chosen.pace) * size, 1.0)
    with exactly():
        top = float(chosen.joint_pmf(Group.of(chosen.row(0), size), chosen.row(0)))
    norms = norm(row[..., None, :] + roundings(chosen.blocks, power), chosen.blocks)
    return top * np.exp(chosen.log_weight(norms / scale)).mean(-1)


@pytest.mark.parametrize(("blocks", "epsilon"), [((2, 2), 3), ((3, 2), 4)], ids=str)
def test_the_probabilities_of_all_rows_add_up_to_one(blocks: tuple[int, ...], epsilon: int) -> None:
    """So the density has the mass 1: its volume and its dimension are right."""
    chosen, most = made(blocks, epsilon), 6
    grid = np.array(list(product(*[range(-most, most + 1)] * chosen.dimensions)))
    ends = np.cumsum([1, *(v - 1 for v in blocks)]).tolist()
    parts = [grid[:, a:b] for a, b in pairwise(ends)]
    rows = np.concatenate([np.column_stack([p, grid[:, 0] - p.sum(1)]) for p in parts], axis=1)
    rows = rows[norm(rows, blocks) <= most]
    assert probability(chosen, rows, 1, 9).sum() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("blocks", "epsilon", "size"),
    [(LODES, 4, 30), (LODES, "1.44", 2_000), ((2, 2), 1, 1), ((7,), 4, 10**5), ((2, 5, 2), 2, 0)],
    ids=str,
)
def test_both_paths_draw_the_same(blocks: tuple[int, ...], epsilon: Any, size: int) -> None:
    chosen = made(blocks, epsilon)
    check_fast_against_slow(chosen.distribution(np.full(100, size)), 100)


def test_what_the_fast_path_leaves_open_is_settled_with_more_bits() -> None:
    """Where the scale is so large that no double tells two integers apart."""
    chosen = made((3, 2))
    drawn = noise(chosen, 10**17, 40, 3)
    first, second = split(drawn, chosen.blocks)
    assert (first.sum(1) == second.sum(1)).all()
    assert len(np.unique(first[:, 0] % 16)) > 8


@examples(25, torture=400)
@given(small_blocks, st.integers(0, 3_000), st.integers(0, 2**32), st.data())
def test_released_marginals_have_one_sum(
    blocks: tuple[int, ...], size: int, seed: int, data: st.DataObject
) -> None:
    chosen = made(blocks, 6)
    totals = data.draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
    rng = np.random.default_rng(seed)
    counts = np.concatenate([rng.multinomial(totals, np.full(v, 1 / v)) for v in blocks], axis=1)
    largests = np.minimum(totals, size)
    drawn = chosen.draw(counts, largests, random=SeededRandom(seed))
    assert drawn.dtype == np.int64
    sums = np.stack([block.sum(1) for block in split(drawn, blocks)])
    assert (sums == sums[0]).all()
    assert (drawn == chosen.draw(counts, largests, random=SeededRandom(seed))).all()
    # noise does not look at counts, and each marginal alone has the same
    alone = np.zeros_like(counts)
    same = chosen.draw(alone, largests, random=SeededRandom(seed))
    assert (drawn - counts == same).all()
    for k, block in enumerate(split(counts, blocks)):
        shown = chosen.marginal(k).draw(block, largests, random=SeededRandom(seed))
        assert (shown == split(drawn, blocks)[k]).all()


@examples(40, torture=500)
@given(small_blocks, st.randoms(use_true_random=False))
def test_the_density_knows_no_order_and_no_sign(blocks: tuple[int, ...], rng: Any) -> None:
    chosen, total = made(blocks, 6), rng.randint(-5, 5)
    parts = []
    for v in blocks:
        part = [rng.randint(-5, 5) for _ in range(v - 1)]
        parts.append([*part, total - sum(part)])
    zero = Group.of(chosen.row(0), 40)
    first = chosen.joint_log_pmf(zero, [*chain(*parts)])
    assert first > -math.inf
    assert chosen.joint_log_pmf(zero, [-n for part in parts for n in part]) == first
    for part in parts:
        rng.shuffle(part)
    assert chosen.joint_log_pmf(zero, [*chain(*parts)]) == first
    if len(blocks) > 1:
        parts[0][0] += 1
        assert chosen.joint_log_pmf(zero, [*chain(*parts)]) == -math.inf


def test_all_values_of_a_marginal_are_alike_and_both_signs() -> None:
    """As released, by tests of their own at the stated false-alarm rate."""
    chosen = made((4, 3))
    drawn = noise(chosen, 4, 40_000, 12)
    for block in split(drawn, chosen.blocks):
        for one in block.T[1:]:
            table = np.array(
                [np.bincount(np.clip(c, -4, 4) + 4, minlength=9) for c in (block[:, 0], one)]
            )
            assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
        for one in block.T:
            up, down = int((one > 0).sum()), int((one < 0).sum())
            assert stats.binomtest(up, up + down).pvalue > FALSE_ALARM


# ------------------------------------------------------------------------------ one marginal


@pytest.mark.parametrize("cells", [2, 5, 9])
def test_one_marginal_is_drawn_as_by_vector_radial(cells: int) -> None:
    """Before rounding: density, tail of one count, and rows.  Rounding differs: a sum is kept."""
    guarantee = Guarantee(Strong("0.1"), 2)
    one, other = made((cells,), 2), VectorRadial.calibrate(guarantee, cells=cells)
    assert (one.dimensions, one.rate, one.curve) == (cells, other.rate, other.curve)
    with exactly():
        for x in (Fraction(0), Fraction(1, 7), Fraction(cells, 2), Fraction(5 * cells)):
            at = arb(fmpq(x.numerator, x.denominator))
            expected = other.shape.tail_integral(at) / other.shape.tail_integral(arb(0)) / 2
            found = one.number.mean_excess(at, 0)
            assert found.overlaps(expected)
            assert float(abs(found / expected - 1)) < 1e-50
    size = 10**7
    assert one.mean_error(Cell(size)) == pytest.approx(other.mean_error(Cell(size)), rel=1e-9)
    counts = np.zeros((30_000, cells), dtype=np.int64)
    drawn = noise(one, LARGE, 30_000, 1)
    expected_rows = other.draw(counts, np.full(30_000, LARGE), random=SeededRandom(2))
    for of in statistics_of((cells,)):
        assert stats.ks_2samp(of(drawn / 1e5), of(expected_rows / 1e5)).pvalue > FALSE_ALARM


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("epsilon", "summed", "each", "total"),
    [
        (2, 39.4, None, None),
        (4, 18.1, (1.02, 1.02, 0.61, 1.24, 0.84, 1.24), 1.37),
        (8, 8.7, None, None),
    ],
)
def test_the_errors_of_six_marginals_are_those_expected(
    epsilon: int, summed: float, each: tuple[float, ...] | None, total: float | None
) -> None:
    chosen, size = made(epsilon=epsilon), 10**7
    scale = float(chosen.pace) * size
    errors = [chosen.marginal(k).mean_error(Cell(size))[0] / scale for k in range(len(LODES))]
    assert sum(np.array(LODES) * errors) == pytest.approx(summed, abs=0.05)
    if each is not None:
        assert errors == pytest.approx(each, abs=0.005)
        assert chosen.sum_error(Cell(size))[0] / scale == pytest.approx(total, abs=0.005)


@pytest.mark.parametrize("size", [0, 15, 900])
@pytest.mark.parametrize("blocks", [LODES, (3, 2)], ids=str)
def test_stated_errors_are_those_of_draws(blocks: tuple[int, ...], size: int) -> None:
    """Means of sizes, of squares and of products, within six standard errors.

    For normal means that is a false alarm in 5 10^8 comparisons, of which there are some 400.
    """
    chosen, groups = made(blocks), 30_000
    drawn = noise(chosen, size, groups, 21).astype(np.float64)

    def agree(values: Any, stated: Any) -> None:
        error = values.std(0) / math.sqrt(groups)
        assert (np.abs(values.mean(0) - stated) <= 6 * error).all()

    for k, block in enumerate(split(drawn, blocks)):
        mean, square = chosen.marginal(k).mean_error(Cell(size))
        agree(np.abs(block), mean)
        agree(block**2, square**2)
        agree(block, 0.0)
    total = split(drawn, blocks)[0].sum(1)
    mean, square = chosen.sum_error(Cell(size))
    agree(np.abs(total), mean)
    agree(total**2, square**2)
    agree(drawn[:, :, None] * drawn[:, None, :], covariance_of(chosen, size, drawn))


def covariance_of(chosen: MarginalsRadial, size: int, drawn: Any) -> Any:
    """The stated one; where the scale is 1 it takes rounding for a little more than it is."""
    stated = chosen.covariance(Cell(size))
    if size >= 15:
        return stated
    found = (drawn[:, :, None] * drawn[:, None, :]).mean(0)
    assert np.abs(found - stated).max() < 0.05 * stated.max()
    return found


@several
def test_covariances_add_up_to_that_of_the_sum(blocks: tuple[int, ...]) -> None:
    chosen, size = made(blocks, 6), 3_000
    whole = chosen.covariance(Cell(size))
    assert np.allclose(whole, whole.T)
    assert np.linalg.eigvalsh(whole).min() > -1e-6 * whole.max()
    spread = chosen.sum_error(Cell(size))[1] ** 2
    for k, own in enumerate(chosen.columns):
        assert np.allclose(whole[own, own], chosen.marginal(k).covariance(Cell(size)))
        assert np.allclose(np.diag(whole)[own], chosen.marginal(k).variance(size), rtol=1e-4)
        for other in chosen.columns:
            assert whole[own, other].sum() == pytest.approx(spread, rel=1e-4)


@pytest.mark.parametrize("size", [0, 25])
def test_squares_are_those_of_the_tails(size: int) -> None:
    """The mean square as a sum over all outputs, and the mean size, which rounding leaves."""
    for blocks, epsilon in (((2, 2), 6), ((3, 2), 2)):
        chosen = made(blocks, epsilon)
        with exactly(128):
            tails = [float(chosen.tail(Cell(0, size), k, 1)) for k in range(1, 160)]
        mean, square = chosen.mean_error(Cell(0, size))
        assert 2 * sum(tails) == pytest.approx(mean, rel=1e-5)
        squares = 2 * sum((2 * k + 1) * tail for k, tail in enumerate(tails))
        assert squares == pytest.approx(square**2, rel=1e-4)


@pytest.mark.parametrize("epsilon", ["1.45", 4, 20])
def test_the_fewest_values_have_the_greatest_noise(epsilon: Any) -> None:
    """What is asked of all marginals is that of these: no tail is above theirs."""
    chosen, x = made(epsilon=epsilon), np.linspace(0, 60 / float(epsilon), 200)
    tails = [chosen.marginal(k).number.near_excess(x, 0) for k in range(len(LODES))]
    assert (chosen.number.near_excess(x, 0) >= np.max(tails, axis=0) * (1 - 1e-12)).all()
    assert (chosen.total.near_excess(x, 0) >= tails[3] * (1 - 1e-12)).all()


def test_errors_of_many_cells_are_those_of_each() -> None:
    chosen, sizes = made((3, 2)), np.array([0, 3, 10, 11, 400, 10**6])
    found = chosen.mean_errors(np.zeros_like(sizes), sizes)
    assert found == pytest.approx([chosen.mean_error(Cell(0, int(x)))[0] for x in sizes])


# ------------------------------------------------------------------------------ certificates


@pytest.mark.parametrize(
    ("blocks", "alpha", "epsilon"),
    [
        (LODES, "0.1", 4),
        (LODES, "0.1", "1.432"),
        (LODES, "0.05", 2),
        ((2, 2), "0.3", 1),
        ((9, 2), "0.01", "0.5"),
        ((2,) * 12, "0.2", 8),
        ((3, 4), "0.000001", 3),
        ((2, 2), "1000", 400),
    ],
    ids=str,
)
def test_no_more_is_found_than_was_claimed(
    blocks: tuple[int, ...], alpha: str, epsilon: Any
) -> None:
    chosen = made(blocks, epsilon, alpha)
    certificate = chosen.certify()
    assert certificate.holds
    assert 0.9999 * float(epsilon) < certificate.found_epsilon <= float(epsilon)
    assert 0.998 * certificate.found_epsilon < certificate.worst_pair.loss
    assert chosen.marginal(0).certify() == certificate


def test_a_certificate_sees_what_was_not_calibrated() -> None:
    """A steeper density, a scale that grows more slowly, and more marginals than were paid for."""
    chosen = made((3, 2), 2)
    wider = replace(chosen, rate=chosen.rate * Fraction(21, 20))
    slower = replace(chosen, curve=chosen.curve * Fraction(19, 20))
    more = replace(chosen, blocks=(3, 2, 3), cells=8, rate=chosen.rate)
    assert chosen.certify().holds
    assert not wider.certify().holds
    assert not slower.certify().holds
    assert more.certify().holds  # the density goes by the blocks that it has

    class OtherScale(MarginalsRadial):
        @property
        def pace(self) -> Fraction:
            return self.curve / 2

    class FewerDimensions(MarginalsRadial):
        def normaliser_elasticity(self) -> tuple[float, float]:
            return 3.0, 3.0

    values = (chosen.guarantee, 5, chosen.rate, chosen.curve, chosen.blocks)
    assert not OtherScale(*values).certify().holds
    assert not FewerDimensions(*values).certify().holds


def test_a_certificate_looks_at_the_density_that_is_drawn() -> None:
    chosen = made((3, 2), 2)
    assert probabilities_agree(chosen)

    class Narrower(MarginalsRadial):
        def distribution(self, largests: Any) -> Any:
            return super().distribution(largests * 9 // 10)

    assert not probabilities_agree(
        Narrower(chosen.guarantee, 5, chosen.rate, chosen.curve, chosen.blocks)
    )


@pytest.mark.parametrize(
    ("blocks", "alpha", "epsilon"), [((2, 2), "1/2", 4), ((3, 2), "0.1", 1)], ids=str
)
def test_no_strong_neighbours_lose_more_than_was_found(
    blocks: tuple[int, ...], alpha: str, epsilon: int
) -> None:
    """All populations of a few kinds of workers, all their growths, and outputs around both."""
    chosen, strong = made(blocks, epsilon, alpha), Strong(alpha)
    found, rng, worst = chosen.certify().found_epsilon, np.random.default_rng(6), 0.0
    kinds = np.array(list(product(*map(range, blocks))))
    steps = np.concatenate(
        [np.eye(v, dtype=np.int64)[kinds[:, k]] for k, v in enumerate(blocks)], 1
    )
    logs: dict[tuple[int, int], float] = {}

    def log_density(away: Any, largest: int) -> float:
        key = int(norm(away, blocks)), largest
        if key not in logs:
            logs[key] = chosen.joint_log_pmf(Group.of(chosen.row(0), largest), away.tolist())
        return logs[key]

    for _ in range(1_500):
        other = int(rng.choice([0, 5, 40]))
        grows = int(rng.choice([0, 1, 3, 9, 10, 19, 20, 60]))
        before = rng.multinomial(grows + other, rng.dirichlet(np.full(len(kinds), 0.3))) @ steps
        joined = int(rng.integers(1, strong.growth(grows) + 1))
        added = rng.multinomial(joined, rng.dirichlet(np.full(len(kinds), 0.1))) @ steps
        far = rng.multinomial(int(rng.choice([0, 3, 30, 300])), np.eye(len(kinds))[0]) @ steps
        output = before + rng.choice([0, 1]) * added + rng.choice([-1, 1]) * far
        largest = max(grows, other), max(grows + joined, other)
        loss = log_density(output - before, largest[0]) - log_density(
            output - before - added, largest[1]
        )
        worst = max(worst, abs(loss))
    assert 0.85 * found < worst <= found + 1e-9


def test_released_counts_lose_no_more_than_was_found() -> None:
    """After rounding: all probabilities of one count and of the sum, at all small growths."""
    chosen, strong = made((2, 3), 2), Strong("0.1")
    found, worst = chosen.certify().found_epsilon, 0.0

    def probability(distribution: Any, k: int) -> Any:
        tails = [distribution.tail(abs(k) + i, 0) for i in (0, 1) if k or i]
        return tails[0] - tails[1] if k else 1 - 2 * tails[0]

    for number, size in product((chosen.number, chosen.total), (0, 5, 10, 20, 21, 40, 95)):
        joined = strong.growth(size)
        old, new = (
            replace(chosen.distribution(np.array([x])), number=number)
            for x in (size, size + joined)
        )
        with exactly(128):
            for moved, k in product((0, joined), (-60, -9, -1, 0, 1, 2, 9, 60)):
                loss = (probability(old, k) / probability(new, k - moved)).log()
                worst = max(worst, abs(float(loss)))
    assert 0.5 * found < worst <= found


# ------------------------------------------------------------------------------ intervals


@examples(8, torture=200)
@given(
    st.sampled_from([(2, 2), (3, 2), LODES]),
    st.sampled_from([2, 6]),
    st.sampled_from([0.5, 0.9, 0.999]),
    st.integers(0, 10**6),
)
def test_a_half_width_is_never_below_the_exact_quantile_and_hardly_above(
    blocks: tuple[int, ...], epsilon: int, level: float, size: int
) -> None:
    chosen = made(blocks, epsilon)
    exact = chosen.quantile(level, Cell(0, size))
    [width] = chosen.half_width(level, np.array([size]))
    assert exact <= width <= exact * 1.001 + 1


def test_intervals_cover_counts_and_sums() -> None:
    """Groups of one workplace and of several; at a level of 80% and at the false-alarm rate."""
    chosen, groups, level = made((3, 2, 4), 6), 8_000, 0.8
    rng = np.random.default_rng(8)
    for total, largest in ((400, 400), (3_000, 150), (12, 5)):
        counts = np.concatenate(
            [rng.multinomial(total, rng.dirichlet(np.ones(v)), groups) for v in chosen.blocks], 1
        )
        noisy = chosen.draw(counts, np.full(groups, largest), random=SeededRandom(total))
        low, high = chosen.interval(noisy, level)
        covered = (low <= counts) & ((counts <= high) | (high < 0))
        for column in covered.T:
            assert stats.binomtest(int(column.sum()), groups, level, "less").pvalue > FALSE_ALARM
        for k, own in enumerate(chosen.columns):
            ends = chosen.marginal(k).interval(noisy[:, own], level, by_total=True)
            assert (ends[0] == low[:, own]).all() and (ends[1] == high[:, own]).all()
        sums = noisy[:, chosen.columns[0]].sum(1)
        low, high = chosen.group_interval(sums, level)
        held = int(((low <= total) & ((total <= high) | (high < 0))).sum())
        assert stats.binomtest(held, groups, level, "less").pvalue > FALSE_ALARM


@pytest.mark.parametrize("size", [4, 700])
def test_sums_stay_within_their_half_width(size: int) -> None:
    chosen, groups = made((3, 2)), 30_000
    sums = noise(chosen, size, groups, 3)[:, :3].sum(1)
    for level in (0.5, 0.9, 0.99):
        [width] = chosen.group_half_width(level, np.array([size]))
        held = int((np.abs(sums) <= width).sum())
        assert stats.binomtest(held, groups, level, alternative="less").pvalue > FALSE_ALARM
        assert (np.abs(sums) <= width - 2).mean() < level


# ------------------------------------------------------------------------------ use and refusals


def test_it_is_frozen_plain_data_known_by_its_name() -> None:
    chosen = made()
    assert chosen == made("3,3,6,2,4,2") == made(list(LODES))
    assert (chosen.cells, chosen.at_once, chosen.dimensions) == (20, 20, 15)
    assert chosen.together and chosen.symmetric and chosen.bias(Cell(4)) == 0
    assert chosen.statistics() == ("count", "largest_total")
    assert chosen.parameters.keys() == {"cells", "rate", "curve", "blocks", "pace"}
    assert chosen.parameters["blocks"] == "3,3,6,2,4,2"
    assert calibrate(chosen.name, chosen.guarantee, chosen.settings) == chosen
    shown = chosen.marginal(2)
    assert (shown.cells, shown.at_once, shown.parameters["shown"]) == (6, 6, "2")
    assert "Theorem." in (chosen.__doc__ or "") and "Proof." in (chosen.__doc__ or "")
    assert made((8,)) == calibrate(chosen.name, chosen.guarantee, {"cells": 8})
    weak = MarginalsRadial.calibrate(Guarantee(Weak("0.1", ["sex"]), 4), blocks=LODES)
    assert replace(weak, guarantee=chosen.guarantee) == chosen


def test_the_command_certifies_it() -> None:
    words = ("certify", "marginals-radial", "--alpha", "0.1", "--epsilon", "4", "--json")
    done = run(*words, "--set", "blocks=3,3,6,2,4,2", "--fresh")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["holds"] is True
    assert found["parameters"]["blocks"] == "3,3,6,2,4,2"
    assert len(found["worst_pair"]["outputs"]) == 20


@pytest.mark.parametrize("epsilon", ["0.2", "1.4", "1.43"])
def test_a_price_that_is_too_low_is_refused_with_one_that_works(epsilon: str) -> None:
    with pytest.raises(
        Refusal,
        match=r"needs epsilon of 1.432 or more \(above 15 ln\(1 \+ alpha\)\) to protect marginals"
        r" of 3 \+ 3 \+ 6 \+ 2 \+ 4 \+ 2 values; .* two-stage-clip",
    ):
        made(epsilon=epsilon)
    assert made(epsilon="1.432").certify().holds


@pytest.mark.parametrize(
    "blocks", [(), (1, 2), (2, 0), (-2, 3), (2, 2.5), "3,x", "3;3", (True, 3), (65,), (33, 33), "0"]
)
def test_marginals_that_make_no_sense_are_refused(blocks: Any) -> None:
    with pytest.raises(Refusal, match="protects marginals of 2 or more values each"):
        made(blocks, 100)


def test_what_it_cannot_do_is_refused_without_a_value() -> None:
    chosen, random = made((2, 3)), SeededRandom(1)
    for counts, words in (
        (np.array([[77, 1, 1]]), "calibrated for groups of 5 cells"),
        (np.array([[77, 1, 1, 1, 1]]), "must count the same workers"),
    ):
        with pytest.raises(Refusal, match=words) as caught:
            chosen.draw(counts, np.array([3]), random=random)
        assert "77" not in str(caught.value)
    with pytest.raises(Refusal, match="not both"):
        MarginalsRadial.calibrate(chosen.guarantee, cells=5, blocks=(2, 3))
    with pytest.raises(Refusal, match="as many cells as its marginals have values"):
        replace(chosen, cells=4)
    with pytest.raises(Refusal, match="calibrated for 2 marginals"):
        chosen.marginal(2)
    with pytest.raises(Refusal, match="not one alone"):
        chosen.marginal(0).joint_pmf(Group.of((1, 2), 3), (1, 2))
    with pytest.raises(Refusal, match="needs strong or weak"):
        MarginalsRadial.calibrate(Guarantee(EDGE, 4), blocks=(2, 3))
    with pytest.raises(Refusal, match=r"there are auto, .* marginals-radial"):
        eree.mechanism("margins-radial", epsilon=1)


def test_counts_are_never_released_without_noise_however_large_it_is() -> None:
    """Sums of noise along a block have no limit: cut off, a count between two would show itself."""
    made = eree.mechanism("marginals-radial", alpha="0.1", epsilon="0.191", blocks="2")
    counts = np.tile(np.array([123_456, 777_777]), (2_000, 1))
    drawn = made.draw(counts, np.full(len(counts), 2**60 - 1), random=eree.SeededRandom(1))
    assert (np.abs(drawn) >= 2**60).any()
    assert not (drawn == counts).any()
    far = eree.mechanism("marginals-radial", alpha="0.1", epsilon="0.3", blocks="3")
    assert isinstance(far, MarginalsRadial)
    uniforms = ["0.001", "6.2e-61", *["0.3"] * far.dimensions, "0.37", "0.01", "0.5", "0.3", "0.6"]
    with exactly():
        row = far.distribution(np.array([1_000])).slow(
            [arb(u) for u in (*uniforms, *["0.4"] * 3)], 0
        )
    assert row is not None
    assert min(map(abs, row)) > 2**63


class _OtherNorm(MarginalsRadial):
    """A worker in any but the first cells makes a step of 3."""

    def group_pmf(self, group: eree.Group, outputs: Sequence[int]) -> arb:
        noise = np.array(outputs) - np.array(group.counts)
        far = max(
            abs(int(noise[block][0])) + 3 * int(np.abs(noise[block][1:]).sum())
            for block in self.columns
        )
        return super().group_pmf(eree.Group.of(self.row(0), group.largest), self.row(far))


class _ScaleOfSomeSizes(MarginalsRadial):
    """Too little noise beside workplaces of 30 to 90 workers."""

    def group_pmf(self, group: eree.Group, outputs: Sequence[int]) -> arb:
        size = group.largest // 3 if 30 <= group.largest <= 90 else group.largest
        return super().group_pmf(eree.Group.of(group.counts, size), outputs)


@pytest.mark.parametrize("wrong", [_OtherNorm, _ScaleOfSomeSizes])
def test_a_certificate_looks_at_all_cells_and_at_sizes_in_between(
    wrong: type[MarginalsRadial],
) -> None:
    guarantee = eree.Guarantee(eree.Strong("0.1"), 2)
    assert MarginalsRadial.calibrate(guarantee, blocks=(3, 2)).certify().holds
    assert not wrong.calibrate(guarantee, blocks=(3, 2)).certify().holds
