"""The picture of the query tool's evaluation: noise left, by the number of variables of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from eree.figures.style import CALM, FAINT, INK, MIDDLE, PALE, RISING, STRONG

Look = Literal["plain", "bad", "warm", "mild", "good", "fine", "soft"]
#: Colour, marker and dashes of a line: apart without colour as well.
_LOOKS: dict[Look, tuple[str, str, str]] = {
    "plain": (INK, "o", "-"),
    "bad": (STRONG, "X", "-"),
    "warm": (MIDDLE, "s", "--"),
    "mild": (RISING[1], "P", ":"),
    "good": (CALM, "D", "-"),
    "fine": (RISING[3], "v", "-."),
    "soft": (PALE, "^", "-"),
}
#: Marks of the axis of shares.
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4)
#: Below this a figure is zero but for what cycles of raking left over.
_NOTHING = 1e-4


@dataclass(frozen=True)
class Line:
    """A line: its name, its figures for 1, 2, … variables, those before it, and its look."""

    name: str
    figures: Sequence[float]
    before: Sequence[float]
    look: Look


def dimensions_figure(
    path: Path,
    *,
    lines: Sequence[Line],
    points: Sequence[tuple[str, Sequence[float]]],
    title: str,
    note: str,
) -> None:
    """Variances over the number of variables, and on the right as shares of those before.

    Both axes are logarithmic: figures of zero have no place on them.  Printed figures are open
    marks; lines that are nowhere near are missing on the right.
    """
    figure = Figure(figsize=(11.5, 6.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for line in lines:
        _draw(left, line, line.figures)
        shares = [y / x for y, x in zip(line.figures, line.before, strict=True)]
        if max(shares) < 10:
            _draw(right, line, shares)
    for (name, figures), marker in zip(points, "os", strict=False):
        shares = [y / x for y, x in zip(figures, points[0][1], strict=True)]
        for axes, values in ((left, figures), (right, shares)):
            x, y = _seen(values)
            axes.plot(
                x,
                y,
                color=INK,
                marker=marker,
                linestyle="none",
                markersize=10,
                markerfacecolor="none",
                markeredgewidth=1.0,
                label=name if axes is left else None,
            )
    for axes, words in (
        (left, "variance of noise"),
        (right, "share of that in the same runs without calibration"),
    ):
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xticks(range(1, len(lines[0].figures) + 1))
        axes.set_xlabel("variables of the table")
        axes.set_ylabel(words)
        axes.grid(color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    right.set_yticks(_TICKS, labels=[f"{tick:.0%}" for tick in _TICKS])
    figure.suptitle(f"{title}\n{note}", fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    metadata = {"Title": title} | ({"Date": None} if path.suffix == ".svg" else {})
    figure.savefig(path, dpi=130, metadata=metadata)


def _seen(figures: Sequence[float]) -> tuple[list[int], list[float]]:
    found = [(k, y) for k, y in enumerate(figures, start=1) if y > _NOTHING]
    return [k for k, _ in found], [y for _, y in found]


def _draw(axes: Axes, line: Line, figures: Sequence[float]) -> None:
    colour, marker, dashes = _LOOKS[line.look]
    x, y = _seen(figures)
    # every name once in the legend of the whole figure
    known = {text for shown in axes.figure.axes for text in shown.get_legend_handles_labels()[1]}
    axes.plot(
        x,
        y,
        color=colour,
        marker=marker,
        linestyle=dashes,
        markersize=5.5,
        linewidth=1.6,
        label=None if line.name in known else line.name,
    )
