"""The query tool under load: the real command on one core, `wrk` with 8 connections on another.

Each release is asked alone, and once more behind nginx on the same core.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eree
import eree_study
from bench.cube_contestants import LEVELS, large_cube, small_cube
from bench.proxy import free_port, proxied
from bench.web_pages import Loaded, Weight, loaded, weight
from bench.web_questions import addresses
from eree.web.catalogue import Catalogue

SMALL, LARGE, LINKED = "cube of 17,280 cells", "cube of 8.9 million cells", "linked tables"
CONNECTIONS, SECONDS = 8, 5
JOBS = 1_000_000
#: So many questions come again and again; as many as are never asked twice, per second at most.
MIX, MOST_EACH_SECOND = 200, 2_500
ONE, MIXED, NEW = "one question", f"{MIX} questions, again and again", "never the same"
PAGES, PROXIED = "pages, never the same", "behind nginx"
BARE, SQL = (
    "bare Starlette endpoint, the same bytes",
    "DuckDB behind Starlette, sums alone, never the same",
)


#: The limits of one visitor are not what is measured.
ALL_OF_ONE_CLIENT = {"rate=20r/s": "rate=100000r/s", "burst=200": "burst=100000"}


@dataclass(frozen=True)
class Answered:
    """Answers to some questions: medians over the rounds.

    `cpu` are the milliseconds of an answer in which the tool, without nginx, had a core.
    """

    data: str
    questions: str
    per_second: float
    cpu: float
    p50: float
    p99: float
    bytes: float


@dataclass(frozen=True)
class Process:
    """What a query tool takes before it answers, and once it has."""

    data: str
    figures: int
    start: float
    mib: float
    mib_after: float


@dataclass(frozen=True)
class Measured:
    answered: list[Answered]
    processes: list[Process]
    weights: list[Weight]
    loaded: list[Loaded]
    load: float


def run(home: Path, rounds: int, tell: Callable[[str], None]) -> Measured:
    """Serve each release alone, and ask it."""
    load = os.getloadavg()[0]
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    tell("releases for the query tool")
    folders = releases(home)
    found = Measured([], [], [], [], load)
    for name, folder in folders.items():
        _ask(name, folder, home, rounds, tell, found)
    return found


def releases(home: Path) -> dict[str, Path]:
    """Two protected cubes and a release of tables, as an agency makes them."""
    eree_study.synthesize_survey(home / "survey", shape="querytool")
    for name, cube in (
        ("small", small_cube(home / "survey")),
        ("large", large_cube((103, *LEVELS[1:]))),
    ):
        total = eree.Guarantee(eree.ESTABLISHMENT, 20, "1e-6")
        ledger = eree.Ledger.create(home / f"{name}.db", total, data_set="data")
        given: Any = {"epsilon": 20, "delta": "1e-6", "unit": "establishment"}
        eree.protect_cube(cube, ledger=ledger, out=home / name, **given)
    tables = eree.load(eree_study.synthesize(home / "data", jobs=JOBS))
    wanted = [
        {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
        {"name": "people", "by": ["place", "sex", "education"], "epsilon": "4"},
    ]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "6"}
    plan = eree.Plan.of({"data": str(tables.folder), "privacy": privacy, "table": wanted})
    total = eree.Guarantee(eree.Strong("0.1"), 6)
    ledger = eree.Ledger.create(home / "linked.db", total, data_set="data")
    eree.publish(plan, tables, ledger=ledger, out=home / "linked")
    return {SMALL: home / "small", LARGE: home / "large", LINKED: home / "linked"}


def _ask(
    name: str,
    folder: Path,
    home: Path,
    rounds: int,
    tell: Callable[[str], None],
    found: Measured,
) -> None:
    catalogue = Catalogue.open([folder])
    some = addresses(catalogue, MIX, 1)
    many = rounds * SECONDS * MOST_EACH_SECOND // (1 + (name != SMALL))
    new, pages = addresses(catalogue, many, 2), addresses(catalogue, many // 2, 3, "")
    figures = sum(data.rows for data in catalogue.data_sets)

    def ask(where: str, process: int, questions: str, paths: Sequence[str], once: bool) -> None:
        turns = []
        for part in _rounds(rounds, f"{name}, {questions}", tell):
            asked = paths[part::rounds] if once else paths
            turns.append(_wrk(where, process, asked, home))
            assert not once or turns[-1]["requests"] < len(asked), "write more questions"
        found.answered.append(_medians(name, questions, turns))

    command = [sys.executable, "-m", "eree", "serve", str(folder), "--port", "0", "--json"]
    with served(command) as (address, process, start):
        before = _mib(process)
        for path in some:  # so that all of it is kept
            urllib.request.urlopen(address + path).read()
        ask(address, process, ONE, some[:1], False)
        ask(address, process, MIXED, some, False)
        ask(address, process, NEW, new, True)
        ask(address, process, PAGES, pages, True)
        found.processes.append(Process(name, figures, start, before, _mib(process)))
        data = catalogue.data_sets[0].name
        for page, path in (("first page", "/"), ("table", f"/d/{data}")):
            found.weights.append(weight(address, name, page, path))
            found.loaded.append(loaded(address, name, page, path, max(rounds, 5)))
        (home / "body").write_bytes(urllib.request.urlopen(address + some[0]).read())
    port = free_port()
    front = f"http://127.0.0.1:{port}"
    with (
        served([*command, "--address", f"{front}/jobs"]) as (address, process, _),
        proxied(home, port, address, ALL_OF_ONE_CLIENT, _on_its_core()),
    ):
        for path in some:
            urllib.request.urlopen(f"{front}/jobs{path}").read()
        ask(front, process, f"{PROXIED}, {MIXED}", [f"/jobs{path}" for path in some], False)
        ask(front, process, f"{PROXIED}, {NEW}", [f"/jobs{path}" for path in new], True)
    if name == SMALL:
        rivals = [(BARE, "bare", home, some[:1])]
    else:
        rivals = [(SQL, "DuckDB", folder, new)] if name == LARGE else []
    for label, rival, room, paths in rivals:
        command = [sys.executable, "-m", "bench.web_rivals", rival, str(room)]
        with served(command) as (address, process, _):
            ask(address, process, label, paths, False)


def _rounds(rounds: int, what: str, tell: Callable[[str], None]) -> Iterator[int]:
    for number in range(rounds):
        tell(f"{what}, round {number + 1} of {rounds}")
        yield number


@contextmanager
def served(command: Sequence[str]) -> Iterator[tuple[str, int, float]]:
    """A server on the first core: its address, process, and seconds until it answers."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*_on_its_core(), *command],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        while True:
            try:
                urllib.request.urlopen(address).read()
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.005)
        yield address, process.pid, time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _on_its_core() -> list[str]:
    return ["taskset", "-c", str(_cores()[0])]


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _mib(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def _busy(process: int) -> float:
    """Seconds that a process has had a core."""
    *_, fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")
    used = fields.split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def _wrk(address: str, process: int, paths: Sequence[str], home: Path) -> dict[str, float]:
    """Ask addresses for some seconds, from the last core."""
    file, script = home / "paths", Path(__file__).with_name("questions.lua")
    file.write_text("".join(f"{path}\n" for path in paths), encoding="ascii")
    command = ["taskset", "-c", str(_cores()[-1]), "wrk", "-t", "1", "-c", str(CONNECTIONS)]
    command += [
        "-d",
        f"{SECONDS}s",
        "--timeout",
        "20s",
        "-s",
        str(script),
        address,
        "--",
        str(file),
    ]
    before = _busy(process)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    busy = {"busy": _busy(process) - before}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1]) | busy
    assert not found["failed"], done.stdout
    return found


def _medians(data: str, questions: str, turns: Sequence[dict[str, float]]) -> Answered:
    rate = statistics.median(turn["requests"] / turn["seconds"] for turn in turns)
    cpu = statistics.median(1e3 * turn["busy"] / turn["requests"] for turn in turns)
    p50, p99 = (statistics.median(turn[name] for turn in turns) for name in ("p50", "p99"))
    size = statistics.median(turn["bytes"] / turn["requests"] for turn in turns)
    return Answered(data, questions, rate, cpu, p50, p99, size)


def table(found: Measured) -> str:
    """What was measured, as tables."""
    lines = [
        "**Answers, one core, 8 connections**",
        "",
        "| | questions | answers per second | CPU ms of each | median ms | p99 ms | kB |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.data} | {r.questions} | {r.per_second:,.0f} | {r.cpu:.2f}"
        f" | {r.p50:.2f} | {r.p99:.2f} | {r.bytes / 1e3:.1f} |"
        for r in found.answered
    ]
    lines += ["", "**Start and memory**", ""]
    lines += ["| | published figures | seconds until it answers | MiB then | MiB afterwards |"]
    lines += ["|---|---:|---:|---:|---:|"]
    lines += [
        f"| {p.data} | {p.figures:,} | {p.start:.1f} | {p.mib:,.0f} | {p.mib_after:,.0f} |"
        for p in found.processes
    ]
    lines += ["", "**Pages in Chromium**", ""]
    lines += [
        "| | page | kB in all | kB packed | ms until usable | ms until loaded | ms, longest |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {w.data} | {w.page} | {w.plain / 1e3:.1f} | {w.packed / 1e3:.1f} | {p.usable:.0f}"
        f" | {p.loaded:.0f} | {p.longest:.0f} |"
        for w, p in zip(found.weights, found.loaded, strict=True)
    ]
    return "\n".join([*lines, ""])
