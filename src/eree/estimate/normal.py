"""Normal distributions at the points of a grid, and the posterior of the points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from eree.random.exact import Array, Integers


@dataclass(frozen=True)
class NormalDistributions:
    """Normal distributions of rows of d numbers, one for each point of a grid."""

    mean: Array  # (points, d)
    precision: Array  # (points, d, d)
    log_size: Array  # (points,), the logarithm of the density at its middle

    @classmethod
    def of(cls, mean: Array, covariance: Array) -> Self:
        """Distributions with these means and covariances."""
        precision: Array = np.linalg.inv(covariance).astype(np.float64)
        return cls(mean, precision, -np.linalg.slogdet(covariance)[1] / 2)

    def log_density(self, seen: Array) -> Array:
        """The logarithm of the density, for every row and point."""
        one, two = np.triu_indices(seen.shape[1])
        pulled = (self.precision @ self.mean[:, :, None])[:, :, 0]
        halves = np.where(one == two, 0.5, 1.0) * self.precision[:, one, two]
        found: Array = seen @ pulled.T - _pairs(seen) @ halves.T
        found += self.log_size - (pulled * self.mean).sum(1) / 2
        return found

    def posterior(self, seen: Array, log_prior: Array) -> Array:
        """Posterior probabilities of the points for every row; the prior need not add up to 1."""
        logs = self.log_density(seen) + log_prior
        found: Array = np.exp(logs - logs.max(1, keepdims=True))
        found /= found.sum(1, keepdims=True)
        return found

    def squares_about(self, seen: Array, posterior: Array) -> Array:
        """The sums of (row - mean)(row - mean)' at every point, weighted by the posterior."""
        d, weight = seen.shape[1], posterior.sum(0)
        cross = (posterior.T @ seen)[:, :, None] * self.mean[:, None, :]
        one, two = np.triu_indices(d)
        about = np.empty((len(weight), d, d))
        about[:, one, two] = about[:, two, one] = posterior.T @ _pairs(seen)
        about -= cross + cross.swapaxes(1, 2)
        about += weight[:, None, None] * self.mean[:, :, None] * self.mean[:, None, :]
        return about


def evenly(number: int, most: int) -> Integers:
    """At most so many places out of a number of them, evenly spread."""
    return np.arange(0, number, max(1, -(-number // most)))


def _pairs(rows: Array) -> Array:
    """The product of every two numbers of a row, each pair once."""
    one, two = np.triu_indices(rows.shape[1])
    return rows[:, one] * rows[:, two]
