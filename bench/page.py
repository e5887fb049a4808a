"""What was measured, as files: all figures in a CSV file, and on the page those people decide by.

Both are made of the tables in Markdown that the parts write.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from torture import marks

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
GRID = PAGE.with_suffix(".csv")
HEADS = ("part", "table", "row", "measure", "value")
#: Rows and whole tables of a part, by how they begin, that the page leaves to the file.
LEFT_OUT = {
    "bench": r"\| (reading the columns|hand-written SQL \||eree (synth|check))"
    r"|\*\*10.9 million jobs: place × sector × ownership\*\*",
    "bench-releases": r"\*\*10.9 million jobs: place × sector × ownership\*\*",
    "bench-commands": r"\| eree (check|rank|plan, 1,000)",
    "bench-draws": r"\| (eree, (log-laplace|smooth-gamma|smooth-laplace-exact|linlog|truncated"
    r"|capped|radial|smooth-pareto)|NumPy, float Laplace given)",
    "bench-ledger": r"\| \w+ \| (10|1,000|10,000) \|",
    "bench-totals": r"\| (1 \||. \| (0|1/4) \|)",
    "bench-cubes": r"\| eree, (exact|no calibration|rake|least-squares \|)|\*\*17,280 cells",
    "bench-web": r"\| (cube of (17,280 cells|8.9 million cells \| DuckDB)"
    r"|.* \| (first page|table|one question|(behind nginx, )?200 questions.*) \|)"
    r"|\*\*Start and memory",
}
#: Columns that the page leaves to the file.
HIDDEN = {
    *("ratio", "MiB then", "totals alone", "ms to settle", "rows"),
    *("undecided per million", "kB", "kB in all", "ms until loaded", "ms, longest"),
    *("answers per second", "median ms", "published figures", "sums of cells"),
}
#: Columns that name a row, besides the first.
NAMES = ("entries", "share for totals", "questions", "page")
Row = tuple[str, ...]


def rows(part: str, text: str) -> Iterator[Row]:
    """Every figure of the tables of a part, and what they were measured on."""
    table = ""
    for block in text.split("\n\n"):
        first, *lines = block.strip("\n").splitlines() or [""]
        if first.startswith("**"):
            table = first.strip("*")
        elif first.startswith("|"):
            heads = _cells(first)
            for line in lines[1:]:
                yield from ((part, table, *figure) for figure in _figures(heads, _cells(line)))
        elif first:
            yield part, "", "", "measured on", " ".join([first, *lines])


def _figures(heads: list[str], cells: list[str]) -> Iterator[Row]:
    named = [i for i, head in enumerate(heads) if not i or head in NAMES]
    name = ", ".join(cells[i] for i in named)
    for i, (head, cell) in enumerate(zip(heads, cells, strict=True)):
        if i not in named and cell:
            yield name, head, cell


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def kept(grid: str, texts: dict[str, str]) -> str:
    """The CSV file with new figures of some parts; the others keep theirs."""
    _, *before = csv.reader(io.StringIO(grid))
    parts = dict.fromkeys([*(row[0] for row in before), *texts])
    found = io.StringIO()
    lines = csv.writer(found, lineterminator="\n")
    lines.writerow(HEADS)
    for part in parts:
        old = (row for row in before if row[0] == part)
        lines.writerows(rows(part, texts[part]) if part in texts else old)
    return found.getvalue()


def written(page: str, texts: dict[str, str]) -> str:
    """The page with new tables for some parts."""
    for part, text in texts.items():
        page = marks.replaced(page, part, f"{shortened(part, text)}\n")
    return page


def shortened(part: str, text: str) -> str:
    """The tables of a part without what is left out, and without what it was measured on."""
    left_out, blocks, named = re.compile(LEFT_OUT.get(part, r"(?!)")), list[str](), True
    for block in text.strip("\n").split("\n\n"):
        if block.startswith("**"):
            named = not left_out.match(block)
        if not named or not block.startswith(("|", "**")):
            continue
        lines = [line for line in block.splitlines() if not left_out.match(line)]
        if lines[0].startswith("|"):
            shown = [i for i, head in enumerate(_cells(lines[0])) if head not in HIDDEN]
            kept = ([_cells(line)[i] for i in shown] for line in lines)
            lines = ["|" + "|".join(_cell(cell) for cell in cells) + "|" for cells in kept]
            if len(lines) == 2:  # no row is left, so its name goes too
                blocks.pop()
                continue
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _cell(cell: str) -> str:
    return cell if cell.startswith("---") else f" {cell} " if cell else " "
