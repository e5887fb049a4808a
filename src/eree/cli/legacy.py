"""The commands about what was done before: infuse tables, and attack them."""

from __future__ import annotations

import json
from pathlib import Path

import click

import eree
from eree.cli.options import as_json, cli, folder_argument, path, with_engine
from eree.cli.terminal import progress


@cli.command(
    short_help="Distort cells as was done before, without a guarantee.",
    examples=[
        "eree infuse data --by place,sector --key key.txt --new-key --out infused.csv",
        "eree infuse data --by place,sex --where state=17 --key key.txt --out sex.parquet",
    ],
)
@folder_argument
@click.option(
    "--by", multiple=True, metavar="A,B,…", help="Attributes of the cells; none: the total."
)
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@path("--key", "FILE", "The secret key; the same for all tables and years.", required=True)
@click.option("--new-key", is_flag=True, help="Make the key first, in a new file.")
@path("--out", "FILE", "A new file, .parquet or .csv.", required=True)
@with_engine
@as_json
def infuse(
    folder: Path,
    by: tuple[str, ...],
    where: tuple[str, ...],
    key: Path,
    new_key: bool,
    out: Path,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Write the cells of a marginal of FOLDER under input noise infusion.

    This is the method that eree replaces, for comparison.  It has NO FORMAL GUARANTEE, and the
    file says so in every row; 'eree attack' shows what it gives away.
    """
    names = [name.strip() for part in by for name in part.split(",") if name.strip()]
    eree.new_file(out)  # a wrong name is refused before the rows are read
    eree.Marginal.over(eree.read_schema(folder), names)
    if not new_key:
        secret = eree.read_key(key)
    elif key.exists():
        raise eree.Refusal(f"{key} exists already; leave out --new-key to use it")
    with progress() as tell:
        tables = eree.load(
            folder,
            engine=engine,
            memory_limit=memory_limit,
            threads=threads,
            progress=lambda step, done: tell(step, 0.7 * done),
        )
        kept = eree.Marginal.filter_from_text(tables.schema, where)
        marginal = eree.Marginal.over(tables.schema, names, kept)
        if new_key:
            secret = eree.new_key(key)
        tell(f"infusing {marginal}", 0.7)
        cells = eree.write_infused(tables, marginal, out, key=secret)
    if as_json:
        found = {"file": str(out), "cells": cells, "guarantee": None, "key": str(key)}
        click.echo(json.dumps(found))
        return
    if new_key:
        click.echo(f"{key}: a new key; who has it can undo every distortion")
    click.echo(
        f"{out}: {cells:,} infused cell{'s' * (cells != 1)} of {marginal}; no formal guarantee"
    )
