"""Tables of the page on the query tool's evaluation, `querytool.md.jinja`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from eree.random.exact import Array
from eree.survey.settings import METHODS
from eree_study.papers.claims import Claim, short
from eree_study.papers.markdown import table
from eree_study.querytool.calibrations import LABELS, MEASURES, Calibrations
from eree_study.querytool.claims import (
    SHARP,
    calibration_claims,
    column_claims,
    number,
)
from eree_study.querytool.convergence import CRITERIA, RELATIVE, Convergence, Criterion
from eree_study.querytool.evaluation import ARMS
from eree_study.querytool.readings import READINGS
from eree_study.querytool.results import (
    FEWEST,
    PRINTED,
    PRINTED_RAKED,
    PRINTED_REDUCTION,
    Results,
)

NOISY_CONTROLS = [arm for arm in ARMS if arm.endswith(" controls")]


@dataclass(frozen=True, eq=False)
class Pair:
    """Table 4's columns for cases that are redrawn and a criterion that enough runs meet.

    Variances are those of tables of 1 to 4 variables, the reduction that of 2 to 4; verdicts are
    those of `column_claims`.
    """

    redrawn: float
    criterion: Criterion
    share: float
    before: Array
    after: Array
    verdicts: Sequence[str]

    @property
    def reduction(self) -> Array:
        """By how much noise is less after raking."""
        return np.asarray(1 - self.after[1:] / self.before[1:])

    @property
    def reduced(self) -> str:
        """Whether that is as printed."""
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


def verdicts(found: Iterable[Claim]) -> str:
    """Claims, one by one."""
    rows = ((claim.statement, f"**{claim.holds}**", claim.figures) for claim in found)
    return table(("claim", "holds", "figures"), rows)


def side_by_side(claims: Mapping[str, Sequence[Claim]]) -> str:
    """Claims by the name of the cube that they are judged on; first the one that counts."""
    rows, (first, second) = [], claims
    for one, other in zip(*claims.values(), strict=True):
        same = (other.holds, other.figures) == (one.holds, one.figures)
        beside = ("the same", "") if same else (other.holds, other.figures)
        rows.append((one.statement, f"**{one.holds}**", one.figures, *beside))
    return table(("claim", f"on {first}", "", f"on {second}", ""), rows)


def converged(found: Convergence) -> str:
    """Shares of runs that converge, by case and criterion."""
    rows = (
        (
            f"{redrawn:.0%}",
            f"{found.smallest[k].min():g} to {found.smallest[k].max():g}",
            *(span_of(found.shares(criterion)[k]) for criterion in CRITERIA),
        )
        for k, redrawn in enumerate(found.redrawn)
    )
    return table(("redrawn", "smallest total", *(one.description for one in CRITERIA)), rows)


def table_4(results: Results) -> str:
    """Table 4 as printed, of the runs that converged, and of all."""
    given: dict[str, tuple[Sequence[float], ...]] = {
        "printed": (PRINTED, PRINTED_RAKED, PRINTED_REDUCTION)
    }
    for runs, label in (("converged", "converged"), ("all", "all runs")):
        if found := results.means("rake", runs):
            given[label] = results.means("none", runs), found, results.reductions("rake", runs)
    heads, columns = [], []
    for label, (without, raked, reductions) in given.items():
        heads += [f"{label}: without", "with", "less by"]
        columns += [[*map(number, without)], [*map(number, raked)], [*map(_less_by, reductions)]]
    return _numbered(heads, columns)


def by_dimension(results: Results, arms: Sequence[str]) -> str:
    """Variances over all runs, each with its reduction but those without calibration."""
    heads, columns = [], []
    for arm in arms:
        heads.append("without" if arm == "none" else ARMS[arm])
        columns.append(list(map(number, results.means(arm))))
        if arm != "none":
            heads.append("less by")
            columns.append(list(map(_less_by, results.reductions(arm))))
    return _numbered(heads, columns)


def runaways(results: Results) -> str:
    """What raking of signed cells leaves over all runs."""
    heads, columns = [], []
    for arm in (arm for arm in ARMS if arm.startswith("rake") and "nonnegative" not in arm):
        heads += [f"{ARMS[arm]}: mean", "median", "worse", "tenfold"]
        columns += [list(map(number, some)) for some in (results.means(arm), results.medians(arm))]
        shares = (results.worse(arm), results.exploded(arm))
        columns += [[f"{share:.1%}" for share in some] for some in shares]
    return _numbered(heads, columns)


def _numbered(heads: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """A table with a line for each number of variables."""
    rows = ((str(k), *row) for k, row in enumerate(zip(*columns, strict=True), start=1))
    return table(("variables", *heads), rows, numbers=True)


def _less_by(reduction: float) -> str:
    return f"{reduction:.1%}" if reduction > -9 else f"× {short(1 - reduction)}"


def readings(results: Results) -> str:
    """Variances expected without calibration, by the way to read them."""
    variances = {"printed": PRINTED} | {
        reading: results.expected["none"][reading] for reading in READINGS
    }
    return table(
        ("reading", *map(str, results.dimensions)),
        ((name, *(f"{value:.3f}" for value in values)) for name, values in variances.items()),
    )


def calibrated(found: Calibrations) -> str:
    """A row for each dimension: error, what is published of it, and coverage by method."""
    columns = [
        [
            f"{short(sqrt(error))} / {short(sqrt(published))} / {covered:.1%}"
            for error, published, covered in zip(
                *(found.means(method, measure) for measure in MEASURES), strict=True
            )
        ]
        for method in METHODS
    ]
    return _numbered([LABELS[method] for method in METHODS], columns)


def what_holds(found: Sequence[Calibrations]) -> str:
    """The claims about each cube under a guarantee, side by side."""
    rows = (
        (together[0].statement, *(f"**{claim.holds}**: {claim.figures}" for claim in together))
        for together in zip(*(calibration_claims(one) for one in found), strict=True)
    )
    names = [f"epsilon {one.epsilon}{', zeros' * bool(one.zeros)}" for one in found]
    return table(("claim", *names), rows)
