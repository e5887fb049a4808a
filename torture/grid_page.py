"""The papers' grid as a page: one table for each alpha, mechanisms down, epsilons across."""

from __future__ import annotations

from collections.abc import Sequence

from eree.mechanisms.grid import ALPHAS, EPSILONS, Point
from torture import marks

MARK = "grid"


def figures(point: Point) -> str:
    """Found loss, and the errors of a small and of a large cell."""
    if point.refusal is not None:
        return "–"
    assert point.small is not None
    assert point.large is not None
    loss = f"{point.found_epsilon:.4f}"
    if point.claimed_delta:
        loss += f", δ {point.found_delta:.1e}"
    return f"{loss}<br>{point.small:.3g} · {point.large:.3g}"


def tables(points: Sequence[Point]) -> str:
    """All tables of the grid."""
    by = {(p.alpha, p.mechanism, p.epsilon): p for p in points}
    names = list(dict.fromkeys(p.mechanism for p in points))
    lines: list[str] = []
    for alpha in ALPHAS:
        lines += [f"**alpha = {alpha}**", ""]
        lines.append("| mechanism | " + " | ".join(f"epsilon {e}" for e in EPSILONS) + " |")
        lines.append("|---" * (len(EPSILONS) + 1) + "|")
        for name in names:
            cells = " | ".join(figures(by[alpha, name, epsilon]) for epsilon in EPSILONS)
            lines.append(f"| `{name}` | {cells} |")
        lines.append("")
    return "\n".join(lines)


def shown(page: str) -> str:
    """The part of a page between the marks."""
    return marks.shown(page, MARK)


def replaced(page: str, part: str) -> str:
    """The page with another part between the marks."""
    return marks.replaced(page, MARK, part)
