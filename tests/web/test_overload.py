"""Under more questions than can be answered, those that can be are, and all of them afterwards."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eree.web import connection
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.guard import Desk, Front, Limits
from eree.web.server import QueryTool
from eree.web.site import Site

CODES = ("0.8", "0.9", "0.95", "0.99")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Charts take until the event is set."""
    let_go, chart = threading.Event(), Site.chart

    def wait(site: Site, name: str, query: str) -> object:
        assert let_go.wait(60)
        return chart(site, name, query)

    monkeypatch.setattr(Site, "chart", wait)
    yield let_go
    let_go.set()


def front(catalogue: Catalogue, **given: Any) -> tuple[Front, Desk]:
    made = application(catalogue, "http://home", Limits(**given))
    assert isinstance(made, Front)
    return made, made.desk


@contextmanager
def asking(app: Any) -> Iterator[httpx2.AsyncClient]:
    yield httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://home")


async def until(true: Callable[[], bool]) -> None:
    """Let others go on until something is so."""
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


def test_many_slow_questions_leave_room_for_what_is_known_or_quick(
    catalogue: Catalogue, slow: threading.Event
) -> None:
    app, desk = front(catalogue, at_work=2, waiting=8)
    names = [data.name for data in catalogue.data_sets]
    charts = [
        f"/d/{name}/chart?confidence={chance}&show={show}"
        for name in names
        for chance in CODES
        for show in ("margin", "interval", "relative")
    ]
    known = f"/d/{names[0]}.json"

    async def ask() -> None:
        with asking(app) as client:
            first = await client.get(known)
            tasks = [asyncio.create_task(client.get(chart)) for chart in charts]
            await until(lambda: sum(task.done() for task in tasks) == len(charts) - 10)
            assert len(desk) == 10
            refused = [task.result() for task in tasks if task.done()]
            for reply in refused:
                assert reply.status_code == 503 and int(reply.headers["retry-after"]) >= 1
            for _ in range(3):
                again = await client.get(known)
                assert again.status_code == 200 and again.content == first.content
                for page in ("/", "/index.json", "/static/style.css"):
                    assert (await client.get(page)).status_code == 200
            slow.set()
            replies = await asyncio.gather(*tasks)
            assert [reply.status_code for reply in replies].count(200) == 10
            assert len(desk) == 0
            for chart in charts:
                assert (await client.get(chart)).status_code == 200

    asyncio.run(ask())


def scope_of(path: str, query: str = "") -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("home", 80),
        "client": ("1.2.3.4", 5),
    }


def test_whoever_hangs_up_leaves_the_place_to_another(
    catalogue: Catalogue, slow: threading.Event
) -> None:
    app, desk = front(catalogue, at_work=1, waiting=2)
    name = catalogue.data_sets[0].name
    statuses: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def ask() -> None:
        hung_up: list[asyncio.Event] = []

        def question(chance: str) -> asyncio.Task[None]:
            gone, parts = asyncio.Event(), iter(({"type": "http.request"},))
            hung_up.append(gone)

            async def receive() -> Any:
                for part in parts:
                    return part
                await gone.wait()
                return {"type": "http.disconnect"}

            scope = scope_of(f"/d/{name}/chart", f"confidence={chance}&show=margin")
            return asyncio.create_task(app(scope, receive, send))

        tasks = [question(chance) for chance in ("0.8", "0.9", "0.95", "0.95")]
        await until(lambda: len(desk) == 3)
        hung_up[1].set()  # one that waits
        await tasks[1]
        assert len(desk) == 2
        hung_up[2].set()  # the same question is waited for by another
        await tasks[2]
        assert len(desk) == 2
        hung_up[0].set()  # it is worked on, which cannot be stopped
        await tasks[0]
        assert len(desk) == 2
        tasks.append(question("0.99"))
        await until(lambda: len(desk) == 3)
        statuses.clear()
        slow.set()
        await asyncio.gather(*tasks)
        assert statuses == [200, 200] and len(desk) == 0

    asyncio.run(ask())


def test_a_question_that_waited_too_long_leaves_its_place(
    catalogue: Catalogue, slow: threading.Event
) -> None:
    app, desk = front(catalogue, at_work=1, waiting=2, seconds=0.2)
    name = catalogue.data_sets[0].name

    async def ask() -> None:
        with asking(app) as client:
            pages = [f"/d/{name}/chart?confidence={chance}&show=margin" for chance in CODES[:3]]
            replies = await asyncio.gather(*map(client.get, pages))
            assert [reply.status_code for reply in replies] == [503] * 3
            assert len(desk) == 1  # what is worked on is worked out, and kept
            slow.set()
            await until(lambda: len(desk) == 0)
            assert (await client.get(pages[0])).status_code == 200

    asyncio.run(ask())


@contextmanager
def running(releases: list[Path]) -> Iterator[tuple[QueryTool, tuple[str, int]]]:
    tool = QueryTool(releases, port=0)
    thread = threading.Thread(target=tool.run)
    thread.start()
    host, _, port = tool.address.removeprefix("http://").partition(":")
    try:
        asyncio.run(until(lambda: tool.listening))
        yield tool, (host, int(port))
    finally:
        tool.stop()
        thread.join(30)
        assert not thread.is_alive()


def connected(address: tuple[str, int]) -> socket.socket:
    found = socket.create_connection(address, timeout=30)
    found.settimeout(30)
    return found


def everything(line: socket.socket) -> bytes:
    """All that comes until the other side hangs up, politely or not."""
    found = b""
    with suppress(ConnectionError):
        while part := line.recv(65_536):
            found += part
    return found


def asked(address: tuple[str, int], request: bytes) -> bytes:
    with connected(address) as line:
        line.sendall(request)
        return everything(line)


GET = b"GET /index.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def test_half_a_request_does_not_hold_a_connection(
    releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.5)
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 8)
    with running(releases) as (_, address):
        assert asked(address, GET).startswith(b"HTTP/1.1 200")
        halves = (b"", b"GET", b"GET / HTTP/1.1\r\nhost:", b"GET / HTTP/1.1\r\nhost: x\r\n")
        lines = [connected(address) for _ in range(2) for _ in halves]
        for line, half in zip(lines, halves * 2, strict=True):
            line.sendall(half)
        refused = asked(address, GET)
        assert refused.startswith(b"HTTP/1.1 503") and b"\r\nretry-after: " in refused
        assert [everything(line) for line in lines] == [b""] * 8
        assert asked(address, GET).startswith(b"HTTP/1.1 200")
        for line in lines:
            line.close()


def test_a_body_that_never_comes_or_a_head_without_end_is_not_waited_for(
    releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.5)
    with running(releases) as (_, address):
        found = asked(address, b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\nhalf")
        assert found.startswith(b"HTTP/1.1 200")
        with connected(address) as line, suppress(ConnectionError):
            line.sendall(b"GET / HTTP/1.1\r\n")
            for number in range(100_000):
                line.sendall(b"x-%d: y\r\n" % number)
            raise AssertionError("a head of a megabyte was read")
        assert asked(address, GET).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_hung_up_on(
    releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.5)
    with running(releases) as (tool, address), connected(address) as line:
        request = GET.replace(b"index", b"openapi").replace(b"connection: close\r\n", b"")
        whole = len(asked(address, GET.replace(b"index", b"openapi")))
        times = 8_000_000 // whole + 1
        line.sendall(request * times)
        assert tool.connections() == 1

        async def hung_up() -> None:
            await until(lambda: tool.connections() == 0)

        asyncio.run(hung_up())
        assert len(everything(line)) < times * whole
        assert asked(address, GET).startswith(b"HTTP/1.1 200")


def test_packed_answers_are_packed_before_their_turn_ends(catalogue: Catalogue) -> None:
    app, desk = front(catalogue)
    page = f"/d/{catalogue.data_sets[0].name}.json"

    async def ask() -> None:
        with asking(app) as client:
            reply = await client.get(page, headers={"accept-encoding": "gzip"})
            kept = desk.memory.get((page.encode(), b"", True))
            assert kept is not None and kept.packed is not None
            assert json.loads(gzip.decompress(kept.packed)) == reply.json()

    asyncio.run(ask())
