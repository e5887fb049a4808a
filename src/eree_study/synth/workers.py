"""Workers: who works at a workplace, by sector, by place and by the workplace itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eree.random.exact import Array
from eree_study.synth.files import SCHEMA
from eree_study.synth.geography import Geography
from eree_study.synth.workplaces import SECTORS, Workplaces


@dataclass(frozen=True)
class Attribute:
    """A worker attribute.

    A workplace's shares are drawn from a Dirichlet distribution around those of its sector with
    total weight `concentration`: two workers of one workplace agree more often than two of the
    sector, with intra-class correlation 1 / (1 + concentration). `local` is the spread (sigma on
    the log scale) of the shares between places, and again between states.
    """

    name: str
    values: tuple[str, ...]
    concentration: float
    local: float


_SPREAD = {
    "age": (12.0, 0.0),
    "sex": (8.0, 0.0),
    "race": (9.0, 0.5),
    "ethnicity": (9.0, 0.5),
    "education": (11.0, 0.0),
}
ATTRIBUTES: tuple[Attribute, ...] = tuple(
    Attribute(name, tuple(about["values"]), *_SPREAD[name])
    for name, about in SCHEMA["worker"]["attributes"].items()
)

# Of all US workers, to about a percent; the sectors and the places move it.
_RACE = np.array([0.795, 0.115, 0.008, 0.055, 0.003, 0.024])
_GRAIN = 2**16
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Compositions:
    """For each workplace, cumulative shares of every attribute's values in 1/65536.

    One row of 12 short numbers for each workplace: drawing a worker then costs one look into
    memory, which is what the time of a national population is made of.
    """

    thresholds: NDArray[np.uint16]
    tie: float

    def draw(
        self, workplace: NDArray[np.int32], rng: np.random.Generator
    ) -> list[NDArray[np.int8]]:
        """Value numbers of each attribute for workers of the given workplaces.

        Inside a workplace the attributes are independent of each other, but for the part `tie` of
        the workers, whose education is decided by the same draw as their sex.
        """
        rows = self.thresholds[workplace]
        codes, column = [], 0
        of_sex = np.zeros(0, dtype=np.uint16)
        for attribute in ATTRIBUTES:
            uniform = rng.integers(0, _GRAIN, workplace.size, dtype=np.uint16)
            if attribute.name == "sex":
                of_sex = uniform
            elif attribute.name == "education" and self.tie:
                uniform = np.where(rng.random(workplace.size) < self.tie, of_sex, uniform)
            code = np.zeros(workplace.size, dtype=np.int8)
            for _ in attribute.values[1:]:
                code += uniform >= rows[:, column]
                column += 1
            codes.append(code)
        return codes


def draw_compositions(
    workplaces: Workplaces,
    geography: Geography,
    rng: np.random.Generator,
    *,
    concentration: float,
    local: float,
    tie: float,
) -> Compositions:
    """The make-up of every workplace: its sector's, tilted by its site and by draws of its own."""
    n = workplaces.size.size
    columns = sum(len(a.values) - 1 for a in ATTRIBUTES)
    thresholds = np.empty((n, columns), dtype=np.uint16)
    tilts = [_tilts(attribute, geography, rng, local) for attribute in ATTRIBUTES]
    for start in range(0, n, _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, n))
        sector = workplaces.sector[rows]
        place = geography.place_of_site[workplaces.site[rows]]
        column = 0
        for attribute, tilt in zip(ATTRIBUTES, tilts, strict=True):
            mean = sector_shares(attribute)[sector]
            if tilt is not None:
                mean *= tilt[place]
                mean /= mean.sum(axis=1, keepdims=True)
            gammas = rng.standard_gamma(concentration * attribute.concentration * mean)
            cumulative = np.cumsum(gammas, axis=1)
            cumulative *= _GRAIN / cumulative[:, -1:]
            width = len(attribute.values) - 1
            thresholds[rows, column : column + width] = np.minimum(
                np.rint(cumulative[:, :-1]), _GRAIN - 1
            )
            column += width
    return Compositions(thresholds, tie)


def sector_shares(attribute: Attribute) -> Array:
    """Expected shares of the attribute's values, one row for each sector."""
    rows = []
    for s in SECTORS:
        if attribute.name == "age":
            row = np.array([s.young, 1 - s.young - s.old, s.old])
        elif attribute.name == "sex":
            row = np.array([s.women, 1 - s.women])
        elif attribute.name == "race":
            row = _RACE * np.array([1.0, s.black, 1.0, s.asian, 1.0, 1.0])
        elif attribute.name == "ethnicity":
            row = np.array([s.hispanic, 1 - s.hispanic])
        else:
            row = np.array(s.education)
        rows.append(row / row.sum())
    return np.stack(rows)


def _tilts(
    attribute: Attribute, geography: Geography, rng: np.random.Generator, local: float
) -> Array | None:
    """Factors on the sector's shares for each place: its state's times its own."""
    sigma = max(attribute.local, local)
    if not sigma:
        return None
    width = len(attribute.values)
    by_state = rng.lognormal(0.0, sigma, (len(geography.states), width))
    by_place = rng.lognormal(0.0, sigma, (len(geography.places), width))
    state = geography.state_of_county[geography.county_of_place]
    tilts: Array = by_state[state] * by_place
    return tilts
