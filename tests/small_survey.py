"""Small surveys for tests: any records, in Parquet or CSV, with their declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from hypothesis import strategies as st

from eree.survey.query import Query
from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.soc import LEVELS, group_of, level_of

DECLARATION = """
[records]
record = "id"
establishment = "place"
weight = "weight"
occupation = "job"

[variables.job]
codes = ["15-1252", "15-1299", "29-1215", "29-1221", "31-1121"]

[variables.education]
label = "Education"
codes = ["none", "school", "degree"]
labels = { none = "No education" }

[variables.licence]
codes = [0, 1]

[[impossible]]
job = ["29-1210"]
education = ["none"]
"""

RECORDS: dict[str, list[Any]] = {
    "id": [1, 2, 3, 4, 5, 6],
    "place": ["a", "a", "b", "b", "b", "c"],
    "weight": [10.5, 2.0, 0.001, 100.25, 3.1415, 7.0],
    "job": ["15-1252", "29-1215", "29-1221", "31-1121", "15-1252", "15-1299"],
    "education": ["degree", "degree", "school", "none", "none", "school"],
    "licence": [0, 1, 1, 0, 0, 1],
}


def changed(column: str, values: Sequence[Any]) -> dict[str, list[Any]]:
    """The sound records with another column."""
    return RECORDS | {column: list(values)}


def write_survey(
    folder: Path,
    records: Mapping[str, Sequence[Any]] | pa.Table = RECORDS,
    declaration: str = DECLARATION,
    style: str = "parquet",
) -> Path:
    """A folder with survey.toml and records.parquet or records.csv."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "survey.toml").write_text(declaration, encoding="utf-8")
    table = records if isinstance(records, pa.Table) else pa.table(dict(records))
    if style == "parquet":
        parquet.write_table(table, folder / "records.parquet")
    else:
        arrow_csv.write_csv(table, folder / "records.csv")
    return folder


OCCUPATIONS = (
    "11-1021",
    "15-1252",
    "15-1299",
    "15-2051",
    "29-1215",
    "29-1221",
    "31-1121",
    "51-5112",
)


@dataclass(frozen=True)
class Sampled:
    """Records of any survey: their places on the axes, weights in thousandths, establishments."""

    shape: Shape
    places: list[tuple[int, ...]]
    weights: list[int]
    establishments: list[int]
    ids: list[int]

    def write(self, folder: Path, style: str = "parquet") -> Path:
        """As a survey on disk."""
        lines = ["[records]", 'record = "id"', 'establishment = "place"', 'weight = "weight"']
        lines += ['occupation = "v0"']
        for variable in self.shape.variables:
            codes = ", ".join(f'"{code}"' for code in variable.codes)
            lines += [f"[variables.{variable.name}]", f"codes = [{codes}]"]
        for rule in self.shape.impossible:
            lines += ["[[impossible]]"]
            lines += [f"{name} = {list(codes)}" for name, codes in rule.codes.items()]
        records: dict[str, list[Any]] = {
            "id": self.ids,
            "place": self.establishments,
            "weight": [weight / 1000 for weight in self.weights],
        }
        for axis, variable in enumerate(self.shape.variables):
            records[variable.name] = [variable.codes[places[axis]] for places in self.places]
        return write_survey(folder, records, "\n".join(lines), style)


@st.composite
def shapes(draw: st.DrawFn, most_axes: int = 5) -> Shape:
    """Shapes of occupations and a few other variables, sometimes with structural zeros."""
    held = draw(st.lists(st.sampled_from(OCCUPATIONS), min_size=2, max_size=6, unique=True))
    variables = [Variable("v0", "Occupation", tuple(held), tuple(held), "soc")]
    for axis in range(1, draw(st.integers(1, most_axes))):
        codes = tuple(f"{axis}{letter}" for letter in "abcde"[: draw(st.integers(2, 4))])
        variables.append(Variable(f"v{axis}", f"Variable {axis}", codes, codes))
    rules = []
    if draw(st.booleans()) and len(variables) > 1:
        chosen = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=2, unique=True))
        rules.append(Impossible({v.name: [draw(st.sampled_from(v.codes))] for v in chosen}))
    return Shape(tuple(draw(st.permutations(variables))), tuple(rules))


@st.composite
def samples(draw: st.DrawFn, most_records: int = 40) -> Sampled:
    """Records of any shape; none in a structural zero."""
    shape = draw(shapes())
    possible = shape.possible
    place = st.tuples(*(st.integers(0, level - 1) for level in shape.levels))
    if possible is not None:
        place = place.filter(lambda places: bool(possible[places]))
    places = draw(st.lists(place, min_size=1, max_size=most_records))
    count = len(places)
    weight = st.integers(1, 10**6) | st.integers(1, 10**12)
    return Sampled(
        shape,
        places,
        draw(st.lists(weight, min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, 6), min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, 10**6), min_size=count, max_size=count, unique=True)),
    )


@st.composite
def queries(draw: st.DrawFn, shape: Shape) -> Query:
    """Any question about a cube of a shape."""
    by = draw(st.lists(st.sampled_from([v.name for v in shape.variables]), unique=True))
    where, levels = {}, {}
    for variable in shape.variables:
        choices = list(variable.codes)
        if variable.hierarchy:
            choices += sorted({group_of(c, level) for c in variable.codes for level in LEVELS})
            if variable.name in by and draw(st.booleans()):
                levels[variable.name] = draw(st.sampled_from(LEVELS))
        if draw(st.booleans()):
            where[variable.name] = draw(st.lists(st.sampled_from(choices), min_size=1, unique=True))
    return Query(by, where, levels)


def kept(variable: Variable, code: str, codes: tuple[str, ...]) -> bool:
    """Whether a code is among some codes and groups, by looking at each."""
    if code in codes:
        return True
    return variable.hierarchy == "soc" and any(
        group_of(code, level_of(group)) == group for group in codes
    )
