"""What the tests of ledgers share: places to keep them, a real server, and hands to spoil them."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

import eree
import pages
from eree.budget.entries import Event, Reserved, Row, Settled, Standing
from eree.budget.stores import store_at
from processes import PATIENCE, hearing, until

STRONG = eree.Strong("0.1")
DIGEST = "0123456789abcdef" * 4
Place = Callable[[], str]
#: The databases that a ledger can live in; one worker of the tests starts the server.
DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]


PROTECTS = eree.Protected("jobs", {"workplace": "plant", "worker": "person"})


def price(epsilon: Any, delta: Any = 0, neighbours: Any = STRONG) -> eree.Guarantee:
    return eree.Guarantee(neighbours, epsilon, delta)


def made(
    where: str,
    epsilon: Any = "2",
    delta: Any = 0,
    neighbours: Any = STRONG,
    heads: Path | str | None = None,
) -> eree.Ledger:
    """A new ledger."""
    total = price(epsilon, delta, neighbours)
    return eree.Ledger.create(where, total, data_set="jobs", heads=heads)


def spend(
    ledger: eree.Ledger,
    epsilon: Any,
    release: str = "r",
    protects: eree.Protected = PROTECTS,
    period: str = "",
    **other: Any,
) -> eree.Reservation:
    what = {"tables": "place"}
    asked = price(epsilon, **other)
    return ledger.reserve(asked, release=release, what=what, protects=protects, period=period)


def long(where: str, entries: int) -> eree.Ledger:
    """A ledger of many entries, every other one a settlement, written in one go."""
    ledger = made(where, entries)
    event = ledger.entries()[0].event
    last, then, chain = Row(*rows(where)[0]), Standing(), []
    while last.number < entries:
        new: Event = (
            Settled(last.number, last.hash, DIGEST, event.at)
            if last.number % 2 == 0
            else Reserved("r", {}, price("1/10"), PROTECTS.digest, "", event.at)
        )
        then = new.then(then)
        last = Row.after(last, new, then)
        chain.append(last)
    fill(where, chain)
    return ledger


def grown(where: str, reservations: int = 5) -> eree.Ledger:
    """A ledger with some reservations, every other one settled."""
    ledger = made(where, reservations)
    for i in range(reservations):
        reserved = spend(ledger, "1/2", f"release {i}")
        if i % 2:
            ledger.settle(reserved, DIGEST)
    return ledger


# ------------------------------------------------------------------------------------ the server


class PostgresServer:
    """A real PostgreSQL in a temporary folder, on a socket there, run by an unprivileged user."""

    def __init__(self) -> None:
        # short, as a socket's path is limited, and where another user may go, whatever TMPDIR is
        self.home = Path(tempfile.mkdtemp(prefix="eree-pg-", dir="/tmp"))
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda b: int(b.parent.name))
        self.names = count(1)
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:  # the server refuses to be root
            shutil.chown(self.home, "postgres", "postgres")
            self.home.chmod(0o711)  # for commands that permissions bind as they bind most users
        self._run("initdb", "-D", self.home / "data", "-U", "eree", "-A", "trust", "-E", "UTF8")

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "max_connections": "40",
            "shared_buffers": "16MB",
            "fsync": "on",
            "logging_collector": "off",
            "log_min_messages": "panic",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-D", self.home / "data", *options)
        with (self.home / "log").open("wb") as log:
            self.process = subprocess.Popen(hearing(command), stdout=log, stderr=log, cwd=self.home)
        assert until(self._answers), "the server did not start"

    def stop(self, how: str = "fast") -> None:
        """End the server: `fast` in an orderly way, `immediate` as a power cut would."""
        assert self.process is not None
        self._run(
            "pg_ctl", "stop", "-D", self.home / "data", "-m", how, "-w", "-t", f"{PATIENCE:.0f}"
        )
        self.process.wait()

    def address(self, database: str, login: str = "eree") -> str:
        return f"postgresql://{login}@/{database}?host={self.home}"

    def make_database(self) -> str:
        """The name of an empty database."""
        name = f"ledger_{next(self.names)}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return name

    def new_database(self) -> str:
        """The address of an empty database."""
        return self.address(self.make_database())

    def new_place(self) -> str:
        """The address of an empty schema, which is as good for a ledger and made at once."""
        name = f"ledger_{next(self.names)}"
        self.execute("postgres", f"CREATE SCHEMA {name}")
        return f"{self.address('postgres')}&options=-csearch_path%3D{name}"

    def execute(self, database: str, *statements: str) -> None:
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def close(self) -> None:
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop("immediate")
        finally:
            if self.process is not None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.home)

    def _answers(self) -> bool:
        assert self.process is not None
        try:
            self.execute("postgres", "SELECT 1")
        except psycopg.OperationalError:
            assert self.process.poll() is None, (self.home / "log").read_text()
            return False
        return True

    def _command(self, program: str, *arguments: str | Path) -> list[str]:
        drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        root = os.geteuid() == 0
        # should the tests be killed, the server goes with them
        return [
            *(drop if root else ["setpriv"]),
            *(["--pdeathsig=SIGINT"] if program == "postgres" else []),
            "--",
            str(self.bin / program),
            *map(str, arguments),
        ]

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            self._command(program, *arguments), capture_output=True, text=True, cwd=self.home
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session", params=DATABASES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Names a new place for a ledger at every call, in one database after the other."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_place
    folder = tmp_path_factory.mktemp("ledgers")
    names = count(1)
    return lambda: str(folder / f"ledger {next(names)}.db")


@pytest.fixture
def where(place: Place) -> str:
    """A new place for a ledger."""
    return place()


# --------------------------------------------------------------------------------- other hands


def is_file(where: str) -> bool:
    return not where.startswith("postgresql:")


def raw(where: str) -> Any:
    """A connection of the database's own driver, which knows nothing of ledgers."""
    if is_file(where):
        connection = sqlite3.connect(where, isolation_level=None)
        connection.text_factory = bytes
        return connection
    return psycopg.connect(where, autocommit=True)


def execute(where: str, *statements: str) -> None:
    connection = raw(where)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def spoil(where: str, *statements: str) -> None:
    """Change a ledger behind its back, as somebody would who can take the guards away."""
    if is_file(where):
        guards = [f"DROP TRIGGER IF EXISTS eree_ledger_{g}" for g in ("update", "delete", "insert")]
        execute(where, *guards, *statements)
    else:
        execute(where, "SET session_replication_role = replica", *statements)


def fill(where: str, chain: Iterable[Row]) -> None:
    """Add rows in one transaction; the guards look at each of them."""
    connection = raw(where)
    with closing(connection):
        if is_file(where):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO eree_ledger VALUES (?, ?, ?, ?, ?, ?)", chain)
            connection.execute("COMMIT")
            return
        with connection.cursor().copy("COPY eree_ledger FROM STDIN") as copy:
            for row in chain:
                copy.write_row(row)


def rows(where: str) -> list[tuple[Any, ...]]:
    """All rows, as the library's store reads them."""
    return [tuple(row) for row in store_at(where).read(lambda view: view.all())]


def literal(value: bytes | int | None, where: str) -> str:
    """A value as SQL, whatever its bytes are."""
    if value is None or isinstance(value, int):
        return "NULL" if value is None else str(value)
    if is_file(where):
        return f"CAST(x'{value.hex()}' AS TEXT)"
    return f"convert_from('\\x{value.hex()}'::bytea, 'UTF8')"


# ----------------------------------------------------------------------------------- campaigns


def campaign(*arguments: object) -> dict[str, Any]:
    """Run a campaign in a process of its own, which may fork and kill as it likes."""
    script = Path(__file__).with_name("ledger_campaigns.py")
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=pages.environment(),
        timeout=1_500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def race(place: Place, races: int, attempts: int, cap: int, heads: Path | None = None) -> int:
    """Eight processes against a cap, some times over; how many reservations were tried."""
    tried = 0
    more = [] if heads is None else [heads]
    for _ in range(races):
        found = campaign("race", place(), 8, attempts, cap, *more)
        assert found["refusals"] == [
            "the ledger has 0 of epsilon left, and this release asks for 0.1; lower its price, or"
            " decide on a larger total in a new ledger"
        ]
        assert (found["granted"], found["left"], found["as_told"]) == (cap, "0", True)
        assert (found["attempts"], found["failed"], found["faults"]) == (attempts, 0, [])
        tried += found["attempts"]
    return tried


def kill(
    place: Place, kills: int, seed: int, at_a_time: int = 50, heads: Path | None = None
) -> dict[str, int]:
    """Kill a spender so many times; every figure that was counted."""
    counted: Counter[str] = Counter()
    more = [] if heads is None else [heads]
    for begin in range(0, kills, at_a_time):
        found = campaign("kill", place(), min(at_a_time, kills - begin), seed + begin, *more)
        assert found.pop("exact")
        assert (found["lost"], found["faults"], found["ended_early"]) == (0, 0, 0)
        counted.update(found)
    assert counted["reported"] > kills / 4
    return dict(counted)


def change_bytes(where: str, changes: int, seed: int) -> None:
    """Change one byte of one field of one row at a time; every change must be found."""
    rng = random.Random(seed)
    ledger = grown(where, 8)
    good = rows(where)
    fields = Row._fields
    for _ in range(changes):
        row, field = rng.choice(good), rng.choice(fields)
        number, old = row[0], row[fields.index(field)]
        new = (
            other_number(old or 1, len(good), rng)
            if field in ("number", "about")
            else other_byte(old.encode(), rng, printable=not is_file(where))
        )
        changed = f"UPDATE eree_ledger SET {field} = {literal(new, where)} WHERE number = {number}"
        spoil(where, changed)
        what = f"entry {number}.{field}: {old!r} became {new!r}"
        assert ledger.verify(), what
        if number in (1, len(good) - 1, len(good)):  # what whoever spends reads
            with pytest.raises(eree.Refusal, match="is faulty"):
                spend(ledger, "1/1000")
        with pytest.raises(eree.Refusal, match="is faulty"):
            ledger.entries()
        now = new if field == "number" else number
        was = literal(old.encode() if isinstance(old, str) else old, where)
        spoil(where, f"UPDATE eree_ledger SET {field} = {was} WHERE number = {now}")
    assert rows(where) == good
    assert ledger.verify() == ()


def other_number(number: int, most: int, rng: random.Random) -> int:
    """A number that differs in one digit, and that no row has."""
    digits = str(number)
    others = [
        int(digits[:i] + digit + digits[i + 1 :])
        for i in range(len(digits))
        for digit in "0123456789"
    ]
    return rng.choice([other for other in others if not 1 <= other <= most])


def other_byte(old: bytes, rng: random.Random, *, printable: bool) -> bytes:
    """A text with one byte changed; a server takes none that is not text."""
    at = rng.randrange(len(old))
    new = rng.choice([b for b in (range(32, 127) if printable else range(256)) if b != old[at]])
    return old[:at] + bytes([new]) + old[at + 1 :]


def flip_file(folder: Path, flips: int, seed: int) -> dict[str, int]:
    """Change one byte of the file of a ledger at a time: it is found, or nothing has changed."""
    rng = random.Random(seed)
    whole = folder / "whole.db"
    grown(str(whole), 8)
    good, content = rows(str(whole)), whole.read_bytes()
    counted = {"found": 0, "refused": 0, "unused": 0}
    for i in range(flips):
        at = rng.randrange(len(content))
        new = rng.choice([b for b in range(256) if b != content[at]])
        path = folder / f"{i}.db"
        path.write_bytes(content[:at] + bytes([new]) + content[at + 1 :])
        try:
            faults = eree.Ledger.open(path).verify()
        except eree.Refusal as refusal:
            assert str(path) in str(refusal)
            counted["refused"] += 1
            continue
        if faults:
            counted["found"] += 1
        else:
            assert rows(str(path)) == good, f"byte {at} became {new}"
            counted["unused"] += 1
    return counted
