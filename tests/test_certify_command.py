"""`eree certify` as its user meets it, and the grid in the documentation against the code."""

from __future__ import annotations

import json

import pytest
from torture import grid_page

import eree
import pages
from eree.cli.exit_status import run as run_here
from eree.cli.interrupts import Interrupts
from eree.mechanisms.grid import ALPHAS, EPSILONS, certify_grid, grid_point
from eree.mechanisms.scaled.smooth_pareto import SmoothPareto
from test_cli import run

PAGE = pages.ROOT / "docs" / "certificates.md"


@pytest.mark.parametrize("name", eree.MECHANISMS)
def test_every_mechanism_can_be_certified_by_name(name: str) -> None:
    done = run("certify", name, "--alpha", "0.1", "--epsilon", "2", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["mechanism"] == name
    assert found["found_epsilon"] <= found["claimed_epsilon"] == 2
    assert found["found_delta"] <= found["claimed_delta"]
    assert found["worst_pair"]["loss"] > 0
    assert found["errors"]["1"]["mean_absolute"] > 0


@pytest.mark.parametrize("name", eree.VECTOR_MECHANISMS)
def test_every_vector_mechanism_can_be_certified_by_name(name: str) -> None:
    done = run("certify", name, "--alpha", "0.1", "--epsilon", "2", "--set", "cells=8", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["mechanism"] == name
    assert found["parameters"]["cells"] == "8"
    assert found["found_epsilon"] <= found["claimed_epsilon"] == 2
    assert found["worst_pair"]["loss"] > 0
    assert found["errors"]["1"]["mean_absolute"] > 0


def test_a_delta_and_parameters_are_taken() -> None:
    done = run("certify", "smooth-laplace", "--alpha", "0.1", "--epsilon", "2", "--delta", "3e-5")
    assert "claimed delta   3e-05, found 7.956e-07" in done.out
    done = run("certify", "truncated-laplace", "--epsilon", "1", "--set", "theta=50", "--json")
    found = json.loads(done.out)
    assert found["parameters"] == {"theta": "50"}
    assert found["found_epsilon"] == pytest.approx(0.98)
    done = run("certify", "log-laplace-tight", "--alpha", "0.1", "--epsilon", "2", "--set", "aim=x")
    assert done.err == "eree: aim must be plain, unbiased, absolute or squares\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a mechanism and an --epsilon, or ask for --all; there are smooth-pareto"),
        (("smooth-pareto",), "name a mechanism and an --epsilon"),
        (("smooth-pareto", "--epsilon", "2"), "smooth-pareto needs an alpha, such as '0.1'"),
        (("gauss", "--epsilon", "2", "--alpha", "0.1"), "there is no mechanism named 'gauss'"),
        (("radial", "--epsilon", "two", "--alpha", "0.1"), "epsilon must be a number, such as"),
        (("radial", "--epsilon", "2", "--alpha", "-1"), "alpha must be above 0"),
        (("radial", "--epsilon", "2", "--alpha", "0.1", "--set", "q"), "'q' is not a parameter"),
        (("radial", "--all"), "--all takes no mechanism and no parameters; leave them out"),
        (
            ("smooth-gamma", "--epsilon", "0.4", "--alpha", "0.1"),
            "smooth-gamma needs epsilon of 0.4771 or more (above 5 ln(1 + alpha)); raise it",
        ),
    ],
)
def test_what_cannot_be_certified_is_refused(arguments: tuple[str, ...], words: str) -> None:
    done = run("certify", *arguments)
    assert done.status == 2
    assert done.err.startswith(f"eree: {words}")
    assert done.err.count("\n") == 1


def test_a_claim_that_does_not_hold_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No registered mechanism fails, so one is broken on purpose: its claim is halved."""
    calibrate = SmoothPareto.calibrate

    def dishonest(guarantee: eree.Guarantee) -> SmoothPareto:
        sound = calibrate(guarantee)
        half = eree.Guarantee(guarantee.neighbours, guarantee.epsilon / 2)
        return SmoothPareto(half, sound.power, sound.slope)

    monkeypatch.setattr(SmoothPareto, "calibrate", dishonest)
    asked = ["certify", "smooth-pareto", "--alpha", "0.1", "--epsilon", "2"]
    assert run_here(asked, Interrupts()) == 1
    assert "the claim DOES NOT HOLD" in capsys.readouterr().out


def test_the_page_shows_the_grid_as_it_is() -> None:
    """A sample of its file: every mechanism at one point, and two mechanisms at others."""
    text = grid_page.GRID.read_text(encoding="utf-8")
    assert grid_page.shown(PAGE.read_text(encoding="utf-8")) == grid_page.table(text)
    shown = grid_page.rows(text)
    names = {name for name, _, _ in shown}
    assert names >= {"smooth-pareto", "log-laplace", "radial", "smooth-gamma"}
    assert len(shown) == len(names) * len(ALPHAS) * len(EPSILONS)
    for point in (
        *(grid_point(name, "0.1", "2") for name in names),
        *(grid_point("smooth-pareto", alpha, "0.5") for alpha in ("0.05", "0.2")),
        grid_point("smooth-gamma", "0.2", "0.5"),
    ):
        named = (point.mechanism, point.alpha, point.epsilon)
        assert (*named, *shown[named]) == grid_page.row(point)


def test_a_grid_is_the_same_on_two_processes() -> None:
    names, alphas, epsilons = ["log-laplace", "linlog"], ["0.1"], ["0.1", "2"]
    points = certify_grid(names, alphas, epsilons, processes=2)
    assert points == [
        grid_point(name, alpha, epsilon)
        for name in names
        for alpha in alphas
        for epsilon in epsilons
    ]
    assert [point.refusal is None for point in points] == [False, True, True, True]


def test_a_page_without_its_marks_shows_nothing() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert grid_page.shown(grid_page.replaced(page, "x\n")) == "x\n"
    assert grid_page.shown("no marks") == ""
