"""Forms that hold more than an address has room for are posted, and nothing of them is lost."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from eree.web import codelists, forms
from eree.web.codelists import MOST_SENT, CodeLists
from eree.web.comparison import MOST_DAMAGE
from eree.web.dataset import Variable
from eree.web.linked import LinkedTable

Fields = list[tuple[str, str]]


class Form(HTMLParser):
    """A form of a page, as a browser without scripts sends it."""

    def __init__(self, page: str, kind: str) -> None:
        super().__init__()
        self.action = self.method = ""
        self.fields: Fields = []
        self._kind, self._inside = kind, False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("class") == self._kind
            if self._inside:
                self.action, self.method = given["action"], given["method"]
        sent = given.get("type") not in ("checkbox", "radio") or "checked" in given
        if tag == "input" and self._inside and given.get("name") and sent:
            self.fields.append((given["name"], given["value"]))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"


def posted(client: TestClient, action: str, fields: Fields) -> str:
    """Where a form leads that is sent as browsers send it."""
    known: dict[str, list[str]] = {}
    for name, value in fields:
        known.setdefault(name, []).append(value)
    reply = client.post(action, data=known)
    assert reply.status_code == 303, reply.text
    where = str(reply.headers["location"])
    assert len(where) < 8_000
    return where


@pytest.fixture
def places(tables: dict[str, LinkedTable]) -> Variable:
    return tables["jobs"].variable("place")


@pytest.mark.parametrize(("page", "kind"), [("map", "areas"), ("codes/place", "picker")])
def test_as_many_areas_as_are_ticked_are_added_up(
    page: str,
    kind: str,
    client: TestClient,
    tables: dict[str, LinkedTable],
    places: Variable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = tables["jobs"].name
    form = Form(client.get(f"/d/{name}/{page}?rows=place&show=interval").text, kind)
    assert (form.method, form.action) == ("post", f"/d/{name}/build")
    some = list(places.codes[:-1])
    monkeypatch.setattr(forms, "MOST_NAMED", len(some) - 1)
    ticked = [("where.place", code) for code in some]
    where = posted(client, form.action, [*form.fields, *ticked])
    asked = dict(parse_qsl(urlsplit(where).query))
    assert re.fullmatch("~[a-z2-7]{16}", asked["where.place"])
    plain = "&".join(f"where.place={code}" for code in some)
    json = where.replace(name, f"{name}.json")
    named = client.get(f"/d/{name}.json?rows=place&{plain}&show=interval").json()
    assert client.get(json).json()["cells"] == named["cells"]
    assert client.get(where).status_code == 200
    # on the page of codes each of them is ticked again, and one that is taken off is off
    again = Form(
        client.get(where.replace(f"{name}?", f"{name}/codes/place?")).text,
        "picker",
    )
    assert sorted(v for n, v in again.fields if n == "where.place") == sorted(some)
    fewer = [pair for pair in again.fields if pair != ("where.place", some[0])]
    assert where.split("?")[0] in posted(client, again.action, fewer)


def test_few_codes_are_named_one_by_one(
    client: TestClient, tables: dict[str, LinkedTable], places: Variable
) -> None:
    name = tables["jobs"].name
    fields = [("at.place", "rows"), ("show", "margin")]
    fields += [("where.place", code) for code in places.codes[:3]]
    named = "&".join(f"where.place={code}" for code in places.codes[:3])
    where = posted(client, f"/d/{name}/build", fields)
    assert where == f"/d/{name}?rows=place&{named}&show=margin"
    got = client.get(f"/d/{name}/build?tab=&at.place=rows&show=margin")
    assert got.status_code == 303  # addresses of before lead on as well


def test_damage_of_any_number_of_areas_has_a_short_address(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    there = client.get(f"/d/{data.name}/ranking.json?rows=place&show=margin").json()["areas"]
    codes = [area["place"] for area in there]
    text = "\r\n".join(f"{code} {200_000 + n}" + " " * 2_000 for n, code in enumerate(codes))
    assert len(text) > 8_000
    page = client.get(f"/d/{data.name}/threshold?rows=place&show=margin").text
    form = Form(page, "builder")
    assert (form.method, form.action) == ("post", f"/d/{data.name}/build")
    where = posted(client, form.action, [*form.fields, ("damage", text)])
    assert re.search(r"/threshold\?rows=place&.*&damage=~[a-z2-7]{16}$", where)
    reply = client.get(where)
    assert reply.status_code == 200 and text in reply.text
    assert "keep your own copy" in reply.text
    found = client.get(where.replace("/threshold?", "/threshold.json?")).json()["areas"]
    assert [area["place"] for area in found] == codes
    assert client.get(where.replace("/threshold?", "/threshold.csv?")).status_code == 200
    slip = posted(client, form.action, [*form.fields, ("damage", f"{text}\r\nnowhere <5>")])
    reply = client.get(slip)
    assert reply.status_code == 400 and f"{text}\r\nnowhere <5>" in unescape(reply.text)
    assert 'aria-invalid="true"' in reply.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * (MOST_DAMAGE + 1), "this is more than is kept"),
        ("a\n" * (forms.MOST_LINES + 1), "this is more than is kept"),
        (f"~{'a' * 16}", "or until the tool is started again"),
    ],
)
def test_what_is_not_kept_comes_back_with_the_form(
    text: str, why: str, client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    where = f"/d/{tables['jobs'].name}/build"
    fields = {"tab": "threshold", "at.place": "rows", "damage": text, "per_job": "2"}
    reply = client.post(where, data=fields)
    if reply.status_code == 303:
        reply = client.get(reply.headers["location"])
    assert reply.status_code == 400 and why in reply.text.replace("This is", "this is")
    assert 'aria-invalid="true"' in reply.text and 'value="2"' in reply.text
    assert text in reply.text or text.startswith("~")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_posted_form_is_bounded_and_leads_nowhere_else(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    where = f"/d/{tables['jobs'].name}/build"
    assert client.post(where, data={"damage": "x" * (MOST_SENT + 1)}).status_code == 413
    for fields in (
        {"evil": "1"},
        {"tab": "//evil.example"},
        {"damage": "a\0b", "tab": "threshold"},
    ):
        assert client.post(where, data=fields).status_code == 400, fields
    long = {"tab": "threshold", "per_job": "9" * 90_000, "at.place": "rows"}
    assert len(client.post(where, data=long).headers["location"]) < 1_000
    assert client.post(where, content="rows=place").json()["error"]["status"] == 400
    assert client.post("/d/nothing/build", data={"tab": ""}).status_code == 404


def test_texts_have_bounded_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codelists, "_TEXTS", 4)
    lists = CodeLists()
    other = lists.keep("of", 9, [1])
    names = [lists.keep_text("of", f"{number} 5\n" * 50, "10.0.0.1") for number in range(9)]
    found = [lists.find_text("of", name) for name in names]
    assert found == [None] * 5 + [f"{number} 5\n" * 50 for number in range(5, 9)]
    assert lists.find("of", 9, other) == (1,) and lists.find_text("of", other) is None
    assert lists.find_text("another", names[-1]) is None
    assert lists.keep_text("of", "x" * (MOST_SENT + 1)) == ""
