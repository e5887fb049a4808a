"""The error that a mechanism is expected to make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ExpectedError:
    """The error of one noisy count, noisy minus true.

    Attributes:
        mean_absolute: The mean of its size.
        root_mean_square: The root of its mean square.
        quantiles: For some levels the least integer that its size keeps to with that probability.

    Examples:
        >>> made = eree.mechanism("edge-geometric", epsilon=1)
        >>> round(made.expected_error(eree.Cell(120)).mean_absolute, 2)
        0.85
    """

    mean_absolute: float
    root_mean_square: float
    quantiles: Mapping[float, int]
