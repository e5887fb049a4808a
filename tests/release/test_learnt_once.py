"""What is learnt of the noise of a release is kept for every command, and for its files alone."""

from __future__ import annotations

import os
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
from eree.mechanisms.registry import ours

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
    calibrated.forget_rows()
    for known in (calibrated._calibrated, calibrated._sizes, calibrated._source):
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
def test_of_files_that_are_not_those_of_the_record_nothing_is_kept(
    release: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eree.rank(release, "jobs", by="place")
    file = release / changed  # the same rows in other bytes
    parquet.write_table(parquet.read_table(file), file, compression="gzip")
    for _ in range(2):
        learnt = learning(monkeypatch)
        eree.rank(release, "jobs", by="place")
        assert learnt == ["jobs"]


def test_other_noise_is_learnt_of_once_more(
    release: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = eree.rank(release, "jobs", by="place").rows
    learnt = learning(monkeypatch)
    assert not eree.rank(made[1], "jobs", by="place").rows.equals(first) and learnt == ["jobs"]


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
    as_new()
    whole = eree.rank(made[0], "jobs", by="place").rows
    real, file = calibrated._made, "tables/jobs.parquet"

    def meanwhile(key: calibrated.ReleaseKey, name: str) -> Any:
        shutil.copy(made[1] / file, release / file)
        return real(key, name)

    as_new()
    shutil.rmtree(release.parent / "cache")
    monkeypatch.setattr(calibrated, "_made", meanwhile)
    with pytest.raises(Refusal, match="changed while it was read"):
        eree.rank(release, "jobs", by="place")
    monkeypatch.setattr(calibrated, "_made", real)
    shutil.copy(made[0] / file, release / file)
    for _ in range(2):
        assert eree.rank(release, "jobs", by="place").rows.equals(whole)
        as_new()


def test_a_release_that_stays_open_goes_by_the_files_that_are_there(
    release: Path, made: list[Path]
) -> None:
    as_new()
    opened, file = eree.Release.open(release), "tables/jobs.parquet"
    first = eree.rank(opened, "jobs", by="place").rows
    shutil.copy(made[1] / file, release / file)
    second = eree.rank(opened, "jobs", by="place").rows
    assert opened.content is None and not second.equals(first)
    shutil.copy(made[0] / file, release / file)
    assert eree.rank(opened, "jobs", by="place").rows.equals(first)


@pytest.mark.parametrize("stray", ["fifo", "link"])
def test_what_lies_beside_the_tables_is_not_looked_at(release: Path, stray: str) -> None:
    opened = eree.Release.open(release)
    before = opened.content
    if stray == "fifo":
        os.mkfifo(release / "tables/stray.parquet")
    else:
        (release / "tables/stray.parquet").symlink_to("/dev/zero")
    assert opened.content == before is not None
    (release / "areas/place.parquet").unlink()
    assert opened.content is None


def test_nothing_is_kept_of_a_mechanism_whose_source_no_digest_knows(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = eree.Release.open(release).about("jobs")["mechanism"]
    kind, places = type(eree.mechanism(used, alpha="0.1", epsilon=2)), registry._OURS.places
    assert ours(used) and not ours("none")
    left = {name: place for name, place in places.items() if name != used}
    monkeypatch.setattr(registry, "_OURS", registry.Named(left))
    monkeypatch.setattr(registry, "_OWN", {used: kind})
    learnt = learning(monkeypatch)
    for _ in range(2):
        eree.rank(release, "jobs", by="place")
        as_new()
    assert learnt == ["jobs", "jobs"]
