"""The ten tasks of a reader, in a real browser, by keyboard alone, with and without JavaScript."""

from __future__ import annotations

import csv
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from eree.web.server import QueryTool

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: So many presses of the tab key reach everything on a page.
MOST_TABS = 400


@pytest.fixture(scope="module")
def tool(releases: list[Path]) -> Iterator[QueryTool]:
    found = QueryTool(releases, port=0)
    running = threading.Thread(target=found.run)
    running.start()
    yield found
    found.stop()
    running.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "the browser is missing; 'make test' installs it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without JavaScript"])
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(java_script_enabled=request.param, accept_downloads=True)
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext, tool: QueryTool) -> Iterator[Page]:
    """A page that sees no error and asks no other host."""
    found = context.new_page()
    hosts, errors = set(), []
    found.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    yield found
    assert hosts <= {urlsplit(tool.address).netloc}
    assert [error for error in errors if "400" not in error] == []


def jobs(tool: QueryTool) -> str:
    return next(data.name for data in tool.catalogue.data_sets if data.name.startswith("jobs"))


def reach(page: Page, selector: str) -> None:
    """Press the tab key until an element has the focus."""
    wanted = page.locator(selector).first
    wanted.wait_for(state="attached")
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    pytest.fail(f"the keyboard does not reach {selector}")


def submit(page: Page) -> None:
    reach(page, "#builder .go")
    page.keyboard.press("Enter")


def test_find_a_table(page: Page, tool: QueryTool) -> None:
    page.goto(tool.address)
    reach(page, f'.card h2 a[href="/d/{jobs(tool)}"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("table caption")
    assert "Jobs" in page.inner_text("h1")


def test_put_variables_on_rows_and_columns(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    reach(page, 'input[name="at.ownership"]')
    for side in ("rows", "cols"):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f'input[name="at.ownership"][value="{side}"]:checked')
        page.wait_for_timeout(400)
    submit(page)
    page.wait_for_url("**cols=ownership**")
    page.wait_for_selector("thead th.total")
    assert "Private" in page.inner_text("thead") and "Total" in page.inner_text("tfoot")


def test_filter(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    before = page.inner_text("tfoot .estimate")
    reach(page, 'details:has(input[name="where.ownership"]) summary')
    page.keyboard.press("Enter")
    reach(page, 'input[name="where.ownership"][value="public"]')
    page.keyboard.press("Space")
    submit(page)
    page.wait_for_url("**where.ownership=public**")
    page.wait_for_selector("caption:has-text('Public')")
    assert page.inner_text("tfoot .estimate") != before


def test_find_a_code_in_a_long_list(page: Page, tool: QueryTool) -> None:
    cube = next(data for data in tool.catalogue.data_sets if data.kind == "cube")
    variable = max(cube.variables, key=lambda v: len(v.codes))
    page.goto(f"{tool.address}/d/{cube.name}/codes/{variable.name}")
    code = variable.codes[-1]
    reach(page, "#find")
    page.keyboard.type(code)
    page.keyboard.press("Enter")
    page.wait_for_url("**find=**")
    box = f'input[name="where.{variable.name}"][value="{code}"]'
    reach(page, box)
    page.keyboard.press("Space")
    reach(page, ".picker .go")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**where.{variable.name}={code}**")


def test_read_an_error(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    assert page.inner_text("tbody .error").startswith("±")
    reach(page, "#f-show")
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(400)
    submit(page)
    page.wait_for_url("**show=interval**")
    page.wait_for_selector("tbody .error")
    assert " to " in page.inner_text("tbody .error")


@pytest.mark.parametrize(
    ("tab", "shows"), [("chart", "svg.chart .bar"), ("ranking", "table.ranking tbody tr")]
)
def test_chart_and_rank(tab: str, shows: str, page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    reach(page, f'.tabs a[href*="/{tab}"]')
    page.keyboard.press("Enter")
    page.wait_for_selector(shows)
    assert f"/{tab}?" in page.url and page.locator(shows).count() > 5


def test_threshold(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}/threshold?rows=sector&show=margin")
    reach(page, "#f-damage")
    page.keyboard.type("72 999999999")
    submit(page)
    page.wait_for_selector(".verdict .above")
    assert "Surely above" in page.inner_text("tbody")


def test_download(page: Page, tool: QueryTool, tmp_path: Path) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    reach(page, 'a[href*=".csv?"]')
    with page.expect_download() as downloading:
        page.keyboard.press("Enter")
    path = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert path.suffix == ".csv" and len(rows) == page.locator("tbody tr").count()


def test_share(page: Page, context: BrowserContext, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&where.sector=72&show=interval")
    reach(page, "#permalink")
    address = page.input_value("#permalink")
    other = context.new_page()
    other.goto(address)
    assert other.inner_text("table") == page.inner_text("table")
    assert tool.catalogue.data_sets[0].release.identity in page.input_value("#citation")


def test_read_the_guarantee(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}")
    reach(page, '.tabs a[href*="/about"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What an attacker can learn")
    assert "a release changes the odds by at most" in page.inner_text("main")


def test_recover_from_a_bad_address(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=nothing")
    assert "no variable 'nothing'" in page.inner_text("main")
    reach(page, f'main a[href="/d/{jobs(tool)}"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("table caption")


def test_the_back_button_goes_back(browser: Browser, tool: QueryTool) -> None:
    page = browser.new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    page.select_option("#f-show", "interval")
    page.wait_for_url("**show=interval**")
    page.go_back()
    page.wait_for_url("**show=margin**")
    page.wait_for_function(
        "document.querySelector('tbody .error').innerText.startsWith('±')", timeout=5000
    )
    page.close()


def views(tool: QueryTool) -> dict[str, str]:
    name = jobs(tool)
    cube = next(data.name for data in tool.catalogue.data_sets if data.kind == "cube")
    damage = "rows=sector&show=margin&damage=72%20999999999%0A62%201"
    return {
        "home": "/",
        "table": f"/d/{name}?rows=sector&cols=ownership&show=margin",
        "cube": f"/d/{cube}?rows=education&cols=strength&show=interval",
        "chart": f"/d/{name}/chart?rows=sector&show=margin",
        "heat": f"/d/{name}/chart?rows=place&cols=sector&show=margin",
        "ranking": f"/d/{name}/ranking?rows=place&show=margin",
        "threshold": f"/d/{name}/threshold?{damage}",
        "about": f"/d/{cube}/about",
        "codes": f"/d/{cube}/codes/occupation",
        "api": "/api",
        "error": f"/d/{name}?rows=nothing",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_accessible_and_never_wider_than_the_screen(
    width: int, scheme: str, browser: Browser, tool: QueryTool
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    for name, address in views(tool).items():
        page.goto(tool.address + address)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        found = Axe().run(page).response
        assert len(found["passes"]) > 10  # it did look
        said = [(v["id"], [n["html"][:120] for n in v["nodes"][:2]]) for v in found["violations"]]
        assert said == [], (name, said)
        if "PAGE" in os.environ and scheme == "light" and name in ("home", "table", "chart"):
            page.screenshot(path=IMAGES / f"query-tool-{name}-{width}.png")
    context.close()
