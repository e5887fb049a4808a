"""What synthetic jobs require: occupations with their traits, and the variables drawn from them.

Codes and titles are real; the traits, in `occupations.csv`, are invented, in the direction that one
would expect.
"""

from __future__ import annotations

import csv
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
    spread: float = 0.7

    def __post_init__(self) -> None:
        assert len(self.cuts) == len(self.variable.codes) - 1


def _requirement(
    name: str,
    label: str,
    codes: dict[str, str],
    trait: Trait,
    cuts: tuple[float, ...],
    spread: float = 0.7,
) -> Requirement:
    variable = Variable(name, label, tuple(codes), tuple(codes.values()))
    return Requirement(variable, trait, cuts, spread)


_YES_NO = {"no": "Not required", "yes": "Required"}
_MAY = {"no": "Not allowed", "yes": "Allowed"}

REQUIREMENTS: tuple[Requirement, ...] = (
    _requirement(
        "education",
        "Minimum education",
        {
            "none": "No minimum education requirement",
            "high-school": "High school diploma",
            "associate": "Associate's degree",
            "bachelor": "Bachelor's degree",
            "graduate": "Master's, professional or doctoral degree",
        },
        "skill",
        (1.7, 3.1, 3.6, 4.5),
        0.5,
    ),
    _requirement(
        "experience",
        "Prior work experience",
        {
            "none": "No prior work experience",
            "short": "Up to 1 year",
            "medium": "More than 1 year, up to 4 years",
            "long": "More than 4 years",
        },
        "skill",
        (2.2, 3.0, 4.2),
        1.2,
    ),
    _requirement(
        "training",
        "On-the-job training",
        {"none": "None", "short": "Up to 1 month", "long": "More than 1 month"},
        "skill",
        (1.2, 3.4),
        1.5,
    ),
    _requirement(
        "strength",
        "Strength level",
        {
            "sedentary": "Sedentary work",
            "light": "Light work",
            "medium": "Medium work",
            "heavy": "Heavy work",
            "very-heavy": "Very heavy work",
        },
        "strain",
        (1.5, 2.6, 3.7, 4.8),
        0.5,
    ),
    _requirement(
        "outdoors",
        "Work outdoors",
        {"never": "Never", "sometimes": "Up to a third of the day", "often": "More than a third"},
        "outdoors",
        (0.0, 0.7),
    ),
    _requirement("telework", "Telework", _MAY, "telework", (0.0,)),
    _requirement("sitting", "Choice of sitting or standing", _MAY, "strain", (-1.6,)),
    _requirement("driving", "Driving", _YES_NO, "driving", (0.0,)),
    _requirement("licence", "Licence or certification", _YES_NO, "licence", (0.0,)),
)

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
SMALL_REQUIREMENTS: tuple[Requirement, ...] = (
    _requirement(
        "education",
        "Minimum education",
        {
            "none": "No minimum education requirement",
            "high-school": "High school diploma",
            "college": "Associate's or bachelor's degree",
            "graduate": "Master's, professional or doctoral degree",
        },
        "skill",
        (1.7, 3.1, 4.5),
        0.5,
    ),
    _requirement(
        "experience",
        "Prior work experience",
        {"none": "No prior work experience", "short": "Up to 1 year", "long": "More than 1 year"},
        "skill",
        (2.2, 3.0),
        1.2,
    ),
    REQUIREMENTS[2],
    _requirement(
        "strength",
        "Strength level",
        {"sedentary": "Sedentary work", "light": "Light work", "medium": "Medium work or heavier"},
        "strain",
        (1.5, 2.6),
        0.5,
    ),
    _requirement("outdoors", "Work outdoors", _YES_NO, "outdoors", (0.0,)),
    *REQUIREMENTS[5:],
)


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
