"""A released table of linked data in memory, with sums and intervals of public things alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from math import ceil, floor
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.mechanisms.published.log_laplace import TightLogLaplace
from eree.mechanisms.staircase.leaning_staircase import Lean, LeaningStaircase
from eree.mechanisms.transformed.laplace import BentMechanism
from eree.mechanisms.vector.knorm_staircase import KNormStaircase
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.policy.schema import Schema, Value
from eree.random.exact import Whole
from eree.release.intervals import UNBOUNDED
from eree.release.release import Release
from eree.release.sums import Areas
from eree.release.treatment import Ends, Numbers, Treatment
from eree.web.dataset import Asked, Axis, DataSet, Figures, Mask, Variable, told
from eree.web.levels import Nests, levels_of
from eree.workload import Marginal

#: An estimate is unreliable if its margin is a larger share of it.
UNRELIABLE = 0.5
JOBS, WORKPLACES = "jobs", "workplaces"
_Keyed = tuple[dict[str, tuple[Axis, Whole]], NDArray[np.intp], Whole]
#: So many levels of intervals are remembered, or so many bytes of them for a large table.
MOST_LEVELS, MOST_BYTES = 128, 64 << 20


class LinkedTable(DataSet):
    """A table of a release: noisy counts of jobs in the cells that have workplaces.

    No standard errors are public, because the noise depends on the largest workplace of a cell,
    which is confidential; intervals are.
    """

    kind = "table"
    errors = ("margin", "interval", "relative")
    unreliable_words = "its margin of error is more than half of it, or it is 0 or less"
    absent_words = "no workplace is there, which is public, so there are exactly 0 jobs"

    def __init__(
        self,
        name: str,
        release: Release,
        table: str,
        checks: tuple[str, ...],
        nests: Nests | None = None,
    ) -> None:
        about = release.about(table)
        by = tuple(map(str, about["by"]))
        rows = release.table(table)
        areas = Areas.read(release, table, by)
        assert isinstance(areas.treatment, Treatment)
        self._areas = replace(areas, treatment=_Remembered.of(areas.treatment))
        self._attributes = {name: self._areas.schema.attributes[name] for name in by}
        self.table, self._about = table, about
        codes: dict[str, list[Value]] = {}
        self._codes: dict[str, Whole] = {}
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
        self._values: dict[str, Whole] = {JOBS: rows["noisy"].to_numpy()}
        people = [a for a in self._areas.schema.attributes.values() if a.owner == "worker"]
        counted = {*by, *about["where"]}
        if not counted & {attribute.name for attribute in people}:
            self._values[WORKPLACES] = rows["workplaces"].to_numpy()
        schema = self._areas.schema
        titles = {a.name: a.label or a.name for a in schema.attributes.values()}
        variables = tuple(
            Variable(
                attribute.name,
                titles[attribute.name],
                tuple(map(str, codes[attribute.name])),
                tuple(attribute.describe(code) for code in codes[attribute.name]),
                levels_of(attribute.name, codes[attribute.name], schema, nests or {}),
                titles,
            )
            for attribute in self._attributes.values()
        )
        sides = ", ".join(_lowered(v.label) for v in variables) or "in all"
        title = f"{_worded(table)}: {'by ' if variables else ''}{sides}"
        super().__init__(name, title, release, variables, checks)
        self.figures(Asked((), {}, {}))  # what sums need of the noise is found before anyone asks

    @property
    def measures(self) -> Mapping[str, str]:
        """Jobs, and workplaces where each is in one cell alone: their number is public."""
        names = {JOBS: "Jobs", WORKPLACES: "Workplaces (exact)"}
        return MappingProxyType({name: names[name] for name in self._values})

    @property
    def universe(self) -> str:
        """Which jobs are counted."""
        where = self._about["where"]
        if not where:
            return "all jobs"
        schema = self._areas.schema
        kept = (
            f"{_lowered(schema.attributes[name].label or name)} "
            + " or ".join(schema.attributes[name].describe(value) for value in values)
            for name, values in where.items()
        )
        return "jobs with " + ", ".join(kept)

    @property
    def rows(self) -> int:
        """How many cells were published."""
        return len(self._values[JOBS])

    def most(self, asked: Asked) -> int:
        """How many combinations the published cells have that the filter keeps."""
        return len(np.unique(self._keyed(asked)[2]))

    def _keyed(self, asked: Asked) -> _Keyed:
        """The sides of the table, the cells that a filter keeps, and a number for where each is."""
        sides = {name: self._side(name, asked.groups.get(name)) for name in asked.by}
        place = np.flatnonzero(self._kept(asked.where))
        keys: Whole = np.zeros(len(place), dtype=np.int64)
        for axis, code in sides.values():
            keys = keys * len(axis.codes) + code[place]
        return sides, place, keys

    def figures(self, asked: Asked) -> Figures:
        """Sums of signed noisy counts; intervals as `eree.area_totals` makes them."""
        sides, place, keys = self._keyed(asked)
        axes = tuple(axis for axis, _ in sides.values())
        order = np.argsort(keys, kind="stable")
        place, keys = place[order], keys[order]
        starts: Whole = np.flatnonzero(np.diff(keys, prepend=-1)).astype(np.int64)
        firsts = place[starts]
        places = tuple(code[firsts].astype(np.intp) for _, code in sides.values())
        if not len(starts):
            return self._nothing(axes)
        if asked.measure not in self._values:
            raise Refusal(f"there is no measure {asked.measure!r} in this data set")
        values = np.add.reduceat(self._values[asked.measure][place], starts)
        if asked.measure != JOBS:
            exact = values.astype(np.float64)
            return Figures(axes, places, values, 1, exact, exact)
        wanted = Marginal(
            asked.by, MappingProxyType({name: tuple(codes) for name, codes in asked.where.items()})
        )  # only which attributes these are matters for intervals
        areas = replace(self._areas, wanted=wanted, keys=_NO_KEYS, place=place, starts=starts)
        low, high = areas.ends((1 - asked.confidence) / (len(starts) if asked.together else 1))
        top = np.where(high == UNBOUNDED, np.inf, high.astype(np.float64))
        return Figures(axes, places, values, 1, low.astype(np.float64), top)

    def _nothing(self, axes: tuple[Axis, ...]) -> Figures:
        """Where no workplace is, there are no figures; the total is exactly 0."""
        size = 0 if axes else 1
        none = np.zeros(size)
        gone = np.ones(size, dtype=np.bool_)
        empty = tuple(np.zeros(0, dtype=np.intp) for _ in axes)
        return Figures(axes, empty, np.zeros(size, dtype=np.int64), 1, none, none, absent=gone)

    def _kept(self, where: Mapping[str, tuple[str, ...]]) -> NDArray[np.bool_]:
        kept = np.ones(self.rows, dtype=np.bool_)
        for name, codes in where.items():
            variable = self.variable(name)
            kept &= np.isin(self._codes[name], variable.held(codes))
        return kept

    def _side(self, name: str, level: str | None) -> tuple[Axis, Whole]:
        """An axis, and where every row of the table is on it."""
        variable = self.variable(name)
        if level is None:
            return variable.axis(), self._codes[name]
        return variable.axis(level), variable.group_places(level)[self._codes[name]]

    def unreliable(self, figures: Figures) -> Mask:
        """A margin above half of the estimate; exact figures never."""
        margin = np.maximum(figures.values - figures.low, figures.high - figures.values)
        found = np.asarray((margin > UNRELIABLE * figures.values) & (margin > 0))
        return found if figures.absent is None else found & ~figures.absent

    @cached_property
    def bias(self) -> str:
        """What was bounded, bent or leaning, before noise was added or by it."""
        treatment = self._areas.treatment
        assert isinstance(treatment, Treatment)
        law = treatment.mechanism
        if treatment.bound is not None:
            return (
                "Workplaces above a size were left out before the count, so that figures are too"
                " small where there are such; nothing public says by how much."
            )
        if treatment.first_stage is not None:
            return (
                "Workplaces were scaled down to a noisy bound before the count, so that figures may"
                " be too small; intervals take that into account."
            )
        if isinstance(law, LeaningStaircase):
            return _leaning_words(law.lean)
        if isinstance(law, TightLogLaplace) and abs(law.factor - (1 - law.spread**2)) < 1e-6:
            return (
                "Figures are right on average but for their rounding, which moves the mean by half"
                " a job at most."
            )
        if isinstance(law, (BentMechanism, KNormStaircase)):
            return (
                "Noise of this law is not the same on both sides, so that figures may be off on"
                " average, and sums of many with them; intervals hold all the same."
            )
        return ""

    def noise(self) -> list[str]:
        """How noise was added."""
        about, price = self._about, guarantee_of(self._about["price"])
        cells = int(about["worker_cells"])
        together = f" to the {cells} worker cells of a group together" if cells > 1 else ""
        return [
            f"The law {about['mechanism']} added whole numbers of jobs{together}, drawn exactly"
            " with secret chance.",
            f"For this table the release paid {told(price)}; for all of its tables together"
            f" {self.promise}.",
            f"Its parameters are {', '.join(f'{k} = {v}' for k, v in about['parameters'].items())}."
            if about["parameters"]
            else "It has no further parameters.",
            *([_HEIGHTS] if "heights" in about["parameters"] else []),
            "Cells without a workplace are not listed: which workplaces exist is public.",
            self.bias
            or "Estimates are right on average, so that sums of them are; that is why a single one"
            " may be below 0.",
        ]

    def certificates(self) -> list[dict[str, Any]]:
        """The certificate of the table's mechanism."""
        treatment = self._areas.treatment
        assert isinstance(treatment, Treatment)
        made, _ = treatment.certificate()
        claim = made.guarantee
        return [
            {
                "law": made.mechanism,
                "of": self.table,
                "claimed": told(claim),
                "found_epsilon": f"{float(made.found_epsilon):.6g}",
                "found_delta": f"{float(made.found_delta):.3g}",
                "claimed_epsilon": plain(claim.epsilon),
                "holds": made.holds,
            }
        ]


class _Remembered(Treatment):
    """A treatment that remembers the intervals of its table at the levels asked for last."""

    @classmethod
    def of(cls, treatment: Treatment) -> _Remembered:
        return cls(**{field.name: getattr(treatment, field.name) for field in fields(treatment)})

    @cached_property
    def _kept(self) -> dict[float, tuple[Whole, Whole]]:
        return {}

    @cached_property
    def _lock(self) -> Lock:
        return Lock()  # questions are answered in several threads

    def intervals(self, schema: Schema, marginal: Marginal, level: float) -> Ends:
        """Ends for all rows of the table; it has no others."""

        def ends(rows: Numbers) -> tuple[Whole, Whole]:
            found = self._kept.get(level)
            if found is None:
                found = Treatment.intervals(self, schema, marginal, level)(rows)
                each = sum(ends.nbytes for ends in found)
                with self._lock:
                    while len(self._kept) >= min(MOST_LEVELS, max(MOST_BYTES // max(each, 1), 4)):
                        self._kept.pop(next(iter(self._kept)))
                    self._kept[level] = found
            return found

        return ends


_NO_KEYS = pa.table({})
_HEIGHTS = (
    "The number of the heights is a digest of all plateaus of the law, which follow from alpha and"
    " epsilon."
)


def _leaning_words(lean: Lean) -> str:
    """How far figures are off on average, rounded outwards."""
    least, greatest = floor(lean.least * 100) / 100, ceil(lean.greatest * 100) / 100
    return (
        "Noise of this law leans to one side. Its mean is not 0: it lies between"
        f" {least:+.2f} and {greatest:+.2f} jobs where the largest workplace of a cell has up to"
        f" {lean.up_to:,} workers, and is about {lean.share:+.2g} times the workers of that"
        " workplace beyond. Sums are off by the sum of these; intervals allow for it."
    )


def _lowered(label: str) -> str:
    """A label inside a sentence; abbreviations stay as they are."""
    return label if label[:2].isupper() else label[:1].lower() + label[1:]


def _worded(name: str) -> str:
    """The name of a table, for people."""
    words = name.replace("-", " ").replace("_", " ").strip() or name
    return words[:1].upper() + words[1:]
