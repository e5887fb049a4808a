"""A synthetic town, counted."""

from __future__ import annotations

import pytest

import eree
import eree_study
from eree_study.papers.workloads import WORKLOADS, Counted, counted_for


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> eree.Tables:
    return eree.load(eree_study.synthesize(tmp_path_factory.mktemp("study") / "data", jobs=20_000))


@pytest.fixture(scope="session")
def places(town: eree.Tables) -> Counted:
    return counted_for(town, WORKLOADS["workload-1"])


@pytest.fixture(scope="session")
def people(town: eree.Tables) -> Counted:
    return counted_for(town, WORKLOADS["workload-3"])
