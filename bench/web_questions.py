"""Questions for a query tool: addresses of tables with filters, each of them once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod

from eree.web.catalogue import Catalogue
from eree.web.dataset import DataSet, Variable
from eree.web.query import CONFIDENCES, Query

#: No table of a question has more cells; a page shows no more either.
MOST_CELLS = 2_000


def addresses(catalogue: Catalogue, count: int, seed: int, ending: str = ".json") -> list[str]:
    """So many different addresses of answers, over all data sets in turn."""
    source = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        data = source.choice(catalogue.data_sets)
        query = question(data, source)
        if query is not None:
            found[f"/d/{data.name}{ending}?{query.address()}"] = None
    return list(found)


def question(data: DataSet, source: random.Random) -> Query | None:
    """A table by one to three variables, with up to three filters; None if it is too large."""
    names = [variable.name for variable in data.variables]
    by = source.sample(names, source.randint(1, min(3, len(names))))
    split = source.randint(1, len(by))
    where, groups = {}, {}
    for variable in source.sample(data.variables, source.randint(0, min(3, len(names)))):
        where[variable.name] = variable.ordered(list(_some(variable, source)))
    for name in by:
        variable = data.variable(name)
        if variable.levels:
            groups[name] = source.choice(list(variable.levels))
    order = {name: place for place, name in enumerate(names)}
    query = Query(
        tuple(by[:split]),
        tuple(by[split:]),
        dict(sorted(where.items(), key=lambda pair: order[pair[0]])),
        dict(sorted(groups.items(), key=lambda pair: order[pair[0]])),
        show=source.choice(data.errors),
        confidence=source.choice(CONFIDENCES),
    )
    return query if prod(_length(data.variable(name), query) for name in by) <= MOST_CELLS else None


def _length(variable: Variable, query: Query) -> int:
    """How long the side of a table is, at most."""
    if variable.name in query.groups:
        return len(variable.levels[query.groups[variable.name]])
    return len(query.where.get(variable.name, variable.codes))


def _some(variable: Variable, source: random.Random) -> Iterator[str]:
    """One to half of the codes, or one group."""
    if variable.groups and source.random() < 0.5:
        yield source.choice(list(variable.groups))
        return
    yield from source.sample(variable.codes, source.randint(1, max(1, len(variable.codes) // 2)))
