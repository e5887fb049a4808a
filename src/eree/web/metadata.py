"""What must be known of an answer: where it comes from, what is promised, how to cite it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eree.policy.plain_data import guarantee_as_json
from eree.web.dataset import DataSet
from eree.web.query import Query


@dataclass(frozen=True)
class Metadata:
    """All that goes with the figures of an answer into every download."""

    caption: str
    data_set: str
    title: str
    release: str
    made: str
    period: str
    promise: str
    guarantee: dict[str, Any]
    measure: str
    universe: str
    filters: tuple[str, ...]
    confidence: str
    notes: tuple[str, ...]
    address: str
    citation: str

    def pairs(self) -> list[tuple[str, str]]:
        """Names and words, for a sheet."""
        return [
            ("Table", self.caption),
            ("Data set", f"{self.title} ({self.data_set})"),
            ("Release", f"{self.release}, made {self.made}"),
            *([("Period", self.period)] if self.period else []),
            ("Guarantee", self.promise),
            ("Measure", self.measure),
            ("Universe", self.universe),
            ("Filters", "; ".join(self.filters) or "none"),
            ("Confidence", self.confidence),
            *(("Note", note) for note in self.notes),
            ("Address", self.address),
            ("Cite as", self.citation),
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "caption": self.caption,
            "data_set": self.data_set,
            "title": self.title,
            "release": self.release,
            "made": self.made,
            "period": self.period,
            "guarantee": self.guarantee,
            "measure": self.measure,
            "universe": self.universe,
            "filters": list(self.filters),
            "confidence": self.confidence,
            "notes": list(self.notes),
            "address": self.address,
            "citation": self.citation,
        }


def metadata(data: DataSet, query: Query, apart: tuple[DataSet, ...], home: str) -> Metadata:
    """The metadata of an answer; `home` is the public address of the query tool."""
    filters = tuple(
        f"{data.variable(name).label}: {', '.join(map(data.variable(name).describe, codes))}"
        for name, codes in query.where.items()
    )
    measure = data.measures[query.measure]
    labels = [data.variable(name).side_label(query.groups.get(name)) for name in query.by]
    caption = f"{measure} by {' × '.join(labels)}" if labels else f"{measure} in all"
    if filters:
        caption += f" ({'; '.join(_short(text) for text in filters)})"
    address = f"{home}/d/{data.name}?{query.address()}"
    return Metadata(
        caption,
        data.name,
        data.title,
        data.release.identity,
        data.made,
        data.release.period,
        data.promise,
        guarantee_as_json(data.guarantee),
        measure,
        data.universe,
        filters,
        query.confidence,
        notes(data, query, apart),
        address,
        f"{data.title}. Release {data.release.identity}, {data.made}, protected with"
        f" {data.promise}. {address}",
    )


def notes(data: DataSet, query: Query, apart: tuple[DataSet, ...]) -> tuple[str, ...]:
    """What a reader of the figures must know."""
    if query.measure != "jobs":
        return ("Numbers of workplaces are public and exact.",)
    protects = "" if data.warnings else ", which protects those who are counted"
    found = [
        f"Figures have noise in them{protects}; what is sure of the truth is told by its error.",
        "Figures of this data set add up: totals are sums of signed values, and the same cells"
        " give the same figure in every table of it.",
    ]
    chance = f"{float(query.confidence):.0%}"
    if data.kind == "table":
        found.append(
            f"Each interval holds the true count with a chance of {chance} or more; the margin of"
            " error is its farther end. No standard error is public."
        )
    else:
        found.append(
            f"Each interval is meant to hold the true figure with a chance of {chance}; standard"
            " errors are estimates themselves."
        )
    if data.bias:
        found.append(data.bias)
    if apart:
        names = ", ".join(other.title for other in apart[:3])
        more = " and others" if len(apart) > 3 else ""
        found.append(
            f"Noise was drawn apart for other data sets ({names}{more}): where they overlap with"
            " this one, their figures need not agree."
        )
    return (*data.warnings, *found)


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77].rstrip() + "…"
