"""The demonstration: a made-up population through everything eree can do so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from eree.data.synthetic import synthesize
from eree.data.synthetic.writing import appearing_whole
from eree.data.tables import load
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.figures import exposure_figure

#: Place populations that the papers report apart: the lower end of each stratum.
STRATA = {"under 100": 0, "100 to 10k": 100, "10k to 100k": 10_000, "100k and more": 100_000}
MARK = "demo.json"
#: All that a demonstration leaves.
OWN = frozenset(
    (
        *(MARK, "exposure.png", "data", "data/schema.toml"),
        *(f"data/{table}.parquet" for table in ("workplace", "worker", "job", "place")),
    )
)


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
        return asdict(self) | {
            "exposure": [asdict(row) for row in self.exposure],
            "files": [str(path) for path in self.files],
        }


def run_demo(
    out: Path,
    *,
    jobs: int = 250_000,
    seed: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> Findings:
    """Make a population in `out/data`, check it, count it, and draw what has to be protected.

    The folder appears whole or not at all; what an earlier demonstration left there is replaced.
    """
    tell = progress or (lambda _step, _done: None)
    target = out.resolve()
    _refuse_what_is_not_ours(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with appearing_whole(target) as partial:
        findings = _findings(partial, jobs, seed, tell)
        named = replace(findings, files=tuple(out / path for path in findings.files))
        text = json.dumps(named.as_json(), indent=2) + "\n"
        (partial / MARK).write_text(text, encoding="utf-8")
        _refuse_what_is_not_ours(out)
        if target.exists():
            target.rename(partial.with_name("earlier"))  # it vanishes with the partial folder
    tell("done", 1.0)
    return named


def _findings(folder: Path, jobs: int, seed: int, tell: Callable[[str, float], None]) -> Findings:
    """The demonstration itself; the files are named from `folder` on."""
    data, picture = Path("data"), Path("exposure.png")
    synthesize(folder / data, jobs=jobs, seed=seed, progress=lambda s, f: tell(s, 0.4 * f))
    tables = load(folder / data, progress=lambda s, f: tell(s, 0.4 + 0.3 * f))
    tell("counting by place, sector and ownership", 0.7)
    by = ["place", "sector", "ownership"]
    cells = tabulate(tables, by=by).confidential
    tell("counting by sex and education too", 0.8)
    fine = tabulate(tables, by=[*by, "sex", "education"]).confidential["count"].to_numpy()
    tell("drawing", 0.9)
    count, largest = cells["count"].to_numpy(), cells["largest"].to_numpy()
    places = parquet.read_table(folder / data / "place.parquet")
    row = pc.index_in(cells["place"], places["place"])
    population = places["population"].take(row).to_numpy()
    stratum = np.searchsorted(np.array(list(STRATA.values())), population, side="right")
    exposure = tuple(
        _exposure(
            name, *(a[stratum == i] for a in (count, largest, cells["workplaces"].to_numpy()))
        )
        for i, name in enumerate(STRATA, start=1)
        if (stratum == i).any()
    )
    exposure_figure(
        folder / picture,
        counts=count,
        strata=[e.stratum for e in exposure],
        alone=[e.alone for e in exposure],
        dominated=[e.dominated for e in exposure],
    )
    return Findings(
        jobs=int(count.sum()),
        workplaces=tables.workplaces,
        worker_cells=len(fine),
        empty_worker_cells=int((fine == 0).sum()),
        exposure=exposure,
        files=(data / "schema.toml", picture),
    )


def _refuse_what_is_not_ours(out: Path) -> None:
    """Only a new or empty folder, or one that holds an earlier demonstration and nothing else."""
    if out.exists() and not out.is_dir():
        raise Refusal(f"{out} is a file; name a new folder with --out")
    if not out.exists():
        return
    found = {str(path.relative_to(out)) for path in out.rglob("*")}
    if found and (MARK not in found or found - OWN):
        raise Refusal(
            f"{out} holds files that the demonstration did not make; name a new folder with --out"
        )


def _exposure(
    name: str, count: NDArray[np.int64], largest: NDArray[np.int64], workplaces: NDArray[np.int64]
) -> Exposure:
    alone = workplaces == 1
    dominated = ~alone & (2 * largest >= count) & (count > 0)
    return Exposure(name, len(count), float(alone.mean()), float(dominated.mean()))
