"""What the campaigns found and how long they took: a small file for every case of every campaign.

The files are in `build/torture`.  Times are of one case alone: its wall time, and the processor
time of its process and of all processes that it started and waited for.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

OUT = Path(__file__).parents[1] / "build" / "torture"
PARTS = (
    *("certificates", "draws", "ledger", "releases", "study", "intervals", "fuzz"),
    *("web", "web_pages"),
)
Figures = dict[str, float]


@dataclass
class Case:
    """One case of a campaign: what was counted, and whether all held that must."""

    part: str
    campaign: str
    case: str
    figures: Figures = field(default_factory=dict)
    held: bool = False
    date: str = ""
    wall_seconds: float = 0.0
    processor_seconds: float = 0.0


class Clock:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), sum(os.times()[:4])

    def stop(self, case: Case) -> Path:
        """Keep a case with the times that it took; returns its file."""
        wall, processor = self._began
        case.wall_seconds = round(time.perf_counter() - wall, 3)
        case.processor_seconds = round(sum(os.times()[:4]) - processor, 3)
        case.date = datetime.now(UTC).date().isoformat()
        words = re.findall(r"\w+", f"{case.part} {case.campaign} {case.case}")
        OUT.mkdir(parents=True, exist_ok=True)
        file = OUT / f"{'-'.join(words)}.json"
        file.write_text(json.dumps(asdict(case), indent=1) + "\n", encoding="utf-8")
        return file


def read(file: Path) -> Case:
    """A case that was kept."""
    return Case(**json.loads(file.read_text(encoding="utf-8")))
