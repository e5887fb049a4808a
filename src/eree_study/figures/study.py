"""Pictures of the study: panels by mechanism and stratum, and the price of a proof by workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from eree.figures.style import CALM, FAINT, INK, MIDDLE, RISING, STRONG
from eree_study.figures import open_axes, save

Dash = Literal["solid"] | tuple[float, tuple[float, ...]]
_OTHERS = ("#b08968", MIDDLE, "#7d8597", STRONG)
_SIX = ("#e9a03b", "#d97b3a", "#bf5245", "#93345d", "#5f2a6b", "#2c1e54")


@dataclass(frozen=True)
class Point:
    """An epsilon and a figure; hollow where its guarantee is hardly one."""

    epsilon: float
    figure: float
    hollow: bool = False


Line = Sequence[Point]
#: Lines of one panel, by the alpha or theta that they belong to.
Lines = Mapping[str, Line]


@dataclass(frozen=True)
class Band:
    """One row of panels: its title, what its colours are, and the lines of every column.

    `values` has a colour for each; the legend shows those that have lines.
    """

    title: str
    colours: str
    values: Sequence[str]
    columns: Sequence[Lines]

    @property
    def points(self) -> list[Point]:
        """All of its points."""
        return [point for lines in self.columns for line in lines.values() for point in line]


@dataclass(frozen=True)
class Grid:
    """Panels in rows and columns, all on the same axes, with a line where infusion is."""

    title: str
    note: str
    columns: Sequence[str]
    bands: Sequence[Band]
    epsilons: Sequence[float]
    measure: str
    logarithmic: bool


def draw_grid(grid: Grid, paths: Sequence[Path]) -> None:
    """Draw it into files, each of the kind that its name ends with."""
    rows, columns = len(grid.bands), len(grid.columns)
    figure = Figure(figsize=(2.15 * columns + 1.4, 1.55 * rows + 1.5), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    points = [point for band in grid.bands for point in band.points]
    for row, band in enumerate(grid.bands):
        names = [name for name in band.values if any(name in lines for lines in band.columns)]
        palette = _SIX if len(band.values) > len(RISING) else RISING
        colour = dict(zip(band.values, palette, strict=False))
        for column, lines in enumerate(band.columns):
            axes = panels[row][column]
            for name, line in lines.items():
                _plot(axes, line, colour[name])
            _dress(axes, grid.epsilons, logarithmic=grid.logarithmic)
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
        panels[0][0].set_ylim(min(low, 1) / 1.5, max(top, 1) * 1.5)  # infusion is in sight
    figure.supxlabel("epsilon", fontsize=9.5)
    figure.supylabel(grid.measure, fontsize=9.5)
    figure.suptitle(f"{grid.title}\n{grid.note}", fontsize=10.5, color=INK)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it stays as it is, and is not computed again for each file
    for path in paths:
        save(figure, path, grid.title, dpi=130)


def _plot(
    axes: Axes,
    line: Line,
    colour: str,
    width: float = 1.2,
    mark: float = 2.6,
    dash: Dash = "solid",
) -> None:
    """A line through all points; hollow ones are drawn with a white heart."""
    points = sorted(line, key=lambda point: point.epsilon)
    x, y = [p.epsilon for p in points], [p.figure for p in points]
    axes.plot(x, y, color=colour, linewidth=width, linestyle=dash)
    for hollow, heart in ((False, colour), (True, "white")):
        some = [p for p in points if p.hollow == hollow]
        axes.plot(
            [p.epsilon for p in some],
            [p.figure for p in some],
            color=colour,
            marker="o",
            markersize=mark,
            markerfacecolor=heart,
            markeredgewidth=0.8,
            linestyle="none",
        )


def _dress(
    axes: Axes, epsilons: Sequence[float], size: float = 6.5, *, logarithmic: bool = True
) -> None:
    """Log axes as in the papers, a line at 1, and nothing that is not needed."""
    axes.set_xscale("log")
    labels = [f"{epsilon:g}".lstrip("0") for epsilon in epsilons]  # .5 has room beside .67
    axes.set_xticks(epsilons, labels=labels, fontsize=size)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    if logarithmic:  # after the line: a study may have no figure above zero
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.tick_params(axis="y", labelsize=size)
    open_axes(axes, "both")


@dataclass(frozen=True)
class Panel:
    """The lines of one workload by their names: published, ours, and limits."""

    title: str
    published: Mapping[str, Line]
    ours: Mapping[str, Line]
    known_step: Line
    least: Line


def draw_limits(
    panels: Sequence[Panel], note: str, epsilons: Sequence[float], paths: Sequence[Path]
) -> None:
    """Draw all panels into files, each of the kind that its name ends with."""
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.4 * columns + 0.4, 3.1 * rows + 1.5), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    published = list(dict.fromkeys(name for panel in panels for name in panel.published))
    colours = dict(zip(published, _OTHERS, strict=False))
    ours = list(dict.fromkeys(name for panel in panels for name in panel.ours))
    for panel, place in zip(panels, axes, strict=False):
        _panel(place, panel, colours, epsilons)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    handles: list[Artist] = [
        Line2D([], [], color=colours[name], marker="o", markersize=3, label=name)
        for name in published
    ]
    handles += [
        Line2D([], [], color=CALM, marker="o", markersize=4, linewidth=2, linestyle=_dash(i))
        for i in range(len(ours))
    ]
    names = [*published, *ours, "today's noise infusion"]
    handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 3))))
    if any(panel.known_step for panel in panels):
        handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=(0, (1, 1.5))))
        names.append("if the scale of noise were known")
    if any(panel.least for panel in panels):
        handles.append(Patch(color=FAINT))
        names.append("below what any mechanism can have")
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.supylabel("L1 error, as a ratio to noise infusion", fontsize=9.5)
    figure.suptitle(f"The price of a proof\n{note}", fontsize=10.5, color=INK)
    for path in paths:
        save(figure, path, "The price of a proof", dpi=130)


def _dash(number: int) -> Dash:
    return "solid" if number == 0 else (0, (5, 1.5))


def _panel(axes: Axes, panel: Panel, colours: Mapping[str, str], epsilons: Sequence[float]) -> None:
    for name, line in panel.published.items():
        _plot(axes, line, colours[name], 1.2, 2.8)
    for number, line in enumerate(panel.ours.values()):
        _plot(axes, line, CALM, 2, 4, _dash(number))
    _dress(axes, epsilons, size=8)
    known, least = (
        sorted((p.epsilon, p.figure) for p in some) for some in (panel.known_step, panel.least)
    )
    if known:
        axes.plot(*zip(*known, strict=True), color=INK, linewidth=1, linestyle=(0, (1, 1.5)))
    if least:
        bottom = 0.6 * min(figure for _, figure in least)
        x, y = zip(*least, strict=True)
        axes.fill_between(x, [bottom] * len(x), y, color=FAINT, linewidth=0)
        axes.set_ylim(bottom=bottom)
    axes.tick_params(axis="x", labelbottom=True)
    axes.set_xlabel("epsilon", fontsize=8.5)
    axes.set_title(panel.title, fontsize=9)
