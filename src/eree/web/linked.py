"""A released table of linked data in memory, with sums and intervals of public things alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, floor, prod
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED, MeanNoise
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.policy.schema import Schema, Value
from eree.random.exact import Integers
from eree.release.price import Ends, Measurement, Numbers
from eree.release.release import Release
from eree.survey.query import Axis
from eree.web.dataset import (
    JOBS,
    WORKPLACES,
    Asked,
    DataSet,
    Figures,
    Mask,
    Variable,
    combined,
)
from eree.web.hierarchy import levels_of
from eree.web.promise import in_one_line
from eree.web.words import Joined, say
from eree.workload import Marginal

#: An estimate is unreliable if its margin is a larger share of it.
UNRELIABLE = 0.5
#: So many combinations of codes are marked one by one to be counted.
MOST_MARKED = 1 << 20
#: So many levels of intervals are remembered, or so many bytes of them for a large table.
MOST_LEVELS, MOST_BYTES = 128, 64 << 20
#: So many answers whose intervals hold together are remembered.
MOST_TOGETHER = 8


class LinkedTable(DataSet):
    """A table of a release: noisy counts of jobs in the cells that have workplaces.

    No standard errors are public, because the noise depends on the largest workplace of a cell,
    which is confidential; intervals are.
    """

    kind = "table"
    errors = ("margin", "interval", "relative")
    unreliable_means = say("its margin of error is more than half of it, or it is 0 or less")
    absent_means = say("no workplace is there, which is public, so there are exactly 0 jobs")

    def __init__(self, name: str, release: Release, table: str, checks: tuple[str, ...]) -> None:
        about = release.about(table)
        by = tuple(map(str, about["by"]))
        rows = release.table(table)
        areas = Areas.read(release, table, by)
        assert isinstance(areas.measurement, Measurement)
        self._areas = replace(areas, measurement=_Remembered.of(areas.measurement))
        self._attributes = {name: self._areas.schema.attributes[name] for name in by}
        self.table, self._about = table, about
        codes: dict[str, list[Value]] = {}
        self._codes: dict[str, Integers] = {}
        for attribute in self._attributes.values():
            column = rows[attribute.name].combine_chunks().dictionary_encode()
            found: list[Any] = column.dictionary.to_pylist()
            # workplaces that a filter leaves out have no rows; workers have empty ones
            kept = about["where"].get(attribute.name) if attribute.owner == "workplace" else None
            declared = kept or attribute.values
            known = list(declared) if declared is not None else sorted(found)
            place = {code: i for i, code in enumerate(known)}
            order = np.array([place[code] for code in found], dtype=np.int64)
            codes[attribute.name] = known
            self._codes[attribute.name] = order[column.indices.to_numpy()]
        self._known, schema, self.rows = codes, self._areas.schema, rows.num_rows
        self.intervals = "calibrated" if areas.calibrated else "guaranteed"
        self.profiles = {t: release.table(t) for t in release.tables if release.of_workplaces(t)}
        self._cells = np.arange(self.rows)
        self._values: dict[str, Integers] = {JOBS: rows["noisy"].to_numpy()}
        self.measures = {JOBS: say("Jobs")}
        counted = (*by, *about["where"])
        if all(schema.attributes[name].owner == "workplace" for name in counted):
            # each workplace is in one cell alone, and their number is public
            self._values[WORKPLACES] = rows["workplaces"].to_numpy()
            self.measures |= {WORKPLACES: say("Workplaces (exact)")}
        self.universe = _universe(schema, about["where"])
        titles = {a.name: a.label or a.name for a in schema.attributes.values()}
        variables = tuple(
            Variable(
                attribute.name,
                titles[attribute.name],
                tuple(map(str, codes[attribute.name])),
                tuple(attribute.describe(code) for code in codes[attribute.name]),
                levels_of(release, attribute.name, codes[attribute.name]),
                titles,
            )
            for attribute in self._attributes.values()
        )
        sides = ", ".join(_lowered(v.label) for v in variables)
        shown = say("by %(variables)s", variables=sides) if variables else say("in all")
        title = Joined(": ", (_worded(table), shown))
        title, self.note = about["about"].get("title", title), about["about"].get("note", "")
        super().__init__(name, title, release, variables, checks)
        self._lock, self._together = Lock(), list[tuple[Asked, Figures]]()
        for names in ((), by[:1]):  # what sums need of the noise is found before anyone asks
            self.figures(Asked(names, {}, {}))

    def most(self, asked: Asked) -> int:
        """How many combinations the published cells have that the filter keeps."""
        cells, axes, on_axes = self._kept(asked)
        keys, number = combined(axes, on_axes, len(cells)), prod(len(axis.codes) for axis in axes)
        if number > MOST_MARKED:
            return len(np.unique(keys))
        found = np.zeros(number, dtype=np.bool_)
        found[keys] = True
        return int(np.count_nonzero(found))

    def _kept(self, asked: Asked) -> tuple[NDArray[np.intp], tuple[Axis, ...], list[Integers]]:
        """The cells that a filter keeps, the axes of the table, and where they are on each."""
        cells, axes, places = self._cells, [], []
        if asked.where:
            kept = np.ones(self.rows, dtype=np.bool_)
            for name, codes in asked.where.items():
                held = np.zeros(len(self.variable(name).codes), dtype=np.bool_)
                held[self.variable(name).held(codes)] = True
                kept &= held[self._codes[name]]
            cells = np.flatnonzero(kept)
        for name in asked.by:
            variable, level = self.variable(name), asked.groups.get(name)
            place = self._codes[name]
            place = place if cells is self._cells else place[cells]
            axes.append(variable.axis(level))
            places.append(place if level is None else variable.group_places(level)[place])
        return cells, tuple(axes), places

    def figures(self, asked: Asked) -> Figures:
        """Sums of signed noisy counts; intervals as `eree.area_totals` makes them.

        Those that hold together take long, and have several pages: some are kept.
        """
        if not asked.together:
            return self._figures(asked)
        with self._lock:
            kept = next((found for one, found in self._together if one == asked), None)
        if kept is None:
            kept = self._figures(asked)
            with self._lock:
                self._together = [(asked, kept), *self._together[: MOST_TOGETHER - 1]]
        return kept

    def _figures(self, asked: Asked) -> Figures:
        if asked.measure not in self._values:
            raise Refusal(f"there is no measure {asked.measure!r} in this data set")
        cells, axes, on_axes = self._kept(asked)
        keys = combined(axes, on_axes, len(cells))
        starts: Integers = np.zeros(min(len(cells), 1), dtype=np.int64)
        if axes:
            order = _in_order(keys, prod(len(axis.codes) for axis in axes))
            cells, keys = cells[order], keys[order]
            starts = np.flatnonzero(np.diff(keys, prepend=-1)).astype(np.int64)
        places = tuple(place[order[starts]].astype(np.intp) for place in on_axes)
        if not len(starts):  # where no workplace is, there are no figures; the total is exactly 0
            none = np.zeros(0 if axes else 1)
            absent = np.ones(none.shape, dtype=np.bool_)
            return Figures(axes, places, none.astype(np.int64), 1, none, none, absent=absent)
        values = np.add.reduceat(self._values[asked.measure][cells], starts)
        if asked.measure != JOBS:
            exact = values.astype(np.float64)
            return Figures(axes, places, values, 1, exact, exact)
        where: Mapping[str, tuple[Value, ...]] = asked.where
        keys_of = _NO_KEYS
        if asked.guaranteed or not asked.by:  # a table of their workplaces may bound worker cells
            where = {name: self._values_of(name, codes) for name, codes in asked.where.items()}
        names = tuple(asked.groups.get(name, name) for name in asked.by)
        if asked.guaranteed and len(set(names)) == len(names):
            codes = [self._codes_of(name, asked.groups.get(name)) for name in asked.by]
            sides = zip(names, codes, places, strict=True)
            keys_of = pa.table({n: [of[p] for p in own.tolist()] for n, of, own in sides})
        wanted = Marginal(names, MappingProxyType(dict(where)))
        areas = replace(self._areas, wanted=wanted, keys=keys_of, place=cells, starts=starts)
        if asked.guaranteed:
            low, high = areas.ends(1 - asked.confidence)
        else:
            low, high = areas.calibrated_ends(asked.confidence, simultaneous=asked.together)
        top = np.where(high == UNBOUNDED, np.inf, high.astype(np.float64))
        return Figures(axes, places, values, 1, low.astype(np.float64), top)

    def _codes_of(self, name: str, level: str | None) -> list[Value]:
        """The values on a side of a table: those of a variable, or of a level above it."""
        if level is None:
            return self._known[name]
        whole = self._areas.schema.attributes[level].kind == "integer"
        return [int(g.code) if whole else g.code for g in self.variable(name).levels[level]]

    def _values_of(self, name: str, codes: Sequence[str]) -> tuple[Value, ...]:
        """The values in the table that a filter keeps by codes and groups."""
        return tuple(self._known[name][place] for place in self.variable(name).held(codes))

    def unreliable(self, figures: Figures) -> Mask:
        """A margin above half of the estimate; exact figures never."""
        margin = figures.margin_of_error
        found = np.asarray((margin > UNRELIABLE * figures.values) & (margin > 0))
        return found if figures.absent is None else found & ~figures.absent

    @cached_property
    def bias(self) -> str:
        """What was bounded before noise was added, or is asymmetric in it."""
        mechanism = self._areas.measurement.mechanism
        mean = mechanism.mean_noise
        if mechanism.bound is not None:
            return say(
                "Workplaces above a size were left out before the count, so that figures are too"
                " small where there are such; nothing public says by how much."
            )
        if mechanism.first_stage is not None:
            return say(
                "Workplaces were scaled down to a noisy bound before the count, so that figures may"
                " be too small; intervals take that into account."
            )
        if mean is None:
            return say(
                "This noise is not the same on both sides, so that figures may be off on"
                " average, and sums of many with them; intervals hold all the same."
            )
        return "" if mean == MeanNoise() else _mean_of(mean)

    def noise(self) -> list[str]:
        """How noise was added."""
        about, price = self._about, guarantee_of(self._about["price"])
        parameters = dict(about["parameters"])
        digest = parameters.pop("levels", None)
        cells, name = int(about["worker_cells"]), about["mechanism"]
        others = [one for one in self._areas.measurement.drawn_with if one != self.table]
        added = say(
            "The mechanism %(mechanism)s added integers, drawn exactly from a secret random"
            " source.",
            mechanism=name,
        )
        if cells > 1:
            added = say(
                "The mechanism %(mechanism)s added integers to the %(cells)s worker cells of a"
                " group together, drawn exactly from a secret random source.",
                mechanism=name,
                cells=cells,
            )
        paid = say(
            "For this table the release paid %(price)s; for all of its tables together %(all)s.",
            price=in_one_line(price),
            all=self.promise,
        )
        if others:
            paid = say(
                "For this table and %(others)s, drawn at once, the release paid %(price)s; for all"
                " of its tables together %(all)s.",
                others=", ".join(others),
                price=in_one_line(price),
                all=self.promise,
            )
        listed = ", ".join(f"{k} = {v}" for k, v in parameters.items())
        return [
            added,
            paid,
            say("Its parameters are %(parameters)s.", parameters=listed)
            if parameters
            else say("It has no further parameters."),
            *([_levels(digest)] if digest else []),
            say("Cells without a workplace are not listed: which workplaces exist is public."),
            self.bias
            or say(
                "Estimates are right on average, so that sums of them are; that is why a single one"
                " may be below 0."
            ),
        ]

    def certificates(self) -> list[dict[str, Any]]:
        """The certificate of the table's mechanism."""
        measurement = self._areas.measurement
        assert isinstance(measurement, Measurement)
        made, _ = measurement.certificate()
        claim = made.guarantee
        return [
            {
                "mechanism": made.mechanism,
                "of": self.table,
                "claimed": in_one_line(claim),
                "found_epsilon": f"{float(made.found_epsilon):.6g}",
                "found_delta": f"{float(made.found_delta):.3g}",
                "claimed_epsilon": plain(claim.epsilon),
                "holds": made.holds,
            }
        ]


class _Remembered(Measurement):
    """A measurement that remembers the intervals of its table at the levels asked for last."""

    @cached_property
    def _kept(self) -> dict[float, tuple[Integers, Integers]]:
        return {}

    @cached_property
    def _lock(self) -> Lock:
        return Lock()  # questions are answered in several threads

    def intervals(self, schema: Schema, marginal: Marginal, level: float) -> Ends:
        """Ends for all rows of the table; it has no others."""

        def ends(rows: Numbers) -> tuple[Integers, Integers]:
            found = self._kept.get(level)
            if found is None:
                found = Measurement.intervals(self, schema, marginal, level)(rows)
                each = sum(ends.nbytes for ends in found)
                with self._lock:
                    while len(self._kept) >= min(MOST_LEVELS, max(MOST_BYTES // max(each, 1), 4)):
                        self._kept.pop(next(iter(self._kept)))
                    self._kept[level] = found
            return found

        return ends


def _in_order(keys: Integers, number: int) -> NDArray[np.intp]:
    """What sorts keys below a number; short ones are sorted in time linear in their number."""
    small = number <= np.iinfo(np.uint16).max
    return np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")


_NO_KEYS = pa.table({})


def _levels(digest: str) -> str:
    """What the record has of a distribution that is too long for it."""
    return say(
        "All plateaus of its distribution follow from alpha and epsilon; the record has a digest of"
        " them (%(digest)s), by which anyone sees that they are those.",
        digest=digest,
    )


def _mean_of(mean: MeanNoise) -> str:
    """How far figures are off on average, rounded outwards."""
    if mean.up_to is None:
        return say(
            "Figures are right on average but for their rounding, which moves the mean by half a"
            " job at most."
        )
    least, greatest = floor(mean.least * 100) / 100, ceil(mean.greatest * 100) / 100
    return say(
        "This noise is asymmetric. Its mean is not 0: it lies between %(least)s and %(greatest)s"
        " jobs where the largest workplace of a cell has up to %(workers)s workers, and is about"
        " %(share)s times the workers of that workplace above that. Sums are off by the sum of"
        " these; intervals allow for it.",
        least=f"{least:+.2f}",
        greatest=f"{greatest:+.2f}",
        workers=f"{mean.up_to:,}",
        share=f"{mean.share:+.2g}",
    )


def _universe(schema: Schema, where: Mapping[str, Sequence[Value]]) -> str:
    """Which jobs a table counts."""
    if not where:
        return say("all jobs")
    known = schema.attributes
    kept = (
        f"{_lowered(known[name].label or name)} {' / '.join(map(known[name].describe, values))}"
        for name, values in where.items()
    )
    return say("jobs with %(kept)s", kept=", ".join(kept))


def _lowered(label: str) -> str:
    """A label inside a sentence; abbreviations stay as they are."""
    return label if label[:2].isupper() else label[:1].lower() + label[1:]


def _worded(name: str) -> str:
    """The name of a table, for people."""
    title = name.replace("-", " ").replace("_", " ").strip() or name
    return title[:1].upper() + title[1:]
