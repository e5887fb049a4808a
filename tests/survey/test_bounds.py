"""What one step of a survey can move, by brute force, and what the release then loses."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.mechanisms.mechanism import exactly
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import ESTABLISHMENT, RECORD
from eree.survey.bounds import Bounds, Shares, Squares, Unit
from eree.survey.guaranteed import Guaranteed
from eree.survey.laplace import ShiftNoise
from small_cubes import Cube, Record, count, shape, table_of

SHAPE = shape(2, 3)
CONTROLS = (("a",), ("b",), ())
W = 4  # thousandths of a job: small, so that everything can be enumerated

records = st.builds(Record, st.integers(0, 2), st.integers(0, 5), st.integers(1, 2 * W))
surveys = st.lists(records, max_size=12)


@st.composite
def steps(draw: st.DrawFn, unit: Unit) -> tuple[list[Record], list[Record]]:
    """A survey before and after a step: a record joins anywhere, or a new establishment does."""
    before = draw(surveys)
    joining = [draw(records)]
    if unit == "establishment" and draw(st.booleans()):
        others = draw(st.lists(records, max_size=8))
        joining = [record._replace(establishment=9) for record in [*joining, *others]]
    after = list(before)
    for record in joining:
        after.insert(draw(st.integers(0, len(after))), record)
    return before, after


def moved(before: Cube, after: Cube) -> tuple[int, dict[tuple[str, ...], int]]:
    """By how much all cells move together, in the cube and in every control table."""

    def distance(one: np.ndarray, other: np.ndarray) -> int:
        return int(np.abs(one - other).sum())

    tables = {
        by: distance(*(table_of(cube.weighted, SHAPE, by) for cube in (before, after)))
        for by in CONTROLS
    }
    return distance(before.weighted, after.weighted), tables


@pytest.mark.parametrize("unit", ["record", "establishment"])
@pytest.mark.parametrize("most", [None, 1, 2, 4])
def test_no_step_moves_more_than_the_bounds_say(unit: Unit, most: int | None) -> None:
    bounds = Bounds(W, most)
    if unit == "establishment" and most is None:
        with pytest.raises(Refusal, match="records of one have a public bound"):
            bounds.shift(unit)
        return
    worst = [0, 0, 0]

    @given(steps(unit))
    def every(step: tuple[list[Record], list[Record]]) -> None:
        before, after = (count(side, SHAPE, W, most) for side in step)
        cells, tables = moved(before, after)
        assert max(cells, *tables.values()) <= bounds.shift(unit)
        squares = abs(before.sums.squares - after.sums.squares)
        assert squares <= bounds.squared_shift(unit, "records")
        totals = abs(before.sums.establishment_squares - after.sums.establishment_squares)
        if most is not None:
            assert totals <= bounds.squared_shift(unit, "establishments")
        worst[:] = [max(a, b) for a, b in zip(worst, (cells, squares, totals), strict=True)]

    every()
    assert worst[0] > 0


def extreme(most: int) -> dict[str, tuple[list[Record], list[Record]]]:
    """Steps that reach the bounds: a record that takes another's place, an establishment joins."""
    full = [Record(0, 0, W) for _ in range(most - 1)]
    whole = [Record(1, i % 6, W) for i in range(most + 2)]
    heap = [Record(1, 0, W) for _ in range(most)]
    return {
        "displaces": ([*full, Record(0, 1, W)], [Record(0, 2, W), *full, Record(0, 1, W)]),
        "record": (full, [*full, Record(0, 3, W)]),
        "establishment": ([], whole),
        "heap": ([], heap),
    }


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_bounds_are_reached(most: int) -> None:
    bounds, found = Bounds(W, most), {}
    for name, step in extreme(most).items():
        before, after = (count(side, SHAPE, W, most) for side in step)
        found[name] = (
            moved(before, after)[0],
            abs(before.sums.squares - after.sums.squares),
            abs(before.sums.establishment_squares - after.sums.establishment_squares),
        )
    assert found["displaces"][0] == bounds.shift("record") == 2 * W
    assert max(found["establishment"][0], 2 * W) == bounds.shift("establishment")
    assert found["record"][1] == bounds.squared_shift("record", "records")
    assert found["record"][2] == bounds.squared_shift("record", "establishments")
    assert found["establishment"][1] == bounds.squared_shift("establishment", "records")
    assert found["heap"][2] == bounds.squared_shift("establishment", "establishments")


def loss(noise: ShiftNoise, move: int) -> float:
    """The greatest logarithm of a ratio of chances when a number moves, over many outputs."""
    reach = 3 * noise.shift + abs(move)
    with exactly():
        chance = {k: float(noise.chance(k)) for k in range(-2 * reach, 2 * reach + 1)}
    return max(abs(log(chance[k]) - log(chance[k - move])) for k in range(-reach, reach + 1))


@pytest.mark.parametrize(
    ("unit", "most", "squares"),
    [
        ("record", None, "records"),
        ("record", 2, "establishments"),
        ("establishment", 2, "establishments"),
        ("establishment", 3, "records"),
    ],
)
def test_the_likelihood_of_everything_that_is_drawn_changes_by_epsilon_at_most(
    unit: Unit, most: int | None, squares: Squares
) -> None:
    """Random neighbours; the chances of all parts multiply, so their logarithms add up."""
    relation = RECORD if unit == "record" else ESTABLISHMENT
    mode = Guaranteed(
        Bounds(W, most),
        unit,
        Guarantee(relation, "3/2"),
        Shares.usual(CONTROLS, variance=True),
        squares,
    )
    known: dict[tuple[ShiftNoise, int], float] = {}

    def lost(noise: ShiftNoise, move: int) -> float:
        key = noise, abs(move)
        if key not in known:
            known[key] = loss(*key) if move else 0.0
        return known[key]

    worst = [0.0]

    @given(steps(unit))
    def every(step: tuple[list[Record], list[Record]]) -> None:
        before, after = (count(side, SHAPE, W, most) for side in step)
        total = sum(lost(mode.cells, int(m)) for m in (after.weighted - before.weighted).ravel())
        for by, noise in mode.tables.items():
            move = table_of(after.weighted - before.weighted, SHAPE, by)
            total += sum(lost(noise, int(m)) for m in np.ravel(move))
        assert mode.variance is not None
        name = "squares" if squares == "records" else "establishment_squares"
        total += lost(mode.variance, getattr(after.sums, name) - getattr(before.sums, name))
        assert total <= 1.5 * (1 + 1e-9)
        worst[0] = max(worst[0], total)

    every()
    assert worst[0] > 0.2


def test_shares_are_exact_and_add_up() -> None:
    usual = Shares.usual((("a",), ("a", "b"), ()), variance=True)
    assert (usual.cells, usual.variance) == (Fraction(19, 40), Fraction(1, 20))
    assert set(usual.controls.values()) == {Fraction(19, 120)}
    assert Shares.of(usual.as_json()) == usual
    assert Shares.usual() == Shares(1) == Shares.of(Shares().as_json())
    with pytest.raises(Refusal, match="add up to 1"):
        Shares("1/2", {("a",): "1/3"})
    for wrong in (("3/2", {}, "-1/2"), ("0", {("a",): 1}, 0), ("1", {("a",): 0}, 0)):
        with pytest.raises(Refusal, match="must be above 0"):
            Shares(*wrong)


def test_bounds_are_checked_and_written_exactly() -> None:
    for bounds in (Bounds(2_000_000, 20), Bounds(1, None), Bounds(None, 3), Bounds()):
        assert Bounds.of(bounds.as_json()) == bounds
    assert Bounds(2_500_001).as_json() == {"weight": "2500.001", "records": None}
    for wrong in ((0, None), (10**11, None), (5, 0), (5, True), (2.0, 1)):
        with pytest.raises(Refusal, match="the bounds of a cube are from"):
            Bounds(*wrong)
    with pytest.raises(Refusal, match="whole number of thousandths"):
        Bounds.of({"weight": "0.0001", "records": None})
    with pytest.raises(Refusal, match="weights have a public bound"):
        Bounds(None, 5).shift("record")
    with pytest.raises(Refusal, match="need a public bound of the records"):
        Bounds(5).squared_shift("record", "establishments")
    with pytest.raises(Refusal, match="'record' or 'establishment'"):
        Bounds(5).shift("worker")
    with pytest.raises(Refusal, match="added up over"):
        Bounds(5).squared_shift("record", "weights")


def test_every_part_costs_its_share_and_all_together_the_price() -> None:
    shares = Shares("1/3", {("a",): "1/3", ("b",): "1/6"}, "1/6")
    total = Guarantee(ESTABLISHMENT, "0.7", "1e-6")
    mode = Guaranteed(Bounds(W, 3), "establishment", total, shares, "establishments")
    assert mode.variance is not None
    parts = [mode.cells, *mode.tables.values(), mode.variance]
    assert sum((part.guarantee for part in parts[1:]), parts[0].guarantee) == total
    assert [part.shift for part in parts] == [3 * W] * 3 + [9 * W * W]
    assert all(part.certify().holds and part.cap is not None for part in parts)
    with pytest.raises(Refusal, match="needs a share of the price"):
        Guaranteed(Bounds(W, 3), "establishment", total, shares)
    with pytest.raises(Refusal, match="under the neighbours of its unit"):
        Guaranteed(Bounds(W, 3), "record", total, shares, "records")
    with pytest.raises(Refusal, match="ten million jobs and more"):
        Guaranteed(Bounds(10**10, 3), "record", Guarantee(RECORD, "0.1"), Shares())
