"""Census blocks: each workplace lies in one block of its tract, and most lie in a few of them.

A block is part of one site, so that it lies in one tract and in one place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.random.exact import Array, Integers
from eree_study.synth.geography import Geography

#: Blocks of a tract where workplaces may be: log-normal about the first, within the last two.
_TYPICAL, _SPREAD, _FEWEST, _MOST = 36, 0.4, 6, 160
#: How unevenly blocks draw workplaces: the standard deviation of a logarithm.
_UNEVEN = 1.2
#: Small places have some blocks, too: as if so many residents more lived there.
_HAMLET = 30
#: Codes begin with the number of a group of blocks, 1 to 9, with so many blocks or more in each.
_GROUPS, _IN_A_GROUP = 9, 20


class Blocks:
    """The blocks of every site, and how many workplaces each draws."""

    def __init__(self, geography: Geography, rng: np.random.Generator) -> None:
        tract = geography.tract_of_site
        sites = np.bincount(tract, minlength=len(geography.tracts))
        drawn = np.rint(rng.lognormal(np.log(_TYPICAL), _SPREAD, sites.size))
        spare = np.maximum(np.clip(drawn, _FEWEST, _MOST) - sites, 0)
        residents = geography.population[geography.place_of_site] + _HAMLET
        weight = residents * geography.footprint
        share = weight / np.bincount(tract, weight)[tract]
        self._own: Integers = 1 + np.floor(spare[tract] * share).astype(np.int64)
        self._first: Integers = np.cumsum(self._own) - self._own
        pull = rng.lognormal(0.0, _UNEVEN, int(self._own.sum()))
        self._ends: Array = np.concatenate(([0.0], np.cumsum(pull)))
        order = np.argsort(tract, kind="stable")
        before = np.cumsum(self._own[order]) - self._own[order]
        start = before[np.searchsorted(tract[order], tract[order])]
        self._before = np.empty_like(self._own)  # blocks of the tract that other sites have
        self._before[order] = before - start
        blocks = np.bincount(tract, self._own).astype(np.int64)
        self._in_a_group: Integers = np.maximum(_IN_A_GROUP, -(-blocks // _GROUPS))[tract]
        self._tracts, self._tract_of_site = pa.array(geography.tracts), tract
        self._rng = rng

    def draw(self, site: NDArray[np.int32]) -> pa.Array[Any]:
        """The code of a block for a workplace at each site: its tract's and four digits."""
        first, own = self._first[site], self._own[site]
        low, high = self._ends[first], self._ends[first + own]
        u = low + self._rng.random(site.size) * (high - low)
        chosen = np.searchsorted(self._ends, u, side="right") - 1
        number = np.clip(chosen - first, 0, own - 1) + self._before[site]
        group, within = np.divmod(number, self._in_a_group[site])
        digits = pa.array(1_000 * (1 + group) + within).cast(pa.string())
        tract = self._tracts.take(self._tract_of_site[site])
        codes: pa.Array[Any] = pc.binary_join_element_wise(tract, digits, "").dictionary_encode()
        return codes
