"""Estimates of a table of worker cells, as `shrink` makes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eree.estimate.listing import Listing, in_words, outside
from eree.policy.schema import Value

#: A filter: the values that are kept of some attributes.
Kept = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, repr=False)
class Shrunk(Listing):
    """The cells of a table with empirical-Bayes estimates, shrunk to the shares of their kind.

    Columns: the attributes, then `estimate`, its calibrated interval `low` and `high` (from the
    variance that the model leaves), `noisy`, `guaranteed_low` and `guaranteed_high`, which hold
    whatever the estimates assume, and `workplaces`; all at the release's level.  Where the model
    leaves no variance, as of counts that were scaled before, both intervals are the same.  Where
    cells were added up, all are of the sum.

    Attributes:
        correlations: The intra-class correlation of workers of one workplace, for each set of
            worker attributes.
        filters: Those of the tables; where these differ, `where` has what all of them keep to.

    Examples:
        >>> "estimate" in eree.shrink("out", "sexes").rows.column_names
        True
    """

    correlations: dict[str, float]
    filters: Mapping[str, Kept]

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write all cells into a new CSV file beside the release, never into it."""
        return super().write(outside(self.release, out))

    @property
    def filters_in_words(self) -> dict[str, str]:
        """The filters of the tables that have one, for people to read."""
        return {table: in_words(where) for table, where in self.filters.items() if where}

    def as_json(self, top: int | None = None) -> dict[str, Any]:
        """Plain data."""
        kept = {
            table: {name: list(values) for name, values in where.items()}
            for table, where in self.filters.items()
        }
        return super().as_json(top) | {"filters": kept, "correlations": self.correlations}
