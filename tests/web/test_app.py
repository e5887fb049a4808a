"""Pages, files and refusals, as a browser and an attacker get them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.web.app import Front, application
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.dataset import Variable
from eree.web.desk import Limits
from eree.web.linked import LinkedTable
from eree.web.notes import by_period, notes
from eree.web.query import Query
from eree.web.render.maps import maps_of
from eree.web.site import Site
from processes import PATIENCE

PAGES = ("", "/chart", "/ranking", "/threshold", "/about")
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Checked(HTMLParser):
    """A page whose tags are closed in order, without a line of script or style in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not any(name == "style" or name.startswith("on") for name in given), given
        data = given.get("type") == "application/ld+json"  # which no browser runs
        assert tag != "style" and (tag != "script" or data or given["src"])
        if "id" in given:
            assert given["id"] not in self.ids
            self.ids.append(str(given["id"]))
        self.links += [str(given[name]) for name in ("href", "src", "action") if name in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def addresses(catalogue: Catalogue) -> list[str]:
    found = ["/", "/api", "/methods"]
    for data in catalogue.data_sets:
        found += [f"/d/{data.name}{page}" for page in PAGES]
        found += [f"/d/{data.name}/codes/{data.variables[0].name}"]
        if maps_of(data, catalogue.maps):
            found.append(f"/d/{data.name}/map")
    found += nested(catalogue)
    return found


def nested(catalogue: Catalogue) -> list[str]:
    """Tables and heat maps with several variables on a side, and subtotals."""
    found = []
    for data in catalogue.data_sets:
        one, two, three, *_ = [v.name for v in data.variables if len(v.codes) <= 40] + [""] * 3
        if three:
            sides = f"rows={one}&rows={two}&cols={three}&subtotals=yes&show=margin"
            swapped = f"rows={one}&cols={two}&cols={three}&subtotals=yes&sort=-jobs&show=margin"
            found += [
                f"/d/{data.name}{page}?{s}" for page in ("", "/chart") for s in (sides, swapped)
            ]
    return found


def test_every_page_is_whole_and_every_link_on_it_leads_somewhere(
    client: TestClient, catalogue: Catalogue
) -> None:
    seen: set[str] = set()
    for address in addresses(catalogue):
        reply = client.get(address)
        assert reply.status_code == 200, address
        seen.update(Checked(reply.text).links)
    for link in sorted(one.removeprefix("http://testserver") for one in seen):
        assert link.startswith(("/", "#")) and not link.startswith("//"), link
        if link.startswith("/") and not link.endswith("/build"):
            sent = "/lists/" in link  # where a form is sent, with POST
            assert client.get(link).status_code == (405 if sent else 200), link


def test_every_answer_has_the_headers_that_keep_browsers_safe(
    client: TestClient, catalogue: Catalogue
) -> None:
    name = catalogue.data_sets[0].name
    for address in (
        "/",
        "/nothing",
        f"/d/{name}.csv",
        "/static/style.css",
        "/d/x?%ff",
        "/a" * 5000,
    ):
        reply = client.get(address)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert "server" not in reply.headers


def test_the_same_address_gives_json_to_those_who_ask_for_it(
    client: TestClient, catalogue: Catalogue
) -> None:
    for data in catalogue.data_sets:
        for page in ("", "/ranking", "/about"):
            by_name = client.get(f"/d/{data.name}{page}.json")
            by_header = client.get(f"/d/{data.name}{page}", headers={"accept": "application/json"})
            assert by_name.headers["content-type"] == "application/json"
            assert by_name.json() == by_header.json()
    listed = client.get("/index.json").json()["data_sets"]
    assert [entry["name"] for entry in listed] == [data.name for data in catalogue.data_sets]


def numbers_of(text: str) -> list[list[float]]:
    """The estimates of the table on a page, row by row, the total last."""
    plainer = re.sub(r'<span class="flag[^>]*>.</span><span class="sr">[^<]*</span>', "", text)
    rows = re.findall(r"<tr>(.*?)</tr>", plainer.partition("</table>")[0], re.DOTALL)
    found = []
    for row in rows:
        shown = re.findall(r'class="(?:estimate|none)">(.*?)</span>(?:<span|</td>)', row, re.DOTALL)
        plain = [re.sub(r"<[^>]+>", "", one).strip() for one in shown]
        if plain:
            found.append([float(n.replace(",", "").replace("−", "-")) for n in plain])
    return found


def test_what_the_page_shows_adds_up(client: TestClient, catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        small = [v.name for v in data.variables if len(v.codes) <= 40][:2]
        if len(small) < 2:
            continue
        reply = client.get(f"/d/{data.name}?rows={small[0]}&cols={small[1]}&exact=yes")
        *rows, totals = numbers_of(reply.text)
        for row in (*rows, totals):
            assert round(sum(row[:-1]), 3) == row[-1]
        for column, total in zip(zip(*rows, strict=True), totals, strict=True):
            assert round(sum(column), 3) == total


def test_pages_round_and_say_how_to_see_every_digit(
    client: TestClient, catalogue: Catalogue
) -> None:
    for data in catalogue.data_sets:
        rows = next(v.name for v in data.variables if len(v.codes) <= 40)
        for page in ("", "/chart", "/ranking"):
            address = f"/d/{data.name}{page}?rows={rows}"
            rounded = client.get(f"{address}&show=margin").text
            assert "rounded to what their errors support" in rounded
            exact = client.get(f"{address}&exact=yes&show=margin").text
            assert f'href="{address}&amp;exact=yes&amp;show=margin"' in rounded
            assert f'href="{address}&amp;show=margin"' in exact and "Round them" in exact
        shown = client.get(f"/d/{data.name}.json?rows={rows}").json()
        again = client.get(f"/d/{data.name}.json?rows={rows}&exact=yes").json()
        assert shown["cells"] == again["cells"]


def test_a_form_leads_to_an_address(client: TestClient, catalogue: Catalogue) -> None:
    name = catalogue.data_sets[0].name
    sent = f"/d/{name}/build?tab=&at.place=&at.sector=rows&at.ownership=cols&show=interval"
    reply = client.get(sent)
    assert reply.status_code == 303
    assert reply.headers["location"] == f"/d/{name}?rows=sector&cols=ownership&show=interval"
    assert client.get(reply.headers["location"]).status_code == 200
    picker = client.get(f"{sent}&choose=place").headers["location"]
    assert picker.startswith(f"/d/{name}/codes/place?rows=sector")
    assert client.get(picker).status_code == 200


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/nothing", 404),
        ("/d/nothing", 404),
        ("/d/nothing.json", 404),
        ("/d/{name}.exe", 404),
        ("/d/{name}/codes/nothing", 404),
        ("/static/nothing.css", 404),
        ("/static/..%2f..%2fpages.py", 404),
        ("/static/../pages.py", 404),
        ("/d/..%2f..%2f..%2fetc%2fpasswd", 404),
        ("/d/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/%00", 404),
        ("/?x=1", 400),
        ("/d/{name}?rows=nothing", 400),
        ("/d/{name}?page=100000", 400),
        ("/d/{name}?rows=%0d%0aset-cookie:%20a=b", 400),
        ("/d/{name}/build?at.place=rows&show=%0d%0alocation:%20http://evil", 400),
        ("/d/{name}/build?evil=1", 400),
        ("/d/{name}?where.place=<script>alert(1)</script>", 400),
        ("/d/{name}/threshold?rows=place&per_job=1&per_job=1", 400),
        ("/d/{name}/codes/place?find=" + "a" * 201, 400),
        ("/d/{name}/codes/place?find=" + "a+" * 13, 400),
        ("/d/{name}?" + "x" * 9_000, 414),
        ("/" + "x" * 9_000, 414),
    ],
)
def test_bad_addresses_get_a_clear_page_and_the_right_status(
    address: str, status: int, client: TestClient, catalogue: Catalogue, releases: list[Path]
) -> None:
    given = address.format(name=catalogue.data_sets[0].name)
    for accept in ("text/html", "application/json"):
        reply = client.get(given, headers={"accept": accept})
        assert reply.status_code == status
        assert "set-cookie" not in reply.headers
        for secret in ("Traceback", "site-packages", str(releases[0].parent), "eree/web"):
            assert secret not in reply.text
        if accept == "text/html" and not given.partition("?")[0].endswith(".json"):
            Checked(reply.text)
            assert "<script>alert" not in reply.text
            assert "the list of data sets" in reply.text
        else:
            error = reply.json()["error"]
            assert error["status"] == status and error["message"]


def test_an_answer_that_is_too_large_is_refused(
    client: TestClient, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.answer.MOST_CELLS", 3)
    reply = client.get(f"/d/{catalogue.data_sets[0].name}?rows=sector&confidence=0.8")
    assert reply.status_code == 413 and "take off a variable" in reply.text


def test_pages_are_only_read(client: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        reply = client.request(method, "/")
        assert reply.status_code == 405 and "GET" in reply.headers["allow"]
    plain = {"accept-encoding": "identity"}
    head = client.head("/", headers=plain)
    assert head.status_code == 200 and not head.content
    assert int(head.headers["content-length"]) == len(client.get("/").content)


def test_a_browser_that_has_an_answer_is_not_sent_it_again(client: TestClient) -> None:
    first = client.get("/", headers={"accept-encoding": "identity"})
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content
    packed = client.get("/", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == first.text


def test_the_first_page_is_light(client: TestClient) -> None:
    page = client.get("/", headers={"accept-encoding": "identity"})
    files = [link for link in Checked(page.text).links if link.startswith("/static")]
    sizes = [len(client.get(f, headers={"accept-encoding": "identity"}).content) for f in files]
    assert len(files) >= 3 and len(page.content) + sum(sizes) < 200_000


@settings(max_examples=50)
@given(st.data())
def test_no_address_is_answered_with_an_error_of_ours(
    client: TestClient, catalogue: Catalogue, data: st.DataObject
) -> None:
    from urllib.parse import quote

    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    names = [v.name for v in chosen.variables]
    words = st.one_of(
        st.sampled_from([*names, "rows", "cols", "show", "margin", "page", "1", "0.9", "", "jobs"]),
        st.sampled_from([code for v in chosen.variables for code in v.codes[:3]]),
        st.text(max_size=8),
    )
    keys = st.one_of(words, words.map(lambda w: f"where.{w}"), words.map(lambda w: f"group.{w}"))
    pairs = data.draw(st.lists(st.tuples(keys, words), max_size=6))
    text = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs)
    page = data.draw(
        st.sampled_from([*PAGES, ".json", ".csv", ".jsonstat", "/build", "/ranking.json"])
    )
    reply = client.get(f"/d/{chosen.name}{page}?{text}")
    assert reply.status_code in (200, 303, 400, 413), reply.text


def test_a_fault_of_ours_says_nothing_about_us(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_given: object) -> None:
        raise ZeroDivisionError("/secret/path")

    monkeypatch.setattr(Site, "chart", broken)
    client = TestClient(application(catalogue, "http://home"))
    reply = client.get(f"/d/{catalogue.data_sets[0].name}/chart")
    assert reply.status_code == 500
    assert "secret" not in reply.text and "ZeroDivision" not in reply.text
    assert "could not be answered" in caplog.text


def test_too_many_questions_at_once_are_reported_to_come_again(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, let_go = catalogue.data_sets[0].name, threading.Event()
    calls: list[str] = []
    answer = Site.chart

    def slow(site: Site, data: str, query: str) -> object:
        calls.append(query)
        let_go.wait(PATIENCE)
        return answer(site, data, query)

    monkeypatch.setattr(Site, "chart", slow)
    app = application(catalogue, "http://home", Limits(at_work=1, waiting=2, seconds=PATIENCE))
    assert isinstance(app, Front)

    async def ask() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://home") as client:
            pages = [
                f"/d/{name}/chart?rows=sector&confidence={c}&show=margin"
                for c in ("0.8", "0.95", "0.99")
            ]
            tasks = [asyncio.create_task(client.get(page)) for page in pages]
            try:
                async with asyncio.timeout(PATIENCE):
                    while len(app.desk) < 3:
                        await asyncio.sleep(0.01)
                refused = await client.get(f"/d/{name}/chart?rows=place&show=margin")
                still = await client.get("/openapi.json")  # needs no data, so it need not wait
            finally:
                let_go.set()
            return [refused, still, *(await asyncio.gather(*tasks))]

    refused, still, *others = asyncio.run(ask())
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    assert still.status_code == 200
    assert [reply.status_code for reply in others] == [200] * 3
    assert len(calls) == 3


def test_a_question_that_takes_too_long_is_given_up(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(Site, "chart", lambda *_: let_go.wait(PATIENCE))
    app = application(catalogue, "http://home", Limits(seconds=0.1))

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://home") as client:
            try:
                return await client.get(f"/d/{catalogue.data_sets[0].name}/chart")
            finally:
                let_go.set()

    assert asyncio.run(ask()).status_code == 503


def test_tables_that_were_noised_apart_say_so(client: TestClient, catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        apart = data.kind == "table"  # the cube counts something else
        assert ("need not agree" in client.get(f"/d/{data.name}").text) == apart
        notes = client.get(f"/d/{data.name}.json").json()["metadata"]["notes"]
        assert any("need not agree" in note for note in notes) == apart


def test_noise_of_another_period_is_not_the_only_difference(
    tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = tables["jobs"], copy(tables["jobs"]), copy(tables["jobs"])
    for data, period in ((one, "2025"), (two, "2026"), (three, "")):
        record = {**data.release.record, "period": period}
        monkeypatch.setattr(data, "release", replace(data.release, record=record))
    assert by_period(one, (two, three)) == ((three,), (two,))
    assert by_period(three, (one, two)) == ((one, two), ())
    query = Query(("place",))
    found = " ".join(notes(one, query, (two,)))
    assert "of other periods" in found and "need not agree" not in found
    assert "of other periods" not in " ".join(notes(one, query, (three,)))


def test_variables_that_share_a_name_alone_are_told_apart(
    catalogue: Catalogue, cube: CubeSet, tables: dict[str, LinkedTable]
) -> None:
    people = tables["people"]
    assert {v.name for v in cube.variables} & {v.name for v in people.variables} == {"education"}
    assert cube not in catalogue.noised_apart(people) and not catalogue.noised_apart(cube)
    known = people.variable("education")
    for codes, label, alike in (
        (known.codes, known.label, True),
        (known.codes[:3], known.label.upper(), True),
        (known.codes, "Another", False),
        (("no-diploma", "x", "y", "z"), known.label, False),
    ):
        other = copy(cube)
        other.variables = (Variable("education", label, codes, codes),)
        apart = Catalogue((people, other)).noised_apart(people)
        assert (apart == (other,)) == alike


def test_the_digest_of_a_distribution_is_in_the_record_and_on_no_page(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    digest = str(data.release.about("jobs")["parameters"]["levels"])
    text = client.get(f"/d/{data.name}/about").text
    assert "the record has a digest of them" in text and digest not in text
    assert digest in client.get(f"/d/{data.name}/about.json").text


def test_a_page_has_no_control_that_does_nothing_on_it(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    query = "rows=place&rows=sector&sort=-jobs&subtotals=yes&show=interval"
    works = {
        "": {
            "f-share",
            "f-show",
            "f-confidence",
            "f-sort",
            "f-measure",
            "subtotals",
            "swap",
            "exact",
        },
        "/chart": {"f-share", "f-confidence", "f-sort", "f-measure", "swap", "exact"},
        "/map": {"f-confidence", "f-sort", "f-measure", "exact"},
        "/ranking": {"f-confidence", "f-measure", "exact"},
        "/threshold": {"f-confidence"},  # whose figures are exact
    }
    for page, wanted in works.items():
        form = client.get(f"/d/{data.name}{page}?{query}").text.partition('id="builder"')[2]
        controls = set(re.findall(r'<select id="(f-[a-z]+)"', form))
        controls |= set(re.findall(r'<input type="checkbox" name="([a-z]+)" value="yes"', form))
        controls |= set(re.findall(r'<button class="quiet" name="(swap)"', form))
        assert controls == wanted, page
        fields = [f"tab={page.strip('/')}", "at.place=rows", "at.sector=rows", "order=place"]
        hidden = re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', form)
        fields += [f"{n}={v}" for n, v in hidden if n in ("show", "sort", "subtotals", "measure")]
        sent = client.get(f"/d/{data.name}/build?{'&'.join(fields)}").headers["location"]
        kept = ("show=interval",) * ("f-show" not in controls)
        kept += ("sort=-jobs",) * ("f-sort" not in controls)
        kept += ("subtotals=yes",) * ("subtotals" not in controls)
        assert all(part in sent for part in kept), page  # the other pages still have it
    exact = client.get(f"/d/{data.name}?rows=sector&measure=workplaces&show=margin").text
    assert not re.findall(r'<select id="f-(show|confidence)"', exact)
    ordered = client.get(f"/d/{data.name}/map?rows=place&sort=-jobs&show=margin").text
    assert ordered != client.get(f"/d/{data.name}/map?rows=place&show=margin").text


def test_what_is_cited_is_enough_to_find_it_again(client: TestClient, catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        found = client.get(f"/d/{data.name}.json").json()["metadata"]
        for part in (data.title, data.release.identity, data.made, data.promise, found["address"]):
            assert part in found["citation"]
        assert client.get(found["address"]).status_code == 200


def test_what_is_promised_is_said_in_full(client: TestClient, catalogue: Catalogue) -> None:
    for data in catalogue.data_sets:
        found = client.get(f"/d/{data.name}/about.json").json()
        assert found["statements"] == list(data.release.record["statements"])
        assert found["certificates"] and all(c["holds"] for c in found["certificates"])
        assert json.dumps(found["record"]) == json.dumps(data.release.record)
