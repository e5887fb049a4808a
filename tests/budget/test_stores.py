"""What happens where the database cannot do its work: it waits, or says so in one sentence."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Connection

import eree
import pages
from disks import OBEDIENT, full, small_disk
from eree.budget import stores
from eree.budget.entries import Reserved, Row, Standing
from eree.budget.refusals import BY_RESULT_CODE, BY_SQLSTATE, Busy
from eree.errors import Refusal, Unreadable
from ledgers import (
    PROTECTS,
    PostgresServer,
    execute,
    fill,
    grown,
    is_file,
    made,
    price,
    raw,
    spend,
    spoil,
)
from processes import PATIENCE, running, until

__all__ = ["small_disk"]

TESTS_AND_OURS = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]

SENTENCE = re.compile(r"[^\n.]{20,}(?:\.[a-z]+[^\n.]*)*")  # one line, and no full stop at its end


@contextmanager
def held(where: str) -> Iterator[None]:
    """The lock of a ledger in another hand."""
    connection = raw(where)
    if is_file(where):
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection.execute(f"SELECT pg_advisory_lock({stores.PostgresStore._lock})")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def in_another_process(code: str, *, obedient: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Python elsewhere; `obedient` to file permissions, which do not bind root otherwise."""
    command = [*(OBEDIENT if obedient else []), sys.executable, "-c", code]
    surroundings = pages.environment() | {"PYTHONPATH": os.pathsep.join(TESTS_AND_OURS)}
    with running(command, env=surroundings) as process:
        yield process


def reported(code: str, *, obedient: bool = False) -> str:
    """What some Python prints elsewhere."""
    with in_another_process(code, obedient=obedient) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert err == ""
    return out


def waited_for(where: str) -> bool:
    """Whether a server knows of somebody who waits for the lock of a ledger."""
    asked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(where) as connection:
        (waiting,) = connection.execute(asked).fetchone() or (0,)
    return bool(waiting)


SPEND = """
import eree, ledgers
try:
    ledgers.spend(eree.Ledger.open({where!r}), "1/10")
    print("spent")
except eree.Refusal as refusal:
    print(refusal)
"""
#: The same, and whenever a file turns out to be locked, a line.
SPEND_WAITING = (
    """
from eree.budget import stores
refusal = stores.SQLiteStore._refusal
def busy(store, error):
    print("waits", flush=True)
    return refusal(store, error)
stores.SQLiteStore._refusal = busy
"""
    + SPEND
)
SETTINGS = ("synchronous", "journal_mode")
LOOK = """
import eree
try:
    print(len(eree.Ledger.open({where!r}).entries()), "entries")
except eree.Refusal as refusal:
    print(refusal)
"""


# ---------------------------------------------------------------------------------------- locks


def test_who_finds_the_lock_taken_waits_and_then_works(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = grown(where)
    waits: list[str] = []
    refusal = stores.SQLiteStore._refusal

    def busy(store: stores.SQLiteStore, error: BaseException | None) -> Refusal:
        waits.append(store.name)
        return refusal(store, error)

    monkeypatch.setattr(stores, "WAIT_SECONDS", PATIENCE)
    monkeypatch.setattr(stores.SQLiteStore, "_refusal", busy)
    thread = threading.Thread(target=lambda: spend(eree.Ledger.open(where), "1/10"))
    with held(where):
        thread.start()
        assert until(lambda: len(waits) > 1 if is_file(where) else waited_for(where))
        assert len(ledger.entries()) == 8
    thread.join(PATIENCE)
    assert len(ledger.entries()) == 9
    assert ledger.verify() == ()


def test_reading_does_not_wait_for_a_writer(where: str) -> None:
    ledger = grown(where)
    with held(where):  # whoever waited here would wait in vain
        assert len(ledger.entries()) == 8


def test_who_waits_in_vain_is_reported(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = grown(where)
    with monkeypatch.context() as hasty:
        hasty.setattr(stores, "WAIT_SECONDS", 0.3)
        in_vain = pytest.raises(Busy, match=r"another process has been writing .* try again")
        with held(where), in_vain:
            spend(ledger, "1/10")
    spend(ledger, "1/10")


def test_who_waits_can_be_interrupted(where: str) -> None:
    grown(where)
    with held(where), in_another_process(SPEND_WAITING.format(where=where)) as waiting:
        assert waiting.stdout is not None
        if is_file(where):
            assert waiting.stdout.readline() == "waits\n"
        else:
            assert until(lambda: waited_for(where))
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=PATIENCE)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert len(eree.Ledger.open(where).entries()) == 8


# ---------------------------------------------------------------------------------- what is there


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    cases = {
        "nowhere.db": "there is no ledger to be seen at",
        "folder": "a ledger is a file",
        "letter.txt": "is damaged, or is no ledger",
        "empty.db": "holds no ledger; 'eree ledger create' makes one",
        "other.db": "holds no ledger; 'eree ledger create' makes one",
    }
    (tmp_path / "folder").mkdir()
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam, " * 100)
    (tmp_path / "empty.db").touch()
    execute(str(tmp_path / "other.db"), "CREATE TABLE eree_ledger (number INTEGER)")
    before = sorted(path.name for path in tmp_path.iterdir())
    for name, words in cases.items():
        with pytest.raises(Unreadable, match=words) as refused:
            eree.Ledger.open(tmp_path / name).account()
        assert SENTENCE.fullmatch(str(refused.value))
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_ledger_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: stores.SQLiteStore) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stores.SQLiteStore, "_share", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(str(tmp_path / "ledger.db"))
    assert list(tmp_path.iterdir()) == []
    made(str(tmp_path / "ledger.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_disk_without_links_has_ledgers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    where = str(tmp_path / "ledger.db")
    assert made(where).verify() == ()
    with pytest.raises(Refusal, match="exists already"):
        made(where)


def test_a_ledger_is_not_made_where_it_cannot_be(tmp_path: Path) -> None:
    for name in ("nowhere/ledger.db", "file/ledger.db"):
        (tmp_path / "file").touch()
        with pytest.raises(Refusal, match=r"cannot be made .* choose a folder that exists") as why:
            made(str(tmp_path / name))
        assert SENTENCE.fullmatch(str(why.value))
    dangling = tmp_path / "link.db"
    dangling.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(Refusal, match="exists already"):
        made(str(dangling))
    for address in ("mysql://host/ledger", "sqlite:///ledger.db"):
        with pytest.raises(Refusal, match="in a file, or at an address that begins postgresql://"):
            made(address)


def test_a_name_may_hold_whatever_a_file_system_takes(tmp_path: Path) -> None:
    for name in ("a ledger?mode=memory.db", "100%.db", "#1;'\".db", "größe.db"):
        where = str(tmp_path / name)
        made(where)
        assert eree.Ledger.open(where).verify() == ()
        assert Path(where).is_file()


def test_a_ledger_can_be_used_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    where = tmp_path / "deep" / "ledger.db"
    grown(str(where))
    link = tmp_path / "link.db"
    link.symlink_to(where)
    spend(eree.Ledger.open(link), "1/10")
    assert len(eree.Ledger.open(where).entries()) == 9


# ----------------------------------------------------------------------------------- permissions


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A folder whose permissions are given back at the end."""
    folder = tmp_path / "own"
    folder.mkdir()
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize("read_only", ["file", "folder", "both"])
def test_what_may_only_be_read_can_be_shown_and_not_spent(own: Path, read_only: str) -> None:
    where = own / "ledger.db"
    grown(str(where))
    content = where.read_bytes()
    where.chmod(0o444 if read_only != "folder" else 0o644)
    own.chmod(0o555 if read_only != "file" else 0o755)
    assert reported(LOOK.format(where=str(where)), obedient=True) == "8 entries\n"
    assert reported(SPEND.format(where=str(where)), obedient=True) == (
        f"{where} cannot be written; it takes the permission to write the file and its folder\n"
    )
    assert where.read_bytes() == content
    assert [path.name for path in own.iterdir()] == ["ledger.db"]
    where.chmod(0o644)
    own.chmod(0o755)
    assert reported(SPEND.format(where=str(where)), obedient=True) == "spent\n"


def test_who_may_only_read_sees_what_a_writer_at_work_has_written(own: Path) -> None:
    where = own / "ledger.db"
    ledger = grown(str(where))
    at_work = raw(str(where))
    at_work.execute("SELECT count(*) FROM eree_ledger").fetchall()
    spend(ledger, "1/10")  # is in the file beside it until the last process has gone
    where.chmod(0o444)
    own.chmod(0o555)
    assert reported(LOOK.format(where=str(where)), obedient=True) == "9 entries\n"
    at_work.close()


def test_what_may_not_be_read_is_refused(own: Path) -> None:
    where = own / "ledger.db"
    grown(str(where))
    where.chmod(0o000)
    for code in (LOOK, SPEND):
        assert reported(code.format(where=str(where)), obedient=True) == (
            f"{where} cannot be opened; a ledger is a file, and it takes the permission to read"
            " it\n"
        )
    own.chmod(0o000)
    assert "no ledger to be seen at" in reported(LOOK.format(where=str(where)), obedient=True)


def test_a_ledger_is_not_made_where_nobody_may_write(own: Path) -> None:
    own.chmod(0o555)
    code = (
        "import eree, ledgers\n"
        f"try:\n    ledgers.made({str(own / 'ledger.db')!r})\n"
        "except eree.Refusal as refusal:\n    print(refusal)\n"
    )
    assert "cannot be made (permission denied)" in reported(code, obedient=True)


# -------------------------------------------------------------------------------------- full disks


def test_a_full_disk_stops_spending_and_harms_nothing(small_disk: Path) -> None:
    where = small_disk / "ledger.db"
    ledger = grown(str(where))
    kept = [spend(ledger, "1/10")]
    with full(small_disk, where.stat().st_size // 2):
        with pytest.raises(Refusal, match=f"^there is no room for {where}, or its disk") as why:
            spend(ledger, "1/10")
        assert SENTENCE.fullmatch(str(why.value))
        with pytest.raises(Refusal, match=r"another.db cannot be made|room for \S*/another.db,"):
            made(str(small_disk / "another.db"))
        assert not list(small_disk.glob("*another*"))
    assert ledger.verify(against=kept) == ()
    assert len(ledger.entries()) == 9
    spend(ledger, "1/10")


def test_a_limit_on_the_size_of_files_does_not_either(tmp_path: Path) -> None:
    """The last entries before the end are whole, whichever write it is that fails."""
    where = tmp_path / "ledger.db"
    made(str(where), "100")
    code = (
        "import resource, eree, ledgers\n"
        f"ledger = eree.Ledger.open({str(where)!r})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, -1))\n"
        "for i in range(200):\n"
        "    try:\n"
        "        reserved = ledgers.spend(ledger, '1/10')\n"
        "    except eree.Refusal as refusal:\n"
        "        print(i, reserved.number, reserved.hash, refusal, sep='|')\n"
        "        break\n"
    )
    count, number, digest, words = reported(code).rstrip("\n").split("|")
    assert words.startswith(f"there is no room for {where}, or its disk fails; make room")
    ledger = eree.Ledger.open(where)
    assert ledger.verify() == ()
    assert len(ledger.entries()) == int(count) + 1 == int(number)
    assert ledger.entries()[-1].hash == digest
    spend(ledger, "1/10")


def test_an_entry_is_committed_only_when_the_disk_has_it(tmp_path: Path) -> None:
    """No test can cut the power; this one looks at what SQLite is asked to do about it."""
    ledger = made(str(tmp_path / "ledger.db"))
    seen: list[tuple[object, ...]] = []

    def look(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT"):
            own = connection.connection.dbapi_connection
            assert isinstance(own, sqlite3.Connection)
            settings = [own.execute(f"PRAGMA {s}").fetchone()[0] for s in SETTINGS]
            seen.append((own.in_transaction, *settings))

    event.listen(ledger._store._engine, "before_cursor_execute", look)
    spend(ledger, "1/10")
    assert seen == [(True, 2, "wal")]  # 2 is FULL


# ------------------------------------------------------------------------------------ PostgreSQL


def test_a_server_that_is_not_there_is_reported_without_the_password(
    postgres: PostgresServer,
) -> None:
    for address in (
        "postgresql://clerk:geheim@127.0.0.1:1/jobs",
        "postgres://clerk:geheim@127.0.0.1:1/jobs",
        postgres.address("no_such_database").replace("eree@", "eree:geheim@"),
        postgres.address("postgres", "nobody_here:geheim"),
    ):
        with pytest.raises(Unreadable, match="cannot be reached, or refuses the login") as why:
            eree.Ledger.open(address)
        assert SENTENCE.fullmatch(str(why.value))
        assert "geheim" not in str(why.value) + repr(why.value.__cause__)


@pytest.mark.parametrize("address", ["postgresql://[", "postgresql://h/d?secret=geheim"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Refusal, match="no address of a database; write it as postgresql://") as why:
        eree.Ledger.open(address)
    assert "geheim" not in str(why.value)


def test_without_its_driver_a_server_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Refusal, match=r"needs the package psycopg; install eree\[postgres\]"):
        eree.Ledger.open("postgresql://host/jobs")


def test_a_database_without_a_ledger_is_refused(postgres: PostgresServer) -> None:
    with pytest.raises(Unreadable, match="holds no ledger; 'eree ledger create' makes one"):
        eree.Ledger.open(postgres.new_place())


def test_a_login_needs_to_read_and_to_insert_and_nothing_else(postgres: PostgresServer) -> None:
    name = postgres.make_database()
    grown(postgres.address(name))
    postgres.execute(name, "CREATE ROLE clerk LOGIN")
    clerk = postgres.address(name, "clerk")
    with pytest.raises(Refusal, match="may not use the ledger in the PostgreSQL database ledger_"):
        eree.Ledger.open(clerk)
    postgres.execute(name, "GRANT SELECT ON eree_ledger TO clerk")
    ledger = eree.Ledger.open(clerk)
    assert len(ledger.entries()) == 8
    with pytest.raises(Refusal, match="takes SELECT on the table eree_ledger, and INSERT to spend"):
        spend(ledger, "1/10")
    postgres.execute(name, "GRANT INSERT ON eree_ledger TO clerk")
    ledger.settle(spend(ledger, "1/10"), "ab" * 32)
    for statement in ("DELETE FROM eree_ledger", "ALTER TABLE eree_ledger DISABLE TRIGGER USER"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(clerk, statement)
    assert len(ledger.entries()) == 10


def test_a_server_that_takes_nothing_new_can_be_read(postgres: PostgresServer) -> None:
    name = postgres.make_database()
    ledger = grown(postgres.address(name))
    postgres.execute("postgres", f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert len(ledger.entries()) == 8
    with pytest.raises(Refusal, match="can only be read; spend from the server that it follows"):
        spend(ledger, "1/10")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("53100", "there is no room for the PostgreSQL database postgres, or its disk fails"),
        ("58030", "there is no room for"),
        ("XX001", "is damaged, or is no ledger; check it with 'eree ledger verify'"),
        ("22012", r"refused to work on the PostgreSQL database postgres \(code 22012\)"),
    ],
)
def test_what_a_server_complains_of_is_reported_in_our_words(
    postgres: PostgresServer, state: str, words: str
) -> None:
    where = postgres.new_place()
    ledger = grown(where)
    execute(
        where,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'worker 4711' USING ERRCODE = '{state}'; END $$",
        "CREATE TRIGGER fail BEFORE INSERT ON eree_ledger FOR EACH ROW EXECUTE FUNCTION fail()",
    )
    with pytest.raises(Refusal, match=words) as why:
        spend(ledger, "1/10")
    assert SENTENCE.fullmatch(str(why.value))
    assert "4711" not in str(why.value)
    assert (ledger.verify(), len(ledger.entries())) == ((), 8)


def test_a_connection_that_breaks_leaves_it_to_the_ledger_to_say(postgres: PostgresServer) -> None:
    where = postgres.new_place()
    ledger = grown(where)
    reported: list[str] = []

    def work() -> None:
        try:
            spend(ledger, "1/10")
        except Refusal as refusal:
            reported.append(str(refusal))

    with held(where):
        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            postgres.execute(
                "postgres",
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                " AND NOT granted",
            )
            time.sleep(0.05)
    assert reported == [
        "the connection to the PostgreSQL database postgres broke; see with 'eree ledger show'"
        " what was written when the server runs again"
    ]


def test_a_server_in_a_hurry_is_made_to_wait_for_its_disk(postgres: PostgresServer) -> None:
    where = postgres.new_place()
    ledger = made(where)
    execute(
        where,
        "CREATE TABLE seen (setting text)",
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen SELECT current_setting('synchronous_commit'); RETURN NEW; END $$",
        "CREATE TRIGGER look BEFORE INSERT ON eree_ledger FOR EACH ROW EXECUTE FUNCTION look()",
    )
    for setting in ("off", "remote_apply"):
        hurried = f"{where}%20-csynchronous_commit%3D{setting}"
        spend(eree.Ledger.open(hurried), "1/10")
    with psycopg.connect(where) as connection:
        seen = [row[0] for row in connection.execute("SELECT setting FROM seen")]
    assert seen == ["on", "remote_apply"]  # what is stricter than needed stays
    assert ledger.verify() == ()


def test_a_number_that_was_taken_meanwhile_makes_a_ledger_read_again(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever appends without the lock cannot make two entries of one number."""
    where = postgres.new_place()
    ledger = made(where)
    readings: list[int] = []
    read = stores.View.last_two

    def overtaken(view: stores.View) -> list[Row]:
        found = read(view)
        readings.append(found[-1].number)
        if len(readings) == 1:
            event = Reserved(
                "b", {}, price("1/2"), PROTECTS.digest, "", ledger.entries()[0].event.at
            )
            fill(where, [Row.after(found[-1], event, event.then(Standing()))])
        return found

    monkeypatch.setattr(stores.View, "last_two", overtaken)
    assert spend(ledger, "1/10").number == 3
    assert readings == [1, 2]
    monkeypatch.undo()
    assert ledger.spent() == price("6/10")
    assert ledger.verify() == ()


# ----------------------------------------------------------------------------------- every code


def test_every_refusal_is_one_sentence_in_our_words() -> None:
    for refused in {*BY_RESULT_CODE.values(), *BY_SQLSTATE.values()}:
        words = str(refused("ledger"))
        assert SENTENCE.fullmatch(words), words
        assert words[0].islower()
        assert not re.search(r"sql(ite|alchemy)|operational|errno", words, re.IGNORECASE)


def test_a_database_that_was_emptied_meanwhile_is_reported(where: str) -> None:
    ledger = grown(where)
    spoil(where, "DROP TABLE eree_ledger")
    with pytest.raises(Unreadable, match="holds no ledger"):
        spend(ledger, "1/10")
    if is_file(where):
        Path(where).unlink()
        with pytest.raises(Unreadable, match="no ledger to be seen"):
            ledger.entries()
        assert not Path(where).exists()  # and none is made by looking
