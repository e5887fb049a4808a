"""Leaning staircase: the least noise that protects a step, by size of the largest workplace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from math import ceil, log1p, sqrt
from operator import index
from typing import Self

import numpy as np
from flint import arb, ctx

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.cache import Arrays, arrays_kept, arrays_of
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.intervals import CutMoments, MeanNoise
from eree.mechanisms.mechanism import EMPTY, LIMIT, one_cell
from eree.mechanisms.parameters import TooLittle, above, alpha_of
from eree.mechanisms.scaled.scaled import SizedMechanism
from eree.mechanisms.staircase.certificate import certify_staircase
from eree.mechanisms.staircase.density import StaircaseDensities
from eree.mechanisms.staircase.levels import DensityLevels, best_widths, lowest_levels
from eree.mechanisms.staircase.pieces import (
    Table,
    Tails,
    cut_moments,
    integer_moments,
    point_moments,
    scaled_norms,
)
from eree.mechanisms.staircase.sampling import StaircaseNoise
from eree.mechanisms.staircase.size_grid import Bins, SizeGrid
from eree.policy.guarantee import Guarantee
from eree.random.exact import Array, Integers, draw
from eree.random.source import Random

#: What is left of epsilon for the certificate and for edges that doubles put in order.
_ROOM = Fraction(1, 1 << 20)
_LEAST_ALPHA, _MOST_ALPHA = Fraction(1, 1000), Fraction(1, 2)
_LEAST_EPSILON, _MOST_EPSILON = Fraction(3, 4), Fraction(200)
#: How many times ln(1 + alpha) epsilon must be.
_STEPS = 5
#: Moments of so many bins are computed one by one.
_FEW = 12


@dataclass(frozen=True)
class LeaningStaircase(SizedMechanism):
    """count + K; the density of K has a centre, and plateaus as high as neighbours ask for.

    Let (x, k) be a size of the largest workplace and an output as seen from the count, and let one
    step lead to (x', k - d), x <= x' <= up(x), 0 <= d <= cap(x'), and back.  With q = e^-drop and
    density levels h that do not rise with x, the density at (x, k) is the greatest q^j h(y) over
    all ways of j steps into the centre of a size y, -left(y) <= k <= right(y); in the centre of x
    itself it is what is left of the probability, p(x) <= h(x).

    Theorem.  If h(x) <= e^drop h(up(x)), p(x) >= q p(y) for all y that a step joins to x, and
    p(x) >= q^2 h(y) for the least y from which two steps lead to x, the output is
    (alpha, drop)-private with delta = 0: for one cell of workplace attributes under strong
    neighbours, for one touched by worker attributes with its largest total, and for any cell under
    weak ones.  Proof.  A way from a neighbour is one step shorter or longer, so that outside the
    centres densities of neighbours differ by a factor of at most e^drop; see docs/proofs.

    There is no normaliser whose change would cost anything, and a workplace that grows by one
    worker at a time is protected like one worker.  `levels` is a digest of all h, by which
    densities that are computed again are known to be the same.
    """

    right: int
    left: int
    drop: Fraction
    levels: int
    name = "leaning-staircase"
    symmetric = False
    sum_share = 1 / 4  # noise has few large values below the count

    @classmethod
    def calibrate(cls, guarantee: Guarantee) -> Self:
        """The least noise of this kind that keeps a guarantee."""
        alpha, epsilon = alpha_of(guarantee, cls.name), guarantee.epsilon
        step = log1p(float(alpha))
        if not (
            _LEAST_ALPHA <= alpha <= _MOST_ALPHA and _LEAST_EPSILON <= epsilon <= _MOST_EPSILON
        ):
            raise Refusal(
                f"{cls.name} takes an alpha from 0.001 to 0.5 and an epsilon from 0.75 to 200;"
                " use radial, or smooth-pareto"
            )
        if float(epsilon) < _STEPS * step:
            raise TooLittle(
                cls.name,
                epsilon=above(_STEPS * step),
                why=f"({_STEPS} ln(1 + alpha))",
                advice="raise it, lower alpha, or use radial",
                most=_MOST_EPSILON,
            )
        drop = epsilon * (1 - _ROOM)
        densities = _densities(alpha, drop)
        if not _centres_high_enough(densities):
            raise Refusal(
                f"{cls.name} does not exist at this alpha and epsilon, because the centre of a"
                " density would be too low; raise epsilon, lower alpha, or use radial"
            )
        digest = sha256(densities.levels.of_bins.astype("<f8").tobytes()).digest()
        levels = int.from_bytes(digest[:8], "big")
        return cls(guarantee, densities.grid.right, densities.grid.left, drop, levels)

    @property
    def densities(self) -> StaircaseDensities:
        """The densities of all sizes."""
        return _densities(self.alpha, self.drop)

    def distribution(self, largests: Integers) -> StaircaseNoise:
        """The distributions of the noise of some cells."""
        return StaircaseNoise(self.densities, largests)

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The tail of the noise; it is the same for every count."""
        return self.distribution(one_cell(cell.largest)).tail(distance, side, 0)

    def pmf(self, cell: Cell, output: int) -> arb:
        """From the densities: far out a probability is less than what is known of the tails."""
        output = index(output)
        if output == cell.count or abs(output) >= LIMIT:  # what lies beyond the limit is set to it
            return super().pmf(cell, output)
        side = 1 if output > cell.count else -1
        return self.densities.probability(
            abs(output - cell.count), side, self.densities.grid.bin_of(cell.largest)
        )

    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts and their noise."""
        return counts + draw(self.distribution(largests), len(counts), random)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the probabilities, once for these densities and precision."""
        return _certificate(self, self.densities, ctx.prec)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums over the pieces of the density."""
        mean, _, square = self._moments(self.densities.grid.bin_of(cell.largest))
        return mean, sqrt(max(square, 0.0))

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """The mean sizes of the errors of many cells."""
        bins, last = self.densities.grid.bins_of(largests), self.densities.levels.last
        errors: Array = _all_moments(self.densities)[np.minimum(bins, last), 0]
        large, place = np.unique(bins[bins > last], return_inverse=True)
        if large.size:
            errors[bins > last] = np.array([self._moments(int(r))[0] for r in large])[place]
        return errors

    def bias(self, cell: Cell) -> float:
        """The mean of the noise: being asymmetric it has one near zero, but not zero."""
        return self._moments(self.densities.grid.bin_of(cell.largest))[1]

    @property
    def mean_noise(self) -> MeanNoise:
        """The bias of all sizes."""
        densities, biases = self.densities, _all_moments(self.densities)[:, 1]
        last = densities.levels.last
        top = float(densities.grid.numbers(last + 1).top[last])
        share = float(biases[last]) / top
        return MeanNoise(float(biases.min()), float(biases.max()), int(top), share)

    def _moments(self, size_bin: int) -> tuple[float, float, float]:
        known = self.densities.__dict__.setdefault("_moments", {})
        if len(known) == _FEW:  # who asks for so many asks for more
            known |= dict(enumerate(map(tuple, _all_moments(self.densities).tolist())))
        if size_bin not in known:
            known[size_bin] = _moments_of(self.densities, size_bin)
        found: tuple[float, float, float] = known[size_bin]
        return found

    def quantile(self, level: float, cell: Cell = EMPTY) -> int:
        """Looked up in doubles; where they leave doubt, found from the exact probabilities."""
        if 0 < float(level) < 1 - 1e-9:
            densities = self.densities
            found = _quantile(densities, float(level), densities.grid.bin_of(cell.largest))
            if found is not None:
                return found
        return super().quantile(level, cell)

    # ------------------------------------------------------------------------- for intervals

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """The greater of the two half-widths."""
        return np.maximum(*self.half_widths(level, sizes))

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """Where the tables have half of 1 - level outside, for all sizes up to those asked for."""
        bins = self.densities.grid.bins_of(sizes)
        found = []
        for ends in _points(self.densities, (1 - level) / 2):
            away = self._of_all(ends, int(bins.max(initial=0)))
            whole = np.maximum.accumulate(np.ceil(away * (1 + 1e-9) - 0.5 + 1e-9))
            found.append(np.maximum(whole, 0)[bins].astype(np.int64))
        return found[0], found[1]

    def cut_moments(self, probability: float, sizes: Integers, orders: Array) -> CutMoments:
        """Means and moments of the noise of all sizes up to those, cut off at a probability.

        It is cut where the distribution of its own size leaves half of the probability outside on
        each side: no further out than its half-widths.
        """
        bins, densities = self.densities.grid.bins_of(sizes), self.densities
        (means, norms), (mean, signed, lengths) = _cut_off(
            densities, probability, tuple(orders.tolist())
        )
        more = np.arange(len(means), int(bins.max(initial=0)) + 1) - densities.levels.last
        scales: Array = np.power(float(densities.grid.ratio), more)
        # rounding moves a mean by a half at most, whatever its sign
        up, down = (np.append(s * means, s * mean * scales + 0.5) for s in (1, -1))
        scaled = scaled_norms(signed, lengths, scales, orders)
        return cut_moments(up, down, np.append(norms, scaled, axis=1)).at(bins)

    def _of_all(self, shapes: Array, highest: int) -> Array:
        """Numbers of all bins up to one, from those that are not scaled."""
        more = np.arange(1, max(highest + 1 - len(shapes), 0) + 1)
        return np.append(shapes, shapes[-1] * float(self.densities.grid.ratio) ** more)


@lru_cache(maxsize=64)
def _densities(alpha: Fraction, drop: Fraction) -> StaircaseDensities:
    """The densities for an alpha and a step; they take a while, and are needed again and again."""
    parts = min(max(12, ceil(8 / drop)), 64)

    def compute() -> Arrays:
        widths = best_widths(alpha, parts, drop)
        found = lowest_levels(SizeGrid(alpha, parts, *widths), drop)
        return {
            "widths": np.array(widths),
            "levels": found.of_bins,
            "centres": found.centres,
            "last": np.array(found.last),
        }

    kept = arrays_of(f"leaning-staircase {alpha} {drop} levels", compute)
    grid = SizeGrid(alpha, parts, *kept["widths"].tolist())
    return StaircaseDensities(
        grid, drop, DensityLevels(kept["levels"], kept["centres"], int(kept["last"]))
    )


def _kept(densities: StaircaseDensities, what: str, compute: Callable[[], Arrays]) -> Arrays:
    """Arrays of the densities of all bins; those of densities not calibrated here are not kept."""
    name = _name_of(densities)
    return compute() if name is None else arrays_of(f"{name} {what}", compute)


def _known(densities: StaircaseDensities, what: str) -> Arrays | None:
    """The same, if they were computed before."""
    name = _name_of(densities)
    return None if name is None else arrays_kept(f"{name} {what}")


def _name_of(densities: StaircaseDensities) -> str | None:
    alpha, drop = densities.grid.alpha, densities.drop
    return f"leaning-staircase {alpha} {drop}" if densities is _densities(alpha, drop) else None


@lru_cache(maxsize=64)
def _certificate(
    mechanism: LeaningStaircase, densities: StaircaseDensities, bits: int
) -> Certificate:
    """What is found takes seconds; densities are the same only if they are the same object."""
    del densities, bits
    return certify_staircase(mechanism)


@lru_cache(maxsize=64)
def _centres_high_enough(densities: StaircaseDensities) -> bool:
    """The conditions of the theorem, in doubles, with some room."""
    centres, grid = densities.levels.centres, densities.grid
    bins = np.arange(len(centres))
    known = grid.numbers(len(bins) + grid.per_step)
    fall = float(np.exp(-float(densities.drop))) * (1 + 1e-6)
    levels = np.exp(densities._log_levels(grid.numbers(len(bins)).top))[: len(bins)]
    down: Bins = np.searchsorted(grid.up(bins), bins)
    up = np.minimum(grid.up(bins), len(bins) - 1)
    around = np.array([centres[down[i] : up[i] + 1].max() for i in bins])
    return bool(
        (centres > fall * around).all()
        and (centres > fall**2 * levels[down[down]]).all()
        and (levels > fall * levels[down]).all()
        and (known.cap[grid.up(bins)] <= 2 * known.cap[bins]).all()
        and (known.left[grid.up(bins)] <= (known.left + known.cap)[bins]).all()
    )


def _all_tables(densities: StaircaseDensities) -> list[Table]:
    """The tables of all densities that are not scaled."""
    return densities.tables(np.arange(densities.levels.last + 1))


@lru_cache(maxsize=64)
def _all_moments(densities: StaircaseDensities) -> Array:
    """The moments of all densities that are not scaled, a row for each bin."""

    def compute() -> Arrays:
        return {"moments": np.array([table.moments(1.0) for table in _all_tables(densities)])}

    return _kept(densities, "moments", compute)["moments"]


def _moments_of(densities: StaircaseDensities, size_bin: int) -> tuple[float, float, float]:
    """The moments of one density; those of all are not computed for its sake."""
    shape, more = densities.shape_of(size_bin)
    kept = _known(densities, "moments") if not more else None
    if kept is not None:
        mean, bias, square = kept["moments"][size_bin].tolist()
        return mean, bias, square

    def compute() -> Arrays:
        (table,) = densities.tables(np.array([shape]))
        return {"moments": np.array(table.moments(densities.scale(size_bin)))}

    mean, bias, square = _kept(densities, f"moments of bin {size_bin}", compute)["moments"].tolist()
    return mean, bias, square


@lru_cache(maxsize=1_024)
def _quantile(densities: StaircaseDensities, level: float, size_bin: int) -> int | None:
    """The quantile of the size of the noise of one bin; none where doubles leave doubt."""

    def compute() -> Arrays:
        (table,) = densities.tables(np.array([densities.shape_of(size_bin)[0]]))
        found = table.quantile(level, densities.scale(size_bin))
        return {"quantile": np.array([] if found is None else [found], dtype=np.int64)}

    kept = _kept(densities, f"quantile {level!r} of bin {size_bin}", compute)["quantile"]
    return int(kept[0]) if len(kept) else None


@lru_cache(maxsize=8)
def _tails(densities: StaircaseDensities) -> Tails:
    """The tails of all densities that are not scaled."""

    def compute() -> Arrays:
        _all_moments(densities)  # the tables are there now
        found = Tails.of(_all_tables(densities))
        return {"below": found.below, "above": found.above}

    kept = _kept(densities, "tails", compute)
    return Tails(kept["below"], kept["above"], densities.levels.last + 1)


@lru_cache(maxsize=1_024)  # bounds of sums ask at many levels
def _points(densities: StaircaseDensities, probability: float) -> tuple[Array, Array]:
    """How far below and above zero a probability is left outside, for all unscaled densities."""
    return _tails(densities).points(probability)


@lru_cache(maxsize=64)
def _cut_off(
    densities: StaircaseDensities, probability: float, orders: tuple[float, ...]
) -> tuple[tuple[Array, Array], tuple[float, Array, Array]]:
    """Means and norms of the noise of the first bins, in integers, and of what is scaled."""

    def compute() -> Arrays:
        last, powers = densities.levels.last, np.array(orders)
        below, above = np.maximum(_points(densities, probability / 2), 0.0)
        tables = _all_tables(densities)
        means, norms = [], []
        for size_bin in range(last + 8 * densities.grid.per_step):
            shape, _ = densities.shape_of(size_bin)
            cut = float(below[shape]), float(above[shape])
            mean, norm = integer_moments(tables[shape], densities.scale(size_bin), cut, powers)
            means.append(mean)
            norms.append(norm)
        cut = float(below[last]), float(above[last])
        mean, signed, sizes = point_moments(tables[last], cut, powers)
        return {
            "means": np.array(means),
            "norms": np.array(norms).T,
            "mean": np.array(mean),
            "signed": signed,
            "sizes": sizes,
        }

    kept = _kept(densities, f"moments cut off at {probability!r}, of orders {orders}", compute)
    return (kept["means"], kept["norms"]), (float(kept["mean"]), kept["signed"], kept["sizes"])
