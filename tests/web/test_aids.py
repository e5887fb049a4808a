"""For readers of screens, keyboards and phones: words, a status line, few stops, buttons."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from browsing import SCHEMES, jobs, opened, views
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
    page.goto(f"{tool.address}{views(tool)['wide-heat']}")
    page.locator(".figures > summary").click()
    page.select_option("#f-confidence", "0.99")
    status, told = page.locator("#status"), page.locator(".told")
    expect(status).to_have_css("position", "sticky")
    expect(page.locator(".pointing")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 480})
    page.locator(".heat").evaluate("e => e.scrollIntoView()")
    page.locator(".heat td[title]").nth(1).tap()
    expect(told).to_have_text(re.compile(r"\d"))
    expect(told).to_be_in_viewport(ratio=1)  # where one taps, however long the map is
    expect(status).to_have_css("position", "static")  # not in the same place
    context.close()


def test_a_map_is_moved_by_touch_only_while_it_is_near(browser: Browser, tool: QueryTool) -> None:
    size = {"width": 390, "height": 844}
    context = opened(browser, viewport=size, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{tool.address}{views(tool)['map']}")
    fingers = context.new_cdp_session(page)

    def swipe(x: float, y: float) -> None:
        """From the middle of the map, which is brought to the top of the window."""
        page.locator(".mapped").evaluate("e => e.scrollIntoView()")
        box = page.locator("svg.map").bounding_box()
        assert box
        start = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for part in range(9):
            at = {"x": start[0] + x * part / 8, "y": start[1] + y * part / 8}
            kind = "touchMove" if part else "touchStart"
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(200)

    def view() -> list[float]:
        return [float(n) for n in str(page.get_attribute("svg.map", "viewBox")).split()]

    def top() -> float:
        return float(page.locator(".mapped").evaluate("e => e.getBoundingClientRect().top"))

    whole = view()
    swipe(0, -100)
    assert top() < -50 and view() == whole  # the page was moved
    page.get_by_role("button", name="Zoom in").click()
    near = view()
    swipe(0, -40)
    assert abs(top()) < 2 and view()[1] > near[1]
    swipe(0, -2000)
    swipe(2000, 0)
    left, low, _, tall = view()
    assert left == whole[0] and abs(low + tall - whole[1] - whole[3]) < 0.01  # no farther
    for _ in range(2):
        page.get_by_role("button", name="Zoom out").click()
        assert view() == whole
    page.mouse.move(200, 300)
    page.mouse.down()
    page.locator("svg.map").dispatch_event("pointercancel")  # the browser takes the gesture
    page.get_by_role("button", name="Zoom in").evaluate("e => e.click()")
    page.mouse.move(100, 200)
    assert view() == near
    page.mouse.up()
    for kind, primary, y in (
        ("down", 1, 300),
        ("down", 0, 320),
        ("move", 1, 280),
        ("move", 0, 340),
    ):
        finger = {"clientX": 200, "clientY": y, "isPrimary": bool(primary), "bubbles": True}
        page.locator("svg.map").dispatch_event(f"pointer{kind}", finger)
    assert view() == near  # two fingers are the browser's, which brings the page nearer
    context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_selected_on_a_map_is_seen_on_every_shade(
    scheme: str, browser: Browser, tool: QueryTool
) -> None:
    context = opened(browser, viewport={"width": 1280, "height": 1400}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{tool.address}{views(tool)['map']}")
    page.get_by_role("button", name="Select areas on the map").click()
    box = page.locator("svg.map").bounding_box()
    assert box
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=3)
    shades = page.locator(".shades .swatch").evaluate_all(
        "all => all.map(e => getComputedStyle(e).backgroundColor)"
    )
    for kind in ("rect", "path"):
        strokes = [
            page.locator(f"svg.map > {kind}.{name}").evaluate("e => getComputedStyle(e).stroke")
            for name in ("halo", "edge")
        ]
        assert all(max(contrast(shade, own) for own in strokes) > 3 for shade in shades)
        assert contrast(*strokes) > 7
        page.mouse.up()
    outlined = page.locator("svg.map > path.edge")
    assert str(outlined.get_attribute("d")).count("M") >= page.locator("a.picked").count() > 2
    page.locator("form.areas input:checked").evaluate_all("all => all.forEach(e => e.click())")
    assert outlined.get_attribute("d") == ""
    context.close()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG measures it."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05

    first, second = light(one), light(other)
    return max(first, second) / min(first, second)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_heat_map_says_its_figures_and_columns_without_a_script(
    width: int, browser: Browser, tool: QueryTool
) -> None:
    size = {"width": width, "height": 844}
    for script, part in ((True, ""), (False, ""), (True, "/embed")):
        context = opened(browser, viewport=size, has_touch=True, java_script_enabled=script)
        page = context.new_page()
        page.goto(f"{tool.address}{views(tool)['wide-heat'].replace('/chart', f'/chart{part}')}")
        cut = page.locator(".heat thead span").evaluate_all(
            """all => all.filter(e => e.scrollWidth > e.clientWidth + 1
                                   || e.scrollHeight > e.clientHeight + 1).map(e => e.title)"""
        )
        assert cut == [], (script, part)
        high = page.locator(".heat thead").evaluate("e => e.getBoundingClientRect().height")
        assert high < (380 if width == 390 else 260)
        if not script or part:  # nobody answers a tap, and numbers stay
            expect(page.locator(".pointing")).to_be_hidden()
            fields = page.locator(".heat td[title]:not(.none)").evaluate_all(
                """all => all.map(e => [parseFloat(getComputedStyle(e.firstChild).fontSize),
                                        e.scrollWidth - e.clientWidth])"""
            )
            assert fields and all(size > 9 and over <= 0 for size, over in fields), part
        context.close()


def test_the_line_that_stays_says_what_happened_to_a_form(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    for page, said in (
        ("threshold?rows=sector&damage=zz%205", "1 line of the form cannot be read."),
        ("threshold?rows=sector&damage=zz%205%0Ay%206", "2 lines of the form cannot be read."),
        ("threshold?rows=sector&damage=72%20999999999%0A62%201", "1 above, 1 below, 0 undecided"),
        ("threshold?rows=sector", "Jobs by NAICS sector"),
        ("ranking?rows=sector&one=72&two=62", "Jobs by NAICS sector"),
    ):
        text = client.get(f"/d/{tables['jobs'].name}/{page}&show=margin").text
        assert f'data-said="{said}"' in text, page
    dear = f"/d/{tables['jobs'].name}/threshold?rows=sector&per_job=3000.50&damage=72%205"
    assert "Damage per job against $3,000.50" in client.get(f"{dear}&show=margin").text
    text = client.get(f"/d/{tables['jobs'].name}/ranking?rows=sector&one=x&two=62&show=margin").text
    (slip,) = re.findall('id="pair-slip">(.*?)[.?]</p>', text)
    assert f'data-said="{slip}' in text


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
