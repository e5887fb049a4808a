"""Processes that tests start: signals reach them however the tests were started, and all end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Seconds, far more than anything takes on a busy machine: guards against waiting for ever.  The
#: first for what happens at once otherwise, the second for a whole command.
PATIENCE, LONGEST = 120.0, 600.0
#: A process hands the signals that it ignores on to all that it starts.  A shell ignores SIGINT in
#: what it runs in the background, and `nohup` ignores SIGHUP, so the tests may ignore them.
_HEARING = """
import os, signal, sys
ignored, command = sys.argv[1].split(), sys.argv[2:]
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
    signal.signal(signal.Signals[name], signal.SIG_IGN if name in ignored else signal.SIG_DFL)
os.execvp(command[0], command)
"""


def hearing(
    command: Sequence[str | Path], *, ignoring: Iterable[signal.Signals] = ()
) -> list[str | Path]:
    """A command in a process that every signal reaches, but for some that it ignores."""
    ignored = " ".join(number.name for number in ignoring)
    return [sys.executable, "-I", "-S", "-c", _HEARING, ignored, *command]


@contextmanager
def running(
    command: Sequence[str | Path], *, ignoring: Iterable[signal.Signals] = (), **given: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process that signals reach, and that has ended afterwards whatever becomes of its test."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(hearing(command, ignoring=ignoring), **(pipes | given)) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(command: Sequence[str | Path], **given: Any) -> subprocess.CompletedProcess[str]:
    """A process that signals reach, once it has come to its own end."""
    with running(command, **given) as process:
        out, err = process.communicate(timeout=LONGEST)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def until(condition: Callable[[], bool]) -> bool:
    """Whether something becomes so; it is waited for as long as may be."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
