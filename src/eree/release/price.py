"""How the cells of one table are protected, and what that costs.

The price of a table is what the plan says.  How it is used depends on the cells alone, never on
what they hold:

- cells of workplace attributes lie in disjoint workplaces, so each is protected at the whole price;
- d worker cells of the same workplaces, a group, are protected together by a vector mechanism at
  the whole price, or one by one at a d-th of it each;
- under edge neighbours one job is in one cell alone, and under node neighbours a workplace adds
  at most its bounded size to all cells together: there the whole price serves each;
- numbers of workplaces by size are protected together by one mechanism, at the whole price;
- several marginals of the same workers are drawn at once: the whole price is that of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from eree.data.tabulation import check_combinations
from eree.errors import Refusal, how_many
from eree.mechanisms.cache import certificate_of
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.parameters import TooLittle
from eree.mechanisms.registry import (
    AUTO,
    OF_MARGINALS,
    OF_WORKPLACES,
    automatic,
    automatic_vector,
    calibrate,
    is_ours,
    kind_of,
    usual_error,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Edge, Node, Strong, Weak, plain
from eree.policy.plain_data import guarantee_as_json
from eree.policy.schema import Schema
from eree.random.exact import Integers
from eree.release.contents import SCALED_TO
from eree.workload import Marginal, SizeProfile

#: The public numbers of some rows of a released table, by column.
Numbers = Mapping[str, Integers]
Ends = Callable[[Numbers], tuple[Integers, Integers]]


@dataclass(frozen=True)
class Measurement:
    """A mechanism for the cells of one table.

    `note` says what `auto` chose, and why.  A table of one of several marginals names all tables
    that were `drawn_with` it, itself among them, and which of the marginals is `shown`.
    """

    price: Guarantee
    mechanism: Mechanism
    worker_cells: int
    statistics: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    drawn_with: tuple[str, ...] = ()
    shown: int = 0

    @classmethod
    def of(cls, other: Measurement) -> Self:
        """The same, as a class that answers something in its own way."""
        return cls(**{field.name: getattr(other, field.name) for field in fields(other)})

    @property
    def clips(self) -> bool:
        """Whether a first stage bounds the workplaces of each group by a noisy number."""
        return self.mechanism.first_stage is not None

    def as_json(self) -> dict[str, Any]:
        """The mechanism as plain data: with the price it can be calibrated again."""
        return {
            "mechanism": self.mechanism.name,
            "each": guarantee_as_json(self.mechanism.guarantee),
            "settings": dict(self.settings),
            "parameters": self.mechanism.parameters,
            "statistics": list(self.statistics),
            "note": self.note,
        }

    def grouped(self, numbers: Integers) -> Integers:
        """Numbers of cells, with a row for each group of worker cells."""
        return numbers.reshape(-1, self.worker_cells)

    def intervals(self, schema: Schema, marginal: Marginal, level: float) -> Ends:
        """Ends of intervals for the rows of whole groups, from their public numbers."""
        by_total = "largest_total" in self.statistics
        left_out = any(schema.attributes[name].owner == "worker" for name in marginal.where)
        if by_total and left_out and not self.clips:
            return _unknown  # workers that the filter leaves out may be at the largest workplace

        def ends(rows: Numbers) -> tuple[Integers, Integers]:
            clipped = None
            if self.clips:
                clipped = self.grouped(rows[SCALED_TO]), self.grouped(rows["workplaces"])
            low, high = self.mechanism.interval(
                self.grouped(rows["noisy"]), level, by_total=by_total, clipped=clipped
            )
            return low.ravel(), high.ravel()

        return ends

    @property
    def own(self) -> bool:
        """Whether the mechanism is not eree's: its proof and certificate are its author's."""
        return not is_ours(self.mechanism)

    def certificate(self) -> tuple[Certificate, bool]:
        """What the mechanism loses by its probabilities alone, and whether it was computed now."""
        return certificate_of(self.mechanism.whole)

    def has_high_ends(self, schema: Schema, marginal: Marginal, level: float) -> bool:
        """Whether every interval has a high end: known before a row is read."""
        nothing = np.zeros(self.worker_cells, dtype=np.int64)
        rows = {"noisy": nothing, SCALED_TO: nothing + 1, "workplaces": nothing + 1}
        return bool((self.intervals(schema, marginal, level)(rows)[1] != UNBOUNDED).all())


def _unknown(rows: Numbers) -> tuple[Integers, Integers]:
    return np.zeros_like(rows["noisy"]), np.full_like(rows["noisy"], UNBOUNDED)


def measurement_for(
    schema: Schema,
    marginal: Marginal,
    price: Guarantee,
    name: str,
    parameters: Mapping[str, Any],
) -> Measurement:
    """Choose and calibrate the mechanism of a table; refuses what has no guarantee."""
    check_combinations(schema, marginal)
    if isinstance(marginal, SizeProfile):
        return _of_workplaces(marginal, price, name, parameters)
    if name == OF_WORKPLACES:
        raise Refusal(f"{name} is for numbers of workplaces; add count = 'workplaces' to the table")
    relation = price.neighbours
    touched = marginal.touches_workers(schema)
    if isinstance(relation, Weak):
        _check_types(schema, marginal, relation)
    cells = marginal.worker_cells(schema)
    if name == OF_MARGINALS and parameters:
        return _of_marginals(price, cells, parameters)
    growing, alone = isinstance(relation, (Strong, Weak)), schema.workplace.key in marginal.by
    together = cells > 1 and not parameters if name == AUTO else kind_of(name).together
    if growing and together:
        return _together(price, cells, touched, alone, name, parameters)
    note = ""
    if name == AUTO and price.delta:
        raise Refusal("auto chooses among mechanisms without a delta; leave delta out, or name one")
    if name == AUTO and isinstance(relation, (Edge, Node)):
        name = "edge-geometric" if isinstance(relation, Edge) else "truncated-laplace"
        note = f"auto: {name} is for {relation.name} neighbours"
    shares = cells if growing else 1
    each = Guarantee(relation, price.epsilon / shares, price.delta / shares)
    try:
        if name == AUTO and alone and not touched and not parameters:
            mechanism = automatic(each, alone=True)
        else:
            mechanism = calibrate(name, each, parameters)
    except TooLittle as little:
        raise (little.one_by_one(shares) if shares > 1 else little) from None
    _check_claim(mechanism, each)
    statistics = mechanism.statistics(worker_attributes=touched)
    if name == AUTO:
        note = f"auto: {mechanism.name} has the least error at this alpha and epsilon"
    if shares > 1:
        note += f"{'; ' * bool(note)}{cells} worker cells one by one, at {plain(each.epsilon)} each"
    return Measurement(price, mechanism, cells, statistics, parameters, note)


def _together(
    price: Guarantee,
    cells: int,
    touched: bool,
    alone: bool,
    name: str,
    parameters: Mapping[str, Any],
) -> Measurement:
    """All worker cells of a workplace cell, or of a workplace alone, at once, paid for once."""
    if not touched:
        raise Refusal(
            f"{name} protects the worker cells of a workplace cell together, and this table has"
            " no worker attribute; use auto, or a mechanism for single cells"
        )
    if price.delta:
        raise Refusal(f"{name} protects worker cells without a delta; leave delta out")
    if "cells" in parameters:
        raise Refusal("the number of cells follows from the table; leave it out of parameters")
    if name == AUTO:
        chosen, note = automatic_vector(price, cells, alone=alone)
        statistics, settings = chosen.statistics(), chosen.settings
        return Measurement(price, chosen, cells, statistics, settings, f"auto: {note}")
    made = calibrate(name, price, {**parameters, "cells": cells})
    _check_claim(made, price)
    note = f"{how_many(cells, 'worker cell')} together, paid for once"
    return Measurement(price, made, cells, made.statistics(), parameters, note)


def measurements_for(
    schema: Schema,
    tables: Sequence[tuple[str, Marginal]],
    price: Guarantee,
    name: str,
    parameters: Mapping[str, Any],
) -> list[Measurement]:
    """The same for a table, or for the tables of several marginals that are drawn at once."""
    if len(tables) == 1:
        return [measurement_for(schema, tables[0][1], price, name, parameters)]
    if name not in (AUTO, OF_MARGINALS):
        raise Refusal(f"{name} does not draw several marginals at once; use auto or {OF_MARGINALS}")
    if parameters:
        raise Refusal(f"{OF_MARGINALS} takes its blocks from the marginals; leave parameters out")
    if isinstance(price.neighbours, (Edge, Node)):
        raise Refusal(
            f"several marginals are drawn at once under strong or weak neighbours, not under"
            f" {price.neighbours.name} ones; ask for each marginal as a table of its own"
        )
    if name == AUTO:
        return _least_marginals(schema, tables, price)
    return _at_once(schema, tables, price)


def _at_once(
    schema: Schema, tables: Sequence[tuple[str, Marginal]], price: Guarantee
) -> list[Measurement]:
    """Marginals from one draw."""
    names = [table for table, _ in tables]
    blocks = ",".join(str(marginal.worker_cells(schema)) for _, marginal in tables)
    return [
        measurement_for(
            schema, marginal, price, OF_MARGINALS, {"blocks": blocks, "shown": i, "tables": names}
        )
        for i, (_, marginal) in enumerate(tables)
    ]


def _least_marginals(
    schema: Schema, tables: Sequence[tuple[str, Marginal]], price: Guarantee
) -> list[Measurement]:
    """Marginals from one draw, or each from its own with a part of the price, whichever errs less.

    Sums of crossed cells have more noise than either (docs/vectors.md), so they are no choice.
    """
    share = Guarantee(price.neighbours, price.epsilon / len(tables), price.delta / len(tables))
    try:
        apart = [measurement_for(schema, marginal, share, AUTO, {}) for _, marginal in tables]
    except Refusal:
        return _at_once(schema, tables, price)
    try:
        together = _at_once(schema, tables, price)
    except TooLittle as little:
        why = f"because {str(little).partition(';')[0]}"
        if little.enough is not None and not price.delta:
            enough = Guarantee(price.neighbours, little.enough)
            less = _errors(_at_once(schema, tables, enough)) / _errors(apart)
            why += f"; epsilon {plain(little.enough)} would have {less:.0%} of the error"
        note = f"auto: each marginal from a draw of its own, at {plain(share.epsilon)}, {why}"
        return [replace(made, note=note) for made in apart]
    less = _errors(together) / _errors(apart)
    if less > 1:
        note = (
            f"auto: each marginal from a draw of its own, with {1 / less:.0%} of the error of one"
        )
        return [replace(made, note=note) for made in apart]
    why = f"auto: one draw has {less:.0%} of the error of a draw for each marginal"
    return [replace(made, note=f"{why}; {made.note}") for made in together]


def _errors(made: Sequence[Measurement]) -> float:
    """The errors of all cells of some marginals, in groups as most are."""
    return sum(one.worker_cells * usual_error(one.mechanism) for one in made)


def _of_marginals(price: Guarantee, cells: int, settings: Mapping[str, Any]) -> Measurement:
    """One of several marginals that are drawn at once, by what a record says of it."""
    blocks, shown, tables = (settings.get(name) for name in ("blocks", "shown", "tables"))
    if (
        not (isinstance(tables, list) and all(isinstance(table, str) for table in tables))
        or not (isinstance(blocks, str) and type(shown) is int and len(settings) == 3)
        or not len(set(tables)) == len(tables) == len(blocks.split(",")) > 1
    ):
        raise Refusal(
            f"{OF_MARGINALS} takes its blocks from the marginals of a table; leave parameters out,"
            " and list marginals, such as ['sex', 'age']"
        )
    if price.delta:
        raise Refusal(f"{OF_MARGINALS} protects marginals without a delta; leave delta out")
    made = calibrate(OF_MARGINALS, price, {"blocks": blocks, "shown": shown})
    _check_claim(made, price)
    if made.at_once != cells or made.settings["blocks"] != blocks:
        raise Refusal(f"{OF_MARGINALS} was given other marginals than the table has")
    others = ", ".join(table for i, table in enumerate(tables) if i != shown)
    note = f"drawn at once with {others}: all {len(tables)} tables are paid for once"
    return Measurement(
        *(price, made, cells, made.statistics(), settings, note), tuple(tables), shown
    )


def _of_workplaces(
    profile: SizeProfile, price: Guarantee, name: str, parameters: Mapping[str, Any]
) -> Measurement:
    """All thresholds of a size profile, paid for once for each that one step can pass."""
    if name not in (AUTO, OF_WORKPLACES):
        raise Refusal(f"{name} is not for numbers of workplaces; use auto or {OF_WORKPLACES}")
    if parameters:
        raise Refusal(f"{OF_WORKPLACES} takes sizes from the table; leave parameters out")
    made = calibrate(OF_WORKPLACES, price, {"sizes": profile.sizes})
    passed, number = int(made.parameters["passed"]), len(profile.sizes)
    note = (
        f"{how_many(number, 'threshold')}, of which one step passes at most {passed}: noise"
        f" at epsilon {plain(price.epsilon / passed)} for each number"
    )
    if any(profile.pooled) and profile.by:
        note += f"; above {profile.pooled_from:,} workers over all groups at once"
    return Measurement(price, made, 1, made.statistics(), {}, note)


def _check_claim(mechanism: Mechanism, asked: Guarantee) -> None:
    """A mechanism of others may claim anything; it is used for what it was asked to keep."""
    if mechanism.guarantee != asked:
        raise Refusal(f"{mechanism.name} was calibrated to another guarantee than was asked for")


def _check_types(schema: Schema, marginal: Marginal, relation: Weak) -> None:
    """Under weak neighbours no table may look at more than the types."""
    for name in (*marginal.by, *marginal.where):
        column = schema.column(name)
        if column.owner == "worker" and not {name, column.name} & set(relation.types):
            raise Refusal(
                f"{name} is not one of the worker types of the weak neighbours"
                f" ({', '.join(relation.types)}); add it to types, in the plan and in the ledger"
            )
