"""The command that compares two areas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import eree
from eree.cli.options import as_json, cli
from eree.cli.rank import release_argument, table_argument, warn_of
from eree.cli.terminal import progress


@cli.command(
    short_help="Compare the jobs of two areas.",
    examples=[
        "eree compare out jobs --first place=1709077 --second place=1870022",
        "eree compare out people --first sex=F --second sex=M --where education=college",
    ],
)
@release_argument
@table_argument
@click.option("--first", multiple=True, required=True, metavar="A=X", help="The first area.")
@click.option("--second", multiple=True, required=True, metavar="A=Y", help="The second area.")
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@click.option("--level", default="0.9", show_default=True, metavar="L", help="Of the intervals.")
@as_json
def compare(
    folder: Path,
    table: str,
    first: tuple[str, ...],
    second: tuple[str, ...],
    where: tuple[str, ...],
    level: str,
    as_json: bool,
) -> None:
    """Say how many more jobs one area of TABLE has than another, and how many times as many.

    Intervals are calibrated: they hold on average if sizes of workplaces are as the release shows
    them.
    """
    release = eree.Release.open(folder)
    with progress() as tell:
        tell("adding up", 0.0)
        found = eree.compare(
            release, table, _named(release, first), _named(release, second), where or None, level
        )
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    click.echo(f"difference {found.difference:,.0f}: {found.low:,} to {found.high:,}")
    if found.ratio is not None:
        ends = found.ratio_low, found.ratio_high
        known = f": {ends[0]:.4g} to {ends[1]:.4g}" if None not in ends else ", of any size"
        click.echo(f"ratio {found.ratio:.4g}{known}")
    which = {1: "the first has more", 2: "the second has more"}
    by = f"by the calibrated interval at {found.level:g}"
    click.echo(f"{by}, {which.get(found.larger or 0, 'either may have more')}")
    warn_of(release)


def _named(release: eree.Release, texts: tuple[str, ...]) -> dict[str, Any]:
    """An area from texts such as place=1709077."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        known = release.schema.attributes.get(name)
        whole = known is not None and known.kind == "integer" and value.isdecimal()
        found[name] = int(value) if whole else value
    return found
