"""Tables of ratios to noise infusion at alpha 0.1: of a study's report, and of its page.

Those of the page are made of `study-errors.csv`, which is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from eree_study.papers.claims import ALPHA, short, with_error
from eree_study.papers.comparison import Row
from eree_study.papers.markdown import table
from eree_study.papers.study import Results

#: Mechanisms, and what they are called.
LOG = {"log-laplace": "Log-Laplace"}
SMOOTH = {"smooth-gamma": "Smooth Gamma", "smooth-laplace": "Smooth Laplace"}
SLIDES = {"slides-gamma": "Smooth Gamma of the slides"}
OURS = {"auto": "eree"}
#: Tables over tracts, by the number of their attributes, and their worker attributes.
TRACTS = {"3": "", "4": "with age", "5": "with age, sex", "6": "with age, sex, race"}
#: Estimates from what is released, the best last.
_ESTIMATES = ("auto-shrunk", "by-size-shrunk")
_AT = ("1", "2", "4")
_PAPER = {
    "workload-1": "Workload 1",
    "workload-2": "Workload 2, weak",
    "workload-2-strong": "Workload 2, strong",
    "workload-3": "Workload 3, weak",
    "workload-3-strong": "Workload 3, strong",
}
_CLAIMED = {
    f"report-{ways}": f"{ways}-way{f', {attributes}' if attributes else ''}"
    for ways, attributes in TRACTS.items()
}
_TRUE = {f"{name}-true": title for name, title in _CLAIMED.items() if name != "report-3"}
_NOT_PRIVATE = {
    "report-gamma": "the report's Smooth Gamma (not private)",
    "report-laplace": "the report's Smooth Laplace (not private)",
}


def findings_tables(results: Results) -> dict[str, str]:
    """The tables of a study's report, with standard errors."""

    def made(workloads: Mapping[str, str], names: Mapping[str, str]) -> str:
        rows = (
            (title, *(_at_each(results, one, (name,), with_error) for name in names))
            for one, title in workloads.items()
        )
        return table(("", *names.values()), rows)

    return {
        "paper": made(_PAPER, LOG | SMOOTH | SLIDES | OURS),
        "claimed": made(_CLAIMED, LOG | _NOT_PRIVATE | OURS),
        "at_true_price": made(_TRUE, _NOT_PRIVATE | SMOOTH | OURS),
    }


def page_tables(results: Results) -> list[str]:
    """The tables of the study's page: errors, other measures of them, and the report's tables."""

    def value(row: Row) -> str:
        return short(row.value)

    def cells(workload: str, names: Iterable[Iterable[str]], measure: str) -> Iterable[str]:
        return (_at_each(results, workload, some, value, measure) for some in names)

    published = LOG | SMOOTH | SLIDES
    kinds = [*((name,) for name in published), ("auto",), _ESTIMATES]
    errors = table(
        ("", *published.values(), "eree", "eree, estimates"),
        ((title, *cells(one, kinds, "l1_ratio")) for one, title in _PAPER.items()),
    )
    two = [("smooth-laplace",), ("auto",)]
    measures = table(
        ("", "L2: Smooth Laplace", "eree", "relative: Smooth Laplace", "eree"),
        (
            (title, *cells(one, two, "l2_ratio"), *cells(one, two, "relative_ratio"))
            for one, title in _PAPER.items()
        ),
    )
    tracts = table(
        ("", *_NOT_PRIVATE.values(), "eree, true price"),
        (
            (
                title,
                *cells(one, [(name,) for name in _NOT_PRIVATE], "l1_ratio"),
                *cells(one if one == "report-3" else f"{one}-true", [("auto",)], "l1_ratio"),
            )
            for one, title in _CLAIMED.items()
        ),
    )
    return [errors, measures, tracts]


def _at_each(
    results: Results,
    workload: str,
    names: Iterable[str],
    said: Callable[[Row], str],
    measure: str = "l1_ratio",
) -> str:
    """The figures at epsilon 1, 2 and 4 of the last of some mechanisms that is there."""
    known = [
        [results.row(workload, name, ALPHA, epsilon, measure) for epsilon in _AT] for name in names
    ]
    rows = next((row for row in reversed(known) if any(row)), [None])
    return " / ".join("–" if row is None else said(row) for row in rows)
