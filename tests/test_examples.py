"""The examples run as they stand."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import pages

EXPECTED = {
    "largest_share": "41 of 68 cells are dominated by one workplace\n",
    "own_tables": (
        "0 faults\n"
        "{'town': 'Ostia', 'sex': 'F', 'count': 2, 'largest': 1, 'largest_total': 2,"
        " 'workplaces': 2}\n"
        "{'town': 'Ostia', 'sex': 'M', 'count': 1, 'largest': 1, 'largest_total': 2,"
        " 'workplaces': 2}\n"
        "{'town': 'Veii', 'sex': 'F', 'count': 0, 'largest': 0, 'largest_total': 0,"
        " 'workplaces': 1}\n"
        "{'town': 'Veii', 'sex': 'M', 'count': 0, 'largest': 0, 'largest_total': 0,"
        " 'workplaces': 1}\n"
        "job (job.csv), id: the workplace does not exist [1 row]\n"
    ),
}


def test_every_example_is_known() -> None:
    known = {"check_release", *EXPECTED}  # the first has tests of its own
    assert {path.stem for path in (pages.ROOT / "examples").glob("*.py")} == known


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    code = (pages.ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert pages.command(cwd=tmp_path, code=code) == pages.Done(0, EXPECTED[name], "")


# ----------------------------------------------------------------------------------- notebooks

NOTEBOOKS = sorted((pages.ROOT / "examples").glob("*.ipynb"))
#: What a notebook shows of the last line of a cell.
SHOW = """
def show(value):
    page = getattr(value, "_repr_html_", None)
    print(page() if page else repr(value))
"""


def shown(cell: str) -> str:
    """The code of a cell; its last line, if it is an expression, is shown."""
    lines = ast.parse(cell)
    last = lines.body[-1]
    if isinstance(last, ast.Expr):
        call = ast.Call(ast.Name("show", ast.Load()), [last.value], [])
        lines.body[-1] = ast.copy_location(ast.Expr(call), last)
    return ast.unparse(ast.fix_missing_locations(lines))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_keeps_no_output(path: Path, tmp_path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    done = pages.command(
        cwd=tmp_path, code=SHOW + "\n".join(shown("".join(cell["source"])) for cell in code)
    )
    assert (done.status, done.err) == (0, "")
    assert "<Tables in first-release/data: " in done.out
    assert " cells, confidential>" in done.out
    assert "<Plan of places, sexes: 2 tables for epsilon 4 in all>" in done.out
    assert "<caption>places of release " in done.out
    assert "checks: sound>" in done.out
    assert "<caption>of places by place, from release " in done.out


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_release.ipynb"]
