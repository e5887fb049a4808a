"""Leaning staircase: for each size of the largest workplace the least noise that hides a step."""

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
from eree.mechanisms.intervals import CutMoments
from eree.mechanisms.mechanism import EMPTY, LIMIT, MeanNoise, one_cell
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
#: Moments of so many rungs are computed one by one.
_FEW = 12


@dataclass(frozen=True)
class LeaningStaircase(SizedMechanism):
    """count + K; the law of K has a centre, and stairs that are as high as neighbours ask for.

    Let (x, k) be a size of the largest workplace and an output as seen from the count, and let one
    step lead to (x', k - d), x <= x' <= up(x), 0 <= d <= cap(x'), and back.  With q = e^-drop and
    heights h that do not rise with x, the density at (x, k) is the greatest q^j h(y) over all ways
    of j steps into the centre of a size y, -left(y) <= k <= right(y); in the centre of x itself it
    is what is left of the chance, p(x) <= h(x).

    Theorem.  If h(x) <= e^drop h(up(x)), p(x) >= q p(y) for all y that a step joins to x, and
    p(x) >= q^2 h(y) for the least y from which two steps lead to x, the output is
    (alpha, drop)-private with delta = 0: for one cell of workplace attributes under strong
    neighbours, for one touched by worker attributes with its largest total, and for any cell under
    weak ones.  Proof.  A way from a neighbour is one step shorter or longer, so that outside the
    centres densities of neighbours differ by a factor of at most e^drop; see docs/proofs.

    There is no normaliser whose change would cost anything, and a workplace that grows by one
    worker at a time is hidden like one worker.  `levels` is a digest of all h, so that laws made
    anew are known to be the same.
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
        stairs = _stairs(alpha, drop)
        if not _centres_high_enough(stairs):
            raise Refusal(
                f"{cls.name} does not exist at this alpha and epsilon, because the centre of a law"
                " would be too low; raise epsilon, lower alpha, or use radial"
            )
        digest = sha256(stairs.levels.of_bins.astype("<f8").tobytes()).digest()
        levels = int.from_bytes(digest[:8], "big")
        return cls(guarantee, stairs.grid.right, stairs.grid.left, drop, levels)

    @property
    def densities(self) -> StaircaseDensities:
        """The laws of all sizes."""
        return _stairs(self.alpha, self.drop)

    def law(self, largests: Integers) -> StaircaseNoise:
        """The laws of the noise of some cells."""
        return StaircaseNoise(self.densities, largests)

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The tail of the noise; it is the same for every count."""
        return self.law(one_cell(cell.largest)).tail(distance, side, 0)

    def pmf(self, cell: Cell, output: int) -> arb:
        """From the densities: far out a chance is less than what is known of the tails."""
        output = index(output)
        if output == cell.count or abs(output) >= LIMIT:  # what lies beyond the limit is set to it
            return super().pmf(cell, output)
        side = 1 if output > cell.count else -1
        return self.densities.probability(
            abs(output - cell.count), side, self.densities.grid.bin_of(cell.largest)
        )

    def draw_outputs(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts and their noise."""
        return counts + draw(self.law(largests), len(counts), random)

    def certify(self) -> Certificate:
        """Recheck the guarantee from the chances alone, once for the same laws and precision."""
        return _certificate(self, self.densities, ctx.prec)

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Sums over the pieces of the density."""
        mean, _, square = self._moments(self.densities.grid.bin_of(cell.largest))
        return mean, sqrt(max(square, 0.0))

    def mean_errors(self, _counts: Integers, largests: Integers) -> Array:
        """The mean sizes of the errors of many cells."""
        rungs, last = self.densities.grid.bins_of(largests), self.densities.levels.last
        errors: Array = _all_moments(self.densities)[np.minimum(rungs, last), 0]
        large, place = np.unique(rungs[rungs > last], return_inverse=True)
        if large.size:
            errors[rungs > last] = np.array([self._moments(int(r))[0] for r in large])[place]
        return errors

    def bias(self, cell: Cell) -> float:
        """The mean of the noise: it leans, so that it is near zero, but not zero."""
        return self._moments(self.densities.grid.bin_of(cell.largest))[1]

    @property
    def mean_noise(self) -> MeanNoise:
        """The bias of all sizes."""
        stairs, biases = self.densities, _all_moments(self.densities)[:, 1]
        last = stairs.levels.last
        top = float(stairs.grid.numbers(last + 1).top[last])
        share = float(biases[last]) / top
        return MeanNoise(float(biases.min()), float(biases.max()), int(top), share)

    def _moments(self, rung: int) -> tuple[float, float, float]:
        known = self.densities.__dict__.setdefault("_moments", {})
        if len(known) == _FEW:  # who asks for so many asks for more
            known |= dict(enumerate(map(tuple, _all_moments(self.densities).tolist())))
        if rung not in known:
            known[rung] = _moments_of(self.densities, rung)
        found: tuple[float, float, float] = known[rung]
        return found

    def quantile(self, level: float, cell: Cell = EMPTY) -> int:
        """Looked up in doubles; where they leave doubt, found from the exact chances."""
        if 0 < float(level) < 1 - 1e-9:
            stairs = self.densities
            found = _quantile(stairs, float(level), stairs.grid.bin_of(cell.largest))
            if found is not None:
                return found
        return super().quantile(level, cell)

    # ------------------------------------------------------------------------- for intervals

    def half_width(self, level: float, sizes: Integers) -> Integers:
        """The further of the two reaches."""
        return np.maximum(*self.half_widths(level, sizes))

    def half_widths(self, level: float, sizes: Integers) -> tuple[Integers, Integers]:
        """Where the tables have half of 1 - level outside, for all sizes up to those asked for."""
        rungs = self.densities.grid.bins_of(sizes)
        found = []
        for ends in _points(self.densities, (1 - level) / 2):
            away = self._of_all(ends, int(rungs.max(initial=0)))
            whole = np.maximum.accumulate(np.ceil(away * (1 + 1e-9) - 0.5 + 1e-9))
            found.append(np.maximum(whole, 0)[rungs].astype(np.int64))
        return found[0], found[1]

    def cut_moments(self, probability: float, sizes: Integers, orders: Array) -> CutMoments:
        """Means and moments of the noise of all sizes up to those, cut off at a chance.

        It is cut where the law of its own size leaves half of the chance outside on each side: no
        further out than its reaches.
        """
        rungs, stairs = self.densities.grid.bins_of(sizes), self.densities
        (means, norms), (mean, signed, lengths) = _cut_off(
            stairs, probability, tuple(orders.tolist())
        )
        more = np.arange(len(means), int(rungs.max(initial=0)) + 1) - stairs.levels.last
        scales: Array = np.power(float(stairs.grid.ratio), more)
        # rounding moves a mean by a half at most, whichever way the law leans
        up, down = (np.append(s * means, s * mean * scales + 0.5) for s in (1, -1))
        scaled = scaled_norms(signed, lengths, scales, orders)
        return cut_moments(up, down, np.append(norms, scaled, axis=1)).at(rungs)

    def _of_all(self, shapes: Array, highest: int) -> Array:
        """Numbers of all rungs up to one, from those that are not scaled."""
        more = np.arange(1, max(highest + 1 - len(shapes), 0) + 1)
        return np.append(shapes, shapes[-1] * float(self.densities.grid.ratio) ** more)


@lru_cache(maxsize=64)
def _stairs(alpha: Fraction, drop: Fraction) -> StaircaseDensities:
    """The laws for an alpha and a step; they take a while, and are asked for again and again."""
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


def _kept(stairs: StaircaseDensities, what: str, compute: Callable[[], Arrays]) -> Arrays:
    """Arrays of the laws of all rungs; those of laws that were not calibrated are not kept."""
    name = _name_of(stairs)
    return compute() if name is None else arrays_of(f"{name} {what}", compute)


def _known(stairs: StaircaseDensities, what: str) -> Arrays | None:
    """The same, if they were computed before."""
    name = _name_of(stairs)
    return None if name is None else arrays_kept(f"{name} {what}")


def _name_of(stairs: StaircaseDensities) -> str | None:
    alpha, drop = stairs.grid.alpha, stairs.drop
    return f"leaning-staircase {alpha} {drop}" if stairs is _stairs(alpha, drop) else None


@lru_cache(maxsize=64)
def _certificate(mechanism: LeaningStaircase, stairs: StaircaseDensities, bits: int) -> Certificate:
    """What is found takes seconds; laws are the same only if they are one and the same object."""
    del stairs, bits
    return certify_staircase(mechanism)


@lru_cache(maxsize=64)
def _centres_high_enough(stairs: StaircaseDensities) -> bool:
    """The conditions of the theorem, in doubles, with some room."""
    centres, grid = stairs.levels.centres, stairs.grid
    rungs = np.arange(len(centres))
    known = grid.numbers(len(rungs) + grid.per_step)
    fall = float(np.exp(-float(stairs.drop))) * (1 + 1e-6)
    levels = np.exp(stairs._log_levels(grid.numbers(len(rungs)).top))[: len(rungs)]
    down: Bins = np.searchsorted(grid.up(rungs), rungs)
    up = np.minimum(grid.up(rungs), len(rungs) - 1)
    around = np.array([centres[down[i] : up[i] + 1].max() for i in rungs])
    return bool(
        (centres > fall * around).all()
        and (centres > fall**2 * levels[down[down]]).all()
        and (levels > fall * levels[down]).all()
        and (known.cap[grid.up(rungs)] <= 2 * known.cap[rungs]).all()
        and (known.left[grid.up(rungs)] <= (known.left + known.cap)[rungs]).all()
    )


def _every_rung(stairs: StaircaseDensities) -> list[Table]:
    """The tables of all laws that are not scaled."""
    return stairs.tables(np.arange(stairs.levels.last + 1))


@lru_cache(maxsize=64)
def _all_moments(stairs: StaircaseDensities) -> Array:
    """The moments of all laws that are not scaled, a row for each rung."""

    def compute() -> Arrays:
        return {"moments": np.array([table.moments(1.0) for table in _every_rung(stairs)])}

    return _kept(stairs, "moments", compute)["moments"]


def _moments_of(stairs: StaircaseDensities, rung: int) -> tuple[float, float, float]:
    """The moments of one law; those of all are not computed for its sake."""
    shape, more = stairs.shape_of(rung)
    kept = _known(stairs, "moments") if not more else None
    if kept is not None:
        mean, bias, square = kept["moments"][rung].tolist()
        return mean, bias, square

    def compute() -> Arrays:
        (table,) = stairs.tables(np.array([shape]))
        return {"moments": np.array(table.moments(stairs.scale(rung)))}

    mean, bias, square = _kept(stairs, f"moments of rung {rung}", compute)["moments"].tolist()
    return mean, bias, square


@lru_cache(maxsize=1_024)
def _quantile(stairs: StaircaseDensities, level: float, rung: int) -> int | None:
    """The quantile of the size of the noise of one law; none where doubles leave doubt."""

    def compute() -> Arrays:
        (table,) = stairs.tables(np.array([stairs.shape_of(rung)[0]]))
        found = table.quantile(level, stairs.scale(rung))
        return {"quantile": np.array([] if found is None else [found], dtype=np.int64)}

    kept = _kept(stairs, f"quantile {level!r} of rung {rung}", compute)["quantile"]
    return int(kept[0]) if len(kept) else None


@lru_cache(maxsize=8)
def _tails(stairs: StaircaseDensities) -> Tails:
    """The tails of all laws that are not scaled."""
    return Tails.of(_every_rung(stairs))


@lru_cache(maxsize=1_024)  # bounds of sums ask at many levels
def _points(stairs: StaircaseDensities, chance: float) -> tuple[Array, Array]:
    """How far below and above zero a chance is left outside, for all laws that are not scaled."""

    def compute() -> Arrays:
        below, above = _tails(stairs).points(chance)
        _all_moments(stairs)  # the tables are there now
        return {"below": below, "above": above}

    kept = _kept(stairs, f"points {chance!r}", compute)
    return kept["below"], kept["above"]


@lru_cache(maxsize=64)
def _cut_off(
    stairs: StaircaseDensities, chance: float, orders: tuple[float, ...]
) -> tuple[tuple[Array, Array], tuple[float, Array, Array]]:
    """Means and norms of the laws of the first rungs, in integers, and of what is scaled."""

    def compute() -> Arrays:
        last, powers = stairs.levels.last, np.array(orders)
        below, above = np.maximum(_points(stairs, chance / 2), 0.0)
        tables = _every_rung(stairs)
        means, norms = [], []
        for rung in range(last + 8 * stairs.grid.per_step):
            shape, _ = stairs.shape_of(rung)
            cut = float(below[shape]), float(above[shape])
            mean, norm = integer_moments(tables[shape], stairs.scale(rung), cut, powers)
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

    kept = _kept(stairs, f"moments cut off at {chance!r}, of orders {orders}", compute)
    return (kept["means"], kept["norms"]), (float(kept["mean"]), kept["signed"], kept["sizes"])
