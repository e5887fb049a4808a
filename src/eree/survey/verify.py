"""Rechecks a release of any kind without the confidential data; here, a protected cube."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from eree.budget.ledger import Ledger
from eree.errors import Refusal
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.policy.protected import Protected, read_protected
from eree.release import verify as tables
from eree.release.recheck import Progress, Recheck, Verification
from eree.release.release import Release
from eree.survey.as_published import AsPublished
from eree.survey.bounds import By
from eree.survey.calibrate.noise import RAKED
from eree.survey.calibration_check import calibration_faults
from eree.survey.columns import MOST_CSV_ROWS, Mask, as_text
from eree.survey.cube_record import (
    CELLS,
    KIND,
    REFERENCE,
    control_name,
    levels_of,
    sampling_of,
    table_entry,
    total_entry,
)
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy import possible_of
from eree.survey.plan import Mode, mode_of
from eree.survey.protected import ProtectedCube
from eree.survey.tables import Query

#: A variance that should be 0 may be as much of that of a cell, by rounding.
_TINY = 1e-9


def verify(
    release: Release,
    *,
    ledger: Ledger | None = None,
    public_key: str | None = None,
    sizes: Iterable[Release] = (),
    progress: Progress | None = None,
) -> Verification:
    """Recheck a release, of tables or of a cube.

    `public_key`, in hexadecimal digits, is the one that its signature must be made with; `ledger`
    is the one that it must have been paid from.  `sizes` are the releases that classes of its
    workplaces were made of; the classes are made anew from them.
    """
    sizes = tuple(sizes)
    if release.record.get("kind") != KIND:
        return tables.verify(
            release, ledger=ledger, public_key=public_key, sizes=sizes, progress=progress
        )
    if sizes:
        raise Refusal("a cube has no classes of workplaces; leave --size-release out")
    return _Verifying(release, progress or (lambda _step, _done: None)).all(ledger, public_key)


class _Verifying(Recheck):
    """One pass over a release of a cube."""

    def contents(self) -> None:
        self.tell("reading the cube", 0.2)
        cube = ProtectedCube.of(self.release)  # refuses rows that are missing or out of order
        mode = mode_of(self.record)
        self._settings(mode, cube)
        self._parts(mode, cube)
        self._calibration(mode, cube)
        self._rows(cube)
        self._price(mode)

    def declared(self) -> Protected:
        """What the record says is protected."""
        return read_protected(self.record["protects"])

    @property
    def promised(self) -> bool:
        """Whether a cube of this mode is private; one with losses never is."""
        return str(self.record["mode"]) != AsPublished.name

    def _settings(self, mode: Mode, cube: ProtectedCube) -> None:
        """What the mode says must be what the record says, and the other way round."""
        told = mode.as_json() | cube.shape.as_json()
        told |= {"covers": mode.covers, "assumptions": mode.assumptions, "losses": mode.losses}
        words = [] if mode.losses else [s.words for s in mode.price.statements()]
        for name, value in (told | {"statements": words}).items():
            if self.record[name] != value:
                self.fault(name, "is not what the settings of the cube give")
        if mode.losses:
            self.checks.append("the cube is as published: its price covers " + mode.covers)

    def _parts(self, mode: Mode, cube: ProtectedCube) -> None:
        """Every price, mechanism and variance made anew, and every mechanism certified."""
        self.tell("certifying the noise", 0.5)
        shape, said = cube.shape, self.record["tables"]
        names = tuple(variable.name for variable in shape.variables)
        anew: dict[str, tuple[By, tuple[int, ...], Mask | None, ShiftNoise | None]]
        anew = {CELLS: (names, shape.levels, cube.present, mode.cells)}
        for number, by in enumerate(mode.controls, start=1):
            levels, possible = levels_of(shape, by), possible_of(shape, by)
            anew[control_name(number)] = (by, levels, possible, mode.tables.get(by))
        if [table["name"] for table in said] != list(anew):
            self.fault("tables", "are not the cells and the control tables of the settings")
            return
        for table, (name, (by, levels, present, noise)) in zip(said, anew.items(), strict=True):
            variance = 0.0 if noise is None else noise.variance
            others = [REFERENCE] if name == CELLS and cube.calibrated.method in RAKED else []
            entry = table_entry(name, by, levels, present, noise, variance, others)
            entry["files"] = table["files"]
            if mode.losses and noise is not None:  # as published it depends on the weights
                entry["noise_variance"] = said[0]["noise_variance"]
            if entry != table:
                self.fault(name, "is not what the price gives")
            wanted = 2 if table["rows"] <= MOST_CSV_ROWS else 1
            ends = ("parquet", "csv")[:wanted]
            if list(table["files"]) != [f"tables/{name}.{suffix}" for suffix in ends]:
                self.fault(name, "has other files than a table has")
        totals = []
        if mode.variance is not None:
            totals = [
                total_entry(replace(total, noise_variance=mode.variance.variance), mode.variance)
                for total in cube.totals
            ]
        named = [] if mode.variance is None else [self.record["squares"]]
        if totals != self.record["totals"] or [total["name"] for total in totals] != named:
            self.fault("totals", "are not what the price gives")
        laws = [mode.cells, *mode.tables.values(), *([mode.variance] if mode.variance else [])]
        distinct = set(laws)
        for noise in distinct:
            if not noise.certify().holds:
                self.fault("tables", f"{noise.name} does not keep its claim")
        several = "s keep their claims" if len(distinct) > 1 else " keeps its claim"
        self.checks.append(f"{len(distinct)} mechanism{several}, by their certificates")

    def _calibration(self, mode: Mode, cube: ProtectedCube) -> None:
        """What is said of the calibration and of sampling.

        The noisy cells as they were drawn are not published, so that a calibration cannot be done
        again; see `calibration_faults` for what is checked of it.
        """
        self.tell("checking the calibration", 0.6)
        method = cube.calibrated.method
        for place, rule in calibration_faults(mode, cube):
            self.fault(place, rule)
        if method == "rake-nonnegative" and (cube.noisy < 0).any():
            self.fault(CELLS, "has cells below 0, which its calibration cannot give")
        sampling = sampling_of(mode, cube.noisy, cube.totals)
        if (None if sampling is None else sampling.as_json()) != self.record["sampling"]:
            self.fault("sampling", "is not what the cells and the sum of squares give")
        said = "as drawn" if method == "none" else f"calibrated by {method} (not done again)"
        self.checks.append(f"the cells are {said}; variances follow from the noise")

    def _rows(self, cube: ProtectedCube) -> None:
        """Variances, and the CSV twins of small tables."""
        self.tell("checking the rows", 0.7)
        left = cube.noise_variance
        known = cube.calibrated.variances(Query([v.name for v in cube.shape.variables]))
        if cube.present is not None:
            left, known = left[cube.present], known[cube.present]
        if not (np.isfinite(left).all() and (left >= 0).all()):
            self.fault(CELLS, "has variances that are no variances")
        elif not np.allclose(left, known, rtol=1e-9, atol=_TINY * cube.drawn_variance):
            self.fault(CELLS, "has other variances than the noise")
        home = self.release.folder / "tables"
        for table in self.record["tables"]:
            if len(table["files"]) > 1 and not _alike(home, table["name"]):
                self.fault(table["name"], "differs from its CSV twin")
        count = len(self.record["tables"])
        self.checks.append(
            f"{count} table{'s have' if count > 1 else ' has'} every row in its place"
        )

    def _price(self, mode: Mode) -> None:
        """The prices of the parts must add up to the guarantee."""
        total = guarantee_of(self.record["guarantee"])
        parts = [mode.cells, *mode.tables.values(), *([mode.variance] if mode.variance else [])]
        first, *others = (part.guarantee for part in parts)
        for other in others:
            first += other
        if first != total or mode.price != total:
            self.fault("guarantee", "is not what the prices of the parts add up to")
        self.checks.append(
            f"the prices add up to epsilon {plain(total.epsilon)}, delta {plain(total.delta)}"
        )


def _alike(home: Path, name: str) -> bool:
    """Whether a table and its CSV twin say the same."""
    try:
        rows = as_text(parquet.read_table(home / f"{name}.parquet"))
        kinds = arrow_csv.ConvertOptions(
            column_types=rows.schema, strings_can_be_null=False, quoted_strings_can_be_null=False
        )
        twin = arrow_csv.read_csv(home / f"{name}.csv", convert_options=kinds)
        return bool(twin.cast(rows.schema).equals(rows))
    except (OSError, pa.ArrowException, ValueError):
        raise Refusal(f"the table {name} or its CSV twin cannot be read") from None
