"""Areas as people name them, and amounts of damage as they write them or a spreadsheet has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from re import IGNORECASE, finditer, fullmatch, search, split, sub

from eree.survey.query import Axis
from eree.web.words import say

MOST_AREAS = 5_000
#: What the last column of a file with damage is called: with a year, and whole dollars, at most.
_HEADING = (
    r"(total[ _])?(damages?|amounts?|values?|loss(es)?|costs?"
    r"|daños?|importes?|montos?|valor(es)?|p[eé]rdidas?|cost[eo]s?)([ _]total)?"
    r"([_-](19|20)[0-9]{2}| ?\((19|20)[0-9]{2}\))?"
    r"([ _-]?[(\[]?((in|en)[ _])?(\$|usd|us\$|dollars?|dólares)[)\]]?)?"
)
#: Figures of another unit, or an amount.
_NO_HEADING = r"[0-9]|thousand|[mb]illion|\bmil(es|lones)?\b|\bk\b"
#: Letters of a name that is no area's that are shown.
MOST_SHOWN = 60
#: An amount as people write it, with or without a comma for thousands; 1,25 is none.
MONEY = r'[ "$]*((0|[1-9][0-9]{0,14})|[1-9][0-9]{0,2}(,[0-9]{3}){1,4})(\.[0-9]{1,4})?[ "$]*'


@dataclass(frozen=True)
class Slip:
    """What cannot be read: a line of the damage, or the threshold, which is line 0."""

    line: int
    text: str
    reason: str


def called(axis: Axis) -> dict[str, str]:
    """The codes of areas by what they may be called: by their codes, and names that one has."""
    found = {n.casefold(): code for n, code in zip(axis.told_apart, axis.codes, strict=True)}
    found |= {code.casefold(): code for code in axis.codes}
    return found | {code: code for code in axis.codes}


def code_of(text: str, known: Mapping[str, str]) -> str:
    """The code of what a text calls an area; empty where it calls none."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return known.get(text) or known.get(text.casefold(), "")


@dataclass(frozen=True)
class Damage:
    """An amount of damage, and the line that it stands in."""

    line: int
    text: str
    amount: Fraction


def damages(
    text: str, known: Sequence[Mapping[str, str]]
) -> tuple[dict[tuple[str, ...], Damage], list[Slip]]:
    """Amounts of damage by the codes of their areas, from lines such as "17031 $1,250,000.50".

    `known` has for each variable the codes of areas by what they may be called.  Spaces, tabs,
    commas and semicolons stand between.  With it all that cannot be read.
    """
    found: dict[tuple[str, ...], Damage] = {}
    slips: list[Slip] = []
    longest = [max(map(len, of), default=0) + len('""') for of in known]
    every = enumerate(text.splitlines(), start=1)
    lines = [(n, line, whole) for n, line in every if (whole := line.strip(" \t,;"))]
    if len(lines) > 1 and _is_heading(lines[0][2], known, longest):
        del lines[0]
    for number, line, whole in lines:
        read = {(codes, last): mark for codes, mark, last in _readings(whole, known, longest)}
        sure = {one: mark for one, mark in read.items() if money(one[1]) is not None}
        (codes, last), mark = next(iter((sure or read or {((), ""): ""}).items()))
        if not read:
            why = _unread(number, whole, known)
        elif not sure:
            why = no_point(number, last) or say(
                "the damage in line %(line)s must be a number of 0 or more, such as 1,250,000.50",
                line=number,
            )
        elif len(sure) > 1 or ("," in mark and fullmatch(r"[^\"$,]*(,[1-9][0-9]{2})+[^,]*", last)):
            why = say(
                "line %(line)s may be read in several ways; put a semicolon before the amount",
                line=number,
            )
        elif codes in found:
            why = say("line %(line)s gives an area a second damage; give it one", line=number)
        elif len(found) >= MOST_AREAS:
            why = say("at most %(most)s areas are compared at once", most=f"{MOST_AREAS:,}")
        else:
            found[codes] = Damage(number, line, money(last) or Fraction(0))
            continue
        slips.append(Slip(number, line, why))
    return found, slips


def _is_heading(line: str, known: Sequence[Mapping[str, str]], longest: Sequence[int]) -> bool:
    """Whether a line calls its last column damage, and has no area and no amount to be lost."""
    *before, last = split(r"[\t;,]" if search(r"[\t;,]", line) else r"\s+", line)
    return (
        fullmatch(_HEADING, last.strip(' "'), IGNORECASE) is not None
        and not any(search(_NO_HEADING, field, IGNORECASE) for field in before)
        and next(_readings(f"{line} 0", known[:1], longest[:1]), None) is None
    )


def _readings(
    line: str, known: Sequence[Mapping[str, str]], longest: Sequence[int], mark: str = ""
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The ways to read a line: codes that are known, what stands before the rest, and the rest.

    Behind the `longest` name of an area no other is looked for.
    """
    if not known:
        yield (), mark, line
        return
    for between in finditer(r"[\s,;]+", line):
        if between.start() > longest[0]:
            break
        if code := code_of(line[: between.start()], known[0]):
            rests = _readings(line[between.end() :], known[1:], longest[1:], between[0])
            for codes, last, rest in rests:
                yield (code, *codes), last, rest


def _unread(number: int, line: str, known: Sequence[Mapping[str, str]]) -> str:
    """Why a line has no codes that are known."""
    told = [field.strip() for field in split(r"[\t;]", line)]
    fields = told if len(told) > len(known) else split(r"[\s,;]+", line, maxsplit=len(known))
    wrong = [code for code, of in zip(fields, known, strict=False) if not code_of(code, of)]
    if wrong and len(fields) > len(known):
        return say(
            "line %(line)s of the damage names %(code)s, which matches no area here, or more than"
            " one",
            line=number,
            code=repr(wrong[0][:MOST_SHOWN]),
        )
    several = say("%(count)s codes", count=len(known))
    return say(
        "line %(line)s of the damage must have %(codes)s and an amount, with spaces between",
        line=number,
        codes=say("%(count)s code", count=1) if len(known) == 1 else several,
    )


def no_point(number: int, text: str) -> str:
    """That a comma is no decimal point, where an amount is written with one; else nothing."""
    point = sub(r'[ "$.]', "", text).replace(",", ".")
    if not fullmatch(r"[0-9]+\.[0-9]{1,2}", point) or money(point) is None:
        return ""
    if not number:
        return say("a comma is no decimal point: write %(amount)s", amount=point)
    return say(
        "a comma is no decimal point: write %(amount)s in line %(line)s", amount=point, line=number
    )


def money(text: str) -> Fraction | None:
    """An amount without rounding; none where that cannot be read."""
    return Fraction(sub(r'[ "$,]', "", text)) if fullmatch(MONEY, text) else None
