"""A plan: which tables are wanted, under which guarantee, at what price.

Reading a plan looks at the plan and at the public schema, and reports every fault at once.  It
never opens a table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from eree.budget.compose import together
from eree.data.frame import Frame
from eree.data.tables import Tables
from eree.errors import Faulty, Refusal, expect, hint, how_many
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Neighbours, Strong, Weak, exact, plain
from eree.policy.protected import Protected, protected_jobs
from eree.policy.schema import Schema
from eree.policy.settings import FileFaults, read_toml
from eree.release.draw import Draw, PlannedTable, draws_of, named_marginals
from eree.release.price import Measurement, measurements_for
from eree.release.settings import (
    MOST_LEVEL,
    PLAN_FILE,
    About,
    PlanSettings,
    PrivacySettings,
    TableSettings,
    TargetSettings,
)
from eree.release.target import Target
from eree.workload import Marginal, SizeProfile, default_thresholds

MOST_TABLES = 1_000


@dataclass(frozen=True, repr=False)
class Plan:
    """Tables under one guarantee.  Nothing in it comes from a confidential row.

    `Plan.read` and `Plan.of` make one.

    Attributes:
        frame: The data that it is for.
        total: The most that it may cost.
        level: The confidence of intervals.
        tables: The tables.
        period: The time that it is about.
        about: Title, source, publisher and so on.

    Examples:
        >>> eree.Plan.read("plan.toml").price().epsilon
        Fraction(6, 1)
    """

    frame: Frame
    total: Guarantee
    level: Fraction
    tables: tuple[PlannedTable, ...]
    period: str = ""
    about: About = field(default_factory=About)

    def __post_init__(self) -> None:
        """Refuse two tables of one name, and marginals of half a draw: one would be free."""
        if len({table.name.lower() for table in self.tables}) < len(self.tables):
            raise Refusal("a plan has two tables of one name; give each its own")
        draws_of(self.schema, self.tables)

    @property
    def draws(self) -> list[Draw]:
        """What is drawn, and paid for, one after another: tables, or marginals of one draw."""
        return draws_of(self.schema, self.tables)

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
    def read(cls, file: str | os.PathLike[str], *, tables: Tables | None = None) -> Plan:
        """The plan of a TOML file; raises `Faulty` with every fault of it."""
        path = Path(file)
        missing = f"there is no plan {path}; write one, or see 'eree demo'"
        raw = read_toml(path, missing=missing)
        return cls.of(raw, folder=path.parent, file=path.name, tables=tables)

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] = ".",
        file: str = PLAN_FILE,
        tables: Tables | None = None,
    ) -> Plan:
        """The plan of settings as they stand in a TOML file; `data` is found from `folder` on.

        With `tables` that were loaded, such as data frames, settings have no `data`.
        """
        expect(settings, Mapping, "the settings of a plan as a dict (Plan.read takes a file)")
        return _Reading(settings, Path(folder), file, tables).plan()

    def price(self) -> Guarantee:
        """What all tables cost together: the most that any one workplace meets."""
        charges = [draw.charge(self.schema) for draw in self.draws]
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
        known = [table.name for table in self.tables]
        near = hint(name, known)
        raise Refusal(f"the plan has no table {name!r}; it has {', '.join(known)}{near}")

    def __repr__(self) -> str:
        return f"<Plan of {', '.join(table.name for table in self.tables)}: {self}>"

    def __str__(self) -> str:
        price = self.price()
        delta = f", delta {plain(price.delta)}" if price.delta else ""
        tables = how_many(len(self.tables), "table")
        return f"{tables} for epsilon {plain(price.epsilon)}{delta} in all"


class _Reading:
    """One pass over a plan; collects faults instead of stopping at the first."""

    def __init__(
        self, raw: Mapping[str, Any], folder: Path, file: str, tables: Tables | None
    ) -> None:
        self.raw, self.folder, self.loaded = raw, folder, tables
        self.faults = FileFaults(file)

    def plan(self) -> Plan:
        raw = self.raw
        if self.loaded is not None:
            if "data" in raw:
                self.faults.add("data", "is what was loaded; leave it out")
            raw = {**raw, "data": "."}
        settings = self.faults.read(PlanSettings, raw, "")
        level = self._exact(settings.level, "level")
        if level is not None and not Fraction(1, 2) <= level <= MOST_LEVEL:
            self.faults.add("level", "must be from 0.5 to 0.999999999, such as '0.9'")
        about = self.faults.read(About, settings.about, "about")
        total = self._total(settings.privacy)
        schema = None
        if settings.data:
            if self.loaded is None:
                frame = Frame.read(self.folder / settings.data)  # its faults are another file's
            else:
                frame = Frame.of(self.loaded)
            schema = frame.schema
            if schema.draft:
                rule = "its schema is a draft: replace lists of values that were found in"
                self.faults.add("data", f"{rule} confidential rows, and remove draft")
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
                tables += self._tables(given, place, schema, total)
        self._check_names(tables, names)
        if self.faults.found or schema is None or total is None or level is None:
            raise Faulty(self.faults.found, lists="eree plan")
        plan = Plan(frame, total, level, tuple(tables), settings.period, about)
        self._check_price(plan.price(), total)
        return plan

    def _check_names(self, tables: Sequence[PlannedTable], names: set[str]) -> None:
        """Refuse tables of marginals that are called as others are: their names are made."""
        taken = set(names)
        for table in tables:
            if table.measurement.drawn_with and table.name.lower() in taken:
                rule = "is made of a table's marginals and used twice; give the table another name"
                self.faults.add(f"table {table.name}.name", rule)
            taken.add(table.name.lower())
        if len(taken) > MOST_TABLES:
            self.faults.add("table", f"makes more than {MOST_TABLES:,} tables; make several plans")

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
                known = [a.name for a in schema.attributes.values() if a.owner == "worker"]
                rule = f"names {name!r}, which is no worker attribute{hint(name, known)}"
                self.faults.add("privacy.types", rule)

    def _tables(
        self, given: TableSettings, place: str, schema: Schema, total: Guarantee
    ) -> list[PlannedTable]:
        """One table, or those of its marginals; none where it has a fault."""
        try:
            counted = self._counted(given, place, schema, total.neighbours)
        except Refusal as refusal:
            self.faults.add(place, str(refusal))
            return []
        delta = self._exact(given.delta or "0", f"{place}.delta")
        if not counted or delta is None:
            return []

        def priced(epsilon: Fraction) -> list[Measurement]:
            price = Guarantee(total.neighbours, epsilon, delta)
            return measurements_for(schema, counted, price, given.mechanism, given.parameters)

        try:
            epsilon = self._price(given, place, total, priced)
            if epsilon is None:
                return []
            found = zip(counted, priced(epsilon), strict=True)
            return [
                PlannedTable(name, marginal, made, _titled(schema, given, marginal), given.note)
                for (name, marginal), made in found
            ]
        except Refusal as refusal:
            self.faults.add(place, str(refusal))
            return []

    def _counted(
        self, given: TableSettings, place: str, schema: Schema, relation: Neighbours
    ) -> list[tuple[str, Marginal]]:
        """What a table counts, jobs or workplaces by size, or each of its marginals, by name."""
        if given.count == "jobs":
            asked = {"sizes", "pooled_from"} & given.model_fields_set
            for name in sorted(asked):
                self.faults.add(f"{place}.{name}", "is for tables with count = 'workplaces'")
            if asked:
                return []
            if "marginals" in given.model_fields_set:
                return named_marginals(schema, given.name, given.by, given.where, given.marginals)
            return [(given.name, Marginal.over(schema, given.by, given.where))]
        for name, why in (
            ("target", "is of jobs; of workplaces give epsilon or share"),
            ("marginals", "are of jobs; leave them out of a table that counts workplaces"),
        ):
            if name in given.model_fields_set:
                self.faults.add(f"{place}.{name}", why)
                return []
        named = "sizes" in given.model_fields_set
        sizes = given.sizes if named else default_thresholds(relation)
        profile = SizeProfile.of(schema, given.by, given.where, sizes, given.pooled_from)
        return [(given.name, profile)]

    def _price(
        self,
        given: TableSettings,
        place: str,
        total: Guarantee,
        priced: Callable[[Fraction], list[Measurement]],
    ) -> Fraction | None:
        """The epsilon of a table: stated, a share of the whole, or what its target needs.

        Of several marginals that of the fewest values has the most noise.
        """
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

            def noisiest(epsilon: Fraction) -> Measurement:
                return min(priced(epsilon), key=lambda made: made.worker_cells)

            return Target(cells, wanted.jobs, within).least_epsilon(noisiest, total.epsilon)
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


def _titled(schema: Schema, given: TableSettings, marginal: Marginal) -> str:
    """The title of a table; each of several marginals adds what it is by."""
    if not given.title or not given.marginals:
        return given.title
    own = [schema.attributes[name] for name in marginal.by if name not in given.by]
    return f"{given.title}: {', '.join(one.label or one.name for one in own)}"
