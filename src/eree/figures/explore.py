"""The picture of errors against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eree.figures.style import CALM, FAINT, INK, MIDDLE, RISING, STRONG

#: Colour and marker: apart without colour as well.
_LOOKS = tuple(
    (colour, marker)
    for marker, colours in (
        ("o", (CALM, STRONG, MIDDLE, INK)),
        ("s", (RISING[1], RISING[3], CALM, STRONG)),
        ("^", (MIDDLE, INK, RISING[2], RISING[4])),
    )
    for colour in colours
)


@dataclass(frozen=True)
class PricedErrors:
    """The errors of a table at several epsilons; `planned` is the place of the plan's own."""

    table: str
    epsilons: Sequence[float]
    errors: Sequence[float]
    planned: int | None


def exploration_figure(
    path: Path, lines: Sequence[PricedErrors], *, what: str, percent: bool
) -> None:
    """A line for each table over epsilon; a ring marks the plan."""
    figure = Figure(figsize=(9.0, 5.4), layout="constrained")
    axes = figure.subplots()
    for line, (colour, marker) in zip(lines, cycle(_LOOKS)):
        axes.plot(
            line.epsilons, line.errors, marker=marker, color=colour, label=line.table, linewidth=1.4
        )
        if line.planned is not None:
            ring = [line.epsilons[line.planned]], [line.errors[line.planned]]
            axes.plot(*ring, "o", markersize=13, markerfacecolor="none", color=colour)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    as_text = (lambda y, _: f"{100 * y:g}%") if percent else (lambda y, _: f"{y:g}")
    axes.yaxis.set_major_formatter(FuncFormatter(as_text))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon of the table; a ring marks the plan")
    axes.set_ylabel(what)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False)
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, dpi=130, metadata=metadata)
