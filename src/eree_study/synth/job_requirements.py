"""What synthetic jobs require: occupations with their traits, and the variables drawn from them.

Codes and titles of occupations are real; their traits, in `occupations.csv`, and how variables are
drawn from them, in `job_requirements.toml`, are invented, in the direction that one would expect.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.soc import title_of

Trait = Literal["skill", "strain", "outdoors", "driving", "licence", "telework"]
EVERYWHERE = ""


@dataclass(frozen=True)
class Occupation:
    """An occupation: where it is found, how common it is there, and what it mostly requires.

    `sectors` are NAICS sectors, separated by blanks.  `skill` and `strain` go from 1 to 5; the
    others are probabilities.
    """

    code: str
    sectors: str
    jobs: float
    skill: float
    strain: float
    outdoors: float
    driving: float
    licence: float
    telework: float


def _occupations() -> Iterator[Occupation]:
    with files("eree_study.synth").joinpath("occupations.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            code, sectors = row.pop("code"), row.pop("sectors")
            yield Occupation(code, sectors, **{name: float(text) for name, text in row.items()})


OCCUPATIONS: tuple[Occupation, ...] = tuple(_occupations())


@dataclass(frozen=True)
class Requirement:
    """A variable that is drawn: a trait with random variation, cut into as many classes as codes.

    For `skill` and `strain` the cuts are between the levels; for a probability they are between
    never, sometimes and often, in standard deviations.
    """

    variable: Variable
    trait: Trait
    cuts: tuple[float, ...]
    spread: float

    def __post_init__(self) -> None:
        assert len(self.cuts) == len(self.variable.codes) - 1


def _requirements(*, coarse: bool = False) -> Iterator[Requirement]:
    text = files("eree_study.synth").joinpath("job_requirements.toml").read_text("utf-8")
    for name, about in tomllib.loads(text).items():
        cut = about.get("coarse", about) if coarse else about
        codes = cut["codes"]
        variable = Variable(name, about["label"], tuple(codes), tuple(codes.values()))
        yield Requirement(variable, about["trait"], tuple(cut["cuts"]), about.get("spread", 0.7))


REQUIREMENTS: tuple[Requirement, ...] = tuple(_requirements())

#: What no synthetic job can be.
IMPOSSIBLE: tuple[Impossible, ...] = (
    Impossible(
        {
            "occupation": [o.code for o in OCCUPATIONS if o.code.startswith("29-1")],
            "education": ["none", "high-school"],
        }
    ),
    Impossible({"strength": ["heavy", "very-heavy"], "telework": ["yes"]}),
)

#: Five occupations and coarser classes: QUERYTOOL's ten variables of 17,280 cells.
SMALL_OCCUPATIONS: tuple[Occupation, ...] = tuple(
    o for o in OCCUPATIONS if o.code in ("29-1141", "35-3023", "41-2031", "43-9061", "53-7062")
)
SMALL_REQUIREMENTS: tuple[Requirement, ...] = tuple(_requirements(coarse=True))


def shape_of(
    occupations: tuple[Occupation, ...],
    requirements: tuple[Requirement, ...],
    impossible: tuple[Impossible, ...] = (),
) -> Shape:
    """The shape of a synthetic survey."""
    codes = tuple(occupation.code for occupation in occupations)
    titles = tuple(title_of(code) for code in codes)
    occupation = Variable("occupation", "Occupation", codes, titles, "soc")
    return Shape((occupation, *(r.variable for r in requirements)), impossible)
