"""Processes that race for the last cent, processes that are killed, and a server that dies.

`make torture` runs the same campaigns at length.
"""

from __future__ import annotations

import eree
from ledgers import Place, PostgresServer, kill, made, race, spend


def test_eight_processes_together_get_exactly_the_cap(place: Place) -> None:
    assert race(place, races=1, attempts=400, cap=100) == 400


def test_whatever_was_reported_before_a_kill_is_in_the_ledger(place: Place) -> None:
    kills = 10 if place().startswith("postgresql:") else 30
    assert kill(place, kills, seed=1)["kills"] == kills


def test_what_a_server_confirmed_survives_its_sudden_end(postgres: PostgresServer) -> None:
    where = postgres.new_place()
    ledger = made(where, "10")
    for i in range(3):
        reserved = [spend(ledger, "1/2", f"release {i}-{j}") for j in range(3)]
        postgres.stop("immediate")
        postgres.start()
        assert eree.Ledger.open(where).verify(against=reserved) == ()
    assert ledger.spent().epsilon * 2 == 9
