"""What the demonstration shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eree.estimate.predict import TableAccuracy
from eree.estimate.rank import Ranking
from eree.policy.guarantee import Guarantee
from eree.policy.plain_data import guarantee_as_json
from eree.verification.recheck import Verification
from eree_study.demo.strata import Accuracy, Exposure
from eree_study.demo.survey import SurveyFindings

#: What has to be said wherever released counts stand beside true ones.
STUDY = "A study of synthetic data: the true counts of real data are confidential"
#: As many areas of the ranking as are shown.
TOP = 5


@dataclass(frozen=True)
class Findings:
    """What the demonstration shows.  Its data are made up: nothing here is confidential."""

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
