"""The same table by methods of others: how wrong it is, and what an attacker can tell from it.

Jobs by place, sector and ownership are published

- by eree at one alpha and epsilon, and by noise infusion;
- with noise for one worker, as libraries of differential privacy have it whose unit is a row;
- with noise for a workplace of bounded size, as they have it whose unit is a workplace;
- by noise on the roots of the sizes of establishments (EGDP, arXiv 2509.01597): each adds
  ((2 sqrt x + Z / mu) / 2)^2 - 1 / (4 mu^2), which is x in the mean;
- by suppression of cells.

What an attacker can tell is the probability to find that a workplace grew by a tenth, or by one
worker, by a test with 5% of false alarms, at best and with all else known.  For a pure loss of
epsilon it is at most min(0.05 e^epsilon, 1 - 0.95 e^-epsilon); for mu-Gaussian privacy and two
sizes that are u units apart, u = 2 |sqrt x - sqrt x'|, it is Phi(Phi^-1(0.05) + u mu).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray
from scipy.stats import norm

from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.mechanisms.registry import mechanism
from eree.policy.neighbours import Exact, Strong, exact, steps_between
from eree.random.exact import Array, Integers
from eree_study.legacy.infusion import RAMP
from eree_study.papers.comparison import infusions, seeded
from eree_study.papers.study import Study, begin, population_of
from eree_study.papers.workloads import PLACES, Counted
from eree_study.synth.population import USUAL, Progress, assumptions_named

#: Sizes of workplaces at which the guarantees are compared, and false alarms of the attacker.
SIZES, FALSE_ALARMS = (10, 100, 1_000), 0.05
#: The size at which EGDP's mu is chosen so that the growth is found as often as under eree.
_ALIKE = 100
#: Bounds on workplaces that are tried; the best one is taken, as no office could.
_THETAS = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
#: A cell is withheld with fewer workplaces, or if the second largest could tell the largest to
#: within this share (the p% rule).
_FEWEST, _P = 3, 0.15
_INFUSION = "noise infusion"


@dataclass(frozen=True)
class Method:
    """A method: its error in all, in percent of jobs, and what an attacker finds with it.

    `growth` and `worker` are probabilities for workplaces of 10, 100 and 1,000 workers, None where
    nothing bounds them.
    """

    name: str
    parameter: str
    error: float
    ratio: float
    withheld: float
    growth: tuple[float, ...] | None
    worker: tuple[float, ...] | None

    @property
    def words(self) -> str:
        """All on a line."""
        found = "".join(f"{p:>8.3f}" for p in self.growth or ()) or "    nothing bounds it"
        kept = f"{self.withheld:.0%}" if self.withheld else ""
        return f"{self.name:34}{self.error:>7.2f}%{self.ratio:>8.2f}{kept:>9}{found}"


@dataclass(frozen=True)
class OtherMethods:
    """What a comparison found.

    Attributes:
        study: What was compared, on what.
        methods: What each method is.
        file: The file that was written.

    Examples:
        >>> found = eree_study.other_methods("compared", jobs=5_000, trials=1)
        >>> [method.name for method in found.methods][:2]
        ['eree', 'noise for one worker']
    """

    study: Study
    methods: tuple[Method, ...]
    file: Path

    @property
    def words(self) -> list[str]:
        """A line for each method."""
        sizes = "".join(f"{size:>8,}" for size in SIZES)
        head = f"{'':34}{'error':>8}{'ratio':>8}{'withheld':>9}{sizes}"
        return [head, *(method.words for method in self.methods)]

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**self.study.settings(), "methods": [asdict(one) for one in self.methods]}


def other_methods(
    out: str | os.PathLike[str],
    *,
    jobs: int = 250_000,
    trials: int = 3,
    seed: int = 1,
    assumptions: str = USUAL,
    alpha: Exact = "0.1",
    epsilon: Exact = 2,
    progress: Progress | None = None,
) -> OtherMethods:
    """Publish the table of a synthetic population by each method; writes `others.csv`.

    Args:
        out: A new or empty folder.
        jobs: How many jobs the population has.
        trials: How often each method is tried.
        seed: Where population and noise start.
        assumptions: Those of the population: "usual", or "other".
        alpha: The growth that is protected.
        epsilon: The privacy loss.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.other_methods("others", jobs=5_000, trials=1).file.name
        'others.csv'
    """
    tell = progress or (lambda _step, _done: None)
    if trials < 1:
        raise Refusal("a study needs at least one trial")
    assumptions_named(assumptions)
    strong, price = Strong(alpha), float(exact(epsilon, "epsilon"))
    study = Study(Path(out), jobs, trials, seed, assumptions)
    begin(study)
    tables = population_of(study, lambda step, done: tell(step, 0.4 * done))
    tell("counting", 0.4)
    counted = Counted.of(tables, PLACES)
    cells = tabulate(tables, by=PLACES).confidential
    places = [
        np.unique(cells[name].to_numpy(zero_copy_only=False), return_inverse=True)[1]
        for name in PLACES
    ]
    usual = _error(counted, list(infusions(counted, RAMP, trials, seed, _INFUSION)))

    def method(
        name: str,
        parameter: str,
        published: list[Array],
        growth: tuple[float, ...] | None = None,
        worker: tuple[float, ...] | None = None,
        withheld: float = 0.0,
    ) -> Method:
        error = _error(counted, published)
        whole = max(int(counted.counts.sum()), 1)
        return Method(name, parameter, 100 * error / whole, error / usual, withheld, growth, worker)

    def drawn(
        of: str, counts: Integers, name: str, losses: Callable[[int, int], float], **given: Any
    ) -> Method:
        made = mechanism(of, **given)
        published = [
            made.draw(counts, counted.largest, random=seeded(seed, name, trial)).astype(np.float64)
            for trial in range(trials)
        ]
        growth = tuple(_found(losses(x, _grown(x))) for x in SIZES)
        worker = tuple(_found(losses(x, x + 1)) for x in SIZES)
        return method(name, f"epsilon {price:g}", published, growth, worker)

    def ours(smaller: int, larger: int) -> float:
        return price * steps_between(strong, smaller, larger)

    def each(smaller: int, larger: int) -> float:
        return price * (larger - smaller)

    def found() -> Iterator[Method]:
        yield drawn("auto", counted.counts, "eree", ours, alpha=alpha, epsilon=epsilon)
        tell("others", 0.6)
        one = "edge-geometric"
        yield drawn(one, counted.counts, "noise for one worker", each, epsilon=epsilon)
        bounded = [
            drawn(
                one,
                _clamped(counted, theta),
                f"workplaces clamped at {theta:,}",
                partial(_clamped_loss, price, theta),
                epsilon=exact(epsilon, "epsilon") / theta,
            )
            for theta in _THETAS
        ]
        yield min(bounded, key=lambda one: one.error)
        tell("others", 0.8)
        mu = _alike(ours(_ALIKE, _grown(_ALIKE)))
        units = [2 * (sqrt(_grown(x)) - sqrt(x)) for x in SIZES]
        single = [2 * (sqrt(x + 1) - sqrt(x)) for x in SIZES]
        yield method(
            "noise on roots (EGDP)",
            f"mu {mu:.3g}",
            [_on_roots(counted, mu, seed, trial) for trial in range(trials)],
            tuple(_gaussian(mu * u) for u in units),
            tuple(_gaussian(mu * u) for u in single),
        )
        hidden = withheld(counted, places)
        shown = _spread_evenly(counted.counts, hidden, places)
        some = counted.counts > 0
        share = float(hidden[some].mean()) if some.any() else 0.0
        yield method("suppression of cells", f"{_FEWEST} and {_P:.0%}", [shown], withheld=share)
        yield Method(_INFUSION, "0.05 to 0.15", 100 * usual / study.jobs, 1.0, 0.0, None, None)

    methods = tuple(found())
    file = study.folder / "others.csv"
    arrow_csv.write_csv(pa.Table.from_pylist([_row(one) for one in methods]), file)
    tell("done", 1.0)
    return OtherMethods(study, methods, file)


def _row(one: Method) -> dict[str, Any]:
    plain = {k: v for k, v in asdict(one).items() if k not in ("growth", "worker")}
    for what, found in (("growth", one.growth), ("worker", one.worker)):
        for size, value in zip(SIZES, found or (None,) * len(SIZES), strict=True):
            plain[f"{what}_{size}"] = value
    return plain


def _error(counted: Counted, published: list[Array]) -> float:
    """The sum of all errors in jobs, as the mean of trials."""
    return float(np.mean([np.abs(one - counted.counts).sum() for one in published]))


# ------------------------------------------------------------------------------ what is told


def _grown(size: int) -> int:
    return size + max(size // 10, 1)


def _found(loss: float) -> float:
    """The greatest probability to find what a pure loss protects."""
    if loss > 700:
        return 1.0
    return min(FALSE_ALARMS * exp(loss), 1 - (1 - FALSE_ALARMS) * exp(-loss), 1.0)


def _gaussian(distance: float) -> float:
    """The probability to find a difference of so many standard deviations."""
    return float(norm.cdf(norm.ppf(FALSE_ALARMS) + distance))


def _clamped_loss(epsilon: float, theta: int, smaller: int, larger: int) -> float:
    """The loss between two sizes of a workplace that is clamped to theta."""
    return epsilon * (min(larger, theta) - min(smaller, theta)) / theta


def _alike(epsilon: float) -> float:
    """The mu at which growth of a workplace of 100 is found as often as at this loss."""
    away = 2 * (sqrt(_grown(_ALIKE)) - sqrt(_ALIKE))
    return float(norm.ppf(_found(epsilon)) - norm.ppf(FALSE_ALARMS)) / away


# ----------------------------------------------------------------------------------- methods


def _clamped(counted: Counted, theta: int) -> Integers:
    """Counts in which no workplace has more workers than theta."""
    jobs = np.minimum(counted.rows.jobs, theta).astype(np.float64)
    return np.bincount(counted.rows.cell, jobs, len(counted.counts)).astype(np.int64)


def _on_roots(counted: Counted, mu: float, seed: int, trial: int) -> Array:
    """EGDP: every workplace, those without workers too, has noise on twice the root of its size."""
    groups, sizes = counted.by_workplace()
    root = 2 * np.sqrt(sizes[:, 0].astype(np.float64))
    random = np.random.default_rng(int(seeded(seed, "roots", trial).words(1)[0]))
    noisy = ((root + random.normal(0, 1 / mu, len(root))) / 2) ** 2 - 1 / (4 * mu**2)
    return np.bincount(groups, noisy, len(counted.counts)).astype(np.float64)


def withheld(counted: Counted, places: list[NDArray[np.intp]]) -> NDArray[np.bool_]:
    """The cells that suppression keeps back, first because of what they tell, then to hide those.

    Sums by place and ownership, and by sector and ownership, are published: no line of either has
    one withheld cell alone.  The smallest cell of a line is taken then.  Cells without jobs are not
    withheld.
    """
    rows, counts = counted.rows, counted.counts
    order = np.lexsort((-rows.jobs, rows.cell))
    cell, jobs = rows.cell[order], rows.jobs[order]
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    largest, second = np.zeros_like(counts), np.zeros_like(counts)
    largest[cell[first]] = jobs[first]
    follows = first[(first + 1 < len(cell))]
    follows = follows[cell[follows + 1] == cell[follows]]
    second[cell[follows]] = jobs[follows + 1]
    told = (counted.workplaces < _FEWEST) | (counts - largest - second < _P * largest)
    hidden: NDArray[np.bool_] = told & (counts > 0)
    place, sector, ownership = places
    lines = [place * (ownership.max() + 1) + ownership, sector * (ownership.max() + 1) + ownership]
    while True:
        before = hidden.copy()
        for line in lines:
            alone = np.bincount(line, hidden)[line] == 1
            open_ones = np.flatnonzero(alone & ~hidden & (counts > 0))
            smallest = open_ones[np.lexsort((counts[open_ones], line[open_ones]))]
            hidden[smallest[np.diff(line[smallest], prepend=-1) != 0]] = True
        if (hidden == before).all():
            return hidden


def _spread_evenly(
    counts: Integers, hidden: NDArray[np.bool_], places: list[NDArray[np.intp]]
) -> Array:
    """What a reader makes of withheld cells: what is left of the place and ownership, evenly."""
    place, _, ownership = places
    line = place * (ownership.max() + 1) + ownership
    left = np.bincount(line, np.where(hidden, counts, 0))
    number = np.maximum(np.bincount(line, hidden), 1)
    return np.where(hidden, (left / number)[line], counts).astype(np.float64)
