"""Methods of others: their errors against formulas, what they withhold, what an attacker finds."""

from __future__ import annotations

from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import eree_study
from eree.errors import Refusal
from eree.random.exact import Integers
from eree_study.papers.others import _alike, _found, _gaussian, _on_roots, withheld
from eree_study.papers.workloads import Counted, WorkplaceCounts
from selection import examples
from uses import eree_command


def cells_of(sizes: list[list[int]]) -> Counted:
    """Cells with workplaces of some sizes; those of size 0 are there without jobs."""
    rows = [(w, c, x) for c, some in enumerate(sizes) for w, x in enumerate(some) if x]
    numbered = [(i, c, x, x) for i, (_, c, x) in enumerate(rows)]
    columns = [np.array(column, dtype=np.int64) for column in zip(*numbered, strict=True)]
    empty = [np.zeros(0, dtype=np.int64)] * 4
    counts = np.array([sum(some) for some in sizes])
    largest = np.array([max(some, default=0) for some in sizes])
    return Counted(
        counts,
        largest,
        largest,
        np.full(len(sizes), -1, dtype=np.int8),
        1,
        WorkplaceCounts(*(columns or empty)),
        np.array([len(some) for some in sizes]),
        np.zeros(len(sizes), dtype=np.int64),
    )


def test_noise_on_roots_has_the_mean_and_the_variance_that_it_should() -> None:
    """x + sqrt(x) Z / mu + (Z^2 - 1) / (4 mu^2): false alarms below 1 in 10,000; 10% are seen."""
    sizes, mu, trials = [400, 100, 25, 0, 0], 0.8, 200
    made = np.array([_on_roots(cells_of([sizes] * 400), mu, 3, t) for t in range(trials)])
    variance = sum(sizes) / mu**2 + len(sizes) / (8 * mu**4)
    number = made.size
    assert abs(made.mean() - sum(sizes)) < 4 * sqrt(variance / number)
    off = made.var() / variance - 1
    assert abs(off) < 4 * sqrt(2.2 / number) < 0.19 / 4  # scales 10% off are 19% and 21%


def test_an_attack_is_as_good_as_the_best_test_is() -> None:
    """Pure losses by the pair of distributions that attains them; Gaussian ones by drawing."""
    for loss in (0.1, 1.0, 2.0, 5.0):
        keep = exp(loss) / (1 + exp(loss))  # randomized response: reject at "yes", or sometimes
        alarm = 1 - keep
        power = keep * 0.05 / alarm if alarm >= 0.05 else keep + (0.05 - alarm) / keep * (1 - keep)
        assert _found(loss) == pytest.approx(power)
    drawn = np.random.default_rng(1).normal(1.3, 1, 200_000) > norm.isf(0.05)
    assert abs(drawn.mean() - _gaussian(1.3)) < 4 * sqrt(0.25 / 200_000)
    assert _gaussian(_alike(2.0) * 2 * (sqrt(110) - sqrt(100))) == pytest.approx(_found(2.0))
    assert [_found(0), _gaussian(0)] == pytest.approx([0.05, 0.05])
    assert _found(1_000) == 1.0


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[int]], list[Integers]]:
    """Cells of a small table: places, sectors and ownerships, and sizes of their workplaces."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2)))
    chosen = [p for p in np.ndindex(*shape) if draw(st.booleans())] or [(0, 0, 0)]
    sizes = [draw(st.lists(st.integers(0, 40), min_size=1, max_size=5)) for _ in chosen]
    return sizes, [np.array(column) for column in zip(*chosen, strict=True)]


@examples(150, torture=5_000)
@given(tables())
def test_what_tells_is_withheld_and_never_alone(
    case: tuple[list[list[int]], list[Integers]],
) -> None:
    sizes, places = case
    counted = cells_of(sizes)
    hidden = withheld(counted, places)
    for cell, some in enumerate(sizes):
        ordered = sorted(some, reverse=True)
        rest = sum(ordered[2:])
        if sum(some) and (len(some) < 3 or rest < 0.15 * ordered[0]):
            assert hidden[cell]
        if not sum(some):
            assert not hidden[cell]
    there = np.array([sum(some) > 0 for some in sizes])
    for of in (0, 1):
        for key in {*zip(places[of].tolist(), places[2].tolist(), strict=True)}:
            line = (places[of] == key[0]) & (places[2] == key[1])
            assert hidden[line].sum() != 1 or there[line].sum() == 1


def test_methods_of_others_are_compared(tmp_path: Path) -> None:
    found = eree_study.other_methods(tmp_path / "a", jobs=20_000, trials=2, epsilon=2)
    named = {one.name.partition(" at ")[0]: one for one in found.methods}
    assert list(named) == [
        "eree",
        "noise for one worker",
        "workplaces clamped",
        "noise on roots (EGDP)",
        "suppression of cells",
        "noise infusion",
    ]
    assert named["noise infusion"].ratio == 1
    assert named["eree"].growth == pytest.approx((0.05 * exp(2),) * 3)
    assert named["noise for one worker"].error < named["eree"].error < 20
    [_, alike, large] = named["noise on roots (EGDP)"].growth or ()
    assert alike == pytest.approx(0.05 * exp(2))
    assert large > 0.99
    clamped = named["workplaces clamped"]
    theta = int(clamped.name.rpartition(" ")[2].replace(",", ""))
    loss = 2 * (min(11, theta) - min(10, theta)) / theta
    assert (clamped.growth or ())[0] == pytest.approx(0.05 * exp(loss))
    assert (clamped.worker or ())[2] == pytest.approx(0.05)
    assert 0.2 < named["suppression of cells"].withheld < 1
    assert len(found.file.read_text(encoding="utf-8").splitlines()) == 7
    with pytest.raises(Refusal, match="at least one trial"):
        eree_study.other_methods(tmp_path / "b", trials=0)


def test_the_command_says_what_was_found(tmp_path: Path) -> None:
    status, shown, _ = eree_command("study", "others", "--out", tmp_path / "a", "--jobs", "5000")
    assert status == 0
    assert shown.splitlines()[1].startswith("eree ")
    assert "nothing bounds it" in shown
