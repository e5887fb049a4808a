"""The page of the rerun: what of the query tool's Table 4 reproduces, in words made of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from eree.survey.settings import METHODS
from eree_study.papers.claims import Claim, short
from eree_study.papers.markdown import table
from eree_study.querytool import claims
from eree_study.querytool.calibrations import (
    ESTABLISHMENTS,
    LABELS,
    MEASURES,
    MOST_WEIGHT,
    WIDTH,
    Calibrations,
)
from eree_study.querytool.claims import (
    COVERED,
    SHARP,
    TENTH,
    calibration_claims,
    listed,
    number,
    percents,
)
from eree_study.querytool.convergence import (
    CHOSEN,
    CRITERIA,
    PRINTED_CONVERGED,
    Convergence,
)
from eree_study.querytool.convergence_section import (
    columns_in_short,
    convergence_section,
    span_of,
    verdict_table,
)
from eree_study.querytool.evaluation import ARMS, LONG
from eree_study.querytool.readings import READINGS, nearest_reading
from eree_study.querytool.results import (
    FEWEST,
    PRINTED,
    PRINTED_RAKED,
    PRINTED_REDUCTION,
    Results,
)


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that was run: convergence, the two cubes of the evaluation, calibrations."""

    convergence: Convergence
    survey: Results
    evened: Results
    calibrations: Sequence[Calibrations]

    def paper_claims(self) -> Iterator[tuple[str, list[Claim], list[Claim]]]:
        """Headings and claims about the paper, on the survey and on the evened cube."""
        for heading, made in (
            ("The first column, without calibration", claims.reading_claims),
            ("Runs that converge, and the other columns", claims.selection_claims),
            ("All runs", claims.expectation_claims),
            ("Other ways to calibrate", claims.other_claims),
        ):
            yield heading, list(made(self.survey)), list(made(self.evened))


def page(study: Study, pictures: Sequence[str]) -> Iterator[str]:
    """The page in Markdown; three pictures, named by their files."""
    chosen = study.survey.runs.settings
    yield "# The query tool's evaluation, rerun"
    yield ""
    yield (
        f"`eree cube study --runs {chosen.runs} --seed {chosen.seed}` wrote this page. A synthetic "
        f"cube of {study.survey.runs.cases} cases and {np.prod(study.survey.runs.levels):,} cells "
        f"gets capped Laplace noise (epsilon {chosen.epsilon:g}, cap {chosen.cap}) and is raked "
        f"to its ten one-way tables without noise, in at most {chosen.cycles} cycles: "
        f"{chosen.runs:,} times."
    )
    yield ""
    yield from _in_short(study)
    yield from _rules()
    yield from convergence_section(study.convergence, pictures[1])
    yield from _table_4(study, pictures[0])
    yield from _claims(study)
    yield from _readings(study.survey)
    yield from calibrations_section(study.calibrations, pictures[2])


# ------------------------------------------------------------------------------------ in short


def _in_short(study: Study) -> Iterator[str]:
    known, few = study.survey.expected["none"], study.evened
    near = nearest_reading(known, PRINTED[:SHARP])
    below = 1 - np.array(PRINTED[:SHARP]) / known[near][:SHARP]
    yield "## In short"
    yield ""
    yield (
        f"- **Reading.** For 1 to 4 variables the first column has {listed(PRINTED[:SHARP])}. The "
        f"nearest reading is “{near}”: {listed(known[near][:SHARP])}, known without a draw; the "
        f"printed figures are {percents(below)} less. About zero, and not about each table's mean, "
        f"it would be {listed(known['uncentred'][:SHARP])}."
    )
    shares = np.array([study.convergence.shares(criterion) for criterion in CRITERIA])
    survey = study.convergence.shares(CHOSEN)[0]
    yield (
        f"- **Convergence.** From {shares.min():.1%} to {shares.max():.1%} of the runs converge, "
        f"over cubes and criteria; in surveys as they are {span_of(survey)}, to within "
        f"{CHOSEN.description}. Nearest to the printed "
        f"{PRINTED_CONVERGED:.1%} come cases of which {study.convergence.matched:.0%} of the "
        f"answers are redrawn evenly, with {few.converged.mean():.1%}. That cube was chosen for "
        "this share alone, and is what the other figures of Table 4 are held against."
    )
    if few.means("rake", "converged"):
        mine, others = few.means("none", "converged"), few.means("none", "not converged")
        apart = [1 - one / other for one, other in zip(mine, others, strict=False)]
        raked = listed(few.means("rake", "converged")[1:SHARP])
        yield (
            f"- **Selection.** Before any calibration, runs that converge had "
            f"{percents(apart[:SHARP])} less noise than the others. In them raking leaves "
            f"{raked} for 2 to 4 variables (printed: {listed(PRINTED_RAKED[1:SHARP])}), which is "
            f"{percents(few.reductions('rake', 'converged')[1:SHARP])} less than before (below "
            f"zero: more; printed: {percents(PRINTED_REDUCTION[1:SHARP])})."
        )
    else:
        yield f"- Fewer than {FEWEST} runs converged: there is no column to hold beside Table 4's."
    yield from columns_in_short(study.convergence)
    for one in (few, study.survey):
        yield (
            f"- **All runs**, on {one.name}: raking leaves {listed(one.means('rake')[1:SHARP])} in "
            f"the mean and {listed(one.medians('rake')[1:SHARP])} in the median, against "
            f"{listed(one.means('none')[1:SHARP])} without; {percents(one.worse('rake')[1:SHARP])} "
            f"of the runs become worse, and {percents(one.exploded('rake')[1:SHARP])} end with "
            "more than ten times the noise that is expected without."
        )
    best = 1 - few.expected["least-squares"]["centred"] / known["centred"]
    yield (
        f"- **Other ways.** Least squares has {percents(best[1:SHARP])} less noise than before, "
        f"known without a draw and in whatever cube. With negatives clipped before raking it is "
        f"{percents(few.reductions('rake-nonnegative')[1:SHARP])} on {few.name} and "
        f"{percents(study.survey.reductions('rake-nonnegative')[1:SHARP])} on {study.survey.name}."
    )
    for found in study.calibrations:
        if not found.zeros:
            theirs = found.means("rake-nonnegative", MEASURES[0])
            mine = found.means("least-squares", MEASURES[0])
            times = [one / other for one, other in zip(theirs, mine, strict=True)]
            yield (
                f"- **Under a guarantee** of epsilon {found.epsilon}, clipped and raked tables of "
                f"1 to {len(times)} variables have {', '.join(map(short, times))} times the "
                "squared error of least squares."
            )
    yield ""


def _rules() -> Iterator[str]:
    yield "## How it is judged"
    yield ""
    yield (
        "A claim holds where all of its figures say so by two standard errors, fails where one "
        "says the opposite by as much, and is too close to tell in between. Two figures agree "
        f"where they differ by less than a tenth ({TENTH:.0%}) of the printed one, by that rule. A "
        "printed figure is a mean of 224 runs: its own standard error is taken to be that of 224 "
        "runs here. What is known without a draw is held against the printed digits. A run has "
        f"converged when no control total is missed by more than {CHOSEN.description}; the paper "
        f"states no criterion. Fewer than {FEWEST} runs are no column. All of that was set before "
        "these verdicts."
    )
    yield ""
    yield (
        "Set after first figures had been seen: that cases are evened out, as hardly a run "
        "converged in surveys as they are; that figures of the same runs are compared by their "
        "ratio, the greater one below, as differences were too close to tell wherever runs run "
        "away; and that calibrations under a guarantee are held against least squares in tables "
        "of 2 to 4 variables and in cells apart. The table by case and criterion goes through many "
        "pairs: where one of them agrees with Table 4, that is a hint and not a test."
    )
    yield ""
    yield (
        "Figures are mean squared errors about each table's mean, over all cells of all tables of "
        "a dimension, in squared cases. The mean of raked runs is ruled by the few that run away; "
        "these multiply rounding errors, so that their figures differ from machine to machine. So "
        "medians, and shares of runs, stand beside. The cases are not the paper's: “no” says that "
        "a printed figure does not follow from what the paper states, not that it was not found."
    )
    yield ""


# ------------------------------------------------------------------------------------- figures


def _table_4(study: Study, picture: str) -> Iterator[str]:
    yield "## Table 4 again"
    yield ""
    yield f"![Noise left in tables]({picture})"
    yield ""
    for results in (study.evened, study.survey):
        share = f"{results.converged.mean():.1%} of the runs converged"
        yield f"### On {results.name}"
        yield ""
        yield (
            f"{share}. Noise leaves {results.runs.negative.mean():.1f} cells below zero in the "
            f"mean. Means over runs; printed figures beside the runs that converged."
        )
        yield ""
        yield from _three_columns(results)
        yield from _other_columns(results)
        yield from _runaways(results)


def _three_columns(results: Results) -> Iterator[str]:
    columns: list[Sequence[float]] = [PRINTED, PRINTED_RAKED, PRINTED_REDUCTION]
    heads = ["printed: without", "with", "less by"]
    for runs, label in (("converged", "converged"), ("all", "all runs")):
        if results.means("rake", runs):
            heads += [f"{label}: without", "with", "less by"]
            columns += _columns(results, ["none", "rake"], runs)
    yield from _grid(heads, columns)


def _other_columns(results: Results) -> Iterator[str]:
    yield (
        "The same for other ways, over all runs; first to control totals without noise, then to "
        "noisy ones. Noisy controls have epsilon "
        f"{results.runs.settings.control_epsilon:g} in each of the ten tables, which a record pays "
        "for once for each; they contradict each other, and, reconciled, are the sums of the least "
        f"squares cube. Where negatives are clipped, and there is a solution, up to {LONG} cycles."
    )
    yield ""
    exact = ["none", "rake-nonnegative", "least-squares"]
    for arms in (exact, [arm for arm in ARMS if arm.endswith(" controls")]):
        heads = ["without"] if "none" in arms else []
        for arm in arms[len(heads) :]:
            heads += [ARMS[arm], "less by"]
        yield from _grid(heads, _columns(results, arms, "all"))


def _columns(results: Results, arms: Sequence[str], runs: str) -> list[Sequence[float]]:
    """Variances, each with its reduction but those without calibration."""
    found: list[Sequence[float]] = []
    for arm in arms:
        found.append(results.means(arm, runs))
        if arm != "none":
            found.append(results.reductions(arm, runs))
    return found


def _grid(heads: Sequence[str], columns: Sequence[Sequence[float]]) -> Iterator[str]:
    """A table with a line for each dimension; reductions are in percent."""
    cells = [
        [_share(value) if head == "less by" else number(value) for value in column]
        for head, column in zip(heads, columns, strict=True)
    ]
    rows = ((str(k), *row) for k, row in enumerate(zip(*cells, strict=True), start=1))
    yield from table(("variables", *heads), rows, numbers=True)


def _share(reduction: float) -> str:
    return f"{reduction:.1%}" if reduction > -9 else f"× {short(1 - reduction)}"


def _runaways(results: Results) -> Iterator[str]:
    arms = [arm for arm in ARMS if arm.startswith("rake") and "nonnegative" not in arm]
    yield (
        "Raking of signed cells over all runs: the mean, the median, the share of runs with more "
        "noise than before calibration, and the share with more than ten times what is expected "
        "without."
    )
    yield ""
    heads, columns = ["variables"], [[str(dimension) for dimension in results.dimensions]]
    for arm in arms:
        heads += [f"{ARMS[arm]}: mean", "median", "worse", "tenfold"]
        columns += [
            list(map(number, found)) for found in (results.means(arm), results.medians(arm))
        ]
        columns += [
            [f"{s:.1%}" for s in found] for found in (results.worse(arm), results.exploded(arm))
        ]
    yield from table(heads, zip(*columns, strict=True), numbers=True)


# ------------------------------------------------------------------------------------ verdicts


def _claims(study: Study) -> Iterator[str]:
    yield "## What the paper says, and what else could be done"
    yield ""
    yield from verdict_table(claims.noise_claims())
    for heading, survey, evened in study.paper_claims():
        yield f"### {heading}"
        yield ""
        rows = []
        for one, other in zip(evened, survey, strict=True):
            same = (other.holds, other.figures) == (one.holds, one.figures)
            beside = ("the same", "") if same else (other.holds, other.figures)
            rows.append((one.statement, f"**{one.holds}**", one.figures, *beside))
        heads = ("claim", f"on {study.evened.name}", "", f"on {study.survey.name}", "")
        yield from table(heads, rows)


def _readings(results: Results) -> Iterator[str]:
    yield "## How Table 4 can be read"
    yield ""
    yield "Expected variance of noise without calibration, by the number of variables:"
    yield ""
    variances = {"printed": PRINTED} | {
        reading: results.expected["none"][reading] for reading in READINGS
    }
    yield from table(
        ("reading", *map(str, results.dimensions)),
        ((name, *(f"{value:.3f}" for value in values)) for name, values in variances.items()),
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
        f"noise without a failure probability. {runs} draws each. Raked cubes go to reconciled "
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
        heads = ("variables", *(LABELS[method] for method in METHODS))
        yield from table(heads, _calibrated(one), numbers=True)
    yield "### What holds of it"
    yield ""
    names = [f"epsilon {one.epsilon}{', zeros' * bool(one.zeros)}" for one in found]
    yield from table(
        ("claim", *names),
        (
            (together[0].statement, *(f"**{claim.holds}**: {claim.figures}" for claim in together))
            for together in zip(*(calibration_claims(one) for one in found), strict=True)
        ),
    )
    yield (
        f"A Laplace variable alone is covered by {1 - exp(-WIDTH * sqrt(2)):.1%} of such "
        f"intervals, a normal one by 95%; the limit of {COVERED:.0%} is below both."
    )


def _calibrated(found: Calibrations) -> Iterator[Sequence[str]]:
    """A row for each dimension: error, what is published of it, and coverage by method."""
    for k in range(len(found.variables)):
        cells = []
        for method in METHODS:
            error, published, covered = (found.means(method, measure)[k] for measure in MEASURES)
            cells.append(f"{short(sqrt(error))} / {short(sqrt(published))} / {covered:.1%}")
        yield str(k + 1), *cells
