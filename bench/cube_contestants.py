"""The contestants of the cubes: `python -m bench.cube_contestants NAME FOLDER` runs one.

The folder holds QUERYTOOL's 182 records in 17,280 cells, as `eree cube synth` makes them.  The
large cube is made up here: 40,000 records in 3.5 million cells of ten variables.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eree
from eree.policy.protected import protected_records
from eree.survey.bounds import Bounds
from eree.survey.cube import Sums
from eree.survey.laplace import ShiftNoise
from eree.workload import JOB

LEVELS, RECORDS = (40, 5, 5, 4, 4, 4, 3, 3, 3, 2), 40_000
MOST_WEIGHT, MOST_RECORDS = 2_000, 4
EPSILON = 2
#: Pairs of variables that the large cube is raked to, by their axes, beside all one-way tables.
PAIRS = ((0, 1), (0, 2), (1, 2), (3, 4))
#: Queries: axes of the table, and how many codes of other axes are kept.
QUERIES: Sequence[tuple[tuple[int, ...], dict[int, int]]] = (
    ((), {}),
    ((0,), {}),
    ((9,), {}),
    ((1, 2), {}),
    ((8, 9), {}),
    ((0, 1, 2), {}),
    ((3,), {1: 2, 4: 1}),
    ((0,), {0: 3, 9: 1}),
    ((2, 5), {0: 2, 3: 1, 8: 1}),
)
TIMES = 20

Integers = NDArray[np.int64]
Go = Callable[[], int]


def large_cube(levels: tuple[int, ...] = LEVELS) -> eree.Cube:
    """A cube of 3.5 million cells or others, most of them empty."""
    rng = np.random.default_rng(1)
    shape = eree.Shape(
        tuple(
            eree.Variable(f"v{axis}", f"variable {axis}", codes, codes)
            for axis, level in enumerate(levels)
            for codes in [tuple(f"code {k:02}" for k in range(level))]
        )
    )
    columns = tuple(rng.zipf(1.8, RECORDS) % level for level in levels)
    weights = rng.integers(JOB, MOST_WEIGHT * JOB, RECORDS, endpoint=True)
    counts, sums = (np.zeros(levels, dtype=np.int64) for _ in range(2))
    np.add.at(counts, columns, 1)
    np.add.at(sums, columns, weights)
    totals = weights.reshape(-1, MOST_RECORDS).sum(axis=1).astype(object)
    squares = int((weights.astype(object) ** 2).sum())
    known = Sums(RECORDS, int(weights.sum()), squares, len(totals), int((totals**2).sum()))
    protects = protected_records("data", "record", "establishment")
    return eree.Cube(shape, protects, counts, sums, known, MOST_WEIGHT * JOB, MOST_RECORDS)


def small_cube(folder: Path) -> eree.Cube:
    given = {"most_weight": MOST_WEIGHT, "most_records": MOST_RECORDS}
    return eree.build_cube(eree.read_survey(folder, replicates=False), **given)


def protected(cube: eree.Cube, home: Path, **given: Any) -> eree.ProtectedCube:
    """A whole release: paid from a ledger, drawn, calibrated, written, on disk, settled, read."""
    ledger = eree.Ledger.open(home / "ledger.db")
    settings: Any = {"epsilon": EPSILON, "unit": "establishment", "ledger": ledger}
    return eree.protect_cube(cube, out=home / "out", **settings | given)


def new_home(folder: Path) -> Path:
    home = Path(tempfile.mkdtemp(dir=folder))
    total = eree.Guarantee(eree.ESTABLISHMENT, EPSILON)
    eree.Ledger.create(home / "ledger.db", total, data_set="data")
    return home


def from_records(method: str, folder: Path) -> Go:
    home = new_home(folder)
    return lambda: protected(small_cube(folder), home, calibration=method).shape.size


def large(folder: Path, **given: Any) -> Go:
    home, cube = new_home(folder), large_cube()
    return lambda: protected(cube, home, **given).shape.size


def raked(method: str, folder: Path) -> Go:
    names = [(f"v{axis}",) for axis in range(len(LEVELS))]
    names += [(f"v{one}", f"v{other}") for one, other in PAIRS]
    return large(folder, controls=names, calibration=method)


def float_laplace(_folder: Path) -> Go:
    cells, rng = large_cube().weighted, np.random.default_rng()
    return lambda: (cells + rng.laplace(scale=1e7, size=cells.shape)).size


def exact_laplace(_folder: Path) -> Go:
    cells, random = large_cube().weighted, eree.Random()
    shift = Bounds(MOST_WEIGHT * JOB, MOST_RECORDS).shift("establishment")
    noise = ShiftNoise.calibrate(eree.Guarantee(eree.ESTABLISHMENT, EPSILON), shift)
    return lambda: (cells + noise.draw(cells.size, random).reshape(cells.shape)).size


def asked(cube: eree.ProtectedCube) -> list[eree.Query]:
    variables = cube.shape.variables
    return [
        eree.Query(
            [variables[axis].name for axis in by],
            {variables[axis].name: variables[axis].codes[:kept] for axis, kept in where.items()},
        )
        for by, where in QUERIES
    ]


def cube_to_ask(size: str, folder: Path) -> eree.ProtectedCube:
    home = new_home(folder)
    return protected(large_cube() if size == "large" else small_cube(folder), home)


def numpy_sums(size: str, folder: Path) -> Go:
    """Plain sums over axes, after the codes that are kept were cut out."""
    cells = cube_to_ask(size, folder).noisy

    def sums(by: tuple[int, ...], where: dict[int, int]) -> NDArray[np.int64]:
        kept = cells[tuple(slice(where.get(axis)) for axis in range(cells.ndim))]
        return kept.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in by))

    return lambda: [sums(by, where) for _ in range(TIMES) for by, where in QUERIES] and TIMES


def our_sums(size: str, folder: Path) -> Go:
    cube = cube_to_ask(size, folder)
    queries, ask = asked(cube), cube.calibrated.table
    return lambda: [ask(query) for _ in range(TIMES) for query in queries] and TIMES


def our_answers(size: str, folder: Path) -> Go:
    cube = cube_to_ask(size, folder)
    queries = asked(cube)

    def ask(query: eree.Query) -> Any:
        return cube.table(query).interval()

    return lambda: [ask(query) for _ in range(TIMES) for query in queries] and TIMES


METHODS = ("least-squares", "rake", "rake-nonnegative")
CONTESTANTS: dict[str, Callable[[Path], Go]] = {
    **{f"from records, {method}": partial(from_records, method) for method in METHODS},
    "NumPy, float Laplace noise alone": float_laplace,
    "eree, exact noise alone": exact_laplace,
    "eree, no calibration": partial(large, calibration="none"),
    "eree, least-squares": large,
    **{f"eree, {method} to 14 tables": partial(raked, method) for method in METHODS},
    **{
        f"{name}, {size}": partial(way, size)
        for size in ("small", "large")
        for name, way in (
            ("NumPy, sums", numpy_sums),
            ("eree, sums", our_sums),
            ("eree, intervals", our_answers),
        )
    },
}


def main() -> None:
    name, folder = sys.argv[1:]
    go = CONTESTANTS[name](Path(folder))
    if "sums" in name or "intervals" in name:
        go()  # sums that are kept are there from the first question on
    began = time.perf_counter()
    rows = go()
    seconds = time.perf_counter() - began
    # not getrusage: its peak counts the moment before this program replaced its parent
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "rows": rows}))


if __name__ == "__main__":
    main()
