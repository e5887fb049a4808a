"""The shapes of a synthetic country fit together as its codes do."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from eree.data.tables import check
from eree.web.render.areas import read_areas
from eree_study.synth import synthesize

LEVELS = ("county", "place", "tract")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesize(tmp_path_factory.mktemp("made") / "up", jobs=200_000, seed=3, areas=True)


def features(folder: Path, level: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / f"{level}.geojson").read_text())["features"]
    return found


def rings(feature: dict[str, Any]) -> list[list[list[tuple[float, float]]]]:
    geometry = feature["geometry"]
    given = geometry["coordinates"]
    polygons = [given] if geometry["type"] == "Polygon" else given
    return [[[(x, y) for x, y in ring] for ring in polygon] for polygon in polygons]


def area(ring: list[tuple[float, float]]) -> float:
    points = np.array(ring) - np.array(ring[0])
    x, y = points[:, 0], points[:, 1]
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) / 2)


def size(feature: dict[str, Any]) -> float:
    return sum(area(ring) for polygon in rings(feature) for ring in polygon)


def test_tables_are_the_same_bytes_with_and_without_shapes(folder: Path, tmp_path: Path) -> None:
    plain = synthesize(tmp_path / "plain", jobs=200_000, seed=3)
    again = synthesize(tmp_path / "again", jobs=200_000, seed=3, areas=True)
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in plain.iterdir()} == names - {f"{n}.geojson" for n in LEVELS}
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
        if path.suffix != ".geojson":
            assert (plain / path.name).read_bytes() == path.read_bytes()
    assert check(folder)


def test_every_code_has_one_shape(folder: Path) -> None:
    workplaces = pq.read_table(folder / "workplace.parquet", columns=list(LEVELS))
    for level in LEVELS:
        codes = [feature["properties"][level] for feature in features(folder, level)]
        assert codes == sorted(set(codes))
        assert set(workplaces[level].to_pylist()) <= set(codes)
    places = pq.read_table(folder / "place.parquet")
    listed = {
        f["properties"]["place"]: f["properties"]["county"] for f in features(folder, "place")
    }
    assert listed == dict(
        zip(places["place"].to_pylist(), places["county"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("level", LEVELS)
def test_neighbours_share_their_borders_point_by_point(folder: Path, level: str) -> None:
    """Every piece of a border is walked once each way, but for the coast, once."""
    pieces: Counter[tuple[Any, Any]] = Counter()
    for feature in features(folder, level):
        for polygon in rings(feature):
            for number, ring in enumerate(polygon):
                assert ring[0] == ring[-1] and len(ring) >= 4
                assert (area(ring) > 0) == (number == 0)  # the outline to the left, holes right
                pieces.update(itertools.pairwise(ring))
    apart = {piece for piece in pieces if piece[0] != piece[1]}  # rounding may join two points
    assert max(pieces[piece] for piece in apart) == 1
    coast = [piece for piece in apart if piece[::-1] not in apart]
    assert 0 < len(coast) < len(apart) / 2
    ends = Counter(one for one, _ in coast)
    assert set(ends) == {two for _, two in coast}  # the coast closes


@pytest.mark.parametrize("level", ["place", "tract"])
def test_areas_fill_their_county(folder: Path, level: str) -> None:
    filled: dict[str, float] = {}
    for feature in features(folder, level):
        county = feature["properties"]["county"]
        filled[county] = filled.get(county, 0.0) + size(feature)
    for feature in features(folder, "county"):
        assert filled[feature["properties"]["county"]] == pytest.approx(size(feature), rel=1e-9)


def test_the_query_tool_reads_them(folder: Path) -> None:
    for level in LEVELS:
        found = read_areas(folder / f"{level}.geojson", level)
        assert len(found.shapes) == len(features(folder, level))
