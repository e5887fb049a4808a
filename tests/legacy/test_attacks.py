"""Attacks succeed on infused tables, and stay below what the guarantee allows on releases."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
import eree_study
from eree.policy.neighbours import distance
from eree_study.legacy.attacks import (
    infused_scores,
    noisy_scores,
    run_attacks,
    success_probability,
    write_attacks,
)
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
    _game,
    find_games,
    plant,
    workforce,
)
from eree_study.legacy.infusion import factors
from eree_study.legacy.tallies import INFUSED, OURS, UNROUNDED, AttackFindings, Tally

STRONG = eree.Strong("0.1")
JOBS = 50_000
KEY = bytes(range(32))


# ------------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize(
    ("k", "epsilon", "steps"), list(product((2, 5, 36), ("0.1", "1", "4"), (1, 3)))
)
def test_the_bound_is_reached_by_the_best_answer_under_a_guarantee(
    k: int, epsilon: str, steps: int
) -> None:
    """The truth e^E times as likely as each other answer: no guarantee allows more."""
    odds = exp(float(epsilon) * steps)
    assert eree_study.success_bound(eree.Guarantee(STRONG, epsilon), k, steps) == pytest.approx(
        odds / (odds + k - 1)
    )


@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 2**30))
def test_no_attacker_beats_the_bound_whatever_is_published(k: int, outputs: int, seed: int) -> None:
    """Any probabilities of outputs, with the factor and the addend that they really have."""
    words = eree.SeededRandom(seed).words(k * outputs + 1)
    probabilities = (words[1:].astype(float) / 2**64).reshape(k, outputs) ** 3 + 1e-9
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    epsilon = float(words[0] / 2**64) * 4
    delta = max(
        float(np.maximum(p - exp(epsilon) * q, 0).sum())
        for p, q in product(probabilities, repeat=2)
    )
    best = probabilities.max(axis=0).sum() / k
    promise = eree.Guarantee(STRONG, str(epsilon + 1e-9), str(min(delta + 1e-9, 0.999)))
    assert best <= eree_study.success_bound(promise, k, 1) + 1e-9


def test_a_game_of_nothing_is_refused() -> None:
    with pytest.raises(eree.Refusal, match="one candidate or more"):
        eree_study.success_bound(eree.Guarantee(STRONG, 1), 0, 1)


def test_a_bound_without_a_limit_is_certainty() -> None:
    assert eree_study.success_bound(eree.Guarantee(STRONG, 1000), 10, 3) == 1


# ------------------------------------------------------------------------------------ the games


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(eree_study.synthesize(tmp_path_factory.mktemp("made") / "data", jobs=JOBS))


@pytest.fixture(scope="module")
def games(tables: eree.Tables) -> tuple[Game, ...]:
    return find_games(tables, STRONG, 8)


def people(tables: eree.Tables, game: Game, truth: int) -> frozenset[str]:
    """The workers of a target as persons: of one kind, one after another."""
    found: dict[str, int] = {}
    names = []
    for worker in workforce(tables.schema, game, truth, 12):
        kind = json.dumps(worker, sort_keys=True)
        found[kind] = found.get(kind, 0) + 1
        names.append(f"{kind}{found[kind]}")
    return frozenset(names)


def test_no_two_candidates_are_farther_apart_than_a_game_says(
    tables: eree.Tables, games: tuple[Game, ...]
) -> None:
    assert {game.attack for game in games} == set(ATTACKS)
    for game in games:
        some = range(0, len(game), max((len(game) - 1) // 4, 1))  # with both ends, or nearly
        found = [people(tables, game, i) for i in {*some, len(game) - 1}]
        assert len(set(found)) == len(found) > 1
        apart = {distance(STRONG, {"w": a}, {"w": b}) for a, b in product(found, found) if a != b}
        assert max(d or 0 for d in apart) == game.steps, game.attack


def test_what_is_planted_is_what_the_tables_count(
    tables: eree.Tables, games: tuple[Game, ...], tmp_path: Path
) -> None:
    truths = [(7 * i) % len(game) for i, game in enumerate(games)]
    plant(tables, games, truths, tmp_path / "data")
    data = eree.load(tmp_path / "data")
    before = eree.tabulate(tables, CELL).confidential.to_pylist()
    after = eree.tabulate(data, CELL).confidential.to_pylist()
    planted = {game.cell for game in games}
    key = lambda row: tuple(row[name] for name in CELL)  # noqa: E731
    assert [r for r in before if key(r) not in planted] == [
        r for r in after if key(r) not in planted
    ]
    degree = {"education": [DEGREE]}
    for game, truth in zip(games, truths, strict=True):
        kept = {name: [value] for name, value in zip(CELL, game.cell, strict=True)}
        by = PROFILE if game.attack == REIDENTIFICATION else ["sex"]
        where = kept | (degree if game.attack == REIDENTIFICATION else {})
        counts = eree.tabulate(data, by, where).confidential["count"].to_numpy()
        assert (counts == game.candidates[truth]).all()


# ---------------------------------------------------------------------------------- the guesses


@given(
    st.integers(20, 3000), st.integers(0, 10**6), st.sampled_from([SHAPE, SIZE]), st.integers(0, 99)
)
def test_infused_counts_name_the_only_candidate(
    size: int, workplace: int, attack: str, share: int
) -> None:
    """One factor in all cells: without rounding only the truth explains the published numbers."""
    schema: Any = None  # candidates of shape and size need none
    game = _game(schema, STRONG, attack, workplace, ("t", "s", "o"), size)
    truth = share * len(game) // 100
    [factor] = factors(KEY, [workplace])
    published = factor * game.candidates[truth]
    scores = infused_scores(published, game.candidates, 1e-6)
    assert np.flatnonzero(scores).tolist() == [truth]
    rounded = infused_scores(np.rint(published), game.candidates, 0.5)
    assert rounded[truth] > 0


def test_preserved_zeros_name_the_only_candidate() -> None:
    for seen in (1, 2):
        published = np.array([0, 0, seen, 0])
        scores = infused_scores(published, np.eye(4, dtype=np.int64), 0.5)
        assert np.flatnonzero(scores).tolist() == [2]


def test_of_equal_candidates_one_is_drawn_by_lot() -> None:
    scores = np.array([1.0, 3.0, 0.0, 3.0])
    assert [success_probability(truth, scores) for truth in range(4)] == [0, 0.5, 0, 0.5]
    near = noisy_scores(np.array([4.0, -1.0]), np.array([[0, 0], [4, 0], [5, 1]]))
    assert success_probability(1, near) == 1


# --------------------------------------------------------------------------------- side by side


@pytest.fixture(scope="module")
def findings() -> AttackFindings:
    return run_attacks(jobs=JOBS, repeats=5, targets=30)


@pytest.mark.parametrize("attack", ATTACKS)
def test_infused_tables_give_the_answer_away(findings: AttackFindings, attack: str) -> None:
    assert findings.tally(attack, UNROUNDED).rate == 1
    whole = findings.tally(attack, INFUSED)
    assert whole.rate > 2 * whole.guessing
    if attack == REIDENTIFICATION:
        assert whole.rate == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_releases_stay_below_what_is_allowed(findings: AttackFindings, attack: str) -> None:
    """A sound release fails this with a probability of at most 1e-6."""
    ours = findings.tally(attack, OURS)
    assert ours.kept
    assert ours.guessing < (ours.promised or 0) < 1
    assert findings.tally(attack, INFUSED).kept is None


@pytest.mark.parametrize("attack", [SHAPE, SIZE, REIDENTIFICATION])
def test_the_alarm_rings_for_tables_that_are_not_private(
    findings: AttackFindings, attack: str
) -> None:
    promised = findings.tally(attack, OURS).promised
    infused = replace(findings.tally(attack, UNROUNDED), promised=promised)
    assert infused.kept is False
    assert not replace(findings, tallies=(*findings.tallies, infused)).kept


def test_the_alarm_allows_for_chance_and_no_more() -> None:
    margin = np.sqrt(np.log(1e6) / 2000)
    assert Tally(SHAPE, OURS, 1000, int(1000 * (0.5 + margin)), 0.1, 0.5).kept
    assert not Tally(SHAPE, OURS, 1000, int(1000 * (0.5 + margin)) + 1, 0.1, 0.5).kept


def test_what_cannot_be_attacked_is_refused() -> None:
    with pytest.raises(eree.Refusal, match="make it larger"):
        run_attacks(jobs=1_000)
    with pytest.raises(eree.Refusal, match="targets and repeats"):
        run_attacks(targets=0)


# ------------------------------------------------------------------------------------- the files


def test_findings_are_written_whole_and_labelled(findings: AttackFindings, tmp_path: Path) -> None:
    picture = write_attacks(findings, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "attacks.csv",
        "attacks.json",
        "attacks.png",
        "attacks.svg",
    ]
    assert picture.stat().st_size > 20_000
    found = json.loads((tmp_path / "out" / "attacks.json").read_text(encoding="utf-8"))
    assert "synthetic data" in found["study"]
    with (tmp_path / "out" / "attacks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["attack"] for row in rows] == [name for name in ATTACKS for _ in range(3)]
    assert DIFFERENCING in {row["attack"] for row in found["attacks"]}
    svg = (tmp_path / "out" / "attacks.svg").read_text(encoding="utf-8")
    assert "synthetic data" in svg
    write_attacks(findings, tmp_path / "again")
    assert (tmp_path / "again" / "attacks.svg").read_text(encoding="utf-8") == svg
    with pytest.raises(eree.Refusal, match="new or empty folder"):
        write_attacks(findings, tmp_path / "out")


def run(*words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "eree", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_and_writes_what_the_same_seed_finds(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("attack", "--out", str(out), "--jobs", str(JOBS), "--repeats", "1", "--targets", "3")
    status, said, _ = run(*words, "--seed", "5", "--json")
    assert (status, json.loads(said)["kept"]) == (0, True)
    again = run_attacks(jobs=JOBS, repeats=1, targets=3, seed=5)
    assert {t.trials for t in again.tallies} == {3}
    assert json.loads((out / "attacks.json").read_text(encoding="utf-8")) == again.as_json()
    status, _, refusal = run(*words)
    assert (status, "new or empty folder" in refusal) == (2, True)
