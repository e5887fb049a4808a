"""Releases that fail: one sentence says why and what it cost, and nothing is half published."""

from __future__ import annotations

import errno
import importlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import eree
from disks import disk, full
from eree.errors import Cost
from eree.release import publish as publishing
from ledgers import PostgresServer, postgres
from offices import SPENT, TOTAL, left, settings
from uses import eree_command

__all__ = ["postgres"]

#: What is said of the price of a release that nobody settled.
OPEN = "stays reserved, and 'eree ledger close --release' settles it"
#: One line that begins small and has no full stop at its end.
SENTENCE = re.compile(r"(?:[a-z/]|DuckDB)[^\n]{20,}[^\n.]")
FIRST, SECOND = "counting and protecting sectors", "counting and protecting women"


@pytest.fixture
def ledger(tmp_path: Path) -> eree.Ledger:
    return eree.Ledger.create(tmp_path / "ledger.db", TOTAL, data_set="data")


@pytest.fixture
def plan(population: eree.Tables) -> eree.Plan:
    return eree.Plan.of(settings(population.folder))


@pytest.fixture
def large_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a release."""
    with disk(tmp_path / "disk", "3m") as folder:
        yield folder


class Until:
    """Does something to the world while a release is at work: from one step on, to another."""

    def __init__(self, begin: str, what: Callable[[], Any], end: str = "never") -> None:
        self.begin, self.what, self.end = begin, what, end
        self.stack = ExitStack()

    def __call__(self, step: str, _done: float) -> None:
        if step == self.begin:
            self.stack.enter_context(self.what())
        if step == self.end:
            self.stack.close()


# ------------------------------------------------------------------------------------ full disks


@pytest.mark.parametrize("moment", [FIRST, SECOND])
def test_a_disk_that_fills_up_costs_the_price_and_leaves_nothing(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, large_disk: Path, moment: str
) -> None:
    filling = Until(moment, lambda: full(large_disk, 100))
    with filling.stack, pytest.raises(eree.Refusal) as why:
        eree.publish(plan, population, ledger=ledger, out=large_disk / "out", progress=filling)
    told = str(why.value)
    assert SENTENCE.fullmatch(told)
    assert re.match(f"the disk of {large_disk} is full; |{large_disk}/out cannot be written", told)
    assert f"; {SPENT.format(ledger=ledger.name)}; " in told
    assert told.endswith("and release again")
    assert left(large_disk) == set()
    assert (ledger.spent().epsilon, ledger.account().settled) == (3, {})
    eree.publish(plan, population, ledger=ledger, out=large_disk / "out")


def test_whatever_room_is_left_a_release_is_whole_or_not_there(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, large_disk: Path
) -> None:
    """Page by page more room, so that each file in turn is the one that does not fit."""
    done = []
    for spare in range(12):
        out = large_disk / f"out{spare}"
        filling = Until(FIRST, partial(full, large_disk, 100 + 1_000 * spare, spare), "settling")
        before = ledger.spent().epsilon
        with filling.stack:
            try:
                release = eree.publish(plan, population, ledger=ledger, out=out, progress=filling)
                done.append(release.tables == ("sectors", "women"))
            except eree.Refusal as refusal:
                assert "the price of epsilon 3 is spent" in str(refusal)
                assert left(large_disk) == set()
                done.append(False)
        assert ledger.spent().epsilon == before + 3
        if done[-1]:
            break
    assert done == [*[False] * (len(done) - 1), True]
    assert len(done) > 4
    assert len(ledger.account().settled) == 1


def test_a_disk_that_is_full_already_costs_nothing(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, large_disk: Path
) -> None:
    with full(large_disk, 1 << 19, spare=100), pytest.raises(eree.Refusal) as why:
        eree.publish(plan, population, ledger=ledger, out=large_disk / "out")
    assert re.fullmatch(
        rf"nothing can be written in {large_disk} \((no space left on device|file too large)\);"
        " choose a folder that you may write to and that has room; nothing was spent",
        str(why.value),
    )
    assert left(large_disk) == set()
    assert ledger.spent().epsilon == 0


def test_a_ledger_without_room_pays_for_nothing(
    population: eree.Tables, plan: eree.Plan, large_disk: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    ledger = eree.Ledger.create(large_disk / "ledger.db", TOTAL, data_set="data")

    def counted(*_given: Any, **_named: Any) -> Any:
        raise AssertionError("nothing may be counted")

    monkeypatch.setattr(publishing, "stream", counted)
    filling = Until("reserving the price", lambda: full(large_disk, 100))
    with filling.stack, pytest.raises(eree.Refusal, match="there is no room for") as why:
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out", progress=filling)
    assert "make room, and see with 'eree ledger show' what was written" in str(why.value)
    assert left(tmp_path) == set()
    assert ledger.spent().epsilon == 0


def test_a_ledger_that_cannot_settle_leaves_a_release_that_is_whole(
    population: eree.Tables, plan: eree.Plan, large_disk: Path, tmp_path: Path
) -> None:
    ledger = eree.Ledger.create(large_disk / "ledger.db", TOTAL, data_set="data")
    filling = Until("settling", lambda: full(large_disk, 100))
    out = tmp_path / "out"
    with filling.stack, pytest.raises(eree.Refusal, match="there is no room for") as why:
        eree.publish(plan, population, ledger=ledger, out=out, progress=filling)
    assert str(why.value).endswith(
        f"; the release in {out} is whole and may be used; see with 'eree ledger show' whether its"
        f" price is settled (entry 2 of {ledger.name})"
    )
    assert left(tmp_path) == {"out"}
    release = eree.Release.open(out)
    found = eree.verify(release, ledger=ledger)
    assert ["was never settled" in fault.rule for fault in found.faults] == [True]
    assert "entry 2 of the ledger paid for it (reserved, never settled)" in found.checks
    status, shown, _ = eree_command("ledger", "show", ledger.name)
    assert (status, "settles" in shown, "reserved" in shown) == (0, False, True)
    ledger.settle(release.reservation, release.record["digest"])
    assert eree.verify(release, ledger=ledger).sound


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("reserving the price", "the login and that the server runs; nothing was spent"),
        (
            "settling",
            "; the release in {out} is whole and may be used; see with 'eree ledger show' whether"
            " its price is settled (entry 2 of the PostgreSQL database postgres)",
        ),
    ],
)
def test_a_server_that_dies_is_reported_with_what_it_was_paid(
    population: eree.Tables,
    plan: eree.Plan,
    postgres: PostgresServer,
    tmp_path: Path,
    moment: str,
    words: str,
) -> None:
    ledger = eree.Ledger.create(postgres.new_place(), TOTAL, data_set="data")
    out = tmp_path / "out"

    def die(step: str, _done: float) -> None:
        if step == moment:
            postgres.stop("immediate")

    with pytest.raises(eree.Refusal, match="cannot be reached, or refuses the login") as why:
        eree.publish(plan, population, ledger=ledger, out=out, progress=die)
    postgres.start()
    assert str(why.value).endswith(words.format(out=out))
    spent = ledger.spent().epsilon
    assert (out.exists(), spent) == ((True, 3) if moment == "settling" else (False, 0))


# ------------------------------------------------------------------------- whatever else may fail


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_given: Any, **_named: Any) -> Any:
        raise error

    return fail


def system(code: int) -> OSError:
    return OSError(code, "worker 4711", "/worker/4711")


@pytest.mark.parametrize(
    ("place", "error", "words", "advice"),
    [
        ("parquet.ParquetWriter", system(errno.EDQUOT), "the disk of {home} is full", "free space"),
        ("arrow_csv.CSVWriter", system(errno.EMFILE), "{out} cannot be written (too many", "see"),
        ("stream", pa.ArrowInvalid("worker 4711"), "{out} cannot be written (ArrowInv", "see"),
        ("stream", pa.ArrowMemoryError("4711"), "there is not enough memory", "free some"),
        ("stream", MemoryError(), "there is not enough memory", "free some"),
        ("stream", eree.EngineFailure("DuckDB ran out; free some"), "DuckDB ran out; free", ""),
        ("file_digest", system(errno.EIO), "{out} cannot be written (input/output error)", "see"),
        ("Path.write_text", system(errno.ENOSPC), "the disk of {home} is full", "free space"),
        ("os.fsync", system(errno.EIO), "{out} cannot be written (input/output error)", "see"),
        ("Path.rename", system(errno.EROFS), "nothing can be written in {home}", "choose another"),
        ("Path.rename", OSError("4711"), "{out} cannot be written (OSError)", "see to that and"),
    ],
)
def test_whatever_fails_after_paying_says_that_the_price_is_spent(
    population: eree.Tables,
    plan: eree.Plan,
    ledger: eree.Ledger,
    tmp_path: Path,
    monkeypatch: Any,
    place: str,
    error: Exception,
    words: str,
    advice: str,
) -> None:
    def break_it(step: str, _done: float) -> None:
        if step == FIRST:
            monkeypatch.setattr(f"eree.release.publish.{place}", raising(error))

    with pytest.raises(eree.Refusal) as why:
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out", progress=break_it)
    monkeypatch.undo()
    told = str(why.value)
    assert SENTENCE.fullmatch(told)
    assert told.startswith(words.format(home=tmp_path, out=tmp_path / "out"))
    _, _, after = told.partition(f"; {SPENT.format(ledger=ledger.name)}")
    assert after.startswith(f"; {advice}" if advice else "")
    assert "4711" not in told
    assert why.value.__cause__ is None
    assert why.value.__suppress_context__ or advice == ""
    assert left(tmp_path) == set()
    assert (ledger.spent().epsilon, ledger.account().settled) == (3, {})


def test_an_interrupt_and_a_fault_of_our_own_carry_what_they_cost(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    costs = []

    def stop(error: BaseException, moment: str) -> Callable[[str, float], None]:
        def at(step: str, _done: float) -> None:
            if step == moment:
                raise error

        return at

    moments = ("reserving the price", FIRST, "settling", "done")
    for i, moment in enumerate(moments):
        error = KeyboardInterrupt() if i % 2 else ZeroDivisionError()
        with pytest.raises(type(error)) as why:
            eree.publish(plan, population, ledger=ledger, out=out, progress=stop(error, moment))
        costs += [note for note in why.value.__notes__ if isinstance(note, Cost)]
        if out.exists():
            out.rename(tmp_path / f"{i}")
    monkeypatch.setattr(eree.Ledger, "reserve", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as why_not:
        eree.publish(plan, population, ledger=ledger, out=out)
    costs += why_not.value.__notes__
    whole = f"the release in {out} is whole and may be used; its price"
    assert costs == [
        "nothing was spent",
        SPENT.format(ledger=ledger.name),
        f"{whole} {OPEN} (entry 3 of {ledger.name})",
        f"{whole} is settled (entry 4 of {ledger.name})",
        "see with 'eree ledger show' whether the price was taken",
    ]
    assert left(tmp_path) == {"2", "3"}


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("driver", ["sqlite3", "psycopg"])
@pytest.mark.parametrize(
    ("call", "state"),
    [("commit", OPEN), ("rollback", "is settled"), ("close", "is settled")],
)
def test_an_interrupt_while_settling_says_what_the_ledger_says(
    population: eree.Tables,
    plan: eree.Plan,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    call: str,
    state: str,
) -> None:
    """Before the commit, and after it: while the connection is handed back, and while it closes."""
    where = tmp_path / "ledger.db" if driver == "sqlite3" else postgres.new_place()
    ledger = eree.Ledger.create(where, TOTAL, data_set="data")
    interrupts = [KeyboardInterrupt()]
    base = sqlite3.Connection if driver == "sqlite3" else psycopg.Connection
    inherited, connect = getattr(base, call), importlib.import_module(driver).connect

    class Interrupted(base):  # type: ignore[misc,valid-type]
        pass

    def interrupted(self: Any) -> None:
        error = interrupts.pop() if interrupts else None
        if error and call == "commit":
            raise error
        inherited(self)
        if error:
            raise error

    setattr(Interrupted, call, interrupted)

    def settling(step: str, _done: float) -> None:
        if step == "settling" and driver == "sqlite3":
            factory = partial(connect, factory=Interrupted)
            monkeypatch.setattr("eree.budget.stores.sqlite3.connect", factory)
        elif step == "settling":
            monkeypatch.setattr("psycopg.connect", Interrupted.connect)

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt) as why:
        eree.publish(plan, population, ledger=ledger, out=out, progress=settling)
    assert interrupts == []
    assert [note for note in why.value.__notes__ if isinstance(note, Cost)] == [
        f"the release in {out} is whole and may be used; its price {state}"
        f" (entry 2 of {ledger.name})"
    ]
    assert ledger.account().settled.keys() == ({2} if state == "is settled" else set())


def test_a_folder_that_was_filled_meanwhile_is_left_alone(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def fill(step: str, _done: float) -> None:
        if step == SECOND:
            out.mkdir()
            (out / "theirs").write_text("x")

    with pytest.raises(eree.Refusal, match="was filled meanwhile; name another folder; the price"):
        eree.publish(plan, population, ledger=ledger, out=out, progress=fill)
    assert [path.name for path in out.iterdir()] == ["theirs"]
    assert left(tmp_path) == {"out"}


def test_an_empty_folder_is_replaced_or_refused_before_paying(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", raising(system(errno.EBUSY)))  # such as a disk's own folder
        with pytest.raises(eree.Refusal) as why:
            eree.publish(plan, population, ledger=ledger, out=out)
    assert str(why.value) == (
        f"{out} cannot be replaced (device or resource busy); name a new folder; nothing was spent"
    )
    assert ledger.spent().epsilon == 0
    assert eree.publish(plan, population, ledger=ledger, out=out).tables == ("sectors", "women")
    assert left(tmp_path) == {"out"}


def test_a_disk_that_fails_to_keep_the_last_name_says_that_the_release_is_there(
    population: eree.Tables, plan: eree.Plan, ledger: eree.Ledger, tmp_path: Path, monkeypatch: Any
) -> None:
    fsync, codes = os.fsync, [errno.EIO, errno.EINVAL]

    def refusing(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink() == tmp_path:
            raise system(codes[0])
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    with pytest.raises(eree.Refusal) as why:
        eree.publish(plan, population, ledger=ledger, out=tmp_path / "out")
    assert str(why.value) == (
        f"{tmp_path}/out cannot be written (input/output error); the release in {tmp_path}/out is"
        f" whole and may be used; its price stays reserved, and 'eree ledger close --release'"
        f" settles it (entry 2 of {ledger.name})"
    )
    codes.pop(0)  # a file system that keeps names unasked
    eree.publish(plan, population, ledger=ledger, out=tmp_path / "another")
    assert ledger.account().settled.keys() == {3}


def test_a_seeded_release_that_fails_has_cost_nothing(
    population: eree.Tables, plan: eree.Plan, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(publishing, "stream", raising(system(errno.ENOSPC)))
    with pytest.raises(eree.Refusal, match="is full; nothing was spent; free space and release"):
        eree.publish(
            plan, population, ledger=None, out=tmp_path / "out", random=eree.SeededRandom(1)
        )
    assert left(tmp_path) == set()
