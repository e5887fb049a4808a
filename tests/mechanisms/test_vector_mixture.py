"""The vector mixture: little noise for small workplaces, and no more than radial for large ones."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, exp, inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from cases import FALSE_ALARM
from drawn_rows import CommonRows
from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.registry import VECTOR_MECHANISMS, automatic_vector
from eree.mechanisms.vector.mixture import MixtureComponents, VectorMixture
from eree.mechanisms.vector.mixture_certificate import probabilities_mix, worst_mixture_loss
from eree.mechanisms.vector.mixture_weights import Rule
from eree.mechanisms.vector.radial import VectorRadial
from eree.mechanisms.vector.sums import geometric_sum_tails
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree.random.exact import Verdict, draw, exactly, settle
from eree.random.source import SeededRandom
from selection import examples


def vector(epsilon: Any, cells: int, alpha: Any = "0.1", name: str = "vector-mixture") -> Any:
    return VECTOR_MECHANISMS[name].calibrate(Guarantee(Strong(alpha), epsilon), cells=cells)


def radial_of(chosen: VectorMixture) -> VectorRadial:
    return VectorRadial(chosen.guarantee, chosen.cells, chosen.rate, chosen.curve)


# ------------------------------------------------------------------------------ the two ends


@pytest.mark.parametrize(
    ("cells", "epsilon"), [*product((2, 8), (1, 2, 4, 8)), *product((21,), (4, 8))]
)
def test_both_ends_are_within_a_tenth_of_the_better_of_radial_and_pareto(
    cells: int, epsilon: int
) -> None:
    chosen = vector(epsilon, cells)
    others = [vector(epsilon, cells, name=f"vector-{name}") for name in ("radial", "pareto")]
    for size in (0, 1, 5, 10, 1_000, 10**6):
        best = min(other.mean_error(Cell(size))[0] for other in others)
        assert chosen.mean_error(Cell(size))[0] <= 1.1 * best


def test_small_workplaces_have_little_more_than_what_protects_one_worker() -> None:
    for cells, epsilon in ((2, 2), (8, 4), (21, 4), (21, 8)):
        least = 1 / np.sinh(epsilon)
        found = vector(epsilon, cells).mean_error(Cell(10))[0]
        assert least < found * (1 + 1e-5) < 1.04 * least


@examples(15, torture=200)
@given(
    st.sampled_from(["0.01", "0.04", "0.1", "0.3", "1", "3"]),
    st.sampled_from(["0.5", "1", "2", "5", "20"]),
    st.sampled_from([1, 2, 3, 7]),
)
def test_it_never_has_more_error_than_radial_noise_where_one_worker_may_join(
    alpha: str, epsilon: str, cells: int
) -> None:
    try:
        radial = vector(epsilon, cells, alpha, "vector-radial")
    except Refusal as refusal:
        with pytest.raises(Refusal, match="vector-mixture needs") as caught:
            vector(epsilon, cells, alpha)
        assert str(caught.value) == str(refusal).replace(
            "vector-radial needs", "vector-mixture needs"
        )
        return
    chosen, step = vector(epsilon, cells, alpha), int(1 / Fraction(alpha))
    for size in {0, step // 2, step}:
        assert chosen.mean_error(Cell(size))[0] <= radial.mean_error(Cell(size))[0] * (1 + 1e-12)
    for size in (chosen.start, 3 * chosen.start + 1):
        assert chosen.mean_error(Cell(size)) == radial.mean_error(Cell(size))


# ------------------------------------------------------------------------------ the loss


@pytest.mark.parametrize(
    ("epsilon", "cells", "alpha"), [(4, 2, "0.1"), (1, 2, "0.2"), (2, 1, "0.3")]
)
def test_no_neighbours_of_small_groups_lose_more_than_epsilon(
    epsilon: int, cells: int, alpha: str
) -> None:
    """All outputs near both, for each size below `start` and one worker who joins."""
    chosen = vector(epsilon, cells, alpha)
    assert chosen.start == ceil(2 / Fraction(alpha))
    sizes = range(max(chosen.start - len(chosen.weights), 0), chosen.start + 1)
    near = [z for z in product(range(-7, 8), repeat=cells) if sum(map(abs, z)) < 8]
    rows = {*near, *((far, *z[1:]) for z in near for far in (25, 400))}
    zeros = (0,) * cells
    logs = {
        (x, z): chosen.joint_log_pmf(Group.of(zeros, x), z)
        for x in sizes
        for z in {tuple(sorted(map(abs, row), reverse=True)) for row in rows}
    }
    worst = 0.0
    for x, z in product(sizes, rows):
        for moved in (z, *((*z[:i], z[i] - 1, *z[i + 1 :]) for i in range(cells))):
            for after in (x, x + 1):
                keys = (tuple(sorted(map(abs, row), reverse=True)) for row in (z, moved))
                old, new = ((size, key) for size, key in zip((x, after), keys, strict=True))
                if new in logs:
                    worst = max(worst, abs(logs[old] - logs[new]))
    assert 0.98 * epsilon < worst <= epsilon


@examples(30, torture=500)
@given(
    st.lists(st.lists(st.integers(0, 8), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 3),
    st.lists(st.integers(-6, 30), min_size=3, max_size=3),
    st.sampled_from(["1", "2", "6"]),
)
def test_neighbouring_databases_are_as_likely_within_epsilon(
    workplaces: list[list[int]], grows: int, where: int, outputs: list[int], epsilon: str
) -> None:
    """A worker joins one of some workplaces, in a cell that is shown or in one that is not."""
    chosen = vector(epsilon, 3)
    joined = [list(row) for row in workplaces]
    sizes = [sum(row) for row in workplaces]
    place = grows % len(workplaces)
    after = sizes.copy()
    after[place] += 1
    if where < 3:
        joined[place][where] += 1
    old = Group.of(np.sum(workplaces, axis=0).tolist(), max(sizes))
    new = Group.of(np.sum(joined, axis=0).tolist(), max(after))
    loss = chosen.joint_log_pmf(old, outputs) - chosen.joint_log_pmf(new, outputs)
    assert abs(loss) <= float(epsilon)


def test_weights_are_probabilities_that_move_to_less_noise_as_workplaces_shrink() -> None:
    for cells, epsilon in ((2, 1), (8, 2), (21, 4)):
        weights = vector(epsilon, cells).weights
        assert weights[0] == (0, 0, 0, 0, 1)
        for row in weights:
            assert sum(row) == 1 and min(row) >= 0
        ends = np.cumsum(np.array(weights, dtype=float), axis=1)
        assert (np.diff(ends, axis=0) >= -1e-12).all()


@examples(20, torture=300)
@given(st.integers(2, 5), st.integers(0, 10**6))
def test_the_greedy_rule_has_the_least_error_of_all_weights_that_are_allowed(
    n: int, seed: int
) -> None:
    """Against a linear programme."""
    chance = np.random.Generator(np.random.PCG64(seed))
    errors = np.sort(chance.uniform(0.1, 3, n))
    falls = np.sort(chance.uniform(0.05, 1, n))[::-1]
    dearer = [[float(falls[j] * chance.uniform(1, 30)) for j in range(i + 1, n)] for i in range(n)]
    above = chance.dirichlet(np.ones(n))
    found = Rule(falls.tolist(), dearer, errors.tolist()).below(above.tolist())
    assert sum(found) == pytest.approx(1, abs=1e-12)
    pairs = [(i, j) for j in range(n) for i in range(j + 1)]
    price = [falls[j] if i == j else dearer[i][j - i - 1] for i, j in pairs]
    kept = above * falls
    best = optimize.linprog(
        [errors[i] for i, _ in pairs],
        A_ub=[
            [cost * (j == k) for cost, (_, j) in zip(price, pairs, strict=True)] for k in range(n)
        ],
        b_ub=above - kept * falls,
        A_eq=[np.ones(len(pairs))],
        b_eq=[1 - kept.sum()],
    )
    assert best.success
    assert float(errors @ found) == pytest.approx(best.fun + float(errors @ kept), rel=1e-7)
    assert (np.array(found) >= kept - 1e-12).all()


# ------------------------------------------------------------------------------ broken mixtures


class Wrong(VectorMixture):
    """One weight that is changed, of some component at some size."""

    def changed(self, step: int, component: int, factor: Fraction) -> Wrong:
        rows = [list(row) for row in self.weights]
        rows[step][component] *= factor
        most = max(range(5), key=rows[step].__getitem__)
        rows[step][most] += 1 - sum(rows[step])
        self.__dict__["weights"] = tuple(map(tuple, rows))
        return self


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize(("step", "component"), [(5, 4), (4, 3), (19, 4), (6, 2)])
def test_a_weight_that_is_a_tenth_off_is_caught(
    step: int, component: int, factor: Fraction
) -> None:
    wrong = Wrong.calibrate(Guarantee(Strong("0.1"), 2), cells=8).changed(step, component, factor)
    assert sum(wrong.weights[step]) == 1
    radial = radial_of(wrong)
    assert probabilities_mix(wrong, radial)
    assert worst_mixture_loss(wrong, radial) > 2.01


def test_a_wrong_mixture_has_no_certificate() -> None:
    guarantee = Guarantee(Strong("0.1"), 2)
    assert VectorMixture.calibrate(guarantee, cells=2).certify().holds
    certificate = Wrong.calibrate(guarantee, cells=2).changed(4, 4, Fraction(1, 2)).certify()
    assert not certificate.holds
    assert certificate.worst_pair.loss > 2  # and it shows a pair


def test_sizes_at_which_two_may_join_are_caught() -> None:
    chosen = vector(4, 2)
    late = replace(chosen, start=chosen.start + 1)
    assert worst_mixture_loss(late, radial_of(late)) == inf
    assert not late.certify().holds


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
def test_other_probabilities_than_those_of_the_components_are_caught(factor: Fraction) -> None:
    class Other(VectorMixture):
        def group_pmf(self, group: Group, outputs: Any) -> Any:
            other = replace(self, rate=self.rate * factor)
            mixed = group.largest < self.start
            return VectorMixture.group_pmf(other if mixed else self, group, outputs)

    wrong = Other.calibrate(Guarantee(Strong("0.1"), 2), cells=2)
    assert not probabilities_mix(wrong, radial_of(wrong))
    assert not wrong.certify().holds


# ------------------------------------------------------------------------------ draws


@pytest.mark.parametrize(
    ("counts", "largest", "epsilon"),
    [((0, 0), 3, 2), ((7, 3), 12, 2), ((9, 9), 19, 2), ((2, 0, 5), 17, 4), ((9, 9, 9, 0), 18, 3)],
)
def test_draws_have_the_stated_probabilities_and_none_of_a_scale_a_tenth_off(
    counts: tuple[int, ...], largest: int, epsilon: int
) -> None:
    chosen = vector(epsilon, len(counts))
    assert largest < chosen.start
    rows = np.tile(np.array(counts), (300_000, 1))
    common = CommonRows.of(chosen.draw(rows, np.full(len(rows), largest), random=SeededRandom(3)))
    assert common.fit(chosen, counts, largest) > FALSE_ALARM
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        other = replace(chosen, rate=chosen.rate * factor)
        assert common.fit(other, counts, largest) < FALSE_ALARM


def test_components_are_drawn_with_their_weights_by_either_way() -> None:
    weights = vector(2, 8).weights
    n, step = 200_000, 6
    family = MixtureComponents(weights, np.full(n, step))
    found = np.bincount(draw(family, n, SeededRandom(1)), minlength=5) / n
    stated = np.array([float(weight) for weight in weights[step]])
    assert (np.abs(found - stated) < 5.5 * np.sqrt(stated / n) + 1e-9).all()
    words = SeededRandom(2).words(2_000).reshape(1, -1)
    fast, verdicts = family.fast(words, np.arange(2_000))
    for i in range(2_000):
        if verdicts[i] == Verdict.ACCEPT:
            assert settle(family, words[:, i], i, SeededRandom(i)) == fast[i]
    assert (verdicts == Verdict.DOUBT).sum() < 5


def test_rows_of_different_sizes_do_not_get_mixed_up() -> None:
    chosen = vector(8, 2)
    sizes = np.tile([1, 10**6, 19, 40], 5_000)
    counts = np.stack([10**7 + np.arange(len(sizes)), 2 * 10**7 + np.arange(len(sizes))], axis=1)
    noise = chosen.draw(counts, sizes, random=SeededRandom(4)) - counts
    means = [np.abs(noise[i::4]).mean() for i in range(4)]
    for mean, size in zip(means, (1, 10**6, 19, 40), strict=True):
        stated = chosen.mean_error(Cell(size))[0]
        assert mean == pytest.approx(stated, rel=0.1, abs=3 * np.sqrt(stated / 10_000))


# ------------------------------------------------------------------------------ sums


@pytest.mark.parametrize(("rate", "cells"), [(0.1, 1), (0.5, 3), (2.0, 8), (4.0, 21)])
def test_tails_of_sums_are_those_of_convolved_numbers(rate: float, cells: int) -> None:
    reach = ceil(300 / rate)
    one = np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    total = one
    for _ in range(cells - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    tail = geometric_sum_tails(rate, cells)
    for k in (1, 2, 5, ceil(3 * np.sqrt(cells) / rate)):
        exact = 2 * total[middle + k :].sum()
        assert tail(np.array([k]))[0] == pytest.approx(exact, rel=1e-7, abs=1e-13)


def test_probabilities_of_a_cell_are_sums_of_those_of_its_group() -> None:
    chosen = vector(4, 2)
    for size in (3, 18, 19):
        group, cell = Group.of((5, 0), size), Cell(5, size)
        with exactly():
            for output in (5, 6, 3):
                rows = sum(float(chosen.joint_pmf(group, (output, k))) for k in range(-60, 61))
                assert rows == pytest.approx(exp(chosen.log_pmf(cell, output)), rel=1e-4)


def test_a_released_mechanism_can_be_made_again_from_its_parameters() -> None:
    chosen = vector(2, 8)
    assert chosen.parameters["start"] == "20"
    assert chosen == vector(2, 8) and chosen.settings == {}
    assert log(float(chosen.weights[-1][-1])) < -8  # hardly any radial noise is left


# ------------------------------------------------------------------------------ the choice


def test_auto_takes_it_where_large_and_small_workplaces_are_mixed() -> None:
    for cells, epsilon in ((2, "2"), (8, "1"), (8, "4"), (21, "4")):
        chosen, why = automatic_vector(Guarantee(Strong("0.1"), epsilon), cells)
        assert chosen == vector(epsilon, cells)
        assert why == (
            f"vector-mixture protects all {cells} worker cells at once with the least error"
        )


@pytest.mark.parametrize(("cells", "epsilon"), [(21, "2"), (24, "2"), (36, "3.4"), (8, "0.6")])
def test_where_a_little_more_epsilon_has_much_less_error_auto_names_a_price_that_has(
    cells: int, epsilon: str
) -> None:
    chosen, why = automatic_vector(Guarantee(Strong("0.1"), epsilon), cells)
    assert chosen.name == "two-stage-clip"
    said = re.search(
        r"; epsilon ([0-9.]+) instead of ([0-9.]+) would have (\d+)% of the error", why
    )
    assert said is not None
    more, asked, share = said.groups()
    assert asked == epsilon and Fraction(more) <= Fraction(3, 2) * Fraction(epsilon)
    better, _ = automatic_vector(Guarantee(Strong("0.1"), more), cells)
    assert better.name == "vector-mixture"
    errors = [
        [made.total_error(Cell(x // cells, x)) for x in (32, 64, 128, 256)]
        for made in (better, chosen)
    ]
    shares = [a / b for a, b in zip(*errors, strict=True)]
    assert min(shares) - 0.01 <= int(share) / 100 <= max(shares) + 0.01
    less = Fraction(more) * Fraction(997, 1000)
    assert automatic_vector(Guarantee(Strong("0.1"), less), cells)[0].name == "two-stage-clip"


def test_no_price_is_named_that_is_far_more() -> None:
    _, why = automatic_vector(Guarantee(Strong("0.1"), "1"), 36)
    assert "needs epsilon of 3.435" in why and "instead of" not in why
