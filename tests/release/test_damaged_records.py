"""Records that are damaged in every place, given to every command that reads a release.

A record that is not what a release writes is refused in words; no command meets a fault of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

import eree
import eree_study
from eree.cli.exit_status import cli
from eree.release.record import RECORD, digest_of, record_text
from selection import EVERYTHING
from uses import shown

#: A place of a record: keys and numbers of what is inside what.
Place = tuple[str | int, ...]
GONE = object()
VALUES: list[Any] = [
    *(GONE, None, True, -1, 0, 1.5, 10**30, "", "x", "0", "workplace", "F", "\ud800", "\0"),
    *([], {}, [None], [[]], ["place"], ["x", "x"], [1, "x"], {"x": 1}, {"sex": ["F"]}, [{}]),
]
SIDES = '{ public = ["public"], private = ["private"] }'
#: Only so many parts of a list are looked into.
FEW = 2


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with a table for each command, and a group of workplaces."""
    folder = tmp_path_factory.mktemp("damaged")
    data = eree_study.synthesize(folder / "data", jobs=2_000)
    shown(data)
    with (data / "schema.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[group.side]\nof = "ownership"\nmembers = {SIDES}\n')
    privacy = {"neighbours": "strong", "alpha": "0.1", "epsilon": "100"}
    tables = [
        {"name": "sizes", "by": ["workplace_id"], "epsilon": "1"},
        {"name": "jobs", "by": ["tract", "sector", "side"], "epsilon": "4"},
        {"name": "people", "by": ["tract", "sector", "sex"], "epsilon": "4"},
        {"name": "women", "by": ["tract"], "where": {"sex": ["F"]}, "epsilon": "1"},
    ]
    plan = eree.Plan.of({"data": str(data), "privacy": privacy, "table": tables})
    random = eree.SeededRandom(3)
    return eree.publish(
        plan, eree.load(data), ledger=None, out=folder / "out", random=random
    ).folder


def places(data: Any, at: Place = ()) -> Iterator[Place]:
    """Every place of a record; of long lists and tables the first ones."""
    inside = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in inside if isinstance(data, dict) else islice(inside, FEW + 2):
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


def damaged(record: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A record with another value in one place, or with none."""
    found = deepcopy(record)
    home: Any = found
    for key in place[:-1]:
        home = home[key]
    if value is GONE:
        del home[place[-1]]
    else:
        home[place[-1]] = value
    return found


def commands(folder: Path, home: Path) -> Iterator[list[str]]:
    """Every command that reads a release of tables."""
    damage = home / "damage.csv"
    tract = parquet.read_table(folder / "tables" / "people.parquet")["tract"][0]
    damage.write_text(f"tract,damage\n{tract},5\n", encoding="utf-8")
    out = ["--out", str(home / "made.csv")]
    yield ["lodes", str(folder), "--geocode", "tract", *out]
    files = ["--folder", str(home / "made"), "--year", "2026"]
    yield ["lodes", str(folder), "--geocode", "tract", *files]
    yield ["strata", str(folder), "sizes", "--cut", "5", *out]
    yield ["rank", str(folder), "jobs", "--by", "tract,side"]
    yield ["rank", str(folder), "women", "--by", "tract", "--json"]
    yield ["shrink", str(folder), "people", *out]
    yield ["verify", str(folder)]
    yield [
        *("threshold", str(folder), "people", "--by", "tract"),
        *("--damage", str(damage), "--per-job", "3.5", *out),
    ]


def endings(folder: Path, home: Path) -> Iterator[tuple[str, int, BaseException | None]]:
    """How every command ends: by itself, or with a refusal."""
    for arguments in commands(folder, home):
        (home / "made.csv").unlink(missing_ok=True)
        shutil.rmtree(home / "made", ignore_errors=True)
        done = CliRunner().invoke(cli, arguments)
        yield arguments[0], done.exit_code, done.exception


def test_every_place_of_a_record_may_be_damaged(sound: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(sound, tmp_path / "copy"))
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    untouched = {command: status for command, status, _ in endings(copy, tmp_path)}
    assert untouched.pop("verify") == 1  # its source was seeded
    assert set(untouched.values()) == {0}
    random, refused, told, faults = Random(7), 0, 0, []
    every = list(places(record))
    assert len(every) > 200
    every = every if EVERYTHING else random.sample(every, len(every) // 2)
    for place in every:
        for value in VALUES if EVERYTHING else random.sample(VALUES, 1):
            changed = damaged(record, place, value)
            if random.random() < 0.5 and place != ("digest",) and value != "\ud800":
                changed["digest"] = digest_of(changed)
            (copy / RECORD).write_text(json.dumps(changed), encoding="utf-8")
            for command, status, error in endings(copy, tmp_path):
                in_words = isinstance(error, eree.Refusal) and "\n" not in str(error)
                faulty = command == "verify" and status == 1 and isinstance(error, SystemExit)
                refused, told = refused + in_words, told + faulty
                if not (in_words or faulty or status == 0):
                    faults.append((place, value, command, error))
    assert not faults
    assert refused > 1.5 * len(every)
    assert told > 0.8 * len(every)


@pytest.mark.parametrize("what", ['"\\ud800"', "NaN", "-Infinity", "1e999", "[1" * 5_000])
def test_what_cannot_be_written_again_is_no_record(what: str, sound: Path, tmp_path: Path) -> None:
    """Half a character, a number that is none, and lists without an end."""
    copy = Path(shutil.copytree(sound, tmp_path / "copy"))
    text = (copy / RECORD).read_text(encoding="utf-8")
    (copy / RECORD).write_text(text.replace("{", f'{{"more": {what}, ', 1), encoding="utf-8")
    for command, status, error in endings(copy, tmp_path):
        assert isinstance(error, eree.Refusal), (command, status)
        assert "cannot be read as a release's record" in str(error)


@pytest.mark.parametrize("words", ["\\ud800", "\N{GRINNING FACE}"])
def test_backslashes_and_whole_characters_are_text(words: str, sound: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(sound, tmp_path / "copy"))
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    (copy / RECORD).write_text(json.dumps(record | {"eree": words}), encoding="utf-8")
    assert "jobs" in eree.Release.open(copy).tables


@pytest.mark.parametrize("level", ["0", "8", "-1", "1", "0.9999999999999999999", "0.3"])
def test_a_level_that_no_plan_takes_is_a_fault(level: str, sound: Path, tmp_path: Path) -> None:
    """Some of them kept verification at work for ever."""
    copy = Path(shutil.copytree(sound, tmp_path / "copy"))
    record = json.loads((copy / RECORD).read_text(encoding="utf-8"))
    paid = {"id": "0" * 32, "entry": 1, "hash": "0" * 64}  # without a payment nothing more is asked
    record |= {"level": level, "private": True, "ledger": paid}
    record["digest"] = digest_of(record)
    (copy / RECORD).write_text(record_text(record), encoding="utf-8")
    found = eree.verify(eree.Release.open(copy))
    assert not found.sound
    assert "level" in [fault.column for fault in found.faults]
