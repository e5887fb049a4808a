"""Sums of geometric noise: the tails that intervals of whole groups need."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from eree.random.exact import Array, Integers

#: Tails below e^-70 are taken to be e^-70.
_LOST = 70


@lru_cache(maxsize=64)
def geometric_sum_tails(rate: float, width: int) -> Callable[[Integers], Array]:
    """The probability that the size of the sum of d geometric numbers is at least k >= 1.

    With q = e^-rate the sum is the difference of two numbers of C(n + d - 1, d - 1) q^n (1 - q)^d.
    So it is n >= 0 with the probability (1 - q)^(2 d) times the sum over j of
    C(n + j + d - 1, d - 1) C(j + d - 1, d - 1) q^(n + 2 j), and as the first factor is the sum over
    i of C(j, i) C(n + d - 1, d - 1 - i),

        (1 - q)^(2 d) q^n times the sum over i < d of
        C(n + d - 1, d - 1 - i) C(d - 1 + i, i) q^(2 i) / (1 - q^2)^(d + i).

    Each of the two is at most a Gamma(d) number over the rate, which is at least
    d + sqrt(2 d t) + t with a probability of at most e^-t.
    """
    from scipy.special import gammaln, logsumexp

    d, q = width, np.exp(-rate)
    last = ceil((d + sqrt(2 * d * _LOST) + _LOST) / rate)
    n, i = np.arange(last + 1)[:, None], np.arange(d)
    logs = gammaln(n + d) - gammaln(d - i) - gammaln(n + i + 1) - rate * (n + 2 * i)
    logs += gammaln(d + i) - gammaln(d) - gammaln(i + 1) - (d + i) * np.log1p(-q * q)
    at = np.exp(logsumexp(logs, axis=1) + 2 * d * np.log1p(-q))
    tails = np.minimum(2 * np.cumsum(at[::-1])[::-1] + np.exp(-_LOST), 1.0)

    def tail(k: Integers) -> Array:
        found: Array = tails[np.minimum(k, last)]
        return found

    return tail
