"""What becomes of the papers' findings, on figures made up so that the verdict is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from eree.mechanisms.grid import ALPHAS, EPSILONS
from eree_study.papers.claims import Claim, Finding, Judge, verdict, with_error
from eree_study.papers.comparison import Row
from eree_study.papers.findings import REPORTED, THREE, TRUNCATED, judged
from eree_study.papers.report import findings_page
from eree_study.papers.study import Part, Results, Study
from eree_study.papers.workloads import STRATA, WHOLE

NAMES = [f"Finding {n}" for n in range(1, 7)] + [f"Report {n}" for n in range(1, 6)]
LOG, GAMMA, LAPLACE = REPORTED
#: How much each of the three is worse than Smooth Laplace.
WORSE = {"log-laplace": 1.3, "smooth-gamma": 1.6, "smooth-laplace": 1.0}


def paper_like(*, error: float = 0.0) -> list[Row]:
    """Figures of which everything that the papers say is true."""
    rows = []

    def add(study: str, workload: str, name: str, at: tuple[str | None, str], **values: float):
        for key, value in values.items():
            measure, _, stratum = key.partition("__")
            for suffix in ("", "_wide") if measure != "l1" else ("",):
                where = {"": WHOLE, "s0": "0-100", "s1": "100-10k", "s2": "10k-100k"}
                place = where.get(stratum, "100k+")
                of = (study, workload, name, *at, 0.0, place, measure + suffix)
                rows.append(Row(*of, value, error, 20))

    for epsilon in EPSILONS:
        e = float(epsilon)
        for alpha in ALPHAS:
            at = (alpha, epsilon)
            for name, times in WORSE.items():
                if name == "smooth-gamma" and e >= 2:
                    times = 1.25  # ahead of Log-Laplace there
                size = times * (0.2 + float(alpha)) / e
                strata = {f"l1_ratio__s{i}": size * f for i, f in enumerate((9, 3, 2, 1.5))}
                for workload, factor in (("workload-1", 3.0), ("workload-2", 3.5)):
                    add("paper", workload, name, at, l1=size, l1_ratio=factor * size)
                    add("paper", workload, name, at, **strata)
                add("paper", "workload-3", name, at, l1=size, l1_ratio=20 * size + 1, **strata)
                add("paper", "workload-1", name, at, within_10_points=0.9)
                rank = 1 - 0.04 * size - (0.06 if name != "smooth-laplace" else 0)
                ranks = {f"spearman__s{i}": rank - d for i, d in enumerate((0.4, 0.1, 0.05))}
                add("paper", "ranking-2", name, at, spearman=rank, **ranks)
                first = 1 - 0.02 * size
                ranks = {f"spearman__s{i}": first - d for i, d in enumerate((0.4, 0.1, 0.05))}
                add("paper", "ranking-1", name, at, spearman=first, spearman__s3=first, **ranks)
                large = 0.999 - 0.001 * size
                add("paper", "ranking-2", name, at, spearman__s3=large)
            for i, workload in enumerate(("report-3", "report-4", "report-5", "report-6")):
                for name, times in ((LOG, 0.5 + i / 4), (GAMMA, 1.0), (LAPLACE, 0.4)):
                    size = times * (0.2 + float(alpha)) / e
                    add("report", workload, name, at, l1=size, l1_ratio=size)
        for theta, name in enumerate(TRUNCATED):
            size = 40 + theta * theta / e / 20
            for workload in ("workload-1", "workload-2", "workload-3"):
                add("paper", workload, name, (None, epsilon), l1=size, l1_ratio=size)
            add("paper", "ranking-1", name, (None, epsilon), spearman=0.5 + 0.01 * e)
    return rows


def changed(rows: list[Row], choose: Callable[[Row], bool], value: float) -> list[Row]:
    """The same figures, but for some."""
    some = [row for row in rows if choose(row)]
    assert some
    return [replace(row, value=value) if choose(row) else row for row in rows]


def figures_of(rows: list[Row]) -> Results:
    """Figures of a study in which every part that has one was run."""
    return Results(rows, {Part(row.workload, row.alpha, str(row.epsilon)) for row in rows})


def judgements(rows: list[Row], *, wide: bool = False) -> dict[str, str]:
    return {f.name: f.judgement for f in judged(Judge(figures_of(rows), wide=wide))}


def test_figures_like_the_papers_reproduce_every_finding() -> None:
    for wide in (False, True):
        found = judged(Judge(figures_of(paper_like()), wide=wide))
        failing = [(f.name, c) for f in found for c in f.claims if c.holds != "yes"]
        assert failing == []
        assert [f.name for f in found] == NAMES


def is_of(
    workload: str, name: str, measure: str, *, stratum: str = WHOLE, epsilon: str | None = None
) -> Callable[[Row], bool]:
    def chosen(row: Row) -> bool:
        key = (row.workload, row.mechanism, row.measure, row.stratum)
        return key == (workload, name, measure, stratum) and epsilon in (None, row.epsilon)

    return chosen


@pytest.mark.parametrize(
    ("finding", "choose", "value"),
    [
        ("Finding 1", is_of("workload-1", "log-laplace", "l1_ratio"), 3.1),
        ("Finding 1", is_of("workload-1", "smooth-laplace", "l1_ratio"), 1.1),
        ("Finding 1", is_of("ranking-1", "smooth-laplace", "spearman", epsilon="2"), 0.9),
        ("Finding 1", is_of("ranking-1", "smooth-gamma", "spearman", epsilon="4"), 0.9),
        ("Finding 1", is_of("ranking-1", "log-laplace", "spearman", stratum="100k+"), 0.9),
        ("Finding 1", is_of("workload-1", "smooth-gamma", "within_10_points"), 0.28),
        ("Finding 2", is_of("workload-2", "log-laplace", "l1_ratio"), 3.1),
        ("Finding 2", is_of("workload-2", "smooth-laplace", "l1_ratio"), 1.6),
        ("Finding 2", is_of("workload-2", "smooth-laplace", "l1_ratio", epsilon="4"), 1.1),
        ("Finding 2", is_of("ranking-2", "smooth-laplace", "spearman", epsilon="4"), 0.94),
        ("Finding 2", is_of("ranking-2", "smooth-gamma", "spearman", epsilon="4"), 0.96),
        ("Finding 3", is_of("workload-3", "smooth-gamma", "l1_ratio"), 0.9),
        ("Finding 3", is_of("workload-3", "log-laplace", "l1_ratio", epsilon="4"), 10.1),
        ("Finding 3", is_of("workload-3", "smooth-laplace", "l1_ratio", epsilon="4"), 10.1),
        ("Finding 4", is_of("workload-3", "smooth-laplace", "l1_ratio", stratum="100k+"), 99.0),
        ("Finding 4", is_of("workload-1", "smooth-gamma", "l1_ratio", stratum="0-100"), 0.001),
        ("Finding 4", is_of("ranking-2", "log-laplace", "spearman", stratum="10k-100k"), 0.0),
        ("Finding 5", is_of("workload-3", "smooth-laplace", "l1", epsilon="1"), 99.0),
        ("Finding 5", is_of("ranking-2", "smooth-laplace", "spearman", epsilon="0.5"), 0.0),
        ("Finding 5", is_of("workload-2", "smooth-gamma", "l1"), 99.0),
        ("Finding 5", is_of("workload-1", "log-laplace", "l1", epsilon="0.25"), 9.0),
        ("Finding 5", is_of("workload-3", "smooth-gamma", "l1"), 99.0),
        ("Finding 5", is_of("ranking-1", "smooth-gamma", "spearman", epsilon="1"), 0.5),
        ("Finding 6", is_of("workload-1", "truncated-laplace-500", "l1", epsilon="1"), 99.0),
        ("Finding 6", is_of("workload-2", "truncated-laplace-50", "l1", epsilon="1"), 0.01),
        ("Finding 6", is_of("workload-1", "truncated-laplace-500", "l1_ratio", epsilon="4"), 9.9),
        ("Finding 6", is_of("workload-1", "truncated-laplace-2", "l1", epsilon="4"), 30.0),
        ("Finding 6", is_of("workload-1", "truncated-laplace-200", "l1", epsilon="4"), 41.0),
        ("Finding 6", is_of("ranking-1", "truncated-laplace-20", "spearman", epsilon="4"), 0.71),
        ("Report 1", is_of("report-5", LOG, "l1", epsilon="4"), 9.0),
        ("Report 1", is_of("report-5", LAPLACE, "l1", epsilon="4"), 0.01),
        ("Report 2", is_of("report-6", GAMMA, "l1_ratio", epsilon="4"), 1.1),
        ("Report 3", is_of("report-4", LAPLACE, "l1", epsilon="0.5"), 0.3),
        ("Report 4", is_of("report-3", LOG, "l1", epsilon="0.5"), 99.0),
        ("Report 4", is_of("report-6", GAMMA, "l1", epsilon="0.5"), 99.0),
        ("Report 5", is_of("report-3", LAPLACE, "l1", epsilon="0.5"), 99.0),
    ],
)
def test_one_figure_that_says_otherwise_is_seen(
    finding: str, choose: Callable[[Row], bool], value: float
) -> None:
    found = judgements(changed(paper_like(), choose, value))
    assert found[finding] == "partly"


def test_rankings_and_ratios_are_held_against_the_range_that_is_asked_for() -> None:
    rows = changed(paper_like(), is_of("ranking-1", "smooth-laplace", "spearman_wide"), 0.1)
    rows = changed(rows, is_of("workload-2", "log-laplace", "l1_ratio"), 9.0)
    narrow, wide = judgements(rows), judgements(rows, wide=True)
    assert (narrow["Finding 1"], wide["Finding 1"]) == ("reproduced", "partly")
    assert (narrow["Finding 2"], wide["Finding 2"]) == ("partly", "reproduced")


def test_what_lies_within_two_standard_errors_is_too_close_to_tell() -> None:
    assert verdict([]) == "–"
    assert verdict([(1.0, 0.0), (0.1, 0.0)]) == "yes"
    assert verdict([(1.0, 0.0), (0.0, 0.0)]) == "too close to tell"
    assert verdict([(1.0, 0.4), (2.1, 1.0)]) == "yes"
    assert verdict([(1.0, 0.6), (2.0, 1.0)]) == "too close to tell"
    assert verdict([(-1.0, 0.6), (2.0, 1.0)]) == "too close to tell"
    assert verdict([(-1.5, 0.4), (2.0, 1.0)]) == "no"
    assert verdict([(-2.5, 1.0)]) == "no"
    assert verdict([(-2.5, 1.0), *[(9.0, 1.0)] * 89]) == "too close to tell"  # one of ninety
    assert verdict([(-3.5, 1.0), *[(9.0, 1.0)] * 89]) == "no"
    for holds, judgement in (
        (("yes", "yes", "–"), "reproduced"),
        (("yes", "too close to tell"), "partly"),
        (("no", "no"), "not"),
        (("no", "yes"), "partly"),
        (("–",), "not judged"),
    ):
        claims = tuple(Claim("a", holds=one, figures="") for one in holds)
        assert Finding("x", "y", claims, 3, 3).judgement == judgement
        assert Finding("x", "y", claims, 0, 3).judgement == "not looked at"
        assert Finding("x", "y", claims, 2, 3).judgement == "partly looked at (2 of 3 parts)"


def test_what_was_not_run_is_not_called_reproduced() -> None:
    """Report 4 is about a coarse table and a fine one; of one alone it would be reproduced."""
    rows = [row for row in paper_like() if row.workload == "report-3"]
    found = judgements(rows)
    points = len(ALPHAS) * len(EPSILONS)
    assert {found[f"Finding {n}"] for n in range(1, 7)} == {"not looked at"}
    assert found["Report 4"] == f"partly looked at ({points} of {2 * points} parts)"
    assert found["Report 1"] == f"partly looked at ({len(EPSILONS)} of {4 * len(EPSILONS)} parts)"
    coarse, fine = judged(Judge(figures_of(rows)))[NAMES.index("Report 4")].claims
    assert coarse.holds == "yes"
    assert (fine.holds, fine.figures) == ("–", f"0 of {points} parts were run")


@pytest.mark.parametrize("workload", ["workload-1", "workload-3", "ranking-2", "report-5"])
def test_every_finding_that_lacks_a_part_says_so(workload: str) -> None:
    """Whatever is missing: no finding that looks there is judged, and all others are."""
    whole = {f.name: f for f in judged(Judge(figures_of(paper_like())))}
    for alpha, epsilon in ((None, "4"), ("0.1", "4"), ("0.01", "0.25")):
        gone = Part(workload, alpha, epsilon)
        rows = [
            row for row in paper_like() if Part(row.workload, row.alpha, str(row.epsilon)) != gone
        ]
        for finding in judged(Judge(figures_of(rows))):
            parts = whole[finding.name].parts
            assert finding.parts == parts and finding.looked_at in (parts - 1, parts)
            if finding.looked_at < parts:
                assert finding.judgement == f"partly looked at ({parts - 1} of {parts} parts)"
                few = [claim for claim in finding.claims if "parts were run" in claim.figures]
                assert few and {claim.holds for claim in few} == {"–"}
            else:
                assert finding.claims == whole[finding.name].claims
                assert finding.judgement == "reproduced"


def test_a_claim_about_every_alpha_is_not_judged_by_some() -> None:
    kept = [row for row in paper_like() if row.alpha in (None, "0.01", "0.1")]
    third = judged(Judge(figures_of(kept)))[2]
    [claim] = [c for c in third.claims if c.statement.endswith("at epsilon 4 for every alpha")]
    assert claim.holds == "–"
    assert claim.figures.endswith(f"; 2 of {len(ALPHAS)} parts were run")


def test_a_mechanism_that_does_not_exist_somewhere_is_not_missed() -> None:
    rows = paper_like()
    gone = [row for row in rows if row.mechanism == "smooth-gamma" and row.epsilon == "0.25"]
    kept = Results([row for row in rows if row not in gone], figures_of(rows).parts)
    assert {f.judgement for f in judged(Judge(kept))} == {"reproduced"}


def test_figures_that_say_little_reproduce_nothing() -> None:
    wide_errors = judgements(paper_like(error=50.0))
    assert set(wide_errors.values()) == {"partly"}


def test_the_page_tells_every_claim_with_its_figures(tmp_path) -> None:
    rows = paper_like(error=0.01)
    figures = figures_of(rows)
    judged_twice = [judged(Judge(figures, wide=wide)) for wide in (False, True)]
    page = findings_page(Study(tmp_path, 7, 20, 1), figures, *judged_twice, 540)
    for finding in judged_twice[0]:
        assert f"## {finding.name}: {finding.statement}" in page
        for claim in finding.claims:
            assert f"| {claim.statement} | {claim.holds} | {claim.figures} |" in page
    there = len(figures.parts)
    assert f"The study is not complete: {there} of its 540 parts were run." in page
    row = next(r for r in rows if is_of("workload-1", "log-laplace", "l1_ratio")(r))
    assert with_error(replace(row, value=1234.5, standard_error=20.0)) == "1,230 ± 20"
    assert with_error(replace(row, value=0.5, standard_error=1e-5)) == "0.5"


def test_a_mechanism_whose_delta_voids_it_is_marked() -> None:
    rows = [replace(row, delta=0.39) if row.mechanism in THREE[2:] else row for row in paper_like()]
    third = judged(Judge(figures_of(rows)))[2]
    assert all("(delta up to 0.39)" in c.figures for c in third.claims if "Smooth L" in c.statement)
    assert len(STRATA) == 4


def test_two_steps_that_share_a_stratum_share_its_error() -> None:
    """a - b and b - c: their difference has 2 b, not twice an independent b."""
    rows = [
        replace(row, standard_error=0.1 * row.value)
        if (row.workload, row.stratum) == ("workload-1", "100-10k")
        else row
        for row in paper_like()
    ]
    claim = next(
        c
        for c in judged(Judge(figures_of(rows)))[3].claims
        if c.statement == "workload-1 at epsilon 2: the first step is the largest, for all three"
    )
    # ln 9 - 2 ln 3 + ln 2 = 0.69 with an error of 0.2, and ln 9/3 - ln 2/1.5 with one of 0.1
    assert claim.holds == "yes"
    wider = [replace(row, standard_error=3.6 * row.standard_error) for row in rows]
    claims = judged(Judge(figures_of(wider)))[3].claims
    [again] = [c for c in claims if c.statement == claim.statement]
    assert again.figures == "at 3 of 6 points, 3 too close to tell"
