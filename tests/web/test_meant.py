"""What was perhaps meant by a name that nothing has: among a few names, and among very many."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from starlette.testclient import TestClient

from eree.web import refusals
from eree.web.linked import LinkedTable
from eree.web.refusals import NotKnown, no_code, reason_of

TRACTS = {f"{17_000_000_000 + 37 * number:011d}": number for number in range(28_505)}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("rows=sectr", "sector"),
        ("where.ownership=publik", "public"),
        ("where.ownership=Public", "public"),
        ("rows=sector&group.sector=supersecter", "supersector"),
        ("rowz=sector", "rows"),
        ("mesure=jobs", "measure"),
        ("show=intervall", "interval"),
    ],
)
def test_a_refusal_says_what_was_perhaps_meant(
    query: str, meant: str, client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    found = client.get(f"/d/{name}.json?{query}").json()["error"]["message"]
    assert found.endswith(f"; did you mean {meant}?")
    assert f"did you mean {meant}?</p>" in client.get(f"/d/{name}?{query}").text


def test_nothing_is_proposed_that_is_not_near(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    for query in ("rows=zzzzzz", "where.ownership=x", "where.place=" + "9" * 60):
        found = client.get(f"/d/{tables['jobs'].name}.json?{query}").json()["error"]["message"]
        assert "did you mean" not in found


def test_two_areas_are_named_by_mistake(client: TestClient, tables: dict[str, LinkedTable]) -> None:
    query = "rows=sector&one=Utilites&two=72&show=margin"
    reply = client.get(f"/d/{tables['jobs'].name}/ranking.json?{query}")
    assert reply.json()["error"]["message"].endswith("; did you mean utilities?")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("7000000037", "17000000037"),  # a letter is missing
        ("170000000037", "17000000037"),
        ("17000000038", "17000000037"),
        ("71000000037", "17000000037"),
        ("99999999999", ""),
    ],
)
def test_among_many_codes_those_one_slip_away_are_found(written: str, meant: str) -> None:
    found = reason_of(no_code("tract", written, TRACTS))
    assert found.endswith(f"; did you mean {meant}?" if meant else "choose from its list")


class Counted(dict[str, int]):
    """Codes that count how often they are looked up, and are never gone through."""

    looked = 0

    def __contains__(self, key: object) -> bool:
        Counted.looked += 1
        return super().__contains__(key)

    def __iter__(self) -> Any:
        raise AssertionError("all codes are gone through")


def test_the_work_for_a_proposal_is_bounded(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: Collection[str] = Counted(TRACTS)
    for written in ("x" * 40, "x" * 41, "x" * 8_000):
        reason_of(no_code("tract", written, codes))
    assert 1_000 < Counted.looked < 6_000
    asked = []
    meant = NotKnown.meant
    monkeypatch.setattr(NotKnown, "meant", lambda self: asked.append(self) or meant(self))
    query = "&".join(f"where.sector=zz{number}" for number in range(400))
    assert client.get(f"/d/{tables['jobs'].name}?{query}").status_code == 400
    assert len(asked) == 1  # once for a question, however many parts of it are not known
    assert refusals._MOST_COMPARED < 100


def test_a_level_is_no_variable_and_what_asks_for_it_is_said(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    for query in ("cols=supersector", "where.supersector=x"):
        found = client.get(f"/d/{name}.json?{query}").json()["error"]["message"]
        assert found == "Supersector is a level of sector: group.sector=supersector"
    asked = "rows=sector&group.sector=supersector"
    assert client.get(f"/d/{name}.json?{asked}").status_code == 200
    page = client.get(f"/d/{name}?rows=supersector").text
    assert "Supersector is a level of sector: group.sector=supersector" in page
