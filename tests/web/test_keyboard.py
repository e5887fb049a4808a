"""How many presses of a key lead to the parts of a page, and what the form folds on the way."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from browsing import NESTED, jobs, opened
from eree.web.server import QueryTool

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool
MOST = 12


def stops(page: Page, selector: str) -> int:
    """Presses of the tab key until an element has the focus."""
    for count in range(1, 100):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return count
    raise AssertionError(f"the keyboard does not reach {selector}")


def cube(tool: QueryTool) -> str:
    return next(data.name for data in tool.catalogue.data_sets if data.kind == "cube")


@pytest.mark.parametrize("script", [True, False], ids=["with JavaScript", "without JavaScript"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_table_and_the_form_are_few_stops_away(
    width: int, script: bool, browser: Browser, tool: QueryTool
) -> None:
    size = {"width": width, "height": 900}
    page = opened(browser, java_script_enabled=script, viewport=size).new_page()
    of_jobs = ("rows=sector&show=margin", "rows=sector&cols=ownership&show=margin", NESTED)
    addresses = [f"/d/{jobs(tool)}?{query}" for query in of_jobs]
    addresses += [f"/d/{cube(tool)}?rows=education&cols=strength&show=margin"]
    for address in addresses:
        page.goto(tool.address + address)
        count = stops(page, '.skip[href="#result"]')
        page.keyboard.press("Enter")
        assert count + stops(page, "#result .scroll") <= 3
        page.goto(tool.address + address)
        count = stops(page, '.skip[href="#builder"]')
        page.keyboard.press("Enter")
        assert count + stops(page, "#builder .go") <= MOST + ("group." in address), address
    page.context.close()


def test_variables_that_are_not_in_use_are_folded_and_come_out(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser).new_page()
    page.goto(f"{tool.address}/d/{cube(tool)}?rows=education&show=margin")
    fold = page.locator(".others > summary")
    expect(fold).to_have_text("9 other variables")
    radio = 'input[name="at.strength"]'
    assert not page.locator(f"{radio}[value=cols]").is_visible()
    fold.focus()
    page.keyboard.press("Enter")
    stops(page, radio)
    page.keyboard.press("ArrowRight")  # on rows: it stands with those in use, and has the focus
    page.wait_for_url("**rows=strength**")
    expect(fold).to_have_text("8 other variables")
    expect(page.locator(f"{radio}[value=rows]")).to_be_focused()
    page.keyboard.press("ArrowLeft")  # off again: among the others, which are open
    page.wait_for_url(lambda address: "rows=strength" not in address)
    expect(fold).to_have_text("9 other variables")
    expect(page.locator(f"{radio}[value='']")).to_be_focused()
    page.context.close()


def test_the_focus_stays_with_a_variable_that_is_moved_and_goes_to_a_page_that_is_turned(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, viewport={"width": 1280, "height": 600}).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=place&rows=sector&rows=ownership&show=margin")
    earlier = page.locator('[name="earlier"][value="ownership"]')
    earlier.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**rows=place&rows=ownership&rows=sector**")
    expect(earlier).to_be_focused()
    page.keyboard.press("Enter")  # first now: it has no button any more
    page.wait_for_url("**rows=ownership&rows=place&rows=sector**")
    expect(page.locator('[name="at.ownership"][value="rows"]')).to_be_focused()
    query = "rows=occupation&rows=education&rows=strength&rows=telework&show=margin"
    page.goto(f"{tool.address}/d/{cube(tool)}?{query}")
    page.locator(".pager [rel=next]").focus()
    assert page.locator("#result caption").evaluate("e => e.getBoundingClientRect().top") < 0
    page.keyboard.press("Enter")
    page.wait_for_url("**page=2**")
    expect(page.locator("#result .scroll")).to_be_focused()
    expect(page.locator("#result thead th").first).to_be_in_viewport()
    assert page.locator("#result .scroll").evaluate("e => e.getBoundingClientRect().top") >= 0
    page.context.close()


def test_what_is_folded_says_what_is_chosen(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}?rows=sector&show=margin")
    chosen = page.locator(".figures > summary .hint")
    expect(chosen).to_have_text("Jobs, margin of error, 90%")
    page.locator(".figures > summary").click()
    page.select_option("#f-confidence", "0.99")
    expect(chosen).to_have_text("Jobs, margin of error, 99%")
    expect(page.locator("#f-confidence")).to_be_focused()  # it stays open
    page.context.close()
