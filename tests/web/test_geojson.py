"""Maps are read strictly, and drawn so that neighbours stay neighbours."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
import eree_study
from eree.web.render.areas import (
    LEAST,
    STEPS,
    AreaFile,
    area_map,
    drawn_map,
    projected,
    read_areas,
    simplified,
)

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]


def feature(code: Any, ring: Any = None, **more: Any) -> dict[str, Any]:
    geometry = {"type": "Polygon", "coordinates": [SQUARE if ring is None else ring]}
    return {"type": "Feature", "properties": {"place": code} | more, "geometry": geometry}


def collection(*features: Any, **more: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)} | more


def written(folder: Path, body: Any) -> Path:
    path = folder / "areas.geojson"
    path.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    return path


def test_codes_are_in_the_property_of_the_variable_or_in_one_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, collection(feature("17", GEOID="a", name=" Here "), feature(18)))
    found = read_areas(path, "place")
    assert list(found.shapes) == ["17", "18"] and found.titles == {"17": "Here", "18": "18"}
    with pytest.raises(eree.Refusal, match=r"feature 2 of the map .* has no code in its property"):
        read_areas(path, "county")  # GEOID, as codes usually are
    with pytest.raises(eree.Refusal, match="no code in its property 'nothing'"):
        read_areas(path, "place", "nothing")
    assert list(read_areas(written(tmp_path, collection(feature(1, GEOID="b"))), "x").shapes) == [
        "b"
    ]


def test_features_without_a_shape_are_counted(tmp_path: Path) -> None:
    empty = feature("2") | {"geometry": None}
    many = feature("3")
    many["geometry"] = {"type": "MultiPolygon", "coordinates": [[SQUARE], [SQUARE, SQUARE]]}
    found = read_areas(written(tmp_path, collection(feature("1"), empty, many)), "place")
    assert found.empty == 1 and {c: len(r) for c, r in found.shapes.items()} == {"1": 1, "3": 3}


NAN = json.dumps(collection(feature("1"))).replace("[1, 0]", "[NaN, 0]")
FAR = json.dumps(collection(feature("1"))).replace("[1, 0]", "[1e999, 0]")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        (NAN, "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "no GeoJSON FeatureCollection"),
        (feature("1"), "no GeoJSON FeatureCollection"),
        (collection(), "has no features"),
        ({"type": "FeatureCollection", "features": "x"}, "has no features"),
        (collection(feature("1"), 3), "feature 2 of the map areas.geojson is no GeoJSON Feature"),
        (collection({"type": "Feature", "properties": {"a": 1, "b": 2}}), "its properties: a, b"),
        (collection({"type": "Feature", "properties": None}), "its properties: none"),
        (collection(feature("")), "has no code"),
        (collection(feature(None)), "has no code"),
        (collection(feature(True)), "has no code"),
        (collection(feature("a\nb")), "has no code"),
        (collection(feature("1"), feature("1")), "has the code '1' twice"),
        (collection(feature("1"), feature(1)), "has the code '1' twice"),
        (collection(feature("1") | {"geometry": "x"}), "is no Polygon or MultiPolygon"),
        (
            collection(feature("1") | {"geometry": {"type": "Point", "coordinates": [0, 0]}}),
            "is no Polygon or MultiPolygon",
        ),
        (collection(feature("1") | {"geometry": {"type": "Polygon"}}), "no lists of rings"),
        (collection(feature("1", 5)), "no lists of rings"),
        (collection(feature("1", SQUARE[:4])), "a ring that is not closed"),
        (collection(feature("1", [[0, 0], [1, 1], [0, 0]])), "a ring that is not closed"),
        (collection(feature("1", [[0, 0], 1, 2, [0, 0]])), "no pair of numbers"),
        (collection(feature("1", [[0, 0], [1], [1, 1], [0, 0]])), "no pair of numbers"),
        (collection(feature("1", [[0, 0], ["1", 0], [1, 1], [0, 0]])), "no pair of finite numbers"),
        (collection(feature("1", [[0, 0], [True, 0], [1, 1], [0, 0]])), "pair of finite numbers"),
        (FAR, "no pair of finite numbers"),
        (collection(feature("1", [[0, 0], [10**400, 0], [1, 1], [0, 0]])), "finite numbers"),
        (collection(feature("1") | {"geometry": None}), "no feature with a shape"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    body: Any, why: str, tmp_path: Path
) -> None:
    with pytest.raises(eree.Refusal, match=why):
        read_areas(written(tmp_path, body), "place")


def test_what_is_too_large_or_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(eree.Refusal, match="cannot be read"):
        read_areas(tmp_path / "nothing.geojson", "place")
    path = written(tmp_path, collection(*(feature(code) for code in range(9))))
    for name, most, why in (
        ("MOST_BYTES", 100, "simplify it first"),
        ("MOST_POINTS", 20, "more than 20 points"),
        ("MOST_FEATURES", 8, "more than 8 features"),
    ):
        with monkeypatch.context() as patch, pytest.raises(eree.Refusal, match=why):
            patch.setattr(f"eree.web.render.areas.{name}", most)
            read_areas(path, "place")


def test_positions_are_degrees_where_they_can_be_or_the_file_says_so(tmp_path: Path) -> None:
    def degrees(scale: float, **more: Any) -> bool:
        ring = [[x * scale, y * scale] for x, y in SQUARE]
        return read_areas(
            written(tmp_path, collection(feature("1", ring), **more)), "place"
        ).degrees

    def named(name: str) -> dict[str, Any]:
        return {"type": "name", "properties": {"name": name}}

    assert degrees(1) and degrees(80) and not degrees(100_000)
    assert not degrees(1, crs=named("urn:ogc:def:crs:EPSG::5070"))
    assert degrees(1, crs=named("urn:ogc:def:crs:OGC:1.3:CRS84"))


def area(points: np.ndarray) -> float:
    x, y = points[:, 0], points[:, 1]
    return abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2


def test_equal_areas_stay_equal() -> None:
    """Fields of one degree between two parallels, in the north and in the south of a country."""
    step = np.linspace(0, 1, 50)
    fields = []
    for south in (30.0, 45.0):
        top = np.degrees(np.arcsin(np.sin(np.radians(south)) + 0.01))  # the same area on the globe
        for west in (-100.0, -80.0):
            low = np.stack([west + step, np.full(50, south)], axis=1)
            high = np.stack([west + 1 - step, np.full(50, top)], axis=1)
            fields.append(np.concatenate([low, high]))
    flat = projected(np.concatenate(fields))
    sizes = [area(part) for part in np.split(flat, 4)]
    assert max(sizes) / min(sizes) < 1.0001


def test_a_country_across_180_degrees_is_in_one_piece() -> None:
    points = np.array([[179.0, 60], [-179, 60], [-179, 62], [179, 62], [-170, 61], [172, 61]])
    flat = projected(points)
    wide, high = np.ptp(flat, axis=0)
    assert 2.5 < wide / high < 6  # 18 degrees of longitude at 61, beside 2 of latitude


def read_path(text: str) -> list[list[tuple[int, int]]]:
    """The rings of a path, as a browser reads it."""
    found = []
    for part in text.split("z")[:-1]:
        first, _, steps = part.removeprefix("M").partition("l")
        x, y = map(int, re.findall(r"-?\d+", first))
        ring = [(x, y)]
        numbers = list(map(int, re.findall(r"-?\d+", steps)))
        for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
            x, y = x + dx, y + dy
            ring.append((x, y))
        found.append(ring)
    return found


@pytest.mark.parametrize("most", [200, 1_500, 40_000])
def test_neighbours_share_their_borders_however_much_is_left_out(most: int, tmp_path: Path) -> None:
    made = eree_study.synthesize(tmp_path / "made", jobs=100_000, areas=True)
    areas = read_areas(made / "place.geojson", "place")
    found = area_map(areas, most)
    assert set(found.paths) == set(areas.shapes)
    pieces: Counter[tuple[Any, Any]] = Counter()
    count = 0
    for code, text in found.paths.items():
        left, top, right, bottom = found.boxes[code]
        for ring in read_path(text):
            assert len(ring) >= 3
            assert all(left <= x <= right and top <= y <= bottom for x, y in ring)
            count += len(ring)
            pieces.update(zip(ring, ring[1:] + ring[:1], strict=True))
    shared = sum(pieces[one, two] and pieces[two, one] for one, two in pieces)
    whole = area_map(areas, 10**9)
    assert count <= sum(len(r) for text in whole.paths.values() for r in read_path(text))
    assert count <= 2 * most + 400  # corners where three meet stay
    assert shared > len(pieces) / 3  # most borders are inside the country
    assert (
        found.width <= STEPS and found.height <= STEPS and max(found.width, found.height) == STEPS
    )


grids = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=6, max_size=40, unique=True
)


@given(grids, st.integers(1, 30))
def test_a_hole_and_what_fills_it_lose_the_same_points(
    points: list[tuple[int, int]], start: int
) -> None:
    """The same ring, begun anywhere and walked the other way, keeps the same points."""
    turned = (points[start % len(points) :] + points[: start % len(points)])[::-1]
    one, two = simplified([points, turned], 5)
    assert set(one) == set(two) and set(one) <= set(points)


def test_an_area_too_small_to_draw_is_a_small_square(tmp_path: Path) -> None:
    tiny = [[x * 1e-5 + 5, y * 1e-5 + 5] for x, y in SQUARE]
    large = [[x * 20, y * 20] for x, y in SQUARE]
    found = area_map(
        read_areas(written(tmp_path, collection(feature("t", tiny), feature("l", large))), "place")
    )
    left, top, right, bottom = found.boxes["t"]
    assert (right - left, bottom - top) == (LEAST, LEAST) and len(
        read_path(found.paths["t"])[0]
    ) == 4


def test_what_is_drawn_already_stays_as_it_is() -> None:
    ring = np.array([[0, 0], [2e6, 0], [2e6, 1e6], [0, 1e6], [0, 0]])
    found = area_map(AreaFile("a", "b", {"x": (ring,)}, {}, False, 0))
    assert sorted(read_path(found.paths["x"])[0]) == [(0, 0), (0, 2000), (4000, 0), (4000, 2000)]


def test_a_map_is_drawn_once_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    path = written(
        tmp_path, collection(feature("1"), feature("2", [[x + 1, y] for x, y in SQUARE]))
    )
    first = drawn_map(path, "place")
    assert first == area_map(read_areas(path, "place"))
    with monkeypatch.context() as patch:
        patch.setattr("eree.web.render.areas.area_map", None)
        assert drawn_map(path, "place") == first
        with pytest.raises(TypeError):  # codes of another property are other areas
            drawn_map(path, "place", "place")
    written(tmp_path, collection(feature("1")))
    assert set(drawn_map(path, "place").paths) == {"1"}
