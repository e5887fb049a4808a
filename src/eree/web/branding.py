"""The office's own site: `site.toml` says its name, logo, colours, languages and names of areas."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from eree.errors import Faulty, hint
from eree.web.words import ENGLISH, languages

if TYPE_CHECKING:
    from eree.policy.settings import FileFaults
    from eree.web.settings import ColourSettings

#: The most bytes of a logo, and of a file of names, and the most names.
MOST_LOGO, MOST_FILE, MOST_NAMES = 200_000, 64 << 20, 1_000_000
#: What text must stand out by, as the guidelines for accessible pages have it (WCAG 2, level AA).
CONTRAST = 4.5
#: What a picture of shapes is made of, in the namespace of SVG.
_SVG = "{http://www.w3.org/2000/svg}"
_SHAPES = frozenset(
    f"{_SVG}{name}"
    for name in (
        *("svg", "g", "defs", "symbol", "title", "desc", "text", "tspan", "clipPath", "mask"),
        *("path", "rect", "circle", "ellipse", "line", "polyline", "polygon"),
        *("linearGradient", "radialGradient", "stop", "pattern", "marker"),
    )
)
#: What stands before the picture that is more than its version and a comment; an encoding in which
#: its bytes are others; and what in an attribute comes from elsewhere, or might.
_DECLARED = re.compile(
    rb"(?i)<!(?!--)|<\?(?!xml\s)|\A<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-8[\"'])"
)
_FROM_ELSEWHERE = re.compile(r"(?i)url\(\s*+[\"']?+\s*+(?!#)|image-set|src\(|@|\\|//")


@dataclass(frozen=True)
class Branding:
    """What an office says of its site; the first of its languages has addresses of no prefix.

    `logo` is the name of the picture as it is served, `style` is put behind the style sheet, and
    `names` has for variables and levels the names of codes.
    """

    name: str = ""
    logo: str = ""
    picture: bytes = b""
    contact: str = ""
    licence: str = ""
    footer: str = ""
    languages: tuple[str, ...] = (ENGLISH,)
    style: bytes = b""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: str | os.PathLike[str], *, named: bool = True) -> Branding:
        """What a TOML file says; raises `Faulty` with every fault of it.

        Where no code is `named`, files of names are not read.
        """
        from eree.policy.settings import FileFaults, read_toml  # most sites have no file
        from eree.web.settings import ColourSettings, SiteSettings

        path = Path(file)
        raw = read_toml(path, missing=f"there is no file {path}; write one, with a name = '…'")
        faults = FileFaults(path.name)
        given = faults.read(SiteSettings, raw, "")
        colours = faults.read(ColourSettings, given.colours, "colours")
        for code in given.languages:
            if code not in languages():
                known = ", ".join(languages())
                faults.add("languages", f"has {code!r}, but pages are in {known}")
        if len(set(given.languages)) < len(given.languages):
            faults.add("languages", "names a language twice")
        picture = _logo(path.parent, given.logo, faults) if given.logo else b""
        style = _style(colours, faults)
        names = {
            name: _names(path.parent / one, f"names.{name}", faults)
            for name, one in (given.names.items() if named else ())
        }
        if faults.found:
            raise Faulty(faults.found)
        logo = f"logo{Path(given.logo).suffix.lower()}" if given.logo else ""
        return cls(
            given.name,
            logo,
            picture,
            given.contact,
            given.licence,
            given.footer,
            tuple(given.languages),
            style,
            names,
        )


def unknown_names(names: Mapping[str, Any], known: set[str]) -> str:
    """What is wrong with names of variables that no data set has; empty where all are known."""
    for name in names:
        if name not in known:
            return f"no data set has a variable or a level {name!r} to name{hint(name, known)}"
    return ""


def _logo(folder: Path, name: str, faults: FileFaults) -> bytes:
    """A picture that is nothing but one: SVG without anything active, or PNG."""
    suffix = Path(name).suffix.lower()
    if suffix not in (".svg", ".png"):
        faults.add("logo", "must be an SVG or a PNG file")
        return b""
    try:
        found = _bytes_of(folder / name, MOST_LOGO)
    except OSError:
        faults.add("logo", "cannot be read; name a file from the folder of this one on")
        return b""
    if len(found) > MOST_LOGO:
        faults.add("logo", f"has more than {MOST_LOGO:,} bytes; make it smaller")
    elif suffix == ".png" and not found.startswith(b"\x89PNG\r\n\x1a\n"):
        faults.add("logo", "is no PNG picture")
    elif suffix == ".svg" and not _is_picture(found):
        said = "must be an SVG picture of shapes alone, without scripts, links or what editors add"
        faults.add("logo", said)
    return found


def _is_picture(found: bytes) -> bool:
    """Whether it is XML in UTF-8 of an SVG picture of shapes; nothing in it declares entities."""
    if b"\0" in found or _DECLARED.search(found):
        return False
    try:
        found.decode()
        root = ElementTree.fromstring(found)  # noqa: S314
    except (ElementTree.ParseError, ValueError, LookupError):  # or of an unknown encoding
        return False
    attributes = [(n.casefold(), value) for one in root.iter() for n, value in one.attrib.items()]
    return (
        root.tag == f"{_SVG}svg"
        and all(one.tag in _SHAPES for one in root.iter())
        and not any(name.startswith("on") or name.endswith("}base") for name, _ in attributes)
        and not any(_FROM_ELSEWHERE.search(value) for _, value in attributes)
        and all(v.startswith("#") for n, v in attributes if n.endswith(("href", "src")))
    )


def _bytes_of(path: Path, most: int) -> bytes:
    """The bytes of a plain file, and one more than so many at most."""
    if not path.is_file():  # a pipe might never end
        raise FileNotFoundError
    with path.open("rb") as file:
        return file.read(most + 1)


def _names(path: Path, place: str, faults: FileFaults) -> dict[str, str]:
    """Names by their codes, from the first two columns of a CSV file with a heading."""
    try:
        whole = _bytes_of(path, MOST_FILE)
        lines = csv.reader(io.StringIO(whole.decode("utf-8-sig"), newline=""), strict=True)
        rows = [line for line in lines if line]
    except (OSError, UnicodeDecodeError, csv.Error):
        faults.add(place, "cannot be read as a CSV file in UTF-8")
        return {}
    if len(whole) > MOST_FILE or len(rows) > MOST_NAMES:
        faults.add(place, f"has more than {MOST_NAMES:,} names or {MOST_FILE >> 20} MB")
    found: dict[str, str] = {}
    for number, line in enumerate(rows[1:], start=2):
        if len(line) < 2 or not line[0] or not line[1].strip() or not line[1].isprintable():
            faults.add(place, f"must have a code and a printable name in line {number}")
            break
        if line[0] in found:
            faults.add(place, f"names a code twice in line {number}")
            break
        found[line[0]] = line[1].strip()
    return found


def luminance(colour: str) -> float:
    """The relative luminance of a colour such as #1f5f74, as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """How much two colours stand out from each other, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@cache
def palettes() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The colours of the style sheet by their names, on light and on dark pages."""
    text = files("eree.web").joinpath("static", "style.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6})", part))
        for part in re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    )
    return light, dark


def _style(given: ColourSettings, faults: FileFaults) -> bytes:
    """The rules that put colours in the place of ours; refuses those that cannot be read."""
    rules = []
    for name, colour, palette in zip(
        ("accent", "accent_dark"), (given.accent, given.accent_dark), palettes(), strict=True
    ):
        if not colour:
            continue
        beside = ("paper", "sheet", "tint", "faint", "accent-ink")
        worst = min(beside, key=lambda other: contrast(colour, palette[other]))
        found = contrast(colour, palette[worst])
        if found < CONTRAST:
            lean = "lighter" if name == "accent_dark" else "darker"
            faults.add(
                f"colours.{name}",
                f"has a contrast of {found:.1f} with {palette[worst]}, below {CONTRAST}; take a"
                f" {lean} one",
            )
        rule = f":root {{ --accent: {colour}; }}"
        dark = "@media screen and (prefers-color-scheme: dark)"
        rules.append(f"{dark} {{ {rule} }}" if name == "accent_dark" else rule)
    if given.accent and not given.accent_dark:  # the light one would not be legible there
        dark_rule = f":root {{ --accent: {palettes()[1]['accent']}; }}"
        rules.append(f"@media screen and (prefers-color-scheme: dark) {{ {dark_rule} }}")
    return "".join(f"\n{rule}" for rule in rules).encode()
