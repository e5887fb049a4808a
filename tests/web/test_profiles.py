"""Size profiles and guaranteed intervals: what a release has beside the figures that are shown."""

from __future__ import annotations

import csv
import io
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import eree
import eree_study
from eree.estimate.totals import area_totals
from eree.web.answer import answer
from eree.web.catalogue import Catalogue
from eree.web.export import metadata, tidy
from eree.web.figures import Asked
from eree.web.held import Held
from eree.web.linked import LinkedTable
from eree.web.query import Query


def test_a_size_profile_is_listed_and_read_as_it_is(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    page = client.get(f"/d/{data.name}/about").text
    released = data.release.table("sizes").to_pylist()
    for ending in ("csv", "json"):
        address = f"/d/{data.name}/sizes/sizes.{ending}"
        assert f'href="{address}"' in page
        found = client.get(address)
        assert found.status_code == 200
        assert "attachment" in found.headers["content-disposition"]
        if ending == "json":
            assert found.json()["rows"] == released
            assert found.json()["release"] == data.release.identity
        else:
            lines = list(csv.DictReader(io.StringIO(found.content.decode("utf-8-sig"))))
            assert [line.pop("release") for line in lines] == [data.release.identity] * len(lines)
            assert lines == [
                {n: "" if v is None else str(v) for n, v in r.items()} for r in released
            ]


@pytest.mark.parametrize(
    "file", ["jobs.csv", "sizes.xlsx", "sizes", "..%2Fsizes.csv", "sizes.csv?rows=place"]
)
def test_no_other_file_is_there(
    client: TestClient, tables: dict[str, LinkedTable], file: str
) -> None:
    found = client.get(f"/d/{tables['jobs'].name}/sizes/{file}")
    assert found.status_code == (400 if "?" in file else 404)


def test_a_release_without_a_profile_lists_none(client: TestClient, catalogue: Catalogue) -> None:
    (cube,) = (data for data in catalogue.data_sets if data.kind != "table")
    assert "Workplaces by size" not in client.get(f"/d/{cube.name}/about").text
    assert client.get(f"/d/{cube.name}/sizes/sizes.csv").status_code == 404


@pytest.mark.parametrize("sort", ["code", "-jobs"])
@pytest.mark.parametrize(
    ("table", "rows", "cols"),
    [("jobs", ("place",), ("ownership",)), ("jobs", (), ()), ("people", ("county",), ("sex",))],
)
def test_files_have_guaranteed_intervals_beside_calibrated_ones(
    tables: dict[str, LinkedTable],
    table: str,
    rows: tuple[str, ...],
    cols: tuple[str, ...],
    sort: str,
) -> None:
    data = tables[table]
    found = tidy(answer(data, Query(rows, cols, sort=sort)))  # type: ignore[arg-type]
    totals = area_totals(data.release, table, (*rows, *cols), level=0.9).rows.to_pylist()
    known = {tuple(str(row[name]) for name in (*rows, *cols)): row for row in totals}
    seen = 0
    for line in found.to_pylist():
        own = known.get(tuple(line[name] for name in (*rows, *cols)))
        if own is None:
            assert "absent" in line["flags"]
            assert line["guaranteed_low"] == line["guaranteed_high"] == 0
            continue
        seen += 1
        for name in ("low", "high", "guaranteed_low", "guaranteed_high"):
            assert line[name] == own[name]
    assert seen == len(known)


def test_which_intervals_are_shown_is_said(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    made = client.get(f"/d/{data.name}.json?rows=sector&show=margin").json()
    assert any("are calibrated" in note for note in made["metadata"]["notes"])
    assert client.get(f"/d/{data.name}/about.json").json()["intervals"] == "calibrated"
    assert "guaranteed_low" in client.get("/methods").text
    exact = tidy(answer(data, Query(("sector",), measure="workplaces")))
    assert "guaranteed_low" not in exact.column_names
    for page in ("ranking?rows=sector", "threshold?rows=sector&damage=72%2099999"):
        text = client.get(f"/d/{data.name}/{page}&show=margin").text
        assert "urely" not in text
        assert "by calibrated intervals, at the level of 90%" in text
        assert "if sizes of workplaces are as the release shows them" in text


def test_joint_answers_are_kept_for_their_pages(tables: dict[str, LinkedTable]) -> None:
    data = tables["jobs"]
    asked = Asked(("place",), {}, {}, together=True)
    first = data.figures(asked)
    assert data.figures(Asked(("place",), {}, {}, together=True)) is first
    other = data.figures(Asked(("place",), {}, {}, confidence=0.99, together=True))
    assert other is not first
    assert (other.high >= first.high).all()


def test_figures_are_those_of_the_slow_way(tables: dict[str, LinkedTable]) -> None:
    """By every set of variables, at every level: as `area_totals` finds them from files."""
    data = tables["jobs"]
    for by in (
        (),
        ("place",),
        ("sector",),
        ("ownership",),
        ("place", "sector"),
        ("sector", "place"),
    ):
        for level in (0.8, 0.9, 0.99):
            found = data.figures(Asked(by, {}, {}, confidence=level))
            rows = area_totals(data.release, "jobs", by, level=level).rows
            codes = zip(*(map(str, rows[name].to_pylist()) for name in by), strict=True)
            order = {key: i for i, key in enumerate(codes)} if by else {(): 0}
            columns = [
                [a.codes[p] for p in ps] for a, ps in zip(found.axes, found.places, strict=True)
            ]
            own = [order[key] for key in zip(*columns, strict=True)] if by else [0]
            for name, values in (("noisy", found.values), ("low", found.low), ("high", found.high)):
                assert values.tolist() == rows[name].to_numpy()[np.array(own)].tolist()


def test_sums_of_cells_that_were_drawn_together_are_those_of_the_slow_way(tmp_path: Path) -> None:
    tables = eree.load(eree_study.synthesize(tmp_path / "data", jobs=5_000))
    privacy = {"neighbours": "weak", "types": ["sex", "education"], "alpha": "0.1"}
    by = ["place", "sector", "sex", "education"]
    listed = [
        {"name": "jobs", "by": ["place", "sector"], "epsilon": "3"},
        {"name": "people", "by": by, "epsilon": "4"},
    ]
    settings = {"data": str(tables.folder), "privacy": {**privacy, "epsilon": "7"}, "table": listed}
    random, out = eree.SeededRandom(2), tmp_path / "out"
    release = eree.publish(eree.Plan.of(settings), tables, ledger=None, out=out, random=random)
    data = LinkedTable("people", Held.of(release), "people", ())
    for some, together in product(
        ([], ["place"], ["sector"], ["sector", "sex"], by), (False, True)
    ):
        found = data.figures(Asked(tuple(some), {}, {}, together=together))
        rows = area_totals(release, "people", some, simultaneous=together).rows
        codes = zip(*(map(str, rows[name].to_pylist()) for name in some), strict=True)
        order = {key: i for i, key in enumerate(codes)} if some else {(): 0}
        columns = [[a.codes[p] for p in at] for a, at in zip(found.axes, found.places, strict=True)]
        own = [order[key] for key in zip(*columns, strict=True)] if some else [0]
        for name, values in (("noisy", found.values), ("low", found.low), ("high", found.high)):
            assert values.tolist() == rows[name].to_numpy()[np.array(own)].tolist(), (some, name)


def test_a_table_whose_noise_is_not_known_shows_guaranteed_intervals(tmp_path: Path) -> None:
    tables = eree.load(eree_study.synthesize(tmp_path / "data", jobs=5_000))
    clipped = {"name": "ages", "by": ["county", "age"], "epsilon": "4"}
    plan = eree.Plan.of(
        {
            "data": str(tables.folder),
            "privacy": {"neighbours": "strong", "alpha": "0.1", "epsilon": "4"},
            "table": [clipped | {"mechanism": "two-stage-clip"}],
        }
    )
    random = eree.SeededRandom(1)
    release = eree.publish(plan, tables, ledger=None, out=tmp_path / "out", random=random)
    data = LinkedTable("ages", Held.of(release), "ages", ())
    assert data.intervals == "guaranteed"
    query = Query(("county",))
    assert any("are guaranteed" in note for note in metadata(data, query, (), "").notes)
    assert "guaranteed_low" not in tidy(answer(data, query)).column_names
