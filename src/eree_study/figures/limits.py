"""One panel for each workload: published mechanisms, ours, infusion, and what cannot be beaten."""

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

from eree.figures.style import CALM, FAINT, INK, MIDDLE, STRONG
from eree_study.figures.study import Point

Line = Sequence[Point]
Dash = Literal["solid"] | tuple[float, tuple[float, ...]]
_OTHERS = ("#b08968", MIDDLE, "#7d8597", STRONG)


@dataclass(frozen=True)
class Panel:
    """The lines of one workload by their names: published, ours, and limits."""

    title: str
    published: Mapping[str, Line]
    ours: Mapping[str, Line]
    known_step: Line
    least: Line


def draw_limits(panels: Sequence[Panel], note: str, paths: Sequence[Path]) -> None:
    """Draw all panels into files, each of the kind that its name ends with."""
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.4 * columns + 0.4, 3.1 * rows + 1.5), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    published = list(dict.fromkeys(name for panel in panels for name in panel.published))
    colours = dict(zip(published, _OTHERS, strict=False))
    ours = list(dict.fromkeys(name for panel in panels for name in panel.ours))
    for panel, place in zip(panels, axes, strict=False):
        _panel(place, panel, colours)
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
        names.append("out of reach of any mechanism")
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.supylabel("L1 error, as a ratio to noise infusion", fontsize=9.5)
    figure.suptitle(f"The price of a proof\n{note}", fontsize=10.5, color=INK)
    for path in paths:
        more = {} if path.suffix == ".png" else {"Date": None}
        figure.savefig(path, dpi=130, metadata={"Title": "The price of a proof"} | more)


def _dash(number: int) -> Dash:
    return "solid" if number == 0 else (0, (5, 1.5))


def _panel(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    for name, line in panel.published.items():
        _plot(axes, line, colours[name], 1.2, 2.8)
    for number, line in enumerate(panel.ours.values()):
        _plot(axes, line, CALM, 2, 4, _dash(number))
    known, least = (sorted((p.epsilon, p.figure) for p in some) for some in _limits(panel))
    if known:
        axes.plot(*zip(*known, strict=True), color=INK, linewidth=1, linestyle=(0, (1, 1.5)))
    axes.axhline(1.0, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    if least:
        bottom = 0.6 * min(figure for _, figure in least)
        x, y = zip(*least, strict=True)
        axes.fill_between(x, [bottom] * len(x), y, color=FAINT, linewidth=0)
        axes.set_ylim(bottom=bottom)
    lines = (*panel.published.values(), *panel.ours.values())
    epsilons = sorted({point.epsilon for line in lines for point in line})
    axes.set_xticks(epsilons, labels=["" if e == 0.67 else f"{e:g}" for e in epsilons], fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelbottom=True)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("epsilon", fontsize=8.5)
    axes.set_title(panel.title, fontsize=9)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _limits(panel: Panel) -> tuple[Line, Line]:
    return panel.known_step, panel.least


def _plot(
    axes: Axes,
    line: Line,
    colour: str,
    width: float,
    mark: float,
    dash: Dash = "solid",
) -> None:
    """A line through all points, hollow ones with a white heart."""
    points = sorted(line, key=lambda point: point.epsilon)
    x, y = [p.epsilon for p in points], [p.figure for p in points]
    axes.plot(x, y, color=colour, linewidth=width, linestyle=dash)
    for point in points:
        heart = "white" if point.hollow else colour
        axes.plot(
            point.epsilon,
            point.figure,
            color=colour,
            marker="o",
            markersize=mark,
            markerfacecolor=heart,
            markeredgewidth=0.8,
        )
