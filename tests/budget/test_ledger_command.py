"""`eree ledger` as its user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import eree
from eree.budget.entries import Reserved, Row, Standing
from eree.cli.terminal import ledger_to_spend_from
from eree.policy.plain_data import guarantee_as_json
from eree.release.record import FORMAT, digest_of, file_digest, record_text
from ledgers import (
    DIGEST,
    PROTECTS,
    PostgresServer,
    fill,
    grown,
    made,
    price,
    rows,
    spend,
    spoil,
)
from test_cli import Done, run

STRONG = ("--neighbours", "strong", "--alpha", "0.1", "--epsilon", "2")


@pytest.mark.parametrize("command", ["", "create", "show", "verify", "close", "heads"])
def test_every_help_has_examples_and_fits_a_terminal(command: str) -> None:
    words = ["ledger", command] if command else ["ledger"]
    done = run(*words, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Examples:\n  eree {' '.join(words)}" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert not command or "--json" in done.out


def test_without_a_command_the_help_shows() -> None:
    assert run("ledger").out == run("ledger", "--help").out


def test_create_then_show_then_verify(tmp_path: Path) -> None:
    made = run("ledger", "create", "l.db", *STRONG, "--data-set", "jobs [2026]", cwd=tmp_path)
    assert made == Done(
        0,
        "Made l.db for jobs [2026]: epsilon 2 and delta 0 to spend,\n"
        "under strong neighbours of alpha 0.1.\n",
        "",
    )
    ledger = eree.Ledger.open(tmp_path / "l.db")
    protects = eree.Protected("jobs [2026]", {})
    ledger.settle(spend(ledger, "1/3", "the first release", protects), DIGEST)
    what = {"tables": "[red]place", "by": "clerk"}
    ledger.reserve(price("1/3"), release="f" * 32, what=what, protects=protects, period="2026-Q1")
    done = run("ledger", "show", "l.db", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert "jobs [2026]" in done.out
    shown = [re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()]
    # a cell that is too narrow goes on in the next line; nothing is cut off
    assert ["1", shown[4][1], "made"] == shown[4]
    assert [row[-3:] for row in shown if row[0] in ("2", "4")] == [
        ["1/3", "0", "settled"],
        ["1/3", "0", "reserved"],
    ]
    assert "…" not in done.out
    wide = run("ledger", "show", "l.db", cwd=tmp_path, env={"COLUMNS": "200"}).out
    assert f"  2026-Q1: by: clerk; tables: [red]place   {'f' * 32}  " in wide
    assert done.out.endswith(
        "All under strong neighbours of alpha 0.1.\n"
        "  total  epsilon 2, delta 0\n"
        "  spent  epsilon 2/3, delta 0\n"
        "  left   epsilon 4/3, delta 0\n"
    )
    done = run("ledger", "verify", "l.db", cwd=tmp_path)
    last = ledger.entries()[-1].hash
    words = f"l.db: no fault found; the hash of the last entry, 4, is\n  {last}\n"
    assert done == Done(0, words, "")


def test_json_is_one_object_and_exact(tmp_path: Path) -> None:
    arguments = ("--neighbours", "weak", "--alpha", "0.1", "--types", "sex, age")
    figures = ("--epsilon", "1/3", "--delta", "1e-6", "--json")
    done = run("ledger", "create", "l.db", *arguments, *figures, cwd=tmp_path)
    assert (done.status, done.err, done.out.count("\n")) == (0, "", 1)
    found = json.loads(done.out)
    neighbours = {"neighbours": "weak", "alpha": "1/10", "types": ["age", "sex"]}
    assert found["total"] == {**neighbours, "epsilon": "1/3", "delta": "1/1000000"}
    ledger = eree.Ledger.open(tmp_path / "l.db")
    assert found["identity"] == ledger.identity
    protects = eree.Protected("data", {})
    reserved = spend(ledger, "1/10", protects=protects, neighbours=eree.NODE)
    spend(ledger, "1/10", protects=protects, delta="1e-7")
    ledger.settle(reserved, DIGEST)
    shown = json.loads(run("ledger", "show", "l.db", "--json", cwd=tmp_path).out)
    assert shown["spent"] == {**neighbours, "epsilon": "1/5", "delta": "1/10000000"}
    assert shown["left"]["epsilon"] == "2/15"
    assert [entry["kind"] for entry in shown["entries"]] == ["create", *["reserve"] * 2, "settle"]
    states = [entry.get("state") for entry in shown["entries"]]
    assert states == [None, "settled", "reserved", None]
    assert shown["entries"][1]["price"]["neighbours"] == "node"
    assert shown["entries"][1]["declaration"] == protects.digest
    spent = {"epsilon": "1/5", "delta": "1/10000000"}
    assert shown["entries"][-1]["then"] == {
        "spent": spent,
        "declaration": protects.digest,
        "heads": "",
    }
    assert (shown["heads"], shown["clock"]) == ("", None)
    verified = json.loads(run("ledger", "verify", "l.db", "--json", cwd=tmp_path).out)
    last = {"number": 4, "hash": shown["entries"][-1]["hash"]}
    assert verified == {"sound": True, "last": last, "faults": [], "clock": None}


def test_faults_are_listed_and_end_with_1(tmp_path: Path) -> None:
    where = str(tmp_path / "l.db")
    grown(where)
    spoil(where, "UPDATE eree_ledger SET body = '{}' WHERE number = 3")
    assert run("ledger", "verify", "l.db", cwd=tmp_path) == Done(
        1,
        "l.db: 3 faults\n"
        "  entry 3: was altered: its hash is not that of its contents\n"
        "  entry 3: is not written as a ledger writes its entries\n"
        "  entry 4: settles entry 3, which is no reservation\n",
        "",
    )
    done = run("ledger", "verify", "l.db", "--json", cwd=tmp_path)
    found = json.loads(done.out)
    assert (done.status, found["sound"], found["last"]) == (1, False, None)
    assert found["faults"][0] == {
        "table": "ledger",
        "file": "l.db",
        "column": "entry 3",
        "rule": "was altered: its hash is not that of its contents",
        "rows": None,
    }
    assert run("ledger", "show", "l.db", cwd=tmp_path) == Done(
        2,
        "",
        "eree: l.db is faulty (entry 3 was altered: its hash is not that of its contents), so"
        " nothing that it says is believed; 'eree ledger verify' lists every fault\n",
    )


def test_a_damaged_file_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    grown(str(path), 40)
    content = path.read_bytes()
    path.write_bytes(content[:9_000] + b"\xff" * 4_000 + content[13_000:])
    done = run("ledger", "verify", "l.db", cwd=tmp_path)
    assert (done.status, done.err) == (1, "")
    assert done.out.endswith(
        "  ledger: cannot be read any more: it is damaged, or it is no ledger\n"
    )
    refused = run("ledger", "show", "l.db", cwd=tmp_path)
    assert refused.status == 2
    assert refused.err.startswith("eree: l.db is damaged, or is no ledger; check it with 'eree")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "l.db"), "Missing option '--neighbours'"),
        (("create", "l.db", *STRONG[:4]), "Missing option '--epsilon'"),
        (("create", "l.db", "--neighbours", "mild", "--epsilon", "1"), "Invalid value for"),
        (("create", "l.db", "--neighbours", "strong", "--epsilon", "1"), "strong neighbours need"),
        (("create", "l.db", *STRONG, "--types", "sex"), "strong neighbours take no --types"),
        (
            ("create", "l.db", "--neighbours", "weak", "--alpha", "0.1", "--epsilon", "1"),
            "weak neighbours need worker attributes as types",
        ),
        (
            ("create", "l.db", "--neighbours", "edge", "--alpha", "0.1", "--epsilon", "1"),
            "edge neighbours take no --alpha and no --types; leave them out",
        ),
        (
            ("create", "l.db", "--neighbours", "record", "--alpha", "1", "--epsilon", "1"),
            "record neighbours take no --alpha and no --types; leave them out",
        ),
        (("create", "l.db", *STRONG[:5], "two"), "epsilon must be a number, such as '0.1'"),
        (("create", "l.db", *STRONG, "--delta", "1"), "delta must be at least 0 and below 1"),
        (("create", "l.db", *STRONG, "--data-set", ""), "the name of the data set must be a text"),
        (("create", "no/l.db", *STRONG), "no/l.db cannot be made (no such file or directory)"),
        (("create", "mysql://h/d", *STRONG), "a ledger is kept in a file, or at an address"),
        (("show", "l.db"), "there is no ledger to be seen at l.db; check the path, or make one"),
        (("verify", "l.db"), "there is no ledger to be seen at l.db"),
        (("verify", "."), ". cannot be opened; a ledger is a file"),
        (("create", "l.db", *STRONG, "--heads", "no/heads"), "heads cannot be kept in /"),
        (("close", "l.db", "2"), "there is no ledger to be seen at l.db"),
        (("close", "l.db", "two"), "Invalid value for 'ENTRY': 'two' is not a valid integer range"),
        (("close", "l.db", "0"), "Invalid value for 'ENTRY': 0 is not in the range"),
        (("close", "l.db", "9" * 30), "Invalid value for 'ENTRY'"),
        (("heads", "l.db", "heads"), "there is no ledger to be seen at l.db"),
        (("burn", "l.db"), "No such command 'burn'"),
    ],
)
def test_a_wrong_request_gets_one_sentence_and_status_2(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = run("ledger", *arguments, cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"eree: {words}")
    assert re.fullmatch(r"eree: [^\n]+\n", done.err)
    assert list(tmp_path.iterdir()) == []
    as_json = run("ledger", *arguments, "--json", cwd=tmp_path)
    assert (as_json.status, as_json.out.count("\n")) == (2, 1)
    assert list(json.loads(as_json.out)) == ["error"]


def test_an_existing_ledger_is_not_made_again(tmp_path: Path) -> None:
    made(str(tmp_path / "l.db"))
    before = (tmp_path / "l.db").read_bytes()
    done = run("ledger", "create", "l.db", *STRONG, cwd=tmp_path)
    assert done == Done(
        2,
        "",
        "eree: l.db exists already, and a ledger is never replaced; choose another place\n",
    )
    assert (tmp_path / "l.db").read_bytes() == before


def test_a_server_is_named_without_its_login(postgres: PostgresServer) -> None:
    where = postgres.address(postgres.make_database(), "eree:geheim")
    for words in (["create", where, *STRONG], ["show", where], ["verify", where]):
        for more in ([], ["--json"]):
            done = run("ledger", *words, *more)
            assert done.status == (2 if words[0] == "create" and more else 0)
            assert "geheim" not in done.out + done.err
    assert "no fault found" in run("ledger", "verify", where).out


def test_a_survey_has_ledgers_of_its_own(tmp_path: Path) -> None:
    words = ("--neighbours", "establishment", "--epsilon", "4")
    assert run("ledger", "create", "s.db", *words, cwd=tmp_path) == Done(
        0,
        "Made s.db for data: epsilon 4 and delta 0 to spend,\nunder establishment neighbours.\n",
        "",
    )
    done = run(
        "ledger",
        "create",
        "r.db",
        "--neighbours",
        "record",
        "--epsilon",
        "4",
        "--json",
        cwd=tmp_path,
    )
    assert json.loads(done.out)["total"]["neighbours"] == "record"
    ledger = eree.Ledger.open(tmp_path / "s.db")
    assert ledger.total == eree.Guarantee(eree.ESTABLISHMENT, 4)
    protects = eree.Protected("data", {})
    ledger.reserve(eree.Guarantee(eree.ESTABLISHMENT, 1), release="a", what={}, protects=protects)
    for other in (eree.Strong("0.1"), eree.NODE, eree.RECORD):
        with pytest.raises(eree.Refusal, match="promises nothing under the ledger's"):
            ledger.reserve(eree.Guarantee(other, 1), release="b", what={}, protects=protects)
    assert ledger.spent().epsilon == 1


# ------------------------------------------------------------------------------------------ closing


def test_close_tells_what_it_did_and_once(tmp_path: Path) -> None:
    ledger = made(str(tmp_path / "l.db"))
    for _ in range(2):
        spend(ledger, "1/2")
    words = "l.db: reservation 2 is closed; its price stays spent.\n"
    assert run("ledger", "close", "l.db", "2", cwd=tmp_path) == Done(0, words, "")
    done = run("ledger", "close", "l.db", "3", "--json", cwd=tmp_path)
    reported = {"ledger": "l.db", "entry": 5, "reservation": 3, "state": "closed"}
    assert (done.status, json.loads(done.out)) == (0, reported)
    refused = run("ledger", "close", "l.db", "2", cwd=tmp_path)
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("eree: reservation 2 is closed already; a release is settled")
    for number, words in {"1": "entry 1 of l.db is no reserv", "9": "l.db has no entry 9"}.items():
        assert run("ledger", "close", "l.db", number, cwd=tmp_path).err.startswith(f"eree: {words}")
    shown = run("ledger", "show", "l.db", cwd=tmp_path, env={"COLUMNS": "120"}).out
    assert shown.count("  closed") == 2
    assert "closes entry 2" in shown
    assert "spent  epsilon 1, delta 0" in shown


def written(folder: Path, book: eree.Ledger, **other: Any) -> tuple[Path, int]:
    """A release as far as closing looks at one: its record and its files; and its entry."""
    protects = eree.Protected("jobs", {"worker": "person"})
    paid = spend(book, "1/2", "ab" * 16, protects)
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "t.csv").write_text("place,count\n1,7\n")
    digest = file_digest(folder / "tables" / "t.csv")
    record = {
        "format": FORMAT,
        "release": paid.release,
        "private": True,
        "guarantee": guarantee_as_json(paid.price),
        "protects": protects.as_json(),
        "period": "",
        "tables": [{"name": "t", "files": {"tables/t.csv": digest}}],
        "ledger": {"id": paid.ledger, "entry": paid.number, "hash": paid.hash},
    } | other
    record["digest"] = digest_of(record)
    (folder / "release.json").write_text(record_text(record))
    return folder, paid.number


def test_a_release_that_was_never_settled_is_settled_late(tmp_path: Path) -> None:
    ledger = made(str(tmp_path / "l.db"))
    folder, number = written(tmp_path / "out", ledger)
    close = ("ledger", "close", "l.db", str(number), "--release", "out")
    words = f"l.db: reservation {number} is settled; its price stays spent.\n"
    assert run(*close, cwd=tmp_path) == Done(0, words, "")
    digest = eree.Release.open(folder).record["digest"]
    assert ledger.account().settled == {number: digest}
    for again in (close, close[:4]):
        done = run(*again, cwd=tmp_path)
        assert done.status == 2
        assert done.err.startswith(f"eree: reservation {number} is settled already")


UNTOUCHED = "the release in out is not as it was written; 'eree verify' lists what changed\n"
ANOTHER = "the release in out is not the one that entry 2 paid for; its name, its price, its"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"release": "cd" * 16}, ANOTHER),
        ({"guarantee": guarantee_as_json(price("1/3"))}, ANOTHER),
        ({"protects": {"data_set": "jobs", "worker": "name"}}, ANOTHER),
        ({"period": "2026-Q1"}, ANOTHER),
        ({"private": False}, UNTOUCHED),
        ({"mode": "as-published"}, UNTOUCHED),
        ({"tables": [{"name": "t", "files": {"tables/t.csv": DIGEST}}]}, UNTOUCHED),
        ({"tables": [{"name": "t", "files": {"../l.db": DIGEST}}]}, UNTOUCHED),
        ({"tables": {}}, UNTOUCHED),
        ({"tables": None}, UNTOUCHED),
        ({"ledger": None}, "out was paid from no ledger"),
        ({"format": 99}, "out/release.json is no record that this version of eree knows"),
    ],
)
def test_what_the_entry_did_not_pay_for_settles_nothing(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    ledger = made(str(tmp_path / "l.db"))
    written(tmp_path / "out", ledger, **other)
    done = run("ledger", "close", "l.db", "2", "--release", "out", cwd=tmp_path)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"eree: {words}")
    assert [entry.kind for entry in ledger.entries()] == ["create", "reserve"]


def test_a_changed_release_and_one_of_another_entry_settle_nothing(tmp_path: Path) -> None:
    ledger, other = made(str(tmp_path / "l.db")), made(str(tmp_path / "other.db"))
    written(tmp_path / "out", ledger)
    spend(other, "1/2")
    for name, number in (("other.db", 2), ("l.db", 1), ("l.db", 3)):
        done = run("ledger", "close", name, str(number), "--release", "out", cwd=tmp_path)
        assert done.status == 2
        assert done.err.startswith("eree: out names entry 2 of another ledger, or another entry")
    table = tmp_path / "out" / "tables" / "t.csv"
    table.write_text("place,count\n1,8\n")
    record = tmp_path / "out" / "release.json"
    close = ("ledger", "close", "l.db", "2", "--release", "out")
    assert run(*close, cwd=tmp_path) == Done(2, "", f"eree: {UNTOUCHED}")
    table.write_text("place,count\n1,7\n")
    record.write_text(record.read_text().replace('"private": true', '"private": true, "x": 1'))
    assert run(*close, cwd=tmp_path) == Done(2, "", f"eree: {UNTOUCHED}")
    assert len(ledger.entries()) == 2


# -------------------------------------------------------------------------------- heads and clocks


def test_heads_are_named_and_compared(tmp_path: Path) -> None:
    made_ = run(
        *("ledger", "create", "l.db", *STRONG, "--data-set", "jobs", "--heads", "heads"),
        cwd=tmp_path,
    )
    assert made_.status == 0
    assert made_.out.endswith(f"Heads are kept in {tmp_path / 'heads'}\n")
    ledger = eree.Ledger.open(tmp_path / "l.db")
    spend(ledger, "1/2")
    done = run("ledger", "heads", "l.db", "new", cwd=tmp_path)
    assert done == Done(0, f"l.db: heads are kept in {tmp_path / 'new'}\n", "")
    done = run("ledger", "heads", "l.db", ".", "--json", cwd=tmp_path)
    assert json.loads(done.out) == {"ledger": "l.db", "heads": f"{tmp_path}/"}
    assert run("ledger", "heads", "l.db", "new", cwd=tmp_path).status == 0
    shown = run("ledger", "show", "l.db", cwd=tmp_path).out
    assert shown.endswith(f"Heads are kept in {tmp_path / 'new'}\n")
    spoil(str(tmp_path / "l.db"), "DELETE FROM eree_ledger WHERE number > 4")
    done = run("ledger", "verify", "l.db", cwd=tmp_path)
    assert (done.status, done.err) == (1, "")
    assert f"heads: {tmp_path / 'new'} knows entry" in done.out


def test_a_clock_that_is_behind_is_reported_and_is_no_fault(tmp_path: Path) -> None:
    where = str(tmp_path / "l.db")
    made(where)
    event = Reserved("r", {}, price("1/10"), PROTECTS.digest, "", "2999-12-31T00:00:00Z")
    fill(where, [Row.after(Row(*rows(where)[0]), event, event.then(Standing()))])
    words = "the last entry of l.db is of 2999-12-31T00:00:00Z, and this machine's clock is behind"
    for command in ("show", "verify"):
        done = run("ledger", command, "l.db", cwd=tmp_path)
        assert (done.status, done.err) == (0, "")
        assert f"\nNote: {words}" in done.out
        reported = json.loads(run("ledger", command, "l.db", "--json", cwd=tmp_path).out)
        assert reported["clock"].startswith(words)


def test_who_spends_is_reported_of_a_clock_that_is_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(tmp_path / "l.db")
    made(where)
    ledger_to_spend_from(where)
    assert capsys.readouterr() == ("", "")
    event = Reserved("r", {}, price("1/10"), PROTECTS.digest, "", "2999-12-31T00:00:00Z")
    fill(where, [Row.after(Row(*rows(where)[0]), event, event.then(Standing()))])
    assert ledger_to_spend_from(where).spent() == price("1/10")
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.startswith(
        f"eree: note: the last entry of {where} is of 2999-12-31T00:00:00Z"
    )
    spoil(where, "UPDATE eree_ledger SET kind = 'settle' WHERE number = 2")
    ledger_to_spend_from(where)  # whoever spends from it is refused there
    assert capsys.readouterr() == ("", "")
