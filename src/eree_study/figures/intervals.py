"""The picture of calibrated intervals: how often they hold, stratum by stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from eree.figures.style import CALM, FAINT, INK, MIDDLE, STRONG
from eree_study.figures import open_axes, save

_MARKS = ("o", "D")


@dataclass(frozen=True)
class Dot:
    """Coverage of one stratum, the same with the scale known, and whether a goal is missed."""

    coverage: float
    known: float
    missed: bool


#: Dots of one panel, by population, kind and label of the stratum.
Dots = Mapping[tuple[str, str, str], Dot]


def intervals_figure(
    paths: Sequence[Path],
    *,
    panels: Mapping[str, Dots],
    strata: Sequence[tuple[str, str]],
    level: float,
    note: str,
    low: float,
    lowest: float = 0.78,
) -> None:
    """A panel for each title, `strata` down in their order; `low` coverage has a colour."""
    populations = list(dict.fromkeys(key[0] for dots in panels.values() for key in dots))
    shown = {key[1:] for dots in panels.values() for key in dots}
    rows = [row for row in dict.fromkeys(strata) if row in shown]
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    rows.sort(key=lambda row: kinds.index(row[0]))
    places, at, heads = {}, 0.0, {}
    for kind in kinds:
        heads[kind] = at
        at += 1.0
        for row in (row for row in rows if row[0] == kind):
            places[row] = at
            at += 1.0
        at += 0.5
    height = 0.168 * at + 1.6
    figure = Figure(figsize=(11, height))
    figure.subplots_adjust(0.155, 0.75 / height, 0.975, 1 - 0.85 / height, wspace=0.12)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for place, (title, dots) in zip(axes, panels.items(), strict=True):
        _panel(place, dots, places, populations, low, lowest)
        place.axvline(level, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        place.hlines(list(places.values()), lowest, 1.0, color=FAINT, linewidth=0.5, zorder=0)
        place.set_xlim(lowest, 1.0)
        place.set_title(title, fontsize=10)
        place.set_ylim(at, -1)
    ticks = [*places.values(), *heads.values()]
    texts = axes[0].set_yticks(ticks, labels=[*(label for _, label in places), *heads])
    for tick in texts[len(places) :]:
        tick.label1.set_fontweight("bold")
        tick.tick1line.set_visible(False)
    axes[0].tick_params(axis="y", labelsize=7.5, length=2)
    for other in axes[1:]:
        other.tick_params(axis="y", length=0)
    handles = [
        Line2D([], [], color=CALM, marker=mark, linestyle="none", markersize=5)
        for mark in _MARKS[: len(populations)]
    ]
    names = [f"calibrated, {name} population" for name in populations]
    handles += [
        Line2D([], [], color=colour, marker="o", linestyle="none", markersize=5)
        for colour in (MIDDLE, STRONG)
    ]
    handles += [
        Line2D([], [], color=INK, marker="|", linestyle="none", markersize=8),
    ]
    names += [f"below {low:.0%}", "goal missed", "scale of the noise known"]
    figure.legend(handles, names, loc="lower center", ncols=5, fontsize=8, frameon=False)
    figure.suptitle(note, fontsize=10.5, color=INK, y=1 - 0.12 / height)
    for path in paths:
        save(figure, path, "Coverage of calibrated intervals", dpi=110)


def _panel(
    axes: Axes,
    dots: Dots,
    places: Mapping[tuple[str, str], float],
    populations: Sequence[str],
    low: float,
    lowest: float,
) -> None:
    for number, (name, mark) in enumerate(zip(populations, _MARKS, strict=False)):
        own = {key[1:]: dot for key, dot in dots.items() if key[0] == name}
        y = np.array([places[row] for row in own]) + (number - (len(populations) - 1) / 2) * 0.36
        known = np.array([dot.known for dot in own.values()])
        axes.plot(known, y, color=INK, marker="|", markersize=5, linestyle="none")
        coverage = np.array([dot.coverage for dot in own.values()])
        missed = np.array([dot.missed for dot in own.values()])
        for row, share in zip(own, coverage, strict=True):
            if share < lowest:
                at = lowest + number * (1 - lowest) / 6
                text = f" ◂ {share:.0%}"
                axes.text(at, places[row], text, fontsize=7, va="center", color=INK)
        below = ~missed & (coverage < low)
        for some, colour in ((~missed & ~below, CALM), (below, MIDDLE), (missed, STRONG)):
            axes.plot(
                coverage[some], y[some], color=colour, marker=mark, markersize=3.4, linestyle="none"
            )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.tick_params(axis="x", labelsize=8)
    open_axes(axes)
