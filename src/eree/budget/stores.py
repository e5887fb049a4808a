"""The door to databases: where the rows of a ledger are kept, and how they get there.

A store can do three things: make a ledger with its first row, read rows, and append one.  An append
holds a lock that no other process can hold, lets the caller read what it needs under it and decide
what comes next, and returns only after the database has made it durable.  It reads the same few
rows of a long ledger as of a short one.  There is no change and no removal here, and triggers
refuse both, and rows out of turn, to everybody else.
"""

from __future__ import annotations

import glob
import os
import sqlite3
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.elements import ColumnElement

from eree.budget import troubles
from eree.budget.entries import ORIGIN, Row
from eree.budget.troubles import WAIT_SECONDS, Busy, Unreachable
from eree.errors import Refusal

_POLL_SECONDS = 0.5  # how long Ctrl-C may go unheard while a lock is waited for
_ANSWER_SECONDS = 20  # how long a server may take to answer at all

_NAME = "eree_ledger"
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_TABLE = Table(
    _NAME,
    MetaData(),
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("kind", "body", "previous", "hash")),
    Column("about", _NUMBER, unique=True),
)
_NEVER = "entries of a ledger are never changed or removed"
_IN_TURN = "entries of a ledger are only added at its end"

_T = TypeVar("_T")


@dataclass(frozen=True)
class View:
    """The rows of a ledger within one transaction."""

    _connection: Connection

    def all(self) -> list[Row]:
        """Every row, in the order of their numbers."""
        found = self._connection.execute(select(_TABLE).order_by(_TABLE.c.number))
        return [Row(*row) for row in found]

    def row(self, number: int) -> Row | None:
        """One row."""
        return self._one(_TABLE.c.number == number)

    def about(self, number: int) -> Row | None:
        """The row that settles or closes a reservation."""
        return self._one(_TABLE.c.about == number)

    def last_two(self) -> list[Row]:
        """The last row, and the one before it first."""
        found = self._connection.execute(select(_TABLE).order_by(_TABLE.c.number.desc()).limit(2))
        return [Row(*row) for row in found][::-1]

    def _one(self, which: ColumnElement[bool]) -> Row | None:
        row = self._connection.execute(select(_TABLE).where(which)).first()
        return None if row is None else Row(*row)


class Store(ABC):
    """Where the rows of one ledger are kept; each database has its own way to lock and to fail."""

    name: str
    _guards: tuple[str, ...]
    _engine: Engine

    def read(self, look: Callable[[View], _T]) -> _T:
        """What `look` finds, with all rows as they were at one moment."""
        return self._patiently(lambda connection: look(View(connection)), writing=False)

    def append(self, decide: Callable[[View], Row]) -> Row:
        """Add the row that `decide` makes of what it reads, unless it refuses.

        From the reading to the commit nobody else can append, and when this returns the row is on
        disk.  Where another process was in the way, `decide` is asked again.
        """

        def work(connection: Connection) -> Row:
            row = decide(View(connection))
            connection.execute(insert(_TABLE).values(row._asdict()))
            return row

        return self._patiently(work, writing=True)

    @abstractmethod
    def create(self, first: Row) -> None:
        """Make the ledger with its first row, whole or not at all, where there is none."""

    @abstractmethod
    def _begin(self, connection: Connection, *, writing: bool) -> None:
        """Begin a transaction; for writing, with the lock."""

    @abstractmethod
    def _trouble(self, error: BaseException | None) -> Refusal:
        """What a failure of the database means."""

    def _patiently(self, work: Callable[[Connection], _T], *, writing: bool) -> _T:
        """Do some work in one transaction, and again while another process is in the way."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            connected = False
            try:
                with self._engine.connect() as connection, connection.begin():
                    connected = True
                    self._begin(connection, writing=writing)
                    return work(connection)
            except SQLAlchemyError as error:
                trouble = self._trouble(error.orig if isinstance(error, DBAPIError) else error)
                if connected and isinstance(trouble, Unreachable):
                    trouble = troubles.cut_off(self.name)
            except UnicodeDecodeError:  # the database's complaint itself quotes damaged bytes
                trouble = troubles.damaged(self.name)
            if not isinstance(trouble, Busy) or time.monotonic() > until:
                raise trouble
            time.sleep(0.005)

    def _make(self, connection: Connection, first: Row) -> None:
        """The table, what guards it, and its first row."""
        if inspect(connection).has_table(_NAME):
            raise troubles.exists(f"a ledger in {self.name}")
        _TABLE.create(connection)
        for guard in self._guards:
            connection.exec_driver_sql(guard)
        connection.execute(insert(_TABLE).values(first._asdict()))


class SQLiteStore(Store):
    """A ledger in a file."""

    _guards = (
        f"CREATE TRIGGER {_NAME}_update BEFORE UPDATE ON {_NAME}"
        f" BEGIN SELECT RAISE(ABORT, '{_NEVER}'); END",
        f"CREATE TRIGGER {_NAME}_delete BEFORE DELETE ON {_NAME}"
        f" BEGIN SELECT RAISE(ABORT, '{_NEVER}'); END",
        # INSERT OR REPLACE removes a row without asking the trigger above
        f"CREATE TRIGGER {_NAME}_insert BEFORE INSERT ON {_NAME}"
        f" WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM {_NAME})"
        f" OR NEW.previous IS NOT coalesce("
        f"(SELECT hash FROM {_NAME} ORDER BY number DESC LIMIT 1), '{ORIGIN}')"
        f" BEGIN SELECT RAISE(ABORT, '{_IN_TURN}'); END",
    )

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._engine = _engine("sqlite://", self._connect)

    def create(self, first: Row) -> None:
        """Make the file under another name, and give it its own when it is whole."""
        path = self._path
        partial = path.with_name(f".{path.name}.partial-{first.hash[:16]}")
        try:
            if os.path.lexists(path):
                raise FileExistsError
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            made = SQLiteStore(partial)
            made.name = self.name
            made._patiently(lambda connection: made._make(connection, first), writing=True)
            made._share()
            try:
                os.link(partial, path)  # unlike a rename, never over a file that came meanwhile
            except OSError:
                if os.path.lexists(path):
                    raise FileExistsError from None
                partial.replace(path)  # the disk knows no links
            _sync_folder(path.parent)
        except FileExistsError:
            raise troubles.exists(self.name) from None
        except OSError as error:
            words = (error.strerror or "the system refused").lower()
            raise Refusal(
                f"{path} cannot be made ({words}); choose a folder that exists, that you may write"
                " to and that has room"
            ) from None
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def _share(self) -> None:
        """Let readers and a writer use the file at the same time, from now on."""
        try:
            with self._engine.connect() as connection:  # in no transaction
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        except DBAPIError as error:
            raise self._trouble(error.orig) from None

    def _connect(self) -> sqlite3.Connection:
        """The file, to be written if that is allowed, and never to be made.

        SQLite shares a file by means of two more beside it, and one who may only read would leave
        there what the next writer could not write.  Such a one reads the file as it stands, unless
        somebody is at work on it.
        """
        path = self._found()
        writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        shared = os.access(f"{path}-wal", os.F_OK)
        mode = "mode=rw" if writable else "mode=ro" if shared else "mode=ro&immutable=1"
        address = f"{path.as_uri()}?{mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_POLL_SECONDS, isolation_level=None)
        # a byte that is no UTF-8 any more is to be found, not to stop the reading
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        return connection

    def _begin(self, connection: Connection, *, writing: bool) -> None:
        # FULL: a commit returns when the disk has it.  IMMEDIATE: the one lock for writing is
        # taken before the first row is read.
        connection.exec_driver_sql("PRAGMA synchronous = FULL")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        if writing and self._links() > 1:
            raise troubles.linked(self.name)

    def _found(self) -> Path:
        """Where the file really is; a link to itself, a pipe or a device is none."""
        try:
            path = self._path.resolve()
            kind = path.stat().st_mode
        except FileNotFoundError:
            raise troubles.missing(self.name) from None
        except (OSError, RuntimeError):  # a link to itself is a RuntimeError
            raise troubles.not_readable(self.name) from None
        if not stat.S_ISREG(kind):
            raise troubles.not_readable(self.name)
        return path

    def _links(self) -> int:
        """How many names the file has.

        SQLite knows the files beside it by its name, so that two processes that come by two names
        would not see each other's lock.  A process that was killed while it made the ledger may
        have left the file's first name, which is removed.
        """
        path = self._found()
        here = path.stat()
        if here.st_nlink > 1:
            for other in path.parent.glob(f".{glob.escape(path.name)}.partial-*"):
                with suppress(OSError):
                    if other.stat().st_ino == here.st_ino:
                        other.unlink()
        return path.stat().st_nlink

    def _trouble(self, error: BaseException | None) -> Refusal:
        code = getattr(error, "sqlite_errorcode", 0)
        known = troubles.BY_RESULT_CODE.get(code & 0xFF)
        if known is troubles.not_readable and not os.access(self._path, os.F_OK):
            known = troubles.missing
        return known(self.name) if known else troubles.unknown(self.name, code)


class PostgresStore(Store):
    """A ledger in a PostgreSQL database of its own."""

    _guards = (
        f"CREATE FUNCTION {_NAME}_guard() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{_NEVER}'; END $$",
        f"CREATE TRIGGER {_NAME}_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON {_NAME}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {_NAME}_guard()",
        # its table by its full name, and nothing of the session's: who inserts may have made a
        # table of the same name for himself.  Who was overtaken reads again (see `troubles`).
        f"CREATE FUNCTION {_NAME}_turn() RETURNS trigger LANGUAGE plpgsql"
        " SET search_path = pg_catalog AS $$ DECLARE last record; BEGIN"
        " EXECUTE format('SELECT number, hash FROM %I.%I ORDER BY number DESC LIMIT 1',"
        " TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO last;"
        " IF NEW.number IS DISTINCT FROM coalesce(last.number, 0) + 1"
        f" OR NEW.previous IS DISTINCT FROM coalesce(last.hash, '{ORIGIN}') THEN"
        f" RAISE EXCEPTION '{_IN_TURN}' USING ERRCODE = '{troubles.OUT_OF_TURN}';"
        " END IF; RETURN NEW; END $$",
        f"CREATE TRIGGER {_NAME}_turn BEFORE INSERT ON {_NAME}"
        f" FOR EACH ROW EXECUTE FUNCTION {_NAME}_turn()",
    )
    #: Every ledger takes this lock of its database before it writes, and nothing else does.
    _lock = int.from_bytes(_NAME.encode()[:7], "big")

    def __init__(self, address: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise Refusal(
                "a ledger in PostgreSQL needs the package psycopg; install eree[postgres]"
            ) from None
        try:
            given: dict[str, Any] = dict(conninfo_to_dict(address))
        except psycopg.Error:  # its words quote the address, and so perhaps a password
            raise Refusal(
                "this is no address of a database; write it as postgresql://user@host/database"
            ) from None
        settings = {"connect_timeout": _ANSWER_SECONDS} | given | {"client_encoding": "utf8"}
        self.name = f"the PostgreSQL database {given.get('dbname') or 'of this login'}"
        # READ COMMITTED: each statement sees what was committed before it.  A stricter level
        # would read the rows of the moment before the lock was waited for.
        self._engine = _engine(
            "postgresql+psycopg://",
            lambda: psycopg.connect(**settings),
            isolation_level="READ COMMITTED",
            use_native_hstore=False,
        )

    def create(self, first: Row) -> None:
        """Make everything in one transaction."""
        self._patiently(lambda connection: self._make(connection, first), writing=True)

    def _begin(self, connection: Connection, *, writing: bool) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{1000 * WAIT_SECONDS:.0f}ms'")
        if writing:
            # a server can be set to answer before a commit is on disk; here it must not
            connection.exec_driver_sql(
                "SELECT set_config('synchronous_commit', 'on', true)"
                " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({self._lock})")

    def _trouble(self, error: BaseException | None) -> Refusal:
        code = getattr(error, "sqlstate", None) or ""
        known = troubles.BY_SQLSTATE.get(code) or troubles.BY_SQLSTATE.get(code[:2])
        return known(self.name) if known else troubles.unknown(self.name, code)


def store_at(where: str | os.PathLike[str]) -> Store:
    """The store at a path, or at an address of PostgreSQL; nothing is opened yet."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        return PostgresStore(where)
    if isinstance(where, str) and "://" in where:
        raise Refusal("a ledger is kept in a file, or at an address that begins postgresql://")
    return SQLiteStore(Path(where))


def _engine(dialect: str, connect: Callable[[], Any], **settings: Any) -> Engine:
    """An engine without a pool: no connection outlives its transaction or is shared by a fork."""
    return create_engine(
        dialect, creator=connect, poolclass=NullPool, hide_parameters=True, **settings
    )


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable; some file systems do that unasked, and refuse."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
