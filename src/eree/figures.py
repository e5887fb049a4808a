"""The door to plotting: figures of plain arrays, as PNG or SVG by the name of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray

matplotlib.use("Agg")
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

#: Colours that stay apart in print and for colour-blind readers.
STRONG, MIDDLE, PALE = "#9b2226", "#ee9b00", "#94d2bd"
INK, CALM, FAINT = "#22333b", "#0a9396", "#dee2e6"


def exposure_figure(
    path: Path,
    *,
    counts: NDArray[np.int64],
    strata: Sequence[str],
    alone: Sequence[float],
    dominated: Sequence[float],
) -> None:
    """How many jobs the cells hold, and in how many of them one workplace shows through."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))

    edges = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10**12]
    names = ["0", "1", "2–4", "5–9", "10–19", "20–49", "50–99"]
    names += ["100–199", "200–499", "500–999", "1,000+"]
    heights, _ = np.histogram(counts, edges)
    left.barh(names, heights, color=INK)
    left.invert_yaxis()
    left.set_xlabel("cells")
    left.set_ylabel("jobs in the cell")
    left.set_title("Most cells are small", loc="left", fontweight="bold")

    rest = [1 - a - d for a, d in zip(alone, dominated, strict=True)]
    both = [a + d for a, d in zip(alone, dominated, strict=True)]
    right.barh(strata, alone, color=STRONG, label="one workplace only")
    right.barh(strata, dominated, left=alone, color=MIDDLE, label="one holds half or more")
    right.barh(strata, rest, left=both, color=PALE, label="spread over several")
    right.invert_yaxis()
    right.set_xlim(0, 1)
    right.xaxis.set_major_formatter(PercentFormatter(1.0))
    right.set_xlabel("share of the cells")
    right.set_ylabel("population of the place")
    right.set_title("Many cells show one workplace", loc="left", fontweight="bold")
    right.legend(
        loc="upper right", bbox_to_anchor=(1.0, -0.16), ncols=3, frameon=False, columnspacing=1.2
    )
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    title = "Cells of place × sector × ownership in a made-up population"
    figure.suptitle(title, color=INK)
    figure.savefig(path, dpi=150, metadata={"Title": title})


@dataclass(frozen=True)
class Released:
    """A released table beside the truth.

    `found` and `promised` are mean errors as shares of the jobs, for each stratum of places.
    """

    name: str
    counts: NDArray[np.int64]
    released: NDArray[np.int64]
    found: Sequence[float]
    promised: Sequence[float]


def released_figure(
    path: Path, *, tables: Sequence[Released], strata: Sequence[str], note: str
) -> None:
    """Released counts against true ones, and their error beside the one that was promised.

    `note` says why this may be shown: it stands in the picture, and in its file.
    """
    figure = Figure(figsize=(11, 4.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    styles = list(zip(tables, (INK, CALM), "oD", (-0.15, 0.15), strict=True))

    most = max(int(table.counts.max()) for table in tables)
    edge = min(max(most, *(int(table.released.max()) for table in tables)), 10 * most)
    for (table, colour, marker, _), over in zip(styles, (3, 2), strict=True):
        left.scatter(
            table.counts,
            np.minimum(table.released, edge),  # what is farther off stands at the edge
            s=16,
            color=colour,
            marker=marker,
            alpha=0.5,
            linewidths=0,
            zorder=over,
        )
    left.plot([0, edge], [0, edge], color=STRONG, linewidth=1, zorder=4)
    left.annotate(  # between 0 and 1, where no count can be
        "no error", (0.5, 0.5), (6, -2), textcoords="offset points", color=STRONG, va="top"
    )
    left.set_xscale("symlog", linthresh=1)
    left.set_yscale("symlog", linthresh=1)
    left.set_xlim(-0.3, 2 * edge)
    left.set_ylim(-0.3, 2 * edge)
    ticks = [0, *(10**k for k in range(len(str(edge))))]
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(ticks, labels=[_short(tick) for tick in ticks])
        axis.set_minor_locator(NullLocator())
    left.set_xlabel("true jobs in the cell")
    left.set_ylabel("released jobs")
    left.set_title("Released against true counts", loc="left", fontweight="bold")

    rows = np.arange(len(strata))
    for table, colour, marker, shift in styles:
        right.scatter(
            table.found, rows + shift, s=46, color=colour, marker=marker, label=table.name
        )
        right.scatter(table.promised, rows + shift, s=260, color=STRONG, marker="|")
    right.scatter([], [], s=160, color=STRONG, marker="|", label="error that was promised")
    right.set_yticks(rows, labels=list(strata))
    right.set_ylim(len(strata) - 0.5, -0.5)
    right.set_xscale("log")
    errors = np.array([[table.found, table.promised] for table in tables])
    powers = np.log10(errors[np.isfinite(errors) & (errors > 0)])
    decades = 10.0 ** np.arange(np.floor(powers.min()), np.ceil(powers.max()) + 1)
    right.set_xticks(decades, labels=[f"{100 * share:,g}%" for share in decades])
    right.set_xlim(decades[0] / 1.2, decades[-1] * 1.2)
    right.grid(axis="x", color=FAINT)
    right.set_axisbelow(True)
    right.set_xlabel("error, as a share of the jobs")
    right.set_ylabel("population of the place")
    right.set_title("How far they are off", loc="left", fontweight="bold")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, handletextpad=0.3)
    figure.suptitle(note, color=INK)
    figure.savefig(path, dpi=150, metadata={"Title": note})


@dataclass(frozen=True)
class Attacked:
    """How often one attack succeeds, as shares: by guessing, on a release, on infused tables.

    `promised` is the most that the guarantee of the release allows.
    """

    question: str
    guessing: float
    released: float
    promised: float
    infused: float
    unrounded: float


def attacks_figure(path: Path, *, attacks: Sequence[Attacked], note: str) -> None:
    """A group of bars for each question that an attacker asks."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axes = figure.subplots()
    styles = (
        ("guessing", "by guessing, from public data alone", FAINT, ""),
        ("released", "from a release by eree", CALM, ""),
        ("infused", "from infused tables, rounded to whole numbers", MIDDLE, ""),
        ("unrounded", "from infused tables, not rounded", STRONG, "///"),
    )
    rows, height = np.arange(len(attacks)), 0.2
    for k, (name, label, colour, hatch) in enumerate(styles):
        shares = np.array([getattr(attack, name) for attack in attacks])
        places = rows + (k - 1.5) * height
        edge = "white" if hatch else INK if colour == FAINT else colour
        axes.barh(
            places, shares, height * 0.92, color=colour, hatch=hatch, edgecolor=edge, label=label
        )
        for place, share in zip(places, shares, strict=True):
            axes.text(share + 0.008, place, f"{share:.0%}", va="center", color=INK, fontsize=9)
    promised = [attack.promised for attack in attacks]
    ours = rows - 0.5 * height
    axes.vlines(
        promised,
        ours - 0.6 * height,
        ours + 0.6 * height,
        color=INK,
        linewidth=3,
        label="the most that eree's guarantee allows, to any attacker",
    )
    axes.set_yticks(rows, labels=[attack.question for attack in attacks])
    axes.set_ylim(len(attacks) - 0.5, -0.5)
    axes.set_xlim(0, 1.06)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("targets whose true answer the attacker picks from a list of possible ones")
    axes.set_title("What an attacker finds out about one workplace", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort([label.startswith("the most") for label in labels], kind="stable")
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    figure.suptitle(note, color=INK)
    metadata = {"Title": note} | ({"Date": None} if path.suffix == ".svg" else {})
    with matplotlib.rc_context({"svg.hashsalt": "eree"}):  # same findings, same file
        figure.savefig(path, dpi=150, metadata=metadata)


def _short(number: int) -> str:
    """A round number as it fits under an axis: 10, 100, 1k, 1m."""
    for size, letter in ((1_000_000, "m"), (1_000, "k")):
        if number >= size:
            return f"{number // size:,}{letter}"
    return str(number)
