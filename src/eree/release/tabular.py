"""Public rows as notebooks and data frames want them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from eree.errors import Refusal, how_many

#: Rows that a notebook shows.
_SHOWN = 20


class Tabular(ABC):
    """Public rows that notebooks show, and that whatever reads Arrow's streams takes as they are.

    `polars.DataFrame(found)`, `duckdb.sql("from found")` and `pyarrow.table(found)` need nothing
    else.  Confidential cells are none of these: printing them shows their shape only.
    """

    @abstractmethod
    def _table(self) -> pa.Table:
        """The rows."""

    @abstractmethod
    def _title(self) -> str:
        """What they are, in a line."""

    def __repr__(self) -> str:
        rows = self._table().num_rows
        return f"<{type(self).__name__} {self._title()}: {how_many(rows, 'row')}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows by Arrow's interface for data frames."""
        rows: Any = self._table()  # pyarrow's stubs leave the method out
        return rows.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """The rows as a data frame of pandas, which is installed apart."""
        if find_spec("pandas") is None:
            raise Refusal(
                "pandas is not installed; install it with: pip install pandas, or give the result"
                " itself to polars, DuckDB or pyarrow, which read it as it is"
            )
        return self._table().to_pandas()

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        rows = self._table()
        more = f" (the first {_SHOWN} of {rows.num_rows:,} rows)" * (rows.num_rows > _SHOWN)
        head = "".join(f"<th>{escape(name)}</th>" for name in rows.column_names)
        listed = rows.slice(0, _SHOWN)
        lines = zip(*(column.to_pylist() for column in listed.columns), strict=True)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_written(value))}</td>' for value in line)}</tr>"
            for line in lines
        )
        caption = f"<caption>{escape(self._title())}{more}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _written(value: object) -> str:
    """A value in a cell of a page; what is not known is left empty."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
