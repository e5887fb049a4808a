"""Which areas lie in which, by public files alone: what is found, and what is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eree
from eree.data.nesting import nestings
from town import Town

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Codes = Sequence[tuple[str, str, str]]
Said = Mapping[str, str | None]


def written(codes: Codes, said: Said, folder: Path, *, hierarchy: bool, as_csv: bool) -> Path:
    """Workplaces with a tract, a county and a state, and a reference with states of counties."""
    town, number = Town(), len(codes)
    places = zip(*codes, strict=True)
    town.tables["workplace"] = {
        "workplace_id": list(range(number)),
        **{name: list(own) for name, own in zip(("tract", "county", "state"), places, strict=True)},
        "sector": ["11"] * number,
        "wages": [1] * number,
    }
    town.tables["job"]["workplace_id"] = [0] * 6
    town.tables["county"] = {"county": list(said), "state": list(said.values())}
    town.types["county", "state"] = pa.string()
    town.schema["hierarchy"] = {"geography": ["tract", "county"]} if hierarchy else {}
    return (town.as_csv() if as_csv else town).write(folder)


def expected(codes: Codes, said: Said) -> tuple[dict[str, str | None], bool]:
    """The state of each county by a plain reading, and whether the reference is contradicted."""
    states = {county: said[county] for _, county, _ in codes}
    crossing = any(said[county] not in (None, state) for _, county, state in codes)
    return states, crossing


def check(tables: eree.Tables, codes: Codes, said: Said, *, hierarchy: bool) -> None:
    states, crossing = expected(codes, said)
    whole = dict.fromkeys(states) != states and not crossing
    found = {one.fine: one for one in nestings(tables, ["tract"] if hierarchy else ["county"])}
    assert set(found) == ({"tract", "county"} if hierarchy else {"county"})
    county = found["county"]
    assert county.above == (("state",) if whole else ())
    assert county.crossing == (("state",) if crossing else ())
    if whole:
        assert county.codes.to_pylist() == [
            {"county": code, "state": states[code]} for code in sorted(states)
        ]
    if hierarchy:
        tracts = {tract: county for tract, county, _ in codes}
        through = {t: {"state": states[c]} if whole else {} for t, c in tracts.items()}
        assert found["tract"].codes.to_pylist() == [
            {"tract": t, "county": tracts[t], **through[t]} for t in sorted(tracts)
        ]


@given(st.data())
def test_what_lies_in_what_is_what_a_plain_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    some = st.tuples(st.sampled_from("tuvw"), st.sampled_from("abc"), st.sampled_from("xy"))
    codes = data.draw(st.lists(some, min_size=1, max_size=6))
    if data.draw(st.booleans()):  # mostly all of them would cross
        state_of = dict(zip("abc", data.draw(st.tuples(*[st.sampled_from("xy")] * 3)), strict=True))
        codes = [(tract, county, state_of[county]) for tract, county, _ in codes]
        said: dict[str, str | None] = dict(state_of)
        for county in data.draw(st.lists(st.sampled_from("abc"), max_size=2)):
            said[county] = None
    else:
        values = st.sampled_from(["x", "y", None])
        said = {county: data.draw(values) for county in "abc"}
    hierarchy = data.draw(st.booleans())
    folder = tmp_path_factory.mktemp("town")
    as_csv = data.draw(st.booleans())
    found = eree.check(written(codes, said, folder, hierarchy=hierarchy, as_csv=as_csv))
    counties = {(tract, county) for tract, county, _ in codes}
    if hierarchy and len(counties) > len({tract for tract, _ in counties}):
        assert [fault.rule for fault in found.faults] == ["the tract lies in more than one county"]
        return
    assert found.tables is not None
    check(found.tables, codes, said, hierarchy=hierarchy)


def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    codes = [("t", "a", "x"), ("u", "a", "x"), ("v", "b", "y"), ("v", "b", "x"), ("w", "c", "y")]
    cases: list[dict[str, Any]] = [
        {"a": "x", "b": None, "c": "y"},
        {"a": "x", "b": "y", "c": "y"},
    ]
    for said, as_csv in product(cases, (False, True)):
        folder = tmp_path / f"{said['b']}-{as_csv}"
        made = written(codes, said, folder, hierarchy=True, as_csv=as_csv)
        check(eree.load(made, engine=spark), codes, said, hierarchy=True)


def test_integers_and_groups_are_codes_too(tmp_path: Path) -> None:
    town = Town()
    town.tables["workplace"]["state"] = [17, 17, 17, 18]
    town.schema["group"]["region"] = {"of": "state", "members": {"n": [17], "s": [18]}}
    town.schema["hierarchy"]["geography"].append("region")
    tables = eree.load(town.write(tmp_path))
    tract, county = nestings(tables, ["sector", "tract"])
    assert (tract.above, county.above) == (("county", "state", "region"), ("state", "region"))
    assert county.codes.to_pylist()[-1] == {"county": "181", "state": 18, "region": "s"}
    assert county.codes["state"].type == pa.int64()


def test_what_declares_nothing_has_nothing_above(tmp_path: Path) -> None:
    tables = eree.load(Town().write(tmp_path))
    assert nestings(tables, ["sector", "state"]) == ()
