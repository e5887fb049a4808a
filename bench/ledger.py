"""What an entry of a ledger costs, however long the ledger is.

Ledgers of several lengths, in a file and on a server, take turns: in every round each of them
reserves and settles some times, and is verified once.  What is reported is the quickest call, which
a busy machine disturbs least.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import eree

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the server that the tests start
import ledgers

ENTRIES = (10, 1_000, 10_000, 100_000)
CALLS = 20


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one call, by the length of a ledger and where it is kept."""

    kept: str
    entries: int
    reserve: float
    settle: float
    verify: float


def run(folder: Path, rounds: int, tell: Callable[[str], None]) -> list[Cost]:
    """Every length in every database, in turns."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _server() as server:
        places = {
            (kept, entries): place
            for entries in ENTRIES
            for kept, place in (
                ("SQLite", str(folder / f"{entries}.db")),
                ("PostgreSQL", server.new_place()),
            )
        }
        books: dict[tuple[str, int], eree.Ledger] = {}
        for (kept, entries), place in places.items():
            tell(f"making a ledger of {entries:,} entries in {kept}")
            books[kept, entries] = ledgers.long(place, entries)
        spent: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in books}
        verified: dict[tuple[str, int], list[float]] = {key: [] for key in books}
        for number in range(rounds):
            tell(f"ledgers, round {number + 1} of {rounds}")
            for key, book in books.items():
                spent[key] += [_spend(book) for _ in range(CALLS)]
                began = time.perf_counter()
                assert book.verify() == ()
                verified[key].append(time.perf_counter() - began)
    return [
        Cost(
            *key,
            *(1e3 * min(times) for times in zip(*spent[key], strict=True)),
            1e3 * min(verified[key]),
        )
        for key in sorted(books, reverse=True)
    ]


def _spend(book: eree.Ledger) -> tuple[float, float]:
    """Seconds to reserve, and to settle."""
    began = time.perf_counter()
    reserved = ledgers.spend(book, "1/1000")
    then = time.perf_counter()
    book.settle(reserved, ledgers.DIGEST)
    return then - began, time.perf_counter() - then


@contextmanager
def _server() -> Iterator[ledgers.PostgresServer]:
    server = ledgers.PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


def table(results: Sequence[Cost]) -> str:
    lines = [
        "| | entries | ms to reserve | ms to settle | ms to verify it all |",
        "|---|---:|---:|---:|---:|",
    ]
    for r in sorted(results, key=lambda r: (r.kept != "SQLite", r.entries)):
        figures = f"{r.reserve:.1f} | {r.settle:.1f} | {r.verify:,.0f}"
        lines.append(f"| {r.kept} | {r.entries:,} | {figures} |")
    return "\n".join([*lines, ""])
