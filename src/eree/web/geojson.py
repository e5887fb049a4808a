"""Reads a public GeoJSON file of areas, strictly: what is not understood is refused, by its place.

Only features with a code and a Polygon or a MultiPolygon of finite positions are understood.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal

Points = NDArray[np.float64]
#: The largest file, and the most positions and features in it.
MOST_BYTES, MOST_POINTS, MOST_FEATURES = 128 << 20, 2_000_000, 100_000
#: Properties that hold a code where the file does not name one like the variable.
USUAL_PROPERTIES = ("GEOID", "GEOID20", "GEOID10", "geoid", "code", "id")
#: Properties that hold a name for people.
NAMES = ("NAMELSAD", "NAME", "name", "label")
#: Reference systems in which positions are degrees; others are taken as they are drawn.
DEGREES = ("CRS84", "4326", "4269")


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


def read_areas(path: str | os.PathLike[str], name: str, held_in: str = "") -> AreaFile:
    """Read the areas of a variable; codes are `held_in` a property, or in one of a usual name."""
    file = Path(path).name
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError:
        raise Refusal(
            f"the map {path} cannot be read; name a GeoJSON file that you may read"
        ) from None
    if len(data) > MOST_BYTES:
        raise Refusal(f"the map {file} has more than {MOST_BYTES >> 20} MB; simplify it first")
    found = _parsed(data, file)
    features = found.get("features") if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("type") != "FeatureCollection":
        raise Refusal(f"the map {file} is no GeoJSON FeatureCollection; give one")
    if not isinstance(features, list) or not features:
        raise Refusal(f"the map {file} has no features; give one for each area")
    if len(features) > MOST_FEATURES:
        raise Refusal(f"the map {file} has more than {MOST_FEATURES:,} features; give fewer areas")
    chosen = held_in or _usual(features[0], name, file)
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


def _usual(feature: Any, name: str, file: str) -> str:
    """The property of the first feature with the name of the variable, or as codes usually are."""
    properties = feature.get("properties") if isinstance(feature, dict) else None
    known = properties if isinstance(properties, dict) else {}
    for candidate in (name, *USUAL_PROPERTIES):
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
