"""Several worker processes, and releases that come and go while they answer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import pages
from eree.errors import Refusal
from eree.web.generations import Generations
from eree.web.server import Door, QueryTool
from processes import PATIENCE, running, until
from started import children, started

CUBE = re.compile("^cube-")


def gone(processes: set[int]) -> bool:
    return not any(Path(f"/proc/{process}").exists() for process in processes)


def test_workers_share_a_port_and_one_that_dies_is_replaced(releases: list[Path]) -> None:
    with started(releases[1], "--workers", "2", "--metrics") as tool:
        name = tool.names()[0]
        first = tool.get(f"/d/{name}.json")
        everyone = children(tool.process.pid) | tool.workers()
        killed = next(iter(tool.workers()))
        os.kill(killed, signal.SIGKILL)
        assert until(lambda: len(tool.workers() - {killed}) == 2)
        for _ in range(20):
            assert tool.get(f"/d/{name}.json") == first
        counted = re.search(
            r'eree_answers_total\{kind="json",status="2xx"\} (\d+)', tool.get("/metrics").decode()
        )
        # by whichever worker; one may die between an answer and its count
        assert counted and int(counted[1]) in (21, 22)
        everyone |= tool.workers()
        tool.process.send_signal(signal.SIGTERM)
        assert tool.process.wait(PATIENCE) == 0
    assert until(lambda: gone(everyone))


def test_nobody_is_left_when_the_first_process_is_killed(releases: list[Path]) -> None:
    with started(releases[1], "--workers", "2") as tool:
        everyone = children(tool.process.pid) | tool.workers()
        assert len(everyone) == 3
        tool.process.kill()
        tool.process.wait(PATIENCE)
        assert until(lambda: gone(everyone))


def test_nobody_is_left_when_it_is_killed_while_it_verifies(
    releases: list[Path], tmp_path: Path
) -> None:
    door = Door(port=0)
    port = door.address.rpartition(":")[2]
    door.close()
    command = [sys.executable, "-m", "eree", "serve", str(releases[0]), "--port", port]
    surroundings = pages.environment() | {"EREE_CACHE": str(tmp_path / "cold")}
    with running([*command, "--workers", "2", "--json"], env=surroundings) as process:

        def verifying() -> bool:
            try:
                urlopen(f"{door.address}/ready", timeout=PATIENCE)
            except HTTPError as error:
                return error.code == 503
            except OSError:  # nobody answers yet
                return False
            raise AssertionError("it was ready too soon")

        assert until(verifying)
        everyone = children(process.pid)  # who verifies, and who says so
        assert len(everyone) == 2
        process.kill()
        process.wait(PATIENCE)
        assert until(lambda: gone(everyone))


def test_the_last_release_can_be_withdrawn(releases: list[Path], tmp_path: Path) -> None:
    room = tmp_path / "room"
    shutil.copytree(releases[1], room / "cube")
    with started(room, "--watch", "1") as tool:
        (cube,) = tool.names()
        (room / "cube").rename(tmp_path / "away")
        assert until(lambda: tool.names() == [])
        assert until(lambda: len(children(tool.process.pid)) == 1)  # the old ones have gone
        with pytest.raises(HTTPError, match="404"):
            tool.get(f"/d/{cube}")
        assert b"No data set is served here at the moment." in tool.get("/")
        for page in ("/methods", "/api", "/openapi.json", "/sitemap.xml", "/catalogue.jsonld"):
            assert tool.get(page)
        damaged = shutil.copytree(tmp_path / "away", tmp_path / "damaged")
        (damaged / "release.json").write_text("{}", encoding="utf-8")
        (tmp_path / "away").rename(room / "cube")
        assert until(lambda: tool.names() == [cube])
        (room / "cube").rename(tmp_path / "away")
        damaged.rename(room / "cube")  # what is there and faulty takes nothing from the public
        assert tool.process.stderr is not None
        ear, said = tool.process.stderr.fileno(), bytearray()
        os.set_blocking(ear, False)

        def heard() -> bool:
            with suppress(BlockingIOError):
                said.extend(os.read(ear, 4096))
            return b"none of the folders" in said

        assert until(heard)
        assert tool.names() == [cube]
        (room / "cube").rename(room / "damaged")  # what was served is gone, whatever lies there
        assert until(lambda: tool.names() == [])


def test_a_release_appears_once_it_is_verified_and_goes_with_its_folder(
    releases: list[Path], maps: list[str], tmp_path: Path
) -> None:
    room, beside = tmp_path / "room", tmp_path / "beside"
    room.mkdir()
    shutil.copytree(releases[1], room / "cube")
    shutil.copytree(releases[0], beside)
    failures: list[str] = []
    stop = threading.Event()
    site = tmp_path / "site.toml"
    site.write_text('[names]\nsector = "names.csv"\n', encoding="utf-8")
    (tmp_path / "names.csv").write_text("code,name\n11,Farms\n", encoding="utf-8")
    given = ("--map", maps[0], "--site", str(site))  # which fit the tables alone
    with started(room, "--watch", "1", *given) as tool:
        (cube,) = tool.names()

        def ask() -> None:
            while not stop.is_set():
                try:
                    tool.get(f"/d/{cube}.json")
                except (OSError, HTTPError) as error:
                    failures.append(repr(error))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            damaged = room / "damaged"
            shutil.copytree(releases[1], tmp_path / "copy")
            with (tmp_path / "copy" / "release.json").open("a", encoding="utf-8") as file:
                file.write(" ")
            (tmp_path / "copy").rename(damaged)  # is left out, and said to be
            beside.rename(room / "tables")
            assert until(lambda: len(tool.names()) > 1)
            assert until(lambda: len(children(tool.process.pid)) == 1)  # the old ones have gone
            (jobs,) = (name for name in tool.names() if name.startswith("jobs"))
            assert b"<svg" in tool.get(f"/d/{jobs}/map")
            assert cube in tool.names() and sum(map(bool, map(CUBE.match, tool.names()))) == 1
            shutil.rmtree(room / "tables")
            tool.process.send_signal(signal.SIGHUP)
            assert until(lambda: tool.names() == [cube])
        finally:
            stop.set()
            asking.join(PATIENCE)
        assert not failures
        tool.process.terminate()
        _, said = tool.process.communicate(timeout=PATIENCE)
        assert "damaged is not served: " in said and "Traceback" not in said
        assert "a map is left out: no data set has a variable or a level 'place'" in said
        assert "no data set has a variable or a level 'sector' to name" in said


def test_a_map_that_cannot_be_read_is_left_out_until_it_is_whole(
    releases: list[Path], maps: list[str], tmp_path: Path
) -> None:
    room = tmp_path / "room"
    shutil.copytree(releases[0], room / "tables")
    name, _, file = maps[0].partition("=")
    whole, mine = Path(file).read_bytes(), tmp_path / "areas.geojson"
    mine.write_bytes(whole[:-10])  # it is still being copied
    with started(room, "--watch", "1", "--map", f"{name}={mine}") as tool:
        (jobs,) = (found for found in tool.names() if found.startswith("jobs"))

        def drawn() -> bool:
            try:
                return b"<svg" in tool.get(f"/d/{jobs}/map")
            except HTTPError:
                return False

        assert not drawn()
        mine.write_bytes(whole)
        assert until(drawn)
        mine.unlink()
        shutil.copytree(releases[1], tmp_path / "copy")
        (tmp_path / "copy").rename(room / "cube")
        assert until(lambda: any(map(CUBE.match, tool.names())))  # what is new is served
        tool.process.terminate()
        _, said = tool.process.communicate(timeout=PATIENCE)
        assert "a map is left out: the map areas.geojson is no GeoJSON" in said
        assert f"a map is left out: the map {mine} cannot be read" in said
        assert "Traceback" not in said


def test_what_cannot_be_served_is_refused_at_the_start(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments in (["--workers", "2"], ["--watch", "1"]):
        done = pages.command("serve", str(empty), *arguments, "--port", "0", cwd=tmp_path)
        assert done.status == 2 and "Traceback" not in done.err
        assert "holds no release.json" in done.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--workers", "0", "--workers is a number from 1 to 64"),
        ("--workers", "65", "--workers is a number from 1 to 64"),
        ("--watch", "0", "--watch is a number of seconds from 1 to 86,400"),
        ("--log", "apache", "there is no form of log 'apache'; there are combined and json"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    option: str, value: str, said: str, tmp_path: Path
) -> None:
    with socket.socket():
        done = pages.command("serve", "nowhere", option, value, "--port", "0", cwd=tmp_path)
    assert (done.status, done.err) == (2, f"eree: {said}\n")


class Dying(QueryTool):
    """A tool whose workers end as soon as they begin."""

    def run(self, ready: Callable[[], None] | None = None, alive: int | None = None) -> None:
        os._exit(3)


def test_workers_that_end_again_and_again_are_given_up(releases: list[Path]) -> None:
    with Door(port=0) as door:
        tool = Generations(lambda: Dying([releases[1]], door=door), workers=2)
        with pytest.raises(Refusal, match="again and again"):
            tool.run(lambda _said: pytest.fail("nobody is ready"), pytest.fail)
