"""Long lists of codes: sent in any form, kept for a day in bounded memory, known to all workers."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.errors import Refusal
from eree.web import codelists
from eree.web.catalogue import Catalogue
from eree.web.codelists import MOST_SENT, CodeLists, codes_in, fields_of, sender_of
from eree.web.dataset import DataSet, Group, Variable
from started import started

PLACE = Variable(
    "place",
    "Place",
    ("01", "02", "03 east", "04"),
    ("One", "Two", "Three", "Four"),
    {"county": (Group("A", "A", (0, 1)), Group("B", "B", (2, 3)))},
)


@given(
    st.integers(1, 3_000).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1))))
)
def test_what_is_kept_is_found_under_a_name_of_its_own(given_: tuple[int, set[int]]) -> None:
    count, places = given_
    lists = CodeLists()
    name = lists.keep("jobs place", count, places)
    assert lists.find("jobs place", count, name) == tuple(sorted(places))
    assert lists.keep("jobs place", count, places) == name
    assert CodeLists().keep("jobs place", count, places) != name  # which nobody else can tell
    assert lists.find("jobs sector", count, name) is None
    other = CodeLists()
    assert other.find("jobs place", count, name) is None


@pytest.mark.parametrize(
    "name", ["", "~", "~short", "01", f"~{'é' * 16}", f"~{'a' * 16}", "a" * 17]
)
def test_what_is_no_name_of_a_list_is_not_found(name: str) -> None:
    lists = CodeLists()
    lists.keep("of", 4, [1, 2])
    assert lists.find("of", 4, name) is None


def test_half_of_a_list_is_not_found() -> None:
    lists = CodeLists()
    name = lists.keep("of", 4_000, Random(1).sample(range(4_000), 1_500))
    whole = bytes(lists._memory)
    start = next(at for at in range(0, len(whole), codelists._SLOT) if whole[at])
    for at in range(codelists._HEAD.size, codelists._HEAD.size + 60, 7):
        lists._memory[start + at] ^= 0xFF
        lists._unpacked.clear()
        assert lists.find("of", 4_000, name) is None
        lists._memory[start + at] ^= 0xFF
    assert lists.find("of", 4_000, name) is not None


def test_a_list_is_kept_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    lists, now = CodeLists(), time.time()
    name = lists.keep("of", 10, [3])
    monkeypatch.setattr(codelists.time, "time", lambda: now + codelists.KEPT_SECONDS - 60)
    assert lists.find("of", 10, name) == (3,)
    monkeypatch.setattr(codelists.time, "time", lambda: now + codelists.KEPT_SECONDS + 60)
    assert lists.find("of", 10, name) is None


def test_memory_is_bounded_and_the_oldest_make_room() -> None:
    lists = CodeLists()
    size = len(lists._memory)
    names = [lists.keep("of", 5_000, [number]) for number in range(3_000)]
    assert len(lists._memory) == size
    found = [lists.find("of", 5_000, name) == (n,) for n, name in enumerate(names)]
    kept = codelists._SLOTS
    assert all(found[-kept:]) and not any(found[: -kept - codelists._UNPACKED])


def test_whoever_has_most_lists_loses_the_oldest() -> None:
    lists, most = CodeLists(), codelists._SLOTS
    kept = [lists.keep("of", 9_000, [number], f"10.0.0.{number % 5}") for number in range(50)]
    flood = [lists.keep("of", 9_000, [100 + number], "10.9.9.9") for number in range(2 * most)]
    lists._unpacked.clear()
    there = [lists.find("of", 9_000, name) is not None for name in (*kept, *flood)]
    assert all(there[:50])
    assert there[50:] == [False] * (most + 50) + [True] * (most - 50)
    again = [lists.keep("of", 9_000, [number], "10.9.9.9") for number in range(50)]
    assert again == kept  # who has more does not make what is there already their own
    more = lists.keep("of", 9_000, [8_000], "10.0.0.1")
    lists._unpacked.clear()
    assert all(lists.find("of", 9_000, name) for name in (*kept, more))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=60))
def test_what_is_forgotten_is_the_oldest_of_the_largest_share(sent: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = iter(range(1_000_000))
        patch.setattr(codelists.time, "time", lambda: 1e9 + next(clock))
        patch.setattr(codelists, "_SLOTS", 8)
        lists, held = CodeLists(), dict[str, int]()  # names with their senders, oldest first
        for sender, number in sent:
            name = lists.keep("of", 41, [number], f"10.0.0.{sender}")
            counts, owner = Counter(held.values()), held.pop(name, sender)
            owner = sender if counts[sender] < counts[owner] else owner
            if len(held) == 8:
                counts = Counter([*held.values(), sender])
                most = max(counts.values())
                del held[next(one for one, whose in held.items() if counts[whose] == most)]
            held[name] = owner
            lists._unpacked.clear()
            assert all(lists.find("of", 41, one) for one in held)
            assert len(lists._memory) == 8 * codelists._SLOT  # no room for others


@pytest.mark.parametrize(
    ("client", "forwarded", "found"),
    [
        ("192.0.2.7", "", "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),  # anyone can say that
        ("127.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("::1", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3::4", "", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "", "192.0.2.7"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "unknown", ""),
        ("::ffff:127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "198.51.100.1:5678", "198.51.100.1"),
        ("127.0.0.1", "[2001:db8:1:2:3::4]:44", "2001:db8:1:2::/64"),
        ("testclient", "", ""),
    ],
)
def test_who_sends_a_list(client: str, forwarded: str, found: str) -> None:
    assert sender_of(client, forwarded) == found


def test_a_list_that_fills_more_than_its_place_is_refused() -> None:
    with pytest.raises(Refusal, match="half of it"):
        CodeLists().keep("of", 1_000_000, Random(1).sample(range(1_000_000), 400_000))
    assert CodeLists().keep("of", 8_000_000, range(0, 8_000_000, 1_000))


def test_processes_that_fork_share_lists() -> None:
    lists = CodeLists()
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(back, lists.keep("of", 100, [7, 50]).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert lists.find("of", 100, os.read(there, 100).decode()) == (7, 50)
    os.close(there)
    os.close(back)


@pytest.mark.parametrize(
    ("text", "codes", "heading"),
    [
        ("01\n02\n", "01 02", ""),
        ("\ufeff01\r\n\r\n 04 ", "01 04", ""),
        ("\n\ngeoid,name\n01,One\n04,Four", "01 04", "geoid,name"),
        ('name;code\n"One";"01"\n"Two";"02"', "01 02", "name;code"),
        ("county,place\nA,01\nB,04", "01 04", "county,place"),  # codes before groups
        ("x,y\nA,01\nB,04", "01 04", "x,y"),
        ("x,place\n02,01\n01,04", "01 04", "x,place"),  # the column of this name
        ("01 02 04", "01 02 04", ""),
        ("places\n01", "01", "places"),
        ("A\n04", "A 04", ""),
        ('name,place\n"Gary, city of",01\n"""One""; two",04\n', "01 04", "name,place"),
        ('"01"\n04', "01 04", ""),
        (
            '"id"\t"note"\t"place"\t"near"\n"1"\t"x"\t"01"\t"02"\n"2"\t\t"04"\t"01"',
            "01 04",
            '"id"\t"note"\t"place"\t"near"',
        ),
    ],
)
def test_lists_are_read_as_people_have_them(text: str, codes: str, heading: str) -> None:
    found = codes_in(PLACE, text)
    assert (found.codes, found.heading) == (tuple(codes.split()), heading)


def test_a_code_may_have_blanks_in_it() -> None:
    assert codes_in(PLACE, "03 east\n03 east\n01").codes == ("03 east", "01")
    assert codes_in(PLACE, "name\tcode\nThree\t03 east").codes == ("03 east",)


@pytest.mark.parametrize("code", ["a,b", "a;b", "a|b", "'a", 'a"b', "a, b", "a b"])
def test_a_code_may_have_what_stands_between_fields(code: str) -> None:
    place = replace(PLACE, codes=(*PLACE.codes, code), labels=(*PLACE.labels, "odd"))
    quoted = '"' + code.replace('"', '""') + '"'
    for text in (f"{code}\n01", f"{quoted}\n01", f'name,place\n"x, y",{quoted}\nz,01'):
        assert codes_in(place, text).codes == (code, "01")


@pytest.mark.parametrize(
    "text",
    [
        "," * 999_000,
        '",' * 450_000,
        ("," * 199 + "\n") * 4_000,
        '"' * 900_000,
        ('"a,"' * 40 + "\n") * 5_000,
        '"' + '""' * 400_000 + ",x",
    ],
    ids=range(6),
)
def test_what_is_made_to_take_long_is_refused_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises(Refusal):
        codes_in(PLACE, text)
    assert time.process_time() - began < 20  # and not minutes, on the slowest of machines


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("01\n99\n02\nxy\n", "2 lines name no code of place: '99'; 'xy'"),
        ("O1\n02", "1 line names no code of place: 'O1'"),  # no heading: it has a digit
        ("01 99", "1 line names no code"),
        ("01,02\n02,01", "several columns"),
        ("~aaaaaaaaaaaaaaaa\n01\n~bbbbbbbbbbbbbbbb", "1 line names no code"),
        ("", "no line names"),
        ("\n \n", "no line names"),
        ("99", "1 line names no code"),
        ("nothing", "no line names"),
    ],
)
def test_lines_that_name_no_code_are_named(text: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        codes_in(PLACE, text)


def test_lines_that_name_no_code_are_left_out_if_that_is_wanted() -> None:
    assert codes_in(PLACE, "01\n99\n02\nxy\n", skip=True).codes == ("01", "02")
    with pytest.raises(Refusal, match="no line names"):
        codes_in(PLACE, "99", skip=True)


PART = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
IN_PARTS = f"{codelists.WITH_FILES}; boundary=b"


def test_forms_are_read_as_browsers_send_them() -> None:
    body = PART.format("at.país", "rows") + PART.format("codes", "01\r\n02") + "--b--\r\n"
    kind = 'Multipart/Form-Data; boundary="b"'
    assert fields_of(kind, body.encode()) == [("at.país", "rows"), ("codes", "01\r\n02")]
    assert fields_of("text/plain", b"01") == fields_of("", b"01") == [("codes", "01")]
    form = codelists.FORM
    assert fields_of(form, b"codes=01%0A02&skip=") == [("codes", "01\n02"), ("skip", "")]
    assert fields_of(f"{form}X", b"codes=01") == [("codes", "codes=01")]


@pytest.mark.parametrize(
    "body",
    [
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n--c--\r\n--b--",
        "--b",
        "",
        "--b\r\n\r\n--b--",
        PART.format("codes", "01"),
        PART.format("codes", "") * 2_001 + "--b--",
    ],
)
def test_what_is_no_form_is_refused(body: str) -> None:
    with pytest.raises(Refusal, match="no form"):
        fields_of(IN_PARTS, body.encode())
    with pytest.raises(Refusal, match="no form"):
        fields_of(codelists.WITH_FILES, body.encode())


@given(st.binary(max_size=300), st.sampled_from(["", IN_PARTS, *codelists.FORMS]))
def test_whatever_is_sent_is_read_or_refused(body: bytes, kind: str) -> None:
    try:
        found = fields_of(kind, body)
    except Refusal:
        return
    assert all(isinstance(part, str) for pair in found for part in pair)


def asked(client: TestClient, data: DataSet, name: str) -> list[dict[str, Any]]:
    found = client.get(f"/d/{data.name}.json?rows=place&where.place={name}&show=interval")
    assert found.status_code == 200, found.text
    named = found.json()["metadata"]  # what is cited stays: it has the codes
    assert f"where.place={name}" not in named["citation"] and "where.place=" in named["citation"]
    assert len(named["lists"]["place"]) > 2
    cells: list[dict[str, Any]] = found.json()["cells"]
    return cells


def test_a_list_filters_as_its_codes_do(client: TestClient, catalogue: Catalogue) -> None:
    data = next(one for one in catalogue.data_sets if one.name.startswith("jobs"))
    codes = data.variable("place").codes[::2]
    sent = client.post(f"/d/{data.name}/lists/place", content="\n".join(codes))
    assert sent.status_code == 201
    said = sent.json()
    assert said["codes"] == len(codes) and said["query"] == f"where.place={said['list']}"
    one_by_one = "&".join(f"where.place={code}" for code in codes)
    plain = client.get(f"/d/{data.name}.json?rows=place&{one_by_one}&show=interval").json()
    assert asked(client, data, said["list"]) == plain["cells"]
    page = client.get(f"/d/{data.name}?rows=sector&where.place={said['list']}&show=margin")
    assert page.status_code == 200 and f"a list of {len(codes)} codes" in page.text
    assert "is kept for a day" in page.text
    for path in ("/chart", "/ranking", "/codes/place", ".csv", ".xlsx", "/about"):
        where = f"/d/{data.name}{path}?rows=place&where.place={said['list']}&show=margin"
        assert client.get(where).status_code == 200, path
    other = next(one for one in catalogue.data_sets if one.name.startswith("branches"))
    assert client.get(f"/d/{other.name}?rows=place&where.place={said['list']}").status_code == 400


def test_a_cube_takes_lists(client: TestClient, catalogue: Catalogue) -> None:
    data = next(one for one in catalogue.data_sets if one.kind == "cube")
    variable = max(data.variables, key=lambda v: len(v.codes))
    codes = variable.codes[:7]
    sent = client.post(f"/d/{data.name}/lists/{variable.name}", content="\n".join(codes)).json()
    one_by_one = "&".join(f"where.{variable.name}={code}" for code in codes)
    rows = f"/d/{data.name}.json?rows={variable.name}&show=margin&"
    by_list = client.get(f"{rows}where.{variable.name}={sent['list']}").json()
    assert by_list["cells"] == client.get(f"{rows}{one_by_one}").json()["cells"]


def test_a_form_leads_on_to_the_table_or_comes_back_with_what_was_entered(
    client: TestClient, catalogue: Catalogue
) -> None:
    data = next(one for one in catalogue.data_sets if one.name.startswith("jobs"))
    codes = data.variable("place").codes[:3]
    where = f"/d/{data.name}/lists/place"
    fields = {"tab": "ranking", "at.sector": "rows", "order": "sector", "show": "interval"}
    files = {"file": ("list.csv", "\n".join(codes).encode(), "text/csv")}
    sent = client.post(where, data=fields | {"codes": ""}, files=files, follow_redirects=False)
    assert sent.status_code == 303
    there = sent.headers["location"]
    assert there.startswith(f"/d/{data.name}/ranking?rows=sector&where.place=~")
    assert client.get(there).status_code == 200
    slip = client.post(where, data=fields | {"codes": f"{codes[0]}\nnowhere <b>"}, files=files)
    assert slip.status_code == 400
    assert "nowhere &lt;b&gt;" in slip.text and "1 line names no" in slip.text
    assert 'name="at.sector" value="rows"' in slip.text
    skipped = client.post(
        where,
        data=fields | {"codes": f"{codes[0]}\nnowhere", "skip": "yes"},
        files=files,
        follow_redirects=False,
    )
    assert skipped.status_code == 303


def test_what_cannot_be_kept_is_refused(client: TestClient, catalogue: Catalogue) -> None:
    name = catalogue.data_sets[0].name
    assert client.post(f"/d/{name}/lists/place", content=b"\xff\xfe").status_code == 400
    assert client.post(f"/d/{name}/lists/nothing", content="01").status_code == 404
    assert client.post("/d/nothing/lists/place", content="01").status_code == 404
    assert client.post(f"/d/{name}/lists/place", content="x" * (MOST_SENT + 1)).status_code == 413
    read = client.get(f"/d/{name}/lists/place")
    assert read.status_code == 405 and "with POST" in read.text
    gone = client.get(f"/d/{name}?rows=place&where.place=~{'a' * 16}")
    assert gone.status_code == 400 and "or until the tool is started again" in gone.text


def test_a_list_is_known_to_all_workers_and_a_body_is_bounded(releases: list[Path]) -> None:
    with started(releases[0], "--workers", "2") as tool:
        name = next(one for one in tool.names() if one.startswith("jobs"))
        listed = json.loads(tool.get(f"/d/{name}/codes/place.json"))["codes"]
        codes = [code["code"] for code in listed if not code["level"]][:5]
        where = f"{tool.address}/d/{name}/lists/place"
        request = Request(where, "\n".join(codes).encode(), {"content-type": "text/plain"})
        with urlopen(request, timeout=60) as reply:
            found = json.loads(reply.read())["list"]
        for number in range(20):  # new connections come to either worker, new questions to no cache
            level = ("0.8", "0.9", "0.95", "0.99")[number % 4]
            query = f"rows=place&where.place={found}&confidence={level}&page=1"
            assert len(json.loads(tool.get(f"/d/{name}.json?{query}"))["cells"]) <= 5
        for size in (MOST_SENT + 1, MOST_SENT + 70_000, 3 * MOST_SENT):
            assert sent_in_pieces(tool.address, name, codes, size) == 413
        assert sent_in_pieces(tool.address, name, codes, MOST_SENT - 10) == 201


def sent_in_pieces(address: str, name: str, codes: list[str], size: int) -> int:
    """The answer to a list with a code at its beginning and one at its end, without its length."""

    def pieces() -> Iterator[bytes]:
        yield f"{codes[0]}\n".encode()
        rest = size - len(codes[0]) - len(codes[1]) - 2
        for start in range(0, rest, 200_000):
            yield b"\n" * min(200_000, rest - start)
        yield f"{codes[1]}\n".encode()

    host = urlsplit(address)
    line = HTTPConnection(host.hostname or "", host.port, timeout=60)
    with closing(line):
        with suppress(BrokenPipeError, ConnectionResetError):
            kind = {"content-type": "text/plain"}
            line.request("POST", f"/d/{name}/lists/place", pieces(), kind, encode_chunked=True)
        reply = line.getresponse()
        assert reply.status != 201 or json.loads(reply.read())["codes"] == 2
        return reply.status
