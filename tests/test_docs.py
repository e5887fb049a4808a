"""The documentation says what is: its pages run, and its site builds without another host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from playwright.sync_api import Browser

import eree
import eree_study
import pages
from browsing import browser, opened

__all__ = ["browser"]

DOCS = pages.ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_comes_out(page: Path, tmp_path: Path) -> None:
    complaints = pages.run(page.read_text(encoding="utf-8"), tmp_path)
    assert not complaints, "\n\n".join(complaints)


def test_a_page_that_lies_is_caught(tmp_path: Path) -> None:
    page = (
        '```csv title="a/b.csv"\nx\n```\n'
        "```console\n$ cat a/b.csv\ny\n$ echo one two\none …\n$ seq 4\n1\n…\n4\n```\n"
        "```python\nprint(1 + 1)\n```\n```text\n3\n```\n"
        "```python\nraise ValueError\n```\n"
    )
    complaints = pages.run(page, tmp_path)
    assert [c.splitlines()[0] for c in complaints] == [
        "cat a/b.csv",
        "print(1 + 1)",
        "raise ValueError",
    ]


@pytest.mark.parametrize(
    ("shown", "came", "alike"),
    [
        ("┏━━━━━┓\n│ 1,204 jobs │\n", "┏━━┓\n│ -7 to 19  jobs │\n", True),
        ("│ 12 or more │ 4.5% │\n", "│   3 │  17% │\n", True),
        ("┃  decision ┃\n│ undecided │\n", "┃ decision ┃\n│    above │\n", True),
        ("['below', 'undecided']\n", "['below', 'above']\n", True),
        ("all above 3\n", "all below 3\n", False),
        ("12 jobs\n", "no jobs\n", False),
        ("12 jobs\n", "12 new jobs\n", False),
        ("12 jobs\n", "12 jobs\n12 jobs\n", False),
    ],
)
def test_noisy_figures_may_change_and_their_words_may_not(
    shown: str, came: str, alike: bool, tmp_path: Path
) -> None:
    (tmp_path / "came").write_text(came, encoding="utf-8")
    block = f"```console\n$ cat came\n{shown}```\n"
    assert (pages.run(f"{pages.NOISY}\n{block}", tmp_path) == []) is alike
    assert pages.run(block, tmp_path) != []


def test_every_block_of_a_page_has_a_language_that_the_tests_know() -> None:
    for page in [pages.ROOT / "README.md", *PAGES]:
        fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        languages = {fence.split(" ")[0] for fence in fences[::2]}
        assert languages <= {"console", "python", "text", "toml", "csv", "sh"}, page.name


def test_pages_and_commands_name_the_papers_in_words() -> None:
    """Short names such as QUERYTOOL are those of who wrote this, and of nobody else."""
    said = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    said |= {" ".join(w): pages.shell(f"eree {' '.join(w)} --help", DOCS) for w in commands()}
    short = re.compile(r"\b(PAPER|REPORT|SLIDES|QUERYTOOL)\b")
    assert [name for name, text in said.items() if short.search(text)] == []


def commands(*group: str) -> list[tuple[str, ...]]:
    """The words of every command that the help of a group lists, and of those that they list."""
    listed = pages.shell(" ".join(("eree", *group, "--help")), DOCS)
    _, found, rest = listed.partition("\nCommands:\n")
    names = re.findall(r"^  ([\w-]+)  ", rest.split("\n\n")[0], re.MULTILINE) if found else []
    return [words for name in names for words in ((*group, name), *commands(*group, name))]


# ----------------------------------------------------------------------------------- the site

one_build = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, strictly."""
    made = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(made)],
        cwd=pages.ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_make_docs_builds_strictly() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "--always-make", "docs"],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "mkdocs --quiet build --strict" in recipe.stdout


@one_build
def test_every_command_shows_its_help_on_the_site(site: Path) -> None:
    page = (site / "commands.html").read_text(encoding="utf-8")
    shown = unescape(re.sub(r"<[^>]+>", "", page))
    found = commands()
    assert {("check",), ("ledger",), ("ledger", "verify"), ("cube", "synth")} <= set(found)
    missing = [w for w in found if pages.shell(f"eree {' '.join(w)} --help", DOCS) not in shown]
    assert missing == []


@one_build
def test_the_site_can_be_searched_in_the_words_of_the_domain(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    text = " ".join(entry["text"] for entry in index["docs"])
    for word in ("establishment", "employer", "disclosure avoidance", "contingency table"):
        assert word in text


@one_build
def test_a_site_opened_from_its_files_can_be_searched(site: Path, browser: Browser) -> None:
    context = opened(browser)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for start, typed, found in (
        ("index.html", "rolled back", "ledger.html"),
        ("ledger.html", "staircase", "proofs.html"),
    ):
        page.goto((site / start).as_uri())
        page.locator(".md-search__input").click()
        page.keyboard.type(typed)
        page.locator(f".md-search-result__link[href*='{found}']").first.click()
        page.wait_for_url(f"**/{found}*")
    assert asked
    assert [url for url in asked if not url.startswith(site.as_uri())] == []
    context.close()


@one_build
def test_the_reference_has_every_public_name(site: Path) -> None:
    text = {page.stem: page.read_text(encoding="utf-8") for page in site.glob("reference*.html")}
    first = re.findall(r'id="eree\.\w+" class="doc', text["reference"])
    assert 30 < len(first) <= 40  # what most work needs; the rest has pages of its own
    reference = "".join(text.values())
    for package in (eree, eree_study):
        for name in package.__all__:
            assert f'id="{package.__name__}.{name}"' in reference, name
    _, _, publish = text["reference"].partition('id="eree.publish"')
    for name in ("Plan", "Tables", "Ledger", "Release"):  # types of its signature are links
        assert f'href="#eree.{name}"' in publish.partition("Args")[0][:8_000], name


@one_build
def test_mathematics_is_mathml_without_a_script(site: Path) -> None:
    page = (site / "tabulation.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 10
    assert "arithmatex" not in page
    assert not re.search(r"mathjax|katex", page, re.IGNORECASE)


class Loaded(HTMLParser):
    """Collects the addresses that a browser fetches by itself when it opens a page."""

    FETCHED: ClassVar = {
        "script": "src",
        "img": "src",
        "iframe": "src",
        "source": "src",
        "video": "src",
        "audio": "src",
        "embed": "src",
        "object": "data",
        "link": "href",
        "form": "action",
    }

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if address := given.get(self.FETCHED.get(tag, "")):
            self.addresses.append(address)
        self.addresses += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style") or "")


def outside(addresses: list[str]) -> list[str]:
    """Those addresses that lead to another host."""
    return [a for a in addresses if re.match(r"(?:[a-z]+:)?//", a) and not a.startswith("file:")]


@one_build
def test_the_site_loads_nothing_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        parser = Loaded()
        parser.feed(text)
        assert parser.addresses
        assert outside(parser.addresses) == [], page.name
        # The theme's script knows hosts for diagrams and for a repository's stars; no page asks.
        assert 'class="mermaid"' not in text
        assert 'data-md-component="source"' not in text
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        imported = re.findall(r"@import\s+(?:url\()?['\"]?([^'\");]+)", text)
        fetched = re.findall(r"url\(\s*['\"]?((?!data:)[^'\")]+)", text)
        assert outside(imported + fetched) == [], style.name


def test_a_page_that_loads_from_outside_is_caught() -> None:
    parser = Loaded()
    parser.feed(
        '<script src="https://cdn.example/x.js"></script><link href="//fonts.example/y.css">'
        '<img src="images/z.png"><a href="https://example.org">a plain link</a>'
    )
    assert outside(parser.addresses) == ["https://cdn.example/x.js", "//fonts.example/y.css"]
