"""Publish and verify: paid before drawn, whole or not at all, and every change is found."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree.data import tabulate as counting
from eree.release import publish as publishing
from eree.release.measure import regrouped
from eree.release.record import RECORD, digest_of
from offices import TOTAL, privacy, settings, table


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("publish") / "data", jobs=3_000)


@pytest.fixture(scope="module")
def tables(data: Path) -> eree.Tables:
    return eree.load(data)


@pytest.fixture
def ledger(tmp_path: Path) -> eree.Ledger:
    return eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")


def plan(data: Path, **changes: Any) -> eree.Plan:
    return eree.Plan.of(settings(data, **changes))


@pytest.fixture(scope="module")
def released(data: Path, tables: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sound release, with its ledger beside it."""
    home = tmp_path_factory.mktemp("released")
    ledger = eree.Ledger.create(home / "ledger.db", TOTAL, data_set="data")
    eree.publish(plan(data), tables, ledger=ledger, out=home / "out")
    return home


def test_a_release_has_what_was_planned(data: Path, tables: eree.Tables, released: Path) -> None:
    release = eree.Release.open(released / "out")
    assert release.tables == ("sectors", "women")
    assert release.private
    assert release.guarantee == eree.Guarantee(eree.Strong("0.1"), 3)
    found = release.table("sectors")
    assert found.column_names == [
        *("place", "sector", "ownership"),
        *("employment", "noisy", "low", "high", "workplaces"),
    ]
    truth = eree.tabulate(tables, by=["place", "sector", "ownership"]).confidential
    assert found.select(["place", "sector", "ownership", "workplaces"]).equals(
        truth.select(["place", "sector", "ownership", "workplaces"])
    )
    noisy, count = found["noisy"].to_numpy(), truth["count"].to_numpy()
    assert not (noisy == count).all()
    assert np.abs(noisy - count).mean() < 30
    assert (found["employment"].to_numpy() == np.maximum(noisy, 0)).all()
    women = release.table("women")
    assert women["high"].null_count == women.num_rows  # nothing public bounds the whole workplaces


def test_the_ledger_paid_before_anything_was_counted(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger, monkeypatch: Any
) -> None:
    seen: list[str] = []

    def watched(*given: Any, **named: Any) -> Any:
        seen.append(str(ledger.spent().epsilon))
        return counting.stream(*given, **named)

    monkeypatch.setattr(publishing, "stream", watched)
    release = eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "out")
    assert seen == ["3", "3"]
    account = ledger.account()
    assert account.settled == {2: release.record["digest"]}
    assert release.record["ledger"]["hash"] == account.entries[1].hash


def test_a_failure_after_paying_stays_paid_and_leaves_nothing(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger, monkeypatch: Any
) -> None:
    def broken(*_given: Any, **_named: Any) -> Any:
        raise eree.EngineFailure("the engine stopped")

    monkeypatch.setattr(publishing, "stream", broken)
    with pytest.raises(eree.EngineFailure):
        eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "out")
    assert ledger.spent().epsilon == 3
    assert ledger.account().settled == {}
    assert {path.name for path in tmp_path.iterdir()} <= {
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
    }


def test_what_can_be_refused_is_refused_before_paying(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    attempts: list[tuple[Callable[[], object], str]] = [
        (
            lambda: eree.publish(plan(data), tables, ledger=None, out=tmp_path / "out"),
            "a release must be paid for; make a ledger with 'eree ledger create' and name it",
        ),
        (
            lambda: eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "full"),
            "is not a new or empty folder; name another with --out",
        ),
        (
            lambda: eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "no" / "out"),
            "does not exist; make it first",
        ),
        (
            lambda: eree.publish(
                plan(data), tables, ledger=ledger, out=tmp_path / "out", random=eree.SeededRandom(1)
            ),
            "drawn from a seeded source is not private and cannot be paid for",
        ),
    ]
    for attempt, words in attempts:
        with pytest.raises(eree.Refusal, match=words):
            attempt()
    assert ledger.spent().epsilon == 0


def test_a_release_that_is_too_dear_is_refused(
    data: Path, tables: eree.Tables, tmp_path: Path
) -> None:
    poor = eree.Ledger.create(
        tmp_path / "poor.db", eree.Guarantee(eree.Strong("0.1"), "2.9"), data_set="data"
    )
    with pytest.raises(eree.Refusal, match="left, and this release asks for 3"):
        eree.publish(plan(data), tables, ledger=poor, out=tmp_path / "out")
    edge = eree.Ledger.create(tmp_path / "n.db", eree.Guarantee(eree.NODE, 9), data_set="data")
    with pytest.raises(eree.Refusal, match="promises nothing under the ledger's node"):
        eree.publish(plan(data), tables, ledger=edge, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plan_for_another_schema_is_refused(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger
) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    text = (other / "schema.toml").read_text(encoding="utf-8")
    (other / "schema.toml").write_text(text.replace('"M"', '"M", "X"', 1), encoding="utf-8")
    with pytest.raises(eree.Refusal, match="made for another schema"):
        eree.publish(plan(other), tables, ledger=ledger, out=tmp_path / "out")


def test_a_seeded_release_repeats_and_says_that_it_is_not_private(
    data: Path, tables: eree.Tables, tmp_path: Path
) -> None:
    made = [
        eree.publish(
            plan(data), tables, ledger=None, out=tmp_path / name, random=eree.SeededRandom(7)
        )
        for name in ("a", "b")
    ]
    assert made[0].table("sectors").equals(made[1].table("sectors"))
    assert not made[0].private
    assert made[0].record["statements"] == []
    found = eree.verify(made[0])
    assert [fault.column for fault in found.faults] == ["private"]


def test_a_folder_that_cannot_be_written_costs_nothing(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger, monkeypatch: Any
) -> None:
    make = Path.mkdir

    def refused(path: Path, *given: Any, **named: Any) -> None:
        if ".partial-" in path.name:
            raise PermissionError
        make(path, *given, **named)

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(eree.Refusal, match="nothing can be written in"):
        eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "out")
    assert ledger.spent().epsilon == 0


# ------------------------------------------------------------------------------------ verify


def test_a_sound_release_is_sound(released: Path) -> None:
    ledger = eree.Ledger.open(released / "ledger.db")
    found = eree.verify(eree.Release.open(released / "out"), ledger=ledger)
    assert found.sound, found.faults
    assert "entry 2 of the ledger paid for it (settled)" in found.checks


@pytest.fixture
def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released / "out", tmp_path / "copy"))


def rewritten(folder: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """The faults of a release whose record was changed and given a new digest."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")
    return [f"{f.column}: {f.rule}" for f in eree.verify(eree.Release.open(folder)).faults]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["guarantee"].update(epsilon="2"), "guarantee: is not what the prices"),
        (lambda r: r["tables"][0]["price"].update(epsilon="1"), "sectors.each: is not what the"),
        (lambda r: r["tables"][0]["parameters"].update(slope="1"), "sectors.parameters: is not"),
        (lambda r: r["tables"][0].update(mechanism="radial"), "sectors."),
        (
            lambda r: r["tables"][0].update(mechanism="none"),
            "sectors: its mechanism does not exist",
        ),
        (lambda r: r["tables"][1].update(statistics=["count", "largest"]), "women.statistics: is"),
        (lambda r: r["tables"][1].update(worker_cells=1e-12), "women.worker_cells: is not what"),
        (lambda r: r["tables"][1].update(worker_cells=0), "women.worker_cells: is not what the"),
        (lambda r: r["tables"][1].update(worker_cells=None), "women.worker_cells: is not what"),
        (lambda r: r["tables"][0].update(rows=1), "sectors: has other columns or another number"),
        (lambda r: r["statements"].pop(), "statements: do not say what the guarantee means"),
        (lambda r: r.update(level="0.8"), "sectors: low and high are not the ends"),
        (lambda r: r.update(private=False), "private: the noise was drawn from a seeded source"),
        (lambda r: r["tables"].append(r["tables"][0]), "tables: has two tables of one name"),
        (lambda r: r.pop("tables"), ": is not written as a release's record is"),
        (lambda r: r["attributes"]["sex"].update(values=["F"]), ""),
    ],
)
def test_a_record_that_was_made_to_look_right_is_found(
    copy: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    told = rewritten(copy, change)
    if words:
        assert any(line.startswith(words) for line in told), told


def test_a_table_that_was_made_to_look_right_is_found(copy: Path) -> None:
    from eree.release.record import file_digest

    path = copy / "tables" / "sectors.parquet"
    rows = parquet.read_table(path)
    tricks = {
        "employment is not": ("employment", rows["noisy"].to_numpy() + 1),
        "low and high are not": ("low", rows["low"].to_numpy() + 1),
        "has cells without workplaces": ("workplaces", rows["workplaces"].to_numpy() * 0),
    }
    for words, (name, values) in tricks.items():
        place = rows.column_names.index(name)
        parquet.write_table(rows.set_column(place, rows.field(name), pa.array(values)), path)

        def renewed(record: dict[str, Any]) -> None:
            record["tables"][0]["files"]["tables/sectors.parquet"] = file_digest(path)

        told = rewritten(copy, renewed)
        assert any(words in line for line in told), told
        assert any("differs from its CSV twin" in line for line in told)


def test_another_ledger_is_found(released: Path, tmp_path: Path, ledger: eree.Ledger) -> None:
    found = eree.verify(eree.Release.open(released / "out"), ledger=ledger)
    assert [fault.column for fault in found.faults] == ["ledger"]


def test_a_signed_release_names_its_key(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    keys = []
    for name in ("ours.pem", "theirs.pem"):
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / name).write_bytes(pem)
        keys.append(tmp_path / name)
    signer = eree.Signer.read(keys[0])
    assert "key" not in repr(signer).lower().replace("signer", "")
    release = eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "o", signer=signer)
    assert eree.verify(release, public_key=eree.public_key_of(keys[0])).sound
    other = eree.verify(release, public_key=eree.public_key_of(keys[1]))
    assert [f.rule for f in other.faults] == ["was not made with the key that was given"]
    record = json.loads((tmp_path / "o" / RECORD).read_text(encoding="utf-8"))
    record["signature"]["value"] = "AAAA" + record["signature"]["value"][4:]
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "o" / RECORD).write_text(text, encoding="utf-8")
    assert not eree.verify(eree.Release.open(tmp_path / "o")).sound
    (tmp_path / "bad.pem").write_text("no key")
    for read in (eree.Signer.read, eree.public_key_of):
        with pytest.raises(eree.Refusal, match="holds no Ed25519"):
            read(tmp_path / "bad.pem")


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"format": 4}', "\x00", '{"format": 5}', "[" * 9_000]
)
def test_a_folder_that_is_no_release_is_refused_or_faulty(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / RECORD).write_text(content, encoding="utf-8")
    if content == '{"format": 5}':
        assert not eree.verify(eree.Release.open(tmp_path)).sound
        return
    with pytest.raises(eree.Unreadable):
        eree.Release.open(tmp_path)


# ------------------------------------------------------------------------ other mechanisms


@pytest.mark.parametrize(
    ("changes", "mechanism"),
    [
        ({"table": [table(by=["sector"], mechanism="linlog")]}, "linlog"),
        ({"table": [table(by=["sector"], mechanism="log-laplace-tight")]}, "log-laplace-tight"),
        (
            {
                "privacy": privacy(delta="1/1000"),
                "table": [table(by=["sector"], mechanism="smooth-laplace-exact", delta="1/1000")],
            },
            "smooth-laplace-exact",
        ),
        (
            {
                "privacy": privacy(neighbours="node", alpha=None),
                "table": [
                    table(
                        by=["sector", "sex"],
                        parameters={"theta": 20},
                        mechanism="truncated-laplace",
                    )
                ],
            },
            "truncated-laplace",
        ),
        (
            {
                "privacy": privacy(neighbours="edge", alpha=None),
                "table": [table(by=["sex", "sector"])],
            },
            "edge-geometric",
        ),
        ({"table": [table(by=["sex", "sector"], mechanism="radial", epsilon="4")]}, "radial"),
        (
            {
                "privacy": privacy(neighbours="weak", types=["sex"]),
                "table": [table(by=["sector", "sex"], mechanism="smooth-pareto", epsilon="4")],
            },
            "smooth-pareto",
        ),
        ({"table": [table(by=[], epsilon="2")]}, "leaning-staircase"),
    ],
)
def test_every_kind_of_table_can_be_released_and_verified(
    data: Path, tables: eree.Tables, tmp_path: Path, changes: dict[str, Any], mechanism: str
) -> None:
    made = plan(data, **changes)
    ledger = eree.Ledger.create(
        tmp_path / "l.db", eree.Guarantee(made.total.neighbours, 9, "1/10"), data_set="data"
    )
    release = eree.publish(made, tables, ledger=ledger, out=tmp_path / "out")
    assert release.about("t")["mechanism"] == mechanism
    found = eree.verify(release, ledger=ledger)
    assert found.sound, found.faults
    by = release.about("t")["by"]
    assert release.table("t").column_names[: len(by)] == by


def test_groups_are_never_cut_apart() -> None:
    rows, marginal = pa.table({"n": list(range(24))}), eree.Marginal((), {})
    for cuts in ([24], [1, 23], [5, 5, 14], [23, 1], [8, 8, 8], [3] * 8):
        parts, start = [], 0
        for size in cuts:
            parts.append(eree.Cells(marginal, rows.slice(start, size)))
            start += size
        found = list(regrouped(parts, 6))
        assert all(len(cells) % 6 == 0 for cells in found)
        kept = [n for cells in found for n in cells.confidential["n"].to_pylist()]
        assert kept == list(range(24))


def test_a_release_is_readable_by_all_and_its_making_by_nobody(
    data: Path, tables: eree.Tables, tmp_path: Path, ledger: eree.Ledger, monkeypatch: Any
) -> None:
    seen: list[int] = []

    def watched(*given: Any, **named: Any) -> Any:
        partial = next(path for path in tmp_path.iterdir() if ".partial-" in path.name)
        seen.append(stat.S_IMODE(partial.stat().st_mode))
        return counting.stream(*given, **named)

    monkeypatch.setattr(publishing, "stream", watched)
    old = os.umask(0o022)
    try:
        eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "out")
    finally:
        os.umask(old)
    assert seen == [0o700, 0o700]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


def test_a_ledger_that_was_restored_from_an_old_copy_is_found_by_its_releases(
    data: Path, tables: eree.Tables, tmp_path: Path
) -> None:
    from test_cli import run

    where = tmp_path / "ledger.db"
    ledger = eree.Ledger.create(where, TOTAL, data_set="data")
    eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "first")
    old = where.read_bytes()
    eree.publish(plan(data), tables, ledger=ledger, out=tmp_path / "second")
    both = ("--against", tmp_path / "first", "--against", tmp_path / "second")
    assert run("ledger", "verify", where, *both).status == 0
    for extra in tmp_path.glob("ledger.db*"):
        extra.unlink()
    where.write_bytes(old)
    assert run("ledger", "verify", where).status == 0  # in itself it is sound
    done = run("ledger", "verify", where, *both)
    assert done.status == 1
    assert "entries were lost, an older copy took the ledger's place, or" in done.out
    seeded = eree.publish(
        plan(data), tables, ledger=None, out=tmp_path / "free", random=eree.SeededRandom(1)
    )
    with pytest.raises(eree.Refusal, match="was paid from no ledger"):
        _ = seeded.reservation
