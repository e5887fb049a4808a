"""The door to PostgreSQL as a source of tables: rows are copied into memory, at one moment.

All tables are read in one transaction that changes nothing and sees the rows of its beginning, so
that checks and counts are of the same data.  Only columns that are asked for leave the database.
What the server or the driver says may quote an address or a value, and is never passed on.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from eree.data.sources import Source, Unusable, arrow_columns, kind_of
from eree.errors import Refusal

if TYPE_CHECKING:
    import psycopg

_ANSWER_SECONDS = 20  # how long a server may take to answer at all
_BLOCK = 1 << 24
#: What Arrow calls the types that can be used, by PostgreSQL's own numbers.
_TYPES: dict[int, pa.DataType] = {
    16: pa.bool_(),
    **dict.fromkeys((20, 21, 23), pa.int64()),
    1082: pa.date32(),
    **dict.fromkeys((18, 19, 25, 1042, 1043, 2950), pa.string()),  # texts, names and UUIDs
}
_NUMERIC = 1700


class Postgres:
    """A connection whose one transaction sees all tables as they are at its beginning."""

    def __init__(self, variable: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise Refusal(
                "tables of PostgreSQL need the package psycopg; install eree[postgres]"
            ) from None
        address = os.environ.get(variable, "")
        if not address:
            raise Unusable(f"the environment variable {variable} holds no address of a database")
        try:
            given: dict[str, Any] = dict(conninfo_to_dict(address))
        except psycopg.Error:
            raise Unusable(
                f"what the environment variable {variable} holds is no address; write it as"
                " postgresql://user@host/database"
            ) from None
        settings = {"connect_timeout": _ANSWER_SECONDS} | given | {"client_encoding": "utf8"}
        try:
            self._connection: psycopg.Connection[Any] = psycopg.connect(**settings)
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
            self._connection.execute("set local datestyle = 'ISO'")
        except psycopg.Error:
            raise Unusable(
                f"the database whose address {variable} holds does not answer; check the address,"
                " the login and that the server runs"
            ) from None

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def source(self, table: str, wanted: Collection[str] | None) -> Source:
        """A table with the wanted columns, or all; raises `Unusable`."""
        import psycopg

        try:
            with self._connection.transaction():  # a table that fails leaves the others readable
                return self._read(table, wanted)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise Unusable("the database holds no such table") from None
        except psycopg.errors.InsufficientPrivilege:
            raise Unusable("the login may not read the table") from None
        except (psycopg.Error, pa.ArrowException, UnicodeError):
            raise Unusable("the table cannot be read from the database to its end") from None

    def _read(self, table: str, wanted: Collection[str] | None) -> Source:
        from psycopg import sql

        name = sql.Identifier(*table.split("."))
        found = self._connection.execute(sql.SQL("select * from {} limit 0").format(name))
        described = list(found.description or ())
        codes = {
            int(row[0])
            for row in self._connection.execute(
                "select oid from pg_type where typtype = 'e' and oid = any(%s)",
                [[column.type_code for column in described]],
            )
        }
        types = dict[str, pa.DataType | None]()
        for column in described:
            known = pa.string() if column.type_code in codes else _TYPES.get(column.type_code)
            digits, decimals = column.precision, column.scale
            if (
                column.type_code == _NUMERIC
                and digits
                and digits <= 28
                and 0 <= (decimals or 0) <= 10
            ):
                known = pa.decimal128(digits, decimals or 0)
            types[column.name] = known
        listed = [(column.name, types[column.name] or pa.null()) for column in described]
        arrow_columns(pa.schema(listed))  # names that cannot be used
        others = {c.name: c.type_display for c in described if types[c.name] is None}
        kinds = {n: "other" if held is None else kind_of(held) for n, held in types.items()}
        read = {
            n: held
            for n, held in types.items()
            if held is not None and (wanted is None or n in wanted)
        }
        rows = self._copied(name, read)
        return Source("postgres", (), kinds, others, rows=rows)

    def _copied(self, table: Any, columns: dict[str, pa.DataType]) -> pa.Table:
        """The rows of some columns; blanks that fill up a text of fixed length are none of it."""
        from psycopg import sql

        schema = pa.schema(list(columns.items()))
        if not columns:
            return schema.empty_table()
        texts = [
            sql.SQL("{}::text" if held == pa.string() else "{}").format(sql.Identifier(column))
            for column, held in columns.items()
        ]
        asked = sql.SQL("copy (select {} from {}) to stdout (format csv)")
        with self._connection.cursor().copy(asked.format(sql.SQL(", ").join(texts), table)) as copy:
            file = _Chunks(iter(copy))
            if file.ended:
                return schema.empty_table()
            reader = arrow_csv.open_csv(
                file,  # type: ignore[arg-type]  # what has read() is as good as a file
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, column_names=schema.names
                ),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=True, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=schema,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    true_values=["t"],
                    false_values=["f"],
                ),
            )
            return reader.read_all()


class _Chunks:
    """Pieces of bytes, read as a file is."""

    closed = False

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self._rest = bytes(next(pieces, b""))
        self.ended = not self._rest

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        held, total = [self._rest], len(self._rest)
        while total < size and (piece := next(self._pieces, None)) is not None:
            held.append(piece)
            total += len(piece)
        found = b"".join(held)
        self._rest = found[size:]
        return found[:size]

    def close(self) -> None:
        """Nothing is left open."""
        self.closed = True
