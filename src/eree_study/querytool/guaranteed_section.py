"""The section of the page that compares calibrations under a real guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, sqrt

from eree.survey.settings import METHODS
from eree_study.papers.claims import short
from eree_study.querytool.claims import COVERED, calibration_claims
from eree_study.querytool.guaranteed import (
    ESTABLISHMENTS,
    MEASURES,
    MOST_WEIGHT,
    WIDTH,
    WORDS,
    Calibrations,
)


def calibrations_section(found: Sequence[Calibrations], picture: str) -> Iterator[str]:
    """The lines of the section, with a picture."""
    runs = len(found[0].figures)
    yield "## The three calibrations under a guarantee"
    yield ""
    yield (
        f"A synthetic survey of {ESTABLISHMENTS:,} establishments, weights trimmed to "
        f"{MOST_WEIGHT:,} jobs; records are protected at the epsilon stated, half of it "
        "for the cells and half for the one-way tables of all variables, by discrete Laplace "
        f"noise without a failure chance. {runs} draws each. Raked cubes go to reconciled "
        "controls. Errors are against the cube of trimmed weights: noise, not sampling. In each "
        "cell of the tables: root mean squared error "
        "in jobs / root of the variance that would be published (for raked cubes its bound) / "
        f"share of intervals of {WIDTH} published standard errors that cover the truth."
    )
    yield ""
    yield f"![Errors and what is published of them]({picture})"
    yield ""
    for one in found:
        zeros = f", of which {one.zeros:,} cannot be" if one.zeros else ""
        kind = "with structural zeros" if one.zeros else "all cells possible"
        yield f"### Epsilon {one.epsilon}, {kind}"
        yield ""
        yield f"{' × '.join(one.variables)}: {one.cells:,} cells{zeros}."
        yield ""
        yield "| variables | " + " | ".join(WORDS[method] for method in METHODS) + " |"
        yield "|--:" * (1 + len(METHODS)) + "|"
        for k in range(len(one.variables)):
            cells = []
            for method in METHODS:
                error, told, covered = (one.means(method, measure)[k] for measure in MEASURES)
                cells.append(f"{short(sqrt(error))} / {short(sqrt(told))} / {covered:.1%}")
            yield f"| {k + 1} | " + " | ".join(cells) + " |"
        yield ""
    yield "### What holds of it"
    yield ""
    names = [f"epsilon {one.epsilon}{', zeros' * bool(one.zeros)}" for one in found]
    yield "| claim | " + " | ".join(names) + " |"
    yield "|---" * (1 + len(names)) + "|"
    for together in zip(*(calibration_claims(one) for one in found), strict=True):
        told_of = (f"**{claim.holds}**: {claim.figures}" for claim in together)
        yield f"| {together[0].words} | " + " | ".join(told_of) + " |"
    yield ""
    yield (
        f"A Laplace variable alone is covered by {1 - exp(-WIDTH * sqrt(2)):.1%} of such "
        f"intervals, a normal one by 95%; the limit of {COVERED:.0%} is below both."
    )
