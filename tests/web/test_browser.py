"""The tasks of a reader, in a real browser, by keyboard alone, with and without JavaScript.

Windows are those of a desk, a tablet, a phone, and of a desk at 200%.
"""

from __future__ import annotations

import csv
import io
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

from browsing import NESTED, SCHEMES, WIDTHS, half, jobs, look, opened, running, views
from eree.web.server import QueryTool

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool
#: So many presses of the tab key reach everything on a page.
MOST_TABS = 400


WINDOWS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1440, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "tablet, no script": {
        "viewport": {"width": 768, "height": 1024},
        "java_script_enabled": False,
    },
    "twice the size, no script": {
        "viewport": {"width": 640, "height": 450},
        "device_scale_factor": 2,
        "java_script_enabled": False,
    },
}


@pytest.fixture(scope="module", params=WINDOWS.values(), ids=WINDOWS)
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    found = opened(browser, accept_downloads=True, **request.param)
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


def unfold(page: Page) -> None:
    """Open what the form says of figures and their errors."""
    reach(page, ".figures > summary")
    page.keyboard.press("Enter")


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


def test_send_a_list_of_codes(page: Page, tool: QueryTool, tmp_path: Path) -> None:
    data = next(one for one in tool.catalogue.data_sets if one.name.startswith("tracts"))
    codes, file = data.variable("tract").codes[:40:2], tmp_path / "tracts.csv"
    file.write_text("tract,name\n" + "".join(f"{code},here\n" for code in codes), encoding="utf-8")
    page.goto(f"{tool.address}/d/{data.name}/codes/tract?rows=tract&show=margin")
    page.get_by_text("Keep a list of codes of your own").click()
    page.get_by_label("Paste codes").fill("no tract\nand no other")
    page.get_by_role("button", name="Keep this list").click()
    assert "names no code of tract: 'and no other'" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Paste codes").input_value() == "no tract\nand no other"
    page.get_by_label("Paste codes").fill("")
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Keep this list").click()
    page.wait_for_url("**where.tract=~**")
    assert page.locator("tbody th").count() == len(codes)
    assert f"a list of {len(codes)} codes" in page.locator("caption").inner_text()


def test_read_an_error(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    assert page.inner_text("tbody .error").startswith("±")
    unfold(page)
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


def test_add_up_areas_of_the_map(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}/map?rows=place&show=margin")
    codes = [
        page.locator("[data-area]").nth(place).get_attribute("data-area") for place in range(2)
    ]
    if not page.locator("form.areas input:visible").count():
        reach(page, "details:has(form.areas) summary")
        page.keyboard.press("Enter")
    for code in sorted(filter(None, codes), key=lambda c: _place(page, c)):
        reach(page, f'form.areas input[value="{code}"]')
        page.keyboard.press("Space")
    reach(page, 'form.areas button[type="submit"], form.areas button:not([type])')
    page.keyboard.press("Enter")
    page.wait_for_url("**where.place=**where.place=**")
    page.wait_for_selector("tfoot")
    assert page.locator("tbody tr").count() == 2


def _place(page: Page, code: str) -> int:
    """Which tick box of the map's list it is."""
    boxes = page.locator('form.areas input[name="where.place"]')
    found: list[str] = boxes.evaluate_all("all => all.map(one => one.value)")
    return found.index(code)


def test_read_shares_of_a_total(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&cols=ownership&show=margin")
    unfold(page)
    reach(page, "#f-share")
    page.keyboard.press("ArrowDown")
    submit(page)
    page.wait_for_url("**share=**")
    page.wait_for_selector("caption:has-text('Percent of the row')")
    assert page.inner_text("tbody .error").startswith("±")


def test_show_a_table_in_a_page_of_ones_own(
    page: Page, context: BrowserContext, tool: QueryTool
) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    shown, embedded = page.inner_text("table"), page.input_value("#embed")

    class Ours(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<!doctype html><title>Ours</title>{embedded}".encode())

        def log_message(self, *_said: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Ours) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        other = context.new_page()
        other.goto(f"http://127.0.0.1:{server.server_port}/")
        framed = other.frame_locator("iframe").locator("table")
        framed.wait_for()
        assert framed.inner_text() == shown
        other.close()
        server.shutdown()


def test_nest_two_variables_with_subtotals(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&show=margin")
    assert not page.locator("tr.subtotal").count()
    unfold(page)
    reach(page, 'input[name="subtotals"]')
    page.keyboard.press("Space")
    submit(page)
    page.wait_for_url("**subtotals=yes**")
    page.wait_for_selector("tr.subtotal")
    groups = page.locator("tbody th[scope=rowgroup]").count()
    assert page.locator("tr.subtotal:visible").count() in (groups, groups - 1)  # the last may go on


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


def test_a_slip_is_corrected_where_it_is(page: Page, tool: QueryTool) -> None:
    page.goto(f"{tool.address}/d/{jobs(tool)}/threshold?rows=sector&show=margin")
    reach(page, "#f-damage")
    page.keyboard.type("72 $300,000\n62 lots")
    submit(page)
    page.wait_for_selector("#f-damage[aria-invalid]:focus")
    assert page.input_value("#f-damage") == "72 $300,000\n62 lots"
    assert "62 lots" in page.inner_text("#slips")
    if page.evaluate("getSelection().toString()") != "62 lots":  # nobody selected it
        page.keyboard.press("Control+End")
        page.keyboard.press("Shift+Home")
    page.keyboard.type("62;1,000")
    submit(page)
    page.wait_for_selector(".verdict")
    assert page.locator("tbody tr").count() == 2
    assert page.input_value("#f-damage") == "72 $300,000\n62;1,000"


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
    page.locator(".figures > summary").click()
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


def test_a_table_is_copied_for_a_spreadsheet(browser: Browser, tool: QueryTool) -> None:
    context = opened(browser, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&show=margin")
    page.get_by_role("button", name="Copy for a spreadsheet").click()
    page.wait_for_selector("text=Copied")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    file = page.request.get(f"{tool.address}/d/{jobs(tool)}.csv?rows=place&rows=sector&show=margin")
    rows = list(csv.reader(io.StringIO(file.text().removeprefix("\ufeff"))))
    assert [line.split("\t") for line in lines] == rows and len(rows) > 20
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
    head = page.locator(".scroll thead")
    assert abs(head.evaluate("head => head.getBoundingClientRect().top") - top) < 3
    left = box.evaluate("box => box.getBoundingClientRect().left")
    first = page.locator(".scroll thead th.at-0").evaluate("th => th.getBoundingClientRect().left")
    assert abs(first - left) < 3
    page.context.close()


def test_a_printed_table_is_whole(page: Page, tool: QueryTool) -> None:
    for query in ("rows=place&rows=sector", "rows=place&cols=sector", NESTED):
        page.goto(f"{tool.address}/d/{jobs(tool)}?{query}")
        with on_paper(page):
            shown = page.locator("#result table:visible")
            heads = shown.locator("thead tr:last-child th:not(.corner)").all_inner_texts()
            rows = [
                shown.nth(i).locator("tbody th.at-0").all_inner_texts()
                for i in range(shown.count())
            ]
            assert rows[0] and all(names == rows[0] for names in rows)
            ends = "all => Math.max(...all.map(e => e.getBoundingClientRect().right))"
            assert shown.evaluate_all(ends) <= 718.5  # nothing is lost at the edge
            for part, display in (("thead", "table-header-group"), ("tfoot", "table-row-group")):
                kinds = shown.locator(part).evaluate_all(
                    "all => all.map(e => getComputedStyle(e).display)"
                )
                assert kinds and set(kinds) == {display}  # heads on each page, totals at the end
            for hidden in ("#builder", ".tabs", ".top nav", ".take"):
                assert not page.locator(hidden).first.is_visible()
            assert page.locator(".notes li").first.bounding_box()["height"] > 0
            assert page.locator("p.on-paper").is_visible()
            assert page.pdf(format="A4").startswith(b"%PDF")
        assert not page.locator(".on-paper:visible").count()
        on_screen = page.locator("#result table:visible thead tr:last-child th:not(.corner)")
        assert on_screen.all_inner_texts() == heads


@contextmanager
def on_paper(page: Page) -> Iterator[None]:
    """A page as paper of A4 shows it, with small margins."""
    before = page.viewport_size
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    yield
    page.emulate_media(media="screen")
    page.set_viewport_size(before)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("address", "coloured"),
    [
        ("/map?rows=place&show=margin", ".shades .swatch.shade-1"),
        ("/chart?rows=sector&cols=ownership&as=heat&show=margin", ".heat td.heat-2"),
        ("/chart?rows=sector&show=margin", "svg.chart"),
    ],
)
def test_colours_that_mean_something_are_printed(
    address: str, coloured: str, scheme: str, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, color_scheme=scheme).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}{address}")
    page.emulate_media(media="print", color_scheme=scheme)
    style = page.locator(coloured).first.evaluate("e => ({...getComputedStyle(e)})")
    assert style["printColorAdjust"] == "exact"
    ink, sheet = page.evaluate(
        "['ink', 'sheet'].map(n => getComputedStyle(document.body).getPropertyValue(`--${n}`))"
    )
    assert (ink.strip(), sheet.strip()) == ("#000", "#fff")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.context.close()


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("rows", [("place",), ("place", "ownership")])
def test_all_row_headings_stay_while_columns_are_scrolled(
    rows: tuple[str, ...], width: int, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": width, "height": 900}).new_page()
    sides = "&".join(f"rows={name}" for name in rows)
    page.goto(f"{tool.address}/d/{jobs(tool)}?{sides}&cols=sector&subtotals=yes&show=margin")
    box = page.locator(".scroll")
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") > 300
    left, right = (
        box.evaluate(f"box => box.getBoundingClientRect().{side}") for side in ("left", "right")
    )
    dark = shadow(page)
    for far in (150, 1_000_000):
        box.evaluate(f"box => box.scrollTo({far}, 0)")
        for line in ("thead tr:last-child", "tbody tr:first-child"):
            heads = page.locator(f"{line} th").all()[: len(rows)]
            place = left
            for head in heads:
                at = head.bounding_box()
                assert at and abs(at["x"] - place) <= 3, (line, far)
                place = at["x"] + at["width"]
                middle = [at["x"] + at["width"] / 2, at["y"] + at["height"] / 2]
                on_top = "([e, [x, y]]) => e.contains(document.elementFromPoint(x, y))"
                assert page.evaluate(on_top, [head.element_handle(), middle])
            assert right - place > 0.3 * (right - left)  # room for figures
    assert dark > shadow(page) + 20  # more columns follow, and then none
    page.context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_row_headings_keep_to_their_columns(width: int, browser: Browser, tool: QueryTool) -> None:
    page = opened(browser, viewport={"width": width, "height": 900}).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?{NESTED}")
    over = "all => all.map(e => e.scrollWidth - e.clientWidth)"
    assert max(page.locator("tbody th").evaluate_all(over)) <= 1
    page.context.close()


def shadow(page: Page) -> float:
    """How dark the right edge of a table is, beside its caption."""
    with Image.open(BytesIO(page.locator(".scroll").screenshot())) as picture:
        grey = picture.convert("L")
        edge = [grey.getpixel((grey.width - 4, y)) for y in range(10, 30)]
    return 255 - sum(edge) / len(edge)


def test_a_group_is_named_while_its_rows_are_scrolled(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser, viewport={"width": 768, "height": 700}).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&show=margin")
    box, group = page.locator(".scroll.tall"), page.locator("th[rowspan] > div").nth(1)
    depth = group.evaluate("e => e.closest('th').offsetTop + e.closest('th').offsetHeight / 2")
    box.evaluate(f"box => box.scrollTo(0, {depth})")
    top = box.evaluate("box => box.getBoundingClientRect().top")
    assert top < group.bounding_box()["y"] < top + 200
    page.context.close()


@pytest.mark.parametrize("width", [390, 1100, 1440])
@pytest.mark.parametrize("exact", ["", "&exact=yes"])
def test_charts_stay_beside_the_form(
    exact: str, width: int, browser: Browser, tool: QueryTool
) -> None:
    cube = next(data for data in tool.catalogue.data_sets if data.kind == "cube")
    page = opened(browser, viewport={"width": width, "height": 900}).new_page()
    page.goto(
        f"{tool.address}/d/{cube.name}/chart?rows=occupation&rows=education{exact}&show=margin"
    )
    edge = page.locator(".bars").evaluate("e => e.getBoundingClientRect().right")
    inside = """all => Math.max(...all.map(e => {
        const range = document.createRange();
        range.selectNodeContents(e);
        return range.getBoundingClientRect().right;
    }))"""
    assert page.locator(".bars .value").evaluate_all(inside) <= edge
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.context.close()


def test_a_search_sees_all_codes_and_says_what_it_found(
    browser: Browser, releases: list[Path], maps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.render.pages.MOST_LINES", 4)
    with running(releases, maps) as tool:
        page = opened(browser).new_page()
        page.goto(f"{tool.address}/d/{jobs(tool)}/codes/sector?rows=sector&show=margin")
        expect(page.locator("#found")).to_contain_text("the first 4 of")
        page.locator('input[name="where.sector"]').first.check()
        ticked = page.locator('input[name="where.sector"]').first.get_attribute("value")
        assert page.locator('input[value="92"]').count() == 0
        page.locator("#find").press_sequentially("public admin")
        expect(page.locator("#found")).to_have_text("1 of 20 codes has these words.")
        expect(page.locator("#find")).to_be_focused()
        page.check('input[value="92"]')
        page.fill("#find", "nothing like it")
        expect(page.locator("#found")).to_contain_text("0 of 20 codes have these words")
        page.fill("#find", "a " * 13)
        expect(page.locator("#found")).to_contain_text("At most 12 words")
        page.locator(".picker .go").click()
        page.wait_for_url(f"**where.sector={ticked}&where.sector=92**")
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
