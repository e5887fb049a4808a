"""The command that serves releases to the public in a browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eree.cli.options import as_json, certificates, cli, fresh_option, number, path
from eree.cli.terminal import progress

if TYPE_CHECKING:
    from eree.web.server import Door


@cli.command(
    short_help="Serve releases in a browser.",
    examples=[
        "eree serve out",
        "eree serve jobs-2026 survey-2026 --port 8080",
        "eree serve out --map place=places.geojson",
        "eree serve out --map county:GEOID=counties.geojson",
        "eree serve out --site site.toml",
        "eree serve out --host 0.0.0.0 --address https://host.example.org",
    ],
)
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@number("--port", "The port; 0 takes any that is free.", 8000)
@click.option("--address", metavar="URL", help="The public address, for permalinks and citations.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="NAME=FILE",
    help="Public GeoJSON of a variable's areas; NAME:PROPERTY=FILE says where codes are.",
)
@path("--site", "FILE.toml", "The site's name, logo, colours, languages, names of areas.")
@fresh_option
@as_json
def serve(
    folders: tuple[Path, ...],
    host: str,
    port: int,
    address: str | None,
    maps: tuple[str, ...],
    site: Path | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Serve the releases and protected cubes in DIR… until interrupted.

    Every folder is verified first; nothing else is ever opened but the maps, what the site's file
    names and the user's own cache of certificates: no confidential file, no ledger, no key.
    """
    from eree.web.server import Door  # the web framework is not needed for anything else

    with certificates(fresh):
        door = Door(host, port)
        run_query_tool(folders, door, address=address, maps=maps, site=site, as_json=as_json)


def run_query_tool(
    folders: Sequence[Path],
    door: Door,
    *,
    address: str | None = None,
    maps: Sequence[str] = (),
    site: Path | None = None,
    as_json: bool,
) -> None:
    """Verify folders and serve them behind a door; says where, once the first may ask."""
    from eree.web.server import QueryTool

    with progress() as tell:
        tool = QueryTool(folders, door=door, home=address, maps=maps, site=site, progress=tell)
    names = [data.name for data in tool.catalogue.data_sets]

    def ready() -> None:
        if as_json:
            found = {"address": tool.address, "data_sets": names, "maps": list(tool.catalogue.maps)}
            click.echo(json.dumps(found))
        else:
            for line in tool.maps():
                click.echo(line)
            count = f"{len(names)} data set{'s' * (len(names) != 1)}"
            click.echo(f"Serving {count} at {tool.address}  (stop with Ctrl-C)")

    tool.run(ready)
