"""`eree release` that fails: one sentence, its status, and a ledger that says what was spent."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import eree
import eree_study
import pages
from disks import OBEDIENT
from offices import SPENT, TOTAL, left, settings, text
from processes import LONGEST, ended
from uses import eree_command


@pytest.fixture
def office(population: eree.Tables, tmp_path: Path) -> Path:
    """A folder with a plan and a ledger, where nothing is out of bounds at the end."""
    (tmp_path / "plan.toml").write_text(text(settings(population.folder)), encoding="utf-8")
    eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    return tmp_path


#: `eree release` in a process where counting meets something.
BROKEN = """
import os, signal, sys
from eree.release import publish
stream = publish.stream
def met(*given, **named):
    {what}
    return stream(*given, **named)
publish.stream = met
from eree.cli import main
sys.argv = ["eree", "release", "plan.toml", "--out", "out", "--ledger", "ledger.db", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("raise OSError(28, 'worker 4711')", 2, "the disk of {home} is full; {spent}; free space"),
        ("raise ValueError('worker 4711')", 2, "eree met a fault of its own (ValueError at"),
        ("os.kill(os.getpid(), signal.SIGINT)", 130, "interrupted; nothing was left half-written"),
        ("os.kill(os.getpid(), signal.SIGTERM)", 130, "interrupted; nothing was left half-written"),
        ("os.kill(os.getpid(), signal.SIGHUP)", 130, "interrupted; nothing was left half-written"),
    ],
)
def test_the_command_ends_in_one_sentence_that_says_what_was_spent(
    office: Path, what: str, status: int, words: str
) -> None:
    command = [sys.executable, "-c", BROKEN.format(what=what), "--json"]
    done = ended(command, cwd=office, env=pages.environment() | {"PYTHONWARNINGS": ""})
    spent = SPENT.format(ledger="ledger.db")
    told = json.loads(done.stdout)["error"]
    assert done.returncode == status
    assert done.stderr == f"eree: {told}\n"
    assert told.startswith(words.format(home=office, spent=spent))
    assert f"; {spent}" in told
    assert "4711" not in told
    assert left(office) == {"plan.toml"}
    _, shown, _ = eree_command("ledger", "show", office / "ledger.db")
    assert "settles" not in shown
    assert re.search(r"2 .* 3 +0 +reserved", shown)
    assert "spent  epsilon 3" in shown


#: `eree release` in a process that gets a signal while the connection that settled is closed.
CLOSING = """
import os, signal, sqlite3, sys
from eree.budget.ledger import Ledger
class Closing(sqlite3.Connection):
    def {call}(self):
        super().{call}()
        os.kill(os.getpid(), signal.SIGINT)
settle, connect = Ledger.settle, sqlite3.connect
def settling(*given):
    sqlite3.connect = lambda *some, **named: connect(*some, factory=Closing, **named)
    settle(*given)
Ledger.settle = settling
from eree.cli import main
sys.argv = ["eree", "release", "plan.toml", "--out", "out", "--ledger", "ledger.db", "--json"]
main()
"""


@pytest.mark.parametrize("call", ["rollback", "close"])
def test_an_interrupt_after_the_settling_is_reported_without_a_traceback(
    office: Path, call: str
) -> None:
    command = [sys.executable, "-c", CLOSING.format(call=call)]
    done = ended(command, cwd=office, env=pages.environment() | {"PYTHONWARNINGS": ""})
    told = (
        f"interrupted; nothing was left half-written; the release in {office / 'out'} is whole and"
        " may be used; its price is settled (entry 2 of ledger.db)"
    )
    assert (done.returncode, done.stderr) == (130, f"eree: {told}\n")
    assert json.loads(done.stdout) == {"error": told}
    assert eree.Ledger.open(office / "ledger.db").account().settled.keys() == {2}


def test_a_release_in_the_background_is_stopped_by_a_polite_kill_alone(office: Path) -> None:
    """Under `nohup`, or behind `&` in a script: Ctrl-C and a closed terminal mean others then."""
    for number, status in ((signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGTERM, 130)):
        what = f"os.kill(os.getpid(), signal.{number.name})"
        done = ended(
            [sys.executable, "-c", BROKEN.format(what=what), "--out", number.name],
            ignoring=[signal.SIGINT, signal.SIGHUP],
            cwd=office,
            env=pages.environment() | {"PYTHONWARNINGS": ""},
        )
        assert done.returncode == status, done.stderr
        assert (office / number.name).exists() is (status == 0)
    assert len(eree.Ledger.open(office / "ledger.db").account().settled) == 2


def test_a_full_disk_under_the_output_does_not_undo_a_release(office: Path) -> None:
    command = "eree release plan.toml --out out --ledger ledger.db > /dev/full"
    assert pages.shell(command, office) == (
        "eree: No space left on device; nothing was left half-written; the release in out is"
        " whole, and its price is settled\n"
    )
    assert len(eree.Ledger.open(office / "ledger.db").account().settled) == 1


@pytest.mark.parametrize(
    ("forbidden", "mode", "arguments", "words"),
    [
        ("plan.toml", 0, [], "'PLAN.toml': Path 'plan.toml' is not readable; see 'eree rel"),
        ("data/schema.toml", 0, [], "data/schema.toml cannot be read: Permission denied"),
        ("data/workplace.parquet", 0, [], "workplace (workplace.parquet): cannot be read"),
        ("data/job.parquet", 0, [], "job (job.parquet): cannot be read"),
        ("data", 0, [], "data/schema.toml cannot be read: Permission denied"),
        ("ledger.db", 0, [], "ledger.db cannot be opened; a ledger is a file, and it takes the"),
        ("ledger.db", 0o444, [], "ledger.db cannot be written; it takes the permission to write"),
        ("key.pem", 0, ["--sign", "key.pem"], "'--sign': Path 'key.pem' is not readable; see"),
        ("no.pem", None, ["--sign", "no.pem"], "there is no key no.pem; check the path"),
        ("home", 0o555, ["--out", "home/out"], "nothing can be written in {home}/home (permission"),
        ("home", 0, ["--out", "home/out"], "home/out cannot be looked at (permission denied);"),
        ("home", 0, ["--out", "home"], "'--out': Path 'home' is not readable; see 'eree"),
        ("loop", None, ["--out", "loop"], "loop cannot be looked at (too many levels of symbolic"),
    ],
)
def test_what_may_not_be_touched_is_reported_in_a_sentence_and_costs_nothing(
    office: Path, forbidden: str, mode: int | None, arguments: list[str], words: str
) -> None:
    eree_study.synthesize(office / "data", jobs=1_000)
    (office / "plan.toml").write_text(text(settings("data")), encoding="utf-8")
    (office / "key.pem").write_text("a key")
    (office / "home").mkdir()
    (office / "loop").symlink_to("loop")
    before = left(office)
    path = office / forbidden
    if mode is not None:
        path.chmod(mode)
    given = arguments if "--out" in arguments else [*arguments, "--out", "out"]
    eree_itself = Path(sys.executable).with_name("eree")
    done = subprocess.run(
        [*OBEDIENT, eree_itself, "release", "plan.toml", "--ledger", "ledger.db", *given],
        cwd=office,
        env=pages.environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if mode is not None:
        path.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"eree: [^\n]+[^\n.]\n", done.stderr)
    assert words.format(home=office) in done.stderr
    assert left(office) == before
    assert list((office / "home").iterdir()) == []
    assert eree.Ledger.open(office / "ledger.db").spent().epsilon == 0


def test_what_cannot_be_paid_or_written_is_refused_before_the_tables_are_read(
    population: eree.Tables, tmp_path: Path
) -> None:
    shutil.copytree(population.folder, tmp_path / "data")
    (tmp_path / "data" / "job.parquet").write_bytes(b"no table")  # which a plan does not look at
    (tmp_path / "plan.toml").write_text(text(settings(tmp_path / "data")), encoding="utf-8")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").touch()
    small = eree.Guarantee(TOTAL.neighbours, TOTAL.epsilon / 100, TOTAL.delta)
    eree.Ledger.create(tmp_path / "small.db", small, data_set="data")
    eree.Ledger.create(tmp_path / "other.db", TOTAL, data_set="another")
    eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")
    for ledger, out, words in (
        ("small.db", "out", "left"),
        ("other.db", "out", "another"),
        ("ledger.db", "taken", "is not a new or empty folder"),
        ("ledger.db", "out", "job.parquet"),
    ):
        plan, where = tmp_path / "plan.toml", tmp_path / out
        status, _, said = eree_command(
            "release", plan, "--out", where, "--ledger", tmp_path / ledger
        )
        assert status == 2 and words in said, said
        assert ("parquet" in said) is (words == "job.parquet")
