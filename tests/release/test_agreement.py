"""Tables that agree: least squares against dense algebra, sums that stay, errors, intervals."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.estimate.agreement import UNIT, Agreement, _Solver, agreement_of
from eree.estimate.covariance import Block, Covariance, DrawnNoise
from eree.estimate.estimates import estimated_cells
from eree.estimate.linking import Link, non_negative, rounded
from eree.random.exact import Array
from eree.random.source import SeededRandom
from selection import examples

pytestmark = pytest.mark.xdist_group("agreement")  # what most tests look at is made once

PRIVACY = {"neighbours": "strong", "alpha": "0.1", "epsilon": "16"}
TABLES: list[dict[str, Any]] = [
    {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
    {"name": "people", "by": ["place", "sex", "education"], "epsilon": "3"},
    {"name": "women", "by": ["place"], "where": {"sex": ["F"]}, "epsilon": "1"},
    {"name": "groups", "by": ["state", "supersector"], "epsilon": "1"},
    {
        "name": "wac",
        "by": ["place", "sector"],
        "marginals": ["age", "ethnicity", "sex"],
        "epsilon": "4",
    },
    {"name": "goods", "by": ["sector"], "where": {"supersector": ["goods"]}, "epsilon": "1"},
    {"name": "all", "by": [], "epsilon": "1"},
    {"name": "sizes", "by": [], "count": "workplaces", "epsilon": "0.08"},
]


def _release(
    population: eree.Tables, out: Path, tables: list[dict[str, Any]], seed: int
) -> eree.Release:
    plan = eree.Plan.of({"data": str(population.folder), "privacy": PRIVACY, "table": tables})
    return eree.publish(plan, population, ledger=None, out=out, random=SeededRandom(seed))


@pytest.fixture(scope="module")
def release(population: eree.Tables, tmp_path_factory: pytest.TempPathFactory) -> eree.Release:
    return _release(population, tmp_path_factory.mktemp("agree") / "out", TABLES, 5)


# ------------------------------------------------------------------ against dense algebra


def _dense(covariance: Covariance) -> Array:
    return covariance.times(np.eye(len(covariance.diagonal)))


@st.composite
def noises(draw: st.DrawFn) -> Covariance:
    """Noise of one to three draws, each with one to three marginals of some groups."""
    variances = st.floats(0.1, 50)
    start, draws = 0, []
    for _ in range(draw(st.integers(1, 3))):
        groups = draw(st.integers(1, 4))
        total = np.array(draw(st.lists(variances, min_size=groups, max_size=groups)))
        blocks = []
        for _ in range(draw(st.integers(1, 3))):
            rest = np.array(draw(st.lists(variances, min_size=groups, max_size=groups)))
            blocks.append(Block(start, draw(st.integers(1, 4)), rest))
            start = blocks[-1].stop
        draws.append(DrawnNoise(total, blocks))
    return Covariance(draws)


@given(noises())
def test_the_covariance_has_its_diagonal_and_its_root(noise: Covariance) -> None:
    matrix = _dense(noise)
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max()
    assert np.allclose(np.diagonal(matrix), noise.diagonal)
    cells, groups = len(matrix), [len(draw.total) for draw in noise.draws]
    ones = np.eye(cells + sum(groups))  # a column for each independent number
    ends = np.cumsum([cells, *groups])
    sums = [ones[a:b] for a, b in pairwise(ends.tolist())]
    root = noise.root(ones[:cells], sums)
    assert np.allclose(root @ root.T, matrix)


@given(noises())
def test_marginals_of_one_draw_have_one_total(noise: Covariance) -> None:
    matrix = _dense(noise)
    for draw in noise.draws:
        for one, two in combinations(draw.blocks, 2):
            for g, total in enumerate(draw.total):
                apart = np.zeros(len(matrix))
                apart[one.start + g * one.cells :][: one.cells] = 1
                assert apart @ matrix @ apart == pytest.approx(total)
                apart[two.start + g * two.cells :][: two.cells] = -1
                assert apart @ matrix @ apart == pytest.approx(0, abs=1e-9 * total)


@st.composite
def linked_noises(draw: st.DrawFn) -> tuple[Covariance, list[Link]]:
    noise = draw(noises())
    cells = len(noise.diagonal)
    links = []
    for _ in range(draw(st.integers(0, 3))):
        sides = np.array(draw(st.lists(st.integers(0, 2), min_size=cells, max_size=cells)))
        keys = np.array(draw(st.lists(st.integers(0, 1), min_size=cells, max_size=cells)))
        one, two = np.flatnonzero(sides == 1), np.flatnonzero(sides == 2)
        links.append(Link(one, keys[one], two, keys[two], 2))
    return noise, links


@given(linked_noises(), st.integers(0, 2**32))
def test_estimates_are_those_of_dense_least_squares(
    case: tuple[Covariance, list[Link]], seed: int
) -> None:
    noise, links = case
    matrix, rng = _dense(noise), np.random.default_rng(seed)
    sums = [rng.normal(0, 3, (len(draw.total), 2)) for draw in noise.draws]
    values = noise.root(rng.normal(0, 3, (len(matrix), 2)), sums)
    agree = np.vstack(
        [np.zeros((0, len(matrix))), *(x.matrix(len(matrix)).toarray() for x in links)]
    )
    inverse = np.linalg.pinv(agree @ matrix @ agree.T, rcond=1e-11, hermitian=True)
    wanted = values - matrix @ agree.T @ inverse @ agree @ values
    found = _Solver(links, noise).agreeing(values)
    assert np.allclose(found, wanted, atol=1e-5)


# ------------------------------------------------------------------ rounding


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=24),
    st.lists(st.integers(0, 3), min_size=24, max_size=24),
)
def test_integers_of_zero_or_more_add_up(values: list[float], keys: list[int]) -> None:
    coarse, fine = np.arange(4), 4 + np.arange(len(values))
    own = np.unique(keys[: len(values)], return_inverse=True)[1]
    link = Link(fine, own, coarse, coarse, 4)
    sums = np.bincount(own, values, 4)
    every = np.concatenate([np.abs(sums), values])
    counts = non_negative(every, [link])
    assert (counts >= 0).all()
    assert not link.apart(counts)[: own.max() + 1].any()
    exact = rounded(np.concatenate([sums, values]), [link])
    assert not link.apart(exact)[: own.max() + 1].any()
    assert np.abs(exact - np.concatenate([sums, values])).max() <= len(values)


def test_rows_and_columns_are_rounded_to_both_of_their_sums() -> None:
    rng = np.random.default_rng(3)
    inner = rng.normal(0, 30, (5, 7))
    every = np.concatenate([inner.sum(1), inner.sum(0), inner.ravel()])
    cells = 12 + np.arange(35)
    rows = Link(cells, np.repeat(np.arange(5), 7), np.arange(5), np.arange(5), 5)
    columns = Link(cells, np.tile(np.arange(7), 5), 5 + np.arange(7), np.arange(7), 7)
    total = Link(np.arange(5), np.zeros(5, int), 5 + np.arange(7), np.zeros(7, int), 1)
    found = rounded(UNIT * every, [total, rows, columns])
    assert not any(link.apart(found).any() for link in (rows, columns, total))


@examples(100, torture=5000)
@given(
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
def test_rows_and_columns_with_gaps_are_rounded_to_both_of_their_sums(
    held: set[tuple[int, int]], seed: int
) -> None:
    """Also where some rows share no column with the others, so that sums have to give way."""
    rows, columns = (
        np.unique([cell[i] for cell in sorted(held)], return_inverse=True)[1] for i in (0, 1)
    )
    inner = np.random.default_rng(seed).normal(0, 30, len(held))
    sums = np.bincount(rows, inner), np.bincount(columns, inner)
    first, second = np.arange(len(sums[0])), np.arange(len(sums[1]))
    cells = len(first) + len(second) + np.arange(len(held))
    zero = np.zeros_like(first), np.zeros_like(second)
    links = [
        Link(len(first) + second, zero[1], first, zero[0], 1),
        Link(cells, rows, first, first, len(first)),
        Link(cells, columns, len(first) + second, second, len(second)),
    ]
    every = UNIT * np.concatenate([*sums, inner])
    found = rounded(every, links)
    assert not any(link.apart(found).any() for link in links)
    assert np.abs(found - every).max() <= len(held)


def test_numbers_that_cannot_be_made_to_agree_stay_near_what_they_were() -> None:
    """Three sums of each cell, drawn at random: what is moved on must not grow."""
    rng = np.random.default_rng(2)
    sizes, cells = (40, 20, 4), 500
    keys = [np.unique(rng.integers(0, n, cells), return_inverse=True)[1] for n in sizes]
    inner = rng.normal(0, 30, cells)
    sums = [np.bincount(key, inner) for key in keys]
    starts = np.cumsum([0, *map(len, sums)])
    own = starts[-1] + np.arange(cells)
    links = [
        Link(own, key, start + np.arange(len(some)), np.arange(len(some)), len(some))
        for key, some, start in zip(keys, sums, starts, strict=False)
    ]
    every = UNIT * np.concatenate([*sums, inner])
    found = rounded(every, links)
    assert np.abs(found - every).max() < 60
    assert max(np.abs(link.apart(found)).max() for link in links) < 60


# ------------------------------------------------------------------ releases


def _sums(rows: list[dict[str, Any]], by: list[str], where: Mapping[str, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for row in rows:
        if all(row[name] in values for name, values in where.items()):
            key = tuple(row[name] for name in by)
            found[key] = found.get(key, 0) + Decimal(str(row["estimate"]))
    return found


def test_what_tables_both_count_is_one_number(release: eree.Release) -> None:
    """All pairs of tables, by all attributes that they have in common, added up in decimals."""
    names = [name for name in release.tables if name != "sizes"]
    schema, rows = release.schema, {}
    goods = schema.attributes["supersector"].members
    places = {row["place"]: row for row in release.table("jobs").to_pylist()}
    for name in names:
        rows[name] = estimated_cells(release, name).to_pylist()
        for row in rows[name]:
            if "sector" in row:
                row["supersector"] = goods[row["sector"]]
    compared = 0
    for one, two in combinations(names, 2):
        where = dict(release.about(one)["where"]) | dict(release.about(two)["where"])
        if any(name not in rows[t][0] and name not in release.about(t)["where"]
               for name in where for t in (one, two)):  # fmt: skip
            continue
        kept = {t: {n: v for n, v in where.items() if n in rows[t][0]} for t in (one, two)}
        known = [n for n in schema.attributes if n in rows[one][0] and n in rows[two][0]]
        assert _sums(rows[one], known, kept[one]) == _sums(rows[two], known, kept[two])
        compared += 1
    assert compared >= 20
    assert places


def test_a_filter_that_only_one_marginal_of_a_draw_knows_is_agreed_on(
    population: eree.Tables, tmp_path: Path
) -> None:
    """Least squares do it: what rounding moves is no more than what it left over."""
    young = {"age": [(population.schema.attributes["age"].values or ("",))[0]]}
    tables: list[dict[str, Any]] = [
        {"name": "young", "by": ["place"], "where": young, "epsilon": "1"},
        {"name": "wac", "by": ["place", "sector"], "marginals": ["sex", "age"], "epsilon": "4"},
    ]
    release = _release(population, tmp_path / "out", tables, 3)
    agreed = agreement_of(release)
    assert agreed.changes and agreed.apart == 0
    noisy = np.concatenate([release.table(name)["noisy"].to_numpy() for name in agreed.tables])
    nearest = agreed._solver.agreeing(noisy[:, None].astype(np.float64))[:, 0]
    for link in agreed.links:
        assert np.abs(link.apart(np.rint(1e6 * nearest).astype(np.int64))).max() <= 1_000


def test_tables_that_leave_workplaces_out_stay_as_they_are(
    population: eree.Tables, tmp_path: Path
) -> None:
    """Each leaves out others: what they would agree on is below what is guaranteed."""
    tables = [
        {"name": name, "by": by, "epsilon": "1", "mechanism": "truncated-laplace",
         "parameters": {"theta": theta}}
        for name, by, theta in (("some", ["place"], 20), ("more", ["place", "sex"], 50))
    ]  # fmt: skip
    privacy = {"neighbours": "node", "epsilon": "2"}
    plan = eree.Plan.of({"data": str(population.folder), "privacy": privacy, "table": tables})
    out = tmp_path / "out"
    release = eree.publish(plan, population, ledger=None, out=out, random=SeededRandom(1))
    for name in ("some", "more"):
        for row in estimated_cells(release, name).to_pylist():
            assert row["estimate"] == row["noisy"]
            assert row["guaranteed_low"] <= max(row["estimate"], 0)


def test_a_release_without_a_cell_of_jobs_is_refused(
    population: eree.Tables, tmp_path: Path
) -> None:
    release = _release(population, tmp_path / "out", [TABLES[-1]], 1)
    with pytest.raises(eree.Refusal, match="no table of this release counts jobs"):
        eree.write_estimates(release)
    assert not (release.folder / "estimates").exists()


def test_integers_are_zero_or_more_and_add_up_where_tables_lie_in_each_other(
    population: eree.Tables, tmp_path: Path
) -> None:
    tables = [TABLES[4], {"name": "places", "by": ["place"], "epsilon": "1"}]
    agreed = agreement_of(_release(population, tmp_path / "out", tables, 3))
    assert (agreed.counts >= 0).all()
    assert agreed.apart == 0
    assert agreed.apart_counts == 0


def test_a_single_table_stays_as_it_is(population: eree.Tables, tmp_path: Path) -> None:
    release = _release(population, tmp_path / "out", [TABLES[0]], 1)
    agreed, rows = agreement_of(release), estimated_cells(release, "jobs")
    assert not agreed.changes
    assert (agreed.errors.factor == 1).all()
    own = eree.area_totals(release, "jobs", ["place", "sector", "ownership"]).rows
    for column in ("noisy", "estimate", "low", "high"):
        assert rows[column].equals(own[column])


def _truth(population: eree.Tables, by: list[str]) -> dict[Any, int]:
    rows = eree.tabulate(population, by).confidential.to_pylist()
    return {tuple(row[name] for name in by): int(row["count"]) for row in rows}


SEEDS = 12


@pytest.fixture(scope="module")
def redrawn(
    population: eree.Tables, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[eree.Release, Agreement]]:
    """The same tables, of one price each, drawn again and again."""
    home = tmp_path_factory.mktemp("redrawn")
    tables = [
        {"name": "fine", "by": ["place", "sector", "ownership"], "epsilon": "1"},
        {"name": "people", "by": ["place", "sector", "sex"], "epsilon": "1"},
        {"name": "coarse", "by": ["place"], "epsilon": "0.5"},
    ]
    made = [_release(population, home / str(seed), tables, seed) for seed in range(SEEDS)]
    return [(release, agreement_of(release)) for release in made]


def test_errors_are_no_more_than_those_of_the_best_single_table(
    population: eree.Tables, redrawn: list[tuple[eree.Release, Agreement]]
) -> None:
    """Jobs by place, from three tables that were measured and from what they agree on."""
    truth = _truth(population, ["place"])
    singles: dict[str, list[float]] = {}
    agreeing = []
    for release, agreed in redrawn:
        for name in ("fine", "people", "coarse"):
            rows = eree.area_totals(release, name, ["place"]).rows
            keys: Any = zip(rows["place"].to_pylist(), rows["estimate"].to_pylist(), strict=True)
            error = sum(abs(value - truth[(place,)]) for place, value in keys)
            singles.setdefault(name, []).append(error)
        rows, values = release.table("coarse"), agreed.estimates[agreed.tables["coarse"]] / UNIT
        places = rows["place"].to_pylist()
        agreeing.append(sum(abs(v - truth[(p,)]) for p, v in zip(places, values, strict=True)))
    best = min(np.mean(errors) for errors in singles.values())
    assert np.mean(agreeing) < best
    assert np.mean(agreeing) > 0.2 * best


def test_intervals_around_agreeing_estimates_hold(
    population: eree.Tables, redrawn: list[tuple[eree.Release, Agreement]]
) -> None:
    for name in ("fine", "people", "coarse"):
        held = wide = number = 0
        before = 0
        for release, _ in redrawn:
            by = list(release.about(name)["by"])
            truth = _truth(population, by)
            for row in estimated_cells(release, name).to_pylist():
                true = truth.get(tuple(row[n] for n in by), 0)
                held += row["low"] <= true <= row["high"]
                wide += row["high"] - row["low"]
                number += 1
            before += sum(
                row["high"] - row["low"]
                for row in eree.area_totals(release, name, by).rows.to_pylist()
            )
        assert 0.86 < held / number < 0.99, name
        assert wide < 1.05 * before, name
    assert wide < 0.9 * before  # of the coarse table, which the others help


def test_estimates_are_right_on_average(
    population: eree.Tables, redrawn: list[tuple[eree.Release, Agreement]]
) -> None:
    """Weights that went by the noisy counts would pull sums down."""
    jobs = sum(_truth(population, ["place"]).values())
    off = [agreed.estimates[agreed.tables["fine"]].sum() / UNIT - jobs for _, agreed in redrawn]
    error = np.std(off) / np.sqrt(SEEDS)
    assert abs(np.mean(off)) < 4 * error


def test_weights_do_not_go_by_the_counts_that_they_weigh(
    redrawn: list[tuple[eree.Release, Agreement]],
) -> None:
    """Weights go by sizes that are learnt from whole tables, which differ a little by draw."""
    from eree.estimate.covariance import public_covariance
    from eree.estimate.measured import MeasuredTable

    scales = []
    for release, agreed in redrawn[:4]:
        tables = {name: MeasuredTable.read(release, name) for name in agreed.tables}
        scales.append(np.sqrt(public_covariance(release, tables).diagonal))
    for one, two in combinations(scales, 2):
        assert np.abs(np.log(one / two)).max() < 0.7
        assert Fraction(len(one)) == len(two)


def test_tables_whose_workplaces_were_scaled_give_way_and_are_not_held_against_each_other(
    population: eree.Tables, tmp_path: Path
) -> None:
    crossed = ["sex", "age", "race", "education"]
    scaled = [
        {"name": "one", "by": ["state", *crossed[:3]], "epsilon": "2"},
        {"name": "two", "by": ["state", *crossed[1:]], "epsilon": "2"},
    ]
    release = _release(population, tmp_path / "scaled", scaled, 1)
    assert all(release.about(name)["mechanism"] == "two-stage-clip" for name in ("one", "two"))
    agreed = agreement_of(release)
    assert not agreed.changes
    for name in ("one", "two"):
        noisy = release.table(name)["noisy"].to_numpy()
        assert (agreed.estimates[agreed.tables[name]] == UNIT * noisy).all()
    both = _release(population, tmp_path / "both", [*scaled, TABLES[0]], 1)
    agreed = agreement_of(both)
    assert agreed.changes
    assert agreed.apart == 0
    moved = agreed.estimates[agreed.tables["jobs"]] / UNIT - both.table("jobs")["noisy"].to_numpy()
    assert np.abs(moved).max() < 5  # the others say little of it
