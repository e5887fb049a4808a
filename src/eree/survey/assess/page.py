"""The pages of an assessment: tables of findings by dimension, each marked, with what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eree.survey.assess.assessment import Assessment
from eree.survey.assess.findings import (
    ASSOCIATION,
    BOUNDS,
    DISTRIBUTIONS,
    ERRORS,
    ESTIMATES,
    INTERVALS,
    LOOKED_AT,
    MARK,
    NEAR_ZERO,
    PUBLISHABLE,
    SIDE_BY_SIDE,
    WHOLE_TABLES,
    Item,
    shown,
)
from eree.survey.assess.rules import RULES
from eree.survey.settings import Method

#: The sections of a page in their order, and what is meant by them.
MEANINGS = {
    LOOKED_AT: "All cells that can be; structural zeros are left out.",
    BOUNDS: "About the cube as a whole.",
    NEAR_ZERO: "A cell is near zero if its employment, without its sign, is below the limit.",
    PUBLISHABLE: (
        "Cells that pass the threshold rules. After, the rule for records asks how many records the"
        " protected employment would be at the average weight."
    ),
    WHOLE_TABLES: "Tables in which every cell passes.",
    ESTIMATES: (
        "After less before, over all cells of all tables of a dimension, negative ones as they are."
        " The predicted figures come from the known variance of the noise."
    ),
    ERRORS: (
        "Before, from replicates of the sample. Published: modelled sampling error and known noise."
        " The query tool's formula adds the squared difference to the sampling variance; whoever"
        " sees it finds every empty cell, so it is shown here only."
    ),
    INTERVALS: (
        "Overlap is the mean of two shares, of what both intervals have in common in the one before"
        " and in the one after; over cells whose sampling error is above zero. An interval covers"
        " if the estimate before is inside."
    ),
    DISTRIBUTIONS: "Each table as a distribution, negative cells as zero: 0 the same, 1 apart.",
    ASSOCIATION: "Negative cells as zero, over all codes: 0 independent, 1 one decides the other.",
    SIDE_BY_SIDE: (
        "All methods of calibration on one new draw from the confidential cube with a known seed:"
        " never paid for, and never to be published. The predicted figure of a raked cube is its"
        " bound."
    ),
}
#: The same for the page that may be published, where it has less to tell.
PUBLIC_MEANINGS = MEANINGS | {
    PUBLISHABLE: "Cells of the protected cube that pass the threshold rules.",
    WHOLE_TABLES: "Tables of the protected cube in which every cell passes.",
    ESTIMATES: "What the known variance of the noise predicts, over all cells of a dimension.",
    ERRORS: "As published: modelled sampling error, where that was paid for, and known noise.",
    ASSOCIATION: f"Of the protected cube. {MEANINGS[ASSOCIATION]}",
}
#: What is known of the noise in tables, by whether it has a bound only.
KNOWN = {
    False: (
        "the noise variance of every table is known (where there are structural zeros, what it is"
        " at most)"
    ),
    True: "the noise of every table has a known bound on its mean squared error",
}
#: Pages list so many two-way tables at most; the file of tables has all.
_MOST_LINES = 60


def confidential_page(assessment: Assessment, pictures: Sequence[str]) -> str:
    """The page for the curator."""
    lines = [
        f"# {MARK}: assessment of a protected cube",
        "",
        "For the curator. Figures are confidential unless the last column says that they may be"
        " published; `public.md` has those alone.",
        "",
        *_settings(assessment.settings),
        "",
        *_sections(assessment, assessment.dimensions, MEANINGS),
    ]
    if assessment.reports:
        lines += [*_reports(assessment.reports), ""]
    lines += [*_two_way(assessment.tables), ""]
    lines += [f"## Pictures ({MARK})", ""]
    for name in pictures:
        lines += [f"![{MARK}: {name}]({name})", ""]
    return "\n".join(lines).rstrip() + f"\n\n{MARK}\n"


def public_page(settings: Mapping[str, Any], items: Sequence[Item]) -> str:
    """The page that may be published: of public settings and public findings, and nothing else."""
    assert all(item.public for item in items)
    lines = [
        "# What is known of a protected cube",
        "",
        "May be published: every figure is made of the protected cube and public settings alone,"
        " and is the same whatever the confidential cube is.",
        "",
        *_settings(settings),
        "",
        *_sections(items, tuple(sorted({item.dimension for item in items})), PUBLIC_MEANINGS),
    ]
    return "\n".join(lines).rstrip() + "\n"


def dimension_names(dimensions: Sequence[int], variables: int) -> list[str]:
    """The heads of columns: the total, numbers of variables, and the whole cube."""
    named = {0: "total", variables: f"{variables} (cells)"}
    return [named.get(dimension, str(dimension)) for dimension in dimensions]


def in_order(measure: str, statistics: Iterable[str]) -> list[str]:
    """The statistics of a measure: rule by rule, before and after first."""
    listed = list(dict.fromkeys(statistics))
    if measure not in (NEAR_ZERO, PUBLISHABLE, WHOLE_TABLES):
        return listed
    rules = list(RULES.values())

    def place(statistic: str) -> tuple[int, int]:
        rule = statistic.partition(":")[0]
        ends = [statistic.endswith("before"), statistic.endswith("after"), True]
        return (rules.index(rule) if rule in rules else 0, ends.index(True))

    return sorted(listed, key=place)


def _settings(settings: Mapping[str, Any]) -> list[str]:
    rules, choice, price = settings["thresholds"], settings["choice"], settings["guarantee"]
    near = rules["near_zero"]
    limit = "half the average weight" if near is None else f"{near:,g} jobs"
    model = "sampling errors are modelled" if settings["sampling_model"] else "no sampling model"
    private = "" if settings["private"] else "; not private"
    if settings["seeded"]:
        private = "; drawn from a seeded source, and so not private"
    return [
        f"- Release {settings['release']}: {settings['mode']}, epsilon {price['epsilon']}, delta"
        f" {price['delta']} for one {price['neighbours']}, covering {settings['covers']}{private}.",
        f"- Cube of {', '.join(settings['variables'])}: {settings['cells']:,} cells; calibration"
        f" {settings['calibration']}; {KNOWN[settings['noise_bounded']]}; {model}.",
        f"- Rules: employment of at least {rules['weighted']:,g} jobs; at least"
        f" {rules['unweighted']:,g} records; a coefficient of variation of at most"
        f" {rules['variation']:g}. Near zero: below {limit}. Intervals at {rules['level']:.0%}.",
        f"- Tables of up to {choice['most_dimensions']} variables, at most"
        f" {choice['most_tables']:,} of each number of variables, chosen by the public seed"
        f" {choice['seed']}; and the whole cube.",
    ]


def _sections(
    items: Iterable[Item], dimensions: Sequence[int], meanings: Mapping[str, str]
) -> list[str]:
    by_measure: dict[str, dict[str, dict[int, Item]]] = {}
    for item in items:
        rows = by_measure.setdefault(item.measure, {})
        rows.setdefault(item.statistic, {})[item.dimension] = item
    variables = dimensions[-1]
    lines = []
    for measure, meaning in meanings.items():
        rows = by_measure.get(measure, {})
        if not rows:
            continue
        used = [d for d in dimensions if any(d in cells for cells in rows.values())]
        heads = dimension_names(used, variables)
        lines += [f"## {measure[0].upper()}{measure[1:]}", "", meaning, ""]
        lines += [f"| variables of the table | {' | '.join(heads)} | may be published |"]
        lines += [f"|---|{'---:|' * len(heads)}---|"]
        for statistic in in_order(measure, rows):
            cells = rows[statistic]
            texts = [cells[d].text if d in cells else "" for d in used]
            reason = next(iter(cells.values())).reason
            lines.append(f"| {statistic} | {' | '.join(texts)} | {reason} |")
        lines.append("")
    return lines


def _reports(reports: Mapping[Method, Mapping[str, object]]) -> list[str]:
    lines = [f"What each method says of itself ({MARK}):", ""]
    for method, report in reports.items():
        reported = ", ".join(
            f"{name} {value}" for name, value in report.items() if name != "method"
        )
        lines.append(f"- {method}: {reported or 'nothing done'}")
    return lines


def _two_way(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    pairs = [table for table in tables if table["dimension"] == 2]
    lines = [f"## Two-way tables ({MARK})", ""]
    if len(pairs) > _MOST_LINES:
        lines += [f"The first {_MOST_LINES} of {len(pairs):,}; all are in tables.csv.", ""]
    lines += [
        "| table | cells | Cramér's V before | after | Hellinger distance | root mean square"
        " difference, jobs | may be published |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for table in pairs[:_MOST_LINES]:
        figures = [
            shown(table["cells"], "cells"),
            shown(table["cramers_v_before"], "distance"),
            shown(table["cramers_v_after"], "distance"),
            shown(table["hellinger_distance"], "distance"),
            shown(table["root_mean_square_difference"], "jobs"),
        ]
        lines.append(f"| {table['table']} | {' | '.join(figures)} | no, but for V after |")
    return lines
