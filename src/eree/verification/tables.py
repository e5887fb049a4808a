"""Rechecks a release without the confidential data: every file, price, mechanism and interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.compose import Charge, kept_workplaces, together
from eree.errors import Refusal
from eree.estimate.estimates import FOLDER, faults_of_estimates
from eree.estimate.size_distribution import told_apart
from eree.estimate.strata import misplaced, unmade
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import Mechanism
from eree.partial import is_partial
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import guarantee_of
from eree.policy.protected import Protected, read_protected
from eree.policy.schema import Schema
from eree.release.contents import SCALED_TO, counted_by, schema_of
from eree.release.draw import PlannedTable, draws_of
from eree.release.measure import TableMeasure, measure_of
from eree.release.members import MEMBERS, Members
from eree.release.plan import MOST_LEVEL
from eree.release.price import Measurement, measurement_for
from eree.release.release import AREAS, Release
from eree.verification.areas import area_faults
from eree.verification.recheck import Progress, Recheck
from eree.workload import SizeProfile


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


def row_faults(folder: Path, table: Mapping[str, Any], measure: TableMeasure) -> Iterator[str]:
    """What is wrong with the rows of a table, from public things alone."""
    file, profile = folder / f"{table['name']}.parquet", measure.marginal
    pooled = isinstance(profile, SizeProfile)  # rows of all groups have empty fields
    try:
        columns = parquet.read_schema(file)
        texts = [] if pooled else [f.name for f in columns if pa.types.is_string(f.type)]
        rows = parquet.ParquetFile(file, read_dictionary=texts).read()
        rows.validate(full=True)  # a forged file may point outside its dictionaries
        rows = rows.unify_dictionaries()
        if not columns.equals(measure.columns) or rows.num_rows != table["rows"]:
            yield "has other columns or another number of rows than the record says"
            return
        alike = _is_twin(file.with_suffix(".csv"), rows, measure.columns, pooled=pooled)
    except (OSError, ValueError, pa.ArrowException):  # a name that is not UTF-8 is a ValueError
        yield "cannot be read"
        return
    if not alike:
        yield "differs from its CSV twin"
    if isinstance(profile, SizeProfile):
        yield from _profile_faults(rows, measure, profile)
        return
    noisy = rows["noisy"].to_numpy()
    if not (rows["employment"].to_numpy() == np.maximum(noisy, 0)).all():
        yield "employment is not the noisy count, or zero where that is negative"
    if rows.num_rows % measure.measurement.worker_cells:
        yield "has cells without some of their worker cells"
        return
    yield from _strange_keys(rows, measure)
    if _has_one_twice(rows, measure):
        yield "has two rows for one cell"
    numbers = {name: rows[name].to_numpy() for name in ("noisy", "workplaces")}
    if measure.measurement.clips:
        numbers[SCALED_TO] = rows[SCALED_TO].to_numpy()
        bounds = numbers[SCALED_TO].reshape(-1, measure.measurement.worker_cells)
        if not ((bounds == bounds[:, :1]) & (bounds >= 1)).all():
            yield "has groups without one bound of 1 or more for all their cells"
            return
    low, high = measure.ends(numbers)
    said = rows["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    if not ((rows["low"].to_numpy() == low).all() and (said == high).all()):
        yield "low and high are not the ends that the noisy counts give"
    if not (rows["workplaces"].to_numpy() >= 1).all():
        yield "has cells without workplaces"


def _is_twin(path: Path, rows: pa.Table, columns: pa.Schema, *, pooled: bool) -> bool:
    """Whether a CSV file has the same rows; it is read piece by piece."""
    kinds = arrow_csv.ConvertOptions(
        column_types=columns, strings_can_be_null=pooled, quoted_strings_can_be_null=False
    )
    start = 0
    with arrow_csv.open_csv(path, convert_options=kinds) as pieces:
        if pieces.schema.names != columns.names:
            return False
        for piece in pieces:
            own = rows.slice(start, piece.num_rows).cast(columns)
            if not pa.Table.from_batches([piece]).cast(columns).equals(own):
                return False
            start += piece.num_rows
    return start == rows.num_rows


def _has_one_twice(rows: pa.Table, measure: TableMeasure) -> bool:
    """Whether a cell has two rows, in a table whose groups have each worker cell once."""
    size, known = measure.measurement.worker_cells, measure.schema.attributes
    first = rows.take(np.arange(0, rows.num_rows, size))
    keys = [name for name in measure.marginal.by if known[name].owner == "workplace"]
    # as values, because a forged dictionary may have one of them twice
    own = first.select(keys).cast(pa.schema([measure.columns.field(name) for name in keys]))
    return len(told_apart(own.columns)[0]) < first.num_rows


def _profile_faults(rows: pa.Table, measure: TableMeasure, profile: SizeProfile) -> Iterator[str]:
    """What is wrong with the rows of a size profile: its groups first, then all of them at once."""
    own = [size for size, pooled in zip(profile.sizes, profile.pooled, strict=True) if not pooled]
    over_all = profile.sizes[len(own) :]
    number = rows.num_rows - (len(over_all) if rows.num_rows else 0)
    groups = number // len(own) if own else 0
    if rows["at_least"].to_pylist() != [*own * groups, *(over_all if rows.num_rows else ())]:
        yield "does not have every threshold of every group in its place"
        return
    first, rest = rows.slice(0, number), rows.slice(number)
    keys = list(profile.by)
    if any(first[key].null_count or rest[key].null_count < len(rest) for key in keys):
        yield "has rows of a group among those of all, or of all among those of a group"
        return
    if first.group_by([*keys, "workplaces"]).aggregate([]).num_rows > groups or (
        first.group_by([*keys, "at_least"]).aggregate([]).num_rows < number
    ):
        yield "has two numbers of workplaces for one group, or two groups that are one"
    yield from _strange_keys(first, measure)
    workplaces, noisy = rows["workplaces"].to_numpy(), rows["noisy"].to_numpy()
    whole = workplaces[: number : len(own)].sum() if own else workplaces[:1].sum()
    if not (workplaces >= 1).all() or not (workplaces[number:] == whole).all():
        yield "has groups without workplaces, or others in all of them than in each"
    if not (rows["number"].to_numpy() == np.clip(noisy, 0, workplaces)).all():
        yield "number is not the noisy one within 0 and the workplaces of its group"
    low, high = measure.ends({"noisy": noisy, "workplaces": workplaces})
    if not ((rows["low"].to_numpy() == low).all() and (rows["high"].to_numpy() == high).all()):
        yield "low and high are not the ends that the noisy numbers give"


def _strange_keys(rows: pa.Table, measure: TableMeasure) -> Iterator[str]:
    """Rows that are no cells of the table, or stand where no cell of their group is expected."""
    size, known = measure.measurement.worker_cells, measure.schema.attributes
    attributes = [known[name] for name in measure.marginal.by]
    workers = [a for a in attributes if a.owner == "worker"]
    cells = list(product(*(range(len(a.values or ())) for a in workers)))
    for i, attribute in enumerate(workers):
        places = {value: place for place, value in enumerate(attribute.values or ())}
        column = _encoded(rows[attribute.name])
        own = np.array(
            [places.get(value, -1) for value in column.dictionary.to_pylist()], dtype=int
        )
        found = own[column.indices.to_numpy()].reshape(-1, size)
        if not (found == [cell[i] for cell in cells]).all():
            yield f"does not have every value of {attribute.name} in its place in every group"
            return
    kept = kept_workplaces(measure.schema, measure.marginal.where)
    for attribute in (a for a in attributes if a.owner == "workplace"):
        column = _encoded(rows[attribute.name])
        codes = column.indices.to_numpy().reshape(-1, size)
        if not (codes == codes[:, :1]).all():
            yield f"has groups of more than one {attribute.name}"
        known_values = measure.marginal.where.get(attribute.name, attribute.values)
        declared = kept.get(attribute.name, known_values)  # groups of the column may filter it too
        if declared is not None and not set(column.dictionary.to_pylist()) <= set(declared):
            yield f"has values of {attribute.name} that the record does not declare or keep"


def _encoded(column: pa.ChunkedArray[Any]) -> Any:
    """A column as places in a dictionary of its values."""
    whole: Any = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
