"""What the terminal sees while a command works."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

import eree
from eree.cli.interrupts import Interrupts
from eree.cli.options import VERBOSE
from eree.errors import Cost, Refusal

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_SECONDS = 2.0  # shorter work shows no progress


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on the terminal for work that takes longer than a moment; silence elsewhere.

    With --verbose there is a line for each step instead, on a terminal or not.  Every step that is
    reported is also a place to stop at.
    """
    context = click.get_current_context(silent=True)
    verbose = context is not None and context.meta.get(VERBOSE, False)
    on_terminal = not verbose and sys.stderr is not None and sys.stderr.isatty()
    bar = _bar() if on_terminal else None
    late = None if bar is None else threading.Timer(QUIET_SECONDS, bar.start)
    if late is not None:
        late.daemon = True
        late.start()
    interrupts = context.find_object(Interrupts) if context else None
    begun = ""

    def tell(step: str, done: float) -> None:
        nonlocal begun
        if interrupts:
            interrupts.check()
        if bar is not None:
            bar.update(bar.task_ids[0], description=step, completed=done)
        if verbose and step != begun:
            begun = step
            moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            click.echo(one_line(f"eree: {moment} {step}"), err=True)

    try:
        yield tell
    finally:
        if bar is not None and late is not None:
            late.cancel()
            late.join()
            bar.stop()


def _bar() -> Progress:
    from rich.console import Console  # only where someone looks on
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task("starting", total=1.0)
    return bar


def ledger_to_spend_from(where: str) -> eree.Ledger:
    """A ledger; where this machine's clock is behind its last entry, that is said on stderr."""
    opened = eree.Ledger.open(where)
    with suppress(Refusal):  # a faulty one is refused when it is spent from
        if note := opened.clock_note():
            click.echo(one_line(f"eree: note: {note}"), err=True)
    return opened


def say_released(words: str, out: Path) -> None:
    """Print what was released; a full disk under the output does not undo it."""
    try:
        click.echo(words)
    except BaseException as error:
        error.add_note(Cost(f"the release in {out} is whole, and its price is settled"))
        raise


def one_line(text: str) -> str:
    """A text without line breaks: a file's or a column's name may hold some."""
    return " ".join(text.split())
