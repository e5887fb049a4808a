"""The command that reruns the query tool's evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import click

import eree
from eree.cli.options import Command, as_json, number, path
from eree.cli.terminal import progress


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
    """Rerun the query tool's evaluation on made-up surveys, and compare calibrations.

    Writes into DIR a page with what of the paper's Table 4 reproduces, tables and pictures: noise
    left by raking as published, in runs that converge and in all, by other calibrations, and by
    all of them under a real guarantee.
    """
    with progress() as tell:
        found = eree.cube_study(out, runs=runs, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    for name, share in found.converged.items():
        click.echo(f"{share:6.1%} of {runs:,} runs converged on {name}")
    for words, holds in found.verdicts.items():
        click.echo(f"{holds:17}  {words}")
    click.echo(f"{out}: querytool.md, table-4.csv, convergence.csv, calibrations.csv, pictures")
