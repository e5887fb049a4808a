"""The demonstration, in a folder that appears whole or not at all, and what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eree.budget.ledger import Ledger
from eree.data.tables import load
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.estimate.estimates import write_estimates
from eree.estimate.memo import memo
from eree.estimate.predict import TableAccuracy, expected_accuracy
from eree.estimate.rank import Ranking, rank
from eree.partial import appearing_folder
from eree.policy.guarantee import Guarantee
from eree.policy.plain_data import guarantee_as_json
from eree.release.plan import Plan
from eree.release.publish import publish
from eree.verification.recheck import Verification
from eree.verification.verify import verify
from eree_study.demo.accuracy import ALL, Accuracy, Compared, Exposure
from eree_study.demo.survey import OWN as SURVEY_OWN
from eree_study.demo.survey import SHOWN as SURVEY_SHOWN
from eree_study.demo.survey import SurveyFindings, survey_findings
from eree_study.figures.population import Released, exposure_figure, released_figure
from eree_study.synth import synthesize
from eree_study.synth.population import Progress

PLAN = """\
# The plan of the demonstration.  What it costs, and how good it will be: eree plan plan.toml
data = "data"                     # the folder with schema.toml, from here on
level = "0.9"                     # the probability that an interval holds the true count

[privacy]
neighbours = "strong"             # protects a worker, and a workplace's growth by the share alpha
alpha = "0.1"
epsilon = "4"                     # the most that all tables together may cost

[[table]]
name = "jobs"
by = ["place", "sector", "ownership"]
epsilon = "1.96"
mechanism = "auto"                # the one with the least error, chosen without the data

[[table]]
name = "people"
by = ["place", "sex", "education"]
epsilon = "2"
mechanism = "auto"

[[table]]
name = "sizes"
count = "workplaces"              # how many have 1, 2, ... workers or more: for intervals
by = ["sector"]
epsilon = "0.04"
"""
JOBS, PEOPLE, SIZES = "jobs", "people", "sizes"
#: The ledger's epsilon: enough for the plan and for one more like it.
BUDGET = 8

MARK = "demo.json"
PICTURE = "released.png"
#: The files that a user may want to look at.
SHOWN = (
    *("data/schema.toml", "plan.toml", "memo.md", "ledger.db", "release/release.json"),
    *(f"release/tables/{table}.csv" for table in (JOBS, PEOPLE, SIZES)),
    *(f"release/estimates/{table}.csv" for table in (JOBS, PEOPLE)),
    *SURVEY_SHOWN,
    *("exposure.png", PICTURE),
)
#: All that a demonstration leaves; SQLite keeps two more files beside a ledger that is in use.
OWN = frozenset(
    (
        *SHOWN,
        *SURVEY_OWN,
        *(MARK, "data", "release", "release/tables", "ledger.db-wal", "ledger.db-shm"),
        *(f"data/{table}.parquet" for table in ("workplace", "worker", "job", "place")),
        *(f"data/{area}.geojson" for area in ("county", "place", "tract")),
        *(f"release/tables/{table}.parquet" for table in (JOBS, PEOPLE, SIZES)),
        *("release/areas", "release/areas/place.parquet", "release/areas/county.parquet"),
        *("release/members", "release/members/supersector.parquet"),
        *("release/estimates", "release/estimates/estimates.json"),
        *(f"release/estimates/{table}.parquet" for table in (JOBS, PEOPLE)),
    )
)

#: What has to be said wherever released counts stand beside true ones.
STUDY = "A study of synthetic data: the true counts of real data are confidential"
#: As many areas of the ranking as are shown.
TOP = 5


@dataclass(frozen=True)
class Findings:
    """What the demonstration shows.  Its data are synthetic: nothing here is confidential."""

    jobs: int
    workplaces: int
    worker_cells: int
    empty_worker_cells: int
    exposure: tuple[Exposure, ...]
    tables: tuple[TableAccuracy, ...]
    price: Guarantee
    total: Guarantee
    left: Guarantee
    verification: Verification
    ranking: Ranking
    accuracy: tuple[Accuracy, ...]
    survey: SurveyFindings
    picture: Path
    files: tuple[Path, ...]

    @property
    def release(self) -> Path:
        """The folder of the release."""
        return self.ranking.release.folder

    @property
    def cube(self) -> Path:
        """The folder of the protected cube."""
        return self.survey.release.folder

    @property
    def sound(self) -> bool:
        """Whether both releases are."""
        return self.verification.sound and self.survey.verification.sound

    @property
    def attacker(self) -> str:
        """What an attacker can learn, in one sentence: both are one step."""
        what = "Whether a worker is in the data, or a workplace has 100 workers or 110"
        return self.price.statement("presence", 1, what).words

    def accuracy_of(self, table: str) -> Iterator[Accuracy]:
        """The accuracy of one table: in all, then stratum by stratum."""
        return (found for found in self.accuracy if found.table == table)

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {
            "study": STUDY,
            "jobs": self.jobs,
            "workplaces": self.workplaces,
            "worker_cells": self.worker_cells,
            "empty_worker_cells": self.empty_worker_cells,
            "exposure": [asdict(row) for row in self.exposure],
            "price": guarantee_as_json(self.price),
            "attacker": self.attacker,
            "tables": [asdict(table) for table in self.tables],
            "ledger": {
                "total": guarantee_as_json(self.total),
                "left": guarantee_as_json(self.left),
            },
            "release": self.ranking.release.identity,
            "verification": {"sound": self.verification.sound, **asdict(self.verification)},
            "ranking": self.ranking.as_json(TOP),
            "accuracy": [asdict(row) for row in self.accuracy],
            "survey": self.survey.as_json(),
            "picture": str(self.picture),
            "files": [str(path) for path in self.files],
        }


def run_demo(
    out: Path, *, jobs: int = 250_000, seed: int = 1, progress: Progress | None = None
) -> Findings:
    """Make a population in `out/data` and a survey in `out/survey`; take both through everything.

    The population is checked and counted; a plan is priced, paid from a ledger and released; the
    release is verified, ranked, and compared with the true counts, which can be done with synthetic
    data alone.  The survey becomes a protected cube, paid from a ledger of its own.
    The data are the same for the same seed, releases never are: their noise is drawn from a
    secret source.  The folder appears whole or not at all; what an earlier demonstration left
    there is replaced.
    """
    tell = progress or (lambda _step, _done: None)
    target = out.resolve()
    _refuse_what_is_not_ours(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with appearing_folder(target) as partial:
        findings = _named(_findings(partial, jobs, seed, tell), out)
        text = json.dumps(findings.as_json(), indent=2) + "\n"
        (partial / MARK).write_text(text, encoding="utf-8")
        _refuse_what_is_not_ours(out)
        if target.exists():
            target.rename(partial.with_name("earlier"))  # it vanishes with the partial folder
    tell("done", 1.0)
    return findings


def _findings(folder: Path, jobs: int, seed: int, tell: Progress) -> Findings:
    """The demonstration itself; the files are named from `folder` on."""
    data = folder / "data"
    synthesize(data, jobs=jobs, seed=seed, areas=True, progress=lambda s, f: tell(s, 0.25 * f))
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    plan = Plan.read(folder / "plan.toml")
    ahead = expected_accuracy(plan, progress=lambda s, f: tell(s, 0.25 + 0.05 * f))
    total = Guarantee(plan.total.neighbours, BUDGET)
    ledger = Ledger.create(folder / "ledger.db", total, data_set="data")
    (folder / "memo.md").write_text(memo(ahead, ledger.left()), encoding="utf-8")

    tables = load(data, progress=lambda s, f: tell(s, 0.3 + 0.15 * f))
    release = publish(
        plan,
        tables,
        ledger=ledger,
        out=folder / "release",
        progress=lambda s, f: tell(s, 0.45 + 0.07 * f),
    )
    write_estimates(release, progress=lambda s, f: tell(s, 0.52 + 0.03 * f))
    verification = verify(
        release, ledger=ledger, progress=lambda s, f: tell(f"verifying: {s}", 0.55 + 0.1 * f)
    )
    tell("ranking", 0.65)
    ranking = rank(release, JOBS, ["place"])

    tell("comparing with the true counts", 0.68)
    compared: dict[str, Compared] = {}
    accuracy: list[Accuracy] = []
    for table in (plan.table(JOBS), plan.table(PEOPLE)):
        cells = tabulate(tables, by=table.marginal.by).confidential
        compared[table.name] = Compared.of(release, table.name, cells, data)
        accuracy += compared[table.name].accuracy(table.measurement.mechanism)
    by = plan.table(JOBS).marginal.by
    fine = tabulate(tables, by=[*by, "sex", "education"]).confidential["count"].to_numpy()
    survey = survey_findings(folder, seed, lambda s, f: tell(s, 0.75 + 0.2 * f))
    findings = Findings(
        jobs=int(compared[JOBS].counts.sum()),
        workplaces=tables.workplaces,
        worker_cells=len(fine),
        empty_worker_cells=int((fine == 0).sum()),
        exposure=compared[JOBS].exposure(),
        tables=ahead.tables,
        price=plan.price(),
        total=total,
        left=ledger.left(),
        verification=verification,
        ranking=ranking,
        accuracy=tuple(accuracy),
        survey=survey,
        picture=Path(PICTURE),
        files=tuple(map(Path, SHOWN)),
    )
    tell("drawing", 0.95)
    _draw(folder, findings, compared)
    return findings


def _draw(folder: Path, findings: Findings, compared: Mapping[str, Compared]) -> None:
    """What had to be protected, and what came of it."""
    strata = [row.stratum for row in findings.exposure]
    exposure_figure(
        folder / "exposure.png",
        counts=compared[JOBS].counts,
        strata=strata,
        alone=[row.alone for row in findings.exposure],
        dominated=[row.dominated for row in findings.exposure],
    )
    tables = []
    for table in compared.values():
        about = next(one for one in findings.tables if one.name == table.table)
        rows = [row for row in findings.accuracy_of(table.table) if row.stratum != ALL]
        tables.append(
            Released(
                f"{about.name}: {about.what}",
                table.counts,
                table.released["employment"].to_numpy(),
                found=[row.of_jobs(row.error) for row in rows],
                promised=[row.of_jobs(row.promised) for row in rows],
            )
        )
    released_figure(folder / PICTURE, tables=tables, strata=strata, note=STUDY)


def _named(findings: Findings, out: Path) -> Findings:
    """The findings with every path where the user asked for it."""
    release = replace(findings.ranking.release, folder=out / "release")
    cube = replace(findings.survey.release, folder=out / "cube")
    return replace(
        findings,
        ranking=replace(findings.ranking, release=release),
        survey=replace(findings.survey, release=cube),
        picture=out / findings.picture,
        files=tuple(out / path for path in findings.files),
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
