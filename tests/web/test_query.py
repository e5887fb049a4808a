"""The address is the query: one for each, read back as it was, and nothing else is understood."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eree
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.query import MOST_PARTS, Query, carried, default_query, parse, read, sent
from questions import queries


@settings(max_examples=60)
@given(st.data())
def test_a_query_is_read_back_from_its_address(catalogue: Catalogue, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen))
    address = query.address()
    assert parse(chosen, read(address)) == query
    assert parse(chosen, read(address)).address() == address
    assert address.isascii() and " " not in address


@settings(max_examples=30)
@given(st.data())
def test_a_form_leads_to_the_query_that_it_shows(catalogue: Catalogue, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen)).on_page(1)
    found = sent(chosen, carried(query))
    assert found.page == ""
    for name, codes in query.where.items():  # a filter of all codes is none
        if set(codes) >= set(chosen.variable(name).codes):
            return
    assert found.query == query


def test_the_order_of_filters_does_not_matter(tables: dict[str, LinkedTable]) -> None:
    jobs = tables["jobs"]
    one = parse(jobs, read("where.sector=72&rows=place&where.sector=11&show=margin"))
    two = parse(jobs, read("rows=place&show=margin&where.sector=11&where.sector=72"))
    assert one == two and one.address() == two.address()


def test_the_order_of_variables_does(tables: dict[str, LinkedTable]) -> None:
    jobs = tables["jobs"]
    one = parse(jobs, read("rows=place&rows=sector"))
    two = parse(jobs, read("rows=sector&rows=place"))
    assert one != two


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rows=nothing", "no variable 'nothing'"),
        ("rows=place&rows=place", "stands twice"),
        ("rows=place&cols=place", "stands twice"),
        ("where.place=nowhere", "place has no code 'nowhere'"),
        ("where.sector=11&where.sector=11", "keeps a code twice"),
        ("where.=11", "no variable ''"),
        ("group.ownership=major", "ownership has no level 'major'; it has no levels"),
        ("rows=sector&group.sector=major", "sector has no level 'major'; it has supersector"),
        ("rows=place&rows=sector&subtotals=no", "subtotals is asked for with subtotals=yes"),
        ("exact=1", "exact is asked for with exact=yes"),
        ("across=0", "across is an integer"),
        ("measure=money", "no measure 'money'; there is jobs, workplaces"),
        ("show=standard-error", "noise depends on a confidential number"),
        ("show=guess", "there is no error 'guess'"),
        ("confidence=0.5", "the confidence is one of"),
        ("confidence=nan", "the confidence is one of"),
        ("sort=up", "rows are sorted by one of"),
        ("page=0", "page is an integer"),
        ("page=-1", "page is an integer"),
        ("page=1e3", "page is an integer"),
        ("page=٣", "page is an integer"),
        ("page=01", "without a zero in front"),
        ("page=99999999999999999999", "page is an integer"),
        ("show=margin&show=margin", "show is given twice"),
        ("colour=red", "there is no setting 'colour'"),
        ("rows", "the address cannot be read"),
        ("rows=%ff", "the address cannot be read"),
        ("rows=place%00", "characters that no code has"),
        ("&".join(["where.sector=11"] * (MOST_PARTS + 1)), "at most 2,000 parts"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(
    text: str, why: str, tables: dict[str, LinkedTable]
) -> None:
    from urllib.parse import quote

    with pytest.raises(eree.Refusal, match=why):
        parse(tables["jobs"], read(quote(text, safe="&=%.-")))


def test_levels_belong_to_variables_of_the_table(cube: CubeSet) -> None:
    assert parse(cube, read("rows=occupation&group.occupation=major")).groups
    for text, why in (
        ("group.occupation=major", "the table is not by"),
        ("rows=occupation&group.occupation=huge", "has no level 'huge'; it has major, minor"),
        ("rows=occupation&group.occupation=major&group.occupation=minor", "two levels"),
        ("rows=education&group.education=major", "has no levels"),
    ):
        with pytest.raises(eree.Refusal, match=why):
            parse(cube, read(text))


def test_no_more_variables_than_a_table_can_show(cube: CubeSet) -> None:
    names = [variable.name for variable in cube.variables]
    parse(cube, [("rows", name) for name in names[:4]])
    with pytest.raises(eree.Refusal, match="at most 4 variables"):
        parse(cube, [("rows", name) for name in names[:5]])


def test_every_data_set_shows_something_first(catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        query = default_query(data)
        assert query.rows and parse(data, read(query.address())) == query
    assert Query().address() == "show=margin"
