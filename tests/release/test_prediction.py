"""Errors of whole tables, predicted from public sizes of workplaces."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import eree
import eree_study
from eree.cells import Cell
from eree.estimate.estimates import estimated_cells
from eree.estimate.predict import _mean_largest
from eree.estimate.sizes import SizeClass, steps, thinned
from eree.mechanisms.published.fixed import TruncatedLaplace

LOWS = (0, 1, 5, 10, 20, 50, 100, 250, 1000)
BY = ["place", "sector", "ownership"]
WOMEN = {"sex": ["F"], "education": ["college"]}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(
        eree_study.synthesize(tmp_path_factory.mktemp("sizes") / "data", jobs=1_000_000)
    )


@pytest.fixture(scope="module")
def sizes_file(people: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What business statistics would say of these workplaces, by sector."""
    workplaces = parquet.read_table(people.folder / "workplace.parquet").to_pydict()
    jobs = parquet.read_table(people.folder / "job.parquet", columns=["workplace_id"])
    staff = Counter(jobs["workplace_id"].to_pylist())
    found: dict[tuple[str, int], list[int]] = {}
    for key, sector in zip(workplaces["workplace_id"], workplaces["sector"], strict=True):
        place = sum(low <= staff[key] for low in LOWS) - 1
        found.setdefault((sector, place), []).append(staff[key])
    ends = [str(low - 1) for low in LOWS[1:]] + [""]
    lines = [["sector", "from", "to", "workplaces", "jobs"]]
    lines += [
        [sector, str(LOWS[place]), ends[place], str(len(some)), str(sum(some))]
        for (sector, place), some in sorted(found.items())
    ]
    return written(tmp_path_factory.mktemp("sizes") / "sizes.csv", lines)


@pytest.fixture(scope="module")
def shares_file(people: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What shares of the workers of every sector have which sex and education."""
    cells = eree.tabulate(people, by=["sector", "sex", "education"]).confidential.to_pydict()
    rows = list(zip(*(cells[n] for n in ("sector", "sex", "education", "count")), strict=True))
    total = Counter[str]()
    for sector, _, _, count in rows:
        total[sector] += count
    lines = [["sector", "sex", "education", "share"]]
    lines += [[s, x, e, str(count / total[s])] for s, x, e, count in rows]
    return written(tmp_path_factory.mktemp("sizes") / "shares.csv", lines)


def written(path: Path, lines: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows(lines)
    return path


def planned(tables: eree.Tables, neighbours: str = "strong", **table: Any) -> eree.Plan:
    privacy: dict[str, Any] = {"neighbours": neighbours, "alpha": "0.1", "epsilon": "2"}
    if neighbours == "node":
        del privacy["alpha"]
    if neighbours == "weak":
        privacy["types"] = ["sex", "education"]
    asked = {"name": "t", "epsilon": "2", **table}
    privacy["epsilon"] = asked["epsilon"]
    if "delta" in asked:
        privacy["delta"] = asked["delta"]
    return eree.Plan.of({"data": str(tables.folder), "privacy": privacy, "table": [asked]})


def measured(tables: eree.Tables, plan: eree.Plan, column: str, place: int = 0) -> float:
    """The mean error that the cells of a plan's table really have."""
    table = plan.tables[place]
    cells = eree.tabulate(tables, by=table.marginal.by, where=dict(table.marginal.where))
    values, back = np.unique(cells.confidential[column].to_numpy(), return_inverse=True)
    made = table.measurement.mechanism
    errors = np.array([made.mean_error(Cell(0, int(x)))[0] for x in values])
    return float(errors[back].mean())


CASES = [
    ("strong", {"by": BY}, "largest"),
    ("strong", {"by": [*BY, "sex", "education"]}, "largest_total"),
    ("strong", {"by": ["county", "sector"]}, "largest"),
    ("weak", {"by": BY, "where": WOMEN}, "largest"),
]


@pytest.mark.parametrize(("neighbours", "table", "column"), CASES)
def test_the_error_of_a_table_is_predicted_within_ten_per_cent(
    people: eree.Tables,
    sizes_file: Path,
    shares_file: Path,
    neighbours: str,
    table: dict[str, Any],
    column: str,
) -> None:
    plan = planned(people, neighbours, **table)
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    shares = eree.WorkerShares.read(shares_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes, shares=shares).tables[0].predicted
    assert ahead is not None
    assert ahead.mean_error == pytest.approx(measured(people, plan, column), rel=0.1)


@pytest.mark.parametrize("by", [BY, [*BY, "sex", "education"]])
def test_widths_come_as_they_were_predicted(
    people: eree.Tables, sizes_file: Path, tmp_path: Path, by: list[str]
) -> None:
    """Beside a profile that says of all sectors together how large workplaces are."""
    tables = [
        {"name": "t", "by": by, "epsilon": "2"},
        {"name": "sizes", "count": "workplaces", "by": [], "epsilon": "0.08"},
    ]
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "2.08"}
    plan = eree.Plan.of({"data": str(people.folder), "privacy": privacy, "table": tables})
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes).tables[0].widths
    assert ahead is not None
    random = eree.SeededRandom(1)
    release = eree.publish(plan, people, ledger=None, out=tmp_path / "out", random=random)
    cells = estimated_cells(release, "t")
    came = {"cells": float(np.sum(cells["high"].to_numpy() - cells["low"].to_numpy())) / 2}
    for name in BY:
        rows = eree.area_totals(release, "t", [name]).rows
        came[name] = float(np.sum(rows["high"].to_numpy() - rows["low"].to_numpy())) / 2
    said = {"cells": ahead.cells} | ahead.sums
    for name, width in came.items():
        assert width / 1_000_000 == pytest.approx(said[name], rel=0.15), name


#: All mechanisms whose noise goes by the largest workplace of a cell.
SINGLE = ("leaning-staircase", "radial", "smooth-pareto", "smooth-gamma", "smooth-laplace")
TOGETHER = ("vector-mixture", "vector-radial", "vector-pareto")


@pytest.mark.parametrize("mechanism", [*SINGLE, *TOGETHER])
def test_every_mechanism_is_predicted_within_ten_per_cent(
    people: eree.Tables, sizes_file: Path, mechanism: str
) -> None:
    by = [*BY, "sex", "education"] if mechanism in TOGETHER else BY
    failing = {"delta": "0.00001"} if mechanism == "smooth-laplace" else {}
    plan = planned(people, by=by, mechanism=mechanism, epsilon="4", **failing)
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes).tables[0].predicted
    assert ahead is not None
    column = "largest_total" if mechanism in TOGETHER else "largest"
    assert ahead.mean_error == pytest.approx(measured(people, plan, column), rel=0.1)


def test_marginals_of_one_draw_are_predicted_within_ten_per_cent(
    people: eree.Tables, sizes_file: Path
) -> None:
    plan = planned(people, by=BY, marginals=["sex", "education", "age", "race"], epsilon="4")
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes).tables
    assert len(ahead) == 4
    for place, table in enumerate(ahead):
        expected = measured(people, plan, "largest_total", place)
        assert table.predicted is not None
        assert table.predicted.mean_error == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    "table", [{"by": BY}, {"by": ["county", "sector"]}, {"by": BY, "where": WOMEN}]
)
def test_jobs_of_workplaces_that_are_left_out_are_part_of_the_error(
    people: eree.Tables, sizes_file: Path, shares_file: Path, table: dict[str, Any]
) -> None:
    """Against exact probabilities of the noise, on the cells with and without the bound."""
    plan = planned(people, "node", **table, mechanism="truncated-laplace")
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    shares = eree.WorkerShares.read(shares_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes, shares=shares).tables[0].predicted
    made = plan.tables[0].measurement.mechanism
    assert ahead is not None and isinstance(made, TruncatedLaplace)
    noise = np.arange(-2_000, 2_001)
    probabilities = np.array([float(made.pmf(Cell(2_000), int(k) + 2_000)) for k in noise])
    whole, bounded = (
        eree.tabulate(people, by=table["by"], where=table.get("where"), bound=bound)
        .confidential["count"]
        .to_numpy()
        .astype(np.int64)
        for bound in (None, made.bound)
    )
    missing, back = np.unique(whole - bounded, return_inverse=True)
    errors = np.array([probabilities @ np.abs(noise - b) for b in missing])[back]
    assert ahead.mean_error == pytest.approx(float(errors.mean()), rel=0.1)
    alone = made.mean_error(Cell(0))[0]
    assert float(errors.mean()) > 1.2 * alone  # what was promised before


def test_the_share_of_jobs_is_the_sum_of_all_errors(people: eree.Tables, sizes_file: Path) -> None:
    plan = planned(people, by=BY)
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes).tables[0]
    assert ahead.predicted is not None
    assert ahead.predicted.mean_error is not None
    total = ahead.predicted.mean_error * ahead.cells
    assert ahead.predicted.share == pytest.approx(total / 1_000_000, rel=0.01)
    assert "of jobs" in ahead.predicted.words


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=4),
    st.lists(st.floats(0, 100), min_size=4, max_size=4),
    st.lists(st.integers(0, 3), min_size=2, max_size=2).filter(any),
)
def test_the_mean_over_the_largest_is_that_of_all_cases(
    probabilities: list[float], errors: list[float], workplaces: list[int]
) -> None:
    one = np.array([*probabilities, *[0.01] * (4 - len(probabilities))])
    kinds = np.array([one / one.sum(), one[::-1] / one.sum()])
    each = [kinds[kind] for kind, number in enumerate(workplaces) for _ in range(number)]
    brute = sum(
        float(np.prod([of[size] for of, size in zip(each, sizes, strict=True)]))
        * errors[max(sizes)]
        for sizes in product(range(4), repeat=len(each))
    )
    found = _mean_largest(
        np.array([workplaces], dtype=np.float64), np.cumsum(kinds, axis=1), np.array(errors)
    )
    assert found[0] == pytest.approx(brute, rel=1e-9, abs=1e-12)


@given(st.integers(1, 300), st.integers(0, 2_000), st.integers(1, 400), st.floats(0, 1))
def test_a_class_has_its_workplaces_and_its_jobs(
    low: int, wide: int, workplaces: int, part: float
) -> None:
    mean = low + part * wide
    one = SizeClass(low, low + wide, workplaces, round(mean * workplaces))
    sizes, numbers = one.typical()
    assert numbers.sum() == pytest.approx(workplaces)
    assert sizes.min() >= low
    assert sizes.max() <= low + wide
    exact = one.jobs in (low * workplaces, (low + wide) * workplaces)
    near = 1e-9 if exact else 0.501 + 0.02 * wide
    assert float(np.average(sizes, weights=numbers)) == pytest.approx(
        one.jobs / workplaces, abs=near
    )


@given(st.integers(1, 1_000), st.floats(1.02, 50), st.integers(1, 3_000))
def test_a_class_without_an_end_has_its_jobs(low: int, times: float, workplaces: int) -> None:
    jobs = int(low * times * workplaces)
    sizes, numbers = SizeClass(low, None, workplaces, jobs).typical()
    assert sizes.min() >= low
    assert float((sizes * numbers).sum()) == pytest.approx(jobs, rel=0.02, abs=workplaces)


def test_workers_of_a_kind_are_thinned_as_draws_are() -> None:
    sizes, numbers = np.array([1.0, 5.0, 40.0]), np.array([3.0, 2.0, 1.0])
    at = steps(40)
    brute = sum(
        n / 6 * binom.cdf(at, int(size), 0.3) for size, n in zip(sizes, numbers, strict=True)
    )
    assert thinned(sizes, numbers, 0.3, at) == pytest.approx(brute)
    whole = sum(n / 6 * (at >= size) for size, n in zip(sizes, numbers, strict=True))
    assert thinned(sizes, numbers, 1.0, at) == pytest.approx(whole)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from,to\n1,4\n", "needs the columns from, to and workplaces"),
        ("from,to,workplaces\n", "has no rows"),
        ("from,to,workplaces\n1,x,3\n", "row 2: to must be an integer"),
        ("from,to,workplaces\n4,1,3\n", "row 2: to must be"),
        ("from,to,workplaces\n1,,3\n", "needs its jobs"),
        ("from,to,workplaces,jobs\n1,4,3,13\n", "cannot have so many jobs"),
        ("from,to,workplaces\n1,4,3\n4,9,1\n", "overlap"),
        ("from,to,workplaces,jobs\n1,4,3,9\n1,,1,9\n", "overlap"),
        ("from,to,workplaces,sex\n1,4,3,F\n", "'sex' is no public attribute"),
        ("from,to,workplaces\n1,4,-3\n", "must be an integer"),
        ("from,to,workplaces\n1,4,0\n", "without workplaces"),
        ("from,to,to,workplaces\n1,4,4,1\n", "a column twice"),
        ("sector,from,to,workplaces\n11,1,4,9\n", "say nothing of workplaces with sector"),
    ],
)
def test_sizes_that_tell_nothing_are_refused(
    people: eree.Tables, tmp_path: Path, text: str, words: str
) -> None:
    plan = planned(people, by=BY)
    path = tmp_path / "sizes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(eree.Refusal, match=words):
        eree.expected_accuracy(plan, sizes=eree.WorkplaceSizes.read(path, plan.schema))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sex\nF\n", "needs worker attributes"),
        ("share\n1\n", "needs worker attributes"),
        ("sex,share\nF,0.2\n", "do not add up to 1"),
        ("sex,share\nF,x\n", "row 2: share must be a number"),
        ("sex,share\nF,1.5\n", "share must be from 0 to 1"),
        ("sex,share\nF,0.5\nF,0.5\n", "have a share already"),
        ("sex,colour,share\nF,red,1\n", "'colour' is no public attribute"),
        ("sex,share\nF,0.5\nM,0.5\n", "say nothing of education"),
    ],
)
def test_shares_that_tell_nothing_are_refused(
    people: eree.Tables, sizes_file: Path, tmp_path: Path, text: str, words: str
) -> None:
    plan = planned(people, "weak", by=BY, where=WOMEN)
    path = tmp_path / "shares.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(eree.Refusal, match=words):
        eree.expected_accuracy(
            plan,
            sizes=eree.WorkplaceSizes.read(sizes_file, plan.schema),
            shares=eree.WorkerShares.read(path, plan.schema),
        )


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"by": ["county", "sex", "age", "race"]}, "clipping"),
        ({"by": BY, "mechanism": "log-laplace-tight"}, "grows with the count"),
    ],
)
def test_where_nothing_can_be_predicted_it_is_said(
    people: eree.Tables, sizes_file: Path, table: dict[str, Any], words: str
) -> None:
    plan = planned(people, **table)
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    ahead = eree.expected_accuracy(plan, sizes=sizes)
    predicted = ahead.tables[0].predicted
    assert predicted is not None
    assert predicted.mean_error is None
    assert words in predicted.words
    assert words in eree.memo(ahead)


@pytest.mark.parametrize("neighbours", ["weak", "node"])
def test_some_worker_cells_ask_for_shares(
    people: eree.Tables, sizes_file: Path, neighbours: str
) -> None:
    plan = planned(people, neighbours, by=BY, where=WOMEN)
    sizes = eree.WorkplaceSizes.read(sizes_file, plan.schema)
    predicted = eree.expected_accuracy(plan, sizes=sizes).tables[0].predicted
    assert predicted is not None
    assert "--shares" in predicted.words
