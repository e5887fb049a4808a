"""Check a release without eree: python check_release.py DIR [--key KEY.pem] [--ledger FILE]

Reads the folder, and the ledger if one is named: a SQLite file.  Needs Python's own library, and
`cryptography` for a signature.  Checks that nothing was changed; that noise has the distribution
that is claimed, that intervals are right and that prices add up is what `eree verify` checks.
Exit status: 0 nothing was changed, 1 something is wrong.
"""

import argparse
import base64
import hashlib
import json
import sqlite3
import sys
from pathlib import Path


def sha256(data):
    """The digest of plain data: JSON with sorted keys, no spaces, in ASCII."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def of_record(folder, record):
    """Faults of the record itself, and of the files that it names."""
    covered = {name: said for name, said in record.items() if name not in ("digest", "signature")}
    if record.get("digest") != sha256(covered):
        yield "release.json: the digest is not that of the record"
    if "rehearsal" in record:
        yield "release.json: it is a rehearsal, made of synthetic data, and no release"
    elif record.get("private") is not True:
        yield "release.json: it does not claim to be private"
    listed = {"release.json"}
    parts = [(home, one) for home in ("tables", "areas", "members") for one in record.get(home, ())]
    for home, part in parts:
        for name, digest in part["files"].items():
            listed.add(name)
            path = folder / name
            if path.parent != folder / home:
                yield f"{name}: lies outside the release"
            elif not path.is_file() or path.is_symlink():
                yield f"{name}: is missing"
            elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                yield f"{name}: was changed"
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        # estimates are made of the release by whoever likes, and are no part of it
        if path.is_file() and name not in listed and not name.startswith("estimates/"):
            yield f"{name}: is not part of the release"


def of_signature(record, key):
    """Faults of the signature, which must be made with the key in a PEM file, if one is given."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_public_key,
    )

    said = record.get("signature")
    if said is None:
        yield "release.json: it is not signed"
        return
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["public_key"]))
        public.verify(base64.b64decode(said["value"], validate=True), record["digest"].encode())
    except (InvalidSignature, KeyError, TypeError, ValueError):
        yield "release.json: the signature does not belong to the record"
        return
    if key is not None:
        wanted = load_pem_public_key(key.read_bytes()).public_bytes(Encoding.Raw, PublicFormat.Raw)
        if said["public_key"] != wanted.hex():
            yield "release.json: the signature is by another key"


def of_ledger(record, ledger):
    """Faults of the ledger's chain of hashes, and of the entry that paid."""
    paid, before, entries, settled = record.get("ledger", {}), "0" * 64, {}, {}
    with sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True) as opened:
        rows = opened.execute(
            "select number, kind, body, previous, hash from eree_ledger order by 1"
        )
        for expected, (number, kind, body, previous, digest) in enumerate(rows, start=1):
            text = [number, kind, body, previous]
            if number != expected or previous != before or digest != sha256(text):
                yield f"{ledger.name}: entry {number} does not follow from the one before"
                return
            entries[number], before, said = digest, digest, json.loads(body)
            if number == 1 and said["identity"] != paid.get("id"):
                yield f"{ledger.name}: is not the ledger that the release names"
            if kind == "settle":
                settled[said["reservation"]] = said["digest"]
    print(f"{ledger.name}: {len(entries)} entries, head {before}")
    if entries.get(paid.get("entry")) != paid.get("hash"):
        yield f"{ledger.name}: the entry that paid is not there"
    elif settled.get(paid["entry"]) != record["digest"]:
        yield f"{ledger.name}: the entry was not settled with this release"


def main():
    """Print every fault; the exit status says whether there was one."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--key", type=Path, help="the public key that must have signed it, in PEM")
    asked.add_argument("--ledger", type=Path, help="the ledger that must have paid for it")
    given = asked.parse_args()
    record = json.loads((given.folder / "release.json").read_text(encoding="utf-8"))
    faults = list(of_record(given.folder, record))
    if given.key is not None or "signature" in record:
        faults += of_signature(record, given.key)
    if given.ledger is not None:
        faults += of_ledger(record, given.ledger)
    print("\n".join(faults) or f"{given.folder}: nothing was changed")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
