"""Every part of every workload of the study, on a small population."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eree_study
from eree_study.papers.study import parts_of, work
from eree_study.papers.workloads import WORKLOADS
from golden import STUDY, kept, studied
from torture.figures import Figures


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_part_of_a_study_can_be_done_and_is_the_same_alone(
    name: str, tmp_path: Path, figures: Figures
) -> None:
    study = eree_study.run_study(tmp_path / "s", jobs=5_000, trials=1, only=[name], processes=1)
    parts = list(parts_of([WORKLOADS[name]]))
    figures["parts"] = len(parts)
    found = {part: part.file(study.folder).read_bytes() for part in parts}
    assert len(list((study.folder / "parts").iterdir())) == len(parts)
    # where alpha is large and epsilon small, there may be no mechanism to compare
    assert all(json.loads(figures) for part, figures in found.items() if part.alpha == "0.01")
    for part in parts:
        part.file(study.folder).unlink()
        work(study, part)
        assert part.file(study.folder).read_bytes() == found[part]


def test_every_figure_is_what_it_was(tmp_path: Path, figures: Figures) -> None:
    found = studied(eree_study.run_study(tmp_path / "study", **STUDY).folder)
    figures["contenders"] = len(found)
    assert {name: kept("study")[name] for name in found} == found
