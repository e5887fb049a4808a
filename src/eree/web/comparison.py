"""Areas compared: ranked with the ranks that they may truly have, or held against a threshold.

All intervals of a comparison hold together, so that what is said of all areas is right at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil, floor, isinf
from re import fullmatch, split, sub
from typing import Any

import numpy as np

from eree.errors import Refusal
from eree.estimate.rank import rank_intervals
from eree.estimate.threshold import decide
from eree.policy.neighbours import plain
from eree.random.exact import Integers
from eree.web.answer import MOST_CELLS, Side, TooLarge, in_a_line
from eree.web.block import ABSENT, Block, Cell, beside
from eree.web.dataset import DataSet
from eree.web.figures import JOBS
from eree.web.query import Query
from eree.web.refusals import NotKnown
from eree.web.texts import text_of, texts_of
from eree.web.words import say

#: The threshold per person that disaster declarations are weighed by.
DEFAULT_PER_JOB = "3.50"
MOST_AREAS = 5_000
#: Letters of all lines of damage.
MOST_DAMAGE = 200_000
#: An amount as people write it, with or without a comma for thousands; 1,25 is none.
MONEY = r'[ "$]*((0|[1-9][0-9]{0,14})|[1-9][0-9]{0,2}(,[0-9]{3}){1,4})(\.[0-9]{1,4})?[ "$]*'


@dataclass(frozen=True)
class Slip:
    """What cannot be read: a line of the damage, or the threshold, which is line 0."""

    line: int
    text: str
    reason: str


class Slips(Refusal):
    """Slips of a form; whoever sent it can correct them where they are."""

    def __init__(self, slips: Sequence[Slip]) -> None:
        super().__init__(slips[0].reason)
        self.slips = tuple(slips)


@dataclass(frozen=True)
class Ranked:
    """An area with its rank, the best and the worst that its true rank can be, and its figure."""

    rank: int
    best: int
    worst: int
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    cell: Cell


@dataclass(frozen=True, eq=False)
class Ranking:
    """Areas from the largest estimate to the smallest: their ranks, codes and figures."""

    query: Query
    ranks: Integers
    best: Integers
    worst: Integers
    side: Side
    figures: Block

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def areas(self) -> tuple[Ranked, ...]:
        """All areas."""
        return self.shown(slice(None))

    def shown(self, some: slice) -> tuple[Ranked, ...]:
        """Some of the areas, as a page shows them."""
        return tuple(
            Ranked(
                int(self.ranks[i]),
                int(self.best[i]),
                int(self.worst[i]),
                self.side.codes(i),
                self.side.labels(i),
                self.figures.cell(i),
            )
            for i in range(len(self))[some]
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        ranks = {"rank": self.ranks, "best": self.best, "worst": self.worst}
        keys = {name: texts_of(numbers.tolist()) for name, numbers in ranks.items()}
        return {"areas": self.figures.records(keys | self.side.texts())}


def ranking(data: DataSet, query: Query) -> Ranking:
    """Rank the areas that all variables of a query make."""
    if not query.by:
        raise Refusal(say("a ranking needs areas; put a variable on rows"))
    side, block = _together(data, query)
    best, worst = rank_intervals(block.low, block.high)
    values = block.values
    ranks = 1 + len(values) - np.searchsorted(np.sort(values), values, side="right")
    order = np.argsort(-values, kind="stable")
    return Ranking(
        query, ranks[order], best[order], worst[order], side.taken(order), block.taken(order)
    )


@dataclass(frozen=True)
class Compared:
    """One of two areas that are compared."""

    code: str
    label: str
    cell: Cell


@dataclass(frozen=True)
class Pair:
    """Two areas, and which of them has more: `one`, `two`, or neither."""

    one: Compared
    two: Compared
    verdict: str

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        found = {name: getattr(self, name) for name in ("one", "two")}
        return {"larger": self.verdict or None} | {
            name: {"code": area.code, "low": area.cell.low, "high": _plain(area.cell.high)}
            for name, area in found.items()
        }


def pair(data: DataSet, query: Query, one: str, two: str) -> Pair:
    """Whether one area has more than another: all of its interval lies above the other's.

    Both intervals hold together at the level of the query; an area is named by its code or label.
    """
    if len(query.by) != 1:
        raise Refusal(say("two areas are compared by one variable; put a single one on rows"))
    axis = data.variable(query.by[0]).axis(query.groups.get(query.by[0]))
    known = {label.casefold(): code for code, label in zip(axis.codes, axis.labels, strict=True)}
    known |= {code.casefold(): code for code in axis.codes}
    codes = [known.get(text.strip().casefold(), "") for text in (one, two)]
    for text, code in zip((one, two), codes, strict=True):
        if not code:
            said = say(
                "%(name)s is no area here; name one by its code or its name", name=repr(text)
            )
            raise NotKnown(said, text.strip(), known)
    if codes[0] == codes[1]:
        raise Refusal(say("an area is compared with another one; name two"))
    side, block = _together(data, query, [(code,) for code in codes])
    where = {side.codes(i)[0]: i for i in range(len(side))}
    if missing := [code for code in codes if code not in where]:
        raise Refusal(say("no job is in %(area)s; name an area that has some", area=missing[0]))
    first, second = (
        Compared(code, side.labels(where[code])[0], block.cell(where[code])) for code in codes
    )
    verdict = "one" if first.cell.low > second.cell.high else ""
    return Pair(first, second, "two" if second.cell.low > first.cell.high else verdict)


def _plain(end: float) -> float | None:
    return None if isinf(end) else end


@dataclass(frozen=True)
class Decision:
    """An area with its damage, and what its interval says: above, below, or undecided."""

    codes: tuple[str, ...]
    labels: tuple[str, ...]
    damage: Fraction
    cell: Cell
    per_job: float | None
    decision: str


@dataclass(frozen=True)
class Threshold:
    """Areas held against a threshold of damage for each job."""

    data: DataSet
    query: Query
    per_job: str
    areas: tuple[Decision, ...] = ()
    figures: Block | None = None

    @property
    def least(self) -> Fraction:
        """The threshold as an exact number."""
        return Fraction(self.per_job)

    def examples(self, most: int = 3) -> list[str]:
        """Codes of some areas that have jobs, as a line of damage begins."""
        if self.areas or not self.query.by or self.data.most(self.query.asked()) > MOST_CELLS:
            return []
        side, _ = in_a_line(self.data, self.data.figures(self.query.asked()))
        lines = (side.codes(i) for i in range(len(side)))
        written = (" ".join(c) for c in lines if not any(set(code) & set(" ,;\t") for code in c))
        return list(islice(written, most))

    def as_json(self) -> dict[str, Any]:
        """Plain data; money as exact texts."""
        if self.figures is None:
            return {"per_job": self.per_job, "areas": []}
        codes = zip(*(area.codes for area in self.areas), strict=True)
        keys = {
            **dict(zip(beside(self.query.by), codes, strict=True)),
            "damage": [plain(area.damage) for area in self.areas],
            "decision": [area.decision for area in self.areas],
            "damage_per_job": [
                None if area.per_job is None else round(area.per_job, 4) for area in self.areas
            ],
        }
        texts = {name: list(map(text_of, values)) for name, values in keys.items()}
        return {"per_job": self.per_job, "areas": self.figures.records(texts)}


def threshold(data: DataSet, query: Query, per_job: str, text: str) -> Threshold:
    """Decide for areas with damage; `text` has a line for each: its codes, then the amount."""
    if query.measure != JOBS:
        raise Refusal(
            say(
                "a threshold is one of damage for each job; leave out %(measure)s",
                measure=f"measure={query.measure}",
            )
        )
    slips = []
    if not (least := money(per_job)):
        why = say("the threshold per job must be above 0, such as 3.50")
        slips.append(Slip(0, per_job, why))
    if len(text) > MOST_DAMAGE:
        why = say(
            "damage has at most %(most)s characters; compare fewer areas at once",
            most=f"{MOST_DAMAGE:,}",
        )
        slips.append(Slip(1, "", why))
    if text.strip() and not query.by:
        slips.append(Slip(1, "", say("a threshold needs areas; put a variable on rows")))
    if slips or not least:
        raise Slips(slips)
    per_job = sub(r'[ "$,]', "", per_job)
    if not text.strip():
        return Threshold(data, query, per_job)
    known = [frozenset(data.variable(n).axis(query.groups.get(n)).codes) for n in query.by]
    amounts = damages(text, known)
    side, block = _together(data, query, list(amounts))
    where = {side.codes(i): i for i in range(len(side))}
    if absent := [
        Slip(
            one.line,
            one.text,
            say(
                "no job is in %(area)s; leave out line %(line)s",
                area=", ".join(area),
                line=one.line,
            ),
        )
        for area, one in amounts.items()
        if area not in where
    ]:
        raise Slips(absent)
    decided = []
    for area, one in amounts.items():
        cell = block.cell(where[area])
        high = None if isinf(cell.high) else ceil(cell.high)
        each = float(one.amount * cell.unit / cell.value) if cell.value > 0 else None
        verdict = decide(one.amount, least, floor(cell.low), high)
        labels = side.labels(where[area])
        decided.append(Decision(area, labels, one.amount, cell, each, verdict))
    figures = block.taken(np.array([where[area] for area in amounts], dtype=np.intp))
    return Threshold(data, query, per_job, tuple(decided), figures)


@dataclass(frozen=True)
class Damage:
    """An amount of damage, and the line that it stands in."""

    line: int
    text: str
    amount: Fraction


def damages(text: str, known: Sequence[frozenset[str]]) -> dict[tuple[str, ...], Damage]:
    """Amounts of damage by the codes of their areas, from lines such as "17031 $1,250,000.50".

    Spaces, tabs, commas and semicolons stand between them; a code with a space in it needs a tab
    or a semicolon beside it.  What cannot be read is refused, all of it at once.
    """
    found: dict[tuple[str, ...], Damage] = {}
    slips: list[Slip] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip(" \t,;"):
            continue
        fields = _fields(line, len(known) + 1)
        codes, amount = tuple(fields[:-1]), money(fields[-1])
        wrong = [code for code, of in zip(codes, known, strict=False) if code not in of]
        if len(codes) != len(known):
            several = say("%(count)s codes", count=len(known))
            why = say(
                "line %(line)s of the damage must have %(codes)s and an amount, with spaces"
                " between",
                line=number,
                codes=say("%(count)s code", count=1) if len(known) == 1 else several,
            )
        elif wrong:
            why = say(
                "line %(line)s of the damage names %(code)s, which is no code here",
                line=number,
                code=repr(wrong[0]),
            )
        elif codes in found:
            why = say("line %(line)s gives an area a second damage; give it one", line=number)
        elif amount is None:
            why = say(
                "the damage in line %(line)s must be a number of 0 or more, such as 1,250,000.50",
                line=number,
            )
        elif len(found) >= MOST_AREAS:
            why = say("at most %(most)s areas are compared at once", most=f"{MOST_AREAS:,}")
        else:
            found[codes] = Damage(number, line, amount)
            continue
        slips.append(Slip(number, line, why))
    if slips:
        raise Slips(slips)
    return found


def _fields(line: str, count: int) -> list[str]:
    """The fields of a line: those of a spreadsheet, else as many as there are, the rest the last.

    So an amount may have commas in it; but after a comma, which may stand between any two fields,
    only one that is quoted or has a $.
    """
    told = [field.strip() for field in split(r"[\t;]", line.strip(" \t;"))]
    if len(told) == count:
        return told
    whole = line.strip(" \t,;")
    *before, last = split(r"([\s,;]+)", whole, maxsplit=count - 1)
    if "," in last and any("," in mark for mark in before[1::2]) and last[0] not in '"$':
        return split(r"[\s,;]+", whole)
    return [*before[::2], last]


def money(text: str) -> Fraction | None:
    """An amount without rounding; none where that cannot be read."""
    return Fraction(sub(r'[ "$,]', "", text)) if fullmatch(MONEY, text) else None


def _together(
    data: DataSet, query: Query, only: Sequence[tuple[str, ...]] | None = None
) -> tuple[Side, Block]:
    """All areas of a query, with intervals that hold at once."""
    if only is not None:  # as few as are compared: each gets a larger share of the error rate
        query = replace(query, where=_narrowed(data, query, only))
    asked = query.asked(together=True)
    if data.most(asked) > MOST_CELLS:
        raise TooLarge(
            say(
                "more than %(most)s areas cannot be compared at once; keep fewer",
                most=f"{MOST_CELLS:,}",
            )
        )
    figures = data.figures(asked)
    side, block = in_a_line(data, figures)
    there = np.flatnonzero(~block.flags[ABSENT]).astype(np.intp)
    return side.taken(there), block.taken(there)


def _narrowed(
    data: DataSet, query: Query, only: Sequence[tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    found = dict(query.where)
    for i, name in enumerate(query.by):
        variable, level = data.variable(name), query.groups.get(name)
        if name not in found:
            codes = [code for codes in only for code in variable.filter_of(codes[i], level)]
            found[name] = variable.ordered(codes)
    return found
