"""What a release publishes of groups and hierarchies can be asked for, and adds up."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

import eree
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.dataset import Group, Variable
from eree.web.figures import Asked
from eree.web.linked import LinkedTable
from eree.web.query import Query, default_query


def figures(data: LinkedTable, query: Query) -> dict[str, tuple[int, float, float]]:
    found = data.figures(query.asked())
    (axis,) = found.axes
    rows = zip(
        found.places[0].tolist(),
        found.values.tolist(),
        found.low.tolist(),
        found.high.tolist(),
        strict=True,
    )
    return {axis.codes[place]: numbers for place, *numbers in rows}


def test_a_declared_hierarchy_is_a_level(tables: dict[str, LinkedTable]) -> None:
    county, tract = tables["tracts"].variables
    assert set(tract.levels) == {"county", "state"} and not county.levels
    members = [m for group in tract.levels["county"] for m in group.members]
    assert sorted(members) == list(range(len(tract.codes)))
    for group in tract.levels["county"]:
        assert {tract.codes[m][:5] for m in group.members} == {group.code}
    assert tract.level_title("county") == "County"


def test_groups_of_a_level_have_the_figures_of_the_coarser_variable(
    tables: dict[str, LinkedTable],
) -> None:
    data = tables["tracts"]
    coarse = figures(data, Query(("county",)))
    assert figures(data, Query(("tract",), groups={"tract": "county"})) == coarse
    for code in coarse:
        kept = figures(data, Query(("tract",), where={"tract": (code,)}))
        assert kept == figures(data, Query(("tract",), where={"county": (code,)}))


def test_what_a_reference_says_is_a_level(
    tables: dict[str, LinkedTable],
) -> None:
    place = tables["jobs"].variable("place")
    assert list(place.levels) == ["state", "county"]
    rows = tables["branches"].release.table("branches")
    lies_in = dict(zip(rows["place"].to_pylist(), rows["county"].to_pylist(), strict=True))
    for group in place.levels["county"]:
        assert [place.codes[m] for m in group.members] == [
            code for code in place.codes if lies_in[code] == group.code
        ]


def test_declared_groups_are_levels(tables: dict[str, LinkedTable]) -> None:
    data = tables["jobs"]
    sector = data.variable("sector")
    assert list(sector.levels) == ["supersector"]
    declared = dict(data.release.schema.attributes["supersector"].members)
    grouped = figures(data, Query(("sector",), groups={"sector": "supersector"}))
    single = figures(data, Query(("sector",)))
    for code, (value, low, high) in grouped.items():
        parts = [numbers for sector, numbers in single.items() if declared[sector] == code]
        assert value == sum(part[0] for part in parts)
        assert low <= max(value, 0) <= high
    assert sum(numbers[0] for numbers in grouped.values()) == sum(n[0] for n in single.values())


def test_what_crosses_is_no_level(tables: dict[str, LinkedTable]) -> None:
    for name in ("jobs", "people", "bent"):
        for variable in tables[name].variables:
            assert not set(variable.levels) & {"ownership", "sex", "education", "sector"}


def test_groups_have_the_guaranteed_intervals_of_their_sums(
    tables: dict[str, LinkedTable],
) -> None:
    """Of worker cells too, which a table of their workplaces bounds."""
    seen = set()
    for name, data in tables.items():
        for one in data.variables:
            for level in one.levels:
                asked = Asked((one.name,), {}, {one.name: level}, guaranteed=True)
                found = data.figures(asked)
                said = eree.area_totals(data.release, name, [level]).rows.to_pylist()
                ends = {str(r[level]): (r["guaranteed_low"], r["guaranteed_high"]) for r in said}
                (axis,), (place,) = found.axes, found.places or ()
                for i, at in enumerate(place.tolist()):
                    high = None if np.isinf(found.high[i]) else found.high[i]
                    assert ends[axis.codes[at]] == (found.low[i], high)
                seen.add((name, level))
    assert {("jobs", "county"), ("jobs", "supersector"), ("tracts", "county")} <= seen


def variable() -> Variable:
    """Codes whose groups do not lie side by side, at two levels, one of which crosses."""
    fine = (Group("A", "first", (0, 3)), Group("B", "second", (1, 2)), Group("C", "third", (4,)))
    coarse = (Group("X", "left", (0, 3, 4)), Group("Y", "right", (1, 2)))
    other = (Group("A", "odd", (1, 3)), Group("0", "even", (0, 2, 4)), Group("Q", "none", ()))
    levels = {"coarse": coarse, "fine": fine, "other": other}
    return Variable("v", "V", ("0", "1", "2", "3", "4"), ("0", "1", "2", "3", "4"), levels)


def test_a_tree_lists_every_code_once_under_its_own_groups() -> None:
    lines = variable().listed()
    assert [(line.code, line.depth) for line in lines] == [
        ("X", 0),
        ("A", 1),
        ("0", 2),
        ("3", 2),
        ("4", 1),
        ("Y", 0),
        ("B", 1),
        ("1", 2),
        ("2", 2),
    ]
    assert [line.code for line in variable().listed("right 2")] == ["Y", "B", "2"]


def test_a_code_that_means_two_things_keeps_nothing_but_itself() -> None:
    found = variable()
    assert set(found.groups) == {"X", "Y", "B", "C", "Q"}  # A is two groups, 0 is a code
    assert found.held(["0"]) == [0] and found.held(["Y", "4"]) == [1, 2, 4]
    assert found.filter_of("0", None) == ("0",) and found.filter_of("Y", "coarse") == ("Y",)
    assert found.filter_of("A", "fine") == ("0", "3") and found.filter_of("A", "other") == (
        "1",
        "3",
    )
    assert found.filter_of("0", "other") == ("0", "2", "4")
    assert found.group_places("other").tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("name", ["jobs", "tracts", "branches"])
def test_filters_keep_the_rows_of_their_groups(name: str, tables: dict[str, LinkedTable]) -> None:
    data = tables[name]
    for one in data.variables:
        for code in one.groups:
            places = one.held([code])
            codes = tuple(one.codes[place] for place in places)
            group = data.figures(Query(where={one.name: (code,)}).asked())
            every = data.figures(Query(where={one.name: codes}).asked())
            assert np.array_equal(group.values, every.values)
            assert np.array_equal(group.low, every.low)


def test_the_first_table_of_a_long_list_is_by_its_groups(tables: dict[str, LinkedTable]) -> None:
    assert default_query(tables["tracts"]).rows == ("tract",)  # thirteen fit
    assert not default_query(tables["jobs"]).groups


def test_a_list_that_is_cut_is_searched_whole_and_says_so(
    catalogue: Catalogue, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.render.pages.MOST_LINES", 4)
    client = TestClient(application(catalogue, "http://home"))
    sector = tables["jobs"].variable("sector")
    address, last = f"/d/{tables['jobs'].name}/codes/sector", sector.codes[-1]
    box = f'name="where.sector" value="{last}"'
    whole = client.get(address).text
    lines = len(sector.listed())
    assert f"20 codes; the first 4 of {lines} lines are shown" in whole and box not in whole
    assert "All 20 codes are searched" in whole
    found = client.get(f"{address}?find={last}").text
    assert "1 of 20 codes has these words." in found and box in found
    none = client.get(f"{address}?find=nothing+like+it").text
    assert "0 of 20 codes have these words." in none
    kept = client.get(f"{address}?rows=sector&where.sector={last}&find=nothing").text
    assert f"{box} checked" in kept  # what is ticked stays, found or not
