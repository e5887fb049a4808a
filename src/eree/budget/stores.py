"""The door to databases: where the rows of a ledger are kept, and how they get there.

A store can do three things: make a ledger with its first row, read rows, and append one.  An append
holds a lock that no other process can hold, lets the caller read what it needs under it and decide
what comes next, and returns only after the database has made it durable.  It reads the same few
rows of a long ledger as of a short one.  There is no change and no removal here, and triggers
refuse both, and rows out of turn, to everybody else.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
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
    and_,
    create_engine,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.elements import ColumnElement

from eree.budget import refusals
from eree.budget.entries import Row
from eree.budget.files import is_mounted, sync_folder
from eree.budget.refusals import WAIT_SECONDS, Busy, Unreachable
from eree.errors import Refusal
from eree.partial import held_file, sweep

_POLL_SECONDS = 0.5  # how long Ctrl-C may go unheard while a lock is waited for
_ANSWER_SECONDS = 20  # how long a server may take to answer at all

_NAME = refusals.TABLE
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_TABLE = Table(
    _NAME,
    MetaData(),
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("kind", "body", "previous", "hash")),
    Column("about", _NUMBER, unique=True),
)
#: The end of the name of a file in which a ledger is made, and of those that SQLite puts beside it.
_PARTIAL = "[0-9a-f]{16}(-journal|-wal|-shm)?"
_NUMBERS = range(1, 1 << 63)

_SILENT = logging.NullHandler()

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
        return self._one(_TABLE.c.number == number) if number in _NUMBERS else None

    def about(self, number: int) -> Row | None:
        """The row that settles or closes a reservation."""
        return self._one(_TABLE.c.about == number)

    def first_of(self, kind: str) -> Row | None:
        """A row about a reservation, of one kind."""
        return self._one(and_(_TABLE.c.about.is_not(None), _TABLE.c.kind == kind))

    def hashes(self, numbers: Iterable[int]) -> dict[int, str]:
        """The hashes of some rows, by their numbers; those that are not there are left out."""
        asked = [number for number in numbers if number in _NUMBERS]
        columns = select(_TABLE.c.number, _TABLE.c.hash)
        found = self._connection.execute(columns.where(_TABLE.c.number.in_(asked)))
        return {row.number: row.hash for row in found}

    def last_two(self) -> list[Row]:
        """The last row, and the one before it first."""
        found = self._connection.execute(select(_TABLE).order_by(_TABLE.c.number.desc()).limit(2))
        return [Row(*row) for row in found][::-1]

    def _one(self, which: ColumnElement[bool]) -> Row | None:
        row = self._connection.execute(select(_TABLE).where(which).limit(1)).first()
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
    def _refusal(self, error: BaseException | None) -> Refusal:
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
                refusal = self._refusal(error.orig if isinstance(error, DBAPIError) else error)
                if connected and isinstance(refusal, Unreachable):
                    refusal = refusals.cut_off(self.name)
            except UnicodeDecodeError:  # the database's complaint itself quotes damaged bytes
                refusal = refusals.damaged(self.name)
            if not isinstance(refusal, Busy) or time.monotonic() > until:
                raise refusal
            time.sleep(0.005)

    def _make(self, connection: Connection, first: Row) -> None:
        """The table, what guards it, and its first row."""
        if inspect(connection).has_table(_NAME):
            raise refusals.exists(f"a ledger in {self.name}")
        _TABLE.create(connection)
        for guard in self._guards:
            connection.exec_driver_sql(guard)
        connection.execute(insert(_TABLE).values(first._asdict()))


class SQLiteStore(Store):
    """A ledger in a file."""

    _guards = refusals.SQLITE_GUARDS

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._engine = _engine("sqlite://", self._connect)

    def create(self, first: Row) -> None:
        """Make the file under another name, and give it its own when it is whole."""
        path = self._path
        sweep(path.parent)
        try:
            if os.path.lexists(path):
                raise FileExistsError
            with held_file(path, 0o666) as partial:
                made = SQLiteStore(partial)
                made.name = self.name
                made._patiently(lambda connection: made._make(connection, first), writing=True)
                made._share()
                try:
                    os.link(partial, path)  # unlike a rename, never over a file that came meanwhile
                except OSError:
                    if os.path.lexists(path):
                        raise
                    partial.replace(path)  # the disk knows no links
            sync_folder(path.parent)
        except OSError as error:
            if os.path.lexists(path):
                raise refusals.exists(self.name) from None
            words = (error.strerror or "the system refused").lower()
            raise Refusal(
                f"{path} cannot be made ({words}); choose a folder that exists, that you may write"
                " to and that has room"
            ) from None

    def _share(self) -> None:
        """Let readers and a writer use the file at the same time, from now on."""
        try:
            with self._engine.connect() as connection:  # in no transaction
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        except DBAPIError as error:
            raise self._refusal(error.orig) from None

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
        if writing:
            self._check_links()
        connection.exec_driver_sql("PRAGMA synchronous = FULL")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        if writing:  # what came between
            self._check_links()

    def _found(self) -> Path:
        """Where the file really is; a link to itself, a pipe or a device is none."""
        try:
            path = self._path.resolve()
            kind = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            raise refusals.missing(self.name) from None
        except (OSError, RuntimeError):  # a link to itself is a RuntimeError
            raise refusals.not_readable(self.name) from None
        if not stat.S_ISREG(kind):
            raise refusals.not_readable(self.name)
        return path

    def _check_links(self) -> None:
        """Refuse a file of more than one name, by a hard link or by a mount of the file alone.

        SQLite knows the files beside it by its name, so that two processes that come by two names
        would not see each other's lock.  A process that was killed while it made the ledger may
        have left the file's first name, which is removed.
        """
        path = self._found()
        here = path.stat()
        if here.st_nlink > 1:
            for other in self._partials(path):
                with suppress(OSError):
                    if os.path.samestat(other.lstat(), here):
                        other.unlink()
            if path.stat().st_nlink > 1:
                raise refusals.linked(self.name)
        if is_mounted(path):
            raise refusals.mounted(self.name)

    @staticmethod
    def _partials(path: Path) -> list[Path]:
        """Files in which somebody made, or makes, the ledger of this name."""
        pattern = re.compile(re.escape(f".{path.name}.partial-") + _PARTIAL)
        try:
            return [other for other in path.parent.iterdir() if pattern.fullmatch(other.name)]
        except OSError:  # a folder may be used by those who may not list it
            return []

    def _refusal(self, error: BaseException | None) -> Refusal:
        code = getattr(error, "sqlite_errorcode", 0)
        known = refusals.BY_RESULT_CODE.get(code & 0xFF)
        if known is refusals.not_readable and not os.access(self._path, os.F_OK):
            known = refusals.missing
        return known(self.name) if known else refusals.unknown(self.name, code)


class PostgresStore(Store):
    """A ledger in a PostgreSQL database of its own."""

    _guards = refusals.POSTGRES_GUARDS
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

    def _refusal(self, error: BaseException | None) -> Refusal:
        code = getattr(error, "sqlstate", None) or ""
        known = refusals.BY_SQLSTATE.get(code) or refusals.BY_SQLSTATE.get(code[:2])
        return known(self.name) if known else refusals.unknown(self.name, code)


def store_at(where: str | os.PathLike[str]) -> Store:
    """The store at a path, or at an address of PostgreSQL; nothing is opened yet."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        return PostgresStore(where)
    if isinstance(where, str) and "://" in where:
        raise Refusal("a ledger is kept in a file, or at an address that begins postgresql://")
    return SQLiteStore(Path(where))


def _engine(dialect: str, connect: Callable[[], Any], **settings: Any) -> Engine:
    """An engine without a pool: no connection outlives its transaction or is shared by a fork."""
    # A connection whose closing is interrupted would be logged, with a traceback, where nobody has
    # set up logging.
    logging.getLogger(f"sqlalchemy.pool.impl.NullPool.{_NAME}").addHandler(_SILENT)
    return create_engine(
        dialect,
        creator=connect,
        poolclass=NullPool,
        pool_logging_name=_NAME,
        hide_parameters=True,
        **settings,
    )
