"""Tests that share what takes long to make are run by one worker."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("workers")
@pytest.mark.parametrize("number", range(6))
def test_tests_of_a_group_are_run_by_one_worker(
    number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent
    (top / f"worker-{os.getpid()}").touch()
    assert len(list(top.glob("worker-*"))) == 1
