"""Noise for margins: its norm, joint chances, draws, and the fast path against the slow one."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from flint import ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import linprog

from drawn_rows import check_fast_against_slow
from eree.noise import exact
from eree.noise.coins import SeededCoins
from eree.noise.exact import Verdict
from eree.noise.laws import Scales
from eree.noise.margins import MarginsShape, RoundedMargins
from eree.noise.rows import draw_rows, settle_row
from eree.noise.vector_radial import RoundedVectorRadial, VectorRadialShape
from selection import examples

#: A right law fails a test of its draws less often than once in a million runs.
FALSE_ALARM = 1e-6
#: So many standard errors are exceeded by chance less often than that.
SIGMAS = 5.5
TENTH = Fraction(1, 10)
BEND = Fraction(953, 10_000)
SIZES = [0, 1, 9, 10, 15, 37, 200, 4_000]
LARGE = 10**7  # where rounding no longer changes a density


def shape(values: int, rate: int = 2) -> MarginsShape:
    return MarginsShape(VectorRadialShape(Fraction(rate), BEND, values + 1))


def law(sizes: Any, values: int, rate: int = 2, stretch: Fraction = Fraction(1)) -> RoundedMargins:
    sizes = np.asarray(sizes, dtype=np.int64)
    return RoundedMargins(Scales(sizes, TENTH, stretch), shape(values, rate))


def norm(rows: Any) -> Any:
    """N, by its definition: the greatest L1 norm of a margin."""
    sums, difference = rows[..., :-1], rows[..., -1]
    total = sums.sum(axis=-1)
    halves = np.abs(total + difference) / 2 + np.abs(total - difference) / 2
    return np.maximum(np.abs(sums).sum(axis=-1), halves)


def weight(radial: VectorRadialShape, t: Any) -> Any:
    """The density by its slopes alone."""
    rate, bend, d = float(radial.rate), float(radial.bend), radial.width
    turn = d / rate
    inner = (rate - d * bend) / bend * np.log1p(-bend * np.minimum(t, turn))
    outer = (rate + d * bend) / bend * np.log((1 + bend * np.maximum(t, turn)) / (1 + bend * turn))
    return np.exp(inner - outer)


# ------------------------------------------------------------------------------ the norm

numbers = st.integers(-40, 40).map(lambda n: n / 8)


@examples(15, torture=300)
@given(st.lists(numbers, min_size=2, max_size=6))
def test_the_ball_of_the_norm_is_the_hull_of_what_workers_add(numbers: list[float]) -> None:
    """The least sum of weights that makes a point of steps and their opposites is its norm."""
    v = len(numbers) - 1
    steps = [
        sign * np.append(np.eye(v)[c], side)
        for c in range(v)
        for side in (1, -1)
        for sign in (1, -1)
    ]
    found = linprog(np.ones(len(steps)), A_eq=np.array(steps).T, b_eq=numbers)
    assert found.status == 0
    assert found.fun == pytest.approx(max(sum(map(abs, numbers[:-1])), abs(numbers[-1])), abs=1e-9)


@examples(15, torture=300)
@given(st.lists(st.integers(-9, 9), min_size=12, max_size=12))
def test_the_hull_is_the_ball_for_any_attributes(cells: list[int]) -> None:
    """Attributes of 2, 3 and 2 values: the greatest L1 norm of a margin, by the same weights."""

    def all_margins(table: Any) -> Any:
        return [table.sum(axis=axes).ravel() for axes in ((1, 2), (0, 2), (0, 1))]

    steps = [np.concatenate(all_margins(one.reshape(2, 3, 2))) for one in np.eye(12)]
    given_margins = all_margins(np.array(cells).reshape(2, 3, 2))
    columns = np.array([sign * step for step in steps for sign in (1, -1)]).T
    found = linprog(np.ones(24), A_eq=columns, b_eq=np.concatenate(given_margins))
    assert found.status == 0
    assert found.fun == pytest.approx(max(np.abs(one).sum() for one in given_margins), abs=1e-9)


@given(st.lists(numbers, min_size=2, max_size=6))
def test_the_norm_is_the_greatest_of_both_margins(numbers: list[float]) -> None:
    row = np.array(numbers)
    assert norm(row) == max(np.abs(row[:-1]).sum(), abs(row[-1]))


# ------------------------------------------------------------------------------ chances


@pytest.mark.parametrize("d", [2, 5])
def test_integrals_of_lower_powers_are_those_of_the_density(d: int) -> None:
    chosen = shape(d - 1)
    beyond, turn = chosen.integrals(), d / 2
    for n, x in product(range(1, d + 1), (0.0, 0.25, 0.75 * turn, turn, 3 * turn)):
        ends = [x, *(end for end in (turn, 4 * turn, 40 * turn, 4_000 * turn) if end > x)]
        direct = sum(
            quad(lambda t: (t - x) ** (n - 1) * weight(chosen.radial, t), low, high, limit=400)[0]  # noqa: B023
            for low, high in pairwise(ends)
        )
        stated = float(beyond(Fraction(x), n)) / float(BEND) ** n
        assert stated == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        (1, [(0, 0), (1, 0), (0, 3), (2, 2), (-4, 1), (5, -6)]),
        (2, [(0, 0, 0), (1, 0, 1), (0, 2, -2), (1, -1, 2), (0, 0, 3), (3, 1, 0), (2, 2, -3)]),
        (3, [(0, 0, 0, 0), (1, 0, 1, 2), (0, 0, 0, -2)]),
    ],
)
@pytest.mark.parametrize("size", [0, 25])
def test_the_chance_of_a_row_is_the_density_over_its_cube(
    values: int, rows: list[tuple[int, ...]], size: int
) -> None:
    """Brute force: the density at many points of the cube, whatever it is made of."""
    chosen = law([size], values)
    radial, d, scale = chosen.shape.radial, values + 1, max(size / 10, 1.0)
    ends = [0, d / 2, 2 * d, 20 * d, 2_000 * d]
    mass = sum(
        quad(lambda t: t ** (d - 1) * weight(radial, t), low, high)[0]
        for low, high in pairwise(ends)
    )
    whole = d * 2 ** (values + 1) / math.factorial(values) * mass * scale**d
    points = {2: 400, 3: 80, 4: 36}[d]
    line = (np.arange(points) + 0.5) / points - 0.5
    for row in rows:
        grid = np.stack(np.meshgrid(*(k + line for k in row), indexing="ij"), axis=-1)
        direct = weight(radial, norm(grid) / scale).mean() / whole
        assert float(chosen.pmf(row, 0)) == pytest.approx(direct, rel=1e-3)


def test_one_number_of_a_row_has_the_chances_of_the_row_added_up() -> None:
    chosen = law([12], 1, 4)
    spread = range(-200, 201)
    for first in (0, 1, 4, 9):
        for tail, at in ((chosen.sum_tail, 0), (chosen.difference_tail, 1)):
            rows = [(first, other) if at == 0 else (other, first) for other in spread]
            single = tail(first, 0) - tail(first + 1, 0) if first else 1 - 2 * tail(1, 0)
            added = sum(float(chosen.pmf(row, 0)) for row in rows)
            assert added == pytest.approx(float(single), rel=1e-6)
    chosen = law([0], 2, 6)
    spread = range(-10, 11)
    for k in (0, 2):
        added = sum(float(chosen.pmf((k, *other), 0)) for other in product(spread, repeat=2))
        single = (
            chosen.sum_tail(k, 0) - chosen.sum_tail(k + 1, 0)
            if k
            else 1 - 2 * chosen.sum_tail(1, 0)
        )
        assert added == pytest.approx(float(single), rel=1e-4)
        added = sum(float(chosen.pmf((*other, k), 0)) for other in product(spread, repeat=2))
        tail = chosen.difference_tail
        single = tail(k, 0) - tail(k + 1, 0) if k else 1 - 2 * tail(1, 0)
        assert added == pytest.approx(float(single), rel=1e-4)


def test_chances_are_known_to_many_digits() -> None:
    with ctx.workprec(320):
        for values, size in product((1, 4, 12), (0, 1_000, 10**6, 10**9)):
            chosen = law([size], values)
            k = max(size // 10, 1)
            rest = (0,) * (values - 1)
            for row in (
                (0, *rest, 0),
                (k, *rest, 0),
                (0, *rest, k),
                (k, *rest, -k),
                (1, *rest, 64 * k),
            ):
                assert chosen.pmf(row, 0).rel_accuracy_bits() > 200


def test_the_margins_of_two_cells_are_their_sum_and_their_difference() -> None:
    """With one value the law is that of two cells of an L1 norm, turned: another recipe's draws."""
    n = 200_000
    radial = VectorRadialShape(Fraction(2), BEND, 2)
    cells = draw_rows(
        RoundedVectorRadial(Scales(np.full(n, LARGE), TENTH, Fraction(1)), radial),
        n,
        SeededCoins(4),
    )
    chosen = law([LARGE], 1)
    for away in (0.3, 1.0, 2.5):
        k = int(away * LARGE / 10)
        for numbers, tail in (
            (cells[:, 0] + cells[:, 1], chosen.sum_tail),
            (cells[:, 0] - cells[:, 1], chosen.difference_tail),
        ):
            chance, seen = 2 * float(tail(k, 0)), (np.abs(numbers) >= k).mean()
            assert abs(seen - chance) < SIGMAS * math.sqrt(chance * (1 - chance) / n)


# ------------------------------------------------------------------------------ draws


def fit(drawn: Any, chosen: RoundedMargins, rows: list[tuple[int, ...]]) -> float:
    """The p-value of draws against the joint chances of some rows, and of all others together."""
    seen = Counter(map(tuple, drawn.tolist()))
    chances = [float(chosen.pmf(row, 0)) for row in rows]
    observed = [seen[row] for row in rows]
    observed.append(len(drawn) - sum(observed))
    expected = np.array([*chances, 1 - sum(chances)]) * len(drawn)
    assert expected.min() > 20
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize(
    ("size", "values", "rate"), [(0, 1, 2), (25, 1, 2), (0, 2, 2), (15, 2, 4), (0, 3, 4), (0, 4, 4)]
)
def test_draws_follow_the_stated_joint_chances_and_no_others(
    size: int, values: int, rate: int
) -> None:
    """The rows compared are those of one half of the draws; the other half is tested."""
    n = 200_000
    drawn = draw_rows(law([size] * 2 * n, values, rate), 2 * n, SeededCoins(size))
    seen = Counter(map(tuple, drawn[:n].tolist()))
    rows = [row for row, times in seen.most_common(60) if times >= n * 5e-4]
    assert fit(drawn[n:], law([size], values, rate), rows) > FALSE_ALARM
    for stretch in (Fraction(9, 10), Fraction(11, 10)):
        assert fit(drawn[n:], law([size], values, rate, stretch), rows) < FALSE_ALARM


@pytest.mark.parametrize("values", [1, 2, 4, 12])
def test_the_fast_path_and_the_slow_path_agree_draw_for_draw(values: int) -> None:
    n = 600
    chosen = law([SIZES[i % len(SIZES)] for i in range(n)], values)
    check_fast_against_slow(chosen, n)


@pytest.mark.parametrize(("size", "least"), [(10**11, 0.0), (10**14, 1 - 2.0**-12)])
def test_where_doubles_are_too_coarse_the_slow_path_decides(size: int, least: float) -> None:
    """Many tries are in doubt, and none is wrongly sure.

    Numbers of a size near 0 are differences of nearly equal ones: uniform numbers are at `least`
    so near to 1, where doubles alone are wrong about one or two tries in a hundred.
    """
    n = 1_500
    chosen = law([size] * n, 4)
    words = SeededCoins(3).words(chosen.uniforms * n).reshape(chosen.uniforms, n).copy()
    floor = np.uint64(int(least * 2**63))
    rest = words[1:6] & np.uint64(2**63 - 1)
    words[1:6] = (words[1:6] - rest) + (floor + rest % (np.uint64(2**63) - floor))
    rows, verdicts = chosen.fast(words, np.arange(n))
    assert np.count_nonzero(verdicts == Verdict.DOUBT) > n / 10
    for i in np.flatnonzero(verdicts == Verdict.ACCEPT):
        assert settle_row(chosen, words[:, i], i, SeededCoins(1)) == tuple(rows[i].tolist())


def test_draws_that_are_all_in_doubt_follow_the_law_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fast path that never dares, every draw takes the slow one."""
    sampled = draw_rows(law([5] * 30_000, 2), 30_000, SeededCoins(1))
    seen = Counter(map(tuple, sampled.tolist()))
    monkeypatch.setattr(exact, "COARSE", 1.0)
    n = 4_000
    drawn = draw_rows(law([5] * n, 2), n, SeededCoins(2))
    assert fit(drawn, law([5], 2), [row for row, _ in seen.most_common(12)]) > FALSE_ALARM


def test_extreme_words_are_decided_and_finite() -> None:
    chosen = law([0, 40_000], 3)
    for word in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        words = np.full((chosen.uniforms, 2), word, dtype=np.uint64)
        for group, verdict in enumerate(chosen.fast(words, np.arange(2))[1]):
            settled = settle_row(chosen, words[:, group], group, SeededCoins(word % 97))
            assert verdict in list(Verdict)
            assert settled is None or max(map(abs, settled)) < 10**60


@pytest.mark.parametrize("values", [1, 4, 9])
def test_the_norm_has_the_law_of_the_radial_one_and_no_other(values: int) -> None:
    n = 40_000
    chosen = law([LARGE] * n, values)
    t = norm(draw_rows(chosen, n, SeededCoins(values)).astype(np.float64)) / (LARGE / 10)

    def below(x: Any) -> Any:
        return 1 - chosen.shape.radial.near_norm_tail(x)

    assert stats.kstest(t, below).pvalue > FALSE_ALARM
    for off in (0.9, 1.1):
        assert stats.kstest(t * off, below).pvalue < FALSE_ALARM


@pytest.mark.parametrize("values", [1, 4, 9])
def test_the_direction_is_that_of_a_point_of_the_ball_and_independent_of_the_norm(
    values: int,
) -> None:
    """Points are drawn by another recipe: exponential numbers, of which the last is left out."""
    n, rng = 60_000, np.random.default_rng(5)
    rows = draw_rows(law([LARGE] * n, values), n, SeededCoins(7)).astype(np.float64)
    t = norm(rows)
    directions = rows / t[:, None]
    sizes = rng.exponential(size=(n, values + 1))
    points = sizes / sizes.sum(axis=1, keepdims=True) * rng.choice([-1, 1], (n, values + 1))
    points[:, -1] = rng.uniform(-1, 1, n)
    points /= norm(points)[:, None]
    measures = {
        "first": lambda z: z[:, 0],
        "last": lambda z: z[:, values - 1],
        "difference": lambda z: z[:, values],
        "greatest": lambda z: np.abs(z[:, :-1]).max(axis=1),
        "all": lambda z: np.abs(z[:, :-1]).sum(axis=1),
        "sum": lambda z: z[:, :-1].sum(axis=1) + z[:, -1] / 3,
    }
    near = t < np.median(t)
    for measure in measures.values():
        seen = measure(directions).round(9)
        assert stats.ks_2samp(seen, measure(points).round(9)).pvalue > FALSE_ALARM
        assert stats.ks_2samp(seen[near], seen[~near]).pvalue > FALSE_ALARM
    # a tenth too many, or too few, on the two sides where the difference is greatest
    ends = (np.abs(directions[:, -1]) > 1 - 1e-9).mean()
    chance = 1 / (values + 1)
    spread = SIGMAS * math.sqrt(chance * (1 - chance) / n)
    assert abs(ends - chance) < spread
    assert min(abs(ends - 0.9 * chance), abs(ends - 1.1 * chance)) > spread


@pytest.mark.parametrize("values", [1, 4, 9])
def test_moments_are_those_of_the_draws_and_nothing_is_correlated(values: int) -> None:
    n = 150_000
    chosen = law([LARGE] * n, values, 4)
    z = draw_rows(chosen, n, SeededCoins(values)) / (LARGE / 10)
    sums, difference = chosen.shape.sum_moments(), chosen.shape.difference_moments()
    for i in range(values + 1):
        for power, moment in enumerate(sums if i < values else difference, start=1):
            seen = np.abs(z[:, i]) ** power
            spread = SIGMAS * seen.std() / math.sqrt(n)
            assert abs(seen.mean() - moment) < spread
            for off in (0.9, 1.1):
                assert abs(seen.mean() - off**power * moment) > spread
        for j in range(i):
            both = z[:, i] * z[:, j]
            assert abs(both.mean()) < SIGMAS * both.std() / math.sqrt(n)


@pytest.mark.parametrize("values", [1, 3])
def test_moments_are_integrals_of_the_tails(values: int) -> None:
    chosen = shape(values)

    def integral(tail: Any, power: int) -> float:
        def inside(x: float) -> float:
            return 2 * power * x ** (power - 1) * float(tail(Fraction(x)))

        ends = (0, 1, 4, 30, 400)
        return sum(quad(inside, low, high, epsrel=1e-8)[0] for low, high in pairwise(ends))

    for power in (1, 2):
        stated = chosen.sum_moments()[power - 1], chosen.difference_moments()[power - 1]
        assert integral(chosen.sum_tail, power) == pytest.approx(stated[0], rel=1e-6)
        assert integral(chosen.difference_tail, power) == pytest.approx(stated[1], rel=1e-6)
