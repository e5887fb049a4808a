"""A rehearsal goes all the way without a confidential row, and never passes for a release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import eree
import eree_study
import offices
import pages
from eree.verification.recheck import REHEARSAL
from eree_study.synth.rehearsed import rehearsed_tables

#: Mechanisms whose certificates are soon found.
PLAN = offices.settings(
    table=[
        *(table | {"mechanism": "smooth-pareto"} for table in offices.settings()["table"]),
        {"name": "sizes", "count": "workplaces", "by": [], "epsilon": "0.5"},
    ]
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan and what is public of its data: no worker, no job."""
    folder = tmp_path_factory.mktemp("office")
    data = eree_study.synthesize(folder / "data", jobs=3_000)
    for name in ("worker.parquet", "job.parquet"):
        (data / name).unlink()
    (folder / "plan.toml").write_text(offices.text(PLAN), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(office: Path) -> tuple[Path, pages.Done]:
    return office / "trial", pages.command("rehearse", "plan.toml", "--out", "trial", cwd=office)


def test_a_plan_is_rehearsed_where_there_is_no_worker_and_no_job(
    made: tuple[Path, pages.Done],
) -> None:
    _, done = made
    assert (done.status, done.err) == (0, "")
    assert "nothing of yours was read or spent" in " ".join(done.out.split())
    assert "no fault but that it is a rehearsal" in done.out
    assert {"sectors", "women"} <= set(done.out.split())


def test_every_file_of_a_rehearsal_says_what_it_is(made: tuple[Path, pages.Done]) -> None:
    folder, _ = made
    for path in (path for path in folder.rglob("*") if path.is_file()):
        marked = "rehearsal-" in path.name or path.name == "REHEARSAL.txt"
        codes = path.parent.name in ("areas", "members")  # public as they are
        said = path.suffix == ".json" and json.loads(path.read_text())
        assert marked or codes or path.name == "estimates.json" or said["rehearsal"] is True, path
    memo = (folder / "rehearsal-memo.md").read_text(encoding="utf-8")
    assert memo.startswith("A REHEARSAL")


def test_a_rehearsal_never_verifies_is_never_served_and_says_so_when_it_is_asked(
    made: tuple[Path, pages.Done],
) -> None:
    folder, _ = made
    release = folder / "rehearsal"
    found = eree.verify(release, ledger=eree.Ledger.open(folder / "rehearsal-ledger.db"))
    assert [fault.rule for fault in found.faults] == [REHEARSAL]
    assert not eree.Release.open(release).private
    assert "rehearsal" in repr(eree.rank(release, "rehearsal-sectors", ["sector"]))
    ranked = pages.command("rank", release, "rehearsal-sectors", "--by", "sector")
    assert "This is a rehearsal, made of synthetic data, and no release." in ranked.out
    assert pages.command("verify", release).status == 1
    assert pages.command("serve", release, "--port", "0").status == 2


def test_who_takes_the_mark_out_of_a_rehearsal_is_found(
    made: tuple[Path, pages.Done], tmp_path: Path
) -> None:
    folder, _ = made
    copy = Path(shutil.copytree(folder / "rehearsal", tmp_path / "out"))
    record = copy / "release.json"
    text = record.read_text(encoding="utf-8").replace(' "rehearsal": true,\n', "")
    record.write_text(text, encoding="utf-8")
    assert "digest" in [fault.column for fault in eree.verify(copy).faults]


def test_the_ledger_of_a_rehearsal_pays_for_nothing_else(made: tuple[Path, pages.Done]) -> None:
    folder, _ = made
    left = eree.Ledger.open(folder / "rehearsal-ledger.db").left()
    assert (left.epsilon, left.delta) == (0, 0)


def test_a_rehearsal_is_not_signed(office: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    plan = eree.Plan.read(office / "plan.toml")
    tables = eree.load(rehearsed_tables(plan.frame, most=20, seed=1), plan.data)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", plan.total, data_set="data")
    signer = eree.Signer(Ed25519PrivateKey.generate())
    with pytest.raises(eree.Refusal, match="is no release and is not signed"):
        eree.publish(
            plan, tables, ledger=ledger, out=tmp_path / "out", signer=signer, rehearsal=True
        )
    assert ledger.left() == plan.total


def test_a_rehearsal_takes_some_of_the_workplaces_and_says_so(office: Path) -> None:
    done = pages.command("rehearse", "plan.toml", "--workplaces", "40", "--out", "some", cwd=office)
    assert "at 40 of 145 workplaces" in done.out
    refused = pages.command("rehearse", "plan.toml", "--out", "some", cwd=office)
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "is not a new or empty folder" in refused.err


SCHEMA = """
data_set = "town"
[workplace]
file = "workplace.csv"
key = "id"
ignore = ["note"]
{published}
[workplace.attributes.place]
[workplace.attributes.floors]
type = "integer"
[workplace.attributes.payroll]
type = "integer"
confidential = true
[worker]
file = "worker.csv"
key = "person"
ignore = ["name"]
[worker.attributes]
sex = ["F", "M"]
band = [1, 2, 3]
[job]
file = "job.csv"
worker = "person"
workplace = "site"
most_per_worker = {most}
{primary}
[job.attributes]
pay = ["low", "high"]
[group.young]
of = "band"
members = {{ yes = [1], no = [2, 3] }}
"""


@given(
    published=st.booleans(),
    most=st.integers(1, 3),
    primary=st.sampled_from(["", 'primary = "main"', 'primary = { greatest = "worth" }']),
    rows=st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 3)), min_size=1, max_size=8),
)
@hypothesis_settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_tables_made_for_any_schema_pass_its_checks_and_keep_the_public_workplaces(
    published: bool, most: int, primary: str, rows: list[tuple[str, int]], tmp_path: Path
) -> None:
    told = "publish_key = true" if published else ""
    most = 1 if "greatest" in primary else most
    text = SCHEMA.format(published=told, most=most, primary=primary)
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    lines = [f"W{i},{place},{floors},7,x" for i, (place, floors) in enumerate(rows)]
    table = "\n".join(["id,place,floors,payroll,note", *lines, ""])
    (tmp_path / "workplace.csv").write_text(table, encoding="utf-8")
    plan = {"privacy": offices.privacy(), "table": [offices.table()], "data": "."}
    frame = eree.Plan.of(plan, folder=tmp_path).frame
    tables = eree.load(rehearsed_tables(frame, most=100, seed=2), tmp_path)
    counted = eree.tabulate(tables, by=["place", "floors"]).confidential.to_pylist()
    found = {(row["place"], row["floors"]): row["workplaces"] for row in counted}
    assert found == {pair: rows.count(pair) for pair in rows}
    if "greatest" not in primary:  # a rule may choose all jobs of a workplace elsewhere
        assert all(row["count"] >= row["workplaces"] for row in counted)
