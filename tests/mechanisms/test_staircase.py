"""The staircase: every way is counted, every neighbour protected, and every fault found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import maximum_filter1d

from cases import cells
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.registry import mechanism
from eree.mechanisms.staircase import leaning_staircase as staircase_module
from eree.mechanisms.staircase import levels
from eree.mechanisms.staircase.certificate import certify_staircase, probabilities_agree, worst_loss
from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase
from eree.mechanisms.staircase.levels import lowest_levels
from eree.mechanisms.staircase.pieces import Table
from eree.mechanisms.staircase.size_grid import Bins, SizeGrid
from eree.random.exact import Verdict, exactly, settle
from eree.random.source import SeededRandom
from selection import combinations, examples
from staircases import NAME, broken, probabilities_of, staircase, with_distribution


def worst_of_all(chosen: LeaningStaircase, sizes: int, most: int) -> float:
    """The greatest loss over all neighbours of small cells, whoever is counted in the cell."""
    alpha, width = chosen.alpha, most + 2 * chosen.densities.grid.growth(sizes)
    chosen.densities.tables(np.arange(chosen.densities.grid.bin_of(2 * sizes)))
    logs = [
        np.log(np.maximum(probabilities_of(chosen, x, width), 1e-200)) for x in range(2 * sizes)
    ]
    here = slice(width - most, width + most + 1)
    worst = 0.0
    pairs = {(x, after, d) for x, after, joined in cells(alpha, sizes) for d in range(joined + 1)}
    for x, after, joined in pairs:
        moved = logs[after][width - most - joined : width + most + 1 - joined]
        seen = np.maximum(logs[x][here], moved) > -20  # the pieces extend further out than that
        worst = max(worst, float(np.abs(logs[x][here] - moved)[seen].max()))
    return worst


@pytest.mark.parametrize(
    ("alpha", "epsilon"), [("0.1", "2"), ("0.1", "1"), ("0.29", "2"), ("0.5", "5")]
)
def test_no_neighbours_of_small_cells_differ_by_more(alpha: str, epsilon: str) -> None:
    """All sizes, all growths of any workplace, all parts of those who join, all outputs."""
    loss = worst_of_all(staircase(alpha, epsilon), 34, 30)
    assert loss <= float(Fraction(epsilon)) * (1 + 1e-9)
    assert loss > 0.999 * float(Fraction(epsilon))


@examples(2, torture=40)
@given(st.fractions("0.03", "0.5", max_denominator=100), st.fractions("0.8", "6"))
def test_whatever_alpha_and_epsilon_are_no_more_is_lost(alpha: Fraction, epsilon: Fraction) -> None:
    epsilon = max(epsilon.limit_denominator(1_000), Fraction(11, 2) * alpha)
    try:
        chosen = staircase(alpha, epsilon)
    except Refusal as refusal:
        assert epsilon < 1
        assert "too low" in str(refusal) or "needs epsilon of" in str(refusal)
        return
    assert worst_of_all(chosen, 25, 25) <= float(epsilon) * (1 + 1e-9)


def test_the_plateaus_are_those_of_the_best_of_all_ways() -> None:
    """Ways of any steps, up and down in any order, against those that are listed."""
    chosen = staircase("0.25", "1.5")
    densities, grid = chosen.densities, chosen.densities.grid
    count, most = grid.first_large, 240
    assert (grid.tops == np.arange(count)).all()  # one size to a bin, so that edges are whole
    up, fall = grid.up(np.arange(count)), math.exp(-float(chosen.drop))
    caps = [grid.most_joined(x) for x in range(count)]
    k = np.arange(-most, most + 1)
    centre = np.array(
        [(k <= float(grid.width(x, 1))) & (-k <= float(grid.width(x, -1))) for x in range(count)]
    )
    best = np.where(centre, densities.levels.of_bins[:count, None], 0.0)
    for _ in range(60):
        before = best.copy()
        for x in range(count):
            for after in range(x, min(int(up[x]) + 1, count)):
                window = caps[after] + 1
                # from x at k to after at k - d, 0 <= d <= cap, and the other way round
                ahead = maximum_filter1d(before[after], window, origin=(window - 1) // 2)
                back = maximum_filter1d(before[x], window, origin=-(window // 2))
                shift = (window - 1) // 2 + window // 2 - (window - 1)
                assert shift == 0
                best[x] = np.maximum(best[x], fall * ahead)
                best[after] = np.maximum(best[after], fall * back)
        if (best == before).all():
            break
    for x in (0, 1, 3, 7, 8, 11, 12, 16, 20, 24, 30):
        probabilities = probabilities_of(chosen, x, 40)
        found = best[x][most - 40 : most + 41]
        outside = ~centre[x][most - 40 : most + 41] & (found > 1e-8)  # pieces extend further out
        np.testing.assert_allclose(probabilities[outside], found[outside], rtol=1e-6)


def lower_right(table: Table) -> Table:
    density = np.where(table.edges[:-1] > 0, 0.9 * table.density, table.density)
    return replace(table, density=density)


def lower_left(table: Table) -> Table:
    density = np.where(table.edges[1:] < 0, 0.9 * table.density, table.density)
    return replace(table, density=density)


def short_edge(table: Table) -> Table:
    """One edge is a worker too near: the one above zero after which the density falls most."""
    edges, falls = table.edges.copy(), -np.diff(np.log(table.density))
    edges[1 + int(np.where(edges[1:-1] > 0, falls, 0.0).argmax())] -= 1
    return replace(table, edges=edges)


@pytest.mark.parametrize(
    ("size", "change"), combinations([25, 60, 350], [lower_right, lower_left, short_edge], each=1)
)
def test_a_density_that_is_wrong_at_one_size_is_found(
    size: int, change: Callable[[Table], Table]
) -> None:
    assert worst_loss(with_distribution(size, change)).found > 2.005


def test_what_is_found_is_not_certified() -> None:
    """Not even after a mechanism that is equal but for its densities was."""
    sound, wrong = broken(staircase().densities), with_distribution(25, lower_right)
    assert sound == wrong
    assert sound.certify().holds
    assert sound.certify() is sound.certify()
    assert not wrong.certify().holds


class ShortSteps(SizeGrid):
    """A grid whose steps add one worker less than they can."""

    def most_joined(self, size: int) -> int:
        return max(super().most_joined(size) - 1, 1)


class LateSteps(SizeGrid):
    """A grid on which a workplace of twenty grows by one worker alone."""

    def growth(self, size: int) -> int:
        return 1 if size == 20 else super().growth(size)

    def most_joined(self, size: int) -> int:
        return 1 if size == 22 else super().most_joined(size)


@pytest.mark.parametrize("kind", [ShortSteps, LateSteps])
def test_steps_that_are_too_short_are_found(kind: type[SizeGrid]) -> None:
    right = staircase().densities
    grid = kind(right.grid.alpha, right.grid.parts, right.grid.right, right.grid.left)
    densities = StaircaseDensities(grid, right.drop, lowest_levels(grid, right.drop))
    assert worst_loss(broken(densities)).found > 2.05


def test_steps_that_cost_too_much_are_found() -> None:
    right = staircase().densities
    drop = right.drop * Fraction(51, 50)
    densities = StaircaseDensities(right.grid, drop, lowest_levels(right.grid, drop))
    certificate = certify_staircase(broken(densities))
    assert not certificate.holds
    assert certificate.found_epsilon == pytest.approx(2.04, rel=1e-4)


def test_density_levels_that_rise_are_found() -> None:
    """At 20 workers a density level as at 5: too high for those who join from there."""
    right = staircase().densities
    levels = right.levels.of_bins.copy()
    levels[20] = levels[5]
    densities = StaircaseDensities(right.grid, right.drop, replace(right.levels, of_bins=levels))
    sound = worst_loss(broken(right)).found
    assert sound <= 2
    levels[22:26] *= 0.5
    assert worst_loss(broken(densities)).found > 2.05


def test_the_error_is_as_small_as_was_aimed_at() -> None:
    chosen = staircase()

    def error(size: int) -> float:
        return chosen.mean_error(Cell(0, size))[0]

    assert max(error(size) for size in range(16)) <= 0.29
    assert error(20) <= 0.85
    assert error(30) <= 1.45
    for size in (200, 250, 299, 300, 777, 10_000, 10**7):
        assert error(size) <= 0.5 * size / 10
    sizes = np.array([0, 3, 20, 21, 300, 500, 10**6])
    np.testing.assert_allclose(chosen.mean_errors(sizes, sizes), [error(int(x)) for x in sizes])


def test_the_bias_is_that_of_the_draws_and_small_where_workplaces_are_large() -> None:
    chosen, n = staircase(), 400_000
    for size in (1, 20, 45, 400):
        noise = chosen.draw(np.full(n, size), np.full(n, size), random=SeededRandom(size)) - size
        assert abs(noise.mean() - chosen.bias(Cell(0, size))) < 5.5 * noise.std() / math.sqrt(n)
    for epsilon in ("1", "2", "4"):
        assert abs(staircase("0.1", epsilon).bias(Cell(0, 10**5))) < 0.02 * 10**4


@pytest.mark.parametrize("size", [0, 18, 40, 299, 5_000])
def test_both_ways_of_drawing_lead_to_the_same_number(size: int) -> None:
    noise = staircase().distribution(np.array([size]))
    words = SeededRandom(size).words(60)
    for word in words:
        values, verdicts = noise.fast(word[None, None], np.array([0]))
        exact = settle(noise, word[None], 0, SeededRandom(1))
        assert verdicts[0] == Verdict.DOUBT or values[0] == exact


@pytest.mark.parametrize(("alpha", "epsilon", "size"), [("0.1", "2", 5), ("0.001", "1", 5)])
def test_words_between_two_outputs_are_decided_or_left_in_doubt(
    alpha: str, epsilon: str, size: int
) -> None:
    """At the edges of outputs a probability that is a little off would give the wrong one."""
    noise = staircase(alpha, epsilon).distribution(np.array([size]))
    tried = 0
    for value in range(1, 40):
        with exactly():
            probability = noise.tail(value, 1, 0)
            edge = int((probability * 2**64).floor().unique_fmpz())
        if not 2**41 < edge < 2**63:
            continue
        for away in (-edge >> 18, -edge >> 26, -edge >> 36, 0, edge >> 36, edge >> 26, edge >> 18):
            word = np.array([2**64 - 1 - (edge + away)], dtype=np.uint64)
            values, verdicts = noise.fast(word[None], np.array([0]))
            tried += verdicts[0] != Verdict.DOUBT
            exact = settle(noise, word, 0, SeededRandom(1))
            assert verdicts[0] == Verdict.DOUBT or values[0] == exact
    assert tried > 10


@pytest.mark.parametrize(
    ("alpha", "epsilon", "size"), [("0.1", "2", 0), ("0.1", "1", 19), ("0.29", "2", 45)]
)
def test_first_bits_decide_a_draw_only_where_all_words_with_them_agree(
    alpha: str, epsilon: str, size: int
) -> None:
    """The first and the last word of a run, where the next run is of another integer or open."""
    noise = staircase(alpha, epsilon).distribution(np.full(300, size))
    (decided, _), rows = noise._decided
    assert (rows == 0).all()
    known = decided > np.iinfo(np.int32).min
    assert known.mean() > 0.9
    edge = np.flatnonzero(known[1:-1] & (np.diff(decided)[1:] + np.diff(decided)[:-1] != 0)) + 1
    some = [*edge[:: max(len(edge) // 20, 1)], *np.flatnonzero(known)[[0, -1]], 2047, 2048]
    for bits in (int(b) for b in some if known[b]):
        for word in (bits << 52, (bits << 52) + (1 << 52) - 1):
            exact = settle(noise, np.array([word], dtype=np.uint64), 0, SeededRandom(1))
            assert decided[bits] == exact


def test_draws_are_the_same_with_and_without_first_bits() -> None:
    """Many cells of a size are looked up by first bits, few by all of them."""
    chosen, sizes = staircase(), np.array([0, 7, 25, 180, 299, 1_000, 10**6])
    words = SeededRandom(5).words(2_000)
    for size in sizes:
        many, few = (chosen.distribution(np.full(n, size)) for n in (400, 10))
        values, verdicts = many.fast(words[None], np.zeros(len(words), dtype=np.intp))
        others, doubts = few.fast(words[None], np.zeros(len(words), dtype=np.intp))
        sure = (verdicts == Verdict.ACCEPT) & (doubts == Verdict.ACCEPT)
        assert sure.mean() > 0.999
        assert (values == others)[sure].all()


def test_no_density_depends_on_the_last_bit_of_an_exponential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"alpha": "0.1", "epsilon": 3}
    before = mechanism(NAME, **own).parameters
    for name in ("exp", "log1p"):
        real = getattr(math, name)
        monkeypatch.setattr(levels, name, lambda x, real=real: math.nextafter(real(x), math.inf))
    staircase_module._densities.cache_clear()
    try:
        assert mechanism(NAME, **own).parameters == before
    finally:
        staircase_module._densities.cache_clear()


def test_a_size_that_is_looked_up_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = staircase()
    right = SizeGrid.bins_of

    def wrong(self: SizeGrid, sizes: np.ndarray) -> np.ndarray:
        return np.where(sizes == 45, 2, right(self, sizes))

    monkeypatch.setattr(SizeGrid, "bins_of", wrong)
    assert not probabilities_agree(chosen)


@pytest.mark.parametrize("size", [5, 45, 1_000])
def test_exact_probabilities_are_those_of_the_pieces(size: int) -> None:
    chosen = staircase("0.1", "1")
    probabilities = probabilities_of(chosen, size, 30)
    with exactly():
        for k in (-30, -7, -1, 0, 1, 5, 30):
            exact = float(chosen.pmf(Cell(size, size), size + k))
            assert probabilities[k + 30] == pytest.approx(exact, rel=1e-9)
            assert chosen.pmf(Cell(size, size), size + 1_000 * k) > 0


def test_bins_hold_the_sizes_that_they_should() -> None:
    grid = SizeGrid(Fraction(1, 20), 12, 9, 9)
    sizes = np.append(np.arange(2_000), [10**5, 10**9, 2**59])
    bins = grid.bins_of(sizes)
    assert (np.diff(bins) >= 0).all()
    assert [grid.bin_of(int(x)) for x in sizes] == list(bins)
    tops = grid.numbers(int(bins.max()) + 1).top
    assert (tops[bins] >= sizes * (1 - 1e-12)).all()
    some = bins > 0
    assert (tops[bins[some] - 1] < sizes[some] * (1 + 1e-12)).all()
    every: Bins = np.arange(600)
    grown = [grid.bin_of(int(t) + grid.growth(int(t))) for t in tops[: grid.first_large]]
    assert (grid.up(every)[: grid.first_large] == grown).all()
    assert (tops[grid.up(every)] >= tops[every] * 1.05 * (1 - 1e-12))[grid.first_large :].all()


def test_the_same_densities_are_made_on_every_machine() -> None:
    """Whoever verifies a release makes its densities again."""
    assert staircase().parameters == {
        "right": "7",
        "left": "8",
        "drop": "1048575/524288",
        "levels": "14875929462084211027",
    }


@pytest.mark.parametrize(
    ("alpha", "epsilon", "why"),
    [
        ("0.6", "4", "takes an alpha from 0.001 to 0.5 and an epsilon from 0.75"),
        ("0.0005", "4", "takes an alpha from 0.001"),
        ("0.1", "0.7", "and an epsilon from 0.75 to 200"),
        ("0.1", "201", "and an epsilon from 0.75 to 200"),
        ("0.3", "1.2", r"needs epsilon of 1.312 or more \(5 ln\(1 \+ alpha\)\)"),
        ("0.1", "0.75", "the centre of a density would be too low"),
    ],
)
def test_where_it_does_not_exist_it_says_what_does(alpha: str, epsilon: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        mechanism(NAME, alpha=alpha, epsilon=epsilon)
