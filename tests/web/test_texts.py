"""JSON that is put together column by column says what the columns have, be they short or long."""

from __future__ import annotations

import json
from math import isfinite

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eree.web.texts import MANY, Json, texts_of

REALS = st.floats() | st.integers(-(10**6), 10**6).map(float)


def plain(number: float) -> float | None:
    return number if isfinite(number) else None


@pytest.mark.parametrize("times", [1, MANY])
@given(st.lists(REALS, max_size=5))
@example([])
@example([-0.0, 1e15, 1e16, 123456789012345680.0, 5e-324, float("nan"), float("-inf")])
def test_rows_are_what_json_says_of_them(times: int, some: list[float]) -> None:
    reals = np.array(some * times)
    whole = np.arange(len(reals)) - 3
    names = [json.dumps(f'"{number},é') for number in whole.tolist()]
    columns = {"of": np.array(names, dtype=object), "n": texts_of(whole), "x": texts_of(reals)}
    found = json.loads(Json.rows(columns, len(reals)))
    assert found == [
        {"of": f'"{number},é', "n": number, "x": plain(real)}
        for number, real in zip(whole.tolist(), reals.tolist(), strict=True)
    ]
    texts = list(map(str, texts_of(reals)))
    assert len(texts) == len(reals)
    assert not any(text == "-0" or text.endswith(".0") for text in texts)


@pytest.mark.parametrize("some", [[12345678901.0, 3.0], [5e9, float("inf")], [0.25, 1e9], [-7.0]])
def test_long_columns_have_the_texts_of_short_ones(some: list[float]) -> None:
    assert list(map(str, texts_of(np.array(some * MANY)))) == texts_of(np.array(some)) * MANY


def test_a_part_of_long_columns_is_that_part() -> None:
    every = texts_of(np.arange(2 * MANY) / 4)
    found = json.loads(Json.rows({"x": every[7:9]}, 2))
    assert found == [{"x": 1.75}, {"x": 2}]
