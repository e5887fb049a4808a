"""Rechecks a release without the confidential data: every file, price, mechanism and interval."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eree.budget.compose import Charge, kept_workplaces, together
from eree.errors import Refusal
from eree.estimate.estimates import FOLDER, faults_of_estimates
from eree.estimate.strata import misplaced, unmade
from eree.mechanisms.cache import computed_again
from eree.mechanisms.mechanism import Mechanism
from eree.partial import is_partial
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import guarantee_of
from eree.policy.protected import Protected, read_protected
from eree.policy.schema import Schema
from eree.release.contents import counted_by, schema_of
from eree.release.draw import PlannedTable, draws_of
from eree.release.measure import measure_of
from eree.release.members import MEMBERS, Members
from eree.release.price import Measurement, measurement_for
from eree.release.release import AREAS, Release
from eree.release.settings import MOST_LEVEL
from eree.verification.areas import area_faults
from eree.verification.recheck import Progress, Recheck
from eree.verification.rows import row_faults


class TableRecheck(Recheck):
    """One pass over a release of tables."""

    homes = ("tables", AREAS, MEMBERS)

    def __init__(self, release: Release, tell: Progress, sizes: tuple[Release, ...] = ()) -> None:
        super().__init__(release, tell)
        self._sizes = sizes
        self._known: list[PlannedTable] = []

    def contents(self) -> None:
        """Members of groups, tables, prices, certificates and strata."""
        self._members()
        if self.faults:  # what follows believes them
            return
        self._tables()
        self._areas()
        self._price()
        self._strata()
        self._estimates()

    # ------------------------------------------------------------------------- estimates

    def beside(self, name: str) -> bool:
        """Estimates are made of the release, and may be made later; killed, they leave a part."""
        top = Path(name).parts[0]
        return top == FOLDER or is_partial(Path(top))

    def _estimates(self) -> None:
        """Estimates beside the tables, made again."""
        if not (self.release.folder / FOLDER).exists():
            return
        self.tell("making the estimates again", 0.9)
        with computed_again():  # what was learnt for them is learnt once more
            found = faults_of_estimates(self.release)
        for file, rule in found:
            self.fault("", rule, f"{FOLDER}/{file}")
        if not found:
            self.checks.append("the estimates are what the release gives, made again")

    # ------------------------------------------------------------ groups and areas

    @cached_property
    def _schema(self) -> Schema:
        return schema_of(self.record, self.release.folder)

    def _members(self) -> None:
        """Which codes every group has."""
        attributes = self._schema.attributes
        for about in self.record["members"]:
            members = attributes[about["group"]].members
            if isinstance(members, Members) and (rule := members.fault):
                self.fault("", rule, *about["files"])

    def _areas(self) -> None:
        """Which areas lie in which, as far as anyone can know it who has the release."""
        found = list(area_faults(self.release))
        for file, rule in found:
            self.fault("", rule, file)
        listed = [one for one in self.record["areas"] if one["above"]]
        if listed and not found:
            said = "; ".join(f"{one['of']} in {', '.join(one['above'])}" for one in listed)
            self.checks.append(f"on its author's word, without contradiction: {said}")

    # -------------------------------------------------------------- strata of workplaces

    def _strata(self) -> None:
        """Strata by noisy size, made again where the sizes were given."""
        attributes = self.record["attributes"]
        sizes = {release.identity: release for release in self._sizes}
        made = {n: said for n, said in attributes.items() if said.get("provenance") is not None}
        for release in self._sizes:
            if release.identity not in {said["provenance"]["release"] for said in made.values()}:
                self.fault("attributes", f"no group is made of the release in {release.folder}")
            elif faults := TableRecheck(release, self.tell).all(None, None).faults:
                self.fault("attributes", f"the release in {release.folder} is faulty: {faults[0]}")
        for name, word in unmade(attributes, sizes):
            self.checks.append(f"on its author's word: {name} {word}")
        for name, said in made.items():
            source = sizes.get(said["provenance"]["release"])
            if source is None or self.faults:
                continue
            if wrong := misplaced(said["provenance"], self.release.members(name), source):
                self.fault(f"attributes.{name}", wrong)
            else:
                table = said["provenance"]["table"]
                self.checks.append(f"{name} is what table {table} of {source.folder} makes it")

    def declared(self) -> Protected:
        """What the record says is protected."""
        return read_protected(self.record["protects"], self._schema)

    # ------------------------------------------------------------------------- the tables

    def _tables(self) -> None:
        schema, level = self._schema, exact(self.record["level"], "level")
        if not Fraction(1, 2) <= level <= MOST_LEVEL:
            self.fault("level", "is none that a release has")
            return
        certified: set[Mechanism] = set()
        own: set[str] = set()
        names = [table["name"] for table in self.record["tables"]]
        if len(set(names)) < len(names):
            self.fault("tables", "has two tables of one name")
        for i, table in enumerate(self.record["tables"]):
            self.tell(f"checking {table['name']}", (i + 0.5) / (len(names) + 1))
            measurement = self._measurement(schema, table)
            if measurement is None:
                continue
            self._known.append(PlannedTable(table["name"], counted_by(schema, table), measurement))
            if measurement.mechanism.whole not in certified:
                certified.add(measurement.mechanism.whole)
                certificate, computed = measurement.certificate()
                self.kept += not computed
                claim = measurement.mechanism.name, measurement.mechanism.guarantee
                if (certificate.mechanism, certificate.guarantee) != claim:
                    self.fault(table["name"], f"{table['mechanism']} has another's certificate")
                elif not certificate.holds:
                    self.fault(table["name"], f"{table['mechanism']} does not keep its claim")
            own |= {table["mechanism"]} if measurement.own else set()
            self._rows(schema, table, measurement, float(level))
        if len(self._known) == len(names):  # else there is a fault already
            self._draws(schema)
        one = "1 mechanism keeps its claim, by its certificate"
        several = f"{len(certified)} mechanisms keep their claims, by their certificates"
        self.checks.append(one if len(certified) == 1 else several)
        if own:
            others = ", ".join(sorted(own))
            self.checks.append(f"proved and certified by their authors, not by eree: {others}")
        one = "1 table agrees with its twin, ends and signs"
        several = f"{len(names)} tables agree with their twins, ends and signs"
        self.checks.append(one if len(names) == 1 else several)

    def _draws(self, schema: Schema) -> None:
        """Tables that were paid for once were drawn at once: all that are named, with one total."""
        try:
            draws = draws_of(schema, self._known)
        except Refusal as refusal:
            self.fault("tables", str(refusal))
            return
        several = [draw.tables for draw in draws if len(draw.tables) > 1]
        for first, *others in () if self.faults else several:
            totals = _totals(self.release, schema, first)
            for table in others:
                if not _totals(self.release, schema, table).equals(totals):
                    file = f"tables/{table.name}.parquet"
                    rule = f"has other groups or totals than {first.name}: they are of two draws"
                    self.fault(table.name, rule, file)
        if several and not self.faults:
            drawn = "; ".join(draw.name for draw in draws if len(draw.tables) > 1)
            self.checks.append(f"drawn at once, with one total in every group: {drawn}")

    def _measurement(self, schema: Schema, table: Mapping[str, Any]) -> Measurement | None:
        """The mechanism calibrated again from its price; it must be the one that was recorded."""
        marginal = counted_by(schema, table)
        try:
            measurement = measurement_for(
                schema,
                marginal,
                guarantee_of(table["price"]),
                table["mechanism"],
                table["settings"],
            )
        except Refusal as refusal:
            self.fault(table["name"], f"its mechanism does not exist at its price: {refusal}")
            return None
        given = measurement.as_json() | {"worker_cells": measurement.worker_cells}
        for name, value in given.items():
            if name != "note" and table[name] != value:
                self.fault(f"{table['name']}.{name}", "is not what the price gives")
                return None
        return measurement

    def _rows(
        self, schema: Schema, table: Mapping[str, Any], measurement: Measurement, level: float
    ) -> None:
        measure = measure_of(schema, counted_by(schema, table), measurement, level)
        for rule in row_faults(self.release.folder / "tables", table, measure):
            self.fault(table["name"], rule, f"tables/{table['name']}.parquet")
        pa.default_memory_pool().release_unused()

    # ---------------------------------------------------------------- the price and the ledger

    def _price(self) -> None:
        schema, total = self._schema, guarantee_of(self.record["guarantee"])
        charges = self._charges(schema)
        if together(charges, total.neighbours) != total:
            self.fault("guarantee", "is not what the prices of the tables add up to")
        statements = total.statements(jobs=schema.job.counted)
        if self.record["statements"] != [s.words for s in statements]:
            self.fault("statements", "do not say what the guarantee means")
        self.checks.append(
            f"the prices add up to epsilon {plain(total.epsilon)}, delta {plain(total.delta)}"
        )

    def _charges(self, schema: Schema) -> list[Charge]:
        """What each draw costs; if there is a fault in one, what each table says it does."""
        try:
            if len(self._known) == len(self.record["tables"]):
                return [draw.charge(schema) for draw in draws_of(schema, self._known)]
        except Refusal:  # it was found before
            pass
        return [
            Charge(
                table["name"],
                guarantee_of(table["price"]),
                kept_workplaces(schema, counted_by(schema, table).where),
            )
            for table in self.record["tables"]
        ]


def _totals(release: Release, schema: Schema, table: PlannedTable) -> pa.Table:
    """The groups of a table, their workplaces and the sums of their noisy counts."""
    rows, size = release.table(table.name), table.measurement.worker_cells
    own = [name for name in table.marginal.by if schema.attributes[name].owner == "workplace"]
    groups = rows.select([*own, "workplaces"]).take(np.arange(0, rows.num_rows, size))
    sums = rows["noisy"].to_numpy().reshape(-1, size).sum(axis=1)
    return groups.append_column("noisy", pa.array(sums))
