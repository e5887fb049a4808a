"""The catalogue: release folders that were verified, and the data sets in them, all in memory.

Nothing but the folders, and public maps that are named, is opened, and nothing after the start.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from eree.errors import Refusal
from eree.estimate.calibrated import forget_rows
from eree.mechanisms.cache import settled, texts_of
from eree.policy.plain_data import sha256
from eree.release.record import RECORD, file_digest
from eree.release.release import Release
from eree.web.branding import unknown_names
from eree.web.codelists import CodeLists
from eree.web.dataset import DataSet, Variable
from eree.web.held import Held
from eree.web.linked import LinkedTable
from eree.web.render.areas import AreaMap
from eree.web.render.maps import open_maps
from eree.web.words import say

Progress = Callable[[str, float], None]
#: So many digits of a release's random name make the address of its data sets.
DIGITS = 8


class Missing(Refusal):
    """What was asked for is not there."""


@dataclass(frozen=True)
class Catalogue:
    """All data sets that are served."""

    data_sets: tuple[DataSet, ...]
    maps: Mapping[str, AreaMap] = field(default_factory=dict)
    lists: CodeLists = field(default_factory=CodeLists)  # that readers send

    def __post_init__(self) -> None:
        for data in self.data_sets:
            data.with_lists(self.lists.find)

    @classmethod
    def open(
        cls,
        folders: Iterable[str | os.PathLike[str]],
        progress: Progress | None = None,
        maps: Iterable[str] = (),
        names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        left_out: Callable[[str], None] | None = None,
        lists: CodeLists | None = None,
        *,
        may_be_none: bool = False,
    ) -> Catalogue:
        """Open and verify release folders; refuses one that is not sound, by its first fault.

        `maps` are public GeoJSON files for variables, named as in "place=areas.geojson"; `names`
        are those of codes, by variable or level.  Where there is none, that of the map is taken.
        `left_out` hears why a folder is not served, or a map fits none that is or cannot be read,
        which is no reason then not to serve the others.
        `lists` are in memory that several processes share.  The catalogue may be empty where that
        is said.
        """
        report = progress or (lambda _step, _done: None)
        given = list(folders)
        if not given:
            raise Refusal("name one or more folders of releases to serve")
        found: list[DataSet] = []
        known: set[str] = set()
        for number, folder in enumerate(given):
            try:
                part = _part(report, str(folder), number, len(given))
                reading = partial(report, f"reading {folder}", (number + 0.7) / len(given))
                made = _verified(folder, known, part, reading)
            except Refusal as refusal:
                if left_out is None:
                    raise
                left_out(str(refusal))
            else:
                known.add(made[0].release.identity)
                found += made
        if not found and not may_be_none:
            raise Refusal("none of the folders can be served")
        for title in [t for t, n in Counter(data.title for data in found).items() if n > 1]:
            for data in found:
                if data.title == title:
                    name = data.release.identity[:DIGITS]
                    data.title = say("%(title)s (release %(name)s)", title=data.title, name=name)
        if len({data.name for data in found}) < len(found):
            raise Refusal("two data sets would have the same address; serve them apart")
        read = open_maps(maps, found, left_out)
        known = {n for data in found for v in data.variables for n in (v.name, *v.levels)}
        if wrong := unknown_names(names, known):
            if left_out is None:
                raise Refusal(wrong)
            left_out(wrong)
        for data in found:
            data.called({name: _titles(data, name, one) for name, one in read.items()})
            data.called(names)
        report("done", 1.0)
        return cls(tuple(found), read, lists or CodeLists())

    @cached_property
    def by_name(self) -> Mapping[str, DataSet]:
        """Data sets by their address."""
        return MappingProxyType({data.name: data for data in self.data_sets})

    def data_set(self, name: str) -> DataSet:
        """A data set by its address."""
        if name not in self.by_name:
            raise Missing(
                say("there is no data set of this name here; the first page lists them all")
            )
        return self.by_name[name]

    def found(self, find: str) -> tuple[DataSet, ...]:
        """Data sets that have all of some words."""
        words = find.casefold().split()
        return tuple(data for data in self.data_sets if data.finds(words))

    def noised_apart(self, data: DataSet) -> tuple[DataSet, ...]:
        """Other data sets with figures of the same things, which had noise of their own."""
        return tuple(
            other
            for other in self.data_sets
            if other is not data
            and (
                other.release.identity == data.release.identity
                or any(_alike(one, two) for one in data.variables for two in other.variables)
            )
        )


def _titles(data: DataSet, name: str, shapes: AreaMap) -> Mapping[str, str]:
    """The names that a map has for codes whose label says no more than the code."""
    labels: dict[str, str] = {}
    for variable in data.variables:
        if variable.name == name or name in variable.levels:
            axis = variable.axis(None if variable.name == name else name)
            labels |= zip(axis.codes, axis.labels, strict=True)
    return {code: title for code, title in shapes.titles.items() if labels.get(code) == code}


def _alike(one: Variable, two: Variable) -> bool:
    """Whether two variables are the same: what they are called, and most of their codes.

    Two may have the same name alone: the education that workers have, and that jobs ask for.
    """
    if (one.name, one.label.casefold()) != (two.name, two.label.casefold()):
        return False
    least = min(len(one.codes), len(two.codes))
    return 2 * len(one.places.keys() & two.places.keys()) > least


def _verified(
    folder: str | os.PathLike[str],
    known: Collection[str],
    report: Progress,
    reading: Callable[[], None],
) -> list[DataSet]:
    """The data sets of a release that is sound, and that is not among those that are known."""
    report("", 0.0)
    release = _opened(Path(folder))
    report("looking at its files", 0.0)
    seen, whole = seen_in([folder]), all_of(release)
    checks = checks_of(release, whole, report)
    if release.identity in known:
        raise Refusal(f"{folder} holds a release that is named twice; name each once")
    reading()
    made = list(_data_sets(release, checks))
    forget_rows()
    pa.default_memory_pool().release_unused()
    if seen_in([folder]) != seen:
        raise Refusal(f"{folder} changed while it was looked at; serve it again once it is whole")
    if not made:
        raise Refusal(f"{folder} has no table of jobs to serve; its files can be read as they are")
    return made


def all_of(release: Release) -> str | None:
    """A digest of the record as it was read and of all files; none where they cannot be read."""
    folder = release.folder
    try:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        with ThreadPoolExecutor(os.cpu_count()) as several:
            digests = zip(files, several.map(_digest, files), strict=True)
            found = [f"{path.relative_to(folder)} {digest}" for path, digest in digests]
    except OSError:
        return None
    return sha256([sha256(release.record), *found])


def _digest(path: Path) -> str:
    """The digest of a file; that of a large one is known from the last time, if it is the same."""
    same = settled(path.stat())
    if same is None:
        return file_digest(path)
    return texts_of(f"file {path.absolute()} {same}", lambda: (file_digest(path),))[0]


def checks_of(release: Release, whole: str | None, report: Progress) -> tuple[str, ...]:
    """What was verified of a release; refuses one that is not sound, by its first fault.

    That a release is sound follows from its files and the package alone: both being as they were,
    it is known from the last time, in the user's cache folder.
    """

    def verified() -> tuple[str, ...]:
        from eree.verification.verify import verify  # which is much, and known from the last time

        found = verify(release, progress=report)
        pa.default_memory_pool().release_unused()
        if not found.sound:
            raise Refusal(f"{release.folder} is not served: {found.faults[0]}")
        if whole is not None and all_of(release) != whole:  # nothing is kept of it
            raise Refusal(f"{release.folder} changed while it was verified; try again")
        return found.checks

    return verified() if whole is None else texts_of(f"verified {whole}", verified)


def _part(report: Progress, folder: str, number: int, count: int) -> Progress:
    """Reports on one folder of several; verifying is most of it."""
    return lambda step, done: report(
        f"verifying {folder}{': ' * bool(step)}{step}", (number + 0.7 * done) / count
    )


def releases_in(folders: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Folders of releases: those that are named, and those within others that are named."""
    found: list[Path] = []
    for folder in map(Path, folders):
        inside = [] if (folder / RECORD).exists() else sorted(folder.glob(f"*/{RECORD}"))
        found += [path.parent for path in inside] or [folder]
    return found


def seen_in(
    folders: Iterable[str | os.PathLike[str]], files: Iterable[Path] = ()
) -> list[tuple[str, int, int, int]]:
    """What changes when a release comes or goes, is still being copied, or gets estimates.

    The same of some other `files`.
    """
    found = []
    inside = (path for folder in releases_in(folders) for path in sorted(folder.rglob("*")))
    for path in chain(inside, files):
        with suppress(OSError):
            about = path.lstat()
            found.append((str(path), about.st_mtime_ns, about.st_ctime_ns, about.st_size))
    return found


def _opened(folder: Path) -> Release:
    """A release in a folder of plain files: a link might lead to what is not public."""
    if folder.is_file():
        raise Refusal(f"{folder} is a file; name the folder of a release")
    if not (folder / RECORD).exists():
        Release.open(folder)  # refuses, and names the releases that are in it
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise Refusal(
                f"{folder} is not served: {path.name} in it is no plain file and may lead out of"
                " it; put the file itself there"
            )
    return Release.open(folder)


def _data_sets(release: Release, checks: tuple[str, ...]) -> Iterator[DataSet]:
    ending = release.identity[:DIGITS]
    if "kind" in release.record:
        from eree.survey.protected import ProtectedCube  # only where one is served
        from eree.web.cubes import CubeSet

        yield CubeSet(f"cube-{ending}", ProtectedCube.of(release), checks)
        return
    held = Held.of(release)
    taken: set[str] = set()
    for table in held.tables:
        if held.of_workplaces(table):  # a file to read, not cells to add up
            continue
        name = slug = re.sub(r"[^a-z0-9]+", "-", table.casefold()).strip("-") or "table"
        number = 2
        while name in taken:
            name, number = f"{slug}-{number}", number + 1
        taken.add(name)
        yield LinkedTable(f"{name}-{ending}", held, table, checks)
