"""What a guarantee promises, adds up to and means."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from flint import arb
from hypothesis import example, given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, ESTABLISHMENT, NODE, RECORD, Strong, Weak
from eree.policy.schema import Counted
from eree.random.exact import exact_ball, exactly

STRONG = Strong("0.1")
epsilons = st.fractions(Fraction(1, 1000), 8, max_denominator=1000)
deltas = st.fractions(0, Fraction(1, 1000), max_denominator=10**9)


def test_prices_add_up_without_rounding() -> None:
    tenth, fifth = Guarantee(STRONG, "0.1"), Guarantee(STRONG, "0.2", "1e-9")
    assert tenth + fifth == Guarantee(STRONG, "3/10", Fraction(1, 10**9))
    with pytest.raises(Refusal, match="different neighbours"):
        tenth + Guarantee(EDGE, "0.1")


def test_a_guarantee_counts_under_another_relation_only_if_implied() -> None:
    weak = Weak("0.1", ["sex"])
    assert Guarantee(STRONG, 2).under(weak) == Guarantee(weak, 2)
    with pytest.raises(Refusal, match="promises nothing under strong"):
        Guarantee(weak, 2).under(STRONG)


@given(epsilons, deltas, st.integers(0, 40))
def test_k_steps_are_k_applications_of_one(epsilon: Fraction, delta: Fraction, steps: int) -> None:
    """Chaining P <= e^eps Q + delta k times gives the stated factor and addend."""
    guarantee = Guarantee(STRONG, epsilon, delta)
    factor, addend = 1.0, 0.0
    for _ in range(steps):
        factor, addend = factor * math.exp(epsilon), addend * math.exp(epsilon) + float(delta)
    assert guarantee.factor(steps) == pytest.approx(factor, rel=1e-12)
    assert guarantee.addend(steps) == pytest.approx(min(addend, 1.0), rel=1e-9, abs=1e-300)


def series(power: Fraction) -> Fraction:
    """e^power from below, to far beyond the digits of a float."""
    term = total = Fraction(1)
    for i in range(1, 200):
        term *= power / i
        total += term
    return total


@given(st.fractions(Fraction(1, 1000), 4, max_denominator=1000), st.integers(1, 12), deltas)
@example(Fraction(1090, 193), 4, Fraction(1, 3))
def test_factor_and_addend_are_rounded_up_and_only_just(
    epsilon: Fraction, steps: int, delta: Fraction
) -> None:
    guarantee = Guarantee(STRONG, epsilon, delta)
    factor, one = series(steps * epsilon), series(epsilon)
    assert factor < guarantee.factor(steps) < factor * (1 + Fraction(1, 10**12))
    addend = min(delta * (factor - 1) / (one - 1), Fraction(1))
    assert addend <= guarantee.addend(steps) <= addend * (1 + Fraction(1, 10**9))


def test_what_an_attacker_learns_in_plain_words() -> None:
    found = {s.topic: s for s in Guarantee(STRONG, 2).statements(sizes=(100,))}
    assert found["presence"].words == (
        "Whether a worker is in the data: a release changes the odds by at most a factor of 7.39."
    )
    assert [s.steps for s in found.values()] == [1, 2, 1, 2]
    assert found["size"].words.startswith("Whether a workplace has 100 workers or 110: ")
    assert "1.1 times that share" in found["shape"].words
    assert found["shape"].factor == pytest.approx(math.exp(4))


def test_a_worker_with_several_jobs_is_as_many_steps() -> None:
    """The factors are e^(k epsilon), with the addend of k steps, for k = 1, 2, J and 2 J."""
    found = {
        s.topic: s for s in Guarantee(STRONG, "1/2", "1e-6").statements((100,), jobs=Counted(3))
    }
    assert {topic: s.steps for topic, s in found.items()} == {
        "job": 1, "job attribute": 2, "presence": 3, "attribute": 6, "size": 1, "shape": 2
    }  # fmt: skip
    for s in found.values():
        assert s.factor == pytest.approx(math.exp(s.steps / 2))
        assert s.addend == pytest.approx(1e-6 * math.expm1(s.steps / 2) / math.expm1(0.5))
    assert [s.words.partition(":")[0] for s in found.values()] == [
        "Whether a job is in the data",
        "What a job is like, or where it is",
        "Whether a worker is in the data, with all of at most 3 jobs",
        "What a worker is like, or where she works, with all of at most 3 jobs",
        "Whether a workplace has 100 jobs or 110",
        "Whether a workplace of known size has some share of a kind of jobs or 1.1 times that"
        " share",
    ]
    assert Guarantee(STRONG, 2).statements() == Guarantee(STRONG, 2).statements(jobs=Counted(1))


def test_weak_and_edge_guarantees_claim_no_more_than_they_have() -> None:
    weak = Guarantee(Weak("0.1", ["sex"]), 1).statements()
    edge = Guarantee(EDGE, 1).statements(sizes=(100,))
    assert "shape" not in {s.topic for s in (*weak, *edge)}
    assert all("of one type" in s.words for s in weak if s.topic == "size")
    assert any("100 workers or 101" in s.words for s in edge)


def test_a_node_guarantee_hides_any_size_and_shape() -> None:
    found = {s.topic: s for s in Guarantee(NODE, "0.5").statements(sizes=(10,))}
    assert "or any larger number" in found["size"].words
    assert "any other share" in found["shape"].words


def test_delta_shows_in_the_words() -> None:
    [presence, *_] = Guarantee(STRONG, 2, "1e-6").statements()
    assert presence.words.endswith(
        "at most 7.39 times the probability that it has in the other, plus 0.000001; that does not"
        " bound the odds."
    )
    [_, attribute, *_] = Guarantee(STRONG, 2, "0.6").statements()
    assert attribute.addend == 1
    assert attribute.words.endswith(": nothing that is of use is promised.")


def printed(words: str) -> list[Fraction]:
    """The factor and the addend that a statement tells."""
    reported = re.findall(r"(?:factor of|at most|plus) ([0-9](?:[0-9.,e+-]*[0-9])?)", words)
    return [Fraction(number.replace(",", "")) for number in reported]


@given(
    st.fractions(0, 8, max_denominator=1000),
    st.one_of(deltas, st.sampled_from([Fraction("0.00003"), Fraction("0.6"), Fraction(1, 3)])),
    st.integers(1, 12),
)
@example(Fraction(0), Fraction("0.00003"), 1)
@example(Fraction(2), Fraction("0.6"), 1)
@example(Fraction(1, 10**60), Fraction("1e-9"), 9)
def test_printed_numbers_are_the_least_decimals_that_are_not_below(
    epsilon: Fraction, delta: Fraction, steps: int
) -> None:
    words = Guarantee(STRONG, epsilon, delta).statement("any", steps, "Something").words
    with exactly(1_000):
        step = exact_ball(epsilon).exp()
        addend = exact_ball(delta) * sum((step**i for i in range(steps)), arb(0))
        if addend >= 1:
            assert printed(words) == []
            return
        wanted = [step**steps, addend] if delta else [step**steps]
        for shown, exact in zip(printed(words), wanted, strict=True):
            place = Fraction(1)
            while shown / place < 100:
                place /= 10
            while shown / place >= 1_000:
                place *= 10
            assert (shown / place).denominator == 1  # three digits
            below = shown - (place if shown > 100 * place else place / 10)
            assert exact_ball(below) < exact
            assert not exact > exact_ball(shown)


def test_exact_numbers_are_printed_as_they_are() -> None:
    for text in ("0.00003", "0.6", "1e-9", "0.001", "0.0999"):
        words = Guarantee(STRONG, 1, text).statement("any", 1, "Something").words
        assert printed(words) == [Fraction("2.72"), Fraction(text)], words
    assert printed(Guarantee(STRONG, 0).statements()[0].words) == [1]


def test_a_larger_workplace_is_more_steps_away() -> None:
    statement = Guarantee(STRONG, 2).size_statement(15, 18)
    assert (statement.steps, statement.factor) == (3, pytest.approx(math.exp(6)))
    assert Guarantee(STRONG, 2).size_statement(1, 10**7).factor > 1e100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((STRONG, "-1"), "epsilon must not be negative"),
        ((STRONG, 1, 1), "delta must be at least 0 and below 1"),
        ((STRONG, 0.5), "epsilon must be exact, and what Python calls float is not"),
        (("strong", 1), "neighbours must be Strong"),
    ],
)
def test_a_guarantee_that_makes_no_sense_is_refused(
    arguments: tuple[object, ...], words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        Guarantee(*arguments)


def test_a_survey_speaks_of_records_and_establishments() -> None:
    found = Guarantee(ESTABLISHMENT, "1/2", "1e-9").statements()
    assert [(s.topic, s.steps) for s in found] == [
        ("presence", 1),
        ("answer", 2),
        ("establishment", 1),
        ("answers", 2),
    ]
    assert found[2].words == (
        "Whether an establishment is in the survey: whatever is seen in a release, or concluded"
        " from it, has in one case at most 1.65 times the probability that it has in the other,"
        " plus 1e-9; that does not bound the odds."
    )
    assert [s.topic for s in Guarantee(RECORD, 1).statements()] == ["presence", "answer"]
    assert not any("work" in s.words for s in found)
    with pytest.raises(Refusal, match="a survey has no workplaces"):
        Guarantee(RECORD, 1).size_statement(1, 2)


def test_a_chosen_job_is_two_steps_and_its_worker_one() -> None:
    """Any change of one worker's jobs replaces one counted job at most; growth holds the rest."""
    found = {s.topic: s for s in Guarantee(STRONG, 1).statements((10,), jobs=Counted(1, True))}
    assert {topic: (s.steps, s.words.partition(":")[0]) for topic, s in found.items()} == {
        "job": (2, "Whether a job is in the data beside others of its worker"),
        "job attribute": (2, "What a job is like, or where it is"),
        "presence": (1, "Whether a worker is in the data, with all of her jobs"),
        "attribute": (2, "What a worker is like, or where she works, with all of her jobs"),
        "size": (
            1,
            "Whether a workplace has 10 counted jobs or 11, with the jobs that count elsewhere"
            " held fixed",
        ),
        "shape": (
            2,
            "Whether a workplace of known size has some share of a kind of counted jobs or 1.1"
            " times that share, with the jobs that count elsewhere held fixed",
        ),
    }
