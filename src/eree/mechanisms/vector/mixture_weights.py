"""Mixtures that get less noise, size by size, as the largest workplace of a group is smaller.

Component i = 0, ..., n - 1 gives all d counts of a group independent geometric noise of the rate
g_i, which falls with i; component n gives them radial noise.  Below a size `start` a workplace
grows by one worker at a time.  A group whose largest workplace has `start` workers or more has
component n; one worker below, components get the weights c that the c' of the size above allow.

Let B_i be the probabilities of a component, k_i the greatest loss of a worker more in it, and
M_ij >= B_i(z) / B_j(z') for rows z and z' that are a worker apart, i <= j, so that M_ii = e^(k_i).

Theorem.  With q = e^-epsilon, f' = sum c'_j B_j and f = sum c_i B_i keep f'(z') <= e^epsilon f(z)
and f(z) <= e^epsilon f'(z') for all z and z' that are a worker apart, if there are y_ij >= 0 with

    c_i = q e^(k_i) c'_i + sum over j >= i of y_ij,
    q e^(2 k_j) c'_j + sum over i <= j of M_ij y_ij <= e^epsilon c'_j.

Proof.  f'(z') <= sum c'_j e^(k_j) B_j(z) <= e^epsilon f(z) by the first alone.  And f(z) is at most
the sum over j of (e^(k_j) q e^(k_j) c'_j + sum of M_ij y_ij) B_j(z'), so the second says the rest.

So of each component a part must stay, and what is left of e^epsilon c'_j is a budget that pays for
any component i <= j, at M_ij for each unit of weight.  The weights with the least mean error are
found by a greedy rule: all budgets pay for the first component; where their sum is then less than
the weight that has to be given, those go over to a dearer error at a lower price first that lose
least by it.

The greatest quotients are next to the centre.  Geometric noise has k_i = g_i and, as g_i >= g_j,
M_ij = B_i(0) / B_j(e), e a row with one number 1.  Radial noise has the greatest slope rate / s, s
the scale at `start`, so k_n = rate / s.  It is greatest at 0, and B_n(z') >= e^(-k_n m) B_n(e) if
z' has the norm m + 1; B_i(z) = e^(-g_i m) B_i(0) if z has the norm m; so M_in = B_i(0) / B_n(e) as
long as g_i >= k_n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import fsum

import numpy as np
from flint import ctx

from eree.mechanisms.geometric import CappedGeometric
from eree.mechanisms.scaled.certificate import scale_at
from eree.mechanisms.scaled.distributions import Scales
from eree.mechanisms.vector.radial_density import RoundedVectorRadial, VectorRadialShape
from eree.random.exact import exact_ball

#: Geometric components.
GEOMETRIC = 4
#: Below the last of so many sizes, or where all but this share has the first component, the
#: weights stay.
_SIZES = 100
_REST = 2.0**-30
#: Bits of what doubles are taken from.
_BITS = 192

Weights = tuple[Fraction, ...]


def component_rates(shape: VectorRadialShape, start: int) -> tuple[Fraction, ...]:
    """The rates of the geometric components, evenly from the rate down to k_n = rate / s."""
    least = 1 / scale_at(shape.curve, start)
    return tuple(shape.rate * (1 - i * (1 - least) / (GEOMETRIC - 1)) for i in range(GEOMETRIC))


@lru_cache(maxsize=1024)
def mixture_weights(shape: VectorRadialShape, start: int) -> tuple[Weights, ...]:
    """The weights of all components at `start`, a worker below it, and so on; they add up to 1.

    They come from additions, products and quotients of doubles that enclosures gave, so that they
    are the same on every machine.
    """
    rates, d = component_rates(shape, start), shape.width
    scale = scale_at(shape.curve, start)
    with ctx.workprec(_BITS):
        radial = RoundedVectorRadial(Scales(np.array([start]), shape.curve, Fraction(1)), shape)
        centres = [CappedGeometric(g).centre() ** d for g in rates]
        beside = [at * (-exact_ball(g)).exp() for at, g in zip(centres, rates, strict=True)]
        beside.append(radial.pmf((1, *(0,) * (d - 1)), 0))
        losses = [*rates, rates[-1]]
        claim = exact_ball(shape.rate).exp()
        falls = [float(exact_ball(loss).exp() / claim) for loss in losses]
        prices = [
            [float(at / one / claim) for one in beside[i + 1 :]] for i, at in enumerate(centres)
        ]
        errors = [float(1 / exact_ball(g).sinh()) for g in rates]
        errors.append(float(shape.norm_moment(1) / d * exact_ball(scale)))
    rule = Rule(falls, prices, errors)
    found = [[0.0] * GEOMETRIC + [1.0]]
    while len(found) <= min(start, _SIZES) and 1 - found[-1][0] > _REST:
        found.append(rule.below(found[-1]))
    return tuple(_normalised(row) for row in found)


def _normalised(row: Sequence[float]) -> Weights:
    """Exact fractions in proportion to some doubles, of the sum 1."""
    total = sum(map(Fraction, row))
    return tuple(Fraction(weight) / total for weight in row)


class Rule:
    """The greedy rule; prices and budgets are in units of e^epsilon."""

    def __init__(
        self, falls: Sequence[float], prices: Sequence[Sequence[float]], errors: Sequence[float]
    ) -> None:
        self.falls = falls
        #: What a budget gives of each component.
        self.yields = [
            [1 / price for price in (*(prices[i][j - i - 1] for i in range(j)), fall)]
            for j, fall in enumerate(falls)
        ]
        self.changes = sorted(change for j in range(len(falls)) for change in self._of(j, errors))

    def _of(self, j: int, errors: Sequence[float]) -> Iterator[tuple[float, int, int, int]]:
        """What a budget pays for next, with the error that each unit of weight more then has."""
        yields, i = self.yields[j], 0
        while more := [k for k in range(i + 1, j + 1) if yields[k] > yields[i]]:

            def added(k: int, i: int = i) -> float:
                cost = yields[k] * errors[k] - yields[i] * errors[i]
                return cost / (yields[k] - yields[i])

            best = min(more, key=added)
            yield added(best), j, i, best
            i = best

    def below(self, above: Sequence[float]) -> list[float]:
        """The weights of one worker less."""
        kept = [weight * fall for weight, fall in zip(above, self.falls, strict=True)]
        budgets = [
            weight - stays * fall
            for weight, stays, fall in zip(above, kept, self.falls, strict=True)
        ]
        missing = 1 - fsum(kept)
        made = fsum(budget * of[0] for budget, of in zip(budgets, self.yields, strict=True))
        #: What parts of each budget pay for which component.
        every = range(len(above))
        parts = [{0: min(missing / made, 1.0) if made else 1.0} for _ in budgets]
        missing -= made
        for _, j, before, after in self.changes:
            more = budgets[j] * (self.yields[j][after] - self.yields[j][before])
            if missing < more:  # the last to change, and not all of it
                if missing > 0:
                    parts[j] = {before: 1 - missing / more, after: missing / more}
                break
            parts[j] = {after: 1.0}
            missing -= more
        given = [
            fsum(budgets[j] * self.yields[j][i] * parts[j].get(i, 0.0) for j in every if j >= i)
            for i in every
        ]
        return [stays + more for stays, more in zip(kept, given, strict=True)]
