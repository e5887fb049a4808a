"""The demonstration tells the truth about the population it makes, and leaves only its own."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

import eree
from eree.cells import Cell
from eree.cli.exit_status import run
from eree.cli.interrupts import Interrupts
from eree.errors import Fault, Refusal
from eree.release.contents import MEASURES
from eree.verification.recheck import Verification
from eree_study.demo import STRATA, Findings, run_demo
from eree_study.demo.demonstration import BUDGET, OWN, SHOWN, STUDY, TOP
from eree_study.demo.survey import BUDGET as SURVEY_BUDGET
from eree_study.demo.survey import EPSILON, MOST_RECORDS, MOST_WEIGHT, VARIABLES
from eree_study.figures import population as figures
from selection import combinations as combinations_of
from test_readme import PICTURE, pixels

pytestmark = pytest.mark.xdist_group("demo")  # what most tests look at is made once

JOBS = 20_000
LEDGERS = ("ledger.db", "survey-ledger.db")
TABLES = {"jobs": ("place", "sector", "ownership"), "people": ("place", "sex", "education")}


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


def true_cells(data: Path, by: tuple[str, ...]) -> dict[tuple[str, ...], list[int]]:
    """Every cell of a table in plain Python: its count, and its largest whole workplace."""
    workplaces = parquet.read_table(data / "workplace.parquet").to_pylist()
    workers = {w["worker_id"]: w for w in parquet.read_table(data / "worker.parquet").to_pylist()}
    jobs = parquet.read_table(data / "job.parquet").to_pylist()
    size = Counter(job["workplace_id"] for job in jobs)
    where = {w["workplace_id"]: w for w in workplaces}
    values = {"sex": ("F", "M"), "education": {w["education"] for w in workers.values()}}
    cells: dict[tuple[str, ...], list[int]] = {}
    for w in workplaces:
        kinds = [()]
        for name in by:
            options = values.get(name) or (w[name],)
            kinds = [(*kind, value) for kind in kinds for value in options]
        for kind in kinds:
            cell = cells.setdefault(kind, [0, 0])
            cell[1] = max(cell[1], size[w["workplace_id"]])
    for job in jobs:
        both = where[job["workplace_id"]] | workers[job["worker_id"]]
        cells[tuple(both[name] for name in by)][0] += 1
    return cells


@pytest.mark.parametrize("table", TABLES)
def test_the_errors_are_those_of_a_count_by_hand(table: str, made: tuple[Path, Findings]) -> None:
    out, findings = made
    by = TABLES[table]
    cells = true_cells(out / "data", by)
    places = parquet.read_table(out / "data" / "place.parquet").to_pylist()
    population = {p["place"]: p["population"] for p in places}
    with (out / "release" / "tables" / f"{table}.csv").open(encoding="utf-8") as file:
        rows = {tuple(row[name] for name in by): row for row in csv.DictReader(file)}
    with (out / "release" / "estimates" / f"{table}.csv").open(encoding="utf-8") as file:
        estimated = {tuple(row[name] for name in by): row for row in csv.DictReader(file)}
    assert rows.keys() == estimated.keys() == cells.keys()
    measurement = eree.Plan.read(out / "plan.toml").table(table).measurement
    lows = [*STRATA.values(), float("inf")]
    bounds = {"all": (0, lows[-1])} | dict(zip(STRATA, pairwise(lows), strict=True))
    found = list(findings.accuracy_of(table))
    assert [row.stratum for row in found] == list(bounds)
    for row in found:
        low, high = bounds[row.stratum]
        here = [cell for cell in cells if low <= population[cell[0]] < high]
        errors = [abs(int(rows[cell]["noisy"]) - cells[cell][0]) for cell in here]
        promised = [measurement.mechanism.total_error(Cell(cells[cell][1])) for cell in here]
        inside = [
            int(estimated[cell]["low"]) <= cells[cell][0] <= float(estimated[cell]["high"])
            for cell in here
        ]
        assert (row.cells, row.jobs) == (len(here), sum(cells[cell][0] for cell in here))
        assert row.error == pytest.approx(sum(errors) / len(here))
        assert row.promised == pytest.approx(sum(promised) / len(here))
        assert row.inside == pytest.approx(sum(inside) / len(here))


def test_what_is_promised_is_what_the_mechanism_promises(made: tuple[Path, Findings]) -> None:
    out, findings = made
    release = eree.Release.open(out / "release")
    about = release.about("jobs")
    hidden = eree.mechanism(about["mechanism"], alpha="0.1", epsilon=about["price"]["epsilon"])
    cells = true_cells(out / "data", TABLES["jobs"]).values()
    each = [hidden.expected_error(Cell(n, x)).mean_absolute for n, x in cells]
    assert next(findings.accuracy_of("jobs")).promised == pytest.approx(sum(each) / len(each))
    # promised are nine in ten: as few as six in ten come about once in a billion demonstrations
    assert next(findings.accuracy_of("jobs")).inside > 0.6


def test_the_release_verifies_and_its_price_is_what_the_ledger_lost(
    made: tuple[Path, Findings],
) -> None:
    out, findings = made
    ledger = eree.Ledger.open(out / "ledger.db")
    release = eree.Release.open(out / "release")
    assert eree.verify(release, ledger=ledger).sound
    assert release.private
    plan = eree.Plan.read(out / "plan.toml")
    assert ledger.spent() == plan.price() == release.guarantee == findings.price
    assert ledger.left() == findings.left
    assert findings.total == ledger.total == eree.Guarantee(eree.Strong("0.1"), BUDGET)
    assert ledger.verify(against=[release.reservation]) == ()
    assert [type(entry.event).__name__ for entry in ledger.entries()] == [
        *("Created", "Reserved", "Settled")
    ]
    assert findings.verification.sound
    what = {t.name: tuple(t.what.split(" × ")) for t in findings.tables}
    assert what == TABLES | {"sizes": ("workplaces by size", "sector")}
    assert "factor of 54.6" in findings.attacker  # e^4, rounded up


def test_the_cube_verifies_and_was_paid_from_a_ledger_of_its_own(
    made: tuple[Path, Findings],
) -> None:
    out, findings = made
    ledger, release = eree.Ledger.open(out / "survey-ledger.db"), eree.Release.open(out / "cube")
    survey = findings.survey
    assert eree.verify(release, ledger=ledger).sound and release.private
    assert ledger.spent() == release.guarantee == survey.price
    assert survey.price == eree.Guarantee(eree.ESTABLISHMENT, EPSILON)
    assert ledger.left() == survey.left
    assert ledger.total == survey.total == eree.Guarantee(eree.ESTABLISHMENT, SURVEY_BUDGET)
    assert ledger.verify(against=[release.reservation]) == ()
    assert eree.ProtectedCube.open(out / "cube").mode == "guaranteed"
    assert findings.cube == out / "cube" and survey.verification.sound and findings.sound


def test_the_survey_is_counted_as_by_hand(made: tuple[Path, Findings]) -> None:
    """Beyond the public bounds weights are trimmed, and records left out: the first stay."""
    out, findings = made
    rows = parquet.read_table(out / "survey" / "records.parquet").to_pylist()
    assert findings.survey.establishments == len({row["establishment_id"] for row in rows})
    kept: list[dict[str, Any]] = []
    seen: Counter[int] = Counter()
    for row in sorted(rows, key=lambda row: row["record_id"]):
        seen[row["establishment_id"]] += 1
        if seen[row["establishment_id"]] <= MOST_RECORDS:
            kept.append(row)
    assert findings.survey.records == len(kept)
    cube = eree.ProtectedCube.open(out / "cube")
    assert findings.survey.cells == cube.shape.size
    codes = {variable.name: variable.codes for variable in cube.shape.variables}
    assert tuple(codes) == findings.survey.variables == VARIABLES
    for found, size in zip(findings.survey.accuracy, (1, 2, len(VARIABLES)), strict=True):
        errors, truths, variances = [], [], []
        for by in combinations(VARIABLES, size):
            true: Counter[tuple[str, ...]] = Counter()
            for row in kept:
                weight = min(round(row["weight"] * 1_000), int(MOST_WEIGHT) * 1_000)
                true[tuple(row[name] for name in by)] += weight
            table = cube.table(eree.Query(by))
            for place, cell in enumerate(product(*(codes[name] for name in by))):
                if table.absent is not None and table.absent.reshape(-1)[place]:
                    assert not true[cell]
                    continue
                truths.append(true[cell] / 1_000)
                errors.append((int(table.values.reshape(-1)[place]) - true[cell]) / 1_000)
                variances.append(float(table.noise_variance.reshape(-1)[place]) / 1_000**2)
        assert found.figures == len(errors)
        assert found.jobs == pytest.approx(sum(truths) / len(truths))
        assert found.error == pytest.approx((sum(e * e for e in errors) / len(errors)) ** 0.5)
        assert found.promised == pytest.approx((sum(variances) / len(variances)) ** 0.5)


def test_the_plan_leaves_the_choice_of_mechanisms_open(made: tuple[Path, Findings]) -> None:
    plan = (made[0] / "plan.toml").read_text("utf-8")
    assert plan.count('mechanism = "auto"') == len(TABLES)
    assert "Memorandum" in (made[0] / "memo.md").read_text("utf-8")


def test_the_ranking_is_that_of_the_release(made: tuple[Path, Findings]) -> None:
    out, findings = made
    again = eree.rank(eree.Release.open(out / "release"), "jobs", ["place"])
    assert findings.ranking.rows.equals(again.rows)
    assert findings.as_json()["ranking"] == again.as_json(TOP)
    assert findings.release == out / "release"


def test_the_folder_holds_what_the_findings_name(made: tuple[Path, Findings]) -> None:
    out, findings = made
    told = json.loads(json.dumps(findings.as_json()))
    assert json.loads((out / "demo.json").read_text("utf-8")) == told
    assert findings.files == tuple(out / name for name in SHOWN)
    assert all(path.is_file() for path in findings.files)
    found = {path.relative_to(out).as_posix() for path in out.rglob("*")}
    in_use = {f"{ledger}-{part}" for ledger in LEDGERS for part in ("wal", "shm")}
    assert in_use < OWN
    assert found == OWN - in_use
    assert findings.picture in findings.files
    assert pixels(findings.picture) == pixels(PICTURE)


def test_true_counts_stay_in_the_data_and_in_what_is_labelled(made: tuple[Path, Findings]) -> None:
    out, findings = made
    for table, by in TABLES.items():
        columns = eree.Release.open(out / "release").table(table).column_names
        assert columns == [*by, *MEASURES]
    assert STUDY.startswith("A study of synthetic data")
    assert findings.as_json()["study"] == STUDY
    assert STUDY.encode() in findings.picture.read_bytes()
    assert b"synthetic" in (out / "exposure.png").read_bytes()
    elsewhere = [path for path in out.rglob("*") if path.suffix in (".parquet", ".csv")]
    assert {path.parent for path in elsewhere} == {
        *(out / "data", out / "release" / "tables", out / "survey", out / "cube" / "tables"),
        *(out / "release" / part for part in ("estimates", "areas", "members")),
    }
    sectors = parquet.read_table(out / "release" / "members" / "supersector.parquet")
    assert sectors.column_names == ["sector", "supersector"]
    for path in (out / "release" / "areas").iterdir():
        assert set(parquet.read_table(path).column_names) <= {"place", "county", "state"}
    confidential = parquet.read_table(out / "survey" / "records.parquet").column_names
    published = parquet.read_table(out / "cube" / "tables" / "cells.parquet").column_names
    assert "weight" in confidential and published == [*VARIABLES, "noisy", "noise_variance"]


def without_pictures(patch: pytest.MonkeyPatch) -> None:
    """Pictures are empty where nobody looks at them; they take half the time."""
    for figure in ("exposure_figure", "released_figure"):
        patch.setattr(f"eree_study.demo.demonstration.{figure}", lambda path, **_: path.touch())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pictures(monkeypatch)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    out = tmp_path_factory.mktemp("small") / "out"
    with pytest.MonkeyPatch.context() as patch:
        without_pictures(patch)
        return out, run_demo(out, jobs=2_000, seed=1)


@pytest.mark.usefixtures("undrawn")
def test_a_second_run_replaces_the_first_whole(
    small: tuple[Path, Findings], tmp_path: Path
) -> None:
    folder, first = small
    out = shutil.copytree(folder, tmp_path / "out")
    rows = [eree.Release.open(out / "release").table(table) for table in TABLES]
    data = {path.name: path.read_bytes() for path in (out / "data").iterdir()}
    survey = {path.name: path.read_bytes() for path in (out / "survey").iterdir()}
    identity = eree.Ledger.open(out / "ledger.db").identity
    with closing(sqlite3.connect(out / "ledger.db")) as reader:  # as `eree ledger show` would be
        reader.execute("BEGIN").execute("SELECT count(*) FROM eree_ledger").fetchall()
        assert (out / "ledger.db-shm").exists()
        second = run_demo(out, jobs=2_000, seed=1)
    assert {path.name: path.read_bytes() for path in (out / "data").iterdir()} == data
    assert first.ranking.release.identity != second.ranking.release.identity
    assert [eree.Release.open(out / "release").table(table) for table in TABLES] != rows
    assert {path.name: path.read_bytes() for path in (out / "survey").iterdir()} == survey
    assert first.survey.release.identity != second.survey.release.identity
    assert first.survey.accuracy != second.survey.accuracy
    assert first.survey.accuracy[0].promised == second.survey.accuracy[0].promised
    ledger = eree.Ledger.open(out / "ledger.db")
    assert ledger.identity != identity
    assert ledger.spent() == second.price
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "name", ["notes.txt", "data/notes.txt", "release/tables/mine.csv", "cube/x"]
)
def test_what_others_put_there_is_not_touched(
    name: str, small: tuple[Path, Findings], tmp_path: Path
) -> None:
    out = shutil.copytree(small[0], tmp_path / "out")
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


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("step", "folder"),
    combinations_of(
        ["demonstration.verify", "survey.protect_cube", "demonstration.released_figure"],
        ["out", "new"],
        each=1,
    ),
)
def test_a_demo_that_fails_leaves_nothing(
    step: str,
    folder: str,
    small: tuple[Path, Findings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(small[0], tmp_path / "out")
    before = (tmp_path / "out" / "demo.json").read_text("utf-8")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"eree_study.demo.{step}", stop)
    with pytest.raises(KeyboardInterrupt):
        run_demo(tmp_path / folder, jobs=3_000)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "demo.json").read_text("utf-8") == before


def test_the_command_tells_it_all_and_what_to_try_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(line: str) -> str:
        program, *words = shlex.split(line)
        assert program == "eree" and run(words, Interrupts()) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    monkeypatch.chdir(tmp_path)
    shown = printed("eree demo --out 'the demo' --jobs 2000")
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown.splitlines()) < 55
    for words in (
        *("2,000 synthetic jobs", "jobs: place × sector × ownership", "In all epsilon 4, delta 0"),
        *("at most a factor of 54.6", "epsilon 4 of 8 is spent", "sound: 8 checks"),
        *("10,000 establishments", "3,450", "occupation × education × strength × telework"),
        *("epsilon 4 for whole establishments; 4 of 8", "sound: 8 checks"),
        "Figures by one variable",
        *("Jobs by place", "own rank", STUDY, "100k and more", "calibrated intervals"),
        *("Picture  the demo/released.png", "Release  the demo/release", "memo.md"),
        *("Cube     the demo/cube", "two ledgers"),
    ):
        assert words in shown
    ranked, served = shown.splitlines()[-2:]
    assert ranked.startswith("Next     eree rank 'the demo/release' jobs")
    assert "Jobs by sector" in printed(ranked.removeprefix("Next     "))
    assert served == "Browser  eree serve 'the demo/release' 'the demo/cube'"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("half", ["demonstration", "survey"])
def test_a_release_that_does_not_verify_ends_in_1_and_is_not_served(
    half: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = Fault("release", "release.json", "digest", "is not that of the record")
    monkeypatch.setattr(
        f"eree_study.demo.{half}.verify", lambda *_, **__: Verification((), (fault,))
    )
    made: list[Findings] = []

    def once(*given: Any, **named: Any) -> Findings:
        """It is made once, and reported twice."""
        made.extend([] if made else [run_demo(*given, **named)])
        return made[0]

    monkeypatch.setattr("eree_study.demo.run_demo", once)
    arguments = ["demo", "--jobs", "1000", "--out", str(tmp_path / "out"), "--serve", "--port", "0"]
    assert run(arguments, Interrupts()) == 1
    assert "NOT SOUND: release (release.json), digest: is not" in capsys.readouterr().out
    assert run([*arguments, "--json"], Interrupts()) == 1
    told = json.loads(capsys.readouterr().out)
    found = told if half == "demonstration" else told["survey"]
    assert found["verification"]["sound"] is False


def drawn(draw: str, findings: Findings, folder: Path) -> None:
    """Draw one of the figures with numbers that fill it."""
    counts = parquet.read_table(folder / "data" / "place.parquet")["population"].to_numpy()
    strata = [row.stratum for row in findings.exposure]
    path = folder.parent / f"{draw}.svg"
    if draw == "exposure":
        alone = [row.alone for row in findings.exposure]
        dominated = [row.dominated for row in findings.exposure]
        figures.exposure_figure(
            path, counts=counts, strata=strata, alone=alone, dominated=dominated
        )
        return
    shares = [([0.001] * 4, [0.02] * 4), ([float("nan"), 0, 9, 88], [30.0] * 4)]
    tables = [
        figures.Released(f"{name}: {' × '.join(by)}", counts, counts[::-1].copy(), *share)
        for (name, by), share in zip(TABLES.items(), shares, strict=True)
    ]
    figures.released_figure(path, tables=tables, strata=strata, note=STUDY)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """Every figure that is drawn."""
    found: list[Figure] = []

    class Kept(Figure):
        def __init__(self, *settings: Any, **named: Any) -> None:
            super().__init__(*settings, **named)
            found.append(self)

    monkeypatch.setattr(figures, "Figure", Kept)
    yield found


@pytest.mark.parametrize("draw", ["exposure", "released"])
def test_no_labels_of_a_picture_overlap(
    draw: str, made: tuple[Path, Findings], kept: list[Figure]
) -> None:
    drawn(draw, made[1], made[0])
    (figure,) = kept
    figure.set_dpi(150)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    assert len(boxes) > 20
    width, height = figure.get_size_inches() * figure.dpi
    for i, (text, box) in enumerate(boxes):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text
        for other, second in boxes[i + 1 :]:
            overlap = box.x0 < second.x1 and second.x0 < box.x1
            assert not (overlap and box.y0 < second.y1 and second.y0 < box.y1), (text, other)


def test_both_pictures_say_that_the_data_are_made_up(
    made: tuple[Path, Findings], kept: list[Figure]
) -> None:
    for draw in ("exposure", "released"):
        drawn(draw, made[1], made[0])
    titles = [figure.get_suptitle() for figure in kept]
    assert all("synthetic" in title for title in titles)
    assert titles[1] == STUDY
    assert STUDY in (made[0].parent / "released.svg").read_text("utf-8")
