"""Digests of what a change of the code's shape must leave alone: draws, certificates, the study.

`golden.json` has them as they were before the mechanisms moved into their folders; both files go
when the default mechanism changes.  From the folder of a study of `STUDY` it is written by
`PYTHONPATH=src:tests python -m golden FOLDER`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from eree.mechanisms.mechanism import Mechanism
from eree.mechanisms.registry import MECHANISMS, VECTOR_MECHANISMS, mechanism
from eree.mechanisms.vector.vector import VectorMechanism
from eree.random.source import SeededRandom
from eree_study.papers.study import Results

FILE = Path(__file__).with_suffix(".json")
NAMES = (*MECHANISMS, *VECTOR_MECHANISMS)
DRAWS = 1_000_000
#: No more than are tried together, so that the order of tries does not matter.
AT_ONCE = 16_000
STUDY = {"jobs": 20_000, "trials": 2}
#: Cells of a group, for mechanisms of groups.
CELLS = 4


def kept(what: str) -> dict[str, str]:
    """What was written down of draws, certificates or the study."""
    found: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8"))[what]
    return found


def drawn(name: str) -> str:
    """The digest of seeded draws in cells of all sizes, most of them small."""
    chosen = _chosen(name)
    sizes = np.random.Generator(np.random.PCG64(5))
    largests = np.minimum(sizes.pareto(0.8, DRAWS) * 3, 1e6).astype(np.int64)
    counts = largests + np.minimum(sizes.pareto(0.9, DRAWS) * 2, 1e6).astype(np.int64)
    if isinstance(chosen, VectorMechanism):
        counts, largests = counts.reshape(-1, CELLS), largests[::CELLS] + 1
    random = SeededRandom(11)
    outputs = [
        chosen.draw(
            counts[start : start + AT_ONCE], largests[start : start + AT_ONCE], random=random
        )
        for start in range(0, len(counts), AT_ONCE)
    ]
    return _digest(np.concatenate(outputs).astype("<i8").tobytes())


def certified(name: str) -> str:
    """The digest of what a certificate found; which of several equal pairs is shown may differ."""
    found = _chosen(name).certify()
    *words, _pair = found.words()
    return _digest("\n".join([*words, f"{found.worst_pair.loss:.7g}"]).encode())


def studied(folder: Path) -> dict[str, str]:
    """For each contender of each workload, the digest of its figures to nine digits.

    Without those that were not there when the file was written.
    """
    texts = defaultdict(list)
    for row in Results.read(folder).rows:
        if row.measure.startswith(("l2", "relative")) or row.mechanism == "slides-gamma":
            continue
        place = f"{row.alpha} {row.epsilon} {row.stratum} {row.measure}"
        texts[f"{row.workload} {row.mechanism}"].append(f"{place} {row.value:.9g}")
    return {name: _digest("\n".join(lines).encode()) for name, lines in sorted(texts.items())}


def _chosen(name: str) -> Mechanism:
    cells = {"cells": CELLS} if name in VECTOR_MECHANISMS else {}
    return mechanism(name, alpha="0.1", epsilon="2", **cells)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    found = {
        "draws": {name: drawn(name) for name in NAMES},
        "certificates": {name: certified(name) for name in NAMES},
        "study": studied(Path(sys.argv[1])),
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
