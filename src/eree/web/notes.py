"""What is said of a data set, and what a reader of its figures must know of them."""

from __future__ import annotations

from typing import Any

from eree.policy.plain_data import guarantee_as_json
from eree.web.dataset import DataSet
from eree.web.query import Query
from eree.web.words import Joined, say

#: What is said of figures without noise.
EXACT = say("Numbers of workplaces are public and exact.")
#: What is said of figures that have their errors beside them.
BESIDE = (
    say("Figures have noise in them; each has its error beside it."),
    say(
        "Figures have noise in them, which protects those who are counted; each has its error"
        " beside it."
    ),
)


def notes(data: DataSet, query: Query, apart: tuple[DataSet, ...]) -> tuple[str, ...]:
    """What a reader of the figures must know."""
    listed = [
        say(
            "A list of codes in an address is kept for a day, or until the tool is started again,"
            " and the address with it."
        )
    ]
    listed = listed if data.keeps_lists(query.where) else []
    if query.measure != "jobs":
        return (EXACT, *listed)
    found: list[str] = [
        BESIDE[0] if data.warnings else BESIDE[1],
        say(
            "Figures of this data set add up: totals are sums of signed values, and the same cells"
            " give the same figure in every table of it. Margins of error do not add up: that of a"
            " total is found for the sum as a whole, and may come out a little narrower than that"
            " of its largest part."
        ),
    ]
    meaning: str
    confidence = f"{float(query.confidence):.0%}"
    if data.intervals == "calibrated":
        meaning = say(
            "Intervals (low, high) are calibrated: %(level)s of them hold the true count, if"
            " sizes of workplaces are as the release shows them; the margin of error is the farther"
            " end.",
            level=confidence,
        )
        beside = say(
            "CSV, Excel and Parquet files have guaranteed ones beside them (guaranteed_low,"
            " guaranteed_high), which rest on no sizes and are wider."
        )
        meaning = meaning if query.share else Joined(" ", (meaning, beside))
    elif data.intervals:
        meaning = say(
            "Intervals (low, high) are guaranteed: each holds the true count with a probability of"
            " %(level)s or more, whatever the data are; the margin of error is the farther end.",
            level=confidence,
        )
    else:
        meaning = say(
            "Each interval is meant to hold the true figure with a probability of %(level)s;"
            " standard errors are estimates themselves.",
            level=confidence,
        )
    found.append(meaning)
    if query.share:
        found.append(
            say(
                "Shares are quotients of signed estimates. Their intervals go from the low end of"
                " the part by the high end of the whole to the high end by the low end, at a level"
                " at which both hold together: they are on the safe side, and often too wide. They"
                " end at 0 and at 100 percent, or at the estimate where noise takes it farther. A"
                " part that is all of its total is exactly 100 percent. A share of a total that is"
                " 0 or less is not known: – on pages, empty in files."
            )
        )
    if data.bias:
        found.append(data.bias)
    now, then = by_period(data, apart)
    if now:
        found.append(
            say(
                "Noise was drawn apart for other data sets (%(names)s): where they overlap with"
                " this one, their figures need not agree.",
                names=_some(now),
            )
        )
    if then:
        found.append(
            say(
                "Other data sets are of other periods (%(names)s): between them and this one lie"
                " what changed and the noise of both.",
                names=_some(then),
            )
        )
    return (*data.warnings, *found, *listed)


def by_period(
    data: DataSet, apart: tuple[DataSet, ...]
) -> tuple[tuple[DataSet, ...], tuple[DataSet, ...]]:
    """Other data sets that may count the same jobs, and those that are surely of other periods."""
    own = data.release.period
    then = tuple(one for one in apart if own and one.release.period not in ("", own))
    return tuple(one for one in apart if one not in then), then


def _some(apart: tuple[DataSet, ...]) -> str:
    """The titles of the first of some data sets."""
    return Joined("; ", [other.title for other in apart[:3]] + ["…"] * (len(apart) > 3))


def described(data: DataSet, home: str) -> dict[str, Any]:
    """A data set as plain data, without its codes."""
    return {
        "name": data.name,
        "title": data.title,
        "kind": data.kind,
        "release": data.release.identity,
        "made": data.made,
        "source": data.release.data_set,
        "period": data.release.period,
        "about": dict(data.release.described),
        "note": data.note,
        "guarantee": data.promise,
        "universe": data.universe,
        "measures": dict(data.measures),
        "errors": list(data.errors),
        "intervals": data.intervals,
        "variables": [
            {"name": v.name, "label": v.label, "codes": len(v.codes), "levels": list(v.levels)}
            for v in data.variables
        ],
        "address": f"{home}/d/{data.name}",
    }


def certified(data: DataSet, certificates: list[dict[str, Any]]) -> dict[str, Any]:
    """What was claimed and found of its noise, and what was checked, as plain data."""
    return {
        "data_set": data.name,
        "release": data.release.identity,
        "made": data.made,
        "guarantee": guarantee_as_json(data.guarantee),
        "certificates": certificates,
        "checks": data.checks,
    }
