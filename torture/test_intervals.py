"""Calibrated intervals at the papers' size: how often they hold, and how wide they are."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import eree_study
from torture.figures import Figures
from torture.interval_populations import Workplaces
from torture.interval_runs import PROFILE_SHARE, Judged, JudgedWorkers, judge
from torture.interval_tallies import (
    BELOW_KNOWN,
    LEAST,
    LEAST_DOMINATED,
    MOST_WIDTH,
    PAIRS,
    enough,
    fault,
)
from torture.intervals_page import EPSILONS, MISSED, RESULTS, SECTOR, SHARES, UNLIKE

JOBS, FEW_JOBS = 10_900_000, 250_000
#: Prototypes were tried on both, so neither is free of tuning.
POPULATIONS: dict[str, dict[str, Any]] = {
    "usual": {"seed": 7},
    "other": {"seed": 11, "assumptions": "other"},
}
#: The share of redraws with a wrong decision, for a joint level of 90%: of 100 redraws 19 or more
#: have one less often than once in 200 runs.
MOST_WRONG = 0.18
#: Redraws: more where it is judged what holds jointly.
REDRAWS, JOINT_REDRAWS, FEW_REDRAWS = 100, 200, 25


@cache
def population(name: str, jobs: int = JOBS) -> Workplaces:
    """A synthetic population, made once in every process."""
    folder = Path(mkdtemp()) / name
    eree_study.synthesize(folder, jobs=jobs, **POPULATIONS[name])
    return Workplaces.read(folder, workers=True)


def kept(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Keep figures in a file, for the page and its picture."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def check(name: str, found: dict[str, Any], figures: Figures) -> None:
    """Every stratum with enough pairs has its goal, but for those that the page names."""
    judged = [stratum for stratum in found["strata"] if enough(stratum, found["redraws"])]
    first = found["strata"][0]
    figures["redraws"] = found["redraws"]
    figures["strata"] = len(judged)
    figures["smallest_coverage_of_a_stratum"] = min(
        stratum["coverage"] for stratum in judged if stratum["kind"] != "noisy count"
    )
    figures["times_the_width_with_the_scale_known"] = first["width"]
    missed = {(s["kind"], s["label"]) for s in judged if fault(s)}
    figures["strata_that_miss_their_goal"] = len(missed)
    assert first["pairs"] >= PAIRS
    assert first["width"] <= MOST_WIDTH
    assert missed <= MISSED.get(name, set())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_calibrated_intervals_hold_on_the_usual_population(epsilon: str, figures: Figures) -> None:
    hold("usual", epsilon, figures)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_calibrated_intervals_hold_on_another_population(epsilon: str, figures: Figures) -> None:
    hold("other", epsilon, figures)


def hold(name: str, epsilon: str, figures: Figures) -> None:
    """Judge a population at an epsilon, with worker cells at epsilon 2."""
    judged = Judged(name, population(name), epsilon)
    workers = JudgedWorkers(judged) if epsilon == "2" else None
    judge(judged, JOINT_REDRAWS if name == "usual" and epsilon != "4" else REDRAWS, workers)
    found = kept(f"{name}-{epsilon}", judged.as_json())
    of_workers = None if workers is None else workers.as_json()
    if of_workers is not None:
        kept(f"workers-{name}-{epsilon}", of_workers)
    check(f"{name}-{epsilon}", found, figures)
    assert found["guaranteed"] >= 0.9
    ranks = found["ranks"]
    figures["places_joint_span_of_ranks"] = ranks["calibrated: joint span"]
    figures["places_own_span_of_ranks"] = ranks["calibrated: own span"]
    held, wrong = ranks["calibrated: joint ranks held"], ranks["calibrated: a decision wrong"]
    figures["%_of_redraws_with_all_joint_ranks_right"] = 100 * held
    figures["%_of_redraws_with_a_wrong_decision"] = 100 * wrong
    assert ranks["calibrated: own coverage"] >= LEAST_DOMINATED
    assert wrong <= MOST_WRONG
    if of_workers is not None:
        figures["coverage_of_worker_cells"] = of_workers["strata"][0]["coverage"]
        check(f"workers-{name}-{epsilon}", of_workers, {})


@pytest.mark.parametrize("share", SHARES)
def test_a_profile_serves_a_small_population_too(share: float, figures: Figures) -> None:
    judged = Judged("small", population("usual", FEW_JOBS), "2", profile_share=share)
    judge(judged, JOINT_REDRAWS, ranks=False)
    found = kept(f"share-{share}", judged.as_json())
    figures["redraws"] = found["redraws"]
    strata = {(s["kind"], s["label"]): s for s in found["strata"]}
    figures["coverage_of_cells"] = strata["cells", "all"]["coverage"]
    assert strata["cells", "all"]["coverage"] > LEAST
    large = strata["noisy count", "200 to 999"]
    figures["coverage_of_cells_of_200_to_999"] = large["coverage"]
    assert large["coverage"] > large["known"] - (BELOW_KNOWN if share >= PROFILE_SHARE else 0.06)


@pytest.mark.parametrize("unlike", UNLIKE)
def test_guaranteed_intervals_hold_where_sizes_are_unlike_the_model(
    unlike: str, figures: Figures
) -> None:
    usual = population("usual")
    made = {
        "one-size-40": lambda: usual.of_one_size(SECTOR, 40),
        "one-size-400": lambda: usual.of_one_size(SECTOR, 400),
        "giants": lambda: usual.with_giants(1_000, 20),
        "normal-logarithms": lambda: usual.drawn(5, 1.5, 0.5),
    }[unlike]()
    judged = Judged(unlike, made, "2")
    judge(judged, FEW_REDRAWS, ranks=False)
    found = kept(f"{unlike}-2", judged.as_json())
    figures["redraws"] = found["redraws"]
    for stratum in found["strata"]:
        if (stratum["kind"], stratum["label"]) in {("cells", "all"), ("sector", SECTOR)}:
            of = stratum["kind"].replace("sector", f"sector {SECTOR}")
            figures[f"coverage_of_{of}"] = stratum["coverage"]
    figures["coverage_of_guaranteed_intervals"] = found["guaranteed"]
    assert found["guaranteed"] >= 0.9
