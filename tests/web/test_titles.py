"""Two years served together: every page and every file says which it is about."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator

import pyarrow.parquet as parquet
import pytest
from starlette.testclient import TestClient

import eree
from declared import book, town
from eree.web.app import application
from eree.web.catalogue import Catalogue
from offices import privacy, settings, table
from served import HOME

YEARS = ("2025", "2026")
ABOUT = {
    "title": "Jobs of the town",
    "publisher": "Office of <Job> Statistics",
    "contact": "jobs@example.org",
    "licence": "https://example.org/licence",
}
TABLE = table(name="counties", by=["county"], title="Jobs by county", note="Counties of July.")


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    home = tmp_path_factory.mktemp("years")
    ledger, data = book(home, eree.EDGE), town().write(home / "data")
    edge = privacy(neighbours="edge", alpha=None)
    for year in YEARS:
        plan = eree.Plan.of(settings(data, privacy=edge, table=[TABLE], about=ABOUT, period=year))
        eree.publish(plan, eree.load(data), ledger=ledger, out=home / year)
    return Catalogue.open([home / year for year in YEARS])


@pytest.fixture(scope="module")
def client(years: Catalogue) -> Iterator[TestClient]:
    with TestClient(application(years, HOME), base_url=HOME) as found:
        yield found


def test_pages_of_two_years_differ_by_title_and_heading(
    client: TestClient, years: Catalogue
) -> None:
    for path in ("", "/chart", "/ranking", "/threshold", "/about", "/codes/county"):
        pages = [client.get(f"/d/{data.name}{path}").text for data in years.data_sets]
        for year, page in zip(YEARS, pages, strict=True):
            (title,) = re.findall("<title>(.*?)</title>", page)
            head = page[page.index('<div class="head">') :]
            assert f"Jobs by county, {year}" in title, path
            assert f"Jobs by county, {year}" in head[: head.index("</h1>") + 200], path
    for path in ("/", "/methods", "/api"):
        page = client.get(path).text
        assert all(f"Jobs by county, {year}" in page for year in YEARS), path
    assert "Jobs of the town" in client.get("/").text
    assert "Counties of July." in client.get(f"/d/{years.data_sets[0].name}").text


def test_about_says_who_publishes_and_how_to_ask(client: TestClient, years: Catalogue) -> None:
    page = client.get(f"/d/{years.data_sets[0].name}/about").text
    assert "Office of &lt;Job&gt; Statistics" in page and "<Job>" not in page
    assert '<a href="mailto:jobs@example.org">jobs@example.org</a>' in page
    assert re.search('<a href="https://example.org/licence"[^>]*>https://example.org/lic', page)
    listed = client.get("/index.json").json()["data_sets"]
    assert [one["about"] for one in listed] == [ABOUT, ABOUT]
    assert [one["note"] for one in listed] == ["Counties of July."] * 2


def test_files_and_citations_say_it(client: TestClient, years: Catalogue) -> None:
    for year, data in zip(YEARS, years.data_sets, strict=True):
        found = client.get(f"/d/{data.name}.json?show=margin").json()["metadata"]
        assert (found["period"], found["about"], found["note"]) == (year, ABOUT, TABLE["note"])
        assert found["citation"].startswith(
            f"Office of <Job> Statistics. Jobs of the town: Jobs by county, {year}. Release "
        )
        table = client.get(f"/d/{data.name}.parquet?show=margin")
        assert year in table.headers["content-disposition"]
        kept = parquet.read_schema(io.BytesIO(table.content)).metadata[b"eree"]
        assert json.loads(kept) == found
        book = zipfile.ZipFile(io.BytesIO(client.get(f"/d/{data.name}.xlsx?show=margin").content))
        words = book.read("xl/sharedStrings.xml").decode()
        for text in ("Office of &lt;Job&gt; Statistics", "Counties of July.", year, "Licence"):
            assert text in words
        stat = client.get(f"/d/{data.name}.jsonstat?show=margin").json()
        assert stat["extension"]["eree"] == found
