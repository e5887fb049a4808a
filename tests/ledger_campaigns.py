"""Campaigns against a ledger: processes that race for its last cent, and processes that are killed.

Run as a script, in a process that has no threads and so may fork:

    ledger_campaigns.py race PLACE PROCESSES ATTEMPTS CAP [HEADS]
    ledger_campaigns.py kill PLACE KILLS SEED [HEADS]
    ledger_campaigns.py links PLACE ATTEMPTS
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eree.budget import stores
from eree.budget.ledger import Ledger
from eree.budget.reservation import Reservation
from eree.errors import Refusal
from eree.policy.guarantee import Guarantee
from eree.policy.neighbours import Strong
from eree.policy.protected import Protected

PROTECTS = Protected("campaign", {"workplace": "plant", "worker": "person"})
PRICE = Guarantee(Strong("0.1"), "1/10", "1/1000000")
#: A kill comes at a random moment after fewer than this many reservations of a process.
LIFETIME = 5
#: Where a kill can land.
BEFORE = "before_a_reservation"
BETWEEN = "between_reservation_and_settling"
AFTER = "after_settling"


def total(reservations: int) -> Guarantee:
    """Exactly so many prices."""
    return Guarantee(PRICE.neighbours, PRICE.epsilon * reservations, PRICE.delta * reservations)


def reserve(ledger: Ledger, release: str) -> Reservation:
    return ledger.reserve(PRICE, release=release, what={"table": "place"}, protects=PROTECTS)


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """A child that works and tells what it likes; its process id, and where to listen."""
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(listen)
            work(tell)
            status = 0
        finally:
            os._exit(status)
    os.close(tell)
    return child, listen


def heard(listen: int) -> list[list[Any]]:
    """All that a child told before its end; a line that it did not finish does not count."""
    with os.fdopen(listen, "rb") as pipe:
        return whole_lines(pipe.read())


def whole_lines(text: bytes) -> list[list[Any]]:
    return [json.loads(line) for line in text.rpartition(b"\n")[0].splitlines()]


def say(tell: int, *words: Any) -> None:
    os.write(tell, json.dumps(words).encode() + b"\n")


def race(
    where: str, processes: int, attempts: int, cap: int, heads: str | None = None
) -> dict[str, Any]:
    """Processes reserve at the same time from a ledger that has room for `cap` of them all."""
    stores.WAIT_SECONDS = 1_000  # on a busy machine the last one waits long
    ledger = Ledger.create(where, total(cap), data_set=PROTECTS.data_set, heads=heads)
    gate, open_gate = os.pipe()

    def runner(share: int) -> Callable[[int], None]:
        def work(tell: int) -> None:
            os.close(open_gate)
            os.read(gate, 1)  # nobody starts before all are there
            for i in range(share):
                try:
                    reserved = reserve(ledger, f"{os.getpid()}-{i}")
                    say(tell, "granted", reserved.number, reserved.hash)
                except Refusal as refusal:
                    say(tell, "refused", str(refusal))

        return work

    shares = [attempts // processes + (i < attempts % processes) for i in range(processes)]
    children = [forked(runner(share)) for share in shares]
    os.close(open_gate)
    told = [line for _, listen in children for line in heard(listen)]
    ended = [os.waitpid(child, 0)[1] for child, _ in children]
    os.close(gate)
    granted = {line[1]: line[2] for line in told if line[0] == "granted"}
    entries = {entry.number: entry.hash for entry in ledger.entries() if entry.kind == "reserve"}
    return {
        "attempts": len(told),
        "granted": sum(line[0] == "granted" for line in told),
        "as_told": granted == entries,
        "refusals": sorted({line[1] for line in told if line[0] == "refused"}),
        "faults": [str(fault) for fault in ledger.verify()],
        "left": str(ledger.left().epsilon),
        "failed": sum(status != 0 for status in ended),
    }


def links(where: str, attempts: int) -> dict[str, Any]:
    """Two processes reserve at the same time, each by a name of its own for the same file."""
    cap = attempts // 4
    first = Ledger.create(where, total(cap), data_set=PROTECTS.data_set)
    before = reserve(first, "before").number
    os.link(where, f"{where}-other")
    second = Ledger.open(f"{where}-other")

    def runner(ledger: Ledger) -> Callable[[int], None]:
        def work(tell: int) -> None:
            for i in range(attempts):
                try:
                    say(tell, "granted", reserve(ledger, f"{os.getpid()}-{i}").number)
                except Refusal as refusal:
                    say(tell, "refused", str(refusal))

        return work

    children = [forked(runner(ledger)) for ledger in (first, second)]
    told = [line for _, listen in children for line in heard(listen)]
    ended = [os.waitpid(child, 0)[1] for child, _ in children]
    Path(f"{where}-other").unlink()
    reserve(first, "after")
    return {
        "before": before,
        "entries": len(first.entries()),
        "granted": sum(line[0] == "granted" for line in told),
        "refused": sum("more than one name" in line[1] for line in told if line[0] == "refused"),
        "faults": [str(fault) for fault in first.verify()],
        "failed": sum(status != 0 for status in ended),
    }


def kill(where: str, kills: int, seed: int, heads: str | None = None) -> dict[str, Any]:
    """Kill a process that reserves and settles without pause, again and again.

    Is all that it reported still there, and where did the kills land?
    """
    rng = random.Random(seed)
    ledger = Ledger.create(where, total(10**5), data_set=PROTECTS.data_set, heads=heads)

    def spend(report: Callable[[int, str], None]) -> None:
        reserved = reserve(ledger, str(os.getpid()))
        report(reserved.number, reserved.hash)
        ledger.settle(reserved, "ab" * 32)

    def work(tell: int) -> None:
        while True:
            spend(lambda *reserved: say(tell, *reserved))

    reported: dict[int, str] = {}
    begin = time.monotonic()
    for _ in range(4):
        spend(reported.__setitem__)
    pace = (time.monotonic() - begin) / 4
    landed = dict.fromkeys((BEFORE, BETWEEN, AFTER), 0)
    lost, faults, ended_early, kept = 0, 0, 0, len(reported)
    for _ in range(kills):
        child, listen = forked(work)
        begun = b""
        for _ in range(rng.randrange(LIFETIME)):
            while (byte := os.read(listen, 1)) not in (b"\n", b""):
                begun += byte
            begun += byte
        time.sleep(rng.uniform(0, pace))
        os.kill(child, signal.SIGKILL)
        ended_early += os.waitpid(child, 0)[1] != signal.SIGKILL
        reported |= dict(whole_lines(begun)) | dict(heard(listen))
        faults += len(ledger.verify())
        account = ledger.account()
        entries = {entry.number: entry.hash for entry in account.entries}
        lost += sum(entries.get(number) != digest for number, digest in reported.items())
        reserved = [entry.number for entry in account.entries if entry.kind == "reserve"]
        settled = reserved[-1] in account.settled
        landed[BEFORE if len(reserved) == kept else AFTER if settled else BETWEEN] += 1
        kept = len(reserved)
    return {
        "kills": kills,
        **landed,
        "reported": len(reported),
        "reserved_and_not_reported": kept - len(reported),
        "lost": lost,
        "faults": faults,
        "ended_early": ended_early,
        "exact": ledger.spent().epsilon == PRICE.epsilon * kept,
    }


if __name__ == "__main__":
    name, place, *given = sys.argv[1:]
    numbers = [int(word) if word.isdigit() else word for word in given]
    found = {"race": race, "kill": kill, "links": links}[name](place, *numbers)
    sys.stdout.write(json.dumps(found))
