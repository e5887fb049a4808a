"""A released table of linked data in memory, with sums and intervals of public things alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from eree.errors import Refusal
from eree.estimate.by_count import ByCount, Parts, narrower_of_few
from eree.estimate.measured import measurement_of
from eree.estimate.totals import Areas
from eree.mechanisms.intervals import UNBOUNDED, MeanNoise
from eree.policy.neighbours import plain
from eree.policy.plain_data import guarantee_of
from eree.policy.schema import Schema, Value
from eree.random.exact import Integers
from eree.release.price import Measurement
from eree.survey.query import Axis
from eree.web.cells import TableCells
from eree.web.columns import Added, Sums
from eree.web.dataset import DataSet
from eree.web.figures import JOBS, WORKPLACES, Asked, Figures, Mask
from eree.web.held import Held
from eree.web.promise import LEVELS_WORDS, in_one_line, mean_words
from eree.web.remembered import BESIDE, NO_KEYS, Remembered, reads_once
from eree.web.words import Joined, say
from eree.workload import Marginal

#: An estimate is unreliable if its margin is a larger share of it.
UNRELIABLE = 0.5
#: A level at which intervals of many areas hold together.
RARE = 1 - 1e-6
#: Answers are remembered, of so many bytes at most: another page or file needs the same.
MOST_OF_ANSWERS = 32 << 20


class LinkedTable(DataSet):
    """A table of a release: noisy counts of jobs in the cells that have workplaces.

    No standard errors are public, because the noise depends on the largest workplace of a cell,
    which is confidential; intervals are.
    """

    kind = "table"
    errors = ("margin", "interval", "relative")
    unreliable_means = say("its margin of error is more than half of it, or it is 0 or less")
    absent_means = say("no workplace is there, which is public, so there are exactly 0 jobs")

    def __init__(self, name: str, release: Held, table: str, checks: tuple[str, ...]) -> None:
        about = release.about(table)
        by = tuple(map(str, about["by"]))
        counted, measurement = measurement_of(release, table)
        schema = release.schema
        cells = TableCells.of(release, table, measurement.worker_cells)
        numbers, codes = cells.numbers, cells.codes
        nowhere, nothing = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        remembered = Remembered.of(measurement)
        self._columns, self._known = cells.columns, codes
        self.rows = remembered.__dict__["rows"] = len(numbers["noisy"])
        self._areas = Areas(
            *(release, table, remembered, schema, counted),
            *(Marginal((), {}), NO_KEYS, numbers, nowhere, nothing),
            reads_once(),
        )
        self.table, self._about = table, about
        self.intervals = "calibrated" if self._areas.known is not None else "guaranteed"
        self.profiles = {t: release.table(t) for t in release.tables if release.of_workplaces(t)}
        self._values: dict[str, Integers] = {JOBS: cells.by_cell["noisy"]}
        self.measures = {JOBS: say("Jobs")}
        asked = (*by, *about["where"])
        if all(schema.attributes[name].owner == "workplace" for name in asked):
            # each workplace is in one cell alone, and their number is public
            self._values[WORKPLACES] = cells.by_cell["workplaces"]
            self.measures |= {WORKPLACES: say("Workplaces (exact)")}
        self.areas = frozenset(n for t in release.areas.values() for n in t.column_names)
        self.universe = _universe(schema, about["where"])
        variables = tuple(release.variable(name, tuple(codes[name])) for name in by)
        sides = ", ".join(_lowered(v.label) for v in variables)
        shown = say("by %(variables)s", variables=sides) if variables else say("in all")
        title = Joined(": ", (_worded(table), shown))
        title, self.note = about["about"].get("title", title), about["about"].get("note", "")
        super().__init__(name, title, release, variables, checks)
        self._last: tuple[tuple[object, ...], Sums, tuple[Axis, ...]] | None = None
        self._lock = Lock()
        self._answers: LRUCache[tuple[object, ...], Figures] = LRUCache(
            MOST_OF_ANSWERS, getsizeof=lambda one: one.nbytes + BESIDE
        )
        # what sums, rankings and notes need of the noise is found before anyone asks
        self.figures(Asked((), {}, {}))
        known, mechanism = self._areas.known, measurement.mechanism
        if known is not None and mechanism.transform is None:  # others keep nothing of it
            known.calibrated.noise.far(RARE)
        _ = self.bias

    def most(self, asked: Asked) -> int:
        """How many combinations the published cells have that the filter keeps."""
        return len(self._sums(asked)[0])

    def _sums(self, asked: Asked) -> tuple[Sums, tuple[Axis, ...]]:
        """What is added up for a table, and its axes; of the last one it is known."""
        last = self._last
        if last is None or last[0] != asked.key:
            self._last = last = (asked.key, *self._new_sums(asked))
        return last[1:]

    def _new_sums(self, asked: Asked) -> tuple[Sums, tuple[Axis, ...]]:
        held = {}
        for name, codes in asked.where.items():
            held[name] = np.zeros(len(self.variable(name).codes), dtype=np.bool_)
            held[name][self.variable(name).held(codes)] = True
        axes, sides = [], []
        for name in asked.by:
            variable, level = self.variable(name), asked.groups.get(name)
            axes.append(variable.axis(level))
            places = None if level is None else variable.group_places(level)
            sides.append((name, len(axes[-1].codes), places))
        return self._columns.sums(held, sides), tuple(axes)

    def figures(self, asked: Asked) -> Figures:
        """Sums of signed noisy counts; intervals as `eree.area_totals` makes them."""
        return self.with_totals(asked, ())[0]

    def with_totals(self, asked: Asked, coarser: Sequence[tuple[str, ...]]) -> list[Figures]:
        """The figures, and their sums by some of the variables alone.

        A table has several pages, orders and files: the figures asked for last are kept.
        """
        wanted = [asked, *map(asked.by_some, coarser)]
        with self._lock:
            found = [kept for one in wanted if (kept := self._answers.get(one.key)) is not None]
        if len(found) < len(wanted):
            found = list(self._figures(wanted))
            with self._lock:
                for one, made in zip(wanted, found, strict=True):
                    with suppress(ValueError):  # larger than all that is kept
                        self._answers[one.key] = made
        return found

    def _figures(self, wanted: Sequence[Asked]) -> Iterator[Figures]:
        """Figures, and others that are sums of the first."""
        asked, known = wanted[0], self._areas.known
        if asked.measure not in self._values:
            raise Refusal(f"there is no measure {asked.measure!r} in this data set")
        (sums, axes), of_runs = self._sums(asked), None
        if known is not None and not (known.sums and len(sums) and asked.measure == JOBS):
            known = None
        by_count = None if known is None or asked.guaranteed else known.by_count
        calibrated = None
        if by_count is not None:
            of_runs = sums.over_kinds(by_count.over)
        elif known is not None and not (asked.guaranteed or asked.together):
            calibrated = known.calibrated
            if calibrated.cells == self._columns.cells:
                of_runs = sums.over(calibrated.additive)
            else:
                calibrated = None  # each worker cell has noise of its own
        values = sums.of(self._values[asked.measure])
        first = Added(sums, values, of_runs, by_kind=by_count is not None)
        kept = [[name in one.by for name in asked.by] for one in wanted]
        tables = [first, *map(first.coarser, kept[1:])]
        ends = (
            [None] * len(tables)
            if calibrated is None
            else calibrated.ends_of_runs(tables, asked.confidence)
        )
        for one, own, added, known_ends in zip(wanted, kept, tables, ends, strict=True):
            some = tuple(axis for axis, is_kept in zip(axes, own, strict=True) if is_kept)
            yield self._made(one, some, added, known_ends)

    def _made(
        self,
        asked: Asked,
        axes: tuple[Axis, ...],
        added: Added,
        ends: tuple[Integers, Integers] | None,
    ) -> Figures:
        """Figures from sums, whose ends may be known."""
        sums = added.sums
        if not len(sums):  # where no workplace is, there are no figures; the total is exactly 0
            none = np.zeros(0 if axes else 1)
            absent, keys = np.ones(none.shape, dtype=np.bool_), none.astype(np.int64)
            return Figures(axes, keys, keys, 1, none, none, absent=absent)
        values, known = added.table.ravel()[sums.order], self._areas.known
        if asked.measure != JOBS:
            exact = values.astype(np.float64)
            return Figures(axes, sums.keys, values, 1, exact, exact)
        if known is not None and known.by_count is not None and not asked.guaranteed:
            low, high = self._by_count(asked, known.by_count, added)
        elif ends is None or known is None:
            areas = self._each(asked, sums)
            if asked.guaranteed:
                low, high = areas.ends(1 - asked.confidence)
            else:
                low, high = areas.calibrated_ends(asked.confidence, simultaneous=asked.together)
        else:
            low, high = (end.ravel()[sums.order] for end in ends)
            if known.beyond is not None and known.beyond.any():
                beyond = sums.over(known.beyond[None].astype(np.float64))[0] > 0
                chosen = np.flatnonzero(np.repeat(beyond, len(sums.numbers))[sums.order])
                if chosen.size:
                    low[chosen], high[chosen] = self._each(asked, sums, chosen).ends(
                        1 - asked.confidence
                    )
        top = np.where(high == UNBOUNDED, np.inf, high.astype(np.float64))
        return Figures(axes, sums.keys, values, 1, low.astype(np.float64), top)

    def _by_count(self, asked: Asked, known: ByCount, added: Added) -> tuple[Integers, Integers]:
        """Ends of sums of cells whose noise goes by their counts."""
        sums, order = added.sums, added.sums.order
        miss = (1 - asked.confidence) / (len(sums) if asked.together else 1)
        of_runs = sums.over_kinds(known.over) if added.of_runs is None else added.of_runs
        kinds = of_runs.reshape(-1, len(sums.kind_keys), len(sums.run_keys))
        parts = Parts(*kinds.transpose(0, 2, 1))
        low, high = (end.ravel()[order] for end in parts.ends(added.table, 1 - miss, known.one))
        cells = (sums.groups_of_runs[:, None] * sums.numbers).ravel()[order]
        return narrower_of_few(
            (low, high), lambda few: self._each(asked, sums, few).own_ends(miss), cells
        )

    def _each(
        self,
        asked: Asked,
        sums: Sums,
        chosen: NDArray[np.intp] | None = None,
    ) -> Areas:
        """All cells of every sum, or of some, with what they are asked by."""
        where: Mapping[str, tuple[Value, ...]] = asked.where
        keys_of = NO_KEYS
        if asked.guaranteed or not asked.by:  # a table of their workplaces may bound worker cells
            where = {name: self._values_of(name, codes) for name, codes in asked.where.items()}
        names = tuple(asked.groups.get(name, name) for name in asked.by)
        if asked.guaranteed and len(set(names)) == len(names):
            codes = [self._codes_of(name, asked.groups.get(name)) for name in asked.by]
            sides = zip(names, codes, sums.places(), strict=True)
            keys_of = pa.table({n: [of[p] for p in own.tolist()] for n, of, own in sides})
        wanted = Marginal(names, MappingProxyType(dict(where)))
        cells, starts = sums.each(chosen)
        return replace(self._areas, wanted=wanted, keys=keys_of, place=cells, starts=starts)

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
        return "" if mean == MeanNoise() else mean_words(mean)

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
            *([LEVELS_WORDS] if digest else []),
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
