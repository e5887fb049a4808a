"""The text of schema.toml: what the columns of a synthetic population mean."""

from __future__ import annotations

from collections.abc import Iterable

from eree_study.synth.geography import Geography
from eree_study.synth.sectors import GROUPS, OWNERSHIPS, SECTORS
from eree_study.synth.workers import ATTRIBUTES


def declaration(geography: Geography) -> str:
    """schema.toml for the files of `synthesize`; keys of labels are quoted, so any code works."""
    lines = [
        "# A synthetic population: no row describes a real workplace or worker.",
        "[workplace]",
        'file = "workplace.parquet"',
        'key = "workplace_id"',
    ]
    states = sorted((s.code, s.name) for s in geography.states)
    lines += _attribute("workplace", "state", "State", labels=states)
    lines += _attribute("workplace", "county", "County")
    lines += _attribute("workplace", "place", "Place")
    lines += _attribute("workplace", "tract", "Census tract")
    sectors = [(s.code, s.label) for s in SECTORS]
    lines += _attribute("workplace", "sector", "NAICS sector", (s.code for s in SECTORS), sectors)
    owners = list(zip(OWNERSHIPS, ("Private", "Public"), strict=True))
    lines += _attribute("workplace", "ownership", "Ownership", OWNERSHIPS, owners)
    lines += ["", "[worker]", 'file = "worker.parquet"', 'key = "worker_id"']
    for a in ATTRIBUTES:
        labels = zip(a.values, a.labels, strict=True)
        lines += _attribute("worker", a.name, a.label, a.values, labels)
    lines += [
        "",
        "[job]",
        'file = "job.parquet"',
        'worker = "worker_id"',
        'workplace = "workplace_id"',
        "",
        "[hierarchy]",
        'geography = ["tract", "county", "state"]',
        "",
        "[group.supersector]",
        'label = "Sector group"',
        'of = "sector"',
        "[group.supersector.members]",
    ]
    lines += [f'"{g}" = {_list(s.code for s in SECTORS if s.group == g)}' for g in GROUPS]
    lines += ["[group.supersector.labels]", *_table(GROUPS.items())]
    lines += ["", "[reference.place]", 'file = "place.parquet"', 'key = "place"']
    return "\n".join(lines) + "\n"


def _attribute(
    table: str,
    name: str,
    label: str,
    values: Iterable[str] = (),
    labels: Iterable[tuple[str, str]] = (),
) -> list[str]:
    lines = ["", f"[{table}.attributes.{name}]", f'label = "{label}"']
    if listed := list(values):
        lines.append(f"values = {_list(listed)}")
    if pairs := list(labels):
        lines += [f"[{table}.attributes.{name}.labels]", *_table(pairs)]
    return lines


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{v}"' for v in values) + "]"


def _table(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f'"{key}" = "{label}"' for key, label in pairs]
