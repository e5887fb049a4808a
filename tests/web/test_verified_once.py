"""What is kept of a release that was verified is of those files alone, and of that record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes

import eree
from eree.errors import Refusal
from eree.estimate import calibrated
from eree.verification import verify as verifying
from eree.web import catalogue as opening
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue, seen_in
from eree.web.machines import Machines
from eree.web.render.pages import Pages


@pytest.fixture
def live(releases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(releases[0], tmp_path / "live"))


def spoil(table: Path) -> None:
    table.write_bytes(table.read_bytes() + b"x")


def test_a_table_that_was_another_while_it_was_verified_is_never_taken_for_sound(
    live: Path, releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = next((live / "tables").glob("*.parquet"))
    whole, real = releases[0] / "tables" / table.name, verifying.verify

    def whole_for_a_while(release: Any, **more: Any) -> Any:
        shutil.copy(whole, table)
        return real(release, **more)

    spoil(table)
    monkeypatch.setattr(verifying, "verify", whole_for_a_while)
    with pytest.raises(Refusal, match="changed while it was verified"):
        Catalogue.open([live])
    monkeypatch.setattr(verifying, "verify", real)
    spoil(table)
    with pytest.raises(Refusal, match="is not served"):
        Catalogue.open([live])


def test_a_record_that_was_another_when_it_was_read_is_not_served(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Catalogue.open([live]).data_sets  # and is known from now on
    file, real = live / "release.json", opening.all_of
    good = file.read_text(encoding="utf-8")
    forged = json.loads(good) | {"statements": ["nothing can be learnt"]}
    file.write_text(json.dumps(forged), encoding="utf-8")

    def back_again(release: Any) -> str | None:
        file.write_text(good, encoding="utf-8")
        return real(release)

    monkeypatch.setattr(opening, "all_of", back_again)
    with pytest.raises(Refusal):
        Catalogue.open([live])


def test_a_table_that_changes_after_it_was_verified_is_not_read(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = opening.checks_of

    def then_spoilt(*given: Any) -> Any:
        found = real(*given)
        spoil(next((live / "tables").glob("*.parquet")))
        return found

    monkeypatch.setattr(opening, "checks_of", then_spoilt)
    with pytest.raises(Refusal, match="changed while it was"):
        Catalogue.open([live])


def test_who_watches_sees_a_copy_grow(live: Path, tmp_path: Path) -> None:
    """The record comes first, as names are sorted; the release is whole when the rest is there."""
    coming = tmp_path / "all" / "one"
    coming.mkdir(parents=True)
    shutil.copy(live / "release.json", coming)
    before = seen_in([tmp_path / "all"])
    shutil.copytree(live / "tables", coming / "tables")
    assert seen_in([tmp_path / "all"]) != before


def test_what_verifying_estimates_needs_is_not_made_again_at_the_next_start(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eree.write_estimates(live)
    first = Catalogue.open([live]).data_sets
    calibrated._calibrated.cache_clear()  # as in another process

    def made_again(*_given: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(calibrated, "_made", made_again)
    assert [one.name for one in Catalogue.open([live]).data_sets] == [one.name for one in first]


def test_what_was_verified_and_learnt_may_be_taken_to_where_a_release_is_served(
    live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Catalogue.open([live]).data_sets
    there = tmp_path / "there"
    shutil.copytree(tmp_path / "cache", there / "cache")
    shutil.move(live, there / "moved")
    (there / "moved/release.json").touch()
    monkeypatch.setenv("EREE_CACHE", str(there / "cache"))

    def made_again(*_given: Any, **_more: Any) -> None:
        raise AssertionError

    calibrated._calibrated.cache_clear()  # as in another process
    monkeypatch.setattr(verifying, "verify", made_again)
    monkeypatch.setattr(calibrated, "_made", made_again)
    again = Catalogue.open([there / "moved"]).data_sets
    assert [(one.name, one.checks) for one in again] == [(one.name, one.checks) for one in first]
    spoil(next((there / "moved/tables").glob("*.csv")))  # not even its twin may be another
    with pytest.raises(AssertionError):
        Catalogue.open([there / "moved"])


def test_templates_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str | None] = []
    parse = Environment._parse

    def counted(
        self: Environment, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        compiled.append(name)
        return parse(self, source, name, filename)

    def ready() -> int:
        pages = Pages("http://127.0.0.1", branding, Machines((), "http://127.0.0.1", branding))
        pages.compile()
        return compiled.count("error.html")

    monkeypatch.setattr(Environment, "_parse", counted)
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    branding = Branding(languages=("en", "es"))
    assert [ready() for _ in range(3)] == [2, 2, 2]  # in each language
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert ready() == 4
    monkeypatch.setenv("EREE_CACHE", "")
    assert ready() == 6
