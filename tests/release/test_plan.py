"""Plans: every fault with its place, prices by public facts alone, and no confidential row read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import eree
import eree_study
from eree.cells import Cell
from eree.errors import Refusal
from eree.mechanisms.published.fixed import TruncatedLaplace
from eree.mechanisms.registry import mechanism
from eree.release.target import Target
from offices import privacy, settings, table, text


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("plan") / "data", jobs=3_000)


def plan(data: Path, **changes: Any) -> eree.Plan:
    return eree.Plan.of(settings(data, **changes))


def faults(data: Path, **changes: Any) -> list[str]:
    with pytest.raises(eree.Faulty) as caught:
        plan(data, **changes)
    return [f"{fault.column}: {fault.rule}" for fault in caught.value.faults]


def test_a_plan_is_read_from_its_file(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text(settings(data)), encoding="utf-8")
    read = eree.Plan.read(file)
    assert [t.name for t in read.tables] == ["sectors", "women"]
    assert read.price() == eree.Guarantee(eree.Strong("0.1"), 3)
    assert str(read) == "2 tables for epsilon 3 in all"
    assert read.level == Fraction(9, 10)
    assert read.table("women").measurement.statistics == ("count", "largest_total")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": "1.5"}, "level: must be from 0.5 to 0.999999999, such as '0.9'"),
        ({"level": 0.9}, "level: must be a number in quotes"),
        ({"privacy": {}}, "privacy.neighbours: is required and missing"),
        ({"privacy": privacy(neighbours="close")}, "privacy.neighbours: must be 'strong', 'weak'"),
        ({"privacy": privacy(alpha=None)}, "privacy.alpha: is required and missing"),
        ({"privacy": privacy(alpha="0")}, "privacy: alpha must be above 0"),
        ({"privacy": privacy(alpha=0.1)}, "privacy.alpha: must be a number in quotes"),
        ({"privacy": privacy(epsilon="two")}, "privacy.epsilon: epsilon must be a number"),
        ({"privacy": privacy(epsilon="-1")}, "privacy: epsilon must not be negative"),
        ({"privacy": privacy(types=["sex"])}, "privacy.types: has no meaning for strong"),
        (
            {"privacy": privacy(neighbours="weak")},
            "privacy: weak neighbours need worker attributes",
        ),
        (
            {"privacy": privacy(neighbours="weak", types=["sector"])},
            "privacy.types: names 'sector', which is no worker attribute",
        ),
        ({"privacy": privacy(neighbours="edge")}, "privacy.alpha: has no meaning for edge"),
        ({"privacy": privacy(epslon="2")}, "privacy.epslon: is not a setting that eree knows; did"),
        ({"table": []}, "table: must list at least one table"),
        ({"table": ["x"]}, "table 1: must be a table of settings"),
        ({"table": [table(name="../x")]}, "table ../x.name: must be a name of letters"),
        ({"table": [table(), table(name="T")]}, "table T.name: is used twice"),
        ({"table": [table(by=["where"])]}, "table t: by names 'where', which the schema does not"),
        ({"table": [table(by=["place", "place"])]}, "table t: by names an attribute twice"),
        ({"table": [table(where={"sex": ["X"]})]}, "table t: 'X' is not a declared value of sex"),
        ({"table": [table(epsilon=[])]}, "table t.epsilon: must be a number in quotes"),
        ({"table": [table(share="1/2")]}, "table t: needs one of epsilon, share and target"),
        ({"table": [table(epsilon="0")]}, "table t.epsilon: must be above 0"),
        ({"table": [table(epsilon="5")]}, "privacy.epsilon: allows 4, but the tables cost 5"),
        ({"table": [table(mechanism="gauss")]}, "table t: there is no mechanism named 'gauss'"),
        (
            {"table": [table(parameters={"theta": 3})]},
            "table t: auto takes no parameters; name a mechanism that does",
        ),
        (
            {"table": [table(mechanism="edge-geometric")]},
            "table t: edge-geometric is for edge neighbours",
        ),
        (
            {"table": [table(where={"sex": ["F"]}, mechanism="log-laplace-tight")]},
            "table t: log-laplace-tight has no guarantee under strong neighbours",
        ),
        ({"table": [table(epsilon="0.05")]}, "table t: radial needs epsilon of 0.09541"),
        ({"surprise": 1}, "surprise: is not a setting that eree knows"),
    ],
)
def test_every_fault_is_reported_with_its_place(
    data: Path, changes: dict[str, Any], words: str
) -> None:
    told = faults(data, **changes)
    assert any(line.startswith(words) for line in told), told


def test_a_plan_without_data_is_reported(data: Path) -> None:
    with pytest.raises(eree.Faulty, match=r"data: must be the name of a file or folder"):
        eree.Plan.of(settings(data) | {"data": ""})
    with pytest.raises(eree.Unreadable, match="is not a folder"):
        eree.Plan.of(settings(data) | {"data": str(data / "nowhere")})


def test_all_faults_are_reported_at_once(data: Path) -> None:
    told = faults(data, level="2", privacy=privacy(epsilon="x"), table=[{"name": "t"}, table(by=3)])
    assert len(told) >= 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no plan .*; write one, or see 'eree demo'"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"a = [", "is not valid TOML"),
        (b"a = " + b"[" * 5_000, "is nested too deeply|is not valid TOML"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "plan.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(eree.Refusal, match=words):
        eree.Plan.read(file)


def test_a_folder_cannot_be_a_plan(tmp_path: Path) -> None:
    with pytest.raises(eree.Refusal, match="cannot be read: Is a directory"):
        eree.Plan.read(tmp_path)


def test_shares_of_the_whole_are_prices(data: Path) -> None:
    made = plan(data, table=[table(epsilon=None, share="1/4"), table(name="u", epsilon="3")])
    assert made.table("t").price.epsilon == 1
    assert made.price().epsilon == 4


def test_one_table_for_each_state_costs_the_greatest(data: Path) -> None:
    states = [
        table(name=f"s{state}", by=["place"], where={"state": [state]}, epsilon=price)
        for state, price in (("17", "1"), ("18", "3"), ("55", "2"))
    ]
    assert plan(data, table=states).price().epsilon == 3
    both = [*states, table(name="all", epsilon="1")]
    assert plan(data, table=both).price().epsilon == 4


def test_disjoint_workers_are_no_help(data: Path) -> None:
    made = plan(
        data,
        table=[
            table(name="w", where={"sex": ["F"]}, epsilon="2"),
            table(name="m", where={"sex": ["M"]}, epsilon="2"),
        ],
    )
    assert made.price().epsilon == 4


def test_worker_cells_one_by_one_share_the_price(data: Path) -> None:
    made = plan(data, table=[table(by=["place", "sex"], epsilon="3", mechanism="smooth-pareto")])
    measurement = made.table("t").measurement
    assert measurement.worker_cells == 2
    assert measurement.mechanism.guarantee.epsilon == Fraction(3, 2)
    assert measurement.price.epsilon == 3
    assert "2 worker cells one by one, at 1.5 each" in measurement.note


@pytest.mark.parametrize("neighbours", ["edge", "node"])
def test_edge_and_node_neighbours_have_their_own_mechanisms(data: Path, neighbours: str) -> None:
    made = plan(
        data,
        privacy=privacy(neighbours=neighbours, alpha=None),
        table=[table(by=["place", "sex"], epsilon="2")],
    )
    measurement = made.table("t").measurement
    assert measurement.mechanism.name in ("edge-geometric", "truncated-laplace")
    assert measurement.mechanism.guarantee.epsilon == 2  # one worker, one workplace: paid once


def test_a_weak_table_may_not_be_finer_than_its_types(data: Path) -> None:
    weak = privacy(neighbours="weak", types=["sex"])
    made = plan(data, privacy=weak, table=[table(by=["place", "sex"], mechanism="smooth-pareto")])
    assert made.table("t").measurement.statistics == ("count", "largest")
    told = faults(data, privacy=weak, table=[table(by=["place", "education"])])
    assert told == [
        "table t: education is not one of the worker types of the weak neighbours (sex); add it to"
        " types, in the plan and in the ledger"
    ]


def test_a_plan_that_is_made_by_hand_has_no_two_tables_of_one_name(data: Path) -> None:
    made = plan(data, table=[table()])
    for name in ("t", "T"):
        twice = (*made.tables, replace(made.table("t"), name=name))
        with pytest.raises(Refusal, match="two tables of one name"):
            replace(made, tables=twice)


def test_a_target_gets_the_least_epsilon_that_meets_it(data: Path) -> None:
    wanted = {"cells": "0.9", "jobs": 100, "within": "0.2"}
    made = plan(data, table=[table(epsilon=None, target=wanted)])
    found = made.table("t")
    target = Target(Fraction(9, 10), 100, Fraction(1, 5))
    assert target.met(found.measurement)
    less = plan(data, table=[table(epsilon=str(found.price.epsilon - Fraction(1, 1_000)))])
    assert not target.met(less.table("t").measurement)


@pytest.mark.parametrize(
    ("name", "jobs", "within"),
    [
        ("leaning-staircase", 20, "0.05"),
        ("leaning-staircase", 1_000, "0.1"),
        ("auto", 100, "0.2"),
        ("auto", 1, "0"),
        ("smooth-pareto", 100, "0.2"),
        ("edge-geometric", 10, "0.3"),
    ],
)
def test_few_prices_are_tried_until_the_least_is_found(name: str, jobs: int, within: str) -> None:
    tried = []
    edge = name == "edge-geometric"

    def priced(epsilon: Fraction) -> Any:
        tried.append(epsilon)
        chosen = mechanism(name, alpha=None if edge else "0.1", epsilon=epsilon)
        return SimpleNamespace(mechanism=chosen)

    target = Target(Fraction(9, 10), jobs, Fraction(within))
    found = target.least_epsilon(priced, Fraction(8))
    assert len(set(tried)) <= 8
    assert target.met(priced(found))
    assert not target.met(priced(found - Fraction(1, 1_000)))


def test_a_target_is_found_where_the_mechanism_does_not_always_exist() -> None:
    """Below a certain epsilon there is no such noise; it is looked for by halves."""

    def priced(epsilon: Fraction) -> Any:
        chosen = mechanism("smooth-gamma", alpha="0.1", epsilon=epsilon)
        exact = SimpleNamespace(tail=chosen.tail, total_quantile=lambda _level, _cell: 0)
        return SimpleNamespace(mechanism=exact)

    found = Target(Fraction(9, 10), 50, Fraction(3, 10)).least_epsilon(priced, Fraction(1))
    priced(found)
    with pytest.raises(Refusal):
        priced(found - Fraction(1, 1_000))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"cells": "0.9", "jobs": 100, "within": "0.001"}, "even the whole epsilon of 4 does not"),
        ({"cells": "2", "jobs": 100, "within": "0.1"}, "cells of a target must be a share"),
        (
            {"cells": "0.9", "jobs": -1, "within": "0.1"},
            "target.jobs: must be an integer of jobs",
        ),
        ({"cells": "0.9", "jobs": 0, "within": "0.1"}, "target.jobs: must be an integer"),
        ({"cells": "0.9", "within": "0.1"}, "target.jobs: is required and missing"),
        ({"cells": "0.9", "jobs": 1, "within": "-1"}, "within of a target must be a share"),
    ],
)
def test_a_target_that_cannot_be_is_refused(data: Path, wanted: dict[str, Any], words: str) -> None:
    assert any(words in line for line in faults(data, table=[table(epsilon=None, target=wanted)]))


def test_planning_opens_no_confidential_file(data: Path, tmp_path: Path) -> None:
    """Without the workers' and the jobs' files a plan can be made, priced and looked at."""
    public = tmp_path / "data"
    public.mkdir()
    for name in ("schema.toml", "workplace.parquet"):
        (public / name).write_bytes((data / name).read_bytes())
    for extra in data.iterdir():
        if extra.suffix == ".csv" or extra.name == "place.parquet":
            (public / extra.name).write_bytes(extra.read_bytes())
    ahead = eree.expected_accuracy(plan(public))
    cells = eree.tabulate(eree.load(data), by=["place", "sector", "ownership"]).confidential
    assert ahead.tables[0].cells == cells.num_rows
    assert ahead.tables[1].bounded is False
    assert ahead.tables[0].errors[1] == pytest.approx(0.276, abs=1e-3)
    assert ahead.as_json()["price"]["epsilon"] == "3"


def test_the_memo_says_what_a_board_must_know(data: Path) -> None:
    page = eree.memo(
        eree.expected_accuracy(plan(data)), left=eree.Guarantee(eree.Strong("0.1"), 10)
    )
    for words in (
        "| sectors: place × sector × ownership |",
        "Strong neighbours, alpha 0.1",
        "which workplaces exist, and their public attributes",
        "Whether a worker is in the data",
        "Epsilon 3, delta 0.",
        "has epsilon 10 and delta 0 left; afterwards epsilon 7",
        "women, calibrated intervals if sizes are as most are",
        "Approved / not approved",
    ):
        assert words in page
    weak = plan(data, privacy=privacy(neighbours="weak", types=["sex"]), table=[table()])
    assert "only where all its types" in eree.memo(eree.expected_accuracy(weak))
    edge = plan(data, privacy=privacy(neighbours="edge", alpha=None), table=[table()])
    assert "Workplaces are not protected" in eree.memo(eree.expected_accuracy(edge))


@pytest.mark.parametrize(("theta", "epsilon"), [(100, "4"), (7, "1"), (1, "2"), (300, "12")])
def test_what_truncation_leaves_out_is_part_of_the_expected_error(
    data: Path, theta: int, epsilon: str
) -> None:
    """By exact probabilities of outputs; the count is 0 where the one workplace is left out."""
    given = table(mechanism="truncated-laplace", parameters={"theta": theta}, epsilon=epsilon)
    node = plan(
        data, privacy=privacy(neighbours="node", alpha=None, epsilon=epsilon), table=[given]
    )
    ahead = eree.expected_accuracy(node).tables[0]
    made = node.tables[0].measurement.mechanism
    assert isinstance(made, TruncatedLaplace)
    for jobs in (1, 10, 100, 1_000):
        count = jobs if jobs < theta else 0
        far = 40 * theta // int(epsilon) + 40
        outputs = range(count - far, count + far + 1)
        probabilities = {k: float(made.pmf(Cell(count), k)) for k in outputs}
        brute = sum(p * abs(k - jobs) for k, p in probabilities.items())
        assert ahead.errors[jobs] == pytest.approx(brute, rel=1e-9)
        within = ahead.within[jobs]
        outside = [
            sum(p for k, p in probabilities.items() if abs(k - jobs) > width)
            for width in (within, within - 1)
        ]
        assert outside[0] <= 0.1 + 1e-9
        assert outside[1] > 0.1 - 1e-9
        assert f"{ahead.errors[jobs]:.3g} ({within:,})" in eree.memo(eree.expected_accuracy(node))


def test_a_target_above_the_bound_cannot_be_met(data: Path) -> None:
    wanted = {"cells": "0.9", "jobs": 1_000, "within": "0.5"}
    given = table(mechanism="truncated-laplace", epsilon=None, target=wanted)
    node = privacy(neighbours="node", alpha=None, epsilon="100")
    assert "does not bring 90% of cells of 1,000" in faults(data, privacy=node, table=[given])[0]


def test_a_delta_is_added_in_plan_and_memo_and_bounds_no_odds(data: Path) -> None:
    given = table(epsilon="2", mechanism="smooth-laplace-exact", delta="0.00003")
    ahead = eree.expected_accuracy(plan(data, privacy=privacy(delta="0.00003"), table=[given]))
    page = eree.memo(ahead)
    assert all(words in page for words in ahead.as_json()["statements"])
    assert page.count("times the probability that it has in the other, plus 0.00003;") == 4
    assert "is not the probability that the odds change by more than the factor" in page
    assert "chance" not in page and "changes the odds" not in page


def test_an_unknown_table_is_refused(data: Path) -> None:
    with pytest.raises(eree.Refusal, match="the plan has no table 'x'; it has sectors, women"):
        plan(data).table("x")
