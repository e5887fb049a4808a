"""Input noise infusion: every workplace is distorted by a factor of its own.  NO FORMAL GUARANTEE.

This is the method that eree replaces (section 5.1 of the SIGMOD paper), for comparison.  A
workplace w has a secret factor f_w, the same in every table and every year, and adds f_w h(w, c) to
a cell instead of its h(w, c) workers.  Zeros stay zeros.  A cell whose TRUE count lies in (0, 2.5),
so 1 or 2, is replaced by a draw on {1, 2}.

Factors are kept to 32 binary places, so that infused sums are integers of 2^-32 and the same
from every engine.  The draws for small cells hang on the key and on what the cell is, so that a
cell that is asked for again, in whatever table, gets the same answer, and nobody can average.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eree.data.tables import Tables
from eree.data.tabulate import cell_schema, stream_weighted, write_batches
from eree.policy.schema import Schema, Value
from eree.random.exact import Array, Integers
from eree.workload import Marginal
from eree_study.legacy.key import checked_key
from eree_study.legacy.ramp import RAMP, WIDE, Ramp

__all__ = [
    "NO_GUARANTEE",
    "RAMP",
    "SMALL",
    "WIDE",
    "Infused",
    "Ramp",
    "factors",
    "infuse",
    "protect_small",
    "write_infused",
]

#: True counts above 0 and below this are redrawn.
SMALL = 2.5
#: One, in the binary places that a factor has.
_ONE = 1 << 32
#: What stands in every infused file.
NO_GUARANTEE = "none: input noise infusion has no formal privacy guarantee"


@dataclass(frozen=True, repr=False, eq=False)
class Infused:
    """An infused table, as it was published before: it has no formal privacy guarantee.

    `rows` has the attributes of the marginal in their order, then `employment`, `workplaces` and
    `guarantee`, which says that there is none.
    """

    marginal: Marginal
    rows: pa.Table = field(repr=False)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __repr__(self) -> str:
        return f"<Infused cells of {self.marginal}: {len(self):,} cells, no formal guarantee>"


def factors(key: bytes, ids: Iterable[int | str], ramp: Ramp = RAMP) -> Array:
    """The factor of each workplace: the same whenever key, id and ramp are.

    A keyed BLAKE2b hash of the id gives 53 bits of chance.  An id counts as its text, so that the
    number 17 of one year's file and the text "17" of another's are the same workplace.
    """
    uniform = _uniform(key, b"eree factor", (str(i) for i in ids))
    return np.rint(ramp.quantile(uniform) * _ONE) / _ONE


def protect_small(true: Integers, infused: Array, u: Array) -> Array:
    """Published values: 0 for zeros, 1 or 2 for true counts of 1 or 2, else the infused sum.

    Infused sums are not rounded here; `infuse` publishes them as integers.  Small counts are
    drawn with the uniform numbers `u`.  The paper asks for a posterior predictive distribution on
    1 to 2 and does not give it.  Ours: the count is Poisson with Jeffreys' prior on its mean; given
    that a cell of the same mean was seen with n, the next one has k with a chance proportional to
    (n + 3/2) / 4 at k = 2 against 1 at k = 1.  So 1 is published with chance 8/13 where the truth
    is 1, and 8/15 where it is 2.
    """
    true = np.asarray(true)
    small = (true > 0) & (true < SMALL)
    ones = 1 / (1 + (true + 1.5) / 4)
    drawn = np.where(u < ones, 1.0, 2.0)
    return np.where(true == 0, 0.0, np.where(small, drawn, infused))


def infuse(
    tables: Tables,
    by: Iterable[str],
    where: Mapping[str, Value | Iterable[Value]] | None = None,
    *,
    key: bytes,
    ramp: Ramp = RAMP,
    rounded: bool = True,
    engine: object = None,
) -> Infused:
    """The cells of a marginal as input noise infusion publishes them.  NO FORMAL GUARANTEE.

    The cells are those of `tabulate`.  `rounded=False` leaves infused sums as they are.
    """
    marginal = Marginal.over(tables.schema, by, where)
    columns = _columns(tables.schema, marginal, rounded)
    batches = _stream(tables, marginal, key, ramp, rounded, engine)
    return Infused(marginal, pa.Table.from_batches(batches, columns))


def write_infused(
    tables: Tables,
    marginal: Marginal,
    out: str | os.PathLike[str],
    *,
    key: bytes,
    ramp: Ramp = RAMP,
    engine: object = None,
) -> int:
    """Stream infused cells into a new Parquet or CSV file, which says that it has no guarantee.

    Only its owner can read it: to publish it is a decision.  Returns the number of cells.
    """
    batches = _stream(tables, marginal, key, ramp, True, engine)
    return write_batches(batches, _columns(tables.schema, marginal, True), out)


def _stream(
    tables: Tables, marginal: Marginal, key: bytes, ramp: Ramp, rounded: bool, engine: object
) -> Iterator[pa.RecordBatch]:
    checked_key(key)
    columns = _columns(tables.schema, marginal, rounded)

    def weigh(ids: pa.Array[Any]) -> Integers:
        found: list[Any] = ids.to_pylist()
        return _whole(factors(key, found, ramp) * _ONE)

    for cells in stream_weighted(tables, marginal, weigh, engine=engine):
        true = cells.column("count").to_numpy()
        infused = cells.column("_weighted").to_numpy() / _ONE
        chosen = np.flatnonzero((true > 0) & (true < SMALL))
        u = np.zeros(len(true))
        u[chosen] = _uniform(key, b"eree small", _names(marginal, cells, chosen))
        published = protect_small(true, infused, u)
        label: pa.Array[Any] = pa.array([NO_GUARANTEE] * len(true), pa.string())
        known: dict[str, pa.Array[Any]] = {"guarantee": label}
        known["employment"] = pa.array(
            np.rint(published).astype(np.int64) if rounded else published
        )
        yield pa.RecordBatch.from_arrays(
            [known[n] if n in known else cells.column(n) for n in columns.names], schema=columns
        )


def _names(marginal: Marginal, cells: pa.RecordBatch, chosen: Integers) -> Iterator[str]:
    """What each chosen cell is, the same however a table asks for it: attributes and values.

    A cell of `by` sex and one of `where` sex is F are the same cell.
    """
    kept = {name: sorted(map(str, values)) for name, values in marginal.where.items()}
    own = {name: cells.column(name).to_pylist() for name in marginal.by}
    for i in chosen:
        cell = {name: [str(values[i])] for name, values in own.items()}
        yield json.dumps(kept | cell, sort_keys=True)


def _uniform(key: bytes, purpose: bytes, names: Iterable[str]) -> Array:
    """A number in (0, 1) for each name, which nobody can tell without the key."""
    keyed = hashlib.blake2b(key=checked_key(key), person=purpose, digest_size=8)
    digests = []
    for name in names:
        own = keyed.copy()
        own.update(name.encode())
        digests.append(own.digest())
    words = np.frombuffer(b"".join(digests), dtype="<u8")
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _whole(numbers: Array) -> Integers:
    return np.rint(numbers).astype(np.int64)


def _columns(schema: Schema, marginal: Marginal, rounded: bool) -> pa.Schema:
    """The columns of an infused table; the file says in two places that nothing is guaranteed."""
    kinds = cell_schema(schema, marginal)
    keys = [kinds.field(name) for name in marginal.by]
    employment = pa.field("employment", pa.int64() if rounded else pa.float64(), nullable=False)
    label = pa.field("guarantee", pa.string(), nullable=False)
    fields = [*keys, employment, kinds.field("workplaces"), label]
    return pa.schema(fields, metadata={"eree.guarantee": NO_GUARANTEE})
