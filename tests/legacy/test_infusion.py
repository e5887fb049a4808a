"""Input noise infusion: the ramp, factors that stay, zeros and small counts, on every engine."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

import eree
import eree_study
from eree_study.legacy.infusion import NO_GUARANTEE, RAMP, WIDE, Ramp, factors, protect_small
from oracle import WORKER_ATTRIBUTES, Database, count_cells, databases, requests
from selection import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
RAMPS = pytest.mark.parametrize("ramp", [RAMP, WIDE, Ramp("1/100", "0.9")], ids=str)


# ------------------------------------------------------------------------------------ the ramp


@RAMPS
def test_the_density_of_a_ramp_is_one_and_its_mean_is_one(ramp: Ramp) -> None:
    inner, outer = float(ramp.inner), float(ramp.outer)
    ends = [1 - outer, 1 - inner, 1 + inner, 1 + outer]

    def integral(power: int) -> float:
        def value(x: float) -> float:
            return float(ramp.density(np.array(x))) * x**power

        return sum(quad(value, a, b)[0] for a, b in ((ends[0], ends[1]), (ends[2], ends[3])))

    assert integral(0) == pytest.approx(1)
    assert integral(1) == pytest.approx(1)
    assert integral(2) - 1 == pytest.approx(ramp.variance)
    outside = np.array([0.0, ends[0] - 1e-9, ends[1] + 1e-9, 1.0, ends[2] - 1e-9, ends[3] + 1e-9])
    assert (ramp.density(outside) == 0).all()


@RAMPS
def test_a_quantile_undoes_the_integral_of_the_density(ramp: Ramp) -> None:
    u = np.linspace(0.001, 0.999, 201)
    x = ramp.quantile(u)
    slope = (ramp.quantile(u + 1e-7) - ramp.quantile(u - 1e-7)) / 2e-7
    away = np.abs(u - 0.5) > 1e-3  # at one half it jumps over the gap
    np.testing.assert_allclose(slope[away] * ramp.density(x)[away], 1, rtol=1e-3)
    assert ramp.quantile(np.array([0.0, 1.0])) == pytest.approx(
        [1 - float(ramp.outer), 1 + float(ramp.outer)]
    )


def cdf(ramp: Ramp) -> Any:
    """The probability of at most x, from the areas of triangles."""
    inner, outer = float(ramp.inner), float(ramp.outer)

    def below(x: np.ndarray) -> np.ndarray:
        side = (outer - np.clip(np.abs(x - 1), inner, outer)) ** 2 / (outer - inner) ** 2 / 2
        return np.where(x < 1, side, 1 - side)

    return below


@RAMPS
def test_factors_follow_the_ramp_and_no_other(ramp: Ramp) -> None:
    """A sound ramp is rejected with probability 1e-6, had the keys been drawn."""
    drawn = factors(KEY, range(60_000), ramp)
    assert kstest(drawn, cdf(ramp)).pvalue > 1e-6
    for stretch in (Fraction(9, 10), Fraction(11, 10)):
        width = stretch * (ramp.outer - ramp.inner)
        assert kstest(drawn, cdf(Ramp(ramp.inner, min(ramp.inner + width, 1)))).pvalue < 1e-6 or (
            ramp.inner + width >= 1
        )


def test_a_ramp_is_exact_and_checked() -> None:
    assert Ramp("0.05", "0.15") == RAMP == Ramp(Fraction(1, 20), Fraction(3, 20))
    for inner, outer in (("0", "0.1"), ("0.1", "0.1"), ("0.2", "0.1"), ("0.1", "1")):
        with pytest.raises(eree.Refusal, match="a ramp needs"):
            Ramp(inner, outer)


# ------------------------------------------------------------------------------------- factors


def test_a_factor_hangs_on_key_and_workplace_alone() -> None:
    ids = list(range(1000))
    found = factors(KEY, ids)
    assert (found[::-1] == factors(KEY, ids[::-1])).all()
    assert (found == factors(KEY, map(str, ids))).all()
    assert (found[7:8] == factors(KEY, [7])).all()
    assert len(set(found)) == len(ids)
    assert (np.abs(found - 1) >= 0.05 - 2**-32).all()


def test_without_the_key_a_factor_says_nothing() -> None:
    """Under another key, and for the next workplace, factors are apart (probability 1e-6)."""
    n = 20_000
    found, others = factors(KEY, range(n + 1)), factors(OTHER, range(n + 1))
    for pair in ((found, others), (found[1:], found[:-1])):
        assert abs(np.corrcoef(*pair)[0, 1]) * np.sqrt(n) < 5


@pytest.mark.parametrize("key", [b"", b"short", bytes(65), "x" * 32])
def test_a_key_that_could_be_guessed_is_refused(key: Any) -> None:
    with pytest.raises(eree.Refusal, match="16 to 64 bytes"):
        factors(key, [1])


# -------------------------------------------------------------------------------- small counts


def test_zeros_stay_small_counts_become_one_or_two_and_the_rest_is_infused() -> None:
    true = np.repeat(np.arange(6), 101)
    u = np.tile(np.linspace(0, 0.999999, 101), 6)
    infused = 0.9 * true
    found = protect_small(true, infused, u)
    assert (found[true == 0] == 0).all()
    assert set(found[(true > 0) & (true < 3)]) == {1.0, 2.0}
    assert (found[true >= 3] == infused[true >= 3]).all()


def test_small_counts_are_drawn_from_the_stated_posterior() -> None:
    u = (np.arange(10**5) + 0.5) / 10**5
    for n, ones in ((1, 8 / 13), (2, 8 / 15)):
        found = protect_small(np.full(len(u), n), np.zeros(len(u)), u)
        assert (found == 1).mean() == pytest.approx(ones, abs=2e-5)

        def seen(mean: float, k: int, n: int = n) -> float:
            prior = mean**-0.5
            return float(prior * np.exp(-2 * mean) * mean ** (n + k))

        weights = [quad(seen, 0, np.inf, args=(k,))[0] / k for k in (1, 2)]  # k! = k up to 2
        assert weights[0] / sum(weights) == pytest.approx(ones)


# ------------------------------------------------------------------------------------- engines


def expected(database: Database, by: list[str], where: dict[str, list[Any]]) -> list[Any]:
    """What a table shows of each cell: an infused sum, or that it is small; by brute force."""
    own = {w["id"]: f for w, f in zip(database.workplaces, _own(database), strict=True)}
    shown = []
    for cell in count_cells(database, by, where):
        cells = 0.0
        for workplace in database.workplaces:
            alone = Database(
                [workplace],
                database.workers,
                [job for job in database.jobs if job[1] == workplace["id"]],
            )
            cells += own[workplace["id"]] * sum(
                found["count"]
                for found in count_cells(alone, by, where)
                if all(found[a] == cell[a] for a in by)
            )
        shown.append("small" if 0 < cell["count"] < 3 else cells)
    return shown


def _own(database: Database) -> Any:
    return factors(KEY, [w["id"] for w in database.workplaces])


def agree(database: Database, wanted: list[dict[str, Any]], engine: object, style: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data", style))
        for request in wanted:
            by, where = request["by"], request["where"]
            cells = count_cells(database, by, where)
            exact = eree_study.infuse(tables, by, where, key=KEY, rounded=False, engine=engine).rows
            whole = eree_study.infuse(tables, by, where, key=KEY, engine=engine).rows
            keys = [{a: cell[a] for a in by} | {"workplaces": cell["workplaces"]} for cell in cells]
            assert exact.select([*by, "workplaces"]).to_pylist() == keys
            for came, shown, should in zip(
                exact["employment"].to_pylist(),
                whole["employment"].to_pylist(),
                expected(database, by, where),
                strict=True,
            ):
                assert came in (1, 2) if should == "small" else came == should
                assert shown == round(came)


@examples(10, torture=250)
@given(st.data(), st.sampled_from(["parquet", "csv"]), st.booleans())
def test_duckdb_infuses_what_brute_force_infuses(
    data: st.DataObject, style: str, primary: bool
) -> None:
    database = data.draw(databases(primary=primary))
    agree(database, data.draw(st.lists(requests(database), min_size=1, max_size=2)), None, style)


@examples(1, torture=40)
@given(data=st.data(), style=st.sampled_from(["parquet", "csv"]))
def test_spark_infuses_what_brute_force_infuses(
    spark: SparkSession, data: st.DataObject, style: str
) -> None:
    database = data.draw(databases())
    agree(database, data.draw(st.lists(requests(database), min_size=1, max_size=1)), spark, style)


@examples(5, torture=100)
@given(st.data())
def test_a_cell_that_is_asked_for_again_gets_the_same_answer(data: st.DataObject) -> None:
    """As a cell of a table, as a filtered total, and in a later year with one more workplace."""
    database = data.draw(databases())
    name = data.draw(st.sampled_from(["sector", *WORKER_ATTRIBUTES]))
    later = Database(
        [*database.workplaces, {"id": 5 if isinstance(database.workplaces[0]["id"], int) else "z"}
         | {"area": "a", "sector": "11", "band": 7}],
        database.workers,
        database.jobs,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        tables = eree.load(database.write(Path(folder) / "data"))
        found = eree_study.infuse(tables, [name], key=KEY).rows.to_pylist()
        for row in found:
            [alone] = eree_study.infuse(tables, [], {name: [row[name]]}, key=KEY).rows.to_pylist()
            assert alone["employment"] == row["employment"]
        if len({w["id"] for w in later.workplaces}) == len(later.workplaces):
            again = eree.load(later.write(Path(folder) / "later"))
            rows = eree_study.infuse(again, [name], key=KEY).rows.to_pylist()
            now = {row[name]: row["employment"] for row in rows}
            assert all(now[row[name]] == row["employment"] for row in found)


# --------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("made") / "data", jobs=2_000)


def test_a_key_is_secret_and_is_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key.txt"
    key = eree_study.new_key(file)
    assert eree_study.read_key(file) == key
    assert len(key) == 32
    assert key != eree_study.new_key(tmp_path / "other.txt")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(eree.Refusal, match="never replaced"):
        eree_study.new_key(file)
    file.write_text("no key", encoding="ascii")
    with pytest.raises(eree.Unreadable, match="64 hexadecimal digits"):
        eree_study.read_key(file)
    with pytest.raises(eree.Unreadable, match="--new-key"):
        eree_study.read_key(tmp_path / "none.txt")


def test_a_file_says_in_every_row_that_nothing_is_guaranteed(data: Path, tmp_path: Path) -> None:
    tables = eree.load(data)
    marginal = eree.Marginal.over(tables.schema, ["sector", "sex"])
    for suffix, read in ((".parquet", parquet.read_table), (".csv", arrow_csv.read_csv)):
        out = tmp_path / f"infused{suffix}"
        cells = eree_study.write_infused(tables, marginal, out, key=KEY)
        rows = read(out)
        assert len(rows) == cells == len(eree_study.infuse(tables, marginal.by, key=KEY))
        assert set(rows["guarantee"].to_pylist()) == {NO_GUARANTEE}
    assert parquet.read_schema(tmp_path / "infused.parquet").metadata[b"eree.guarantee"] == (
        NO_GUARANTEE.encode()
    )
    assert "no formal guarantee" in repr(eree_study.infuse(tables, ["sector"], key=KEY))


def run(*words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "eree", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_makes_a_key_once_and_uses_it_again(data: Path, tmp_path: Path) -> None:
    key, first, second = (str(tmp_path / name) for name in ("key", "a.csv", "b.csv"))
    asked = ("infuse", str(data), "--by", "sector,sex", "--key", key)
    status, _, words = run(*asked, "--out", first)
    assert (status, "make one with --new-key" in words) == (2, True)
    status, said, _ = run(*asked, "--new-key", "--out", first)
    assert (status, "no formal guarantee" in said) == (0, True)
    status, _, words = run(*asked, "--new-key", "--out", second)
    assert (status, "leave out --new-key" in words) == (2, True)
    status, said, _ = run(*asked, "--out", second, "--json")
    assert (status, json.loads(said)["guarantee"]) == (0, None)
    assert Path(first).read_bytes() == Path(second).read_bytes()
