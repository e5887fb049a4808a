"""The 20 NAICS sectors: how common, how large, how public, and who works there."""

from __future__ import annotations

from dataclasses import dataclass


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
    education: tuple[float, float, float, float]
    hispanic: float
    black: float = 1.0
    asian: float = 1.0


# Shares of workplaces follow the order of magnitude of County Business Patterns; the other figures
# are made up in the direction that the Quarterly Workforce Indicators show.
SECTORS: tuple[Sector, ...] = (
    Sector("11", "Agriculture, forestry, fishing and hunting", "goods",
           .008, .7, .01, .27, .28, .22, (.38, .31, .19, .12), .34, .3, .5),
    Sector("21", "Mining, quarrying, and oil and gas extraction", "goods",
           .003, 1.4, .0, .14, .22, .20, (.16, .38, .28, .18), .14, .4, .4),
    Sector("22", "Utilities", "trade-transport",
           .003, 2.2, .25, .24, .13, .27, (.06, .28, .35, .31), .08, .9, .7),
    Sector("23", "Construction", "goods",
           .091, .6, .01, .15, .24, .18, (.20, .36, .27, .17), .22, .5, .4),
    Sector("31-33", "Manufacturing", "goods",
           .042, 2.6, .0, .30, .19, .24, (.16, .33, .28, .23), .15, .9, 1.2),
    Sector("42", "Wholesale trade", "trade-transport",
           .057, .9, .0, .31, .21, .22, (.12, .28, .30, .30), .14, .7, 1.1),
    Sector("44-45", "Retail trade", "trade-transport",
           .142, 1.0, .002, .51, .37, .19, (.14, .31, .31, .24), .14, 1.0, .9),
    Sector("48-49", "Transportation and warehousing", "trade-transport",
           .030, 1.2, .05, .27, .20, .24, (.14, .34, .32, .20), .14, 1.6, .8),
    Sector("51", "Information", "information-finance",
           .019, 1.2, .06, .44, .25, .18, (.05, .18, .30, .47), .09, 1.0, 1.5),
    Sector("52", "Finance and insurance", "information-finance",
           .064, .8, .003, .61, .22, .19, (.05, .20, .31, .44), .09, 1.0, 1.3),
    Sector("53", "Real estate and rental and leasing", "information-finance",
           .046, .45, .02, .47, .22, .24, (.11, .26, .30, .33), .13, .9, .8),
    Sector("54", "Professional, scientific and technical services", "business",
           .115, .6, .005, .46, .22, .18, (.04, .14, .26, .56), .08, .7, 2.0),
    Sector("55", "Management of companies and enterprises", "business",
           .008, 2.8, .0, .50, .20, .20, (.05, .19, .29, .47), .09, .8, 1.4),
    Sector("56", "Administrative, support and waste management services", "business",
           .052, 1.3, .01, .44, .33, .17, (.20, .31, .29, .20), .22, 1.7, .9),
    Sector("61", "Educational services", "education-health",
           .024, 2.8, .60, .68, .17, .25, (.05, .16, .26, .53), .09, 1.0, 1.0),
    Sector("62", "Health care and social assistance", "education-health",
           .106, 1.6, .04, .79, .24, .21, (.09, .22, .34, .35), .10, 1.4, 1.2),
    Sector("71", "Arts, entertainment and recreation", "leisure-other",
           .017, 1.0, .07, .48, .40, .18, (.13, .25, .30, .32), .12, .8, .8),
    Sector("72", "Accommodation and food services", "leisure-other",
           .086, 1.2, .003, .54, .52, .11, (.23, .33, .28, .16), .24, 1.1, 1.3),
    Sector("81", "Other services", "leisure-other",
           .098, .4, .0, .54, .25, .22, (.14, .28, .30, .28), .14, .9, 1.1),
    Sector("92", "Public administration", "public-administration",
           .022, 2.6, 1.0, .46, .13, .26, (.05, .22, .35, .38), .09, 1.4, .7),
)  # fmt: skip

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
