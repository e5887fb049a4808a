"""The query tool as published: what it does, and that its weighted values have no guarantee."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import RECORD
from eree.random.exact import exactly
from eree.random.source import Random, SeededRandom
from eree.survey.bounds import Bounds
from eree.survey.modes import AsPublished
from small_cubes import Record, count, shape, survey, table_of

SHAPE = shape(3, 4, 2)
MODE = AsPublished(Bounds(), "2", 7)


def support(weighted: int, average: Fraction) -> set[int]:
    """Every value that a cell can be published with."""
    return {weighted + round(k * average) for k in range(-7, 8)}


def test_noise_comes_in_multiples_of_the_average_weight() -> None:
    cube = count(survey(1, SHAPE, 40), SHAPE)
    noisy = MODE.draw(cube, SeededRandom(1))
    average = Fraction(cube.sums.weight, cube.sums.records)
    noise = noisy.cells - cube.weighted
    steps = {round(k * average): k for k in range(-7, 8)}
    drawn = np.array([steps[value] for value in noise.ravel().tolist()])
    assert set(drawn.tolist()) > {-1, 0, 1}
    assert noisy.noise_variance == pytest.approx(MODE.cells.variance * float(average) ** 2)
    assert MODE.price == Guarantee(RECORD, 2, MODE.cells.guarantee.delta)
    assert f"{float(MODE.price.delta):.3g}" == "6.34e-07"  # 6.33e-7, rounded up


def test_a_record_of_another_weight_is_given_away_for_certain() -> None:
    """Supports with and without it are disjoint: whoever knows the rest is never wrong."""
    rest = survey(2, SHAPE, 30)
    target = Record(99, 5, 1_234_567)
    without, with_it = count(rest, SHAPE), count([*rest, target], SHAPE)
    averages = [Fraction(c.sums.weight, c.sums.records) for c in (without, with_it)]
    possible = [
        support(int(cube.weighted.flat[target.cell]), average)
        for cube, average in zip((without, with_it), averages, strict=True)
    ]
    assert not possible[0] & possible[1]
    for present in (False, True) * 50:
        noisy = MODE.draw(with_it if present else without, Random())
        assert (int(noisy.cells.flat[target.cell]) in possible[1]) == present


def test_with_a_fixed_average_only_a_multiple_of_it_is_hidden() -> None:
    average = Fraction(20_000)
    for weight in (1, 10_000, 19_999, 30_000, 40_001):
        assert not support(500_000, average) & support(500_000 + weight, average)
    for weight in (20_000, 40_000):
        both = support(500_000, average) & support(500_000 + weight, average)
        assert len(both) == 15 - weight // 20_000


def test_control_tables_are_the_truth_or_are_paid_for() -> None:
    cube = count(survey(3, SHAPE, 40), SHAPE)
    by = ("c", "a")
    given_away = AsPublished(Bounds(), "2", 7, (by,)).draw(cube, SeededRandom(1)).controls[0]
    assert given_away.exact
    assert (given_away.values == table_of(cube.weighted, SHAPE, by)).all()
    paid = AsPublished(Bounds(), "2", 7, (by,), exact_controls=False)
    noisy = paid.draw(cube, SeededRandom(1)).controls[0]
    assert not noisy.exact
    assert (noisy.values != given_away.values).any()
    assert paid.price == paid.cells.guarantee + paid.cells.guarantee


def test_cells_that_are_left_out_are_empty_and_the_release_says_so() -> None:
    cube = count(survey(4, SHAPE, 10), SHAPE)
    mode = AsPublished(Bounds(), "2", 7, keep_empty="1/4")
    noisy = mode.draw(cube, SeededRandom(2))
    assert noisy.kept is not None
    empty = cube.unweighted == 0
    assert noisy.kept[~empty].all()
    assert 0 < noisy.kept[empty].sum() < empty.sum()
    assert not noisy.cells[~noisy.kept].any()
    assert "left out is known to be empty" in mode.losses[-1]
    assert len(MODE.losses) == 2
    none = AsPublished(Bounds(), "2", 7, keep_empty=0).draw(cube, SeededRandom(2))
    assert none.kept is not None
    assert (none.kept == ~empty).all()


def test_the_settings_are_read_back_from_plain_data() -> None:
    mode = AsPublished(Bounds(5_000), "7", 1, (("a",), ()), exact_controls=False, keep_empty="1/3")
    assert AsPublished.of(mode.as_json()) == mode
    assert MODE.cells.distribution.rate == 2
    for share in ("-1", "4/3"):
        with pytest.raises(Refusal, match="a share from 0 to 1"):
            AsPublished(Bounds(), "2", 7, keep_empty=share)


def test_a_survey_without_records_gets_no_noise_as_published() -> None:
    cube = count([], SHAPE)
    assert not MODE.draw(cube, SeededRandom(1)).cells.any()


def test_a_cube_that_leaves_records_out_is_refused_as_published() -> None:
    """A record that joins may take another's place: two counts move, and the price would be wrong.

    With the noise of a shift by 1, the probabilities of the two counts beyond e^epsilon add up to
    far more than delta.
    """
    with pytest.raises(Refusal, match="as published, every record counts; build the cube without"):
        AsPublished(Bounds(5_000, 2), "2", 3)
    noise = AsPublished(Bounds(), "2", 3).cells
    with exactly():
        probability = {k: float(noise.probability(k)) for k in range(-3, 4)}
    swapped = sum(
        max(0.0, a * b - exp(2) * probability.get(i - 1, 0.0) * probability.get(j + 1, 0.0))
        for i, a in probability.items()
        for j, b in probability.items()
    )
    assert swapped > 0.5 > 100 * float(noise.guarantee.delta)


def test_the_losses_tell_the_whole_price() -> None:
    mode = AsPublished(Bounds(), "2", 7, (("a",), ("b",)), exact_controls=False)
    assert mode.price.epsilon == 6
    assert mode.losses[0].startswith("The price, epsilon 6 and delta ")


@pytest.mark.parametrize(("epsilon", "cap"), [("50", 20), ("100", 8), ("16", 60)])
def test_a_delta_that_is_hardly_there_is_refused(epsilon: str, cap: int) -> None:
    with pytest.raises(Refusal, match="delta is below 1e-300; a lower cap is as good"):
        _ = AsPublished(Bounds(), epsilon, cap).cells
    assert AsPublished(Bounds(), "50", 13).cells.guarantee.delta > 0
