"""Two-stage clip: a noisy bound on the largest workplace, then noise as large as that bound.

Laplace noise around counts in thousandths of a job, rounded to whole jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, expm1, floor, log1p, sqrt
from typing import Self

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.mechanism import Array, alpha_of, exactly, one_cell
from eree.mechanisms.needs import LEAST_EPSILON, TooLittle, above
from eree.mechanisms.published.log_laplace import TightLogLaplace
from eree.mechanisms.scaled.scaled import least
from eree.mechanisms.vector.vector import (
    Group,
    GroupPair,
    VectorCertificate,
    VectorMechanism,
    group_size,
    loss_of,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, exact, plain
from eree.random.exact import (
    Integers,
    Words,
    coarse,
    draw,
    exact_ball,
    halves,
    rounded,
    sure_halves,
    sure_round,
)
from eree.random.source import Random
from eree.workload import GREATEST_BOUND, JOB, ScaleTo


@dataclass(frozen=True, eq=False)
class LaplaceOfThousandths:
    """count / 1000 + scale L, rounded to the nearest integer; L of the law e^-|z| / 2.

    Recipe: a sign and E = -ln(U).  The fast path knows U >= 2^-20 to within 2^-42 of itself, hence
    scale E to within scale 2^-41 + scale E 2^-47 with room to spare; whole jobs are added after
    rounding, and what is left of the count is below 1.
    """

    counts: Integers
    scales: tuple[Fraction, ...]
    which: NDArray[np.intp]  # the place of each cell's scale among them
    uniforms = 1

    @cached_property
    def _near(self) -> NDArray[np.float64]:
        return np.array([float(scale) for scale in self.scales])

    def fast(self, words: Words, cells: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Values and verdicts; nothing is ever rejected."""
        uniform, sign = halves(words[0])
        whole, rest = np.divmod(self.counts[cells], JOB)
        scale = self._near[self.which[cells]]
        noise = scale * -np.log(uniform)
        error = scale * 2.0**-41 + (1 + noise) * 2.0**-47
        values, verdicts = rounded(rest / JOB + sign * noise, error, coarse(uniform))
        return whole + values, verdicts

    def slow(self, uniforms: Sequence[arb], cell: int) -> int:
        """The same in interval arithmetic."""
        uniform, sign = sure_halves(uniforms[0])
        count = exact_ball(Fraction(int(self.counts[cell]), JOB))
        return sure_round(count - sign * exact_ball(self._scale(cell)) * uniform.log())

    def beyond(self, output: int, side: int, cell: int) -> arb:
        """The chance of at least (side 1) or at most (side -1) an output."""
        depth = side * (output - Fraction(int(self.counts[cell]), JOB)) - Fraction(1, 2)
        half = (-exact_ball(abs(depth) / self._scale(cell))).exp() / 2
        return half if depth > 0 else 1 - half

    def pmf(self, output: int, cell: int) -> arb:
        """The chance of an output."""
        side = 1 if JOB * output >= int(self.counts[cell]) else -1
        return self.beyond(output, side, cell) - self.beyond(output + side, side, cell)

    def _scale(self, cell: int) -> Fraction:
        return self.scales[int(self.which[cell])]


#: No marginal crosses more combinations of worker values.
_MOST_CELLS = 100_000
#: Errors of both stages are means over so many bounds, up to so many scales of stage one away.
_BOUNDS, _FARTHEST = 20_000, 50.0


@dataclass(frozen=True)
class TwoStageClip(VectorMechanism):
    """Every workplace scaled to at most T workers, and Laplace noise of a scale that T gives.

    Stage one draws T, a noisy largest total of a workplace, by `log-laplace-tight` without a factor
    at the price epsilon_1 = share * epsilon: one T for the whole table (`bound`), or one for every
    group (`bounds`).  Stage two adds to every cell, counted in thousandths of a job after scaling,
    scale * L, L of the density e^-|z| / 2, and rounds; at the price epsilon_2 = epsilon - epsilon_1
    with scale = (2 max(alpha T / (1 + alpha), T / (T + 1)) + d / 1000) / epsilon_2, d cells.

    Theorem.  T and all outputs of all groups together are (alpha, epsilon)-private with delta = 0
    under strong neighbours, and so under weak ones, whatever d.

    Proof.  Stage one: a workplace of y workers, y at most the largest x, grows to at most
    y + max(floor(alpha y), 1) <= x + max(floor(alpha x), 1), so x makes a step of a count.
    Stage two, for any T >= 1: D <= max(floor(alpha x), 1) workers join a workplace of x workers
    with the histogram h.  If x + D <= T it moves by D in the L1 norm, which is 1 or at most
    alpha T / (1 + alpha).  Else it moves by at most 2 T D / (x + D): if x >= T, by T D / (x + D)
    times the distance of two vectors of shares, h / x and those of the joining; if x < T, by at
    most x (1 - s) + D s with s = T / (x + D), which is 2 D s - (T - x).  There D / (x + D) is at
    most alpha / (1 + alpha), or D = 1 and x >= T, and it is at most 1 / (T + 1).  Rounding down to
    thousandths adds less than one thousandth in each cell, and workers whom no cell shows take
    away.  Laplace noise of the scale distance / epsilon_2 costs epsilon_2.
    """

    share: Fraction
    first: Fraction  # the spread of stage one
    second: Fraction  # 1 / epsilon_2
    name = "two-stage-clip"

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, cells: int = 1, share: Exact = "1/5") -> Self:
        """The least noise for a public share of epsilon that stage one takes."""
        part, step = exact(share, "share"), log1p(float(alpha_of(guarantee, cls.name)))
        if not 0 < part < 1:
            raise Refusal("share must be above 0 and below 1, such as '1/5'")
        try:
            bounding = TightLogLaplace.calibrate(
                Guarantee(guarantee.neighbours, part * guarantee.epsilon), aim="plain"
            )
        except Refusal:
            raise TooLittle(
                cls.name,
                epsilon=max(above(step), LEAST_EPSILON) / part,
                why=f"for a bound of finite mean at a share of {plain(part)} for it",
                advice="raise it or the share, or lower alpha",
            ) from None
        rest = (1 - part) * guarantee.epsilon
        d = group_size(cls.name, cells, _MOST_CELLS)
        return cls(guarantee, d, part, bounding.spread, 1 / rest)

    @cached_property
    def bounding(self) -> TightLogLaplace:
        """The mechanism of stage one."""
        paid = Guarantee(self.guarantee.neighbours, self.share * self.guarantee.epsilon)
        return TightLogLaplace(paid, self.first, 1 / self.alpha)

    def scale(self, total: int) -> Fraction:
        """The scale of stage two where workplaces are scaled to `total`."""
        moved = 2 * max(self.alpha * total / (1 + self.alpha), Fraction(total, total + 1))
        return (moved + Fraction(self.cells, JOB)) * self.second

    def statistics(self, *, worker_attributes: bool = True) -> tuple[str, ...]:
        """First `largest_total`; then, of cells bounded by what `bound` gives, `count`."""
        del worker_attributes
        return "count", "largest_total"

    def bounds(self, largests: Integers, *, random: Random) -> Integers:
        """One noisy bound for each group, from the largest total of its workplaces."""
        return np.clip(self.bounding.draw(largests, random=random), 1, GREATEST_BOUND)

    def bound(self, largest: int, *, random: Random) -> ScaleTo:
        """One noisy bound for the whole table, from the largest total of all its workplaces."""
        return ScaleTo(int(self.bounds(one_cell(largest), random=random)[0]))

    def draw(
        self, counts: Integers, largests: Integers | ScaleTo | None = None, *, random: Random
    ) -> Integers:
        """Noisy counts of groups from `counts` in thousandths of a job, scaled to the bound.

        `largests` is the bound of the table, or one for each group.
        """
        if largests is None:
            raise Refusal(f"{self.name} needs the bound to which workplaces were scaled")
        if isinstance(largests, ScaleTo):
            largests = np.full(len(counts), largests.total, dtype=np.int64)
        if np.min(largests, initial=1) < 1:
            raise Refusal("workplaces can be scaled to 1 worker or more")
        return super().draw(counts, largests, random=random)

    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts in thousandths and their noise, in whole jobs."""
        return draw(self.law(counts, largests), counts.size, random).reshape(counts.shape)

    def law(self, counts: Integers, totals: Integers) -> LaplaceOfThousandths:
        """The laws of the cells of some groups, one after another, by the bound of each group."""
        distinct, which = np.unique(totals, return_inverse=True)
        scales = tuple(map(self.scale, distinct.tolist()))
        return LaplaceOfThousandths(
            counts.reshape(-1), scales, np.repeat(which, counts.shape[1]).astype(np.intp)
        )

    def beyond(self, distance: int, side: int, *, count: int, largest: int) -> arb:
        """The chance of an output of one cell so far from a scaled count of whole jobs.

        `largest` is the bound.
        """
        law = self.law(one_cell(JOB * count)[None, :], one_cell(max(largest, 1)))
        return law.beyond(count + side * distance, side, 0)

    def group_pmf(self, outputs: Sequence[int], counts: Sequence[int], largest: int) -> arb:
        """The chance of all outputs of a group of counts in thousandths; `largest` is the bound."""
        law = self.law(np.array([counts], dtype=np.int64), one_cell(max(largest, 1)))
        chance = arb(1)
        for cell, output in enumerate(outputs):
            chance *= law.pmf(output, cell)
        return chance

    def mean_error(self, *, count: int, largest: int) -> tuple[float, float]:
        """Against the scaled count, `largest` the bound: geometric sums of the tail."""
        del count
        rate = float(1 / self.scale(max(largest, 1)))
        rest, half = -expm1(-rate), exp(-rate / 2)  # 1 - q and the root of q = e^-rate
        return half / rest, sqrt(half * (2 - rest)) / rest

    def near_scale(self, totals: Integers) -> Array:
        """`scale` of many totals, in doubles."""
        alpha = float(self.alpha)
        moved = 2 * np.maximum(alpha / (1 + alpha) * totals, totals / (totals + 1.0))
        scale: Array = (moved + self.cells / JOB) * float(self.second)
        return scale

    def whole_error(self, *, count: int, largest: int) -> float:
        """The mean size of the error of a count in a workplace of `largest` workers, both stages.

        Scaling takes b away, the noise has the scale s, and all is rounded: the error is at least k
        where s L - b is at least k - 1/2, or at most 1/2 - k.  Both are geometric sums over k; in
        the second the first m terms, with k - 1/2 <= b, lie above the middle of the noise.
        """
        b, s, chance = self._likely(count, largest)
        rest, m = -np.expm1(-1 / s), np.floor(b + 0.5)
        above = np.exp(-(b + 0.5) / s) / rest / 2
        near = m - np.exp(-(b - m + 0.5) / s) * -np.expm1(-m / s) / rest / 2
        below = np.exp(-(m + 0.5 - b) / s) / rest / 2
        return float(chance @ (above + near + below))

    def whole_quantile(self, level: float, *, count: int, largest: int) -> int:
        """What the size of that error stays within with a chance of `level`."""
        taken, scale, chance = self._likely(count, largest)

        def enough(z: Array) -> NDArray[np.bool_]:
            # noise is below z + b, and above b - z
            above = np.exp(-(taken + z + 0.5) / scale) / 2
            depth = (z + 0.5 - taken) / scale
            below = np.where(depth > 0, np.exp(-np.abs(depth)) / 2, 1 - np.exp(-np.abs(depth)) / 2)
            return np.asarray([chance @ (above + below) <= 1 - level])

        return ceil(least(enough) - 1e-9)

    def _likely(self, count: int, largest: int) -> tuple[Array, Array, Array]:
        """For many bounds: what scaling takes, the scale of the noise, and the bound's chance."""
        edges: Array = np.linspace(-_FARTHEST, _FARTHEST, _BOUNDS + 1)
        noise = (edges[1:] + edges[:-1]) / 2
        within = np.where(edges > 0, -np.expm1(-np.abs(edges)), np.expm1(-np.abs(edges))) / 2
        transform = self.bounding.transform
        height = float(transform.near_forward(one_cell(largest))[0])
        totals = np.clip(
            transform.near_inverse(height + float(self.first) * noise)[0], 1, GREATEST_BOUND
        )
        taken = count * (1 - np.minimum(totals / max(largest, 1), 1))
        return taken, self.near_scale(np.rint(totals).astype(np.int64)), np.diff(within)

    def certify(self) -> Certificate:
        """What stage one loses, and the greatest quotient of a distance and its scale.

        Up to T = 1 / alpha both are straight lines in T / (T + 1), from there on in T: so their
        quotient is greatest at an end.  All T up to a thousand are looked at besides.
        """
        turn = 1 / self.alpha
        ends = (max(floor(turn), 1), min(ceil(turn), GREATEST_BOUND), GREATEST_BOUND)
        totals = {*range(1, 1_001), *ends}
        second = max(greatest_move(self.alpha, self.cells, t) / self.scale(t) for t in totals)
        found = self.bounding.certify().bound + second
        with exactly():
            pair = self._pair(min(ceil(1_000 * turn) + 1, GREATEST_BOUND))
        return VectorCertificate.pure(self, found, pair)

    def _pair(self, size: int) -> GroupPair:
        """A workplace of one cell that grows by another one, where T is its size; T comes first."""
        joined, rest = int(self.alpha * size), (0,) * (self.cells - 1)
        before = Group.of((size, *rest), size)
        after = Group.of((size, joined, *rest[1:])[: self.cells], size + joined)
        chances = []
        for group in (before, after):
            scaled = [JOB * count * size // group.largest for count in group.counts]
            cells = self.joint_pmf(outputs=before.counts, counts=scaled, largest=size)
            chances.append(cells * self.bounding.pmf(output=size, count=group.largest))
        outputs = (size, *before.counts)
        return GroupPair.between(before, after, outputs, loss_of(chances[0], chances[1]))


def greatest_move(alpha: Fraction, cells: int, total: int) -> Fraction:
    """A bound of how far a scaled histogram moves in one step, in jobs: see the proof above.

    It is for at least two cells; it knows no scale.
    """
    step = max(alpha / (1 + alpha), Fraction(1, total + 1))
    return 2 * total * step + Fraction(cells, JOB)
