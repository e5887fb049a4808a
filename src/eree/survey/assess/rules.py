"""Threshold rules: which cells an office would publish, and which count as near zero."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb, isfinite
from typing import Literal

import numpy as np

from eree.errors import Refusal
from eree.estimate.listing import checked_level
from eree.survey.shape import By, Mask, Reals, Shape

Rule = Literal["weighted", "unweighted", "variation", "all"]
#: The labels of the rules.
RULES: dict[Rule, str] = {
    "weighted": "employment",
    "unweighted": "records",
    "variation": "coefficient of variation",
    "all": "all three rules",
}


@dataclass(frozen=True)
class Thresholds:
    """The rules of an office.  They are public settings, chosen without looking at the data.

    Args:
        weighted: The least employment of a cell that may be published, in jobs.
        unweighted: The least number of its records.
        variation: The greatest coefficient of its variation, the standard error divided by the
            estimate.
        near_zero: A cell is near zero if its employment, without its sign, is below so many jobs;
            where that is None, below half the average weight of a record, which is confidential.
        level: That of intervals.

    Examples:
        >>> eree.Thresholds(variation=0.5).weighted
        1000.0
    """

    weighted: float = 1_000.0
    unweighted: float = 3.0
    variation: float = 0.3
    near_zero: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        numbers = [self.weighted, self.unweighted, self.variation, self.level]
        if self.near_zero is not None:
            numbers.append(self.near_zero)
        if not all(isfinite(number) and number >= 0 for number in numbers):
            raise Refusal("thresholds are numbers, 0 or more")
        checked_level(self.level)

    def weighted_passes(self, employment: Reals) -> Mask:
        """Which cells have employment enough."""
        return np.asarray(employment >= self.weighted)

    def unweighted_passes(self, records: Reals) -> Mask:
        """Which cells have records enough."""
        return np.asarray(records >= self.unweighted)

    def variation_passes(self, employment: Reals, errors: Reals) -> Mask:
        """Which cells are precise enough; none of employment 0 or below is."""
        return np.asarray((employment > 0) & (errors <= self.variation * employment))


def near_zero(employment: Reals, limit: float) -> Mask:
    """Which cells are near zero."""
    return np.asarray(np.abs(employment) < limit)


#: Of more tables of a dimension than this, as many are looked through in the order of the cube.
_MOST_LISTED = 100_000


@dataclass(frozen=True)
class Choice:
    """Tables of every dimension up to `most_dimensions`, at most `most_tables` of each.

    Where there are more, which ones are taken is decided by hashes of the seed and the names of
    their variables, so that a seed gives the same tables everywhere and no figure has a say.  The
    whole cube is always one of them.
    """

    most_dimensions: int = 3
    most_tables: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        for value, least in ((self.most_dimensions, 1), (self.most_tables, 1), (self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refusal(
                    "dimensions and tables are integers from 1 on, and a seed is one from 0 on"
                )

    def tables(self, shape: Shape) -> dict[int, tuple[By, ...]]:
        """The tables by dimension; variables in the order of the cube."""
        names = tuple(variable.name for variable in shape.variables)
        found: dict[int, tuple[By, ...]] = {}
        for dimension in range(min(self.most_dimensions, len(names)) + 1):
            listed = list(islice(combinations(names, dimension), _MOST_LISTED))
            if len(listed) > self.most_tables:
                drawn = set(sorted(listed, key=self._rank)[: self.most_tables])
                listed = [by for by in listed if by in drawn]
            found[dimension] = tuple(listed)
        return found | {len(names): (names,)}

    def there_are(self, shape: Shape, dimension: int) -> int:
        """How many tables of a dimension there are to choose from."""
        return comb(len(shape.variables), dimension)

    def _rank(self, by: By) -> bytes:
        return hashlib.sha256(json.dumps([self.seed, *by]).encode()).digest()
