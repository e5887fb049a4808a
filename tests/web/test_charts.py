"""Charts stay inside their frame, and say the figures that they draw."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from eree.web.answer import answer
from eree.web.block import Cell
from eree.web.catalogue import Catalogue
from eree.web.query import Query
from eree.web.render.charts import (
    MINUS,
    SHADES,
    Scale,
    _field,
    bars,
    drawing,
    error,
    figure,
    heat_map,
    interval,
    shades_up_to,
    short,
)
from eree.web.render.lines import decision_line, rank_line
from questions import queries

reals = st.floats(-1e9, 1e9, allow_nan=False)


def shares(drawing: str) -> list[float]:
    return [float(n) for n in re.findall(r'"(-?[0-9.]+)%"', drawing)]


@given(reals, reals)
def test_a_scale_has_round_numbers_around_all_others(one: float, two: float) -> None:
    low, high = sorted((one, two))
    high = max(high, low + 1e-3)
    scale = Scale.over(low, high)
    slack = 1e-6 * (scale.top - scale.bottom)
    assert scale.bottom <= low + slack and high <= scale.top + slack
    assert 2 <= len(scale.ticks) <= 8
    assert scale.top - high <= 0.34 * (high - scale.bottom) + slack  # a quarter of it
    assert scale.at(scale.bottom) == "0.00%" and scale.at(scale.top) == "100.00%"


def test_a_little_below_zero_takes_little_of_a_chart() -> None:
    scale = Scale.over(-1, 8_000)
    assert scale.bottom == -1 and scale.ticks == [0, 2_000, 4_000, 6_000, 8_000]
    assert float(scale.at(0).rstrip("%")) < 1 and "axis" in scale.lines
    whole = Scale.over(-1_500, 8_000)
    assert whole.ticks[0] == whole.bottom < -1_500
    for drawn in (scale.axis(), whole.axis()):  # no number hangs over an end
        assert drawn.count('"start"') == drawn.count('"end"') == 1


@given(st.lists(st.integers(-50, 10**7), min_size=1, max_size=30))
def test_shades_begin_at_round_figures_and_hold_what_they_say(values: list[int]) -> None:
    cells = [Cell(value, 1, 0.0, inf, None, 0.0, 0.0, ()) for value in values]
    starts = shades_up_to(max(values))
    assert starts == sorted(starts) and len(starts) == SHADES
    assert all(f"{start:.0e}" == f"{start:.5e}".replace(".00000", "") for start in starts)
    for one in cells:
        shade = int(_field(one, starts, "", 0).kind[5])
        if max(values) > 0:
            assert starts[shade] <= max(one.value, 0)
            assert shade == SHADES - 1 or max(one.value, 0) < starts[shade + 1]


@settings(max_examples=15)
@given(st.data())
def test_bars_and_fields_are_the_figures_of_the_page(
    catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    whole = answer(chosen, data.draw(queries(chosen, 2)).on_page(1))
    page = whole.page(60)
    if len(whole.cols) == 1:
        found = bars(page)
        assert len(found.bars) == len(page.rows)
        for i, bar in enumerate(found.bars):
            assert bar.figure == figure(page.body.cell(i, 0), page.shown_decimals)
            assert all(0 <= share <= 100 for share in shares(bar.drawing))
    else:
        heat = heat_map(page)
        shape = (len(heat.rows), {len(fields) for _, fields in heat.rows})
        assert shape == (len(page.rows), {len(page.cols)} if len(page.rows) else set())
        for i, (_, fields) in enumerate(heat.rows):
            for j, field in enumerate(fields):
                cell = page.body.cell(i, j)
                assert f": {figure(cell, page.shown_decimals)}" in field.said
                assert (field.kind == "none") == ("absent" in cell.flags)
                assert ("weak" in field.kind) == ("unreliable" in cell.flags)
        assert len(heat.shades) == SHADES


def test_a_table_in_which_no_workplace_is_has_a_chart(catalogue: Catalogue) -> None:
    found = 0
    for data in catalogue.data_sets:
        if data.kind != "table" or len(data.variables) < 2:
            continue
        one, two = data.variables[:2]
        for codes in product(one.codes[:40], two.codes):
            where = {one.name: codes[:1], two.name: codes[1:]}
            query = Query((one.name,), (two.name,), where)
            if data.most(query.asked()) == 0:
                drawn = drawing(answer(data, query), "grouped")
                assert len(drawn["answer"].rows) == 0
                found += 1
    assert found


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_rank_is_drawn_between_the_best_and_the_worst(best: int, more: int, rest: int) -> None:
    drawing = rank_line(best + more // 2, best, best + more, best + more + rest)
    start, end, dot = shares(drawing)[-3:]
    assert 0 <= start <= dot <= end <= 100


def cell(low: float, value: int, high: float) -> Cell:
    return Cell(value, 1, low, high, None, 0.0, 0.0, ())


def test_a_decision_is_drawn_on_the_side_of_the_threshold_that_it_names() -> None:
    half, limit = Fraction(7, 2), "above"
    for jobs, damage, expected in (
        (cell(90, 100, 110), 3_500, "above"),  # 35 for each job
        (cell(90, 100, 110), 35, "below"),
        (cell(50, 100, 200), 350, "undecided"),
        (cell(0, 5, inf), 35, "undecided"),
        (cell(0, -3, 8), 0, "below"),
    ):
        drawing = decision_line(Fraction(damage), half, jobs, limit)
        start, end, dot = shares(drawing)[-3:]
        assert 0 <= start <= end <= 100 and 0 <= dot <= 100
        sides = {"above": start > 50, "below": end < 50, "undecided": start < 50 < end}
        assert sides[expected] and sum(sides.values()) == 1, expected


@given(reals, st.floats(0, 1e6), st.integers(0, 3))
def test_an_interval_is_shown_no_narrower_than_it_is(low: float, wide: float, digits: int) -> None:
    cell = Cell(0, 1_000, low, low + wide, 1.0, 1.0, inf, ())
    shown = interval(cell, digits).replace(MINUS, "-").replace(",", "")
    first, last = (float(end) for end in shown.split(" to "))
    assert first <= low + 1e-3 * 10**-digits and low + wide <= last + 1e-3 * 10**-digits
    assert low - first < 1.01 * 10**-digits and last - low - wide < 1.01 * 10**-digits


@given(st.integers(-(10**10), 10**10), st.sampled_from([1, 1_000]), st.floats(0.002, 1e8))
def test_figures_are_rounded_to_what_their_errors_support(
    value: int, unit: int, margin: float
) -> None:
    estimate = value / unit
    one = Cell(value, unit, estimate - margin, estimate + margin, None, margin, 1.0, ())

    def read(text: str) -> float:
        return float(text.replace(MINUS, "-").replace(",", "").removeprefix("±"))

    shown, wide = figure(one, None), error(one, "margin", None)
    finest = 0.5 / unit
    assert abs(read(shown) - estimate) <= max(margin / 20, finest) + 1e-6
    least, most = read(shown) - read(wide), read(shown) + read(wide)
    slack = 1e-3 * max(margin, 1 / unit)
    assert least <= estimate - margin + slack and estimate + margin <= most + slack
    digits = wide.removeprefix("±").replace(",", "").replace(".", "").strip("0")
    assert len(digits) <= 3 and read(wide) <= 1.25 * margin + 2 / unit
    low, high = map(read, interval(one, None).split(" to "))
    assert low <= estimate - margin + slack and estimate + margin <= high + slack


def test_the_figure_of_the_report_is_readable() -> None:
    one = Cell(-2_115_766_851, 1_000, 0.0, 2_486_657.3, 2_798_074.9, 4_602_424.2, inf, ())
    assert (figure(one, None), error(one, "margin", None)) == (f"{MINUS}2,100,000", "±4,700,000")
    assert (figure(one, 3), error(one, "margin", 3)) == (f"{MINUS}2,115,766.851", "±4,602,424.2")
    assert error(one, "standard-error", None) == "2,800,000"
    assert error(one, "interval", None) == "0 to 2,500,000"
    assert figure(Cell(1_234, 1, 1_000, inf, None, inf, inf, ("open",)), None) == "1,230"
    assert figure(Cell(1_234, 1, 1_234, 1_234, None, 0.0, 0.0, ()), None) == "1,234"  # exact


def test_numbers_are_short() -> None:
    assert [short(n) for n in (0, 7, 812, 1_234, 99_960, 2.5e6, -4.1e9)] == [
        *("0", "7", "812", "1.23k", "100k", "2.5m", "−4.1bn")
    ]
    assert [short(n, 2) for n in (812, 1_234, 11_600, 999_600)] == ["812", "1.2k", "12k", "1,000k"]
