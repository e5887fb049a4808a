"""Attacks on infused tables and on our releases of the same synthetic data, side by side.

On infused tables the attacker uses what the paper shows: one factor distorts all cells of a
workplace, and zeros stay zeros.  A candidate is possible if some factor explains every published
number; of the possible ones she takes the one that leaves the most room for the factor.  She does
not know the ramp.  On our releases she takes the candidate next to the noisy counts, in the sum of
absolute differences: the likeliest one, where candidates have one size, because all noise of vector
mechanisms falls with that sum.  Where two tables overlap she subtracts the true rest, which she is
assumed to know, rather than another noisy number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eree.data.tables import Tables, load
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.partial import appearing_folder, temporary_folder
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Exact, Strong, plain
from eree.random.exact import Array, Integers
from eree.random.source import SeededRandom
from eree.release.plan import Plan
from eree.release.publish import publish
from eree_study.legacy.games import (
    ATTACKS,
    CELL,
    DEGREE,
    DIFFERENCING,
    PROFILE,
    REIDENTIFICATION,
    SHAPE,
    SIZE,
    Game,
    find_games,
    plant,
    success_bound,
)
from eree_study.legacy.infusion import RAMP, SMALL, Ramp, infuse
from eree_study.legacy.tallies import (
    INFUSED,
    METHODS,
    OURS,
    STUDY,
    UNROUNDED,
    AttackFindings,
    Tally,
)
from eree_study.synth import synthesize
from eree_study.synth.population import Progress, checked_target

#: Integers are within one half of an infused sum; other numbers are as exact as doubles.
_HALF, _EXACT = 0.5, 1e-6
#: Factors that she thinks possible: the ramp is kept from her.
_FACTORS = (0.5, 1.5)

#: The tables that each attack reads; those of one group make one release.
TABLES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "sexes": ({"by": [*CELL, "sex"]},),
    "degrees": ({"by": [*CELL, *PROFILE], "where": {"education": [DEGREE]}},),
    "overlapping": (
        {"by": [*CELL[:2], "sex"]},
        {"by": [*CELL[:2], "sex"], "where": {"ownership": ["private"]}},
    ),
}
READ = {SHAPE: "sexes", SIZE: "sexes", REIDENTIFICATION: "degrees", DIFFERENCING: "overlapping"}

PICTURE = "attacks.png"
#: What the attacker asks, in words for the picture.
QUESTIONS = {
    SHAPE: "How many of its workers\nare women?\n(shape)",
    SIZE: "How many workers has it,\nif one count is known?\n(size)",
    REIDENTIFICATION: "Who is its only graduate?\nsex, age and race\n(re-identification)",
    DIFFERENCING: "How many are women,\nfrom two overlapping tables?\n(differencing)",
}


def infused_scores(published: Array, candidates: Integers, slack: float) -> Array:
    """How well each candidate explains infused counts: how much room it leaves for the factor.

    `slack` is how far a published number may be off.  A candidate that no factor explains has 0.
    """
    h = candidates.astype(np.float64)
    small, none = (h > 0) & (h < SMALL), h == 0
    seen = np.broadcast_to(published, h.shape)
    possible = np.where(none, seen == 0, True)
    possible &= np.where(small, (seen > 0) & (seen < SMALL + slack), True)
    free = small | none
    divisor = np.where(free, 1.0, h)
    low = np.where(free, _FACTORS[0], (seen - slack) / divisor).max(axis=1, initial=_FACTORS[0])
    high = np.where(free, _FACTORS[1], (seen + slack) / divisor).min(axis=1, initial=_FACTORS[1])
    return np.where(possible.all(axis=1), np.maximum(high - low, 0.0), 0.0)


def noisy_scores(noisy: Array, candidates: Integers) -> Array:
    """How well each candidate explains noisy counts."""
    found: Array = -np.abs(noisy - candidates).sum(axis=1)
    return found


def success_probability(truth: int, scores: Array) -> float:
    """The probability that she is right: she takes the best candidate, of several one at random."""
    best = np.flatnonzero(scores == scores.max())
    return float(truth in best) / len(best)


def run_attacks(
    *,
    jobs: int = 250_000,
    seed: int = 1,
    alpha: Exact = "0.1",
    epsilon: Exact = "1",
    targets: int = 100,
    repeats: int = 10,
    ramp: Ramp = RAMP,
    progress: Progress | None = None,
) -> AttackFindings:
    """Attack infused tables and our releases of a synthetic population, again and again.

    Every time each target's truth, the key of the infusion and the noise are new.  Each release
    spends the whole epsilon on the table that shows the targets; whatever else an attack reads
    she knows exactly.  Same seed, same findings: the source is seeded, which is right for synthetic
    data alone.

    Args:
        jobs: How many jobs the population has.
        seed: Where everything starts.
        alpha: The growth that is protected.
        epsilon: The privacy loss of each release.
        targets: How many workplaces each attack has as its targets, at most.
        repeats: How often each is attacked.
        ramp: The distribution of infusion factors.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree_study.run_attacks(jobs=20_000, targets=5, repeats=1).kept
        True
    """
    tell = progress or (lambda _step, _done: None)
    if targets < 1 or repeats < 1:
        raise Refusal("targets and repeats must be integers, 1 or more")
    relation = Strong(alpha)
    guarantee = Guarantee(relation, epsilon)
    random = SeededRandom(seed)
    with temporary_folder("eree-attack") as folder:
        people = folder / "population"
        synthesize(people, jobs=jobs, seed=seed, progress=lambda s, f: tell(s, 0.1 * f))
        tables = load(people)
        games = find_games(tables, relation, targets)
        right: dict[tuple[str, str], list[float]] = {}
        for i in range(repeats):
            tell(f"attacking, round {i + 1} of {repeats}", 0.1 + 0.9 * i / repeats)
            uniform = random.words(len(games)).astype(np.float64) * 2.0**-64
            truths = [
                int(u * len(game)) % len(game) for u, game in zip(uniform, games, strict=True)
            ]
            plant(tables, games, truths, folder / f"data-{i}")
            data = load(folder / f"data-{i}")
            for method, attack, won in _round(
                data, games, truths, guarantee, random, ramp, folder / f"releases-{i}"
            ):
                right.setdefault((attack, method), []).append(won)
    tell("done", 1.0)
    return AttackFindings(jobs, seed, guarantee, repeats, _tallies(games, guarantee, right))


def _round(
    data: Tables,
    games: Sequence[Game],
    truths: Sequence[int],
    guarantee: Guarantee,
    random: SeededRandom,
    ramp: Ramp,
    out: Path,
) -> Iterator[tuple[str, str, float]]:
    """One round of all games: publish in each way, guess, and see how often that is right."""
    key = random.words(4).tobytes()
    out.mkdir()
    seeds = [int(word) for word in random.words(len(TABLES))]
    shown: dict[str, tuple[list[_Shown], list[_Shown], list[_Shown]]] = {}
    for (group, wanted), own in zip(TABLES.items(), seeds, strict=True):
        infused = [
            _Shown.of(infuse(data, **table, key=key, ramp=ramp, rounded=False).rows, "employment")
            for table in wanted
        ]
        plan = attack_plan(data, guarantee, wanted[0])
        release = publish(plan, data, ledger=None, out=out / group, random=SeededRandom(own))
        noisy = [_Shown.of(release.table("table-1"), "noisy")]
        noisy += [_Shown.of(tabulate(data, **table).confidential, "count") for table in wanted[1:]]
        shown[group] = infused, [table.rounded() for table in infused], noisy
    for game, truth in zip(games, truths, strict=True):
        infused, whole, noisy = shown[READ[game.attack]]
        scores = {
            OURS: noisy_scores(_seen(noisy, game), game.candidates),
            INFUSED: infused_scores(_seen(whole, game), game.candidates, len(infused) * _HALF),
            UNROUNDED: infused_scores(_seen(infused, game), game.candidates, _EXACT),
        }
        for method, found in scores.items():
            yield method, game.attack, success_probability(truth, found)


def attack_plan(data: Tables, guarantee: Guarantee, wanted: Mapping[str, Any]) -> Plan:
    """A plan that spends the whole guarantee on one table."""
    relation = guarantee.neighbours
    assert isinstance(relation, Strong)
    privacy = {"neighbours": "strong", "alpha": str(relation.alpha)}
    privacy["epsilon"] = str(guarantee.epsilon)
    table = {"name": "table-1", "share": "1", **wanted}
    settings = {"data": data.folder.name, "privacy": privacy, "table": [table]}
    try:
        return Plan.of(settings, folder=data.folder.parent)
    except Refusal:
        raise Refusal(
            f"no release with epsilon {plain(guarantee.epsilon)} and alpha {plain(relation.alpha)}"
            " can be attacked; raise epsilon or lower alpha"
        ) from None


@dataclass(frozen=True)
class _Shown:
    """The worker cells of every workplace cell of a published table."""

    rows: Mapping[tuple[str, ...], int]
    numbers: Array

    @classmethod
    def of(cls, table: pa.Table, column: str) -> _Shown:
        names = [name for name in CELL if name in table.column_names]
        keys = list(zip(*(table[name].to_pylist() for name in names), strict=True))
        cells = len(keys) // len(set(keys))  # worker cells lie side by side
        rows = {key: i for i, key in enumerate(keys[::cells])}
        return cls(rows, table[column].to_numpy().astype(np.float64).reshape(-1, cells))

    def rounded(self) -> _Shown:
        return _Shown(self.rows, np.rint(self.numbers))

    def of_cell(self, cell: tuple[str, ...]) -> Array:
        found: Array = self.numbers[self.rows[cell]]
        return found


def _seen(tables: Sequence[_Shown], game: Game) -> Array:
    """What is published about a target: its cells, or how two tables differ."""
    if len(tables) == 1:
        return tables[0].of_cell(game.cell)
    first, second = (table.of_cell(game.cell[:2]) for table in tables)
    return first - second


def _tallies(
    games: Sequence[Game], guarantee: Guarantee, right: Mapping[tuple[str, str], list[float]]
) -> tuple[Tally, ...]:
    found = []
    for attack in ATTACKS:
        own = [game for game in games if game.attack == attack]
        bounds = [success_bound(guarantee, len(game), game.steps) for game in own]
        guessing = float(np.mean([1 / len(game) for game in own]))
        for method in METHODS:
            won = right[attack, method]
            promised = float(np.mean(bounds)) if method == OURS else None
            found.append(Tally(attack, method, len(won), sum(won), guessing, promised))
    return tuple(found)


def write_attacks(findings: AttackFindings, out: Path) -> Path:
    """Write attacks.csv, attacks.json, attacks.png and attacks.svg into a new or empty folder.

    The folder appears whole or not at all.  Returns the picture.
    """
    from eree_study.figures.attacks import Attacked, attacks_figure  # plotting is slow to import

    target = checked_target(out)
    relation = findings.guarantee.neighbours
    assert isinstance(relation, Strong)
    note = f"{STUDY}; alpha {plain(relation.alpha)}, epsilon {plain(findings.guarantee.epsilon)}"
    attacks = []
    for attack, question in QUESTIONS.items():
        ours = findings.tally(attack, OURS)
        attacks.append(
            Attacked(
                question,
                ours.guessing,
                ours.rate,
                ours.promised or 0.0,
                findings.tally(attack, INFUSED).rate,
                findings.tally(attack, UNROUNDED).rate,
            )
        )
    with appearing_folder(target) as folder:
        rows = findings.rows()
        with (folder / "attacks.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        text = json.dumps(findings.as_json(), indent=1) + "\n"
        (folder / "attacks.json").write_text(text, encoding="utf-8")
        for name in (PICTURE, "attacks.svg"):
            attacks_figure(folder / name, attacks=attacks, note=note)
    return out / PICTURE
