"""The commands on a ledger: make one, read it, recheck it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import eree
from eree.budget.account import Account, relation_words
from eree.budget.entries import Created, Entry, Reserved
from eree.cli.options import Commands, as_json, cli, path
from eree.cli.terminal import one_line
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Neighbours, plain
from eree.policy.plain_data import guarantee_as_json

#: Relations that have nothing but their name.
PLAIN: Mapping[str, Neighbours] = {
    relation.name: relation for relation in (EDGE, NODE, RECORD, ESTABLISHMENT)
}
where_argument = click.argument("where", metavar="FILE_OR_URL")


@cli.group(
    cls=Commands,
    invoke_without_command=True,
    short_help="Keep a data set's privacy budget.",
    examples=[
        "eree ledger create ledger.db --neighbours strong --alpha 0.1 --epsilon 8",
        "eree ledger show ledger.db",
        "eree ledger COMMAND --help",
    ],
)
@click.pass_context
def ledger(context: click.Context) -> None:
    """Keep the privacy budget of a data set in a ledger.

    A ledger is a file, or a PostgreSQL database such as
    postgresql://user@host/database.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@ledger.command(
    short_help="Make a ledger with a total that never changes.",
    examples=[
        "eree ledger create ledger.db --neighbours strong --alpha 0.1 --epsilon 8",
        "eree ledger create weak.db --neighbours weak --alpha 0.1 --types sex,age \\",
        "    --epsilon 8 --delta 1e-9 --data-set 'jobs of the three states'",
        "eree ledger create postgresql://office@server/jobs --neighbours node \\",
        "    --epsilon 4",
        "eree ledger create survey.db --neighbours establishment --epsilon 4 \\",
        "    --data-set 'survey of 2026'",
    ],
)
@where_argument
@click.option(
    "--neighbours",
    type=click.Choice(["strong", "weak", *PLAIN]),
    required=True,
    help="What one step of the data is; the last two are of a survey.",
)
@click.option("--alpha", metavar="A", help="The share by which a workplace may grow, such as 0.1.")
@click.option("--types", metavar="A,B,…", help="Worker attributes that are the types, if weak.")
@click.option("--epsilon", metavar="E", required=True, help="All that may ever be spent.")
@click.option("--delta", metavar="D", default="0", show_default=True, help="The same for delta.")
@click.option(
    "--data-set",
    metavar="NAME",
    default="data",
    show_default=True,
    help="How the data are called.",
)
@as_json
def create(
    where: str,
    neighbours: str,
    alpha: str | None,
    types: str | None,
    epsilon: str,
    delta: str,
    data_set: str,
    as_json: bool,
) -> None:
    """Make a ledger at FILE_OR_URL, where there is none yet.

    One data set has one ledger, whatever is released from it and whenever: what
    is spent here is what all releases together give away.
    """
    relation = relation_from_text(neighbours, alpha, types)
    total = eree.Guarantee(relation, epsilon, delta)
    made = eree.Ledger.create(where, total, data_set=data_set)
    account = made.account()
    if as_json:
        click.echo(json.dumps(account_as_json(made, account)))
    else:
        click.echo(
            f"Made {made.name} for {account.data_set}: epsilon {plain(total.epsilon)} and delta"
            f" {plain(total.delta)} to spend,\nunder {relation_words(relation)}."
        )


@ledger.command(
    short_help="Show every entry, and what is left.",
    examples=["eree ledger show ledger.db", "eree ledger show ledger.db --json"],
)
@where_argument
@as_json
def show(where: str, as_json: bool) -> None:
    """Show every entry of a ledger, what was spent and what is left.

    Numbers are exact.  What was reserved is spent, settled or not.
    """
    opened = eree.Ledger.open(where)
    account = opened.account()
    if as_json:
        click.echo(json.dumps(account_as_json(opened, account)))
        return
    title = Text(f"Ledger of {account.data_set}")  # a name in brackets is no markup
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for name in ("entry", "when (UTC)", "what", "release", "epsilon", "delta", "state"):
        figure = name in ("entry", "epsilon", "delta")
        text = name in ("what", "release")
        table.add_column(
            name,
            justify="right" if figure else "left",
            no_wrap=figure,
            overflow="fold",  # nothing is cut off
            width=len("2026-07-14") if name == "when (UTC)" else None,
            ratio=1 if text else None,
        )
    for entry in account.entries:
        table.add_row(*map(Text, shown(entry, account)))
    Console(highlight=False).print(table)
    click.echo(f"All under {relation_words(account.total.neighbours)}.")
    for name in ("total", "spent", "left"):
        figures = getattr(account, name)
        click.echo(f"  {name:5}  epsilon {plain(figures.epsilon)}, delta {plain(figures.delta)}")


@ledger.command(
    short_help="Recheck every entry of a ledger.",
    examples=[
        "eree ledger verify ledger.db",
        "eree ledger verify ledger.db --against out --against older",
    ],
)
@where_argument
@path("--against", "DIR", "A release that was paid from it; repeat for more.", multiple=True)
@as_json
def verify(where: str, against: tuple[Path, ...], as_json: bool) -> None:
    """Recheck the hash of every entry, their order, and every sum.

    A ledger that was cut short, or restored from an old copy, is sound in itself; that shows only
    against the releases that were paid from it.  Nothing is spent from a faulty ledger.  Exit
    status: 0 no fault, 1 faults, 2 there is no ledger.
    """
    opened = eree.Ledger.open(where)
    kept = [eree.Release.open(folder).reservation for folder in against]
    faults = opened.verify(against=kept)
    last = None if faults else opened.entries()[-1]
    if as_json:
        end = {"number": last.number, "hash": last.hash} if last else None
        found = [asdict(fault) for fault in faults]
        click.echo(json.dumps({"sound": not faults, "last": end, "faults": found}))
    elif last is not None:
        click.echo(f"{opened.name}: no fault found; the hash of the last entry, {last.number}, is")
        click.echo(f"  {last.hash}")
    else:
        click.echo(f"{opened.name}: {len(faults)} fault{'s' * (len(faults) != 1)}")
        for fault in faults:
            place = fault.column or "ledger"
            click.echo(f"  {one_line(f'{place}: {fault.rule}')}")
    if faults:
        click.get_current_context().exit(1)


def relation_from_text(name: str, alpha: str | None, types: str | None) -> Neighbours:
    """The neighbours that the options name, with all that belongs to them and nothing else."""
    if name in PLAIN:
        if alpha is not None or types is not None:
            raise eree.Refusal(f"{name} neighbours take no --alpha and no --types; leave them out")
        return PLAIN[name]
    if alpha is None:
        raise eree.Refusal(f"{name} neighbours need an --alpha, such as 0.1")
    if name == "strong":
        if types is not None:
            raise eree.Refusal("strong neighbours take no --types; leave them out")
        return eree.Strong(alpha)
    return eree.Weak(alpha, [t.strip() for t in (types or "").split(",") if t.strip()])


def shown(entry: Entry, account: Account) -> Sequence[str]:
    """A row of the table of entries."""
    when = entry.event.at.removesuffix("Z").replace("T", " ")
    number = str(entry.number)
    match entry.event:
        case Created():
            return number, when, "made", "", "", "", ""
        case Reserved() as reserved:
            what = "; ".join(f"{name}: {told}" for name, told in reserved.what.items())
            figures = plain(reserved.price.epsilon), plain(reserved.price.delta)
            state = "settled" if entry.number in account.settled else "reserved"
            return number, when, what, reserved.release, *figures, state
        case event:
            return number, when, f"{event.kind}s entry {event.about}", "", "", "", ""


def account_as_json(opened: eree.Ledger, account: Account) -> dict[str, Any]:
    """All that a ledger says, as one object."""
    return {
        "ledger": opened.name,
        "identity": account.identity,
        "data_set": account.data_set,
        "total": guarantee_as_json(account.total),
        "spent": guarantee_as_json(account.spent),
        "left": guarantee_as_json(account.left),
        "entries": [
            entry.as_json()
            | ({"settled": entry.number in account.settled} if entry.kind == "reserve" else {})
            for entry in account.entries
        ],
    }
