"""Earnings: the class of monthly earnings of every job, by sector, worker and workplace.

The logarithm of a job's earnings is normal.  Its mean adds up what sector, education, age, sex and
the size of the workplace are worth, and what the workplace itself pays more or less than others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array
from eree_study.synth.files import SCHEMA
from eree_study.synth.workers import ATTRIBUTES
from eree_study.synth.workplaces import SECTORS, Workplaces

EARNINGS: tuple[str, ...] = tuple(SCHEMA["job"]["attributes"]["earnings"]["values"])

#: Dollars a month that each class but the last has at most, as LODES has them.
_MOST = (1_250, 3_333)
#: By what factor the values of an attribute, in their order, move what a sector pays.
_FACTORS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "age": (0.58, 1.12, 1.05),
        "sex": (0.84, 1.14),
        "education": (0.72, 0.85, 0.97, 1.45),
    }
)
#: Ten times the workers pay a fifth more; a typical job is at a workplace of 50 or so.
_BY_SIZE, _TYPICAL_SIZE = 0.08, 50
#: Standard deviations of the logarithm: between workplaces, and between the jobs of one.
_BETWEEN, _WITHIN = 0.25, 0.8


class Pay:
    """What every workplace pays, as the logarithm of dollars a month."""

    def __init__(
        self, workplaces: Workplaces, rng: np.random.Generator, *, concentration: float
    ) -> None:
        """`concentration` is that of the shares of workers: less makes workplaces differ more."""
        own = rng.normal(0.0, _BETWEEN / np.sqrt(concentration), workplaces.size.size)
        size = np.maximum(workplaces.size, 1) / _TYPICAL_SIZE
        sectors = np.log([sector.pay for sector in SECTORS])
        self._level: Array = sectors[workplaces.sector] + _BY_SIZE * np.log(size) + own
        self._rng = rng

    def draw(
        self, workplace: NDArray[np.int32], workers: list[NDArray[np.int8]]
    ) -> NDArray[np.int8]:
        """The class of the job of each worker, by the value numbers of the worker attributes."""
        pay = self._level[workplace] + self._rng.normal(0.0, _WITHIN, workplace.size)
        for attribute, codes in zip(ATTRIBUTES, workers, strict=True):
            if attribute.name in _FACTORS:
                pay += np.log(_FACTORS[attribute.name])[codes]
        return np.searchsorted(np.log(_MOST), pay).astype(np.int8)
