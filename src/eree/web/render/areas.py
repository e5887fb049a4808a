"""Areas of a public GeoJSON file, read strictly and made ready to be drawn.

Only features with a code and a Polygon or a MultiPolygon of finite positions are understood; others
are refused, by their place.  Areas are projected, put on a fine grid, and drawn with fewer points.
Neighbours stay neighbours: a border that two areas share loses the same points in both.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
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
#: All areas of a map together have at most about so many points.
MOST_DRAWN = 40_000
#: An area of fewer steps is drawn as a square of so many.
LEAST = 6
Point = tuple[int, int]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class AreaFile:
    """The areas of a file: rings of each, and its name where there is one.

    `degrees` says whether positions are longitudes and latitudes; `empty` is how many features
    have a code but no shape.
    """

    file: str
    held_in: str
    shapes: Mapping[str, tuple[Points, ...]]
    titles: Mapping[str, str]
    degrees: bool
    empty: int


def drawn_map(path: str | os.PathLike[str], name: str, held_in: str = "") -> AreaMap:
    """The areas of a variable as they are drawn; known from the last time, of the same file."""
    data, file = _content(path), Path(path).name

    def draw() -> tuple[str, ...]:
        return (json.dumps(asdict(area_map(areas_in(data, file, name, held_in)))),)

    what = f"map {sha256(data).hexdigest()} {file!r} {name!r} {held_in!r}"
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
    shapes: dict[str, tuple[Points, ...]] = {}
    titles: dict[str, str] = {}
    empty = left = 0
    for number, feature in enumerate(features, start=1):
        reader = _Feature(feature, f"feature {number} of the map {file}")
        code = reader.code(chosen)
        if code in shapes or code in titles:
            raise Refusal(f"the map {file} has the code {code!r} twice; give each area one feature")
        titles[code] = reader.title(chosen) or code
        rings = tuple(reader.rings())
        left += sum(len(ring) for ring in rings)
        if left > MOST_POINTS:
            raise Refusal(f"the map {file} has more than {MOST_POINTS:,} points; simplify it first")
        if rings:
            shapes[code] = rings
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

    def rings(self) -> Iterator[Points]:
        """The rings of the shape, outlines and holes alike; none where there is no shape."""
        geometry = self.feature.get("geometry")
        if geometry is None:
            return
        kind = geometry.get("type") if isinstance(geometry, dict) else None
        if kind not in ("Polygon", "MultiPolygon"):
            raise Refusal(f"{self.place} is no Polygon or MultiPolygon; areas must be")
        given = geometry.get("coordinates")
        for polygon in [given] if kind == "Polygon" else self._list(given):
            for ring in self._list(polygon):
                yield self._ring(ring)

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


def _in_degrees(found: Mapping[str, Any], shapes: Mapping[str, tuple[Points, ...]]) -> bool:
    """Whether positions are degrees: as the file says, else where all of them can be."""
    named = found.get("crs")
    if isinstance(named, dict):
        text = json.dumps(named.get("properties"))
        return any(word in text for word in DEGREES)
    points = np.concatenate([ring for rings in shapes.values() for ring in rings])
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
    """Project the areas of a file, put them on the grid and simplify them."""
    rings = [ring for shape in areas.shapes.values() for ring in shape]
    points = np.concatenate(rings)
    flat = projected(points) if areas.degrees else points
    low, high = flat.min(0), flat.max(0)
    scale = STEPS / max(float((high - low).max()), 1e-9)
    grid = np.rint((flat - low) * scale).astype(np.int64)
    height = int(grid[:, 1].max())
    grid[:, 1] = height - grid[:, 1]
    ends = np.cumsum([len(ring) for ring in rings])
    fewer = simplified([_opened(part) for part in np.split(grid, ends[:-1])], most)
    paths: dict[str, str] = {}
    boxes: dict[str, Box] = {}
    first = 0
    for code, shape in areas.shapes.items():
        last = first + len(shape)
        whole = grid[(ends[first - 1] if first else 0) : ends[last - 1]]
        box = (*whole.min(0).tolist(), *whole.max(0).tolist())
        kept = [ring for ring in fewer[first:last] if len(ring) >= 3]
        if not kept or max(box[2] - box[0], box[3] - box[1]) < LEAST:
            x, y, half = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2, LEAST // 2
            left, top, right, bottom = box = (x - half, y - half, x + half, y + half)
            kept = [[(left, top), (right, top), (right, bottom), (left, bottom)]]
        paths[code] = "".join(map(path, kept))
        boxes[code] = (box[0], box[1], box[2], box[3])
        first = last
    width = int(grid[:, 0].max())
    return AreaMap(areas.file, areas.titles, areas.empty, width, height, paths, boxes)


def projected(points: Points) -> Points:
    """Degrees on a plane: Albers' equal-area cone, or as they are where it would not look right."""
    longitude, latitude = points[:, 0].copy(), np.clip(points[:, 1], -90, 90)
    places = np.unique(np.round(longitude, 2))
    gaps = np.diff(places)
    if len(gaps) and gaps.max() > 360 - (places[-1] - places[0]):  # it lies across 180 degrees
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


def simplified(rings: Sequence[Sequence[Point]], most: int) -> list[list[Point]]:
    """Rings with as few points as are asked for, or so; borders that are shared stay shared."""
    beside: dict[Point, set[Point]] = {}
    for ring in rings:
        for place, point in enumerate(ring):
            beside.setdefault(point, set()).update((ring[place - 1], ring[(place + 1) % len(ring)]))
    parts = [_parts(ring, beside) for ring in rings]
    slack = 1.0
    while True:
        known: dict[tuple[Point, ...], tuple[Point, ...]] = {}
        parts = [[_fewer(part, slack, known) for part in ring] for ring in parts]
        count = sum(len(part) - 1 for ring in parts for part in ring)
        if count <= most or slack > STEPS / 40:
            return [[point for part in ring for point in part[:-1]] for ring in parts]
        slack *= max(1.5, count / most)


def _opened(ring: NDArray[np.int64]) -> list[Point]:
    """A ring on the grid without the point that closes it, and without points in the same place."""
    moved = np.any(ring != np.roll(ring, 1, axis=0), axis=1)
    found: list[Point] = [(x, y) for x, y in ring[moved].tolist()]
    return found


def _parts(ring: Sequence[Point], beside: Mapping[Point, set[Point]]) -> list[tuple[Point, ...]]:
    """A ring cut where borders meet; one that meets none is cut where every other would cut it."""
    if len(ring) < 3:
        return []
    cuts = [place for place, point in enumerate(ring) if len(beside[point]) > 2]
    if not cuts:
        cuts = [min(range(len(ring)), key=lambda place: ring[place])]
    if len(cuts) == 1:
        x, y = ring[cuts[0]]
        far = max(
            range(len(ring)), key=lambda k: ((ring[k][0] - x) ** 2 + (ring[k][1] - y) ** 2, ring[k])
        )
        cuts = sorted({cuts[0], far})
    turned = [*ring[cuts[0] :], *ring[: cuts[0]], ring[cuts[0]]]
    places = [cut - cuts[0] for cut in cuts] + [len(ring)]
    return [tuple(turned[a : b + 1]) for a, b in itertools.pairwise(places)]


def _fewer(
    part: tuple[Point, ...], slack: float, known: dict[tuple[Point, ...], tuple[Point, ...]]
) -> tuple[Point, ...]:
    """The points of a border without which it would be off by more than the slack."""
    backwards = part[::-1] < part
    one = part[::-1] if backwards else part
    if one not in known:
        line = np.array(one, dtype=np.float64)
        kept = {0, len(one) - 1}
        open_ = [(0, len(one) - 1)]
        while open_:
            start, end = open_.pop()
            if end - start < 2:
                continue
            along = line[end] - line[start]
            off = line[start + 1 : end] - line[start]
            length = float(np.hypot(*along))
            cross = along[0] * off[:, 1] - along[1] * off[:, 0]
            far = np.abs(cross) / length if length else np.hypot(off[:, 0], off[:, 1])
            middle = int(np.argmax(far))
            if far[middle] > slack:
                place = start + 1 + middle
                kept.add(place)
                open_ += [(start, place), (place, end)]
        known[one] = tuple(one[place] for place in sorted(kept))
    found = known[one]
    return found[::-1] if backwards else found


def path(ring: Sequence[Point]) -> str:
    """A ring as the data of an SVG path, in steps from point to point."""
    (x, y), *others = ring
    steps = []
    for to_x, to_y in others:
        steps.append(f"{to_x - x} {to_y - y}")
        x, y = to_x, to_y
    return f"M{ring[0][0]} {ring[0][1]}l{' '.join(steps)}z".replace(" -", "-")
