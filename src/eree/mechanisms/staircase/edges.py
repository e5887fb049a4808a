"""How far a centre can be from which so many steps lead: the edges of plateaus.

From a bin i an output that lies above the count comes nearer when the count grows.  In j steps it
comes into the centre of a bin r >= i if it is at most

    right:  cap(r_1) + ... + cap(r_j) + width(r),   r_l the lower of r and the l-th bin above i.

An output below the count comes nearer when the count falls: t steps up that add nobody, to the
bin z, then j - t steps down that end at r, lead into its centre from at most

    left:   cap(z_1) + ... + cap(z_(j-t)) + width(r),   z_l the lower of z and the l-th above r,

because the way down is the way up from r to z.  Only the ends that may count are listed: those
that lie beyond all of a few steps less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eree.mechanisms.staircase.size_grid import Bins, SizeGrid
from eree.random.exact import Array


@dataclass(frozen=True, eq=False)
class Ends:
    """Edges, each with the bin where its way ends and the number of its steps.

    `place` says to which of the asked bins an edge belongs.  Of its steps, `turn` lead to the
    highest bin below r (right), or down to the lowest one below z (left); `ups` are t.
    """

    place: Bins
    edge: Array
    step_count: Bins
    size_bin: Bins
    turn: Bins
    ups: Bins

    @classmethod
    def joined(cls, parts: list[Ends]) -> Ends:
        """Several lists as one."""
        names = ("place", "edge", "step_count", "size_bin", "turn", "ups")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def chains(grid: SizeGrid, bins: Bins, steps: int) -> Bins:
    """For each bin a row: itself and the bins above it, step by step."""
    rows = [bins]
    for _ in range(steps):
        rows.append(grid.up(rows[-1]))
    return np.stack(rows, axis=1)


def right_ends(grid: SizeGrid, bins: Bins, most_steps: int, spare: int) -> Ends:
    """The ends above the counts of some bins, of up to so many steps.

    An end is listed if it lies beyond the last one of `spare` + 1 steps less.
    """
    way = chains(grid, bins, most_steps)
    known = grid.numbers(int(way.max()) + 1)
    cap, width = known.cap, known.right
    # a bin that leads no further than the one below is never the best to end on
    fresh = (np.diff(cap, prepend=0.0) > 0) | (np.diff(width, prepend=0.0) > 0)
    before = np.cumsum(cap[way], axis=1) - cap[way[:, :1]]  # what the first steps add
    last = before + width[way]  # the furthest end of each number of steps
    parts = []
    for j in range(1, most_steps + 1):
        limit = last[:, max(j - 1 - spare, 0)]
        tops = way[:, 1 : j + 1]
        left = np.arange(j - 1, -1, -1)  # steps that are left at each bin of the chain
        furthest = before[:, 1 : j + 1] + left * cap[tops] + width[tops]
        place, turn = np.nonzero(furthest > limit[:, None])
        first = way[place, turn] + (turn > 0)
        place, turn, size_bin = _spread(place, turn, first, way[place, turn + 1] + 1 - first)
        edge = before[place, turn] + (j - turn) * cap[size_bin] + width[size_bin]
        some = (edge > limit[place]) & (fresh[size_bin] | (size_bin == bins[place]))
        parts.append(_ends(place[some], edge[some], j, size_bin[some], turn[some], 0))
    return Ends.joined(parts)


def left_ends(grid: SizeGrid, bins: Bins, most_steps: int, spare: int) -> Ends:
    """The same below the counts."""
    way = chains(grid, bins, most_steps)
    known = grid.numbers(int(way.max()) + 1)
    cap, width = known.cap[way], known.left[way]
    steps = np.arange(most_steps + 1)
    # for t steps up (second axis) and j in all (third) the furthest end; one that is no further
    # than with fewer steps up is never the best: the same way there ends on a lower bin
    ups, far = steps[:, None], np.full((len(bins), most_steps + 1, most_steps + 1), -np.inf)
    far = np.where(steps >= ups, (steps - ups) * cap[:, :, None] + width[:, :, None], far)
    best = np.maximum.accumulate(far, axis=1)
    limits = best[:, -1, np.maximum(steps - 1 - spare, 0)]
    useful = far > limits[:, None, :]
    useful[:, 1:] &= far[:, 1:] > best[:, :-1]
    useful[:, :, 0] = False
    wanted = [(t, np.nonzero(useful[:, t])) for t in range(most_steps + 1) if useful[:, t].any()]
    tops = np.unique(np.concatenate([way[rows[0], t] for t, rows in wanted]))
    below = _Below(grid, tops, most_steps, spare)
    parts = []
    for t, (place, step_count) in wanted:
        at = np.searchsorted(tops, way[place, t])
        row, top, item = _spread(np.arange(len(place)), at, below.start[at], below.count[at])
        j = step_count[row]
        edge = (j - t) * known.cap[tops[top]] + below.rest[item]
        some = (edge > limits[place[row], j]) & (j - t >= below.turn[item])
        row, item, edge = row[some], item[some], edge[some]
        parts.append(
            _ends(place[row], edge, step_count[row], below.size_bin[item], below.turn[item], t)
        )
    return Ends.joined(parts)


class _Below:
    """For some bins z those below from which a way up to z is not too short to count.

    `rest` is how far the centre of the lower bin extends from z, less what the steps would add if
    all of them started from z.
    """

    def __init__(self, grid: SizeGrid, tops: Bins, most_steps: int, spare: int) -> None:
        high = int(tops.max())
        known, every = grid.numbers(high + 1), np.arange(high + 1)
        up = grid.up(every)
        cap, width = known.cap, known.left
        limit = width[tops] - (1 + spare) * cap[tops]
        added = np.zeros(high + 1)  # by one step less than are needed, from each bin
        place, lowest = np.arange(len(tops)), tops
        found = [(place, tops, np.zeros(len(tops), dtype=np.intp), width[tops])]
        for n in range(1, most_steps + 1):
            under = np.searchsorted(up, lowest)  # the lowest bin from which a step leads there
            some = under < lowest
            place, lowest, under = place[some], lowest[some], under[some]
            if not place.size:
                break
            row, _, size_bin = _spread(place, place, under, lowest - under)
            rest = added[size_bin] - (n - 1) * cap[tops[row]] + width[size_bin]
            good = rest > limit[row]
            # of those that take as many steps and lead as far, the lowest is the best
            good[1:] &= (rest[1:] > rest[:-1]) | (row[1:] != row[:-1])
            found.append((row[good], size_bin[good], np.full(int(good.sum()), n), rest[good]))
            alive = np.isin(place, row[rest > limit[row]])
            place, lowest = place[alive], under[alive]
            inside = np.minimum(up, high)
            added = np.where(up <= high, cap[inside] + added[inside], 0.0)
        row, size_bin, turn, rest = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        self.size_bin, self.turn, self.rest = size_bin[order], turn[order], rest[order]
        self.count = np.bincount(row, minlength=len(tops))
        self.start = np.cumsum(self.count) - self.count


def _spread(first: Bins, second: Bins, start: Bins, count: Bins) -> tuple[Bins, Bins, Bins]:
    """Each pair as often as it counts, with consecutive numbers from its start on."""
    begin = np.repeat(start - (np.cumsum(count) - count), count)
    return np.repeat(first, count), np.repeat(second, count), begin + np.arange(int(count.sum()))


def _ends(
    place: Bins, edge: Array, step_count: int | Bins, size_bin: Bins, turn: Bins, ups: int
) -> Ends:
    step_counts = np.broadcast_to(np.asarray(step_count, dtype=np.intp), place.shape)
    return Ends(place, edge, step_counts, size_bin, turn, np.full(len(place), ups, dtype=np.intp))
