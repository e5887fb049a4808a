"""The demonstration tells the truth about the population it makes, and leaves only its own."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from eree import figures
from eree.demo import STRATA, Findings, run_demo
from eree.errors import Refusal
from test_readme import PICTURE, pixels

JOBS = 20_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    out = tmp_path_factory.mktemp("demo") / "out"
    return out, run_demo(out, jobs=JOBS, seed=2)


def recounted(data: Path) -> dict[str, Any]:
    """The findings once more, in plain Python."""
    workplaces = parquet.read_table(data / "workplace.parquet").to_pylist()
    workers = {w["worker_id"]: w for w in parquet.read_table(data / "worker.parquet").to_pylist()}
    jobs = parquet.read_table(data / "job.parquet").to_pylist()
    places = parquet.read_table(data / "place.parquet").to_pylist()
    population = {p["place"]: p["population"] for p in places}
    size = Counter(job["workplace_id"] for job in jobs)
    cells = defaultdict(list)
    cell_of = {}
    for w in workplaces:
        cell = (w["place"], w["sector"], w["ownership"])
        cells[cell].append(size[w["workplace_id"]])
        cell_of[w["workplace_id"]] = cell
    filled = {
        (
            cell_of[job["workplace_id"]],
            workers[job["worker_id"]]["sex"],
            workers[job["worker_id"]]["education"],
        )
        for job in jobs
    }
    lows = [*STRATA.values(), float("inf")]
    exposure = []
    for name, low, high in zip(STRATA, lows, lows[1:], strict=False):
        here = [sizes for cell, sizes in cells.items() if low <= population[cell[0]] < high]
        alone = [len(sizes) == 1 for sizes in here]
        dominated = [len(s) > 1 and sum(s) > 0 and max(s) >= sum(s) - max(s) for s in here]
        exposure.append((name, len(here), sum(alone) / len(here), sum(dominated) / len(here)))
    return {
        "jobs": len(jobs),
        "workplaces": len(workplaces),
        "worker_cells": len(cells) * 2 * 4,
        "empty_worker_cells": len(cells) * 2 * 4 - len(filled),
        "exposure": exposure,
    }


def test_the_findings_are_those_of_a_count_by_hand(made: tuple[Path, Findings]) -> None:
    out, findings = made
    expected = recounted(out / "data")
    assert findings.jobs == expected["jobs"] == JOBS
    assert findings.workplaces == expected["workplaces"]
    assert findings.worker_cells == expected["worker_cells"]
    assert findings.empty_worker_cells == expected["empty_worker_cells"]
    assert len(findings.exposure) == len(expected["exposure"]) == 4
    for found, (name, cells, alone, dominated) in zip(
        findings.exposure, expected["exposure"], strict=True
    ):
        assert (found.stratum, found.cells) == (name, cells)
        assert found.alone == pytest.approx(alone)
        assert found.dominated == pytest.approx(dominated)


def test_the_folder_holds_what_the_findings_name(made: tuple[Path, Findings]) -> None:
    out, findings = made
    assert json.loads((out / "demo.json").read_text("utf-8")) == findings.as_json()
    assert all(path.is_file() for path in findings.files)
    assert {path.name for path in out.iterdir()} == {"data", "demo.json", "exposure.png"}
    assert pixels(out / "exposure.png") == pixels(PICTURE)


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    run_demo(tmp_path / "out", jobs=2_000, seed=1)
    first = (tmp_path / "out" / "demo.json").read_text("utf-8")
    run_demo(tmp_path / "out", jobs=3_000, seed=1)
    assert (tmp_path / "out" / "demo.json").read_text("utf-8") != first
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["notes.txt", "data/notes.txt"])
def test_what_others_put_there_is_not_touched(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_demo(out, jobs=2_000)
    (out / name).write_text("mine", encoding="utf-8")
    with pytest.raises(Refusal, match="did not make; name a new folder"):
        run_demo(out, jobs=2_000)
    assert (out / name).read_text("utf-8") == "mine"
    assert (out / "demo.json").exists()


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Refusal, match="did not make"):
        run_demo(tmp_path, jobs=2_000)
    with pytest.raises(Refusal, match="is a file"):
        run_demo(tmp_path / "thesis.tex", jobs=2_000)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_demo_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_demo(tmp_path / "out", jobs=2_000)
    before = (tmp_path / "out" / "demo.json").read_text("utf-8")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eree.demo.exposure_figure", stop)
    for folder in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            run_demo(tmp_path / folder, jobs=3_000)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "demo.json").read_text("utf-8") == before


def test_no_labels_of_the_picture_overlap(
    made: tuple[Path, Findings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    class Kept(Figure):
        def __init__(self, *settings: Any, **named: Any) -> None:
            super().__init__(*settings, **named)
            drawn.append(self)

    monkeypatch.setattr(figures, "Figure", Kept)
    exposure = made[1].exposure
    figures.exposure_figure(
        tmp_path / "picture.png",
        counts=parquet.read_table(made[0] / "data" / "place.parquet")["population"].to_numpy(),
        strata=[e.stratum for e in exposure],
        alone=[e.alone for e in exposure],
        dominated=[e.dominated for e in exposure],
    )
    (figure,) = drawn
    figure.set_dpi(150)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    assert len(boxes) > 25
    width, height = figure.get_size_inches() * figure.dpi
    for i, (text, box) in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text
        for other, second in boxes[i + 1 :]:
            overlap = box.x0 < second.x1 and second.x0 < box.x1
            assert not (overlap and box.y0 < second.y1 and second.y0 < box.y1), (text, other)
