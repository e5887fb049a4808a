"""The commands on a survey: check it, count it into a confidential cube."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

import eree
from eree.cli.options import Commands, as_json, cli, folder_argument, number, path
from eree.cli.terminal import one_line, progress


@cli.group(
    cls=Commands,
    invoke_without_command=True,
    short_help="Make, protect and ask a survey's cube.",
    examples=[
        "eree cube synth survey",
        "eree cube check survey",
        "eree cube build survey --out survey.cube --most-weight 2500",
        "eree cube protect survey.cube --out public --ledger survey.db --epsilon 2",
        "eree cube show public --by education",
        "eree cube COMMAND --help",
    ],
)
@click.pass_context
def cube(context: click.Context) -> None:
    """Turn a weighted survey of jobs into a cube: every variable by every other.

    A survey is a folder with survey.toml and its records.  Its cube is confidential; the protected
    one is public, and answers every table.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cube.command(
    short_help="Report every fault of a survey.",
    examples=["eree cube check survey", "eree cube check survey --json"],
)
@folder_argument
@as_json
def check(folder: Path, as_json: bool) -> None:
    """Report every fault of the records in FOLDER and of their survey.toml.

    Each fault names the file, the column, the rule and how many records break it; no value is
    quoted.  Exit status: 0 no fault, 1 faults, 2 there is nothing that can be checked.
    """
    with progress() as tell:
        survey, faults = eree.check_survey(folder, replicates=False, progress=tell)
    if as_json:
        cells = survey.shape.size if survey else None
        found = [asdict(fault) for fault in faults]
        click.echo(json.dumps({"sound": not faults, "cells": cells, "faults": found}))
    elif survey is not None:
        size, variables = survey.shape.size, len(survey.shape.variables)
        several = "s" * (variables != 1)
        click.echo(f"{folder}: no fault found; {variables} variable{several}, {size:,} cells.")
    else:
        click.echo(f"{folder}: {len(faults)} fault{'s' * (len(faults) != 1)}")
        for fault in faults:
            click.echo(f"  {one_line(str(fault))}")
    if faults:
        click.get_current_context().exit(1)


@cube.command(
    short_help="Count a survey into a confidential cube.",
    examples=[
        "eree cube build survey --out survey.cube",
        "eree cube build survey --out bounded.cube --most-weight 2500 --most-records 4",
        "eree cube build survey --out small.cube --variables occupation,education",
    ],
)
@folder_argument
@path("--out", "FILE", "A new file for the cube.", required=True)
@click.option(
    "--variables", multiple=True, metavar="A,B,…", help="Variables of the cube.  [default: all]"
)
@click.option("--most-weight", metavar="W", help="Trim weights to W jobs; a public bound.")
@number("--most-records", "Keep the first N records of an establishment; a public bound.")
@as_json
def build(
    folder: Path,
    out: Path,
    variables: tuple[str, ...],
    most_weight: str | None,
    most_records: int | None,
    as_json: bool,
) -> None:
    """Count the records of the survey in FOLDER into a cube that only you can read.

    The cube is CONFIDENTIAL: exact counts and weights of every cell.  The survey is checked first.
    Which records are the first is said by their ids: shorter ids come first.
    """
    names = [name.strip() for part in variables for name in part.split(",") if name.strip()]
    with progress() as tell:
        built = eree.build_cube_file(
            folder,
            out,
            variables=names or None,
            most_weight=most_weight,
            most_records=most_records,
            progress=tell,
        )
    cells = built.shape.size
    if as_json:
        click.echo(json.dumps({"file": str(out), "cells": cells, "confidential": True}))
    else:
        click.echo(f"{out}: a confidential cube of {cells:,} cells")
