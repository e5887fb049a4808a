"""Margins hidden together: all neighbours of a group, certificates, draws, errors and refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cases import FALSE_ALARM
from drawn_rows import CommonRows
from eree.errors import Refusal
from eree.mechanisms.margins_radial import MarginsRadial, counts_of
from eree.mechanisms.mechanism import LIMIT
from eree.mechanisms.vector_loss import worst_vector_loss
from eree.mechanisms.vector_radial import VectorRadial
from eree.noise.coins import SeededCoins
from eree.noise.laws import Scales
from eree.noise.margins import MarginsShape, RoundedMargins
from eree.noise.vector_radial import RoundedVectorRadial, VectorRadialShape
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Strong, Weak

TENTH = Fraction(1, 10)


def margins(alpha: Any = "0.1", epsilon: Any = "2", values: int = 4) -> MarginsRadial:
    return MarginsRadial.calibrate(Guarantee(Strong(alpha), epsilon), values=values)


def true_margins(groups: Any) -> Any:
    """(e, f) of groups of two halves, number by number."""
    v = groups.shape[-1] // 2
    sums = [groups[..., c] + groups[..., v + c] for c in range(v)]
    difference = groups[..., :v].sum(axis=-1) - groups[..., v:].sum(axis=-1)
    return np.stack([*sums, difference], axis=-1)


# ------------------------------------------------------------------------------ certificates


@pytest.mark.parametrize(
    ("alpha", "epsilon", "values"),
    [
        ("0.1", "4", 4),
        ("0.1", "0.5", 4),
        ("0.1", "1", 2),
        ("0.1", "4", 1),
        ("0.01", "0.5", 7),
        ("0.000001", "3", 2),
        ("1000", "500", 3),
    ],
)
def test_no_more_is_found_than_was_claimed(alpha: str, epsilon: str, values: int) -> None:
    certificate = margins(alpha, epsilon, values).certify()
    assert certificate.holds
    assert certificate.found_epsilon > 0.9999 * float(epsilon)
    assert certificate.found_delta == 0
    assert certificate.found_epsilon >= certificate.worst_pair.loss
    assert certificate.worst_pair.loss > 0.998 * certificate.found_epsilon


def losses(
    chosen: MarginsRadial, workplaces: list[tuple[int, ...]], most_joined: int, other: int
) -> float:
    """The greatest loss over all growths of one workplace beside one of `other` workers, in cell 0.

    From exact chances, of outputs around the margins of both groups and far out.
    """
    allows, cells, worst, known = Strong(chosen.radial.alpha).allows, chosen.cells, 0.0, {}

    def log_chance(outputs: tuple[int, ...], counts: tuple[int, ...], largest: int) -> float:
        noise = np.array(outputs) - true_margins(np.array(counts))
        key = (*sorted(np.abs(noise[:-1])), abs(noise[-1]), largest)
        if key not in known:
            known[key] = chosen.joint_log_pmf(outputs=outputs, counts=counts, largest=largest)
        return known[key]

    for before in workplaces:
        for joined in product(range(most_joined + 1), repeat=cells):
            after = tuple(b + j for b, j in zip(before, joined, strict=True))
            if not allows(before, after):
                continue
            old, new = ((group[0] + other, *group[1:]) for group in (before, after))
            largest = [max(sum(group), other) for group in (before, after)]
            ends = zip(*(true_margins(np.array(g)).tolist() for g in (old, new)), strict=True)
            ranges = [(min(o, n) - 7, o, n, max(o, n) + 40) for o, n in ends]
            for outputs in product(*ranges):
                loss = log_chance(outputs, old, largest[0]) - log_chance(outputs, new, largest[1])
                worst = max(worst, abs(loss))
    return worst


@pytest.mark.parametrize(("alpha", "epsilon"), [(Fraction(29, 100), 4), (Fraction(1, 2), 5)])
def test_no_neighbours_lose_more_than_was_found(alpha: Fraction, epsilon: int) -> None:
    """Brute force over histograms and growths of a workplace, beside another or alone."""
    chosen = margins(alpha, epsilon, 2)
    found = chosen.certify().found_epsilon
    some = [(0, 0, 0, 0), (1, 0, 0, 2), (4, 1, 2, 0), (7, 0, 0, 0)]
    worst = max(losses(chosen, some, 2, other) for other in (0, 9))
    assert 0.85 * found < worst <= found + 1e-12
    chosen = margins(alpha, epsilon, 1)
    found, some = chosen.certify().found_epsilon, list(product((0, 1, 3, 6, 9), repeat=2))
    worst = max(losses(chosen, some, 4, other) for other in (0, 9))
    assert 0.9 * found < worst <= found + 1e-12


@pytest.mark.parametrize(
    ("alpha", "epsilon", "values"), [("0.1", "1", 4), ("0.1", "0.3", 2), ("0.4", "6", 9)]
)
def test_no_random_neighbours_lose_more_by_their_densities(
    alpha: str, epsilon: str, values: int
) -> None:
    """Groups of any size, of which some workers are not shown, and outputs anywhere."""
    chosen, strong, rng = margins(alpha, epsilon, values), Strong(alpha), np.random.default_rng(2)
    share, cells, n, d = float(strong.alpha), 2 * values, 4_000, values + 1
    x = (10 ** rng.uniform(0, 4, n)).astype(np.int64)
    y = np.where(rng.random(n) < 0.5, x, (x * rng.uniform(1 / (1 + share), 1, n)).astype(np.int64))
    most = np.array([strong.growth(int(size)) for size in y])
    joined = np.where(rng.random(n) < 0.6, most, rng.integers(1, most + 1))
    after = np.maximum(x, y + joined)
    where = np.where(rng.random(n) < 0.5, 0, 1)[:, None] * np.full(cells, 1 / cells)
    where[where.sum(axis=1) == 0] = np.eye(cells)[0]
    old = rng.multinomial(x, np.full(cells, 1 / cells))
    new = old + rng.multinomial(joined, where) * (rng.random((n, 1)) < 0.8)
    ends = [true_margins(group).astype(np.float64) for group in (old, new)]
    scales = [np.maximum(float(chosen.bend) * size, 1.0) for size in (x, after)]

    def log_density(outputs: Any, centre: Any, scale: Any) -> Any:
        away = outputs - centre
        t = np.maximum(np.abs(away[:, :-1]).sum(axis=1), np.abs(away[:, -1])) / scale
        return chosen.radial.log_weight(t) - d * np.log(scale)

    worst = 0.0
    for stretch in (0.0, 0.3, 1.0, chosen.radial.steepest, 9.0, 1e3, 1e6):
        for towards in (-1.0, 0.0, 1.0):
            sideways = rng.normal(size=(n, d)) * rng.choice([0.0, 0.1, 1.0], (n, 1))
            way = towards * (ends[1] - ends[0]) / joined[:, None] + sideways
            outputs = ends[rng.integers(2)] + way * (stretch * scales[0])[:, None]
            loss = log_density(outputs, ends[0], scales[0]) - log_density(
                outputs, ends[1], scales[1]
            )
            worst = max(worst, float(np.abs(loss).max()))
    assert 0.9 * float(epsilon) < worst <= float(epsilon)


def test_random_neighbours_lose_no_more_by_their_chances() -> None:
    chosen, strong, rng = margins("0.1", "1", 3), Strong("0.1"), np.random.default_rng(8)
    found, worst = chosen.certify().found_epsilon, 0.0
    for _ in range(150):
        x = int(10 ** rng.uniform(0, 3))
        joined = strong.growth(x)
        old = rng.multinomial(x, np.full(6, 1 / 6))
        new = old + rng.multinomial(joined, rng.choice([np.eye(6)[1], np.full(6, 1 / 6)]))
        ends = true_margins(old), true_margins(new)
        away = (ends[1] - ends[0]) * rng.choice([-9.0, 0.0, 1.0, 30.0]) + rng.normal(size=4)
        outputs = [int(k) for k in ends[0] + away.round()]
        loss = chosen.joint_log_pmf(
            outputs=outputs, counts=old.tolist(), largest=x
        ) - chosen.joint_log_pmf(outputs=outputs, counts=new.tolist(), largest=x + joined)
        worst = max(worst, abs(loss))
    assert 0.9 * found < worst <= found + 1e-12


def test_the_chances_of_another_law_are_caught() -> None:
    """A scale a tenth too small; a density of the sum of sizes; one of too few dimensions."""

    class Smaller(MarginsRadial):
        def law(self, largests: Any) -> RoundedMargins:
            return RoundedMargins(Scales(largests, self.bend, Fraction(9, 10)), self.shape)

    class Summed(MarginsRadial):
        def law(self, largests: Any) -> Any:
            scales = Scales(largests, self.bend, Fraction(1))
            return RoundedVectorRadial(scales, self.radial.shape)

    class Flat(MarginsRadial):
        @property
        def shape(self) -> MarginsShape:
            steeper = VectorRadialShape(self.rate * Fraction(11, 10), self.bend, self.values + 1)
            return MarginsShape(steeper)

    assert margins().chances_agree()
    for kind in (Smaller, Summed, Flat):
        chosen = kind.calibrate(Guarantee(Strong("0.1"), "2"), values=4)
        assert not chosen.chances_agree()
        assert not chosen.certify().holds


def test_the_weight_of_one_dimension_fewer_loses_more() -> None:
    """The difference is a dimension of its own: noise for the values alone would not hide both."""

    class Fewer(VectorRadial):
        def normaliser_elasticity(self) -> tuple[float, float]:
            return float(self.cells + 1), float(self.cells + 1)

    chosen = margins()
    fewer = Fewer(chosen.guarantee, chosen.values, chosen.rate, chosen.bend)
    assert worst_vector_loss(chosen.radial, chosen.radial.one_step).found <= 2
    assert worst_vector_loss(fewer, fewer.one_step).attained > 2.05


# ------------------------------------------------------------------------------ draws


@pytest.mark.parametrize(("counts", "largest"), [((0, 0, 0, 0), 0), ((3, 0, 9, 4), 15)])
def test_draws_follow_the_stated_joint_chances_and_no_others(
    counts: tuple[int, ...], largest: int
) -> None:
    """Rows most common in one half of the draws; the other half is tested, off by a tenth too."""
    n = 150_000
    chosen = margins("0.1", 2, 2)
    rows = chosen.draw_differences(
        np.tile(np.array(counts), (2 * n, 1)), np.full(2 * n, largest), coins=SeededCoins(largest)
    )
    common = CommonRows.of(rows)
    assert common.fit(chosen, counts, largest) > FALSE_ALARM
    for epsilon in (Fraction(20, 9), Fraction(20, 11)):
        assert common.fit(margins("0.1", epsilon, 2), counts, largest) < FALSE_ALARM


def test_counts_and_halves_are_drawn_around_the_true_ones() -> None:
    """Unbiased, with the stated variances."""
    n, sigmas = 120_000, 5.5
    counts, largest = np.array([120, 40, 7, 0, 60, 90, 1, 33]), 200
    chosen = margins("0.1", 4, 4)
    drawn = chosen.draw(np.tile(counts, (n, 1)), np.full(n, largest), coins=SeededCoins(3))
    assert drawn.shape == (n, 6)
    assert (drawn[:, :4].sum(axis=1) == drawn[:, 4:].sum(axis=1)).all()
    expected = np.array([*(counts[:4] + counts[4:]), counts[:4].sum(), counts[4:].sum()])
    spread = sigmas * drawn.std(axis=0) / math.sqrt(n)
    assert (np.abs(drawn.mean(axis=0) - expected) < spread).all()
    scale = largest * math.log1p(0.1)
    by_value, difference = chosen.variances()
    squares = (drawn - expected) ** 2.0 / scale**2
    stated = np.array([by_value] * 4 + [(4 * by_value + difference) / 4] * 2)
    spread = sigmas * squares.std(axis=0) / math.sqrt(n)
    rounding = 0.5 / scale**2
    assert (np.abs(squares.mean(axis=0) - stated) < spread + rounding).all()
    for off in (0.81, 1.21):
        assert (np.abs(squares.mean(axis=0) - off * stated) > spread + rounding).all()
    sizes = np.abs(drawn[:, 0] - expected[0]) / scale
    assert abs(sizes.mean() - chosen.mean_sizes()[0]) < sigmas * sizes.std() / math.sqrt(n) + 0.005


@given(st.lists(st.lists(st.integers(0, 900), min_size=6, max_size=6), min_size=1, max_size=4))
def test_counts_of_true_margins_are_the_true_counts(groups: list[list[int]]) -> None:
    cells = np.array(groups)
    published = counts_of(true_margins(cells), SeededCoins(1))
    assert (published[:, :3] == cells[:, :3] + cells[:, 3:]).all()
    assert (published[:, 3] == cells[:, :3].sum(axis=1)).all()
    assert (published[:, 4] == cells[:, 3:].sum(axis=1)).all()


def test_a_coin_says_which_half_of_an_odd_rest_is_rounded_up() -> None:
    n = 10_000
    differences = np.tile([[3, 4, 2], [3, 4, -2], [0, -3, 0]], (n, 1))
    published = counts_of(differences, SeededCoins(1))
    assert (published[:, :2] == differences[:, :2]).all()
    assert (published[:, 2] + published[:, 3] == differences[:, :2].sum(axis=1)).all()
    for i, (low, high) in enumerate([(4, 5), (2, 3), (-2, -1)]):
        first = published[i::3, 2]
        assert set(first) == {low, high}
        assert stats.binomtest(int((first == high).sum()), n).pvalue > FALSE_ALARM


def test_margins_cost_less_than_all_cells_of_which_they_are_sums() -> None:
    """By value and by half, where both exist; and they exist for less epsilon."""
    for epsilon in ("0.8", "1", "2", "4"):
        by_value, difference = margins("0.1", epsilon, 4).variances()
        guarantee = Guarantee(Strong("0.1"), epsilon)
        cell = VectorRadial.calibrate(guarantee, cells=8).real_error()[1] ** 2
        assert by_value < 2 * cell
        assert (4 * by_value + difference) / 4 < 4 * cell
    with pytest.raises(Refusal):
        VectorRadial.calibrate(Guarantee(Strong("0.1"), "0.5"), cells=8)
    assert margins("0.1", "0.5", 4).certify().holds


def test_the_greatest_counts_stay_within_64_bits() -> None:
    chosen = margins("0.2", "1.95", 9)
    counts = np.full((2_000, 18), 2**55)
    drawn = chosen.draw(counts, np.full(2_000, 2**59), coins=SeededCoins(2))
    assert drawn.dtype == np.int64
    assert np.abs(drawn).max() <= LIMIT
    assert (drawn[:, :9].sum(axis=1) == drawn[:, 9] + drawn[:, 10]).all()
    with pytest.raises(Refusal, match="add up to less than 2\\^60"):
        chosen.draw(np.full((1, 18), 2**58), np.array([1]), coins=SeededCoins(2))


# ------------------------------------------------------------------------------ use and refusals


def test_the_mechanism_is_frozen_plain_data() -> None:
    chosen = margins()
    assert chosen == margins()
    assert chosen.parameters["values"] == "4"
    assert all(Fraction(value) > 0 for value in chosen.parameters.values())
    assert chosen.statistics() == ("count", "largest_total")
    assert "Theorem." in (MarginsRadial.__doc__ or "")
    assert "Proof." in (MarginsRadial.__doc__ or "")
    certificate = chosen.certify()
    found = json.loads(json.dumps(certificate.as_json()))
    assert found["holds"] is True
    assert len(found["worst_pair"]["before"]["counts"]) == 8
    assert len(found["worst_pair"]["outputs"]) == 5
    assert certificate.words()[0].startswith("margins-radial (strong neighbours, alpha 0.1)")


def test_groups_of_another_shape_are_refused_without_a_value() -> None:
    chosen, coins = margins(values=2), SeededCoins(1)
    for counts, largests in (
        (np.array([[77, 1, 1]]), np.array([1])),
        (np.array([77, 1, 1, 1]), np.array([1])),
        (np.array([[77, 1, 1, 1]]), np.array([1, 2])),
        (np.array([[77, 1, 1, 1]]), np.array([[1]])),
        (np.array([[-77, 1, 1, 1]]), np.array([1])),
        (np.array([[77, 1, 1, 1]]), np.array([-77])),
        (np.array([[0.5, 1, 1, 1]]), np.array([1])),
    ):
        with pytest.raises(Refusal) as caught:
            chosen.draw(counts, largests, coins=coins)
        assert "77" not in str(caught.value)
    empty = chosen.draw(np.empty((0, 4), dtype=np.int64), np.array([], dtype=int), coins=coins)
    assert empty.shape == (0, 4)
    for outputs, counts in (((1, 2), (1, 2, 3, 4)), ((1, 2, 3), (1, 2, 3))):
        with pytest.raises(Refusal, match="outputs are 2 counts and a difference"):
            chosen.joint_pmf(outputs=outputs, counts=counts, largest=3)


@pytest.mark.parametrize("values", [0, 64, True, (2, 3), 2.0])
def test_other_attributes_are_refused(values: Any) -> None:
    with pytest.raises(Refusal, match="one of two values and one of 1 to 63; for others hide all"):
        margins(values=values)


def test_too_little_epsilon_is_refused() -> None:
    with pytest.raises(Refusal, match=r"epsilon of 0.4771 or more \(above 5 ln.* 2 by 4 cells; .*"):
        margins("0.1", "0.47", 4)


def test_margins_are_for_neighbours_with_an_alpha() -> None:
    for other in (EDGE, NODE):
        with pytest.raises(Refusal, match="margins-radial needs strong or weak neighbours"):
            MarginsRadial.calibrate(Guarantee(other, 2), values=2)
    weak = MarginsRadial.calibrate(Guarantee(Weak(TENTH, ["sex", "education"]), 2), values=4)
    assert weak.parameters == margins().parameters
