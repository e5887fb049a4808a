"""The door to plotting: figures of plain arrays, as PNG or SVG by the name of the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray

matplotlib.use("Agg")
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

#: Colours that stay apart in print and for colour-blind readers.
STRONG, MIDDLE, PALE = "#9b2226", "#ee9b00", "#94d2bd"
INK = "#22333b"


def exposure_figure(
    path: Path,
    *,
    counts: NDArray[np.int64],
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
    heights, _ = np.histogram(counts, edges)
    left.barh(names, heights, color=INK)
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
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Cells of place × sector × ownership in a made-up population", color=INK)
    figure.savefig(path, dpi=150)
