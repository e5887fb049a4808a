"""The page of the benchmarks: a choice of rows, each as the file beside it has them."""

from __future__ import annotations

import csv
import re

import pytest
from bench import page
from torture import marks

TEXT = """Measured on 2 cores (x), 8 GiB of memory, Linux; Python 3.1, DuckDB 2.0, eree 0.1.0.
A load of 3.

**races**

| | questions | seconds | rows |
|---|---|---:|---:|
| eree | one | 0.25 | 7 |
| reading the columns | one | 0.10 |  |

**10.9 million jobs: place × sector × ownership**

| | seconds |
|---|---:|
| eree | 0.50 |

**commands**

| | seconds |
|---|---:|
| eree synth | 1.50 |
"""
NONE = ",".join(page.HEADS) + "\n"


def test_a_part_that_was_measured_has_all_its_figures_in_the_file_and_some_on_the_page() -> None:
    grid = page.kept(NONE + "other,t,r,m,1\nbench,races,old,seconds,9\n", {"bench": TEXT})
    assert [row.split(",", 2)[2] for row in grid.splitlines() if "races" in row] == [
        '"eree, one",seconds,0.25',
        '"eree, one",rows,7',
        '"reading the columns, one",seconds,0.10',
    ]
    assert "other,t,r,m,1\n" in grid and "bench,commands,eree synth,seconds,1.50\n" in grid
    assert "Python 3.1, DuckDB 2.0" in grid
    marked = "a <!-- bench:begin -->\nold\n<!-- bench:end --> b"
    shown = marks.shown(page.written(marked, {"bench": TEXT}), "bench")
    assert shown == (
        "**races**\n\n| | questions | seconds |\n|---|---|---:|\n| eree | one | 0.25 |\n\n"
    )
    with pytest.raises(ValueError, match="no place for bench"):
        page.written("no marks", {"bench": TEXT})


def test_the_page_shows_what_the_file_has() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    with page.GRID.open(encoding="utf-8") as lines:
        kept = set(map(tuple, csv.reader(lines)))
    parts = re.findall(r"<!-- ([\w-]+):begin -->", text)
    assert set(page.LEFT_OUT) == set(parts) == {part for part, *_ in kept} - {"part"}
    for part in parts:
        shown = [row for row in page.rows(part, marks.shown(text, part)) if row[1] or row[2]]
        assert len(shown) > 3
        assert set(shown) <= kept
    machines = [row[4] for row in kept if row[3] == "measured on"]
    assert len(machines) == len(parts) - 1  # the part on totals has no times
    assert all(re.split(r"[.;] ", machine)[0] + "." in text for machine in machines)
