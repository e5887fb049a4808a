"""Input noise infusion: every workplace is distorted by a factor of its own.  NO FORMAL GUARANTEE.

This is the method that eree replaces (section 5.1 of the SIGMOD paper), for comparison.  A
workplace w has a secret factor f_w, the same in every table and every year, and adds f_w h(w, c) to
a cell instead of its h(w, c) workers.  Zeros stay zeros.  A cell whose TRUE count lies in (0, 2.5),
so 1 or 2, is replaced by a draw on {1, 2}.

Factors are kept to 32 binary places, so that infused sums are integers of 2^-32 and the same
from every engine.  The draws for small cells hang on the key and on what the cell is, so that a
cell that is asked for again, in whatever table, gets the same answer, and nobody can average.  Who
holds the key can undo every distortion, so only its owner can read its file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eree.data.tables import Tables
from eree.data.tabulate import cell_schema, stream_weighted, write_rows
from eree.errors import Refusal, Unreadable
from eree.policy.neighbours import Exact, exact
from eree.policy.schema import Schema, Value
from eree.random.exact import Array, Integers, Words
from eree.random.source import Random
from eree.workload import Marginal

#: True counts above 0 and below this are redrawn.
SMALL = 2.5
#: One, in the binary places that a factor has.
_ONE = 1 << 32
#: What stands in every infused file.
NO_GUARANTEE = "none: input noise infusion has no formal privacy guarantee"
KEY_BYTES = 32
_LEAST, _MOST = 16, 64  # what a keyed BLAKE2b takes, and what nobody can guess


def checked_key(key: bytes) -> bytes:
    """A key that is long enough to be secret."""
    if not isinstance(key, bytes) or not _LEAST <= len(key) <= _MOST:
        raise Refusal(f"the key must have {_LEAST} to {_MOST} bytes; make one with new_key")
    return key


def new_key(file: str | os.PathLike[str]) -> bytes:
    """Make a key from secret randomness and keep it in a new file that only its owner can read.

    The same key must serve every table and every year: tables infused under two keys show every
    workplace with two distortions, whose mean is nearer to the truth.

    Args:
        file: A new file.

    Examples:
        >>> key = eree_study.new_key("new.key")
        >>> key == eree_study.read_key("new.key")
        True
    """
    path, key = Path(file), Random().words(KEY_BYTES // 8).tobytes()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refusal(f"{path} exists already; a key is never replaced, choose another") from None
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file_of_key:
        file_of_key.write(f"{key.hex()}\n")
    return key


def read_key(file: str | os.PathLike[str]) -> bytes:
    """The key of a file that `new_key` made.

    Args:
        file: The file of a key.

    Examples:
        >>> key = eree_study.new_key("kept.key")
        >>> eree_study.read_key("kept.key") == key
        True
    """
    path = Path(file)
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise Unreadable(f"there is no key {path}; make one with --new-key") from None
    except (OSError, UnicodeDecodeError):
        raise Unreadable(f"{path} cannot be read as a key") from None
    if not re.fullmatch(f"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise Unreadable(f"{path} is no key: it must hold {2 * KEY_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


@dataclass(frozen=True)
class Ramp:
    """The distribution of a factor, with a gap around 1.

    Above 1 the density is (1 + outer - x) / (outer - inner)^2: it falls in a straight line from
    1 + inner to nothing at 1 + outer.  Below 1 it is the mirror image.  Each side has probability
    1/2, so the mean is 1, and the variance is (3 inner^2 + 2 inner outer + outer^2) / 6.

    Args:
        inner: The least distance of a factor from 1.
        outer: The greatest distance.

    Examples:
        >>> eree_study.Ramp("0.05", "0.15").variance
        0.0075
    """

    inner: Fraction
    outer: Fraction

    def __init__(self, inner: Exact, outer: Exact) -> None:
        object.__setattr__(self, "inner", exact(inner, "inner"))
        object.__setattr__(self, "outer", exact(outer, "outer"))
        if not 0 < self.inner < self.outer < 1:
            raise Refusal("a ramp needs 0 < inner < outer < 1, such as '0.05' and '0.15'")

    def density(self, x: Array) -> Array:
        """The density of a factor."""
        inner, outer = float(self.inner), float(self.outer)
        away = np.abs(np.asarray(x, dtype=np.float64) - 1)
        inside = (inner <= away) & (away <= outer)
        found: Array = np.where(inside, (outer - away) / (outer - inner) ** 2, 0.0)
        return found

    def quantile(self, u: Array) -> Array:
        """The factor below which a share `u` of all factors lies."""
        outer, width = float(self.outer), float(self.outer - self.inner)
        u = np.asarray(u, dtype=np.float64)
        away = outer - width * np.sqrt(2 * np.minimum(u, 1 - u))
        found: Array = np.where(u <= 0.5, 1 - away, 1 + away)
        return found

    @property
    def variance(self) -> float:
        """The variance of a factor."""
        s, t = self.inner, self.outer
        return float((3 * s * s + 2 * s * t + t * t) / 6)


RAMP = Ramp("0.05", "0.15")
"""Factors between 5% and 15% away from 1: an example; the ones in use are kept secret.

Examples:
    >>> eree_study.RAMP.variance
    0.0075
"""

WIDE = Ramp("0.10", "0.25")
"""Factors between 10% and 25% away from 1.

Examples:
    >>> eree_study.WIDE.outer
    Fraction(1, 4)
"""


@dataclass(frozen=True, repr=False, eq=False)
class Infused:
    """An infused table, as it was published before: it has no formal privacy guarantee.

    Attributes:
        marginal: What was counted.
        rows: The attributes of the marginal in their order, then `employment`, `workplaces` and
            `guarantee`, which says that there is none.

    Examples:
        >>> key = eree_study.new_key("class.key")
        >>> eree_study.infuse(eree.load("data"), ["county"], key=key).rows.num_rows
        3
    """

    marginal: Marginal
    rows: pa.Table = field(repr=False)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __repr__(self) -> str:
        return f"<Infused cells of {self.marginal}: {len(self):,} cells, no formal guarantee>"


def factors(key: bytes, ids: Iterable[int | str], ramp: Ramp = RAMP) -> Array:
    """The factor of each workplace: the same whenever key, id and ramp are.

    A keyed BLAKE2b hash of the id gives 53 random bits.  An id counts as its text, so that the
    number 17 of one year's file and the text "17" of another's are the same workplace.
    """
    uniform = _uniform(key, b"eree factor", (str(i) for i in ids))
    return np.rint(ramp.quantile(uniform) * _ONE) / _ONE


def protect_small(true: Integers, infused: Array, u: Array) -> Array:
    """Published values: 0 for zeros, 1 or 2 for true counts of 1 or 2, else the infused sum.

    Infused sums are not rounded here; `infuse` publishes them as integers.  Small counts are
    drawn with the uniform numbers `u`.  The paper asks for a posterior predictive distribution
    on 1 to 2 and does not give it.  Ours: the count is Poisson with Jeffreys' prior on its mean;
    given that a cell of the same mean was seen with n, the next one has k with probability
    proportional to (n + 3/2) / 4 at k = 2 against 1 at k = 1.  So 1 is published with
    probability 8/13 where the truth is 1, and 8/15 where it is 2.
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

    Args:
        tables: Tables that passed every check.
        by: The attributes to count by.
        where: The values to keep of some attributes.
        key: What factors of workplaces are made of; `new_key` makes one.
        ramp: The distribution of factors.
        rounded: Whether sums become integers.
        engine: The query engine; without it the one the tables were loaded with.

    Examples:
        >>> key = eree_study.new_key("infused.key")
        >>> eree_study.infuse(eree.load("data"), ["county"], key=key)
        <Infused ...>
    """
    marginal = Marginal.over(tables.schema, by, where)
    columns = _columns(tables.schema, marginal, rounded)
    batches = _stream(tables, marginal, key, ramp, rounded, engine)
    return Infused(marginal, pa.concat_tables([columns.empty_table(), *batches]))


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

    Args:
        tables: Tables that passed every check.
        marginal: What to count.
        out: A new file, `.parquet` or `.csv`.
        key: What factors of workplaces are made of; `new_key` makes one.
        ramp: The distribution of factors.
        engine: The query engine; without it the one the tables were loaded with.

    Examples:
        >>> tables, key = eree.load("data"), eree_study.new_key("written.key")
        >>> marginal = eree.Marginal.over(tables.schema, ["county"])
        >>> eree_study.write_infused(tables, marginal, "infused.csv", key=key) > 0
        True
    """
    batches = _stream(tables, marginal, key, ramp, True, engine)
    return write_rows(batches, _columns(tables.schema, marginal, True), out)


def _stream(
    tables: Tables, marginal: Marginal, key: bytes, ramp: Ramp, rounded: bool, engine: object
) -> Iterator[pa.Table]:
    checked_key(key)
    columns = _columns(tables.schema, marginal, rounded)

    def weigh(ids: pa.Array[Any]) -> Integers:
        found: list[Any] = ids.to_pylist()
        return np.rint(factors(key, found, ramp) * _ONE).astype(np.int64)

    for part in stream_weighted(tables, marginal, weigh, engine=engine):
        cells = part.confidential
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
        yield pa.Table.from_arrays(
            [known[n] if n in known else cells.column(n) for n in columns.names], schema=columns
        )


def _names(marginal: Marginal, cells: pa.Table, chosen: Integers) -> Iterator[str]:
    """What each chosen cell is, the same however a table asks for it: attributes and values.

    A cell of `by` sex and one of `where` sex is F are the same cell.
    """
    kept = {name: sorted(map(str, values)) for name, values in marginal.where.items()}
    own = {name: cells.column(name).to_pylist() for name in marginal.by}
    for i in chosen:
        cell = {name: [str(values[i])] for name, values in own.items()}
        yield json.dumps(kept | cell, sort_keys=True)


def _uniform(key: bytes, purpose: bytes, names: Iterable[str]) -> Array:
    """A number in (0, 1) for each name, which nobody knows without the key."""
    keyed = hashlib.blake2b(key=checked_key(key), person=purpose, digest_size=8)
    digests = []
    for name in names:
        own = keyed.copy()
        own.update(name.encode())
        digests.append(own.digest())
    return uniforms(np.frombuffer(b"".join(digests), dtype="<u8"))


def uniforms(words: Words) -> Array:
    """Numbers between 0 and 1, never at the ends, from 53 bits of each word."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _columns(schema: Schema, marginal: Marginal, rounded: bool) -> pa.Schema:
    """The columns of an infused table; the file says in two places that nothing is guaranteed."""
    kinds = cell_schema(schema, marginal)
    keys = [kinds.field(name) for name in marginal.by]
    employment = pa.field("employment", pa.int64() if rounded else pa.float64(), nullable=False)
    label = pa.field("guarantee", pa.string(), nullable=False)
    fields = [*keys, employment, kinds.field("workplaces"), label]
    return pa.schema(fields, metadata={"eree.guarantee": NO_GUARANTEE})
