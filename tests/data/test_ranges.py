"""Numbers and dates that a schema sorts into ranges or years, as brute force sorts them."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
import offices
from selection import examples
from town import Town, listed, reported, schema_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAY = {"low": 0, "middle": "1250.01", "high": "3333.0000000001"}
BORN = {"before 1970": "1900-01-01", "1970s": "1970-01-01", "later": "1980-01-01"}
#: At, just below and just above where ranges begin.
EDGES = ["0", "0.01", "1250", "1250.00", "1250.0099999999", "1250.01", "3333", "3333.0000000001"]
numbers = st.one_of(
    st.sampled_from([Decimal(edge) for edge in EDGES]),
    st.decimals(0, 10**17, places=10, allow_nan=False),
)
dates = st.one_of(
    st.sampled_from([date(1900, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(1979, 12, 31)]),
    st.dates(date(1900, 1, 1), date(2026, 12, 31)),
)


def sorted_into(ranges: dict[str, Any], value: Any, read: Any) -> str:
    """The last range that does not begin after a value."""
    return [name for name, low in ranges.items() if read(low) <= value][-1]


def town(pay: list[Decimal], born: list[date], kind: pa.DataType | None, *, csv: bool) -> Town:
    made = Town()
    people = made.tables["worker"]
    people["pay"] = [f"{p:f}" if csv else p for p in pay]
    people["born"] = [d.isoformat() if csv else d for d in born]
    people["hired"] = [*people["born"]]
    if kind is not None:
        made.types["worker", "pay"] = kind
    made.schema["worker"]["attributes"] |= {
        "pay": {"ranges": PAY},
        "born": {"ranges": BORN},
        "hired": {"years": [1900, 2026]},
    }
    decades = {f"{d}s": list(range(d, min(d + 10, 2027))) for d in range(1900, 2027, 10)}
    made.schema["group"]["decade"] = {"of": "hired", "members": decades}
    return made.as_csv("worker") if csv else made


def agree(pay: list[Decimal], born: list[date], *, csv: bool, engine: object) -> None:
    made = town(pay, born, None if csv else pa.decimal128(28, 10), csv=csv)
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(made.write(Path(folder) / "data"), engine=engine)
        expected = {
            "pay": Counter(sorted_into(PAY, p, Decimal) for p in pay),
            "born": Counter(sorted_into(BORN, d, date.fromisoformat) for d in born),
            "hired": Counter(d.year for d in born),
            "decade": Counter(f"{d.year // 10 * 10}s" for d in born),
        }
        for by, found in expected.items():
            rows = eree.tabulate(tables, by=[by]).confidential.to_pylist()
            assert Counter({row[by]: row["count"] for row in rows}) == found
        [kept] = eree.tabulate(tables, by=[], where={"pay": ["high"]}).confidential.to_pylist()
        assert kept["count"] == expected["pay"]["high"]


six = st.tuples(st.lists(numbers, min_size=6, max_size=6), st.lists(dates, min_size=6, max_size=6))


@examples(15, torture=1000)
@given(rows=six, csv=st.booleans())
def test_duckdb_sorts_as_brute_force_does(
    rows: tuple[list[Decimal], list[date]], csv: bool
) -> None:
    agree(*rows, csv=csv, engine="duckdb")


@examples(2, torture=60)
@given(rows=six, csv=st.booleans())
def test_spark_sorts_as_brute_force_does(
    spark: SparkSession, rows: tuple[list[Decimal], list[date]], csv: bool
) -> None:
    agree(*rows, csv=csv, engine=spark)


PEOPLE = [Decimal(n) for n in (0, 1250, 1251, 3333, 3334, 9)], [date(1971, 5, 1)] * 6


@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.decimal128(9, 2), pa.decimal256(9, 2)])
def test_integers_and_decimals_of_any_width_are_sorted(kind: pa.DataType, tmp_path: Path) -> None:
    made = town(*PEOPLE, pa.decimal128(9, 2), csv=False)
    rows = made.arrow("worker")
    place = rows.column_names.index("pay")
    made.tables["worker"]["pay"] = rows["pay"].cast(kind).to_pylist()
    made.types["worker", "pay"] = kind
    tables = eree.load(made.write(tmp_path))
    found = eree.tabulate(tables, by=["pay"]).confidential["count"].to_pylist()
    assert (found, place) == ([3, 2, 1], 3)


def test_dates_and_decimals_of_a_database_are_sorted(tmp_path: Path) -> None:
    made = town(*PEOPLE, pa.decimal128(9, 2), csv=False)
    with duckdb.connect(str(tmp_path / "office.duckdb")) as office:
        office.register("_rows", made.arrow("worker"))
        office.execute("create table worker as from _rows")
    del made.schema["worker"]["file"]
    made.schema["worker"]["source"] = {"duckdb": "office.duckdb", "table": "worker"}
    del made.tables["worker"]
    tables = eree.load(made.write(tmp_path))
    assert eree.tabulate(tables, by=["born"]).confidential["count"].to_pylist() == [0, 6, 0]


@pytest.mark.parametrize("csv", [True, False])
def test_what_lies_below_all_ranges_or_outside_all_years_is_a_fault(
    tmp_path: Path, csv: bool
) -> None:
    pay, born = [*PEOPLE[0]], [*PEOPLE[1]]
    pay[0], born[1], born[2] = Decimal("-0.01"), date(1899, 12, 31), date(2027, 1, 1)
    folder = town(pay, born, None if csv else pa.decimal128(9, 2), csv=csv).write(tmp_path)
    rule = "the value is not declared"
    expected = [("pay", 1), ("born", 1), ("hired", 2)]
    assert reported(folder) == [("worker", column, rule, rows) for column, rows in expected]
    assert listed(folder) == reported(folder)


@pytest.mark.parametrize(
    "wrong", ["1e3", " 5", "5 ", "+5", "05", ".5", "5.", "1,5", "x", "5.12345678901"]
)
def test_a_number_in_csv_is_written_plainly(tmp_path: Path, wrong: str) -> None:
    made = town(*PEOPLE, None, csv=True)
    made.tables["worker"]["pay"][3] = wrong
    folder = made.write(tmp_path)
    assert reported(folder)[0] == ("worker", "pay", NUMBER, 1)
    assert ("worker", "pay", NUMBER, 1) in listed(folder)


NUMBER = "the value is not a plainly written number of 18 digits and 10 decimals at most"


@pytest.mark.parametrize("wrong", ["2020-1-05", "2020-02-30", "5.1.2020", "2020-01-05T00:00", "x"])
def test_a_date_in_csv_is_written_plainly(tmp_path: Path, wrong: str) -> None:
    made = town(*PEOPLE, None, csv=True)
    made.tables["worker"]["born"][3] = wrong
    rule = "the value is not a date such as 2026-05-31"
    assert reported(made.write(tmp_path))[0] == ("worker", "born", rule, 1)


def test_a_missing_number_is_a_fault(tmp_path: Path) -> None:
    made = town(*PEOPLE, pa.decimal128(9, 2), csv=False)
    made.tables["worker"]["pay"][0] = None
    assert reported(made.write(tmp_path)) == [("worker", "pay", "the value is missing", 1)]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.string(), "texts, not decimals or integers"),
        (
            pa.float64(),
            "floating-point numbers (double); make them decimals or integers (in pandas by"
            " .astype('Int64'), or from texts by .map(Decimal))",
        ),
        (
            pa.decimal128(38, 2),
            "values of another type (decimal128(38, 2)), not decimals or integers",
        ),
        (pa.date32(), "dates, not decimals or integers"),
    ],
)
def test_other_columns_are_a_fault(tmp_path: Path, kind: pa.DataType, found: str) -> None:
    made = town(*PEOPLE, kind, csv=False)
    made.tables["worker"]["pay"] = ["1"] * 6 if kind == pa.string() else [1] * 6
    if pa.types.is_decimal(kind):
        made.tables["worker"]["pay"] = [Decimal(1)] * 6
    [fault] = reported(made.write(tmp_path))
    assert fault[2] == f"the column holds {found}"


@pytest.mark.parametrize(
    ("settings", "place", "rule"),
    [
        ({"ranges": {}}, "ranges", "must all begin at numbers"),
        ({"ranges": {"a": 0, "b": "1970-01-01"}}, "ranges", "must all begin at numbers"),
        ({"ranges": {"a": "x"}}, "ranges", "must all begin at numbers"),
        ({"ranges": {"a": "2020-02-30"}}, "ranges", "must all begin at numbers"),
        ({"ranges": {"a": 1, "b": 1}}, "ranges", "must be in order"),
        ({"ranges": {"a": "1970-01-01", "b": "1960-01-01"}}, "ranges", "must be in order"),
        ({"ranges": {"a": 1.5}}, "ranges", "must give each value the least number"),
        ({"ranges": {"it's": 1}}, "ranges", "must give each value the least number"),
        ({"ranges": {"${x}": 1}}, "ranges", "must give each value the least number"),
        ({"years": [2020]}, "years", "must be the first and the last year"),
        ({"years": [2020, 2019]}, "years", "must be in order"),
        ({"years": [2020, 2021], "values": ["a"]}, "values", "does not go with years"),
        ({"ranges": {"a": 1}, "years": [2020, 2021]}, "years", "does not go with ranges"),
        ({"ranges": {"a": 1}, "missing": "a"}, "missing", "does not go with ranges"),
    ],
)
def test_ranges_that_cannot_be_are_faults_of_the_schema(
    tmp_path: Path, settings: dict[str, Any], place: str, rule: str
) -> None:
    made = Town()
    made.schema["worker"]["attributes"]["sex"] = settings
    found = schema_faults(made.write(tmp_path))
    assert f"worker.attributes.sex.{place}" in [where for where, _ in found]
    assert any(said.startswith(rule) for _, said in found)


def test_dates_in_toml_begin_ranges(tmp_path: Path) -> None:
    folder = town(*PEOPLE, pa.decimal128(9, 2), csv=False).write(tmp_path)
    path = folder / "schema.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"1970-01-01"', "1970-01-01"), encoding="utf-8")
    assert eree.check(folder)
    path.write_text(text.replace('"1970-01-01"', "1970-01-01T00:00:00"), encoding="utf-8")
    assert [place for place, _ in schema_faults(folder)] == ["worker.attributes.born.ranges"]


def test_types_of_weak_neighbours_are_not_made_of_ranges(tmp_path: Path) -> None:
    folder = town(*PEOPLE, pa.decimal128(9, 2), csv=False).write(tmp_path / "data")
    settings = offices.settings(
        folder,
        privacy=offices.privacy(neighbours="weak", types=["pay"], epsilon="1"),
        table=[offices.table(by=["county", "pay"])],
    )
    ledger = eree.Ledger.create(
        tmp_path / "ledger.db", eree.Guarantee(eree.Weak("0.1", ("pay",)), 1), data_set="data"
    )
    plan = eree.Plan.of(settings)
    with pytest.raises(eree.Refusal, match="pay is made of ranges"):
        eree.publish(plan, eree.load(folder), ledger=ledger, out=tmp_path / "out")
    assert ledger.left().epsilon == 1


def test_a_plan_over_ranges_can_be_rehearsed(tmp_path: Path) -> None:
    from eree_study import rehearse

    folder = town(*PEOPLE, pa.decimal128(9, 2), csv=False).write(tmp_path / "data")
    tables = [offices.table(by=["county", "pay"]), offices.table(name="born", by=["born"])]
    plan = tmp_path / "plan.toml"
    plan.write_text(offices.text(offices.settings(folder, table=tables)), encoding="utf-8")
    assert rehearse(plan, tmp_path / "out").sound
