"""Tables 1 and 2 of the paper, computed: who meets which requirement, and the least epsilon.

The requirements, for an attacker who knows everything else: she must not tell

- *individuals*: whether a worker is there, or what she is like;
- *size*: whether a workplace has x workers or y, x < y <= (1 + alpha) x, the x among the y;
- *shape*: whether a share p of a workplace of known size is of a kind, or a share q,
  p < q <= (1 + alpha) p.

A definition over neighbours meets a requirement at k epsilon if no two workplaces that the
requirement speaks of are more than k steps apart.  Where the number of steps grows with the size of
the workplace it does not: a mechanism that keeps the definition is shown, with two workplaces and
an output that distinguishes them by more than any fixed multiple.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, log1p

from eree.cells import Cell
from eree.mechanisms.registry import calibrate
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Exact, Linked, Strong, Weak, exact, steps_between

Workforce = tuple[int, int]  # men and women
REQUIREMENTS = ("individuals", "size", "shape")
#: Sizes of workplaces over which steps are counted; where they grow, they grow without end.
_SIZES = (40, 80, 160)
#: The ramp of noise infusion in the paper's example.
_LEAST, _MOST = Fraction(5, 100), Fraction(15, 100)


#: Table 2 as printed: delta, alpha, and the least epsilon of Smooth Laplace.
_TABLE_2 = (
    (0.05, 0.01, 0.105),
    (0.05, 0.1, 1.01),
    (0.05, 0.2, 1.932),
    (5e-4, 0.01, 0.15),
    (5e-4, 0.1, 1.45),
    (5e-4, 0.2, 2.13),
)


@dataclass(frozen=True)
class LeastEpsilon:
    """A line of the paper's Table 2: what is printed, and what its formula gives."""

    delta: float
    alpha: float
    printed: float

    @property
    def right(self) -> float:
        """The least epsilon with 1 + alpha <= e^(epsilon / (2 ln(1 / delta)))."""
        return 2 * log(1 / self.delta) * log1p(self.alpha)


def least_epsilons() -> tuple[LeastEpsilon, ...]:
    """Table 2 of the paper: for which epsilon Smooth Laplace exists.

    Examples:
        >>> eree_study.least_epsilons()[0]
        LeastEpsilon(delta=0.05, alpha=0.01, printed=0.105)
    """
    return tuple(LeastEpsilon(*line) for line in _TABLE_2)


@dataclass(frozen=True)
class Witness:
    """Two workplaces, of men and women, and an output that distinguishes them."""

    first: Workforce
    second: Workforce
    published: str
    output: int
    loss: float


@dataclass(frozen=True)
class Finding:
    """Whether a method meets a requirement, what the paper says, and why."""

    method: str
    requirement: str
    paper: str
    met: bool
    steps: int | None
    reason: str
    witness: Witness | None

    @property
    def verdict(self) -> str:
        """Yes at some multiple of epsilon, or no."""
        if not self.met:
            return "no"
        if self.steps == 0:
            return "yes"
        return "yes, at epsilon" if self.steps == 1 else f"yes, at {self.steps} epsilon"


def pairs(requirement: str, alpha: Fraction, size: int) -> list[tuple[Workforce, Workforce]]:
    """All pairs of workplaces, the first with `size` workers, that a requirement speaks of."""
    found: list[tuple[Workforce, Workforce]] = []
    for men in range(size + 1):
        women = size - men
        if requirement == "individuals":
            found.append(((men, women), (men + 1, women)))
            found += [((men, women), (men + 1, women - 1))] if women else []
        elif requirement == "size":
            most = int(alpha * size)
            found += [((men, women), (men + d, women)) for d in range(1, most + 1)]
        else:
            most = min(int(alpha * men), women)
            found += [((men, women), (men + d, women - d)) for d in range(1, most + 1)]
    return found


def steps(relation: Linked, first: Workforce, second: Workforce) -> int:
    """Steps that lead from one workplace to the other: those who join, then those who leave.

    In the pairs of the requirements one kind at most joins and one at most leaves; under weak
    neighbours a kind that changes alone is bound by its own number.
    """
    both = (max(first[0], second[0]), max(first[1], second[1]))
    total = 0
    for end in (first, second):
        kind = 0 if end[0] < both[0] else 1
        if isinstance(relation, Weak):
            total += steps_between(relation, end[kind], both[kind])
        else:
            total += steps_between(relation, sum(end), sum(both))
    return total


def most_steps(relation: Linked, requirement: str, alpha: Fraction, size: int) -> int:
    """The greatest number of steps between two workplaces that a requirement speaks of."""
    return max((steps(relation, *pair) for pair in pairs(requirement, alpha, size)), default=0)


def requirements_table(alpha: Exact = "0.1", epsilon: Exact = 2) -> tuple[Finding, ...]:
    """Every method of the paper's Table 1 against every requirement.

    Args:
        alpha: The growth that is protected.
        epsilon: The privacy loss.

    Examples:
        >>> eree_study.requirements_table()[0].reason
        'a count of zero stays zero, and any other becomes at least one'
    """
    share, price = exact(alpha, "alpha"), exact(epsilon, "epsilon")
    methods: tuple[tuple[str, Linked | None, tuple[str, str, str]], ...] = (
        ("input noise infusion", None, ("no", "no", "no")),
        ("differential privacy for workers", EDGE, ("yes", "no", "no")),
        ("differential privacy for workplaces", NODE, ("yes", "yes", "yes")),
        ("ER-EE privacy", Strong(share), ("yes", "yes", "yes")),
        (
            "weak ER-EE privacy",
            Weak(share, ["sex"]),
            ("yes", "yes, against weak attackers", "yes"),
        ),
    )
    return tuple(
        _infused(name, requirement, says)
        if relation is None
        else _defined(name, relation, requirement, says, share, price)
        for name, relation, paper in methods
        for requirement, says in zip(REQUIREMENTS, paper, strict=True)
    )


def _defined(
    name: str,
    relation: Linked,
    requirement: str,
    paper: str,
    alpha: Fraction,
    epsilon: Fraction,
) -> Finding:
    """A finding about a definition over neighbours."""
    counts = [most_steps(relation, requirement, alpha, size) for size in _SIZES]
    if counts[0] == counts[-1]:
        reason = (
            f"no two such workplaces are more than {counts[0]} step{'s' * (counts[0] > 1)} apart"
        )
        return Finding(name, requirement, paper, True, counts[0], reason, None)
    reason = (
        f"workplaces of {_SIZES[0]} workers are up to {counts[0]} steps apart, those of"
        f" {_SIZES[-1]} up to {counts[-1]}"
    )
    worst = max(pairs(requirement, alpha, _SIZES[-1]), key=lambda pair: steps(relation, *pair))
    witness = _distinguished(relation, epsilon, *worst)
    return Finding(name, requirement, paper, False, None, reason, witness)


def _distinguished(
    relation: Linked, epsilon: Fraction, first: Workforce, second: Workforce
) -> Witness:
    """A mechanism that keeps the definition, on the kind of workers that takes the most steps."""
    name = "smooth-pareto" if isinstance(relation, Weak) else "edge-geometric"
    mechanism = calibrate(name, Guarantee(relation, epsilon))
    best = None
    for kind, words in enumerate(("men", "women")):
        before, after = first[kind], second[kind]
        for output in (before, after):
            logs = [mechanism.log_pmf(Cell(count), output) for count in (before, after)]
            loss = abs(logs[0] - logs[1])
            if best is None or loss > best.loss:
                best = Witness(first, second, f"{words}, by {name}", output, loss)
    assert best is not None
    return best


def _infused(name: str, requirement: str, paper: str) -> Finding:
    """Noise infusion: an output that one workplace can have and the other cannot."""
    if requirement == "individuals":
        first, second, words, output = (0, 20), (1, 20), "men", 0
        assert _possible(first[0], output) != _possible(second[0], output)
        reason = "a count of zero stays zero, and any other becomes at least one"
    elif requirement == "size":
        first, second, words, output = (100, 0), (110, 0), "workers", 90
        assert _possible(first[0], output) != _possible(second[0], output)
        reason = "the factor is never near 1 and never far from it, which rules sizes out"
    else:
        first, second, words, output = (50, 50), (55, 45), "men of 100 workers, in %", 50
        # one factor multiplies all counts of a workplace, so it falls out of every share
        reason = "all counts of a workplace get the same factor, so shares are exact"
    return Finding(
        name, requirement, paper, False, None, reason, Witness(first, second, words, output, inf)
    )


def _possible(count: int, output: int) -> bool:
    """Whether a count can be published as an output; below 2.5 it is redrawn from 1 and 2."""
    if count == 0 or output == 0:
        return count == output
    if count <= 2:
        return output in (1, 2)
    return any(
        count * low <= output <= count * high
        for low, high in ((1 - _MOST, 1 - _LEAST), (1 + _LEAST, 1 + _MOST))
    )
