"""Two variables in bars, and two areas beside each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.errors import Refusal
from eree.web.answer import answer
from eree.web.catalogue import Catalogue
from eree.web.comparison import pair, ranking
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.render.charts import chart_of, figure, grouped


@pytest.mark.parametrize("panels", [False, True])
def test_groups_of_bars_have_every_figure_once_on_one_scale(cube: CubeSet, panels: bool) -> None:
    made = answer(cube, Query(("strength",), ("education",)))
    found = grouped(made, panels=panels)
    outer, inner = (made.cols, made.rows) if panels else (made.rows, made.cols)
    assert [labels for labels, _ in found.groups] == [outer.labels(k) for k in range(len(outer))]
    assert len({group.scale for _, group in found.groups}) == 1
    for k, (_, group) in enumerate(found.groups):
        assert [bar.labels for bar in group.bars] == [inner.labels(m) for m in range(len(inner))]
        for m, bar in enumerate(group.bars):
            cell = made.body.cell(*((m, k) if panels else (k, m)))
            assert (bar.cell, bar.figure) == (cell, figure(cell, made.shown_decimals))


@pytest.mark.parametrize(
    ("rows", "cols", "asked", "drawn"),
    [
        (("sector",), (), "", "bars"),
        (("sector",), (), "heat", "bars"),
        (("sector",), ("ownership",), "", "grouped"),
        (("sector",), ("ownership",), "heat", "heat"),
        (("ownership",), ("sector",), "", "heat"),
        (("ownership",), ("sector",), "panels", "heat"),
        (("ownership",), ("place",), "", "panels"),
        (("ownership",), ("place",), "grouped", "grouped"),
    ],
)
def test_a_chart_is_drawn_by_how_much_there_is_or_as_is_asked(
    tables: dict[str, LinkedTable],
    rows: tuple[str, ...],
    cols: tuple[str, ...],
    asked: str,
    drawn: str,
) -> None:
    assert 4 < len(tables["jobs"].variable("place").codes) <= 12 < 20
    assert chart_of(answer(tables["jobs"], Query(rows, cols)), asked) == drawn


def test_pages_of_charts_say_what_their_axes_are(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    page = client.get(f"/d/{name}/chart?rows=sector&cols=ownership&show=margin").text
    assert 'class="grouped"' in page and '<p class="axis-title" aria-hidden="true">Jobs</p>' in page
    heat = client.get(f"/d/{name}/chart?rows=sector&cols=ownership&as=heat&show=margin").text
    labels = [tables["jobs"].variable(n).label for n in ("sector", "ownership")]
    assert f"{labels[0]}\N{NO-BREAK SPACE}↓<br>{labels[1]}\N{NO-BREAK SPACE}→" in heat
    assert client.get(f"/d/{name}/chart?as=pie&show=margin").status_code == 400
    again = (
        f"/d/{name}/chart?rows=sector&amp;cols=ownership&amp;exact=yes&amp;show=margin&amp;as=heat"
    )
    assert again in heat  # what else is asked keeps the kind


def test_many_bars_begin_with_the_largest_and_few_stay_as_listed(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    page = client.get(f"/d/{name}?rows=sector&show=margin").text
    assert f'href="/d/{name}/chart?rows=sector&amp;sort=-jobs&amp;show=margin"' in page
    page = client.get(f"/d/{name}?rows=ownership&show=margin").text
    assert f'href="/d/{name}/chart?rows=ownership&amp;show=margin"' in page
    listed = client.get(f"/d/{name}/chart?rows=sector&show=margin").text
    assert '<option value="code" selected>' in listed


@settings(max_examples=25)
@given(st.data())
def test_a_pair_says_what_intervals_that_hold_together_say(
    catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    name = data.draw(st.sampled_from([v.name for v in chosen.variables if len(v.codes) <= 60]))
    query = Query((name,), confidence=data.draw(st.sampled_from(("0.8", "0.99"))))
    areas = [area.codes[0] for area in ranking(chosen, query).areas]
    if len(areas) < 2:
        return
    one, two = data.draw(st.permutations(areas))[:2]
    found = pair(chosen, query, one, two)
    gap = found.one.cell.low - found.two.cell.high, found.two.cell.low - found.one.cell.high
    assert found.verdict == ("one" if gap[0] > 0 else "two" if gap[1] > 0 else "")
    turned = pair(chosen, query, two, one)
    assert turned.verdict == {"one": "two", "two": "one", "": ""}[found.verdict]
    assert turned.one == found.two
    ranks = {area.codes[0]: area for area in ranking(chosen, query).areas}
    if ranks[one].worst < ranks[two].best:  # sure among all areas, so sure among two
        assert found.verdict == "one"


def test_a_page_answers_whether_one_is_larger(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    asked = f"/d/{data.name}/ranking{{}}?rows=sector&show=margin"
    areas = client.get(asked.format(".json")).json()["areas"]
    first, last = areas[0]["sector"], areas[-1]["sector"]
    label = data.variable("sector").labels[data.variable("sector").places[first]]
    page = client.get(f"{asked.format('')}&one={label}&two={last}").text
    assert f"<strong>Yes:</strong> {label} has more than" in page.replace("&amp;", "&")
    found = client.get(f"{asked.format('.json')}&one={last}&two={first}").json()["pair"]
    assert found["larger"] == "two"
    assert 'class="answer"' not in client.get(asked.format("")).text


@pytest.mark.parametrize(
    ("one", "two", "marked", "why"),
    [
        ("no<where", "72", ["one"], "matches no area here"),
        ("72", "no<where ", ["two"], "matches no area here"),
        ("72", "72", ["one", "two"], "is compared with another one"),
    ],
)
def test_two_words_stay_in_the_form_where_one_is_wrong(
    one: str,
    two: str,
    marked: list[str],
    why: str,
    client: TestClient,
    tables: dict[str, LinkedTable],
) -> None:
    address = f"/d/{tables['jobs'].name}/ranking?rows=sector&show=margin"
    reply = client.get(address, params={"rows": "sector", "show": "margin", "one": one, "two": two})
    assert reply.status_code == 400 and why in reply.text
    fields = dict(re.findall(r'<input id="f-(one|two)" ([^>]*)>', reply.text))
    assert [name for name in fields if 'aria-invalid="true"' in fields[name]] == marked
    for name, word in (("one", one), ("two", two)):
        assert f'value="{word.replace("<", "&lt;")}"' in fields[name]
    assert 'role="alert"' in reply.text and '<table class="ranking ranks">' in reply.text


@pytest.mark.parametrize(
    ("rows", "one", "two", "words"),
    [
        (("sector",), "zz", "11", "'zz' matches no area here"),
        (("sector",), "11", "11", "compared with another one"),
        (("sector", "ownership"), "11", "21", "by one variable"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tables: dict[str, LinkedTable], rows: tuple[str, ...], one: str, two: str, words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        pair(tables["jobs"], Query(rows), one, two)
