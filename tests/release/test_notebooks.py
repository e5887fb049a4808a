"""Results in notebooks and data frames: pages, streams, short reprs, paths, and nothing secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eree
from eree.errors import hint, integer
from eree.release.tabular import Tabular
from town import Town

Made = Callable[[eree.Release], Tabular]


def two(release: eree.Release) -> list[dict[str, Any]]:
    return [{"place": code} for code in release.table("places")["place"].unique().to_pylist()[:2]]


RESULTS: dict[str, Made] = {
    "table": lambda release: release["places"],
    "area_totals": lambda release: eree.area_totals(release, "places", ["place"]),
    "rank": lambda release: eree.rank(release, "places", ["place"], ["sector=23,62"]),
    "threshold": lambda release: eree.threshold(
        release, "places", "place", {area["place"]: np.int64(9_000) for area in two(release)}, 3
    ),
    "compare": lambda release: eree.compare(release, "places", *two(release)),
    "lodes": lambda release: eree.lodes(release, "tract", tables=["tracts"], numbers="measured"),
}


class Page(HTMLParser):
    """The cells of a table, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.lasttag in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_shown_and_read_as_it_is(name: str, release: eree.Release) -> None:
    found = RESULTS[name](release)
    rows = pa.table(found)
    assert rows.num_rows > 0
    assert rows.equals(found._table())
    assert duckdb.sql("from found").fetchall() == [tuple(r.values()) for r in rows.to_pylist()]
    shown = Page(found._repr_html_()).rows
    assert shown[0] == rows.column_names
    assert len(shown) - 1 == min(rows.num_rows, 20)
    for text, value in zip(shown[1], rows.to_pylist()[0].values(), strict=True):
        if isinstance(value, float):
            assert float(text) == pytest.approx(value, rel=1e-5)
        else:
            assert text == ("" if value is None else str(value))
    assert len(repr(found)) < 250


def test_what_is_not_private_is_said_in_every_notebook(release: eree.Release) -> None:
    assert not release.private
    assert "which is not private" in repr(release["places"])
    assert "which is not private" in eree.rank(release, "places", ["place"])._repr_html_()
    private = replace(release, record={**release.record, "private": True})
    assert "private" not in repr(private["places"])


def test_codes_of_a_release_are_no_part_of_a_page(release: eree.Release) -> None:
    rows = pa.table({"place": ["<script>alert(1)</script>"], "noisy": [1]})
    found = replace(
        eree.area_totals(release, "places", ["place"]), rows=rows, where={"a": ("<b>",)}
    )
    assert "<script>" not in found._repr_html_()
    assert "<b>" not in found._repr_html_()
    assert Page(found._repr_html_()).rows[1][0] == "<script>alert(1)</script>"


def test_confidential_cells_have_no_page_and_no_stream(population: eree.Tables) -> None:
    cells = eree.tabulate(population, by=["sector"])
    assert not isinstance(cells, Tabular)
    for name in ("_repr_html_", "__arrow_c_stream__", "to_pandas", "_repr_mimebundle_"):
        assert not hasattr(cells, name)
        assert not hasattr(population, name)
    counts = re.findall(r"\d[\d,]*", repr(cells).replace("sector", ""))
    assert counts == [str(len(cells))]


def test_without_pandas_frames_of_it_are_refused(
    release: eree.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = release["places"]
    monkeypatch.setattr("eree.release.tabular.find_spec", lambda _name: None)
    with pytest.raises(eree.Refusal, match=r"pandas is not installed; .*pip install pandas"):
        found.to_pandas()


def test_with_pandas_there_are_frames_of_it(release: eree.Release) -> None:
    found = release["places"]
    frame = found.to_pandas()
    assert list(frame.columns) == found.rows.column_names
    assert frame["noisy"].tolist() == found.rows["noisy"].to_pylist()


def test_a_release_names_its_tables(release: eree.Release) -> None:
    assert list(release) == list(release.tables)
    assert release["totals"].rows.equals(release.table("totals"))


# ------------------------------------------------------------------------------------ paths


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "table"])
def test_a_folder_is_as_good_as_a_release(name: str, release: eree.Release) -> None:
    function = getattr(eree, name)
    arguments: dict[str, tuple[Any, ...]] = {
        "area_totals": ("places", ["place"]),
        "rank": ("places", ["place"]),
        "threshold": ("places", "place", {area["place"]: "9" for area in two(release)}, "3"),
        "compare": ("places", *two(release)),
        "lodes": ("tract",),
    }
    given, named = arguments[name], {}
    if name == "lodes":
        named = {"tables": ["tracts"], "numbers": "measured"}
    whole = pa.table(function(release, *given, **named))
    assert pa.table(function(str(release.folder), *given, **named)).equals(whole)
    assert pa.table(function(release.folder, *given, **named)).equals(whole)
    with pytest.raises(eree.Refusal, match=r"give a release, or the name of its folder"):
        function(None, *given)


def test_whatever_takes_a_release_takes_its_folder(release: eree.Release) -> None:
    folder = str(release.folder)
    with pytest.raises(eree.Refusal, match="has 13 groups of worker cells"):
        eree.shrink(folder, "sexes")
    with pytest.raises(eree.Refusal, match="does not have a row for each workplace"):
        eree.size_strata(folder, "places", [np.int64(40)])
    with pytest.raises(eree.Refusal, match="999 is not the year of the release"):
        eree.lodes_files(folder, "tract", year=999)
    with pytest.raises(eree.Refusal, match="nowhere cannot be read"):
        eree.write_estimates(folder, "nowhere")


def test_a_release_can_be_named_by_its_argument(release: eree.Release) -> None:
    named: Any = eree.rank
    assert len(named(release=str(release.folder), table="places", by=["place"])) > 0


def test_a_verification_is_false_where_something_is_wrong(release: eree.Release) -> None:
    found = eree.verify(str(release.folder))
    assert found.faults  # its noise was drawn from a seeded source
    assert not found
    assert "nothing is protected" in repr(found)
    assert eree.verify(release).faults == found.faults
    with pytest.raises(eree.Unreadable, match=r"holds no release\.json"):
        eree.verify(str(release.folder / "tables"))


def test_a_certificate_is_true_where_the_claim_holds() -> None:
    made = eree.mechanism("edge-geometric", epsilon="1").certify()
    assert made and made.holds
    assert not replace(made, bound=made.bound + 1)


def test_a_plan_and_a_schema_are_short(population: eree.Tables) -> None:
    settings = {
        "data": str(population.folder),
        "privacy": {"neighbours": "strong", "alpha": Decimal("0.1"), "epsilon": np.int64(2)},
        "table": [{"name": "places", "by": ["place"], "epsilon": Decimal("0.5")}],
    }
    plan = eree.Plan.of(settings)
    assert repr(plan) == "<Plan of places: 1 table for epsilon 0.5 in all>"
    assert plan.total == eree.Guarantee(eree.Strong("0.1"), 2)
    assert len(repr(plan.schema)) < 250


# ---------------------------------------------------------------------------- exact numbers


def test_decimals_and_integers_of_numpy_are_exact() -> None:
    relation = eree.Strong(Decimal("0.1"))
    assert relation == eree.Strong("0.1")
    assert eree.Guarantee(relation, np.int64(2), Decimal("1e-6")) == eree.Guarantee(
        relation, 2, "0.000001"
    )
    assert eree.DropFrom(np.int32(50)) == eree.DropFrom(50)
    assert type(eree.DropFrom(np.int32(50)).theta) is int
    by_numpy = eree.mechanism("vector-radial", alpha="0.1", epsilon="4", cells=np.int64(4))
    assert by_numpy == eree.mechanism("vector-radial", alpha="0.1", epsilon="4", cells=4)
    assert type(by_numpy.parameters["cells"]) is str
    dropping = eree.mechanism("truncated-laplace", epsilon="1", theta=np.uint8(20))
    assert dropping == eree.mechanism("truncated-laplace", epsilon="1", theta=20)
    one, other = eree.SeededRandom(np.int64(7)), eree.SeededRandom(7)
    assert one.words(4).tolist() == other.words(4).tolist()


@pytest.mark.parametrize(
    "wrong",
    [0.1, np.float64(0.1), True, np.True_, None, Decimal("nan"), Decimal("inf"), Decimal("1e9999")],
)
def test_what_is_not_exact_is_refused(wrong: Any) -> None:
    with pytest.raises(eree.Refusal, match=r"^epsilon must be"):
        eree.Guarantee(eree.EDGE, wrong)
    with pytest.raises(eree.Refusal, match="theta must be an integer"):
        eree.DropFrom(wrong)


@pytest.mark.parametrize(("least", "most"), [(None, None), (1, None), (None, 3), (1, 3)])
def test_an_integer_is_within_its_bounds(least: int | None, most: int | None) -> None:
    for value in range(-1, 6):
        inside = (least is None or value >= least) and (most is None or value <= most)
        if inside:
            assert integer(np.int16(value), "no", least, most) == value
        else:
            with pytest.raises(eree.Refusal, match="no"):
                integer(value, "no", least, most)


def test_probabilities_of_many_outputs_are_asked_for_at_once() -> None:
    made = eree.mechanism("smooth-pareto", alpha="0.1", epsilon="2")
    cell = eree.Cell(120, 40)
    outputs = np.arange(100, 140).reshape(4, 10)
    found = made.log_pmf(cell, outputs)
    assert found.shape == (4, 10)
    assert found.tolist() == [[made.log_pmf(cell, int(k)) for k in row] for row in outputs]
    assert made.log_pmf(cell, [118, 1 << 62]).tolist() == [made.log_pmf(cell, 118), -np.inf]
    assert made.log_pmf(cell, np.int64(118)) == made.log_pmf(cell, 118)
    assert made.log_pmf(cell, np.array([], int)).tolist() == []
    for wrong in (2.5, [1, 2.5], "7", [[1], [2, 3]]):
        with pytest.raises(eree.Refusal, match="outputs are integers"):
            made.log_pmf(cell, wrong)  # type: ignore[call-overload]


# ---------------------------------------------------------------------------- did you mean


def test_a_name_that_is_nearly_right_is_suggested(release: eree.Release) -> None:
    with pytest.raises(eree.Refusal, match=r"; did you mean places\?$"):
        release.table("Place")
    with pytest.raises(eree.Refusal, match=r"; did you mean sector\?$"):
        eree.rank(release, "places", ["sectr"])
    with pytest.raises(eree.Refusal, match=r"; did you mean smooth-pareto\?$"):
        eree.mechanism("smooth_pareto", alpha="0.1", epsilon="2")
    with pytest.raises(eree.Refusal, match=r"it takes only theta; did you mean theta\?$"):
        eree.mechanism("truncated-laplace", epsilon="2", thet=20)
    with pytest.raises(eree.Refusal, match=r"; did you mean private\?$"):
        eree.rank(release, "places", ["place"], {"ownership": "Privat"})
    with pytest.raises(AttributeError, match=r"; did you mean tabulate\?$"):
        eree.tabulat  # noqa: B018


def test_a_name_that_is_like_no_other_is_not_guessed_at() -> None:
    assert hint("gauss", ["smooth-pareto", "radial"]) == ""
    assert hint("tract", ["state", "county"]) == ""
    assert hint(None, []) == ""


def test_a_confidential_attribute_is_not_suggested(tmp_path: Path) -> None:
    tables = eree.load(Town().write(tmp_path))
    with pytest.raises(eree.Refusal, match="which the schema does not declare") as caught:
        eree.tabulate(tables, by=["wage"])
    assert "wages" not in str(caught.value)
