"""The command that writes what reviewers ask of a release."""

from __future__ import annotations

import json
from pathlib import Path

import click

import eree
from eree.cli.options import as_json, cli, path
from eree.cli.rank import release_argument
from eree.errors import how_many


@cli.command(
    short_help="Write what reviewers ask of a release.",
    examples=["eree record out --out review", "eree record out --out review --address URL"],
)
@release_argument
@path("--out", "DIR", "A new folder for the three files.", required=True)
@click.option("--address", metavar="URL", help="Where the files of the release can be had.")
@as_json
def record(folder: Path, out: Path, address: str | None, as_json: bool) -> None:
    """Write records for reviewers from the release in DIR.

    nist-sp-800-226.md answers what that publication asks of a guarantee, registry.yaml is an entry
    for the registry of differential-privacy deployments (tier 3), and dcat.jsonld describes the
    data set for catalogues.  What the office alone knows is marked in them.
    """
    made = eree.write_review(folder, out, address=address)
    if as_json:
        click.echo(json.dumps({"folder": str(made.folder), "open": dict(made.open)}))
        return
    for name, places in made.open.items():
        left = f": {how_many(places, 'place')} for the office to fill" if places else ""
        click.echo(f"{made.folder / name}{left}")
