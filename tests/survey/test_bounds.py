"""What one step of a survey can move, by brute force, and what the release then loses."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import ESTABLISHMENT, RECORD
from eree.random.exact import exactly
from eree.survey.bounds import Bounds, Shares
from eree.survey.checked import Survey
from eree.survey.cube import Cube
from eree.survey.declaration import Declaration
from eree.survey.laplace import ShiftNoise
from eree.survey.modes import Guaranteed
from eree.survey.settings import Squares, Unit
from selection import examples
from small_cubes import Record, count, shape, table_of

SHAPE = shape(2, 3)
CONTROLS = (("a",), ("b",), ())
W = 4  # thousandths of a job: small, so that everything can be enumerated

Named = tuple[int, Record]  # a record with its id
records = st.builds(Record, st.integers(0, 2), st.integers(0, 5), st.integers(1, 2 * W))
surveys = st.lists(records, min_size=1, max_size=12)


@st.composite
def steps(draw: st.DrawFn, unit: Unit) -> tuple[list[Named], list[Named]]:
    """A survey before and after a step: a record joins anywhere, or a new establishment does.

    Ids are in no order, and so are the records in the file.
    """
    before = draw(surveys)
    joining = [draw(records)]
    if unit == "establishment" and draw(st.booleans()):
        others = draw(st.lists(records, max_size=8))
        joining = [record._replace(establishment=9) for record in [*joining, *others]]
    ids = draw(st.permutations(range(1, len(before) + len(joining) + 1)))
    named = list(zip(ids, [*before, *joining], strict=True))
    return named[: len(before)], draw(st.permutations(named))


def built(side: list[Named], most: int | None) -> eree.Cube:
    """The cube as a survey's is built, which is the one that counting record by record gives."""
    of = Declaration("records", "id", "establishment", "weight", "", SHAPE.variables)
    cells = np.unravel_index([record.cell for _, record in side], SHAPE.levels)
    names, places = np.unique([record.establishment for _, record in side], return_inverse=True)
    assert len(names)
    made = Survey(
        Path(),
        of,
        {v.name: axis.astype(np.int32) for v, axis in zip(of.variables, cells, strict=True)},
        np.array([record.weight for _, record in side], dtype=np.int64),
        places.astype(np.int64),
        pa.chunked_array([[str(name) for name, _ in side]]),
    )
    cube = eree.build_cube(made, most_weight=Fraction(W, 1000), most_records=most)
    plain = count([record for _, record in sorted(side)], SHAPE, W, most)
    assert (cube.weighted == plain.weighted).all()
    assert (cube.unweighted == plain.unweighted).all()
    assert vars(plain.sums).items() <= vars(cube.sums).items()
    return cube


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
    def every(step: tuple[list[Named], list[Named]]) -> None:
        before, after = (built(side, most) for side in step)
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
    """Steps that attain the bounds: a record that takes another's place, an establishment joins."""
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
    """The greatest logarithm of a ratio of probabilities when a number moves, over many outputs."""
    widest = 3 * noise.shift + abs(move)
    with exactly():
        probability = {k: float(noise.probability(k)) for k in range(-2 * widest, 2 * widest + 1)}
    return max(
        abs(log(probability[k]) - log(probability[k - move])) for k in range(-widest, widest + 1)
    )


SETTINGS = pytest.mark.parametrize(
    ("unit", "most", "squares"),
    [
        ("record", None, "records"),
        ("record", 2, "establishments"),
        ("establishment", 2, "establishments"),
        ("establishment", 3, "records"),
    ],
)


@SETTINGS
def test_the_likelihood_of_everything_that_is_drawn_changes_by_epsilon_at_most(
    unit: Unit, most: int | None, squares: Squares
) -> None:
    """Random neighbours; the probabilities of all parts multiply, so their logarithms add up."""
    relation = RECORD if unit == "record" else ESTABLISHMENT
    mode = Guaranteed(
        Bounds(W, most),
        unit,
        Guarantee(relation, "3/2"),
        Shares.default(CONTROLS, variance=True),
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
    def every(step: tuple[list[Named], list[Named]]) -> None:
        before, after = (built(side, most) for side in step)
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


class Losses:
    """The distribution of the loss ln P(k) / P(k - move) of noise, and that of many together.

    It is the rate of the noise times an integer n, or infinite where a cap is in the way:
    `probabilities[size + n]` is the probability of n, and what is missing to 1 that of infinity.
    """

    def __init__(self, noise: ShiftNoise) -> None:
        assert noise.cap is not None
        self.rate, cap = float(noise.distribution.rate), noise.cap
        with exactly():
            half = [float(noise.probability(k)) for k in range(cap + 1)]
        self.distribution = np.array(half[:0:-1] + half)
        self.cap = cap

    def of(self, move: int) -> np.ndarray:
        """Of one number that moves."""
        size, outputs = abs(move), np.arange(-self.cap, self.cap + 1)
        both = np.abs(outputs - size) <= self.cap
        steps = np.abs(outputs - size) - np.abs(outputs)
        return np.bincount(steps[both] + size, self.distribution[both], 2 * size + 1)

    def together(self, moves: Iterable[int]) -> np.ndarray:
        """Of independent numbers."""
        found = np.ones(1)
        for move in moves:
            if move:
                found = np.convolve(found, self.of(move))
        return found


def delta_of(parts: list[tuple[Losses, list[int]]], epsilon: float) -> float:
    """The least delta of all parts drawn together; noise is symmetric, so both ways the same."""
    losses, probabilities = np.zeros(1), np.ones(1)
    for noise, moves in parts:
        found = noise.together(moves)
        size = len(found) // 2
        here = noise.rate * np.arange(-size, size + 1)
        losses = np.add.outer(losses, here).ravel()
        probabilities = np.multiply.outer(probabilities, found).ravel()
    surplus = np.maximum(1 - np.exp(np.minimum(epsilon - losses, 0)), 0)
    return 1 - float(probabilities.sum()) + float(probabilities @ surplus)


def moves_of(mode: Guaranteed, before: Cube, after: Cube) -> list[tuple[ShiftNoise, list[int]]]:
    """Every noise of a release with the moves of its numbers; controls together."""
    apart = after.weighted - before.weighted
    (noise,) = set(mode.tables.values())  # each has the same share of the price
    tables = [int(m) for by in mode.tables for m in np.ravel(table_of(apart, SHAPE, by))]
    name = "squares" if mode.squares == "records" else "establishment_squares"
    assert mode.variance is not None
    square = getattr(after.sums, name) - getattr(before.sums, name)
    return [
        (mode.cells, [int(m) for m in apart.ravel()]),
        (noise, tables),
        (mode.variance, [square]),
    ]


EPSILON, DELTA = Fraction(3, 2), Fraction(1, 20)


def capped(
    unit: Unit,
    most: int | None,
    squares: Squares,
    epsilon: Fraction = EPSILON,
    delta: Fraction = DELTA,
) -> Guaranteed:
    relation = RECORD if unit == "record" else ESTABLISHMENT
    shares = Shares.default(CONTROLS, variance=True)
    return Guaranteed(Bounds(W, most), unit, Guarantee(relation, epsilon, delta), shares, squares)


@SETTINGS
def test_with_a_cap_everything_that_is_drawn_differs_by_epsilon_and_delta_at_most(
    unit: Unit, most: int | None, squares: Squares
) -> None:
    """Random neighbours; the exact joint delta of cells, controls and squares at epsilon."""
    mode = capped(unit, most, squares)
    assert mode.variance is not None
    known = {noise: Losses(noise) for noise in (mode.cells, *mode.tables.values(), mode.variance)}
    worst = [0.0]

    @examples(20, torture=600)
    @given(steps(unit))
    def every(step: tuple[list[Named], list[Named]]) -> None:
        before, after = (built(side, most) for side in step)
        parts = [(known[noise], moves) for noise, moves in moves_of(mode, before, after)]
        found = delta_of(parts, float(EPSILON))
        assert found <= float(DELTA) * (1 + 1e-9)
        worst[0] = max(worst[0], found)

    every()
    assert worst[0] > float(DELTA) / 20


def test_a_cap_or_a_scale_that_is_a_tenth_too_small_would_be_seen() -> None:
    """A record of full weight joins: every part moves by all that its bound allows."""
    before = built([(1, Record(0, 0, W))], None)
    after = built([(1, Record(0, 0, W)), (2, Record(1, 3, W))], None)

    def found(cap: Fraction, scale: Fraction) -> float:
        """Of noise for an epsilon that is larger, with the cap for it, and less of that."""
        wrong = []
        mode = capped("record", None, "records", EPSILON / scale)
        for noise, moves in moves_of(mode, before, after):
            assert noise.cap is not None
            lower = ShiftNoise(noise.guarantee, noise.shift, int(noise.cap * cap))
            wrong.append((Losses(lower), moves))
        return delta_of(wrong, float(EPSILON))

    tenth, all_of_it = Fraction(9, 10), Fraction(1)
    assert float(DELTA) * 0.8 < found(all_of_it, all_of_it) <= float(DELTA)
    assert found(tenth, all_of_it) > float(DELTA)
    assert found(all_of_it, tenth) > float(DELTA)
    free = capped("record", None, "records", EPSILON / tenth, Fraction(0))
    lost = [loss(noise, m) for noise, moves in moves_of(free, before, after) for m in moves if m]
    assert sum(lost) == pytest.approx(float(EPSILON / tenth))


def test_shares_are_exact_and_add_up() -> None:
    usual = Shares.default((("a",), ("a", "b"), ()), variance=True)
    assert (usual.cells, usual.variance) == (Fraction(19, 40), Fraction(1, 20))
    assert set(usual.controls.values()) == {Fraction(19, 120)}
    assert Shares.of(usual.as_json()) == usual
    assert Shares.default() == Shares(1) == Shares.of(Shares().as_json())
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
    with pytest.raises(Refusal, match="integer number of thousandths"):
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
