"""A ledger as functions take it: itself, or where it is kept."""

from __future__ import annotations

import os

from eree.budget.ledger import Ledger
from eree.errors import expect


def given_ledger(ledger: Ledger | str | os.PathLike[str] | None) -> Ledger | None:
    """The ledger that is given, or kept at a place; none where none is."""
    if isinstance(ledger, (str, os.PathLike)):
        return Ledger.open(ledger)
    if ledger is not None:
        expect(ledger, Ledger, "a ledger, or where it is kept")
    return ledger
