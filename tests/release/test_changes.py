"""Releases that somebody has touched: whatever is changed, added, taken away or moved is found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eree
import pages
from disks import OBEDIENT
from eree.release.record import FORMAT, RECORD, digest_of
from processes import LONGEST
from release_campaigns import change_bytes, signed_release

CSV, TWIN = "tables/sectors.csv", "tables/women.csv"
CHANGED = "was changed: its SHA-256 is not the one in the record"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signed_release(tmp_path_factory.mktemp("signed"))


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "copy"))


def faults(folder: Path) -> set[tuple[str, str]]:
    """The files that are wrong, each with its rule."""
    found = eree.verify(eree.Release.open(folder))
    assert not any("certified" in check for check in found.checks)  # nothing was believed
    return {(fault.file, fault.rule) for fault in found.faults}


def test_a_changed_byte_is_found(copy: Path) -> None:
    """`make torture` changes every byte."""
    found = change_bytes(copy, seed=3, changes=60)
    assert (found["changes"], found["unseen"], found["believed"]) == (60, 0, 0)
    assert found["found"] + found["refused"] == 60
    assert eree.verify(eree.Release.open(copy)).sound


@pytest.mark.parametrize("end", [b"\r", b"\r\n"])
def test_another_line_end_is_found(copy: Path, end: bytes) -> None:
    whole = (copy / RECORD).read_bytes()
    (copy / RECORD).write_bytes(whole.replace(b"\n", end, 1))
    assert faults(copy) == {(RECORD, "is not written as a release writes it")}


def text_of(folder: Path, change: Callable[[dict[str, Any]], None], *, sealed: bool) -> None:
    """Write a record again, as a release writes it; with a new digest, or the old one."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    change(record)
    if sealed:
        record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")


def last_bit(value: str) -> str:
    """Another text for the same bytes: what base64 leaves over at its end is not read."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return value[:-3] + letters[letters.index(value[-3]) ^ 1] + value[-2:]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(public_key=s["public_key"].upper()),
        lambda s: s.update(public_key=f" {s['public_key']}"),
        lambda s: s.update(value=last_bit(s["value"])),
        lambda s: s.update(note="checked by the director"),
        lambda s: s.update(algorithm="Ed448"),
        lambda s: s.update(value=s["value"].swapcase()),
        lambda s: s.pop("value"),
    ],
)
def test_no_other_text_stands_for_a_signature(
    copy: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    text_of(copy, lambda record: change(record["signature"]), sealed=False)
    assert (RECORD, "does not belong to this record") in faults(copy)


def test_a_new_digest_does_not_fit_the_old_signature(copy: Path) -> None:
    text_of(copy, lambda record: record.update(made="2026-01-01T00:00:00Z"), sealed=True)
    assert faults(copy) == {(RECORD, "does not belong to this record")}


def linked(folder: Path, name: str) -> None:
    """Move a part of a release elsewhere, and leave a link to it."""
    moved = folder.parent / "elsewhere"
    (folder / name).rename(moved)
    (folder / name).symlink_to(moved)


def swapped(folder: Path) -> None:
    (folder / CSV).rename(folder / "x")
    (folder / TWIN).rename(folder / CSV)
    (folder / "x").rename(folder / TWIN)


def cut(folder: Path, name: str, keep: float) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: min(int(len(whole) * keep), len(whole) - 1)])


def doubled(folder: Path) -> None:
    with (folder / CSV).open("ab") as file:
        file.write(b"\n")


def a_folder_for_a_file(folder: Path) -> None:
    (folder / CSV).unlink()
    (folder / CSV).mkdir()


LINK = "is a link to something else, and no part of the release"
EXTRA = "is not part of the release"


@pytest.mark.parametrize(
    ("touch", "expected"),
    [
        (lambda f: (f / "tables" / "more.csv").write_text("x"), {("tables/more.csv", EXTRA)}),
        (lambda f: (f / ".hidden").touch(), {(".hidden", EXTRA)}),
        (lambda f: (f / "more").mkdir(), {("more", EXTRA)}),
        (lambda f: (f / "tables" / "more").mkdir(), {("tables/more", EXTRA)}),
        (lambda f: (f / "more").symlink_to("nowhere"), {("more", EXTRA)}),
        (lambda f: (f / CSV).unlink(), {(CSV, "is missing")}),
        (
            lambda f: shutil.rmtree(f / "tables"),
            {
                (f"tables/{name}.{kind}", "is missing")
                for name in ("sectors", "women")
                for kind in ("csv", "parquet")
            },
        ),
        (a_folder_for_a_file, {(CSV, "is missing")}),
        (lambda f: cut(f, CSV, 0), {(CSV, CHANGED)}),
        (lambda f: cut(f, CSV, 0.5), {(CSV, CHANGED)}),
        (lambda f: cut(f, "tables/women.parquet", 1), {("tables/women.parquet", CHANGED)}),
        (doubled, {(CSV, CHANGED)}),
        (swapped, {(CSV, CHANGED), (TWIN, CHANGED)}),
        (lambda f: (f / CSV).rename(f / "x.csv"), {(CSV, "is missing"), ("x.csv", EXTRA)}),
        (lambda f: linked(f, CSV), {(CSV, LINK)}),
        (lambda f: linked(f, "tables"), {("tables", LINK)}),
        (lambda f: linked(f, RECORD), {(RECORD, LINK)}),
    ],
)
def test_what_was_added_taken_away_cut_swapped_or_linked_is_found(
    copy: Path, touch: Callable[[Path], object], expected: set[tuple[str, str]]
) -> None:
    touch(copy)
    assert faults(copy) == expected


@pytest.mark.parametrize("keep", [0, 0.001, 0.3, 0.9, 1])
def test_a_record_that_was_cut_short_is_refused_or_found(copy: Path, keep: float) -> None:
    cut(copy, RECORD, keep)
    if keep == 1:  # only its last line end is gone
        assert faults(copy) == {(RECORD, "is not written as a release writes it")}
        return
    with pytest.raises(eree.Unreadable, match="cannot be read as a release's record"):
        eree.Release.open(copy)


@pytest.mark.parametrize("value", ["9" * 5_000, '"\\ud800"', "NaN", "1e999", "\x00"])
def test_a_record_of_strange_texts_is_refused(copy: Path, value: str) -> None:
    (copy / RECORD).write_text(f'{{"format": {FORMAT}, "a": {value}}}', encoding="utf-8")
    with pytest.raises(eree.Unreadable):
        eree.Release.open(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(level="1/0"),
        lambda r: r.update(level=[]),
        lambda r: r.update(tables=7),
        lambda r: r.update(attributes=None),
        lambda r: r["tables"][0].update(files=["a"]),
        lambda r: r["tables"][0].update(by="sector"),
        lambda r: r["tables"][0].update(price=None),
        lambda r: r["tables"][0]["price"].update(epsilon="1/0"),
        lambda r: r["guarantee"].update(neighbours="near"),
    ],
)
def test_a_record_of_another_shape_is_a_fault_and_no_traceback(
    copy: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    del record["signature"]
    change(record)
    record["digest"] = digest_of(record)
    (copy / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    assert not eree.verify(eree.Release.open(copy)).sound


@pytest.mark.parametrize("depth", [300, 900, 9_000])
def test_a_record_of_many_levels_is_refused_or_found(copy: Path, depth: int) -> None:
    text = (copy / RECORD).read_text(encoding="utf-8")
    nested = '"made": ' + "[" * depth + "]" * depth
    (copy / RECORD).write_text(re.sub(r'"made": "[^"]+"', nested, text), encoding="utf-8")
    try:
        assert not eree.verify(eree.Release.open(copy)).sound
    except eree.Unreadable as refusal:
        assert "cannot be read as a release's record" in str(refusal)


def test_a_part_that_may_not_be_read_is_a_fault_of_the_command(copy: Path) -> None:
    for name, status, words in (
        (CSV, 1, r"copy: 1 fault\n  release \(tables/sectors.csv\): cannot be read\n"),
        ("tables", 1, r"copy: 4 faults\n(  release \(tables/[a-z.]+\): cannot be read\n){4}"),
        (RECORD, 2, "eree: copy/release.json cannot be read as a release's record\n"),
    ):
        (copy / name).chmod(0)
        done = subprocess.run(
            [*OBEDIENT, Path(sys.executable).with_name("eree"), "verify", "copy"],
            cwd=copy.parent,
            env=pages.environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        (copy / name).chmod(0o755)
        assert done.returncode == status
        assert re.fullmatch(words, done.stdout + done.stderr), done


def test_no_file_outside_a_release_is_opened(copy: Path) -> None:
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    record["tables"][0]["name"] = "../../secret"
    record["tables"][0]["files"] = {"../../secret.parquet": "0" * 64}
    record["digest"] = digest_of(record)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (copy / RECORD).write_text(text, encoding="utf-8")
    release = eree.Release.open(copy)
    with pytest.raises(eree.Unreadable, match="a table's name leads out of the release"):
        release.table("../../secret")
    rules = [fault.rule for fault in eree.verify(release).faults]
    assert "lies outside the tables of the release" in rules
