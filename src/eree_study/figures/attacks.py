"""The picture of the attacks: how often each succeeds, and what the guarantee allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from eree.figures.style import CALM, FAINT, INK, MIDDLE, STRONG
from eree_study.figures import open_axes, save


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
        ("infused", "from infused tables, rounded to integers", MIDDLE, ""),
        ("unrounded", "from infused tables, not rounded", STRONG, "///"),
    )
    rows, bar = np.arange(len(attacks)), 0.2
    for k, (name, label, colour, hatch) in enumerate(styles):
        shares = np.array([getattr(attack, name) for attack in attacks])
        places = rows + (k - 1.5) * bar
        edge = "white" if hatch else INK if colour == FAINT else colour
        axes.barh(
            places, shares, bar * 0.92, color=colour, hatch=hatch, edgecolor=edge, label=label
        )
        for place, share in zip(places, shares, strict=True):
            axes.text(share + 0.008, place, f"{share:.0%}", va="center", color=INK, fontsize=9)
    promised = [attack.promised for attack in attacks]
    ours = rows - 0.5 * bar
    axes.vlines(
        promised,
        ours - 0.6 * bar,
        ours + 0.6 * bar,
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
    open_axes(axes)
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
    save(figure, path, note)
