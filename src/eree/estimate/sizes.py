"""How large workplaces are, as the public knows it: numbers of workplaces by class of size."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.policy.schema import Schema
from eree.random.exact import Array
from eree.workload import Marginal

Integers = NDArray[np.int64]
#: The values of the attributes by which sizes are given apart, as texts.
Key = tuple[str, ...]
#: The number of a row of a file, and what stands in it.
Row = tuple[int, Mapping[str, str | None]]

FROM, TO, WORKPLACES, JOBS, SHARE = "from", "to", "workplaces", "jobs", "share"
MOST_ROWS = 100_000
GREATEST_SIZE = 10**8
GREATEST_NUMBER = 10**9
#: As many sizes stand for the workplaces of a class; more where it has no end.
_POINTS, _OPEN_POINTS = 100, 2_000
#: The slope of densities x^-slope within a class where nothing is said, and how many e-folds of
#: density a class may have.
_DEFAULT_SLOPE, _STEEPEST = 2.0, 600.0


@dataclass(frozen=True)
class SizeClass:
    """So many workplaces of `low` to `high` workers; without an end, `high` is None.

    `jobs` is what they have together, if that is known: sizes within the class are then spread so
    that they have just that.
    """

    low: int
    high: int | None
    workplaces: int
    jobs: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.low <= GREATEST_SIZE:
            raise Refusal(f"from must be a number of workers from 0 to {GREATEST_SIZE:,}")
        if self.high is not None and not self.low <= self.high <= GREATEST_SIZE:
            raise Refusal(f"to must be a number of workers from `from` to {GREATEST_SIZE:,}")
        if not 0 <= self.workplaces <= GREATEST_NUMBER:
            raise Refusal(f"workplaces must be a number from 0 to {GREATEST_NUMBER:,}")
        if self.high is None and (self.jobs is None or self.low == 0):
            raise Refusal("a class without an end needs its jobs, and workers to begin with")
        if self.jobs is not None and not self._holds(self.jobs):
            raise Refusal("so many workplaces of these sizes cannot have so many jobs")

    def _holds(self, jobs: int) -> bool:
        top = GREATEST_SIZE if self.high is None else self.high
        return self.low * self.workplaces <= jobs <= top * self.workplaces

    def typical(self) -> tuple[Array, Array]:
        """Sizes that stand for the workplaces of the class, and how many each stands for."""
        most = _OPEN_POINTS if self.high is None else _POINTS
        points = min(self.workplaces, most)
        if not points:
            return np.zeros(0), np.zeros(0)
        weight = np.full(points, self.workplaces / points)
        mean = self.low if self.jobs is None else self.jobs / self.workplaces
        if self.high == self.low or (mean in (self.low, self.high) and self.jobs is not None):
            return np.full(points, float(mean)), weight
        left = (np.arange(points) + 0.5) / points
        slope = _DEFAULT_SLOPE
        if self.jobs is not None:
            slope = self._slope(left, mean)
        return self._sizes(left, slope), weight

    def _slope(self, left: Array, mean: float) -> float:
        """The slope at which sizes have the mean: the steeper, the smaller they are."""
        steepest = _STEEPEST / max(self._log_range, 0.1)
        low, high = (1.01 if self.high is None else -steepest), steepest
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._sizes(left, middle).mean() > mean else (low, middle)
        return high

    @property
    def _log_range(self) -> float:
        """From the least size to the greatest, as a logarithm."""
        start = max(self.low - 0.5, 0.5)
        return 1.0 if self.high is None else float(np.log((self.high + 0.5) / start))

    def _sizes(self, left: Array, slope: float) -> Array:
        """The sizes below which these shares lie, for a density x^-slope."""
        start, power = max(self.low - 0.5, 0.5), 1 - slope
        if self.high is None:
            sizes = start * (1 - left) ** (1 / power)
        else:
            if abs(power) < 1e-9:
                sizes = start * np.exp(left * self._log_range)
            else:
                sizes = start * (1 + left * np.expm1(power * self._log_range)) ** (1 / power)
        top = GREATEST_SIZE if self.high is None else self.high
        return np.clip(np.round(sizes), self.low, top)


@dataclass(frozen=True)
class WorkplaceSizes:
    """Classes of sizes of workplaces; `read` makes them of a file.

    Attributes:
        attributes: Public attributes of workplaces that classes are apart by, if any.
        classes: The classes, for each combination of their values.

    Examples:
        >>> sizes = eree.WorkplaceSizes.read("sizes.csv", eree.read_schema("data"))
        >>> [one.low for one in sizes.classes[()]]
        [1, 10]
    """

    attributes: tuple[str, ...]
    classes: Mapping[Key, Sequence[SizeClass]]

    @classmethod
    def read(cls, file: str | os.PathLike[str], schema: Schema) -> WorkplaceSizes:
        """The classes of a CSV file: from, to, workplaces, and perhaps jobs and attributes.

        `to` is empty in a class without an end.  Other columns must be public attributes of
        workplaces.
        """
        path = Path(file)
        names, lines = _lines(path)
        attributes = _attributes(schema, names)
        found: dict[Key, list[SizeClass]] = {}
        for number, line in lines:
            key = tuple(line[name] or "" for name in attributes)
            found.setdefault(key, []).append(_class(path.name, number, line))
        return cls(attributes, MappingProxyType(found)).checked(path.name)

    def checked(self, name: str) -> WorkplaceSizes:
        """Refuse classes that overlap, or none."""
        if not self.classes:
            raise Refusal(f"{name} has no rows")
        for classes in self.classes.values():
            ends = [(one.low, one.high) for one in classes if one.workplaces]
            ends.sort(key=lambda end: end[0])
            if not ends:
                raise Refusal(f"{name} has a group of classes without workplaces")
            for (_, high), (low, _) in pairwise(ends):
                if high is None or low <= high:
                    raise Refusal(f"{name} has classes that overlap; each size lies in one")
        return self

    def typical(self, key: Key) -> tuple[Array, Array]:
        """Sizes that stand for the workplaces of a key, and how many each stands for."""
        if key not in self.classes:
            raise _nothing("sizes", self.attributes, key)
        parts = [one.typical() for one in self.classes[key]]
        sizes, numbers = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(sizes, kind="stable")
        return sizes[order], numbers[order]


@dataclass(frozen=True)
class WorkerShares:
    """What shares of workers have which values of some attributes; `read` makes them of a file.

    Attributes:
        attributes: Public attributes of workplaces that shares are apart by, if any.
        worker: The worker attributes.
        shares: For each combination of the public ones, the share of each of theirs.

    Examples:
        >>> shares = eree.WorkerShares.read("shares.csv", eree.read_schema("data"))
        >>> shares.shares[()][("F",)]
        0.48
    """

    attributes: tuple[str, ...]
    worker: tuple[str, ...]
    shares: Mapping[Key, Mapping[Key, float]]

    @classmethod
    def read(cls, file: str | os.PathLike[str], schema: Schema) -> WorkerShares:
        """The shares of a CSV file: worker attributes, and share, which add up to 1."""
        path, found = Path(file), dict[Key, dict[Key, float]]()
        names, lines = _lines(path)
        worker = tuple(n for n in names if n in schema.attributes and _owner(schema, n) == "worker")
        if SHARE not in names or not worker:
            raise Refusal(f"a file of shares needs worker attributes and the column {SHARE}")
        others = _public(schema, (name for name in names if name not in (SHARE, *worker)))
        for number, line in lines:
            key, people = (tuple(line[name] or "" for name in some) for some in (others, worker))
            of_key = found.setdefault(key, {})
            if people in of_key:
                raise Refusal(f"{path.name}, row {number}: these workers have a share already")
            try:
                of_key[people] = float(line[SHARE] or "")
            except ValueError:
                raise Refusal(f"{path.name}, row {number}: share must be a number") from None
            if not 0 <= of_key[people] <= 1:
                raise Refusal(f"{path.name}, row {number}: share must be from 0 to 1")
        if not found or any(abs(sum(of_key.values()) - 1) > 0.01 for of_key in found.values()):
            raise Refusal(f"the shares of {path.name} do not add up to 1")
        return cls(others, worker, MappingProxyType(found))

    def of_cells(self, schema: Schema, marginal: Marginal, key: Key) -> list[float]:
        """The shares of a marginal's worker cells, in their order."""
        by = [name for name in marginal.by if _owner(schema, name) == "worker"]
        kept = {
            name: {str(value) for value in values}
            for name, values in marginal.where.items()
            if _owner(schema, name) == "worker"
        }
        for name in (*by, *kept):
            if name not in self.worker:
                raise Refusal(f"the shares say nothing of {name}; add it to their columns")
        if key not in self.shares:
            raise _nothing("shares", self.attributes, key)
        values = [list(map(str, schema.attributes[name].values or ())) for name in by]
        cells = dict.fromkeys(product(*values), 0.0)
        for people, share in self.shares[key].items():
            worker = dict(zip(self.worker, people, strict=True))
            cell = tuple(worker[name] for name in by)
            if cell not in cells:
                raise Refusal("the shares have workers with values that the schema does not know")
            if all(worker[name] in some for name, some in kept.items()):
                cells[cell] += share
        return list(cells.values())


def _lines(path: Path) -> tuple[list[str], list[Row]]:
    """The columns of a CSV file, and its rows with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as opened:
            lines = csv.DictReader(opened, restval="")
            names = list(lines.fieldnames or ())
            rows: list[Row] = list(zip(range(2, MOST_ROWS + 3), lines, strict=False))
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise Refusal(f"{path} is not a CSV file in UTF-8") from None
    if len(rows) > MOST_ROWS:
        raise Refusal(f"{path.name} has more than {MOST_ROWS:,} rows")
    if len(set(names)) < len(names):
        raise Refusal(f"{path.name} names a column twice")
    return names, rows


def _attributes(schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    for needed in (FROM, TO, WORKPLACES):
        if needed not in names:
            raise Refusal(f"a file of sizes needs the columns {FROM}, {TO} and {WORKPLACES}")
    return _public(schema, (n for n in names if n not in (FROM, TO, WORKPLACES, JOBS)))


def _public(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Columns that tell workplaces apart, all of them public."""
    found = tuple(names)
    for name in found:
        attribute = schema.attributes.get(name)
        if attribute is None or attribute.owner != "workplace" or attribute.confidential:
            raise Refusal(f"the column {name!r} is no public attribute of workplaces")
    return found


def _owner(schema: Schema, name: str) -> str:
    return schema.attributes[name].owner


def _nothing(what: str, attributes: Sequence[str], key: Key) -> Refusal:
    where = ", ".join(f"{name} {value}" for name, value in zip(attributes, key, strict=True))
    return Refusal(f"the {what} say nothing of workplaces with {where}; add a row for them")


def _class(file: str, number: int, line: Mapping[str, str | None]) -> SizeClass:
    try:
        low, workplaces = (_whole(line, name) for name in (FROM, WORKPLACES))
        high = _whole(line, TO) if line[TO] else None
        jobs = _whole(line, JOBS) if line.get(JOBS) else None
        return SizeClass(low, high, workplaces, jobs)
    except Refusal as refused:
        raise Refusal(f"{file}, row {number}: {refused}") from None


def _whole(line: Mapping[str, str | None], name: str) -> int:
    text = (line[name] or "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise Refusal(f"{name} must be an integer")
    return int(text)


def steps(greatest: float) -> Integers:
    """Sizes at which a distribution is looked at: each small one, and then by 2%."""
    top = max(int(greatest), 1)
    if top <= 200:
        return np.arange(top + 1)
    more = np.geomspace(200, top, max(int(np.log(top / 200) / np.log(1.02)), 1) + 1)
    return np.unique(np.concatenate([np.arange(200), np.ceil(more).astype(np.int64)]))


def thinned(sizes: Array, numbers: Array, share: float, at: Integers) -> Array:
    """The share of workplaces with at most so many workers of a kind, each so with a probability.

    This is `share`; with 1 these are all workers.
    """
    from scipy.special import bdtr

    if share == 1:
        total = np.concatenate([[0.0], np.cumsum(numbers)])
        found: Array = total[np.searchsorted(sizes, at, side="right")] / total[-1]
        return found
    classes = steps(float(sizes[-1]))
    place = np.searchsorted(classes, sizes, side="left")
    weights = np.bincount(place, weights=numbers, minlength=len(classes))
    some = weights > 0
    mean = np.bincount(place, weights=numbers * sizes, minlength=len(classes))[some] / weights[some]
    workers, up_to = np.round(mean)[:, None].astype(np.int64), at[None, :]
    up_to_each = np.ones((len(workers), len(at)))
    open_ = np.broadcast_to(up_to < workers, up_to_each.shape)
    up_to_each[open_] = bdtr(
        np.broadcast_to(up_to, up_to_each.shape)[open_].astype(np.float64),
        np.broadcast_to(workers, up_to_each.shape)[open_],
        share,
    )
    below: Array = np.einsum("s,sx->x", weights[some] / weights.sum(), up_to_each)
    return np.minimum(below, 1.0)
