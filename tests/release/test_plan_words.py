"""What a plan's faults and verdicts say: once, truly, and with values that then work."""

from __future__ import annotations

import json
import re
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settled
from hypothesis import strategies as st

import eree
import eree_study
from eree.release.settings import TableSettings, TargetSettings
from offices import privacy, settings, table, text
from pages import command


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eree_study.synthesize(tmp_path_factory.mktemp("words") / "data", jobs=3_000)


def plan(data: Path, **changes: Any) -> eree.Plan:
    return eree.Plan.of(settings(data, **changes))


def faults(data: Path, **changes: Any) -> list[str]:
    with pytest.raises(eree.Faulty) as caught:
        plan(data, **changes)
    return [f"{fault.column}: {fault.rule}" for fault in caught.value.faults]


def test_a_float_is_one_fault_and_no_other(data: Path) -> None:
    """What was not understood of a table is not missing from it."""
    for changes in ({"epsilon": 2.0}, {"delta": 0.1, "mechanism": "smooth-laplace"}):
        (found,) = faults(data, table=[table(**changes)])
        assert "must be a number in quotes" in found


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"level": ""}, "level"),
        ({"privacy": privacy(epsilon="")}, "privacy.epsilon"),
        ({"privacy": privacy(delta="")}, "privacy.delta"),
        ({"privacy": privacy(alpha="")}, "privacy.alpha"),
        ({"privacy": privacy(neighbours="")}, "privacy.neighbours"),
        ({"table": [table(epsilon="")]}, "table t.epsilon"),
    ],
)
def test_an_empty_setting_is_a_fault_in_words(
    data: Path, given: dict[str, Any], place: str
) -> None:
    assert [line.partition(":")[0] for line in faults(data, **given)] == [place]


#: What people and programs write by mistake.
ODD = st.sampled_from(
    [
        *("", " ", "x", "-1", "1/0", "1e999", "0.1e-400", "nan", "\x00", "9" * 2_000),
        *("place", "sex", 0, -1, 10**30, 10**400, 1.5, float("nan"), float("inf"), True, None),
        *([], {}, [[]], [1], [""], {"": ""}, {"x": {}}, ["place", "place"], {"sex": []}),
        date(2026, 1, 1),
    ]
)
PLACES = st.sampled_from(
    [
        *((name,) for name in ("data", "level", "privacy", "table", "odd")),
        *(("privacy", name) for name in ("neighbours", "alpha", "types", "epsilon", "delta")),
        *(("table", 0, name) for name in TableSettings.model_fields),
        *(("table", 0, "target", name) for name in TargetSettings.model_fields),
        ("table", 0),
        ("table", 0, "where", "sex"),
        ("table", 0, "parameters", "theta"),
    ]
)


@settled(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(PLACES, ODD), min_size=1, max_size=2), st.booleans())
def test_whatever_a_plan_holds_is_read_or_refused_in_words(
    data: Path, changes: list[tuple[tuple[Any, ...], Any]], aimed: bool
) -> None:
    target = {"cells": "0.9", "jobs": 100, "within": "0.2"}
    one = table(epsilon=None, target=target) if aimed else table()
    wanted = settings(data, level="0.9", table=[one | {"where": {}, "parameters": {}}])
    for (*path, last), value in changes:
        inside: Any = wanted
        try:
            for step in path:
                inside = inside[step]
            inside[last] = value
        except (KeyError, IndexError, TypeError):
            continue  # another change has left no such place
    try:
        read = eree.Plan.of(wanted)
    except eree.Faulty as faulty:
        assert faulty.faults
    except eree.Refusal as refusal:
        assert str(refusal)
    else:
        assert len(read.tables) == len(wanted["table"])


def test_a_refusal_names_the_price_of_the_table_not_of_a_cell(data: Path) -> None:
    """Eight worker cells one by one: 0.07258 was named, and 0.58 is needed."""
    weak = privacy(neighbours="weak", types=["sex", "education"], delta="0.9")
    given = table(by=["place", "sex", "education"], mechanism="smooth-laplace", epsilon="4")
    (words,) = faults(data, privacy=weak, table=[given | {"delta": "0.08"}])
    assert "8 worker cells one by one" in words
    found = dict(re.findall(r"(delta|epsilon) of ([0-9.]+) or more", words))
    assert found["delta"] == "0.5807"
    plan(data, privacy=weak, table=[given | {"delta": found["delta"]}])
    more = weak | {"epsilon": found["epsilon"]}
    plan(data, privacy=more, table=[given | {"delta": "0.08", "epsilon": found["epsilon"]}])
    assert faults(data, privacy=weak, table=[given | {"delta": "0.58"}])
    less = str(Fraction(found["epsilon"]) * Fraction("0.998"))
    assert faults(data, privacy=more, table=[given | {"delta": "0.08", "epsilon": less}])


def test_every_fault_is_listed_once_and_no_more_are_promised(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text(settings(data, level="2", table=[table(epsilon="0")])), encoding="utf-8")
    done = command("plan", str(file))
    assert done.status == 2
    assert [line.partition(":")[2].strip() for line in done.out.splitlines()] == [
        "must be from 0.5 to 0.999999999, such as '0.9'",
        "must be above 0",
    ]
    assert done.err.strip() == f"eree: {file} has 2 faults; mend them all"
    told = command("plan", str(file), "--json")
    said = json.loads(told.out)["error"]
    assert "level: must be" in said and "table t.epsilon: must be" in said
    assert "more" not in said


def test_a_plan_that_a_ledger_cannot_pay_for_ends_with_a_verdict(
    data: Path, tmp_path: Path
) -> None:
    file, book = tmp_path / "plan.toml", tmp_path / "ledger.db"
    file.write_text(text(settings(data)), encoding="utf-8")
    eree.Ledger.create(book, eree.Guarantee(eree.Strong("0.1"), "2.999"), data_set="data")
    short = command("plan", str(file), "--ledger", str(book))
    assert short.status == 1
    assert "left: NOT ENOUGH." in short.out
    told = command("plan", str(file), "--ledger", str(book), "--json")
    assert (told.status, json.loads(told.out)["enough"]) == (1, False)
    other = tmp_path / "other.db"
    eree.Ledger.create(other, eree.Guarantee(eree.Strong("0.1"), "3"), data_set="data")
    paid = command("plan", str(file), "--ledger", str(other), "--json")
    assert (paid.status, json.loads(paid.out)["enough"]) == (0, True)
    node = tmp_path / "node.db"
    eree.Ledger.create(node, eree.Guarantee(eree.NODE, "9"), data_set="data")
    unfit = command("plan", str(file), "--ledger", str(node))
    assert unfit.status == 1
    assert "promises nothing under the ledger's node neighbours" in unfit.out
