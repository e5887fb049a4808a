"""What the tests of releases share: a small office with data, a plan and a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import eree

TOTAL = eree.Guarantee(eree.Strong("0.1"), 100)
#: What a release of the plan below says if it fails after paying, as the first from its ledger.
SPENT = "the price of epsilon 3 is spent (entry 2 of {ledger}, never settled)"


def settings(data: Path | str = "data", **changes: Any) -> dict[str, Any]:
    """A plan as it stands in a TOML file: two tables, one of them with a worker filter."""
    plan: dict[str, Any] = {
        "data": str(data),
        "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"},
        "table": [
            {"name": "sectors", "by": ["place", "sector", "ownership"], "epsilon": "2"},
            {"name": "women", "by": ["place"], "where": {"sex": ["F"]}, "epsilon": "1"},
        ],
    }
    return plan | changes


def table(**changes: Any) -> dict[str, Any]:
    """A table of a plan."""
    given = {"name": "t", "by": ["place"], "epsilon": "1"} | changes
    return {name: value for name, value in given.items() if value is not None}


def privacy(**changes: Any) -> dict[str, Any]:
    """The privacy of a plan."""
    given = {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"} | changes
    return {name: value for name, value in given.items() if value is not None}


def text(plan: Mapping[str, Any]) -> str:
    """A plan as TOML."""

    def written(value: Any) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case list():
                return "[" + ", ".join(map(written, value)) + "]"
            case dict():
                return "{ " + ", ".join(f"{k} = {written(v)}" for k, v in value.items()) + " }"
        return '"' + str(value).replace('"', '\\"') + '"'

    lines = [f"{k} = {written(v)}" for k, v in plan.items() if k not in ("privacy", "table")]
    if "privacy" in plan:
        lines += ["[privacy]", *(f"{k} = {written(v)}" for k, v in plan["privacy"].items())]
    for one in plan.get("table", []):
        lines += ["[[table]]", *(f"{k} = {written(v)}" for k, v in one.items())]
    return "\n".join(lines) + "\n"


def left(folder: Path) -> set[str]:
    """What is in a folder besides a ledger, a disk and what fills it."""
    return {
        path.name
        for path in folder.iterdir()
        if not path.name.startswith(("ledger.db", "filler", "disk"))
    }
