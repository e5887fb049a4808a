"""The packages that an installation of eree consists of, by their own metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement

#: What a user may ask for beside eree itself; the other extras are for its developers.
EXTRAS = ("serve", "plot", "study", "spark", "postgres")


@dataclass(frozen=True)
class Package:
    """An installed package, its licence in its own words, and the names of those that it needs."""

    name: str
    version: str
    licence: str
    by_spdx: bool
    needs: tuple[str, ...]

    @property
    def address(self) -> str:
        """How lists of packages name it."""
        return f"pkg:pypi/{self.name}@{self.version}"


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(extras: Iterable[str] = ()) -> dict[str, Package]:
    """eree with what some extras add, and all that these need, by name."""
    found: dict[str, Package] = {}
    asked: dict[str, set[str]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [("eree", frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        if name in asked and wanted <= asked[name]:
            continue
        asked[name] = asked.get(name, set()) | wanted
        package = distribution(name)
        needed = list(_needs(package, asked[name]))
        names = tuple(sorted({normal(one.name) for one in needed}))
        found[name] = Package(name, package.version, *_licence(package), names)
        waiting += [(normal(one.name), frozenset(one.extras)) for one in needed]
    return dict(sorted(found.items()))


def _needs(package: Distribution, extras: Iterable[str]) -> Iterable[Requirement]:
    for text in package.requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield needed


def _licence(package: Distribution) -> tuple[str, bool]:
    """Its licence, and whether that is an SPDX expression."""
    about = package.metadata
    if about["License-Expression"]:
        return about["License-Expression"], True
    classes = (line.split(" :: ") for line in about.get_all("Classifier") or ())
    named = [words[-1] for words in classes if words[0] == "License" and len(words) > 1]
    # some packages have the whole text where a name should be
    return ", ".join(named) or (about["License"] or "").partition("\n")[0], False
