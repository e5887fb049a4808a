"""Pictures of an assessment: figures by the number of variables of a table, and in pairs.

Every picture carries a mark that says who may see it, in sight and in what the file says of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from eree.figures.style import CALM, FAINT, INK, MIDDLE, PALE, RISING, STRONG

Look = Literal["before", "after", "expected", "theirs", "gain", "loss", "other"]
#: Colour, marker, dashes and hatch: apart without colour as well.
_LOOKS: dict[Look, tuple[str, str, str, str]] = {
    "before": (INK, "o", "-", ""),
    "after": (CALM, "D", "-", "//"),
    "expected": (MIDDLE, "s", "--", ".."),
    "theirs": (RISING[3], "v", "-.", "\\\\"),
    "gain": (PALE, "^", "-", "xx"),
    "loss": (STRONG, "X", ":", "--"),
    "other": (RISING[1], "P", ":", "++"),
}
#: Legends hold so many names in a row.
_IN_A_ROW = 2
#: How far lines with ranges are moved apart, so that one does not hide another.
_BESIDE = 0.14


@dataclass(frozen=True)
class Line:
    """Figures of every dimension, with a range about them where there is one; None has no place."""

    name: str
    figures: Sequence[float | None]
    look: Look
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True)
class Panel:
    """One part of a picture: lines or bars over dimensions.  Shares are shown in percent."""

    title: str
    axis: str
    lines: Sequence[Line]
    kind: Literal["lines", "bars"] = "lines"
    scale: Literal["jobs", "shares", "distance"] = "jobs"


@dataclass(frozen=True)
class Pairs:
    """One part of a picture: points, before and after."""

    title: str
    before: Sequence[float]
    after: Sequence[float]


def assessment_figure(
    paths: Sequence[Path],
    *,
    panels: Sequence[Panel | Pairs],
    dimensions: Sequence[str],
    title: str,
    mark: str,
) -> None:
    """Panels side by side, under a title and a mark, in every file that is asked for."""
    figure = Figure(figsize=(11.5, 5.6), layout="constrained")
    parts = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(parts, panels, strict=True):
        if isinstance(panel, Pairs):
            _pairs(axes, panel)
        else:
            _over_dimensions(axes, panel, dimensions)
        axes.set_title(panel.title, fontsize=10, color=INK)
        axes.grid(color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{mark}\n", fontsize=12, color=STRONG, fontweight="bold")
    figure.text(0.5, 0.945, title, ha="center", va="top", fontsize=11, color=INK)
    figure.draw_without_rendering()  # the layout is found once, and kept
    figure.set_layout_engine("none")
    described = {"Title": f"{mark}: {title}"}
    for path in paths:
        metadata = described | ({"Date": None} if path.suffix == ".svg" else {})
        figure.savefig(path, dpi=130, metadata=metadata)


def _over_dimensions(axes: Axes, panel: Panel, dimensions: Sequence[str]) -> None:
    if panel.kind == "bars":
        _bars(axes, panel, len(dimensions))
    else:
        ranged = [line for line in panel.lines if line.low]
        for line in panel.lines:
            beside = ranged.index(line) - (len(ranged) - 1) / 2 if line in ranged else 0.0
            _line(axes, line, _BESIDE * beside)
    axes.set_xticks(range(len(dimensions)), labels=list(dimensions))
    axes.set_xlim(-0.5, len(dimensions) - 0.5)
    axes.set_xlabel("variables of the table")
    axes.set_ylabel(panel.axis)
    seen = [y for line in panel.lines for y in line.figures if y is not None]
    if panel.scale == "shares":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_ylim(0, max([1.0, *seen]) * 1.05)
    elif panel.scale == "distance":
        axes.set_ylim(0, max([0.1, *seen]) * 1.1)
    else:
        if any(y > 0 for y in seen):
            axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=_IN_A_ROW,
        fontsize=9,
        frameon=False,
    )


def _line(axes: Axes, line: Line, beside: float) -> None:
    colour, marker, dashes, _ = _LOOKS[line.look]
    found = [(x + beside, y) for x, y in enumerate(line.figures) if y is not None]
    axes.plot(
        [x for x, _ in found],
        [y for _, y in found],
        color=colour,
        marker=marker,
        linestyle=dashes,
        markersize=6,
        linewidth=1.6,
        label=line.name,
    )
    for x, (low, high) in enumerate(zip(line.low, line.high, strict=True)):
        if low is not None and high is not None:
            axes.plot([x + beside] * 2, [low, high], color=colour, linewidth=5, alpha=0.3)


def _bars(axes: Axes, panel: Panel, places: int) -> None:
    width = 0.8 / len(panel.lines)
    for number, line in enumerate(panel.lines):
        colour, _, _, hatch = _LOOKS[line.look]
        where = [x - 0.4 + width * (number + 0.5) for x in range(places)]
        axes.bar(
            where,
            [0.0 if y is None else y for y in line.figures],
            width,
            color=colour,
            edgecolor="white",
            hatch=hatch,
            label=line.name,
        )


def _pairs(axes: Axes, pairs: Pairs) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=":", label="no change")
    axes.plot(
        pairs.before,
        pairs.after,
        color=CALM,
        marker="D",
        linestyle="none",
        markersize=6,
        alpha=0.8,
        label="a two-way table",
    )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("before")
    axes.set_ylabel("after")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9, frameon=False)
