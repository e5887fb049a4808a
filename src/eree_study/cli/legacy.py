"""The commands about what was done before: infuse tables, and attack them."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import eree
import eree_study
from eree.cli.options import Command, as_json, folder_argument, number, path, with_engine
from eree.cli.terminal import progress
from eree.errors import how_many, require


@click.command(
    cls=Command,
    short_help="Distort cells as was done before, without a guarantee.",
    examples=[
        "eree infuse data --by place,sector --key key.txt --new-key --out infused.csv",
        "eree infuse data --by place,sex --where state=17 --key key.txt --out sex.parquet",
    ],
)
@folder_argument
@click.option(
    "--by", multiple=True, metavar="A,B,…", help="Attributes of the cells; none: the total."
)
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@path("--key", "FILE", "The secret key; the same for all tables and years.", required=True)
@click.option("--new-key", is_flag=True, help="Make the key first, in a new file.")
@click.option(
    "--ramp",
    default="0.05,0.15",
    show_default=True,
    metavar="S,T",
    help="Factors are off by S to T.",
)
@path("--out", "FILE", "A new file, .parquet or .csv.", required=True)
@with_engine
@as_json
def infuse(
    folder: Path,
    by: tuple[str, ...],
    where: tuple[str, ...],
    key: Path,
    new_key: bool,
    ramp: str,
    out: Path,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Write the cells of a marginal of FOLDER under input noise infusion.

    This is the method that eree replaces, for comparison.  It has NO FORMAL GUARANTEE, and the
    file says so in every row; 'eree attack' shows what it gives away.
    """
    names = [name.strip() for part in by for name in part.split(",") if name.strip()]
    inner, _, outer = ramp.partition(",")
    factors = eree_study.Ramp(inner, outer)
    eree.new_file(out)  # a wrong name is refused before the rows are read
    eree.Marginal.over(eree.read_schema(folder), names)
    if not new_key:
        secret = eree_study.read_key(key)
    elif key.exists():
        raise eree.Refusal(f"{key} exists already; leave out --new-key to use it")
    with progress() as tell:
        tables = eree.load(
            folder,
            engine=engine,
            memory_limit=memory_limit,
            threads=threads,
            progress=lambda step, done: tell(step, 0.7 * done),
        )
        kept = eree.Marginal.filter_from_text(tables.schema, where)
        marginal = eree.Marginal.over(tables.schema, names, kept)
        if new_key:
            secret = eree_study.new_key(key)
        tell(f"infusing {marginal}", 0.7)
        cells = eree_study.write_infused(tables, marginal, out, key=secret, ramp=factors)
    if as_json:
        found = {"file": str(out), "cells": cells, "guarantee": None, "key": str(key)}
        click.echo(json.dumps(found))
        return
    if new_key:
        click.echo(f"{key}: a new key; who has it can undo every distortion")
    click.echo(f"{out}: {how_many(cells, 'infused cell')} of {marginal}; no formal guarantee")


@click.command(
    cls=Command,
    short_help="Attack infused tables and releases of synthetic data.",
    examples=[
        "eree attack --out attacks",
        "eree attack --out attacks --epsilon 4 --jobs 50000 --repeats 3",
    ],
)
@path("--out", "DIR", "A new or empty folder for the findings.", required=True)
@number("--jobs", "Number of synthetic jobs.", 250_000)
@number("--seed", "Same seed, same findings.", 1)
@click.option("--alpha", default="0.1", show_default=True, metavar="A", help="Of the releases.")
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="Of each release.")
@number("--targets", "Most workplaces for each attack.", 100)
@number("--repeats", "Times that all is drawn again.", 10)
@as_json
def attack(
    out: Path,
    jobs: int,
    seed: int,
    alpha: str,
    epsilon: str,
    targets: int,
    repeats: int,
    as_json: bool,
) -> None:
    """Measure what tables give away about one workplace, on synthetic data.

    Four attacks run on tables under input noise infusion and on releases of the same data, side by
    side with guessing and with the most that the guarantee allows.  Exit status 1 if a release
    gives away more than that.
    """
    from eree_study.legacy.attacks import write_attacks
    from eree_study.synth.population import checked_target

    require("study", "matplotlib")  # both are asked before the work starts
    checked_target(out)
    with progress() as tell:
        found = eree_study.run_attacks(
            jobs=jobs,
            seed=seed,
            alpha=alpha,
            epsilon=epsilon,
            targets=targets,
            repeats=repeats,
            progress=tell,
        )
        picture = write_attacks(found, out)
    if as_json:
        click.echo(json.dumps(found.as_json() | {"picture": str(picture)}))
    else:
        Console(markup=False).print(_rates(found))
        click.echo(
            f"Shares of targets about which the attacker is exactly right, at epsilon {epsilon}."
            f"\nA study of synthetic data.\n\nPicture  {picture}\nAlso     attacks.svg, attacks.csv"
            f" and attacks.json in {out}"
        )
    if not found.kept:
        if not as_json:
            click.echo("A release gave away MORE than its guarantee allows: please report it.")
        click.get_current_context().exit(1)


def _rates(found: eree_study.AttackFindings) -> Table:
    """The findings, a row for each attack."""
    from eree_study.legacy.games import ATTACKS
    from eree_study.legacy.tallies import INFUSED, OURS, UNROUNDED

    shown = Table()
    shown.add_column("attack", no_wrap=True)
    for name in ("trials", "guessing", "eree", "allowed", "infused", "unrounded"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name in ATTACKS:
        ours = found.tally(name, OURS)
        infused = (found.tally(name, method).rate for method in (INFUSED, UNROUNDED))
        rates = (ours.guessing, ours.rate, ours.promised or 0.0, *infused)
        shown.add_row(name, f"{ours.trials:,}", *(f"{rate:.0%}" for rate in rates))
    return shown
