"""Noisy sums of squares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoisyTotal:
    """A noisy sum of squares, in squared thousandths of a job.

    Attributes:
        name: What was added up.
        noisy: The noisy sum.
        noise_variance: The variance of its noise.

    Examples:
        >>> eree.ProtectedCube.open("public").totals[0].noise_variance > 0
        True
    """

    name: str
    noisy: int
    noise_variance: float
