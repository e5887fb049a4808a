"""Workbooks for spreadsheets.

Texts are written as texts, which no spreadsheet reads as formulas; nothing is kept on disk.
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import pyarrow as pa

_SETTINGS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}


def workbook(table: pa.Table, pairs: Iterable[tuple[str, str]]) -> bytes:
    """Rows on one sheet, and what to know of them on another."""
    import xlsxwriter  # which nobody waits for at the start

    target = io.BytesIO()
    book = xlsxwriter.Workbook(target, _SETTINGS)
    bold = book.add_format({"bold": True})
    sheet = book.add_worksheet("Data")
    for place, name in enumerate(table.column_names):
        sheet.write_string(0, place, name, bold)
        longest = max(len(name), 12)
        for line, value in enumerate(table[name].to_pylist(), start=1):
            if isinstance(value, str):
                sheet.write_string(line, place, value)
                longest = max(longest, len(value))
            elif value is not None:
                sheet.write_number(line, place, value)
        sheet.set_column(place, place, min(longest, 60))
    sheet.freeze_panes(1, 0)
    about = book.add_worksheet("About")
    for line, (name, text) in enumerate(pairs):
        about.write_string(line, 0, name, bold)
        about.write_string(line, 1, text)
    about.set_column(0, 0, 18)
    about.set_column(1, 1, 100)
    book.close()
    return target.getvalue()
