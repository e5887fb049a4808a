"""How a command ends: done, faulty, refused or interrupted; always in a sentence."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import click

from eree.cli.interrupts import SENTENCE, Interrupts
from eree.cli.options import cli, hidden
from eree.cli.terminal import one_line
from eree.errors import Cost, Refusal

DONE, REFUSED, INTERRUPTED, UNREAD = 0, 2, 130, 141
SHELL_ASKS = "_EREE_COMPLETE"


def run(arguments: Sequence[str], interrupts: Interrupts) -> int:
    """Run a command and return its exit status; nothing that goes wrong ends in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show stops nothing
            stream.reconfigure(errors="replace")
    logging.getLogger("eree.partial").addHandler(_LEFTOVERS)
    try:
        with hidden(arguments) as shown:
            ended = cli.main(shown, prog_name="eree", standalone_mode=False, obj=interrupts)
        _flush()
        interrupts.end()
        return ended if isinstance(ended, int) else DONE
    except BaseException as error:
        interrupts.end()
        status, sentence = _verdict(error)
        # the sentence of a refusal has said it already
        cost = _cost(error) if interrupts.came or not isinstance(error, Refusal) else []
    # An engine may report an interrupted query in words of its own, or take it for a fault.
    if interrupts.came:
        status, sentence = INTERRUPTED, SENTENCE
    if sentence is not None:
        _say("; ".join([sentence, *cost]), as_json="--json" in arguments)
    return status


def _verdict(error: BaseException) -> tuple[int, str | None]:
    """The exit status and the sentence for what ended a command."""
    match error:
        case SystemExit() if SHELL_ASKS in os.environ:  # for a completion, which has ended
            return DONE, None
        case click.exceptions.Exit():
            return error.exit_code, None
        case SystemExit() | BrokenPipeError():  # nobody reads on, as in `eree check data | head -0`
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return UNREAD, None
        case Refusal():
            return REFUSED, str(error)
        case click.ClickException():
            context = getattr(error, "ctx", None)
            where = context.command_path if context else "eree"
            words = error.format_message().rstrip(".")
            see = " See" if words.endswith("?") else "; see"
            return REFUSED, f"{words}{see} '{where} --help'"
        case MemoryError():
            return REFUSED, "there is not enough memory; nothing was left half-written"
        case OSError():  # a full disk, a missing permission
            name = f" ({Path(error.filename).name})" if isinstance(error.filename, str) else ""
            words = error.strerror or "the system refused"
            return REFUSED, f"{words}{name}; nothing was left half-written"
    # The words of an unexpected error may quote a row, so only its kind and place show.
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    kind = type(error).__name__
    return REFUSED, f"eree met a fault of its own ({kind}{place}); please report it"


def _cost(error: BaseException | None) -> list[Cost]:
    """What was spent before a failure; Click puts an exception of its own around an interrupt."""
    if error is None:
        return []
    notes = getattr(error, "__notes__", ())
    return [note for note in notes if isinstance(note, Cost)] or _cost(error.__context__)


def _say(sentence: str, *, as_json: bool) -> None:
    line = one_line(sentence)
    try:
        if as_json:
            click.echo(json.dumps({"error": line}))
        _print(line, "bold red")
    except OSError:  # nobody can be informed
        pass


def _print(line: str, style: str) -> None:
    from rich.console import Console  # few commands have something to print so
    from rich.text import Text

    words = Text.assemble(("eree:", style), " ", line)
    Console(stderr=True, soft_wrap=True, highlight=False).print(words)


class _Leftovers(logging.Handler):
    """Tells what killed processes have left."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            _print(one_line(record.getMessage()), "bold")


#: One object, which is added once however many commands one process runs.
_LEFTOVERS = _Leftovers()


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
