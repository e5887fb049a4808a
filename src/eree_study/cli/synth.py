"""The commands that make a synthetic population, and a synthetic survey."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Literal

import click

import eree_study
from eree.cli.options import Command, as_json, folder_argument, number
from eree.cli.terminal import progress
from eree.errors import how_many

assumptions_option = click.option(
    "--assumptions",
    default="usual",
    show_default=True,
    metavar="NAME",
    help="usual, or other: what nobody has measured, assumed quite differently.",
)


@click.command(
    cls=Command,
    short_help="Make a population of linked tables.",
    examples=[
        "eree synth data",
        "eree synth data --areas               and maps of counties, places, tracts",
        "eree synth papers --jobs 10900000     the size of the papers' three states",
        "eree synth nation --jobs 130000000    the size of the United States",
    ],
)
@folder_argument
@number("--jobs", "Number of jobs.", 250_000)
@number("--workplaces", "Number of workplaces.  [default: one for 20.7 jobs]")
@number("--seed", "Same seed, same files.", 1)
@click.option("--areas", is_flag=True, help="Add GeoJSON of counties, places and tracts.")
@assumptions_option
@as_json
def synth(
    folder: Path,
    jobs: int,
    workplaces: int | None,
    seed: int,
    areas: bool,
    assumptions: str,
    as_json: bool,
) -> None:
    """Make a population of linked tables in FOLDER, which must be new or empty.

    Everything in it is synthetic; its sizes and shapes are like those of real data.
    """
    with progress() as tell:
        made = eree_study.synthesize(
            folder,
            jobs=jobs,
            workplaces=workplaces,
            seed=seed,
            areas=areas,
            assumptions=assumptions,
            progress=tell,
        )
    if as_json:
        click.echo(json.dumps({"folder": str(made), "jobs": jobs, "seed": seed}))
    else:
        click.echo(
            f"Made {how_many(jobs, 'job')} in {made}.  Next: eree check {shlex.quote(str(made))}"
        )


@click.command(
    cls=Command,
    name="synth",
    short_help="Make a survey of occupational requirements.",
    examples=[
        "eree cube synth survey",
        "eree cube synth large --establishments 100000 --replicates 64",
        "eree cube synth small --shape querytool     182 records, 17,280 cells",
    ],
)
@folder_argument
@number("--establishments", "Establishments that respond, in the shape ors.", 1_000)
@click.option(
    "--shape",
    type=click.Choice(["ors", "querytool"]),
    default="ors",
    show_default=True,
    help="querytool: ten variables and 182 records, as Li and Krenzke's test has.",
)
@number("--replicates", "Replicate weights, such as 80.", 0)
@number("--seed", "Same seed, same files.", 1)
@as_json
def cube_synth(
    folder: Path,
    establishments: int,
    shape: Literal["ors", "querytool"],
    replicates: int,
    seed: int,
    as_json: bool,
) -> None:
    """Make a survey of occupational requirements in FOLDER, which must be new or empty.

    Everything in it is synthetic but the titles of its occupations.
    """
    with progress() as tell:
        made = eree_study.synthesize_survey(
            folder,
            establishments=establishments,
            shape=shape,
            replicates=replicates,
            seed=seed,
            progress=tell,
        )
    if as_json:
        click.echo(json.dumps({"folder": str(made), "shape": shape, "seed": seed}))
    else:
        quoted = shlex.quote(str(made))
        click.echo(f"Made a survey in {made}.  Next: eree cube check {quoted}")
