from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from browsing import browser, tool
from ledgers import place, postgres, where
from served import catalogue, client, cube, maps, releases, tables
from torture import campaigns_page, intervals_page
from torture.figures import Case, Clock, Figures, read

__all__ = [
    "browser",
    "catalogue",
    "client",
    "cube",
    "maps",
    "place",
    "postgres",
    "releases",
    "tables",
    "tool",
    "where",
]

HELD = pytest.StashKey[bool]()
KEPT: list[Path] = []


@pytest.fixture(autouse=True)
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """What a test puts in here is kept with the times that it took, whether it passes or fails."""
    part = request.module.__name__.rpartition("test_")[2]
    sentence = request.function.__name__.removeprefix("test_").replace("_", " ")
    spec = getattr(request.node, "callspec", None)
    case, clock = Case(part, sentence, spec.id if spec else ""), Clock()
    yield case.figures
    case.held = request.node.stash.get(HELD, False)
    request.node.user_properties.append(("kept", str(clock.stop(case))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[HELD] = report.passed
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Learn what this run has kept, in whichever of its processes."""
    if report.when == "teardown":
        KEPT.extend(Path(file) for name, file in report.user_properties if name == "kept")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the tables of all parts that were run, once every process of the tests is done."""
    in_a_worker = hasattr(session.config, "workerinput")
    if os.environ.get("PAGE") and exitstatus == pytest.ExitCode.OK and not in_a_worker:
        page = campaigns_page.PAGE.read_text(encoding="utf-8")
        cases = [read(file) for file in KEPT]
        campaigns_page.PAGE.write_text(campaigns_page.written(page, cases), encoding="utf-8")
        grid = campaigns_page.GRID.read_text(encoding="utf-8")
        campaigns_page.GRID.write_text(campaigns_page.kept(grid, cases), encoding="utf-8")
        if any(case.part == "intervals" for case in cases):
            intervals_page.write()
