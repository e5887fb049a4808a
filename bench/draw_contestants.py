"""The contestants of the draws: `python -m bench.draw_contestants NAME` runs one, prints JSON.

All go from the counts and sizes of the same cells to noisy counts.  Each draws once before the
clock starts, so that none pays for what happens on first use; for `eree` this is also where the
tries that doubles leave undecided are counted, which would cost time under the clock.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

import eree
from eree.random import exact

CELLS = 1_000_000
#: OpenDP takes hundreds of times as long for a draw; so many are enough to time it.
FEWER_CELLS = 100_000
ALPHA, EPSILON = "0.1", "2"

Integers = NDArray[np.int64]
Go = Callable[[], int]


def cells() -> tuple[Integers, Integers]:
    """Counts and largest workplaces, heavy-tailed; half of the cells have the least scale, 1."""
    rng = np.random.default_rng(1)
    counts = np.minimum(10 * (1 + rng.pareto(1.0, CELLS)), 1e7).astype(np.int64)
    return counts, np.ceil(counts * rng.random(CELLS)).astype(np.int64)


def scales(largests: Integers) -> NDArray[np.float64]:
    """The scales of the Laplace noise of `smooth-laplace`, for its rivals."""
    return np.maximum(float(ALPHA) * largests, 1.0) * (2 / float(EPSILON))


def ours(name: str, counts: Integers, largests: Integers) -> Go:
    mechanism, random = eree.mechanism(name, alpha=ALPHA, epsilon=EPSILON), eree.Random()
    return lambda: len(mechanism.draw(counts, largests, random=random))


def float_laplace(counts: Integers, largests: Integers) -> Go:
    """The fastest float way; the noisy counts are left as floats, not rounded."""
    rng = np.random.default_rng()
    return lambda: len(counts + scales(largests) * rng.laplace(size=len(counts)))


def float_laplace_scales(counts: Integers, largests: Integers) -> Go:
    """What anyone would write; NumPy takes longer where every draw has a scale of its own."""
    rng = np.random.default_rng()
    return lambda: len(counts + rng.laplace(scale=scales(largests)))


def opendp(counts: Integers, largests: Integers) -> Go:
    """OpenDP takes one scale for all counts of a call; its speed hardly depends on which."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    noisy = dp.m.make_laplace(*space, scale=float(scales(largests).mean()))
    some = counts[:FEWER_CELLS]
    return lambda: len(noisy(some))


CONTESTANTS: dict[str, Callable[[Integers, Integers], Go]] = {
    "NumPy, float Laplace": float_laplace,
    "NumPy, float Laplace given the scales": float_laplace_scales,
    **{f"eree, {name}": partial(ours, name) for name in eree.MECHANISMS},
    "OpenDP, discrete Laplace": opendp,
}


def undecided(go: Go) -> int:
    """How many tries of a run are decided in interval arithmetic."""
    settled, settle = [], exact.settle
    exact.settle = lambda *given: settled.append(None) or settle(*given)
    try:
        go()
    finally:
        exact.settle = settle
    return len(settled)


def main() -> None:
    go = CONTESTANTS[sys.argv[1]](*cells())
    slow = undecided(go)
    began = time.perf_counter()
    draws = go()
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "draws": draws, "undecided": slow}))


if __name__ == "__main__":
    main()
