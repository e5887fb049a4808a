"""Areas compared: ranked with the ranks that they may truly have, or held against a threshold.

All intervals of a comparison hold together, so that what is said of all areas is right at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil, floor, isinf
from re import sub
from typing import Any

import numpy as np

from eree.errors import Refusal
from eree.estimate.rank import rank_intervals
from eree.estimate.threshold import decide
from eree.policy.neighbours import plain
from eree.random.exact import Integers
from eree.web.answer import MOST_CELLS, NO_SIDE, Side, TooLarge, in_a_line
from eree.web.block import ABSENT, Block, Cell
from eree.web.damages import Damage, Slip, called, code_of, damages, money, no_point
from eree.web.dataset import DataSet
from eree.web.figures import JOBS
from eree.web.query import Query
from eree.web.refusals import NotKnown
from eree.web.texts import text_of, texts_of
from eree.web.words import say

#: The threshold per person that disaster declarations are weighed by.
DEFAULT_PER_JOB = "3.50"
#: Letters of all lines of damage.
MOST_DAMAGE = 200_000


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
        keys = {name: texts_of(numbers) for name, numbers in ranks.items()}
        return {"areas": self.figures.records(keys | self.side.named())}


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
    known = called(axis)
    codes = [code_of(text, known) for text in (one, two)]
    for text, code in zip((one, two), codes, strict=True):
        if not code:
            said = say(
                "%(name)s matches no area here, or more than one; name one by its code or its name",
                name=repr(text),
            )
            raise NotKnown(said, text.strip(), {one.casefold() for one in known})
    if codes[0] == codes[1]:
        raise Refusal(say("an area is compared with another one; name two"))
    side, block = _together(data, query, [(code,) for code in codes])
    where = {side.codes(i)[0]: i for i in range(len(side))}
    if missing := [code for code in codes if code not in where]:
        raise Refusal(say("no job is in %(area)s; name an area that has some", area=missing[0]))
    first, second = (
        Compared(code, side.told_apart(where[code])[0], block.cell(where[code])) for code in codes
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
    side: Side = NO_SIDE
    figures: Block | None = None

    @property
    def shown(self) -> str:
        """The threshold with commas for thousands, where it is a number."""
        amount = sub(r'[ "$,]', "", self.per_job)
        whole, point, cents = amount.partition(".")
        return self.per_job if money(amount) is None else f"{int(whole):,}{point}{cents}"

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
        keys: dict[str, list[Any]] = {
            "damage": [plain(area.damage) for area in self.areas],
            "decision": [area.decision for area in self.areas],
            "damage_per_job": [
                None if area.per_job is None else round(area.per_job, 4) for area in self.areas
            ],
        }
        texts = {name: list(map(text_of, values)) for name, values in keys.items()}
        areas = self.figures.records(self.side.named() | texts)
        return {"per_job": self.per_job, "areas": areas}


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
        slips.append(Slip(0, per_job, no_point(0, per_job) or why))
    if len(text) > MOST_DAMAGE:
        why = say(
            "damage has at most %(most)s characters; compare fewer areas at once",
            most=f"{MOST_DAMAGE:,}",
        )
        slips.append(Slip(1, "", why))
    if text.strip() and not query.by:
        slips.append(Slip(1, "", say("a threshold needs areas; put a variable on rows")))
    amounts: dict[tuple[str, ...], Damage] = {}
    if query.by and len(text) <= MOST_DAMAGE:
        known = [called(data.variable(n).axis(query.groups.get(n))) for n in query.by]
        amounts, wrong = damages(text, known)
        slips += wrong
    if not amounts and (slips or not least):
        raise Slips(slips)
    if not amounts:
        return Threshold(data, query, sub(r'[ "$,]', "", per_job))
    side, block = _together(data, query, list(amounts))
    where = {side.codes(i): i for i in range(len(side))}
    slips += [
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
    ]
    if slips or not least:
        raise Slips(sorted(slips, key=lambda slip: slip.line))
    per_job = sub(r'[ "$,]', "", per_job)
    decided = []
    for area, one in amounts.items():
        cell = block.cell(where[area])
        high = None if isinf(cell.high) else ceil(cell.high)
        each = float(one.amount * cell.unit / cell.value) if cell.value > 0 else None
        verdict = decide(one.amount, least, floor(cell.low), high)
        labels = side.labels(where[area])
        decided.append(Decision(area, labels, one.amount, cell, each, verdict))
    kept = np.array([where[area] for area in amounts], dtype=np.intp)
    return Threshold(data, query, per_job, tuple(decided), side.taken(kept), block.taken(kept))


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
