"""What `kill -9` leaves: nothing of confidential files, and of folders what the next run removes.

The processes are real, and so are the kills.
"""

from __future__ import annotations

import itertools
import random
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import eree
import eree_study
import pages
from offices import TOTAL, settings, text
from processes import LONGEST, running
from uses import eree_command

#: `eree` in a process that counts its cells again and again, and says so after every batch.
ENDLESS = """
import itertools, os, sys
from eree.data import tabulate
stream = tabulate.stream
def endless(*given, **named):
    batches = list(stream(*given, **named))
    for batch in itertools.cycle(batches):
        yield batch
        os.write(1, b".")
tabulate.stream = endless
{change}
from eree.cli import main
sys.argv = ["eree", *sys.argv[1:]]
main()
"""
#: The same, once, after a sign from us.
WAITING = """
del os.O_TMPFILE
def waiting(*given, **named):
    os.write(1, b".")
    sys.stdin.read(1)
    yield from stream(*given, **named)
tabulate.stream = waiting
"""
#: `eree` in a process that is killed at some event about a thing in the making, but for those in
#: the cache; it says how many there were if it is not.
KILLED = """
import os, signal, sys
fatal, events, cache = int(sys.argv.pop(1)), 0, os.environ["EREE_CACHE"]
def count(event, given):
    global events
    paths = [str(one) for one in given if isinstance(one, (str, os.PathLike))]
    if any(".partial-" in path and cache not in path for path in paths):
        events += 1
        if events == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
from eree.cli import main
sys.argv = ["eree", *sys.argv[1:]]
try:
    main()
finally:
    os.write(1, f"{events}".encode())
"""
WORD = re.compile(r"^eree: (.*) was left by a process that was killed, and is removed$", re.M)


def hidden(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.startswith("."))


def holds_something(path: Path) -> bool:
    """Whether it is worth a word; what SQLite has beside a file goes with the file."""
    if path.is_dir():
        return any(path.iterdir())
    return path.stat().st_size > 0 and not path.name.endswith(("-journal", "-wal", "-shm"))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("leftovers") / "data", jobs=1_000)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leftovers")
    eree_command("cube", "synth", folder / "survey", "--establishments", 20)
    parts = ("--variables", "occupation,strength", "--most-weight", 2500, "--most-records", 3)
    done = eree_command("cube", "build", folder / "survey", "--out", folder / "a.cube", *parts)
    assert done[0] == 0, done
    return folder / "a.cube"


def killed_while_writing(town: Path, folder: Path, out: str, change: str = "") -> None:
    """Kill `eree tabulate` after some batches, as many as chance will have it."""
    code, arguments = ENDLESS.format(change=change), ("tabulate", str(town), "--by", "place")
    command = [sys.executable, "-c", code, *arguments, "--out", out]
    env = pages.environment() | {"PYTHONWARNINGS": ""}
    with running(command, cwd=folder, env=env) as process:
        assert process.stdout is not None
        for _ in range(random.randrange(1, 2_000)):
            assert process.stdout.read(1) == "."
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=LONGEST)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("out", ["cells.csv", "cells.parquet"])
def test_killed_while_it_writes_exact_counts_it_leaves_nothing(
    town: Path, tmp_path: Path, out: str
) -> None:
    for _ in range(2):
        killed_while_writing(town, tmp_path, out)
        assert list(tmp_path.iterdir()) == []


def test_where_files_must_have_a_name_the_next_run_removes_them_and_says_so(
    town: Path, tmp_path: Path
) -> None:
    """Another file system: one that has no files without a name."""
    killed_while_writing(town, tmp_path, "cells.csv", "del os.O_TMPFILE")
    [left] = hidden(tmp_path)
    assert left.name.startswith(".cells.csv.partial-")
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    done = eree_command("tabulate", town, "--by", "place", "--out", "cells.csv", cwd=tmp_path)
    word = f"eree: {left.name} was left by a process that was killed, and is removed\n"
    assert (done[0], done[2]) == (0, word)
    assert [path.name for path in tmp_path.iterdir()] == ["cells.csv"]


@pytest.mark.parametrize(
    "line",
    [
        "synth out --jobs 1000",
        "release plan.toml --out out --ledger ledger.db",
        "cube synth out --establishments 20",
        "cube protect {cube} --out out --ledger cube.db --epsilon 1",
        "ledger create out --neighbours strong --alpha 0.1 --epsilon 1 --data-set town",
        "study run --out . --jobs 1000 --trials 1 --only workload-1",
    ],
)
def test_whatever_a_kill_leaves_the_next_run_removes_it_and_says_so(
    town: Path, cube: Path, tmp_path: Path, line: str
) -> None:
    homes = (tmp_path / str(number) for number in itertools.count())

    def killed_at(event: int) -> tuple[Path, pages.Done]:
        home = next(homes)
        home.mkdir()
        if not line.startswith("study"):
            (home / "plan.toml").write_text(text(settings(town)), encoding="utf-8")
            eree.Ledger.create(home / "ledger.db", TOTAL, data_set="data")
            eree.Ledger.create(home / "cube.db", eree.Guarantee(eree.RECORD, 9), data_set="data")
        arguments = [word.format(cube=cube) for word in line.split()]
        return home, pages.command(str(event), *arguments, cwd=home, code=KILLED)

    _, undisturbed = killed_at(0)
    assert undisturbed.status == 0, undisturbed
    events = int(undisturbed.out.splitlines()[-1])
    words: list[str] = []
    for event in (events // 2, *random.sample(range(1, events), 2)):
        home, done = killed_at(event)
        assert done.status == -signal.SIGKILL, done
        left = hidden(home)
        for path in left if "ledger create" not in line else ():  # entries are there to be shown
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        worth_a_word = [str(path) for path in left if holds_something(path)]
        told = eree_command("synth", home / "next", "--jobs", 1000)
        assert told[0] == 0
        assert WORD.findall(told[2]) == worth_a_word
        assert hidden(home) == []
        words += worth_a_word
    assert words


def test_what_another_process_is_making_is_left_alone(town: Path, tmp_path: Path) -> None:
    """Two at once: one waits in the middle of its work, and ends as if it had been alone."""
    env = pages.environment() | {"PYTHONWARNINGS": ""}
    command = [sys.executable, "-c", ENDLESS.format(change=WAITING), "tabulate", str(town)]
    with running(
        [*command, "--by", "place", "--out", "a.csv"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.PIPE,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.read(1) == "."
        [making] = hidden(tmp_path)
        for out in ("b.csv", "c.csv"):
            done = eree_command("tabulate", town, "--by", "place", "--out", out, cwd=tmp_path)
            assert (done[0], done[2]) == (0, "")
        assert hidden(tmp_path) == [making]
        _, err = first.communicate(" ", timeout=LONGEST)
    assert (first.returncode, err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "b.csv", "c.csv"}
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


#: Makes files and folders as fast as it can, where others do the same.
MAKING = """
import sys
from pathlib import Path
from eree.partial import appearing_folder, replacing_file
home, me = Path(sys.argv[1]), sys.argv[2]
for number in range(150):
    with replacing_file(home / "shared") as partial:
        partial.write_text(me)
    with appearing_folder(home / f"{me}-{number}") as folder:
        (folder / "mine").write_text(me)
"""


def test_many_at_once_take_nothing_from_each_other(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MAKING, tmp_path, str(me)], stderr=subprocess.PIPE, text=True
        )
        for me in range(3)
    ]
    for process in processes:
        _, err = process.communicate(timeout=LONGEST)
        assert (process.returncode, err) == (0, "")
    assert hidden(tmp_path) == []
    assert len(list(tmp_path.glob("*-*/mine"))) == 3 * 150


def test_an_interrupted_process_leaves_nothing(tmp_path: Path) -> None:
    code = KILLED.replace("SIGKILL", "SIGINT")
    for event in (1, 3, 5):
        done = pages.command(str(event), "synth", "out", "--jobs", "1000", cwd=tmp_path, code=code)
        assert done.status == 130, done
        assert list(tmp_path.iterdir()) == []
