"""What is learnt of the noise of a release is kept for every command, and for its files alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import eree
import eree_study
from eree.errors import Refusal
from eree.estimate import calibrated
from eree.mechanisms import registry

PLAN: dict[str, Any] = {
    "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "6"},
    "table": [
        {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
        {"name": "people", "by": ["place", "sector", "sex"], "epsilon": "4"},
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two releases of the same data, with noise of their own."""
    folder = tmp_path_factory.mktemp("learnt")
    tables = eree.load(eree_study.synthesize(folder / "data", jobs=20_000))
    plan, found = eree.Plan.of(PLAN | {"data": str(tables.folder)}), []
    total = eree.Guarantee(eree.Strong("0.1"), 12)
    ledger = eree.Ledger.create(folder / "ledger.db", total, data_set="data")
    for name in ("one", "two"):
        found.append(folder / name)
        eree.publish(plan, tables, ledger=ledger, out=found[-1])
    return found


@pytest.fixture
def release(made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(made[0], tmp_path / "release"))


def as_new() -> None:
    """As in another process."""
    for known in (calibrated._calibrated, calibrated._sizes, calibrated._table):
        known.cache_clear()


def learning(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that are learnt of from now on."""
    found: list[str] = []
    real = calibrated._made

    def counted(key: calibrated.ReleaseKey, name: str) -> Any:
        found.append(name)
        return real(key, name)

    monkeypatch.setattr(calibrated, "_made", counted)
    as_new()
    return found


def told(release: Path) -> list[Any]:
    """What commands make of a release."""
    rankings = [
        eree.rank(release, name, by="place").rows.to_pylist() for name in ("jobs", "people")
    ]
    sums = eree.area_totals(release, "people", ["sector", "sex"]).rows.to_pylist()
    written = eree.write_estimates(release)
    rows = [written.table(name).to_pylist() for name in ("jobs", "people")]
    shutil.rmtree(written.folder)
    return [rankings, sums, rows]


def test_what_one_command_learns_every_later_one_knows_and_says_the_same(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EREE_CACHE", "")
    as_new()
    without = told(release)
    monkeypatch.setenv("EREE_CACHE", str(release.parent / "cache"))
    learnt = learning(monkeypatch)
    assert told(release) == without and sorted(learnt) == ["jobs", "people"]
    moved = shutil.move(release, release.parent / "moved")
    learnt = learning(monkeypatch)
    assert told(Path(moved)) == without and not learnt


def test_who_verifies_estimates_believes_nothing_that_was_kept(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eree.write_estimates(release)
    learnt = learning(monkeypatch)
    assert eree.verify(release) and sorted(learnt) == ["jobs", "people"]


@pytest.mark.parametrize("changed", ["tables/jobs.parquet", "areas/place.parquet"])
def test_other_files_are_learnt_of_once_more(
    release: Path, made: list[Path], changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eree.rank(release, "jobs", by="place")
    file = release / changed
    if changed.startswith("tables"):  # of the same kind, from another draw
        shutil.copy(made[1] / changed, file)
    else:
        parquet.write_table(parquet.read_table(file), file, compression="gzip")
    learnt = learning(monkeypatch)
    eree.rank(release, "jobs", by="place")
    assert learnt


def test_public_sizes_are_part_of_what_is_learnt_from(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = eree.rank(release, "jobs", by="place").rows
    sizes = release.parent / "sizes.csv"
    sizes.write_text("from,to,workplaces\n1,9,900\n10,99,80\n100,999,10\n")
    learnt = learning(monkeypatch)
    eree.write_estimates(release, sizes)
    assert "jobs" in learnt
    learnt = learning(monkeypatch)
    second = eree.rank(release, "jobs", by="place").rows
    assert not learnt and not first.equals(second)


def test_nothing_is_kept_of_a_release_that_changes_while_it_is_read(
    release: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = calibrated._made

    def meanwhile(key: calibrated.ReleaseKey, name: str) -> Any:
        found = real(key, name)
        shutil.copy(made[1] / "tables/jobs.parquet", release / "tables/jobs.parquet")
        return found

    as_new()
    monkeypatch.setattr(calibrated, "_made", meanwhile)
    with pytest.raises(Refusal, match="changed while it was read"):
        eree.rank(release, "jobs", by="place")
    monkeypatch.setattr(calibrated, "_made", real)
    shutil.copy(made[0] / "tables/jobs.parquet", release / "tables/jobs.parquet")
    learnt = learning(monkeypatch)
    eree.rank(release, "jobs", by="place")
    assert learnt


def test_nothing_is_kept_of_a_mechanism_whose_source_no_digest_knows(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {eree.Release.open(release).about(name)["mechanism"] for name in ("jobs", "people")}
    monkeypatch.setattr(calibrated, "own_mechanisms", lambda: (min(used),))
    assert registry.own_mechanisms() == ()
    learnt = learning(monkeypatch)
    for _ in range(2):
        eree.rank(release, "jobs", by="place")
        as_new()
    assert learnt == ["jobs", "jobs"]
