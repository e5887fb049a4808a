"""The commands that protect a survey's cube, and ask the protected one: price first, then pay."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import eree
from eree.cli.cube import cube
from eree.cli.options import as_json, ledger_option, number, path
from eree.cli.terminal import ledger_to_spend_from, progress, say_released
from eree.errors import how_many
from eree.policy.neighbours import plain
from eree.policy.settings import read_toml
from eree.survey.settings import METHODS, MODE_NAMES, SQUARES, UNITS, CubeSettings

#: As many rows as a terminal shows at once.
SHOWN = 40
cube_argument = click.argument("file", metavar="CUBE", type=click.Path(path_type=Path))


def _setting(
    name: str, words: str, metavar: str | None = None, choices: Sequence[str] = ()
) -> Callable[..., Any]:
    """The option of a setting of a cube, with the default that the library has for it."""
    default = next(field.default for field in fields(CubeSettings) if field.name == name)
    use: dict[str, Any] = {"required": True} if default is MISSING else {"default": default}
    kind = click.Choice(choices) if choices else str
    shown = default not in (MISSING, None)
    flag = f"--{name.replace('_', '-')}"
    return click.option(flag, type=kind, metavar=metavar, show_default=shown, help=words, **use)


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a cube is protected."""
    options = (
        _setting("epsilon", "The price, such as 2.", "E"),
        _setting("delta", "Its delta.", "D"),
        _setting("unit", "Whose presence is protected.", choices=UNITS),
        click.option(
            "--control",
            "controls",
            multiple=True,
            metavar="A,B",
            help="A control table by these variables; repeat for more.  [default: all one-way"
            " tables, where they help]",
        ),
        _setting("calibration", "[default: least-squares, or rake as published]", choices=METHODS),
        number("--cycles", "Rake so many cycles at most.  [default: 10, or 50 if nonnegative]"),
        _setting(
            "squares",
            "Pay for a model of sampling errors.  [default: establishments, if their records are"
            " bounded, else records]",
            choices=(*SQUARES, "none"),
        ),
        _setting(
            "mode", "as-published: Li and Krenzke's method, with its losses.", choices=MODE_NAMES
        ),
        number("--cap", "As published: the most records that noise adds or takes away."),
        click.option(
            "--noisy-controls", is_flag=True, help="As published: noise in controls, too."
        ),
        _setting("keep_empty", "As published: the share of empty cells kept.", "S"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of the library behind the options."""
    found = {name: value for name, value in given.items() if value is not None}
    controls = found.pop("controls")
    if controls:
        found["controls"] = [eree.Query.from_text([text]).by for text in controls]
    if found.pop("noisy_controls"):
        found["exact_controls"] = False
    return found


@cube.command(
    short_help="Price a protected cube before a cell is read.",
    examples=[
        "eree cube plan survey.cube --epsilon 2 --unit establishment",
        "eree cube plan survey.cube --epsilon 2 --control occupation,strength",
        "eree cube plan survey.cube --mode as-published --epsilon 7 --cap 1",
    ],
)
@cube_argument
@with_settings
@as_json
def plan(file: Path, as_json: bool, **given: Any) -> None:
    """Show what protecting CUBE costs, and how much noise its tables will have.

    Reads the shape of the cube and its public bounds; no cell.
    """
    planned = eree.plan_cube(eree.CubeOutline.read(file), **settings_of(given))
    if as_json:
        click.echo(json.dumps(planned.as_json()))
        return
    console = Console(markup=False, highlight=False)
    parts = Table(title="What is drawn", title_justify="left")
    parts.add_column("part")
    for name in ("epsilon", "delta", "standard deviation"):
        parts.add_column(name, justify="right", no_wrap=True)
    for part, noise in planned.parts():
        if noise is None:
            parts.add_row(part, "none", "", "0: the truth")
            continue
        price, squared = noise.guarantee, "squared " * part.startswith("sum of squares")
        deviation = f"{_figure(planned.deviation(part, noise))} {squared}{planned.unit}"
        parts.add_row(part, plain(price.epsilon), _short(price.delta), deviation)
    console.print(parts)
    tables = Table(title=f"Noise in tables: standard deviations in {planned.unit}")
    tables.title_justify = "left"
    tables.add_column("table")
    for name in ("cells", "as drawn", "calibrated"):
        tables.add_column(name, justify="right", no_wrap=True)
    for row in _tables(planned.predicted_noise()):
        tables.add_row(*row)
    console.print(tables)
    price = planned.price
    click.echo(
        f"In all: epsilon {plain(price.epsilon)}, delta {_short(price.delta)};"
        f" calibration: {planned.method}; nothing was spent."
    )
    if planned.mode.losses:
        _losses(planned)
    else:
        for statement in price.statements():
            click.echo(f"  {statement.words}")


@cube.command(
    short_help="Publish a protected cube, and pay for it.",
    examples=[
        "eree cube protect survey.cube --out public --ledger survey.db --epsilon 2",
        "eree cube protect survey.cube --out public --ledger survey.db --epsilon 2 \\",
        "    --unit establishment --control occupation --control education,strength",
        "eree cube protect small.cube --out study --ledger record.db \\",
        "    --mode as-published --epsilon 7 --cap 1",
    ],
)
@cube_argument
@path("--out", "DIR", "A new or empty folder for the release.", required=True)
@ledger_option("The ledger that pays: a file or a database URL.")
@with_settings
@click.option("--period", default="", metavar="TEXT", help="What time it is about, as 2026-Q1.")
@path("--about", "FILE.toml", "Title, source, publisher, contact, licence, note.")
@path("--sign", "KEY.pem", "Sign the release with an Ed25519 key.")
@as_json
def protect(
    file: Path,
    out: Path,
    ledger: str | None,
    period: str,
    about: Path | None,
    sign: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Reserve the price, draw the noise of CUBE, calibrate, write and settle.

    What can be refused is refused before anything is paid; after that the price is spent, whatever
    happens.  'eree cube plan' shows the price and the noise before.
    """
    settings = settings_of(given)
    described = {} if about is None else _read(about)
    planned = eree.plan_cube(eree.CubeOutline.read(file), **settings)
    price = planned.price
    if ledger is None:
        delta = f" --delta {_short(price.delta)}" if price.delta else ""
        raise eree.Refusal(
            "a cube must be paid for: name a ledger with --ledger, or make one with 'eree ledger"
            f" create survey.db --neighbours {price.neighbours.name} --epsilon"
            f" {plain(price.epsilon)}{delta}'"
        )
    book = ledger_to_spend_from(ledger)
    signer = eree.Signer.read(sign) if sign is not None else None
    with progress() as tell:
        tell("reading the cube", 0.0)
        made = eree.protect_cube(
            eree.Cube.load(file),
            ledger=book,
            out=out,
            period=period,
            about=described,
            signer=signer,
            progress=tell,
            **settings,
        )
    if as_json:
        words = json.dumps(
            {
                "folder": str(out),
                "release": made.release.identity,
                "cells": made.shape.size,
                "mode": made.mode,
                "calibration": dict(made.calibration),
                "epsilon": str(price.epsilon),
                "delta": str(price.delta),
            }
        )
    else:
        quoted = shlex.quote(str(out))
        words = (
            f"{out}: release {made.release.identity[:8]}, a {made.mode} cube of"
            f" {made.shape.size:,} cells for epsilon {plain(price.epsilon)}, delta"
            f" {_short(price.delta)}.\nNext: eree verify {quoted}, eree cube show {quoted}"
        )
    say_released(words, out)
    if planned.mode.losses and not as_json:
        _losses(planned)


@cube.command(
    short_help="Ask a protected cube for a table.",
    examples=[
        "eree cube show public --by education",
        "eree cube show public --by occupation,strength --level occupation=major",
        "eree cube show public --by education --where occupation=29-0000,31-0000 \\",
        "    --out education.csv",
    ],
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--by", multiple=True, metavar="A,B,…", help="Variables of the table; none: the total."
)
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these codes of a variable.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="A=LEVEL",
    help="Occupations in major, minor or broad groups.",
)
@click.option(
    "--confidence",
    default="0.9",
    show_default=True,
    metavar="C",
    help="The probability that an interval holds.",
)
@path("--out", "FILE.csv", "Write all rows into a new file.")
@as_json
def show(
    folder: Path,
    by: tuple[str, ...],
    where: tuple[str, ...],
    levels: tuple[str, ...],
    confidence: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Add up a table of the protected cube in DIR, with standard errors.

    Every figure is a sum of published cells, so that all tables agree; asking costs nothing.  An
    estimate is unreliable if its standard error is more than 30% of it.
    """
    from eree.estimate.listing import checked_level, write_csv  # databases take a while to import

    query = eree.Query.from_text(by, where, levels)
    level = checked_level(confidence)
    if out is not None:
        eree.new_csv(out)
    with progress() as tell:
        tell("reading the cube", 0.0)
        opened = eree.ProtectedCube.open(folder)
        found = opened.table(query)
    if out is not None:
        write_csv(found.rows(level), out)
    if as_json:
        identity = {"release": opened.release.identity, "private": opened.release.private}
        click.echo(json.dumps(identity | {"mode": opened.mode} | found.as_json(level)))
        return
    Console(markup=False, highlight=False).print(_answer(found, level))
    rows = found.values.size
    if rows > SHOWN:
        click.echo(f"{rows - SHOWN:,} more rows; --out FILE.csv writes all.")
    errors = "sampling and noise" if found.sampling_variance is not None else "noise alone"
    bound = "; that of noise is a bound" * found.bounded
    click.echo(f"Standard errors are of {errors}{bound}.")
    if opened.mode != "guaranteed":
        click.echo(f"The cube is as published: its price covers {opened.covers}.")
    if opened.release.seeded:
        click.echo("The noise was drawn from a seeded source: this release protects nothing.")
    if out is not None:
        click.echo(f"{out}: {how_many(rows, 'row')}")


def _read(about: Path) -> dict[str, str]:
    """What a file says of a release."""
    from eree.release.settings import About  # arrays are not needed for help

    raw = read_toml(about, missing=f'there is no file {about}; write one, with a title = "…"')
    return About.of(raw, about.name).as_json()


def _answer(found: eree.Estimates, level: float) -> Table:
    """The first rows of an answer."""
    from eree.workload import JOB

    kept = " and ".join(f"{name} {', '.join(v)}" for name, v in found.query.where.items())
    title = f"Jobs by {' × '.join(found.query.by)}" if found.query.by else "Jobs"
    shown = Table(title=f"{title}{f', {kept}' if kept else ''}", title_justify="left")
    for axis in found.axes:
        shown.add_column(axis.name, overflow="fold")  # nothing is cut off
    for name in ("jobs", "error", f"margin ({level:.4g})"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    margins = found.margin(level).reshape(-1)[:SHOWN] / JOB
    for row, margin in zip(found.rows(level).slice(0, SHOWN).to_pylist(), margins, strict=True):
        sides = [_label(row, axis.name) for axis in found.axes]
        figures = (row["jobs"], row["standard_error"], margin)
        shown.add_row(*sides, *(f"{figure:,.0f}" for figure in figures), row["flag"])
    return shown


def _label(row: dict[str, Any], name: str) -> str:
    """A code that is a word; with the words for it, if it is none."""
    code = str(row[name])
    words = row.get(f"{name}_label", code)
    return code if code == words or any(map(str.isalpha, code)) else f"{code} {words}"


def _tables(expected: list[Any]) -> list[tuple[str, str, str, str]]:
    """Rows of expected errors: pairs of variables, which may be many, by their extremes."""

    def row(words: str, cells: int, drawn: float, left: float) -> tuple[str, str, str, str]:
        return words, f"{cells:,}", _figure(drawn), _figure(left)

    pairs = sorted((o for o in expected if len(o.by) == 2), key=lambda o: float(o.left))
    shown = []
    for one in expected:
        if len(one.by) == 2 and len(pairs) > 1:
            if one is pairs[0]:
                for words, pair in (("best", pairs[0]), ("worst", pairs[-1])):
                    name = f"{' × '.join(pair.by)} ({words} pair)"
                    shown.append(row(name, pair.cells, pair.drawn, pair.left))
            continue
        name = " × ".join(one.by) if len(one.by) <= 2 else "every cell"
        shown.append(row(name or "total", one.cells, one.drawn, one.left))
    return shown


def _losses(planned: eree.CubePlan) -> None:
    """What a cube as published gives away."""
    click.echo(f"As published, the price covers {planned.mode.covers}.  What is given away:")
    for loss in planned.mode.losses:
        click.echo(f"- {loss}")


def _figure(number: float) -> str:
    """Integers where they are large, three digits where they are not."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _short(value: Any) -> str:
    """A delta in a few digits; records have all of them."""
    exact = plain(value)
    return exact if len(exact) <= 10 else f"{float(value):.4g}"
