"""Pages in Markdown, from templates that lie beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from eree.errors import require

require("study", "jinja2")
from jinja2 import Environment, StrictUndefined  # noqa: E402  # refused by its name before

_ENVIRONMENT = Environment(
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,  # noqa: S701  # Markdown of our own figures
)


def page(package: str, name: str, **values: object) -> str:
    """The template of a package, such as "querytool.md", with some values."""
    text = files(package).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
    return _ENVIRONMENT.from_string(text).render(values).rstrip("\n") + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> str:
    """A table; columns of numbers are set to the right."""
    rule = ("|--:" if numbers else "|---") * len(heads) + "|"
    return "\n".join([_line(heads), rule, *map(_line, rows)])


def _line(cells: Iterable[str]) -> str:
    """A row; a cell without text has one blank."""
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
