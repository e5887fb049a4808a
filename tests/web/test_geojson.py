"""Maps are read strictly, and drawn so that neighbours stay neighbours."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import shapely
from hypothesis import strategies as st

import eree
import eree_study
import pages
from eree.web.render.areas import (
    LEAST,
    LEAST_DRAWN,
    STEPS,
    AreaFile,
    AreaMap,
    area_map,
    drawn_map,
    path,
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
    rings = {code: [len(polygon) for polygon in shape] for code, shape in found.shapes.items()}
    assert found.empty == 1 and rings == {"1": [1], "3": [1, 2]}


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


def test_the_whole_world_lies_across_nothing() -> None:
    found = projected(
        np.array([[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]], float)
    )
    assert np.ptp(found[:, 0]) == 2 * np.ptp(found[:, 1])


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


Ring = list[tuple[float, float]]


def drawn(shapes: Mapping[str, Sequence[Sequence[Ring]]], most: int = 40_000) -> AreaMap:
    """A map of areas on a plane: polygons of each, an outline and its holes."""
    given = {
        code: tuple(tuple(np.array([*ring, ring[0]], dtype=float) for ring in p) for p in polygons)
        for code, polygons in shapes.items()
    }
    return area_map(AreaFile("a", "b", given, {}, False, 0), most)


def rectangle(x: float, y: float, wide: float, high: float) -> Ring:
    return [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]


def size(text: str) -> float:
    """What a path goes around, line by line and by the rule of even and odd, as a browser does."""
    across, lines = [], []
    for ring in read_path(text):
        for (x, y), (to_x, to_y) in zip(ring, [*ring[1:], ring[0]], strict=True):
            line = np.arange(min(y, to_y), max(y, to_y)) + 0.5
            lines.append(line)
            across.append(x + (line - y) * (to_x - x) / ((to_y - y) or 1))
    ordered = np.concatenate(across)[np.lexsort((np.concatenate(across), np.concatenate(lines)))]
    return float((ordered[1::2] - ordered[::2]).sum())


def points(found: AreaMap) -> int:
    return sum(len(ring) for text in found.paths.values() for ring in read_path(text))


FRAME = (-9, -9, 14, 14)


@st.composite
def countries(draw: st.DrawFn) -> dict[str, list[list[Ring]]]:
    """A rectangle cut into fields along crooked lines, in a sea; some fields together are an area.

    So areas have islands, holes, and holes that others fill.
    """
    wide, high = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    between = draw(st.integers(0, 12))
    random = draw(st.randoms(use_true_random=False))
    line: dict[tuple[Any, Any], Ring] = {}
    for x, y in itertools.product(range(wide + 1), range(high + 1)):
        for across in (True, False):
            steps = []
            for k in range(1, between + 1):
                along = k / (between + 1)
                aside = random.uniform(-0.6, 0.6) * min(along, 1 - along)
                steps.append((x + along, y + aside) if across else (x + aside, y + along))
            end = (x + 1, y) if across else (x, y + 1)
            line[(x, y), end], line[end, (x, y)] = steps, steps[::-1]
    count = draw(st.integers(1, 4))
    fields: dict[str, list[Any]] = {}
    for x, y in itertools.product(range(wide), range(high)):
        corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)]
        sides = zip(corners, [*corners[1:], corners[0]], strict=True)
        ring = [point for one, two in sides for point in (one, *line[one, two])]
        fields.setdefault(str(random.randrange(count)), []).append(shapely.Polygon(ring))
    shapes = {code: shapely.coverage_union_all(own) for code, own in fields.items()}
    land = shapely.coverage_union_all(list(shapes.values()))
    shapes["sea"] = shapely.difference(shapely.box(*FRAME), land)
    return {code: given(shape) for code, shape in shapes.items()}


def given(shape: Any) -> list[list[Ring]]:
    return [
        [ring.coords[:-1] for ring in shapely.get_rings(polygon)]
        for polygon in shapely.get_parts(shapely.orient_polygons(shape))
    ]


@hypothesis.given(countries(), st.sampled_from([100, 200, 10_000]))
def test_neighbours_share_their_borders_exactly(
    country: dict[str, list[list[Ring]]], most: int
) -> None:
    """Each piece of a border is walked by two, but for the frame; no place is left or taken."""
    found = drawn(country, most)
    rings = sum(len(polygon) for polygons in country.values() for polygon in polygons)
    assert points(found) <= max(most, 12 * rings)
    hypothesis.assume(rings == sum(text.count("M") for text in found.paths.values()))
    pieces: Counter[tuple[Any, Any]] = Counter()
    frame = ""
    for text in found.paths.values():
        for ring in read_path(text):
            if {0, STEPS} <= {x for x, _ in ring}:
                frame = path(np.array(ring))
                continue
            pairs = zip(ring, ring[1:] + ring[:1], strict=True)
            pieces.update((min(pair), max(pair)) for pair in pairs)
    assert all(times % 2 == 0 for times in pieces.values())
    assert sum(map(size, found.paths.values())) == pytest.approx(size(frame), abs=1e-3)


@pytest.mark.parametrize("most", [200, 1_500, 40_000])
def test_a_country_is_drawn_with_as_many_points_as_are_asked_for(most: int, tmp_path: Path) -> None:
    made = eree_study.synthesize(tmp_path / "made", jobs=100_000, areas=True)
    areas = read_areas(made / "place.geojson", "place")
    found = area_map(areas, most)
    assert set(found.paths) == set(areas.shapes)
    for code, text in found.paths.items():
        left, top, right, bottom = found.boxes[code]
        for ring in read_path(text):
            assert len(ring) >= 3
            assert all(left <= x <= right and top <= y <= bottom for x, y in ring)
    assert points(found) <= max(most, LEAST_DRAWN * len(found.paths))
    assert max(found.width, found.height) == STEPS


def test_many_islands_and_holes_are_left_out_before_areas_lose_their_shape() -> None:
    holes = [rectangle(10 + 8 * k, 10 + 8 * j, 2, 2) for k in range(40) for j in range(40)]
    islands = [[rectangle(500 + 8 * k, 8 * j, 3, 3)] for k in range(40) for j in range(40)]
    shapes = {
        "a": [[rectangle(0, 0, 400, 400), *holes], *islands],
        "b": [[rectangle(450, 0, 2, 2)]],
    }
    assert points(drawn(shapes)) == 4 * 3202
    found = drawn(shapes, 100)
    assert len(read_path(found.paths["a"])) == 1 and len(read_path(found.paths["b"])[0]) >= 3
    left, top, right, bottom = found.boxes["b"]
    assert min(right - left, bottom - top) > LEAST  # an area stays, however small beside the slack


def test_holes_and_islands_are_drawn() -> None:
    land = [rectangle(0, 0, 100, 100), rectangle(20, 20, 30, 30)]
    found = drawn({"a": [land, [rectangle(150, 0, 50, 40)]], "b": [[rectangle(20, 20, 30, 30)]]})
    assert size(found.paths["a"]) == (100 * 100 - 30 * 30 + 50 * 40) * (STEPS / 200) ** 2
    assert {frozenset(r) for r in read_path(found.paths["b"])} < {
        frozenset(r) for r in read_path(found.paths["a"])
    }


def test_areas_that_overlap_are_drawn_as_they_are() -> None:
    one, two = rectangle(0, 0, 60, 100), rectangle(40, 20, 60, 50)
    found = drawn({"a": [[one]], "b": [[two]], "again": [[one]], "back": [[one[::-1]]]})
    scale = (STEPS / 100) ** 2
    assert size(found.paths["a"]) == 6000 * scale and size(found.paths["b"]) == 3000 * scale
    assert found.paths["a"] == found.paths["again"]
    assert found.boxes["a"] == found.boxes["back"] and size(found.paths["back"]) == 6000 * scale


def test_a_ring_that_crosses_itself_is_all_that_it_goes_around() -> None:
    tie: Ring = [(0, 0), (100, 100), (100, 0), (0, 100)]
    assert size(drawn({"a": [[tie]]}).paths["a"]) == STEPS**2 / 2
    twice = [*rectangle(0, 0, 100, 100), (0, 0), (50, 0), (50, 50), (0, 50)]
    assert size(drawn({"a": [[twice]]}).paths["a"]) == STEPS**2
    both = [[rectangle(0, 0, 60, 100)], [rectangle(40, 0, 60, 100)]]
    assert size(drawn({"a": both}).paths["a"]) == STEPS**2  # no hole where its parts overlap


def test_a_ring_that_crosses_itself_everywhere_is_drawn_roughly() -> None:
    ring = np.random.default_rng(1).uniform(0, 1_000, (20_000, 2)).tolist()
    found = drawn({"a": [[[*map(tuple, ring), tuple(ring[0])]]], "b": [[rectangle(0, 0, 9, 9)]]})
    assert size(found.paths["a"]) > found.width * found.height / 2
    assert points(found) <= 40_000 and found.paths["b"]


@hypothesis.given(st.lists(st.integers(0, 3), min_size=99, max_size=99), st.integers(1, 99))
def test_neighbours_that_differ_by_a_hair_are_neighbours(aside: list[int], off: int) -> None:
    crooked = [(50.0 + x, float(y)) for y, x in enumerate(aside, start=1)]
    moved = [(x + 1e-6 * (y % off), y - 1e-6 * (y * off % 7)) for x, y in crooked]
    left: Ring = [(0, 0), (50, 0), *crooked, (50, 100), (0, 100)]
    right: Ring = [(50, 0), (100, 0), (100, 100), (50, 100), *moved[::-1]]
    one, two = drawn({"l": [[left]], "r": [[right]]}, 100).paths.values()
    inner = [{p for p in read_path(t)[0] if 0 < p[0] < STEPS} for t in (one, two)]
    assert inner[0] == inner[1]


def test_slivers_stay_in_sight() -> None:
    """Areas around each other, each thinner than a line, and one that is a line."""
    far: Ring = rectangle(-5000, -5000, 10000, 10000)
    shapes = {
        str(k): [[rectangle(-k - 1, -k - 1, 2 * k + 2, 2 * k + 2), rectangle(-k, -k, 2 * k, 2 * k)]]
        for k in range(200, 210)
    }
    shapes |= {"far": [[far, shapes["209"][0][0]]], "line": [[[(0, 0), (90, 90), (0, 0)]]]}
    shapes |= {"thin": [[rectangle(-4000, -300, 8000, 2)]], "wide": [[rectangle(0, 300, 4000, 6)]]}
    found = drawn(shapes)
    assert [found.boxes[code][2] - found.boxes[code][0] for code in ("thin", "wide")] == [6, 1600]
    squares = 0
    for code, text in found.paths.items():
        assert size(text) >= LEAST**2, code
        left, top, right, bottom = found.boxes[code]
        if code.isdigit() and right - left == LEAST:  # not in the middle, where it is not
            aside = max(abs(left + right - STEPS), abs(top + bottom - STEPS)) / 2
            assert abs(aside - int(code) * STEPS / 10000) <= 2
            squares += 1
    assert 0 < squares < 10


rings = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=8),
    min_size=1,
    max_size=3,
)


@hypothesis.given(
    st.lists(st.lists(rings, min_size=1, max_size=3), min_size=1, max_size=6),
    st.sampled_from([1, 9, 60]),
)
def test_whatever_rings_are_given_every_area_is_drawn_in_its_place(
    shapes: list[list[list[Ring]]], extent: int
) -> None:
    frame: dict[str, Any] = {"frame": [[rectangle(0, 0, 9 * extent, 9 * extent)]]}
    found = drawn(frame | {str(place): shape for place, shape in enumerate(shapes)})
    assert set(found.paths) == set(found.boxes) == {"frame", *map(str, range(len(shapes)))}
    step = STEPS / (9 * extent)
    for place, shape in enumerate(shapes):
        given = np.array([point for polygon in shape for ring in polygon for point in ring])
        left, low = given.min(0) * step
        right, high = given.max(0) * step
        box = found.boxes[str(place)]
        assert left - LEAST <= box[0] < box[2] <= right + LEAST
        assert STEPS - high - LEAST <= box[1] < box[3] <= STEPS - low + LEAST
        for ring in read_path(found.paths[str(place)]):
            assert len(ring) >= 3


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
    found = drawn({"x": [[rectangle(0, 0, 2e6, 1e6)]]})
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


def test_shapely_is_loaded_by_who_draws_a_map_and_by_no_later_start(tmp_path: Path) -> None:
    path = written(tmp_path, collection(feature("1")))
    code = f"""
import sys
import eree.web.server
from eree.web.render.areas import drawn_map
assert "shapely" not in sys.modules
drawn_map({str(path)!r}, "place")
print("shapely" in sys.modules)
"""
    around = pages.environment() | {"EREE_CACHE": str(tmp_path / "cache")}
    for loaded in ("True", "False"):
        done = subprocess.run(
            [sys.executable, "-c", code], env=around, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == loaded
    asking = [sys.executable, "-X", "importtime", "-m", "eree", "serve", "--help"]
    asked = subprocess.run(asking, env=around, capture_output=True, text=True, check=True)
    assert "eree.cli" in asked.stderr and "shapely" not in asked.stderr


def test_an_area_on_which_geos_gives_up_is_drawn_by_what_its_lines_enclose() -> None:
    crossing = [(2, 3), (8, 4), (7, 4), (2, 9), (9, 0), (0, 4)]
    hole = [(5, 7), (0, 6), (3, 8), (6, 2), (9, 7), (8, 0), (6, 1)]
    other = [(7, 9), (1, 1), (0, 0), (4, 5), (8, 7), (7, 0)]
    grown = [np.array(ring) * 444.4 for ring in (crossing, hole, other)]
    area = shapely.MultiPolygon([(grown[0], [grown[1]]), (grown[2], [])])
    with pytest.raises(shapely.errors.GEOSException):
        shapely.make_valid(area, method="structure", keep_collapsed=False)
    (found,) = simplified(np.array([area]), 100)
    assert found and all(len(ring) >= 3 for ring in found)
    around = np.concatenate(found)
    assert around.min() >= 0 and around.max() <= 9 * 444.4 + LEAST
