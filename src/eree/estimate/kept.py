"""What was learnt of the noise of a table, as arrays that the user's cache folder keeps.

It follows from the files of a release and from the code alone, and takes long for a large one.  It
is kept under the digest of its content; the noise itself is that of its mechanism, and kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from eree.estimate.by_count import ByCount
from eree.estimate.calibration import Calibrated
from eree.estimate.evidence import CalibratedTable, Evidence, Fit
from eree.estimate.noise import noise_of_cells, noise_of_groups
from eree.estimate.quantiles import LEVELS
from eree.estimate.size_distribution import SizeDistribution
from eree.mechanisms.cache import Arrays, arrays_by_package
from eree.mechanisms.mechanism import Mechanism


def kept_table(
    what: str, mechanism: Mechanism, make: Callable[[], CalibratedTable | None]
) -> CalibratedTable | None:
    """The noise of a table that `what` names in full, from the cache or made now."""
    return _unpacked(arrays_by_package(what, lambda: _packed(make())), mechanism)


def _packed(made: CalibratedTable | None) -> Arrays:
    if made is None:
        return {}
    calibrated, own = made.calibrated, made.own
    everyone = np.arange(len(calibrated.points))
    for level in LEVELS:
        calibrated.cell_reach(level, everyone)
    about = {
        "attributes": made.sizes.attributes,
        "kinds": made.sizes.kinds,
        "cells": calibrated.cells,
        "widened": calibrated.widened,
        "fit": None if made.fit is None else asdict(made.fit),
        "sums": made.sums,
    }
    distinct, back = calibrated.distinct
    found: dict[str, Any] = {
        "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        "sizes.weights": made.sizes.weights,
        "sizes.shares": made.sizes.shares,
        "sizes.least": made.sizes.least,
        "points": calibrated.points,
        "noise": calibrated.noise.sizes,
    }
    found |= {f"reach.{level}": reach for level, reach in calibrated.reaches.items()}
    if calibrated.points.shape[1] > 1:  # of single classes it is found at once
        found |= {"distinct": distinct, "back": back}
    if made.sums:
        found["additive"] = calibrated.additive
    if made.beyond is not None:
        found["beyond"] = made.beyond
    if made.by_count is not None:
        found["classes"] = made.by_count.classes
    if own is not None:
        found |= {"own.workplaces": own.workplaces, "own.kinds": own.kinds}
        if own.noisy is not None and own.noise is not None:
            found["own.noisy"] = own.noisy
    return found


def _unpacked(found: Arrays, mechanism: Mechanism) -> CalibratedTable | None:
    if not found:
        return None
    about = json.loads(found["about"].tobytes())
    kinds = tuple(map(tuple, about["kinds"]))
    names = ("weights", "shares", "least")
    sizes = SizeDistribution(
        tuple(about["attributes"]), kinds, *(found[f"sizes.{name}"] for name in names)
    )
    beside = tuple(found["noise"].tolist())
    noise = noise_of_cells(mechanism, beside)
    calibrated = Calibrated(noise, found["points"], about["cells"], about["widened"])
    if "distinct" in found:
        calibrated.__dict__["distinct"] = found["distinct"], found["back"]
    if "additive" in found:
        calibrated.__dict__["additive"] = found["additive"]
    known = [level for level in LEVELS if f"reach.{level}" in found]
    reaches = {level: found[f"reach.{level}"] for level in known}
    calibrated.__dict__["reaches"] = reaches
    own = None
    if "own.kinds" in found:
        workplaces, of_kinds = found["own.workplaces"], found["own.kinds"]
        own = Evidence(workplaces, of_kinds)
        if "own.noisy" in found:
            of_groups = noise_of_groups(mechanism, beside, about["cells"])
            own = Evidence(workplaces, of_kinds, found["own.noisy"], of_groups)
    fit = None if about["fit"] is None else Fit(**about["fit"])
    by_count = ByCount.given(mechanism, found["classes"]) if "classes" in found else None
    beyond, sums = found.get("beyond"), about["sums"]
    return CalibratedTable(calibrated, sizes, own, beyond, fit, sums, by_count)
