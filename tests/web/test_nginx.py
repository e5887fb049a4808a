"""The query tool behind a real nginx, with the file that offices are given."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from bench.proxy import free_port, proxied

from processes import PATIENCE
from raw import get, statuses
from started import Tool, started

pytestmark = pytest.mark.xdist_group("nginx")  # what most tests look at is made once

Ask = Callable[[bytes], bytes]
#: It says whether an answer was kept.
SAYING = {"gzip on;": "gzip on; add_header X-Cache $upstream_cache_status always;"}


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_given: object) -> None:
        return None


def asked(
    address: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    try:
        reply = build_opener(_Stay).open(Request(address, body, headers=headers), timeout=60)
    except HTTPError as error:
        reply = error
    with reply:
        return reply.status, {k.lower(): v for k, v in reply.headers.items()}, reply.read()


@pytest.fixture(scope="module")
def both(
    releases: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Tool]]:
    """The address behind the proxy, and the tool itself."""
    port = free_port()
    home = f"http://127.0.0.1:{port}/jobs"
    with (
        started(*releases, "--workers", "2", "--metrics", "--address", home) as tool,
        proxied(tmp_path_factory.mktemp("nginx"), port, tool.address, SAYING),
    ):
        yield home, tool


def tool_names(home: str) -> list[str]:
    return [data["name"] for data in json.loads(asked(f"{home}/index.json")[2])["data_sets"]]


def test_behind_nginx_answers_are_the_same_under_the_prefix(both: tuple[str, Tool]) -> None:
    home, tool = both
    status, _, body = asked(f"{home}/index.json")
    assert status == 200
    for data in json.loads(body)["data_sets"]:
        assert data["address"].startswith(f"{home}/d/")
        for ending in ("", ".json", ".csv", ".parquet", "/about"):
            status, headers, body = asked(data["address"] + ending)
            own = asked(f"{tool.address}/jobs/d/{data['name']}{ending}")
            assert (status, body) == (200, own[2])
            assert headers["content-security-policy"] == own[1]["content-security-policy"]
            tag = headers["etag"]
            assert asked(data["address"] + ending, **{"if-none-match": tag})[0] == 304
    page = asked(home + "/")[2].decode()
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', page))
    assert links and all(link.startswith("/jobs/") for link in links)
    assert all(asked(home.removesuffix("/jobs") + link)[0] == 200 for link in links)
    assert asked(home)[1]["location"].endswith("/jobs/")


def test_behind_nginx_texts_are_packed_for_those_who_unpack(both: tuple[str, Tool]) -> None:
    home, _ = both
    for path in ("/methods", "/index.json", "/static/style.css"):
        plain, packed = asked(home + path), asked(home + path, **{"accept-encoding": "gzip"})
        assert packed[1]["content-encoding"] == "gzip"
        assert gzip.decompress(packed[2]) == plain[2] and len(packed[2]) < len(plain[2])
        for other in ("gzip;q=0", "gzip; q=0.0, br", "br"):
            assert asked(home + path, **{"accept-encoding": other})[2] == plain[2]


def counted(tool: Tool, kind: str) -> int:
    """How many answers of a kind the tool has given."""
    found = re.findall(
        rf'eree_answers_total{{kind="{kind}".*?}} (\d+)', tool.get("/metrics").decode()
    )
    return sum(map(int, found))


def test_a_question_of_many_is_worked_out_once_and_kept(both: tuple[str, Tool]) -> None:
    home, tool = both
    (first, *_) = tool_names(home)
    new = f"{home}/d/{first}.json?confidence=0.8&show=relative"
    before = counted(tool, "json")
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: asked(new), range(16)))
    assert counted(tool, "json") == before + 1
    assert len({reply[2] for reply in replies}) == 1 and {reply[0] for reply in replies} == {200}
    assert sum(reply[1]["x-cache"] == "HIT" for reply in replies) == 15
    begun = time.monotonic()
    with ThreadPoolExecutor(16) as pool:  # nobody waits for the refusal of another for long
        refused = list(pool.map(lambda _: asked(f"{home}/d/{first}.json?rows=nothing"), range(16)))
    assert {reply[0] for reply in refused} == {400} and time.monotonic() - begun < PATIENCE / 20
    assert asked(f"{home}/d/{first}/build?at.place=rows")[1]["x-cache"] == "BYPASS"


def test_pages_and_json_of_one_address_are_kept_apart(both: tuple[str, Tool]) -> None:
    home, _ = both
    (first, *_) = tool_names(home)
    page = f"{home}/d/{first}?confidence=0.8&show=interval"
    kinds = {
        "text/html,application/xhtml+xml,*/*;q=0.8": "text/html",
        "application/json": "application/json",
        "application/json, text/html": "text/html",
        "*/*": "text/html",
    }
    for _ in range(2):
        for accept, kind in kinds.items():
            status, headers, body = asked(page, accept=accept)
            assert status == 200 and headers["content-type"].startswith(kind)
            assert body.startswith(b"{" if kind == "application/json" else b"<!")


def test_lists_are_sent_and_never_kept_by_the_proxy(both: tuple[str, Tool]) -> None:
    home, _ = both
    found = json.loads(asked(f"{home}/index.json")[2])["data_sets"]
    about = json.loads(asked(f"{found[0]['address']}/about.json")[2])
    variable = about["variables"][0]["name"]
    codes = json.loads(asked(f"{found[0]['address']}/codes/{variable}.json")[2])["codes"]
    sent = "\n".join(str(code["code"]) for code in codes[:3]).encode()
    where, kind = f"{found[0]['address']}/lists/{variable}", {"content-type": "text/plain"}
    replies = [asked(where, sent, **kind) for _ in range(2)]
    assert all(status == 201 and "x-cache" not in headers for status, headers, _ in replies)
    form = f"tab=threshold&at.{variable}=rows&damage={'x' * 9_000}".encode()
    for _ in range(2):
        status, headers, _ = asked(f"{found[0]['address']}/build", form)
        assert status == 303 and "x-cache" not in headers
        there = headers["location"]
        assert there.startswith("/jobs/d/") and "damage=~" in there


def test_nginx_keeps_what_is_for_operators_and_what_is_too_much(both: tuple[str, Tool]) -> None:
    home, tool = both
    for path in ("/metrics", "/health", "/ready"):
        assert asked(home.removesuffix("/jobs") + path)[0] == 404
        assert asked(home + path)[0] == 404
        assert asked(tool.address + path)[0] == 200
    assert asked(f"{home}/d/x?{'a' * 9_000}")[0] == 414  # by the tool, whose words people read
    assert asked(f"{home}/", **{"x-long": "a" * 40_000})[0] == 400
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: asked(f"{home}/methods")[0], range(600)))
    assert set(statuses) == {200, 429}


# ------------------------------------------------- those who ask as no browser does


@pytest.fixture(scope="module")
def hasty(both: tuple[str, Tool], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a proxy before the same tool, which waits for nobody longer than a second."""
    changes = {f"{name}_timeout {usual}": f"{name}_timeout 1s" for name, usual in SECONDS.items()}
    changes |= {"rate=20r/s": "rate=1000r/s", "burst=200": "burst=5000"}
    port = free_port()
    with proxied(tmp_path_factory.mktemp("hasty"), port, both[1].address, changes):
        yield port


SECONDS = {"client_header": "15s", "client_body": "15s", "send": "60s", "keepalive": "20s"}
ONE = b"GET /jobs/index.json HTTP/1.1\r\nHost: x\r\n\r\n"


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


@pytest.fixture(scope="module")
def ask(hasty: int) -> Ask:
    """Sends bytes, and gives all that comes back until the connection is closed."""

    def asked_so(sent: bytes) -> bytes:
        found = b""
        with connected(hasty) as line:
            try:
                line.sendall(sent)
                while more := line.recv(1 << 16):
                    found += more
            except ConnectionError:  # closed while something was unread
                return found
        return found

    return asked_so


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # the beginning of encryption
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /jobs/ HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /jobs/ HTTP/1.1\r\n\r\n",
        b"GET /jobs/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /jobs/ HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /jobs/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        # two lengths of one body: what one side reads as one request would be two for the other
        b"GET /jobs/ HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n" + ONE,
        b"GET /jobs/static/style\0.css HTTP/1.1\r\nHost: x\r\n\r\n",
        get(b"/jobs/", b"X: " + b"a" * 20_000),
        get(b"/jobs/", b"X: " + b"a" * 5_000_000),
        get(b"/jobs/", *[b"X: a"] * 100_000),
    ],
)
def test_what_is_no_request_is_refused_once_and_the_connection_closed(
    sent: bytes, ask: Ask
) -> None:
    assert statuses(ask(sent)) in ([400], [405], [])


def test_an_address_without_end_is_refused(ask: Ask) -> None:
    assert statuses(ask(get(b"/jobs/?" + b"a" * 5_000_000))) == [414]


def test_a_body_without_end_is_refused(ask: Ask) -> None:
    head = b"POST /jobs/d/x/lists/y HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
    assert statuses(ask(head)) == [413]


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /jobs/ HT",
        b"GET /jobs/ HTTP/1.1\r\nHost: x\r\n",
        b"POST /jobs/d/x/lists/y HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
    ],
    ids=["nothing", "line", "headers", "body"],
)
def test_a_request_that_never_ends_is_given_up(begun: bytes, ask: Ask) -> None:
    assert statuses(ask(begun)) in ([], [408])  # and the connection is closed


def test_a_request_that_comes_byte_by_byte_is_given_up(hasty: int) -> None:
    until = time.monotonic() + PATIENCE
    with connected(hasty) as line, pytest.raises(ConnectionError):
        line.sendall(b"GET /jobs/?")
        while time.monotonic() < until:
            line.sendall(b"x")
            time.sleep(0.05)


def test_an_answer_that_nobody_reads_is_given_up(hasty: int) -> None:
    with connected(hasty) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.sendall(ONE.replace(b"index", b"openapi") * 100)
        time.sleep(3)
        found = b""
        with pytest.raises(ConnectionError):  # reset, long before all of it has come
            while more := line.recv(1 << 16):
                found += more
            raise ConnectionError
    assert 0 < len(statuses(found)) < 100


def test_one_client_does_not_take_all_connections(hasty: int, both: tuple[str, Tool]) -> None:
    slow = [connected(hasty) for _ in range(60)]
    try:
        for line in slow:
            line.sendall(b"POST /jobs/d/x/lists/y HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        refused = 0
        for line in slow:
            with suppress(ConnectionError):  # it took longer than a second to come to this one
                refused += statuses(line.recv(1 << 16)) == [429]
        assert refused >= 20
    finally:
        for line in slow:
            line.close()
    assert asked(f"{both[0]}/index.json")[0] == 200
