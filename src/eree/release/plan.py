"""A plan: which tables are wanted, under which guarantee, at what price.

Reading a plan looks at the plan and at the public schema, and reports every fault at once.  It
never opens a table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from eree.budget.compose import Charge, kept_workplaces, together
from eree.data.frame import Frame
from eree.errors import Faulty, Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Neighbours, Strong, Weak, exact, plain
from eree.policy.protected import Protected, protected_jobs
from eree.policy.schema import Schema
from eree.policy.settings import FileFaults, read_toml
from eree.release.price import Measurement, measurement_for
from eree.release.settings import (
    PLAN_FILE,
    PlanSettings,
    PrivacySettings,
    TableSettings,
    TargetSettings,
)
from eree.release.target import Target
from eree.workload import Marginal, SizeProfile, default_thresholds

MOST_TABLES = 1_000
#: The highest level of an interval: above it doubles are too coarse for the probability to miss.
MOST_LEVEL = Fraction(999_999_999, 10**9)


@dataclass(frozen=True)
class PlannedTable:
    """One table: what is counted, and how each count is protected."""

    name: str
    marginal: Marginal
    measurement: Measurement

    @property
    def price(self) -> Guarantee:
        """What the table costs."""
        return self.measurement.price


@dataclass(frozen=True)
class Plan:
    """Tables under one guarantee.  Nothing in it comes from a confidential row."""

    frame: Frame = field(repr=False)
    total: Guarantee
    level: Fraction
    tables: tuple[PlannedTable, ...]
    period: str = ""

    def __post_init__(self) -> None:
        """Refuse two tables of one name: each becomes a file of that name."""
        if len({table.name.lower() for table in self.tables}) < len(self.tables):
            raise Refusal("a plan has two tables of one name; give each its own")

    @property
    def schema(self) -> Schema:
        """What is public and what is confidential."""
        return self.frame.schema

    @property
    def data(self) -> Path:
        """The folder of the linked tables."""
        return self.frame.folder

    def protects(self, ledger: Neighbours | None = None) -> Protected:
        """What is declared to be protected, by the plan's neighbours and by those of a ledger."""
        relation = self.total.neighbours
        return protected_jobs(self.schema, relation, relation if ledger is None else ledger)

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> Plan:
        """The plan of a TOML file; raises `Faulty` with every fault of it."""
        path = Path(file)
        missing = f"there is no plan {path}; write one, or see 'eree demo'"
        raw = read_toml(path, missing=missing)
        return cls.of(raw, folder=path.parent, file=path.name)

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] = ".",
        file: str = PLAN_FILE,
    ) -> Plan:
        """The plan of settings as they stand in a TOML file; `data` is found from `folder` on."""
        return _Reading(settings, Path(folder), file).plan()

    def price(self) -> Guarantee:
        """What all tables cost together: the most that any one workplace meets."""
        charges = [
            Charge(table.name, table.price, kept_workplaces(self.schema, table.marginal.where))
            for table in self.tables
        ]
        return together(charges, self.total.neighbours)

    @property
    def lacks_profile(self) -> bool:
        """Whether it could have numbers of workplaces by size, nearly for nothing, and has none."""
        growing = isinstance(self.total.neighbours, (Strong, Weak))
        return growing and not any(isinstance(t.marginal, SizeProfile) for t in self.tables)

    def table(self, name: str) -> PlannedTable:
        """A table by its name."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(table.name for table in self.tables)
        raise Refusal(f"the plan has no table {name!r}; it has {known}")

    def __str__(self) -> str:
        price = self.price()
        delta = f", delta {plain(price.delta)}" if price.delta else ""
        several = "s" * (len(self.tables) != 1)
        return f"{len(self.tables)} table{several} for epsilon {plain(price.epsilon)}{delta} in all"


class _Reading:
    """One pass over a plan; collects faults instead of stopping at the first."""

    def __init__(self, raw: Mapping[str, Any], folder: Path, file: str) -> None:
        self.raw, self.folder = raw, folder
        self.faults = FileFaults(file)

    def plan(self) -> Plan:
        settings = self.faults.read(PlanSettings, self.raw, "")
        level = self._exact(settings.level, "level")
        if level is not None and not Fraction(1, 2) <= level <= MOST_LEVEL:
            self.faults.add("level", "must be from 0.5 to 0.999999999, such as '0.9'")
        total = self._total(settings.privacy)
        schema = None
        if settings.data:
            frame = Frame.read(self.folder / settings.data)  # its faults are another file's
            schema = frame.schema
            if total is not None:
                self._check_types(schema, total.neighbours)
        tables: list[PlannedTable] = []
        names: set[str] = set()
        if "table" in self.raw and not settings.table and isinstance(self.raw["table"], list):
            self.faults.add("table", "must list at least one table")
        if len(settings.table) > MOST_TABLES:
            self.faults.add("table", f"lists more than {MOST_TABLES:,} tables; make several plans")
        for i, raw in enumerate(settings.table[:MOST_TABLES], start=1):
            place = f"table {i}"
            if isinstance(raw, Mapping) and isinstance(raw.get("name"), str):
                place = f"table {raw['name']}"
            given = self.faults.read(TableSettings, raw, place)
            if given.name and given.name.lower() in names:
                self.faults.add(f"{place}.name", "is used twice; give each table its own")
            names.add(given.name.lower())
            wrong = {f"{place}.{name}" for name in raw} if isinstance(raw, Mapping) else set()
            understood = not wrong & {fault.column for fault in self.faults.found}
            if schema is not None and total is not None and given.name and understood:
                table = self._table(given, place, schema, total)
                tables += [table] if table is not None else []
        if self.faults.found or schema is None or total is None or level is None:
            raise Faulty(self.faults.found, lists="eree plan")
        plan = Plan(frame, total, level, tuple(tables), settings.period)
        self._check_price(plan.price(), total)
        return plan

    def _check_price(self, price: Guarantee, total: Guarantee) -> None:
        for name in ("epsilon", "delta"):
            asked, allowed = getattr(price, name), getattr(total, name)
            if asked > allowed:
                self.faults.add(
                    f"privacy.{name}",
                    f"allows {plain(allowed)}, but the tables cost {plain(asked)};"
                    " lower theirs or raise it",
                )
        if self.faults.found:
            raise Faulty(self.faults.found, lists="eree plan")

    def _total(self, raw: Mapping[str, Any]) -> Guarantee | None:
        """The guarantee of the whole plan."""
        if "privacy" not in self.raw:
            return None
        given = self.faults.read(PrivacySettings, raw, "privacy")
        relation = self._relation(given)
        epsilon = self._exact(given.epsilon, "privacy.epsilon")
        delta = self._exact(given.delta, "privacy.delta")
        if relation is None or epsilon is None or delta is None:
            return None
        try:
            return Guarantee(relation, epsilon, delta)
        except Refusal as refusal:
            self.faults.add("privacy", str(refusal))
            return None

    def _relation(self, given: PrivacySettings) -> Neighbours | None:
        """The neighbours of the plan."""
        if not given.neighbours:
            return None
        if given.neighbours in ("edge", "node"):
            for name in ("alpha", "types"):
                if getattr(given, name):
                    self.faults.add(
                        f"privacy.{name}", f"has no meaning for {given.neighbours} neighbours"
                    )
            return EDGE if given.neighbours == "edge" else NODE
        if given.neighbours not in ("strong", "weak"):
            self.faults.add("privacy.neighbours", "must be 'strong', 'weak', 'edge' or 'node'")
            return None
        if given.alpha == "":
            if "alpha" not in self.raw["privacy"]:  # else it was reported already
                self.faults.add("privacy.alpha", "is required and missing")
            return None
        if given.neighbours == "strong" and given.types:
            self.faults.add("privacy.types", "has no meaning for strong neighbours")
        try:
            if given.neighbours == "strong":
                return Strong(given.alpha)
            return Weak(given.alpha, given.types)
        except Refusal as refusal:
            self.faults.add("privacy", str(refusal))
            return None

    def _check_types(self, schema: Schema, relation: Neighbours) -> None:
        for name in relation.types if isinstance(relation, Weak) else ():
            attribute = schema.attributes.get(name)
            if attribute is None or attribute.owner != "worker":
                self.faults.add("privacy.types", f"names {name!r}, which is no worker attribute")

    def _table(
        self, given: TableSettings, place: str, schema: Schema, total: Guarantee
    ) -> PlannedTable | None:
        """One table, or None where it has a fault."""
        try:
            marginal = self._counted(given, place, schema, total.neighbours)
        except Refusal as refusal:
            self.faults.add(place, str(refusal))
            return None
        if marginal is None:
            return None
        delta = self._exact(given.delta or "0", f"{place}.delta")
        if delta is None:
            return None

        def priced(epsilon: Fraction) -> Measurement:
            price = Guarantee(total.neighbours, epsilon, delta)
            return measurement_for(schema, marginal, price, given.mechanism, given.parameters)

        try:
            epsilon = self._price(given, place, total, priced)
            if epsilon is None:
                return None
            return PlannedTable(given.name, marginal, priced(epsilon))
        except Refusal as refusal:
            self.faults.add(place, str(refusal))
            return None

    def _counted(
        self, given: TableSettings, place: str, schema: Schema, relation: Neighbours
    ) -> Marginal | None:
        """What a table counts: jobs, or workplaces by size."""
        if given.count == "jobs":
            asked = {"sizes", "pooled_from"} & given.model_fields_set
            for name in sorted(asked):
                self.faults.add(f"{place}.{name}", "is for tables with count = 'workplaces'")
            return None if asked else Marginal.over(schema, given.by, given.where)
        if given.target is not None:
            self.faults.add(f"{place}.target", "is of jobs; of workplaces give epsilon or share")
            return None
        named = "sizes" in given.model_fields_set
        sizes = given.sizes if named else default_thresholds(relation)
        return SizeProfile.of(schema, given.by, given.where, sizes, given.pooled_from)

    def _price(
        self,
        given: TableSettings,
        place: str,
        total: Guarantee,
        priced: Callable[[Fraction], Measurement],
    ) -> Fraction | None:
        """The epsilon of a table: stated, a share of the whole, or what its target needs."""
        ways = [
            name
            for name in ("epsilon", "share", "target")
            if getattr(given, name) not in ("", None)
        ]
        if len(ways) != 1:
            self.faults.add(place, "needs one of epsilon, share and target, and no two of them")
            return None
        if ways == ["target"]:
            wanted = self.faults.read(TargetSettings, given.target, f"{place}.target")
            cells = self._exact(wanted.cells, f"{place}.target.cells")
            within = self._exact(wanted.within, f"{place}.target.within")
            if cells is None or within is None or not wanted.jobs:
                return None
            return Target(cells, wanted.jobs, within).least_epsilon(priced, total.epsilon)
        value = self._exact(getattr(given, ways[0]), f"{place}.{ways[0]}")
        if value is not None and value <= 0:
            self.faults.add(f"{place}.{ways[0]}", "must be above 0")
            return None
        return value * total.epsilon if value is not None and ways == ["share"] else value

    def _exact(self, value: str | int, place: str) -> Fraction | None:
        """A number without rounding; nothing where it was reported missing."""
        if value == "":
            return None
        try:
            return exact(value, place.rpartition(".")[2])
        except Refusal as refusal:
            self.faults.add(place, str(refusal))
            return None
