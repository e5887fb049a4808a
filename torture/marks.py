"""The parts of pages that campaigns write: each stands between two marks with its name."""

from __future__ import annotations


def shown(page: str, name: str) -> str:
    """The part of a page between its marks."""
    begin, end = _marks(name)
    return page.partition(begin)[2].partition(end)[0]


def replaced(page: str, name: str, part: str) -> str:
    """The page with another part between the marks; a page without them is refused."""
    begin, end = _marks(name)
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place for {name}")
    return f"{before}{begin}{part}{end}{after}"


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
