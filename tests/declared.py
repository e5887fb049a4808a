"""A small town that is declared in one way and in others, and releases of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import eree
from offices import privacy, settings, table
from town import Town

Change = Callable[[Town], object]
#: Types of both kinds: a group of a column, and a column.
WEAK = eree.Weak("0.1", ["band", "sex"])
KEYS = {"workplace": "workplace_id", "worker": "worker_id"}


def town(*changes: Change) -> Town:
    """A town with bands of grades; beside every key and grade lies a copy of it, ignored."""
    made = Town()
    made.schema["group"]["band"] = {"of": "grade", "members": {"low": [1, 2], "high": [3]}}
    for owner, key in KEYS.items():
        made.tables[owner]["other"] = list(made.tables[owner][key])
        made.schema[owner]["ignore"] = ["other"]
        made.tables["job"][f"other_{owner}"] = list(made.tables["job"][key])
    made.tables["worker"]["level"] = list(made.tables["worker"]["grade"])
    made.schema["worker"]["ignore"].append("level")
    made.tables["job"]["main"] = [True] * 6
    made.schema["job"]["ignore"] = ["other_workplace", "other_worker", "main"]
    for change in changes:
        change(made)
    return made


def planned(folder: Path, relation: dict[str, Any] | None = None, **changes: Any) -> eree.Plan:
    weak = privacy(neighbours="weak", types=["band", "sex"], epsilon="2")
    wanted = settings(folder, privacy=relation or weak, table=[table(name="counties")], **changes)
    wanted["table"][0]["by"] = ["county"]
    if wanted["privacy"]["neighbours"] != "node":
        wanted["table"][0]["mechanism"] = "smooth-pareto"  # quick to prepare
    return eree.Plan.of(wanted)


def published(
    made: Town,
    home: Path,
    ledger: eree.Ledger | None,
    relation: dict[str, Any] | None = None,
    **given: Any,
) -> eree.Release:
    """A release of a town, which is written beside it."""
    data = made.write(home / "data")
    plan = planned(data, relation)
    return eree.publish(plan, eree.load(data), ledger=ledger, out=home / "out", **given)


def book(home: Path, relation: Any = WEAK, name: str = "data") -> eree.Ledger:
    return eree.Ledger.create(home / "ledger.db", eree.Guarantee(relation, 100), data_set=name)


def other_key(owner: str) -> Change:
    def change(made: Town) -> None:
        made.schema[owner]["key"] = "other"
        made.schema[owner]["ignore"][0] = KEYS[owner]

    return change


def other_link(owner: str) -> Change:
    def change(made: Town) -> None:
        made.schema["job"][owner] = f"other_{owner}"
        ignored = made.schema["job"]["ignore"]
        ignored[ignored.index(f"other_{owner}")] = KEYS[owner]

    return change


def primary(made: Town) -> None:
    made.schema["job"]["primary"] = "main"
    made.schema["job"]["ignore"].remove("main")


def other_column(made: Town) -> None:
    attributes = made.schema["worker"]["attributes"]
    attributes["level"] = attributes.pop("grade")
    made.schema["worker"]["ignore"] = ["other", "grade"]
    made.schema["group"]["band"]["of"] = "level"


def more_values(made: Town) -> None:
    made.schema["worker"]["attributes"]["grade"]["values"].append(4)
    made.schema["group"]["band"]["members"]["high"].append(4)


def members(low: list[int], high: list[int]) -> Change:
    return lambda made: made.schema["group"]["band"].update(members={"low": low, "high": high})


def a_column_instead(made: Town) -> None:
    """The type keeps its name, and is no group any more."""
    made.schema["group"].pop("band")
    made.tables["worker"]["band"] = ["low", "low", "high", "high", "low", "low"]
    made.schema["worker"]["attributes"]["band"] = ["low", "high"]


def of_jobs(made: Town) -> None:
    """A type keeps its name and values, and is one of jobs."""
    made.tables["job"]["sex"] = made.tables["worker"].pop("sex")
    made.schema["job"]["attributes"] = {"sex": made.schema["worker"]["attributes"].pop("sex")}


OTHER: dict[str, Change] = {
    "key of workplaces": other_key("workplace"),
    "link to workplaces": other_link("workplace"),
    "key of workers": other_key("worker"),
    "link to workers": other_link("worker"),
    "the job that counts": primary,
    "the most jobs of a worker": lambda made: made.schema["job"].update(most_per_worker=2),
    "column of a type": other_column,
    "values of a type's column": more_values,
    "members of a type": members([1], [2, 3]),
    "values of a type": lambda made: made.schema["worker"]["attributes"]["sex"].append("X"),
    "a group that becomes a column": a_column_instead,
    "a type of workers that becomes one of jobs": of_jobs,
}


def next_year(made: Town) -> None:
    """Other workplaces and other workers."""
    made.tables["workplace"]["workplace_id"] = [20, 30, 40, 50]
    made.tables["workplace"]["other"] = [20, 30, 40, 50]
    made.tables["worker"]["sex"] = ["M"] * 6
    made.tables["job"]["workplace_id"] = [50, 50, 50, 40, 30, 20]
