"""What made-up jobs require: occupations with their traits, and the variables drawn from them.

Codes and titles are real; the traits are made up, in the direction that one would expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eree.survey.shape import Impossible, Shape, Variable
from eree.survey.soc import title_of

Trait = Literal["skill", "strain", "outdoors", "driving", "licence", "telework"]
EVERYWHERE = ""


@dataclass(frozen=True)
class Occupation:
    """An occupation: where it is found, how common it is there, and what it mostly requires.

    `sectors` are NAICS sectors, separated by blanks.  `skill` and `strain` go from 1 to 5; the
    others are chances.
    """

    code: str
    sectors: str
    jobs: float
    skill: float
    strain: float
    outdoors: float = 0.05
    driving: float = 0.05
    licence: float = 0.05
    telework: float = 0.02


OCCUPATIONS: tuple[Occupation, ...] = (
    Occupation("11-1021", EVERYWHERE, 3.4, 4.0, 1.6, .10, .30, .05, .25),
    Occupation("11-3031", "52 55 54 92", 3.0, 4.6, 1.0, .02, .10, .15, .55),
    Occupation("11-9111", "62", 1.5, 4.6, 1.2, .02, .10, .40, .25),
    Occupation("13-1071", EVERYWHERE, .8, 3.9, 1.0, .02, .10, .05, .55),
    Occupation("13-1111", "54 55 52 92", 4.0, 4.4, 1.0, .03, .15, .05, .70),
    Occupation("13-2011", "54 52 55 92", 5.0, 4.2, 1.0, .01, .08, .30, .60),
    Occupation("15-1211", "54 51 52 55", 3.0, 4.1, 1.0, .01, .05, .05, .80),
    Occupation("15-1232", "54 51 61 92", 2.5, 3.2, 1.8, .02, .12, .10, .45),
    Occupation("15-1252", "51 54 52 31-33", 6.0, 4.2, 1.0, .01, .03, .02, .85),
    Occupation("15-2051", "54 51 52", 1.2, 4.8, 1.0, .01, .03, .02, .85),
    Occupation("17-2051", "54 92 23", 2.0, 4.2, 1.7, .45, .45, .70, .35),
    Occupation("17-2141", "31-33 54", 2.0, 4.2, 1.6, .10, .15, .30, .35),
    Occupation("17-3011", "54 23", 1.0, 3.2, 1.1, .05, .08, .05, .50),
    Occupation("19-2031", "31-33 54", .8, 4.5, 1.8, .03, .05, .05, .10),
    Occupation("19-4021", "54 61", .8, 4.0, 2.0, .15, .10, .05, .05),
    Occupation("21-1012", "61 62", 2.0, 4.7, 1.2, .03, .10, .70, .20),
    Occupation("21-1021", "62 92 61", 3.0, 4.3, 1.4, .10, .60, .65, .25),
    Occupation("23-1011", "54 92", 3.5, 5.0, 1.1, .01, .20, .95, .50),
    Occupation("23-2011", "54 92", 2.0, 3.5, 1.1, .01, .08, .10, .45),
    Occupation("25-1011", "61", 1.5, 4.9, 1.3, .01, .08, .10, .40),
    Occupation("25-2021", "61", 9.0, 4.3, 2.1, .40, .05, .95, .05),
    Occupation("25-2031", "61", 7.0, 4.4, 1.9, .15, .08, .95, .06),
    Occupation("25-9042", "61", 6.0, 2.4, 2.3, .45, .03, .20, .02),
    Occupation("27-1024", "54 51 31-33", 1.5, 3.8, 1.0, .02, .04, .02, .65),
    Occupation("27-3031", "54 61 92 71", 1.5, 4.0, 1.2, .12, .20, .02, .60),
    Occupation("29-1051", "44-45 62", 2.0, 5.0, 1.8, .01, .04, .98, .03),
    Occupation("29-1123", "62", 1.5, 5.0, 3.1, .03, .25, .98, .02),
    Occupation("29-1141", "62", 18.0, 3.9, 3.0, .02, .08, .99, .04),
    Occupation("29-1215", "62", 1.2, 5.0, 1.7, .01, .10, .99, .08),
    Occupation("29-1221", "62", .5, 5.0, 1.7, .01, .10, .99, .08),
    Occupation("29-2061", "62", 4.5, 3.0, 3.2, .03, .15, .98, .02),
    Occupation("31-1121", "62", 12.0, 1.6, 3.3, .10, .65, .40, .00),
    Occupation("31-1131", "62", 9.0, 1.9, 3.7, .02, .05, .85, .00),
    Occupation("31-9092", "62", 5.0, 2.6, 2.3, .01, .05, .45, .02),
    Occupation("33-2011", "92", 4.0, 2.7, 4.9, .90, .80, .85, .00),
    Occupation("33-3051", "92", 8.0, 2.9, 4.2, .90, .98, .85, .00),
    Occupation("33-9032", "56 92 71", 7.0, 1.7, 2.3, .55, .40, .50, .00),
    Occupation("35-2014", "72 71", 11.0, 1.4, 3.2, .03, .02, .15, .00),
    Occupation("35-3023", "72 44-45 61", 26.0, 1.0, 2.8, .12, .03, .20, .00),
    Occupation("35-3031", "72 71", 16.0, 1.1, 2.6, .15, .01, .15, .00),
    Occupation("37-2011", EVERYWHERE, 2.2, 1.1, 3.4, .30, .12, .02, .00),
    Occupation("37-3011", "56 71 53 92", 7.0, 1.1, 4.3, .97, .60, .10, .00),
    Occupation("39-5012", "81", 9.0, 2.3, 2.3, .01, .01, .98, .00),
    Occupation("39-9011", "62 81 61", 4.5, 1.5, 3.1, .75, .10, .30, .00),
    Occupation("41-1011", "44-45", 8.0, 2.4, 2.9, .20, .10, .03, .01),
    Occupation("41-2011", "44-45 72", 18.0, 1.0, 2.2, .10, .01, .03, .00),
    Occupation("41-2031", "44-45", 26.0, 1.3, 2.6, .15, .05, .03, .01),
    Occupation("41-4012", "42 31-33", 9.0, 3.0, 1.9, .15, .85, .05, .45),
    Occupation("43-3031", EVERYWHERE, 1.6, 2.6, 1.1, .02, .08, .03, .30),
    Occupation("43-4051", EVERYWHERE, 2.2, 1.9, 1.2, .04, .03, .05, .40),
    Occupation("43-5071", "42 31-33 48-49 44-45", 4.0, 1.5, 3.1, .15, .15, .02, .01),
    Occupation("43-6014", EVERYWHERE, 2.0, 2.3, 1.2, .02, .05, .02, .20),
    Occupation("43-9061", EVERYWHERE, 2.4, 2.0, 1.3, .03, .06, .02, .20),
    Occupation("45-2092", "11", 30.0, 1.0, 4.3, .99, .20, .03, .00),
    Occupation("47-2031", "23", 12.0, 2.1, 4.3, .80, .45, .08, .00),
    Occupation("47-2061", "23", 16.0, 1.2, 4.6, .93, .35, .06, .00),
    Occupation("47-2111", "23 22 31-33", 9.0, 2.7, 3.8, .60, .60, .80, .00),
    Occupation("47-2152", "23 22", 7.0, 2.5, 4.2, .60, .70, .70, .00),
    Occupation("49-3023", "81 44-45", 7.0, 2.4, 3.9, .45, .85, .30, .00),
    Occupation("49-9071", EVERYWHERE, 1.4, 2.2, 3.7, .55, .50, .15, .00),
    Occupation("51-2092", "31-33", 14.0, 1.2, 3.2, .02, .01, .01, .00),
    Occupation("51-4041", "31-33", 5.0, 2.3, 3.3, .01, .02, .03, .00),
    Occupation("51-4121", "31-33 23 21", 6.0, 1.9, 3.9, .35, .15, .30, .00),
    Occupation("51-5112", "31-33", 2.0, 1.8, 3.2, .00, .01, .01, .00),
    Occupation("51-9061", "31-33 54", 6.0, 2.0, 2.6, .06, .08, .05, .02),
    Occupation("53-3032", "48-49 42 21 23", 22.0, 1.7, 3.6, .90, .99, .98, .00),
    Occupation("53-3033", "48-49 42 44-45", 8.0, 1.2, 3.5, .85, .99, .15, .00),
    Occupation("53-7062", "48-49 42 31-33 56", 18.0, 1.0, 4.0, .35, .10, .04, .00),
    Occupation("53-7065", "44-45 48-49 42", 14.0, 1.0, 3.4, .10, .04, .03, .00),
)  # fmt: skip


@dataclass(frozen=True)
class Requirement:
    """A variable that is drawn: a trait with chance added, cut into as many classes as codes.

    For `skill` and `strain` the cuts are between the levels; for a chance they are between never,
    sometimes and often, in standard deviations.
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

#: What no made-up job can be.
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
    """The shape of a made-up survey."""
    codes = tuple(occupation.code for occupation in occupations)
    titles = tuple(title_of(code) for code in codes)
    occupation = Variable("occupation", "Occupation", codes, titles, "soc")
    return Shape((occupation, *(r.variable for r in requirements)), impossible)
