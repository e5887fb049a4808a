"""Campaigns against releases: processes killed while they publish, and bytes changed one by one.

Run as a script, in a process that has no threads and so may fork:

    release_campaigns.py kill LEDGER DATA OUT KILLS SEED

DATA holds `tables.pickle` and `plan.pickle`, or `cube.pickle`: then cubes are protected.  It prints
what happened as one JSON object.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
from eree.budget.ledger import Ledger
from eree.release import publish as module
from eree.release.record import file_digest
from eree.release.release import Release
from eree.release.signature import Signer
from eree.survey.guaranteed import Guaranteed
from eree.survey.protect import protect_cube
from ledger_campaigns import forked, heard, say
from offices import TOTAL, settings
from small_cubes import count, shape, survey

#: A kill comes at a random moment of the first this many seconds of a process.
LIFETIME = 0.8
#: The digests of every release are checked at the end, and one in so many is verified in full.
VERIFIED = 50


def publishing(ledger: str, data: Path, out: Path, kill: int, tell: int) -> None:
    """Publish until somebody stops it; tells before every draw, and after every release."""
    if (data / "cube.pickle").exists():
        protecting(ledger, data, out, kill, tell)
    tables, plan = (
        pickle.loads((data / f"{name}.pickle").read_bytes()) for name in ("tables", "plan")
    )
    stream = module.stream

    def watched(*given: Any, **named: Any) -> Any:
        say(tell, "draw")
        return stream(*given, **named)

    module.stream = watched
    book, number = Ledger.open(ledger), 0
    while True:
        number += 1
        module.publish(plan, tables, ledger=book, out=out / f"{kill}-{number}")
        say(tell, "released", f"{kill}-{number}")


def protecting(ledger: str, data: Path, out: Path, kill: int, tell: int) -> None:
    """The same with cubes."""
    cube = pickle.loads((data / "cube.pickle").read_bytes())
    drawn = Guaranteed.draw

    def watched(*given: Any) -> Any:
        say(tell, "draw")
        return drawn(*given)

    Guaranteed.draw = watched
    book, number = Ledger.open(ledger), 0
    while True:
        number += 1
        name = f"{kill}-{number}"
        protect_cube(cube, epsilon="1/10", ledger=book, out=out / name, controls=[("a",)])
        say(tell, "released", name)


def kill(ledger: str, data: Path, out: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill that many processes, and look at what they left."""
    rng = random.Random(seed)
    book = Ledger.open(ledger)
    draws = unpaid = unsound = told = reserved = 0
    per_release = 1
    if not (data / "cube.pickle").exists():
        per_release = len(pickle.loads((data / "plan.pickle").read_bytes()).tables)
    for number in range(kills):
        child, listen = forked(
            lambda tell, number=number: publishing(ledger, data, out, number, tell)
        )
        time.sleep(rng.uniform(0, LIFETIME))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        words = heard(listen)
        drawn = sum(word[0] == "draw" for word in words)
        draws += drawn
        told += sum(word[0] == "released" for word in words)
        unsound += len(book.verify())
        before, reserved = reserved, sum(entry.kind == "reserve" for entry in book.entries())
        unpaid += max(0, drawn - per_release * (reserved - before))
    account = book.account()
    paid = {entry.hash for entry in account.entries if entry.kind == "reserve"}
    folders = sorted(path for path in out.iterdir() if not path.name.startswith("."))
    broken, digests = 0, set()
    for i, folder in enumerate(folders):
        release = Release.open(folder)
        record = release.record
        digests.add(record["digest"])
        files = {f: d for table in record["tables"] for f, d in table["files"].items()}
        whole = all(file_digest(folder / file) == digest for file, digest in files.items())
        sound = i % VERIFIED or eree.verify(release, ledger=book).sound
        broken += not whole or not sound or record["ledger"]["hash"] not in paid
    return {
        "kills": kills,
        "draws": draws,
        "reserved": len(paid),
        "released": len(folders),
        "told": told,
        "charged_but_not_released": len(paid) - len(folders),
        "draws_without_payment": unpaid,
        "faulty_ledgers": unsound,
        "broken_releases": broken,
        "settled_but_not_released": len(set(account.settled.values()) - digests),
        "partial_folders": sum(path.name.startswith(".") for path in out.iterdir()),
    }


def campaign(ledger: str, folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill some releases in a process of their own."""
    data = eree.synthesize(folder / "data", jobs=1_000)
    plan = eree.Plan.of(settings(data))
    (data / "tables.pickle").write_bytes(pickle.dumps(eree.load(data)))
    (data / "plan.pickle").write_bytes(pickle.dumps(plan))
    eree.Ledger.create(ledger, eree.Guarantee(eree.Strong("0.1"), 10**6), data_set="town")
    return _killed(ledger, data, folder, kills, seed)


def cube_campaign(ledger: str, folder: Path, kills: int, seed: int) -> dict[str, int]:
    """The same with cubes."""
    of = shape(6, 5, 4, 3, 2)
    cube = count(survey(1, of, 300), of, 2_000_000)
    data = folder / "data"
    data.mkdir()
    (data / "cube.pickle").write_bytes(pickle.dumps(cube))
    eree.Ledger.create(ledger, eree.Guarantee(eree.RECORD, 10**6), data_set="survey")
    return _killed(ledger, data, folder, kills, seed)


def _killed(ledger: str, data: Path, folder: Path, kills: int, seed: int) -> dict[str, int]:
    out = folder / "out"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, __file__, "kill", ledger, data, out, str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def signed_release(folder: Path) -> Path:
    """A small release with a signature, paid from a ledger beside it."""
    data = eree.synthesize(folder / "data", jobs=1_000)
    ledger = Ledger.create(folder / "ledger.db", TOTAL, data_set="town")
    signer = Signer(Ed25519PrivateKey.generate())
    plan, tables = eree.Plan.of(settings(data)), eree.load(data)
    return module.publish(plan, tables, ledger=ledger, out=folder / "out", signer=signer).folder


def change_bytes(release: Path, seed: int, changes: int | None = None) -> dict[str, int]:
    """Change one byte of one file at a time, and put it back; is every change found?

    So many bytes of random files, or every byte once.  Some changes leave no record to be opened;
    all others must be found by the digests and the signature alone: nothing is certified or
    believed before they hold.
    """
    chance = random.Random(seed)
    files = {path: path.read_bytes() for path in sorted(release.rglob("*")) if path.is_file()}
    counted = {"changes": 0, "found": 0, "refused": 0, "unseen": 0, "believed": 0}
    every = [(path, at) for path, whole in files.items() for at in range(len(whole))]
    some = [chance.choice(list(files)) for _ in range(changes or 0)]
    places = every if changes is None else [(p, chance.randrange(len(files[p]))) for p in some]
    for path, at in places:
        whole = files[path]
        alike = {*b"\r\n\t ", whole[at] ^ 32, whole[at] ^ 1}  # a reader may take one for another
        new = chance.choice(sorted(chance.choice([alike, {*range(256)}]) - {whole[at]}))
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
    _, _, place, data, out, kills, seed = sys.argv
    found = kill(place, Path(data), Path(out), int(kills), int(seed))
    print(json.dumps(found))
