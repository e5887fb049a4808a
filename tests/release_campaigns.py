"""Campaigns against releases: processes killed while they publish, and bytes changed one by one.

Run as a script, in a process that has no threads of its own and so may fork:

    release_campaigns.py anywhere DATA OUT KILLS SEED LEDGER…
    release_campaigns.py settling DATA OUT LANDINGS SEED LEDGER…

`anywhere` kills at random moments; `settling` between the appearance of a release and the settling
of its reservation, until so many kills have landed there.  DATA holds `tables.pickle` and
`plan.pickle`, or `cube.pickle`: then cubes are protected.  The ledgers are new, and each gets an
equal share of the kills, because a long ledger is slow to read.  What happened is printed as one
JSON object.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
import eree_study
from eree.budget.account import Account
from eree.budget.entries import Reserved
from eree.budget.ledger import Ledger
from eree.release import publish as module
from eree.release.record import digest_of, file_digest
from eree.release.release import Release
from eree.release.signature import Signer
from eree.survey.modes import Guaranteed
from eree.survey.protect import protect_cube
from ledger_campaigns import forked, heard, say
from offices import TOTAL, settings, table
from small_cubes import count, shape, survey

if TYPE_CHECKING:
    from ledgers import Place

How = Literal["anywhere", "settling"]
What = Literal["release", "cube"]
Figures = dict[str, int]
#: A kill at a random moment comes while a process makes its first so many releases.
LIFETIME = 2
#: The digests of every release are checked, and one release in so many is verified in full.
VERIFIED = 50
#: A process that has not let its release appear after so many seconds never will.
PATIENCE = 120
#: Of so many kills meant for the window, at least one must land there, or the campaign ends.
MISSES = 4
#: Where a kill can land.
BEFORE = "before_a_reservation"
MAKING = "between_reservation_and_appearance"
APPEARED = "between_appearance_and_settling"
AFTER = "after_settling"


# --------------------------------------------------------------------------------- what is killed


@dataclass(frozen=True)
class Work:
    """What a process does until it is killed: releases at one price each."""

    price: eree.Guarantee
    draws: int  # of one release
    release: Callable[[Ledger, Path], object]
    watch: Callable[[Callable[[], None]], None]  # calls what it is given before every draw


def work_on(data: Path) -> Work:
    """The work for some data."""
    if (data / "cube.pickle").exists():
        return protecting(pickle.loads((data / "cube.pickle").read_bytes()))
    tables, plan = (
        pickle.loads((data / f"{name}.pickle").read_bytes()) for name in ("tables", "plan")
    )
    return publishing(tables, plan)


def publishing(tables: Any, plan: eree.Plan) -> Work:
    """Releases of tables."""

    def watch(call: Callable[[], None]) -> None:
        stream = module.stream

        def watched(*given: Any, **named: Any) -> Any:
            call()
            return stream(*given, **named)

        module.stream = watched

    def release(ledger: Ledger, out: Path) -> None:
        module.publish(plan, tables, ledger=ledger, out=out)

    return Work(plan.price(), len(plan.tables), release, watch)


def protecting(cube: Any) -> Work:
    """The same with cubes."""
    price = eree.Guarantee(eree.RECORD, "1/10")

    def watch(call: Callable[[], None]) -> None:
        drawn = Guaranteed.draw

        def watched(*given: Any) -> Any:
            call()
            return drawn(*given)

        Guaranteed.draw = watched

    def release(ledger: Ledger, out: Path) -> None:
        protect_cube(cube, epsilon=price.epsilon, ledger=ledger, out=out, controls=[("a",)])

    return Work(price, 1, release, watch)


def without_end(work: Work, ledger: str, home: Path, tell: int) -> None:
    """Publish until somebody stops it; reports before every draw, and after every release."""
    work.watch(lambda: say(tell, "draw"))
    book = Ledger.open(ledger)
    for number in itertools.count(1):
        work.release(book, home / str(number))
        say(tell, "released")


def until_settled(work: Work, ledger: str, home: Path, tell: int) -> None:
    """Publish once, and wait; reports at the very moment when the release appears."""
    target, rename = home / "1", Path.rename

    def reported(self: Path, to: Path) -> Path:
        renamed = rename(self, to)
        if Path(to).name == target.name:
            say(tell, "appeared")
        return renamed

    Path.rename = reported
    work.release(Ledger.open(ledger), target)
    signal.pause()


# ----------------------------------------------------------------------------------- what is left


class Remains:
    """What is left of processes that were killed: a ledger, and the releases paid from it."""

    def __init__(self, work: Work, ledger: str, out: Path) -> None:
        self.work, self.book, self.out = work, Ledger.open(ledger), out
        self.paid: dict[str, int] = {}  # every reservation ever seen: its hash, and its number
        self.releases: list[Release] = []
        self.faults = dict.fromkeys(
            (
                "faulty_ledgers",
                "reservations_lost",
                "prices_not_counted_as_spent",
                "broken_releases",
                "releases_without_a_reservation",
                "settled_and_not_released",
                "believed_before_settled",
            ),
            0,
        )
        out.mkdir()

    def home(self, name: object) -> Path:
        """A folder for the releases of one process."""
        home = self.out / str(name)
        home.mkdir()
        return home

    def after(self, home: Path) -> tuple[str, int]:
        """Look at all that a process left; where it was stopped, and how many prices it reserved.

        A fault that stays is counted again after every process.
        """
        appeared = self._appeared(home)
        if self.book.verify(against=[release.reservation for release in self.releases]):
            self.faults["faulty_ledgers"] += 1
            return BEFORE, 0
        account = self.book.account()
        reserved = {
            entry.hash: entry.number for entry in account.entries if entry.kind == Reserved.kind
        }
        new = {reserved[paid]: paid for paid in reserved.keys() - self.paid.keys()}
        self.faults["reservations_lost"] += len(self.paid.keys() - reserved.keys())
        self.paid |= reserved
        self.faults["prices_not_counted_as_spent"] += not self._spent(account)
        self.faults["releases_without_a_reservation"] += len(appeared - reserved.keys())
        digests = {release.record["digest"] for release in self.releases}
        self.faults["settled_and_not_released"] += len(set(account.settled.values()) - digests)
        if not new:
            return BEFORE, 0
        last = max(new)
        if last in account.settled:
            return AFTER, len(new)
        return (APPEARED if new[last] in appeared else MAKING), len(new)

    def _appeared(self, home: Path) -> set[str]:
        """The reservations of all releases that a process let appear; each must be whole."""
        found = [Release.open(path) for path in home.iterdir() if not path.name.startswith(".")]
        self.faults["broken_releases"] += sum(not whole(release) for release in found)
        self.releases += found
        return {release.reservation.hash for release in found}

    def _spent(self, account: Account) -> bool:
        """Whether every price that was ever reserved counts, settled or not, to the last digit."""
        price, spent, left = self.work.price, account.spent, account.left
        known = price.epsilon * len(self.paid), price.delta * len(self.paid)
        rest = account.total.epsilon - left.epsilon, account.total.delta - left.delta
        return known == (spent.epsilon, spent.delta) == rest

    def figures(self) -> dict[str, int]:
        """All that was counted; some releases are verified in full now.

        Those that nobody settled are not believed until somebody does.
        """
        settled = self.book.account().settled
        waiting = [r for r in self.releases if r.reservation.number not in settled]
        for release in waiting[::VERIFIED]:
            found = eree.verify(release, ledger=self.book)
            told = ["was never settled" in fault.rule for fault in found.faults]
            self.faults["believed_before_settled"] += found.sound
            self.faults["broken_releases"] += told != [True]
        for release in waiting:
            self.book.settle(release.reservation, release.record["digest"])
        for release in (*self.releases[::VERIFIED], *waiting[::VERIFIED]):
            self.faults["broken_releases"] += not eree.verify(release, ledger=self.book).sound
        return {
            "reserved": len(self.paid),
            "released": len(self.releases),
            "settled_afterwards": len(waiting),
            "hidden_folders_left": len(list(self.out.glob("*/.*"))),
            **self.faults,
        }


def whole(release: Release) -> bool:
    """Whether a release has its record and all its files, by their digests."""
    record = release.record
    listed = [one for home in ("tables", "areas", "members") for one in record.get(home, ())]
    files = {f: d for one in listed for f, d in one["files"].items()}
    return digest_of(record) == record["digest"] and all(
        (release.folder / file).is_file() and file_digest(release.folder / file) == digest
        for file, digest in files.items()
    )


# ------------------------------------------------------------------------------------- the killing


def anywhere(work: Work, ledger: str, remains: Remains, kills: int, rng: random.Random) -> Figures:
    """Kill so many processes at random moments, one after the other."""
    counted = dict.fromkeys(("kills", "draws", "reported", "draws_without_payment"), 0)
    counted |= dict.fromkeys((BEFORE, MAKING, APPEARED, AFTER, "ended_early"), 0)
    pace = finish(work, ledger, remains, "first")
    for kill in range(kills):
        home = remains.home(kill)
        child, listen = forked(lambda tell, home=home: without_end(work, ledger, home, tell))
        time.sleep(rng.uniform(0, LIFETIME * pace))
        words = killed(child, listen, counted)
        landed, reserved = remains.after(home)
        drawn = words.count(["draw"])
        counted["draws"] += drawn
        counted["reported"] += words.count(["released"])
        counted["draws_without_payment"] += max(0, drawn - work.draws * reserved)
        counted[landed] += 1
    finish(work, ledger, remains, "last")
    return counted


def settling(work: Work, ledger: str, remains: Remains, kills: int, rng: random.Random) -> Figures:
    """Kill processes whose release has just appeared, until so many had not settled it yet.

    The longest wait follows the time that settling takes: a kill that came in time lets the next
    ones come later, and a kill that came too late lets them come sooner.
    """
    counted = dict.fromkeys(("kills", MAKING, APPEARED, AFTER, BEFORE, "ended_early"), 0)
    longest = 0.01
    while counted[APPEARED] < kills and counted["kills"] < MISSES * (counted[APPEARED] + 5):
        home = remains.home(counted["kills"])
        child, listen = forked(lambda tell, home=home: until_settled(work, ledger, home, tell))
        select.select([listen], [], [], PATIENCE)
        time.sleep(rng.uniform(0, longest))
        killed(child, listen, counted)
        landed, _ = remains.after(home)
        longest *= 1.1 if landed == APPEARED else 0.75
        counted[landed] += 1
    finish(work, ledger, remains, "last")
    return counted


def killed(child: int, listen: int, counted: Figures) -> list[list[Any]]:
    """Kill a process that must be at work; what it reported before."""
    os.kill(child, signal.SIGKILL)
    counted["ended_early"] += os.waitpid(child, 0)[1] != signal.SIGKILL
    counted["kills"] += 1
    return heard(listen)


def finish(work: Work, ledger: str, remains: Remains, name: str) -> float:
    """Let a process make a release that nobody stops; how many seconds it took."""
    home = remains.home(name)
    begin = time.monotonic()
    child, listen = forked(lambda _tell: work.release(Ledger.open(ledger), home / "1"))
    status = os.waitpid(child, 0)[1]
    seconds = time.monotonic() - begin
    os.close(listen)
    assert (status, remains.after(home)) == (0, (AFTER, 1)), "a release that nobody stopped failed"
    return seconds


def run(how: How, data: Path, out: Path, kills: int, seed: int, ledgers: list[str]) -> Figures:
    """A campaign over several ledgers, in a process that was warmed up before it forks."""
    work, rng, found = work_on(data), random.Random(seed), Counter[str]()
    remaining = []
    for number, ledger in enumerate(ledgers):
        remains = Remains(work, ledger, out / str(number))
        if not remaining:
            work.release(remains.book, remains.home("warm") / "1")
            remains.after(remains.out / "warm")
        share = kills // len(ledgers) + (number < kills % len(ledgers))
        found.update(
            {"anywhere": anywhere, "settling": settling}[how](work, ledger, remains, share, rng)
        )
        remaining.append(remains)
    for remains in remaining:  # verifying may start threads, and nothing is forked any more
        found.update(remains.figures())
    return dict(found)


def campaign(
    how: How,
    what: What,
    place: Place,
    folder: Path,
    kills: int,
    seed: int,
    *,
    at_a_time: int = 100,
) -> Figures:
    """Kill some releases or cubes in a process of their own; every figure that it counted."""
    data, out = folder / "data", folder / "out"
    if what == "release":
        eree_study.synthesize(data, jobs=1_000)
        # quick to prepare, and one table is enough where only its appearance matters
        tables = [
            table(name="sectors", by=["place", "sector"], epsilon="2", mechanism="smooth-pareto"),
            table(name="women", where={"sex": ["F"]}, mechanism="smooth-pareto"),
        ]
        plan = eree.Plan.of(settings(data, table=tables if how == "anywhere" else tables[1:]))
        (data / "tables.pickle").write_bytes(pickle.dumps(eree.load(data)))
        (data / "plan.pickle").write_bytes(pickle.dumps(plan))
    else:
        of = shape(6, 5, 4, 3, 2)
        data.mkdir()
        cube = count(survey(1, of, 300), of, 2_000_000)
        (data / "cube.pickle").write_bytes(pickle.dumps(cube))
    out.mkdir()
    relation = eree.Strong("0.1") if what == "release" else eree.RECORD
    ledgers = [place() for _ in range(-(-kills // at_a_time))]
    for ledger in ledgers:
        eree.Ledger.create(ledger, eree.Guarantee(relation, 10**6), data_set="data")
    done = subprocess.run(
        [sys.executable, __file__, how, data, out, str(kills), str(seed), *ledgers],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}"
    found: Figures = json.loads(done.stdout)
    return found


def assert_harmless(found: Figures) -> None:
    """Nothing that must never happen did, wherever the kills landed; prices stay spent."""
    never = {
        "ended_early",
        "draws_without_payment",
        "faulty_ledgers",
        "reservations_lost",
        "prices_not_counted_as_spent",
        "broken_releases",
        "releases_without_a_reservation",
        "settled_and_not_released",
        "believed_before_settled",
    }
    assert {name: found[name] for name in never & found.keys() if found[name]} == {}, found
    assert found["reserved"] >= found["released"] >= found.get("reported", 0)
    landed = [found[place] for place in (BEFORE, MAKING, APPEARED, AFTER)]
    assert sum(landed) == found["kills"], found


# -------------------------------------------------------------------------------- changed bytes


def signed_release(folder: Path) -> Path:
    """A small release with a signature, paid from a ledger beside it."""
    data = eree_study.synthesize(folder / "data", jobs=1_000)
    ledger = Ledger.create(folder / "ledger.db", TOTAL, data_set="data")
    signer = Signer(Ed25519PrivateKey.generate())
    plan, tables = eree.Plan.of(settings(data)), eree.load(data)
    return module.publish(plan, tables, ledger=ledger, out=folder / "out", signer=signer).folder


def change_bytes(release: Path, seed: int, changes: int | None = None) -> dict[str, int]:
    """Change one byte of one file at a time, and put it back; is every change found?

    So many bytes of random files, or every byte once.  Some changes leave no record to be opened;
    all others must be found by the digests and the signature alone: nothing is certified or
    believed before they hold.
    """
    rng = random.Random(seed)
    files = {path: path.read_bytes() for path in sorted(release.rglob("*")) if path.is_file()}
    counted = {"changes": 0, "found": 0, "refused": 0, "unseen": 0, "believed": 0}
    every = [(path, at) for path, whole in files.items() for at in range(len(whole))]
    some = [rng.choice(list(files)) for _ in range(changes or 0)]
    places = every if changes is None else [(p, rng.randrange(len(files[p]))) for p in some]
    for path, at in places:
        whole = files[path]
        alike = {*b"\r\n\t ", whole[at] ^ 32, whole[at] ^ 1}  # a reader may take one for another
        new = rng.choice(sorted(rng.choice([alike, {*range(256)}]) - {whole[at]}))
        path.write_bytes(whole[:at] + bytes([new]) + whole[at + 1 :])
        counted["changes"] += 1
        try:
            found = eree.verify(Release.open(release))
            counted["unseen" if found.sound else "found"] += 1
            counted["believed"] += any("certified" in check for check in found.checks)
        except eree.Unreadable:
            counted["refused"] += 1
        path.write_bytes(whole)
    return counted


if __name__ == "__main__":
    how, data, out, kills, seed, *ledgers = sys.argv[1:]
    print(json.dumps(run(how, Path(data), Path(out), int(kills), int(seed), ledgers)))
