"""Charts and maps as files: whole SVG documents with every figure of the page, and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: bytes) -> list[str]:
    root = ElementTree.fromstring(picture)  # our own
    assert root.tag == f"{SVG}svg"
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        *("svg", "title", "style", "rect", "g", "text", "line", "path", "defs", "pattern", "use"),
        "circle",
    }
    return [node.text or "" for node in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "query",
    [
        "rows=sector&show=margin",
        "rows=sector&cols=ownership&show=margin&as=grouped",
        "rows=sector&cols=ownership&show=margin&as=panels",
        "rows=sector&cols=ownership&show=margin&as=heat",
    ],
)
def test_a_chart_is_a_file_with_the_figures_of_its_page(
    client: TestClient, tables: dict[str, LinkedTable], query: str
) -> None:
    name = tables["jobs"].name
    page, found = (client.get(f"/d/{name}/chart{end}?{query}") for end in ("", ".svg"))
    assert (page.status_code, found.status_code) == (200, 200)
    assert found.headers["content-type"].startswith("image/svg+xml")
    assert 'attachment; filename="jobs-' in found.headers["content-disposition"]
    shown = texts(found.content)
    figures = re.findall(r'<span class="value">(?:<[^>]*>[^<]*</[^>]*> ?)*([\d,−.]+)', page.text)
    if "heat" in query:
        fields = r'<td class="[^"]*" title="[^"]*"><span>([^<]*)</span>'
        figures = re.findall(fields, page.text)
    assert len(figures) >= 10
    for figure in figures:
        assert any(line.split(" (")[0] == figure for line in shown), figure
    assert any(line.startswith("Intervals at 90%") for line in shown) != ("heat" in query)
    said, names = " ".join(shown), tables["jobs"].variable("sector").labels
    if "grouped" not in query and "panels" not in query:  # which have few beside their bars
        assert [name for name in names if name in page.text and name not in said] == []
    linked = re.findall(r'href="([^"]*chart\.svg[^"]*)"', page.text)
    assert client.get(linked[0].replace("&amp;", "&")).content == found.content


def test_a_map_is_a_file_with_its_legend_and_without_links(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    query = f"/d/{tables['jobs'].name}/map?rows=place&show=margin"
    page = client.get(query)
    found = client.get(query.replace("/map?", "/map.svg?"))
    assert found.status_code == 200
    assert len(texts(found.content)) >= 4
    body = found.text
    assert "<a " not in body and "<script" not in body and "style=" not in body
    drawn = re.findall(r'<g class="shade-\d"><path', page.text)
    assert drawn and len(re.findall(r'<g class="shade-\d"><path', body)) == len(drawn)
    for low in re.findall(r'shade-\d" aria-hidden="true"></span>([\d,−.]+)', page.text):
        assert any(line.startswith(low) for line in texts(found.content))


def test_pictures_say_what_their_marks_mean_and_nothing_that_is_not_there(
    client: TestClient, cube: CubeSet, tables: dict[str, LinkedTable]
) -> None:
    query = "rows=occupation&group.occupation=major&cols=education&show=margin"
    pages = [f"/d/{cube.name}/chart{end}?{query}&as=heat" for end in ("", ".svg")]
    page, heat = (client.get(address).text for address in pages)
    weak = len(re.findall(r'<td class="heat-\d weak"', page))
    assert weak and heat.count('class="dot"') == weak + 1  # and in the legend
    said = " ".join(texts(heat.encode()))
    assert "dot: unreliable" in said and "From which figure on a colour begins" in said
    panels = client.get(f"/d/{cube.name}/chart.svg?{query}&as=panels").text
    assert ("pale: unreliable" in panels) == ('class="bar weak"' in panels)
    of_map = client.get(f"/d/{tables['jobs'].name}/map.svg?rows=place&show=margin").text
    for picture in (heat, of_map):  # which have no errors beside their figures
        assert "Intervals at" not in picture and "error beside it" not in picture
        assert "the table at the address has their errors" in picture
    assert "Intervals at 90%." in panels and "error beside it" in panels


@pytest.mark.parametrize(
    "picture",
    [
        "chart.svg?rows=sector",
        "chart.svg?rows=sector&cols=ownership&as=heat",
        "chart.svg?rows=sector&cols=ownership&as=panels",
        "map.svg?rows=place",
    ],
)
def test_pictures_of_exact_figures_speak_of_no_noise(
    client: TestClient, tables: dict[str, LinkedTable], picture: str
) -> None:
    found = client.get(f"/d/{tables['jobs'].name}/{picture}&measure=workplaces")
    said = " ".join(texts(found.content))
    assert "Numbers of workplaces are public and exact." in said
    assert "noise in them" not in said and "Intervals at" not in said


def test_a_picture_says_how_many_of_how_many_are_in_it(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.render.charts.MOST_BARS", 7)
    data = tables["jobs"]
    for query in ("rows=sector", "rows=sector&cols=ownership&as=heat"):
        for page, ends in (("", "1 to 7"), ("&page=3", "15 to 20")):
            address = f"/d/{data.name}/chart.svg?{query}&sort=-jobs{page}&confidence=0.8"
            said = texts(client.get(address).content)[1]
            assert said == f"{data.title} · Rows {ends} of 20 · Largest first"
    whole = texts(client.get(f"/d/{data.name}/chart.svg?rows=ownership&confidence=0.8").content)
    assert whole[1] == data.title


def test_what_a_page_refuses_its_file_refuses(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    assert client.get(f"/d/{name}/chart.svg?rows=nothing").status_code == 400
    assert client.get("/d/nothing/chart.svg").status_code == 404
    assert client.get(f"/d/{tables['jobs'].name}/chart.svg?as=pie").status_code == 400


def test_figures_of_a_wide_heat_map_stay_in_their_fields_and_long_names_are_whole(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    query = "rows=place&group.place=county&cols=sector&as=heat&show=margin"
    found = client.get(f"/d/{tables['jobs'].name}/chart.svg?{query}").text
    (wide,) = {*re.findall(r'<rect class="field [^>]* width="([\d.]+)"', found)}
    figures = re.findall(r'style="font-size:([\d.]+)px">([^<]+)</text>', found)
    assert len(figures) >= 40 and float(wide) < 30
    for size, figure in figures:
        assert 0.62 * float(size) * len(figure) < float(wide), figure
    said = " ".join(texts(found.encode()))
    for label in tables["jobs"].variable("sector").labels:
        assert label in said
