"""The command line as its user meets it: real processes, real signals, real shells."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
import pages
from eree.cli import exit_status, terminal
from eree.cli.interrupts import SIGNALS, Interrupts
from pages import Done
from pages import command as run
from processes import LONGEST, PATIENCE, ended, running, until

EREE = Path(sys.executable).with_name("eree")
one_demo = pytest.mark.xdist_group("demo in ascii")


def cold(
    *arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Done:
    """A command in a process that imports what it needs itself."""
    done = subprocess.run(
        [EREE, *arguments],
        cwd=cwd,
        env=pages.environment() | (env or {}),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("cli") / "data", jobs=3_000)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = eree_study.synthesize(tmp_path_factory.mktemp("cli") / "faulty", jobs=2_000)
    jobs = parquet.read_table(folder / "job.parquet")
    parquet.write_table(jobs.slice(10), folder / "job.parquet")
    with (folder / "schema.toml").open("a", encoding="utf-8") as file:
        file.write("[surprise]\n")
    return folder


# --------------------------------------------------------------------------- help and usage


def test_without_a_command_the_help_shows() -> None:
    done = run()
    assert (done.status, done.err) == (0, "")
    assert "Commands:" in done.out
    assert done.out == run("--help").out == run("-h").out


@pytest.mark.parametrize("command", ["demo", "synth", "check", "tabulate", "completion"])
def test_every_help_has_examples_and_fits_a_terminal(command: str) -> None:
    done = run(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Examples:\n  {'eval' if command == 'completion' else f'eree {command}'}" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert command == "completion" or "--json" in done.out


def test_the_version_and_python_dash_m() -> None:
    assert cold("--version") == Done(0, f"eree {eree.__version__}\n", "")
    module = subprocess.run(
        [sys.executable, "-m", "eree", "--version"],
        env=pages.environment(),
        capture_output=True,
        text=True,
    )
    assert (module.returncode, module.stdout) == (0, f"eree {eree.__version__}\n")


def test_a_command_starts_without_what_only_some_commands_need() -> None:
    """Arithmetic, databases and data frames are imported when they are first used."""
    heavy = ("numpy", "scipy", "flint", "pyarrow", "duckdb", "sqlalchemy", "cryptography")
    code = f"import sys, eree.cli.exit_status; print([n for n in {heavy} if n in sys.modules])"
    started = subprocess.run(
        [sys.executable, "-c", code], env=pages.environment(), capture_output=True, text=True
    )
    assert (started.returncode, started.stdout) == (0, "[]\n"), started.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["synth", "x", "--jbos", "5"], "No such option '--jbos'"),
        (["synth", "x", "--jobs", "many"], "'many' is not a valid integer"),
        (["synth", "x", "--jobs", "5"], "1,000 to 500,000,000 jobs"),
        (["synth", "x", "--jobs", "2000", "--workplaces", "-1"], "workplaces"),
        (["synth", "x", "--seed", "-1"], "seed"),
        (["demo", "--jobs", "5"], "1,000 to 500,000,000 jobs"),
        (["check"], "Missing argument 'FOLDER'"),
        (["check", "nowhere"], "nowhere is not a folder"),
        (["check", "."], "holds no schema.toml"),
        (["check", "nowhere", "--threads", "0"], "not in the range"),
        (["tabulate", "nowhere"], "Missing option '--out'"),
        (["completion", "tcsh"], "is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_a_wrong_request_gets_one_sentence_and_status_2(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert words in done.err
    assert re.fullmatch(r"eree: [^\n]+\n", done.err)
    assert list(tmp_path.iterdir()) == []
    as_json = run(*arguments, "--json", cwd=tmp_path)
    assert as_json.status == 2
    assert as_json.out.count("\n") == 1
    assert list(json.loads(as_json.out)) == ["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--by", "shoe"], "by names 'shoe'"),
        (["--where", "sex"], "'sex' is not a filter"),
        (["--where", "sex=X"], "'X' is not a declared value of sex"),
        (["--drop-from", "0"], "theta must be an integer of workers"),
        (["--drop-from", "5", "--scale-to", "5"], "choose one"),
        (["--engine", "abacus"], "no engine named 'abacus'"),
        (["--memory-limit", "lots"], "memory limit"),
        (["--out", "cells.xlsx"], "must end in .parquet or .csv"),
        (["--out", "nowhere/cells.csv"], "does not exist"),
    ],
)
def test_a_marginal_that_cannot_be_is_refused(
    arguments: list[str], words: str, data: Path, tmp_path: Path
) -> None:
    done = run("tabulate", data, "--out", "cells.csv", *arguments, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert words in done.err
    assert re.fullmatch(r"eree: [^\n]+\n", done.err)
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------- the commands


GIVEN = (
    "postgresql://clerk:{}@127.0.0.1:1/jobs",
    "postgres://clerk:{}@host/jobs?sslmode=disable",
    "postgresql://127.0.0.1:1/jobs?user=clerk&password={}",
    "postgresql+psycopg://clerk:{}@/jobs",
    "postgresql:clerk:{}@host/jobs",
    "host=127.0.0.1 port=1 user=clerk password = {}",
)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("secret", ["geheim", "ge,heim/=a b'@geheim"])
@pytest.mark.parametrize(
    "line",
    [
        "verify out {}",
        "verify {}",
        "verify out --ledger {}",
        "verify out --ledger={}",
        "verify out --fresh={}",
        "{}",
        "--{}",
        "verify --foo={}",
        "verify -x{}",
        "ledger {}",
        "ledger show {} {}",
        "ledger show {}",
        "ledger create {} --neighbours strong --alpha {} --epsilon 1 --data-set town",
        "ledger create new.db --neighbours {} --alpha 1 --epsilon 1 --data-set town",
        "release {} --out out --ledger {}",
        "check {}",
        "check . --threads {}",
        "check . --engine {}",
        "tabulate . --by {} --where {}=1 --out out.csv",
        "tabulate . --out {}/out.csv",
        "infuse . --key {} --ramp {} --out out.csv",
        "synth made --jobs 1000 --out {}",
        "synth {} --jobs {}",
        "serve {} --port {}",
    ],
)
def test_no_password_of_an_address_is_printed_wherever_it_stands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    line: str,
    secret: str,
    given: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [word.format(*[given.format(secret)] * 2) for word in line.split(" ")]
    assert exit_status.run(arguments, Interrupts()) != 0
    out, err = capfd.readouterr()
    assert re.fullmatch(r"eree: \S[^\n]+\n", err)
    assert "heim" not in out + err
    assert not [path for path in tmp_path.rglob("*") if "heim" in path.name]


@pytest.mark.parametrize("given", [*GIVEN[:3], "postgresql://[::1]:5432/jobs?mail=a:b@c"])
def test_a_ledger_is_opened_with_its_password(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address, seen = given.format("geheim@"), []

    def opened(where: str) -> eree.Ledger:
        seen.append(where)
        raise eree.Refusal("seen")

    monkeypatch.setattr(eree.Ledger, "open", opened)
    monkeypatch.setattr(eree.Release, "open", lambda _folder: None)
    for arguments in (
        ["ledger", "show", address],
        ["verify", "out", "--ledger", address],
        ["verify", f"--ledger={address}", "out"],
    ):
        assert exit_status.run(arguments, Interrupts()) == 2
    assert seen == [address] * 3


def test_two_addresses_with_passwords_are_not_mistaken_for_each_other(
    capfd: pytest.CaptureFixture[str],
) -> None:
    first, second = (f"postgresql://clerk:geheim@{host}/jobs" for host in "ab")
    assert exit_status.run(["verify", first, "--ledger", second], Interrupts()) == 2
    words = "eree: two addresses with passwords are one too many; name one ledger\n"
    assert capfd.readouterr() == ("", words)


def test_synth_then_check_then_tabulate(tmp_path: Path) -> None:
    made = cold("synth", "my data", "--jobs", "2000", cwd=tmp_path)
    assert made == Done(0, "Made 2,000 jobs in my data.  Next: eree check 'my data'\n", "")
    again = cold("synth", "my data", "--jobs", "2000", cwd=tmp_path)
    assert (again.status, again.out) == (2, "")
    assert cold("check", "my data", cwd=tmp_path) == Done(
        0, "my data: no fault found; 97 workplaces.\n", ""
    )
    total = cold("tabulate", "my data", "--out", "total.csv", cwd=tmp_path)
    assert total == Done(0, "total.csv: 1 confidential cell of total\n", "")
    assert (tmp_path / "total.csv").read_text("utf-8").splitlines()[1].startswith("2000,")
    assert (tmp_path / "total.csv").stat().st_mode & 0o077 == 0
    once_more = cold("tabulate", "my data", "--out", "total.csv", cwd=tmp_path)
    assert (once_more.status, once_more.out) == (2, "")
    assert "exists already" in once_more.err


def test_json_is_one_object_and_nothing_else(data: Path, faulty: Path, tmp_path: Path) -> None:
    def answer(*arguments: str | Path, status: int = 0) -> dict[str, object]:
        done = run(*arguments, "--json", cwd=tmp_path)
        assert (done.status, done.err) == (status, "")
        assert done.out.count("\n") == 1
        found = json.loads(done.out)
        assert isinstance(found, dict)
        return found

    assert answer("synth", "made", "--jobs", "1000") == {"folder": "made", "jobs": 1000, "seed": 1}
    assert answer("check", data) == {"sound": True, "workplaces": 145, "faults": []}
    found = answer("check", faulty, status=1)
    assert found["sound"] is False
    assert found["workplaces"] is None
    faults = found["faults"]
    assert isinstance(faults, list)
    assert {"table": "worker", "file": "worker.parquet", "column": "worker_id"}.items() <= next(
        fault.items() for fault in faults if fault["rows"] == 10
    )
    cells = answer("tabulate", data, "--by", "state", "--out", "c.csv")
    assert cells == {"file": "c.csv", "cells": 3, "confidential": True}
    demo = answer("demo", "--out", "demo", "--jobs", "2000")
    assert demo == json.loads((tmp_path / "demo" / "demo.json").read_text("utf-8"))


def test_check_lists_every_fault_and_exits_with_1(faulty: Path) -> None:
    done = run("check", faulty)
    assert (done.status, done.err) == (1, "")
    first, *faults = done.out.splitlines()
    assert first == f"{faulty}: {len(faults)} faults"
    assert "  worker (worker.parquet), worker_id: the worker has no job [10 rows]" in faults
    assert any("surprise" in fault for fault in faults)
    refused = run("tabulate", faulty, "--out", "c.csv")
    assert refused.status == 2
    assert re.fullmatch(r"eree: [^\n]+\n", refused.err)


def test_attributes_may_be_named_together_or_apart(data: Path, tmp_path: Path) -> None:
    run("tabulate", data, "--by", "state,sex", "--out", "a.csv", cwd=tmp_path)
    run("tabulate", data, "--by", "state", "--by", "sex", "--out", "b.csv", cwd=tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_names_that_look_like_markup_come_out_as_they_are(tmp_path: Path) -> None:
    name = "[bold]x"
    done = run("synth", name, "--jobs", "1000", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert "Made 1,000 jobs in [bold]x." in done.out
    refused = run("check", "[red]nowhere\nat all", cwd=tmp_path)
    assert refused.err.startswith("eree: [red]nowhere at all is not a folder")
    assert refused.err.count("\n") == 1


@pytest.fixture(scope="module")
def demo_in_ascii(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A demo whose output nobody reads as more than ASCII."""
    out = tmp_path_factory.mktemp("ascii") / "demo"
    return run("demo", "--jobs", "1000", "--out", out, env={"PYTHONIOENCODING": "ascii"})


@one_demo
def test_a_terminal_that_knows_only_ascii_stops_no_work(
    demo_in_ascii: Done, data: Path, tmp_path: Path
) -> None:
    assert (demo_in_ascii.status, demo_in_ascii.err) == (0, "")
    assert "?" in demo_in_ascii.out
    tabulate = ("tabulate", data, "--by", "state,sex", "--out", "c.csv")
    done = cold(*tabulate, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.err) == (0, "")


def test_an_unexpected_error_is_reported_without_its_words(tmp_path: Path) -> None:
    code = (
        "import eree, sys\n"
        "def fail(*_, **__): raise ValueError('worker 4711 earns too much')\n"
        "eree.check = fail\n"
        "from eree.cli import main\n"
        "sys.argv = ['eree', 'check', 'x']\n"
        "main()\n"
    )
    done = run(code=code)
    assert done.status == 2
    assert re.fullmatch(r"eree: eree met a fault of its own \(ValueError.*\)[^\n]*\n", done.err)
    assert "4711" not in done.err + done.out


def test_an_output_that_nobody_reads_is_no_disaster(data: Path) -> None:
    for command in (f"check {data}", f"check {data} --json", "--help"):
        done = subprocess.run(
            ["bash", "-c", f"{EREE} {command} | head -0; exit ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            env=pages.environment(),
        )
        assert done.stderr == ""
        assert done.returncode in (0, 141)


def test_a_full_disk_under_the_output_is_reported(data: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.fail("this test needs /dev/full")
    done = subprocess.run(
        ["bash", "-c", f"{EREE} check {data} > /dev/full"],
        capture_output=True,
        text=True,
        env=pages.environment(),
    )
    assert done.returncode == 2
    assert re.fullmatch(r"eree: No space left on device[^\n]*\n", done.stderr)


# -------------------------------------------------------------------------------- the terminal


def on_terminal(
    *arguments: str | Path, columns: int = 80, command: Sequence[str | Path] = ()
) -> str:
    """What a command shows on a terminal, with its control codes."""
    leader, follower = pty.openpty()
    env = {"TERM": "xterm", "COLUMNS": str(columns)}
    shown = b""
    process: AbstractContextManager[Any] = nullcontext(None)
    if command:
        ends = {"stdout": follower, "stderr": follower}
        process = running([*command, *arguments], **ends, env=pages.environment() | env)
    with process as started:
        if started is None:
            started = pages.started(arguments, [follower, follower, follower], env=env)
        os.close(follower)
        while True:
            try:
                chunk = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(leader)
        started.wait()
    return shown.decode()


@one_demo
def test_only_a_terminal_gets_colours(demo_in_ascii: Done) -> None:
    assert "\x1b[" in on_terminal("check", "nowhere")
    for done in (run("check", "nowhere"), demo_in_ascii):
        assert "\x1b" not in done.out + done.err


def test_short_work_shows_no_progress(data: Path) -> None:
    """On a busy machine it takes long, too: here only an hour is no longer short."""
    assert terminal.QUIET_SECONDS >= 1
    code = "from eree.cli import main, terminal; terminal.QUIET_SECONDS = 3600; main()"
    shown = on_terminal("check", data, command=[sys.executable, "-c", code])
    assert shown == f"{data}: no fault found; 145 workplaces.\r\n"


@pytest.mark.parametrize("asked", ["-v check {}", "check {}"])
def test_every_step_is_a_line_with_its_time_if_that_is_asked_for(data: Path, asked: str) -> None:
    """By an option or by the environment; without a terminal, and beside one JSON object."""
    verbose = {} if "-v" in asked else {"EREE_VERBOSE": "1"}
    done = pages.command(*asked.format(data).split(), "--json", env=verbose)
    assert json.loads(done.out)["sound"]
    lines = done.err.splitlines()
    assert len(lines) > 2
    for line in lines:
        assert re.fullmatch(r"eree: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [a-z][^\n]+", line)
    assert pages.command("check", data).err == ""


def test_the_ledger_of_an_office_is_named_once(data: Path, tmp_path: Path) -> None:
    plan = f"""data = "{data}"
[privacy]
neighbours = "edge"
epsilon = "1"
[[table]]
name = "jobs"
by = ["sector"]
epsilon = "1"
"""
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    ledger = {"EREE_LEDGER": str(tmp_path / "ledger.db")}
    make = ("ledger", "create", ledger["EREE_LEDGER"], "--neighbours", "edge", "--epsilon", "1")
    assert pages.command(*make).status == 0
    assert pages.command("release", "plan.toml", "--out", "out", cwd=tmp_path).status == 2
    released = pages.command("release", "plan.toml", "--out", "out", cwd=tmp_path, env=ledger)
    assert (released.status, released.err) == (0, "")
    planned = pages.command("plan", "plan.toml", cwd=tmp_path, env=ledger)
    assert "The ledger has epsilon 0, delta 0 left: NOT ENOUGH." in planned.out
    drawn = pages.command("plan", "plan.toml", "--explore", "e.png", cwd=tmp_path, env=ledger)
    assert (drawn.status, drawn.err) == (0, "")


def test_long_work_shows_progress_even_inside_one_step(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from eree.cli import terminal\n"
        "terminal.QUIET_SECONDS = 0.2\n"
        "with terminal.progress() as tell:\n"
        "    tell('counting [beans]', 0.5)\n"
        "    sys.stdin.readline() or time.sleep(1)\n"
    )
    script = tmp_path / "work.py"
    script.write_text(code, encoding="utf-8")
    leader, follower = pty.openpty()
    ends = {"stdin": subprocess.PIPE, "stdout": follower, "stderr": follower}
    surroundings = pages.environment() | {"TERM": "xterm"}
    with running([sys.executable, script], **ends, env=surroundings) as process:
        os.close(follower)
        shown = b""
        while b"counting [beans]" not in shown:
            shown += os.read(leader, 65536)  # fails when the work has ended
        process.communicate("go on\n", timeout=PATIENCE)
    os.close(leader)
    assert process.returncode == 0
    piped = ended([sys.executable, script], stdin=subprocess.DEVNULL, env=pages.environment())
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "", "")


def test_a_narrow_terminal_is_readable(tmp_path: Path) -> None:
    shown = on_terminal("demo", "--jobs", "1000", "--out", tmp_path / "d", columns=40)
    table = [line for line in shown.splitlines() if "│" in line]
    assert table
    plain = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
    assert max(len(plain.sub("", line)) for line in table) <= 40


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_completion_script(shell: str) -> None:
    done = run("completion", shell)
    assert (done.status, done.err) == (0, "")
    assert f"_EREE_COMPLETE={shell}_complete" in done.out


def test_bash_completes_commands_and_options() -> None:
    script = (
        'eval "$(eree completion bash)"\n'
        "complete_words() {\n"
        '  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
        '  _eree_completion eree; echo "${COMPREPLY[@]}"\n'
        "}\n"
        "complete_words eree sy\n"
        "complete_words eree tabulate --wh\n"
        "complete_words eree completion z\n"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=pages.environment()
    )
    assert (done.stdout, done.stderr) == ("synth\n--where\nzsh\n", "")


# -------------------------------------------------------------------------------- interruptions


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough data that checking and counting take a while."""
    return eree_study.synthesize(tmp_path_factory.mktemp("cli") / "large", jobs=3_000_000)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder to work in, and one for temporary files."""
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    yield tmp_path / "work", tmp_path / "temporary"


def interrupted(
    arguments: list[str | Path],
    number: signal.Signals,
    delay: float,
    room: tuple[Path, Path],
    again: bool = False,
) -> Done:
    """Send a signal some time after the command has begun to make something.

    It may come when all is done, on a machine that is busy elsewhere; then, once more and sooner.
    """
    work, temporary = room
    home = work.parent
    # an interrupt leaves files to the garbage collector, which is no fault of ours
    env = {"TMPDIR": str(temporary), "PYTHONWARNINGS": ""}
    for attempt in range(8):
        with (home / "out").open("wb+") as out, (home / "err").open("wb+") as err:
            streams = [out.fileno(), out.fileno(), err.fileno()]
            process = pages.started(arguments, streams, cwd=work, env=env)
            try:
                assert until(lambda: any(work.iterdir()) or any(temporary.iterdir()))
                time.sleep(delay / 2**attempt)
            finally:
                os.kill(process.pid, number)
            if again:
                time.sleep(0.01)
                os.kill(process.pid, number)
            status = process.wait()
        if status != 0:
            break
        for made in work.iterdir():
            shutil.rmtree(made) if made.is_dir() else made.unlink()
    return Done(status, (home / "out").read_text("utf-8"), (home / "err").read_text("utf-8"))


COMMANDS: dict[str, list[str]] = {
    "synth": ["synth", "out", "--jobs", "3000000"],
    "check": ["check", "LARGE"],
    "tabulate": ["tabulate", "LARGE", "--by", "tract,sector,sex,education", "--out", "out.csv"],
    "demo": ["demo", "--out", "out", "--jobs", "3000000"],
}


@pytest.mark.parametrize(
    ("delay", "number"),
    [(0.0, signal.SIGTERM), (0.15, signal.SIGINT), (0.4, signal.SIGTERM)],
    ids=["at-once", "soon", "later"],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupted_command_leaves_nothing(
    command: str, number: signal.Signals, delay: float, room: tuple[Path, Path], large: Path
) -> None:
    """`make torture` sends each signal at each moment."""
    arguments = [large if word == "LARGE" else word for word in COMMANDS[command]]
    assert_nothing_left(interrupted(arguments, number, delay, room), room)


def assert_nothing_left(done: Done, room: tuple[Path, Path]) -> None:
    """An interrupted command says so, and nothing else stays of it."""
    assert done == Done(130, "", "eree: interrupted; nothing was left half-written\n")
    work, temporary = room
    assert list(work.iterdir()) == []
    assert until(lambda: not any(temporary.iterdir())), list(temporary.iterdir())


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_command_is_interrupted_while_it_starts(
    number: signal.Signals, delay: float, room: tuple[Path, Path]
) -> None:
    """A process that still imports what it needs."""
    work, temporary = room
    # an interrupted import leaves its file to the garbage collector, which is no fault of ours
    env = pages.environment() | {"TMPDIR": str(temporary), "PYTHONWARNINGS": ""}
    with running([EREE, *COMMANDS["synth"]], cwd=work, env=env) as process:
        status = Path(f"/proc/{process.pid}/status")
        heard = re.compile(r"^SigCgt:\s*[0-9a-f]+[4-7c-f][0-9a-f]{3}$", re.MULTILINE)  # SIGTERM
        assert until(lambda: heard.search(status.read_text(encoding="utf-8")) is not None)
        time.sleep(delay)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert_nothing_left(Done(process.returncode, out, err), room)


def test_an_impatient_user_leaves_nothing_either(room: tuple[Path, Path], large: Path) -> None:
    for command in ("synth", "tabulate"):
        arguments = [large if word == "LARGE" else word for word in COMMANDS[command]]
        done = interrupted(arguments, signal.SIGINT, 0.3, room, again=True)
        assert (done.status, done.out) == (130, "")
        assert done.err == "eree: interrupted; nothing was left half-written\n"
        assert list(room[0].iterdir()) == []
        assert until(lambda: not any(room[1].iterdir()))


def test_an_interrupt_after_the_end_of_a_command_is_too_late() -> None:
    interrupts = Interrupts()
    assert exit_status.run(["--version"], interrupts) == 0
    try:
        interrupts._stop(signal.SIGINT, None)  # before the process has gone
    except KeyboardInterrupt:
        pytest.fail("it is interrupted all the same")


def test_an_interrupt_is_one_json_object_too(room: tuple[Path, Path], large: Path) -> None:
    done = interrupted(["check", large, "--json"], signal.SIGINT, 0.2, room)
    assert done.status == 130
    assert json.loads(done.out) == {"error": "interrupted; nothing was left half-written"}


def test_an_interrupt_that_nothing_can_raise_is_found_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python reports an exception in a callback of the collector, and goes on."""
    interrupts = Interrupts()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    class Noticed:
        pass

    try:
        with interrupts:
            interrupts.begin()
            noticed = Noticed()
            callback = weakref.ref(noticed, lambda _: signal.raise_signal(signal.SIGTERM))
            del noticed
            assert callback() is None and interrupts.came
            with pytest.raises(KeyboardInterrupt):
                interrupts.check()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert capsys.readouterr() == ("", "")


def test_success_and_refusal_end_without_a_word_of_the_engine(data: Path, tmp_path: Path) -> None:
    """Some engines complain at the very end about objects that are still alive."""
    good = cold("tabulate", data, "--by", "place,sex", "--out", "c.parquet", cwd=tmp_path)
    assert (good.status, good.err) == (0, "")
    tight = cold("check", data, "--memory-limit", "1MB", cwd=tmp_path)
    assert tight.status == 2
    assert re.fullmatch(r"eree: [^\n]+\n", tight.err)
