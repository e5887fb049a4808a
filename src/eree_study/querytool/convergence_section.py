"""The section of the page about which runs converge, and what is left in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from eree_study.papers.claims import Claim
from eree_study.papers.markdown import table
from eree_study.querytool import claims
from eree_study.querytool.claims import SHARP, listed, percents
from eree_study.querytool.convergence import (
    CRITERIA,
    PRINTED_CONVERGED,
    RELATIVE,
    SURVEYS,
    Convergence,
    Criterion,
)
from eree_study.querytool.results import FEWEST, PRINTED, PRINTED_RAKED, PRINTED_REDUCTION


def convergence_section(found: Convergence, picture: str) -> Iterator[str]:
    """The lines of the section, with a picture."""
    yield "## Which runs converge"
    yield ""
    yield (
        f"Shares of converged runs, from the least to the greatest of {SURVEYS} synthetic surveys "
        f"(seeds {found.seeds[0]} to {found.seeds[-1]}, {found.runs} runs each). Each answer of "
        "each case is redrawn with that probability, all codes equally likely: 0% are surveys as "
        "they are, where some codes have one case, 100% are cases without any pattern. Columns: "
        f"the most by which a control total is missed. Printed: {PRINTED_CONVERGED:.1%}."
    )
    yield ""
    yield from table(
        ("redrawn", "smallest total", *(criterion.description for criterion in CRITERIA)),
        (
            (
                f"{redrawn:.0%}",
                f"{found.smallest[k].min():g} to {found.smallest[k].max():g}",
                *(span_of(found.shares(criterion)[k]) for criterion in CRITERIA),
            )
            for k, redrawn in enumerate(found.redrawn)
        ),
    )
    yield f"![Share of converged runs]({picture})"
    yield ""
    yield from verdict_table(claims.convergence_claims(found))
    yield (
        "Table 4's columns in the runs that converged, of all surveys together, by how even the "
        "cases are and by the criterion: for 1 to 4 variables without calibration, for 2 to 4 "
        "raked, and by how much that is less (below zero: more); each with whether it agrees with "
        "the printed figures."
    )
    yield ""
    yield "| redrawn, to within | converged | without | | raked | | less by | |"
    yield "|---|--:|---|---|---|---|---|---|"
    columns = [listed(PRINTED[:SHARP]), listed(PRINTED_RAKED[1:SHARP])]
    columns.append(percents(PRINTED_REDUCTION[1:SHARP]))
    yield f"| printed | {PRINTED_CONVERGED:.1%} | " + " | | ".join(columns) + " | |"
    for redrawn, criterion, before, after in _columns_found(found):
        first, _, second, third, _ = claims.column_claims(before, after)
        plain, raked = before.mean(axis=0)[:SHARP], after.mean(axis=0)[:SHARP]
        cells = [listed(plain), first.holds, listed(raked[1:]), second.holds]
        cells += [percents(1 - raked[1:] / plain[1:]), third.holds]
        share = found.met(criterion)[found.redrawn.index(redrawn)].mean()
        cells = [f"{redrawn:.0%}, {criterion.description}", f"{share:.1%}", *cells]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _columns_found(
    found: Convergence,
) -> Iterator[tuple[float, Criterion, np.ndarray, np.ndarray]]:
    """Noise before and after raking wherever enough runs converged."""
    for redrawn in found.redrawn:
        for criterion in RELATIVE:
            before, after = found.columns(redrawn, criterion)
            if len(before) >= FEWEST:
                yield redrawn, criterion, before, after


def columns_in_short(found: Convergence) -> Iterator[str]:
    """What the other columns are where the cases or the criterion are others."""
    places, reductions, agreeing = [], [], []
    for redrawn, criterion, before, after in _columns_found(found):
        places.append(f"{redrawn:.0%} redrawn, to within {criterion.description}")
        reductions.append(1 - after.mean(axis=0)[1:SHARP] / before.mean(axis=0)[1:SHARP])
        verdicts = [claim.holds for claim in claims.column_claims(before, after)]
        if verdicts[3] == "yes":
            agreeing.append(places[-1])
    if not places:
        return
    spans = ", ".join(
        f"{low:.1%} to {high:.1%}"
        for low, high in zip(np.min(reductions, axis=0), np.max(reductions, axis=0), strict=True)
    )
    yield (
        f"- **Cases and criterion.** At {len(places)} pairs of them enough runs converge. For 2, 3 "
        f"and 4 variables the reduction in those runs is {spans} (printed: "
        f"{percents(PRINTED_REDUCTION[1:SHARP])}). It agrees with the printed one "
        + (f"at {len(agreeing)}: {'; '.join(agreeing)}" if agreeing else "nowhere")
        + ". Of so many pairs some may agree by chance."
    )


def span_of(shares: np.ndarray) -> str:
    """Shares from the least to the greatest."""
    low, high = f"{100 * shares.min():.3g}", f"{100 * shares.max():.3g}"
    return f"{low}%" if low == high else f"{low}–{high}%"


def verdict_table(found: Iterable[Claim]) -> Iterator[str]:
    """Claims as a table."""
    rows = ((claim.statement, f"**{claim.holds}**", claim.figures) for claim in found)
    yield from table(("claim", "holds", "figures"), rows)
