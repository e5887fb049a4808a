"""The 20 NAICS sectors: how common, how large, how public, and who works there."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Sector:
    """One sector.

    `share` is its share of workplaces, `size` its typical size against the average, `public` the
    share of its workplaces owned by governments. The rest are shares of its workers: women, the
    young (14-29) and old (55+), the four levels of education, Hispanic workers, and how much more
    often than elsewhere its workers are black or Asian.
    """

    code: str
    label: str
    group: str
    share: float
    size: float
    public: float
    women: float
    young: float
    old: float
    education: tuple[float, ...]
    hispanic: float
    black: float
    asian: float


# Shares of workplaces follow the order of magnitude of County Business Patterns; the other figures
# are assumed in the direction that the Quarterly Workforce Indicators show.
def _sectors() -> Iterator[Sector]:
    education = ("no_diploma", "high_school", "some_college", "college")
    with files("eree_study.synth").joinpath("sectors.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            code, label, group = row.pop("code"), row.pop("label"), row.pop("group")
            shares = {name: float(text) for name, text in row.items()}
            levels = tuple(shares.pop(level) for level in education)
            yield Sector(code, label, group, education=levels, **shares)


SECTORS: tuple[Sector, ...] = tuple(_sectors())
OWNERSHIPS: tuple[str, ...] = ("private", "public")

GROUPS: dict[str, str] = {
    "goods": "Goods production",
    "trade-transport": "Trade, transport and utilities",
    "information-finance": "Information, finance and real estate",
    "business": "Professional and business services",
    "education-health": "Education and health",
    "leisure-other": "Leisure, hospitality and other services",
    "public-administration": "Public administration",
}
