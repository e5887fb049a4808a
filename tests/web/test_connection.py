"""The tool itself over a socket: addresses and requests that no browser makes.

What a proxy keeps from it (no requests at all, endless headers, slow clients) is in test_nginx.py.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eree.web.server import QueryTool
from processes import PATIENCE
from raw import get, statuses

ONE = b"GET /index.json HTTP/1.1\r\nHost: x\r\n\r\n"
Ask = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def tool(releases: list[Path]) -> Iterator[QueryTool]:
    """A tool that waits for whoever is slow because the machine is busy."""
    found, ready = QueryTool(releases, port=0), threading.Event()
    thread = threading.Thread(target=found.run, args=(ready.set,))
    thread.start()
    assert ready.wait(PATIENCE)
    yield found
    found.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def name(tool: QueryTool) -> bytes:
    return tool.catalogue.data_sets[0].name.encode()


def connected(tool: QueryTool) -> socket.socket:
    host, port = tool.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE)


@pytest.fixture(scope="module")
def ask(tool: QueryTool) -> Ask:
    """Sends bytes, and gives all that comes back until the server closes the connection."""

    def asked(sent: bytes) -> bytes:
        with connected(tool) as line:
            line.sendall(sent)
            found = b""
            while more := line.recv(1 << 16):
                found += more
        return found

    return asked


def head_of(reply: bytes) -> dict[bytes, bytes]:
    lines = reply.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return {key: value for key, _, value in (line.partition(b": ") for line in lines)}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/static/../../../etc/passwd", 404),
        (b"/static/%2e%2e%2f%2e%2e%2fpages.py", 404),
        (b"/static/%252e%252e%252fpages.py", 404),
        (b"/static/..\\..\\pages.py", 404),
        (b"/static/style.css%00.txt", 404),
        (b"//evil.example/", 404),
        (b"/d/%ff%fe", 404),
        (b"/d/NAME?rows=%ff", 400),
        (b"/d/NAME?rows=%00", 400),
        (b"/d/NAME?rows=place;cols=sector", 400),
        (b"/d/NAME?where.where.place=1", 400),
        (b"/d/NAME?show=margin&show=interval", 400),
        (b"/d/NAME?" + b"&".join([b"where.place=1"] * 550), 400),
        (b"/d/NAME?" + b"&".join([b"where.place=1"] * 2_000), 414),
        (b"/d/NAME/codes/place?find=" + b"+".join([b"a"] * 3_000), 400),
        (b"/d/NAME/about.json/evil.css", 404),
        (b"/d/NAME.csv.exe", 404),
        (b"*", 404),
    ],
)
def test_hostile_addresses_are_refused_in_a_sentence(
    path: bytes, status: int, ask: Ask, name: bytes, releases: list[Path]
) -> None:
    reply = ask(get(path.replace(b"NAME", name)))
    assert statuses(reply) == [status]
    assert head_of(reply)[b"x-content-type-options"] == b"nosniff"
    for secret in (b"Traceback", b"site-packages", str(releases[0].parent).encode(), b"eree/web"):
        assert secret not in reply


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of encryption
        b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /static/style\0.css HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /d/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        # two lengths of one body: what a proxy in front reads as one request would be two
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n" + ONE,
    ],
)
def test_what_is_no_request_is_refused_once_and_the_connection_closed(
    sent: bytes, ask: Ask
) -> None:
    assert statuses(ask(sent)) == [400]


def test_nothing_that_a_request_says_of_its_host_is_believed(ask: Ask, name: bytes) -> None:
    sent = (
        b"GET %b HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\n"
        b"X-Forwarded-Proto: https\r\nForwarded: host=evil.example\r\nX-Forwarded-Prefix: /evil\r\n"
        b"X-Original-URL: /evil\r\nConnection: close\r\n\r\n"
    )
    for path in (b"/d/" + name, b"/d/" + name + b".json", b"/openapi.json", b"/", b"/nothing"):
        reply = ask(sent % path)
        assert statuses(reply)[0] in (200, 404) and b"evil" not in reply
    reply = ask(sent % (b"/d/" + name + b"/build?at.place=rows"))
    assert head_of(reply)[b"location"] == b"/d/" + name + b"?rows=place&show=margin"


def test_no_line_can_be_put_into_the_headers_of_an_answer(ask: Ask, name: bytes) -> None:
    for settings in (
        b"again=place&find=%0d%0aSet-Cookie:%20a=b",
        b"tab=%0d%0aSet-Cookie:%20a=b",
        b"at.place=rows&show=%0d%0aSet-Cookie:%20a=b",
        b"tab=threshold&damage=1%0d%0aSet-Cookie:%20a=b",
    ):
        reply = ask(get(b"/d/" + name + b"/build?" + settings))
        assert statuses(reply)[0] in (303, 400)
        assert not any(key.lower() == b"set-cookie" for key in head_of(reply))


def test_old_browsers_and_other_methods(ask: Ask) -> None:
    old = ask(b"GET /index.json HTTP/1.0\r\n\r\n")
    assert statuses(old) == [200] and old.endswith(b"}")
    for method in (b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE"):
        reply = ask(get(b"/").replace(b"GET", method, 1))
        assert statuses(reply) == [405] and head_of(reply)[b"allow"] == b"GET, HEAD"
    head = ask(get(b"/index.json").replace(b"GET", b"HEAD", 1))
    assert statuses(head) == [200] and head.endswith(b"\r\n\r\n")
    assert int(head_of(head)[b"content-length"]) > 100


def test_a_body_is_never_read(ask: Ask) -> None:
    size = 3_000_000
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    assert statuses(ask(sent + get(b"/index.json"))) == [405, 200]
    waiting = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n"
    assert statuses(ask(waiting + b"Connection: close\r\n\r\n")) == [405]


def test_many_requests_in_one_go_are_answered_in_their_order(ask: Ask) -> None:
    reply = ask(ONE * 2_000 + get(b"/nothing"))
    assert statuses(reply) == [200] * 2_000 + [404]


def test_nothing_but_pages_is_spoken(ask: Ask) -> None:
    upgrade = [b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13"]
    sent = get(b"/index.json", *upgrade).replace(
        b"Connection: close", b"Connection: Upgrade, close"
    )
    assert statuses(ask(sent)) == [200]


def test_a_part_of_an_answer_is_the_whole_of_it(ask: Ask, name: bytes) -> None:
    whole = ask(get(b"/d/" + name + b".csv"))
    for wanted in (b"bytes=0-9", b"bytes=" + b",".join([b"0-"] * 1_000), b"bytes=-0"):
        part = ask(get(b"/d/" + name + b".csv", b"Range: " + wanted))
        assert statuses(part) == [200]
        assert part.partition(b"\r\n\r\n")[2] == whole.partition(b"\r\n\r\n")[2]


def test_an_answer_that_is_known_is_not_sent_again(ask: Ask) -> None:
    tag = head_of(ask(get(b"/")))[b"etag"]
    strong = tag.removeprefix(b"W/")
    for known in (tag, b'"other", ' + tag, b"*"):
        reply = ask(get(b"/", b"If-None-Match: " + known))
        assert statuses(reply) == [304] and reply.endswith(b"\r\n\r\n")
        assert head_of(reply)[b"etag"] == tag
    for unknown in (b'"other"', b"W/" + strong[:-2] + b'"', b""):
        assert statuses(ask(get(b"/", b"If-None-Match: " + unknown))) == [200]


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        (b"gzip, deflate, br", True),
        (b"br, gzip;q=0.5", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.0, br", False),
        (b"gzip;q=0.01", True),
        (b"br", False),
        (b"", False),
    ],
)
def test_an_answer_is_packed_for_those_who_unpack(accepted: bytes, packed: bool, ask: Ask) -> None:
    reply = ask(get(b"/", b"Accept-Encoding: " + accepted))
    assert (head_of(reply).get(b"content-encoding") == b"gzip") is packed
