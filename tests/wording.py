"""All English texts that pages say: keys of other languages, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path

from jinja2 import Environment

WEB = Path(__file__).parents[1] / "src" / "eree" / "web"


def texts() -> set[str]:
    """The keys in templates and in Python."""
    found = {"English"}  # the name of the language itself
    environment = Environment(
        extensions=["jinja2.ext.i18n"], trim_blocks=True, lstrip_blocks=True, autoescape=True
    )
    for path in (WEB / "templates").glob("*.html"):
        for _, _, text in environment.extract_translations(path.read_text(encoding="utf-8")):  # type: ignore[attr-defined]
            found.update([text] if isinstance(text, str) else filter(None, text))
    for path in WEB.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
                key = node.args[0]
                assert isinstance(key, ast.Constant), (path.name, node.lineno)
                found.add(key.value)
    return found
