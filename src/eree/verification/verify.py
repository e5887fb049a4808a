"""Recheck whatever a release is of."""

from __future__ import annotations

import os
from collections.abc import Iterable

from eree.budget.given import given_ledger
from eree.budget.ledger import Ledger
from eree.errors import Refusal
from eree.release.release import Release, opening
from eree.survey.files import KIND
from eree.verification.cubes import CubeRecheck
from eree.verification.recheck import Progress, Verification
from eree.verification.tables import TableRecheck


@opening
def verify(
    release: Release,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    public_key: str | None = None,
    sizes: Iterable[Release] = (),
    progress: Progress | None = None,
) -> Verification:
    """Recheck a release, of tables or of a cube.

    `public_key`, in hexadecimal digits, is the one that its signature must be made with; `ledger`
    is the one that it must have been paid from.  `sizes` are the releases that strata of its
    workplaces were made of; the strata are made again from them.

    Args:
        release: A release, or the name of its folder.
        ledger: The ledger that it must have been paid from, or where it is kept.
        public_key: The key that it must be signed with, in hexadecimal digits.
        sizes: The releases that strata of its workplaces were made of.
        progress: Called with a step and the share that is done.

    Examples:
        >>> eree.verify("out", ledger="ledger.db").sound
        True
    """
    tell, sizes = progress or (lambda _step, _done: None), tuple(sizes)
    if release.record.get("kind") != KIND:
        return TableRecheck(release, tell, sizes).all(given_ledger(ledger), public_key)
    if sizes:
        raise Refusal("a cube has no strata of workplaces; leave --size-release out")
    return CubeRecheck(release, tell).all(given_ledger(ledger), public_key)
