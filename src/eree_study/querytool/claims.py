"""What the query tool's paper says of its evaluation, held against the runs.

Every verdict goes by two standard errors, as in `eree_study.papers.claims`.  Two figures agree
where they differ by less than a tenth of the printed one, sure by two standard errors, and disagree
where they differ by more, as surely; what is known without a draw is held against the printed
digits.  A printed figure is itself a mean of 224 runs, whose error is taken to be that of as many
runs here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array
from eree.survey.settings import METHODS, RAKED, Method
from eree_study.papers.claims import Claim, Evidence, short
from eree_study.querytool.calibrations import LABELS, MEASURES, Calibrations
from eree_study.querytool.convergence import CHOSEN, PRINTED_CONVERGED, RELATIVE, Convergence
from eree_study.querytool.evaluation import (
    ARMS,
    CAP,
    CYCLES,
    EPSILON,
    LONG,
    capped_distribution,
    capped_variance,
)
from eree_study.querytool.readings import READINGS
from eree_study.querytool.results import (
    FEWEST,
    PRINTED,
    PRINTED_CHANGED,
    PRINTED_RAKED,
    PRINTED_REDUCTION,
    PRINTED_RUNS,
    PRINTED_VARIANCE,
    Results,
)

#: Figures that differ by less than this part of the printed one agree.
TENTH = 0.1
#: Dimensions whose printed figures have three digits.
SHARP = 4
#: Of intervals of 1.96 standard errors, which cover 95% of a normal distribution and 93.7% of
#: Laplace's.
COVERED = 0.93
#: Half a unit of the last digit of the printed variances.
HALF_A_DIGIT = 0.0005


# ------------------------------------------------------------------------------------- evidence


def error_of(values: Array | NDArray[np.bool_], runs: int | None = None) -> float:
    """The standard error of a mean of some runs, or of another number of such runs."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.std(ddof=1)) / sqrt(runs or len(numbers)) if len(numbers) > 1 else 0.0


def share_of(met: NDArray[np.bool_] | Array) -> tuple[float, float]:
    """A share of runs and its standard error, which is not 0 where all runs agree.

    Two successes and two failures are added for the error (Agresti and Coull).
    """
    runs, hits = np.size(met), float(np.sum(met))
    near = (hits + 2) / (runs + 4)
    return hits / runs, sqrt(near * (1 - near) / (runs + 4))


def agreeing(found: float, error: float, printed: float) -> Evidence:
    """By how much two figures are nearer to each other than a tenth of the printed one."""
    return TENTH * abs(printed) - abs(found - printed), error


def less(one: Array, other: Array) -> Evidence:
    """By how much one figure is less than another in the same runs, as a share of the greater.

    So a few runs that run away do not conceal, by their spread, that a figure is the greater one.
    """
    if other.mean() >= one.mean():
        ratio, error = left(one, other)
        return 1 - ratio, error
    ratio, error = left(other, one)
    return ratio - 1, error


def left(after: Array, before: Array, printed_runs: bool = False) -> tuple[float, float]:
    """The share of noise that is left, and its standard error; both come from the same runs."""
    if not before.mean():
        return 1.0, 0.0
    ratio = float(after.mean() / before.mean())
    apart = (after - ratio * before) / before.mean()
    mine = error_of(apart)
    return ratio, hypot(mine, error_of(apart, PRINTED_RUNS)) if printed_runs else mine


def _beside_printed(values: Array, printed: float) -> Evidence:
    error = hypot(error_of(values), error_of(values, PRINTED_RUNS))
    return agreeing(float(values.mean()), error, printed)


# -------------------------------------------------------------------------------------- claims


def noise_claims() -> Iterator[Claim]:
    """What the noise alone decides: known without a draw."""
    _, probabilities = capped_distribution(EPSILON, CAP)
    rate, variance = 1 - float(probabilities[CAP]), capped_variance(EPSILON, CAP)
    yield Claim.sure(
        f"noise changes {PRINTED_CHANGED:.1%} of the cells",
        abs(rate - PRINTED_CHANGED) <= HALF_A_DIGIT,
        f"{rate:.3%} by the distribution",
    )
    yield Claim.sure(
        f"the variance of the noise is {PRINTED_VARIANCE}",
        abs(variance - PRINTED_VARIANCE) <= 5e-6,
        f"{variance:.6f}",
    )


def reading_claims(results: Results) -> Iterator[Claim]:
    """How the first column of Table 4 can be read: over all runs, each reading is known."""
    for reading in READINGS:
        known, values = results.expected["none"][reading], results.values("none", "all", reading)
        evidence = [
            agreeing(float(known[k]), error_of(values[:, k], PRINTED_RUNS), PRINTED[k])
            for k in range(SHARP)
        ]
        apart = known[:SHARP] / np.array(PRINTED[:SHARP]) - 1
        yield Claim.of(
            f"the first column is that of all runs, read as “{reading}”",
            evidence,
            f"{listed(known[:SHARP])}: {percents(apart)} above the printed",
        )


def convergence_claims(found: Convergence) -> Iterator[Claim]:
    """On what the share of converged runs depends."""
    first, last = (found.met(CHOSEN)[k].ravel() for k in (0, -1))
    (low, one), (high, other) = share_of(first), share_of(last)
    yield Claim.of(
        "how many runs converge depends on the cases",
        [(high - low, hypot(one, other))],
        f"{low:.1%} in surveys, {high:.1%} where all answers are even (printed: "
        f"{PRINTED_CONVERGED:.1%})",
    )
    k = found.redrawn.index(found.matched)
    loose, strict = (found.met(RELATIVE[i])[k].ravel() for i in (0, -1))
    yield Claim.of(
        "and on the criterion, where they are as even as is needed for the printed share",
        [(float((loose - strict).mean()), share_of(loose != strict)[1])],
        f"{loose.mean():.1%} to within {RELATIVE[0].description}, {strict.mean():.1%} to within "
        f"{RELATIVE[-1].description}",
    )
    share, error = share_of(found.met(RELATIVE[0])[found.redrawn.index(0.0)])
    yield Claim.of(
        f"in surveys as they are, as many as printed converge, to within {RELATIVE[0].description}",
        [(share - PRINTED_CONVERGED, error)],
        f"{share:.1%}",
    )


def column_claims(few: Array, raked: Array) -> Iterator[Claim]:
    """Table 4's columns beside the same of runs that converged: noise before and after raking."""
    kept = len(few) >= FEWEST
    before = few.mean(axis=0) if kept else np.zeros(0)
    after = raked.mean(axis=0) if kept else np.zeros(0)
    yield Claim.of(
        "the first column is that of the runs that converge, for 1 to 4 variables",
        [_beside_printed(few[:, k], PRINTED[k]) for k in range(SHARP)] if kept else [],
        f"{listed(before[:SHARP])} (printed: {listed(PRINTED[:SHARP])})",
    )
    yield Claim.of(
        "the second column is that of the runs that converge: nothing is left for 1 variable",
        [(HALF_A_DIGIT - float(after[0]), error_of(raked[:, 0]))] if kept else [],
        f"{after[0]:.2g}" if kept else "",
    )
    yield Claim.of(
        "the second column, for 2 to 4 variables",
        [_beside_printed(raked[:, k], PRINTED_RAKED[k]) for k in range(1, SHARP)] if kept else [],
        f"{listed(after[1:SHARP])} (printed: {listed(PRINTED_RAKED[1:SHARP])})",
    )
    for first, last, label in (
        (1, SHARP, "the third column: what is left of the noise, for 2 to 4 variables"),
        (SHARP, len(PRINTED), "and “barely changed” for 5 to 10 variables"),
    ):
        shares = [left(raked[:, k], few[:, k], True) for k in range(first, last) if kept]
        printed = [1 - PRINTED_REDUCTION[k] for k in range(first, last)]
        yield Claim.of(
            label,
            [agreeing(*share, p) for share, p in zip(shares, printed, strict=False)],
            f"{percents([share for share, _ in shares])} (printed: {percents(printed)})",
        )


def selection_claims(results: Results) -> Iterator[Claim]:
    """What keeping only runs that converged does, and what Table 4 has of it."""
    all_runs, few = results.values("none"), results.values("none", "converged")
    others, known = results.values("none", "not converged"), results.expected["none"]["centred"]
    yield Claim.of(
        "the first column is lower than noise is, over all runs, in tables of 1 to 4 variables",
        [
            (float(known[k]) - PRINTED[k], error_of(all_runs[:, k], PRINTED_RUNS))
            for k in range(SHARP)
        ],
        f"by {percents(1 - np.array(PRINTED[:SHARP]) / known[:SHARP])}",
    )
    both = len(few) > 0 and len(others) > 0
    apart = 1 - few.mean(axis=0) / others.mean(axis=0) if both else np.zeros(0)
    yield Claim.of(
        "runs that converge had less noise than the others before any calibration",
        [
            (
                float(others[:, k].mean() - few[:, k].mean()),
                hypot(error_of(others[:, k]), error_of(few[:, k])),
            )
            for k in range(SHARP)
            if both
        ],
        f"by {percents(apart[:SHARP])}",
    )
    yield from column_claims(few, results.values("rake", "converged"))


def expectation_claims(results: Results) -> Iterator[Claim]:
    """Whether raking reduces noise when no run is left out."""
    before, after = results.values("none"), results.values("rake")
    yield Claim.of(
        "“variance reduction occurs in expectation”: over all runs, for 2 to 4 variables",
        [less(after[:, k], before[:, k]) for k in range(1, SHARP)],
        f"means of {listed(results.means('rake')[1:SHARP])} against "
        f"{listed(results.means('none')[1:SHARP])} without calibration",
    )
    shares = [share_of(after[:, k] < before[:, k]) for k in range(1, SHARP)]
    yield Claim.of(
        "raking reduces the noise in more than half of all runs, for 2 to 4 variables",
        [(share - 0.5, error) for share, error in shares],
        f"in {percents([share for share, _ in shares])}; medians "
        f"{listed(results.medians('rake')[1:SHARP])}",
    )


def other_claims(results: Results) -> Iterator[Claim]:
    """What other ways to calibrate do in the same runs."""
    runs = results.runs
    signed = CHOSEN.limit >= runs.differences["rake"]
    clipped = CHOSEN.limit >= runs.differences["rake-nonnegative"]
    later = CHOSEN.limit >= runs.later["rake-nonnegative"]
    more = np.asarray(clipped, dtype=np.float64) - signed
    yield Claim.of(
        f"with negatives clipped, more runs converge in {CYCLES} cycles",
        [(float(more.mean()), share_of(more != 0)[1])],
        f"{clipped.mean():.1%} against {signed.mean():.1%}; {later.mean():.1%} in {LONG}",
    )
    for other in ("none", "least-squares"):
        mine, theirs = results.values("rake-nonnegative"), results.values(other)
        label = "without calibration" if other == "none" else f"by {ARMS[other]}"
        kept = [k for k in range(len(results.dimensions)) if theirs[:, k].mean() > 1e-9]
        yield Claim.of(
            f"negatives clipped, then raked (biased): less error than {label}, in every dimension",
            [less(mine[:, k], theirs[:, k]) for k in kept],
            f"{percents([1 - mine[:, k].mean() / theirs[:, k].mean() for k in kept])} less",
        )
    for arm in ("least-squares", "least-squares, noisy controls"):
        known, found = results.expected[arm]["centred"], results.values(arm)
        kept = [k for k in range(len(results.dimensions)) if known[k] > 1e-9]
        yield Claim.of(
            f"{ARMS[arm]}: the figures are those known before any draw",
            [
                agreeing(float(found[:, k].mean()), error_of(found[:, k]), float(known[k]))
                for k in kept
            ],
            f"{percents([found[:, k].mean() / known[k] - 1 for k in kept])} above",
        )
        plain = results.expected["none"]["centred"]
        yield Claim.sure(
            f"{ARMS[arm]}: noise is less in every dimension (expected, without a draw)",
            bool((known < plain).all()),
            f"by {percents(1 - known / plain)}",
        )
    for arm, apart, most in (
        ("rake, noisy controls", runs.differences, CYCLES),
        ("rake-nonnegative, reconciled controls", runs.later, LONG),
    ):
        share, error = share_of(CHOSEN.limit >= apart[arm])
        yield Claim.of(
            f"{ARMS[arm]}: more than half of the runs converge in {most} cycles",
            [(share - 0.5, error)],
            f"{share:.1%}",
        )


def calibration_claims(found: Calibrations) -> Iterator[Claim]:
    """What calibrations of a guaranteed cube do, and whether they say so."""

    def each(method: Method, measure: str) -> list[Array]:
        return [found.values(method, d + 1, measure) for d in range(len(found.variables))]

    def smaller(one: list[Array], other: list[Array]) -> list[Evidence]:
        return [less(first, second) for first, second in zip(one, other, strict=True)]

    def ratios(one: list[Array], other: list[Array]) -> list[float]:
        return [float(a.mean() / b.mean()) for a, b in zip(one, other, strict=True)]

    squared, published = ({m: each(m, measure) for m in METHODS} for measure in MEASURES[:2])
    best, stated = squared["least-squares"], published["least-squares"]
    yield Claim.of(
        "least squares: the mean squared error is the variance that is published, within a tenth"
        " (with structural zeros: no more than that)",
        [
            agreeing(float(one.mean()), error_of(one), float(other.mean()))
            if not found.zeros
            else ((1 + TENTH) * float(other.mean()) - float(one.mean()), error_of(one))
            for one, other in zip(best, stated, strict=True)
        ],
        f"{percents(ratios(best, stated))} of it",
    )
    for method in RAKED:
        yield Claim.of(
            f"{LABELS[method]}: the mean squared error is less than the bound that is published",
            smaller(squared[method], published[method]),
            f"{percents(ratios(squared[method], published[method]))} of it",
        )
        for places, label in (
            (slice(1, SHARP), "in tables of 2 to 4 variables"),
            (slice(-1, None), "in the cells themselves"),
        ):
            mine, theirs = best[places], squared[method][places]
            yield Claim.of(
                f"{LABELS[method]}: more error than least squares, {label}",
                smaller(mine, theirs),
                f"{', '.join(map(short, ratios(theirs, mine)))} times its squared error",
            )
    for method in ("least-squares", *RAKED):
        covered = each(method, MEASURES[2])
        yield Claim.of(
            f"{LABELS[method]}: {COVERED:.0%} of the published intervals or more cover the truth",
            [(float(one.mean()) - COVERED, error_of(one)) for one in covered],
            percents([float(one.mean()) for one in covered]),
        )


# --------------------------------------------------------------------------------------- text


def number(value: float) -> str:
    """A variance for people to read."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def listed(values: Sequence[float] | Array) -> str:
    """Variances for people to read."""
    return ", ".join(number(float(value)) for value in values)


def percents(values: Sequence[float] | Array) -> str:
    """Shares for people to read."""
    return ", ".join(f"{float(value):.1%}" for value in values)
