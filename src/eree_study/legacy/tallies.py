"""How often attacks succeeded, and what was promised."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any

from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong, plain

STUDY = "A study of synthetic data: no row describes a real workplace or worker"
OURS, INFUSED, UNROUNDED = "eree", "infusion", "infusion, not rounded"
METHODS = (OURS, INFUSED, UNROUNDED)
#: The probability that a release within its bound is reported as above it, for one attack.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Tally:
    """How often an attack on a method succeeded.

    Where she is torn between some answers, one of them true, a success counts as its share: what a
    random choice would give on average.  `guessing` is the rate of an attacker who has public data
    alone, `promised` the most that the guarantee allows on average, where there is one.
    """

    attack: str
    method: str
    trials: int
    successes: float
    guessing: float
    promised: float | None

    @property
    def rate(self) -> float:
        """The share of targets about which the attacker was right."""
        return self.successes / self.trials

    @property
    def kept(self) -> bool | None:
        """Whether the rate is within the promise, but for randomness.

        Trials are independent, each from 0 to 1 and its mean at most its bound, so by Hoeffding's
        inequality the rate exceeds the mean bound by more than this with probability at most
        `FALSE_ALARM`.
        """
        if self.promised is None:
            return None
        return self.rate <= self.promised + sqrt(log(1 / FALSE_ALARM) / (2 * self.trials))


@dataclass(frozen=True)
class AttackFindings:
    """What the attacks found, on synthetic data.

    Attributes:
        jobs: The jobs of the population.
        seed: Where everything started.
        guarantee: That of each release.
        repeats: How often each target was attacked.
        tallies: How often each attack on each method succeeded.

    Examples:
        >>> found = eree_study.run_attacks(jobs=20_000, targets=3, repeats=1)
        >>> found.tally("shape", "infusion").trials
        3
    """

    jobs: int
    seed: int
    guarantee: Guarantee
    repeats: int
    tallies: tuple[Tally, ...]

    def tally(self, attack: str, method: str) -> Tally:
        """One attack on one method."""
        return next(t for t in self.tallies if (t.attack, t.method) == (attack, method))

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return all(tally.kept is not False for tally in self.tallies)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each attack and method."""
        return [
            {
                "attack": t.attack,
                "method": t.method,
                "epsilon": plain(self.guarantee.epsilon) if t.method == OURS else None,
                "trials": t.trials,
                "successes": t.successes,
                "rate": t.rate,
                "guessing": t.guessing,
                "promised": t.promised,
            }
            for t in self.tallies
        ]

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        relation = self.guarantee.neighbours
        assert isinstance(relation, Strong)
        return {
            "study": STUDY,
            "jobs": self.jobs,
            "seed": self.seed,
            "repeats": self.repeats,
            "alpha": plain(relation.alpha),
            "epsilon": plain(self.guarantee.epsilon),
            "kept": self.kept,
            "false_alarm": FALSE_ALARM,
            "attacks": self.rows(),
        }
