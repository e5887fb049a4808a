"""Sampling errors of a cube's records, beside the replicate weights that a generator wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import eree
import eree_study
from eree.survey.replicates import Replicates, Sampling

VARIABLES = ("education", "strength", "telework")
BOUNDS = {"most_weight": 2_000, "most_records": 3}


def test_successive_differences_are_those_of_the_generators_establishments(
    tmp_path: Path,
) -> None:
    """Without the replicate weights that it wrote, the same errors are found, in any table.

    Also with bounds, and with records of other establishments in between; not so by record.
    """
    eree_study.synthesize_survey(tmp_path / "made", establishments=300, replicates=80, seed=5)
    known = eree.read_survey(tmp_path / "made")
    blind = replace(known, replicates=None)
    bounds: list[dict[str, int]] = [{}, BOUNDS]
    for bound in bounds:
        cube = eree.build_cube(known, variables=VARIABLES, **bound)
        theirs, ours = Sampling.of(known, cube), Sampling.of(blind, cube)
        assert (theirs.given, ours.given) == (True, False)
        for by in ((), ("education",), ("telework", "strength")):
            one, other = theirs.standard_errors(by), ours.standard_errors(by)
            assert (one[one > 0] ** 2).size == (other > 0).sum()
            assert other**2 == pytest.approx(one**2, rel=1e-6)
    total = Sampling.of(known, eree.build_cube(known)).standard_errors(()) ** 2
    weights = known.weights / 1000
    record = Replicates.successive(weights).variance(lambda w: float(w.sum()))
    assert record / float(total) < 0.7
    second = np.argsort(  # all first records of establishments, then all second ones, …
        [known.establishments[:i].tolist().count(e) for i, e in enumerate(known.establishments)],
        kind="stable",
    )
    apart = replace(
        blind,
        answers={name: codes[second] for name, codes in known.answers.items()},
        weights=known.weights[second],
        establishments=known.establishments[second],
        ids=known.ids.take(second),
    )
    found = Sampling.of(apart, eree.build_cube(apart)).standard_errors(()) ** 2
    assert found == pytest.approx(total, rel=1e-6)
