"""Does it help to pay for totals of their own, and to reconcile them with the cells below?

The price of a table of place × sector × ownership is split: a share pays for a table of places.
The totals of places are then known twice, from the sums of cells and by themselves.  Least squares
makes one of both, and moves the cells so that they add up to it, each by its part of the variance;
as the scale of the noise is confidential, variances are taken from the noisy counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import eree
from eree.cells import Cell
from eree.random.exact import Integers

TRIALS = 5
SHARES = ("0", "1/10", "1/4", "1/2")


@dataclass(frozen=True)
class Compared:
    """Mean absolute errors at one epsilon and share, as ratios to all of it spent on the cells."""

    epsilon: str
    share: str
    cells: float
    sums: float
    totals: float
    reconciled_cells: float
    reconciled_totals: float


def run(folder: Path, tell: Callable[[str], None]) -> list[Compared]:
    """Compare the splits at two prices."""
    tables = pickle.loads((folder / ".bench-tables.pickle").read_bytes())
    fine = eree.tabulate(tables, by=["place", "sector", "ownership"]).confidential
    coarse = eree.tabulate(tables, by=["place"]).confidential
    starts = np.flatnonzero(np.diff(_codes(fine["place"]), prepend=-1))
    cells = [fine[name].to_numpy() for name in ("count", "largest")]
    places = [coarse[name].to_numpy() for name in ("count", "largest")]
    found = []
    for epsilon in ("1", "2"):
        base = np.ones(2)
        for share in SHARES:
            tell(f"totals at epsilon {epsilon}, share {share}")
            errors = _errors(Fraction(epsilon), Fraction(share), cells, places, starts)
            if share == "0":
                base = errors[:2]
            ratios = errors / base[[0, 1, 1, 0, 1]]
            found.append(Compared(epsilon, share, *map(float, ratios)))
    return found


def _codes(column: object) -> Integers:
    codes: Integers = np.unique(np.asarray(column), return_inverse=True)[1].astype(np.int64)
    return codes


def _errors(
    epsilon: Fraction,
    share: Fraction,
    cells: list[Integers],
    places: list[Integers],
    starts: Integers,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Mean absolute errors of cells, their sums, totals, and both after least squares."""
    below = eree.mechanism("auto", alpha="0.1", epsilon=(1 - share) * epsilon)
    errors = np.zeros((TRIALS, 5))
    truth, group = (
        places[0],
        np.repeat(np.arange(len(starts)), np.diff(starts, append=len(cells[0]))),
    )
    for trial in range(TRIALS):
        noisy = below.draw(*cells, random=eree.SeededRandom(trial)).astype(np.float64)
        sums = np.add.reduceat(noisy, starts)
        errors[trial, :2] = np.abs(noisy - cells[0]).mean(), np.abs(sums - truth).mean()
        if not share:
            errors[trial, 2:] = errors[trial, [1, 0, 1]]
            continue
        above = eree.mechanism("auto", alpha="0.1", epsilon=share * epsilon)
        totals = above.draw(*places, random=eree.SeededRandom(TRIALS + trial)).astype(np.float64)
        spread = _square_error(below) * np.maximum(0.1 * noisy, 1) ** 2
        whole = np.add.reduceat(spread, starts)
        weight = whole / (whole + _square_error(above) * np.maximum(0.1 * totals, 1) ** 2)
        moved = weight * (totals - sums)
        errors[trial, 2] = np.abs(totals - truth).mean()
        errors[trial, 3] = np.abs(noisy + (spread / whole[group]) * moved[group] - cells[0]).mean()
        errors[trial, 4] = np.abs(sums + moved - truth).mean()
    return errors.mean(0)


def _square_error(mechanism: eree.Mechanism) -> float:
    """The mean square error in units of the squared scale, where the scale is large."""
    return (mechanism.mean_error(Cell(0, 10_000))[1] / 1_000) ** 2


def table(results: list[Compared]) -> str:
    """The comparison as a table."""
    lines = [
        "| epsilon | share for totals | cells | sums of cells | totals alone | cells, reconciled"
        " | totals, reconciled |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.epsilon} | {r.share} | {r.cells:.2f} | {r.sums:.2f} | {r.totals:.2f}"
        f" | {r.reconciled_cells:.2f} | {r.reconciled_totals:.2f} |"
        for r in results
    ]
    return "\n".join([*lines, ""])
