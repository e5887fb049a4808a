"""An attribute of jobs is read from their table, and otherwise is one of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eree
from declared import book
from eree.policy.declarations import read_schema
from offices import privacy, table
from town import Reported, Town, reported, schema_faults

PAY = ["low", "high", "high", "low", "low", "high"]


def town(style: str = "parquet") -> Town:
    """A town whose jobs have a class of pay, and grades of their own; one worker has two jobs."""
    made = Town()
    made.schema["job"]["attributes"] = {
        "pay": {"values": ["low", "high", "top"], "labels": {"top": "More"}, "label": "Pay"},
        "level": [1, 2],
    }
    made.schema["job"]["primary"] = "main"
    made.schema["group"]["paid"] = {
        "of": "pay",
        "members": {"little": ["low"], "much": ["high", "top"]},
    }
    made.tables["job"] |= {"pay": PAY, "level": [1, 1, 1, 2, 2, 2], "main": [True] * 6}
    second = {"worker_id": 1, "workplace_id": 20, "pay": "top", "level": 2, "main": False}
    for column, value in second.items():
        made.tables["job"][column] = [*made.tables["job"][column], value]
    return made.as_csv("job") if style == "csv" else made


def counted(folder: Path, *by: str, **where: list[Any]) -> dict[Any, int]:
    cells = eree.tabulate(eree.load(folder), by, where).confidential.to_pylist()
    return {tuple(cell[name] for name in by): cell["count"] for cell in cells}


@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_jobs_are_counted_by_their_own_attributes(tmp_path: Path, style: str) -> None:
    """The pay of a job that does not count is nowhere: nobody is at the top."""
    folder = town(style).write(tmp_path)
    assert counted(folder, "pay") == {("low",): 3, ("high",): 3, ("top",): 0}
    assert counted(folder, "state", "pay") == {
        ("17", "low"): 3,
        ("17", "high"): 3,
        ("17", "top"): 0,
        **{("18", pay): 0 for pay in ("low", "high", "top")},
    }
    assert counted(folder, "paid", "sex") == {
        ("little", "F"): 2,
        ("little", "M"): 1,
        ("much", "F"): 1,
        ("much", "M"): 2,
    }
    assert counted(folder, "grade", pay=["high"], level=[1]) == {(1,): 0, (2,): 1, (3,): 1}
    [cell] = eree.tabulate(eree.load(folder), [], {"pay": ["high"]}).confidential.to_pylist()
    assert cell == {"count": 3, "largest": 1, "largest_total": 3, "workplaces": 4}


def test_a_schema_says_which_table_holds_an_attribute(tmp_path: Path) -> None:
    attributes = read_schema(town().write(tmp_path)).attributes
    found = {n: (attributes[n].table, attributes[n].owner) for n in ("pay", "paid", "sex", "state")}
    assert found == {
        "pay": ("job", "worker"),
        "paid": ("job", "worker"),
        "sex": ("worker", "worker"),
        "state": ("workplace", "workplace"),
    }
    assert attributes["pay"].describe("top") == "More"


MISSING = "the value is missing"
UNDECLARED = "the value is not declared"
FAULTS: list[tuple[str, int, Any, Reported]] = [
    ("pay", 2, "hgih", ("job", "pay", UNDECLARED, 1)),
    ("pay", 6, "hgih", ("job", "pay", UNDECLARED, 1)),  # of a job that does not count
    ("pay", 0, None, ("job", "pay", MISSING, 1)),
    ("level", 3, 7, ("job", "level", UNDECLARED, 1)),
]


@pytest.mark.parametrize(("column", "row", "value", "fault"), FAULTS)
@pytest.mark.parametrize("style", ["parquet", "csv"])
def test_a_value_of_a_job_that_is_not_declared_is_a_fault(
    tmp_path: Path, style: str, column: str, row: int, value: Any, fault: Reported
) -> None:
    made = town(style)
    held = list(made.tables["job"][column])
    held[row] = value
    made.tables["job"][column] = held
    found = reported(made.write(tmp_path))
    assert found == [fault]
    assert "hgih" not in repr(found)


MAKE_INTEGERS = "; make it integers, or declare texts"


def test_columns_of_jobs_are_there_declared_and_of_their_type(tmp_path: Path) -> None:
    made = town()
    made.tables["job"]["level"] = ["1"] * 7
    del made.tables["job"]["pay"]
    made.tables["job"]["extra"] = [1] * 7
    undeclared = "the column is not declared; declare it or list it in job.ignore"
    assert reported(made.write(tmp_path / "columns")) == [
        ("job", "level", f"the column holds texts, not integers{MAKE_INTEGERS}", None),
        ("job", "pay", "the column is missing", None),
        ("job", "extra", undeclared, None),
    ]
    made = town("csv")
    made.tables["job"]["level"] = [1, 1, "01", 2, 2, 2, 2]
    rule = "the value is not a plainly written integer"
    assert reported(made.write(tmp_path / "integers")) == [("job", "level", rule, 1)]


def test_a_primary_mark_is_no_attribute(tmp_path: Path) -> None:
    made = town()
    made.schema["job"]["attributes"]["main"] = [0, 1]
    rule = "names the column main twice (names that differ only in case are one)"
    assert schema_faults(made.write(tmp_path)) == [("job", rule)]


WEAK = eree.Weak("0.1", ["paid", "sex"])


def test_a_release_by_an_attribute_of_jobs_is_that_of_a_worker_attribute(tmp_path: Path) -> None:
    """As a type of weak neighbours, in `by` and in a filter; the record says where it is from."""
    data, made = town().write(tmp_path / "data"), book(tmp_path, WEAK)
    weak = privacy(neighbours="weak", types=["paid", "sex"], epsilon="16")
    quick = {"mechanism": "smooth-pareto", "epsilon": "8"}
    wanted = [
        table(name="pays", by=["state", "paid"], **quick),
        table(name="women", by=["county"], where={"paid": ["much"], "sex": ["F"]}, **quick),
    ]
    plan = eree.Plan.of({"data": str(data), "privacy": weak, "table": wanted})
    release = eree.publish(plan, eree.load(data), ledger=made, out=tmp_path / "out")
    assert release.record["protects"]["types"]["paid"]["table"] == "job"
    assert "table" not in release.record["protects"]["types"]["sex"]
    said = release.record["attributes"]
    of_jobs = {name for name, attribute in said.items() if attribute.get("table") == "job"}
    assert of_jobs == {"pay", "paid"}
    assert release.schema.attributes["paid"].table == "job"
    found = eree.verify(release, ledger=made)
    assert found.sound, found.faults
    rows = release.table("pays").to_pylist()
    assert [(r["state"], r["paid"]) for r in rows] == [
        (state, paid) for state in ("17", "18") for paid in ("little", "much")
    ]


def test_strong_neighbours_take_an_attribute_of_jobs_as_one_of_workers(tmp_path: Path) -> None:
    data = town().write(tmp_path / "data")
    for by in (["state", "pay"], ["state", "sex"]):
        asked = {"data": str(data), "privacy": privacy()}
        with pytest.raises(eree.Refusal, match="cells touched by a worker attribute"):
            eree.Plan.of(asked | {"table": [table(by=by, mechanism="log-laplace-tight")]})
