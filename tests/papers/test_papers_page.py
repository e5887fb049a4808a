"""The page of the papers: nothing of them is left out, and whatever it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz_arguments import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
#: The numbered statements of each text.
STATEMENTS = {
    "The paper": {
        "Definition": "2.1 2.2 2.3 2.4 2.5 4.1 4.2 4.3 7.1 7.2 7.3 7.4 8.1 8.2 8.3 9.1",
        "Theorem": "2.1 7.1 7.2 7.3 7.4 7.5 8.1 8.3 8.4",
        "Lemma": "8.2 8.5 8.6 8.7 8.8 9.1 9.2 9.3",
        "Algorithm": "1 2 3",
        "Table": "1 2",
        "Figure": "1 2 3 4 5",
        "Finding": "1 2 3 4 5 6",
    },
    "The report": {
        "Definition": "2.1 2.5 4.1 4.2 4.3 5.1 5.2 5.3",
        "Theorem": "5.1 5.3 5.4",
        "Lemma": "5.2 5.5 5.6 5.7",
        "Algorithm": "1 2 3",
        "Figure": "1",
    },
    "The slides": {"Algorithm": "1 2 3", "Figure": "2 3 4 5", "Lemma": "8.6 9.3"},
    "The query tool": {"Table": "1 2 3 4", "Figure": "1"},
}


def section(title: str) -> str:
    """The part of the page under a heading."""
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("title", STATEMENTS)
def test_every_numbered_statement_has_a_row_with_a_test(title: str) -> None:
    rows = [row for row in section(title).splitlines() if row.startswith("|")][2:]
    assert all(row.count("|") == 6 and "`tests/" in row.split("|")[5] for row in rows)
    for kind, numbers in STATEMENTS[title].items():
        for number in numbers.split():
            wanted = re.compile(rf"{kind} {re.escape(number)}\b(?!\.\d)")
            assert any(wanted.search(row) for row in rows), f"{kind} {number}"


@pytest.mark.parametrize("name", ["Blowfish", "Pufferfish", "OnTheMap", "FEMA", "informed"])
def test_what_the_papers_are_known_for_is_named(name: str) -> None:
    assert any(name in row for row in PAGE.splitlines() if row.startswith("|"))


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"`eree ([a-z ]+)`", PAGE))
    assert len(named) > 15
    for words in named:
        assert command(tuple(words.split()))


def test_every_test_and_every_page_that_is_named_exists() -> None:
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert len(tests) > 30
    assert [name for name in sorted(tests) if not (ROOT / name).exists()] == []
    for page, _, anchor in (link.partition("#") for link in re.findall(r"\]\((.*?)\)", PAGE)):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        known = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
        assert not anchor or anchor in known, f"{page}#{anchor}"
