"""Maps: areas coloured by their figures in classes of equal numbers, drawn on the server as SVG.

Every area has its figure as a title and leads to its own table; the page has all figures in a table
as well.  Colours come from the style sheet by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from eree.errors import Refusal
from eree.web.answer import MOST_CELLS, TooLarge, in_a_line
from eree.web.block import ABSENT, UNRELIABLE, Cell
from eree.web.dataset import DataSet, Variable
from eree.web.query import MOST_SIDES, Query
from eree.web.render.areas import AreaMap, Box, drawn_map
from eree.web.render.charts import figure, interval, number
from eree.web.words import say, spoken

CLASSES = 5
#: Rows of the table below a map, on a page.
PAGE_AREAS = 100


@dataclass(frozen=True)
class Mapped:
    """What of a data set is on the map: a variable, or a level of it."""

    variable: Variable
    level: str | None
    map: AreaMap

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the areas."""
        return self.variable.axis(self.level).codes

    @property
    def label(self) -> str:
        """What the areas are."""
        return self.variable.side_label(self.level)


def open_maps(
    given: Iterable[str],
    data_sets: Sequence[DataSet],
    left_out: Callable[[str], None] | None = None,
) -> dict[str, AreaMap]:
    """Read maps that are named as NAME=FILE or NAME:PROPERTY=FILE; refuses what fits nothing.

    With `left_out`, which hears why, a map that fits none of these data sets, or that cannot be
    read, is left out instead.
    """
    found: dict[str, AreaMap] = {}
    for text in given:
        names, has_file, file = str(text).partition("=")
        name, _, held_in = names.partition(":")
        if not has_file or not name or not file:
            raise Refusal(
                f"{text!r} names no map; write it as in place=areas.geojson, or"
                " place:GEOID=areas.geojson where GEOID holds the codes"
            )
        if name in found:
            raise Refusal(f"there are two maps for {name}; give one")
        try:
            found[name] = _fitting(file, name, held_in, _codes(data_sets, name))
        except Refusal as refusal:
            if left_out is None:
                raise
            left_out(f"a map is left out: {refusal}")
    return found


def _fitting(file: str, name: str, held_in: str, codes: set[str]) -> AreaMap:
    """The map in a file; refuses one that cannot be read or that fits none of these codes."""
    if not codes:
        raise Refusal(f"no data set has a variable or a level {name!r}; name one for the map")
    made = drawn_map(file, name, held_in)
    if made.fit(codes)[0]:
        return made
    one, other = sorted(codes)[0], sorted(made.paths)[0]
    raise Refusal(
        f"no code of {name} has a shape in {made.file}: codes are like {one!r}, and those of the"
        f" map like {other!r}; name the property that holds the codes"
    )


def _mappable(data: DataSet, name: str) -> list[tuple[Variable, str | None]]:
    """The variable of a data set, or the levels in it, that have a name."""
    own: list[tuple[Variable, str | None]] = [(v, None) for v in data.variables if v.name == name]
    return own or [(v, name) for v in data.variables if name in v.levels]


def _codes(data_sets: Iterable[DataSet], name: str) -> set[str]:
    """All codes of a variable, or of a level of some, that has a name."""
    fitting = (pair for data in data_sets for pair in _mappable(data, name))
    return {code for variable, level in fitting for code in variable.axis(level).codes}


def maps_of(data: DataSet, maps: Mapping[str, AreaMap]) -> list[Mapped]:
    """All that can be shown of a data set on a map."""
    found = [
        Mapped(variable, level, maps[name])
        for name in maps
        for variable, level in _mappable(data, name)
    ]
    return [mapped for mapped in found if mapped.map.fit(mapped.codes)[0]]


def chosen(query: Query, mapped: Sequence[Mapped]) -> Mapped:
    """What a query puts on the map: the first of its variables that can be, as it shows it."""

    def rank(one: Mapped) -> tuple[int, bool]:
        by, name = query.by, one.variable.name
        place = by.index(name) if name in by else len(by)
        return place, query.groups.get(name) != one.level

    return min(mapped, key=rank)


@dataclass(frozen=True)
class Area:
    """An area with its figure; `shade` is its class, -1 where it has none."""

    code: str
    label: str
    cell: Cell
    shade: int
    address: str
    #: The code of a filter that keeps it, where one does.
    keep: str = ""

    @property
    def hatched(self) -> bool:
        """Whether its figure is unreliable."""
        return UNRELIABLE in self.cell.flags


@dataclass(frozen=True)
class Shade:
    """A class of figures: from the least to the greatest of them."""

    low: str
    high: str
    count: int


class Picture:
    """A map of a query, and the figures on it."""

    def __init__(self, data: DataSet, query: Query, mapped: Mapped) -> None:
        self.data, self.mapped, self._asked = data, mapped, query
        name, level = mapped.variable.name, mapped.level
        groups = {} if level is None else {name: level}
        self.query = query.with_sides((name,), (), groups)
        if data.most(self.query.asked()) > MOST_CELLS:
            raise TooLarge(
                say(
                    "more than %(most)s areas cannot be drawn; keep fewer codes",
                    most=f"{MOST_CELLS:,}",
                )
            )
        figures = data.figures(self.query.asked())
        side, block = in_a_line(data, figures)
        cells = block.cells
        self.decimals = block.decimals if query.exact else None
        there = [i for i, cell in enumerate(cells) if ABSENT not in cell.flags]
        shades = classes([cells[i].value for i in there])
        self.areas = tuple(
            Area(
                side.codes(i)[0],
                side.told_apart(i)[0],
                cells[i],
                shade,
                self._table_of(query, side.codes(i)[0]),
                self._kept(side.codes(i)[0]),
            )
            for i, shade in zip(there, shades, strict=True)
        )

    @staticmethod
    def shows(query: Query, mapped: Mapped) -> dict[str, str]:
        """A choice of areas: its label, and the query that puts them on the map."""
        name, level = mapped.variable.name, mapped.level
        rows = (name, *(n for n in query.rows if n != name))
        cols = tuple(n for n in query.cols if n != name)
        if len(rows + cols) > MOST_SIDES:
            rows, cols = (name,), ()
        groups = {n: g for n, g in query.groups.items() if n != name}
        if level is not None:
            groups[name] = level
        made = query.with_sides(rows, cols, groups)
        return {"label": mapped.label, "address": made.address()}

    @property
    def instead(self) -> str:
        """What was asked for in the place of these areas, where there is no map of it."""
        name, asked = self.mapped.variable.name, self._asked
        other = name in asked.by and asked.groups.get(name) != self.mapped.level
        return self.mapped.variable.side_label(asked.groups.get(name)) if other else ""

    @property
    def caption(self) -> str:
        """What the map shows."""
        measure = self.data.measures[self.query.measure]
        kept = [self.data.variable(name).label for name in self.query.where]
        shown = say("%(measure)s by %(by)s", measure=measure, by=self.mapped.label)
        if not kept:
            return shown
        return say("%(caption)s (filtered by %(names)s)", caption=shown, names=", ".join(kept))

    def _kept(self, code: str) -> str:
        """The code that keeps an area in a filter; none where it takes several."""
        kept = self.mapped.variable.filter_of(code, self.mapped.level)
        return kept[0] if len(kept) == 1 else ""

    def _table_of(self, query: Query, code: str) -> str:
        """The address of the table of one area: by what else the query is by, or by what it can."""
        name, variable = self.mapped.variable.name, self.mapped.variable
        rows = tuple(n for n in query.rows if n != name)
        cols = tuple(n for n in query.cols if n != name)
        others = [v.name for v in self.data.variables if v.name != name and len(v.codes) <= 60]
        if not rows and not cols:
            rows = tuple(others[:1]) or (name,)
        where = {n: codes for n, codes in query.where.items() if n != name}
        where[name] = area = variable.filter_of(code, self.mapped.level)
        if name in query.where:  # an area that the filter cuts keeps its figure
            kept = set(variable.held(query.where[name]))
            if not kept >= set(held := variable.held(area)):
                where[name] = tuple(variable.codes[place] for place in held if place in kept)
        ordered = {v.name: where[v.name] for v in self.data.variables if v.name in where}
        made = replace(query, where=ordered).with_sides(rows, cols, query.groups)
        return f"/d/{self.data.name}?{made.address()}"

    @cached_property
    def legend(self) -> list[Shade]:
        """The classes, from the least figures."""
        found = []
        for shade in range(max((area.shade for area in self.areas), default=-1) + 1):
            cells = [area.cell for area in self.areas if area.shade == shade]
            ends = [min(cells, key=lambda c: c.value), max(cells, key=lambda c: c.value)]
            low, high = (figure(cell, self.decimals) for cell in ends)
            found.append(Shade(low, high, len(cells)))
        return found

    @property
    def ordered(self) -> list[Area]:
        """Areas in the order that the query asks for."""
        if self.query.sort == "code":
            return list(self.areas)
        sign = 1 if self.query.sort == "jobs" else -1
        return sorted(self.areas, key=lambda area: sign * area.cell.value)

    @cached_property
    def without_shape(self) -> list[Area]:
        """Areas with a figure that the map does not have."""
        return [area for area in self.areas if area.code not in self.mapped.map.paths]

    @property
    def without_figure(self) -> int:
        """How many shapes of the map have no figure here: nobody is there, or a filter."""
        return len(self.mapped.map.paths) - len(self.areas) + len(self.without_shape)

    def drawn(self) -> str:
        """The map as SVG, as near as the areas with figures allow; others are outlines."""
        shapes = self.mapped.map
        own = [area for area in self.areas if area.code in shapes.paths]
        own.sort(key=lambda area: _size(shapes.boxes[area.code]), reverse=True)  # small ones on top
        view = _view([shapes.boxes[area.code] for area in own], shapes)
        wide, codes = view[2], {area.code for area in own}
        rest = [
            path
            for code, path in shapes.paths.items()
            if code not in codes and _meet(shapes.boxes[code], view)
        ]
        step = max(wide, view[3]) / 110
        parts = [
            f'<svg class="map" xmlns="http://www.w3.org/2000/svg" aria-hidden="true"'
            f' viewBox="{" ".join(map(str, view))}">'
            f'<defs><pattern id="hatch" patternUnits="userSpaceOnUse" width="{step:.1f}"'
            f' height="{step:.1f}" patternTransform="rotate(45)">'
            f'<rect class="stripe" width="{step * 0.38:.1f}" height="{step:.1f}"/></pattern></defs>'
        ]
        if rest:
            parts.append(f'<path class="out" d="{"".join(rest)}"/>')
        for place, area in enumerate(own):
            said = f"{area.label}: {figure(area.cell, self.decimals)}"
            if self.query.measure == "jobs":
                said += f", {spoken(interval(area.cell, self.decimals))}"
                if area.hatched:
                    said = spoken(say("%(figure)s, unreliable", figure=said))
            again = f'<use href="#m{place}" fill="url(#hatch)"/>' if area.hatched else ""
            named = f' id="m{place}"' if area.hatched else ""
            parts.append(
                f'<a href={quoteattr(area.address)} tabindex="-1" data-code={quoteattr(area.code)}'
                f" data-keep={quoteattr(area.keep)}>"
                f"<title>{escape(said)}</title>"
                f'<g class="shade-{area.shade}"><path{named} d="{shapes.paths[area.code]}"/></g>'
                f"{again}</a>"
            )
        return "".join([*parts, "</svg>"])


def classes(values: Sequence[int], most: int = CLASSES) -> list[int]:
    """The class of each value: as many values in each as can be, and equal values in the same."""
    if not values:
        return []
    ranks = np.searchsorted(np.sort(np.array(values, dtype=np.int64)), values, side="left")
    rough = (ranks * most // len(values)).tolist()
    used = {shade: place for place, shade in enumerate(sorted(set(rough)))}
    return [used[shade] for shade in rough]


def _view(boxes: Sequence[Box], shapes: AreaMap) -> tuple[int, int, int, int]:
    """Left, top, width and height around boxes, with some room, and never all too near."""
    if not boxes:
        return 0, 0, max(shapes.width, 1), max(shapes.height, 1)
    ends = np.array(boxes)
    low, high = ends[:, :2].min(0), ends[:, 2:].max(0)
    room = max(12, int(0.03 * (high - low).max()))
    low, high = low - room, high + room
    wide, tall = (int(n) for n in np.maximum(high - low, 160))
    wide, tall = max(wide, tall * 2 // 3), max(tall, wide // 3)
    x, y = ((low + high) // 2 - (wide // 2, tall // 2)).tolist()
    return x, y, wide, tall


def _size(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _meet(box: Box, view: tuple[int, int, int, int]) -> bool:
    x, y, wide, tall = view
    return box[0] <= x + wide and box[2] >= x and box[1] <= y + tall and box[3] >= y


def describe_fit(name: str, shapes: AreaMap, data_sets: Sequence[DataSet]) -> str:
    """How many codes of a variable have a shape, in a line."""
    found, known, over = shapes.fit(_codes(data_sets, name))
    return (
        f"{shapes.file}: {number(found, 0)} of {number(known, 0)} codes of {name} have a"
        f" shape; shapes without a code here: {number(over, 0)},"
        f" features without a shape: {number(shapes.empty, 0)}"
    )


def describe_names(name: str, titles: Mapping[str, str], data_sets: Sequence[DataSet]) -> str:
    """How many codes of a variable have a name in a file of names, in a line."""
    codes = _codes(data_sets, name)
    found = len(codes & titles.keys())
    return (
        f"names of {name}: {number(found, 0)} of {number(len(codes), 0)} codes have one;"
        f" names without a code here: {number(len(titles) - found, 0)}"
    )
