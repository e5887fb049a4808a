"""How workplaces are distributed over classes of size: what calibrated intervals start from.

The distribution is public: it is made of a released size profile, of public numbers of workplaces
by class of size, or of the noisy counts of a released table themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.cells import USUAL_DEVIATION, USUAL_MEDIAN
from eree.estimate.sizes import WorkplaceSizes
from eree.policy.schema import Value
from eree.random.exact import Array, Integers

#: From one class to the next, where classes hold more than one size.
_STEP = 0.1
_GREATEST = 1_000_000
#: Counts of a profile below so many times the mean size of its noise are taken from a power of
#: the size instead, fitted to the counts from there up to so many times as many.
_RELIABLE, _FITTED = 8.0, 10.0
#: Sizes up to which the numbers of workplaces follow no power.
_SMALL = 100
#: A profile knows the sizes of so many times as many workplaces as its numbers are off by.
KNOWN = 20
#: As many times its numbers are off by, workplaces of each kind are taken to be as all are.
_OF_ALL = 8.0
#: So many times as many combinations as there are rows are sorted, not listed.
_MANY = 8
#: Powers that the numbers of large workplaces fall with, of the size.
_LEAST_POWER, _USUAL_POWER, _MOST_POWER = 0.8, 1.4, 4.0

#: The values of the attributes that tell kinds of workplaces apart.
Kind = tuple[Value | None, ...]


def size_classes(greatest: int = _GREATEST) -> Integers:
    """The least size of each class: 0, 1, 2, ..., and from 21 on by a tenth."""
    least = [0, 1]
    while least[-1] < greatest:
        least.append(least[-1] + max(int(_STEP * (least[-1] - 1) + 1e-9), 1))
    return np.array(least)


@dataclass(frozen=True)
class SizeDistribution:
    """The share of workplaces in each class of size, a row for each kind.

    `attributes` tell the kinds apart, `weights` are the numbers of workplaces of each.  The last
    row is of all kinds together, for those that are not known.
    """

    attributes: tuple[str, ...]
    kinds: tuple[Kind, ...]
    weights: Array
    shares: Array
    least: Integers

    @classmethod
    def from_numbers(
        cls, attributes: tuple[str, ...], numbers: Mapping[Kind, Array], least: Integers
    ) -> Self:
        """From numbers of workplaces in each class."""
        known = np.stack(list(numbers.values()))
        each = np.concatenate([known, known.sum(0, keepdims=True)])
        weights = np.maximum(each.sum(1), 1e-9)
        return cls(attributes, tuple(numbers), weights, each / weights[:, None], least)

    @classmethod
    def from_public(cls, sizes: WorkplaceSizes) -> Self:
        """From public numbers of workplaces by class of size."""
        found = {}
        for kind in sizes.classes:
            typical, numbers = sizes.typical(kind)
            top = int(max(typical.max(initial=1), _GREATEST))
            found[kind] = typical, numbers, top
        least = size_classes(max(top for *_, top in found.values()))
        classed: dict[Kind, Array] = {}
        for kind, (typical, numbers, _) in found.items():
            place = np.searchsorted(least, typical, side="right") - 1
            classed[kind] = np.bincount(place, numbers, len(least)).astype(np.float64)
        return cls.from_numbers(sizes.attributes, classed, least)

    @classmethod
    def from_profile(cls, rows: pa.Table, by: tuple[str, ...], mean_error: float) -> Self:
        """From a released profile: noisy numbers of workplaces with at least so many workers.

        Rows without attributes are of all workplaces; `mean_error` is the mean size of the noise.
        """
        least = size_classes()
        at, noisy, total = (rows[n].to_numpy() for n in ("at_least", "noisy", "workplaces"))
        found: dict[Kind, list[int]] = {}
        for i, kind in enumerate(zip(*(rows[name].to_pylist() for name in by), strict=True)):
            found.setdefault(kind, []).append(i)
        pooled = found.pop((None,) * len(by), []) if by else []
        if not found:  # no size is counted apart
            by, pooled = (), []
        own: dict[Kind, list[int]] = found if by else {(): list(range(len(at)))}

        def falling(place: list[int], most: float) -> Array:
            return _falling(at[place], noisy[place].astype(np.float64), most, mean_error)

        many = {kind: float(total[place[0]]) for kind, place in own.items()}
        curves = {kind: falling(place, many[kind]) for kind, place in own.items()}
        # of large sizes all kinds have the same share of their workplaces that come before
        before = sum(float(curve[-1]) for curve in curves.values())
        tail = falling(pooled, before) / max(before, 1e-9) if pooled else np.empty(0)
        numbers = {
            kind: _classed(
                many[kind],
                np.append(at[own[kind]], at[pooled]),
                np.append(curve, curve[-1] * tail),
                least,
            )
            for kind, curve in curves.items()
        }
        everyone = sum(numbers.values(), np.zeros(len(least)))
        likely = _OF_ALL * mean_error * everyone / max(everyone.sum(), 1e-9)
        shrunk = {kind: own + likely for kind, own in numbers.items()}
        return cls.from_numbers(by, shrunk, least)._known(KNOWN * mean_error)

    def _known(self, number: float) -> Self:
        """The kinds of which there are so many workplaces; of the others nothing is known apart."""
        chosen = np.flatnonzero(self.weights[:-1] >= number) if self.attributes else np.arange(1)
        rows = np.append(chosen, len(self.kinds))
        kinds = tuple(self.kinds[i] for i in chosen)
        return replace(self, kinds=kinds, weights=self.weights[rows], shares=self.shares[rows])

    @cached_property
    def greatest(self) -> Integers:
        """The greatest size of each class."""
        return np.append(self.least[1:] - 1, int(self.least[-1] * (1 + _STEP)))

    @cached_property
    def sizes(self) -> Integers:
        """A size for each class, in its middle."""
        middle = np.sqrt(np.maximum(self.least, 0.25) * np.maximum(self.greatest, 0.25))
        return np.where(self.least == self.greatest, self.least, np.rint(middle)).astype(np.int64)

    @cached_property
    def up_to(self) -> Array:
        """The share of workplaces in each class or a smaller one."""
        found: Array = np.minimum(np.cumsum(self.shares, axis=1), 1.0)
        return found

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of the sizes up to each class."""
        sizes = self.sizes.astype(np.float64)
        below = np.maximum(self.up_to, 1e-300)
        mean = np.cumsum(self.shares * sizes, axis=1) / below
        square = np.cumsum(self.shares * sizes**2, axis=1) / below
        return mean, np.maximum(square - mean**2, 0.0)

    def told_apart_by(self, attributes: tuple[str, ...]) -> SizeDistribution:
        """The distribution by those of its attributes that are among some."""
        kept = [i for i, name in enumerate(self.attributes) if name in attributes]
        if len(kept) == len(self.attributes):
            return self
        found: dict[Kind, Array] = {}
        for kind, weight, shares in zip(self.kinds, self.weights, self.shares, strict=False):
            key = tuple(kind[i] for i in kept)
            found[key] = found.get(key, np.zeros(len(self.least))) + weight * shares
        names = tuple(self.attributes[i] for i in kept)
        if not found or not names:  # all kinds together, those that are not known apart among them
            found = {(): self.weights[-1] * self.shares[-1]}
            names = ()
        return SizeDistribution.from_numbers(names, found, self.least)

    def with_shares(self, numbers: Array) -> SizeDistribution:
        """The same kinds with other numbers of workplaces in the classes."""
        return replace(self, shares=numbers / numbers.sum(1, keepdims=True))

    def rows_of(self, table: pa.Table) -> Integers:
        """The kind of every row of a table: the last where it is not known."""
        if not self.attributes:
            return np.zeros(table.num_rows, dtype=np.int64)
        known = MappingProxyType({tuple(map(str, kind)): i for i, kind in enumerate(self.kinds)})
        columns = [table[name] for name in self.attributes]
        first, back = told_apart(columns)
        keys = zip(*(map(str, one.take(first).to_pylist()) for one in columns), strict=True)
        found = [known.get(key, len(self.kinds)) for key in keys]
        return np.array(found, dtype=np.int64)[back]


def told_apart(
    columns: Sequence[pa.ChunkedArray[Any]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each combination of values, and which of them every row has."""
    first, back = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
    for column in columns:
        coded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
        both = back * len(coded.dictionary) + coded.indices.to_numpy()
        if len(first) * len(coded.dictionary) > _MANY * len(both):
            _, first, back = np.unique(both, return_index=True, return_inverse=True)
            continue
        place = np.full(len(first) * len(coded.dictionary), -1)
        place[both[::-1]] = np.arange(len(both))[::-1]
        first = place[place >= 0]
        back = (np.cumsum(place >= 0) - 1)[both]
    return first, back


def usual_sizes(names: tuple[str, ...] = (), kinds: Iterable[Kind] = ((),)) -> SizeDistribution:
    """Sizes as most are, before any is known: their logarithms are normal."""
    least = size_classes()
    at = np.maximum(least, 0.5)
    wide = np.diff(np.append(least, least[-1] * 1.1))
    usual = np.exp(-((np.log(at / USUAL_MEDIAN) / USUAL_DEVIATION) ** 2) / 2) * wide / at
    return SizeDistribution.from_numbers(names, dict.fromkeys(kinds, usual), least)


def _falling(sizes: Integers, noisy: Array, most: float, mean_error: float) -> Array:
    """The numbers nearest to noisy ones that do not rise with the size.

    Where they are few they are lost in the noise: a power of the size follows, fitted to those
    before.
    """
    counts: Array = np.clip(not_rising(noisy), 0.0, most)
    few = (counts < _RELIABLE * mean_error) & (sizes > _SMALL)
    if not few.any():
        return counts
    first = int(np.argmax(few))
    fitted = np.flatnonzero(counts[:first] < _FITTED * _RELIABLE * mean_error)
    start = counts[first - 1] if first else min(most, _RELIABLE * mean_error)
    at = sizes[max(first - 1, 0)]
    power = _USUAL_POWER
    if len(fitted) > 2 and sizes[fitted[0]] > _SMALL:
        logs, numbers = np.log(sizes[fitted]), np.log(counts[fitted])
        slope, level = np.polyfit(logs, numbers, 1, w=counts[fitted])
        power = float(np.clip(-slope, _LEAST_POWER, _MOST_POWER))
        start = min(float(np.exp(level + slope * np.log(at))), most)
    counts[first:] = start * (sizes[first:] / at) ** -power
    return np.minimum.accumulate(counts)


def not_rising(numbers: Array) -> Array:
    """The numbers nearest to some, by the sum of squares, of which none is above one before it.

    Neighbours that rise are pooled.  (That is what SciPy's isotonic regression does, in the same
    order and so to the last digit, without a second for loading all of its optimizers.)
    """
    means: list[float] = []
    weights: list[float] = []
    backwards = numbers[::-1].tolist()
    i, last = 0, len(backwards) - 1
    while i <= last:
        mean, weight = backwards[i], 1.0
        if means and means[-1] >= mean:
            before = weights.pop()
            total, weight = before * means.pop() + mean, 1.0 + before
            mean = total / weight
            while i < last and mean >= backwards[i + 1]:
                i += 1
                total, weight = total + backwards[i], weight + 1.0
                mean = total / weight
            while means and means[-1] >= mean:
                before = weights.pop()
                total, weight = total + before * means.pop(), weight + before
                mean = total / weight
        means.append(mean)
        weights.append(weight)
        i += 1
    found: Array = np.repeat(means, np.array(weights, dtype=np.int64))[::-1]
    return found


def _classed(many: float, sizes: Integers, counts: Array, least: Integers) -> Array:
    """Numbers in each class, from numbers of workplaces with at least so many workers."""
    logs = np.log(np.maximum(np.append(many, counts), 1e-9))
    at = np.log(np.append(0, sizes) + 1.0)
    found = np.exp(np.interp(np.log(least + 1.0), at, logs))
    found *= np.maximum(least / max(sizes[-1], 1), 1.0) ** -_USUAL_POWER  # beyond the last
    return -np.diff(np.append(np.minimum.accumulate(found), 0.0))
