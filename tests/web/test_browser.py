"""The ten tasks of a reader, in a real browser, by keyboard alone, with and without JavaScript."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from browsing import SCHEMES, WIDTHS, half, jobs, look, opened, views
from eree.web.server import QueryTool

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool
#: So many presses of the tab key reach everything on a page.
MOST_TABS = 400


@pytest.fixture(scope="module", params=[True, False], ids=["with JavaScript", "without JavaScript"])
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    found = opened(browser, java_script_enabled=request.param, accept_downloads=True)
    yield found
    found.close()


@pytest.fixture(scope="module")
def window(context: BrowserContext) -> Page:
    """One for all tests: to open one takes longer than most that is done in it."""
    return context.new_page()


@pytest.fixture
def page(window: Page, tool: QueryTool) -> Iterator[Page]:
    """A page that sees no error and asks no other host."""
    hosts: set[str] = set()
    errors: list[str] = []
    heard: dict[str, Callable[[Any], None]] = {
        "request": lambda request: hosts.add(urlsplit(request.url).netloc),
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda said: errors.append(said.text) if said.type == "error" else None,
    }
    window.goto("about:blank")
    for event, hear in heard.items():
        window.on(event, hear)
    yield window
    for event, hear in heard.items():
        window.remove_listener(event, hear)
    assert hosts == {urlsplit(tool.address).netloc}
    assert [error for error in errors if "400" not in error] == []


def reach(page: Page, selector: str) -> None:
    """Press the tab key until an element has the focus."""
    wanted = page.locator(selector).first
    wanted.wait_for(state="attached")
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    pytest.fail(f"the keyboard does not reach {selector}")


def settled(page: Page) -> None:
    """Wait until a page shows the answer to what was last changed on it."""
    page.wait_for_selector("#result:not([aria-busy])", state="attached")


def submit(page: Page) -> None:
    settled(page)
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
        settled(page)
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
    submit(page)
    page.wait_for_url("**show=interval**")
    page.wait_for_selector("tbody .error")
    assert " to " in page.inner_text("tbody .error")


@pytest.mark.parametrize(
    ("tab", "shows"),
    [
        ("chart", "svg.chart .bar"),
        ("map", "svg.map a path"),
        ("ranking", "table.ranking tbody tr svg .range"),
    ],
)
def test_chart_map_and_rank(tab: str, shows: str, page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    reach(page, f'.tabs a[href*="/{tab}"]')
    page.keyboard.press("Enter")
    page.wait_for_selector(shows, state="attached")
    assert f"/{tab}?" in page.url and page.locator(shows).count() > 5


def test_an_area_of_the_map_leads_to_its_table(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}/map?rows=place&show=margin")
    code = page.locator("[data-area]").first.get_attribute("data-area")
    shown = page.locator("tbody tr").first.locator(".estimate").inner_text()
    reach(page, f'[data-area="{code}"]')
    page.keyboard.press("Enter")
    page.wait_for_url(f"**where.place={code}**")
    page.wait_for_selector("tfoot")
    assert page.inner_text("tfoot .estimate") == shown


def test_nest_two_variables_with_subtotals(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&show=margin")
    assert not page.locator("tr.subtotal").count()
    reach(page, 'input[name="subtotals"]')
    page.keyboard.press("Space")
    submit(page)
    page.wait_for_url("**subtotals=yes**")
    page.wait_for_selector("tr.subtotal")
    groups = page.locator("tbody th[scope=rowgroup]").count()
    assert page.locator("tr.subtotal").count() in (groups, groups - 1)  # the last may go on


def test_show_a_coarser_level(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&show=margin")
    total, rows = page.inner_text("tfoot .estimate"), page.locator("tbody tr").count()
    reach(page, "#g-place")
    page.keyboard.press("ArrowDown")
    submit(page)
    page.wait_for_url("**group.place=state**")
    page.wait_for_selector("tfoot")
    assert page.inner_text("tfoot .estimate") == total
    assert page.locator("tbody tr").count() < rows


def test_threshold(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}/threshold?rows=sector&show=margin")
    reach(page, "#f-damage")
    page.keyboard.type("72 999999999")
    submit(page)
    page.wait_for_selector(".verdict span.above")
    assert "Above" in page.inner_text("tbody")


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
    other.close()
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
    page = opened(browser).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    page.select_option("#f-show", "interval")
    page.wait_for_url("**show=interval**")
    page.go_back()
    page.wait_for_url("**show=margin**")
    expect(page.locator("tbody .error").first).to_have_text(re.compile("^±"))
    page.context.close()


def test_variables_are_dragged_to_rows_and_columns(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    page.drag_and_drop('.chip[data-name="ownership"]', '.zone[data-side="cols"]')
    page.wait_for_url("**rows=sector&cols=ownership**")
    page.wait_for_selector("thead th.total")
    page.drag_and_drop(
        '.chip[data-name="place"]',
        '.zone[data-side="rows"] .chip',
        target_position={"x": 2, "y": 8},
    )
    page.wait_for_url("**rows=place&rows=sector&cols=ownership**")  # before the one it was put on
    page.wait_for_selector("th[scope=rowgroup]")
    page.drag_and_drop('.chip[data-name="sector"]', '.zone[data-side=""]')
    page.wait_for_url("**rows=place&cols=ownership**")
    assert not page.locator(".board [tabindex], .board button, .board input").count()
    page.context.close()


def test_an_address_is_copied(browser: Browser, tool: QueryTool) -> None:
    context = opened(browser, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    page.get_by_role("button", name="Copy: API address").click()
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.input_value("#api-address")
    context.close()


def test_headings_stay_in_sight_while_a_table_is_scrolled(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": 1280, "height": 700}).new_page()
    address = "rows=place&rows=sector&cols=ownership&subtotals=yes&show=interval"
    page.goto(f"{tool.address}/d/{jobs(tool)}?{address}")
    box = page.locator(".scroll.tall")
    assert box.evaluate("box => box.scrollHeight - box.clientHeight") > 300
    box.evaluate("box => box.scrollTo(40, 300)")
    top = box.evaluate("box => box.getBoundingClientRect().top")
    assert abs(page.locator("thead").evaluate("head => head.getBoundingClientRect().top") - top) < 3
    left = box.evaluate("box => box.getBoundingClientRect().left")
    first = page.locator("thead th.first").evaluate("th => th.getBoundingClientRect().left")
    assert abs(first - left) < 3
    page.context.close()


def test_a_printed_table_is_whole(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&show=margin")
    page.emulate_media(media="print")
    box = page.locator(".scroll.tall")
    assert box.evaluate("box => box.scrollHeight - box.clientHeight") <= 1
    for hidden in ("#builder", ".tabs", ".top nav", ".board"):
        assert not page.locator(hidden).first.is_visible()
    page.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_are_accessible_and_never_wider_than_the_screen(
    width: int, scheme: str, browser: Browser, tool: QueryTool
) -> None:
    """Every page at every width and in every scheme; `make torture` has every pair of them."""
    names = half(views(tool), width, scheme)
    if os.environ.get("PAGE"):  # pictures for the documentation
        names = list(views(tool))
    assert look(browser, tool, names, width, scheme) == len(names)


def test_every_page_is_seen_at_every_width_and_in_every_scheme() -> None:
    names = [str(number) for number in range(20)]
    for width in WIDTHS:
        assert {name for scheme in SCHEMES for name in half(names, width, scheme)} == {*names}
    for scheme in SCHEMES:
        assert {name for width in WIDTHS for name in half(names, width, scheme)} == {*names}
