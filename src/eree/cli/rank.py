"""The commands that use a release: rankings, thresholds, estimates, and the shape of LODES."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import eree
from eree.cli.options import as_json, cli, number, path
from eree.cli.terminal import progress
from eree.errors import how_many

#: As many areas as a terminal shows at once.
SHOWN = 20
DASH = "–"

release_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
table_argument = click.argument("table", metavar="TABLE")
by_option = click.option(
    "--by",
    multiple=True,
    required=True,
    metavar="A,B,…",
    help="Attributes that make the areas: the table's, or coarser ones.",
)
level_option = click.option(
    "--level",
    default="0.9",
    show_default=True,
    metavar="L",
    help="The probability that all intervals hold together.",
)


@cli.command(
    short_help="Rank areas, with the ranks that they may truly have.",
    examples=[
        "eree rank out place-sector-ownership --by place",
        "eree rank out place-sector-ownership --by place --where sector=72 --top 5",
        "eree rank out place-sector-ownership --by place --where state=17",
        "eree rank out place-sector-ownership --by sector --level 0.95 --out sectors.csv",
    ],
)
@release_argument
@table_argument
@by_option
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@level_option
@number("--top", "Show the first N areas only; they are ranked among all.")
@path("--out", "FILE.csv", "Write all areas into a new file.")
@as_json
def rank(
    folder: Path,
    table: str,
    by: tuple[str, ...],
    where: tuple[str, ...],
    level: str,
    top: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank areas by the jobs that TABLE of the release in DIR has in them.

    Jobs are added up from the noisy counts.  Beside each rank stand the best and the worst that
    the true one can be: for the area by itself, and for all areas together.  Intervals are
    calibrated: they hold on average if sizes of workplaces are as the release shows them.
    """
    _check(top, out)
    with progress() as tell:
        tell("adding up", 0.0)
        found = eree.rank(eree.Release.open(folder), table, by, where or None, level)
    if out is not None:
        found.write(out)
    if as_json:
        click.echo(json.dumps(found.as_json(top)))
        return
    rows = SHOWN if top is None else top
    _end(found, ranking_table(found, rows), rows, out, "ranks and intervals")


def ranking_table(found: eree.Ranking, rows: int) -> Table:
    """The first rows of a ranking."""
    shown = Table(title=_title(found, "Jobs"), title_justify="left")
    _numbers(shown, "rank", "own rank", "together")
    _areas(shown, found)
    _numbers(shown, "jobs", "true jobs")
    for row in found.rows.slice(0, rows).to_pylist():
        ranks = (_from_to(row, "own_best", "own_worst"), _from_to(row, "best", "worst"))
        jobs = f"{row['noisy']:,}", _from_to(row, "low", "high")
        shown.add_row(f"{row['rank']:,}", *ranks, *_area(found, row), *jobs)
    return shown


@cli.command(
    short_help="Compare damage per job with a threshold.",
    examples=[
        "eree threshold out county --by county --damage damage.csv --per-job 3.50",
        "eree threshold out county --by county --damage d.csv --per-job 3.50 --json",
    ],
)
@release_argument
@table_argument
@by_option
@path("--damage", "FILE.csv", "The areas' attributes and their damage.", required=True)
@click.option("--per-job", required=True, metavar="T", help="The threshold, such as 3.50.")
@level_option
@path("--out", "FILE.csv", "Write all areas into a new file.")
@as_json
def threshold(
    folder: Path,
    table: str,
    by: tuple[str, ...],
    damage: Path,
    per_job: str,
    level: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Say which areas have more damage for each job than a threshold.

    Areas are above or below it if that is sure by calibrated intervals, else undecided.  The
    file has the attributes and 'damage' as its columns; areas that are not in it are left out.
    """
    _check(None, out)
    with progress() as tell:
        tell("adding up", 0.0)
        found = eree.threshold(eree.Release.open(folder), table, by, damage, per_job, level)
    if out is not None:
        found.write(out)
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    shown = Table(title=_title(found, "Damage per job"), title_justify="left")
    _areas(shown, found)
    _numbers(shown, "damage", "jobs", "true jobs", "per job", "decision")
    for row in found.rows.to_pylist():
        each = DASH if row["per_job"] is None else f"{row['per_job']:,.2f}"
        jobs = f"{row['noisy']:,}", _from_to(row, "low", "high")
        shown.add_row(*_area(found, row), row["damage"], *jobs, each, row["decision"])
    _end(found, shown, len(found), out, "decisions")


@cli.command(
    short_help="Write a release in the shape of LODES.",
    examples=[
        "eree lodes out --geocode tract --out wac.csv",
        "eree lodes out --geocode county --table county-sex --out wac.csv.gz",
        "eree lodes out --geocode tract --where state=17 --out w.csv --crosswalk x.csv",
        "eree lodes out --geocode tract --columns primary.toml --folder wac",
    ],
)
@release_argument
@click.option("--geocode", required=True, metavar="A", help="The attribute for w_geocode.")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Use these tables only.")
@click.option("--where", multiple=True, metavar="A=X,Y", help="Keep these values of an attribute.")
@path("--columns", "FILE.toml", "Other columns than those of LODES.")
@path("--out", "FILE.csv", "A new file, with the columns that tables hold.")
@path("--intervals", "FILE.csv", "A new file for calibrated intervals.")
@path("--crosswalk", "FILE.csv", "A new file for the areas that each lies in.")
@click.option(
    "--numbers",
    type=click.Choice(["estimates", "biased-counts", "shrunk", "measured"]),
    default="estimates",
    show_default=True,
    help="Estimates that agree, the same from 0 on, shrunk ones, or what was measured.",
)
@click.option(
    "--folder",
    "files",
    type=click.Path(path_type=Path),
    metavar="NEW",
    help="A new folder, for files named and shaped as LODES has them.",
)
@number("--year", "The year of --folder, if the release names none.")
@as_json
def lodes(
    folder: Path,
    geocode: str,
    tables: tuple[str, ...],
    where: tuple[str, ...],
    columns: Path | None,
    out: Path | None,
    intervals: Path | None,
    crosswalk: Path | None,
    numbers: str,
    files: Path | None,
    year: int | None,
    as_json: bool,
) -> None:
    """Write the tables of the release in DIR in columns like those of LODES.

    C000 has all jobs; CA, CE, CNS, CR, CT, CD and CS those by age, earnings, sector, race,
    ethnicity, education and sex, as far as released tables hold them.  There are no firms (CFA,
    CFS) to count by.  The attribute for w_geocode is one that tables are counted by, or a coarser
    one that it lies in.  A file that ends in .csv.gz is gzipped.

    With --folder there is a file for each state, segment (such as SA01) and job type (such as
    JT00) that tables hold, with all columns; those that no table has are empty, and notes.txt
    says why.  --columns then changes some columns, segments and job types.
    """
    if (out is None) == (files is None):
        raise eree.Refusal("say where to write: one file with --out, or all with --folder")
    asked: dict[str, Any] = {"columns": columns, "numbers": numbers}
    asked |= {"tables": tables or None, "where": where or None}
    if files is not None:
        if intervals is not None or crosswalk is not None:
            raise eree.Refusal("--intervals and --crosswalk go with --out, and not with --folder")
        _lodes_files(folder, geocode, files, as_json, year=year, **asked)
        return
    if year is not None:
        raise eree.Refusal("--year goes with --folder; one file has no year in its name")
    assert out is not None
    for file in (out, intervals, crosswalk):
        if file is not None:
            eree.new_csv(file, gzipped=True)
    with progress() as tell:
        tell("adding up", 0.0)
        made = eree.lodes(eree.Release.open(folder), geocode, **asked)
        made.write(out, intervals, crosswalk)
    if as_json:
        click.echo(json.dumps({"file": str(out), **made.as_json()}))
        return
    click.echo(f"{out}: {how_many(made.rows.num_rows, 'area')}")
    for line in made.words:
        click.echo(f"  {line}")
    warn_of(made.release)


def _lodes_files(folder: Path, geocode: str, out: Path, as_json: bool, **asked: Any) -> None:
    """Write all files of LODES that a release can fill."""
    with progress() as tell:
        tell("adding up", 0.0)
        made = eree.lodes_files(eree.Release.open(folder), geocode, **asked)
        made.write(out)
    names = list(made.files())
    if as_json:
        click.echo(json.dumps({"folder": str(out), "files": names, **made.as_json()}))
        return
    click.echo(
        f"{out}: {how_many(len(names), 'file')}, {how_many(len(made.areas), 'area')}, {made.year}"
    )
    for part in made.parts:
        whole = len(part.counts) + len(part.missing)
        click.echo(f"  {part.segment} {part.job_type}: {len(part.counts)} of {whole} columns")
    if made.missing:
        click.echo(f"  {len(made.missing)} segments and job types have no file")
    click.echo(f"{out / 'notes.txt'} says which tables columns are from, and what lacks.")
    warn_of(made.release)


@cli.command(
    short_help="Estimate worker cells with smaller errors.",
    examples=[
        "eree shrink out people --out people.csv",
        "eree shrink out wac-sex --by tract,sex --out sex.csv",
        "eree shrink out sites --by place,sector,sex --out people.csv",
        "eree shrink out large small --by place,sector,sex --out people.csv",
    ],
)
@release_argument
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option(
    "--by",
    multiple=True,
    metavar="NAME,…",
    help="Add cells up by these attributes, where that helps.",
)
@path("--out", "FILE.csv", "A new file, outside the release.", required=True)
@as_json
def shrink(
    folder: Path, tables: tuple[str, ...], by: tuple[str, ...], out: Path, as_json: bool
) -> None:
    """Estimate the worker cells of TABLE of the release in DIR with smaller errors.

    Empirical-Bayes estimates: cells are shrunk to the shares of their kind of workplaces, the more,
    the more noise they have.  Only the release is used, so it costs no privacy; low and high are
    the calibrated interval, guaranteed_low and guaranteed_high hold whatever the estimates assume.
    Marginals of one draw are estimated together.  Tables that share no workplace are added up, such
    as large ones one by one and small ones together.
    """
    _check(None, out)
    with progress() as tell:
        tell("estimating shares of each kind", 0.0)
        made = eree.shrink(eree.Release.open(folder), tables, by)
        made.write(out)
    if as_json:
        said = made.as_json(0)
        del said["areas"]
        click.echo(json.dumps({"file": str(out), "cells": len(made), **said}))
        return
    click.echo(f"{out}: {how_many(len(made), 'cell')}")
    for table, kept in made.filters_in_words.items():
        click.echo(f"  {table} has {kept} alone")
    correlations = ", ".join(f"{name} {value:.3f}" for name, value in made.correlations.items())
    click.echo(f"  intra-class correlations of workers of one workplace: {correlations}")
    warn_of(made.release)


@cli.command(
    short_help="Sort workplaces into strata by noisy size.",
    examples=[
        "eree strata out sizes --cut 40 --out data/size_stratum.csv",
        "eree strata out sizes --cut 40 --cut 500 --out data/size_stratum.csv",
    ],
)
@release_argument
@table_argument
@click.option(
    "--cut",
    "cuts",
    multiple=True,
    required=True,
    type=int,
    metavar="N",
    help="A noisy size at which a new stratum begins.",
)
@path("--out", "FILE.csv", "A new file, best in the folder of the data.", required=True)
@as_json
def strata(folder: Path, table: str, cuts: tuple[int, ...], out: Path, as_json: bool) -> None:
    """Sort the workplaces of TABLE of the release in DIR into strata by noisy size.

    TABLE has a row for each workplace.  Strata are made of the release alone, so they are public
    and cost nothing; the lines that are shown make them an attribute of workplaces, by which later
    plans may count and filter.
    """
    _check(None, out)
    made = eree.size_strata(eree.Release.open(folder), table, cuts)
    made.write(out)
    if as_json:
        said = {"file": str(out), "strata": made.counts, "private": made.release.private}
        click.echo(json.dumps({**said, "provenance": asdict(made.provenance)}))
        return
    counted = ", ".join(f"{number:,} of {name}" for name, number in made.counts.items())
    click.echo(f"{out}: {how_many(sum(made.counts.values()), 'workplace')}, {counted}")
    click.echo(f"In schema.toml beside it:\n\n{made.declaration(out.stem, out.name)}\n")
    warn_of(made.release)


def _check(top: int | None, out: Path | None) -> None:
    """Refuse what can be refused before a table is read."""
    if top is not None and top < 1:
        raise eree.Refusal("--top must be an integer, 1 or more")
    if out is not None:
        eree.new_csv(out)


def _title(found: eree.Listing, what: str) -> str:
    """What a table shows, and of whom: with a filter it is not about all jobs."""
    return f"{what} by {' × '.join(found.by)}{f', {found.filter}' if found.where else ''}"


def _numbers(shown: Table, *names: str) -> None:
    for name in names:
        shown.add_column(name, justify="right", no_wrap=True)


def _areas(shown: Table, found: eree.Listing) -> None:
    """Columns that give way where the terminal is too narrow."""
    for name in found.by:
        shown.add_column(name)


def _area(found: eree.Listing, row: dict[str, Any]) -> list[str]:
    return [found.label(name, row[name]) for name in found.by]


def _from_to(row: dict[str, Any], first: str, last: str) -> str:
    """An interval, or the one number that it holds."""
    low, high = row[first], row[last]
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _end(found: eree.Listing, shown: Table, rows: int, out: Path | None, what: str) -> None:
    """Print a table and what has to be said of it."""
    Console(markup=False).print(shown)
    if rows < len(found):
        click.echo(f"{len(found) - rows:,} more areas; --out FILE.csv writes all.")
    click.echo(
        f"All {what} hold together at {found.level:.4g} if sizes of workplaces are\n"
        "as the release shows them; guaranteed intervals are in --out and --json."
    )
    if out is not None:
        click.echo(f"{out}: {how_many(len(found), 'area')}")
    warn_of(found.release)


def warn_of(release: eree.Release) -> None:
    """Say that a release protects nothing, where it does not."""
    if release.warning:
        click.echo(release.warning)
