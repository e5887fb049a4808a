"""Tables of pages in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False
) -> Iterator[str]:
    """The lines of a table, and an empty one after it; columns of numbers are set to the right."""
    yield _line(heads)
    yield ("|--:" if numbers else "|---") * len(heads) + "|"
    for row in rows:
        yield _line(row)
    yield ""


def _line(cells: Iterable[str]) -> str:
    """A row; a cell without text has one blank."""
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
