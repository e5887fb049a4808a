"""A plan of many tables costs no more than what differs between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import eree
from eree.data import frame
from eree.mechanisms.registry import automatic
from eree.mechanisms.staircase.leaning_staircase import LeaningStaircase

TABLES = 60


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """A list that grows with every call of a function."""
    calls: list[None] = []
    real: Callable[..., Any] = getattr(owner, name)

    def watched(*given: Any, **named: Any) -> Any:
        calls.append(None)
        return real(*given, **named)

    monkeypatch.setattr(owner, name, watched)
    return calls


def test_tables_of_one_price_share_one_calibration_and_one_engine(
    population: eree.Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    automatic.cache_clear()
    calibrated = counted(monkeypatch, LeaningStaircase, "calibrate")
    opened = counted(monkeypatch, frame, "open_engine")
    by = [["place", "sector"], ["county", "ownership"], ["tract"]]
    tables = [
        {"name": f"t{i}", "by": by[i % 3], "epsilon": "1" if i % 2 else "1.5"}
        for i in range(TABLES)
    ]
    ahead = eree.expected_accuracy(plan_of(population.folder, tables))
    assert len(calibrated) == 2
    assert len(opened) == 1
    for given, table in list(zip(tables, ahead.tables, strict=True))[:6]:
        alone = eree.expected_accuracy(plan_of(population.folder, [given]))
        assert tuple(replace(one, widths=None) for one in alone.tables) == (table,)


def plan_of(folder: Path, tables: list[dict[str, Any]]) -> eree.Plan:
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    return eree.Plan.of({"data": str(folder), "privacy": privacy, "table": tables})
