"""The commands that plan and publish: price first, then pay, then tables."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource

import eree
from eree.cli.options import (
    as_json,
    certificates,
    cli,
    fresh_option,
    ledger_option,
    path,
    with_engine,
)
from eree.cli.terminal import ledger_to_spend_from, one_line, progress, say_released
from eree.errors import how_many
from eree.policy.neighbours import plain
from eree.release.issue import new_folder

plan_argument = click.argument("file", metavar="PLAN.toml", type=click.Path(path_type=Path))


#: A table that most plans can afford.
_PROFILE = """\
  [[table]]
  name = "sizes"
  count = "workplaces"
  by = []
  share = "0.02\""""


@cli.command(
    short_help="Price a plan before anything is read.",
    examples=[
        "eree plan plan.toml",
        "eree plan plan.toml --memo memo.md --ledger ledger.db",
        "eree plan plan.toml --sizes sizes.csv",
        "eree plan plan.toml --explore errors.png",
    ],
)
@plan_argument
@path("--sizes", "FILE.csv", "Predict errors from public numbers of workplaces by size.")
@path("--shares", "FILE.csv", "Public shares of workers, for worker cells under weak neighbours.")
@path("--memo", "FILE", "Write the page that a review board signs.")
@path("--explore", "FILE.png", "Draw errors against epsilon, and show nothing else.")
@ledger_option("Say what the ledger has left.")
@as_json
def plan(
    file: Path,
    sizes: Path | None,
    shares: Path | None,
    memo: Path | None,
    explore: Path | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Show what PLAN.toml costs and how good its tables will be.

    Reads the plan, the schema and the public workplaces; no confidential row.

    Exit status: 0 the plan can be published, 1 the ledger has not enough left or does not fit, 2
    refused.
    """
    try:
        planned = eree.Plan.read(file)
    except eree.Faulty as faulty:
        if len(faulty.faults) == 1:
            raise
        said = [one_line(str(fault)) for fault in faulty.faults]
        if as_json:
            raise eree.Refusal("; ".join(said)) from None
        for line in said:
            click.echo(line)
        raise eree.Refusal(f"{file} has {len(said)} faults; mend them all") from None
    if shares is not None and sizes is None:
        raise eree.Refusal("shares of workers are of use with --sizes alone; give both")
    if explore is not None:
        asked = click.get_current_context().get_parameter_source("ledger")
        if memo is not None or asked is ParameterSource.COMMANDLINE:
            raise eree.Refusal("--explore stands alone; leave --memo and --ledger out")
        _explore(file, explore, sizes, shares, as_json)
        return
    known = eree.WorkplaceSizes.read(sizes, planned.schema) if sizes is not None else None
    people = eree.WorkerShares.read(shares, planned.schema) if shares is not None else None
    book = eree.Ledger.open(ledger) if ledger is not None else None
    left = book.left() if book is not None else None
    price = planned.price()
    enough = left is None or (price.epsilon <= left.epsilon and price.delta <= left.delta)
    unfit = _unfit(planned, book, price if enough else None) if book is not None else ""
    with progress() as tell:
        ahead = eree.expected_accuracy(planned, sizes=known, shares=people, progress=tell)
    if memo is not None and not unfit:
        if memo.exists():
            raise eree.Refusal(f"{memo} exists already; choose another name or remove it")
        try:
            memo.write_text(eree.memo(ahead, left), encoding="utf-8")
        except OSError as error:
            with suppress(OSError):
                memo.unlink(missing_ok=True)
            raise eree.Refusal(f"{memo} cannot be written: {error.strerror}") from None
    if as_json:
        found = ahead.as_json()
        if left is not None:
            found["left"] = {"epsilon": str(left.epsilon), "delta": str(left.delta)}
            found |= {"enough": enough, "unfit": unfit}
        click.echo(json.dumps(found))
        if unfit or not enough:
            click.get_current_context().exit(1)
        return
    click.echo(f"{ahead}; nothing was spent.")
    for statement in price.statements(jobs=planned.schema.job.counted):
        click.echo(f"  {statement.words}")
    if planned.lacks_profile:
        click.echo(f"A size profile of all workplaces would cost 2% of epsilon:\n{_PROFILE}")
    if left is not None:
        click.echo(
            f"The ledger has epsilon {plain(left.epsilon)}, delta {plain(left.delta)} left:"
            f" {'enough' if enough else 'NOT ENOUGH'}."
        )
    if unfit:
        click.echo(f"NOT FIT for this ledger: {unfit}.")
        click.get_current_context().exit(1)
    if memo is not None:
        click.echo(f"{memo}: the page to sign")
    if not enough:
        click.get_current_context().exit(1)


def _explore(file: Path, out: Path, sizes: Path | None, shares: Path | None, as_json: bool) -> None:
    """Errors against epsilon: a picture, and a line for each table."""
    with progress() as tell:
        found = eree.explore(file, sizes=sizes, shares=shares, progress=tell)
        found.draw(out)
    if as_json:
        click.echo(json.dumps({"file": str(out), **found.as_json()}))
        return
    click.echo(f"{found}\n{out}: the picture")


def _unfit(planned: eree.Plan, book: eree.Ledger, price: eree.Guarantee | None) -> str:
    """Why a ledger would not pay a price, or whatever a plan costs, in the words of spending."""
    try:
        _check(planned, book, price or eree.Guarantee(planned.total.neighbours, 0))
    except eree.Refusal as refusal:
        return str(refusal)
    return ""


def _check(planned: eree.Plan, book: eree.Ledger, price: eree.Guarantee) -> None:
    """Refuse what a ledger would refuse to pay."""
    balance = book.balance()
    relation = balance.total.neighbours
    book.check_heads()
    balance.check(price, planned.protects(relation).under(relation))


@cli.command(
    short_help="Publish the tables of a plan, and pay for them.",
    examples=[
        "eree release plan.toml --out out --ledger ledger.db",
        "eree release plan.toml --out out --ledger ledger.db --sign key.pem",
    ],
)
@plan_argument
@path("--out", "DIR", "A new or empty folder for the release.", required=True)
@ledger_option("The ledger that pays: a file or a database URL.")
@path("--sign", "KEY.pem", "Sign the release with an Ed25519 key.")
@with_engine
@as_json
def release(
    file: Path,
    out: Path,
    ledger: str | None,
    sign: Path | None,
    engine: str,
    memory_limit: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Reserve the price, count, perturb, write and settle the tables of PLAN.toml.

    The tables are checked first.  What can be refused is refused before anything is paid; after
    that the price is spent, whatever happens.
    """
    planned = eree.Plan.read(file)
    if ledger is None:
        total = planned.total
        raise eree.Refusal(
            "a release must be paid for: name a ledger with --ledger, or make one with"
            f" 'eree ledger create ledger.db --neighbours {total.neighbours.name} …'"
        )
    book = ledger_to_spend_from(ledger)
    signer = eree.Signer.read(sign) if sign is not None else None
    new_folder(out)
    _check(planned, book, planned.price())  # before the tables are read, which may take long
    with progress() as tell:
        tables = eree.load(
            planned.data,
            engine=engine,
            memory_limit=memory_limit,
            threads=threads,
            progress=lambda step, done: tell(step, 0.6 * done),
        )
        made = eree.publish(
            planned,
            tables,
            ledger=book,
            out=out,
            signer=signer,
            progress=lambda step, done: tell(step, 0.6 + 0.4 * done),
        )
    price = planned.price()
    if as_json:
        words = json.dumps(
            {
                "folder": str(out),
                "release": made.identity,
                "tables": list(made.tables),
                "epsilon": str(price.epsilon),
                "delta": str(price.delta),
            }
        )
    else:
        words = (
            f"{out}: release {made.identity[:8]} of {', '.join(made.tables)} for epsilon"
            f" {plain(price.epsilon)}, delta {plain(price.delta)}.\n"
            f"{_crossing(made)}"
            f"Next: eree verify {shlex.quote(str(out))}, eree estimate {shlex.quote(str(out))}"
        )
    say_released(words, out)


def _crossing(made: eree.Release) -> str:
    """Coarser areas that a reference names and that the workplaces contradict."""
    return "".join(
        f"In which {name} each {one['of']} lies, the reference and the workplaces disagree:\n"
        f"tables by {one['of']} cannot be added up by {name}.\n"
        for one in made.record["areas"]
        for name in one["crossing"]
    )


@cli.command(
    short_help="Estimates and calibrated intervals of a release, for nothing.",
    examples=["eree estimate out", "eree estimate out --sizes business-patterns.csv"],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@path(
    "--sizes", "FILE.csv", "Public numbers of workplaces by class of size; kept in DIR/estimates."
)
@as_json
def estimate(folder: Path, sizes: Path | None, as_json: bool) -> None:
    """Write every cell of the release in DIR with calibrated intervals, into DIR/estimates.

    Tables agree there: what two of them count is one number, by weighted least squares.  Estimates
    are made of what was released, so they cost no budget; 'eree verify' makes them again.
    Sizes of workplaces are those of the file, else of the release's size profile, else learnt from
    the tables.  The file has the columns from, to, workplaces, and perhaps jobs and attributes.
    """
    with progress() as tell:
        made = eree.write_estimates(eree.Release.open(folder), sizes, progress=tell)
    if as_json:
        fits = {name: asdict(fit) for name, fit in made.fits.items()}
        found = {
            "folder": str(made.folder),
            "tables": list(made.tables),
            "fits": fits,
            "agreeing": made.agreement.as_json(),
        }
        click.echo(json.dumps(found))
        return
    click.echo(made)


@cli.command(
    short_help="Recheck a release without the confidential data.",
    examples=[
        "eree verify out",
        "eree verify out --fresh",
        "eree verify out --ledger ledger.db --key agency.pem",
        "eree verify out --size-release sizes",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--ledger", metavar="WHERE", help="The ledger that must have paid for it.")
@path("--key", "KEY.pem", "The public key that must have signed it.")
@click.option(
    "--size-release",
    "sizes",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A release that its strata of workplaces are made of; may be repeated.",
)
@fresh_option
@as_json
def verify(
    folder: Path,
    ledger: str | None,
    key: Path | None,
    sizes: tuple[Path, ...],
    fresh: bool,
    as_json: bool,
) -> None:
    """Recheck every file, price, mechanism and interval of the release in DIR.

    With --size-release, strata by noisy size ('eree strata') are made again and compared; without
    it they are on their author's word, and that is said.

    Exit status: 0 all is as it was published, 1 something is wrong, 2 there is no release.
    """
    made = eree.Release.open(folder)
    book = eree.Ledger.open(ledger) if ledger is not None else None
    public = eree.public_key_of(key) if key is not None else None
    with progress() as tell, certificates(fresh):
        given = [eree.Release.open(size) for size in sizes]
        found = eree.verify(made, ledger=book, public_key=public, sizes=given, progress=tell)
    if as_json:
        said = {
            "sound": found.sound,
            "checks": list(found.checks),
            "faults": [asdict(fault) for fault in found.faults],
            "kept_certificates": found.kept,
        }
        click.echo(json.dumps(said))
    elif found.sound:
        click.echo(f"{folder}: sound")
        for check in found.checks:
            click.echo(f"  {check}")
    else:
        click.echo(f"{folder}: {how_many(len(found.faults), 'fault')}")
        for fault in found.faults:
            click.echo(f"  {one_line(str(fault))}")
    if not found.sound:
        click.get_current_context().exit(1)
