"""A survey that was checked: its records, which are confidential, or its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eree.errors import Fault, how_many
from eree.survey.declaration import Declaration
from eree.survey.shape import Integers, Reals, Shape


@dataclass(frozen=True, repr=False, eq=False)
class Survey:
    """Records of a survey that passed every check.  Confidential: printing shows the shape only.

    Attributes:
        folder: Where they are.
        declaration: What `survey.toml` says.
        answers: For each variable, the place of every record on its axis.
        weights: In thousandths of a job, rounded to the nearest, halves to even.
        establishments: The number of each record's establishment, from 0 on.
        ids: The texts that name the records.
        replicates: Replicate weights, a row for each replicate, if declared and asked for.

    Examples:
        >>> eree.read_survey("survey").shape.levels
        (5, 3, 2)
    """

    folder: Path
    declaration: Declaration
    answers: Mapping[str, NDArray[np.int32]] = field(repr=False)
    weights: Integers = field(repr=False)
    establishments: Integers = field(repr=False)
    ids: pa.ChunkedArray[Any] = field(repr=False)
    replicates: Reals | None = field(default=None, repr=False)

    @property
    def shape(self) -> Shape:
        """The shape of the cube of all variables."""
        return self.declaration.shape

    def positions(self, shape: Shape | None = None) -> Integers:
        """The cell of every record in a cube, numbered in the order of its axes, the last fastest.

        Without a shape, in the cube of all variables.
        """
        chosen = shape or self.shape
        found = np.zeros(len(self.weights), dtype=np.int64)
        for variable in chosen.variables:
            found *= len(variable.codes)
            found += self.answers[variable.name]
        return found

    @cached_property
    def order(self) -> Integers:
        """The records in the order of their ids: shorter ids first, then by their characters.

        So 9 comes before 10; and how two records compare depends on nothing but their two ids.
        """
        keys = pa.table({"length": pc.binary_length(self.ids), "id": self.ids})
        by: list[tuple[str, Literal["ascending", "descending"]]]
        by = [("length", "ascending"), ("id", "ascending")]
        return pc.sort_indices(keys, sort_keys=by).to_numpy().astype(np.int64)

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.shape.variables)
        return f"<Survey in {self.folder}: records of {names}, confidential>"


@dataclass(frozen=True, repr=False)
class CheckedSurvey:
    """What a check of a survey found; false if there is a fault.

    Attributes:
        survey: The survey if it is sound, else None.
        faults: Every fault.

    Examples:
        >>> eree.check_survey("survey").faults
        ()
    """

    survey: Survey | None
    faults: tuple[Fault, ...]

    def __bool__(self) -> bool:
        return self.survey is not None

    def __repr__(self) -> str:
        found = "; ".join(map(str, self.faults)) or str(self.survey)
        return f"<CheckedSurvey, {how_many(len(self.faults), 'fault')}: {found}>"
