"""The states of the synthetic population: real codes and names, real relative weights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """A state by its FIPS code; `residents` (thousands, 2010 Census) only sets its weight."""

    code: str
    name: str
    residents: int


# The first three hold about the jobs and workplaces of the papers' three-state sample, which the
# papers do not name. The others follow in the order of their codes.
STATES: tuple[State, ...] = (
    State("17", "Illinois", 12831),
    State("18", "Indiana", 6484),
    State("55", "Wisconsin", 5687),
    State("01", "Alabama", 4780),
    State("02", "Alaska", 710),
    State("04", "Arizona", 6392),
    State("05", "Arkansas", 2916),
    State("06", "California", 37254),
    State("08", "Colorado", 5029),
    State("09", "Connecticut", 3574),
    State("10", "Delaware", 898),
    State("11", "District of Columbia", 602),
    State("12", "Florida", 18801),
    State("13", "Georgia", 9688),
    State("15", "Hawaii", 1360),
    State("16", "Idaho", 1568),
    State("19", "Iowa", 3046),
    State("20", "Kansas", 2853),
    State("21", "Kentucky", 4339),
    State("22", "Louisiana", 4533),
    State("23", "Maine", 1328),
    State("24", "Maryland", 5774),
    State("25", "Massachusetts", 6548),
    State("26", "Michigan", 9884),
    State("27", "Minnesota", 5304),
    State("28", "Mississippi", 2967),
    State("29", "Missouri", 5989),
    State("30", "Montana", 989),
    State("31", "Nebraska", 1826),
    State("32", "Nevada", 2701),
    State("33", "New Hampshire", 1316),
    State("34", "New Jersey", 8792),
    State("35", "New Mexico", 2059),
    State("36", "New York", 19378),
    State("37", "North Carolina", 9535),
    State("38", "North Dakota", 673),
    State("39", "Ohio", 11537),
    State("40", "Oklahoma", 3751),
    State("41", "Oregon", 3831),
    State("42", "Pennsylvania", 12702),
    State("44", "Rhode Island", 1053),
    State("45", "South Carolina", 4625),
    State("46", "South Dakota", 814),
    State("47", "Tennessee", 6346),
    State("48", "Texas", 25146),
    State("49", "Utah", 2764),
    State("50", "Vermont", 626),
    State("51", "Virginia", 8001),
    State("53", "Washington", 6725),
    State("54", "West Virginia", 1853),
    State("56", "Wyoming", 564),
)

_FEW_UNTIL = 20_000_000
_ALL_FROM = 130_000_000


def states_for(jobs: int) -> tuple[State, ...]:
    """Three states up to 20 million jobs, all 51 from 130 million on, evenly in between."""
    if jobs <= _FEW_UNTIL:
        return STATES[:3]
    reach = min(1.0, (jobs - _FEW_UNTIL) / (_ALL_FROM - _FEW_UNTIL))
    return STATES[: 3 + round(reach * (len(STATES) - 3))]
