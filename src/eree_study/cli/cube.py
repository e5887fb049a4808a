"""The commands that make a synthetic survey, and rerun the query tool's evaluation."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Literal

import click

import eree_study
from eree.cli.options import Command, as_json, folder_argument, number, path
from eree.cli.terminal import progress


@click.command(
    cls=Command,
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
    help="querytool: the ten variables of QUERYTOOL's test, and its 182 records.",
)
@number("--replicates", "Replicate weights, such as 80.", 0)
@number("--seed", "Same seed, same files.", 1)
@as_json
def synth(
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


@click.command(
    cls=Command,
    name="study",
    short_help="Rerun the query tool's evaluation.",
    examples=[
        "eree cube study --out study",
        "eree cube study --out quick --runs 50 --seed 7",
    ],
)
@path("--out", "DIR", "A new or empty folder for the study.", required=True)
@number("--runs", "Draws of noise; Table 4 has 1,000.", 1_000)
@number("--seed", "Same seed, same figures.", 1)
@as_json
def study(out: Path, runs: int, seed: int, as_json: bool) -> None:
    """Rerun the query tool's evaluation on synthetic surveys, and compare calibrations.

    Writes into DIR a page with what of the paper's Table 4 reproduces, tables and pictures: noise
    left by raking as published, in runs that converge and in all, by other calibrations, and by
    all of them under a real guarantee.
    """
    with progress() as tell:
        found = eree_study.cube_study(out, runs=runs, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    for name, share in found.converged.items():
        click.echo(f"{share:6.1%} of {runs:,} runs converged on {name}")
    for claim, holds in found.verdicts.items():
        click.echo(f"{holds:17}  {claim}")
    click.echo(f"{out}: querytool.md, table-4.csv, convergence.csv, calibrations.csv, pictures")
