"""Sums over groups say what sums over cells say, and what was learnt before what is learnt now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eree.errors import Unreadable
from eree.estimate import calibrated
from eree.mechanisms.intervals import UNBOUNDED
from eree.web.catalogue import Catalogue
from eree.web.columns import Columns
from eree.web.figures import JOBS, Asked
from eree.web.linked import LinkedTable


@st.composite
def questions(draw: st.DrawFn, data: LinkedTable) -> Asked:
    names = [variable.name for variable in data.variables]
    by = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    where, groups = {}, {}
    for variable in data.variables:
        if draw(st.booleans()):
            kept = st.lists(st.sampled_from(variable.codes), unique=True, min_size=1, max_size=9)
            where[variable.name] = variable.ordered(draw(kept))
        if variable.name in by and variable.levels and draw(st.booleans()):
            groups[variable.name] = draw(st.sampled_from([*variable.levels]))
    level = draw(st.sampled_from([0.8, 0.9, 0.99]))
    return Asked(tuple(by), where, groups, JOBS, level)


@pytest.mark.parametrize("table", ["jobs", "people", "women", "branches", "bent"])
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_sums_over_groups_are_those_over_their_cells(
    table: str, tables: dict[str, LinkedTable], draw: st.DataObject
) -> None:
    data = tables[table]
    asked = draw.draw(questions(data))
    found = data.figures(asked)
    sums, _ = data._sums(asked)
    if not len(sums):
        assert not found.values.any() and found.absent is not None and found.absent.all()
        return
    assert found.places is not None
    areas = data._each(asked, sums, found.places)
    low, high = areas.calibrated_ends(asked.confidence, simultaneous=False)
    assert found.values.tolist() == areas.sums.tolist()
    assert found.low.tolist() == low.tolist()
    assert found.high.tolist() == np.where(high == UNBOUNDED, np.inf, high).tolist()
    assert data.most(asked) == len(found) and (np.diff(found.keys) > 0).all()


def test_worker_cells_in_no_order_are_refused() -> None:
    codes = {"sex": np.array([0, 1, 1, 0], dtype=np.uint8)}
    with pytest.raises(Unreadable, match="in no order"):
        Columns.of(codes, ["sex"], 4, 2)


def test_what_was_learnt_is_kept_with_the_release_and_says_the_same(
    releases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def figures(catalogue: Catalogue) -> list[object]:
        found: list[object] = []
        for data in catalogue.data_sets:
            for together in (False, True):
                asked = Asked(tuple(v.name for v in data.variables[:1]), {}, {}, together=together)
                made = data.figures(asked)
                found += [made.values.tolist(), made.low.tolist(), made.high.tolist()]
        return found

    def forget() -> None:
        for kept in (calibrated._calibrated, calibrated._table, calibrated._sizes):
            kept.cache_clear()

    def never(*_given: object) -> None:
        raise AssertionError("it was learnt before")

    monkeypatch.setenv("EREE_CACHE", "")
    forget()
    learnt = figures(Catalogue.open(releases[:1]))
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    forget()
    assert figures(Catalogue.open(releases[:1])) == learnt
    monkeypatch.setattr(calibrated, "_made", never)
    forget()
    assert figures(Catalogue.open(releases[:1])) == learnt
    forget()
    with pytest.raises(AssertionError, match="learnt before"):
        monkeypatch.setenv("EREE_CACHE", "")
        Catalogue.open(releases[:1])
    forget()
