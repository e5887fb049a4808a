"""Tables of the page on the query tool's evaluation, `querytool.md.jinja`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eree.random.exact import Array
from eree_study.papers.claims import Claim, short
from eree_study.papers.markdown import table
from eree_study.querytool.calibrations import MEASURES, Calibrations
from eree_study.querytool.claims import (
    SHARP,
    column_claims,
    number,
)
from eree_study.querytool.convergence import RELATIVE, Convergence, Criterion
from eree_study.querytool.results import (
    FEWEST,
    PRINTED,
    PRINTED_RAKED,
    PRINTED_REDUCTION,
    Results,
)

#: Claims of ours, which the paper does not make.
OTHERS = "Other ways to calibrate"


@dataclass(frozen=True, eq=False)
class Pair:
    """Table 4's columns for cases that are redrawn and a criterion that enough runs meet.

    Variances are those of tables of 1 to 4 variables; verdicts are those of `column_claims`.
    """

    redrawn: float
    criterion: Criterion
    share: float
    before: Array
    after: Array
    verdicts: Sequence[str]

    @property
    def reduced(self) -> str:
        """Whether noise is reduced as printed."""
        return self.verdicts[3]


def pairs(found: Convergence) -> Iterator[Pair]:
    """All pairs of cases and a criterion that are met by enough runs."""
    for k, redrawn in enumerate(found.redrawn):
        for criterion in RELATIVE:
            before, after = found.columns(redrawn, criterion)
            if len(before) >= FEWEST:
                holds = [claim.holds for claim in column_claims(before, after)]
                plain, raked = (noise.mean(axis=0)[:SHARP] for noise in (before, after))
                share = float(found.met(criterion)[k].mean())
                yield Pair(redrawn, criterion, share, plain, raked, holds)


def span_of(shares: Array) -> str:
    """Shares from the least to the greatest."""
    low, high = f"{100 * shares.min():.3g}", f"{100 * shares.max():.3g}"
    return f"{low}%" if low == high else f"{low}–{high}%"


def times_least_squares(found: Calibrations) -> str:
    """The squared error of clipped and raked tables as multiples of that of least squares."""
    theirs, mine = (found.means(m, MEASURES[0]) for m in ("rake-nonnegative", "least-squares"))
    return ", ".join(short(one / other) for one, other in zip(theirs, mine, strict=True))


def verdicts(found: Iterable[tuple[str, str, Claim]], on: str) -> str:
    """The paper's claims that do not hold on one cube, or are known without one not to."""
    rows = (
        (claim.statement, f"**{claim.holds}**")
        for name, about, claim in found
        if name in ("", on) and about != OTHERS and claim.holds != "yes"
    )
    return table(("claim", "holds"), rows)


def table_4(results: Results) -> str:
    """Table 4 as printed, of the runs that converged, and of all, for 1 to 4 variables."""
    given: dict[str, tuple[Sequence[float], ...]] = {
        "printed": (PRINTED, PRINTED_RAKED, PRINTED_REDUCTION)
    }
    for runs, label in (("converged", "converged"), ("all", "all runs")):
        if found := results.means("rake", runs):
            given[label] = results.means("none", runs), found, results.reductions("rake", runs)
    heads, columns = [], []
    for label, columns_of in given.items():
        without, raked, reductions = (column[:SHARP] for column in columns_of)
        heads += [f"{label}: without", "with", "less by"]
        columns += [[*map(number, without)], [*map(number, raked)], [*map(_less_by, reductions)]]
    return _numbered(heads, columns)


def _numbered(heads: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """A table with a line for each number of variables."""
    rows = ((str(k), *row) for k, row in enumerate(zip(*columns, strict=True), start=1))
    return table(("variables", *heads), rows, numbers=True)


def _less_by(reduction: float) -> str:
    return f"{reduction:.1%}" if reduction > -9 else f"× {short(1 - reduction)}"
