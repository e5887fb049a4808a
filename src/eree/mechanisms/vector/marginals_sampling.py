"""Exact draws of radial noise of several marginals, rounded so that they keep one sum.

A uniform point of the ball.  Given the common sum t, blocks are independent.  Of a block of v
values let n = v - 1 and t >= 0 (all signs are turned together), and let a path start at 0, go down
by the counts below 0 to its lowest point -q, and up by the others to t; n points on it part one
count from the next.  |z_k| <= 1 says that q <= (1 - t) / 2.  Let b of the points lie below 0, the
lowest and b - 1 others, of which d are passed on the way down and b - 1 - d on the way up: so d + 1
counts are below 0, in binomial(v, d + 1) ways.  The others lie in order between -q and 0, and n - b
in order between 0 and t: integrated over q, these points have the volume

    binomial(b - 1, d) ((1 - t) / 2)^b / b!  t^(n - b) / (n - b)!.

With the ways, summed over d (Vandermonde), the block has V_v(t) = sum over b of

    binomial(n + b, b) ((1 - t) / 2)^b / b!  t^(n - b) / (n - b)!,

also for b = 0, where no count is below 0.  The product over blocks is a sum of terms
t^a (1 - t)^b, a + b = D - 1, b the number of all points below 0: given it, t is a beta number of
(a + 1, b + 1).

As P_n(x) = sum of binomial(n, b) binomial(n + b, b) ((x - 1) / 2)^b, V_v(t) = t^n P_n(1 / t) / n!;
the generating function of t^n P_n(1 / t) is 1 - 2 z + t^2 z^2 = (1 - z)^2 - (1 - t^2) z^2 to the
power -1/2, which gives its form in powers of 1 - t^2 in `marginals_density`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, cmp_to_key, lru_cache
from itertools import accumulate, pairwise
from math import comb, factorial

import numpy as np
from flint import arb
from numpy.typing import NDArray

from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.vector.marginals_density import Blocks, RadialNumber, dimensions_of, volume
from eree.mechanisms.vector.radial_density import (
    NearBases,
    VectorRadialShape,
    near_bases,
    sure_bases,
)
from eree.random.exact import (
    Array,
    Flags,
    Integers,
    Row,
    Words,
    coarse,
    exact_ball,
    near,
    near_choice,
    sure_choice,
    sure_floor,
    sure_less,
    verdicts_of,
)


@dataclass(frozen=True, eq=False)
class Table:
    """Distributions on 0, 1, ...: a row of probabilities, up to a factor, for each state."""

    weights: tuple[tuple[Fraction, ...], ...]

    @cached_property
    def ends(self) -> list[list[Fraction]]:
        """The probability of at most 0, 1, ... in each state, without the last."""
        sums = [list(accumulate(row)) for row in self.weights]
        return [[part / row[-1] for part in row[:-1]] for row in sums]

    @cached_property
    def near_ends(self) -> Array:
        """The same in doubles."""
        return np.array([[float(end) for end in row] for row in self.ends])

    def fast(self, word: Words, states: Integers) -> tuple[Integers, Flags]:
        """Integers, and where they are in doubt."""
        gaps = near(word)[:, None] - self.near_ends[states]
        return (gaps >= 0).sum(axis=1), np.any(np.abs(gaps) < 2.0**-48, axis=1)

    def slow(self, uniform: arb, state: int) -> int:
        """The same in interval arithmetic."""
        # the last ones may have no probability
        sure = [
            end == 0 or (end < 1 and not sure_less(uniform, exact_ball(end)))
            for end in self.ends[state]
        ]
        return sum(sure)


@lru_cache(maxsize=64)
def tables_of(blocks: Blocks) -> tuple[tuple[Table, Table], ...]:
    """For each block: how many points lie below 0, and how many of them are passed downwards.

    The state of the first is the number of those of earlier blocks: with b points in all below 0
    t has the weight a! b! / 2^b, a = D - 1 - b.  That of the second is the first; without a point
    below 0 nothing is.
    """
    free, found = dimensions_of(blocks) - 1, []
    after = [Fraction(factorial(free - b) * factorial(b), 2**b) for b in range(free + 1)]
    for v in reversed(blocks):
        n = v - 1
        ways = [comb(n, b) * comb(n + b, b) for b in range(v)]
        states = range(len(after) - n)
        rows = [tuple(ways[b] * after[s + b] for b in range(v)) for s in states]
        after = [sum(row, Fraction(0)) for row in rows]
        down = [
            tuple(Fraction(comb(v, d + 1) * comb(b - 1, d)) for d in range(n)) for b in range(1, v)
        ]
        nothing = (Fraction(1), *(Fraction(0),) * (n - 1))
        found.append((Table(tuple(rows)), Table((nothing, *down))))
    return tuple(reversed(found))


@dataclass(frozen=True, eq=False)
class RoundedMarginals:
    """scale Z, rounded so that all blocks keep one sum; Z of the radial density of the norm N.

    Recipe: Z = rho times a uniform point of the ball, rho of the density -w'(rho) rho^D.  So there
    are D + 1 sizes whose density falls with their sum rho as -w' does; how many points of each
    block lie below 0, b in all, and a = D - 1 - b above; the first a + 1 sizes add up to rho t, the
    others to rho (1 - t).  Then for each block: q, the greatest of as many uniform numbers up to
    rho (1 - t) / 2 as it has points below 0; and how many of the others are passed downwards.
    Along the path these lie at a uniform distance up to q, those passed upwards at q and a uniform
    distance up to q, and those above 0 at 2 q and a uniform distance up to rho t.  Counts are the
    distances of one point to the next; those below 0, each choice as likely, come first on the
    path.  At last a sign for all.

    Rounding: one uniform number u for the group; with c_1, c_2, ... the sums of the counts of a
    block, in the order of its values, a count becomes floor(c_i + u) - floor(c_(i-1) + u).  It is
    rounded up or down, by what is right on average, as is each sum of neighbours, and the sum of
    the block becomes floor(c_v + u): the same in all blocks.  Whole counts could be added before or
    after: so what is released is made of the noisy numbers and u alone.

    In doubles a sum of sizes is known to within twice the share `loose` of the greatest base, and
    the root in q to within 2^-42 of itself: so a distance along the path is known to within three
    times `off`, and a sum of v counts to within 6 v times that.

    `number` is the one whose tail is asked for.
    """

    scales: Scales
    radial: VectorRadialShape
    blocks: Blocks
    number: RadialNumber

    @property
    def width(self) -> int:
        """All counts of all blocks."""
        return sum(self.blocks)

    @property
    def uniforms(self) -> int:
        """D + 3 of the group, and of each block one for each point and count, and two."""
        return self.radial.width + 3 + sum(2 * v + 1 for v in self.blocks)

    def fast(self, words: Words, groups: NDArray[np.intp]) -> tuple[Integers, NDArray[np.int8]]:
        """Rows and verdicts."""
        rows = np.zeros((len(groups), self.width), dtype=np.int64)
        found = near_bases(self.radial, words[: self.radial.width + 2])
        kept = np.flatnonzero(found.accepted & ~found.doubt)
        doubt = found.doubt.copy()
        rows[kept], doubt[kept] = self._rows(found.at(kept), words[:, kept], groups[kept])
        return rows, verdicts_of(found.accepted, doubt)

    def _rows(
        self, found: NearBases, words: Words, groups: NDArray[np.intp]
    ) -> tuple[Integers, Flags]:
        """Rows of tries that are accepted, and where they are in doubt."""
        size = self.radial.width
        rest = iter(np.split(words[size + 3 :], np.cumsum([2 * v + 1 for v in self.blocks])))
        parts = list(zip(self.blocks, tables_of(self.blocks), rest, strict=False))
        below, doubt = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=np.bool_)
        lows = []
        for _, (table, _), block in parts:
            low, unsure = table.fast(block[0], below)
            below, doubt = below + low, doubt | unsure
            lows.append(low)
        unit = self.scales.near(groups) / float(self.radial.curve)
        middle = np.take_along_axis(found.bases, (size - below)[None, :], axis=0)[0]
        total, room = unit * np.abs(middle - 1), unit * np.abs(found.bases[-1] - middle) / 2
        off = unit * found.top * (2 * found.loose + 2.0**-41)
        sign, fair, rows = found.signs[0], near(words[size + 2]), []
        for (v, (_, table), block), low in zip(parts, lows, strict=True):
            counts, unsure = _near_block(v, table, block[1:], low, total, room)
            sums = np.cumsum(counts, axis=0)
            sums[-1] = total
            ends = sign * sums + fair
            close = np.abs(ends - np.rint(ends))
            doubt |= unsure | (~(close >= 18 * v * off + 2.0**-48)).any(axis=0)
            rows.append(np.diff(np.floor(np.where(doubt, 0.0, ends)), axis=0, prepend=0.0))
        return np.concatenate(rows).astype(np.int64).T, doubt

    def slow(self, uniforms: Sequence[arb], group: int) -> Row | None:
        """The same in interval arithmetic."""
        size, row, start = self.radial.width, list[int](), self.radial.width + 3
        found = sure_bases(self.radial, uniforms[: size + 2])
        if found is None:
            return None
        (bases, signs), fair, parts, below = found, uniforms[size + 2], [], 0
        for v, tables in zip(self.blocks, tables_of(self.blocks), strict=True):
            low = tables[0].slow(uniforms[start], below)
            parts.append((v, tables[1], uniforms[start + 1 : start + 2 * v + 1], low))
            below, start = below + low, start + 2 * v + 1
        unit = exact_ball(self.scales.of(group) / self.radial.curve)
        total = unit * abs(bases[size - below] - 1)
        room = unit * abs(bases[-1] - bases[size - below]) / 2
        for v, table, block, low in parts:
            counts = _sure_block(v, table, block, low, total, room)
            sums = [*accumulate(counts[:-1]), total]
            ends = [0, *(sure_floor(signs[0] * c + fair) for c in sums)]  # however large: no cap
            row += [after - before for before, after in pairwise(ends)]
        return tuple(row)

    def tail(self, value: int, group: int) -> arb:
        """The probability that one number is at least `value`, for value >= 1.

        Between two integers it is rounded up with the probability of its distance to the lower one.
        """
        scale, excess = exact_ball(self.scales.of(group)), self.number.mean_excess
        return scale * (excess((value - 1) / scale, 1) - excess(value / scale, 1))

    def pmf(self, noise: Sequence[int], group: int) -> arb:
        """The density before rounding of a row of noise, by its sum and all counts but one a block.

        The probability of the row after rounding is a mean of it.  With theta_i the parts of c_i +
        u after the point, which are uniform and independent, but u and c_v + u the same in all
        blocks, the numbers before rounding were k_i + theta_i - theta_(i-1).
        """
        blocks = [noise[a:b] for a, b in pairwise(accumulate(self.blocks, initial=0))]
        if len({*map(sum, blocks)}) > 1:
            return arb(0)
        norm = max(sum(map(abs, block)) for block in blocks)
        scale, radial = exact_ball(self.scales.of(group)), self.radial
        unit = (exact_ball(radial.curve) / scale) ** radial.width
        whole = exact_ball(volume(self.blocks)) * radial.width * radial.tail_integral(arb(0))
        return radial.weight(norm / scale) * unit / whole


def _near_block(
    v: int, table: Table, words: Words, low: Integers, total: Array, room: Array
) -> tuple[Array, Flags]:
    """The counts of a block of tries, whose sum is `total`, and where they are in doubt."""
    down, doubt = table.fast(words[0], low)
    uniform, place = near(words[1:v]), np.arange(v - 1)[:, None]
    some, tiny = low > 0, coarse(uniform[0])
    root = np.exp(np.log(np.where(tiny, 1.0, uniform[0])) / np.maximum(low, 1))
    q = np.where(some, room * root, 0.0)
    inside = np.where(place == 0, q, q * (uniform + (place > down)))
    path = np.where(place < low, inside, 2 * q + total * uniform)
    ends = [np.zeros((1, len(q))), np.sort(path, axis=0), (2 * q + total)[None, :]]
    steps = np.diff(np.concatenate(ends), axis=0)
    first = np.where(some, down + 1, 0)  # so many counts are below 0
    negative, unsure = near_choice(words[v:], first.astype(np.float64))
    at = np.where(negative, np.cumsum(negative, axis=0), first + np.cumsum(~negative, axis=0)) - 1
    at = np.minimum(at, v - 1)  # in doubt it may be one too many
    counts = np.where(negative, -1.0, 1.0) * np.take_along_axis(steps, at, axis=0)
    return counts, doubt | unsure | (tiny & some)


def _sure_block(
    v: int, table: Table, uniforms: Sequence[arb], low: int, total: arb, room: arb
) -> list[arb]:
    """The same of one try in interval arithmetic."""
    down, points = table.slow(uniforms[0], low), uniforms[1:v]
    q = room * (points[0].log() / low).exp() if low else arb(0)
    path = [q, *(q * (points[i] + (i > down)) for i in range(1, low))][:low]
    path += [2 * q + total * point for point in points[low:]]
    path.sort(key=cmp_to_key(_sure_order))
    steps = [after - before for before, after in pairwise([arb(0), *path, 2 * q + total])]
    first = down + 1 if low else 0
    negative = sure_choice(uniforms[v:], first)
    downs, ups = iter(steps[:first]), iter(steps[first:])
    return [-next(downs) if below else next(ups) for below in negative]


def _sure_order(one: arb, other: arb) -> int:
    return -1 if sure_less(one, other) else 1
