"""What verifying finds of a declaration that was altered, and of entries that nobody settled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import eree
from declared import WEAK, book, next_year, published, town
from eree.release import publish as publishing
from eree.release.record import RECORD, digest_of, record_text
from eree.release.signature import Signer
from offices import privacy, settings, table
from uses import eree_command


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weak release whose table shows one of the types, with its ledger beside it."""
    home = tmp_path_factory.mktemp("office")
    data = town().write(home / "data")
    weak = privacy(neighbours="weak", types=["band", "sex"], epsilon="4")
    wanted = table(by=["county", "band"], epsilon="4")
    plan = eree.Plan.of(settings(data, privacy=weak, table=[wanted]))
    eree.publish(plan, eree.load(data), ledger=book(home), out=home / "out")
    return home


def sealed(folder: Path, change: Callable[[Any], object]) -> eree.Release:
    """A release whose record was changed and sealed again, as anybody can."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    (folder / RECORD).write_text(record_text(record), encoding="utf-8")
    return eree.Release.open(folder)


def types(record: Any) -> Any:
    return record["protects"]["types"]


MISWRITTEN = "is not written as a declaration of what is protected"
CONTRADICTED = "declares band otherwise than the tables of the release do"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.update(protects=None), MISWRITTEN),
        (lambda r: r.update(protects=[]), MISWRITTEN),
        (lambda r: r["protects"].update(more=1), MISWRITTEN),
        (lambda r: r["protects"].update(data_set=""), MISWRITTEN),
        (lambda r: r["protects"].update(data_set=1), MISWRITTEN),
        (lambda r: r["protects"].pop("worker"), MISWRITTEN),
        (lambda r: r["protects"].pop("job"), MISWRITTEN),
        (lambda r: r["protects"]["job"].update(primary=""), MISWRITTEN),
        (lambda r: r["protects"]["job"].pop("most_per_worker"), MISWRITTEN),
        (lambda r: r["protects"]["job"].update(most_per_worker=0), MISWRITTEN),
        (lambda r: r["protects"]["job"].update(most_per_worker=True), MISWRITTEN),
        (lambda r: r["protects"]["workplace"].update(key=""), MISWRITTEN),
        (lambda r: r["protects"]["workplace"].update(more="x"), MISWRITTEN),
        (lambda r: r["protects"]["worker"].update(column=None), MISWRITTEN),
        (lambda r: r["protects"].update(types=[]), MISWRITTEN),
        (lambda r: types(r)["sex"].update(values=[]), MISWRITTEN),
        (lambda r: types(r)["sex"].update(values=["M", "F"]), MISWRITTEN),
        (lambda r: types(r)["sex"].update(values=["F", "F"]), MISWRITTEN),
        (lambda r: types(r)["sex"].update(values=["F", True]), MISWRITTEN),
        (lambda r: types(r)["sex"].update(column="age"), MISWRITTEN),
        (lambda r: types(r)["sex"].update(members=[["F", "all"]]), MISWRITTEN),
        (lambda r: types(r).pop("sex"), "does not say what the worker type sex is"),
        (lambda r: types(r)["band"].update(column="age"), CONTRADICTED),
        (lambda r: types(r)["band"]["members"][1].__setitem__(1, "high"), CONTRADICTED),
        (
            lambda r: (
                types(r)["band"]["values"].append(4),
                types(r)["band"]["members"].append([4, "high"]),
            ),
            CONTRADICTED,
        ),
    ],
)
def test_a_declaration_that_cannot_be_is_found_without_the_ledger(
    office: Path, tmp_path: Path, change: Callable[[Any], object], words: str
) -> None:
    copied = Path(shutil.copytree(office / "out", tmp_path / "copy"))
    assert eree.verify(sealed(copied, lambda _: None)).sound
    found = eree.verify(sealed(copied, change))
    assert [(f.column, f.rule) for f in found.faults] == [("protects", words)]


@pytest.mark.parametrize(
    "job",
    [
        {"primary": {}},
        {"primary": {"greatest": ""}},
        {"primary": {"greatest": "a", "b": "c"}},
        {"primary": {"greatest": "a"}, "most_per_worker": 2},
    ],
)
def test_a_rule_that_cannot_be_is_found_and_so_is_what_it_would_mean(
    office: Path, tmp_path: Path, job: dict[str, Any]
) -> None:
    copied = Path(shutil.copytree(office / "out", tmp_path / "copy"))
    found = eree.verify(sealed(copied, lambda r: r["protects"]["job"].update(job)))
    assert {(f.column, f.rule) for f in found.faults} == {
        ("protects", MISWRITTEN),
        ("statements", "do not say what the guarantee means"),
    }


@pytest.mark.parametrize(
    "level", ["1e999999999", "1e\uff19\uff19\uff19\uff19\uff19\uff19\uff19\uff19\uff19", 0.9]
)
def test_a_level_that_nobody_could_write_down_is_found_at_once(
    office: Path, tmp_path: Path, level: Any
) -> None:
    folder = shutil.copytree(office / "out", tmp_path / "out")
    (fault,) = eree.verify(sealed(folder, lambda r: r.update(level=level))).faults
    assert fault.rule.startswith("level must be")


@pytest.mark.parametrize("period", [1, None, "a\nb", "x" * 1_001])
def test_a_period_that_is_no_text_is_found(office: Path, tmp_path: Path, period: Any) -> None:
    copied = Path(shutil.copytree(office / "out", tmp_path / "copy"))
    found = eree.verify(sealed(copied, lambda r: r.update(period=period)))
    assert [fault.column for fault in found.faults] == ["period"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["protects"].update(data_set="x"), "is not of the data set data of the ledger"),
        (lambda r: r["protects"]["workplace"].update(key="firm"), "that entry 2 paid under"),
        (lambda r: r["protects"]["worker"].update(column="person"), "that entry 2 paid under"),
        (lambda r: r["protects"]["job"].update(primary="main"), "that entry 2 paid under"),
        (lambda r: types(r)["sex"].update(values=["F", "M", "X"]), "that entry 2 paid under"),
        (lambda r: r.update(period="2027"), "is not the one that entry 2 paid for"),
    ],
)
def test_another_declaration_than_the_one_that_was_paid_under_is_found(
    office: Path, tmp_path: Path, change: Callable[[Any], object], words: str
) -> None:
    copied = Path(shutil.copytree(office / "out", tmp_path / "copy"))
    forged = sealed(copied, change)
    assert eree.verify(forged).sound  # nothing else in it contradicts that
    found = eree.verify(forged, ledger=eree.Ledger.open(office / "ledger.db"))
    assert any(words in fault.rule for fault in found.faults), found.faults


# ------------------------------------------------------------------------- entries nobody settled


def crashed(home: Path, monkeypatch: Any) -> eree.Ledger:
    """A ledger with a price that was reserved for a release that never appeared."""
    made = book(home)
    (home / "true").mkdir()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publishing, "stream", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        published(town(), home / "true", made)
    return made


def forged(home: Path, made: eree.Ledger) -> eree.Release:
    """What a reader of the ledger can make: synthetic tables, with the entry's names and hash."""
    entry = made.entries()[-1]
    paid = entry.as_json()
    (home / "forged").mkdir()
    release = published(town(next_year), home / "forged", None, random=eree.SeededRandom(1))
    statements = [s.words for s in release.guarantee.statements()]

    def claim(record: Any) -> None:
        record |= {"release": paid["release"], "period": paid["period"], "private": True}
        record["statements"] = statements
        record["ledger"] = {"id": made.identity, "entry": entry.number, "hash": entry.hash}

    return sealed(release.folder, claim)


def public(signer: Signer) -> str:
    return signer.sign("0" * 64)["public_key"]


def rules(release: eree.Release, **given: Any) -> list[str]:
    return [fault.rule for fault in eree.verify(release, **given).faults]


def test_an_entry_that_nobody_settled_cannot_be_claimed(tmp_path: Path, monkeypatch: Any) -> None:
    made = crashed(tmp_path, monkeypatch)
    release = forged(tmp_path, made)
    assert rules(release) == []  # without the ledger and without a key nothing tells it apart
    (rule,) = rules(release, ledger=made)
    assert rule.startswith("entry 2 was never settled, so anyone who can read the ledger could")
    assert "eree ledger close LEDGER 2 --release DIR" in rule
    status, out, _ = eree_command("verify", str(release.folder), "--ledger", made.name)
    assert (status, "was never settled" in out) == (1, True)
    agency = Signer(Ed25519PrivateKey.generate())
    assert rules(release, ledger=made, public_key=public(agency)) == [
        "was not made with the key that was given"
    ]
    made.close(2)
    assert rules(release, ledger=made) == ["entry 2 is closed: it pays for no release"]


def test_a_release_that_is_signed_is_believed_before_it_is_settled(
    tmp_path: Path, monkeypatch: Any
) -> None:
    made = book(tmp_path)
    agency, other = (Signer(Ed25519PrivateKey.generate()) for _ in range(2))

    def stopped(*_given: Any) -> None:
        raise eree.Refusal("the ledger cannot be reached")

    with monkeypatch.context() as patch, pytest.raises(eree.Refusal, match="stays reserved"):
        patch.setattr(eree.Ledger, "settle", stopped)
        published(town(), tmp_path, made, signer=agency)
    release = eree.Release.open(tmp_path / "out")
    key = public(agency)
    assert rules(release, ledger=made, public_key=key) == []
    assert rules(release, ledger=made, public_key=public(other)) != []
    assert len(rules(release, ledger=made)) == 1  # that it is signed by somebody says nothing
    made.settle(release.reservation, release.record["digest"])
    assert rules(release, ledger=made) == []


@pytest.mark.parametrize("how", ["closed", "settled with another release"])
def test_who_publishes_is_told_that_somebody_else_ended_the_entry(
    tmp_path: Path, monkeypatch: Any, how: str
) -> None:
    made, settle = book(tmp_path), eree.Ledger.settle

    def meanwhile(self: eree.Ledger, paid: eree.Reservation, digest: str) -> None:
        self.close(paid.number) if how == "closed" else settle(self, paid, "ab" * 32)
        settle(self, paid, digest)

    monkeypatch.setattr(eree.Ledger, "settle", meanwhile)
    with pytest.raises(eree.Refusal) as refused:
        published(town(), tmp_path, made)
    words = f"may be used; its entry was {how} meanwhile, so 'eree verify --ledger' does not"
    assert words in str(refused.value)
    assert rules(eree.Release.open(tmp_path / "out"), ledger=made) != []


@pytest.mark.parametrize(
    ("paid_from", "relation"),
    [(eree.EDGE, None), (eree.EDGE, privacy(epsilon="2")), (WEAK, privacy(epsilon="2"))],
)
def test_a_release_is_settled_late_under_whatever_the_ledger_is_bound_to(
    tmp_path: Path, monkeypatch: Any, paid_from: Any, relation: Any
) -> None:
    """The ledger has the digest of as much as its own neighbours hang on."""
    made = book(tmp_path, paid_from)
    with monkeypatch.context() as patch:
        patch.setattr(eree.Ledger, "settle", lambda *_: None)
        release = published(town(), tmp_path, made, relation)
    assert len(rules(release, ledger=made)) == 1
    done = eree_command("ledger", "close", made.name, "2", "--release", release.folder)
    assert (done[0], done[2]) == (0, "")
    assert rules(release, ledger=made) == []


def test_a_closed_entry_pays_for_nothing_signed_or_not(tmp_path: Path, monkeypatch: Any) -> None:
    made = book(tmp_path)
    agency = Signer(Ed25519PrivateKey.generate())
    with monkeypatch.context() as patch:
        patch.setattr(eree.Ledger, "settle", lambda *_: None)
        release = published(town(), tmp_path, made, signer=agency)
    made.close(2)
    for given in ({}, {"public_key": public(agency)}):
        assert rules(release, ledger=made, **given) == ["entry 2 is closed: it pays for no release"]
