"""Sentences that the rest of eree says in English, such as a record's, said again by `say`.

A release keeps what it promises as plain sentences, and verifying gives others.  Each is found
again by the pattern that it was made of, with its parts; one that is not known stays as it is.
"""

from __future__ import annotations

import re
from functools import cache

from eree.web.words import Joined, Said, say

#: What is asked of two possible worlds, and how little can be said of it: statements join them.
_STATEMENTS = (
    say("Which of them is the true one"),
    say("Whether a job is in the data"),
    say("Whether a job is in the data beside others of its worker"),
    say("What a job is like, or where it is"),
    say("Whether a worker is in the data%(each)s"),
    say("What a worker is like, or where she works%(each)s"),
    say(", with all of at most %(most)s jobs"),
    say(", with all of her jobs"),
    say("Whether a workplace has %(size)s %(counted)s of one type or %(other)s%(held)s"),
    say("Whether a workplace has %(size)s %(counted)s or %(other)s%(held)s"),
    say(
        "Whether a workplace of known size has some share of a kind of %(counted)s or"
        " %(other)s%(held)s"
    ),
    say(", with the jobs that count elsewhere held fixed"),
    say("counted jobs"),
    say("jobs"),
    say("workers"),
    say("any larger number of them"),
    say("any other share"),
    say("%(factor)s times that share"),
    say("Whether a record is in the survey"),
    say("What a record answers, or its weight"),
    say("Whether an establishment is in the survey"),
    say("All that an establishment answers"),
    say("nothing that is of use is promised."),
    say("a release changes the odds by at most a factor of %(factor)s."),
    say(
        "whatever is seen in a release, or concluded from it, has in one case at most %(factor)s"
        " times the probability that it has in the other, plus %(addend)s; that does not bound the"
        " odds."
    ),
)
_OF_SURVEYS = (
    say("weighted employment in every cell and in every table of the cube"),
    say("unweighted counts of records alone, which are not published"),
    say(
        "The weight of a record is an attribute of that record: if it were not in the survey, all"
        " other weights would be the same."
    ),
    say(
        "The weight of a record is an attribute of that record: if it were not in the survey, all"
        " other weights would be the same. Changes of other weights are not protected."
    ),
    say(
        "Weights above %(most)s jobs count as %(weight)s. The bound was set without looking at the"
        " data, and so were the variables, their codes and the structural zeros."
    ),
    say(
        "That the records are a sample is not counted in favour of the guarantee: it holds for a"
        " record of which everyone knows that it was drawn."
    ),
    say(
        "Of an establishment with more than %(most)s records so many are counted, by a rule that"
        " looks at no other. That bound, too, was set without looking at the data."
    ),
    say(
        "Sampling errors are modelled as if all records had been drawn one by one. Records of one"
        " establishment were not, and what they have in common makes true sampling errors larger"
        " than those that are stated."
    ),
    say(
        "What is protected is one record. What several records of one establishment have in common"
        " is protected at the price of all of them together."
    ),
    say(
        "The price, epsilon %(epsilon)s and delta %(delta)s for one record, is that of the"
        " unweighted counts. Weighted employment has no guarantee: the noise comes in multiples of"
        " the average weight, so a record whose weight is no multiple of it is given away for"
        " certain by its cell, to whoever knows the rest."
    ),
    say(
        "The average weight of all records is published without noise: the variance of the noise"
        " shows it."
    ),
    say(
        "Control tables are published without noise: they have no guarantee, and neither has any"
        " sum of cells that is calibrated to them."
    ),
    say("A cell that is left out is known to be empty: no record of the survey is in it."),
)
_CHECKS = (
    say("the record is the one that was written"),
    say("the signature is by the key %(key)s"),
    say("1 file is the one that was written"),
    say("%(count)s files are the ones that were written"),
    say("what is protected of the data set %(name)s is declared"),
    say("the estimates are what the release gives, made again"),
    say("on its author's word, without contradiction: %(areas)s"),
    say("on its author's word: %(name)s groups workplaces, and nothing says what it was made of"),
    say(
        "on its author's word: %(name)s is said to be made of table %(table)s of release"
        " %(release)s, which was not given (--size-release)"
    ),
    say("1 mechanism keeps its claim, by its certificate"),
    say("%(count)s mechanisms keep their claims, by their certificates"),
    say("proved and certified by their authors, not by eree: %(names)s"),
    say("1 table agrees with its twin, ends and signs"),
    say("%(count)s tables agree with their twins, ends and signs"),
    say("drawn at once, with one total in every group: %(names)s"),
    say("the prices add up to epsilon %(epsilon)s, delta %(delta)s"),
    say("the cube is as published: its price covers %(covers)s"),
    say("the cells are as drawn; variances follow from the noise"),
    say("the cells are calibrated by %(method)s (not done again); variances follow from the noise"),
    say("%(count)s table has every row in its place"),
    say("%(count)s tables have every row in its place"),
)
_IN = say(" in ")
#: Letters of a sentence that anybody looks for, and parts that are names, whatever they mean.
_MOST_LETTERS, _NAMES = 1_000, {"key", "method", "name", "names", "release", "table"}


def told(text: str) -> str:
    """A sentence of a release or of what verified it, so that a page can say it."""
    if isinstance(text, (Said, Joined)):
        return text
    what, colon, words = text.partition(": ")
    if colon and isinstance(found := _told(words), Said) and isinstance(one := _told(what), Said):
        return Joined(": ", (one, found))
    return _told(text)


def _told(text: str) -> str:
    if len(text) > _MOST_LETTERS:
        return text
    for begin, pattern, key in _patterns():  # few of which are ever compiled
        if text.startswith(begin) and (found := re.fullmatch(pattern, text)):
            return Said(key, {name: _part(name, part) for name, part in found.groupdict().items()})
    return text


def _part(name: str, text: str) -> str:
    """A part of a sentence, which is shorter; names stay as they are."""
    if name in _NAMES:
        return text
    return _areas(text) if name == "areas" else _told(text)


def _areas(text: str) -> str:
    """Which areas lie in which others."""
    return Joined("; ", [Joined(_IN, one.split(_IN)) for one in text.split("; ")])


@cache
def _patterns() -> tuple[tuple[str, str, str], ...]:
    """How each sentence begins and is found again; of those that fit, the first is meant."""
    found = []
    for one in (*_STATEMENTS, *_OF_SURVEYS, *_CHECKS):
        literal, *rest = re.split(r"%\((\w+)\)s", one)
        pattern = re.escape(literal)
        for name, after in zip(rest[::2], rest[1::2], strict=True):
            pattern += f"(?P<{name}>{'(?:, with .+)?' if name in ('each', 'held') else '.+?'})"
            pattern += re.escape(after)
        found.append((literal, pattern, str(one)))
    return tuple(found)
