"""Rechecks a release without the confidential data: every file, price, mechanism and interval."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.compose import Charge, kept_workplaces, together
from eree.budget.entries import Reserved
from eree.budget.ledger import Ledger
from eree.errors import Fault, Refusal
from eree.policy.neighbours import plain
from eree.policy.schema import Attribute, JobTable, KeyedTable, Schema
from eree.release.hiding import Hiding
from eree.release.intervals import UNBOUNDED
from eree.release.record import RECORD, digest_of, file_digest, guarantee_of
from eree.release.release import Release
from eree.release.signature import signature_holds
from eree.release.treatment import SCALED_TO, Treatment, treat
from eree.workload import Marginal

Progress = Callable[[str, float], None]
#: What a record of another shape than ours raises where it is believed.
_MISWRITTEN = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, NotImplementedError),
)


@dataclass(frozen=True)
class Verification:
    """What was rechecked, and every fault that was found."""

    checks: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def verify(
    release: Release,
    *,
    ledger: Ledger | None = None,
    public_key: str | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Recheck a release.

    `public_key`, in hexadecimal digits, is the one that its signature must be made with; `ledger`
    is the one that it must have been paid from.
    """
    return _Verifying(release, progress or (lambda _step, _done: None)).all(ledger, public_key)


class _Verifying:
    """One pass over a release; collects faults instead of stopping at the first."""

    def __init__(self, release: Release, tell: Progress) -> None:
        self.release, self.record, self.tell = release, release.record, tell
        self.faults: list[Fault] = []
        self.checks: list[str] = []

    def fault(self, place: str, rule: str, file: str = RECORD) -> None:
        self.faults.append(Fault("release", file, place, rule))

    def all(self, ledger: Ledger | None, public_key: str | None) -> Verification:
        try:
            self._digest(public_key)
            self._files()
            if not self.faults:  # what follows believes the record and the files
                self._tables()
                self._price()
                if ledger is not None:
                    self._ledger(ledger)
        except _MISWRITTEN:
            self.fault("", "is not written as a release's record is")
        except OSError:
            self.fault("", "cannot be read to its end")
        except Refusal as refusal:
            self.fault("", str(refusal))
        return Verification(tuple(self.checks), tuple(self.faults))

    # ------------------------------------------------------------- the record and the files

    def _digest(self, public_key: str | None) -> None:
        self.tell("checking the record", 0.0)
        if self.record.get("digest") != digest_of(self.record):
            self.fault("digest", "is not that of the record: something in it was changed")
        # bytes, because a text has one line end for all kinds of them
        text = (self.release.folder / RECORD).read_bytes()
        if text != (json.dumps(self.record, indent=1, ensure_ascii=False) + "\n").encode():
            self.fault("", "is not written as a release writes it")
        signature = self.record.get("signature")
        if signature is not None and not signature_holds(signature, str(self.record["digest"])):
            self.fault("signature", "does not belong to this record")
        elif public_key is not None and (signature or {}).get("public_key") != public_key:
            self.fault("signature", "was not made with the key that was given")
        if self.record.get("private") is not True:
            self.fault("private", "the noise was drawn with seeded coins: nothing is protected")
        self.checks.append("the record is the one that was written")
        if signature is not None:
            self.checks.append(f"the signature is by the key {signature['public_key'][:16]}…")

    def _files(self) -> None:
        listed = {
            str(file): str(digest)
            for table in self.record["tables"]
            for file, digest in table["files"].items()
        }
        folder = self.release.folder
        for file, digest in listed.items():
            if Path(file).parent != Path("tables"):
                self.fault("", "lies outside the tables of the release", file)
            elif rule := file_fault(folder / file, digest):
                self.fault("", rule, file)
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if name not in (*listed, RECORD) and not (path.is_dir() and name == "tables"):
                self.fault("", "is not part of the release", name)
            elif path.is_symlink():
                self.fault("", "is a link to something else, and no part of the release", name)
        self.checks.append(f"{len(listed)} files are the ones that were written")

    # ------------------------------------------------------------------------- the tables

    def _tables(self) -> None:
        schema, level = schema_of(self.record), float(Fraction(self.record["level"]))
        certified: set[str] = set()
        names = [table["name"] for table in self.record["tables"]]
        if len(set(names)) < len(names):
            self.fault("tables", "has two tables of one name")
        for i, table in enumerate(self.record["tables"]):
            self.tell(f"checking {table['name']}", (i + 0.5) / (len(names) + 1))
            treatment = self._treatment(schema, table)
            if treatment is None:
                continue
            said = json.dumps([table["mechanism"], table["each"], table["parameters"]])
            if said not in certified:
                certified.add(said)
                certificate = treatment.certify()
                if not certificate.holds:
                    self.fault(table["name"], f"{table['mechanism']} does not keep its claim")
            self._rows(schema, table, treatment, level)
        self.checks.append(f"{len(certified)} mechanisms keep their claims, certified afresh")
        self.checks.append(f"{len(names)} tables agree with their twins, ends and signs")

    def _treatment(self, schema: Schema, table: Mapping[str, Any]) -> Treatment | None:
        """The mechanism made anew from its price; it must be the one that was recorded."""
        marginal = Marginal.over(schema, table["by"], table["where"])
        try:
            treatment = treat(
                schema,
                marginal,
                guarantee_of(table["price"]),
                table["mechanism"],
                table["settings"],
            )
        except Refusal as refusal:
            self.fault(table["name"], f"its mechanism does not exist at its price: {refusal}")
            return None
        anew = treatment.as_json() | {"worker_cells": treatment.worker_cells}
        for name, value in anew.items():
            if name != "note" and table[name] != value:
                self.fault(f"{table['name']}.{name}", "is not what the price gives")
                return None
        return treatment

    def _rows(
        self, schema: Schema, table: Mapping[str, Any], treatment: Treatment, level: float
    ) -> None:
        marginal = Marginal.over(schema, table["by"], table["where"])
        hiding = Hiding(schema, marginal, treatment, level)
        for rule in row_faults(self.release.folder / "tables", table, hiding):
            self.fault(table["name"], rule, f"tables/{table['name']}.parquet")

    # ---------------------------------------------------------------- the price and the ledger

    def _price(self) -> None:
        schema, total = schema_of(self.record), guarantee_of(self.record["guarantee"])
        charges = [
            Charge(
                table["name"],
                guarantee_of(table["price"]),
                kept_workplaces(schema, Marginal.over(schema, table["by"], table["where"]).where),
            )
            for table in self.record["tables"]
        ]
        if together(charges, total.neighbours) != total:
            self.fault("guarantee", "is not what the prices of the tables add up to")
        if self.record["statements"] != [s.words for s in total.statements()]:
            self.fault("statements", "do not say what the guarantee means")
        self.checks.append(
            f"the prices add up to epsilon {plain(total.epsilon)}, delta {plain(total.delta)}"
        )

    def _ledger(self, ledger: Ledger) -> None:
        said = self.record.get("ledger")
        if said is None or said["id"] != ledger.identity:
            self.fault("ledger", f"is not the one in {ledger.name}")
            return
        account = ledger.account()
        entry = next((e for e in account.entries if e.number == said["entry"]), None)
        if entry is None or entry.hash != said["hash"] or not isinstance(entry.event, Reserved):
            self.fault("ledger", f"entry {said['entry']} is not the one that paid for this release")
            return
        if entry.event.release != self.release.identity:
            self.fault("ledger", f"entry {said['entry']} paid for another release")
        if entry.event.price != guarantee_of(self.record["guarantee"]):
            self.fault("ledger", f"entry {said['entry']} paid another price")
        settled = account.settled.get(entry.number)
        if settled is not None and settled != self.record["digest"]:
            self.fault("ledger", f"entry {said['entry']} was settled with another release")
        state = "settled" if settled else "reserved, never settled"
        self.checks.append(f"entry {said['entry']} of the ledger paid for it ({state})")


def file_fault(path: Path, digest: str) -> str | None:
    """What is wrong with a file that should have a digest."""
    try:
        if not path.is_file():
            return "is missing"
        if file_digest(path) != digest:
            return "was changed: its SHA-256 is not the one in the record"
    except OSError:
        return "cannot be read"
    return None


def row_faults(folder: Path, table: Mapping[str, Any], hiding: Hiding) -> Iterator[str]:
    """What is wrong with the rows of a table, from public things alone."""
    name = table["name"]
    try:
        rows = parquet.read_table(folder / f"{name}.parquet")
        kinds = arrow_csv.ConvertOptions(
            column_types=hiding.columns, strings_can_be_null=False, quoted_strings_can_be_null=False
        )
        twin = arrow_csv.read_csv(folder / f"{name}.csv", convert_options=kinds)
    except (OSError, pa.ArrowException):
        yield "cannot be read"
        return
    if not rows.schema.equals(hiding.columns) or rows.num_rows != table["rows"]:
        yield "has other columns or another number of rows than the record says"
        return
    if not twin.cast(hiding.columns).equals(rows):
        yield "differs from its CSV twin"
    keys = list(hiding.marginal.by)
    if keys and rows.group_by(keys).aggregate([]).num_rows != rows.num_rows:
        yield "has two rows for one cell"
    noisy = rows["noisy"].to_numpy()
    if not (rows["employment"].to_numpy() == np.maximum(noisy, 0)).all():
        yield "employment is not the noisy count, or zero where that is negative"
    if rows.num_rows % hiding.treatment.worker_cells:
        yield "has cells without some of their worker cells"
        return
    yield from _strange_keys(rows, hiding)
    numbers = {name: rows[name].to_numpy() for name in ("noisy", "workplaces")}
    if hiding.treatment.first_stage is not None:
        numbers[SCALED_TO] = rows[SCALED_TO].to_numpy()
        bounds = numbers[SCALED_TO].reshape(-1, hiding.treatment.worker_cells)
        if not ((bounds == bounds[:, :1]) & (bounds >= 1)).all():
            yield "has groups without one bound of 1 or more for all their cells"
            return
    low, high = hiding.ends(numbers)
    said = rows["high"].fill_null(pa.scalar(UNBOUNDED, pa.int64())).to_numpy()
    if not ((rows["low"].to_numpy() == low).all() and (said == high).all()):
        yield "low and high are not the ends that the noisy counts give"
    if not (rows["workplaces"].to_numpy() >= 1).all():
        yield "has cells without workplaces"


def _strange_keys(rows: pa.Table, hiding: Hiding) -> Iterator[str]:
    """Rows that are no cells of the table, or stand where no cell of their group is expected."""
    size, known = hiding.treatment.worker_cells, hiding.schema.attributes
    attributes = [known[name] for name in hiding.marginal.by]
    workers = [a for a in attributes if a.owner == "worker"]
    cells = list(product(*(a.values or () for a in workers)))
    for i, attribute in enumerate(workers):
        expected = [cell[i] for cell in cells] * (rows.num_rows // size)
        if rows[attribute.name].to_pylist() != expected:
            yield f"does not have every value of {attribute.name} in its place in every group"
            return
    for attribute in (a for a in attributes if a.owner == "workplace"):
        column = rows[attribute.name].combine_chunks().dictionary_encode()
        codes = column.indices.to_numpy().reshape(-1, size)
        if not (codes == codes[:, :1]).all():
            yield f"has groups of more than one {attribute.name}"
        declared = hiding.marginal.where.get(attribute.name, attribute.values)
        if declared is not None and not set(column.dictionary.to_pylist()) <= set(declared):
            yield f"has values of {attribute.name} that the record does not declare or keep"


def schema_of(record: Mapping[str, Any]) -> Schema:
    """The public schema that a record carries: enough to make its tables' mechanisms anew."""
    attributes = {
        name: Attribute(
            name,
            said["owner"],
            said["label"],
            said["kind"],
            tuple(said["values"]) if said["values"] is not None else None,
            said["labels"],
            of=said["of"],
            members=dict(said["members"]),
        )
        for name, said in record["attributes"].items()
    }
    nowhere = KeyedTable("", "")
    return Schema(nowhere, nowhere, JobTable("", "", ""), attributes)
