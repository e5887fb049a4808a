"""The command that shows everything on made-up data."""

from __future__ import annotations

import json
import shlex
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from eree.cli.options import as_json, cli, number, path
from eree.cli.rank import DASH, ranking_table
from eree.cli.terminal import one_line, progress
from eree.policy.neighbours import plain

if TYPE_CHECKING:
    from eree.demo import Findings


@cli.command(
    short_help="Take made-up data all the way to a release.",
    examples=["eree demo", "eree demo --out small --jobs 20000"],
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
@as_json
def demo(out: Path, jobs: int, seed: int, as_json: bool) -> None:
    """Make data, plan, pay, release, verify, rank, and compare with the truth.

    The data are made up, so the true counts may be shown.  The demo makes a ledger of its own.
    """
    from eree.demo import run_demo  # plotting takes half a second to import

    with progress() as tell:
        findings = run_demo(out, jobs=jobs, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps(findings.as_json()))
    else:
        _print(findings, out)
    if not findings.verification.sound:
        click.get_current_context().exit(1)


def _print(findings: Findings, out: Path) -> None:
    """What was made, what it cost, what it gives away, how good it is, and where it is."""
    from eree.demo.findings import TOP

    areas = len(findings.ranking)
    console = Console(highlight=False, markup=False)
    console.print(_story(findings))
    console.print()
    console.print(ranking_table(findings.ranking, TOP))
    click.echo(
        f"The first {min(TOP, areas):,} of {areas:,} places, from the release alone.  All ranks"
        f" hold together\nwith a chance of {findings.ranking.level:.4g} or more.\n"
    )
    console.print(_errors(findings))
    for table in findings.tables:
        inside = next(findings.accuracy_of(table.name)).inside
        high = "" if table.bounded else ", which have no high end"
        click.echo(f"{table.name}: {inside:.0%} of true counts are within their intervals{high}.")
    release = shlex.quote(str(findings.release))
    click.echo(
        f"\nPicture  {findings.picture}\nRelease  {findings.release}\n"
        f"Also     data, plan.toml, memo.md, ledger.db and exposure.png in {out}\n"
        f"Next     eree rank {release} jobs --by sector"
    )


def _story(findings: Findings) -> Table:
    """What happened, step by step."""
    exposure, tables = findings.exposure, findings.tables
    alone = sum(row.cells * row.alone for row in exposure) / sum(row.cells for row in exposure)
    plans = [f"{t.name}: {t.what}, {t.cells:,} cells, epsilon {t.epsilon}\n" for t in tables]
    price, total, left = findings.price, findings.total, findings.left
    found = findings.verification
    verdict = f"sound: {len(found.checks)} checks of files, mechanisms, prices and payment."
    if not found.sound:
        verdict = one_line(f"NOT SOUND: {'; '.join(map(str, found.faults))}")
    story = Table.grid(padding=(0, 2))
    story.add_column(style="bold", no_wrap=True)
    story.add_row(
        "Data",
        f"{findings.jobs:,} made-up jobs at {findings.workplaces:,} workplaces; no fault found.\n"
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
    story.add_row("Release", verdict)
    return story


def _errors(findings: Findings) -> Table:
    """The error of each table and the one that was promised, stratum by stratum."""
    from eree.demo.findings import STUDY

    names = [table.name for table in findings.tables]
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
