"""Who asks while releases are verified hears so; then the query tool itself answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack
from email.message import Message
from pathlib import Path
from threading import Event, Thread
from urllib.request import Request, urlopen

import pytest

import pages
from eree.web import waiting
from eree.web.server import Door, QueryTool
from eree.web.waiting import WaitingRoom
from processes import PATIENCE

HTML, JSON = "text/html", "application/json"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)


def asked(address: str, accept: str = HTML) -> tuple[int, Message, str]:
    """What comes back; asked again until somebody listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(Request(address, headers={"accept": accept}), timeout=PATIENCE) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > end:
                raise
            time.sleep(0.02)


def test_whoever_asks_meanwhile_hears_how_far_it_is() -> None:
    with Door(port=0) as door, WaitingRoom(door) as room:
        room.share = 0.4
        status, headers, page = asked(f"{door.address}/d/jobs-12345678?rows=sector")
        assert status == 503 and headers["Retry-After"] == "2"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Refresh"] is None  # which would interrupt who is reading, or typing
        assert "verified first, and 40% of that is done" in page and "<h1>" in page
        room.share = 0.7
        status, _, text = asked(f"{door.address}/index.json", JSON)
        assert status == 503 and "70%" in json.loads(text)["error"]["message"]
        assert asked(f"{door.address}/health")[::2] == (200, "alive\n")
        assert asked(f"{door.address}/ready")[::2] == (503, "verifying: 70% done\n")
        room.share = 1.0  # pages are compiled then
        assert asked(f"{door.address}/ready")[::2] == (503, "verifying: 99% done\n")
        assert "main" in asked(f"{door.address}/static/style.css")[2]


def test_the_page_is_in_the_colours_and_languages_of_the_site_behind_its_path(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site.toml"
    site.write_text('name = "Office of Jobs"\nlanguages = ["en", "es"]\n', encoding="utf-8")
    home = "https://host.example.org/jobs"
    with Door(port=0) as door, WaitingRoom(door, home=home, site=site):
        _, _, page = asked(f"{door.address}/jobs/es/d/jobs-12345678")
        assert "Office of Jobs" in page and 'lang="es"' in page and "se verifica antes" in page
        assert 'href="/jobs/static/style.css' in page
        assert asked(f"{door.address}/jobs/static/style.css")[0] == 200
        assert asked(f"{door.address}/static/style.css")[0] != 200


def test_nobody_is_turned_away_while_the_tool_takes_over(releases: list[Path]) -> None:
    seen: list[int] = []
    over, answered = Event(), Event()

    def ask(address: str) -> None:
        while not over.is_set():
            seen.append(asked(f"{address}/methods")[0])
            if seen[-1] == 200:
                answered.set()

    with ExitStack() as stack:
        door = stack.enter_context(Door(port=0))
        room = stack.enter_context(WaitingRoom(door))
        clients = [Thread(target=ask, args=(door.address,), daemon=True) for _ in range(4)]
        assert asked(f"{door.address}/methods")[0] == 503
        for client in clients:
            client.start()
        tool = QueryTool(releases, door=door)
        room.leave()
        running = Thread(target=tool.run)
        running.start()
        assert answered.wait(PATIENCE)
        over.set()
        for client in clients:
            client.join(PATIENCE)
        tool.stop()
        running.join(PATIENCE)
    assert set(seen) == {503, 200}  # and nobody was cut off


def test_once_it_is_told_to_leave_it_answers_nobody() -> None:
    with Door(port=0) as door, WaitingRoom(door) as room:
        assert asked(f"{door.address}/health")[0] == 200
        room.leave()
        with pytest.raises(TimeoutError):
            urlopen(f"{door.address}/health", timeout=0.3)


def test_releases_that_are_ready_at_once_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", PATIENCE)
    began = time.monotonic()
    with Door(port=0) as door, WaitingRoom(door):
        pass
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_for_all_processes_are_heard_by_the_first(number: signal.Signals) -> None:
    with Door(port=0) as door, WaitingRoom(door) as room:
        os.kill(room._process, number)  # as a terminal, or systemd, sends it to all
        assert asked(f"{door.address}/health")[0] == 200


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[str]:
    """The address of a waiting room whose process was killed."""
    program = (
        "import os, signal, time; from eree.web import waiting; from eree.web.server import Door\n"
        "waiting.PATIENCE = 0.0\n"
        "door = Door(port=0); waiting.WaitingRoom(door); print(door.address, flush=True)\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert asked(f"{address}/health")[0] == 200
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    yield address


def test_it_ends_with_the_process_that_made_it(killed: str) -> None:
    end, said = time.monotonic() + PATIENCE, ""
    while "refused" not in said:
        assert time.monotonic() < end, said
        try:
            urlopen(f"{killed}/health", timeout=PATIENCE)
        except OSError as error:  # whoever asks while it ends may be cut off
            said = str(error)


# -------------------------------------------------------------------------------- eree serve


def checked(*arguments: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eree", "serve", *map(str, arguments), "--check"]
    surroundings = pages.environment() | {"EREE_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, env=surroundings)


def test_what_would_be_served_is_checked_beside_a_tool_that_runs(
    releases: list[Path], maps: list[str]
) -> None:
    with Door(port=0) as door:  # no port is taken
        port, cache = door.address.rpartition(":")[2], Path(os.environ["EREE_CACHE"])
        found = checked(*releases, "--port", port, "--map", maps[0], cache=cache)
    assert (found.returncode, found.stderr) == (0, "")
    assert re.fullmatch(r"(.+\n)+\d data sets can be served\n", found.stdout)
    found = checked(releases[1], "--json", cache=cache)
    said = json.loads(found.stdout)
    assert said.keys() == {"data_sets", "maps"} and said["data_sets"][0].startswith("cube-")
    found = checked(releases[1], "--port", "99999", cache=cache)
    assert found.returncode == 2 and "a port is a number" in found.stderr


def test_a_start_after_a_check_verifies_nothing_again(
    releases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(releases[1], cache=tmp_path / "cache").returncode == 0
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))

    def again(*_given: object, **_more: object) -> None:
        raise AssertionError

    monkeypatch.setattr("eree.verification.verify.verify", again)
    with Door(port=0) as door:
        QueryTool(releases[1:], door=door)


def test_what_cannot_be_served_does_not_pass_a_check(releases: list[Path], tmp_path: Path) -> None:
    cube = Path(shutil.copytree(releases[1], tmp_path / "all" / "cube"))
    shutil.copytree(releases[1], tmp_path / "all" / "sound")
    table = next((cube / "tables").iterdir())
    table.write_bytes(table.read_bytes()[:-1])
    for given in ([cube], [tmp_path / "all", "--watch", "60"]):  # that would leave it out, running
        found = checked(*given, cache=tmp_path / "cache")
        assert found.returncode == 2 and f"{cube} is not served" in found.stderr
        assert found.stderr.count("\n") == 1 and not found.stdout
