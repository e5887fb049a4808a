"""Nothing that a check says quotes a row, however broken the row or its file is."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import eree
from eree.errors import Faulty, Refusal
from town import Town, csv_bytes

SECRET, NUMBER = "SECRET-77231", 7723177231


def marked(style: str = "parquet") -> Town:
    """A sound town in which every id and every confidential value is a secret."""
    town = Town().as_csv() if style == "csv" else Town()
    tables = town.tables
    for table in ("worker", "job"):
        tables[table]["worker_id"] = [f"{SECRET}-{i}" for i in tables[table]["worker_id"]]
    tables["workplace"]["wages"] = [NUMBER, NUMBER, NUMBER, NUMBER]
    return town


def undeclared(town: Town) -> None:
    town.tables["worker"]["sex"][0] = SECRET
    town.tables["worker"]["grade"][0] = NUMBER


def orphans(town: Town) -> None:
    town.tables["job"]["worker_id"][0] = f"{SECRET}-orphan"


def repeats(town: Town) -> None:
    town.tables["worker"]["worker_id"][1] = town.tables["worker"]["worker_id"][0]


def several(town: Town) -> None:
    for values in town.tables["job"].values():
        values.append(values[0])


def texts_for_numbers(town: Town) -> None:
    wages = town.tables["workplace"]["wages"]
    wages[:] = [f"{SECRET}" for _ in wages]


def numbers_too_wide(town: Town) -> None:
    town.tables["worker"]["grade"][0] = NUMBER * 10**8


def texts_for_marks(town: Town) -> None:
    town.schema["job"]["primary"] = "main"
    town.tables["job"]["main"] = [SECRET] * 6


def renamed_column(town: Town) -> None:
    worker = town.tables["worker"]
    worker["gender"] = worker.pop("sex")


SPOILT: list[Callable[[Town], None]] = [
    *(undeclared, orphans, repeats, several, texts_for_numbers, numbers_too_wide),
    *(texts_for_marks, renamed_column),
]


def not_utf8(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"F,", b"\xff\xfe,", 1))


def short_row(path: Path) -> None:
    path.write_bytes(path.read_bytes() + f"{SECRET}\n".encode())


def open_quote(path: Path) -> None:
    path.write_bytes(path.read_bytes() + f'"{SECRET},F\n'.encode())


def after_quote(path: Path) -> None:
    path.write_bytes(path.read_bytes() + f'"{SECRET}"{SECRET},F,1\n'.encode())


def no_header(path: Path) -> None:
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


def no_header_twice(path: Path) -> None:
    path.write_bytes(f"{SECRET},{SECRET},1\n".encode())


def mixed_ends(path: Path) -> None:
    path.write_bytes(path.read_bytes() + f"{SECRET},F,1\r\n".encode())


def quote_in_header(path: Path) -> None:
    path.write_bytes(f'{SECRET}"{SECRET},"F,1\n'.encode())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def scribbled(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[40:80] = (SECRET * 4).encode()[:40]
    path.write_bytes(whole)


def secret_bytes(path: Path) -> None:
    raw = pa.array([f"{SECRET}".encode() + b"\xff"] * 6)
    broken = pa.Array.from_buffers(pa.string(), 6, raw.buffers())
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(1, "sex", broken), path)


def exchanged(path: Path) -> None:
    rows = [line.split(",") for line in path.read_text("utf-8").splitlines()]
    path.write_text("".join(",".join(row) + "\n" for row in zip(*rows, strict=True)), "utf-8")


def lost_line_break(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"", 1))


def comma_for_line_break(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b",", 1))


SPOILT_CSV: list[Callable[[Path], None]] = [
    *(not_utf8, short_row, open_quote, after_quote, no_header, no_header_twice, mixed_ends),
    *(quote_in_header, cut, exchanged, lost_line_break, comma_for_line_break),
]
SPOILT_PARQUET: list[Callable[[Path], None]] = [cut, scribbled, secret_bytes]


def everything_said(folder: Path, log: pytest.LogCaptureFixture) -> str:
    """All that a user could see of the faults of a folder in Python."""
    checked = eree.check(folder)
    assert not checked and checked.tables is None
    said = [text for fault in checked.faults for text in (str(fault), repr(fault))]
    said.append(repr(checked))
    with pytest.raises(Faulty) as raised:
        eree.load(folder)
    said += traceback.format_exception(raised.value, chain=True)
    said += [repr(raised.value), repr(raised.value.args)]
    return "\n".join([*said, log.text])


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (SECRET, "77231") if secret in text]


@pytest.mark.parametrize("style", ["parquet", "csv"])
@pytest.mark.parametrize("spoil", SPOILT)
def test_no_fault_of_a_row_quotes_it(
    tmp_path: Path, style: str, spoil: Callable[[Town], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    town = marked(style)
    spoil(town)
    if style == "parquet":
        for columns in town.tables.values():
            for name, values in columns.items():
                if len({type(v) for v in values}) > 1 or any(
                    isinstance(v, int) and v > 2**63 for v in values
                ):
                    columns[name] = [str(v) for v in values]
    assert secrets_in(everything_said(town.write(tmp_path), caplog)) == []


@pytest.mark.parametrize("spoil", SPOILT_CSV)
def test_no_fault_of_a_csv_file_quotes_it(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    folder = marked("csv").write(tmp_path)
    spoil(folder / "worker.csv")
    assert secrets_in(everything_said(folder, caplog)) == []


@pytest.mark.parametrize("spoil", SPOILT_PARQUET)
def test_no_fault_of_a_parquet_file_quotes_it(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    folder = marked().write(tmp_path)
    spoil(folder / "worker.parquet")
    assert secrets_in(everything_said(folder, caplog)) == []


def all_wrong(folder: Path) -> Path:
    town = marked("csv")
    undeclared(town)
    orphans(town)
    several(town)
    texts_for_numbers(town)
    return town.write(folder)


def no_headers(folder: Path) -> Path:
    town = marked("csv")
    town.write(folder)
    for table in ("workplace", "worker", "job"):
        no_header(folder / f"{table}.csv")
    return folder


def broken_files(folder: Path) -> Path:
    town = marked("csv").write(folder)
    short_row(town / "worker.csv")
    after_quote(town / "job.csv")
    (town / "workplace.csv").write_bytes(csv_bytes({"workplace_id": [SECRET]}) + b"\xff")
    return town


@pytest.mark.parametrize("make", [all_wrong, no_headers, broken_files])
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_the_command_line_quotes_no_row(
    tmp_path: Path, make: Callable[[Path], Path], flags: tuple[str, ...]
) -> None:
    command: list[Any] = [sys.executable, "-X", "dev", "-m", "eree", "check", make(tmp_path)]
    shown = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert secrets_in(shown.stdout + shown.stderr) == []
    assert "Traceback" not in shown.stdout + shown.stderr


def test_the_secrets_are_there_to_be_quoted(tmp_path: Path) -> None:
    """The tests above can fail: the secrets reach the cells and the files."""
    folder = all_wrong(tmp_path)
    assert SECRET.encode() in (folder / "worker.csv").read_bytes()
    assert secrets_in(f"a fault that quotes {NUMBER}") == ["77231"]
    with pytest.raises(Refusal):
        eree.load(folder)
