"""A protected cube as a data set: every table of it is a sum of its published cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from eree.errors import Refusal
from eree.policy.neighbours import plain
from eree.survey.estimates import UNRELIABLE, Estimates, deviations, ends_around
from eree.survey.modes import mode_of
from eree.survey.protected import ProtectedCube
from eree.survey.query import Axis
from eree.survey.query import Query as CubeQuery
from eree.survey.settings import RAKED
from eree.survey.shape import Variable as CubeVariable
from eree.survey.soc import LEVELS, Level, title_of
from eree.web.dataset import DataSet, Group, Variable
from eree.web.figures import JOBS, Asked, Figures, Mask
from eree.web.promise import in_one_line
from eree.web.sentences import told
from eree.web.words import Joined, say
from eree.workload import JOB


class CubeSet(DataSet):
    """A protected cube: weighted employment in thousandths of a job, with standard errors."""

    kind = "cube"
    errors = ("margin", "standard-error", "interval", "relative")
    unreliable_means = say(
        "its standard error is more than %(share)s of it, or it is 0 or less",
        share=f"{UNRELIABLE:.0%}",
    )
    absent_means = say("nobody can be there, as was declared beforehand, so it is exactly 0")
    measures: Mapping[str, str] = MappingProxyType({JOBS: say("Jobs (weighted employment)")})
    universe = say("all jobs that the survey stands for")

    def __init__(self, name: str, cube: ProtectedCube, checks: tuple[str, ...]) -> None:
        self.cube = cube
        if cube.mode == "as-published":
            self.absent_means = say("it was left out of the release, and counts as 0")
        variables = tuple(map(_variable, cube.shape.variables))
        first, *others = (v.label[:1].lower() + v.label[1:] for v in variables)
        count = len(others)
        title: str = say("Survey cube: %(first)s", first=first)
        if others:
            title = say(
                "Survey cube: %(first)s and %(count)s more variables", first=first, count=count
            )
        title = cube.release.described.get("title") or title
        super().__init__(name, title, cube.release, variables, checks)
        self.series = ""  # it is the title already
        self.rows, self._renamed = cube.shape.size, False
        self.assumptions = _sentences(cube.release.record.get("assumptions"))
        if losses := _sentences(cube.release.record.get("losses")):
            covers = say(
                "The guarantee covers %(covers)s, and not all that is published.",
                covers=told(cube.covers),
            )
            self.warnings = (covers, *losses)
            self.promise = say(
                "%(promise)s, for %(covers)s", promise=self.promise, covers=told(cube.covers)
            )
        cube.table(CubeQuery())  # sums that every answer needs are made before anyone asks

    def most(self, asked: Asked) -> int:
        """The product of the sides."""
        return prod(self._length(name, asked) for name in asked.by)

    def _length(self, name: str, asked: Asked) -> int:
        """How long a side of a table is, before it is made."""
        variable, level = self.variable(name), asked.groups.get(name)
        kept = set(variable.held(asked.where.get(name, variable.codes)))
        if level is None:
            return len(kept)
        return sum(not kept.isdisjoint(group.members) for group in variable.levels[level])

    def figures(self, asked: Asked) -> Figures:
        """Exact sums of published cells, with the intervals that their errors give."""
        return self.with_totals(asked, ())[0]

    def with_totals(self, asked: Asked, coarser: Sequence[tuple[str, ...]]) -> list[Figures]:
        """The same, and their sums by some of the variables alone, from one look at the cells."""
        if asked.measure != JOBS:
            raise Refusal(f"there is no measure {asked.measure!r} in this data set")
        levels = {n: cast(Level, level) for n, level in asked.groups.items() if n in asked.by}
        where = {n: tuple(self.variable(n).spelled_out(c)) for n, c in asked.where.items()}
        query = CubeQuery(asked.by, where, levels)
        found = list(_figures(self.cube.tables(query, coarser), asked))
        if not self._renamed:
            return found
        return [replace(one, axes=tuple(map(self._called, one.axes))) for one in found]

    def called(self, names: Mapping[str, Mapping[str, str]]) -> None:
        """Give codes other names than the cube has."""
        super().called(names)
        self._renamed |= any(names.values())

    def _called(self, axis: Axis) -> Axis:
        """A side of a table with the names that its codes have here."""
        groups = {g.code: g for level in self.variable(axis.name).levels.values() for g in level}
        known = self.variable(axis.name)
        labels = tuple(
            known.labels[known.places[code]] if code in known.places else groups[code].label
            for code in axis.codes
        )
        return replace(axis, labels=labels)

    def unreliable(self, figures: Figures) -> Mask:
        """A standard error above a share of the estimate."""
        assert figures.deviation is not None
        found = figures.deviation * figures.unit > UNRELIABLE * figures.values
        found |= figures.values <= 0
        return found if figures.absent is None else found & ~figures.absent

    @property
    def bias(self) -> str:
        """What raking does, and what was left out."""
        method = str(self.cube.calibration["method"])
        if method == "rake-nonnegative":
            return say(
                "Cells below 0 were set to 0 before raking, so that small figures are too large on"
                " average."
            )
        if method in RAKED:
            return say("Raking multiplies noisy cells, so that figures may be off on average.")
        return ""

    def noise(self) -> list[str]:
        """How noise was added, and what was done afterwards."""
        record, method = self.release.record, str(self.cube.calibration["method"])
        cells = record["tables"][0]
        found: list[str] = [
            say(
                "The mechanism %(mechanism)s added noise to every cell that can be, drawn exactly"
                " from a secret random source; its standard deviation is %(deviation)s jobs.",
                mechanism=cells["mechanism"],
                deviation=f"{float(cells['noise_variance']) ** 0.5:,.3f}",
            )
        ]
        noises: dict[str, list[str]] = {}
        for table in record["tables"][1:]:
            noise = f"{float(table['noise_variance']) ** 0.5:,.3f}" if table["price"] else ""
            noises.setdefault(noise, []).append(" × ".join(table["by"]) or say("the total"))
        for noise, names in noises.items():
            listed = Joined(", ", names)
            found.append(
                say(
                    "Control tables were published with noise of their own (standard deviation"
                    " %(deviation)s jobs): %(tables)s.",
                    deviation=noise,
                    tables=listed,
                )
                if noise
                else say(
                    "Control tables were published without any noise: %(tables)s.", tables=listed
                )
            )
        if method != "none":
            found.append(
                say(
                    "The cells were calibrated to the control tables by %(method)s; errors below"
                    " take that into account.",
                    method=method,
                )
            )
        found.append(
            say(
                "Standard errors are those of the noise alone: what sampling adds was not paid for."
            )
            if self.cube.sampling is None
            else say("Standard errors are of sampling (by a model) and of noise together.")
        )
        found.append(say("Every table is summed up from the cells, so that all tables agree."))
        return found

    def certificates(self) -> list[dict[str, Any]]:
        """A certificate for every distribution that was drawn from, made again."""
        mode = mode_of(self.release.record)
        drawn = {say("every cell"): mode.cells}
        for by, one in mode.tables.items():
            table = " × ".join(by) or say("total")
            drawn[say("control %(table)s", table=table)] = one
        if mode.variance is not None:
            drawn[say("sum of squares")] = mode.variance
        found = []
        for part, noise in drawn.items():
            made = noise.certify()
            found.append(
                {
                    "mechanism": made.mechanism,
                    "of": part,
                    "claimed": in_one_line(made.guarantee),
                    "found_epsilon": plain(made.guarantee.epsilon),
                    "found_delta": f"{made.found_delta:.3g}",
                    "claimed_epsilon": plain(made.guarantee.epsilon),
                    "holds": made.holds,
                }
            )
        return found


def _figures(tables: Sequence[Estimates], asked: Asked) -> Iterator[Figures]:
    """Estimates in jobs, with what their errors make of a confidence level."""
    sizes = [one.values.size for one in tables]
    far: Any = deviations(asked.confidence)
    if asked.together:
        levels = [1 - (1 - asked.confidence) / max(size, 1) for size in sizes]
        far = np.repeat(list(map(deviations, levels)), sizes)
    values = np.concatenate([one.values.reshape(-1) for one in tables])
    jobs, error = values / JOB, np.concatenate([o.standard_error.reshape(-1) for o in tables]) / JOB
    margin = error * far
    low, high = ends_around(jobs, margin)
    end = 0
    for one, size in zip(tables, sizes, strict=True):
        own = slice(end, end := end + size)
        absent = None if one.absent is None else one.absent.reshape(-1)
        ends = low[own], high[own]
        yield Figures(one.axes, None, values[own], JOB, *ends, error[own], margin[own], absent)


def _variable(variable: CubeVariable) -> Variable:
    """A variable of a cube, with the groups of occupations that it has."""
    levels: dict[str, tuple[Group, ...]] = {}
    if variable.hierarchy == "soc":
        for level in LEVELS:
            levels[level] = tuple(
                Group(code, title_of(code), members)
                for code, members in variable.groups(level).items()
            )
    return Variable(
        variable.name,
        variable.label or variable.name,
        variable.codes,
        variable.labels,
        levels,
        _LEVELS,
    )


_LEVELS = {
    "major": say("major groups"),
    "minor": say("minor groups"),
    "broad": say("broad groups"),
    "detailed": say("detailed groups"),
}


def _sentences(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """What a record says in one text, in several or not at all, each as a sentence."""
    texts = [given] if isinstance(given, str) else given or ()
    return tuple(
        told(text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))
        for text in (str(one).strip() for one in texts)
    )
