"""The command that serves releases to the public in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import click

from eree.cli.options import as_json, cli, number
from eree.cli.terminal import progress


@cli.command(
    short_help="Serve releases in a browser.",
    examples=[
        "eree serve out",
        "eree serve jobs-2026 survey-2026 --port 8080",
        "eree serve out --map place=places.geojson",
        "eree serve out --map county:GEOID=counties.geojson",
        "eree serve out --host 0.0.0.0 --address https://data.example.org",
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
@as_json
def serve(
    folders: tuple[Path, ...],
    host: str,
    port: int,
    address: str | None,
    maps: tuple[str, ...],
    as_json: bool,
) -> None:
    """Serve the releases and protected cubes in DIR… until interrupted.

    Every folder is verified first; nothing else but the maps is ever opened: no confidential file,
    no ledger, no key.
    """
    from eree.web.server import QueryTool  # the web framework is not needed for anything else

    with progress() as tell:
        tool = QueryTool(folders, host=host, port=port, home=address, maps=maps, progress=tell)
    names = [data.name for data in tool.catalogue.data_sets]
    if as_json:
        found = {"address": tool.address, "data_sets": names, "maps": list(tool.catalogue.maps)}
        click.echo(json.dumps(found))
    else:
        for words in tool.map_words():
            click.echo(words)
        count = f"{len(names)} data set{'s' * (len(names) != 1)}"
        click.echo(f"Serving {count} at {tool.address}  (stop with Ctrl-C)")
    tool.run()
