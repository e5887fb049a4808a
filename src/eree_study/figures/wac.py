"""The picture of a LODES year: errors of its columns beside those of noise infusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eree.figures.style import CALM, INK, MIDDLE, RISING, STRONG
from eree_study.figures import open_axes, save

#: Colour and marker: apart without colour as well.
_LOOKS = (
    *((MIDDLE, "o"), (RISING[1], "s"), (RISING[3], "v"), (INK, "x"), (INK, "+")),
    *((STRONG, "^"), (CALM, "D"), (CALM, "P"), (RISING[2], "<"), (RISING[4], ">")),
)


@dataclass(frozen=True)
class Dots:
    """Ratios to noise infusion by kind of column, of one way at one epsilon."""

    way: str
    epsilon: str
    ratios: Mapping[str, float]


def wac_figure(
    path: Path,
    *,
    dots: Sequence[Dots],
    kinds: Sequence[str],
    epsilons: Sequence[str],
    note: str,
) -> None:
    """A panel for each epsilon, a row for each kind of column, a dot for each way."""
    figure = Figure(figsize=(max(4.2 * len(epsilons), 7.5) + 1.5, 7.2), layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    ways = list(dict.fromkeys(one.way for one in dots))
    for axes, epsilon in zip(panels, epsilons, strict=True):
        for one in (one for one in dots if one.epsilon == epsilon):
            number = ways.index(one.way)
            colour, marker = _LOOKS[number % len(_LOOKS)]
            beside = 0.7 * (number / max(len(ways) - 1, 1) - 0.5)
            rows = [i + beside for i, kind in enumerate(kinds) if kind in one.ratios]
            ratios = [one.ratios[kind] for kind in kinds if kind in one.ratios]
            label = one.way if axes is panels[0] else None
            axes.plot(ratios, rows, linestyle="none", marker=marker, color=colour, label=label)
        axes.axvline(1.0, color=INK, linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(f"epsilon {epsilon}", loc="left", fontweight="bold")
        axes.set_xlabel("error, times that of noise infusion")
        open_axes(axes, "x")
    panels[0].set_yticks(range(len(kinds)), labels=list(kinds))
    panels[0].set_ylim(len(kinds) - 0.5, -0.5)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(note, color=INK)
    save(figure, path, note)
