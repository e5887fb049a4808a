"""Estimates of all cells by two attributes from their noisy margins alone."""

from __future__ import annotations

from eree.estimate.grids import by_workplaces
from eree.estimate.groups import ShrunkGroups, Sight
from eree.mechanisms.margins_radial import MarginsRadial
from eree.noise.exact import Whole


def learn_from_margins(
    mechanism: MarginsRadial, differences: Whole, workplaces: Whole, kinds: Whole
) -> ShrunkGroups:
    """Learn from the counts by value and the difference of the halves, a row for each group.

    Which values of the two attributes go together is taken to be chance.
    """
    values, pace = mechanism.values, float(mechanism.bend)
    sums, difference = mechanism.variances()

    def variance(size: float) -> float:
        return sums * max(pace * size, 1.0) ** 2

    classed = by_workplaces(differences[:, :values], workplaces, variance)
    sight = Sight.of_margins(values, difference / sums)
    return ShrunkGroups.learn(differences, kinds, classed, (2, values), sight)
