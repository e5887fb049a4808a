"""Tables of one figure, of nobody, of cells with noise of their own; areas that share a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from math import isinf
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from starlette.testclient import TestClient

import eree
from browsing import opened, running
from declared import book, town
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.export import file_name
from eree.web.linked import LinkedTable
from eree.web.query import Query
from offices import privacy, settings, table
from served import HOME

EDGE = privacy(neighbours="edge", alpha=None)
TITLED = {"title": "Jobs of the town", "contact": "https://example.org/ask", "note": "Provisional"}
TABLES = [
    table(name="one", by=[]),
    table(name="workers", by=["county", "sex", "grade"]),
    table(name="nobody", by=["sector", "sex"], where={"county": ["171"], "sector": ["44-45"]}),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A release with a title, and one without, served after it."""
    home = tmp_path_factory.mktemp("sparse")
    ledger, data = book(home, eree.EDGE), town().write(home / "data")
    for name, about in (("titled", TITLED), ("plain", {})):
        plan = eree.Plan.of(settings(data, privacy=EDGE, table=TABLES, about=about, period="2025"))
        eree.publish(plan, eree.load(data), ledger=ledger, out=home / name)
    return [home / "titled", home / "plain"]


@pytest.fixture(scope="module")
def sparse(folders: list[Path]) -> Catalogue:
    names = {"county": dict.fromkeys(("171", "181"), "Washington"), "sector": {"11": "Farms"}}
    return Catalogue.open(folders, names=names)


@pytest.fixture(scope="module")
def data(sparse: Catalogue) -> dict[str, LinkedTable]:
    made = [one for one in sparse.data_sets if isinstance(one, LinkedTable) and not one.heading]
    return {one.table: one for one in made}


@pytest.fixture(scope="module")
def client(sparse: Catalogue) -> Iterator[TestClient]:
    with TestClient(application(sparse, HOME), base_url=HOME) as found:
        yield found


@pytest.mark.parametrize("by", [(), ("county",), ("sex",), ("county", "grade")])
def test_cells_with_noise_of_their_own_are_added_up_as_in_the_library(
    by: tuple[str, ...], data: dict[str, LinkedTable]
) -> None:
    found = data["workers"].figures(Query(by).asked())
    want = eree.area_totals(data["workers"].release, "workers", [*by]).rows
    assert found.values.tolist() == want["noisy"].to_pylist()
    assert found.low.tolist() == want["low"].to_pylist()
    high = [None if isinf(one) else int(one) for one in found.high]
    assert high == want["high"].to_pylist()


def test_a_table_of_nobody_is_served(client: TestClient, data: dict[str, LinkedTable]) -> None:
    address = f"/d/{data['nobody'].name}"
    assert "exactly 0 jobs" in client.get(address).text
    assert client.get(f"{address}.json").json()["totals"]["all"]["estimate"] == 0


@pytest.mark.parametrize("neighbours", ["strong", "weak"])
def test_tables_of_nobody_whose_noise_goes_by_sizes_are_served(
    neighbours: str, tmp_path: Path
) -> None:
    where = {"county": ["171"], "sector": ["44-45"]}
    types = ["sex"] if neighbours == "weak" else []
    total = eree.Strong("0.1") if neighbours == "strong" else eree.Weak("0.1", types)
    ledger, folder = book(tmp_path, total), town().write(tmp_path / "data")
    given = {"neighbours": neighbours, **({"types": types} if types else {})}
    wanted = [table(name="jobs", by=["sector"], where=where)]
    wanted += [table(name="people", by=["sector", "sex"], where=where)]
    plan = eree.Plan.of(settings(folder, privacy=privacy(**given), table=wanted))
    release = eree.publish(plan, eree.load(folder), ledger=ledger, out=tmp_path / "out")
    assert not release.table("jobs").num_rows and not release.table("people").num_rows
    for one in Catalogue.open([release.folder]).data_sets:
        assert one.figures(Query().asked()).values.tolist() == [0]


def test_areas_that_share_a_name_are_told_apart_where_no_code_stands(
    client: TestClient, data: dict[str, LinkedTable]
) -> None:
    workers, both = f"/d/{data['workers'].name}", ["Washington (171)", "Washington (181)"]

    def names(path: str) -> list[str]:
        return re.findall(r"Washington[^<\"&,:]*(?=[<\"&,:])", client.get(workers + path).text)

    for path in (
        "/chart?rows=county",
        "/chart.svg?rows=county",
        "/chart?rows=sex&cols=county&as=panels",
        "/chart?rows=county&cols=sex&as=heat",
        "?rows=sex&cols=county",
        "/ranking?rows=county&one=Washington+(171)&two=172",
    ):
        assert {*both} <= {*names(path)}, path
    assert "(171)" not in client.get(f"{workers}?rows=county").text  # the code is beside it
    assert (
        "matches no area here, or more than one"
        in client.get(f"{workers}/ranking?rows=county&one=Washington&two=172").text
    )
    decided = client.get(
        f"{workers}/threshold.json", params={"rows": "county", "damage": "Washington (181) 9"}
    )
    assert [area["county"] for area in decided.json()["areas"]] == ["181"]


class Headings(HTMLParser):
    """Headings of a page, in their order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open = tag if re.fullmatch("h[1-6]", tag) else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found.append((self._open, data))

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open


def test_releases_without_a_title_stand_under_no_other(client: TestClient) -> None:
    page = client.get("/").text
    found = Headings(page).found
    titled = found.index(("h2", "Jobs of the town, 2025"))
    assert {tag for tag, _ in found[1:titled]} == {"h2"} and len(found[1:titled]) == 3
    assert {tag for tag, _ in found[titled + 1 :]} == {"h3"}
    assert "A released table of 1 cell: all jobs." in page
    assert "<dd></dd>" not in page


def test_what_is_refused_leads_to_the_data_set_that_was_asked_for(
    client: TestClient, sparse: Catalogue, data: dict[str, LinkedTable]
) -> None:
    one = data["one"].name
    for path in (f"/d/{one}?rows=sex", f"/d/{one}/map"):
        page = client.get(path).text
        listed = {known.name for known in sparse.data_sets if f'/d/{known.name}"' in page}
        assert listed == {one}, path
    assert "in this data set; it has none." in client.get(f"/d/{one}?rows=sex").text
    assert "/d/" not in client.get("/nothing").text


def test_one_figure_is_shown_by_the_script_as_without_it(
    browser: Browser, folders: list[Path], data: dict[str, LinkedTable]
) -> None:
    with running(folders, []) as tool:
        page, errors = opened(browser).new_page(), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{tool.address}/d/{data['one'].name}")
        assert page.locator(".variables").count() == 0
        page.locator('[data-fold=" figures"] summary, #builder details summary').first.click()
        page.locator("#f-confidence").select_option("0.99")
        page.wait_for_url("**confidence=0.99**")
        assert "99%" in page.locator("caption").inner_text()
        assert errors == []
        page.context.close()


def test_machines_hear_whole_sentences_and_whom_to_ask(
    client: TestClient, sparse: Catalogue
) -> None:
    titled = next(data.name for data in sparse.data_sets if data.heading)
    page = client.get(f"/d/{titled}").text
    assert 'edge neighbours. Jobs of the town. Provisional.">' in page
    refused = client.get("/data.json").json()["error"]["message"]
    assert f"and {sparse.data_sets[0].title} has none; say them" in refused
    office = Branding(name="Office", contact="Desk <desk@example.org>")
    asked = TestClient(application(sparse, HOME, branding=office), base_url=HOME)
    for data in asked.get("/data.json").json()["dataset"]:  # a page to ask on is no e-mail address
        assert data["contactPoint"]["hasEmail"] == "mailto:desk@example.org"
        assert data["contactPoint"]["fn"] == "Desk"


def test_files_of_other_filters_have_other_names(data: dict[str, LinkedTable]) -> None:
    """Letters that a file's name cannot have are not all that tells two of them apart."""
    workers, names = data["workers"], set[str]()
    codes = ("São João", "Sao Joao", "日本橋", "渋谷", "a,b", "a b")
    for code in codes:
        query = Query(("sex",), where={"county": (code,)})
        names.add(file_name(workers, query, "csv"))
    assert len(names) == len(codes)
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+", name) for name in names)
    assert any("county-Sao-Joao-" in name for name in names)
