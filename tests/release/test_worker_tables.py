"""Whole worker marginals in plans: what is chosen, what is paid, what is drawn, what is covered."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from scipy import stats

import eree
from cases import FALSE_ALARM
from eree.cells import Cell
from eree.data.tabulate import stream
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.registry import VECTOR_MECHANISMS
from eree.mechanisms.vector.two_stage import TwoStageClip
from eree.release.contents import SCALED_TO
from eree.release.measure import TableMeasure
from eree.release.price import Measurement, measurement_for
from eree.release.record import RECORD, digest_of, file_digest
from eree.verification import rows as rechecked
from eree.workload import ScaleEach
from offices import privacy, settings, table

GROUP = ["place", "sex", "education"]
TYPES = ["sex", "education"]


def plan(population: eree.Tables, **changes: Any) -> eree.Plan:
    weak = changes.pop("weak", False)
    relation = {"neighbours": "weak", "types": TYPES} if weak else {}
    given = settings(population.folder, privacy=privacy(epsilon="20", **relation))
    wanted = table(**({"by": GROUP, "epsilon": "2"} | changes))
    return eree.Plan.of(given | {"table": [{k: v for k, v in wanted.items() if v is not None}]})


def measurement(population: eree.Tables, **changes: Any) -> Measurement:
    return plan(population, **changes).tables[0].measurement


# --------------------------------------------------------------------- what is chosen and paid


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, "auto: vector-mixture protects all 8 worker cells at once with the least error"),
        (
            {"epsilon": "4", "by": ["place", "sex"]},
            "auto: vector-mixture protects all 2 worker cells at once with the least error",
        ),
        (
            {"epsilon": "6", "by": ["place", "sex"]},
            "auto: vector-pareto protects all 2 worker cells at once with the least error",
        ),
        (
            {"by": ["place", "sex", "education", "age"]},
            "auto: two-stage-clip because vector-mixture needs epsilon of 2.29 or more (above"
            " 24 ln(1 + alpha)) to protect 24 cells; epsilon 2.29 instead of 2 would have 43% of"
            " the error",
        ),
        (
            {"weak": True, "epsilon": "0.9"},
            "auto: knorm-staircase protects all 8 worker cells at once with the least error",
        ),
        ({"mechanism": "vector-pareto"}, "8 worker cells together, paid for once"),
        (
            {"by": ["place", "sex", "education", "age", "race"], "epsilon": "20"},
            "auto: two-stage-clip because vector-mixture protects groups of 1 to 64 cells",
        ),
        (
            {"mechanism": "vector-pareto", "by": ["place"], "where": {"sex": ["F"]}},
            "1 worker cell together, paid for once",
        ),
        (
            {"mechanism": "smooth-pareto", "epsilon": "16"},
            "8 worker cells one by one, at 2 each",
        ),
        (
            {"by": ["place"], "where": {"sex": ["F"]}},
            "auto: leaning-staircase has the least error at this alpha and epsilon",
        ),
    ],
)
def test_auto_says_what_it_chose_and_why(
    population: eree.Tables, changes: dict[str, Any], note: str
) -> None:
    assert measurement(population, **changes).note == note


@pytest.mark.parametrize("name", VECTOR_MECHANISMS)
def test_a_whole_marginal_is_paid_for_once(population: eree.Tables, name: str) -> None:
    made = plan(population, mechanism=name, weak=name.startswith("knorm"))
    assert made.price().epsilon == 2
    hidden = made.tables[0].measurement
    assert hidden.mechanism.guarantee == made.price()
    assert hidden.worker_cells == 8
    assert hidden.mechanism.certify().holds


@pytest.mark.parametrize("epsilon", ["0.2", "0.29", "0.48", "1", "2"])
def test_a_first_stage_takes_the_share_that_leaves_the_least_error(
    population: eree.Tables, epsilon: str
) -> None:
    by = ["place", "sex", "education", "age"]
    chosen = measurement(population, by=by, epsilon=epsilon)

    def error(one: Measurement) -> float:
        return one.mechanism.total_error(Cell(100 // 24, 100))

    for share in ("1/5", "1/3", "1/2", "3/5"):
        try:
            other = measurement(
                population,
                by=by,
                epsilon=epsilon,
                mechanism="two-stage-clip",
                parameters={"share": share},
            )
        except eree.Faulty:
            continue
        assert error(chosen) <= error(other)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"by": ["place"], "mechanism": "vector-radial"},
            "vector-radial protects the worker cells of a workplace cell together, and this table"
            " has no worker attribute; use auto, or a mechanism for single cells",
        ),
        (
            {"mechanism": "vector-radial", "parameters": {"cells": 3}},
            "the number of cells follows from the table; leave it out of parameters",
        ),
        ({"parameters": {"share": "1/5"}}, "auto takes no parameters; name a mechanism that does"),
        (
            {"mechanism": "vector-radial", "epsilon": "0.5"},
            "vector-radial needs epsilon of 0.7633 or more (above 8 ln(1 + alpha)) to protect 8"
            " cells",
        ),
        (
            {"mechanism": "vector-pareto", "parameters": {"theta": 3}},
            "vector-pareto has no parameter 'theta'; it takes only cells",
        ),
        (
            {"mechanism": "two-stage-clip", "parameters": {"share": "2"}},
            "share must be above 0 and below 1, such as '1/5'",
        ),
        ({"mechanism": "knorm-staircase"}, "knorm-staircase is for weak neighbours"),
        (
            {"mechanism": "vector-radial", "delta": "1/1000"},
            "vector-radial protects worker cells without a delta; leave delta out",
        ),
        (
            {"by": ["place"], "delta": "1/1000"},
            "auto chooses among mechanisms without a delta; leave delta out, or name one",
        ),
        (
            {"epsilon": "0.1"},
            "two-stage-clip needs epsilon of 0.1589 or more for a bound of finite mean",
        ),
    ],
)
def test_what_has_no_guarantee_is_refused(
    population: eree.Tables, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(eree.Faulty) as refused:
        plan(population, **changes)
    [fault] = refused.value.faults
    assert fault.rule.startswith(words)


def test_vector_mechanisms_need_neighbours_with_an_alpha(population: eree.Tables) -> None:
    given = settings(population.folder, privacy=privacy(neighbours="edge", alpha=None))
    with pytest.raises(eree.Faulty, match="vector-radial needs strong or weak neighbours"):
        eree.Plan.of(given | {"table": [table(by=GROUP, mechanism="vector-radial")]})


def test_a_target_is_met_by_a_vector_mechanism_too(population: eree.Tables) -> None:
    target = {"cells": "0.9", "jobs": 100, "within": "0.1"}
    made = measurement(population, epsilon=None, target=target)
    assert made.mechanism.total_quantile(0.9, Cell(100)) <= 10
    less = eree.Guarantee(eree.Strong("0.1"), made.price.epsilon - Fraction(1, 1000))
    schema, marginal = population.schema, eree.Marginal.over(population.schema, GROUP)
    cheaper = measurement_for(schema, marginal, less, "auto", {}).mechanism
    assert cheaper.total_quantile(0.9, Cell(100)) > 10


# ------------------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize("name", VECTOR_MECHANISMS)
def test_what_is_published_is_what_the_mechanism_draws(
    population: eree.Tables, tmp_path: Path, name: str
) -> None:
    """The same random, by hand: groups in order, and the largest total of each."""
    by = ["sex", "place", "education"]  # worker attributes need not come last
    made = plan(population, by=by, mechanism=name, weak=name.startswith("knorm"))
    random = eree.SeededRandom(7)
    release = eree.publish(made, population, ledger=None, out=tmp_path / "out", random=random)
    rows = release.table("t")
    exact = eree.tabulate(population, by=["place", "sex", "education"]).confidential
    for key in by:
        assert rows[key].to_pylist() == exact[key].to_pylist()
    chosen: Any = made.tables[0].measurement.mechanism
    random, largests = eree.SeededRandom(7), exact["largest_total"].to_numpy()[::8]
    if isinstance(chosen, TwoStageClip):
        totals = chosen.bounds(largests, random=random)
        assert (rows[SCALED_TO].to_numpy() == np.repeat(totals, 8)).all()
        places = exact["place"].take(np.arange(0, len(exact), 8))
        bound = ScaleEach(pa.table({"place": places, "_total": totals}))
        scaled = eree.tabulate(population, by=GROUP, bound=bound).confidential["count"]
        counts = np.array([int(1000 * count) for count in scaled.to_pylist()]).reshape(-1, 8)
        drawn = chosen.draw(counts, totals, random=random)
        assert (counts.sum(1) < 1000 * exact["count"].to_numpy().reshape(-1, 8).sum(1)).any()
    else:
        counts = exact["count"].to_numpy().reshape(-1, 8)
        of_groups = (largests,) if "largest_total" in chosen.statistics() else ()
        drawn = chosen.draw(counts, *of_groups, random=random)
    assert rows["noisy"].to_pylist() == drawn.ravel().tolist()


def test_a_table_without_a_workplace_has_no_bounds_and_no_rows(
    population: eree.Tables, tmp_path: Path
) -> None:
    made = plan(population, mechanism="two-stage-clip", where={"place": ["nowhere"]})
    release = eree.publish(
        made, population, ledger=None, out=tmp_path / "out", random=eree.SeededRandom(7)
    )
    assert release.table("t").num_rows == 0


def test_a_total_by_worker_attributes_alone_is_one_group(
    population: eree.Tables, tmp_path: Path
) -> None:
    made = plan(population, by=["sex"], mechanism="two-stage-clip", where={"sector": ["72"]})
    ledger = eree.Ledger.create(tmp_path / "l.db", made.total, data_set="data")
    release = eree.publish(made, population, ledger=ledger, out=tmp_path / "out")
    assert release.table("t").num_rows == 2
    assert eree.verify(release, ledger=ledger).sound


# --------------------------------------------------------------------------- what is verified


def test_bounds_that_were_made_to_look_right_are_found(
    population: eree.Tables, tmp_path: Path
) -> None:
    made = plan(population, mechanism="two-stage-clip")
    ledger = eree.Ledger.create(tmp_path / "l.db", made.total, data_set="data")
    release = eree.publish(made, population, ledger=ledger, out=tmp_path / "out")
    assert eree.verify(release, ledger=ledger).sound
    rows = release.table("t")
    bounds = rows[SCALED_TO].to_numpy()
    tricks = {
        "low and high are not the ends": 2 * bounds,
        "has groups without one bound of 1 or more": bounds + np.arange(len(bounds)) % 2,
        "has groups without one bound of 1 or": bounds * 0,
    }
    for words, changed in tricks.items():
        place = rows.column_names.index(SCALED_TO)
        faults = rewritten(
            release, rows.set_column(place, rows.field(SCALED_TO), pa.array(changed))
        )
        assert any(rule.startswith(words) for rule in faults), faults


def test_ends_are_made_again_piece_by_piece(
    population: eree.Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(population, mechanism="two-stage-clip")
    ledger = eree.Ledger.create(tmp_path / "l.db", made.total, data_set="data")
    release = eree.publish(made, population, ledger=ledger, out=tmp_path / "out")
    rows, words = release.table("t"), "low and high are not the ends that the noisy counts give"
    for most in (1, 20, len(rows)):  # a group at least
        monkeypatch.setattr(rechecked, "_AT_ONCE", most)
        assert eree.verify(release, ledger=ledger).sound
    monkeypatch.setattr(rechecked, "_AT_ONCE", 20)
    low, place = rows["low"].to_numpy(), rows.column_names.index("low")
    for row in (0, 19, 20, len(rows) - 1):
        changed = pa.array(low + (np.arange(len(low)) == row))
        assert words in rewritten(release, rows.set_column(place, rows.field("low"), changed))


def rewritten(release: eree.Release, rows: pa.Table) -> list[str]:
    """The faults of a release whose table was replaced, with digests to match."""
    home = release.folder / "tables"
    parquet.write_table(rows, home / "t.parquet")
    arrow_csv.write_csv(rows, home / "t.csv")
    record = json.loads((release.folder / RECORD).read_text(encoding="utf-8"))
    files = record["tables"][0]["files"]
    files.update({name: file_digest(release.folder / name) for name in files})
    record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (release.folder / RECORD).write_text(text, encoding="utf-8")
    return [fault.rule for fault in eree.verify(eree.Release.open(release.folder)).faults]


def test_cells_that_are_not_in_their_place_are_found(
    population: eree.Tables, tmp_path: Path
) -> None:
    made = plan(population, mechanism="two-stage-clip", by=["sector", "sex"])
    ledger = eree.Ledger.create(tmp_path / "l.db", made.total, data_set="data")
    release = eree.publish(made, population, ledger=ledger, out=tmp_path / "out")
    rows = release.table("t")

    def told(name: str, values: list[Any]) -> list[str]:
        place = rows.column_names.index(name)
        return rewritten(release, rows.set_column(place, rows.field(name), pa.array(values)))

    sexes, sectors = rows["sex"].to_pylist(), rows["sector"].to_pylist()
    assert "does not have every value of sex in its place in every group" in told(
        "sex", sexes[::-1]
    )
    assert "does not have every value of sex in its place in every group" in told(
        "sex", ["X", *sexes[1:]]
    )
    assert "has groups of more than one sector" in told("sector", sectors[1:] + sectors[:1])
    assert "has values of sector that the record does not declare or keep" in told(
        "sector", ["99", "99", *sectors[2:]]
    )
    assert "has two rows for one cell" in told("sector", [*sectors[:2], *sectors[:2], *sectors[4:]])
    assert told("sector", sectors) == []


def test_cells_in_another_order_than_their_bounds_are_refused(population: eree.Tables) -> None:
    made = plan(population, mechanism="two-stage-clip")
    measure = TableMeasure(
        population.schema, made.tables[0].marginal, made.tables[0].measurement, 0.9
    )

    def count(marginal: eree.Marginal) -> Any:
        for cells in stream(population, marginal):
            back = cells.confidential.take(np.arange(len(cells))[::-1])
            yield cells if len(marginal.by) > 1 else eree.Cells(marginal, back)

    with pytest.raises(eree.EngineFailure, match="the cells came in another order than their"):
        list(measure.public_rows(count, eree.SeededRandom(7)))


# ---------------------------------------------------------------------------- what is covered

#: Groups of eight worker cells, and the workplaces that they lie in.
GROUPS = [
    [[1, 0, 0, 0, 0, 0, 0, 0]],
    [[3, 1, 0, 2, 0, 0, 4, 1]],
    [[40, 2, 7, 0, 0, 30, 5, 16]],
    [[400, 20, 70, 0, 0, 300, 50, 160]],
    [[9, 0, 1, 1, 0, 3, 0, 1], [30, 2, 5, 6, 0, 3, 4, 0], [1, 0, 0, 0, 0, 0, 0, 0]],
    [[0, 0, 0, 0, 0, 0, 0, 2_000]],
]


def drawn_groups(
    chosen: Measurement, workplaces: np.ndarray[Any, Any], n: int, seed: int
) -> dict[str, Any]:
    """Public numbers of one group drawn n times."""
    random, largest = eree.SeededRandom(seed), int(workplaces.sum(1).max())
    counts, totals = workplaces.sum(0), np.full(n, largest)
    numbers: dict[str, Any] = {"workplaces": np.full(8 * n, len(workplaces))}
    mechanism: Any = chosen.mechanism
    if mechanism.first_stage is not None:
        bounds = mechanism.bounds(totals, random=random)
        numbers[SCALED_TO] = np.repeat(bounds, 8)
        sizes = workplaces.sum(1)[:, None]
        scaled = [
            np.where(sizes > t, 1000 * workplaces * t // sizes, 1000 * workplaces).sum(0)
            for t in bounds.tolist()
        ]
        return numbers | {"noisy": mechanism.draw(np.array(scaled), bounds, random=random).ravel()}
    known = {"count": np.tile(counts, n), "largest_total": np.repeat(totals, 8)}
    given = [chosen.grouped(known[name]) for name in chosen.statistics]
    return numbers | {"noisy": mechanism.draw(*given, random=random).ravel()}


@pytest.mark.parametrize("name", [*VECTOR_MECHANISMS, "smooth-pareto"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_intervals_of_worker_cells_cover_with_the_stated_probability(
    population: eree.Tables, name: str, level: float
) -> None:
    n = 4_000
    price = "16" if name == "smooth-pareto" else "2"
    chosen = measurement(population, mechanism=name, epsilon=price, weak=name.startswith("knorm"))
    marginal = eree.Marginal.over(population.schema, GROUP)
    ends = chosen.intervals(population.schema, marginal, level)
    for seed, group in enumerate(GROUPS):
        workplaces = np.array(group)
        rows = drawn_groups(chosen, workplaces, n, seed)
        low, high = (end.reshape(-1, 8) for end in ends(rows))
        counts = workplaces.sum(0)
        assert (low >= 0).all()
        assert ((high == UNBOUNDED) | (high >= low)).all()
        covered = (low <= counts) & ((high == UNBOUNDED) | (counts <= high))
        for held in covered.T:
            shown = stats.binomtest(int(held.sum()), n, level, alternative="less").pvalue
            assert shown > FALSE_ALARM / (8 * len(GROUPS)), (group, held.mean())


def test_intervals_are_not_so_wide_that_they_say_nothing(population: eree.Tables) -> None:
    """A workplace alone with 2,000 workers in one cell: at epsilon 4 the end is within half."""
    marginal = eree.Marginal.over(population.schema, GROUP)
    for name in ("vector-radial", "vector-pareto", "two-stage-clip"):
        chosen = measurement(population, mechanism=name, epsilon="8")
        ends = chosen.intervals(population.schema, marginal, 0.9)
        rows = drawn_groups(chosen, np.array(GROUPS[-1]), 400, 3)
        low, high = (end.reshape(-1, 8)[:, -1] for end in ends(rows))
        assert np.median(low) > 1_000, name
        assert np.median(high) < 4_000, name


@pytest.mark.parametrize("name", ["vector-radial", "two-stage-clip"])
def test_behind_a_worker_filter_only_a_noisy_bound_helps(
    population: eree.Tables, name: str
) -> None:
    """Workers whom the filter leaves out may be at the largest workplace."""
    made = plan(population, mechanism=name, by=["place", "sex"], where={"education": ["college"]})
    [table] = eree.expected_accuracy(made).tables
    assert table.bounded == (name == "two-stage-clip")


@pytest.mark.parametrize("cells", [36, 300, 1_000])
def test_intervals_of_very_many_cells_cover(cells: int) -> None:
    """K-norm noise on counts of 10 under weak neighbours; errors have a mean, too."""
    n, price = 40_000 // cells, eree.Guarantee(eree.Weak("0.1", ["a"]), 4)
    chosen = VECTOR_MECHANISMS["knorm-staircase"].calibrate(price, cells=cells)
    noisy = chosen.draw(np.full((n, cells), 10), random=eree.SeededRandom(cells))
    for level in (0.5, 0.9, 0.99):
        low, high = chosen.interval(noisy.ravel(), level)
        held = ((low <= 10) & (high >= 10)).reshape(n, cells).mean(1)
        assert held.mean() > level - 6 * held.std() / np.sqrt(n)
    mean = chosen.mean_error(Cell(10))[0]
    assert np.isfinite(mean)
    drawn = np.abs(noisy - 10).mean(1)
    assert np.median(drawn) < 2 * mean


@pytest.mark.parametrize("name", ["vector-radial", "vector-pareto"])
def test_sums_of_whole_groups_cover_and_are_no_wider_than_their_cells(
    population: eree.Tables, tmp_path: Path, name: str
) -> None:
    truth = eree.tabulate(population, by=["place"]).confidential
    true = dict(zip(truth["place"].to_pylist(), truth["count"].to_pylist(), strict=True))
    held = []
    for seed in range(30):
        release = eree.publish(
            plan(population, mechanism=name, epsilon="4"),
            population,
            ledger=None,
            out=tmp_path / str(seed),
            random=eree.SeededRandom(seed),
        )
        for row in eree.area_totals(release, "t", ["place"], level="0.8").rows.to_pylist():
            assert row["cells"] == 8
            high = np.inf if row["guaranteed_high"] is None else row["guaranteed_high"]
            held.append(row["guaranteed_low"] <= true[row["place"]] <= high)
    assert stats.binomtest(sum(held), len(held), 0.8, alternative="less").pvalue > FALSE_ALARM
    cells = eree.area_totals(release, "t", ["place", "sex"], level="0.8").rows.to_pylist()
    for row in eree.area_totals(release, "t", ["place"], level="0.8").rows.to_pylist():
        parts = [cell for cell in cells if cell["place"] == row["place"]]
        assert row["guaranteed_low"] >= sum(cell["guaranteed_low"] for cell in parts)
        assert row["guaranteed_high"] is not None
        assert row["guaranteed_high"] <= sum(cell["guaranteed_high"] for cell in parts)


@pytest.mark.parametrize(
    "changes",
    [
        {"weak": True, "epsilon": "0.9"},  # knorm-staircase
        {"mechanism": "vector-pareto", "epsilon": "4"},
        {"mechanism": "smooth-pareto", "epsilon": "16"},
        {"mechanism": "two-stage-clip", "epsilon": "4"},
    ],
    ids=lambda changes: str(changes.get("mechanism")),
)
def test_of_a_large_table_the_groups_asked_for_have_the_same_ends(
    population: eree.Tables,
    tmp_path: Path,
    changes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = eree.publish(
        plan(population, by=["place", "sector", "sex", "education"], **changes),
        population,
        ledger=None,
        out=tmp_path / "out",
        random=eree.SeededRandom(1),
    )
    asked: list[tuple[list[str], dict[str, list[str]]]] = []
    places = sorted({row["place"] for row in release.table("t").to_pylist()})
    for where in ({}, {"place": places[:1]}, {"place": places[:2], "sex": ["F"]}):
        asked += [(by, where) for by in ([], ["place", "education"])]

    def ends() -> list[eree.AreaTotals]:
        return [
            eree.area_totals(release, "t", by, where, "0.8", simultaneous=together)
            for by, where in asked
            for together in (False, True)
        ]

    whole = ends()
    monkeypatch.setattr("eree.estimate.totals._LARGE", 0)
    assert [some.rows for some in ends()] == [every.rows for every in whole]


# ----------------------------------------------------------------------- what will come of it


def test_errors_of_both_stages_agree_with_draws(population: eree.Tables) -> None:
    chosen = measurement(population, mechanism="two-stage-clip", epsilon="1")
    n, first = 40_000, chosen.mechanism
    for count, largest in ((1, 1), (30, 30), (200, 1_000), (1_000, 1_000)):
        random = eree.SeededRandom(count)
        bounds = first.bounds(np.full(n, largest), random=random)
        scaled = np.where(largest > bounds, 1000 * count * bounds // largest, 1000 * count)
        counts = np.zeros((n, 8), dtype=np.int64)
        counts[:, 0] = scaled
        error = np.abs(first.draw(counts, bounds, random=random)[:, 0] - count)
        mean = first.total_error(Cell(count, largest))
        assert abs(error.mean() - mean) < 6 * error.std() / np.sqrt(n) + 0.001
        for level in (0.5, 0.9):
            within = first.total_quantile(level, Cell(count, largest))
            assert (error <= within).mean() > level - 6 * np.sqrt(level * (1 - level) / n)
            if within > 20:
                assert (error <= 0.9 * within).mean() < level


def test_a_first_stage_counts_workplace_cells_and_cuts_no_group_apart(
    population: eree.Tables,
) -> None:
    made = plan(population, mechanism="two-stage-clip")
    marginal, level = made.tables[0].marginal, float(made.level)
    measure = TableMeasure(population.schema, marginal, made.tables[0].measurement, level)
    asked: list[eree.Marginal] = []

    def count(marginal: eree.Marginal) -> Any:
        asked.append(marginal)
        for cells in stream(population, marginal):
            for start in range(0, len(cells), 13):  # groups cut apart
                yield eree.Cells(marginal, cells.confidential.slice(start, 13))

    rows = pa.concat_tables(one.rows for one in measure.public_rows(count, eree.SeededRandom(7)))
    assert [marginal.by for marginal in asked] == [("place",), tuple(GROUP)]
    parts = measure.public_rows(lambda one: stream(population, one), eree.SeededRandom(7))
    whole = pa.concat_tables(part.rows for part in parts)
    for name in (*GROUP, "workplaces"):
        assert rows[name].to_pylist() == whole[name].to_pylist()
    assert (rows[SCALED_TO].to_numpy().reshape(-1, 8).std(1) == 0).all()


# ------------------------------------------------------------------------- refused before paying


def test_too_many_worker_combinations_are_refused_by_the_plan(tmp_path: Path) -> None:
    """A filter's columns count too: nothing is paid for what cannot be counted."""
    town = tmp_path / "data"
    town.mkdir()
    codes = {"lang": [f"l{i}" for i in range(200)], "occ": [f"o{i}" for i in range(1_000)]}
    pa_tables = {
        "workplace": {"workplace_id": [1], "county": ["a"]},
        "worker": {"worker_id": [1], "lang": ["l0"], "occ": ["o0"]},
        "job": {"worker_id": [1], "workplace_id": [1]},
    }
    for name, columns in pa_tables.items():
        parquet.write_table(pa.table(columns), town / f"{name}.parquet")
    lines = [
        *("[workplace]", 'file = "workplace.parquet"', 'key = "workplace_id"'),
        *("[workplace.attributes.county]", 'label = "County"'),
        *("[worker]", 'file = "worker.parquet"', 'key = "worker_id"'),
    ]
    for name, values in codes.items():
        lines += [f"[worker.attributes.{name}]", f"values = {json.dumps(values)}"]
    lines += ["[job]", 'file = "job.parquet"', 'worker = "worker_id"', 'workplace = "workplace_id"']
    (town / "schema.toml").write_text("\n".join(lines), encoding="utf-8")
    wanted = table(by=["county", "lang"], where={"occ": ["o1"]}, epsilon="2")
    with pytest.raises(eree.Faulty, match="the worker attributes make more than 100,000 combin"):
        eree.Plan.of(settings(town, table=[wanted]))
