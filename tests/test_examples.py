"""The examples run as they stand."""

from __future__ import annotations

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
    assert {path.stem for path in (pages.ROOT / "examples").glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    code = (pages.ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert pages.command(cwd=tmp_path, code=code) == pages.Done(0, EXPECTED[name], "")
