"""A real browser, a query tool that it visits, and how pages are looked at."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import eree
import eree_study
from eree.web.server import QueryTool
from processes import PATIENCE
from served import TABLES

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTHS, SCHEMES = (390, 1280), ("light", "dark")
NESTED = (
    "rows=place&rows=sector&cols=ownership&group.place=county&group.sector=supersector"
    "&subtotals=yes&show=margin"
)


@pytest.fixture(scope="module")
def tool(
    releases: list[Path], maps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueryTool]:
    folders, shapes = releases, maps
    if os.environ.get("PAGE"):  # pictures for the documentation show a larger country
        folders, shapes = country(tmp_path_factory.mktemp("country"), releases[1])
    with running(folders, shapes) as found:
        yield found


@contextmanager
def running(folders: list[Path], maps: list[str]) -> Iterator[QueryTool]:
    """A query tool that listens."""
    found = QueryTool(folders, port=0, maps=maps)
    ready = threading.Event()
    thread = threading.Thread(target=found.run, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield found
    finally:
        found.stop()
        thread.join()


def country(home: Path, cube: Path) -> tuple[list[Path], list[str]]:
    """A release of a country with many places, and its maps."""
    tables = eree.load(eree_study.synthesize(home / "data", jobs=400_000, areas=True))
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    plan = eree.Plan.of({"data": str(tables.folder), "privacy": privacy, "table": TABLES})
    total = eree.Guarantee(eree.Strong("0.1"), 100)
    ledger = eree.Ledger.create(home / "ledger.db", total, data_set="data")
    eree.publish(plan, tables, ledger=ledger, out=home / "tables")
    maps = [f"{name}={home / 'data' / name}.geojson" for name in ("place", "county")]
    return [home / "tables", cube], maps


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "the browser is missing; 'make test' installs it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=1000 * PATIENCE
        )
        yield found
        found.close()


def opened(browser: Browser, **given: Any) -> BrowserContext:
    """A window of a browser that is patient with a busy machine."""
    found = browser.new_context(**given)
    found.set_default_timeout(1000 * PATIENCE)
    return found


def jobs(tool: QueryTool) -> str:
    return next(data.name for data in tool.catalogue.data_sets if data.name.startswith("jobs"))


def views(tool: QueryTool) -> dict[str, str]:
    name = jobs(tool)
    cube = next(data.name for data in tool.catalogue.data_sets if data.kind == "cube")
    damage = "72 90000\n62 1\n11 6000\n23 120000\n44-45 60000"
    damage = f"rows=sector&show=margin&damage={quote(damage)}"
    return {
        "home": "/",
        "table": f"/d/{name}?rows=sector&cols=ownership&show=margin",
        "cube": f"/d/{cube}?rows=education&cols=strength&show=interval",
        "chart": f"/d/{name}/chart?rows=sector&show=margin",
        "heat": f"/d/{name}/chart?rows=sector&cols=place&group.place=county&as=heat&show=margin",
        "grouped": f"/d/{name}/chart?rows=sector&cols=ownership&show=margin",
        "panels": f"/d/{cube}/chart?rows=strength&cols=education&as=panels&show=margin",
        "pair": f"/d/{name}/ranking?rows=sector&one=11&two=72&show=margin",
        "wide-heat": f"/d/{name}/chart?rows=place&cols=sector&show=margin",
        "map": f"/d/{name}/map?rows=place&show=margin",
        "near-map": f"/d/{name}/map?rows=place&where.place=18001&where.sector=22&show=margin",
        "nested": f"/d/{name}?{NESTED}",
        "nested-columns": f"/d/{cube}?rows=telework&cols=education&cols=strength&subtotals=yes",
        "ranking": f"/d/{name}/ranking?rows=place&show=margin",
        "threshold": f"/d/{name}/threshold?{damage}",
        "asked": f"/d/{name}/threshold?rows=sector&show=margin",
        "slip": f"/d/{name}/threshold?rows=sector&show=margin&damage=zz%205",
        "wide": f"/d/{name}?rows=place&rows=ownership&cols=sector&subtotals=yes&show=interval",
        "about": f"/d/{cube}/about",
        "about-table": f"/d/{name}/about",
        "methods": "/methods",
        "codes": f"/d/{cube}/codes/occupation",
        "api": "/api",
        "error": f"/d/{name}?rows=nothing",
        "lost": "/nothing",
    }


#: Pages whose pictures are in the documentation, by colours and width.
PICTURES = {
    ("light", 1280): ("home", "table", "nested", "chart", "map", "ranking", "about"),
    ("light", 390): ("table", "ranking"),
    ("dark", 1280): (),
    ("dark", 390): ("map",),
}


def keep(page: Page, name: str) -> None:
    """Keep a picture of what is on the screen, in few colours, so that it is small."""
    with Image.open(BytesIO(page.screenshot())) as picture:
        few = picture.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    few.save(IMAGES / name, optimize=True)
    assert (IMAGES / name).stat().st_size < 150_000


def half(names: Iterable[str], width: int, scheme: str) -> list[str]:
    """Half of the pages, so that all of them meet every width and every scheme."""
    turn = WIDTHS.index(width) + SCHEMES.index(scheme)
    return [name for number, name in enumerate(names) if (number + turn) % 2 == 0]


def look(browser: Browser, tool: QueryTool, names: Iterable[str], width: int, scheme: str) -> int:
    """Look at some pages: accessible, and no wider than the screen; how many were looked at."""
    context = opened(
        browser,
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    page, addresses, count = context.new_page(), views(tool), 0
    for name in names:
        page.goto(tool.address + addresses[name])
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        found = Axe().run(page).response
        assert len(found["passes"]) > 10  # it did look
        said = [(v["id"], [n["html"][:120] for n in v["nodes"][:2]]) for v in found["violations"]]
        assert said == [], (name, said)
        if name in ("chart", "heat", "wide-heat", "ranking", "threshold"):  # nor inside itself
            inside = (
                "[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
            )
            assert max([0, *page.evaluate(inside)]) <= 1, name
        if os.environ.get("PAGE") and name in PICTURES[scheme, width]:
            keep(page, f"query-tool-{name}{'-dark' * (scheme == 'dark')}-{width}.png")
        count += 1
    context.close()
    return count
