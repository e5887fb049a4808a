"""Tables of DuckDB files and of PostgreSQL: counted and checked as files are."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pytest

import eree
import offices
import pages
from eree.data.postgres import Postgres
from ledgers import PostgresServer, postgres
from town import (
    SECRET,
    Town,
    listed,
    missing,
    orphan,
    repeated,
    reported,
    schema_faults,
    undeclared_value,
)

__all__ = ["postgres"]

VARIABLE = "EREE_TEST_DATA"
KINDS = [
    *("csv", "parquet", "duckdb"),
    pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
]
Write = Callable[[Town], Path]


def named(town: Town, **source: str) -> Town:
    """The town with all of its tables declared in a database."""
    for table in town.tables:
        home = town.schema["reference"] if table == "county" else town.schema
        del home[table]["file"]
        home[table]["source"] = {**source, "table": table}
    return town


def fill_duckdb(town: Town, path: Path) -> None:
    with duckdb.connect(str(path)) as office:
        for table in town.tables:
            office.register("_rows", town.arrow(table))
            office.execute(f"create table {table} as from _rows")
            office.unregister("_rows")


SQL_TYPES = {pa.int64(): "bigint", pa.string(): "text", pa.float64(): "double precision"}


def fill_postgres(town: Town, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as office:
        for table in town.tables:
            rows = town.arrow(table)
            types = [SQL_TYPES.get(f.type, "numeric(20)") for f in rows.schema]
            columns = [f"{n} {kind}" for n, kind in zip(rows.column_names, types, strict=True)]
            office.execute(f"create table {table} ({', '.join(columns)})")
            with office.cursor().copy(f"copy {table} from stdin") as copy:
                for row in rows.to_pylist():
                    copy.write_row(list(row.values()))


@pytest.fixture(params=KINDS)
def write(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a town in one way of keeping tables after the other."""

    def written(town: Town) -> Path:
        folder = tmp_path / "data"
        folder.mkdir()
        if request.param == "csv":
            town.as_csv()
        elif request.param == "duckdb":
            fill_duckdb(town, folder / "office.duckdb")
            named(town, duckdb="office.duckdb")
        elif request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            address = server.new_place()
            fill_postgres(town, address)
            monkeypatch.setenv(VARIABLE, address)
            named(town, postgres=VARIABLE)
        return town.write(folder)

    return written


def odd_value(town: Town) -> None:
    town.tables["worker"]["sex"][0] = 'a "quoted", two-\nlined \\. text'


def no_column(town: Town) -> None:
    del town.tables["worker"]["sex"]


def two_counties(town: Town) -> None:
    town.tables["workplace"]["tract"][2] = "1711"


def unknown_county(town: Town) -> None:
    town.tables["county"]["county"][0] = "999"


FAULTS = {
    repeated: ("worker", "worker_id", "the key repeats that of an earlier row", 1),
    orphan: ("job", "workplace_id", "the workplace does not exist", 1),
    missing: ("worker", "sex", "the value is missing", 1),
    undeclared_value: ("worker", "sex", "the value is not declared", 1),
    odd_value: ("worker", "sex", "the value is not declared", 1),
    no_column: ("worker", "sex", "the column is missing", None),
    two_counties: ("workplace", "tract", "the tract lies in more than one county", 2),
    unknown_county: ("workplace", "county", "the value is not in", 2),
}


def test_tables_are_counted_wherever_they_lie(write: Write) -> None:
    folder = write(Town())
    tables = eree.load(folder)
    assert tables.workplaces == 4
    assert repr(tables) == f"<Tables in {folder}: 4 workplaces, the rest confidential>"
    cells = eree.tabulate(tables, by=["goods", "sex"]).confidential
    assert cells.schema.field("sex").type == pa.string()
    found = [(r["goods"], r["sex"], r["count"], r["largest"]) for r in cells.to_pylist()]
    assert found == [
        *(("goods", "F", 2, 1), ("goods", "M", 1, 1)),
        *(("services", "F", 1, 1), ("services", "M", 2, 2)),
    ]
    graded = eree.tabulate(tables, by=["grade"]).confidential
    assert graded.to_pydict()["count"] == [2, 2, 2]


@pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)
def test_faults_are_the_same_wherever_tables_lie(
    write: Write, spoil: Callable[[Town], None]
) -> None:
    town = Town()
    spoil(town)
    folder, (table, column, rule, rows) = write(town), FAULTS[spoil]
    checked = eree.check(folder)
    found = [(f.table, f.column, f.rows) for f in checked.faults]
    assert (table, column, rows) in found
    assert any(fault.rule.startswith(rule) for fault in checked.faults)
    assert SECRET not in repr(checked)
    if rows is not None:
        assert rows in [row[3] for row in listed(folder)]


def test_ids_of_another_type_are_a_fault(tmp_path: Path) -> None:
    town = Town()
    town.tables["job"]["worker_id"] = list("123456")
    fill_duckdb(town, tmp_path / "office.duckdb")
    found = reported(named(town, duckdb="office.duckdb").write(tmp_path))
    rule = "the ids are of another type than the key of worker: texts, not integers"
    assert ("job", "worker_id", rule, None) in found


def test_an_empty_table_is_a_fault(write: Write) -> None:
    town = Town()
    town.tables["job"] = {name: [] for name in town.tables["job"]}
    town.types |= {("job", name): pa.int64() for name in town.tables["job"]}
    assert ("job", "", "the table is empty", None) in reported(write(town))


def test_a_release_is_made_of_tables_wherever_they_lie(write: Write, tmp_path: Path) -> None:
    folder = write(Town())
    settings = offices.settings(folder, table=[offices.table(by=["county", "sex"])])
    ledger = eree.Ledger.create(tmp_path / "ledger.db", offices.TOTAL, data_set="data")
    out = tmp_path / "out"
    eree.publish(eree.Plan.of(settings), eree.load(folder), ledger=ledger, out=out)
    assert eree.verify(out).sound
    assert len((out / "tables" / "t.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3 * 2


# ------------------------------------------------------------------------------------- DuckDB


def test_rows_that_another_connection_has_not_moved_into_the_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "office.duckdb"
    fill_duckdb(Town(), path)
    script = (
        f"import duckdb, os; c = duckdb.connect({str(path)!r});"
        "c.execute('insert into worker values (7, $$F$$, 1)');"
        "c.execute('insert into job values (7, 40)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert path.with_name("office.duckdb.wal").exists()
    tables = eree.load(named(Town(), duckdb="office.duckdb").write(tmp_path))
    assert eree.tabulate(tables, by=[]).confidential["count"].to_pylist() == [7]
    assert path.with_name("office.duckdb.wal").exists()  # nothing was written


def test_a_file_that_is_open_to_write_is_a_fault(tmp_path: Path) -> None:
    folder, path = named(Town(), duckdb="office.duckdb").write(tmp_path), tmp_path / "office.duckdb"
    fill_duckdb(Town(), path)
    with duckdb.connect(str(path)):
        rules = {rule for _, _, rule, _ in reported(folder)}
    assert [rule[:36] for rule in rules] == ["cannot be opened as a DuckDB file; i"]
    assert eree.check(folder)


@pytest.mark.parametrize("what", ["no file", "no database", "no table", "a broken view"])
def test_a_database_that_cannot_be_read_is_a_fault(tmp_path: Path, what: str) -> None:
    path = tmp_path / "office.duckdb"
    town = named(Town(), duckdb="office.duckdb")
    if what == "no database":
        path.write_text(SECRET * 1000, encoding="utf-8")
    elif what != "no file":
        fill_duckdb(Town(), path)
        with duckdb.connect(str(path)) as office:
            office.execute("create table old as from job; create view spoilt as from old")
            office.execute("drop table old; drop table job")
            if what == "a broken view":
                town.schema["job"]["source"]["table"] = "spoilt"
    words = {
        "no file": "the file does not exist",
        "no database": "cannot be opened as a DuckDB file",
    }
    found = [fault for fault in eree.check(town.write(tmp_path)).faults if fault.table == "job"]
    assert [
        fault.rule.startswith(words.get(what, "the file holds no such table")) for fault in found
    ] == [True]
    assert SECRET not in str(found)


def test_codes_are_ordered_as_texts_and_collations_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "office.duckdb"
    fill_duckdb(Town(), path)
    with duckdb.connect(str(path)) as office:
        office.execute("create type code as enum ('44-45', '23', '11')")
        office.execute("alter table workplace alter sector type code using sector::code")
        office.execute(
            "create schema hr; create table hr.people (worker_id bigint, grade bigint,"
            " sex varchar collate nocase)"
        )
        office.execute("insert into hr.people select worker_id, grade, lower(sex) from worker")
        office.execute("create view posts as select worker_id, workplace_id from job")
    town = named(Town(), duckdb="office.duckdb")
    town.schema["job"]["source"]["table"] = "posts"
    tables = eree.load(town.write(tmp_path))
    sectors = eree.tabulate(tables, by=["sector"]).confidential["sector"]
    assert sectors.to_pylist() == ["11", "23", "44-45"]
    town.schema["worker"]["source"]["table"] = "hr.people"
    found = reported(town.write(tmp_path))
    assert found == [("worker", "sex", "the value is not declared", 6)]


def test_a_draft_is_made_of_a_duckdb_file(tmp_path: Path) -> None:
    path = tmp_path / "office.db"
    fill_duckdb(Town(), path)
    done = pages.command("schema", "init", path, "--json")
    assert json.loads(done.out)["tables"] == {
        table: f"{table} in {path}" for table in ("workplace", "worker", "job")
    }
    assert 'source = { duckdb = "office.db", table = "worker" }' in (
        tmp_path / "schema.toml"
    ).read_text(encoding="utf-8")
    tables = eree.load(tmp_path)
    assert eree.tabulate(tables, by=["sex"]).confidential["count"].to_pylist() == [3, 3]
    with pytest.raises(eree.Refusal, match="or a DuckDB file that holds these tables"):
        eree.draft_schema([], tmp_path / "other.toml")
    broken = tmp_path / "broken.db"
    broken.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(eree.Faulty, match="cannot be opened as a DuckDB file"):
        eree.draft_schema([broken], tmp_path / "other.toml")


# --------------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def office(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database that holds the town."""
    address = postgres.new_place()
    fill_postgres(Town(), address)
    monkeypatch.setenv(VARIABLE, address)
    return address


in_postgres = pytest.mark.xdist_group("postgres")


@in_postgres
def test_all_tables_are_those_of_one_moment(office: str, tmp_path: Path) -> None:
    database = Postgres(VARIABLE)
    try:
        assert database.source("worker", None).rows is not None
        with psycopg.connect(office, autocommit=True) as other:
            other.execute("delete from job")
        rows = database.source("job", None).rows
        assert rows is not None
        assert rows.num_rows == 6
    finally:
        database.close()


@in_postgres
def test_what_was_checked_is_what_is_counted(office: str, tmp_path: Path) -> None:
    tables = eree.load(named(Town(), postgres=VARIABLE).write(tmp_path))
    with psycopg.connect(office, autocommit=True) as other:
        other.execute("delete from job")
    assert eree.tabulate(tables, by=[]).confidential["count"].to_pylist() == [6]


@in_postgres
def test_columns_that_are_not_wanted_stay_in_the_database(office: str) -> None:
    database = Postgres(VARIABLE)
    try:
        found = database.source("worker", ["worker_id"])
    finally:
        database.close()
    assert found.rows is not None
    assert found.rows.column_names == ["worker_id"]
    assert found.columns == {"worker_id": "integer", "sex": "string", "grade": "integer"}


@in_postgres
def test_types_of_postgres(office: str, tmp_path: Path) -> None:
    with psycopg.connect(office, autocommit=True) as other:
        for text in (
            "create type mood as enum ('M', 'F')",
            "alter table worker alter sex type mood using sex::mood",
            "alter table worker alter grade type smallint",
            "alter table workplace alter state type char(5)",
            "alter table job add main boolean default true, add hired timestamptz default now()",
            "alter table worker add born date default '1969-12-31', add pay numeric(9, 2)",
            "update worker set pay = worker_id * 1000.01",
        ):
            other.execute(text)
    town = named(Town(), postgres=VARIABLE)
    town.schema["job"] |= {"primary": "main", "ignore": ["hired"]}
    town.schema["worker"]["attributes"] |= {
        "born": {"ranges": {"before 1970": "1900-01-01", "later": "1970-01-01"}},
        "pay": {"ranges": {"low": 0, "high": "4000.04"}},
    }
    tables = eree.load(town.write(tmp_path))
    found = eree.tabulate(tables, by=["state", "sex"]).confidential["state"].to_pylist()
    assert found == ["17", "17", "18", "18"]
    assert eree.tabulate(tables, by=["born"]).confidential["count"].to_pylist() == [6, 0]
    assert eree.tabulate(tables, by=["pay"]).confidential["count"].to_pylist() == [3, 3]
    town.schema["job"]["ignore"], town.schema["job"]["attributes"] = [], {"hired": ["x"]}
    assert reported(town.write(tmp_path)) == [
        ("job", "hired", "the column holds values of another type (timestamptz), not texts", None)
    ]


@in_postgres
@pytest.mark.parametrize("what", ["no address", "no url", "no server", "no table", "no right"])
def test_what_cannot_be_read_is_a_fault_that_quotes_no_address(
    office: str,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    words = {
        "no address": "the environment variable EREE_TEST_DATA holds no address",
        "no url": "what the environment variable EREE_TEST_DATA holds is no address",
        "no server": "the database whose address EREE_TEST_DATA holds does not answer",
        "no table": "the database holds no such table",
        "no right": "the login may not read the table",
    }
    addresses = {
        "no address": "",
        "no url": f"postgresql://x:{SECRET}@[/",
        "no server": f"postgresql://eree:{SECRET}@/nothing?host={tmp_path}",
        "no right": office.replace("//eree@", f"//clerk:{SECRET}@"),
    }
    with psycopg.connect(office, autocommit=True) as other:
        if what == "no table":
            other.execute("drop table job")
        elif what == "no right":
            other.execute("drop role if exists clerk")
            other.execute("create role clerk login")
            found = other.execute("select current_schema()").fetchone()
            assert found is not None
            other.execute(f"grant usage on schema {found[0]} to clerk")
            other.execute("grant select on worker to clerk")
    monkeypatch.setenv(VARIABLE, addresses.get(what, office))
    done = pages.command("check", named(Town(), postgres=VARIABLE).write(tmp_path), "--json")
    faults = json.loads(done.out)["faults"]
    assert words[what] in {fault["rule"][: len(words[what])] for fault in faults}
    assert {fault["table"] for fault in faults} >= {"job"}
    assert SECRET not in done.out + done.err
    with pytest.raises(eree.Faulty) as raised:
        eree.load(tmp_path)
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    if what == "no right":
        with psycopg.connect(office, autocommit=True) as other:
            other.execute("drop owned by clerk")


@in_postgres
def test_nothing_is_planned_with_confidential_tables_read(office: str, tmp_path: Path) -> None:
    folder = named(Town(), postgres=VARIABLE).write(tmp_path)
    with psycopg.connect(office, autocommit=True) as other:
        other.execute("drop table job; drop table worker")
    settings = offices.settings(data=str(folder), table=[offices.table(by=["county", "sex"])])
    assert eree.Plan.of(settings).tables


def test_an_address_in_a_schema_is_refused_and_not_quoted(tmp_path: Path) -> None:
    folder = named(Town(), postgres=f"postgresql://me:{SECRET}@host/db").write(tmp_path)
    found = schema_faults(folder)
    assert [place for place, _ in found] == [
        *("workplace.source", "worker.source", "job.source", "reference.county.source")
    ]
    assert all("never the address itself" in rule for _, rule in found)
    assert SECRET not in pages.command("check", folder).out


def test_a_table_is_a_file_or_of_a_database(tmp_path: Path) -> None:
    town = Town()
    town.schema["job"] |= {"source": {"duckdb": "x.duckdb", "table": "job"}, "separator": ";"}
    town.schema["worker"]["file"] = "office.duckdb"
    (tmp_path / "office.duckdb").write_bytes(b"x")
    rule = "is of files, and source of databases; leave one out"
    found = reported(town.write(tmp_path))
    assert [(c, r) for t, c, r, _ in found if t == "schema.toml"] == [
        *(("job.file", rule), ("job.separator", rule))
    ]
    assert any(r.endswith("tables of databases are named by source") for _, _, r, _ in found)
    town = named(Town(), duckdb="office.duckdb")
    town.schema["job"]["source"]["table"] = "worker"
    found = reported(town.write(tmp_path))
    assert ("schema.toml", "job.file", "is, or lies inside, the file of worker", None) in found


def test_spark_is_refused(tmp_path: Path) -> None:
    fill_duckdb(Town(), tmp_path / "office.duckdb")
    folder = named(Town(), duckdb="office.duckdb").write(tmp_path)
    with pytest.raises(eree.Refusal, match="tables of databases are counted in this process"):
        eree.load(folder, engine="local[1]")
    with pytest.raises(eree.Refusal, match="for Spark write them as Parquet"):
        eree.tabulate(eree.load(folder), by=["sex"], engine="local[1]")
