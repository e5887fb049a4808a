"""Estimates beside the tables: what they hold, that anyone makes them again, and tampering."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

import eree
from eree.cli.exit_status import cli
from eree.estimate.calibrated import calibrated_table, sizes_from
from eree.estimate.evidence import Fit
from eree.release.record import file_digest

TABLES = [
    {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
    {"name": "people", "by": ["place", "sex", "education"], "epsilon": "4"},
    {"name": "women", "by": ["place"], "where": {"sex": ["F"]}, "epsilon": "1"},
    {"name": "sizes", "by": ["sector"], "count": "workplaces", "epsilon": "0.04"},
]


@pytest.fixture(scope="module")
def made(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that was paid for, with its estimates."""
    home = tmp_path_factory.mktemp("estimates")
    plan = eree.Plan.of(
        {
            "data": str(population.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "8"},
            "table": TABLES,
        }
    )
    ledger = eree.Ledger.create(home / "ledger.db", plan.total, data_set="data")
    release = eree.publish(plan, population, ledger=ledger, out=home / "out")
    eree.write_estimates(release)
    return home / "out"


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_every_cell_has_an_estimate_and_two_intervals(made: Path) -> None:
    release = eree.Release.open(made)
    for name in ("jobs", "people", "women"):
        rows = parquet.read_table(made / "estimates" / f"{name}.parquet")
        by = list(release.about(name)["by"])
        released = release.table(name).sort_by([(key, "ascending") for key in by])
        assert rows.column_names == [
            *(*by, "noisy", "estimate", "biased_count", "low", "high"),
            *("guaranteed_low", "guaranteed_high"),
        ]
        for key in (*by, "noisy"):
            assert rows[key].equals(released[key])
        low, high = rows["low"].to_numpy(), rows["high"].to_numpy()
        assert rows["high"].null_count == 0
        assert ((low >= 0) & (low <= high)).all()
        assert arrow_csv.read_csv(made / "estimates" / f"{name}.csv").num_rows == rows.num_rows
    assert {path.name for path in (made / "estimates").iterdir()} == {
        *(f"{name}.{end}" for name in ("jobs", "people", "women") for end in ("csv", "parquet")),
        "estimates.json",
    }


def test_sizes_are_those_of_the_profile_where_there_is_one(
    made: Path, release: eree.Release
) -> None:
    assert sizes_from(eree.Release.open(made), "jobs") == "sizes"
    assert sizes_from(release, "places") == "places"


def test_whoever_verifies_makes_them_again(made: Path) -> None:
    found = eree.verify(eree.Release.open(made))
    assert found.sound, found.faults
    assert "the estimates are what the release gives, made again" in found.checks


def _changed(table: str, column: str, by: float) -> Callable[[Path], None]:
    """One number of a table off, with twins and digests to match."""

    def change(folder: Path) -> None:
        path = folder / f"{table}.parquet"
        rows = parquet.read_table(path)
        numbers = rows[column].to_numpy().copy()
        numbers[3] += by
        place = rows.column_names.index(column)
        rows = rows.set_column(place, column, pa.array(numbers))
        parquet.write_table(rows, path, compression="zstd")
        arrow_csv.write_csv(rows, folder / f"{table}.csv")
        index = json.loads((folder / "estimates.json").read_text())
        for one in index["tables"]:
            one["files"] = {name: file_digest(folder / name) for name in one["files"]}
        (folder / "estimates.json").write_text(json.dumps(index))

    return change


def _text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_changed("jobs", "low", -40), "is not what the release gives, made again"),
        (_changed("people", "high", 400), "is not what the release gives, made again"),
        (_changed("jobs", "estimate", 30.0), "is not what the release gives, made again"),
        (_changed("jobs", "noisy", 1), "is not what the release gives, made again"),
        (_changed("women", "guaranteed_low", 1), "is not what the release gives, made again"),
        (_text("jobs.csv", '"place"', '"spot"'), "was changed: its SHA-256"),
        (lambda folder: (folder / "jobs.csv").unlink(), "is missing"),
        (lambda folder: (folder / "more.csv").touch(), "is no part of the estimates"),
        (lambda folder: (folder / "estimates.json").unlink(), "is missing, or is not written"),
        (lambda folder: (folder / "estimates.json").write_text("[]"), "or is not written as"),
        (_text("estimates.json", '"name": "women"', '"name": "men"'), "does not name the tables"),
        (_text("estimates.json", '"digest": "', '"digest": "0'), "is of another release"),
    ],
)
def test_changed_estimates_are_found(copy: Path, change: Callable[[Path], None], rule: str) -> None:
    change(copy / "estimates")
    found = eree.verify(eree.Release.open(copy))
    assert not found.sound
    assert any(rule in str(fault) for fault in found.faults), found.faults


def test_a_release_without_estimates_or_with_half_made_ones_is_sound(copy: Path) -> None:
    shutil.rmtree(copy / "estimates")
    (copy / ".estimates.partial-0123456789abcdef").mkdir()
    assert eree.verify(eree.Release.open(copy)).sound


def test_the_command_writes_them_once(copy: Path) -> None:
    run = CliRunner()
    again = run.invoke(cli, ["estimate", str(copy)])
    assert isinstance(again.exception, eree.Refusal)
    assert "exists already" in str(again.exception)
    shutil.rmtree(copy / "estimates")
    done = run.invoke(cli, ["estimate", str(copy), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["tables"] == ["jobs", "people", "women"]
    assert eree.verify(eree.Release.open(copy)).sound


def test_no_worker_cell_is_told_more_than_its_workplaces_hold(made: Path) -> None:
    release = eree.Release.open(made)
    jobs = eree.area_totals(release, "jobs", ["place"], level="0.99").rows.to_pylist()
    most = {row["place"]: row["guaranteed_high"] for row in jobs}
    for table, by in (("people", ["place", "sex"]), ("women", ["place"])):
        rows = eree.area_totals(release, table, by, level="0.9").rows.to_pylist()
        assert all(row["guaranteed_high"] <= most[row["place"]] for row in rows)
    total = eree.area_totals(release, "people", ["sex"], level="0.9").rows.to_pylist()
    everyone = eree.area_totals(release, "jobs", [], level="0.99").rows.to_pylist()[0]
    assert all(row["guaranteed_high"] <= everyone["guaranteed_high"] for row in total)


def test_a_filtered_table_has_the_sizes_of_its_workplaces(
    made: Path, population: eree.Tables
) -> None:
    """Behind a worker filter nothing of the table itself bounds its noise."""
    rows = eree.area_totals(eree.Release.open(made), "women", ["place"]).rows
    exact = eree.tabulate(population, by=["place"], where={"sex": ["F"]}).confidential
    true = dict(zip(exact["place"].to_pylist(), exact["count"].to_pylist(), strict=True))
    width = rows["high"].to_numpy() - rows["low"].to_numpy()
    counts = np.array([true[place] for place in rows["place"].to_pylist()])
    assert width.sum() < 0.6 * counts.sum()


# -------------------------------------------------------------- sizes that the office gives

GIVEN = "from,to,workplaces,jobs\n1,4,600,1300\n5,19,300,2900\n20,99,90,3600\n100,,10,2500\n"


def test_intervals_go_by_public_sizes_that_were_given(copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(copy / "estimates")
    by_profile = eree.area_totals(eree.Release.open(copy), "people", ["place"]).rows
    (tmp_path / "sizes.csv").write_text(GIVEN.replace("100,,10,2500", "10000,,10,250000"))
    run = CliRunner()
    done = run.invoke(cli, ["estimate", str(copy), "--sizes", str(tmp_path / "sizes.csv")])
    assert done.exit_code == 0, done.output
    release = eree.Release.open(copy)
    assert sizes_from(release, "people") == "_sizes.csv"
    assert (copy / "estimates" / "_sizes.csv").read_bytes() == (tmp_path / "sizes.csv").read_bytes()
    rows = eree.area_totals(release, "people", ["place"]).rows
    for name in ("noisy", "guaranteed_low", "guaranteed_high"):
        assert rows[name].equals(by_profile[name])
    wide, narrow = (t["high"].to_numpy() - t["low"].to_numpy() for t in (rows, by_profile))
    assert (wide != narrow).any()  # ten giants among a thousand workplaces
    assert eree.verify(release).sound


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_text("_sizes.csv", "600", "601"), "was changed: its SHA-256"),
        (lambda folder: (folder / "_sizes.csv").unlink(), "which public sizes"),
        (_text("estimates.json", '"_sizes.csv"', '"jobs"'), "what the sizes are known from"),
        (_text("estimates.json", '"public_sizes"', '"sizes"'), "which public sizes"),
    ],
)
def test_changed_sizes_are_found(
    copy: Path, tmp_path: Path, change: Callable[[Path], None], rule: str
) -> None:
    shutil.rmtree(copy / "estimates")
    (tmp_path / "sizes.csv").write_text(GIVEN)
    eree.write_estimates(eree.Release.open(copy), tmp_path / "sizes.csv")
    change(copy / "estimates")
    found = eree.verify(eree.Release.open(copy))
    assert not found.sound
    assert any(rule in str(fault) for fault in found.faults), found.faults


def test_sizes_that_cannot_be_read_are_refused_and_nothing_is_left(
    copy: Path, tmp_path: Path
) -> None:
    shutil.rmtree(copy / "estimates")
    (tmp_path / "sizes.csv").write_text("from,to\n1,4\n")
    with pytest.raises(eree.Refusal, match="needs the columns"):
        eree.write_estimates(eree.Release.open(copy), tmp_path / "sizes.csv")
    assert not [path for path in copy.iterdir() if "estimates" in path.name]


# --------------------------------------------------------------------- a check of the model


def test_two_tables_of_one_total_show_whether_the_model_fits(
    release: eree.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.estimate.calibrated._LEAST_GROUPS", 5)
    right = Path(shutil.copytree(release.folder, tmp_path / "right"))
    known = calibrated_table(eree.Release.open(right), "sexes")
    assert known is not None
    assert known.fit is not None
    assert 0.3 < known.fit.spread < 1.8
    folder = Path(shutil.copytree(release.folder, tmp_path / "out"))
    path = folder / "tables" / "sexes.parquet"
    rows = parquet.read_table(path)
    more = np.random.default_rng(1).normal(0, 0.5, rows.num_rows) * rows["noisy"].to_numpy()
    noisy = pa.array(rows["noisy"].to_numpy() + np.rint(more).astype(np.int64))
    place = rows.column_names.index("noisy")
    parquet.write_table(rows.set_column(place, rows.schema.field(place), noisy), path)
    wrong = calibrated_table(eree.Release.open(folder), "sexes")
    assert wrong is not None
    assert wrong.fit is not None
    assert wrong.fit.widened == wrong.fit.spread > known.fit.spread + 1
    assert "intervals are widened by" in wrong.fit.words
    each = (known.calibrated.moments, wrong.calibrated.moments)
    first = np.zeros(1, dtype=np.int64)
    narrow, wide = (moments(first, first).variance[0] for moments in each)
    assert wide == pytest.approx(wrong.fit.widened**2 * narrow, rel=0.5)


def test_few_groups_say_nothing_of_the_model(made: Path) -> None:
    known = calibrated_table(eree.Release.open(made), "people")
    assert known is not None
    assert known.fit is None
    assert Fit("jobs", 100, 1.1).widened == 1
    assert Fit("jobs", 10_000, 1.1).widened == 1.1
