"""The command that shows everything on synthetic data."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from eree.cli.options import Command, as_json, number, path
from eree.cli.rank import DASH, ranking_table
from eree.cli.serve import run_query_tool
from eree.cli.terminal import one_line, progress
from eree.policy.neighbours import plain

if TYPE_CHECKING:
    from eree.verification.recheck import Verification
    from eree.web.server import Door
    from eree_study.demo import CubeAccuracy, Findings


@click.command(
    cls=Command,
    short_help="Take synthetic data all the way to a release.",
    examples=["eree demo", "eree demo --out small --jobs 20000", "eree demo --serve"],
)
@path(
    "--out",
    "DIR",
    "Where to write; an earlier demo there is replaced.",
    default=Path("eree-demo"),
    show_default=True,
)
@number("--jobs", "Number of jobs.", 250_000)
@number("--seed", "Same seed, same data; the noise is new each time.", 1)
@click.option("--serve", is_flag=True, help="Then serve what was released in a browser.")
@number("--port", "The port of --serve; 0 takes any that is free.", 8000)
@as_json
def demo(out: Path, jobs: int, seed: int, serve: bool, port: int, as_json: bool) -> None:
    """Make data, plan, pay, release, verify, rank, and compare with the truth.

    A synthetic survey becomes a protected cube beside it.  All data are synthetic, so the true
    counts may be shown.  The demo makes ledgers of its own.
    """
    from eree_study.demo import run_demo  # plotting takes half a second to import

    with ExitStack() as held:
        door = held.enter_context(_door(port)) if serve else None
        with progress() as tell:
            findings = run_demo(out, jobs=jobs, seed=seed, progress=tell)
        if as_json:
            click.echo(json.dumps(findings.as_json()))
        else:
            _print(findings, out)
        if not findings.sound:
            click.get_current_context().exit(1)
        if door is not None:
            maps = [f"place={out / 'data' / 'place.geojson'}"]
            run_query_tool([findings.release, findings.cube], door, maps=maps, as_json=as_json)


def _door(port: int) -> Door:
    """The port of the query tool, taken first: nobody waits for one that is in use."""
    from eree.web.server import Door  # the web framework is not needed without

    return Door(port=port)


def _print(findings: Findings, out: Path) -> None:
    """What was made, what it cost, what it gives away, how good it is, and where it is."""
    from eree_study.demo.demonstration import TOP

    areas = len(findings.ranking)
    console = Console(highlight=False, markup=False)
    console.print(_story(findings))
    console.print()
    console.print(ranking_table(findings.ranking, TOP))
    click.echo(
        f"The first {min(TOP, areas):,} of {areas:,} places, from the release alone, at"
        f" {findings.ranking.level:.0%}:\nown ranks for each place for itself, the rest for all"
        " places together.\n"
    )
    console.print(_errors(findings))
    for name in dict.fromkeys(row.table for row in findings.accuracy):
        inside = next(findings.accuracy_of(name)).inside
        click.echo(f"{name}: {inside:.0%} of true counts are within their calibrated intervals.")
    release, cube = (shlex.quote(str(folder)) for folder in (findings.release, findings.cube))
    click.echo(
        f"\nPicture  {findings.picture}\nRelease  {findings.release}\nCube     {findings.cube}\n"
        f"Also     data, survey, plan.toml, memo.md, two ledgers, exposure.png in {out}\n"
        f"Next     eree rank {release} jobs --by sector\n"
        f"Browser  eree serve {release} {cube}"
    )


def _story(findings: Findings) -> Table:
    """What happened, step by step."""
    exposure, tables = findings.exposure, findings.tables
    alone = sum(row.cells * row.alone for row in exposure) / sum(row.cells for row in exposure)
    plans = [f"{t.name}: {t.what}, {t.cells:,} rows, epsilon {t.epsilon}\n" for t in tables]
    price, total, left = findings.price, findings.total, findings.left
    story = Table.grid(padding=(0, 2))
    story.add_column(style="bold", no_wrap=True)
    story.add_row(
        "Data",
        f"{findings.jobs:,} synthetic jobs at {findings.workplaces:,} workplaces; no fault found.\n"
        f"{alone:.0%} of the cells of {tables[0].what} are one workplace alone:"
        " an exact count there is that employer's business.",
    )
    story.add_row(
        "Plan",
        f"{''.join(plans)}In all epsilon {plain(price.epsilon)}, delta {plain(price.delta)};"
        " no confidential row was read for that.",
    )
    story.add_row("Attacker", findings.attacker)
    story.add_row(
        "Ledger",
        f"epsilon {plain(total.epsilon - left.epsilon)} of {plain(total.epsilon)} is spent;"
        " nothing is ever given back.",
    )
    story.add_row("Release", _verdict(findings.verification))
    survey = findings.survey
    price, total, left = survey.price, survey.total, survey.left
    one, two = (_off(row) for row in survey.accuracy[:2])
    story.add_row(
        "Survey",
        f"{survey.records:,} synthetic records of {survey.establishments:,} establishments, in a"
        f" cube of {survey.cells:,} cells: {' × '.join(survey.variables)}.",
    )
    story.add_row(
        "Cube",
        f"epsilon {plain(price.epsilon)} for whole establishments;"
        f" {plain(total.epsilon - left.epsilon)} of {plain(total.epsilon)} in its ledger is spent."
        f"\n{_verdict(survey.verification)}\nFigures by one variable are off by {one} of their"
        f" mean, those by two by {two}.",
    )
    return story


def _verdict(found: Verification) -> str:
    """What verifying a release has found."""
    if found.sound:
        return f"sound: {len(found.checks)} checks of files, mechanisms, prices and payment."
    return one_line(f"NOT SOUND: {'; '.join(map(str, found.faults))}")


def _off(row: CubeAccuracy) -> str:
    """An error as a share of the mean figure, and the one that was promised."""
    return f"{_share(row.error / row.jobs)} ({_share(row.promised / row.jobs)} promised)"


def _errors(findings: Findings) -> Table:
    """The error of each table and the one that was promised, stratum by stratum."""
    from eree_study.demo.demonstration import STUDY

    names = list(dict.fromkeys(row.table for row in findings.accuracy))
    shown = Table(title=f"{STUDY}\nErrors as shares of the jobs", title_justify="left")
    shown.add_column("population of place")
    for name in names:
        shown.add_column(f"error of {name} (promised)", justify="right")
    for rows in zip(*map(findings.accuracy_of, names), strict=True):
        errors = (f"{_share(r.of_jobs(r.error))} ({_share(r.of_jobs(r.promised))})" for r in rows)
        shown.add_row(rows[0].stratum, *errors)
    return shown


def _share(error: float) -> str:
    """A share in percent, as exactly as it matters."""
    return DASH if isnan(error) else f"{error:.1%}" if error < 0.1 else f"{error:,.0%}"
