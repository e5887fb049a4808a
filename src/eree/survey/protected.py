"""A protected cube: public for ever, and all that a query tool reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eree.errors import Unreadable
from eree.noise.exact import Whole
from eree.noise.thousandths import JOB
from eree.policy.guarantee import Guarantee
from eree.release.release import Release
from eree.survey.columns import Mask, present_in, read_table
from eree.survey.cube_record import CELLS, MISWRITTEN, control_name, shape_of, total_of
from eree.survey.noisy import NoisyTable, NoisyTotal, Variances, check_controls, possible_of
from eree.survey.shape import Shape


@dataclass(frozen=True, eq=False, repr=False)
class ProtectedCube:
    """The cells of a protected cube in memory, with what is known of their noise.

    Arrays have an axis for each variable.  `noisy` is employment in thousandths of a job, so that
    every table is an exact sum; `noise_variance` is the variance of the noise of each cell after
    calibration, in squared thousandths; `columns` are what a calibration published besides.
    `present` says which cells have a row, where not all have; all others hold 0.
    """

    release: Release
    shape: Shape
    noisy: Whole
    noise_variance: Variances
    controls: tuple[NoisyTable, ...]
    totals: tuple[NoisyTotal, ...]
    columns: Mapping[str, Whole]
    present: Mask | None

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
            present = shape.possible
            if record["mode"] == "as-published" and record["keep_empty"] != "1":
                present = present_in(_file(home, CELLS), shape.variables, present)
            noisy, variances, columns = read_table(
                _file(home, CELLS), shape.variables, present, others
            )
            controls = tuple(_control(home, i, said, shape) for i, said in enumerate(tables, 1))
            check_controls(shape, [table.by for table in controls])
            totals = tuple(map(total_of, record["totals"]))
        except MISWRITTEN:
            raise Unreadable(
                f"what {release.folder} says of its cube cannot be read; run 'eree verify'"
            ) from None
        for array in (noisy, variances, *columns.values()):
            array.flags.writeable = False
        return cls(release, shape, noisy, variances, controls, totals, columns, present)

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.shape.variables)
        return f"<ProtectedCube of {names}: {self.shape.size:,} cells, {self.mode}>"

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
        return float(self.release.record["tables"][0]["noise_variance"]) * JOB**2

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """What the calibration says of itself; None where there was none."""
        said: Mapping[str, Any] | None = self.release.record["calibration"]
        return said

    def total(self, name: str) -> NoisyTotal | None:
        """A noisy sum of squares, if it was paid for."""
        return next((total for total in self.totals if total.name == name), None)


def _control(home: Path, number: int, said: Mapping[str, Any], shape: Shape) -> NoisyTable:
    by = tuple(map(str, said["by"]))
    variables = [shape.variable(name) for name in by]
    noisy, _, _ = read_table(_file(home, control_name(number)), variables, possible_of(shape, by))
    noisy.flags.writeable = False
    return NoisyTable(by, noisy, float(np.float64(said["noise_variance"])) * JOB**2)


def _file(home: Path, name: str) -> Path:
    return home / f"{name}.parquet"
