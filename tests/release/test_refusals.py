"""Every refusal and every fault around a release has its sentence, and the sentence a test."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import eree
from disks import full, small_disk
from eree.budget.compose import Charge, together
from eree.errors import Faulty
from eree.estimate.listing import write_csv
from eree.policy.plain_data import guarantee_of
from eree.release import plan as planning
from eree.release.price import Measurement
from eree.release.record import RECORD, digest_of, file_digest
from eree.verification.rows import _is_twin
from offices import TOTAL, settings, table, text
from town import Town
from uses import eree_command

__all__ = ["small_disk"]


def refused(action: Callable[[], object], words: str) -> None:
    """One sentence without a full stop, which says this."""
    with pytest.raises(eree.Refusal) as why:
        action()
    assert words in str(why.value)
    assert re.fullmatch(r"[^\n]+[^\n.]", str(why.value))


# ------------------------------------------------------------------------------ plans and prices


def test_a_plan_has_so_many_tables_and_no_more(
    population: eree.Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "MOST_TABLES", 1)
    with pytest.raises(Faulty) as why:
        eree.Plan.of(settings(population.folder))
    assert [(fault.column, fault.rule) for fault in why.value.faults] == [
        ("table", "lists more than 1 tables; make several plans")
    ]


def test_prices_under_different_neighbours_are_not_added() -> None:
    charges = [Charge(name, eree.Guarantee(eree.EDGE, 1), {}) for name in "ab"]
    assert together(charges, eree.EDGE).epsilon == 2
    refused(
        lambda: together(charges, eree.NODE),
        "prices under different neighbours cannot be added; bring them to one",
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"neighbours": "near"}, "the guarantee names neighbours that do not exist"),
        ({"neighbours": ["weak"]}, "there is no guarantee that can be read"),
        ({"neighbours": "weak", "alpha": "0.1"}, "there is no guarantee that can be"),
        ({"neighbours": "edge", "epsilon": "1"}, "there is no guarantee that can be"),
        (None, "there is no guarantee that can be read"),
    ],
)
def test_a_guarantee_that_is_none_is_refused(data: Any, words: str) -> None:
    refused(lambda: guarantee_of(data), words)


def test_a_memo_is_new_and_whole(population: eree.Tables, small_disk: Path) -> None:
    plan = small_disk / "plan.toml"
    plan.write_text(text(settings(population.folder)), encoding="utf-8")
    for name, words in (
        ("plan.toml", "plan.toml exists already; choose another name or remove it"),
        ("no/memo.md", "no/memo.md cannot be written: No such file or directory"),
    ):
        status, shown, err = eree_command("plan", plan, "--memo", name, cwd=small_disk)
        assert (status, shown, err) == (2, "", f"eree: {words}\n")
    with full(small_disk, 100):
        status, shown, err = eree_command("plan", plan, "--memo", "memo.md", cwd=small_disk)
    assert (status, shown) == (2, "")
    assert re.fullmatch("eree: memo.md cannot be written: [A-Z][a-z ]+\n", err)
    assert not (small_disk / "memo.md").exists()


# ------------------------------------------------------------------------------------------ keys


@pytest.fixture
def pem(tmp_path: Path) -> Callable[..., Path]:
    """Writes a private key into a file."""

    def write(key: Any, lock: KeySerializationEncryption | None = None) -> Path:
        path = tmp_path / "key.pem"
        lock = lock or NoEncryption()
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
        return path

    return write


def test_only_an_open_ed25519_key_signs(pem: Callable[..., Path], tmp_path: Path) -> None:
    mine = Ed25519PrivateKey.generate()
    locked = pem(mine, BestAvailableEncryption(b"secret"))
    refused(
        lambda: eree.Signer.read(locked),
        "holds no Ed25519 private key in PEM without a password; make one with 'openssl genpkey"
        " -algorithm ed25519 -out key.pem'",
    )
    words = "holds no Ed25519 key in PEM without a password; name a file that does"
    refused(lambda: eree.public_key_of(locked), words)
    other = pem(Ed448PrivateKey.generate())
    for read in (eree.Signer.read, eree.public_key_of):
        refused(
            lambda read=read: read(other),
            f"{other} holds a key of another kind; releases are signed with Ed25519",
        )
        refused(
            lambda read=read: read(tmp_path / "no.pem"),
            f"there is no key {tmp_path / 'no.pem'}; check the path",
        )
        refused(lambda read=read: read(tmp_path), f"the key {tmp_path} cannot be read: Is a dir")
    public = tmp_path / "public.pem"
    public.write_bytes(
        mine.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    assert eree.public_key_of(public) == eree.public_key_of(pem(mine))


# ------------------------------------------------------------------------------------- releases


def test_what_is_no_release_is_reported(release: eree.Release, tmp_path: Path) -> None:
    words = f"{tmp_path} holds no {RECORD}; name the folder of a release"
    refused(lambda: eree.Release.open(tmp_path), words)
    (tmp_path / RECORD).write_text('{"format": 1}')
    words = f"{tmp_path / RECORD} is no record that this version of eree knows"
    refused(lambda: eree.Release.open(tmp_path), words)
    (tmp_path / RECORD).write_text("{")
    words = f"{tmp_path / RECORD} cannot be read as a release's record"
    refused(lambda: eree.Release.open(tmp_path), words)
    empty = eree.Release(tmp_path, release.record)
    refused(
        lambda: empty.table("women"), "the file of table women cannot be read; run 'eree verify'"
    )


def test_a_list_of_areas_is_new_and_whole(small_disk: Path) -> None:
    rows = pa.table({"place": ["x" * 100] * 2_000})
    out = small_disk / "out.csv"
    with full(small_disk, 100):
        refused(lambda: write_csv(rows, out), "out.csv cannot be written: ")
    assert not out.exists()
    write_csv(rows, out)
    refused(lambda: write_csv(rows, out), "out.csv exists already; choose another name or remove")


def test_a_file_of_columns_must_be_text(release: eree.Release, tmp_path: Path) -> None:
    file = tmp_path / "columns.toml"
    for content in (b"\xff", b"a = " + b"[" * 100_000):
        file.write_bytes(content)
        refused(
            lambda: eree.lodes(release, "tract", columns=file),
            "columns.toml cannot be read as TOML",
        )


def test_codes_that_are_numbers_are_no_texts(tmp_path: Path) -> None:
    data = Town().write(tmp_path / "town")
    plan = eree.Plan.of(settings(data, table=[table(by=["county", "grade"], epsilon="4")]))
    made = eree.publish(
        plan, eree.load(data), ledger=None, out=tmp_path / "out", random=eree.SeededRandom(1)
    )
    file = tmp_path / "damage.csv"
    file.write_text("grade,damage\n1,10\ntwo,20\n", encoding="utf-8")
    words = f"line 3 of {file} has a text where codes are numbers"
    refused(lambda: eree.threshold(made, "t", ["grade"], file, "3.50"), words)
    file.write_text("grade,damage\n1,10\n2,20\n", encoding="utf-8")
    assert len(eree.threshold(made, "t", ["grade"], file, "3.50")) == 2


# ------------------------------------------------------------------- faults that verify can find


@pytest.fixture(scope="module")
def office(
    population: eree.Tables, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, eree.Ledger]:
    """A release with worker cells, and the ledger that paid for it."""
    home = tmp_path_factory.mktemp("faults")
    ledger = eree.Ledger.create(home / "ledger.db", TOTAL, data_set="data")
    tables = [table(by=["place", "sex"], epsilon="4")]
    plan = eree.Plan.of(settings(population.folder, table=tables))
    eree.publish(plan, population, ledger=ledger, out=home / "out")
    return home / "out", ledger


@pytest.fixture
def copy(office: tuple[Path, eree.Ledger], tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(office[0], tmp_path / "copy"))


def told(folder: Path, ledger: eree.Ledger, change: Callable[[Any], object]) -> list[str]:
    """The faults of a release whose record was changed and sealed again."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    record["digest"] = digest_of(record)
    lines = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder / RECORD).write_text(lines, encoding="utf-8")
    found = eree.verify(eree.Release.open(folder), ledger=ledger)
    return [f"{fault.column}: {fault.rule}" for fault in found.faults]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.pop("ledger"), "ledger: is not the one in {ledger}"),
        (lambda r: r["ledger"].update(id="0" * 32), "ledger: is not the one in {ledger}"),
        (
            lambda r: r["ledger"].update(hash="0" * 64),
            "ledger: entry 2 is not the one that paid for this release",
        ),
        (
            lambda r: r["ledger"].update(entry=3),
            "ledger: entry 3 is not the one that paid for this release",
        ),
        (lambda r: r.update(release="0" * 32), "ledger: entry 2 paid for another release"),
        (lambda r: r["guarantee"].update(epsilon="5"), "ledger: entry 2 paid another price"),
        (lambda r: r.update(made="now"), "ledger: entry 2 was settled with another release"),
        (lambda r: r["tables"][0].update(statistics=[]), "t.statistics: is not what the price"),
        (
            lambda r: r["guarantee"].update(neighbours="near"),
            ": the guarantee names neighbours that do not exist",
        ),
        (lambda r: r["guarantee"].clear(), ": there is no guarantee that can be read"),
    ],
)
def test_a_release_that_its_ledger_did_not_pay_for_is_found(
    office: tuple[Path, eree.Ledger], copy: Path, change: Callable[[Any], object], words: str
) -> None:
    ledger = office[1]
    found = told(copy, ledger, change)
    assert any(line.startswith(words.format(ledger=ledger.name)) for line in found), found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 2)]), "t: has two rows for one cell"),
        (lambda rows: rows.slice(1), "t: has cells without some of their worker cells"),
        (lambda rows: rows.drop_columns(["low"]), "t: has other columns or another number of rows"),
    ],
)
def test_rows_that_cannot_be_are_found(
    office: tuple[Path, eree.Ledger],
    copy: Path,
    change: Callable[[pa.Table], pa.Table],
    words: str,
) -> None:
    rows = change(parquet.read_table(copy / "tables" / "t.parquet"))
    parquet.write_table(rows, copy / "tables" / "t.parquet")
    arrow_csv.write_csv(rows, copy / "tables" / "t.csv")

    def renewed(record: Any) -> None:
        about = record["tables"][0]
        about["rows"] = rows.num_rows
        about["files"] = {file: file_digest(copy / file) for file in about["files"]}

    found = told(copy, office[1], renewed)
    assert any(line.startswith(words) for line in found), found


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace(b"noisy", b"noise"), *lines[1:]],
        lambda lines: lines[:1],
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [line.replace(b",", b";") for line in lines],
        lambda lines: [],
    ],
)
def test_a_csv_file_that_differs_is_found(
    office: tuple[Path, eree.Ledger], copy: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    file = "tables/t.csv"
    lines = (copy / file).read_bytes().splitlines(keepends=True)
    (copy / file).write_bytes(b"".join(change(lines)))

    def renewed(record: Any) -> None:
        record["tables"][0]["files"][file] = file_digest(copy / file)

    found = told(copy, office[1], renewed)
    assert {"t: differs from its CSV twin", "t: cannot be read"} & set(found), found


@pytest.mark.parametrize("change", [None, 0, 120_000, 199_999])
def test_a_large_csv_file_is_compared_to_its_last_line(change: int | None, tmp_path: Path) -> None:
    columns = pa.schema([pa.field("place", pa.string(), False), pa.field("n", pa.int64(), False)])
    numbers = np.arange(200_000)
    rows = pa.table({"place": numbers.astype(str), "n": numbers.copy()}).cast(columns)
    if change is not None:
        numbers[change] += 1
    arrow_csv.write_csv(rows.set_column(1, columns[1], pa.array(numbers)), tmp_path / "t.csv")
    assert _is_twin(tmp_path / "t.csv", rows, columns, pooled=False) == (change is None)


def test_a_file_that_is_no_table_is_found(office: tuple[Path, eree.Ledger], copy: Path) -> None:
    (copy / "tables" / "t.parquet").write_text("no table")

    def renewed(record: Any) -> None:
        file = "tables/t.parquet"
        record["tables"][0]["files"][file] = file_digest(copy / file)

    assert "t: cannot be read" in told(copy, office[1], renewed)


@pytest.mark.parametrize("index", [2, 0x3FFFFFFF, -16])
def test_a_file_that_points_outside_its_dictionary_is_found(
    office: tuple[Path, eree.Ledger], copy: Path, index: int
) -> None:
    """Arrow does not look when it reads dictionaries, and would read somewhere in memory."""
    file, key = "tables/t.parquet", "place"
    codes = [*"ab" * 32, *"ba" * 32]  # dictionaries of the two parts differ
    rows = pa.table({key: codes}, pa.schema([pa.field(key, pa.string(), False)]))
    how = {"compression": "none", "write_statistics": False, "data_page_version": "1.0"}
    parquet.write_table(rows, copy / file, row_group_size=64, **how)
    head, sound, rest = (copy / file).read_bytes().rpartition(b"\x01\x11" + b"\xaa" * 8)
    forged = b"\x20\x80\x01" + (index % 2**32).to_bytes(4, "little")  # 64 times one of 32 bits
    (copy / file).write_bytes(head + forged.ljust(len(sound), b"\0") + rest)
    assert sound and parquet.ParquetFile(copy / file, read_dictionary=[key]).read().num_rows == 128

    def renewed(record: Any) -> None:
        record["tables"][0]["files"][file] = file_digest(copy / file)

    assert "t: cannot be read" in told(copy, office[1], renewed)


def test_a_mechanism_that_fails_its_certificate_is_found(
    office: tuple[Path, eree.Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Measurement.certificate

    def worse(self: Measurement) -> tuple[eree.Certificate, bool]:
        return replace(right(self)[0], bound=Fraction(10**6)), True

    monkeypatch.setattr(Measurement, "certificate", worse)
    made = eree.Release.open(office[0])
    assert [fault.rule for fault in eree.verify(made).faults] == [
        f"{made.about('t')['mechanism']} does not keep its claim"
    ]


def test_a_record_that_goes_away_meanwhile_is_found(copy: Path) -> None:
    opened = eree.Release.open(copy)
    (copy / RECORD).unlink()
    found = eree.verify(opened)
    assert [fault.rule for fault in found.faults] == ["cannot be read to its end"]


def test_a_changed_record_has_another_digest(copy: Path) -> None:
    path = copy / RECORD
    path.write_text(path.read_text(encoding="utf-8").replace('"9/10"', '"4/5"'), encoding="utf-8")
    found = eree.verify(eree.Release.open(copy))
    assert [fault.rule for fault in found.faults] == [
        "is not that of the record: something in it was changed"
    ]
