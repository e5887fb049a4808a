"""Mechanisms by name: imported when they are named, and no sooner."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eree.mechanisms.registry import MECHANISMS, OF_MARGINALS, OF_WORKPLACES, VECTOR_MECHANISMS
from eree.mechanisms.registry import kind_of as mechanism_named

NAMES = (*MECHANISMS, *VECTOR_MECHANISMS, OF_MARGINALS, OF_WORKPLACES)


@pytest.mark.parametrize("name", NAMES)
def test_a_mechanism_has_the_name_that_it_stands_under(name: str) -> None:
    assert mechanism_named(name).name == name


def test_the_mappings_hold_their_names_alone() -> None:
    assert len(MECHANISMS) == len(list(MECHANISMS)) == 14
    assert "smooth-pareto" in MECHANISMS and "vector-mixture" not in MECHANISMS
    assert MECHANISMS.get("no-such") is None
    with pytest.raises(KeyError):
        VECTOR_MECHANISMS["smooth-pareto"]


def test_a_family_is_imported_when_it_is_named() -> None:
    script = """
import sys
import eree.release.publish
from eree.mechanisms.registry import mechanism
def families():
    modules = (name.split(".") for name in sys.modules if name.startswith("eree.mechanisms."))
    return sorted({parts[2] for parts in modules if len(parts) > 3 and parts[3] != parts[2]})
before = families()
mechanism("smooth-pareto", alpha="0.1", epsilon="2")
print(before, families())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["['transformed']", "['scaled',", "'transformed']"]
