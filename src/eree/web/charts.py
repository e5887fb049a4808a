"""Charts drawn on the server: bars with error bars, and a heat map, as plain SVG.

Colours come from the style sheet by class, so that they follow the reader's choice of light or
dark, and nothing is styled inline.  Every mark has its figure as a title.
"""

from __future__ import annotations

from math import floor, isinf, log10
from xml.sax.saxutils import escape

import numpy as np

from eree.web.answer import ABSENT, UNRELIABLE, Answer
from eree.web.figures_in_words import figure, interval

WIDTH = 720
LABELS = 230
LINE = 24
#: The most bars and the most columns of a heat map on a page.
MOST_BARS, MOST_COLUMNS = 60, 40
SHADES = 7
#: A shade stands for less of the greatest figure than its number says: most figures are small.
POWER = 3


def chart(answer: Answer) -> str:
    """Bars where a table has no columns, else a heat map."""
    return bars(answer) if len(answer.cols) == 1 else heat_map(answer)


def bars(answer: Answer) -> str:
    """A bar for every row, with its interval."""
    count = min(len(answer.rows), MOST_BARS)
    cells = [answer.body.cell(i, 0) for i in range(count)]
    names = [" · ".join(answer.rows.labels(i)) or "All" for i in range(count)]
    ends = [cell.estimate if isinf(cell.high) else cell.high for cell in cells]
    top = max([1e-9, *ends, *(cell.estimate for cell in cells)])
    bottom = min([0.0, *(cell.estimate for cell in cells)])
    step = _step((top - bottom) / 4)
    top, bottom = step * -(-top // step), step * (bottom // step)
    wide = WIDTH - LABELS - 24

    def x(number: float) -> float:
        return LABELS + (number - bottom) / (top - bottom) * wide

    height = count * LINE + 40
    foot = height - 30
    parts = [_open(height, f"Bars of {count} figures with their intervals")]
    for k in range(round((top - bottom) / step) + 1):
        at = f"{x(bottom + k * step):.1f}"
        parts.append(f'<line class="grid" x1="{at}" y1="4" x2="{at}" y2="{foot}"/>')
        parts.append(
            f'<text class="tick" x="{at}" y="{height - 12}" text-anchor="middle">'
            f"{_tick(bottom + k * step)}</text>"
        )
    for i, (cell, name) in enumerate(zip(cells, names, strict=True)):
        y, thick = 8 + i * LINE, LINE - 9
        left, right = sorted((x(0), x(cell.estimate)))
        weak = " weak" if UNRELIABLE in cell.flags else ""
        said = f"{name}: {figure(cell, answer.decimals)}, {interval(cell, answer.decimals)}"
        parts.append(
            f"<g><title>{escape(said)}</title>"
            f'<text class="name" x="{LABELS - 8}" y="{y + 12}" text-anchor="end">'
            f"{escape(_cut(name, 31))}</text>"
            f'<rect class="bar{weak}" x="{left:.1f}" y="{y}"'
            f' width="{max(right - left, 0.5):.1f}" height="{thick}"/>'
        )
        if ABSENT not in cell.flags:
            open_, middle = isinf(cell.high), y + thick / 2
            low, far = x(cell.low), x(top) if open_ else x(cell.high)
            end = "" if open_ else f"M{far:.1f} {middle - 4}v8"
            path = f"M{low:.1f} {middle - 4}v8M{low:.1f} {middle}H{far:.1f}{end}"
            parts.append(f'<path class="whisker" d="{path}"/>')
        parts.append("</g>")
    zero = f"{x(0):.1f}"
    parts.append(f'<line class="axis" x1="{zero}" y1="4" x2="{zero}" y2="{foot}"/></svg>')
    return "".join(parts)


def heat_map(answer: Answer) -> str:
    """A field for every cell, darker where there are more; unreliable ones have a mark."""
    rows, cols = min(len(answer.rows), MOST_BARS), min(len(answer.cols), MOST_COLUMNS)
    values = answer.body.jobs[:rows, :cols]
    top = float(np.max(values)) if values.size else 0.0
    wide = max(14.0, min(64.0, (WIDTH - LABELS - 8) / max(cols, 1)))
    head = 128
    foot = head + rows * LINE + 14
    height = foot + 44
    width = max(WIDTH, int(LABELS + cols * wide + 110))
    parts = [_open(height, f"Heat map of {rows} rows and {cols} columns", width)]
    for j in range(cols):
        name = " · ".join(answer.cols.labels(j))
        x = LABELS + (j + 0.5) * wide
        parts.append(
            f'<text class="name" transform="translate({x:.1f} {head - 8}) rotate(-48)">'
            f"<title>{escape(name)}</title>{escape(_cut(name, 20))}</text>"
        )
    for i in range(rows):
        name = " · ".join(answer.rows.labels(i)) or "All"
        y = head + i * LINE
        parts.append(
            f'<text class="name" x="{LABELS - 8}" y="{y + 16}" text-anchor="end">'
            f"<title>{escape(name)}</title>{escape(_cut(name, 31))}</text>"
        )
        for j in range(cols):
            cell = answer.body.cell(i, j)
            share = max(cell.estimate, 0) / top if top > 0 else 0.0
            shade = min(SHADES - 1, int(share ** (1 / POWER) * SHADES))
            other = " · ".join(answer.cols.labels(j))
            told = f"{figure(cell, answer.decimals)}, {interval(cell, answer.decimals)}"
            said = f"{name}, {other}: {told}"
            x = LABELS + j * wide
            kind = "none" if ABSENT in cell.flags else f"heat-{shade}"
            parts.append(
                f'<g><title>{escape(said)}</title><rect class="{kind}" x="{x:.1f}" y="{y}"'
                f' width="{wide - 1:.1f}" height="{LINE - 1}"/>'
            )
            if UNRELIABLE in cell.flags:
                parts.append(
                    f'<circle class="dot" cx="{x + wide / 2 - 0.5:.1f}"'
                    f' cy="{y + LINE / 2 - 0.5}" r="2"/>'
                )
            parts.append("</g>")
    for shade in range(SHADES):  # from which figure on a shade begins
        x, start = LABELS + shade * 62, top * (shade / SHADES) ** POWER
        parts.append(f'<rect class="heat-{shade}" x="{x}" y="{foot}" width="61" height="14"/>')
        parts.append(f'<text class="tick" x="{x}" y="{foot + 30}">{_tick(start)}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _open(height: int, label: str, width: int = WIDTH) -> str:
    return (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
    )


def _step(rough: float) -> float:
    """A round number near a rough step."""
    power = 10.0 ** floor(log10(max(rough, 1e-9)))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)


def _tick(value: float) -> str:
    for size, word in ((1e9, "bn"), (1e6, "m"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.3g}{word}".replace("-", "−")
    return f"{value:,.3g}".replace("-", "−")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
