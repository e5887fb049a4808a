"""Pictures of the study: a row of small panels for each mechanism, a column for each stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from eree.figures.style import FAINT, INK, RISING

_SIX = ("#e9a03b", "#d97b3a", "#bf5245", "#93345d", "#5f2a6b", "#2c1e54")


@dataclass(frozen=True)
class Point:
    """An epsilon and a figure; hollow where its guarantee is hardly one."""

    epsilon: float
    figure: float
    hollow: bool = False


#: Lines of one panel, by the alpha or theta that they belong to.
Lines = Mapping[str, Sequence[Point]]


@dataclass(frozen=True)
class Band:
    """One row of panels: its title, what its colours are, and the lines of every column."""

    title: str
    colours: str
    columns: Sequence[Lines]

    @property
    def points(self) -> list[Point]:
        """All of its points."""
        return [point for lines in self.columns for line in lines.values() for point in line]

    @property
    def hollow(self) -> bool:
        """Whether any point is."""
        return any(point.hollow for point in self.points)


@dataclass(frozen=True)
class Grid:
    """Panels in rows and columns, all on the same axes, with a line where infusion is."""

    title: str
    note: str
    columns: Sequence[str]
    bands: Sequence[Band]
    measure: str
    logarithmic: bool


def draw_grid(grid: Grid, paths: Sequence[Path]) -> None:
    """Draw it into files, each of the kind that its name ends with."""
    rows, columns = len(grid.bands), len(grid.columns)
    figure = Figure(figsize=(2.15 * columns + 1.4, 1.55 * rows + 1.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    points = [point for band in grid.bands for point in band.points]
    epsilons = sorted({point.epsilon for point in points})
    for row, band in enumerate(grid.bands):
        names = sorted({name for lines in band.columns for name in lines}, key=float)
        colour = dict(zip(names, _SIX if len(names) > len(RISING) else RISING, strict=False))
        for column, lines in enumerate(band.columns):
            axes = panels[row][column]
            for name, line in lines.items():
                _plot(axes, line, colour[name])
            _dress(axes, epsilons, grid.logarithmic)
            if row == 0:
                axes.set_title(grid.columns[column], fontsize=9)
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
    low, top = min(p.figure for p in points), max(p.figure for p in points)
    if not grid.logarithmic:
        panels[0][0].set_ylim(min(low, 0) - 0.02, 1.02)
    elif low > 0:
        panels[0][0].set_ylim(low / 1.5, top * 1.5)
    figure.supxlabel("epsilon", fontsize=9.5)
    figure.supylabel(grid.measure, fontsize=9.5)
    figure.suptitle(f"{grid.title}\n{grid.note}", fontsize=10.5, color=INK)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it stays as it is, and is not computed for each file anew
    for path in paths:
        more = {} if path.suffix == ".png" else {"Date": None}
        figure.savefig(path, dpi=130, metadata={"Title": grid.title} | more)


def _plot(axes: Axes, line: Sequence[Point], colour: str) -> None:
    """A line through all points; hollow ones are drawn with a white heart."""
    points = sorted(line, key=lambda point: point.epsilon)
    axes.plot([p.epsilon for p in points], [p.figure for p in points], color=colour, linewidth=1.2)
    for hollow, heart in ((False, colour), (True, "white")):
        some = [p for p in points if p.hollow == hollow]
        axes.plot(
            [p.epsilon for p in some],
            [p.figure for p in some],
            color=colour,
            marker="o",
            markersize=2.6,
            markerfacecolor=heart,
            markeredgewidth=0.7,
            linestyle="none",
        )


def _label(epsilon: float) -> str:
    """An epsilon, but for one that has no room beside its neighbour."""
    return "" if epsilon == 0.67 else f"{epsilon:g}"


def _dress(axes: Axes, epsilons: Sequence[float], logarithmic: bool) -> None:
    """Log axes as in the papers, a line at 1, and nothing that is not needed."""
    axes.set_xscale("log")
    axes.set_xticks(epsilons, labels=[_label(e) for e in epsilons], fontsize=6.5)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    if logarithmic:  # after the line: a study may have no figure above zero
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.tick_params(axis="y", labelsize=7)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
