"""The games that attacks are measured by, and the bound that a guarantee puts on winning them.

A game is about one workplace, its target.  The attacker knows k candidates for the target's
workforce, all equally likely, and everything else in the data.  One candidate is drawn and put into
the data, tables are published, and the attacker says which candidate it was.  A rate of success is
then a fact about the method: whoever publishes nothing is at 1/k.

The four games are the attacks of section 5.2 of the SIGMOD paper, and differencing:

- *shape*: the size is known; how many of the workers are women?
- *size*: the number of men is known exactly, to somebody who works there; how many women, and so
  how many workers in all?
- *re-identification*: the target has one worker with a degree; what are her sex, age and race?
- *differencing*: as shape, for a workplace that no table shows alone, but two tables differ by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from eree.data.tables import Tables
from eree.data.tabulate import tabulate
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, steps_between
from eree.policy.schema import Schema
from eree.random.exact import Integers

SHAPE, SIZE, REIDENTIFICATION = "shape", "size", "re-identification"
DIFFERENCING = "differencing"
ATTACKS = (SHAPE, SIZE, REIDENTIFICATION, DIFFERENCING)

CELL = ("tract", "sector", "ownership")
#: Attributes that the worker with a degree is known by.
PROFILE = ("sex", "age", "race")
DEGREE, NO_DEGREE = "college", "high-school"
#: A worker in everything that does not matter to a game.
ANYONE = {"age": "30-54", "race": "white", "ethnicity": "not-hispanic", "education": NO_DEGREE}
#: Workers of the smallest targets: of shape, size and differencing, and of re-identification.
LEAST, FEW = 20, 5
#: Workers of each sex beside a target of differencing: fewer would be redrawn in its tables.
ENOUGH = 3


@dataclass(frozen=True)
class Game:
    """One target: its workplace cell, and the counts of each candidate in the cells published.

    No two candidates are more than `steps` apart.
    """

    attack: str
    workplace: int
    cell: tuple[str, ...]
    candidates: Integers
    steps: int

    def __len__(self) -> int:
        return len(self.candidates)


def success_bound(guarantee: Guarantee, candidates: int, steps: int) -> float:
    """The most that any attacker can win of a game, whatever she does and however clever she is.

    k equally likely candidates, no two more than some steps apart; e^E is the factor and d the
    addend of the guarantee over those steps.  Then

        P[success] <= (e^E + (k - 1) d) / (e^E + k - 1).

    Proof.  Let A_i be the outputs at which she guesses i (a random guess only mixes such attackers)
    and a_i = P_i(A_i).  For j other than i the guarantee says P_j(A_i) >= e^-E (a_i - d).  Summed
    over all i and j other than i the left side is sum_j (1 - a_j) = k - A with A = sum_i a_i, the
    right side (k - 1) e^-E (A - k d).  So A (1 + (k - 1) e^-E) <= k + (k - 1) e^-E k d, and the
    probability of success is A / k.

    Args:
        guarantee: What the release promises.
        candidates: How many truths are equally likely.
        steps: How many steps apart any two of them are, at most.

    Examples:
        >>> guarantee = eree.Guarantee(eree.Strong("0.1"), 1)
        >>> round(eree_study.success_bound(guarantee, 2, 1), 3)
        0.731
    """
    if candidates < 1 or steps < 0:
        raise Refusal("a game has one candidate or more, and no fewer than 0 steps between them")
    others, factor = candidates - 1, guarantee.factor(steps)
    if factor == np.inf:
        return 1.0
    return min((factor + others * guarantee.addend(steps)) / (factor + others), 1.0)


def find_games(tables: Tables, relation: Strong, most: int) -> tuple[Game, ...]:
    """Games of every attack about workplaces of a synthetic population, at most so many each.

    Each workplace is the target of one game.  Targets are alone in their cell of tract, sector and
    ownership, which is public; those of differencing are the one public workplace beside private
    ones with 3 workers or more of each sex.
    """
    schema, home = tables.schema, _homes(tables)
    rows = tabulate(tables, CELL).confidential.to_pylist()
    sexes = tabulate(tables, [*CELL, "sex"]).confidential["count"].to_numpy().reshape(-1, 2)
    enough = {
        (row["tract"], row["sector"])
        for row, by_sex in zip(rows, sexes, strict=True)
        if row["ownership"] == "private" and by_sex.min() >= ENOUGH
    }
    alone = [row for row in rows if row["workplaces"] == 1 and row["count"] >= FEW]
    apart = [
        row
        for row in alone
        if row["ownership"] == "public"
        and row["count"] >= LEAST
        and (row["tract"], row["sector"]) in enough
    ][:most]
    kept = {(row["tract"], row["sector"]) for row in apart}  # no other game may change these
    rest = [row for row in alone if (row["tract"], row["sector"]) not in kept]
    large = [row for row in rest if row["count"] >= LEAST]
    small = [row for row in rest if row["count"] < LEAST]
    chosen = {SHAPE: large[::2], SIZE: large[1::2], REIDENTIFICATION: small, DIFFERENCING: apart}
    found: dict[str, list[Game]] = {attack: [] for attack in ATTACKS}
    for attack, listed in chosen.items():
        for row in listed[:most]:
            cell = tuple(row[name] for name in CELL)
            found[attack].append(_game(schema, relation, attack, home[cell], cell, row["count"]))
    for attack in ATTACKS:
        if not found[attack]:
            raise Refusal(f"the population has no workplace for {attack}; make it larger")
    return tuple(game for attack in ATTACKS for game in found[attack])


def _homes(tables: Tables) -> dict[tuple[str, ...], int]:
    """The last workplace of every cell: the only one where it is alone."""
    columns = ["workplace_id", *CELL]
    rows = parquet.read_table(tables.folder / "workplace.parquet", columns=columns).to_pylist()
    return {tuple(row[name] for name in CELL): row["workplace_id"] for row in rows}


def _game(
    schema: Schema, relation: Strong, attack: str, workplace: int, cell: tuple[str, ...], size: int
) -> Game:
    """The candidates for a workplace of some size."""
    if attack == REIDENTIFICATION:
        candidates = np.eye(len(profiles(schema)), dtype=np.int64)
        steps = 2 * steps_between(relation, size, size + 1)  # she leaves, and somebody else comes
        return Game(attack, workplace, cell, candidates, steps)
    most = min(relation.growth(size), size // 2)
    if attack == SIZE:
        men = size // 2
        women = size - men + np.arange(most + 1)
        candidates = np.stack([women, np.full_like(women, men)], axis=1)
        return Game(attack, workplace, cell, candidates, steps_between(relation, size, size + most))
    women = (size - most) // 2 + np.arange(most + 1)
    candidates = np.stack([women, size - women], axis=1)
    steps = 2 * steps_between(relation, size, size + most)  # some leave, as many come
    return Game(attack, workplace, cell, candidates, steps)


def profiles(schema: Schema) -> list[dict[str, Any]]:
    """Everything that the worker with a degree may be like, in the order of the cells."""
    values = [schema.attributes[name].values or () for name in PROFILE]
    return [dict(zip(PROFILE, chosen, strict=True)) for chosen in product(*values)]


def workforce(schema: Schema, game: Game, truth: int, size: int) -> list[dict[str, Any]]:
    """The workers of a target if a candidate is true; `size` counts those of re-identification."""
    counts = game.candidates[truth]
    if game.attack == REIDENTIFICATION:
        one = {**ANYONE, **profiles(schema)[truth], "education": DEGREE}
        return [one, *({**ANYONE, "sex": "F"} for _ in range(size - 1))]
    sexes = ["F"] * int(counts[0]) + ["M"] * int(counts[1])
    return [{**ANYONE, "sex": sex} for sex in sexes]


def plant(tables: Tables, games: Sequence[Game], truths: Sequence[int], out: Path) -> None:
    """Write the population again with the drawn candidate in place of every target's workers."""
    jobs = parquet.read_table(tables.folder / "job.parquet")
    workers = parquet.read_table(tables.folder / "worker.parquet")
    targets = pa.array([game.workplace for game in games], jobs["workplace_id"].type)
    theirs = pc.is_in(jobs["workplace_id"], value_set=targets)
    leaving = jobs.filter(theirs)
    ids, counts = np.unique(leaving["workplace_id"].to_numpy(), return_counts=True)
    sizes = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    staying = pc.invert(pc.is_in(workers["worker_id"], value_set=leaving["worker_id"]))
    first = int(pc.max(workers["worker_id"]).as_py() or 0) + 1
    people: list[dict[str, Any]] = []
    places: list[int] = []
    for game, truth in zip(games, truths, strict=True):
        new = workforce(tables.schema, game, truth, sizes[game.workplace])
        people += new
        places += [game.workplace] * len(new)
    new_ids = range(first, first + len(people))
    joined = [{"worker_id": i} | person for i, person in zip(new_ids, people, strict=True)]
    usual = {column.name: (column.values or ())[0] for column in tables.schema.columns_of("job")}
    placed = [
        {"worker_id": i, "workplace_id": w, **usual} for i, w in zip(new_ids, places, strict=True)
    ]
    out.mkdir()
    for name, kept, added in (
        ("worker", workers.filter(staying), joined),
        ("job", jobs.filter(pc.invert(theirs)), placed),
    ):
        table = pa.concat_tables([kept, pa.Table.from_pylist(added, schema=kept.schema)])
        parquet.write_table(table, out / f"{name}.parquet")
    for name in ("workplace.parquet", "place.parquet", "schema.toml"):
        copyfile(tables.folder / name, out / name)
