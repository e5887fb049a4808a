"""Every link and every form of every page leads somewhere, whatever kind of data is served."""

from __future__ import annotations

import re
from collections import Counter, deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

import eree
import eree_study
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from served import TABLES

pytestmark = pytest.mark.xdist_group("crawl")  # what is served is made once

HOME = "http://testserver"
VIEWS = ("", "/chart", "/ranking", "/threshold", "/about", "/build")
FILES = (".json", ".csv", ".xlsx", ".parquet", ".jsonstat")


@pytest.fixture(scope="module")
def every_kind(releases: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Tables of workplaces and of workers, in two stages, with no variable; all sorts of cubes."""
    home = tmp_path_factory.mktemp("kinds")
    data = eree.load(releases[0].parent / "data")
    plan = eree.Plan.of(
        {
            "data": str(data.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "13"},
            "table": [
                {"name": "all", "by": [], "epsilon": "2"},
                *(table for table in TABLES if table["name"] in ("people", "bent")),
                {"name": "tracts.2", "by": ["state", "county", "tract"], "epsilon": "2"},
                {
                    "name": "staged",
                    "by": ["county", "sex", "education"],
                    "epsilon": "4",
                    "mechanism": "two-stage-clip",
                },
            ],
        }
    )
    ledger = eree.Ledger.create(
        home / "tables.db", eree.Guarantee(eree.Strong("0.1"), 13), data_set="data"
    )
    eree.publish(plan, data, ledger=ledger, out=home / "tables")
    survey = eree.read_survey(releases[0].parent / "survey")
    ledger = eree.Ledger.create(
        home / "survey.db", eree.Guarantee(eree.RECORD, 20, "0.01"), data_set="data"
    )
    eree.protect_cube(
        eree.build_cube(survey),
        epsilon=7,
        mode="as-published",
        cap=1,
        keep_empty="1/10",
        ledger=ledger,
        out=home / "published",
    )
    survey = eree.read_survey(eree_study.synthesize_survey(home / "survey", establishments=300))
    names = [variable.name for variable in survey.shape.variables]
    cube = eree.build_cube(survey, variables=names[:3], most_weight="3000")
    eree.protect_cube(
        cube,
        epsilon=2,
        calibration="rake-nonnegative",
        squares="none",
        ledger=ledger,
        out=home / "raked",
    )
    return Catalogue.open([releases[1], home / "tables", home / "published", home / "raked"])


class Page(HTMLParser):
    """The links of a page, its marks, and what its forms send when nothing is changed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.marks: set[str] = set()
        self.forms: list[tuple[str, list[tuple[str, str]]]] = []
        self.buttons: list[tuple[int, tuple[str, str]]] = []
        self.lists: set[str] = set()  # forms that take a list, and are empty as they are
        self._select: str | None = None
        self._area: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        links = (given[name] for name in ("href", "src") if name in given)
        self.links += [link.removeprefix(HOME) for link in links]
        if "id" in given:
            self.marks.add(given["id"])
        if tag == "form":
            self.forms.append((given["action"], []))
            self.lists |= {given["action"]} if given.get("method") == "post" else set()
        if not self.forms:
            return
        fields = self.forms[-1][1]
        if tag == "input" and "name" in given:
            ticked = given.get("type") not in ("radio", "checkbox") or "checked" in given
            fields += [(given["name"], given.get("value", ""))] if ticked else []
        elif tag == "button" and "name" in given:
            self.buttons.append((len(self.forms) - 1, (given["name"], given.get("value", ""))))
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and "selected" in given:
            fields.append((self._select, given["value"]))
        elif tag == "textarea":
            self._area = given.get("name")

    def handle_data(self, data: str) -> None:
        if self._area and self.forms:
            self.forms[-1][1].append((self._area, data))

    def sent(self) -> list[str]:
        """What a browser asks for when a form is sent as it is, by each of its buttons."""
        found = [f"{a}?{urlencode(fields)}" for a, fields in self.forms if a not in self.lists]
        for number, button in self.buttons:
            action, fields = self.forms[number]
            found.append(f"{action}?{urlencode([*fields, button])}")
        return found

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None


def test_every_link_and_every_form_of_every_page_leads_somewhere(every_kind: Catalogue) -> None:
    crawl(every_kind, 1)


def crawl(every_kind: Catalogue, most_alike: int) -> None:
    """Follow all links and forms; of addresses that differ in their values alone, so many."""
    app = application(every_kind, HOME)
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        met = followed(client, most_alike)
    paths = {address.partition("?")[0] for address in met}
    for data in every_kind.data_sets:
        assert {f"/d/{data.name}{end}" for end in (*VIEWS, *FILES)} <= paths, data.name
        long = [v for v in data.variables if len(v.codes) > 24]
        assert all(f"/d/{data.name}/codes/{v.name}" in paths for v in long[:1])


def followed(client: TestClient, most_alike: int) -> set[str]:
    """All addresses that were found, each of which was answered."""
    left, met, alike = deque(["/"]), {"/"}, Counter[str]()
    broken: list[tuple[str, str, int]] = []

    def follow(address: str) -> None:
        kind = re.sub(r"=[^&]*", "", address)
        if address not in met and alike[kind] < most_alike:
            alike[kind] += 1
            met.add(address)
            left.append(address)

    while left:
        address = left.popleft()
        reply = client.get(address)
        if reply.status_code == 303:
            follow(reply.headers["location"])
        elif reply.status_code != 200:
            broken.append((address, reply.text, reply.status_code))
        if not reply.headers["content-type"].startswith("text/html"):
            continue
        page = Page(reply.text)
        for link in page.links:
            where, _, mark = link.partition("#")
            if where:
                assert where.startswith("/") and not where.startswith("//"), (address, link)
                follow(where)
            else:
                assert mark in page.marks, (address, link)
        for address in page.sent():
            follow(address)
    assert broken == []
    return met


def test_cubes_say_what_raking_did(every_kind: Catalogue) -> None:
    for data in every_kind.data_sets:
        if isinstance(data, CubeSet):
            method = str(data.cube.calibration["method"])
            assert ("set to 0 before raking" in data.bias) == (method == "rake-nonnegative")
            assert bool(data.bias) == method.startswith("rake")


def test_the_catalogue_has_one_of_each_kind(every_kind: Catalogue) -> None:
    cubes = [data.cube for data in every_kind.data_sets if isinstance(data, CubeSet)]
    assert {cube.mode for cube in cubes} == {"guaranteed", "as-published"}
    assert len({str(cube.calibration["method"]) for cube in cubes}) == 3
    tables = [data for data in every_kind.data_sets if isinstance(data, LinkedTable)]
    mechanisms = {str(data.release.about(data.table)["mechanism"]) for data in tables}
    assert "two-stage-clip" in mechanisms and len(mechanisms) >= 4
    assert not all(data.variables for data in tables)
    levels = {level for data in every_kind.data_sets for v in data.variables for level in v.levels}
    assert {"major", "county"} <= levels
