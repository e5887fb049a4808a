"""A mechanism of somebody else: what the contract gives it, and what is asked of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from scipy import stats

import eree
import eree_study
import pages
from cases import FALSE_ALARM
from eree.mechanisms import registry
from eree.mechanisms.cache import certificate_of
from eree.mechanisms.certificate import Certificate
from eree.mechanisms.intervals import UNBOUNDED
from eree.mechanisms.mechanism import Mechanism
from eree.random.exact import Integers
from eree_study.papers.contenders import contenders
from eree_study.papers.workloads import WORKLOADS, counted_for

PAGE = pages.ROOT / "docs" / "own-mechanism.md"


PLAN = """
data = "data"
[privacy]
neighbours = "node"
epsilon = "1"
[[table]]
name = "jobs"
by = ["county", "sector"]
epsilon = "1"
mechanism = "truncated-geometric"
parameters = { theta = 50 }
"""


@dataclass(frozen=True)
class Borrowed(Mechanism):
    """Smooth Pareto by the seven things that the contract asks for, and nothing else."""

    name = "borrowed"

    @property
    def _inner(self) -> Mechanism:
        return registry.calibrate("smooth-pareto", self.guarantee)

    @classmethod
    def calibrate(cls, guarantee: eree.Guarantee) -> Borrowed:
        registry.calibrate("smooth-pareto", guarantee)
        return cls(guarantee)

    def statistics(self, *, worker_attributes: bool = False) -> tuple[str, ...]:
        return self._inner.statistics(worker_attributes=worker_attributes)

    def tail(self, cell: eree.Cell, distance: int, side: int) -> arb:
        return self._inner.tail(cell, distance, side)

    def draw_outputs(self, counts: Integers, largests: Integers, random: Any) -> Integers:
        return self._inner.draw_outputs(counts, largests, random)

    def mean_error(self, cell: eree.Cell) -> tuple[float, float]:
        return self._inner.mean_error(cell)

    def certify(self) -> Certificate:
        return self._inner.certify()


@pytest.fixture
def borrowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mechanism]:
    monkeypatch.setattr(registry, "_OWN", {})
    eree.register(Borrowed)
    yield eree.mechanism("borrowed", alpha="0.1", epsilon=2)


def test_what_follows_from_the_contract_is_what_ours_have(borrowed: Mechanism) -> None:
    ours = eree.mechanism("smooth-pareto", alpha="0.1", epsilon=2)
    for cell in (eree.Cell(0), eree.Cell(7), eree.Cell(300, 120)):
        for output in (-4, 0, 7, 290, 10**6):
            assert borrowed.log_pmf(cell, output) == ours.log_pmf(cell, output)
        assert borrowed.expected_error(cell) == ours.expected_error(cell)
    sizes = np.array([0, 1, 5, 12, 40, 200, 5_000, 10**6])
    for level in (0.5, 0.9, 0.99):
        widths, known = borrowed.half_width(level, sizes), ours.half_width(level, sizes)
        for size, width in zip(sizes.tolist(), widths.tolist(), strict=True):
            assert width >= ours.quantile(level, eree.Cell(size))
        assert (widths <= 1.05 * known + 2).all()
    errors = borrowed.mean_errors(sizes, sizes)
    assert errors == pytest.approx([ours.mean_error(eree.Cell(int(n)))[0] for n in sizes], rel=1e-3)


@pytest.mark.parametrize(("count", "largest"), [(0, 0), (9, 3), (40, 40), (3_000, 40)])
def test_intervals_that_follow_from_the_contract_cover(
    borrowed: Mechanism, count: int, largest: int
) -> None:
    n, level = 20_000, 0.9
    random = eree.SeededRandom(count)
    noisy = borrowed.draw(np.full(n, count), np.full(n, largest), random=random)
    low, high = borrowed.interval(noisy, level)
    covered = (low <= count) & ((high == UNBOUNDED) | (count <= high))
    shown = stats.binomtest(int(covered.sum()), n, level, alternative="less").pvalue
    assert shown > FALSE_ALARM


def test_intervals_of_worker_cells_follow_too(borrowed: Mechanism) -> None:
    n, level, counts = 4_000, 0.9, np.array([30, 5, 0, 65])
    groups, totals = np.tile(counts, (n, 1)), np.full((n, 4), 100)
    noisy = borrowed.draw(groups, totals, random=eree.SeededRandom(3))
    low, high = borrowed.interval(noisy, level, by_total=True)
    covered = (low <= counts) & ((high == UNBOUNDED) | (counts <= high))
    for one in covered.T:
        shown = stats.binomtest(int(one.sum()), n, level, alternative="less").pvalue
        assert shown > FALSE_ALARM


def test_its_certificate_is_never_taken_from_the_cache(borrowed: Mechanism) -> None:
    for _ in range(2):
        found, computed = certificate_of(borrowed)
        assert computed and found.holds


@pytest.mark.parametrize("name", ["auto", "Two Words", "", "smooth-pareto", None])
def test_names_that_cannot_be_are_refused(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OWN", {})
    with pytest.raises(eree.Refusal, match="name"):
        eree.register(type("Other", (Borrowed,), {"name": name}))
    assert registry.own_mechanisms() == ()


def test_half_a_mechanism_is_refused() -> None:
    class Half(Mechanism):
        name = "half"

    with pytest.raises(eree.Refusal, match="Half lacks calibrate, certify, draw_outputs"):
        eree.register(Half)
    for other in (int, "half", type("Named", (), {"name": "named"})):
        with pytest.raises(eree.Refusal, match=r"keeps the contract of eree\.Mechanism"):
            eree.register(other)  # type: ignore[arg-type]
    for wrong, why in (
        ({"together": True}, "must be a VectorMechanism"),
        ({"first_stage": property(lambda self: self)}, "a first stage of its own"),
    ):
        with pytest.raises(eree.Refusal, match=why):
            eree.register(type("Odd", (Borrowed,), {"name": "odd", **wrong}))


@pytest.mark.usefixtures("borrowed")
def test_two_mechanisms_have_no_name_in_common() -> None:
    eree.register(Borrowed)  # the same class again, as in a notebook
    with pytest.raises(eree.Refusal, match="there is a mechanism named 'borrowed'"):
        eree.register(type("Another", (Borrowed,), {}))


@dataclass(frozen=True)
class Greedy(Borrowed):
    """It keeps another guarantee than the one it is asked for."""

    name = "greedy"

    @classmethod
    def calibrate(cls, guarantee: eree.Guarantee) -> Greedy:
        return cls(eree.Guarantee(guarantee.neighbours, 100 * guarantee.epsilon))


@dataclass(frozen=True)
class Misplaced(Borrowed):
    """It is for edge neighbours, and does not look at which ones it gets."""

    name = "misplaced"

    @classmethod
    def relation(cls, _alpha: object) -> Any:
        return eree.EDGE


@dataclass(frozen=True)
class Certified(Borrowed):
    """It shows the certificate of another mechanism."""

    name = "certified"


@pytest.mark.usefixtures("borrowed")
def test_a_claim_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    for kind in (Greedy, Misplaced, Certified):
        eree.register(kind)
    eree_study.synthesize(tmp_path / "data", jobs=2_000, seed=1)
    refused = {
        "greedy": "calibrated to another guarantee than was asked for",
        "misplaced": "misplaced is for edge neighbours",
    }
    strong = PLAN.replace('"node"', '"strong"\nalpha = "0.1"').replace(
        "parameters = { theta = 50 }", ""
    )
    for name, why in refused.items():
        text = strong.replace("truncated-geometric", name)
        (tmp_path / "plan.toml").write_text(text, "utf-8")
        with pytest.raises(eree.Refusal, match=why):
            eree.Plan.read(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text(strong.replace("truncated-geometric", "certified"), "utf-8")
    plan, tables = eree.Plan.read(tmp_path / "plan.toml"), eree.load(tmp_path / "data")
    total = eree.Guarantee(eree.Strong("0.1"), 1)
    ledger = eree.Ledger.create(tmp_path / "ledger.db", total, data_set=plan.schema.data_set)
    release = eree.publish(plan, tables, ledger=ledger, out=tmp_path / "out")
    found = eree.verify(release, ledger=ledger)
    assert any("certified has another's certificate" in str(fault) for fault in found.faults)
    assert any("by their authors, not by eree: certified" in check for check in found.checks)


def test_defaults_are_right_for_noise_that_depends_on_the_count(borrowed: Mechanism) -> None:
    class ByCount(Borrowed):
        """Noise that grows with the count, and not with the largest workplace."""

        def mean_error(self, cell: eree.Cell) -> tuple[float, float]:
            return super().mean_error(eree.Cell(cell.count))

    made = ByCount(borrowed.guarantee)
    counts, largests = np.array([5_000, 10, 5_000]), np.array([10, 10, 10])
    expected = [made.mean_error(eree.Cell(int(n)))[0] for n in counts]
    assert made.mean_errors(counts, largests).tolist() == expected
    assert made.variance(5_000) == pytest.approx(made.mean_error(eree.Cell(5_000))[1] ** 2)


# ------------------------------------------------------------ an installed package, as on the page


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the mechanism of the page and its entry point."""
    folder = tmp_path_factory.mktemp("site")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    module, _, _ = blocks[0].partition("\neree.register(")
    (folder / "our_mechanisms.py").write_text(module, "utf-8")
    about = folder / "our_mechanisms-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: our-mechanisms\nVersion: 1\n")
    shown = r'^\[project\.entry-points\."(.*?)"\]\n(.*)\n'
    [points] = re.findall(shown, PAGE.read_text("utf-8"), re.MULTILINE)
    line = points[1].replace('"', "")
    (about / "entry_points.txt").write_text(f"[{points[0]}]\n{line}\n")
    return folder


def run(installed: Path, *arguments: str, cwd: Path) -> pages.Done:
    """A command in a process that begins with this folder of packages."""
    before = os.environ.get("PYTHONPATH")
    around = pages.environment() | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(installed), before)))
    }
    done = subprocess.run(
        [sys.executable, "-m", "eree", *arguments],
        cwd=cwd,
        env=around,
        capture_output=True,
        text=True,
    )
    return pages.Done(done.returncode, done.stdout, done.stderr)


def test_commands_know_the_mechanism_of_a_package(installed: Path, tmp_path: Path) -> None:
    eree_study.synthesize(tmp_path / "data", jobs=5_000, seed=1)
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    named = ["truncated-geometric", "--epsilon", "1", "--set", "theta=50", "--json"]
    certified = run(installed, "certify", *named, cwd=tmp_path)
    assert (certified.status, certified.err) == (0, "")
    assert json.loads(certified.out)["holds"]
    planned = run(installed, "plan", "plan.toml", cwd=tmp_path)
    assert planned.status == 0 and "truncated-geometric" in planned.out, planned
    ledger = ["--neighbours", "node", "--epsilon", "1"]
    for words in (
        ["ledger", "create", "ledger.db", *ledger],
        ["release", "plan.toml", "--out", "out", "--ledger", "ledger.db"],
        ["verify", "out", "--ledger", "ledger.db"],
    ):
        done = run(installed, *words, cwd=tmp_path)
        assert done.status == 0, (words, done)
    elsewhere = pages.command("verify", "out", cwd=tmp_path)
    assert elsewhere.status == 1, elsewhere
    assert "there is no mechanism named 'truncated-geometric'" in elsewhere.out + elsewhere.err


@pytest.mark.usefixtures("borrowed")
def test_the_study_lets_it_take_part(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    registry._entry_points.cache_clear()
    monkeypatch.setattr(registry, "_entry_points", registry._entry_points.__wrapped__)
    tables = eree.load(eree_study.synthesize(tmp_path / "data", jobs=5_000, seed=1))
    workload = WORKLOADS["workload-1"]
    cells = counted_for(tables, workload)
    found = {one.name: one for one in contenders(workload, 1, Fraction(1, 10), Fraction(2))}
    ours, own = (
        found[name].draw(cells, eree.SeededRandom(4)) for name in ("smooth-pareto", "borrowed")
    )
    assert own.tolist() == ours.tolist()
    assert "truncated-geometric" not in found
    [bounded] = [
        one
        for one in contenders(workload, 1, None, Fraction(2))
        if one.name == "truncated-geometric"
    ]
    expected = bounded.expected(cells)
    assert expected is not None
    errors = [
        np.abs(bounded.draw(cells, eree.SeededRandom(seed)) - cells.counts).mean()
        for seed in range(40)
    ]
    assert np.mean(errors) == pytest.approx(expected.mean(), abs=6 * np.std(errors) / 40**0.5)
