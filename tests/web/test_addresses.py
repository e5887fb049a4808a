"""Links that were passed on lead to the query that they meant."""

from __future__ import annotations

from html import unescape
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import eree
from eree.web.address import Unknown, query_of, untracked
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.cubes import CubeSet
from eree.web.linked import LinkedTable
from eree.web.query import parse, read
from questions import queries
from served import HOME

#: What people's programs add to addresses.
ADDED = ("utm_source=mail", "utm_campaign=a%26b", "fbclid=IwAR0", "gclid=x", "UTM_a", "_ga=2.1")


@pytest.mark.parametrize("added", [*ADDED, ""])
@pytest.mark.parametrize("page", ["", ".csv", "/chart", "/ranking", "/about"])
def test_what_others_add_to_a_link_is_dropped(
    page: str, added: str, client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    address = f"/d/{tables['jobs'].name}{page}?rows=sector&show=interval"
    for given_ in (f"{address}&{added}", address.replace("?", f"?{added}&")):
        reply = client.get(given_)
        assert reply.status_code == 301 and reply.headers["location"] == address
    assert client.get(address).status_code == 200


@pytest.mark.parametrize("page", ["/", "/methods", "/api", "/index.json"])
def test_pages_without_a_query_drop_it_as_well(page: str, client: TestClient) -> None:
    reply = client.get(f"{page}?utm_source=mail&fbclid=1")
    assert reply.status_code == 301 and reply.headers["location"] == page


def test_a_link_that_leads_nowhere_is_not_led_elsewhere(client: TestClient) -> None:
    for path in ("//evil.example/", "/%5cevil.example", "/nothing", "/d"):
        assert client.get(f"{HOME}{path}?utm_source=x").status_code == 404, path


def test_a_path_with_other_slashes_or_capitals_leads_to_the_one_address(
    catalogue: Catalogue, tables: dict[str, LinkedTable]
) -> None:
    name, home = tables["jobs"].name, "http://testserver/jobs"
    app = application(catalogue, home, branding=Branding(languages=("en", "es")))
    with TestClient(app, base_url=HOME, follow_redirects=False) as client:
        for path, where in (
            ("/es", "/es/"),
            ("/ES//", "/es/"),
            ("/en", "/"),  # of the main language, which another office may have beside others
            (f"/en/d/{name}/Chart", f"/d/{name}/chart"),
            (f"/d/{name}/", f"/d/{name}"),
            (f"//d//{name}", f"/d/{name}"),
            (f"/D/{name.upper()}", f"/d/{name}"),
            (f"/d/{name.title()}.csv", f"/d/{name}.csv"),
            (f"/es/D/{name}/Chart/", f"/es/d/{name}/chart"),
            (f"/d/{name}/codes/place/", f"/d/{name}/codes/place"),
            ("/Methods/", "/methods"),
            ("/index.json/", "/index.json"),
        ):
            for query in ("", "?rows=place&where.place=%2F%2Fevil&show=margin"):
                reply = client.get(f"{HOME}{path}{query}")
                assert reply.status_code == 301, path
                assert reply.headers["location"] == f"/jobs{where}{query}"
            assert client.post(f"{HOME}{path}").status_code in (404, 405)
        for path in (
            *("//", "///", "//evil.example", "/\\evil.example", "/%5Cevil.example/", "/d/", "/d"),
            *(
                f"/d/{name}x/",
                f"/d/{name}/nothing/",
                "/es/es",
                "/en/en",
                "/es//evil.example",
                "/static/",
            ),
            *(f"/d/{name}/codes/Place", f"/d/{name}/lists/place/", "/d/%0d%0aset-cookie:x/"),
        ):
            reply = client.get(f"{HOME}{path}")
            assert reply.status_code in (404, 405), path
            assert "location" not in reply.headers


def test_a_slash_within_a_name_is_no_part_of_a_path(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    for path in (f"/d/{name}%2fabout", f"/d%2F{name}", f"/d/{name}/codes%2fplace", "/static%2f"):
        assert client.get(path).status_code == 404, path


@settings(max_examples=60)
@given(st.data())
def test_the_rest_of_a_query_stays_as_it_was(catalogue: Catalogue, data: st.DataObject) -> None:
    query = data.draw(queries(data.draw(st.sampled_from(catalogue.data_sets))))
    parts = query.address().split("&")
    for added in data.draw(st.lists(st.sampled_from([*ADDED, ""]), max_size=4)):
        parts.insert(data.draw(st.integers(0, len(parts))), added)
    assert untracked("&".join(parts).encode()) == query.address().encode()


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("rows=sector&colour=red&show=margin", "rows=sector&show=margin"),
        ("rows=sector&cols=nothing", "rows=sector"),
        ("rows=sector&rows=sector", "rows=sector"),
        ("rows=sector&where.place=nowhere&where.sector=72", "rows=sector&where.sector=72"),
        ("rows=place&group.place=county&group.sector=supersector", "rows=place&group.place=county"),
        ("rows=sector&loose&show=%ff&sort=up", "rows=sector"),
        ("show=margin&show=interval&rows=sector", "show=margin&rows=sector"),
        ("ref=home", ""),
    ],
)
@pytest.mark.parametrize("page", ["", "/chart", "/map", "/ranking", "/threshold", "/about"])
def test_an_address_with_unknown_parts_shows_the_query_without_them_one_click_away(
    page: str, query: str, rest: str, client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    path = f"/d/{tables['jobs'].name}{page}"
    want = f"{path}?{rest}" if rest else path
    reply = client.get(f"{path}?{query}", headers={"accept": "text/html"})
    assert reply.status_code == 400
    assert f'<a class="instead" href="{want}">' in unescape(reply.text)
    assert client.get(want).status_code == 200
    if page in ("", "/ranking", "/about"):
        error = client.get(f"{path}.json?{query}").json()["error"]
        assert error["instead"].endswith(f".json?{rest}" if rest else ".json")


def test_own_settings_of_a_page_are_kept(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    path = f"/d/{tables['jobs'].name}/threshold"
    reply = client.get(f"{path}?rows=sector&damage=72%205&x=%3Cb%3E")
    assert f'href="{path}?rows=sector&damage=72%205"' in unescape(reply.text)
    assert "<b>" not in reply.text and "x=&lt;b&gt;" in reply.text
    elsewhere = client.get(f"{path.removesuffix('/threshold')}?rows=sector&damage=72%205")
    assert f'href="{path.removesuffix("/threshold")}?rows=sector"' in unescape(elsewhere.text)


def test_pages_without_settings_are_one_click_away(client: TestClient) -> None:
    for page in ("/", "/methods", "/api"):
        reply = client.get(f"{page}?x=1")
        assert reply.status_code == 400 and f'<a class="instead" href="{page}">' in reply.text


def test_no_query_is_offered_where_none_is_left(
    cube: CubeSet, tables: dict[str, LinkedTable]
) -> None:
    many = "&".join(f"where.sector={code}" for code in range(2_001))
    five = "&".join(f"rows={variable.name}" for variable in cube.variables[:5])
    for data, text in ((tables["jobs"], many), (cube, five)):
        with pytest.raises(eree.Refusal) as refused:
            query_of(data, text)
        assert not isinstance(refused.value, Unknown)


@settings(max_examples=60)
@given(st.data())
def test_what_is_offered_instead_can_always_be_asked(
    catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    parts = data.draw(queries(chosen)).address().split("&")
    names = [*(v.name for v in chosen.variables), "x", "1", "margin"]
    keys = ["rows", "cols", "show", "page", "x", *(f"group.{n}" for n in names)]
    pairs = st.tuples(st.sampled_from([*keys, *(f"where.{n}" for n in names)]), st.text(max_size=5))
    for name, value in data.draw(st.lists(pairs, max_size=4)):
        parts.insert(data.draw(st.integers(0, len(parts))), f"{quote(name)}={quote(value)}")
    text = "&".join(parts)
    try:
        query_of(chosen, text)
    except Unknown as unknown:
        assert unknown.left and set(unknown.instead.split("&")) <= {*parts, ""}
        if unknown.instead:
            parse(chosen, read(unknown.instead))
