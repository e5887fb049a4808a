"""Maps show the figures of the table, in classes with a legend, and each area leads to its own."""

from __future__ import annotations

import json
import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import eree
from eree.web.answer import answer
from eree.web.app import application
from eree.web.block import UNRELIABLE
from eree.web.catalogue import Catalogue
from eree.web.linked import LinkedTable
from eree.web.query import Query, parse, read
from eree.web.render.maps import CLASSES, Picture, chosen, classes, describe_fit, maps_of


@given(st.lists(st.integers(-50, 50), max_size=60))
def test_classes_hold_about_as_many_and_never_part_equal_values(values: list[int]) -> None:
    found = classes(values)
    assert len(found) == len(values)
    for one, shade in zip(values, found, strict=True):
        for two, other in zip(values, found, strict=True):
            assert (one == two) <= (shade == other) and (one < two) <= (shade <= other)
    assert set(found) == set(range(len(set(found)))) and len(set(found)) <= CLASSES
    if len(set(values)) == len(values) and len(values) >= CLASSES:
        sizes = np.bincount(found)
        assert len(sizes) == CLASSES and sizes.max() - sizes.min() <= 1


def picture(data: LinkedTable, catalogue: Catalogue, query: Query) -> Picture:
    return Picture(data, query, chosen(query, maps_of(data, catalogue.maps)))


def test_figures_are_those_of_the_table(
    tables: dict[str, LinkedTable], catalogue: Catalogue
) -> None:
    query = Query(("place",), where={"sector": ("72",)}, confidence="0.95")
    found = picture(tables["jobs"], catalogue, query)
    table = answer(tables["jobs"], query)
    cells = {table.rows.codes(i)[0]: table.body.cell(i, 0) for i in range(len(table.rows))}
    assert {area.code: area.cell for area in found.areas} == cells
    assert [a.hatched for a in found.areas] == [UNRELIABLE in a.cell.flags for a in found.areas]
    assert sum(shade.count for shade in found.legend) == len(cells)


def test_other_variables_are_added_up(tables: dict[str, LinkedTable], catalogue: Catalogue) -> None:
    both = Query(("sector", "place"), ("ownership",))
    alone = Query(("place",))
    data = tables["jobs"]
    one, two = picture(data, catalogue, both), picture(data, catalogue, alone)
    assert [(a.code, a.cell) for a in one.areas] == [(a.code, a.cell) for a in two.areas]


def test_a_level_has_the_map_of_its_name(
    tables: dict[str, LinkedTable], catalogue: Catalogue
) -> None:
    data = tables["tracts"]  # tracts have no map, their counties have
    query = Query(("tract",))
    found = picture(data, catalogue, query)
    assert found.mapped.label == "County"
    counties = answer(data, Query(("county",)))
    assert {a.code for a in found.areas} == {counties.rows.codes(i)[0] for i in range(3)}
    grouped = picture(tables["jobs"], catalogue, Query(("place",), groups={"place": "county"}))
    assert grouped.mapped.level == "county" and len(grouped.areas) == 3
    plain = picture(tables["jobs"], catalogue, Query(("place",)))
    assert plain.mapped.level is None


def test_every_area_is_drawn_once_and_leads_to_its_own_table(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    text = client.get(f"/d/{data.name}/map?rows=place&cols=sector&show=margin").text
    links = re.findall(r'<a href="([^"]*)" tabindex="-1" data-code="([^"]*)" data-keep', text)
    place = data.variable("place")
    assert sorted(code for _, code in links) == sorted(place.codes)
    values = dict(zip(place.codes, answer(data, Query(("place",))).body.values[:, 0], strict=True))
    for address, code in links:
        query = parse(data, read(unescape(address).partition("?")[2]))
        assert query.where == {"place": (code,)} and query.cols == ("sector",)
        assert answer(data, query).total.values[0] == values[code]
        assert client.get(unescape(address)).status_code == 200


def test_a_map_is_drawn_before_anybody_asks(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shapely", None)
    assert client.get(f"/d/{tables['jobs'].name}/map?rows=place&show=interval").status_code == 200


def test_an_area_that_a_filter_cuts_leads_to_what_is_left_of_it(
    tables: dict[str, LinkedTable], catalogue: Catalogue
) -> None:
    data = tables["tracts"]
    tract = data.variable("tract")
    kept = (tract.codes[0], *tract.codes[-3:])
    found = picture(data, catalogue, Query(("tract",), where={"tract": kept}))
    assert found.mapped.label == "County" and len(found.areas) > 1
    for area in found.areas:
        query = parse(data, read(area.address.partition("?")[2]))
        assert answer(data, query).total.values[0] == area.cell.value


def test_titles_say_figure_interval_and_whether_it_is_reliable(
    tables: dict[str, LinkedTable], catalogue: Catalogue
) -> None:
    found = picture(tables["jobs"], catalogue, Query(("place",), where={"sector": ("22",)}))
    titles = re.findall(r"<title>((.*?): .*?)</title>", found.drawn())
    assert len(titles) == len(found.areas)
    areas = {area.code: area for area in found.areas}
    for title, code in titles:
        assert " to " in title or "or more" in title
        assert title.endswith("unreliable") == areas.pop(code).hatched
    assert found.drawn().count("<use ") == sum(area.hatched for area in found.areas)


def test_a_filter_zooms_in(tables: dict[str, LinkedTable], catalogue: Catalogue) -> None:
    data = tables["jobs"]
    whole = picture(data, catalogue, Query(("place",)))
    code = data.variable("place").codes[0]
    near = picture(data, catalogue, Query(("place",), where={"place": (code,)}))
    views = [re.findall(r'viewBox="(.*?)"', shown.drawn())[0].split() for shown in (whole, near)]
    assert float(views[1][2]) < float(views[0][2])
    left, top, wide, tall = map(float, views[1])
    box = near.mapped.map.boxes[code]
    assert left <= box[0] and top <= box[1] and box[2] <= left + wide and box[3] <= top + tall
    assert near.without_figure == len(near.mapped.map.paths) - 1


def test_small_areas_are_drawn_over_those_that_they_lie_in(
    tables: dict[str, LinkedTable], catalogue: Catalogue
) -> None:
    found = picture(tables["jobs"], catalogue, Query(("place",)))
    boxes = found.mapped.map.boxes
    sizes = [
        (boxes[code][2] - boxes[code][0]) * (boxes[code][3] - boxes[code][1])
        for code in re.findall(r'data-code="([^"]*)"', found.drawn())
    ]
    assert len(sizes) == len(found.areas) and sizes == sorted(sizes, reverse=True)


def one_area(folder: Path, releases: list[Path], keep: int) -> str:
    """A map of some places alone, and of one that is nowhere."""
    given = json.loads((releases[0].parent / "data" / "place.geojson").read_text())
    kept = given["features"][:keep]
    kept.append(kept[0] | {"properties": {"place": "nowhere", "name": '<b>"x"</b>'}})
    path = folder / "some.geojson"
    path.write_text(json.dumps(given | {"features": kept}))
    return f"place={path}"


def test_areas_without_a_shape_are_counted_and_stay_in_the_table(
    releases: list[Path], tmp_path: Path
) -> None:
    catalogue = Catalogue.open(releases[:1], maps=[one_area(tmp_path, releases, 4)])
    data = next(d for d in catalogue.data_sets if d.name.startswith("jobs"))
    count = len(data.variable("place").codes)
    client = TestClient(application(catalogue, "http://testserver"), base_url="http://testserver")
    text = client.get(f"/d/{data.name}/map?rows=place&show=margin").text
    assert f"{count - 4} areas: not on the map" in text
    assert text.count("data-area=") == count and text.count("data-code=") == 4
    assert "<b>" not in text
    line = describe_fit("place", catalogue.maps["place"], catalogue.data_sets)
    assert line.startswith(f"some.geojson: 4 of {count} codes of place have a shape; ")
    assert "shapes without a code here: 1, features without a shape: " in line
    about = client.get(f"/d/{data.name}/about").text
    assert "some.geojson, which is no part of the release" in about


def test_a_map_of_other_areas_than_were_asked_for_says_so(
    releases: list[Path], maps: list[str]
) -> None:
    catalogue = Catalogue.open(releases[:1], maps=[one for one in maps if "county" in one])
    data = next(d for d in catalogue.data_sets if d.name.startswith("jobs"))
    client = TestClient(application(catalogue, "http://testserver"), base_url="http://testserver")
    said = "There is no map of Place here; this one shows County."
    assert said in client.get(f"/d/{data.name}/map?rows=place&show=margin").text
    for query in ("rows=place&group.place=county", "rows=sector", ""):
        assert "There is no map of" not in client.get(f"/d/{data.name}/map?{query}").text


def test_areas_without_a_figure_are_in_the_legend_and_in_the_picture(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    query = f"rows=place&where.place={tables['jobs'].variable('place').codes[0]}&show=margin"
    page = client.get(f"/d/{tables['jobs'].name}/map?{query}").text
    assert "no figure" in page and "or the data set has no such area" in page
    found = client.get(f"/d/{tables['jobs'].name}/map.svg?{query}").text
    assert re.search(r'<rect class="out"[^>]*/><text[^>]*>no figure</text>', found)
    assert f">{tables['jobs'].title}</text>" in found


def test_a_data_set_without_a_map_has_no_such_page(
    client: TestClient, catalogue: Catalogue
) -> None:
    cube = next(data for data in catalogue.data_sets if data.kind == "cube")
    assert client.get(f"/d/{cube.name}/map").status_code == 404
    assert f"/d/{cube.name}/map" not in client.get(f"/d/{cube.name}").text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("place", "names no map"),
        ("=file", "names no map"),
        ("place=", "names no map"),
        ("nothing=PLACES", "no data set has a variable or a level 'nothing'"),
        ("place=MISSING", "cannot be read"),
        ("place:county=PLACES", "has the code .* twice"),
        ("county:place=PLACES", "no code of county has a shape in place.geojson: codes are like"),
        ("place=PLACES,place=PLACES", "two maps for place"),
    ],
)
def test_maps_that_fit_nothing_are_refused(text: str, why: str, releases: list[Path]) -> None:
    places = str(releases[0].parent / "data" / "place.geojson")
    given = text.replace("PLACES", places).replace("MISSING", places + ".no").split(",")
    with pytest.raises(eree.Refusal, match=why):
        Catalogue.open(releases[:1], maps=given)


def test_a_map_that_fits_nothing_any_more_is_left_out_where_releases_come_and_go(
    releases: list[Path], maps: list[str]
) -> None:
    places, said = str(releases[0].parent / "data" / "place.geojson"), list[str]()
    given = [*maps[:1], f"nothing={places}", f"county:place={places}"]
    found = Catalogue.open(releases[:1], maps=given, left_out=said.append)
    assert list(found.maps) == ["place"] and len(said) == 2
    assert "no data set has" in said[0] and "no code of county has a shape" in said[1]
