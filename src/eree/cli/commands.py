"""The commands on linked tables: each is one library call and says what it did in a line."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

import click
from click.shell_completion import get_completion_class

import eree
from eree.cli.options import Commands, as_json, cli, folder_argument, number, path, with_engine
from eree.cli.terminal import one_line, progress
from eree.errors import how_many


@cli.command(
    short_help="Report every fault of linked tables.",
    examples=[
        "eree check data",
        "eree check data --rows faulty.csv",
        "eree check data --json --memory-limit 4GB",
    ],
)
@folder_argument
@path("--rows", "FILE", "New file for the faulty rows, which only you can read.")
@with_engine
@as_json
def check(
    folder: Path,
    rows: Path | None,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Report every fault of the tables in FOLDER and of their schema.toml.

    Each fault names the table, the file, the column, the rule and how many rows break it; no
    value is quoted.  --rows writes keys and values of those rows into a file: it is
    confidential.  Exit status: 0 no fault, 1 faults, 2 there is nothing that can be checked.
    """
    with progress() as tell:
        checked = eree.check(
            folder,
            rows=rows,
            engine=engine,
            memory_limit=memory_limit,
            threads=threads,
            progress=tell,
        )
    tables, faults = checked.tables, checked.faults
    if as_json:
        workplaces = tables.workplaces if tables else None
        found = [asdict(fault) for fault in faults]
        click.echo(json.dumps({"sound": not faults, "workplaces": workplaces, "faults": found}))
    elif tables is not None:
        click.echo(f"{folder}: no fault found; {how_many(tables.workplaces, 'workplace')}.")
        if tables.schema.draft:
            click.echo("The schema is a draft: nothing can be planned under it.")
    else:
        click.echo(f"{folder}: {how_many(len(faults), 'fault')}")
        for fault in faults:
            click.echo(f"  {one_line(str(fault))}")
        if rows is not None:
            click.echo(f"{rows}: the rows that have them, confidential")
    if faults:
        click.get_current_context().exit(1)


@cli.group(cls=Commands, short_help="Describe tables.", examples=["eree schema COMMAND --help"])
def schema() -> None:
    """Describe linked tables in a schema.toml."""


@schema.command(
    short_help="Write a first schema.toml from files.",
    examples=[
        "eree schema init data/sites.csv data/people.csv data/jobs.csv",
        "eree schema init office.duckdb",
    ],
)
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@path("--out", "FILE", "Where to write.  [default: schema.toml beside the first file]")
@as_json
def init(files: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Write a first schema.toml from the files of workplaces, workers and jobs.

    A DuckDB file that has these tables is enough alone.

    It is a draft, CONFIDENTIAL, and only you can read it: values of workers and jobs are those
    found in their rows.  Replace them by public code lists and remove the line 'draft = true';
    until then 'eree check' works and no plan does.  A file that is there is never replaced.
    """
    made = eree.draft_schema(files, out)
    if as_json:
        tables = {table: str(file) for table, file in made.tables.items()}
        left_out = {table: len(columns) for table, columns in made.ignored.items()}
        found = {"file": str(made.file), "tables": tables, "ignored": left_out}
        click.echo(json.dumps(found | {"confidential": True}))
        return
    click.echo(f"{made.file}: a draft, confidential; replace values that were found in rows.")
    for table, file in made.tables.items():
        left = len(made.ignored.get(table, ()))
        ignored = f"; {how_many(left, 'column')} {'is' if left == 1 else 'are'} ignored"
        click.echo(f"  {table}: {file}{ignored * (left > 0)}")
    click.echo(f"Next: edit it, eree check {shlex.quote(str(made.file.parent))}")


@cli.command(
    short_help="Count confidential cells into a file.",
    examples=[
        "eree tabulate data --by place,sector,ownership --out cells.parquet",
        "eree tabulate data --by sector,sex --where ownership=private --out cells.csv",
    ],
)
@folder_argument
@click.option(
    "--by", multiple=True, metavar="A,B,…", help="Attributes of the cells; none: the total."
)
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@number("--drop-from", "Leave out workplaces of N or more workers.")
@number("--scale-to", "Scale larger workplaces down to N workers.")
@path("--out", "FILE", "A new file, .parquet or .csv.", required=True)
@with_engine
@as_json
def tabulate(
    folder: Path,
    by: tuple[str, ...],
    where: tuple[str, ...],
    drop_from: int | None,
    scale_to: int | None,
    out: Path,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Count the exact cells of a marginal of FOLDER into a file that only you can read.

    The cells are CONFIDENTIAL.  The tables are checked first.
    """
    if drop_from is not None and scale_to is not None:
        raise eree.Refusal(
            "--drop-from and --scale-to are two ways to bound a workplace; choose one"
        )
    bound: eree.DropFrom | eree.ScaleTo | None = None
    if drop_from is not None:
        bound = eree.DropFrom(drop_from)
    elif scale_to is not None:
        bound = eree.ScaleTo(scale_to)
    names = [name.strip() for part in by for name in part.split(",") if name.strip()]
    eree.new_file(out)  # a wrong name is refused before the rows are read
    eree.Marginal.over(eree.read_schema(folder), names)
    with progress() as tell:
        tables = eree.load(
            folder,
            engine=engine,
            memory_limit=memory_limit,
            threads=threads,
            progress=lambda step, done: tell(step, 0.7 * done),
        )
        kept = eree.Marginal.filter_from_text(tables.schema, where)
        marginal = eree.Marginal.over(tables.schema, names, kept, bound)
        tell(f"counting {marginal}", 0.7)
        cells = eree.write_cells(tables, marginal, out)
    if as_json:
        click.echo(json.dumps({"file": str(out), "cells": cells, "confidential": True}))
    else:
        click.echo(f"{out}: {how_many(cells, 'confidential cell')} of {marginal}")


@cli.command(
    short_help="Print a shell's completion script.",
    examples=[
        'eval "$(eree completion bash)"',
        "eree completion fish > ~/.config/fish/completions/eree.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes eree's commands and options in a shell."""
    source = get_completion_class(shell)
    assert source is not None
    click.echo(source(cli, {}, "eree", "_EREE_COMPLETE").source())
