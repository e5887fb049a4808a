"""Shapes for the synthetic geography: GeoJSON of its counties, places and tracts.

The country is an island in the middle of the Atlantic, where no land is.  It is made of small
fields around scattered points, strung on a curve that fills the plane; every site gets some fields
in a row, so that what lies together in the geography lies together on the map: places and tracts in
their county, counties in their state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Voronoi

from eree.random.exact import Array, Integers
from eree_study.synth.geography import Geography, apportion

#: Where the island lies, and how many degrees it is wide and high.
WEST, SOUTH, WIDE, HIGH = -38.0, 37.0, 9.0, 7.0
#: Fields for each site: enough for a shape, few enough for a small file.
_FIELDS = 5
_DECIMALS = 4
#: How far a field's point is from the middle, of its side; and a border's bend, of its length.
_SCATTER, _BEND = 0.42, 0.12
#: A ring as corners, each with the border that begins there.
Ring = list[tuple[int, int]]


def write_areas(folder: Path, geography: Geography, rng: np.random.Generator) -> None:
    """Write county.geojson, place.geojson and tract.geojson into a folder."""
    sheet = _Sheet(geography, rng)
    codes_of_states = np.array([state.code for state in geography.states])
    state = codes_of_states[geography.state_of_county].tolist()

    def within(county: Integers) -> dict[str, list[str]]:
        counties = county.tolist()
        return {
            "county": [geography.counties[c] for c in counties],
            "state": [state[c] for c in counties],
        }

    county_of_site = geography.county_of_place[geography.place_of_site]
    levels: tuple[tuple[str, list[str], Integers, dict[str, list[str]]], ...] = (
        ("county", geography.counties, county_of_site, {"state": state}),
        ("place", geography.places, geography.place_of_site, within(geography.county_of_place)),
        ("tract", geography.tracts, geography.tract_of_site, within(geography.county_of_tract)),
    )
    for name, codes, of_site, above in levels:
        shapes = sheet.shapes(of_site)
        with (folder / f"{name}.geojson").open("w", encoding="utf-8") as file:
            file.write('{"type":"FeatureCollection","features":[\n')
            file.write(",\n".join(_features(name, codes, above, shapes)))
            file.write("\n]}\n")


def _features(
    name: str,
    codes: Sequence[str],
    above: Mapping[str, Sequence[str]],
    shapes: Mapping[int, dict[str, Any]],
) -> Iterator[str]:
    for place in sorted(shapes, key=lambda place: codes[place]):
        properties = {name: codes[place]} | {n: values[place] for n, values in above.items()}
        feature = {"type": "Feature", "properties": properties, "geometry": shapes[place]}
        yield json.dumps(feature, separators=(",", ":"))


class _Sheet:
    """Fields around scattered points, each of a site or of the sea, and the borders of them."""

    def __init__(self, geography: Geography, rng: np.random.Generator) -> None:
        sites = _in_order(geography)
        fields = max(300, _FIELDS * len(sites))
        side = 1 << int(np.ceil(np.log2(np.sqrt(1.5 * fields))))
        curve = _hilbert(side)
        land = np.flatnonzero(_land(side, rng)[curve[:, 1], curve[:, 0]])
        place = geography.place_of_site[sites]
        parts = np.bincount(place)[place]  # a city is larger than a village, but not by as much
        weight = np.sqrt((geography.population[place] + 50.0) * geography.footprint[sites] / parts)
        each = 1 + apportion(len(land) - len(sites), weight)
        self._site = np.full(len(curve), -1, dtype=np.int64)
        self._site[land] = np.repeat(sites, each)
        points = (curve + 0.5 + rng.uniform(-_SCATTER, _SCATTER, curve.shape)) / side
        for wave in (1, 2, 3):  # bends what would be straight
            phase = rng.uniform(0, 2 * np.pi, 2)
            swing = 0.05 / wave * np.sin(np.pi * 2 * wave * points[:, ::-1] + phase)
            points = points + swing * (4 * points * (1 - points))[:, ::-1]
        drawn = Voronoi(points)
        self._beside = drawn.ridge_points.astype(np.int64)
        self._ends = np.array(drawn.ridge_vertices, dtype=np.int64)
        self._corners = drawn.vertices
        ends = self._corners[self._ends]
        along = ends[:, 1] - ends[:, 0]
        bend = rng.uniform(-_BEND, _BEND, (len(ends), 1))
        self._middles = ends.mean(1) + bend * np.stack([-along[:, 1], along[:, 0]], axis=1)
        seen = points[self._beside[:, 0]] - ends[:, 0]  # whether the first point is on the left
        self._first_left = along[:, 0] * seen[:, 1] - along[:, 1] * seen[:, 0] > 0

    def shapes(self, of_site: Integers) -> dict[int, dict[str, Any]]:
        """A Polygon or MultiPolygon for each area, by its number; holes follow their outlines."""
        area = np.append(of_site, -1)[self._site]  # the sea's site is the last
        sides = area[self._beside]
        ways: dict[int, dict[int, tuple[int, int]]] = {}
        for ridge in np.flatnonzero(sides[:, 0] != sides[:, 1]).tolist():
            one, two = self._ends[ridge].tolist()
            for side, number in enumerate(sides[ridge].tolist()):
                if number >= 0:
                    forth = bool(self._first_left[ridge]) == (side == 0)
                    start, end = (one, two) if forth else (two, one)
                    ways.setdefault(number, {})[start] = (end, ridge)
        return {number: self._shape(_walked(borders)) for number, borders in ways.items()}

    def _shape(self, rings: Iterable[Ring]) -> dict[str, Any]:
        drawn = [self._drawn(ring) for ring in rings]
        polygons = [[ring] for ring in drawn if _area(ring) > 0]
        for hole in (ring for ring in drawn if _area(ring) < 0):
            homes = [p for p in polygons if len(polygons) == 1 or _inside(hole[0], p[0])]
            min(homes, key=lambda polygon: _area(polygon[0])).append(hole)
        parts = [
            [[[round(float(c), _DECIMALS) for c in point] for point in ring] for ring in polygon]
            for polygon in polygons
        ]
        if len(parts) == 1:
            return {"type": "Polygon", "coordinates": parts[0]}
        return {"type": "MultiPolygon", "coordinates": parts}

    def _drawn(self, ring: Ring) -> Array:
        """A closed ring of positions, with a bend in the middle of each border."""
        corners = self._corners[[corner for corner, _ in ring]]
        middles = self._middles[[ridge for _, ridge in ring]]
        points = np.stack([corners, middles], axis=1).reshape(-1, 2)
        found: Array = np.append(points, points[:1], axis=0) * (WIDE, HIGH) + (WEST, SOUTH)
        return found


def _in_order(geography: Geography) -> Integers:
    """Sites so that each state, county, place and tract is a run of them.

    In a county, a tract is part of one place or holds several small ones; so the sites of whichever
    is larger stand together.
    """
    place, tract = geography.place_of_site, geography.tract_of_site
    county = geography.county_of_place[place]
    owned = np.bincount(place)[place] > 1
    block = np.where(owned, place, len(geography.places) + tract)
    order: Integers = np.lexsort((tract, place, block, county)).astype(np.int64)
    return order


def _land(side: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which fields are land: an island with bays."""
    y, x = np.mgrid[0:side, 0:side] / (side - 1) * 2 - 1
    angle = np.arctan2(y, x)
    coast = np.full_like(angle, 0.84)
    for wave in range(2, 9):
        coast += 0.11 / wave * np.cos(wave * angle + rng.uniform(0, 2 * np.pi))
    found: NDArray[np.bool_] = (np.abs(x) ** 2.6 + np.abs(y) ** 2.6) ** (1 / 2.6) < coast
    return found


def _hilbert(side: int) -> Integers:
    """The fields of a square as a walk that goes to a neighbour with every step, x and y."""
    step = np.arange(side * side, dtype=np.int64)
    x, y = np.zeros_like(step), np.zeros_like(step)
    size = 1
    while size < side:
        right = 1 & (step // 2)
        up = 1 & (step ^ right)
        turned, mirrored = up == 0, (up == 0) & (right == 1)
        x[mirrored], y[mirrored] = size - 1 - x[mirrored], size - 1 - y[mirrored]
        x[turned], y[turned] = y[turned], x[turned]
        x, y, step, size = x + size * right, y + size * up, step // 4, size * 2
    return np.stack([x, y], axis=1)


def _walked(ways: dict[int, tuple[int, int]]) -> Iterator[Ring]:
    """Rings along borders; three borders meet at a corner, so an area goes through it once."""
    while ways:
        start = here = next(iter(ways))
        ring: Ring = []
        while not ring or here != start:
            there, ridge = ways.pop(here)
            ring.append((here, ridge))
            here = there
        yield ring


def _area(ring: Array) -> float:
    """The doubled area of a closed ring, above 0 where it goes round counter-clockwise."""
    x, y = ring[:, 0] - ring[0, 0], ring[:, 1] - ring[0, 1]
    return float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]))


def _inside(point: Array, ring: Array) -> bool:
    """Whether a point lies in a closed ring."""
    _x, y = ring[:, 0], ring[:, 1]
    between = (y[:-1] > point[1]) != (y[1:] > point[1])
    one, two = ring[:-1][between], ring[1:][between]
    at = one[:, 0] + (point[1] - one[:, 1]) * (two[:, 0] - one[:, 0]) / (two[:, 1] - one[:, 1])
    return bool(np.count_nonzero(point[0] < at) % 2)
