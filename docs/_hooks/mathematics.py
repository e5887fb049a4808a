"""Turns formulas into MathML while the site is built, so that no page needs a script for them."""

import re
from html import unescape

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: object) -> str:
    """Replace what pymdownx.arithmatex marked as a formula by MathML."""
    return FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    element, bracket, source = found.groups()
    display = "inline" if bracket == "(" else "block"
    formula = convert(unescape(source).strip(), display=display)
    return f'<{element} class="formula">{formula}</{element}>'
