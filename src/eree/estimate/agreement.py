"""Numbers that agree across all tables of a release.

What two tables both count (the total of the age groups of a tract, the sum of its industries) has
two noisy values.  The agreeing estimates x are the weighted least squares of all measurements y at
once: of all numbers that agree those nearest to y, as the covariance S of the noise has it,

    x = y - S A' (A S A')^-1 A y,   A x = 0 says that tables agree.

S goes by public facts (how many workplaces of which kind a cell has, and what sizes such workplaces
have) and never by the counts that it weighs: an estimate that trusts small noisy counts more would
be too small.  The error of x is P e, e the noise and P the same matrix; how large it is follows
from the calibrated noise, by products of P with random signs that anyone can make again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from eree.errors import Refusal
from eree.estimate.calibrated import ReleaseKey, calibrated_table
from eree.estimate.calibration import Errors
from eree.estimate.covariance import Covariance, calibrated_covariance, public_covariance
from eree.estimate.linking import Link, links_of, non_negative, rounded
from eree.estimate.measured import MeasuredTable
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom
from eree.release.release import Release

#: Estimates are in hundredths of a job.
UNIT = 100
#: Products with random signs, and how many are made at once.
_PROBES, _AT_ONCE, _SEED = 64, 4, 1
#: Conjugate gradients stop when the residual is this part of the right-hand side, or give up.
_NEAR, _MOST_STEPS = 1e-10, 5_000


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreeing estimates of the tables of a release.

    `estimates` are in hundredths of a job, `counts` are integers of zero or more, which are too
    large on average.  Both have one value for each row of the tables, one table after another.
    """

    tables: Mapping[str, slice]
    estimates: Integers
    counts: Integers
    links: Sequence[Link]
    noise: Covariance
    _solver: _Solver

    @property
    def changes(self) -> bool:
        """Whether any two tables that were drawn apart count the same."""
        return self._solver.binds

    @cached_property
    def apart(self) -> float:
        """By how much numbers that mean the same still differ, in jobs: 0 unless links cross."""
        every = (np.abs(link.apart(self.estimates)).max(initial=0) for link in self.links)
        return max(every, default=0) / UNIT

    @cached_property
    def apart_counts(self) -> int:
        """The same for the integers of zero or more."""
        every = (int(np.abs(link.apart(self.counts)).max(initial=0)) for link in self.links)
        return max(every, default=0)

    @property
    def words(self) -> str:
        """What was made to agree, on a line."""
        numbers = sum(link.keys for link in self.links)
        left = f"but for {self.apart:g} jobs" if self.apart else "in every one"
        counts = f"biased counts differ by up to {self.apart_counts:,}"
        return (
            f"tables agree {left} of {numbers:,} numbers that two of them have"
            f"{f'; {counts}' if self.apart_counts else ''}"
        )

    def as_json(self) -> dict[str, float]:
        """The same as plain data."""
        return {
            "numbers": sum(link.keys for link in self.links),
            "apart": self.apart,
            "biased_counts_apart": self.apart_counts,
        }

    @cached_property
    def errors(self) -> Errors:
        """How large the errors of all cells are beside their noise."""
        return self.errors_of(lambda values: values)

    def errors_of(self, sums: Callable[[Array], Array]) -> Errors:
        """The same of sums of cells, which are made of columns of all cells."""
        number = len(sums(np.zeros((len(self.estimates), 1))))
        if not self.changes:
            return Errors(np.ones(number), np.ones(number))
        before, both, after = np.zeros((3, number))
        for noise, error in self._errors():
            one, two = sums(noise), sums(error)
            before += np.square(one).sum(1)
            both += (one * two).sum(1)
            after += np.square(two).sum(1)
        known = (before > 0) & (after > 0)
        factor = np.sqrt(np.divide(after, before, out=np.ones(number), where=known))
        own = np.divide(np.square(both), before * after, out=np.ones(number), where=known)
        return Errors(factor, own)

    def _errors(self) -> Iterator[tuple[Array, Array]]:
        """Noise of random signs as large as the calibrated noise is, and what is left of it."""
        signs = SeededRandom(_SEED)
        for _ in range(0, _PROBES, _AT_ONCE):
            sums = [_signs(signs, len(draw.total)) for draw in self.noise.draws]
            noise = self.noise.root(_signs(signs, len(self.estimates)), sums)
            yield noise, self._solver.agreeing(noise)


def _signs(random: SeededRandom, number: int) -> Array:
    """Columns of numbers that are 1 or -1, as likely as each other."""
    bits = np.unpackbits(random.words(-(-number * _AT_ONCE // 64)).view(np.uint8))
    signs: Array = bits[: number * _AT_ONCE].astype(np.float64).reshape(number, _AT_ONCE)
    return 2 * signs - 1


def agreement_of(release: Release) -> Agreement:
    """The agreeing estimates of all tables of jobs of a release."""
    return _agreement(ReleaseKey(release))


@lru_cache(maxsize=4)
def _agreement(key: ReleaseKey) -> Agreement:
    release = key.release
    names = [n for n in release.tables if not release.of_workplaces(n) and release.about(n)["rows"]]
    if not names:
        raise Refusal("no table of this release counts jobs and has a cell; none can be estimated")
    read = {name: MeasuredTable.read(release, name) for name in names}
    names.sort(key=lambda name: (read[name].measurement.clips, read[name].rows.num_rows))
    tables = {name: read[name] for name in names}
    ends = np.cumsum([0, *(table.rows.num_rows for table in tables.values())]).tolist()
    places = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(names)}
    links = links_of(release, tables)
    solver = _Solver(
        links_of(release, tables, drawn_apart=True), public_covariance(release, tables)
    )
    measured = np.concatenate([_unbiased(release, name, tables[name]) for name in names])
    estimates = rounded(UNIT * solver.agreeing(measured[:, None])[:, 0], links)
    counts = non_negative(estimates / UNIT, links)
    noise = calibrated_covariance(release, tables)
    return Agreement(places, estimates, counts, links, noise, solver)


def _unbiased(release: Release, name: str, table: MeasuredTable) -> Array:
    """Noisy counts without the mean of their noise, which is taken to hundredths of a job."""
    noisy = table.rows["noisy"].to_numpy().astype(np.float64)
    known = calibrated_table(release, name)
    if known is None:
        return noisy
    return noisy - known.bias()


class _Solver:
    """Weighted least squares: numbers that agree, nearest to others by a covariance."""

    def __init__(self, links: Sequence[Link], weights: Covariance) -> None:
        from scipy.sparse import csr_array, vstack

        self._weights, number = weights, len(weights.diagonal)
        rows = [csr_array((0, number)), *(link.matrix(number) for link in links)]
        self._agree = vstack(rows).tocsr()
        self._transposed = self._agree.T.tocsr()

    @property
    def binds(self) -> bool:
        """Whether there is anything to agree on."""
        return bool(self._agree.shape[0])

    def agreeing(self, values: Array) -> Array:
        """The agreeing numbers nearest to columns of values."""
        apart = self._agree @ values
        return values - self._weights.times(self._transposed @ self._solved(apart))

    def _product(self, values: Array) -> Array:
        found: Array = self._agree @ self._weights.times(self._transposed @ values)
        return found

    @cached_property
    def _scale(self) -> Array:
        """One over about the diagonal of A S A': as if all noise were independent."""
        diagonal = self._agree.power(2) @ self._weights.diagonal
        found: Array = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        return found[:, None]

    def _solved(self, right: Array) -> Array:
        """Columns of solutions of A S A' z = right, by conjugate gradients."""
        found = np.zeros_like(right)
        left = right.copy()
        ahead = self._scale * left
        way, size = ahead.copy(), (left * ahead).sum(0)
        enough = _NEAR**2 * size
        for _ in range(_MOST_STEPS):
            going = size > enough
            if not going.any():
                return found
            product = self._product(way)
            along = (way * product).sum(0)
            step = np.divide(size, along, out=np.zeros_like(size), where=going & (along > 0))
            found += step * way
            left -= step * product
            ahead = self._scale * left
            before, size = size, (left * ahead).sum(0)
            way = ahead + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * way
        raise Refusal("no numbers were found on which the tables of this release agree")
