"""Draws and certificates stay what they were while the code changes its shape."""

from __future__ import annotations

import pytest

from golden import NAMES, certified, drawn, kept


@pytest.mark.parametrize("name", NAMES)
def test_a_million_seeded_draws_are_the_same(name: str) -> None:
    assert drawn(name) == kept("draws")[name]


@pytest.mark.parametrize("name", NAMES)
def test_certificates_say_the_same(name: str) -> None:
    assert certified(name) == kept("certificates")[name]
