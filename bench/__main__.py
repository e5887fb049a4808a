"""`make bench`: makes the data, lets the contestants race, writes the tables as text and JSON."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import psutil

import eree
from bench import commands, cubes, draws, ledger, page, totals, web
from bench.contest import Result, as_rows, run

PAPERS_JOBS = 10_900_000
NATIONAL_JOBS = 130_000_000
PLACES = ["place", "sector", "ownership"]
PEOPLE = [*PLACES, "sex", "education"]
TRACTS = ["tract", "sector", "ownership"]
RIVALS = ["hand-written SQL", "hand-written SQL, same statistics", "reading the columns", "Polars"]
TABLES = ["DuckDB", "Polars", "pyarrow"]
DRAWS = ["NumPy", "OpenDP"]
CUBES = ["NumPy", "pyarrow"]
WEB = ["DuckDB", "NumPy", "Starlette", "uvicorn", "uvloop", "httptools"]
LEDGERS = ["SQLAlchemy", "psycopg"]
RELEASES = ["DuckDB", "OpenDP", "Polars", "pyarrow"]
OUT = Path("build/bench")
PARTS = ["tables", "draws", "releases", "commands", "ledger", "totals", "cubes", "web"]


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of a command of its own."""
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True,"
        " stdout=subprocess.DEVNULL);"
        " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *command], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - began, int(done.stdout) / 1024


def population(folder: Path, jobs: int) -> list[Result]:
    """Make and check a population with the commands of a user."""
    name = f"{jobs / 1e6:.1f} million jobs: commands"
    eree_command = str(Path(sys.executable).with_name("eree"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    tell(f"eree synth --jobs {jobs}")
    made, peak = timed([eree_command, "synth", str(folder), "--jobs", str(jobs)])
    results = [Result(name, f"eree synth --jobs {jobs}", made, 1.0, peak, jobs)]
    tell(f"eree check, {jobs} jobs")
    limit = ["--memory-limit", "3GB"] if jobs > PAPERS_JOBS else []
    seconds, peak = timed([eree_command, "check", str(folder), *limit])
    words = " ".join(["eree check", *limit])
    results.append(Result(name, words, seconds, seconds / made, peak, jobs))
    (folder / ".bench-tables.pickle").write_bytes(pickle.dumps(eree.load(folder)))
    return results


def machine(*packages: str) -> str:
    """The machine, and the versions of what was measured on it."""
    cpu = platform.processor() or platform.machine()
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB of memory, {platform.system()};"
        f" Python {platform.python_version()}, "
        + "".join(f"{package} {version(package)}, " for package in packages)
        + f"eree {eree.__version__}"
    )


def table(results: list[Result]) -> str:
    lines = []
    for contest in dict.fromkeys(r.contest for r in results):
        lines += [f"**{contest}**", "", "| | seconds | ratio | peak MiB | rows |"]
        lines += ["|---|---:|---:|---:|---:|"]
        lines += [
            f"| {r.contestant} | {r.seconds:.2f} | {r.ratio:.2f} | {r.peak_mib:,.0f} | {r.rows:,} |"
            for r in results
            if r.contest == contest
        ]
        lines.append("")
    return "\n".join(lines)


def tabulations(chosen: argparse.Namespace) -> list[Result]:
    """The contests of the tables."""
    folder = OUT / f"data-{chosen.jobs}"
    results = population(folder, chosen.jobs)
    size = f"{chosen.jobs / 1e6:.1f} million jobs"
    for by in (PLACES, PEOPLE):
        contest = f"{size}: {' × '.join(by)}"
        results += run(contest, ["eree", *RIVALS], [str(folder), *by], chosen.rounds, tell)
    if chosen.national:
        folder = OUT / f"data-{NATIONAL_JOBS}"
        results += population(folder, NATIONAL_JOBS)
        contest = f"{NATIONAL_JOBS / 1e6:.1f} million jobs: {' × '.join(PEOPLE)}"
        results += run(contest, ["eree within 3 GB"], [str(folder), *PEOPLE], 1, tell)
    return results


def releases(chosen: argparse.Namespace) -> list[Result]:
    """The contests of whole releases, against counting alone and against OpenDP."""
    folder, results = OUT / f"data-{chosen.jobs}", []
    if not (folder / ".bench-tables.pickle").exists():
        population(folder, chosen.jobs)
    for by in (PLACES, PEOPLE):
        contest = f"{chosen.jobs / 1e6:.1f} million jobs: {' × '.join(by)}"
        names = ["eree, cells alone", "eree, released", "OpenDP"]
        results += run(contest, names, [str(folder), *by], chosen.rounds, tell)
    contest = f"{chosen.jobs / 1e6:.1f} million jobs: WAC year, {' × '.join(TRACTS)}"
    names = ["eree, marginals at once", "eree, marginals one by one", "eree, WAC year released"]
    results += run(contest, names, [str(folder), *TRACTS], chosen.rounds, tell)
    if chosen.national:
        folder = OUT / f"data-{NATIONAL_JOBS}"
        if not (folder / ".bench-tables.pickle").exists():
            population(folder, NATIONAL_JOBS)
        contest = f"{NATIONAL_JOBS / 1e6:.1f} million jobs: WAC year, {' × '.join(TRACTS)}"
        names = ["eree, WAC year released within 2 GB"]
        results += run(contest, names, [str(folder), *TRACTS], 1, tell)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--national", action="store_true", help="130 million jobs as well")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=PAPERS_JOBS)
    parser.add_argument("--page", action="store_true", help="write the tables into the docs")
    parser.add_argument("--only", choices=PARTS, help="leave out the other parts")
    chosen = parser.parse_args()
    found: dict[str, object] = {"machine": machine(*TABLES, *DRAWS), "rounds": chosen.rounds}
    texts = {}  # by mark, because each part of the page may be measured on another day
    parts = [chosen.only] if chosen.only else PARTS
    if "tables" in parts:
        results = tabulations(chosen)
        found["results"] = as_rows(results)
        texts["bench"] = f"Measured on {machine(*TABLES)}.\n\n{table(results)}"
    if "draws" in parts:
        drawn = draws.run(chosen.rounds, tell)
        found["draws"] = as_rows(drawn)
        texts["bench-draws"] = f"Measured on {machine(*DRAWS)}.\n\n{draws.table(drawn)}"
    if "releases" in parts:
        released = releases(chosen)
        found["releases"] = as_rows(released)
        texts["bench-releases"] = f"Measured on {machine(*RELEASES)}.\n\n{table(released)}"
    if "commands" in parts:
        waited = commands.run(OUT / "commands", chosen.rounds, tell)
        found["commands"] = as_rows(waited)
        texts["bench-commands"] = f"Measured on {machine(*TABLES)}.\n\n{commands.table(waited)}"
    if "ledger" in parts:
        entries = ledger.run(OUT / "ledgers", chosen.rounds, tell)
        found["ledger"] = as_rows(entries)
        load = f"The load of the machine was {os.getloadavg()[0]:.1f} when it ended."
        texts["bench-ledger"] = (
            f"Measured on {machine(*LEDGERS)}. {load}\n\n{ledger.table(entries)}"
        )
    if "totals" in parts:
        compared = totals.run(OUT / f"data-{chosen.jobs}", tell)
        found["totals"] = as_rows(compared)
        texts["bench-totals"] = totals.table(compared)
    if "cubes" in parts:
        asked = cubes.run(OUT / "cubes", chosen.rounds, tell)
        found["cubes"] = as_rows(asked)
        texts["bench-cubes"] = f"Measured on {machine(*CUBES)}.\n\n{cubes.table(asked)}"
    if "web" in parts:
        asked_web = web.run(OUT / "web", min(chosen.rounds, 3), tell)
        found["web"] = asdict(asked_web)
        reported = f"The load of the machine was {asked_web.load:.1f} before it began."
        texts["bench-web"] = f"Measured on {machine(*WEB)}. {reported}\n\n{web.table(asked_web)}"
    OUT.mkdir(parents=True, exist_ok=True)
    text = "\n".join(texts.values())
    (OUT / "bench.md").write_text(text, encoding="utf-8")
    (OUT / "bench.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if chosen.page:
        grid = page.GRID.read_text(encoding="utf-8")
        page.GRID.write_text(page.kept(grid, texts), encoding="utf-8")
        shown = page.PAGE.read_text(encoding="utf-8")
        page.PAGE.write_text(page.written(shown, texts), encoding="utf-8")
    print(text)
    tell(f"{OUT}/bench.md and bench.json written")


if __name__ == "__main__":
    main()
