"""Areas of a public GeoJSON file, read strictly and made ready to be drawn.

Only features with a code and a Polygon or a MultiPolygon of finite positions are understood; others
are refused, by their place.  Areas are projected, simplified by shapely, and drawn on a fine grid.
Neighbours stay neighbours: a border that two areas share loses the same points in both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.cache import texts_of

Points = NDArray[np.float64]
#: The largest file, and the most positions and features in it.
MOST_BYTES, MOST_POINTS, MOST_FEATURES = 128 << 20, 2_000_000, 100_000
#: Properties that hold a code where the file does not name one like the variable.
COMMON_PROPERTIES = ("GEOID", "GEOID20", "GEOID10", "geoid", "code", "id")
#: Properties that hold a name for people.
NAMES = ("NAMELSAD", "NAME", "name", "label")
#: Reference systems in which positions are degrees; others are taken as they are drawn.
DEGREES = ("CRS84", "4326", "4269")
#: The longer side of a map has so many steps of the grid.
STEPS = 4_000
#: All areas of a map together have at most so many points, or so many for each area: where every
#: border is a straight line, areas have six corners on average.
MOST_DRAWN, LEAST_DRAWN = 40_000, 8
#: Points of an outline that crosses itself: what it goes around takes the square of them.
MOST_CROSSING = 500
#: An area smaller than a square of so many steps, or thinner than one, is drawn as such a square.
LEAST = 6
#: What shapely calls a polygon.
_POLYGON = 3
_SQUARE = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * (LEAST // 2)
Steps = NDArray[np.int64]
Polygon = tuple[Points, ...]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class AreaFile:
    """The areas of a file: polygons of each (outline and holes), and its name where there is one.

    `degrees` says whether positions are longitudes and latitudes; `empty` is how many features
    have a code but no shape.
    """

    file: str
    held_in: str
    shapes: Mapping[str, tuple[Polygon, ...]]
    titles: Mapping[str, str]
    degrees: bool
    empty: int


def drawn_map(path: str | os.PathLike[str], name: str, held_in: str = "") -> AreaMap:
    """The areas of a variable as they are drawn; known from the last time, of the same file."""
    data, file = _content(path), Path(path).name

    def draw() -> tuple[str, ...]:
        return (json.dumps(asdict(area_map(areas_in(data, file, name, held_in)))),)

    what = f"map {sha256(data).hexdigest()} {file!r} {name!r} {held_in!r} {version('shapely')}"
    found = json.loads(texts_of(what, draw)[0])
    found["boxes"] = {code: tuple(box) for code, box in found["boxes"].items()}
    return AreaMap(**found)


def read_areas(path: str | os.PathLike[str], name: str, held_in: str = "") -> AreaFile:
    """Read the areas of a variable; codes are `held_in` a property, or in one of a common name."""
    return areas_in(_content(path), Path(path).name, name, held_in)


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError:
        raise Refusal(
            f"the map {path} cannot be read; name a GeoJSON file that you may read"
        ) from None
    if len(data) > MOST_BYTES:
        said = f"the map {Path(path).name} has more than {MOST_BYTES >> 20} MB; simplify it first"
        raise Refusal(said)
    return data


def areas_in(data: bytes, file: str, name: str, held_in: str = "") -> AreaFile:
    """The areas of a variable in the content of a file."""
    found = _parsed(data, file)
    features = found.get("features") if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("type") != "FeatureCollection":
        raise Refusal(f"the map {file} is no GeoJSON FeatureCollection; give one")
    if not isinstance(features, list) or not features:
        raise Refusal(f"the map {file} has no features; give one for each area")
    if len(features) > MOST_FEATURES:
        raise Refusal(f"the map {file} has more than {MOST_FEATURES:,} features; give fewer areas")
    chosen = held_in or _code_property(features[0], name, file)
    shapes: dict[str, tuple[Polygon, ...]] = {}
    titles: dict[str, str] = {}
    empty = left = 0
    for number, feature in enumerate(features, start=1):
        reader = _Feature(feature, f"feature {number} of the map {file}")
        code = reader.code(chosen)
        if code in shapes or code in titles:
            raise Refusal(f"the map {file} has the code {code!r} twice; give each area one feature")
        titles[code] = reader.title(chosen) or code
        polygons = tuple(reader.polygons())
        left += sum(len(ring) for rings in polygons for ring in rings)
        if left > MOST_POINTS:
            raise Refusal(f"the map {file} has more than {MOST_POINTS:,} points; simplify it first")
        if polygons:
            shapes[code] = polygons
        else:
            empty += 1
    if not shapes:
        raise Refusal(f"the map {file} has no feature with a shape; give a file that has them")
    return AreaFile(file, chosen, shapes, titles, _in_degrees(found, shapes), empty)


def _parsed(data: bytes, file: str) -> Any:
    def constant(_word: str) -> float:
        raise ValueError

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=constant)
    except (ValueError, RecursionError):
        raise Refusal(f"the map {file} is no GeoJSON; it cannot be read as JSON") from None


def _code_property(feature: Any, name: str, file: str) -> str:
    """The property of the first feature that is named as the variable, or as codes often are."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    known = properties if isinstance(properties, dict) else {}
    for candidate in (name, *COMMON_PROPERTIES):
        if candidate in known:
            return candidate
    listed = ", ".join(map(str, list(known)[:8])) or "none"
    raise Refusal(
        f"the map {file} has no property {name!r}; name the one with the codes, as in"
        f" {name}:PROPERTY={file} (its properties: {listed})"
    )


@dataclass(frozen=True)
class _Feature:
    """One feature, and how it is called in a refusal."""

    feature: Any
    place: str

    @property
    def _properties(self) -> Mapping[str, Any]:
        if not isinstance(self.feature, dict) or self.feature.get("type") != "Feature":
            raise Refusal(f"{self.place} is no GeoJSON Feature")
        found = self.feature.get("properties")
        return found if isinstance(found, dict) else {}

    def code(self, name: str) -> str:
        code = self._properties.get(name)
        if isinstance(code, int) and not isinstance(code, bool):
            code = str(code)
        if not isinstance(code, str) or not code or len(code) > 200 or not code.isprintable():
            raise Refusal(f"{self.place} has no code in its property {name!r}; give each one")
        return code

    def title(self, code: str) -> str:
        for name in NAMES:
            found = self._properties.get(name)
            if name != code and isinstance(found, str) and found.isprintable():
                return found.strip()[:100]
        return ""

    def polygons(self) -> Iterator[Polygon]:
        """The polygons of the shape that have rings; none where there is no shape."""
        geometry = self.feature.get("geometry")
        if geometry is None:
            return
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        if kind not in ("Polygon", "MultiPolygon"):
            raise Refusal(f"{self.place} is no Polygon or MultiPolygon; areas must be")
        given = geometry.get("coordinates")
        for polygon in [given] if kind == "Polygon" else self._list(given):
            if rings := tuple(map(self._ring, self._list(polygon))):
                yield rings

    def _list(self, given: Any) -> list[Any]:
        if not isinstance(given, list):
            raise Refusal(f"{self.place} has coordinates that are no lists of rings")
        return given

    def _ring(self, given: Any) -> Points:
        ring = self._list(given)
        if len(ring) < 4 or ring[0] != ring[-1]:
            raise Refusal(
                f"{self.place} has a ring that is not closed; a ring has four or more positions,"
                " the last like the first"
            )
        if len(ring) > MOST_POINTS:
            raise Refusal(f"{self.place} has too many points; simplify it first")
        for position in ring:
            if not isinstance(position, list) or not 2 <= len(position) <= 4:
                raise Refusal(f"{self.place} has a position that is no pair of numbers")
            for number in position[:2]:
                if type(number) not in (int, float) or not -1e9 < number < 1e9:
                    raise Refusal(f"{self.place} has a position that is no pair of finite numbers")
        return np.array([position[:2] for position in ring], dtype=np.float64)


def _in_degrees(found: Mapping[str, Any], shapes: Mapping[str, tuple[Polygon, ...]]) -> bool:
    """Whether positions are degrees: as the file says, else where all of them can be."""
    named = found.get("crs")
    if isinstance(named, dict):
        text = json.dumps(named.get("properties"))
        return any(word in text for word in DEGREES)
    polygons = chain.from_iterable(shapes.values())
    points = np.concatenate(list(chain.from_iterable(polygons)))
    greatest = np.abs(points).max(0)
    assert isfinite(greatest[0])
    return bool(greatest[0] <= 360 and greatest[1] <= 90)


@dataclass(frozen=True)
class AreaMap:
    """What is drawn of a file: for each code a path in whole steps, and the box around it."""

    file: str
    titles: Mapping[str, str]
    empty: int
    width: int
    height: int
    paths: Mapping[str, str]
    boxes: Mapping[str, Box]

    def fit(self, codes: Iterable[str]) -> tuple[int, int, int]:
        """How many codes have a shape, how many there are, and how many shapes have no code."""
        known = set(codes)
        found = len(known & self.paths.keys())
        return found, len(known), len(self.paths) - found


def area_map(areas: AreaFile, most: int = MOST_DRAWN) -> AreaMap:
    """Project the areas of a file, simplify them and draw them on the grid."""
    import shapely  # only who draws a map waits for it

    polygons = list(chain.from_iterable(areas.shapes.values()))
    rings = list(chain.from_iterable(polygons))
    points = np.concatenate(rings)
    flat = projected(points) if areas.degrees else points
    low, high = flat.min(0), flat.max(0)
    scale = STEPS / max(float((high - low).max()), 1e-9)
    flat = np.round((flat - low) * scale, 1)  # the same for neighbours that differ by a hair
    width, height = np.rint(flat.max(0)).astype(int).tolist()
    flat[:, 1] = height - flat[:, 1]
    given = shapely.linearrings(flat, indices=_places(rings))
    given = shapely.polygons(given, indices=_places(polygons))
    given = shapely.multipolygons(given, indices=_places(areas.shapes.values()))
    paths: dict[str, str] = {}
    boxes: dict[str, Box] = {}
    drawn = simplified(given, max(most, LEAST_DRAWN * len(given)))
    for code, shape, own in zip(areas.shapes, given, drawn, strict=True):
        if not own:
            x, y = np.rint(shapely.get_coordinates(shapely.point_on_surface(shape))[0])
            own = [_SQUARE + np.array([x, y], dtype=np.int64)]
        paths[code] = "".join(map(path, own))
        ends = np.concatenate(own)
        (left, top), (right, bottom) = ends.min(0).tolist(), ends.max(0).tolist()
        boxes[code] = (left, top, right, bottom)
    return AreaMap(areas.file, areas.titles, areas.empty, width, height, paths, boxes)


def _places(parts: Iterable[Sized]) -> NDArray[np.int64]:
    """For each member of each part the place of the part."""
    sizes = [len(part) for part in parts]
    return np.repeat(np.arange(len(sizes)), sizes)


def projected(points: Points) -> Points:
    """Degrees on a plane: Albers' equal-area cone, or as they are where it would not look right."""
    longitude, latitude = points[:, 0].copy(), np.clip(points[:, 1], -90, 90)
    places = np.unique(np.round(longitude, 2))
    gaps = np.diff(places)
    gap = gaps.max(initial=0)
    if 360 - (places[-1] - places[0]) < gap < 359.9:  # it lies across 180 degrees
        cut = places[int(np.argmax(gaps))]
        longitude[longitude <= cut + 0.01] += 360
    south, north = float(latitude.min()), float(latitude.max())
    wide = float(longitude.max() - longitude.min())
    middle = (float(longitude.min()) + float(longitude.max())) / 2
    one, two = np.radians([south + (north - south) / 6, north - (north - south) / 6])
    cone = (np.sin(one) + np.sin(two)) / 2
    if wide > 150 or north - south > 100 or abs(cone) < 0.02:
        narrow = np.cos(np.radians((south + north) / 2))
        return np.stack([(longitude - middle) * narrow, latitude], axis=1)
    constant = np.cos(one) ** 2 + 2 * cone * np.sin(one)
    top = np.sqrt(np.maximum(constant - 2 * cone * np.sin((one + two) / 2), 0)) / cone
    radius = np.sqrt(np.maximum(constant - 2 * cone * np.sin(np.radians(latitude)), 0)) / cone
    angle = cone * np.radians(longitude - middle)
    return np.stack([radius * np.sin(angle), top - radius * np.cos(angle)], axis=1)


def simplified(areas: NDArray[Any], most: int) -> list[list[Steps]]:
    """Rings of areas with at most about so many points; borders that are shared stay shared.

    Areas that overlap stay as they are, and those that cross themselves are all that their rings
    go around.  Islands and holes that are lost in the slack are left out; areas too small or too
    thin to be seen have no rings.
    """
    import shapely

    parts, owner = shapely.get_parts(areas, return_index=True)
    many = shapely.get_num_coordinates(parts) > MOST_CROSSING
    for place in np.flatnonzero(many & ~shapely.is_valid(parts)):
        outline = shapely.get_coordinates(shapely.get_exterior_ring(parts[place]))
        parts[place] = shapely.Polygon(outline[: -1 : -(-len(outline) // MOST_CROSSING)])
    areas, count = shapely.multipolygons(parts, indices=owner), len(areas)
    wrong = ~shapely.is_valid(areas)
    areas[wrong] = [_valid(area) for area in areas[wrong]]
    parts, owner = shapely.get_parts(areas, return_index=True)
    rings, part = shapely.get_rings(parts, return_index=True)
    owner, sign = owner[part], np.where(np.diff(part, prepend=-1), 1, -1)  # outlines are first
    rings = shapely.polygons(rings)
    largest = np.zeros(count)
    np.maximum.at(largest, owner, shapely.area(rings))
    main = shapely.area(rings) == largest[owner]
    slack = 2.0
    while True:
        rings = shapely.coverage_simplify(rings, slack)
        kept = main | (shapely.area(rings) >= slack**2)
        rings, owner, sign, main = rings[kept], owner[kept], sign[kept], main[kept]
        drawn = int(shapely.get_num_coordinates(rings).sum()) - len(rings)
        if drawn <= most or slack > STEPS:
            break
        slack *= max(1.2, (drawn / most) ** 0.5)
    rings = shapely.transform(rings, np.rint)
    inside = np.bincount(owner, sign * shapely.area(rings), count)
    around = np.bincount(owner, shapely.length(rings), count)
    seen = inside >= np.maximum(LEAST**2, around / 2)  # on average it is a step wide
    points, of = shapely.get_coordinates(rings, return_index=True)
    moved = (of[1:] == of[:-1]) & np.any(points[1:] != points[:-1], axis=1)  # nor the last
    points, of = points[:-1][moved].astype(np.int64), of[:-1][moved]
    found: list[list[Steps]] = [[] for _ in range(count)]
    ends = np.searchsorted(of, np.arange(1, len(rings)))
    for place, ring in zip(owner, np.split(points, ends) if len(rings) else (), strict=True):
        if seen[place] and len(ring) >= 3:
            found[place].append(ring)
    return found


def _valid(area: Any) -> Any:
    """All that the rings of an area go around; what they enclose by turns where GEOS gives up."""
    import shapely

    try:
        return shapely.make_valid(area, method="structure", keep_collapsed=False)
    except shapely.errors.GEOSException:
        parts = shapely.get_parts(shapely.get_parts(shapely.make_valid(area)))
        return shapely.multipolygons(parts[shapely.get_type_id(parts) == _POLYGON])


def path(ring: Steps) -> str:
    """A ring as the data of an SVG path, in steps from point to point."""
    (x, y), steps = ring[0].tolist(), np.diff(ring, axis=0).tolist()
    return f"M{x} {y}l{' '.join(f'{x} {y}' for x, y in steps)}z".replace(" -", "-")
