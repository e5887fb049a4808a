"""The commands that rerun the papers' experiments, and the query tool's, on synthetic data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

import eree_study
from eree.cli.options import Command, Commands, as_json, number, path
from eree.cli.terminal import progress
from eree_study.cli.synth import assumptions_option

Decorated = Callable[..., Any]
Options = Callable[[Decorated], Decorated]


def of_a_study(trials: int, what: str, *, out: str = "; one that was stopped goes on") -> Options:
    """The options of whatever runs on a population of its own: folder, size, draws and seed."""

    def add(command: Decorated) -> Decorated:
        for option in (
            assumptions_option,
            number("--seed", "Same seed, same figures.", 1),
            number("--trials", what, trials),
            number("--jobs", "Number of synthetic jobs.", 250_000),
            path("--out", "DIR", f"The folder of the study{out}.", required=True),
        ):
            command = option(command)
        return command

    return add


def say(words: Iterable[str], data: object, *, as_json: bool) -> None:
    """What a study found, in words or as plain data."""
    for line in [json.dumps(data)] if as_json else words:
        click.echo(line)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    short_help="Rerun the papers' experiments.",
    examples=[
        "eree study run --out study",
        "eree study run --out full --jobs 10900000",
        "eree study report study",
    ],
)
@click.pass_context
def study(context: click.Context) -> None:
    """Compare the papers' mechanisms, ours and today's noise infusion on synthetic data."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@study.command(
    short_help="Run the experiments, or go on with them.",
    examples=[
        "eree study run --out study",
        "eree study run --out quick --jobs 50000 --trials 5 --only workload-1",
        "eree study run --out full --jobs 10900000     the papers' size",
    ],
)
@of_a_study(20, "Draws of every mechanism.")
@click.option("--only", multiple=True, metavar="WORKLOAD", help="Run only this; may be repeated.")
@as_json
def run(
    out: Path,
    jobs: int,
    trials: int,
    seed: int,
    assumptions: str,
    only: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a population in DIR, count it, and compare everyone at every alpha and epsilon.

    Interrupted, it goes on where it was when it is run again with the same settings.
    """
    with progress() as tell:
        done = eree_study.run_study(
            out,
            jobs=jobs,
            trials=trials,
            seed=seed,
            assumptions=assumptions,
            only=only,
            progress=tell,
        )
    words = [
        f"{out}: compared on {jobs:,} synthetic jobs, {trials} trials.",
        f"Next: eree study report {shlex.quote(str(out))}",
    ]
    say(words, {"folder": str(out), **done.settings()}, as_json=as_json)


@study.command(
    short_help="Write tables, figures and findings.",
    examples=["eree study report study"],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@as_json
def report(folder: Path, as_json: bool) -> None:
    """Write errors.parquet, errors.csv, the papers' figures and findings.md of the study in DIR."""
    with progress() as tell:
        made = eree_study.study_report(folder, progress=tell)
    if as_json:
        findings = [
            {
                "finding": one.name,
                "judged": one.judgement,
                "wide": other.judgement,
                "looked_at": one.looked_at,
                "parts": one.parts,
            }
            for one, other in zip(made.findings, made.wide, strict=True)
        ]
        files = [str(file) for file in made.files]
        parts = {"run": made.run, "parts": made.parts}
        click.echo(json.dumps({"findings": findings, "files": files, **parts}))
        return
    width = max(len(one.judgement) for one in made.findings)
    for one in made.findings:
        click.echo(f"{one.name:10}  {one.judgement:{width}}  {one.statement}")
    if made.run < made.parts:
        click.echo(f"The study is not complete: {made.run} of its {made.parts} parts were run.")
    click.echo(f"{folder}: errors.csv, study-errors.csv, findings.md and {folder}/figures")


@study.command(
    short_help="Compare a LODES year at one price.",
    examples=[
        "eree study wac --out wac",
        "eree study wac --out quick --jobs 50000 --epsilon 4",
        "eree study wac --out full --jobs 10900000 --trials 3",
    ],
)
@of_a_study(1, "Draws of every release.")
@click.option(
    "--epsilon",
    default="2,4,8",
    show_default=True,
    metavar="LIST",
    help="What all columns cost together; several with commas.",
)
@as_json
def wac(
    out: Path, jobs: int, trials: int, seed: int, assumptions: str, epsilon: str, as_json: bool
) -> None:
    """Make a population in DIR, and compare the columns of LODES by tract.

    Noise infusion, the paper's mechanisms, tables apart and one draw of all: the error of all
    tracts in percent of jobs, and times that of noise infusion. Writes wac.csv and a picture.
    """
    with progress() as tell:
        found = eree_study.wac_study(
            out,
            jobs=jobs,
            trials=trials,
            seed=seed,
            assumptions=assumptions,
            epsilons=epsilon.split(","),
            progress=tell,
        )
    closing = f"{out}: wac.csv, wac.png, wac.svg"
    say([*found.words, closing], found.as_json(), as_json=as_json)


@study.command(short_help="Tables 1 and 2 of the paper, computed.", examples=["eree study tables"])
@as_json
def tables(as_json: bool) -> None:
    """Which method meets which requirement, and the least epsilon of Smooth Laplace.

    In brackets stands what the paper prints. No data are needed.
    """
    first, second = eree_study.requirements_table(), eree_study.least_epsilons()
    if as_json:
        met = [(f.method, f.requirement, f.verdict, f.paper) for f in first]
        least = [(f.delta, f.alpha, f.right, f.printed) for f in second]
        click.echo(json.dumps({"requirements": met, "least_epsilons": least}))
        return
    click.echo("Table 1, alpha 0.1")
    for f in first:
        click.echo(f"  {f.method:36}{f.requirement:12}{f.verdict:19}({f.paper})")
    click.echo("Table 2, least epsilon of Smooth Laplace")
    for one in second:
        said = f"delta {one.delta:<7g}alpha {one.alpha:<6g}"
        click.echo(f"  {said}{one.right:.4g} ({one.printed:g})")


@study.command(
    short_help="Compare methods of others.",
    examples=[
        "eree study others --out others",
        "eree study others --out full --jobs 10900000 --epsilon 4",
    ],
)
@of_a_study(3, "Draws of every method.", out="")
@click.option("--epsilon", default="2", show_default=True, help="What the table costs.")
@as_json
def others(
    out: Path, jobs: int, trials: int, seed: int, assumptions: str, epsilon: str, as_json: bool
) -> None:
    """Publish one table by eree and by methods of others, and compare them.

    Noise for one worker, for workplaces of bounded size, on the roots of their sizes (EGDP),
    suppression of cells and noise infusion: errors in percent of jobs and times infusion's, cells
    withheld, and how surely an attacker with 5% of false alarms finds that a workplace of 10, 100
    or 1,000 workers grew by a tenth. Writes others.csv.
    """
    with progress() as tell:
        found = eree_study.other_methods(
            out,
            jobs=jobs,
            trials=trials,
            seed=seed,
            assumptions=assumptions,
            epsilon=epsilon,
            progress=tell,
        )
    say([*found.words, f"{out}: others.csv"], found.as_json(), as_json=as_json)


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
def cube_study(out: Path, runs: int, seed: int, as_json: bool) -> None:
    """Rerun the query tool's evaluation on synthetic surveys, and compare calibrations.

    Writes into DIR a page with what of the paper's Table 4 reproduces, tables and pictures: noise
    left by raking as published, in runs that converge and in all, by other calibrations, and by
    all of them under a real guarantee.
    """
    with progress() as tell:
        found = eree_study.cube_study(out, runs=runs, seed=seed, progress=tell)
    shares = found.converged.items()
    words = [
        *(f"{share:6.1%} of {runs:,} runs converged on {name}" for name, share in shares),
        *(f"{holds:17}  {claim}" for claim, holds in found.verdicts.items()),
        f"{out}: querytool.md, claims.csv and other tables, pictures",
    ]
    say(words, found.as_json(), as_json=as_json)
