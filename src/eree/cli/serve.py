"""The command that serves releases to the public in a browser."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eree.cli.options import as_json, certificates, cli, fresh_option, number, path
from eree.cli.terminal import progress
from eree.errors import Refusal, how_many
from eree.release.record import RECORD

if TYPE_CHECKING:
    from eree.web.server import Door

#: The longest that new releases may have to wait.
MOST_SECONDS = 86_400
#: So long nothing has to be there until the last release counts as withdrawn.
SWAP_SECONDS = 2.0
#: So many new objects are made before any in circles are looked for: what is loaded stays.
NEW_OBJECTS = 100_000


@cli.command(
    short_help="Serve releases in a browser.",
    examples=[
        "eree serve out",
        "eree serve jobs-2026 survey-2026 --port 8080",
        "eree serve out --map place=places.geojson",
        "eree serve out --map county:GEOID=counties.geojson",
        "eree serve out --site site.toml",
        "eree serve out --host 0.0.0.0 --address https://host.example.org/jobs",
        "eree serve releases --watch 60 --workers 4 --log json",
        "eree serve releases --watch 60 --workers 4 --log json --check",
    ],
)
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@number("--port", "The port; 0 takes any that is free.", 8000)
@click.option("--address", metavar="URL", help="The public address; its path is before all links.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="NAME=FILE",
    help="Public GeoJSON of a variable's areas; NAME:PROPERTY=FILE says where codes are.",
)
@path("--site", "FILE.toml", "The site's name, logo, colours, languages, names of areas.")
@number("--workers", "Processes that answer; they share the memory of the data.", 1)
@number("--watch", "Look for new releases every N seconds, also within DIR…; SIGHUP: now.")
@click.option("--metrics", is_flag=True, help="Answer /metrics, in Prometheus' text format.")
@click.option("--log", metavar="FORM", help="A line on stderr for each answer: combined, or json.")
@click.option(
    "--check", is_flag=True, help="Say what would be served, get it ready for a start, and end."
)
@fresh_option
@as_json
def serve(
    folders: tuple[Path, ...],
    host: str,
    port: int,
    address: str | None,
    maps: tuple[str, ...],
    site: Path | None,
    workers: int,
    watch: int | None,
    metrics: bool,
    log: str | None,
    check: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Serve the releases and protected cubes in DIR… until interrupted.

    Every folder is verified first, and until then who asks hears how far that is; nothing else is
    ever opened but the maps, what the site's file names and the user's own cache of certificates:
    no confidential file, no ledger, no key.

    With --check all of it has to be fit to be served, and what was verified and learnt is kept, so
    that a start after it takes seconds.  Exit status: 0 it can be served, 2 it cannot.
    """
    gc.set_threshold(NEW_OBJECTS)
    from eree.web.server import Door  # the web framework is not needed for anything else

    with certificates(fresh), Door(host, 0 if check and 0 <= port <= 65_535 else port) as door:
        run_query_tool(
            folders,
            door,
            address=address,
            maps=maps,
            site=site,
            workers=workers,
            watch=watch,
            metrics=metrics,
            log=log,
            check=check,
            as_json=as_json,
        )


def run_query_tool(
    folders: Sequence[Path],
    door: Door,
    *,
    address: str | None = None,
    maps: Sequence[str] = (),
    site: Path | None = None,
    workers: int = 1,
    watch: int | None = None,
    metrics: bool = False,
    log: str | None = None,
    check: bool = False,
    as_json: bool,
) -> None:
    """Verify folders and serve them behind a door; says where, once the first may ask.

    With `check` they are verified alone.
    """
    from eree.web.catalogue import releases_in, seen_in
    from eree.web.codelists import CodeLists
    from eree.web.generations import MOST_WORKERS, Generations
    from eree.web.operations import Counters, log_form
    from eree.web.server import QueryTool
    from eree.web.waiting import WaitingRoom

    if not 1 <= workers <= MOST_WORKERS:
        raise Refusal(f"--workers is a number from 1 to {MOST_WORKERS}")
    if watch is not None and not 1 <= watch <= MOST_SECONDS:
        raise Refusal(f"--watch is a number of seconds from 1 to {MOST_SECONDS:,}")
    counters, lists = Counters(2 * workers) if metrics else None, CodeLists()
    form = log_form(log)

    def complain(reason: str) -> None:
        click.echo(f"eree: {reason}", err=True)

    served: list[str] | None = None

    def withdrawn() -> bool:
        """Whether all that is served has gone."""
        return served is not None and not any((Path(one) / RECORD).exists() for one in served)

    def opened(room: WaitingRoom | None = None) -> QueryTool:
        found = folders if watch is None else releases_in(folders)
        if withdrawn():
            time.sleep(SWAP_SECONDS)  # one may be about to take the place of another
            found = releases_in(folders)
        if room is not None:
            room.entered()
        with progress() as tell:

            def report(step: str, done: float) -> None:
                tell(step, done)
                if room is not None:
                    room.share = done

            tool = QueryTool(
                found,
                door=door,
                home=address,
                maps=maps,
                site=site,
                progress=report,
                counters=counters,
                lists=lists,
                log=form,
                left_out=None if watch is None or check else complain,
                may_be_none=withdrawn(),
            )
        if room is not None:
            room.leave()
        return tool

    def ready(said: Mapping[str, Any]) -> None:
        nonlocal served
        served, names = said["folders"], said["data_sets"]
        if as_json:
            where = {} if check else {"address": door.address}
            click.echo(json.dumps({**where, "data_sets": names, "maps": said["maps"]}))
            return
        for line in said["lines"]:
            click.echo(line)
        count = how_many(len(names), "data set")
        if check:
            click.echo(f"{count} can be served")
        else:
            click.echo(f"Serving {count} at {door.address}  (stop with Ctrl-C)")

    if check:
        ready(opened().said())
        return
    if door.public:
        complain(f"other machines may reach {door.address}; let a proxy stand before it")
    with WaitingRoom(door, home=address, site=site, log=form) as room:
        if workers == 1 and watch is None:
            tool = opened(room)
            tool.run(lambda: ready(tool.said()))
            return

        def first_ready(said: Mapping[str, Any]) -> None:
            room.leave()  # it has ended, and nobody else asks how
            ready(said)

        files = [Path(given.partition("=")[2]) for given in maps]
        changes = None if watch is None else partial(seen_in, folders, files)
        Generations(
            partial(opened, room),
            workers=workers,
            counters=counters,
            changes=changes,
            every=watch or 0,
        ).run(first_ready, complain)
