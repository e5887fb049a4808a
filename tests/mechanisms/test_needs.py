"""A refusal that names a price names one that is accepted, and hardly more than the least."""

from __future__ import annotations

import re
from fractions import Fraction
from math import log1p
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eree.errors import Refusal
from eree.mechanisms.parameters import TooLittle
from eree.mechanisms.registry import (
    AUTO,
    MECHANISMS,
    VECTOR_MECHANISMS,
    automatic_vector,
    calibrate,
)
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import EDGE, NODE, Neighbours, Strong, Weak
from selection import examples

#: What is named may be more than the least that works by this share, because it has four digits.
CLOSE = Fraction(2, 1000)
#: Calibrating it takes a while; it has cases of its own.
SLOW = "leaning-staircase"
NAMES = sorted({*MECHANISMS, *VECTOR_MECHANISMS, AUTO, "auto-vector"} - {SLOW})
AIMS = ("plain", "unbiased", "absolute", "squares")

alphas = st.sampled_from(["1e-6", "0.001", "0.037", "0.1", "0.31", "1", "7.5", "997"])
#: Prices from far below to a little above ln(1 + alpha), as shares of it.
shares = st.sampled_from(
    ["0.01", "0.3", "0.999", "1", "1.0005", "1.5", "2", "2.001", "3", "5", "9"]
)
deltas = st.sampled_from(["0", "1e-300", "1e-60", "1e-12", "0.0001", "0.01", "0.3", "0.9", "0.99"])


def made(name: str, guarantee: Guarantee, cells: int, parameters: dict[str, Any]) -> object:
    if name == "auto-vector":
        return automatic_vector(guarantee, cells)
    if name in VECTOR_MECHANISMS:
        parameters = {**parameters, "cells": cells}
    return calibrate(name, guarantee, parameters)


def relation_of(name: str, alpha: str) -> Neighbours:
    if name == "truncated-laplace":
        return NODE
    if name in ("edge-geometric", "capped-laplace"):
        return EDGE
    return Weak(alpha, ["sex"]) if name.startswith("knorm") else Strong(alpha)


def named(refusal: Refusal) -> dict[str, Fraction]:
    """The prices that the words of a refusal name."""
    found = re.findall(r"(delta|epsilon) of ([0-9.e-]+) or more", str(refusal))
    return {what: Fraction(number) for what, number in found}


def check(name: str, price: Guarantee, cells: int = 1, **parameters: Any) -> TooLittle | None:
    """Take a refusal at its word."""
    try:
        made(name, price, cells, parameters)
    except TooLittle as refusal:
        little = refusal
    except Refusal as refusal:
        assert not named(refusal)
        return None
    else:
        return None
    values = named(little)
    assert values or "cannot be had" in str(little)
    for what, value in values.items():
        tried = {"epsilon": price.epsilon, "delta": price.delta}
        enough = Guarantee(price.neighbours, **tried | {what: value})
        made(name, enough, cells, parameters)  # accepted
        less = Guarantee(price.neighbours, **tried | {what: value * (1 - CLOSE)})
        with pytest.raises(Refusal):
            made(name, less, cells, parameters)
    return little


@examples(100, torture=1_000)
@given(st.sampled_from(NAMES), alphas, shares, deltas, st.integers(1, 24), st.sampled_from(AIMS))
@example("vector-radial", "0.1", "21", "0", 21, "plain")
@example("smooth-laplace", "0.1", "5.246", "0", 1, "plain")
@example("smooth-laplace-exact", "0.1", "1.00000001", "0.01", 1, "plain")
@example("log-laplace-tight", "0.1", "1.0000001", "0", 1, "absolute")
@example("log-laplace-tight", "0.1", "2.0000001", "0", 1, "squares")
def test_what_a_refusal_names_is_accepted_and_nearly_the_least(
    name: str, alpha: str, share: str, delta: str, cells: int, aim: str
) -> None:
    relation = relation_of(name, alpha)
    step = Fraction(log1p(float(alpha))).limit_denominator(10**12)
    epsilon = min(max(Fraction(share) * step, Fraction(1, 10**6)), Fraction(500))
    own: dict[str, Any] = {"aim": aim} if name == "log-laplace-tight" else {}
    if name == "capped-laplace":
        own = {"cap": cells}
    check(name, Guarantee(relation, epsilon, delta), cells, **own)


@pytest.mark.parametrize("alpha", ["0.001", "0.037", "0.1", "0.163", "0.31", "0.5"])
def test_what_the_staircase_names_is_accepted(alpha: str) -> None:
    for epsilon in ("0.2", "0.75", "1.2"):
        check(SLOW, Guarantee(Strong(alpha), epsilon))


def test_the_audited_refusals_name_what_works() -> None:
    """21 worker cells: 2.004 was needed where "above 2.002" was said."""
    little = check("vector-radial", Guarantee(Strong("0.1"), "2.002"), 21)
    assert little is not None
    assert named(little) == {"epsilon": Fraction("2.004")}
    few = check("auto", Guarantee(Strong("0.1"), "0.09"))
    assert few is not None and few.name == "radial"  # the one that needs least


def test_nothing_is_named_where_nothing_works() -> None:
    """A share of a hundredth would need 690 for both stages; no mechanism takes more than 500."""
    little = check("two-stage-clip", Guarantee(Strong("997"), "4"), share="1/100")
    assert little is not None
    assert str(little).startswith("two-stage-clip cannot be had at this price or any other for a")
