"""The command line.  Every command is one library call, takes `--json`, and refuses in a sentence.

Exit status: 0 done, 1 the checked thing is faulty, 2 refused.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import eree
from eree.data.synthetic import synthesize
from eree.demo import run_demo
from eree.errors import Fault, Refusal

OUT = Console(soft_wrap=True)
ERR = Console(stderr=True, soft_wrap=True)
QUIET_SECONDS = 2.0  # shorter work shows no progress

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
engine_options = [
    click.option(
        "--engine",
        default="duckdb",
        show_default=True,
        metavar="ENGINE",
        help="duckdb, spark, or a Spark master URL such as local[2].",
    ),
    click.option("--memory-limit", metavar="SIZE", help="Memory DuckDB may use, such as 4GB."),
    click.option("--threads", type=click.IntRange(1), help="Threads DuckDB may use."),
]


def with_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose and limit the query engine."""
    for option in reversed(engine_options):
        command = option(command)
    return command


class Commands(click.Group):
    """The commands, with every refusal turned into a sentence and an exit status."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; nothing that goes wrong ends in a traceback."""
        try:
            return super().invoke(ctx)
        except Refusal as refusal:
            _refuse(str(refusal))
        except KeyboardInterrupt:
            _stop("interrupted; nothing was left half-written", 130)
        except (BrokenPipeError, click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except OSError as error:  # a full disk, a missing permission
            name = f" ({Path(error.filename).name})" if isinstance(error.filename, str) else ""
            _refuse(
                f"{error.strerror or 'the system refused'}{name}; nothing was left half-written"
            )
        except Exception as error:
            # The words of an unexpected error may quote a row, so only its kind and place show.
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = (
                f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
            )
            _refuse(
                f"eree met a fault of its own ({type(error).__name__} at {place}); please report it"
            )


def _refuse(sentence: str) -> NoReturn:
    _stop(sentence, 2)


def _stop(sentence: str, status: int) -> NoReturn:
    if "--json" in sys.argv[1:]:
        click.echo(json.dumps({"error": sentence}))
    ERR.print(f"[bold red]eree:[/] {escape(sentence)}")
    sys.exit(status)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on the terminal for work that takes longer than a moment; silence elsewhere."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )
    task = bar.add_task("starting", total=1.0)
    began = time.monotonic()

    def tell(step: str, done: float) -> None:
        bar.update(task, description=step, completed=done)
        if not bar.live.is_started and time.monotonic() - began > QUIET_SECONDS:
            bar.start()

    try:
        yield tell
    finally:
        bar.stop()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(eree.__version__, prog_name="eree")
def cli() -> None:
    """Publish employment tables from linked employer-employee data with provable privacy."""


@cli.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("eree-demo"), show_default=True
)
@click.option("--jobs", type=click.IntRange(1_000), default=250_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@as_json
def demo(out: Path, jobs: int, seed: int, as_json: bool) -> None:
    """Make a population, check it, count it, and draw what has to be protected."""
    with progress() as tell:
        findings = run_demo(out, jobs=jobs, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps(findings.as_json()))
        return
    table = Table(title="Place × sector × ownership, made-up data", title_justify="left")
    for name in ("places with population", "cells", "one workplace only", "one holds half or more"):
        table.add_column(name, justify="left" if name.startswith("places") else "right")
    for row in findings.exposure:
        table.add_row(row.stratum, f"{row.cells:,}", f"{row.alone:.0%}", f"{row.dominated:.0%}")
    OUT.print(table)
    empty = findings.empty_worker_cells / findings.worker_cells
    OUT.print(
        f"{findings.jobs:,} jobs at {findings.workplaces:,} workplaces, without a fault.  By sex"
        f" and education too: {findings.worker_cells:,} cells, {empty:.0%} of them zero.\n"
        "An exact count in such cells tells a workplace's size and make-up: they need protection."
    )
    for path in findings.files:
        OUT.print(f"  {path}", highlight=False)


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--jobs", type=int, default=250_000, show_default=True, help="Number of jobs.")
@click.option("--workplaces", type=int, help="Number of workplaces.  [default: one for 20.7 jobs]")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same files.")
@as_json
def synth(folder: Path, jobs: int, workplaces: int | None, seed: int, as_json: bool) -> None:
    """Make a made-up population of linked tables in FOLDER.

    The papers' size is --jobs 10900000; the nation's is --jobs 130000000.
    """
    with progress() as tell:
        made = synthesize(folder, jobs=jobs, workplaces=workplaces, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps({"folder": str(made), "jobs": jobs, "seed": seed}))
    else:
        OUT.print(f"Made {jobs:,} jobs in {made}.  Next: eree check {made}")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@with_engine
@as_json
def check(
    folder: Path, engine: str, memory_limit: str | None, threads: int | None, as_json: bool
) -> None:
    """Report every fault of the tables and the schema in FOLDER.

    Exit status 0: no fault; 1: faults; 2: there is nothing that can be checked.
    """
    with progress() as tell:
        tables, faults = eree.check(
            folder, engine=engine, memory_limit=memory_limit, threads=threads, progress=tell
        )
    if as_json:
        found = [_fault_json(fault) for fault in faults]
        workplaces = tables.workplaces if tables else None
        click.echo(json.dumps({"sound": not faults, "workplaces": workplaces, "faults": found}))
    elif tables is not None:
        OUT.print(f"{folder}: no fault found; {tables.workplaces:,} workplaces.")
    else:
        table = Table(
            title=f"{len(faults)} fault{'s' * (len(faults) != 1)} in {folder}", title_justify="left"
        )
        for name in ("table", "file", "column", "rule"):
            table.add_column(name, overflow="fold")
        table.add_column("rows", justify="right")
        for fault in faults:
            rows = "" if fault.rows is None else f"{fault.rows:,}"
            table.add_row(*map(escape, (fault.table, fault.file, fault.column, fault.rule)), rows)
        OUT.print(table)
    sys.exit(1 if faults else 0)


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "table": fault.table,
        "file": fault.file,
        "column": fault.column,
        "rule": fault.rule,
        "rows": fault.rows,
    }


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--by", default="", metavar="A,B,…", help="Attributes of the cells; none: the total.")
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@click.option(
    "--drop-from", type=int, metavar="N", help="Leave out workplaces of N or more workers."
)
@click.option(
    "--scale-to", type=int, metavar="N", help="Scale larger workplaces down to N workers."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help=".parquet or .csv")
@with_engine
@as_json
def tabulate(
    folder: Path,
    by: str,
    where: tuple[str, ...],
    drop_from: int | None,
    scale_to: int | None,
    out: Path,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Count the CONFIDENTIAL cells of a marginal of FOLDER into a file that only you can read."""
    if drop_from is not None and scale_to is not None:
        raise Refusal("--drop-from and --scale-to are two ways to bound a workplace; choose one")
    bound = eree.DropFrom(drop_from) if drop_from is not None else None
    with progress() as tell:
        tables = eree.load(
            folder, engine=engine, memory_limit=memory_limit, threads=threads, progress=tell
        )
        names = [name.strip() for name in by.split(",") if name.strip()]
        marginal = eree.Marginal.over(
            tables.schema,
            names,
            eree.Marginal.filter_from_text(tables.schema, where),
            bound if scale_to is None else eree.ScaleTo(scale_to),
        )
        tell(f"counting {marginal}", 0.9)
        cells = eree.write_cells(tables, marginal, out)
    if as_json:
        click.echo(json.dumps({"file": str(out), "cells": cells, "confidential": True}))
    else:
        OUT.print(f"{out}: {cells:,} confidential cells of {marginal}", highlight=False)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL, to be sourced by it.

    For example: eree completion bash > ~/.local/share/bash-completion/completions/eree
    """
    source = get_completion_class(shell)
    assert source is not None
    click.echo(source(cli, {}, "eree", "_EREE_COMPLETE").source())


def main() -> None:
    """Run the command line; a polite kill tidies up like Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminated)
    cli(prog_name="eree")
