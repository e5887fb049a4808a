"""What machines find, checked by the rules that its standards publish."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

from eree.survey.query import Axis
from eree.web.address import query_of
from eree.web.answer import answer
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.dataset import DataSet
from eree.web.export import EXPORTS, _is_time, as_sdmx, metadata
from eree.web.linked import LinkedTable
from eree.web.query import Query
from eree.web.standards import interval_of
from served import HOME

OFFICE = Branding(
    name="Office <of> Work",
    contact="Help desk, data@work.example.org",
    licence="CC0, https://creativecommons.org/publicdomain/zero/1.0/",
    languages=("en", "es"),
)
SITEMAPS = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture(scope="module")
def office(catalogue: Catalogue) -> TestClient:
    return TestClient(application(catalogue, HOME, branding=OFFICE), base_url=HOME)


def date(text: str) -> bool:
    return bool(datetime.date.fromisoformat(text))


def address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.netloc) and " " not in text


# --------------------------------------------------------------------- robots and the sitemap


def test_robots_find_the_sitemap_and_no_query(office: TestClient) -> None:
    text = office.get("/robots.txt").text
    lines = ("User-agent: *", "Disallow: /*?", "Allow: /static/", f"Sitemap: {HOME}/sitemap.xml")
    assert text.splitlines() == list(lines)
    icon = office.get("/favicon.ico", follow_redirects=True)
    assert icon.status_code == 200 and icon.headers["content-type"] == "image/svg+xml"


def test_the_sitemap_lists_pages_that_are_there_in_all_languages(
    office: TestClient, catalogue: Catalogue
) -> None:
    reply = office.get("/sitemap.xml")
    assert reply.headers["content-type"] == "application/xml"
    root = ElementTree.fromstring(reply.content)
    assert root.tag == f"{SITEMAPS}urlset"
    found = [url.findtext(f"{SITEMAPS}loc") or "" for url in root]
    assert len(found) == len(set(found)) == 2 * (3 + 2 * len(catalogue.data_sets))
    for url in root:
        assert {child.tag for child in url} <= {f"{SITEMAPS}loc", f"{SITEMAPS}lastmod"}
        changed = url.findtext(f"{SITEMAPS}lastmod")
        assert changed is None or date(changed)
    for page in found:
        assert page.startswith(f"{HOME}/") and "?" not in page
        assert office.get(page).status_code == 200


# ------------------------------------------------------------------------------- in pages


class Head(HTMLParser):
    """What the head of a page says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.canonical: list[str] = []
        self.properties: dict[str, str] = {}
        self.data: list[dict[str, Any]] = []
        self._inside = False
        self.feed(page.split("</head>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") == "canonical":
            self.canonical.append(given["href"])
        if tag == "meta" and "property" in given:
            self.properties[given["property"]] = given["content"]
        self._inside = tag == "script" and given.get("type") == "application/ld+json"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data.append(json.loads(data))
            self._inside = False


def test_every_page_says_its_one_address_and_is_shown_as_a_card(
    office: TestClient, catalogue: Catalogue
) -> None:
    name = catalogue.data_sets[0].name
    for page in ("/", "/methods", f"/d/{name}", f"/d/{name}/chart", f"/es/d/{name}/about"):
        head = Head(office.get(page).text)
        (canonical,) = head.canonical
        assert canonical.startswith(f"{HOME}{page}")
        assert Head(office.get(canonical).text).canonical == [canonical]
        assert {"og:title", "og:type", "og:url", "og:site_name"} <= head.properties.keys()
        assert head.properties["og:url"] == canonical
        assert head.properties["og:site_name"] == OFFICE.name
    for page in (f"/d/{name}", f"/es/d/{name}/about"):  # robots may not read what has a query
        assert Head(office.get(page).text).canonical == [f"{HOME}{page}"]
    assert Head(office.get("/nothing").text).canonical == []
    two = [f"/d/{name}?show=margin&rows=sector", f"/d/{name}?rows=sector&show=margin"]
    assert len({tuple(Head(office.get(page).text).canonical) for page in two}) == 1


def test_what_machines_are_told_is_in_the_language_of_the_page(
    office: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    english, spanish = (Head(office.get(f"{at}/d/{name}").text) for at in ("", "/es"))
    assert english.properties["og:title"].startswith("Jobs by ")
    assert spanish.properties["og:title"].startswith("Empleos por ")
    assert "with noise under" in english.properties["og:description"]
    assert "con ruido bajo" in spanish.properties["og:description"]
    assert "con ruido bajo" in spanish.data[0]["description"]
    assert "with noise under" in english.data[0]["description"]  # asked for before and after
    assert "with noise under" in Head(office.get(f"/d/{name}").text).data[0]["description"]


def test_a_data_set_is_one_of_schema_org(office: TestClient, catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        (found,) = Head(office.get(f"/d/{data.name}").text).data
        assert (found["@context"], found["@type"]) == ("https://schema.org/", "Dataset")
        assert found["name"] and 50 <= len(found["description"]) <= 5_000  # as search engines ask
        assert address(found["url"]) and address(found["license"]) and date(found["dateModified"])
        assert found["creator"] == {"@type": "Organization", "name": OFFICE.name}
        for file in found["distribution"]:
            assert file["@type"] == "DataDownload"
            reply = office.get(file["contentUrl"])
            kind = reply.headers["content-type"].partition(";")[0]
            assert (reply.status_code, kind) == (200, file["encodingFormat"])


# ---------------------------------------------------------------------------------- DCAT

US_REQUIRED = {
    *("@type", "title", "description", "keyword", "modified", "publisher", "contactPoint"),
    *("identifier", "accessLevel"),
}


def test_the_catalogue_for_us_offices_keeps_its_schema(
    office: TestClient, client: TestClient, catalogue: Catalogue
) -> None:
    found = office.get("/data.json").json()
    assert found["conformsTo"] == "https://project-open-data.cio.gov/v1.1/schema"
    assert found["@type"] == "dcat:Catalog" and len(found["dataset"]) == len(catalogue.data_sets)
    for data in found["dataset"]:
        assert data.keys() >= US_REQUIRED and data["@type"] == "dcat:Dataset"
        assert data["accessLevel"] == "public" and date(data["modified"])
        assert data["keyword"] and all(isinstance(word, str) and word for word in data["keyword"])
        assert data["publisher"] == {"@type": "org:Organization", "name": OFFICE.name}
        contact = data["contactPoint"]
        assert contact["@type"] == "vcard:Contact" and contact["fn"] == "Help desk"
        assert contact["hasEmail"] == "mailto:data@work.example.org"
        assert address(data["license"]) and address(data["landingPage"])
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\d/\d{4}-\d\d-\d\d", data.get("temporal", "2026-01-01/2026-12-31")
        )
        for file in data["distribution"]:
            assert file["@type"] == "dcat:Distribution" and file["mediaType"]
            assert address(file["downloadURL"])
    assert len({data["identifier"] for data in found["dataset"]}) == len(found["dataset"])
    refused = client.get("/data.json")  # of a site that names nobody
    assert refused.status_code == 400 and "site.toml" in refused.json()["error"]["message"]


def test_the_catalogue_for_european_portals_has_what_is_mandatory(
    office: TestClient, client: TestClient, catalogue: Catalogue
) -> None:
    for who in (office, client):
        reply = who.get("/catalogue.jsonld")
        assert reply.headers["content-type"] == "application/ld+json"
        found = reply.json()
        known = {*found["@context"], "@context", "@id", "@type"}
        assert {"dct:title", "dct:description", "dct:publisher", "dcat:dataset"} <= found.keys()
        assert all(name.partition(":")[0] in known for name in found)
        assert found["dct:publisher"]["@type"] == "foaf:Agent"
        assert found["dct:publisher"]["foaf:name"]
        assert len(found["dcat:dataset"]) == len(catalogue.data_sets)
        for data in found["dcat:dataset"]:
            assert data["@type"] == "dcat:Dataset"
            assert {"dct:title", "dct:description"} <= data.keys()
            assert all(name.partition(":")[0] in known for name in data)
            for file in data["dcat:distribution"]:
                assert file["@type"] == "dcat:Distribution" and address(
                    file["dcat:accessURL"]["@id"]
                )


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ("2026", ("2026-01-01", "2026-12-31")),
        ("2026-Q2", ("2026-04-01", "2026-06-30")),
        ("2024-02", ("2024-02-01", "2024-02-29")),
        ("1900-02", ("1900-02-01", "1900-02-28")),
        ("spring 2026", None),
        ("2026-13", None),
        ("", None),
    ],
)
def test_periods_that_are_times_become_days(period: str, days: tuple[str, str] | None) -> None:
    assert interval_of(period) == days


# ------------------------------------------------------------------------ files of statistics


def test_only_times_are_times_in_sdmx(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tables["people"]
    for period, there in (("Spring <2026>", False), ("2024-2025", False), ("2026-Q1", True)):
        monkeypatch.setitem(data.release.record, "period", period)
        made = as_sdmx(answer(data, Query(("sex",))), metadata(data, Query(("sex",)), (), HOME))
        assert (b"TIME_PERIOD" in made) == there == (b"2026-Q1" in made)


def test_sdmx_csv_has_the_columns_and_values_of_its_standard(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    query = "rows=sector&cols=ownership&show=margin"
    reply = client.get(f"/d/{name}.sdmx?{query}")
    assert reply.headers["content-type"] == "application/vnd.sdmx.data+csv;version=2.0.0"
    assert reply.headers["content-disposition"].endswith('.sdmx.csv"')
    rows = list(csv.DictReader(io.StringIO(reply.text, newline="")))
    head = list(rows[0])
    assert head[:5] == ["STRUCTURE", "STRUCTURE_ID", "ACTION", "SECTOR", "OWNERSHIP"]
    assert all(re.fullmatch("[A-Z][A-Z0-9_]*", column) for column in head)
    cells = client.get(f"/d/{name}.json?{query}").json()["cells"]
    for row, cell in zip(rows, cells, strict=True):
        assert row["STRUCTURE"] == "dataflow" and row["ACTION"] == "I"
        assert re.fullmatch(r"[A-Z_]\w*:[A-Z]\w*\(1\.0\)", row["STRUCTURE_ID"])
        assert (row["SECTOR"], row["OWNERSHIP"]) == (cell["sector"], cell["ownership"])
        assert int(row["OBS_VALUE"]) == cell["estimate"]
        assert (int(row["CONF_LOWER"]), int(row["CONF_UPPER"])) == (cell["low"], cell["high"])
        assert row["OBS_STATUS"] == ("U" if "unreliable" in cell["flags"] else "A")


@pytest.mark.parametrize("form", ["", "?show=margin&rows={}", "?rows={}&show=margin"])
def test_a_csv_file_leads_to_metadata_that_fit_it(
    client: TestClient, catalogue: Catalogue, form: str
) -> None:
    """They are of the address that was asked for, however it is written."""
    for data in catalogue.data_sets:
        query = form.format(data.variables[0].name)
        file = client.get(f"/d/{data.name}.csv{query}")
        link = re.search(
            r'<([^>]*)>; rel="describedby"; type="application/csvm\+json"', file.headers["link"]
        )
        assert link
        reply = client.get(link[1])
        assert reply.headers["content-type"] == "application/csvm+json"
        found = reply.json()
        assert found["@context"][0] == "http://www.w3.org/ns/csvw" and found["@type"] == "Table"
        assert found["url"] == f"{HOME}/d/{data.name}.csv{query}"
        assert client.get(found["url"]).content == file.content
        columns = found["tableSchema"]["columns"]
        rows = list(csv.reader(io.StringIO(file.content.decode("utf-8-sig"), newline="")))
        assert [column["titles"] for column in columns] == rows[0]
        names = [column["name"] for column in columns]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9_]*", name) for name in names)
        key = [names.index(name) for name in found["tableSchema"]["primaryKey"]]
        assert len({tuple(row[i] for i in key) for row in rows[1:]}) == len(rows) - 1
        readers = {"integer": int, "number": float, "decimal": float, "string": str}
        for row in rows[1:]:
            for column, value in zip(columns, row, strict=True):
                assert value or not column.get("required")
                if value:
                    readers[column["datatype"]](value)


def test_json_stat_says_which_dimensions_are_areas(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    found = client.get(
        f"/d/{tables['people'].name}.jsonstat?rows=county&cols=sex&show=margin"
    ).json()
    assert found["role"] == {"metric": ["figure"], "geo": ["county"]}
    none = client.get(f"/d/{tables['people'].name}.jsonstat?rows=sex&show=margin").json()
    assert none["role"] == {"metric": ["figure"]}


def test_json_stat_says_which_dimension_is_the_time(
    tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tables["people"]
    query = query_of(data, "rows=county&cols=sex&show=margin")
    without = jsonstat(data, query)
    monkeypatch.setitem(data.release.record, "period", "spring of 2026")
    assert jsonstat(data, query)["role"] == {"metric": ["figure"], "geo": ["county"]}
    monkeypatch.setitem(data.release.record, "period", "2026-Q2")
    found = jsonstat(data, query)
    assert found["role"] == {"metric": ["figure"], "geo": ["county"], "time": ["time"]}
    assert found["id"] == ["county", "sex", "time", "figure"] and found["size"][2] == 1
    assert found["dimension"]["time"]["category"]["index"] == ["2026-Q2"]
    assert (found["value"], found["status"]) == (without["value"], without["status"])


@pytest.mark.parametrize(
    ("name", "codes", "time"),
    [
        ("year", ("2019", "2020"), ["year"]),
        ("hired_quarter", ("2019Q1", "2020-Q4", "2020-12"), ["hired_quarter"]),
        ("year", ("2019", "before"), []),
        ("sector", ("2111", "2112"), []),
    ],
)
def test_a_variable_of_years_is_a_time(name: str, codes: tuple[str, ...], time: list[str]) -> None:
    axis = Axis(name, name, codes, codes)
    assert [axis.name] * _is_time(axis) == time


def jsonstat(data: DataSet, query: Query) -> Any:
    about = metadata(data, query, (), "http://host")
    return json.loads(EXPORTS["jsonstat"][1](answer(data, query), about))
