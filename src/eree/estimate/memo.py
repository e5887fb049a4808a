"""The page that a disclosure review board signs: what is released, and what it gives away."""

from __future__ import annotations

from html import escape

from eree.estimate.predict import TYPICAL, ExpectedAccuracy
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Edge, Neighbours, Strong, Weak, plain
from eree.policy.schema import Schema
from eree.release.plan import Plan


def memo(accuracy: ExpectedAccuracy, left: Guarantee | None = None) -> str:
    """The page in Markdown; `left` is what the ledger has before this release, if it is known.

    Args:
        accuracy: What `expected_accuracy` returns.
        left: What the ledger has before the release.

    Examples:
        >>> plan = eree.Plan.read("plan.toml")
        >>> page = eree.memo(eree.expected_accuracy(plan))
        >>> page.splitlines()[0]
        '...'
    """
    plan, price = accuracy.plan, accuracy.plan.price()
    relation, jobs = price.neighbours, plan.schema.job.counted
    lines = [
        "# Memorandum for the disclosure review board",
        "",
        "## What is released",
        "",
        *_described(plan),
        f"Tables of the data set {plan.schema.data_set}{_period(plan.period)}:",
        "",
        "| table | cells | mechanism | epsilon | delta |",
        "|---|---:|---|---:|---:|",
    ]
    lines += [
        f"| {t.name}: {t.what} | {t.cells:,} | {t.mechanism} |"
        + (f" {t.epsilon} | {t.delta} |" if t.charged else f" with {t.drawn_with[0]} | |")
        for t in accuracy.tables
    ]
    titled = [t for t in plan.tables if t.title or t.note]
    lines += [""] * bool(titled)
    lines += [f"- {t.name}: {'. '.join(filter(None, (t.title, t.note)))}" for t in titled]
    lines += ["", "Every cell that holds a workplace is released, with noise; no cell is withheld."]
    lines += [f"{t.name}: {t.note}." for t in accuracy.tables if t.note]
    lines += [
        "",
        "## What is protected",
        "",
        _protected(relation, plan.schema),
        _units(plan.schema),
    ]
    lines += [
        "",
        "It is assumed that **which workplaces exist, and their public attributes (industry,"
        " ownership, location), are public**: how many workplaces a cell has is released as it is,"
        " and cells without workplaces are left out.",
        "",
        "## What an attacker can learn",
        "",
        "Who knows everything else, and compares two possibilities of which one holds the"
        f" {_counted(plan.schema)}s of the other:",
        "",
    ]
    lines += [f"- {statement.words}" for statement in price.statements(jobs=jobs)]
    if price.delta:
        lines += [
            "",
            "What is added is not the probability that the odds change by more than the factor,"
            " which may be many times as large.",
        ]
    lines += [
        "",
        "## What it costs",
        "",
        f"Epsilon {plain(price.epsilon)}, delta {plain(price.delta)}.",
    ]
    if left is not None:
        lines.append(
            f"The ledger has epsilon {plain(left.epsilon)} and delta {plain(left.delta)} left;"
            f" afterwards epsilon {plain(left.epsilon - price.epsilon)} and delta"
            f" {plain(left.delta - price.delta)}."
        )
    total = plan.total
    lines.append(f"The plan allows epsilon {plain(total.epsilon)}, delta {plain(total.delta)}.")
    lines += [
        "",
        "## How good the tables will be",
        "",
        f"Mean absolute error, and in brackets what it stays within in {float(plan.level):.0%} of"
        f" cells, of a cell of one workplace with so many {_counted(plan.schema)}s:",
        "",
        "| table | " + " | ".join(f"{jobs:,}" for jobs in TYPICAL) + " |",
        "|---|" + "---:|" * len(TYPICAL),
    ]
    for t in (t for t in accuracy.tables if t.counts == "jobs"):
        cells = (f"{t.errors[jobs]:.3g} ({t.within[jobs]:,})" for jobs in TYPICAL)
        lines.append(f"| {t.name} | " + " | ".join(cells) + " |")
    lines += [
        f"\n{t.name}: {t.words(float(plan.level))}."
        for t in accuracy.tables
        if t.counts == "workplaces"
    ]
    for t in accuracy.tables:
        if t.widths is not None:
            warning = f"; {t.widths.warning}" * bool(t.widths.warning)
            lines.append(f"\n{t.name}, {t.widths.words}{warning}.")
        elif not t.bounded:
            lines.append(f"\n{t.name}: intervals have no high end.")
    lines += [
        f"\n{t.name}, from public sizes of workplaces: {t.predicted.words}."
        for t in accuracy.tables
        if t.predicted is not None
    ]
    lines += ["", "## Decision", "", "Approved / not approved:", "", "Name, date:", ""]
    return "\n".join(lines)


def _described(plan: Plan) -> list[str]:
    """What the release will say of itself."""
    said = {name: escape(text, quote=False) for name, text in plan.about.as_json().items()}
    if not said:
        return []
    listed = [f"- {name}: {text}" for name, text in said.items() if name != "title"]
    title = [f"**{said['title']}**", ""] if "title" in said else []
    return [*title, *listed, *[""] * bool(listed)]


def _period(period: str) -> str:
    return f", for {period}" if period else ""


def _counted(schema: Schema) -> str:
    """What one step is about: where a worker has one job, that is the worker."""
    if schema.job.greatest:
        return "counted job"
    return "worker" if schema.job.most_per_worker == 1 else "job"


def _units(schema: Schema) -> str:
    units = (
        f"A workplace is what the column {schema.key('workplace')} names, a worker what"
        f" {schema.key('worker')} names."
    )
    if (jobs := schema.job.most_per_worker) > 1:
        units += (
            f" A worker has at most {jobs:,} jobs that count, and the size of a workplace is the"
            f" number of its jobs: the price is that of one job, and a worker is at most {jobs:,}"
            " steps."
        )
    if schema.job.greatest:
        units += (
            f" One job of each worker counts, the one with the greatest {schema.job.greatest}."
            " **One of her other jobs more or less can change which one: two steps. The growth of a"
            " workplace is protected with the jobs that count elsewhere held fixed.**"
        )
    return units


def _protected(relation: Neighbours, schema: Schema) -> str:
    counted = _counted(schema)
    share = plain(relation.alpha) if isinstance(relation, (Strong, Weak)) else ""
    match relation:
        case Strong():
            return (
                f"Strong neighbours, alpha {share}: one {counted} more or less at any workplace,"
                f" and the growth of one workplace by a share of {share}, whoever joins."
            )
        case Weak(types=types):
            return (
                f"Weak neighbours, alpha {share}: one {counted} more or less, and the growth of one"
                f" workplace by a share of {share} in every set of types ({', '.join(types)})."
                " The size and the make-up of a workplace are protected only where all its types"
                " grow in proportion."
            )
        case Edge():
            return f"Edge neighbours: one {counted} more or less. Workplaces are not protected."
    return f"Node neighbours: any number of {counted}s more or less at one workplace."
