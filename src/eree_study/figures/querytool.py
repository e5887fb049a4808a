"""Pictures of the query tool's evaluation: noise left, runs that converge, errors published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from eree.figures.style import CALM, FAINT, INK, MIDDLE, PALE, RISING, STRONG
from eree_study.figures import open_axes, save

Look = Literal["plain", "bad", "median", "warm", "good", "fine", "soft"]
#: Colour, marker and dashes of a line: apart without colour as well.
_LOOKS: dict[Look, tuple[str, str, str]] = {
    "plain": (INK, "o", "-"),
    "bad": (STRONG, "X", "-"),
    "median": (STRONG, "x", ":"),
    "warm": (MIDDLE, "s", "--"),
    "good": (CALM, "D", "-"),
    "fine": (RISING[3], "v", "-."),
    "soft": (PALE, "^", "-"),
}
#: Below this a figure is zero but for what cycles of raking left over.
_NOTHING = 1e-4
#: Lines are shown up to so many times the largest figure without calibration.
_HIGH = 30.0
#: Marks of the axis of shares, and where it ends.
_TICKS, _ENDS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0), (0.09, 2.2)


@dataclass(frozen=True)
class Line:
    """A line: its name, its figures for 1, 2, … variables, those before it, and its look."""

    name: str
    figures: Sequence[float]
    before: Sequence[float]
    look: Look


@dataclass(frozen=True)
class Panel:
    """Errors of several methods by the number of variables, and what is published of them."""

    title: str
    errors: Sequence[tuple[str, Sequence[float], Look]]
    published: Sequence[Sequence[float]]


def dimensions_figure(
    path: Path,
    *,
    lines: Sequence[Line],
    points: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    title: str,
    note: str,
) -> None:
    """Variances over the number of variables, and on the right as shares of those before.

    Both axes are logarithmic: figures of zero have no place on them, and lines that run away leave
    the picture.  Points are open marks: a name, variances, and shares of those before.
    """
    figure = Figure(figsize=(9.8, 5.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for line in lines:
        shares = [y / x for y, x in zip(line.figures, line.before, strict=True)]
        _draw(left, line.figures, line.look, line.name)
        _draw(right, shares, line.look)
    for (name, figures, parts), marker in zip(points, "os", strict=False):
        for axes, values in ((left, figures), (right, parts)):
            _marks(axes, values, INK, marker, name if axes is left else None)
    least = min(y for line in lines for y in _seen(line.figures)[1])
    left.set_ylim(0.6 * least, _HIGH * max(lines[0].figures))
    right.set_ylim(*_ENDS)
    for axes, label in (
        (left, "variance of noise"),
        (right, "share of that without calibration, in the same runs"),
    ):
        axes.set_xticks(range(1, len(lines[0].figures) + 1))
        _finish(axes, "variables of the table", label)
    left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}"))
    right.set_yticks(_TICKS, labels=[f"{tick:,.0%}" for tick in _TICKS])
    figure.suptitle(f"{title}\n{note}", fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    save(figure, path, title, dpi=88)


def convergence_figure(
    path: Path,
    *,
    redrawn: Sequence[float],
    shares: Sequence[tuple[str, Sequence[float]]],
    band: tuple[str, Sequence[float], Sequence[float]],
    printed: float,
    title: str,
    note: str,
) -> None:
    """Shares of converged runs over the share of answers that were redrawn, by criterion.

    `band` is from the least to the greatest cube by one of the criteria.
    """
    figure = Figure(figsize=(7.4, 4.8), layout="constrained")
    axes = figure.subplots()
    name, low, high = band
    axes.fill_between(redrawn, low, high, color=FAINT, label=name)
    for (label, values), colour, marker in zip(shares, RISING, "osD^v", strict=False):
        axes.plot(
            redrawn, values, color=colour, marker=marker, markersize=5.5, linewidth=1.6, label=label
        )
    axes.axhline(printed, color=INK, linewidth=1.2, linestyle="--", label=f"printed: {printed:.1%}")
    _finish(axes, "answers redrawn evenly", "runs that converge", scale="linear")
    axes.set_xticks(redrawn)
    axes.set_ylim(-0.02, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axes.set_title(f"{title}\n{note}", fontsize=11, color=INK)
    figure.legend(loc="outside right center", fontsize=9, frameon=False)
    save(figure, path, title, dpi=88)


def calibrations_figure(path: Path, *, panels: Sequence[Panel], title: str, note: str) -> None:
    """Root mean squared errors as lines, and the published ones as open marks of the same kind."""
    figure = Figure(figsize=(10.5, 4.9), layout="constrained")
    both = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(both, panels, strict=True):
        for (name, errors, look), published in zip(panel.errors, panel.published, strict=True):
            _draw(axes, errors, look, name if axes is both[0] else None)
            colour, marker, _ = _LOOKS[look]
            _marks(axes, published, colour, marker if marker != "X" else "s")
        top = _HIGH * max(panel.published[0])
        axes.set_ylim(0.5 * min(min(errors) for _, errors, _ in panel.errors), top)
        outside = [f"{name}: {min(y):,.0f} and more" for name, y, _ in panel.errors if min(y) > top]
        axes.text(
            0.98,
            0.97,
            "\n".join(outside),
            transform=axes.transAxes,
            horizontalalignment="right",
            verticalalignment="top",
            fontsize=9,
            color=STRONG,
        )
        axes.set_xticks(range(1, len(panel.published[0]) + 1))
        _finish(axes, "variables of the table", "root mean squared error, jobs")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
        axes.set_title(panel.title, fontsize=10, color=INK)
    figure.suptitle(f"{title}\n{note}", fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    save(figure, path, title, dpi=88)


def _finish(axes: Axes, below: str, beside: str, scale: str = "log") -> None:
    axes.set_yscale(scale)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    open_axes(axes, "both")


def _seen(figures: Sequence[float]) -> tuple[list[int], list[float]]:
    found = [(k, y) for k, y in enumerate(figures, start=1) if y > _NOTHING]
    return [k for k, _ in found], [y for _, y in found]


def _draw(axes: Axes, figures: Sequence[float], look: Look, name: str | None = None) -> None:
    colour, marker, dashes = _LOOKS[look]
    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
    axes.plot(*_seen(figures), **style, markersize=5.5, linewidth=1.6, label=name)


def _marks(
    axes: Axes, figures: Sequence[float], colour: str, marker: str, name: str | None = None
) -> None:
    """Open marks without a line."""
    style: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
    style |= {"markersize": 10, "markerfacecolor": "none", "markeredgewidth": 1.0}
    axes.plot(*_seen(figures), **style, label=name)
