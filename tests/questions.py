"""Random questions to a data set."""

from __future__ import annotations

from hypothesis import strategies as st

from eree.web.dataset import DataSet
from eree.web.query import CONFIDENCES, SORTS, Query


@st.composite
def queries(draw: st.DrawFn, data: DataSet, most_sides: int = 3) -> Query:
    """Any query that a data set can answer, in the one form that addresses have."""
    names = [variable.name for variable in data.variables]
    sides = draw(st.lists(st.sampled_from(names), unique=True, max_size=most_sides))
    split = draw(st.integers(0, len(sides)))
    groups = {}
    where = {}
    for variable in data.variables:
        if variable.name in sides and variable.levels and draw(st.booleans()):
            groups[variable.name] = draw(st.sampled_from(list(variable.levels)))
        if draw(st.integers(0, 3)) == 0:
            known = [*variable.groups, *variable.codes]
            codes = draw(st.lists(st.sampled_from(known), unique=True, min_size=1, max_size=4))
            where[variable.name] = variable.ordered(codes)
    return Query(
        tuple(sides[:split]),
        tuple(sides[split:]),
        where,
        groups,
        draw(st.sampled_from(list(data.measures))),
        draw(st.sampled_from(list(data.errors))),
        draw(st.sampled_from(CONFIDENCES)),
        draw(st.sampled_from(list(SORTS))),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 2)),
        draw(st.booleans()),
        draw(st.booleans()),
    )
