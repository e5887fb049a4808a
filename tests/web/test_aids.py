"""For readers of screens, keyboards and phones: words, a status line, few stops, buttons."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from browsing import jobs, opened
from eree.web.catalogue import Catalogue
from eree.web.linked import LinkedTable
from eree.web.server import QueryTool


class Heard(HTMLParser):
    """What is read aloud of a page: all of its text but what is hidden from readers of screens."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[bool] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("input", "br", "img", "line", "rect"):
            self.open.append(dict(attrs).get("aria-hidden") == "true" or any(self.open[-1:]))

    def handle_endtag(self, _tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self.open[-1:]):
            self.said += data


def test_flags_and_errors_are_words(client: TestClient, tables: dict[str, LinkedTable]) -> None:
    name = tables["jobs"].name
    page = client.get(f"/d/{name}?rows=place&cols=sector&show=margin").text
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    said = Heard(body).said
    assert re.search(r"unreliable; −?\d+, give or take \d", said)
    assert "±" not in said and not re.search(r"\bu\d", said)
    assert "±" in body  # for the eye


def test_a_change_is_said_in_one_line_that_stays(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    page = client.get(f"/d/{tables['jobs'].name}?rows=place&show=margin").text
    main = page[page.index("<main") : page.index("</main>")]
    assert "aria-live" not in page
    assert page.count('<span role="status"></span>') == 1 and '<span role="status">' not in main
    assert 'data-said="Jobs by Place"' in main


def test_the_form_is_one_stop_away(client: TestClient, catalogue: Catalogue) -> None:
    page = client.get(f"/d/{catalogue.data_sets[0].name}").text
    stops = re.findall(r'<a [^>]*href="([^"]*)"', page[page.index("<body") :])
    assert stops[:2] == ["#result", "#builder"]


@pytest.mark.parametrize("side", ["rows", "cols"])
def test_nested_variables_are_put_in_order_by_buttons(
    client: TestClient, tables: dict[str, LinkedTable], side: str
) -> None:
    name = tables["jobs"].name
    order = ["place", "sector", "ownership"]
    asked = "&".join(f"{side}={one}" for one in order)
    page = client.get(f"/d/{name}?{asked}&show=margin").text
    assert re.findall(r'name="earlier" value="(\w+)"', page) == ["sector", "ownership"]
    fields = "&".join([f"at.{one}={side}" for one in order] + [f"order={one}" for one in order])
    moved = client.get(f"/d/{name}/build?{fields}&tab=&earlier=ownership").headers["location"]
    assert re.findall(f"{side}=(\\w+)", moved) == ["place", "ownership", "sector"]
    stays = client.get(f"/d/{name}/build?{fields}&tab=&earlier=place").headers["location"]
    assert re.findall(f"{side}=(\\w+)", stays) == order
    one = client.get(f"/d/{name}?rows=place&show=margin").text
    assert 'name="earlier"' not in one


def test_areas_are_ticked_and_asked_for_together(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    page = client.get(f"/d/{data.name}/map?rows=place&cols=ownership&show=margin").text
    form = re.search(r'<form class="areas".*?</form>', page, re.DOTALL)
    assert form
    codes = re.findall(r'<input type="checkbox" name="where.place" value="([^"]+)"', form[0])
    assert set(codes) == set(data.variable("place").codes)
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0])
    fields = "&".join(f"{name}={value}" for name, value in hidden)
    asked = client.get(
        f"/d/{data.name}/build?{fields}&where.place={codes[0]}&where.place={codes[2]}"
    ).headers["location"]
    total = client.get(asked.replace("?", ".json?")).json()["totals"]["all"]
    alone = client.get(f"/d/{data.name}.json?rows=place&show=margin").json()["cells"]
    parts = [cell["estimate"] for cell in alone if cell["place"] in (codes[0], codes[2])]
    assert total["estimate"] == sum(parts)


def test_areas_are_framed_on_the_map_and_it_zooms(browser: Browser, tool: QueryTool) -> None:
    context = opened(browser, viewport={"width": 1280, "height": 1400}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}/map?rows=place&show=margin")
    before = page.get_attribute("svg.map", "viewBox")
    page.get_by_role("button", name="Zoom in").click()
    assert page.get_attribute("svg.map", "viewBox") != before
    page.get_by_role("button", name="Whole map").click()
    page.get_by_role("button", name="Select areas on the map").click()
    box = page.locator("svg.map").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=5)
    page.mouse.up()
    picked = page.locator("svg.map a.picked").count()
    assert picked == page.locator('form.areas [name="where.place"]:checked').count() > 2
    expect(page.locator(".told")).to_have_text(re.compile(f"^Selected: {picked}[.] .*[0-9]"))
    page.locator("svg.map a.picked").last.click()  # the smallest lies in the middle of its box
    assert page.locator('form.areas [name="where.place"]:checked').count() == picked - 1
    page.get_by_role("button", name="Add up the selected areas").click()
    expect(page.locator("tfoot")).to_be_visible()
    assert page.locator("tbody tr").count() == picked - 1
    context.close()


def test_nothing_shows_through_headings_and_totals_that_stay(
    browser: Browser, tool: QueryTool
) -> None:
    context = opened(browser, viewport={"width": 1280, "height": 800}, color_scheme="dark")
    page = context.new_page()
    query = "rows=place&rows=ownership&cols=sector&subtotals=yes&show=margin"
    page.goto(f"{tool.address}/d/{jobs(tool)}?{query}")
    shown = page.locator(".on-screen :is(th, td)").evaluate_all(
        """all => all.map(e => getComputedStyle(e)).filter(s => s.position === "sticky")
           .map(s => s.backgroundColor)"""
    )
    assert len(shown) > 20 and all(colour.startswith("rgb(") for colour in shown), set(shown)
    context.close()


def test_a_phone_says_what_changed_and_forced_colours_keep_bars(
    browser: Browser, tool: QueryTool
) -> None:
    context = opened(
        browser, viewport={"width": 390, "height": 800}, forced_colors="active", has_touch=True
    )
    page = context.new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}/chart?rows=sector&show=margin")
    fill = "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
    bar, paper = page.locator("svg.chart .bar").first.evaluate(fill)
    assert bar != paper
    page.locator(".figures > summary").click()
    page.select_option("#f-confidence", "0.99")
    expect(page.locator("#status [role=status]")).to_have_text(re.compile("Jobs by"))
    expect(page.get_by_role("link", name="Go to it")).to_be_in_viewport()
    page.goto(f"{tool.address}/d/{jobs(tool)}/chart?rows=sector&cols=ownership&as=heat&show=margin")
    page.locator(".heat td[title]").nth(1).tap()
    expect(page.locator(".told")).to_have_text(re.compile(r"\d"))
    context.close()


def test_a_code_that_is_its_name_in_other_letters_is_not_said_twice(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    damage = "damage=private%205%0Apublic%205"
    for page in (
        "?rows=ownership",
        "/ranking?rows=ownership",
        f"/threshold?rows=ownership&{damage}",
    ):
        text = client.get(f"/d/{data.name}{page}&show=margin").text
        table = text.partition("<tbody>")[2].partition("</tbody>")[0]
        assert "Private" in table and ">private<" not in table, page
    sectors = client.get(f"/d/{data.name}?rows=sector&show=margin").text
    assert '<span class="code">72</span>' in sectors
