"""The cube of a survey: everything by everything, unweighted and weighted.  Confidential.

The cells are dense: one for every combination of codes, empty or not, so that nothing about the
cube's size depends on a record.

The bytes of its file are, in order: a first line; the length of the header; the header in JSON;
three columns of 64-bit numbers (the places of the filled cells, their records, their weight); and
the SHA-256 of all before it, which is checked before anything else is looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eree.errors import Refusal, Unreadable, integer
from eree.partial import appearing_file, new_path
from eree.policy.neighbours import exact, plain
from eree.policy.plain_data import parsed
from eree.policy.protected import Protected, read_protected
from eree.survey.checked import Survey
from eree.survey.declaration import read_declaration
from eree.survey.microdata import MOST_WEIGHT, Progress, read_survey
from eree.survey.shape import Integers, Shape
from eree.workload import JOB

FIRST_LINE = b"eree cube 1: CONFIDENTIAL\n"
DIGEST_BYTES = hashlib.sha256().digest_size
LENGTH_BYTES = 8
#: A longer header is no cube's.
MOST_HEADER = 1 << 28


@dataclass(frozen=True, repr=False)
class Sums:
    """Sums over the records that a cube holds, exact, for a model of the sampling variance.

    Weights are those of the cube: trimmed, if it is, and in thousandths of a job; so `weight` is in
    thousandths, and `squares` and `establishment_squares` are in millionths of a squared job.

    - `records`: the number of records;
    - `weight`: the sum of their weights;
    - `squares`: the sum of their squared weights;
    - `establishments`: the number of establishments with a record;
    - `establishment_squares`: over establishments, the sum of the squared sum of their weights.
    """

    records: int
    weight: int
    squares: int
    establishments: int
    establishment_squares: int

    def __repr__(self) -> str:
        return "<Sums, confidential>"


@dataclass(frozen=True)
class CubeOutline:
    """What is public about a cube.

    Attributes:
        shape: Its variables and structural zeros.
        protects: What the survey protects.
        most_weight: The most that a record weighs, in thousandths of a job.
        most_records: The most records of an establishment.

    Examples:
        >>> eree.CubeOutline.read("cube.eree").most_records
        5
    """

    shape: Shape
    protects: Protected
    most_weight: int | None = None
    most_records: int | None = None

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> CubeOutline:
        """The outline of the cube in a file, whose cells are not read."""
        with _opened(file) as data:  # the digest, which is of all, is not looked at
            begin = data.read(len(FIRST_LINE) + LENGTH_BYTES)
            length = int.from_bytes(begin[len(FIRST_LINE) :], "big")
            if not begin.startswith(FIRST_LINE) or length > MOST_HEADER:
                raise ValueError
            return cls._of(parsed(data.read(length)))

    @classmethod
    def _of(cls, header: Mapping[str, Any]) -> CubeOutline:
        shape = Shape.of_json(header["shape"]).checked()
        bounds = header["most_weight"], header["most_records"]
        if not all(bound is None or _counts(bound) for bound in bounds):
            raise ValueError
        return cls(shape, read_protected(header["protects"]), *bounds)


@dataclass(frozen=True, repr=False, eq=False)
class Cube:
    """The exact cube of a survey.  Confidential: printing it shows its public shape only.

    Attributes:
        shape: Its variables and structural zeros; public.
        protects: How the survey is called, and which columns name records and establishments;
            public.
        unweighted: The records of each cell.
        weighted: Their weights added up, in thousandths of a job.
        sums: Exact sums over its records, for a model of the sampling variance.
        most_weight: The most that a record weighs, in thousandths, if bounded; public.
        most_records: The most records of an establishment, if bounded; public.

    Examples:
        >>> eree.Cube.load("cube.eree").most_weight
        200000
    """

    shape: Shape
    protects: Protected
    unweighted: Integers = field(repr=False)
    weighted: Integers = field(repr=False)
    sums: Sums = field(repr=False)
    most_weight: int | None = None
    most_records: int | None = None

    def __post_init__(self) -> None:
        for array in (self.unweighted, self.weighted):
            if array.shape != self.shape.levels or array.dtype != np.int64:
                raise Refusal("the cells of a cube are integers, one for each of its shape")
            array.flags.writeable = False

    def save(self, out: str | os.PathLike[str]) -> Path:
        """Write the cube into one new file that only its owner can read, whole or not at all."""
        filled = np.flatnonzero(self.unweighted)
        body = {
            "shape": self.shape.as_json(),
            "protects": self.protects.as_json(),
            "most_weight": self.most_weight,
            "most_records": self.most_records,
            "sums": vars(self.sums),
        }
        header = json.dumps(body).encode()
        columns = (filled, self.unweighted.reshape(-1)[filled], self.weighted.reshape(-1)[filled])
        path, digest = new_path(out), hashlib.sha256()
        with appearing_file(path) as partial, partial.open("wb") as file:
            parts = (FIRST_LINE, len(header).to_bytes(LENGTH_BYTES, "big"), header)
            for part in (*parts, *(column.astype("<i8").tobytes() for column in columns)):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
        return path

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> Cube:
        """The cube of a file that `save` wrote; refuses one that is damaged."""
        with _opened(file) as opened:
            return _loaded(opened.read())

    def __repr__(self) -> str:
        names = ", ".join(variable.name for variable in self.shape.variables)
        bounds = ""
        if self.most_weight is not None:
            bounds += f", weights of at most {plain(Fraction(self.most_weight, JOB))}"
        if self.most_records is not None:
            bounds += f", at most {self.most_records:,} records of an establishment"
        return f"<Cube of {names}: {self.shape.size:,} cells{bounds}, confidential>"


def build_cube(
    survey: Survey,
    *,
    variables: Sequence[str] | None = None,
    most_weight: Fraction | str | int | None = None,
    most_records: int | None = None,
    progress: Progress | None = None,
) -> Cube:
    """Count the records of a survey into the cells of a cube of all, or some, of its variables.

    Weights above `most_weight` jobs are trimmed to it.  Of an establishment with more than
    `most_records` records the first ones are kept, in the order of their ids: shorter ids first,
    then by their characters.  Neither looks at any other establishment, so that what one adds to
    the cube is the same whatever else was sampled.

    Args:
        survey: Records that passed every check.
        variables: The variables of the cube; all without them.
        most_weight: The most jobs that a record may stand for.
        most_records: The most records of an establishment.
        progress: Called with a step and the share that is done.

    Examples:
        >>> survey = eree.read_survey("survey")
        >>> eree.build_cube(survey, variables=["job", "education"], most_weight=200)
        <Cube of job, education: 15 cells, ..., confidential>
    """
    tell = progress or (lambda _step, _done: None)
    shape = survey.shape if variables is None else survey.shape.of(variables)
    bound, most_records = _checked_bounds(most_weight, most_records)
    shape.checked()
    weights = survey.weights if bound is None else np.minimum(survey.weights, bound)
    positions, establishments = survey.positions(shape), survey.establishments
    if most_records is not None:
        tell("keeping the first records of each establishment", 0.1)
        kept = first_records(survey, most_records)
        weights, positions, establishments = weights[kept], positions[kept], establishments[kept]
    tell("counting", 0.4)
    unweighted = np.zeros(shape.size, dtype=np.int64)
    np.add.at(unweighted, positions, 1)
    weighted = np.zeros(shape.size, dtype=np.int64)
    np.add.at(weighted, positions, weights)
    tell("sums", 0.9)
    sums = _sums(weights, establishments)
    tell("done", 1.0)
    arrays = unweighted.reshape(shape.levels), weighted.reshape(shape.levels)
    return Cube(shape, survey.declaration.protects, *arrays, sums, bound, most_records)


def build_cube_file(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    variables: Sequence[str] | None = None,
    most_weight: Fraction | str | int | None = None,
    most_records: int | None = None,
    progress: Progress | None = None,
) -> Cube:
    """Build the cube of the survey in a folder and save it; see `build_cube` and `Cube.save`.

    What can be refused is refused before a record is read.

    Args:
        folder: The folder of a survey.
        out: A new file for the cube.
        variables: The variables of the cube; all without them.
        most_weight: The most jobs that a record may stand for.
        most_records: The most records of an establishment.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.build_cube_file("survey", "new.eree", most_weight=200, most_records=5)
        <Cube of job, education, licence: ... cells, ..., confidential>
    """
    tell = progress or (lambda _step, _done: None)
    path = new_path(out)
    said = read_declaration(folder).shape
    (said if variables is None else said.of(variables)).checked()
    _checked_bounds(most_weight, most_records)
    survey = read_survey(folder, replicates=False, progress=lambda s, d: tell(s, 0.6 * d))
    cube = build_cube(
        survey,
        variables=variables,
        most_weight=most_weight,
        most_records=most_records,
        progress=lambda step, done: tell(step, 0.6 + 0.35 * done),
    )
    tell("writing", 0.95)
    cube.save(path)
    return cube


def _checked_bounds(
    most_weight: Fraction | str | int | None, most_records: int | None
) -> tuple[int | None, int | None]:
    """Public bounds that can be kept, that of the weights in thousandths."""
    if most_records is not None:
        most_records = integer(
            most_records, "the most records of an establishment must be an integer, 1 or more", 1
        )
    if most_weight is None:
        return None, most_records
    thousandths = exact(most_weight, "the most weight") * JOB
    if thousandths.denominator != 1 or not 1 <= thousandths <= MOST_WEIGHT * JOB:
        raise Refusal(
            f"the most weight must be from 0.001 to {MOST_WEIGHT:,} jobs, with three decimals at"
            " most, such as '2500' or '12.5'"
        )
    return int(thousandths), most_records


def first_records(survey: Survey, most: int) -> NDArray[np.intp]:
    """Which records stay when no establishment may have more than `most`."""
    by_establishment = survey.order[np.argsort(survey.establishments[survey.order], kind="stable")]
    establishment = survey.establishments[by_establishment]
    starts = np.flatnonzero(np.diff(establishment, prepend=-1))
    place = np.arange(len(establishment)) - np.repeat(
        starts, np.diff(starts, append=len(establishment))
    )
    return np.sort(by_establishment[place < most])


def _sums(weights: Integers, establishments: Integers) -> Sums:
    totals = np.zeros(int(establishments.max()) + 1, dtype=np.int64)
    np.add.at(totals, establishments, weights)
    return Sums(
        len(weights),
        int(weights.sum()),
        _squares(weights),
        len(np.unique(establishments)),
        _squares(totals),
    )


def _squares(values: Integers) -> int:
    """The exact sum of squares of values below 2^60, whatever its size."""
    high, low = np.divmod(values, 1 << 30)
    return (_dot(high, high) << 60) + (_dot(high, low) << 31) + _dot(low, low)


def _dot(one: Integers, other: Integers) -> int:
    """The exact sum of products of values from 0 to 2^30."""
    products = one * other
    return (int((products >> 32).sum()) << 32) + int((products & 0xFFFFFFFF).sum())


@contextmanager
def _opened(file: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The bytes of a cube; what goes wrong while they are read is said in a sentence."""
    try:
        with Path(file).open("rb") as opened:
            yield opened
    except FileNotFoundError:
        raise Unreadable(f"there is no cube {file}; make one with 'eree cube build'") from None
    except OSError as error:
        raise Unreadable(f"{file} cannot be read: {error.strerror}") from None
    except (Refusal, LookupError, TypeError, ValueError, RecursionError):
        raise Unreadable(
            f"{file} is no cube, or is damaged; make it again with 'eree cube build'"
        ) from None


def _loaded(data: bytes) -> Cube:
    """The cube of a file's bytes, if it is one that could have been built; else a ValueError."""
    content, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
    start = len(FIRST_LINE) + LENGTH_BYTES
    sound = content.startswith(FIRST_LINE) and hashlib.sha256(content).digest() == digest
    end = start + int.from_bytes(content[len(FIRST_LINE) : start], "big")
    cells, rest = divmod(len(content) - end, 3 * 8)
    if not sound or len(content) < start or rest or cells < 0:
        raise ValueError
    header = parsed(content[start:end])
    numbers = np.frombuffer(content, dtype="<i8", offset=end).astype(np.int64)
    filled, unweighted, weighted = numbers.reshape(3, cells)
    outline, sums = CubeOutline._of(header), Sums(**header["sums"])
    shape, bounds = outline.shape, (outline.most_weight, outline.most_records)
    could_be = (
        all(_counts(value) for value in vars(sums).values())
        and len(filled) > 0
        and bool((np.diff(filled, prepend=-1, append=shape.size) > 0).all())
        and int(unweighted.min()) > 0
        and int(weighted.min()) > 0
        and int(unweighted.sum()) == sums.records
        and int(weighted.sum()) == sums.weight
        and _keeps_bounds(sums, *bounds, unweighted, weighted)
    )
    if not could_be:
        raise ValueError
    arrays = []
    for values in (unweighted, weighted):
        array = np.zeros(shape.size, dtype=np.int64)
        array[filled] = values
        arrays.append(array.reshape(shape.levels))
    if shape.possible is not None and arrays[0][~shape.possible].any():
        raise ValueError
    return Cube(shape, outline.protects, arrays[0], arrays[1], sums, *bounds)


def _keeps_bounds(
    sums: Sums, weight: int | None, records: int | None, unweighted: Integers, weighted: Integers
) -> bool:
    """Whether cells and sums can come of records that keep the bounds that are stated."""
    trimmed = weight is None or (
        bool((weighted <= unweighted * weight).all()) and sums.squares <= weight * sums.weight
    )
    few = records is None or sums.records <= sums.establishments * records
    return trimmed and few


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
