"""The commands on a survey: check it, count it into a confidential cube, and assess its release."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import eree
from eree.cli.options import Commands, as_json, cli, folder_argument, number, path
from eree.cli.terminal import one_line, progress
from eree.errors import how_many


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
        checked = eree.check_survey(folder, replicates=False, progress=tell)
    survey, faults = checked.survey, checked.faults
    if as_json:
        cells = survey.shape.size if survey else None
        found = [asdict(fault) for fault in faults]
        click.echo(json.dumps({"sound": not faults, "cells": cells, "faults": found}))
    elif survey is not None:
        size, variables = survey.shape.size, len(survey.shape.variables)
        sides = how_many(variables, "variable")
        click.echo(f"{folder}: no fault found; {sides}, {how_many(size, 'cell')}.")
    else:
        click.echo(f"{folder}: {how_many(len(faults), 'fault')}")
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
        click.echo(f"{out}: a confidential cube of {how_many(cells, 'cell')}")


def _limit(name: str, words: str, default: float | None = None) -> Callable[..., Any]:
    """An option that takes a number; the library says which ones it accepts."""
    shown = default is not None
    return click.option(
        name, type=float, metavar="X", default=default, show_default=shown, help=words
    )


@cube.command(
    short_help="Compare a cube with its release; confidential.",
    examples=[
        "eree cube assess survey.cube release --out assessment --survey survey",
        "eree cube assess survey.cube release --out quick --most-dimensions 2",
        "eree cube assess survey.cube release --out what-if --methods",
    ],
)
@click.argument("file", metavar="CUBE", type=click.Path(path_type=Path))
@click.argument("release", type=click.Path(path_type=Path))
@path("--out", "DIR", "A new or empty folder for the report.", required=True)
@path("--survey", "FOLDER", "The survey that the cube was built from, for sampling errors.")
@_limit("--weighted", "Publishable from so many jobs on.", 1_000)
@_limit("--unweighted", "Publishable from so many records on.", 3)
@_limit("--variation", "Publishable up to this coefficient of variation.", 0.3)
@_limit("--near-zero", "Near zero below so many jobs.  [default: half the average weight]")
@_limit("--level", "Level of intervals.", 0.95)
@number("--most-dimensions", "Tables of up to N variables.", 3)
@number("--most-tables", "Most tables of each number of variables.", 200)
@number("--seed", "Which tables, where there are more; and the draw of --methods.", 1)
@click.option("--methods", is_flag=True, help="Try all methods of calibration on a new draw.")
@as_json
def assess(
    file: Path,
    release: Path,
    out: Path,
    survey: Path | None,
    weighted: float,
    unweighted: float,
    variation: float,
    near_zero: float | None,
    level: float,
    most_dimensions: int,
    most_tables: int,
    seed: int,
    methods: bool,
    as_json: bool,
) -> None:
    """Compare the confidential cube in CUBE with the protected one in RELEASE.

    The report in DIR is CONFIDENTIAL, and only you can read it; public.md in it holds what may be
    published.  No figure of the confidential cube is shown on the terminal.
    """
    rules = eree.Thresholds(weighted, unweighted, variation, near_zero, level)
    with progress() as tell:
        made = eree.assess_cube_file(
            file,
            release,
            out,
            survey=survey,
            thresholds=rules,
            most_dimensions=most_dimensions,
            most_tables=most_tables,
            seed=seed,
            methods=methods,
            progress=tell,
        )
    if as_json:
        report = {
            "folder": str(out),
            "confidential": True,
            "files": sorted(made.name for made in out.iterdir()),
            "public": [item.as_json() for item in made.public],
        }
        click.echo(json.dumps(report))
        return
    click.echo(
        f"{out}: a confidential assessment of {len(made.tables):,} tables; read assessment.md\n"
        f"{out / 'public.md'} holds what may be published"
    )
