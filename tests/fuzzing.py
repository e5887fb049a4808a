"""A fuzz of all commands: inputs by the thousand that were changed at random, each judged alike.

An input is named by its kind and its number; both together seed all that is drawn for it.  A
command runs in this process through the entry point of the real one.  Whatever it is given,

- it ends with status 0, 1 or 2 and in its own words: no traceback, no "fault of its own";
- no planted value is in what it prints, logs or raises, nor in what it writes for the public;
- it ends, within a bounded amount of work;
- it leaves what it was given as it was, and nothing else behind but what it was asked to write.

`python tests/fuzzing.py KIND NUMBER` tries one input again and keeps it in build/fuzz, where the
inputs of failed tests are kept, too.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest import mock

from jinja2 import Environment
from starlette.testclient import TestClient

from eree.cli import exit_status
from eree.cli.interrupts import Interrupts
from eree.web.generations import Generations
from eree.web.server import QueryTool
from fuzz_arguments import PIPE, make_arguments
from fuzz_kinds import (
    LEDGERS,
    Command,
    Make,
    make_cube_file,
    make_linked_csv,
    make_linked_parquet,
    make_microdata,
    make_plan,
    make_schema,
    make_survey,
)
from fuzz_office import PLANTED, make_office
from fuzz_releases import (
    make_ledger,
    make_map,
    make_protected,
    make_record,
    make_small,
    make_study,
    make_tables,
)

KEPT = Path(__file__).parents[1] / "build" / "fuzz"
#: Seconds of work, and of waiting, after which a command counts as one that never ends; what it
#: does takes milliseconds.  The last is for code that hears no signal.
WORK, WAIT, LAST = 60.0, 600.0, 1200.0
KINDS: dict[str, Make] = {
    "schema": make_schema,
    "plan": make_plan,
    "survey": make_survey,
    "linked-csv": make_linked_csv,
    "linked-parquet": make_linked_parquet,
    "microdata": make_microdata,
    "cube-file": make_cube_file,
    "release-record": make_record,
    "release-tables": make_tables,
    "protected-cube": make_protected,
    "ledger": make_ledger,
    "map": make_map,
    "small-files": make_small,
    "study": make_study,
    "arguments": make_arguments,
}
TROUBLES = ("faults_of_its_own", "planted_values_shown", "never_ended", "left_behind")


class NeverEnds(BaseException):
    """A command has worked or waited for far too long."""


@dataclass
class Outcome:
    """How a command ended, and what of it must not be."""

    status: int | None = None
    said: str = ""
    raised: list[BaseException] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)


def attempt(command: Command, folder: Path, *, work: float = WORK, wait: float = WAIT) -> Outcome:
    """Run a command in a folder, and judge what came of it."""
    before, aside = _seen(folder), Path(tempfile.gettempdir())
    outcome = Outcome()
    with _listening(outcome) as streams, _bounded(outcome, work, wait), _inside(folder), _written():
        try:
            outcome.status = exit_status.run(command.arguments, Interrupts())
        except BaseException as error:  # nothing may leave the entry point
            outcome.raised.append(error)
            outcome.troubles["faults_of_its_own"] = f"raised {type(error).__name__}"
    outcome.said += streams()
    _judge_words(outcome)
    _judge_files(outcome, command, folder, before)
    left = sorted(path.name for path in aside.iterdir())
    if left:
        outcome.troubles["left_behind"] = f"temporary: {', '.join(left)}"
        for name in left:
            shutil.rmtree(aside / name, ignore_errors=True)
    return outcome


def _judge_words(outcome: Outcome) -> None:
    known = outcome.status in (0, 1, 2)
    if not known or "fault of its own" in outcome.said or "Traceback" in outcome.said:
        outcome.troubles.setdefault("faults_of_its_own", outcome.said[-500:])
    words = "\n".join([outcome.said, *(text for e in outcome.raised for text in _texts(e))])
    shown = [value for value in PLANTED if value in words]
    if shown:
        outcome.troubles["planted_values_shown"] = f"{', '.join(shown)} in: {words[-500:]}"


def _texts(error: BaseException | None) -> Iterator[str]:
    """All that a traceback would show of an exception and of those behind it."""
    if error is not None:
        yield from (str(error), repr(error), *getattr(error, "__notes__", ()))
        yield from _texts(error.__cause__)
        if not error.__suppress_context__ and error.__context__ is not error.__cause__:
            yield from _texts(error.__context__)


def _judge_files(
    outcome: Outcome, command: Command, folder: Path, before: dict[str, tuple[int, ...]]
) -> None:
    after = _seen(folder)
    carried_out = outcome.status == 0
    for name in sorted(after.keys() - before.keys()):
        public = carried_out and _within(name, command.public)
        if public and after[name]:
            raw = (folder / name).read_bytes()
            shown = [value for value in PLANTED if value.encode() in raw]
            if shown:
                outcome.troubles["planted_values_shown"] = f"{', '.join(shown)} in {name}"
        elif not public and not (carried_out and _within(name, command.confidential)):
            outcome.troubles.setdefault("left_behind", name)
    for name, seen in before.items():
        if after.get(name) != seen and not name.startswith(LEDGERS):
            outcome.troubles.setdefault("left_behind", f"{name} is not what it was")


def _within(name: str, asked: Iterable[str]) -> bool:
    return any(one in ("*", name) or name.startswith(f"{one}/") for one in asked)


def _seen(folder: Path) -> dict[str, tuple[int, ...]]:
    """All that is in a folder, by its path; files with their size and the time of a change."""
    found: dict[str, tuple[int, ...]] = {}
    waiting = [(folder, "")]
    while waiting:
        place, prefix = waiting.pop()
        for entry in os.scandir(place):
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                found[name] = ()
                waiting.append((Path(entry.path), f"{name}/"))
            else:
                told = entry.stat(follow_symlinks=False)
                found[name] = (told.st_size, told.st_mtime_ns)
    return found


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def _written() -> Iterator[None]:
    """Whoever reads the pipe `fifo`, where there is one, reads nothing and does not wait."""
    pipe, ended = Path(PIPE), threading.Event()
    if not pipe.exists():
        yield
        return

    def write() -> None:
        while not ended.is_set():
            os.close(os.open(pipe, os.O_WRONLY))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # the writer waits for one
        writer.join()
        os.close(reader)


class _Log(logging.Handler):
    """Hears what every library logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def _listening(outcome: Outcome) -> Iterator[Callable[[], str]]:
    """Hear both streams, the log, and what ends the command; no server waits for anybody."""
    out, err, log = tempfile.TemporaryFile(), tempfile.TemporaryFile(), _Log()  # noqa: SIM115
    judged, root = exit_status._verdict, logging.getLogger()
    level, fresh_run = root.level, QueryTool.run

    def verdict(error: BaseException) -> tuple[int, str | None]:
        outcome.raised.append(error)
        return judged(error)

    def asked(tool: QueryTool, ready: Callable[[], None] | None = None) -> None:
        def served() -> None:
            if ready is not None:
                ready()
            tool.stop()

        _ask(tool)
        fresh_run(tool, served)

    def alone(found: Generations, ready: Callable[[Any], None], _failed: object) -> None:
        tool = found._make()  # in this process, which forks no other
        asked(tool, lambda: ready(tool.said()))

    with (
        mock.patch.object(exit_status, "_verdict", verdict),
        mock.patch.object(QueryTool, "run", asked),
        mock.patch.object(Generations, "run", alone),
        mock.patch.object(os, "cpu_count", lambda: 1),  # pictures are drawn in this process
        mock.patch.object(Environment, "compile", _compiled),
        _redirected(out, err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        root.addHandler(log)
        root.setLevel(logging.DEBUG)
        try:
            yield lambda: _read(out) + _read(err) + "\n".join(log.lines)
        finally:
            root.setLevel(level)
            root.removeHandler(log)


_compile, _known = Environment.compile, dict[Any, Any]()


def _compiled(self: Environment, source: Any, name: Any = None, filename: Any = None) -> Any:
    """The templates of pages are the same for every query tool."""
    if (source, name) not in _known:
        _known[source, name] = _compile(self, source, name, filename)
    return _known[source, name]


def _read(stream: Any) -> str:
    stream.seek(0)
    with stream:
        return str(stream.read().decode("utf-8", "replace"))


@contextmanager
def _redirected(out: Any, err: Any) -> Iterator[None]:
    """Both streams go to files, also what libraries write past Python."""
    kept = sys.stdout, sys.stderr
    for stream in kept:
        stream.flush()
    numbers = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    fresh = [
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", write_through=True)
        for number in (1, 2)
    ]
    sys.stdout, sys.stderr = fresh
    try:
        yield
    finally:
        for stream in fresh:
            stream.flush()
        sys.stdout, sys.stderr = kept
        for number, old in zip((1, 2), numbers, strict=True):
            os.dup2(old, number)
            os.close(old)


def _ask(tool: QueryTool) -> None:
    """Ask the query tool for the pages of its data sets."""
    client = TestClient(tool._server.config.app, base_url=tool.home)
    for data in tool.catalogue.data_sets[:1]:
        for page in ("", "/map"):
            assert client.get(f"/d/{data.name}{page}").status_code in (200, 404)


@contextmanager
def _bounded(outcome: Outcome, work: float, wait: float) -> Iterator[None]:
    """Stop what works or waits for too long."""

    def stop(number: int, _frame: FrameType | None) -> None:
        outcome.troubles["never_ended"] = signal.Signals(number).name
        raise NeverEnds

    earlier = {n: signal.signal(n, stop) for n in (signal.SIGALRM, signal.SIGPROF)}
    faulthandler.dump_traceback_later(LAST, exit=True)
    signal.setitimer(signal.ITIMER_REAL, wait)
    signal.setitimer(signal.ITIMER_PROF, work)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        for number, handler in earlier.items():
            signal.signal(number, handler)


class Fuzz:
    """Tries inputs over the sound ones of an office."""

    def __init__(self, office: Path, work: Path) -> None:
        self.office, self.folder, self.aside = office, work / "input", work / "temporary"
        self.aside.mkdir(parents=True, exist_ok=True)
        self.failed: list[str] = []
        self.counted: Counter[str] = Counter()

    def run(self, kind: str, numbers: Iterable[int]) -> dict[str, float]:
        """Try inputs of a kind; the figures of what came of them."""
        named = ("inputs", "done", "found_faulty", "refused", *TROUBLES)
        self.counted.update(dict.fromkeys(named, 0))
        with mock.patch.object(tempfile, "tempdir", str(self.aside)):
            for number in numbers:
                outcome, command = self.attempt(kind, number)
                self.counted["inputs"] += 1
                self.counted.update(outcome.troubles.keys())
                ends = {0: "done", 1: "found_faulty", 2: "refused"}
                self.counted[ends.get(outcome.status or 0, "refused")] += 1
                if outcome.troubles:
                    self._keep(kind, number, command, outcome)
        return dict(self.counted)

    def make(self, kind: str, number: int, folder: Path) -> Command:
        """The input of a kind and a number, in a folder of its own."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return KINDS[kind](self.office, folder, Random(f"{kind} {number}"))

    def attempt(self, kind: str, number: int) -> tuple[Outcome, Command]:
        """Try one input."""
        command = self.make(kind, number, self.folder)
        return attempt(command, self.folder), command

    def _keep(self, kind: str, number: int, command: Command, outcome: Outcome) -> None:
        """Make a failed input again, for whoever wants to see it."""
        kept = KEPT / f"{kind}-{number}"
        self.make(kind, number, kept)
        line = shlex.join(["eree", *command.arguments])
        troubles = "; ".join(f"{name}: {what}" for name, what in outcome.troubles.items())
        self.failed.append(f"{kind} {number}: {troubles}\n  again: cd {kept} && {line}")


def main() -> None:
    """Try the input that the command line names, or several that follow each other."""
    kind, first, *more = sys.argv[1:]
    numbers = range(int(first), int(first) + int(more[0] if more else 1))
    with tempfile.TemporaryDirectory() as home:
        office = Path(home) / "office"
        office.mkdir()
        with io.StringIO() as quiet, mock.patch.object(sys, "stdout", quiet):
            make_office(office)
        fuzz = Fuzz(office, Path(home) / "work")
        print(fuzz.run(kind, numbers))
        print("\n".join(fuzz.failed))


if __name__ == "__main__":
    main()
