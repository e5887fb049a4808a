"""Under more questions than can be answered, those that can be are, and all of them afterwards."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eree.web.app import Front, application, key_of
from eree.web.catalogue import Catalogue
from eree.web.desk import Desk, Kept, Key, Limits
from eree.web.reply import PLAIN, Reply
from eree.web.server import QueryTool
from eree.web.site import Site
from processes import PATIENCE

CODES = ("0.8", "0.9", "0.95", "0.99")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Charts take until the event is set."""
    let_go, chart = threading.Event(), Site.chart

    def wait(site: Site, name: str, query: str) -> object:
        assert let_go.wait(PATIENCE)
        return chart(site, name, query)

    monkeypatch.setattr(Site, "chart", wait)
    yield let_go
    let_go.set()


def front(catalogue: Catalogue, **given: Any) -> tuple[Front, Desk]:
    made = application(catalogue, "http://home", Limits(**{"seconds": PATIENCE} | given))
    assert isinstance(made, Front)
    return made, made.desk


@contextmanager
def asking(app: Any) -> Iterator[httpx2.AsyncClient]:
    yield httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://home")


async def until(true: Callable[[], bool]) -> None:
    """Let others go on until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def test_many_slow_questions_leave_room_for_what_is_known_or_quick(
    catalogue: Catalogue, slow: threading.Event
) -> None:
    app, desk = front(catalogue, at_work=2, waiting=8)
    name = catalogue.data_sets[0].name
    charts = [
        f"/d/{name}/chart?confidence={level}&show={show}"
        for level in CODES
        for show in ("margin", "interval", "relative")
    ]
    known = f"/d/{name}.json"

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
                for page in ("/", "/index.json", "/methods", "/openapi.json", "/static/style.css"):
                    assert (await client.get(page)).status_code == 200
            slow.set()
            replies = await asyncio.gather(*tasks)
            assert [reply.status_code for reply in replies].count(200) == 10
            assert len(desk) == 0
            for chart in charts:
                assert (await client.get(chart)).status_code == 200

    asyncio.run(ask())


def test_each_data_set_has_places_of_its_own_and_all_take_turns(
    catalogue: Catalogue, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    waits = Site.chart

    def noted(site: Site, name: str, query: str) -> object:
        begun.append(name)
        return waits(site, name, query)

    monkeypatch.setattr(Site, "chart", noted)
    app, desk = front(catalogue, at_work=2, waiting=8)
    busy, other, third = (data.name for data in catalogue.data_sets[:3])

    def charts(name: str, most: int) -> list[str]:
        shows = ("margin", "interval", "relative")
        found = [f"/d/{name}/chart?confidence={c}&show={s}" for c in CODES for s in shows]
        return found[:most]

    async def ask() -> None:
        with asking(app) as client:
            crowd = [asyncio.create_task(client.get(chart)) for chart in charts(busy, 12)]
            await until(lambda: sum(task.done() for task in crowd) == 2)
            assert len(desk) == 10 and desk.full_lines() == 1
            for page in ("/methods", "/api", "/openapi.json", "/", "/d/nothing", "/nothing"):
                reply = await client.get(page)  # no data, no waiting
                assert reply.status_code == (404 if "nothing" in page else 200), page
            own = [asyncio.create_task(client.get(chart)) for chart in charts(other, 7)]
            few = asyncio.create_task(client.get(charts(third, 1)[0]))
            await until(lambda: len(desk) == 18)
            assert sum(task.done() for task in (*crowd, *own, few)) == 2
            refused = [task.result() for task in crowd if task.done()]
            assert all(r.status_code == 503 and "oo many questions" in r.text for r in refused)
            slow.set()
            replies = await asyncio.gather(*crowd, *own, few)
            assert [reply.status_code for reply in replies].count(200) == 18
        assert len(desk) == 0 and desk.full_lines() == 0
        assert begun[:2] == [busy, busy]  # what had begun goes on; then all in turn
        assert third in begun[2:8] and begun[2:8].count(other) >= 2

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

        def question(level: str) -> asyncio.Task[None]:
            gone, parts = asyncio.Event(), iter(({"type": "http.request"},))
            hung_up.append(gone)

            async def receive() -> Any:
                for part in parts:
                    return part
                await gone.wait()
                return {"type": "http.disconnect"}

            scope = scope_of(f"/d/{name}/chart", f"confidence={level}&show=margin")
            return asyncio.create_task(app(scope, receive, send))

        tasks = [question(level) for level in ("0.8", "0.9", "0.95")]
        await until(lambda: len(desk) == 3)
        hung_up[1].set()  # one that waits
        await tasks[1]
        await until(lambda: len(desk) == 2)
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
            pages = [f"/d/{name}/chart?confidence={level}&show=margin" for level in CODES[:3]]
            replies = await asyncio.gather(*map(client.get, pages))
            assert [reply.status_code for reply in replies] == [503] * 3
            assert len(desk) == 1  # what is worked on is worked out, and kept
            slow.set()
            await until(lambda: len(desk) == 0)
            assert (await client.get(pages[0])).status_code == 200

    asyncio.run(ask())


GET = b"GET /index.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HALVES = (b"", b"GET", b"GET / HTTP/1.1\r\nhost:", b"GET / HTTP/1.1\r\nhost: x\r\n")


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=PATIENCE)


def asked(address: tuple[str, int], request: bytes) -> bytes:
    """All that is answered to a request."""
    found = b""
    with connected(address) as line:
        line.sendall(request)
        while part := line.recv(65_536):
            found += part
    return found


def test_half_requests_and_clients_that_hang_up_hold_no_place(
    releases: list[Path], slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    desks: list[Desk] = []
    made = Desk.__init__

    def noted(desk: Desk, *given: Any) -> None:
        made(desk, *given)
        desk.limits = replace(desk.limits, seconds=PATIENCE)
        desks.append(desk)

    monkeypatch.setattr(Desk, "__init__", noted)
    tool = QueryTool(releases, port=0)
    (desk,) = desks
    ready = threading.Event()
    thread = threading.Thread(target=tool.run, args=(ready.set,))
    thread.start()
    assert ready.wait(PATIENCE)
    host, _, port = tool.address.removeprefix("http://").partition(":")
    address, data = (host, int(port)), tool.catalogue.data_sets[0]
    halves = []
    try:
        for half in HALVES * 25:
            halves.append(connected(address))
            halves[-1].sendall(half)
        assert asked(address, GET).startswith(b"HTTP/1.1 200")
        leaving = []
        for code in data.variables[0].codes[:60]:
            path = f"/d/{data.name}/chart?where.{data.variables[0].name}={code}&show=margin"
            leaving.append(connected(address))
            leaving[-1].sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        asyncio.run(until(lambda: len(desk) == len(leaving)))
        for line in leaving:
            line.close()
        asyncio.run(until(lambda: len(desk) == desk.limits.at_work))  # begun, so done
        slow.set()
        asyncio.run(until(lambda: len(desk) == 0))
        request = GET.replace(b"/index.json", f"/d/{data.name}.json".encode())
        assert asked(address, request).startswith(b"HTTP/1.1 200")
    finally:
        slow.set()
        for line in halves:
            line.close()
        tool.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize("size", [500_000, 50])
def test_a_body_that_does_not_come_is_given_up_and_holds_no_place(
    size: int, releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.app.MOST_BODIES", 2)
    tool, ready = QueryTool(releases, port=0), threading.Event()
    desk = tool._front.desk
    desk.limits = replace(desk.limits, seconds=PATIENCE, sending=2.0)
    thread = threading.Thread(target=tool.run, args=(ready.set,))
    thread.start()
    assert ready.wait(PATIENCE)
    host, _, port = tool.address.removeprefix("http://").partition(":")
    address, data = (host, int(port)), tool.catalogue.data_sets[0]
    kind = "content-type: application/x-www-form-urlencoded"
    head = f"POST /d/{data.name}/build HTTP/1.1\r\nhost: x\r\n{kind}\r\ncontent-length: "
    slow = [connected(address) for _ in range(2)]
    try:
        for line in slow:
            line.sendall(f"{head}{size}\r\n\r\ntab=".encode())
        for line in slow:  # read to its end: the connection is closed, a drip does not hold it
            found = b""
            while part := line.recv(65_536):
                found += part
            assert found.startswith(b"HTTP/1.1 408") and b"too long to arrive" in found
        body = f"tab=&show=margin&at.{data.variables[0].name}=rows".encode()
        body += b"&find=" + b"x" * max(0, size - len(body) - 6)
        whole = f"{head}{len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        assert asked(address, whole).startswith(b"HTTP/1.1 303")
    finally:
        for line in slow:
            line.close()
        tool.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def test_answers_are_kept_within_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eree.web.desk._MOST_KEPT", 100_000)

    def refuse(status: int, reason: str, key: Key) -> Kept:
        return Kept(Reply(status, PLAIN, reason.encode()))

    desk = Desk(refuse)

    def ask(path: bytes, size: int, status: int = 200) -> None:
        desk.at_once((path, b"", False), lambda: Kept(Reply(status, PLAIN, b"x" * size)))

    for number in range(50):
        ask(b"/%d" % number, 3_000)
        assert desk.kept.currsize <= 100_000
    assert desk.known((b"/49", b"", False)) and desk.known((b"/0", b"", False)) is None
    ask(b"/large", 13_000)
    ask(b"/refused", 10, 404)
    assert (b"/large", b"", False) not in desk.kept and (b"/refused", b"", False) not in desk.kept
    assert len(desk.kept) == 100_000 // 5_003 and desk.again == 1


def test_files_of_pages_are_kept_once_whatever_is_asked_with_them() -> None:
    keys = {key_of(scope_of("/static/style.css", query)) for query in ("", "v=1", "x=2&y=3")}
    assert len(keys) == 1
    assert len({key_of(scope_of("/d/jobs", query)) for query in ("", "rows=sex")}) == 2


def test_files_of_pages_stay_for_a_week_under_their_own_stamp_alone(catalogue: Catalogue) -> None:
    app, _ = front(catalogue)

    async def ask() -> None:
        with asking(app) as client:
            page = (await client.get("/")).text
            (stamp,) = set(re.findall(r"/static/style\.css\?v=(\w+)", page))
            own = f"/static/style.css?v={stamp}"
            for path, week in ((own, True), (own[:-1], False), ("/static/style.css", False)) * 2:
                reply = await client.get(path)
                assert ("604800" in reply.headers["cache-control"]) is week, path

    asyncio.run(ask())
