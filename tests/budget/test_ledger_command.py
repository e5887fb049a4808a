"""`eree ledger` as its user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import eree
from ledgers import DIGEST, PostgresServer, grown, made, price, spend, spoil
from test_cli import Done, run

STRONG = ("--neighbours", "strong", "--alpha", "0.1", "--epsilon", "2")


@pytest.mark.parametrize("command", ["", "create", "show", "verify"])
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
    ledger.settle(spend(ledger, "1/3", "the first release"), DIGEST)
    ledger.reserve(price("1/3"), release="f" * 32, what={"tables": "[red]place", "by": "clerk"})
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
    assert f"  by: clerk; tables: [red]place   {'f' * 32}  " in wide
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
    neighbours = {"name": "weak", "alpha": "1/10", "types": ["age", "sex"]}
    assert found["total"] == {"neighbours": neighbours, "epsilon": "1/3", "delta": "1/1000000"}
    ledger = eree.Ledger.open(tmp_path / "l.db")
    assert found["identity"] == ledger.identity
    reserved = spend(ledger, "1/10", neighbours=eree.NODE)
    spend(ledger, "1/10", delta="1e-7")
    ledger.settle(reserved, DIGEST)
    shown = json.loads(run("ledger", "show", "l.db", "--json", cwd=tmp_path).out)
    assert shown["spent"] == {"neighbours": neighbours, "epsilon": "1/5", "delta": "1/10000000"}
    assert shown["left"]["epsilon"] == "2/15"
    assert [entry["kind"] for entry in shown["entries"]] == ["create", *["reserve"] * 2, "settle"]
    assert [entry.get("settled") for entry in shown["entries"]] == [None, True, False, None]
    assert shown["entries"][1]["price"]["neighbours"] == {"name": "node"}
    verified = json.loads(run("ledger", "verify", "l.db", "--json", cwd=tmp_path).out)
    last = {"number": 4, "hash": shown["entries"][-1]["hash"]}
    assert verified == {"sound": True, "last": last, "faults": []}


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
        " nothing can be spent from it; 'eree ledger verify' lists every fault\n",
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


def test_an_existing_ledger_is_not_made_anew(tmp_path: Path) -> None:
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
    assert json.loads(done.out)["total"]["neighbours"] == {"name": "record"}
    ledger = eree.Ledger.open(tmp_path / "s.db")
    assert ledger.total == eree.Guarantee(eree.ESTABLISHMENT, 4)
    ledger.reserve(eree.Guarantee(eree.ESTABLISHMENT, 1), release="a", what={})
    for other in (eree.Strong("0.1"), eree.NODE, eree.RECORD):
        with pytest.raises(eree.Refusal, match="promises nothing under the ledger's"):
            ledger.reserve(eree.Guarantee(other, 1), release="b", what={})
    assert ledger.spent().epsilon == 1
