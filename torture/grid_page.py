"""The papers' grid as files: all points in a CSV file, and a few of them in a table of the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from eree.mechanisms.grid import Point
from torture import marks

MARK = "grid"
GRID = Path(__file__).parents[1] / "docs" / "certificates.csv"
HEADS = (
    *("mechanism", "alpha", "epsilon", "found_epsilon", "found_delta"),
    *("error_small", "error_large"),
)
#: The points that the page shows.
ALPHA, EPSILONS = "0.1", ("2",)


def row(point: Point) -> tuple[str, ...]:
    """Found loss, and the errors of a small and of a large cell; empty where there is none."""
    named = (point.mechanism, point.alpha, point.epsilon)
    if point.refusal is not None:
        return (*named, "", "", "", "")
    assert point.small is not None
    assert point.large is not None
    delta = f"{point.found_delta:.1e}" if point.claimed_delta else "0"
    errors = (f"{point.small:.3g}", f"{point.large:.3g}")
    return (*named, f"{point.found_epsilon:.4f}", delta, *errors)


def grid(points: Sequence[Point]) -> str:
    """The CSV file of all points."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADS, *map(row, points)])
    return text.getvalue()


def rows(text: str) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """What a CSV file says of a mechanism at an alpha and an epsilon."""
    _, *lines = csv.reader(io.StringIO(text))
    return {(name, alpha, epsilon): tuple(rest) for name, alpha, epsilon, *rest in lines}


def table(text: str) -> str:
    """The table of the page, from the CSV file."""
    found = rows(text)
    lines = [
        "| mechanism | " + " | ".join(f"epsilon {epsilon}" for epsilon in EPSILONS) + " |",
        "|---" * (len(EPSILONS) + 1) + "|",
    ]
    for name in dict.fromkeys(name for name, _, _ in found):
        cells = (_cell(*found[name, ALPHA, epsilon]) for epsilon in EPSILONS)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(loss: str, delta: str, small: str, large: str) -> str:
    if not loss:
        return "–"
    return f"{loss}{f', δ {delta}' * (delta != '0')}<br>{small} · {large}"


def shown(page: str) -> str:
    """The part of a page between the marks."""
    return marks.shown(page, MARK)


def replaced(page: str, part: str) -> str:
    """The page with another part between the marks."""
    return marks.replaced(page, MARK, part)
