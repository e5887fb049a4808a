"""Pictures of the study: a row of small panels for each mechanism, a column for each stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from eree.figures.style import FAINT, INK, RISING

#: Lines of one panel: a name and its points (epsilon, figure).
Lines = Mapping[str, Sequence[tuple[float, float]]]
_SIX = ("#e9a03b", "#d97b3a", "#bf5245", "#93345d", "#5f2a6b", "#2c1e54")


@dataclass(frozen=True)
class Band:
    """One row of panels: its title, what its colours are, and the lines of every column."""

    title: str
    colours: str
    columns: Sequence[Lines]


def grid_figure(
    path: Path,
    *,
    title: str,
    note: str,
    columns: Sequence[str],
    bands: Sequence[Band],
    measure: str,
    logarithmic: bool,
) -> None:
    """All bands and columns on the same axes; with a line where infusion is."""
    high = 1.55 * len(bands) + 1.5
    figure = Figure(figsize=(2.15 * len(columns) + 1.4, high), layout="constrained")
    panels = figure.subplots(len(bands), len(columns), sharex=True, sharey=True, squeeze=False)
    epsilons = sorted(
        {x for band in bands for lines in band.columns for p in lines.values() for x, _ in p}
    )
    figures = [y for band in bands for lines in band.columns for p in lines.values() for _, y in p]
    for row, band in enumerate(bands):
        names = sorted({name for lines in band.columns for name in lines}, key=float)
        colour = dict(zip(names, _SIX if len(names) > len(RISING) else RISING, strict=False))
        for column, lines in enumerate(band.columns):
            axes = panels[row][column]
            for name, points in lines.items():
                x, y = np.array(sorted(points)).T
                axes.plot(x, y, color=colour[name], marker="o", markersize=2.6, linewidth=1.2)
            _dress(axes, epsilons, logarithmic)
            if row == 0:
                axes.set_title(columns[column], fontsize=9)
        panels[row][0].set_ylabel(band.title, fontsize=8.5)
        handles = [Line2D([], [], color=colour[n], marker="o", markersize=3) for n in names]
        panels[row][-1].legend(
            handles,
            names,
            title=band.colours,
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
            fontsize=7,
            title_fontsize=7.5,
            frameon=False,
        )
    if figures:
        low, top = min(figures), max(figures)
        if logarithmic:
            panels[0][0].set_ylim(max(low / 1.5, 1e-3), min(top * 1.5, 1e4))
        else:
            panels[0][0].set_ylim(min(low, 0) - 0.02, 1.02)
    figure.supxlabel("epsilon", fontsize=9.5)
    figure.supylabel(measure, fontsize=9.5)
    figure.suptitle(f"{title}\n{note}", fontsize=10.5, color=INK)
    metadata = {"Title": title} if path.suffix == ".png" else {"Title": title, "Date": None}
    figure.savefig(path, dpi=130, metadata=metadata)


def _label(epsilon: float) -> str:
    """An epsilon, but for one that has no room beside its neighbour."""
    return "" if epsilon == 0.67 else f"{epsilon:g}"


def _dress(axes: Axes, epsilons: Sequence[float], logarithmic: bool) -> None:
    """Log axes as in the papers, a line at 1, and nothing that is not needed."""
    axes.set_xscale("log")
    axes.set_xticks(epsilons, labels=[_label(e) for e in epsilons], fontsize=6.5)
    axes.xaxis.set_minor_locator(NullLocator())
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
