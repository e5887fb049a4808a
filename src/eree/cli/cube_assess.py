"""The command that compares a confidential cube with what is published of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import eree
from eree.cli.cube import cube
from eree.cli.options import as_json, number, path
from eree.cli.terminal import progress


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
