"""What `release.json` says of a protected cube: its shape, its tables and its totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from eree.errors import Refusal, Unreadable
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import guarantee_as_json
from eree.random.exact import Whole
from eree.survey.as_published import AsPublished
from eree.survey.bounds import By
from eree.survey.columns import Mask, rows_of
from eree.survey.guaranteed import Guaranteed
from eree.survey.laplace import ShiftNoise
from eree.survey.noisy import NoisyTotal
from eree.survey.shape import Shape
from eree.survey.variances import SamplingModel
from eree.workload import JOB

KIND = "cube"
CELLS = "cells"
#: The column of the least squares cube that the bound of a raked one needs.
REFERENCE = "reference"
#: What a record of another form than ours raises where it is believed.
MISWRITTEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def control_name(number: int) -> str:
    """The name of the file of a control table, counted from 1."""
    return f"control-{number}"


def shape_of(record: Mapping[str, Any]) -> Shape:
    """The shape of the cube that a record speaks of."""
    if record.get("kind") != KIND:
        raise Unreadable("the release holds tables of linked data and no cube")
    try:
        return Shape.of_json(record).checked()
    except (Refusal, *MISWRITTEN):
        raise Unreadable("the record of the cube has variables that cannot be read") from None


def table_entry(
    name: str,
    by: By,
    levels: Sequence[int],
    present: Mask | None,
    noise: ShiftNoise | None,
    variance: float,
    others: Sequence[str] = (),
) -> dict[str, Any]:
    """What a record says of a table, but its files.

    `variance` is that of the noise as it was drawn, in squared thousandths of a job.
    """
    return {
        "name": name,
        "by": list(by),
        "rows": rows_of(levels, present),
        "columns": list(others),
        **_law(noise),
        "noise_variance": variance / JOB**2,
    }


def total_entry(total: NoisyTotal, noise: ShiftNoise) -> dict[str, Any]:
    """What a record says of a sum of squares, in squared jobs."""
    return {
        "name": total.name,
        "noisy": plain(Fraction(total.noisy, JOB**2)),
        **_law(noise),
        "noise_variance": total.noise_variance / JOB**4,
    }


def total_of(said: Mapping[str, Any]) -> NoisyTotal:
    """The sum of squares that a record speaks of."""
    noisy = exact(said["noisy"], "a sum of squares") * JOB**2
    if noisy.denominator > 1:
        raise Unreadable("the record of the cube has a sum of squares that cannot be read")
    return NoisyTotal(_text(said["name"]), int(noisy), float(said["noise_variance"]) * JOB**4)


def sampling_of(
    mode: Guaranteed | AsPublished, cells: Whole, totals: Sequence[NoisyTotal]
) -> SamplingModel | None:
    """The model of sampling variances from published cells and the sum of squares, if there is one.

    An establishment weighs at most as much as all the records that it may have.
    """
    if not isinstance(mode, Guaranteed) or mode.squares is None:
        return None
    (squares,) = totals
    records = mode.bounds.records if mode.squares == "establishments" else 1
    most = (mode.bounds.weight or 0) * (records or 1)
    total = int(cells.sum(dtype=np.int64))
    return SamplingModel.of_whole(total, float(squares.noisy), squares.noise_variance, most)


def levels_of(shape: Shape, by: By) -> tuple[int, ...]:
    """The numbers of codes of some variables."""
    return tuple(np.take(shape.levels, shape.axes(by)).tolist()) if by else ()


def _law(noise: ShiftNoise | None) -> dict[str, Any]:
    """The price and the mechanism of a part; without noise there is none."""
    if noise is None:
        return {"price": None, "mechanism": "none", "parameters": {}}
    return {
        "price": guarantee_as_json(noise.guarantee),
        "mechanism": noise.name,
        "parameters": noise.parameters,
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
