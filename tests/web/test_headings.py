"""Nested headings stand over what they say, and subtotals are the sums that they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import eree
from eree.web import answer as answers
from eree.web.answer import answer
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.render.layout import Layout, Row
from questions import queries


def grid(rows: Iterator[Row], depth: int) -> list[list[str]]:
    """The headings of every row of the body, as a browser spreads them."""
    found: list[list[str]] = []
    still: list[tuple[int, str]] = [(0, "")] * depth
    for row in rows:
        line, own = [], list(row.headings)
        for place in range(depth):
            if still[place][0] == 0:
                heading = own.pop(0)
                for further in range(place, place + heading.across):
                    still[further] = (heading.down, heading.name)
            line.append(still[place][1])
            still[place] = (still[place][0] - 1, still[place][1])
        assert not own
        found.append(line)
    assert all(left == 0 for left, _ in still)
    return found


@settings(max_examples=20)
@given(st.data())
def test_headings_fill_the_table_without_a_gap(catalogue: Catalogue, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen, 4)).on_page(1)
    whole = answer(chosen, query)
    layout = Layout(whole.page(), whole)
    rows = list(layout.rows)
    spread = grid(iter(rows), len(query.rows))
    names = {heading.name for line in layout.head for heading in line}
    names |= {heading.name for row in rows for heading in row.headings}
    shown = re.findall(r"<tr.*?</tr>", layout.body())
    for row, line, text in zip(rows, spread, shown, strict=True):
        assert text.count("<td") == len(row.cells)
        given = re.findall(r'<td[^>]* headers="([^"]*)"', text)
        assert len(given) == (len(row.cells) if layout.nested else 0)
        for named in map(str.split, given):
            assert set(line) - {""} <= set(named) <= names
            assert len(set(named)) == len(named)
    wide = {len(row.cells) for row in rows} | {len(layout.foot.cells)}
    assert len(wide) <= 1 or not rows
    taken = [0] * len(layout.head)
    for level, line in enumerate(layout.head):
        for heading in line:
            for further in range(level, level + heading.down):
                taken[further] += heading.across
    assert len(set(taken)) == 1 and (not rows or taken[0] == next(iter(wide)))


@settings(max_examples=15)
@given(st.data())
def test_subtotals_are_sums_of_their_rows(catalogue: Catalogue, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    drawn = data.draw(queries(chosen, 4)).on_page(1)
    query = Query(**{**drawn.__dict__, "subtotals": True})
    whole = answer(chosen, query)
    page = whole.page()
    if len(page.rows) < len(whole.rows) or len(page.cols) < len(whole.cols):
        return  # sums of one page alone are not those of the table
    layout = Layout(page, whole)
    rows, cols = layout._rows, layout._cols
    cells = [[cell.value for cell in row.cells] for row in layout.rows]
    for (i, row), (j, col) in product(enumerate(rows), enumerate(cols)):
        parts = [
            page.body.values[one.number, two.number]
            for one in rows
            for two in cols
            if min(one.number, two.number) >= 0
            and one.places[: len(row.places)] == row.places
            and two.places[: len(col.places)] == col.places
        ]
        assert cells[i][j] == sum(parts)


def test_a_subtotal_stands_where_its_group_ends(
    tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(("place", "sector"), ("ownership",), subtotals=True)
    whole = answer(tables["jobs"], query)
    one_page = list(Layout(whole, whole).rows)
    monkeypatch.setattr(answers, "PAGE_ROWS", 7)
    paged: list[Row] = []
    for number in range(whole.pages(7)):
        again = answer(tables["jobs"], query.on_page(number + 1))
        rows = list(Layout(again.page(7), again).rows)
        assert rows[0].headings[0].kind == "at-0"  # a group that goes on is named again
        paged += rows
    assert [row.kind for row in paged] == [row.kind for row in one_page]
    assert [row.cells for row in paged] == [row.cells for row in one_page]
    assert sum(row.kind == "subtotal" for row in paged) == len({p[0] for p in whole.rows.places})


def test_groups_stay_together_when_rows_are_sorted(tables: dict[str, LinkedTable]) -> None:
    query = Query(("place", "sector"), sort="-jobs", subtotals=True)
    found = answer(tables["jobs"], query)
    order = list(dict.fromkeys(places[0] for places in found.rows.places))
    assert [p[0] for p in found.rows.places] == sorted(
        (p[0] for p in found.rows.places), key=order.index
    )
    sums = [
        sum(
            int(value)
            for places, value in zip(found.rows.places, found.row_totals.values, strict=True)
            if places[0] == place
        )
        for place in order
    ]
    assert sums == sorted(sums, reverse=True)


def test_columns_have_pages_too(cube: CubeSet) -> None:
    names = [variable.name for variable in cube.variables if len(variable.codes) >= 3][:4]
    query = Query((), tuple(names))
    whole = answer(cube, query)
    assert len(whole.cols) > answers.PAGE_COLUMNS and whole.pages_across > 1
    pages = [answer(cube, query.on_page(1, k + 1)).page() for k in range(whole.pages_across)]
    assert [p for page in pages for p in page.cols.places] == list(whole.cols.places)
    values = [v for page in pages for v in page.body.values[0].tolist()]
    assert values == whole.body.values[0].tolist()
    with pytest.raises(eree.Refusal, match="the last one is"):
        answer(cube, query.on_page(1, whole.pages_across + 1)).page()


class Headers(HTMLParser):
    """Ids and what refers to them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.named: list[str] = []
        self.scopes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "th":
            self.ids.add(str(known.get("id")))
            self.scopes.add(str(known.get("scope")))
        elif tag == "td":
            self.named += str(known.get("headers") or "").split()


def test_cells_name_headings_that_are_there(client: TestClient, catalogue: Catalogue) -> None:
    name = next(data.name for data in catalogue.data_sets if data.name.startswith("jobs"))
    nested = "rows=place&rows=sector&cols=ownership&subtotals=yes&show=margin"
    page = Headers(client.get(f"/d/{name}?{nested}").text)
    assert page.named and set(page.named) <= page.ids
    assert page.scopes == {"col", "row", "rowgroup", "colgroup"}  # the last on paper
    flat = Headers(client.get(f"/d/{name}?rows=sector&cols=ownership&show=margin").text)
    assert not flat.named and flat.scopes == {"col", "row"}


@settings(max_examples=20)
@given(st.data())
def test_wide_tables_have_all_columns_on_paper_in_blocks(
    catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    whole = answer(chosen, data.draw(queries(chosen, 4)).on_page(1))
    layout = Layout(whole.page(), whole)
    columns, sheets = len(layout.foot.cells), layout.sheets
    if not sheets:
        return
    assert [0, *(sheet.last for sheet in sheets)] == [*(s.first for s in sheets), columns]
    if layout.totals and len(sheets) > 1:  # totals stand alone only where each column does
        *_, before, last = (sheet.last - sheet.first for sheet in sheets)
        assert last > 1 or before == 1
    for sheet in sheets:
        taken = [0] * len(sheet.head)
        for level, line in enumerate(sheet.head):
            for heading in line:
                for further in range(level, level + heading.down):
                    taken[further] += heading.across
        assert set(taken) == {sheet.last - sheet.first}
    shown = [[h.label for h in sheet.head[-1]] for sheet in sheets]
    own = [h.label for h in layout.head[-1]]
    if len(layout.head) == 1:
        assert [label for labels in shown for label in labels] == own


def test_blocks_are_for_paper_alone_and_have_every_figure(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    text = client.get(f"/d/{name}?rows=place&cols=sector&show=margin").text
    screen, *paper = text.split('<table class="on-paper')
    assert len(paper) > 2
    cells = re.findall(r"<td[^>]*>(.*?)</td>", screen.partition("<tbody>")[2])
    blocks = [re.findall(r"<td[^>]*>(.*?)</td>", block) for block in paper]
    assert sorted(cells) == sorted(cell for block in blocks for cell in block)
    places = re.findall(r'class="at-0">(\d+)</th>', screen)
    assert places and all(re.findall(r'class="at-0">(\d+)</th>', b) == places for b in paper)
    assert not any(" id=" in block.partition("</table>")[0] for block in paper)
    headings = [re.findall(r'<th [^>]*class="caption"[^>]*>(.*?)</th>', block) for block in paper]
    assert all(len(own) == 1 and "columns " in own[0] for own in headings)
    assert "<caption" not in "".join(paper)
    nested = client.get(f"/d/{name}?rows=place&rows=ownership&show=margin").text
    assert nested.count('<table class="on-paper') == 1 and ": columns 1" not in nested
    narrow = client.get(f"/d/{name}?rows=place&cols=ownership&show=margin").text
    assert '<table class="on-paper' not in narrow and "on-screen" not in narrow
