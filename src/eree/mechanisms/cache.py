"""Certificates and calibrations that were computed before, in the user's own cache folder.

They take seconds and are the same for the same mechanism, parameters and source.  The name of an
entry is a digest of all three and of the versions of what it was computed with; who changes any of
them has another entry.  Entries hold public numbers alone.

Who can write to the folder can make a mechanism seem to keep its claim, and put code of his own in
the place of compiled templates.  So it belongs to the user alone (0700), and one that others may
write to, or may put another in the place of, is refused.  `EREE_CACHE` names another; empty, it
switches all of this off.  A folder that cannot be made, read or written is no fault: everything is
computed then.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import file_digest, sha256
from importlib.metadata import version
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eree.cells import Cell, Group
from eree.errors import Refusal
from eree.mechanisms.certificate import Certificate, WorstPair
from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.vector.vector import GroupPair, VectorCertificate
from eree.partial import replacing_file

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

#: Entries, of some kilobytes each, and bytes; beyond the numbers the oldest make room.
MOST_ENTRIES, MOST_BYTES = 5_000, 1 << 30
#: Bytes of an entry that is looked at for room: what was learnt of a large table.  The digest of a
#: file as large is known, and nanoseconds after its last change settled.
LARGE, SETTLED = 1 << 20, 10**10
_SOURCES = ("errors.py", "workload.py", "cells.py", "policy", "random", "mechanisms")
#: Bytes of a digest, of the length of what describes arrays, and between which arrays begin.
_DIGEST, _LENGTH, _APART = 32, 8, 64
_OTHERS_MAY_WRITE, _STICKY = 0o022, 0o1000
#: What an entry raises that is whole but not written as entries are.
_DAMAGED = (
    *(LookupError, TypeError, ValueError, AttributeError, OverflowError),
    *(SyntaxError, RecursionError),  # of a type, and of lists in lists
)
#: What a certificate is made of, by name.
_PARTS = {
    kind.__name__: kind
    for kind in (Certificate, VectorCertificate, WorstPair, GroupPair, Cell, Group)
}

_fresh: ContextVar[bool] = ContextVar("fresh", default=False)
_closed: ContextVar[bool] = ContextVar("closed", default=False)

T = TypeVar("T")
Arrays = dict[str, NDArray[Any]]


@contextmanager
def computed_again() -> Iterator[None]:
    """Within it nothing is taken from the cache; what is computed replaces what is there."""
    token = _fresh.set(True)
    try:
        yield
    finally:
        _fresh.reset(token)


@contextmanager
def left_closed() -> Iterator[None]:
    """Within it the folder is neither read nor written: what is not in memory is computed."""
    token = _closed.set(True)
    try:
        yield
    finally:
        _closed.reset(token)


def certificate_of(mechanism: Mechanism) -> tuple[Certificate, bool]:
    """The certificate of a mechanism, and whether it was computed now."""

    def packed(certificate: Certificate) -> list[bytes]:
        return [json.dumps(_plain(certificate)).encode()]

    def unpacked(entry: memoryview) -> Certificate:
        found = _made(json.loads(entry.tobytes()), mechanism)
        if not isinstance(found, Certificate):
            raise TypeError
        return found

    named = _named(mechanism)
    if named is None:
        return mechanism.certify(), True
    return _kept(f"certificate {named}", mechanism.certify, packed, unpacked)


def _named(mechanism: object) -> str | None:
    """A mechanism with all of its parameters; none of a source that no digest here knows of."""
    kind = f"{type(mechanism).__module__}.{type(mechanism).__qualname__}"
    return f"{kind} {mechanism!r}" if kind.startswith("eree.mechanisms.") else None


def arrays_of(what: str, compute: Callable[[], Arrays]) -> Arrays:
    """Arrays that follow from public parameters, which `what` names in full; not to be changed."""
    return _kept(f"arrays {what}", compute, _flat, _arrays)[0]


def arrays_by_package(what: str, compute: Callable[[], Arrays]) -> Arrays:
    """Arrays that follow from what `what` names in full and from any of the package's code."""
    return arrays_of(f"{_package()} {what}", compute)


def arrays_by_mechanism(mechanism: object, what: str, compute: Callable[[], Arrays]) -> Arrays:
    """The same of a mechanism of the package; those of others are not kept."""
    named = _named(mechanism)
    return compute() if named is None else arrays_by_package(f"{what} {named}", compute)


def texts_of(what: str, compute: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """Texts that follow from what `what` names in full and from any of the package's code."""

    def unpacked(entry: memoryview) -> tuple[str, ...]:
        return tuple(map(str, json.loads(entry.tobytes())))

    what = f"texts {_package()} {what}"
    return _kept(what, compute, lambda texts: [json.dumps(texts).encode()], unpacked)[0]


def arrays_kept(what: str) -> Arrays | None:
    """The same, if they were computed before."""
    folder = cache_folder()
    return None if folder is None else _read(_place(folder, f"arrays {what}"), _arrays)


def _flat(arrays: Arrays) -> list[bytes | memoryview]:
    """Arrays one after another, behind what they are called and where each begins."""
    about = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    text = json.dumps(about).encode()
    parts: list[bytes | memoryview] = [len(text).to_bytes(_LENGTH, "little"), text]
    place = _DIGEST + _LENGTH + len(text)
    for array in arrays.values():
        before = -place % _APART
        parts += [bytes(before), np.ascontiguousarray(array).reshape(-1).view(np.uint8).data]
        place += before + array.nbytes
    return parts


def _arrays(entry: memoryview) -> Arrays:
    """The same as they lie in a file, of which nobody reads what nobody asks for."""
    start = _LENGTH + int.from_bytes(entry[:_LENGTH], "little")
    found = Arrays()
    for name, text, shape in json.loads(entry[_LENGTH:start].tobytes()):
        if (kind := np.dtype(text)).hasobject:  # it would hold addresses in memory
            raise TypeError
        start += -(_DIGEST + start) % _APART
        found[str(name)] = array = np.ndarray(shape, kind, entry, start)
        start += array.nbytes
    if start != len(entry):
        raise ValueError
    return found


# ------------------------------------------------------------------------------------ entries


def _kept(
    what: str,
    compute: Callable[[], T],
    packed: Callable[[T], Sequence[bytes | memoryview]],
    unpacked: Callable[[memoryview], T],
) -> tuple[T, bool]:
    """Something that is kept, or is computed now and then kept; and whether it was computed."""
    folder = cache_folder()
    if folder is None:
        return compute(), True
    path = _place(folder, what)
    kept = _read(path, unpacked)
    if kept is not None:
        return kept, False
    found = compute()
    with suppress(OSError):  # a full disk, or none to write on: it is computed again next time
        _write(folder, path, packed(found))
    return found, True


def _place(folder: Path, what: str) -> Path:
    return folder / sha256(f"{_source()} {what}".encode()).hexdigest()


def _read(path: Path, unpacked: Callable[[memoryview], T]) -> T | None:
    """What an entry holds; nothing where it is missing or damaged, or is to be computed again."""
    if not _fresh.get():
        with suppress(OSError, *_DAMAGED), path.open("rb") as file:
            entry = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            if _digest_in(file) == entry[:_DIGEST].hex():
                return unpacked(entry[_DIGEST:])
    return None


def _digest_in(file: BufferedReader) -> str:
    """The digest of what an entry holds; that of a large one is known from the last time."""

    def compute() -> tuple[str, ...]:
        file.seek(_DIGEST)
        return (file_digest(file, "sha256").hexdigest(),)

    same = settled(os.fstat(file.fileno()))
    return (compute() if same is None else texts_of(f"entry {same}", compute))[0]


def settled(about: os.stat_result) -> str | None:
    """What names the bytes of a file, if it is large and they are as they were for a while.

    A file that is written to has another time of its change, which nobody can set back; one that
    was changed a moment ago may be changed again within the same tick of the clock.
    """
    times = about.st_mtime_ns, about.st_ctime_ns
    if about.st_size < LARGE or time.time_ns() - max(times) < SETTLED:
        return None
    return f"{about.st_dev} {about.st_ino} {about.st_size} {times}"


def _write(folder: Path, path: Path, parts: Sequence[bytes | memoryview]) -> None:
    """An entry is there as a whole or not at all."""
    digest = sha256()
    for part in parts:
        digest.update(part)
    with replacing_file(path) as partial, partial.open("wb") as file:
        file.writelines([digest.digest(), *parts])
    size = path.stat().st_size
    entries = list(folder.iterdir())
    if len(entries) > MOST_ENTRIES or size > LARGE:  # their dates are not read every time
        about = {one: one.stat() for one in entries}
        entries.sort(key=lambda one: about[one].st_mtime)
        room = MOST_BYTES - sum(one.st_size for one in about.values())
        fewer = len(entries) // 2 if len(entries) > MOST_ENTRIES else 0
        for number, old in enumerate(entries):
            taken = about[old].st_size
            # bytes are in large entries: what is small, such as that a release is sound, may stay
            if old != path and (number < fewer or (room < 0 and taken > LARGE)):
                room += taken
                old.unlink(missing_ok=True)


def cache_folder() -> Path | None:
    """The folder, made if it is missing; none where the user has no place for it."""
    named = os.environ.get("EREE_CACHE")
    if named == "" or _closed.get():
        return None
    if named is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME")
        if not home or not Path(home).is_absolute():
            return None
        under = "eree" if os.environ.get("XDG_CACHE_HOME") else ".cache/eree"
        named = str(Path(home) / under)
    folder = Path(named).absolute()
    try:
        _make(folder)
        about, above = folder.stat(), folder.resolve().parent.stat()
    except OSError:
        return None
    for whose, wrong in (
        (f"{folder} belongs to another user", about.st_uid != os.geteuid()),
        (f"others may write to {folder}", about.st_mode & _OTHERS_MAY_WRITE),
        (
            f"others may replace {folder.name} in {folder.parent}",
            above.st_mode & _OTHERS_MAY_WRITE and not above.st_mode & _STICKY,
        ),
    ):
        if wrong:
            raise Refusal(
                f"{whose}, so that no certificate kept there can be believed; change that, or name"
                " another folder in EREE_CACHE (empty for none)"
            )
    return folder


def _make(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for the user alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _digest_of(names: Iterable[str]) -> Digest:
    """A digest of some of the code."""
    package, digest = Path(__file__).parents[1], sha256()
    for name in names:
        top = package / name
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest


@lru_cache(maxsize=1)
def _package() -> str:
    """A digest of all code of the package, and of what reads files for it."""
    return f"{_digest_of(['.']).hexdigest()} pyarrow {version('pyarrow')}"


@lru_cache(maxsize=1)
def _source() -> str:
    """A digest of all code that certificates and calibrations follow from."""
    digest = _digest_of(_SOURCES)
    for name in ("numpy", "scipy", "python-flint"):
        digest.update(f"{name} {version(name)}\0".encode())
    digest.update(f"{platform.python_version()} {platform.machine()}".encode())
    return digest.hexdigest()


# ------------------------------------------------------------------- certificates as plain data


def _plain(value: Any) -> Any:
    """A certificate as plain data; the mechanism and its guarantee are known to who asks."""
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.name not in ("mechanism", "guarantee")]
        parts = {name: _plain(getattr(value, name)) for name in names}
        return {"kind": type(value).__name__, "parts": parts}
    return value


def _made(plain: Any, mechanism: Mechanism) -> Any:
    """What such data stand for."""
    if not isinstance(plain, Mapping):
        return plain
    if "fraction" in plain:
        return Fraction(plain["fraction"])
    if "tuple" in plain:
        return tuple(_made(item, mechanism) for item in plain["tuple"])
    kind = _PARTS[plain["kind"]]
    parts = {name: _made(part, mechanism) for name, part in plain["parts"].items()}
    if issubclass(kind, Certificate):
        parts |= {"mechanism": mechanism.name, "guarantee": mechanism.guarantee}
    return kind(**parts)
