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

from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.intervals import GREATEST, UNBOUNDED
from eree.mechanisms.mechanism import one_cell
from eree.mechanisms.parameters import LEAST_EPSILON, TooLittle, above, alpha_of
from eree.mechanisms.published.log_laplace import TightLogLaplace
from eree.mechanisms.scaled.scaled import least
from eree.mechanisms.vector.vector import (
    GroupPair,
    VectorCertificate,
    VectorMechanism,
    group_size,
    loss_of,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, exact, plain
from eree.random.exact import (
    Array,
    Integers,
    Words,
    coarse,
    draw,
    exact_ball,
    exactly,
    halves,
    rounded,
    sure_halves,
    sure_round,
)
from eree.random.source import Random
from eree.workload import GREATEST_BOUND, JOB


@dataclass(frozen=True, eq=False)
class LaplaceOfThousandths:
    """count / 1000 + scale L, rounded to the nearest integer; L of the density e^-|z| / 2.

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

    def tail(self, output: int, side: int, cell: int) -> arb:
        """The probability of at least (side 1) or at most (side -1) an output."""
        depth = side * (output - Fraction(int(self.counts[cell]), JOB)) - Fraction(1, 2)
        half = (-exact_ball(abs(depth) / self._scale(cell))).exp() / 2
        return half if depth > 0 else 1 - half

    def pmf(self, output: int, cell: int) -> arb:
        """The probability of an output."""
        side = 1 if JOB * output >= int(self.counts[cell]) else -1
        return self.tail(output, side, cell) - self.tail(output + side, side, cell)

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
    at the price epsilon_1 = share * epsilon, for every group.  Stage two adds to every cell,
    counted in thousandths of a job after scaling, scale * L, L of the density e^-|z| / 2, and
    rounds; at the price epsilon_2 = epsilon - epsilon_1 with
    scale = (2 max(alpha T / (1 + alpha), T / (T + 1)) + d / 1000) / epsilon_2, d cells.

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
    unit = JOB

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

    @property
    def settings(self) -> dict[str, str]:
        """The share."""
        return {"share": str(self.share)}

    @cached_property
    def first_stage(self) -> TightLogLaplace:
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

    def draw(
        self, counts: Integers, largests: Integers | None = None, *, random: Random
    ) -> Integers:
        """Noisy counts of groups from `counts` in thousandths of a job, scaled to the bound.

        `largests` is the bound of each group.
        """
        if largests is None:
            raise Refusal(f"{self.name} needs the bound to which workplaces were scaled")
        if np.min(largests, initial=1) < 1:
            raise Refusal("workplaces can be scaled to 1 worker or more")
        return super().draw(counts, largests, random=random)

    def draw_groups(self, counts: Integers, largests: Integers, random: Random) -> Integers:
        """Counts in thousandths and their noise, in whole jobs."""
        return draw(self.distribution(counts, largests), counts.size, random).reshape(counts.shape)

    def distribution(self, counts: Integers, totals: Integers) -> LaplaceOfThousandths:
        """The distributions of the cells of some groups, in turn, by the bound of each group."""
        distinct, which = np.unique(totals, return_inverse=True)
        scales = tuple(map(self.scale, distinct.tolist()))
        return LaplaceOfThousandths(
            counts.reshape(-1), scales, np.repeat(which, counts.shape[1]).astype(np.intp)
        )

    def tail(self, cell: Cell, distance: int, side: int) -> arb:
        """The probability of an output of one cell so far from a scaled count of whole jobs.

        `largest` is the bound.
        """
        bound = one_cell(max(cell.largest, 1))
        outputs = self.distribution(one_cell(JOB * cell.count)[None, :], bound)
        return outputs.tail(cell.count + side * distance, side, 0)

    def group_pmf(self, group: Group, outputs: Sequence[int]) -> arb:
        """The probability of all outputs of a group in thousandths; `largest` is the bound."""
        bound = one_cell(max(group.largest, 1))
        cells = self.distribution(np.array([group.counts], dtype=np.int64), bound)
        probability = arb(1)
        for cell, output in enumerate(outputs):
            probability *= cells.pmf(output, cell)
        return probability

    def mean_error(self, cell: Cell) -> tuple[float, float]:
        """Against the scaled count, `largest` the bound: geometric sums of the tail."""
        rate = float(1 / self.scale(max(cell.largest, 1)))
        rest, half = -expm1(-rate), exp(-rate / 2)  # 1 - q and the root of q = e^-rate
        return half / rest, sqrt(half * (2 - rest)) / rest

    def near_scale(self, totals: Integers) -> Array:
        """`scale` of many totals, in doubles."""
        alpha = float(self.alpha)
        moved = 2 * np.maximum(alpha / (1 + alpha) * totals, totals / (totals + 1.0))
        scale: Array = (moved + self.cells / JOB) * float(self.second)
        return scale

    def variance(self, size: float) -> float:
        """That of the Laplace distribution where workplaces are scaled to a size."""
        return 2 * float(self.scale(max(int(size), 1))) ** 2

    def interval(
        self,
        noisy: Integers,
        level: float,
        *,
        by_total: bool = True,
        clipped: tuple[Integers, Integers] | None = None,
    ) -> tuple[Integers, Integers]:
        """Ends for cells of workplaces that were scaled to a noisy bound T, which is public.

        Scaling takes workers away, so what is certain of the scaled count is certain from below.
        From above: if no workplace has more than x workers, scaling leaves at least T / x of what
        it takes from, less a thousandth of a job at each workplace.  A quarter of the probability
        to miss goes to each side of the noise, half of it to an upper bound of x from T.
        """
        if not by_total or clipped is None:
            raise Refusal(f"{self.name} needs the bounds to which workplaces were scaled")
        bounds, workplaces = clipped
        away = self.near_scale(bounds) * np.log(2 / (1 - level)) * (1 + 1e-9) + 0.5
        _, most = self.first_stage.interval(bounds, level)
        growth = np.maximum(most / bounds, 1)
        lost = np.where(growth > 1, workplaces / JOB, 0)
        low = np.maximum(np.ceil(noisy - away - 1e-9), 0).astype(np.int64)
        high = np.floor(np.maximum(noisy + away + lost, 0) * growth * (1 + 1e-9) + 1e-9)
        known = (bounds < GREATEST_BOUND) & (high < GREATEST)
        last = np.where(known, high, GREATEST).astype(np.int64)
        return np.minimum(low, last), np.where(known, last, UNBOUNDED)

    def total_error(self, cell: Cell) -> float:
        """The mean size of the error of a count in a workplace of `largest` workers, both stages.

        Scaling takes b away, the noise has the scale s, and all is rounded: the error is at least k
        where s L - b is at least k - 1/2, or at most 1/2 - k.  Both are geometric sums over k; in
        the second the first m terms, with k - 1/2 <= b, lie above the middle of the noise.
        """
        b, s, probabilities = self._likely(cell)
        rest, m = -np.expm1(-1 / s), np.floor(b + 0.5)
        above = np.exp(-(b + 0.5) / s) / rest / 2
        near = m - np.exp(-(b - m + 0.5) / s) * -np.expm1(-m / s) / rest / 2
        below = np.exp(-(m + 0.5 - b) / s) / rest / 2
        return float(probabilities @ (above + near + below))

    def total_quantile(self, level: float, cell: Cell) -> int:
        """What the size of that error stays within with a probability of `level`."""
        taken, scale, probabilities = self._likely(cell)

        def enough(z: Array) -> NDArray[np.bool_]:
            # noise is below z + b, and above b - z
            above = np.exp(-(taken + z + 0.5) / scale) / 2
            depth = (z + 0.5 - taken) / scale
            below = np.where(depth > 0, np.exp(-np.abs(depth)) / 2, 1 - np.exp(-np.abs(depth)) / 2)
            return np.asarray([probabilities @ (above + below) <= 1 - level])

        return ceil(least(enough) - 1e-9)

    def _likely(self, cell: Cell) -> tuple[Array, Array, Array]:
        """For many bounds: what scaling takes, the scale of the noise, and their probabilities."""
        edges: Array = np.linspace(-_FARTHEST, _FARTHEST, _BOUNDS + 1)
        noise = (edges[1:] + edges[:-1]) / 2
        within = np.where(edges > 0, -np.expm1(-np.abs(edges)), np.expm1(-np.abs(edges))) / 2
        transform = self.first_stage.transform
        transformed = float(transform.near_forward(one_cell(cell.largest))[0])
        drawn = transform.near_inverse(transformed + float(self.first) * noise)[0]
        totals = np.clip(drawn, 1, GREATEST_BOUND)
        taken = cell.count * (1 - np.minimum(totals / max(cell.largest, 1), 1))
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
        found = self.first_stage.certify().bound + second
        with exactly():
            pair = self._pair(min(ceil(1_000 * turn) + 1, GREATEST_BOUND))
        return VectorCertificate.pure(self, found, pair)

    def _pair(self, size: int) -> GroupPair:
        """A workplace of one cell that grows by another one, where T is its size; T comes first."""
        joined, rest = int(self.alpha * size), (0,) * (self.cells - 1)
        before = Group.of((size, *rest), size)
        after = Group.of((size, joined, *rest[1:])[: self.cells], size + joined)
        probabilities = []
        for group in (before, after):
            scaled = [JOB * count * size // group.largest for count in group.counts]
            cells = self.joint_pmf(Group.of(scaled, size), before.counts)
            probabilities.append(cells * self.first_stage.pmf(Cell(group.largest), size))
        outputs = (size, *before.counts)
        old, new = probabilities
        return GroupPair.between(before, after, outputs, loss_of(old, new))


def greatest_move(alpha: Fraction, cells: int, total: int) -> Fraction:
    """A bound of how far a scaled histogram moves in one step, in jobs: see the proof above.

    It is for at least two cells; it knows no scale.
    """
    step = max(alpha / (1 + alpha), Fraction(1, total + 1))
    return 2 * total * step + Fraction(cells, JOB)
