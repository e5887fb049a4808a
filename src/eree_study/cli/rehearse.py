"""The command that takes a plan through everything on synthetic data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import eree_study
from eree.cli.options import Command, as_json, number, path
from eree.cli.rank import DASH
from eree.cli.release import plan_argument
from eree.cli.terminal import one_line, progress
from eree.policy.neighbours import plain
from eree_study.rehearsal import PREFIX


@click.command(
    cls=Command,
    short_help="Try a plan on synthetic data of its schema.",
    examples=["eree rehearse plan.toml", "eree rehearse plan.toml --out trial --workplaces 5000"],
)
@plan_argument
@path("--out", "DIR", "A new folder.", default=Path("rehearsal"), show_default=True)
@number("--workplaces", "Take at most so many of the public workplaces.", 100_000)
@number("--seed", "Same seed, same workers and jobs; the noise is new each time.", 1)
@as_json
def rehearse(file: Path, out: Path, workplaces: int, seed: int, as_json: bool) -> None:
    """Take PLAN.toml through everything, on synthetic workers and jobs.

    Checks, plans, pays from a ledger of its own, releases, estimates and verifies, and compares
    with the synthetic counts.  Opens the plan, the schema, the public workplaces and references;
    the files of workers and jobs need not be there, and no budget of yours is spent.  What it
    writes says in each name and record that it is a rehearsal, and never verifies as a release.

    Exit status: 0 all went well, 1 something would be wrong with the release.
    """
    with progress() as tell:
        found = eree_study.rehearse(file, out, workplaces=workplaces, seed=seed, progress=tell)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        _print(found)
    if not found.sound:
        click.get_current_context().exit(1)


def _print(found: eree_study.Rehearsal) -> None:
    """What was rehearsed, and how near it came to what it was made of."""
    taken = f"{found.workplaces:,}"
    if found.workplaces < found.of_workplaces:
        taken += f" of {found.of_workplaces:,}"
    click.echo(
        f"{found.folder}: a rehearsal on synthetic workers and jobs at {taken} workplaces,\nfor"
        f" epsilon {plain(found.price.epsilon)}, delta {plain(found.price.delta)}; nothing of"
        " yours was read or spent."
    )
    if found.tables:
        table = Table(title="Against the synthetic counts", title_justify="left")
        table.add_column("table")
        for name in ("cells", "error, of jobs", "guaranteed", "calibrated"):
            table.add_column(name, justify="right")
        for one in found.tables:
            calibrated = DASH if one.calibrated is None else f"{one.calibrated:.1%}"
            numbers = f"{one.cells:,}", f"{one.error:.2%}", f"{one.guaranteed:.1%}", calibrated
            table.add_row(one.table.removeprefix(PREFIX), *numbers)
        Console(highlight=False, markup=False).print(table)
        click.echo("guaranteed, calibrated: true counts within these intervals")
    if found.sound:
        checks = len(found.verification.checks)
        click.echo(f"Verified: {checks} checks, and no fault but that it is a rehearsal.")
    else:
        for fault in found.verification.faults:
            click.echo(one_line(f"FAULT {fault}"))
    click.echo(f"Next: look at {shlex.quote(str(found.folder))}, eree ledger create, eree release")
