"""Tables that are wider than their box say so, and what is cut there is not misread; and paper."""

from __future__ import annotations

import re
from io import BytesIO

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page

from browsing import jobs, opened, views
from eree.web.server import QueryTool
from printed import pages

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool
WIDE = "rows=place&cols=sector&show=margin"
NARROW = "rows=place&cols=ownership&show=margin"
CUBE = "cols=telework&cols=occupation&group.occupation=major&show=margin"


def cube(tool: QueryTool) -> str:
    return next(data.name for data in tool.catalogue.data_sets if data.kind == "cube")


def before_total(page: Page) -> int:
    """How much darker it is just before the total of a row than farther from it."""
    at = page.locator(".scroll tbody .total").first
    place = at.bounding_box()
    assert place
    left, top = round(place["x"]), round(place["y"]) + 6
    with Image.open(BytesIO(page.screenshot())) as picture:
        line = picture.convert("L").crop((left - 16, top, left - 1, top + 1)).tobytes()
    return line[0] - line[-1]


@pytest.mark.parametrize("view", ["", "/embed"])
def test_what_a_total_covers_lies_in_its_shadow(
    view: str, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}{view}?{WIDE}")
    assert before_total(page) > 20
    page.locator(".scroll").evaluate("box => box.scrollTo(1000000, 0)")
    page.wait_for_timeout(200)
    assert abs(before_total(page)) < 5  # nothing is beneath it
    page.goto(f"{tool.address}/d/{jobs(tool)}{view}?{NARROW}")
    assert abs(before_total(page)) < 5
    lines = page.locator(".scroll tbody .total").first.evaluate(
        "e => [getComputedStyle(e).borderLeftWidth, getComputedStyle(e).borderLeftColor]"
    )
    assert lines[0] == "1px" and lines[1] == "rgb(86, 98, 105)"
    page.context.close()


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("view", ["", "/embed"])
def test_a_table_that_is_wider_than_its_box_says_so(
    view: str, width: int, browser: Browser, tool: QueryTool
) -> None:
    size = {"width": width, "height": 900}
    page = opened(browser, viewport=size, java_script_enabled=False).new_page()
    for query in (WIDE, NARROW, "rows=sector&show=margin", "show=margin"):
        page.goto(f"{tool.address}/d/{jobs(tool)}{view}?{query}")
        box, said = page.locator(".scroll"), page.locator(".wider").bounding_box()
        over = box.evaluate("box => box.scrollWidth - box.clientWidth")
        assert over == 0 or query != "rows=sector&show=margin"
        assert said and (said["width"] > 200) == (over > 0), (query, over)
        if query == WIDE:
            assert over > 0 and re.search(r"\b20 columns\.", box.locator("caption").inner_text())
        last = page.locator("caption").evaluate("e => e.getBoundingClientRect().height")
        assert last < 130  # no empty line for what is not said
    page.context.close()


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_headings_of_groups_of_columns_stay_in_sight(
    width: int, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": width, "height": 900}).new_page()
    for rows in ("rows=education", "rows=education&rows=strength"):
        page.goto(f"{tool.address}/d/{cube(tool)}?{rows}&{CUBE}")
        for far in (0, 400, 900):
            page.locator(".scroll").evaluate(f"box => box.scrollTo({far}, 0)")
            assert page.evaluate(NAMED), (rows, far)
    page.context.close()


#: Whether the name of the group of columns in the middle of the box can be read.
NAMED = """() => {
  const box = document.querySelector(".scroll").getBoundingClientRect();
  const heads = [...document.querySelectorAll("thead .corner")].map(e => e.getBoundingClientRect());
  const left = Math.max(...heads.map(e => e.right)), middle = (left + box.right) / 2;
  return [...document.querySelectorAll("thead th[scope=colgroup]")].some(e => {
    const own = e.getBoundingClientRect(), range = document.createRange();
    range.selectNodeContents(e);
    const word = range.getBoundingClientRect();
    const inside = word.left >= left && word.right <= box.right;
    return own.left <= middle && middle <= own.right && inside;
  });
}"""


def test_groups_of_rows_are_split_on_paper_and_named_in_every_row(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser).new_page()
    for query in ("rows=place&rows=sector&subtotals=yes", "rows=ownership&rows=place"):
        page.goto(f"{tool.address}/d/{jobs(tool)}?{query}&show=margin")
        groups, rows = page.locator("tbody th.at-0:visible"), page.locator("tbody tr:visible")
        names, count = groups.all_inner_texts(), rows.count()
        spans = groups.evaluate_all("all => all.map(e => e.rowSpan)")
        expected = [name for name, span in zip(names, spans, strict=True) for _ in range(span)]
        page.emulate_media(media="print")
        shown = page.locator("tbody tr:visible")
        assert shown.count() == count
        found = shown.locator("th:first-child").all_inner_texts()
        heads = page.locator("thead tr:visible").last.locator("th").count()
        assert heads == 2 + shown.first.locator("td").count()
        assert found == expected
        assert shown.locator("[rowspan]").count() == 0
        page.emulate_media(media="screen")
    page.context.close()


def test_every_sheet_says_what_is_on_it(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    page.goto(f"{tool.address}{views(tool)['wide']}")
    found = [re.sub(r"\s", "", sheet) for sheet in pages(page.pdf(format="A4"))]
    blocks = page.locator("table.on-paper").count()
    headed = [sheet for sheet in found if re.search(r"columns\d+to\d+of\d+|;Total", sheet)]
    assert len(found) > blocks > 2
    assert len(headed) >= len(found) - 1  # the last may have notes alone
    page.context.close()


def test_an_embedded_result_leads_nowhere_and_has_a_heading(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": 700, "height": 600}).new_page()
    for view in ("/embed?rows=sector", "/chart/embed?rows=sector", "/map/embed?rows=place"):
        page.goto(f"{tool.address}/d/{jobs(tool)}{view}&show=margin")
        rules = ["page-has-heading-one", "region", "landmark-one-main", "heading-order"]
        found = Axe().run(page, options={"runOnly": {"type": "rule", "values": rules}})
        assert found.response["violations"] == [], view
        inside = page.locator('a[href^="#"]').evaluate_all(
            "all => all.filter(e => !document.querySelector(e.hash)).length"
        )
        assert inside == 0, view
    page.context.close()
