"""Results for pages of others: a table, chart or map in a frame, without the form around it."""

from __future__ import annotations

import re
from dataclasses import replace

from eree.web.reply import HTML, Reply

_PARTS = re.compile(
    r'<html lang="(?P<language>[^"]*)">.*?(?P<title><title>.*?</title>).*?'
    r'(?P<style><link rel="stylesheet"[^>]*>).*?'
    r'<link rel="canonical" href="(?P<address>[^"]*)">.*?'
    r"<h1>(?P<heading>.*?)</h1>.*?"
    r'<section class="result"[^>]*>(?P<rest>.*)',
    re.DOTALL,
)
_SECTION = re.compile("<section|</section>")
#: Tags of a form, what sends it, and what leads to it; what is between the tags stays.
_FORM = re.compile(
    '<p class="jump">.*?</p>\n?|</?form[^>]*>|<input[^>]*>|<button[^>]*>[^<]*</button>'
)


def embedded(page: Reply) -> Reply:
    """The result of a page, for a frame; whatever is clicked there opens the whole page.

    It has no script and no form, and nothing of it can be sent in another's name: any site may
    show it in a frame.
    """
    if page.status != 200 or page.kind != HTML:
        return page
    found = _PARTS.search(page.body.decode())
    assert found is not None, "every page of a data set has these parts"
    lines = [
        "<!doctype html>",
        f'<html lang="{found["language"]}">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        found["title"],
        '<base target="_blank">',
        f'<link rel="canonical" href="{found["address"]}">',
        found["style"],
        "</head>",
        "<body>",
        f'<main class="embed"><h1 class="visually-hidden">{found["heading"]}</h1>',
        _FORM.sub("", _within(found["rest"])),
        f'<p class="links"><a href="{found["address"]}">{found["heading"]}</a></p></main>',
        "</body>",
        "</html>",
    ]
    return replace(page, body="\n".join(lines).encode(), framed=True)


def _within(text: str) -> str:
    """What comes before the end of the section that a text begins in."""
    depth = 1
    for found in _SECTION.finditer(text):
        depth += 1 if found[0] == "<section" else -1
        if depth == 0:
            return text[: found.start()]
    raise AssertionError("every section has an end")
