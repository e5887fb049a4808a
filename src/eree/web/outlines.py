"""Areas made ready to be drawn: projected, put on a fine grid, and with fewer points.

Neighbours stay neighbours: a border that two areas share loses the same points in both.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eree.web.geojson import AreaFile, Points

#: The longer side of a map has so many steps of the grid.
STEPS = 4_000
#: All areas of a map together have at most about so many points.
MOST_DRAWN = 40_000
#: An area of fewer steps is drawn as a square of so many.
LEAST = 6
Point = tuple[int, int]
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Outlines:
    """What is drawn: for each code a path in whole steps, and the box around it."""

    width: int
    height: int
    paths: Mapping[str, str]
    boxes: Mapping[str, Box]


def outlines(areas: AreaFile, most: int = MOST_DRAWN) -> Outlines:
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
            kept, box = [square(box)], _around(box)
        paths[code] = "".join(map(path, kept))
        boxes[code] = (box[0], box[1], box[2], box[3])
        first = last
    return Outlines(int(grid[:, 0].max()), height, paths, boxes)


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


def square(box: Sequence[int]) -> list[Point]:
    """A small square where an area is too small to be drawn."""
    left, top, right, bottom = _around(box)
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _around(box: Sequence[int]) -> Box:
    x, y, half = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2, LEAST // 2
    return x - half, y - half, x + half, y + half
