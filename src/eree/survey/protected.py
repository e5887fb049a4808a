"""A protected cube: public for ever, and all that a query tool reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eree.errors import Refusal, Unreadable
from eree.policy.guarantee import Guarantee
from eree.release.release import Release
from eree.survey.calibrate.calibration import Calibrated, NoiseModel, Sums
from eree.survey.calibrate.controls import Control, check_controls
from eree.survey.estimates import Estimates, SamplingModel
from eree.survey.files import (
    CELLS,
    MISWRITTEN,
    REFERENCE,
    control_name,
    present_in,
    read_table,
    shape_of,
    total_of,
)
from eree.survey.noisy_total import NoisyTotal
from eree.survey.query import Query
from eree.survey.settings import RAKED
from eree.survey.shape import Integers, Mask, Reals, Shape
from eree.workload import JOB


@dataclass(frozen=True, eq=False, repr=False)
class ProtectedCube:
    """The cells of a protected cube in memory, with what is known of their noise.

    Attributes:
        release: The release that holds it.
        shape: Its variables; arrays have an axis for each.
        calibrated: Employment in thousandths of a job, so that every table is an exact sum, and the
            noise in each.
        noise_variance: That of each cell as the file has it, in squared thousandths.
        sampling: The model of the survey's own error, where its squares were paid for.
        controls: Control tables, as they were drawn.
        totals: Noisy sums of squares, as they were drawn.

    Examples:
        >>> eree.ProtectedCube.open("public").noisy.shape
        (5, 3, 2)
    """

    release: Release
    shape: Shape
    calibrated: Calibrated
    noise_variance: Reals
    sampling: SamplingModel | None
    controls: tuple[Control, ...]
    totals: tuple[NoisyTotal, ...]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> ProtectedCube:
        """Read a protected cube; `eree verify` checks that it is untouched."""
        return cls.of(Release.open(folder))

    @classmethod
    def of(cls, release: Release) -> ProtectedCube:
        """The cube of a release that was opened."""
        record = release.record
        shape = shape_of(record)
        try:
            cells, *tables = record["tables"]
            home, others = release.folder / "tables", tuple(map(str, cells["columns"]))
            if others != ((REFERENCE,) if record["calibration"]["method"] in RAKED else ()):
                raise ValueError
            present = shape.possible
            if record["mode"] == "as-published" and record["keep_empty"] != "1":
                present = present_in(_file(home, CELLS), shape.variables, present)
            noisy, variances, columns = read_table(
                _file(home, CELLS), shape.variables, present, others
            )
            controls = tuple(_control(home, i, said, shape) for i, said in enumerate(tables, 1))
            check_controls(shape, [control.variables for control in controls])
            noise, report = _noise(record, shape, controls)
            said = record["sampling"]
            sampling = None if said is None else SamplingModel.from_json(said)
            totals = tuple(map(total_of, record["totals"]))
        except (Refusal, *MISWRITTEN) as error:
            if isinstance(error, Unreadable):
                raise
            raise Unreadable(
                f"what {release.folder} says of its cube cannot be read; run 'eree verify'"
            ) from None
        for array in (noisy, variances, *columns.values()):
            array.flags.writeable = False
        calibrated = Calibrated(noisy, noise, report, columns.get(REFERENCE), present)
        return cls(release, shape, calibrated, variances, sampling, controls, totals)

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.shape.variables)
        return f"<ProtectedCube of {names}: {self.shape.size:,} cells, {self.mode}>"

    @property
    def noisy(self) -> Integers:
        """Employment in every cell, in thousandths of a job; 0 where a cell cannot be."""
        return self.calibrated.cells

    @property
    def present(self) -> Mask | None:
        """Which cells have a row, where not all have; all others hold 0."""
        return self.calibrated.present

    @property
    def mode(self) -> str:
        """How it was protected: `guaranteed` or `as-published`."""
        return str(self.release.record["mode"])

    @property
    def guarantee(self) -> Guarantee:
        """What was paid; `covers` says for what."""
        return self.release.guarantee

    @property
    def covers(self) -> str:
        """What the guarantee is one for."""
        return str(self.release.record["covers"])

    @property
    def drawn_variance(self) -> float:
        """The variance of the noise of a cell as it was drawn, before any calibration."""
        return self.calibrated.noise.cell

    @property
    def calibration(self) -> Mapping[str, Any]:
        """How it was calibrated, and what came of it."""
        said: Mapping[str, Any] = self.release.record["calibration"]
        return said

    def total(self, name: str) -> NoisyTotal | None:
        """A noisy sum of squares, if it was paid for."""
        return next((total for total in self.totals if total.name == name), None)

    def table(self, query: Query) -> Estimates:
        """Answer a query: sums of cells, exact to the last digit, with their standard errors.

        Nothing but published values goes into it, so asking costs nothing, however often.
        """
        return self._estimates(query, self.calibrated.sums(query))

    def tables(self, query: Query, coarser: Iterable[tuple[str, ...]]) -> list[Estimates]:
        """A table, and coarser ones by some of its variables, from one look at the cells.

        Every one of them is what `table` says of the same query by fewer variables.
        """
        sums = self.calibrated.sums(query)
        others = [query.coarser(by, self.shape) for by in coarser]
        return [
            self._estimates(query, sums),
            *(self._estimates(other, sums.by(other.by)) for other in others),
        ]

    def _estimates(self, query: Query, sums: Sums) -> Estimates:
        sampling = None
        if self.sampling is not None:
            sides = zip(self.shape.variables, query.sides(self.shape), strict=True)
            fixed = [variable.name for variable, side in sides if side.single]
            sampling = self.sampling.variances(sums.values, fixed)
        return Estimates(
            query,
            sums.axes,
            sums.values,
            self.calibrated.variances(query, sums),
            sampling,
            bounded=self.calibrated.method in RAKED,
            absent=None if sums.counts is None else sums.counts == 0,
        )


def _noise(
    record: Mapping[str, Any], shape: Shape, controls: tuple[Control, ...]
) -> tuple[NoiseModel, dict[str, Any]]:
    """The noise of a cube, from what its record says of the tables and of the calibration."""
    report = dict(record["calibration"])
    method = report.pop("method")
    cell = float(np.float64(record["tables"][0]["noise_variance"])) * JOB**2
    used = tuple(control.noise for control in controls) if method != "none" else ()
    return NoiseModel(shape, method, cell, used), report


def _control(home: Path, number: int, said: Mapping[str, Any], shape: Shape) -> Control:
    by = tuple(map(str, said["by"]))
    variables = [shape.variable(name) for name in by]
    name, possible = control_name(number), shape.possible_in(by)
    noisy, variances, _ = read_table(_file(home, name), variables, possible)
    variance = float(np.float64(said["noise_variance"])) * JOB**2
    if not (variances == (variance if possible is None else variance * possible)).all():
        raise Unreadable(f"{name}.parquet has other variances than its record says")
    noisy.flags.writeable = False
    return Control(by, noisy, variance)


def _file(home: Path, name: str) -> Path:
    return home / f"{name}.parquet"
