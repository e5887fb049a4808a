"""Pages as they are printed, at twice their size and in forced colours: all is there."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from playwright.sync_api import Browser, Page

from browsing import jobs, opened, views
from eree.web.render.charts import Scale
from eree.web.server import QueryTool
from printed import pages

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool
#: Parts of a page that only a screen can use.
SCREEN = "#builder, .tabs, .links, .frame, .find, .paste, .pair, .map-tools, button, .areas input"


def plain(text: str) -> str:
    """A text without spaces, and without letters that are joined."""
    return re.sub(r"[\s\u00ad]", "", unicodedata.normalize("NFKC", text))


def printed(page: Page) -> str:
    found = pages(page.pdf(format="A4"))
    assert found and all(found)
    return plain("".join(found))


def test_a_printed_table_holds_every_column_and_figure(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    for name in ("table", "wide", "nested", "cube", "nested-columns"):
        address = views(tool)[name]
        page.goto(tool.address + address)
        heads = page.locator(".scroll thead th").all_inner_texts()
        cells = page.locator(".scroll :is(tbody, tfoot) .estimate").all_inner_texts()
        figures = [text.splitlines()[-1] for text in cells if text]  # flags stand before them
        paper = printed(page)
        for text in (*heads, *figures):
            assert plain(text) in paper, (name, text)
        assert paper.count("Total") >= 1
    # and not because all that was ever on the page is in the file
    page.goto(tool.address + views(tool)["wide"])
    page.locator("table.on-paper").nth(1).evaluate("e => e.remove()")
    assert "Manufacturing" not in printed(page)
    page.context.close()


def test_every_page_is_printed_with_where_it_is_from(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser, viewport={"width": 718, "height": 1000}).new_page()
    for name, address in views(tool).items():
        page.goto(tool.address + address)
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        seen = "all => all.filter(e => e.checkVisibility()).map(e => e.outerHTML)"
        assert page.locator(SCREEN).evaluate_all(seen) == [], name
        if address.startswith("/d/") and name not in ("codes", "error"):
            assert "protected with" in page.locator(".cite:visible").last.inner_text(), name
        page.emulate_media(media="screen")
    page.goto(tool.address + views(tool)["map"])
    paper = printed(page)
    for label in page.locator("[data-area]").all_inner_texts():
        assert plain(label) in paper
    assert plain("Figures have noise in them") in paper  # what is folded on the screen
    page.context.close()


#: Words of headings of rows, of those of paper of all, that are broken inside.
BROKEN = """() => {
  const found = [];
  for (const th of document.querySelectorAll(".scroll :is(.at-0, .at-1, .at-2), .on-paper th")) {
    const texts = document.createTreeWalker(th, NodeFilter.SHOW_TEXT);
    for (let text; th.checkVisibility() && (text = texts.nextNode());) {
      for (const word of text.data.matchAll(/[^\\s-]+-?/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""


def test_no_word_of_a_heading_is_broken(browser: Browser, tool: QueryTool) -> None:
    cube = next(data.name for data in tool.catalogue.data_sets if data.kind == "cube")
    three = f"/d/{cube}?rows=telework&rows=strength&rows=education&show=margin"
    pages_of_two = (views(tool)["wide"], views(tool)["nested"])
    page = opened(browser).new_page()
    for address in (three, f"{three}&cols=occupation&group.occupation=major", *pages_of_two):
        assert page.goto(tool.address + address).ok
        for width in (390, 640, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(BROKEN) == [], (address, width)
        page.set_viewport_size({"width": 718, "height": 1000})
        page.emulate_media(media="print")
        assert page.evaluate(BROKEN) == [], address
        page.emulate_media(media="screen")
    page.context.close()


def test_nothing_is_printed_astray_or_twice(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser).new_page()
    page.goto(tool.address + views(tool)["wide"])
    paper = printed(page)
    assert paper.count(plain("Noise was drawn apart for")) == 1
    last = re.findall(r"columns(\d+)to(\d+)of(\d+)", paper)[-1]
    columns = page.locator(".scroll caption").inner_text()
    assert int(last[0]) <= int(last[1]) == int(last[2]) and f"{last[2]} columns" in columns
    page.emulate_media(media="print")
    for name, part in (("wide", "th.caption"), ("map", ".mapped"), ("chart", ".bars")):
        page.goto(tool.address + views(tool)[name])
        widths = "e => ['Left', 'Right'].map(side => getComputedStyle(e)[`border${side}Width`])"
        assert page.locator(part).first.evaluate(widths) == ["0px", "0px"], name
    page.context.close()


#: Moves what a page shows so many pixels down.
LOWER = """space => {
  const first = document.querySelector(".lower") || document.createElement("div");
  first.className = "lower";
  first.style.height = `${space}px`;
  document.querySelector("main").prepend(first);
}"""


@pytest.mark.parametrize(
    ("name", "parts", "spaces"),
    [
        ("threshold", ("Damage per job against", "Accommodation and food"), range(650, 850, 20)),
        ("threshold", ("How to read this", "Figures have noise in them"), range(480, 680, 20)),
    ],
)
def test_what_belongs_together_is_on_one_page(
    name: str, parts: tuple[str, ...], spaces: range, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser).new_page()
    page.goto(tool.address + views(tool)[name])
    ends = set()
    for space in spaces:
        page.evaluate(LOWER, space)
        sheets = [plain(sheet) for sheet in pages(page.pdf(format="A4"))]
        first, *others = map(plain, parts)
        (sheet,) = (one for one in sheets if first in one)
        assert all(other in sheet for other in others), space
        ends.add(sheet == sheets[0])
    assert ends == {True, False}  # the end of the page was crossed
    page.context.close()


def test_panels_are_whole_and_heads_of_heat_maps_stand_on_each_page(
    browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser).new_page()
    for name, first, last in (
        ("panels", "Sedentary work", "Medium work or heavier"),
        ("wide-heat", "Place ↓", "NAICS sector →"),
    ):
        page.goto(tool.address + views(tool)[name])
        most = 0
        for space in range(500, 780, 40):
            page.evaluate(LOWER, space)
            found = [plain(sheet) for sheet in pages(page.pdf(format="A4"))]
            counts = [sheet.count(plain(first)) for sheet in found]
            assert counts == [sheet.count(plain(last)) for sheet in found], (name, space)
            most = max(most, sum(map(bool, counts)))
        assert most > 1, name  # it was on two pages
    page.context.close()


@pytest.mark.parametrize("forced", ["none", "active"])
def test_pages_at_twice_their_size_are_no_wider_than_the_screen(
    forced: str, browser: Browser, tool: QueryTool
) -> None:
    sizes = [(640, 512), (390, 844)] if forced == "none" else [(390, 844)]
    for width, height in sizes:
        size = {"width": width, "height": height}
        page = opened(browser, viewport=size, forced_colors=forced).new_page()
        found = views(tool) | {"list": f"/d/{jobs(tool)}/codes/place?rows=sector&show=margin"}
        for name, address in found.items():
            page.goto(tool.address + address)
            for fold in page.locator("#builder details, details.paste").all():
                fold.evaluate("e => { e.open = true; }")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
            cut = page.evaluate(CUT)
            assert cut == [], (name, width, json.dumps(cut))
        page.context.close()


def test_numbers_of_an_axis_have_room_beside_each_other(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser, viewport={"width": 390, "height": 844}).new_page()
    page.goto(tool.address + views(tool)["panels"])
    tops = [10**k * n for k in range(-2, 8) for n in (1.07, 1.9, 3.8, 7.4)]
    ranges = [(-share * top, top) for top in tops for share in (0, 0.13, 0.3, 0.6, 5)]
    axes = [Scale.over(low, high) for low, high in ranges]
    panel = page.locator(".panels .bar-axis").first
    shown = panel.evaluate(
        """(line, axes) => axes.map((axis) => {
          line.innerHTML = `<span></span>${axis}<span></span>`;
          const texts = [...line.querySelectorAll("text")].filter((t) => t.getBBox().width);
          const places = texts.map((t) => t.getBoundingClientRect());
          const apart = places.every((b, i) => !i || b.left > places[i - 1].right);
          return [apart, texts.length, line.textContent];
        })""",
        [scale.axis() for scale in axes],
    )
    for scale, (apart, count, text) in zip(axes, shown, strict=True):
        assert apart and count >= min(len(scale.ticks), 2), text
    assert sum(count for _, count, _ in shown) > 0.6 * sum(len(scale.ticks) for scale in axes)
    page.context.close()


#: Texts that are wider than what they stand in, or lie over their neighbours.
CUT = """() => {
  const kinds = "h1, h2, p, li, dt, dd, summary, button, label, legend, .tabs a, .links a";
  const found = [];
  for (const e of document.querySelectorAll(`main :is(${kinds})`)) {
    if (e.closest(".scroll, .visually-hidden, .sr, .codes, .board, svg")) continue;
    if (!e.checkVisibility() || getComputedStyle(e).display === "inline") continue;
    if (e.scrollWidth > e.clientWidth + 1) found.push(e.textContent.trim().slice(0, 60));
  }
  for (const line of document.querySelectorAll("svg.ticks")) {
    const texts = [...line.querySelectorAll("text")].filter((t) => t.getBBox().width);
    const places = texts.map((t) => t.getBoundingClientRect());
    if (places.some((b, i) => i && b.left < places[i - 1].right)) found.push(line.textContent);
  }
  return found;
}"""
