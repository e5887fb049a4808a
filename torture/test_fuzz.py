"""A hundred thousand changed inputs over all commands: each is done, found faulty or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz_office import make_office
from fuzzing import KINDS, TROUBLES, Fuzz
from shared import made_once
from torture.figures import Figures

#: More where an input takes milliseconds, fewer where it opens a query engine or draws pictures.
INPUTS = {
    "schema": 5_000,
    "plan": 12_000,
    "survey": 12_000,
    "linked-csv": 3_000,
    "linked-parquet": 3_000,
    "microdata": 15_000,
    "cube-file": 9_000,
    "release-record": 9_000,
    "release-tables": 6_000,
    "protected-cube": 7_700,
    "ledger": 5_000,
    "map": 4_000,
    "small-files": 5_000,
    "study": 300,
    "arguments": 4_000,
}
assert INPUTS.keys() == KINDS.keys() and sum(INPUTS.values()) == 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_every_changed_input_ends_in_words(
    kind: str, figures: Figures, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fuzz = Fuzz(made_once(tmp_path_factory, "office", make_office), tmp_path)
    figures |= fuzz.run(kind, range(INPUTS[kind]))
    assert not fuzz.failed, "\n".join(fuzz.failed[:20])
    assert [figures[trouble] for trouble in TROUBLES] == [0] * len(TROUBLES)
    assert figures["inputs"] == figures["done"] + figures["found_faulty"] + figures["refused"]
