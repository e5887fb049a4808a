"""Pictures of a synthetic population: how exposed its cells are, and how well released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from eree.figures.style import CALM, INK, MIDDLE, PALE, STRONG
from eree.random.exact import Integers
from eree_study.figures import open_axes, save


def exposure_figure(
    path: Path,
    *,
    counts: Integers,
    strata: Sequence[str],
    alone: Sequence[float],
    dominated: Sequence[float],
) -> None:
    """How many jobs the cells hold, and in how many of them one workplace shows through."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))

    edges = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10**12]
    names = ["0", "1", "2–4", "5–9", "10–19", "20–49", "50–99"]
    names += ["100–199", "200–499", "500–999", "1,000+"]
    cells, _ = np.histogram(counts, edges)
    left.barh(names, cells, color=INK)
    left.invert_yaxis()
    left.set_xlabel("cells")
    left.set_ylabel("jobs in the cell")
    left.set_title("Most cells are small", loc="left", fontweight="bold")

    rest = [1 - a - d for a, d in zip(alone, dominated, strict=True)]
    both = [a + d for a, d in zip(alone, dominated, strict=True)]
    right.barh(strata, alone, color=STRONG, label="one workplace only")
    right.barh(strata, dominated, left=alone, color=MIDDLE, label="one holds half or more")
    right.barh(strata, rest, left=both, color=PALE, label="spread over several")
    right.invert_yaxis()
    right.set_xlim(0, 1)
    right.xaxis.set_major_formatter(PercentFormatter(1.0))
    right.set_xlabel("share of the cells")
    right.set_ylabel("population of the place")
    right.set_title("Many cells show one workplace", loc="left", fontweight="bold")
    right.legend(
        loc="upper right", bbox_to_anchor=(1.0, -0.16), ncols=3, frameon=False, columnspacing=1.2
    )
    for axes in (left, right):
        open_axes(axes)
    title = "Cells of place × sector × ownership in a synthetic population"
    figure.suptitle(title, color=INK)
    save(figure, path, title)


@dataclass(frozen=True)
class Released:
    """A released table beside the truth.

    `found` and `promised` are mean errors as shares of the jobs, for each stratum of places.
    """

    name: str
    counts: Integers
    released: Integers
    found: Sequence[float]
    promised: Sequence[float]


def released_figure(
    path: Path, *, tables: Sequence[Released], strata: Sequence[str], note: str
) -> None:
    """Released counts against true ones, and their error beside the one that was promised.

    `note` says why this may be shown: it stands in the picture, and in its file.
    """
    figure = Figure(figsize=(11, 4.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    styles = list(zip(tables, (INK, CALM), "oD", (-0.15, 0.15), strict=True))

    most = max(int(table.counts.max()) for table in tables)
    edge = min(max(most, *(int(table.released.max()) for table in tables)), 10 * most)
    for (table, colour, marker, _), over in zip(styles, (3, 2), strict=True):
        left.scatter(
            table.counts,
            np.minimum(table.released, edge),  # what is farther off stands at the edge
            s=16,
            color=colour,
            marker=marker,
            alpha=0.5,
            linewidths=0,
            zorder=over,
        )
    left.plot([0, edge], [0, edge], color=STRONG, linewidth=1, zorder=4)
    left.annotate(  # between 0 and 1, where no count can be
        "no error", (0.5, 0.5), (6, -2), textcoords="offset points", color=STRONG, va="top"
    )
    left.set_xscale("symlog", linthresh=1)
    left.set_yscale("symlog", linthresh=1)
    left.set_xlim(-0.3, 2 * edge)
    left.set_ylim(-0.3, 2 * edge)
    ticks = [0, *(10**k for k in range(len(str(edge))))]
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(ticks, labels=[_short(tick) for tick in ticks])
        axis.set_minor_locator(NullLocator())
    left.set_xlabel("true jobs in the cell")
    left.set_ylabel("released jobs")
    left.set_title("Released against true counts", loc="left", fontweight="bold")

    rows = np.arange(len(strata))
    for table, colour, marker, shift in styles:
        right.scatter(
            table.found, rows + shift, s=46, color=colour, marker=marker, label=table.name
        )
        right.scatter(table.promised, rows + shift, s=260, color=STRONG, marker="|")
    right.scatter([], [], s=160, color=STRONG, marker="|", label="error that was promised")
    right.set_yticks(rows, labels=list(strata))
    right.set_ylim(len(strata) - 0.5, -0.5)
    right.set_xscale("log")
    errors = np.array([[table.found, table.promised] for table in tables])
    powers = np.log10(errors[np.isfinite(errors) & (errors > 0)])
    decades = 10.0 ** np.arange(np.floor(powers.min()), np.ceil(powers.max()) + 1)
    right.set_xticks(decades, labels=[f"{100 * share:,g}%" for share in decades])
    right.set_xlim(decades[0] / 1.2, decades[-1] * 1.2)
    right.set_xlabel("error, as a share of the jobs")
    right.set_ylabel("population of the place")
    right.set_title("How far they are off", loc="left", fontweight="bold")
    open_axes(left)
    open_axes(right, grid="x")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, handletextpad=0.3)
    figure.suptitle(note, color=INK)
    save(figure, path, note)


def _short(number: int) -> str:
    """A round number as it fits under an axis: 10, 100, 1k, 1m."""
    for size, letter in ((1_000_000, "m"), (1_000, "k")):
        if number >= size:
            return f"{number // size:,}{letter}"
    return str(number)
