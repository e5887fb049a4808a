"""Numbers of workplaces with at least so many workers, all of them for one price."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, nextafter, sinh, sqrt
from re import fullmatch
from typing import Self

from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate, WorstPair, worst_of
from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.parameters import LEAST_EPSILON, check_range
from eree.mechanisms.published.fixed import FixedMechanism
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, Edge, Exact, Neighbours, Node, Strong, Weak
from eree.workload import checked_thresholds, default_thresholds


@dataclass(frozen=True)
class ThresholdGeometric(FixedMechanism):
    """N + K for every row of a size profile, P(K = k) proportional to e^(-(epsilon / k') |k|).

    N is the number of workplaces of a group, or of all groups, with at least t workers, for each t
    of `sizes`; every K is drawn apart; k' is `passed`, the most thresholds that one step passes.

    Theorem.  All rows together are epsilon-private with delta = 0, under the neighbours that they
    were calibrated for.  One step leads one workplace from x to y > x workers.  Which group it is
    in is public and stays, so of each threshold it meets one row: that of its group, or the one of
    all.  That row's N grows by one if x < t <= y, and no other row changes.  At most k' thresholds
    are so, and a row that changes by one changes ln P by epsilon / k' at most.

    k' is 1 under edge neighbours, as y = x + 1; the number of thresholds under node neighbours.
    Under strong and weak ones y <= x + s(x), s(x) = max(floor(alpha x), 1).  As x + s(x) does not
    fall, of all x below t the last goes farthest: to t - 1 + s(t - 1).  So k' is the greatest
    number of thresholds from t to there, and 1 if each is at least s(t - 1) above the one before.
    """

    sizes: tuple[int, ...]
    passed: int
    name = "threshold-geometric"

    @classmethod
    def relation(cls, alpha: Exact | None) -> Neighbours:
        """Strong neighbours, or without an alpha edge neighbours."""
        return EDGE if alpha is None else Strong(alpha)

    @classmethod
    def calibrate(cls, guarantee: Guarantee, *, sizes: Iterable[int] | int | str = ()) -> Self:
        """The rate is epsilon over k'; without `sizes` they follow from alpha, and k' is 1."""
        relation = guarantee.neighbours
        if not isinstance(relation, (Strong, Weak, Edge, Node)):
            raise Refusal(f"{cls.name} is for workplaces; a survey's neighbours are records")
        if guarantee.delta:
            raise Refusal(f"{cls.name} needs no delta; leave it out")
        check_range(guarantee, cls.name)
        found = _read(str(sizes)) if isinstance(sizes, (int, str)) else tuple(sizes)
        found = checked_thresholds(found) if found else default_thresholds(relation)
        passed = len(found)
        if not isinstance(relation, Node):
            ends = (size - 1 + relation.growth(size - 1) for size in found)
            passed = max(bisect_right(found, end) - i for i, end in enumerate(ends))
        if guarantee.epsilon < passed * LEAST_EPSILON:
            raise Refusal(
                f"{cls.name} takes an epsilon of 0.000001 or more for each threshold that one step"
                " passes; take fewer sizes"
            )
        return cls(guarantee, found, passed)

    @property
    def rate(self) -> Fraction:
        """What a step by one in one row costs."""
        return self.guarantee.epsilon / self.passed

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        """`number`, a column of the rows of size profiles alone."""
        del worker_attributes
        return ("number",)

    def distribution(self, _cells: int) -> CappedGeometric:
        """The geometric distribution of both signs."""
        return CappedGeometric(self.rate)

    def mean_error(self, _cell: Cell) -> tuple[float, float]:
        """With q = e^-rate: 2 q / (1 - q^2), and the root of 2 q / (1 - q)^2, without loss."""
        rate = float(self.rate)
        return 1 / sinh(rate), sqrt(2 * exp(-rate)) / -expm1(-rate)

    def certify(self) -> Certificate:
        """The loss of one row that changes by one, times the rows that any step changes.

        Steps are looked at from every size below the last threshold; from there on none is passed.
        The pair that is named is the workplace before and after its step.
        """
        noise = self.distribution(1)
        each = max(abs(noise.rate * abs(k) - noise.rate * abs(k - 1)) for k in range(-3, 4))
        seen = worst_of(self, [(Cell(0), Cell(1), range(-3, 5))])
        before, after, rows = self._worst_step()
        loss = rows * Fraction(seen.loss)
        near = float(loss)
        near = nextafter(near, 0) if Fraction(near) > loss else near
        pair = WorstPair(Cell(before), Cell(after), seen.output, near)
        return Certificate.pure(self, rows * each, pair)

    def _worst_step(self) -> tuple[int, int, int]:
        """The first step that passes the most thresholds: from, to, and how many."""
        relation, last = self.guarantee.neighbours, self.sizes[-1]
        below = [0] * (last + 1)  # of each size, the thresholds up to it
        for size in self.sizes:
            below[size] = 1
        for size in range(1, last + 1):
            below[size] += below[size - 1]
        best = 0, 0, 0
        for before in range(last):
            assert isinstance(relation, (Strong, Weak, Edge, Node))
            growth = relation.growth(before)
            after = last if growth is None else min(before + growth, last)
            rows = below[after] - below[before]
            best = (before, after, rows) if rows > best[2] else best
        return best


def _read(text: str) -> tuple[int, ...]:
    """Thresholds of a text such as 1,10,100."""
    parts = [part.strip() for part in text.split(",")] if text else []
    return tuple(int(part) if fullmatch("[0-9]{1,9}", part) else -1 for part in parts)
