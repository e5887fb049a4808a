"""The main figure of a study: what published mechanisms and ours cost, and what nobody can save."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from eree.mechanisms.grid import EPSILONS
from eree_study.figures.limits import Panel
from eree_study.figures.study import Point
from eree_study.papers.claims import ALPHA
from eree_study.papers.compare import cells_file
from eree_study.papers.contenders import MOST_DELTA
from eree_study.papers.one_cell_limits import known_step_errors, least_error
from eree_study.papers.tidy import Figures
from eree_study.papers.workloads import WORKLOADS, Counted

NAME = "price-of-a-proof"
_TITLES = {
    "workload-1": "Workload 1: workplaces, strong",
    "workload-2": "Workload 2: single worker cells, weak",
    "workload-3": "Workload 3: all worker cells at once, weak",
    "workload-3-strong": "Workload 3: all worker cells at once, strong",
}
_PUBLISHED = {
    "log-laplace": "Log-Laplace",
    "smooth-gamma": "Smooth Gamma",
    "smooth-laplace": "Smooth Laplace",
}
_ESTIMATES = "eree, estimates from what is released"
_OURS = {"auto": "eree", "auto-shrunk": _ESTIMATES, "by-size-shrunk": _ESTIMATES}
#: Workloads whose cells are hidden one by one, by their own largest workplace: limits are known.
_LIMITED = ("workload-1", "workload-2")


def limits_of(figures: Figures, folder: Path, workload: str) -> Iterator[tuple[Point, Point]]:
    """Both limits of a workload, as ratios to infusion, for every epsilon of the study."""
    infused = figures.value(workload, "infusion", None, None, "l1")
    path = cells_file(folder, WORKLOADS[workload])
    if not infused or not path.exists():
        return
    sizes, alpha = Counted.read(path).largest, Fraction(ALPHA)
    for text in EPSILONS:
        epsilon = float(text)
        known = float(known_step_errors(sizes, alpha, epsilon).mean())
        least = least_error(sizes, alpha, epsilon)
        yield Point(epsilon, known / infused), Point(epsilon, least / infused)


def panels(figures: Figures, folder: Path) -> list[Panel]:
    """The panels of the workloads that the study has."""
    found = []
    for workload, title in _TITLES.items():
        ours = {
            words: line for name, words in _OURS.items() if (line := _line(figures, workload, name))
        }
        if not ours:
            continue
        published = {
            words: line
            for name, words in _PUBLISHED.items()
            if (line := _line(figures, workload, name))
        }
        limits = list(limits_of(figures, folder, workload)) if workload in _LIMITED else []
        known, least = zip(*limits, strict=True) if limits else ((), ())
        free = _line(figures, workload, "known-scales")
        found.append(Panel(title, published, ours, known or free, least))
    return found


def _line(figures: Figures, workload: str, mechanism: str) -> list[Point]:
    rows = (figures.row(workload, mechanism, ALPHA, epsilon) for epsilon in EPSILONS)
    return [
        Point(float(row.epsilon or 0), row.value, hollow=row.delta > MOST_DELTA)
        for row in rows
        if row is not None
    ]
