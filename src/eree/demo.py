"""The demonstration: a made-up population through everything eree can do so far."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.data.synthetic import synthesize
from eree.data.tables import load
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.figures import exposure_figure

#: Place populations that the papers report apart: the lower end of each stratum.
STRATA = {"under 100": 0, "100 to 10k": 100, "10k to 100k": 10_000, "100k and more": 100_000}
MARK = "demo.json"


@dataclass(frozen=True)
class Exposure:
    """How exposed the cells of one stratum of places are.

    `alone` is the share of cells with one workplace only, `dominated` the share of those with
    several of which one holds half the jobs or more.
    """

    stratum: str
    cells: int
    alone: float
    dominated: float


@dataclass(frozen=True)
class Findings:
    """What the demonstration shows.  Its data are made up: nothing here is confidential."""

    jobs: int
    workplaces: int
    worker_cells: int
    empty_worker_cells: int
    exposure: tuple[Exposure, ...]
    files: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        return asdict(self) | {"files": [str(path) for path in self.files]}


def run_demo(
    out: Path,
    *,
    jobs: int = 250_000,
    seed: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> Findings:
    """Make a population in `out/data`, check it, count it, and draw what has to be protected."""
    tell = progress or (lambda _step, _done: None)
    _clear(out)
    synthesize(out / "data", jobs=jobs, seed=seed, progress=lambda s, f: tell(s, 0.4 * f))
    tables = load(out / "data", progress=lambda s, f: tell(s, 0.4 + 0.3 * f))
    tell("counting by place, sector and ownership", 0.7)
    by = ["place", "sector", "ownership"]
    cells = tabulate(tables, by=by).confidential
    tell("counting by sex and education too", 0.8)
    fine = tabulate(tables, by=[*by, "sex", "education"]).confidential["count"].to_numpy()
    tell("drawing", 0.9)
    count, largest = cells["count"].to_numpy(), cells["largest"].to_numpy()
    places = parquet.read_table(out / "data" / "place.parquet")
    row = pc.index_in(cells["place"], places["place"])
    population = places["population"].take(row).to_numpy()
    stratum = np.searchsorted(np.array(list(STRATA.values())), population, side="right")
    exposure = tuple(
        _exposure(
            name, *(a[stratum == i] for a in (count, largest, cells["workplaces"].to_numpy()))
        )
        for i, name in enumerate(STRATA, start=1)
    )
    picture = out / "exposure.png"
    exposure_figure(
        picture,
        counts=count,
        strata=[e.stratum for e in exposure],
        alone=[e.alone for e in exposure],
        dominated=[e.dominated for e in exposure],
    )
    findings = Findings(
        jobs=int(count.sum()),
        workplaces=tables.workplaces,
        worker_cells=len(fine),
        empty_worker_cells=int((fine == 0).sum()),
        exposure=exposure,
        files=(out / "data" / "schema.toml", picture),
    )
    (out / MARK).write_text(json.dumps(findings.as_json(), indent=2) + "\n", encoding="utf-8")
    tell("done", 1.0)
    return findings


def _clear(out: Path) -> None:
    """Make room: a new folder, or one that an earlier demonstration left."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).exists():
        raise Refusal(f"{out} holds other files; name a new folder with --out")
    if out.exists() and not out.is_dir():
        raise Refusal(f"{out} is a file; name a new folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).write_text("{}\n", encoding="utf-8")


def _exposure(
    name: str, count: NDArray[np.int64], largest: NDArray[np.int64], workplaces: NDArray[np.int64]
) -> Exposure:
    alone = workplaces == 1
    dominated = ~alone & (2 * largest >= count) & (count > 0)
    cells = len(count)
    return Exposure(
        name, cells, float(alone.sum() / max(cells, 1)), float(dominated.sum() / max(cells, 1))
    )
