"""The commands on a ledger: make one, read it, recheck it, close what never became a release."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from eree.budget.entries import Closed, Created, Entry, HeadsKept, Reserved, Settled
from eree.cli.options import Commands, as_json, cli, path
from eree.cli.terminal import one_line
from eree.errors import how_many
from eree.policy.neighbours import Neighbours, plain
from eree.policy.plain_data import PLAIN, guarantee_as_json

#: The largest number that an entry can have.
MOST = (1 << 63) - 1

where_argument = click.argument("where", metavar="FILE_OR_URL")


@cli.group(
    cls=Commands,
    invoke_without_command=True,
    short_help="Keep a data set's privacy budget.",
    examples=[
        "eree ledger create ledger.db --neighbours strong --alpha 0.1 --epsilon 8",
        "eree ledger show ledger.db",
        "eree ledger close ledger.db 4",
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
        "    --data-set 'survey of 2026' --heads /elsewhere/heads.jsonl",
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
    help="How the data are called; the declaration of the data says the same.",
)
@click.option("--heads", metavar="PLACE", help="Where heads are kept: see 'eree ledger heads'.")
@as_json
def create(
    where: str,
    neighbours: str,
    alpha: str | None,
    types: str | None,
    epsilon: str,
    delta: str,
    data_set: str,
    heads: str | None,
    as_json: bool,
) -> None:
    """Make a ledger at FILE_OR_URL, where there is none yet.

    One data set has one ledger, whatever is released from it and whenever: what
    is spent here is what all releases together give away.
    """
    relation = relation_from_text(neighbours, alpha, types)
    total = eree.Guarantee(relation, epsilon, delta)
    made = eree.Ledger.create(where, total, data_set=data_set, heads=heads)
    account = made.account()
    if as_json:
        click.echo(json.dumps(account_as_json(made, account)))
    else:
        click.echo(
            f"Made {made.name} for {account.data_set}: epsilon {plain(total.epsilon)} and delta"
            f" {plain(total.delta)} to spend,\nunder {relation_words(relation)}."
        )
        if heads is not None:
            click.echo(f"Heads are kept in {account.last.then.heads}")


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
    if numbers := ", ".join(str(entry.number) for entry in account.entries if _lossy(entry)):
        click.echo(
            f"Note: what was released for entry {numbers} loses more than its price ('losses'), so"
            " the sum bounds no longer all that was lost."
        )
    if account.last.then.heads:
        click.echo(f"Heads are kept in {account.last.then.heads}")
    if note := opened.clock_note():
        click.echo(one_line(f"Note: {note}."))


@ledger.command(
    short_help="Close a reservation that was never settled.",
    examples=[
        "eree ledger close ledger.db 4",
        "eree ledger close ledger.db 4 --release out",
    ],
)
@where_argument
@click.argument("number", metavar="ENTRY", type=click.IntRange(1, MOST))
@path("--release", "DIR", "Settle it with the release in DIR, that it paid for.")
@as_json
def close(where: str, number: int, release: Path | None, as_json: bool) -> None:
    """Close the reservation in ENTRY, which pays for no release; its price stays spent.

    A crash can leave a reservation that was never settled, and whoever can read the ledger could
    claim that something was its release.  If a release did appear, check it with 'eree verify' and
    name it with --release: then the reservation is settled with it, late.
    """
    opened = eree.Ledger.open(where)
    if release is None:
        opened.close(number)
    else:
        settle_late(opened, number, release)
    entry = opened.balance().last.number
    state = "closed" if release is None else "settled"
    if as_json:
        report = {"ledger": opened.name, "entry": entry, "reservation": number, "state": state}
        click.echo(json.dumps(report))
    else:
        click.echo(f"{opened.name}: reservation {number} is {state}; its price stays spent.")


@ledger.command(
    short_help="Keep heads of a ledger at a second place.",
    examples=[
        "eree ledger heads ledger.db /elsewhere/heads.jsonl",
        "eree ledger heads ledger.db releases",
    ],
)
@where_argument
@click.argument("place", metavar="PLACE")
@as_json
def heads(where: str, place: str, as_json: bool) -> None:
    """Keep the number and the hash of every new entry at PLACE too.

    Before anything is spent the ledger is compared with them, so that one that lost entries, or
    was restored from an old copy, is found.  PLACE is a file on another disk, or a folder of
    releases, each of which records the entry that paid for it.
    """
    opened = eree.Ledger.open(where)
    opened.keep_heads(place)
    kept = opened.balance().last.then.heads
    if as_json:
        click.echo(json.dumps({"ledger": opened.name, "heads": kept}))
    else:
        click.echo(f"{opened.name}: heads are kept in {kept}")


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
    where heads of it are kept, or against the releases that were paid from it.  Whoever spends
    looks at the first entry and the last two; this command looks at every one.  Exit status: 0 no
    fault, 1 faults, 2 there is no ledger.
    """
    opened = eree.Ledger.open(where)
    kept = [eree.Release.open(folder).reservation for folder in against]
    faults = opened.verify(against=kept)
    last, note = (None, None) if faults else (opened.balance().last, opened.clock_note())
    if as_json:
        end = {"number": last.number, "hash": last.hash} if last else None
        found = [asdict(fault) for fault in faults]
        report = {"sound": not faults, "last": end, "faults": found, "clock": note}
        click.echo(json.dumps(report))
    elif last is not None:
        click.echo(f"{opened.name}: no fault found; the hash of the last entry, {last.number}, is")
        click.echo(f"  {last.hash}")
        if note:
            click.echo(one_line(f"Note: {note}."))
    else:
        click.echo(f"{opened.name}: {how_many(len(faults), 'fault')}")
        for fault in faults:
            place = fault.column or "ledger"
            click.echo(f"  {one_line(f'{place}: {fault.rule}')}")
    if faults:
        click.get_current_context().exit(1)


def settle_late(opened: eree.Ledger, number: int, folder: Path) -> None:
    """Settle a reservation with the release that it paid for, if that is it and untouched."""
    from eree.release.record import digest_of, file_fault
    from eree.survey.modes import AsPublished

    release = eree.Release.open(folder)
    paid = release.reservation
    if (paid.ledger, paid.number) != (opened.identity, number):
        raise eree.Refusal(
            f"{folder} names entry {paid.number} of another ledger, or another entry than {number};"
            " name the ledger and the entry that paid for it"
        )
    entry = next((e for e in opened.entries() if e.number == number), None)
    relation = opened.total.neighbours
    try:
        record = release.record
        said = {name: value for name, value in record["protects"].items() if name != "data_set"}
        bound = eree.Protected(record["protects"]["data_set"], said).under(relation)
        digest = digest_of(record)
        files = {f: d for table in record["tables"] for f, d in table["files"].items()}
        whole = (
            record["digest"] == digest
            # a cube that is as published is paid for, and never private
            and record["private"] is (record.get("mode") != AsPublished.name)
            and bool(files)
            and all(Path(file).parent == Path("tables") for file in files)
            and not any(file_fault(folder / file, stated) for file, stated in files.items())
        )
        same = (
            entry is not None
            and isinstance(entry.event, Reserved)
            and (entry.event.release, entry.event.price) == (paid.release, paid.price)
            and (entry.event.declaration, entry.event.period) == (bound.digest, record["period"])
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        whole, same = False, False
    if not whole:
        raise eree.Refusal(
            f"the release in {folder} is not as it was written; 'eree verify' lists what changed"
        )
    if not same:
        raise eree.Refusal(
            f"the release in {folder} is not the one that entry {number} paid for; its name, its"
            " price, its declaration or its period is another"
        )
    opened.settle(paid, digest)


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
            what = "; ".join(f"{name}: {text}" for name, text in reserved.what.items())
            figures = plain(reserved.price.epsilon), plain(reserved.price.delta)
            if reserved.period:
                what = f"{reserved.period}: {what}"
            state = account.state(entry.number)
            return number, when, what, reserved.release, *figures, state
        case Settled() | Closed() as ended:
            return number, when, f"{ended.kind}s entry {ended.reservation}", "", "", "", ""
        case HeadsKept() as kept:
            return number, when, f"heads in {kept.place}", "", "", "", ""


def _lossy(entry: Entry) -> bool:
    """Whether an entry paid for a cube as published, whose price covers nothing of it."""
    return isinstance(entry.event, Reserved) and "losses" in entry.event.what


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
            | ({"state": account.state(entry.number)} if entry.kind == "reserve" else {})
            for entry in account.entries
        ],
        "heads": account.last.then.heads,
        "clock": opened.clock_note(),
    }
