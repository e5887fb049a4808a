"""The door to plotting for the study: figures of plain arrays, as PNG or SVG by their name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from eree.errors import require

require("study", "matplotlib")
from eree.figures.style import FAINT  # noqa: E402  # refused by its name before

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save(figure: Figure, path: Path, title: str, dpi: int = 150) -> None:
    """Write a figure; an SVG has no date, so that the same figure has the same bytes."""
    dated = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, dpi=dpi, metadata={"Title": title} | dated)


def open_axes(axes: Axes, grid: Literal["both", "x"] | None = None) -> None:
    """Take the frame away above and on the right, and draw a grid below everything else."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(axis=grid, color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
