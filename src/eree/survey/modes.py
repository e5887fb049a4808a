"""How a cube is protected: the two modes, what each draws, promises and gives away.

`guaranteed` is for publishing: noise scaled to public bounds makes the weighted cube private.
`as-published` is the query tool as its paper prints it, to be studied and compared: noise is drawn
for the unweighted counts and carried to weighted employment, times the average weight of all
records.

What a mode draws is public, because nothing confidential is left in it, and what is made of it (a
calibration, a model of variances, a table) costs nothing.  Employment is held as integer
thousandths of a job, so that sums are exact to the last digit; variances are in squared
thousandths.  Files say both in jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, exact, plain
from eree.policy.plain_data import guarantee_of
from eree.random.source import Random
from eree.survey.bounds import Bounds, Shares
from eree.survey.calibrate.calibration import LIMIT
from eree.survey.calibrate.controls import Control
from eree.survey.cube import Cube
from eree.survey.estimates import SamplingModel
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy_total import NoisyTotal
from eree.survey.query import Query
from eree.survey.settings import Squares, Unit
from eree.survey.shape import By, Integers, Mask, Shape
from eree.survey.tables import Tabulator
from eree.workload import JOB

#: A scale of noise beyond this, in thousandths of a job, is a mistake.
_MOST_SCALE = 10**10


@dataclass(frozen=True)
class NoisyCube:
    """The cells of a cube with noise, and everything else that was paid for.

    `kept` says which cells are published, where not all that can be are; all others hold 0.
    `noise_variance` is the variance of the noise of every kept cell.
    """

    shape: Shape
    cells: Integers = field(repr=False)
    noise_variance: float
    controls: tuple[Control, ...] = ()
    totals: tuple[NoisyTotal, ...] = ()
    kept: Mask | None = field(default=None, repr=False)

    @property
    def present(self) -> Mask | None:
        """Which cells have a row in the release; None where all have."""
        return self.shape.possible if self.kept is None else self.kept


def with_noise(truth: Integers, possible: Mask | None, draw: Callable[[int], Integers]) -> Integers:
    """Add noise where a cell can be; what lies beyond the limit is set to it."""
    noisy = np.zeros(truth.shape, dtype=np.int64)
    if possible is None:
        np.add(truth, draw(truth.size).reshape(truth.shape), out=noisy)
    else:
        noisy[possible] = truth[possible] + draw(int(possible.sum()))
    return np.clip(noisy, -LIMIT, LIMIT, out=noisy)


@dataclass(frozen=True)
class Guaranteed:
    """How a cube is protected: what a unit of protection is, its bounds, and how the price is used.

    Theorem.  Under the neighbours of the unit the release is (epsilon, delta)-private: one step
    moves all cells of the cube, and those of any table of it, together by at most
    `bounds.shift(unit)`, and the sum of squares by at most `bounds.squared_shift`; each part is
    private at its share of `price` (see `ShiftNoise`), and the prices of the parts add up to it.
    """

    bounds: Bounds
    unit: Unit
    price: Guarantee
    shares: Shares
    squares: Squares | None = None
    name: ClassVar[str] = "guaranteed"
    covers: ClassVar[str] = "weighted employment in every cell and in every table of the cube"
    losses: ClassVar[list[str]] = []

    def __post_init__(self) -> None:
        if self.price.neighbours != self.bounds.relation(self.unit):
            raise Refusal("the price of a cube is one under the neighbours of its unit")
        if (self.squares is None) != (self.shares.variance == 0):
            raise Refusal("the sum of squares needs a share of the price, and nothing else does")
        _ = self.variance  # refused now, if at all
        for part in (self.cells, *self.tables.values()):
            if part.shift > part.guarantee.epsilon * _MOST_SCALE:
                raise Refusal(
                    "the noise would be ten million jobs and more; lower the bounds of the cube or"
                    " raise epsilon"
                )

    @property
    def controls(self) -> tuple[By, ...]:
        """The control tables."""
        return tuple(self.shares.controls)

    @cached_property
    def cells(self) -> ShiftNoise:
        """The noise of the cells."""
        return self._part(self.shares.cells, self.bounds.shift(self.unit))

    @cached_property
    def tables(self) -> Mapping[By, ShiftNoise]:
        """The noise of the control tables."""
        shift = self.bounds.shift(self.unit)
        shares = self.shares.controls.items()
        return MappingProxyType({by: self._part(share, shift) for by, share in shares})

    @cached_property
    def variance(self) -> ShiftNoise | None:
        """The noise of the sum of squares."""
        if self.squares is None:
            return None
        return self._part(self.shares.variance, self.bounds.squared_shift(self.unit, self.squares))

    def _part(self, share: Fraction, shift: int) -> ShiftNoise:
        whole = self.price
        price = Guarantee(whole.neighbours, whole.epsilon * share, whole.delta * share)
        return ShiftNoise.calibrate(price, shift)

    def draw(self, cube: Cube, random: Random) -> NoisyCube:
        """The cube and everything else that the price pays for, with noise."""
        shape = cube.shape
        cells = with_noise(cube.weighted, shape.possible, partial(self.cells.draw, random=random))
        controls, tables = [], Tabulator(shape, cube.weighted)
        for by, noise in self.tables.items():
            truth, possible = tables.table(Query(by)).values, shape.possible_in(by)
            noisy = with_noise(truth, possible, partial(noise.draw, random=random))
            controls.append(Control(by, noisy, noise.variance))
        totals: tuple[NoisyTotal, ...] = ()
        if self.variance is not None and self.squares is not None:
            sums = cube.sums
            squares = sums.squares if self.squares == "records" else sums.establishment_squares
            noisy_sum = squares + self.variance.draw_one(random)
            totals = (NoisyTotal(self.squares, noisy_sum, self.variance.variance),)
        return NoisyCube(shape, cells, self.cells.variance, tuple(controls), totals)

    def sampling(self, cells: Integers, totals: Sequence[NoisyTotal]) -> SamplingModel | None:
        """The model of sampling variances from published cells and the sum of squares, if paid for.

        An establishment weighs at most as much as all the records that it may have.
        """
        if self.squares is None:
            return None
        (squares,) = totals
        records = self.bounds.records if self.squares == "establishments" else 1
        most = (self.bounds.weight or 0) * (records or 1)
        total = int(cells.sum(dtype=np.int64))
        return SamplingModel.of_whole(total, float(squares.noisy), squares.noise_variance, most)

    def as_json(self) -> dict[str, Any]:
        """The settings as plain data, from which `of` makes them again."""
        return {
            "mode": self.name,
            "unit": self.unit,
            "bounds": self.bounds.as_json(),
            "shares": self.shares.as_json(),
            "squares": self.squares,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Guaranteed:
        """The mode that a record speaks of."""
        return cls(
            Bounds.of(record["bounds"]),
            record["unit"],
            guarantee_of(record["guarantee"]),
            Shares.of(record["shares"]),
            record["squares"],
        )

    @property
    def assumptions(self) -> list[str]:
        """What the guarantee takes for granted, for people to read."""
        weight = plain(Fraction(self.bounds.weight or 0, JOB))
        found = [
            "The weight of a record is an attribute of that record: if it were not in the survey,"
            " all other weights would be the same. Changes of other weights are not protected.",
            f"Weights above {weight} jobs count as {weight}. The bound was set without looking at"
            " the data, and so were the variables, their codes and the structural zeros.",
            "That the records are a sample is not counted in favour of the guarantee: it holds for"
            " a record of which everyone knows that it was drawn.",
        ]
        if self.bounds.records is not None:
            found.append(
                f"Of an establishment with more than {self.bounds.records:,} records so many are"
                " counted, by a rule that looks at no other. That bound, too, was set without"
                " looking at the data."
            )
        if self.squares == "records":
            found.append(
                "Sampling errors are modelled as if all records had been drawn one by one. Records"
                " of one establishment were not, and what they have in common makes true sampling"
                " errors larger than those that are stated."
            )
        if self.unit == "record":
            found.append(
                "What is protected is one record. What several records of one establishment have"
                " in common is protected at the price of all of them together."
            )
        return found


@dataclass(frozen=True)
class AsPublished:
    """Capped noise on the counts of records, times their average weight.

    Theorem.  The unweighted counts with that noise would be (epsilon, delta)-private under record
    neighbours, with delta = P(K = cap).  The weighted values that are published have no guarantee:
    for a record whose weight is no multiple of the average weight no value can come both with and
    without it.

    `exact_controls` publishes control tables without noise, as in the paper's evaluation; else each
    is perturbed as the cells are, and paid for as they are.  `keep_empty` is the share of empty
    cells that are kept, drawn at random; the others are left out.
    """

    bounds: Bounds
    epsilon: Fraction
    cap: int
    controls: tuple[By, ...] = ()
    exact_controls: bool = True
    keep_empty: Fraction = Fraction(1)
    name: ClassVar[str] = "as-published"
    covers: ClassVar[str] = "unweighted counts of records alone, which are not published"
    variance: ClassVar[None] = None

    def __init__(
        self,
        bounds: Bounds,
        epsilon: Exact,
        cap: int,
        controls: tuple[By, ...] = (),
        *,
        exact_controls: bool = True,
        keep_empty: Exact = 1,
    ) -> None:
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon"))
        object.__setattr__(self, "cap", cap)
        object.__setattr__(self, "controls", tuple(map(tuple, controls)))
        object.__setattr__(self, "exact_controls", bool(exact_controls))
        object.__setattr__(self, "keep_empty", exact(keep_empty, "keep_empty"))
        if not 0 <= self.keep_empty <= 1:
            raise Refusal("keep_empty is a share from 0 to 1")
        if bounds.records is not None:  # a record may then take the place of another: two counts
            raise Refusal(
                "as published, every record counts; build the cube without a bound of the records"
                " of an establishment"
            )

    @cached_property
    def cells(self) -> ShiftNoise:
        """The noise of the counts of the cells."""
        return ShiftNoise.published(self.epsilon, self.cap)

    @property
    def tables(self) -> Mapping[By, ShiftNoise]:
        """The noise of the control tables that have any."""
        return {} if self.exact_controls else dict.fromkeys(self.controls, self.cells)

    @property
    def price(self) -> Guarantee:
        """The price of the unweighted counts: of cells, and of tables that have noise."""
        total = each = self.cells.guarantee
        for _ in self.tables:
            total += each
        return total

    def draw(self, cube: Cube, random: Random) -> NoisyCube:
        """The cube with noise, and its control tables."""
        shape, sums = cube.shape, cube.sums
        average = Fraction(sums.weight, sums.records) if sums.records else Fraction(0)
        steps = np.array([round(k * average) for k in range(-self.cap, self.cap + 1)], np.int64)

        def carried(numbers: int) -> Integers:
            return np.asarray(steps[self.cells.draw(numbers, random) + self.cap])

        kept = self._kept(cube, random)
        cells = with_noise(cube.weighted, shape.possible if kept is None else kept, carried)
        variance = self.cells.variance * float(average) ** 2
        controls, tables = [], Tabulator(shape, cube.weighted)
        for by in self.controls:
            truth = tables.table(Query(by)).values
            if not self.exact_controls:
                truth = with_noise(truth, shape.possible_in(by), carried)
            controls.append(Control(by, truth, 0.0 if self.exact_controls else variance))
        return NoisyCube(shape, cells, variance, tuple(controls), (), kept)

    def sampling(self, _cells: Integers, _totals: Sequence[NoisyTotal]) -> None:
        """There is no model of sampling variances: no sum of squares is published."""

    def _kept(self, cube: Cube, random: Random) -> Mask | None:
        """Which cells are published: all that are not empty, and a share of those that are."""
        if self.keep_empty == 1:
            return None
        bar = np.uint64(int(self.keep_empty * 2**64))
        kept = (cube.unweighted > 0) | (random.words(cube.unweighted.size) < bar).reshape(
            cube.shape.levels
        )
        return kept if cube.shape.possible is None else kept & cube.shape.possible

    def as_json(self) -> dict[str, Any]:
        """The settings as plain data, from which `of` makes them again."""
        return {
            "mode": self.name,
            "unit": "record",
            "bounds": self.bounds.as_json(),
            "epsilon": str(self.epsilon),
            "cap": self.cap,
            "controls": [list(by) for by in self.controls],
            "exact_controls": self.exact_controls,
            "keep_empty": str(self.keep_empty),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> AsPublished:
        """The mode that a record speaks of."""
        return cls(
            Bounds.of(record["bounds"]),
            record["epsilon"],
            record["cap"],
            tuple(tuple(by) for by in record["controls"]),
            exact_controls=record["exact_controls"],
            keep_empty=record["keep_empty"],
        )

    @property
    def assumptions(self) -> list[str]:
        """What the price takes for granted, for people to read."""
        return [
            "The weight of a record is an attribute of that record: if it were not in the survey,"
            " all other weights would be the same."
        ]

    @property
    def losses(self) -> list[str]:
        """What is given away beyond the price, for people to read."""
        price = self.price
        found = [
            f"The price, epsilon {plain(price.epsilon)} and delta {plain(price.delta)} for one"
            " record, is that of the unweighted counts. Weighted employment has no guarantee: the"
            " noise comes in multiples of the average weight, so a record whose weight is no"
            " multiple of it is given away for certain by its cell, to whoever knows the rest.",
            "The average weight of all records is published without noise: the variance of the"
            " noise shows it.",
        ]
        if self.controls and self.exact_controls:
            found.append(
                "Control tables are published without noise: they have no guarantee, and neither"
                " has any sum of cells that is calibrated to them."
            )
        if self.keep_empty < 1:
            found.append(
                "A cell that is left out is known to be empty: no record of the survey is in it."
            )
        return found


Mode = Guaranteed | AsPublished
MODES: Mapping[str, type[Mode]] = {mode.name: mode for mode in (Guaranteed, AsPublished)}


def mode_of(record: Mapping[str, Any]) -> Mode:
    """The mode that a record speaks of, made again from its settings."""
    mode = MODES.get(record["mode"])
    if mode is None:
        raise Refusal(f"the release was made in a mode that is none of {', '.join(MODES)}")
    return mode.of(record)


def noises(mode: Mode) -> list[ShiftNoise]:
    """The noise of all parts that have any: cells, control tables and the sum of squares."""
    return [mode.cells, *mode.tables.values(), *([mode.variance] if mode.variance else [])]
