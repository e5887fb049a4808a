"""A guarantee, and what it means for an attacker in plain words.

(epsilon, delta) over a neighbour relation: for every pair of neighbours D, D' and every set O of
outputs, P[M(D) in O] <= e^epsilon P[M(D') in O] + delta.  Over k steps the factor becomes
e^(k epsilon) and the addend delta (e^(k epsilon) - 1) / (e^epsilon - 1).  With delta = 0, e^(k
epsilon) bounds how much what is published can change anyone's odds between two databases k steps
apart, whatever else is known.  With delta > 0 nothing bounds the odds: the addend is added to the
probability of every event, and is not the probability that they change by more than the factor,
which may be many times as large.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter

from eree.errors import Refusal
from eree.policy.decimals import MOST_POWER, exp_above, sum_of_exp_above, text_above
from eree.policy.neighbours import (
    Establishment,
    Exact,
    Linked,
    Neighbours,
    Node,
    Record,
    Strong,
    Weak,
    exact,
    implies,
    plain,
    steps_between,
)
from eree.policy.schema import Counted

#: As many jobs of a worker count if nothing is said.
ONE = Counted()


@dataclass(frozen=True)
class Statement:
    """What an attacker can learn about one thing.

    Any event of the release has under one of two possibilities at most `factor` times the
    probability that it has under the other, plus `addend`, which is 0 where delta is 0: then the
    factor bounds by how much a release changes the attacker's odds.  Both are rounded up.
    """

    topic: str
    steps: int
    factor: float
    addend: float
    words: str


@dataclass(frozen=True)
class Guarantee:
    """What a release promises, all exact.

    Args:
        neighbours: The relation of neighbours.
        epsilon: The privacy loss.
        delta: What the probability of any outcome may be larger by, beside that.

    Examples:
        >>> eree.Guarantee(eree.Strong("0.1"), "0.5").epsilon
        Fraction(1, 2)
    """

    neighbours: Neighbours
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __init__(self, neighbours: Neighbours, epsilon: Exact, delta: Exact = 0) -> None:
        if not isinstance(neighbours, Neighbours):
            raise Refusal(
                "neighbours must be Strong(alpha), Weak(alpha, types), EDGE or NODE, or those of a"
                " survey: RECORD or ESTABLISHMENT"
            )
        object.__setattr__(self, "neighbours", neighbours)
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon"))
        object.__setattr__(self, "delta", exact(delta, "delta"))
        if self.epsilon < 0:
            raise Refusal("epsilon must not be negative")
        if not 0 <= self.delta < 1:
            raise Refusal("delta must be at least 0 and below 1")

    def __str__(self) -> str:
        relation = self.neighbours
        alpha = f", alpha {plain(relation.alpha)}" if isinstance(relation, (Strong, Weak)) else ""
        price = f"epsilon {plain(self.epsilon)}, delta {plain(self.delta)}"
        return f"{price} ({relation.name} neighbours{alpha})"

    def __add__(self, other: Guarantee) -> Guarantee:
        """The guarantee of two releases from the same data: prices add up."""
        if self.neighbours != other.neighbours:
            raise Refusal("prices under different neighbours cannot be added; bring them to one")
        return sum_of(self.neighbours, self.epsilon + other.epsilon, self.delta + other.delta)

    def under(self, neighbours: Neighbours) -> Guarantee:
        """The same promise read under another relation, where this one implies it."""
        if not implies(self.neighbours, neighbours):
            raise Refusal(
                f"a guarantee under {self.neighbours.name} neighbours promises nothing under"
                f" {neighbours.name} ones of this kind; pay for it under those"
            )
        return Guarantee(neighbours, self.epsilon, self.delta)

    def factor(self, steps: int) -> float:
        """The factor on the probability of any event over some steps, rounded up."""
        found = self._factor(steps)
        return inf if found is None else _above(found)

    def addend(self, steps: int) -> float:
        """What is added to that probability over some steps, rounded up: at most 1."""
        return min(_above(self._addend(steps)), 1.0)

    def _factor(self, steps: int) -> Fraction | None:
        power = steps * self.epsilon
        return exp_above(power) if power <= MOST_POWER else None

    def _addend(self, steps: int) -> Fraction:
        """Exact over one step, or where epsilon is 0; at most 1."""
        if not self.delta:
            return Fraction(0)
        if steps * self.epsilon > MOST_POWER:
            return Fraction(1)
        return min(self.delta * sum_of_exp_above(self.epsilon, steps), Fraction(1))

    def statement(self, topic: str, steps: int, what: str) -> Statement:
        """A statement about two possibilities some steps apart."""
        factor, addend = self._factor(steps), self._addend(steps)
        if factor is None or addend == 1:
            words = "nothing that is of use is promised."
        elif not addend:
            words = f"a release changes the odds by at most a factor of {text_above(factor)}."
        else:
            words = (
                "whatever is seen in a release, or concluded from it, has in one case at most"
                f" {text_above(factor)} times the probability that it has in the other, plus"
                f" {text_above(addend)}; that does not bound the odds."
            )
        return Statement(topic, steps, self.factor(steps), self.addend(steps), f"{what}: {words}")

    def statements(
        self, sizes: tuple[int, ...] = (10, 100, 1_000), *, jobs: Counted | int = ONE
    ) -> tuple[Statement, ...]:
        """What an attacker who knows all other data can learn, about workers and workplaces.

        Neighbours are tables of counted jobs, and one job is one step.  A worker with several of
        them is at most as many steps, for they leave one after another; a worker who is another
        leaves with all of them and joins again, at most twice as many.

        Where the job that counts was chosen among a worker's jobs, one of these more, less or
        changed lets at most one leave and another join.  A workplace that grows could take workers
        from others, so that its growth is one step only with what counts elsewhere held fixed.

        Of a survey: about records and establishments.
        """
        relation = self.neighbours
        if isinstance(relation, (Record, Establishment)):
            return self._survey_statements(relation)
        jobs = Counted(jobs) if isinstance(jobs, int) else jobs
        found, counted, each, held = list[Statement](), "workers", "", ""
        if jobs.most > 1 or jobs.chosen:
            beside = " beside others of its worker" if jobs.chosen else ""
            found += [
                self.statement("job", 1 + jobs.chosen, f"Whether a job is in the data{beside}"),
                self.statement("job attribute", 2, "What a job is like, or where it is"),
            ]
        if jobs.most > 1:
            counted, each = "jobs", f", with all of at most {jobs.most:,} jobs"
        elif jobs.chosen:
            counted, each = "counted jobs", ", with all of her jobs"
            held = ", with the jobs that count elsewhere held fixed"
        found += [
            self.statement("presence", jobs.most, f"Whether a worker is in the data{each}"),
            self.statement(
                "attribute", 2 * jobs.most, f"What a worker is like, or where she works{each}"
            ),
        ]
        for size in sizes:
            grown = relation.growth(size)
            whose = f"Whether a workplace has {size:,} {counted}"
            if isinstance(relation, Weak):
                whose += " of one type"
            other = "any larger number of them" if grown is None else f"{size + (grown or 0):,}"
            found.append(self.statement("size", 1, f"{whose} or {other}{held}"))
        if isinstance(relation, (Strong, Node)):
            share = "any other share"
            if isinstance(relation, Strong):
                share = f"{float(1 + relation.alpha):g} times that share"
            kind = f"some share of a kind of {counted}"
            what = f"Whether a workplace of known size has {kind} or {share}{held}"
            found.append(self.statement("shape", 2, what))
        return tuple(found)

    def _survey_statements(self, relation: Record | Establishment) -> tuple[Statement, ...]:
        """To change is to leave and to join: two steps."""
        found = [
            self.statement("presence", 1, "Whether a record is in the survey"),
            self.statement("answer", 2, "What a record answers, or its weight"),
        ]
        if isinstance(relation, Establishment):
            found += [
                self.statement("establishment", 1, "Whether an establishment is in the survey"),
                self.statement("answers", 2, "All that an establishment answers"),
            ]
        return tuple(found)

    def size_statement(self, smaller: int, larger: int) -> Statement:
        """What an attacker can learn about two sizes of a workplace (of one type, if weak).

        Where a worker may have several jobs, sizes are numbers of jobs.
        """
        if not isinstance(self.neighbours, Linked):
            raise Refusal("a survey has no workplaces with workers; its statements say what it has")
        steps = steps_between(self.neighbours, smaller, larger)
        return self.statement(
            "size", steps, f"Whether a workplace has {smaller:,} or {larger:,} workers"
        )


def sum_of(neighbours: Neighbours, epsilon: Fraction, delta: Fraction) -> Guarantee:
    """The guarantee of several prices that were added up; there is none where delta is too much."""
    if delta >= 1:
        raise Refusal(
            f"the deltas add up to {plain(delta)}, and with 1 or more nothing is promised; lower"
            " them"
        )
    return Guarantee(neighbours, epsilon, delta)


def _above(number: Fraction) -> float:
    """The least float that is not below the number."""
    near = float(number)
    return near if Fraction(near) >= number else nextafter(near, inf)
