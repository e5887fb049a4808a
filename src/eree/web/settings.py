"""The settings that `site.toml` may hold, one model for each kind of table in it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictStr

from eree.policy.settings import FileName, Settings
from eree.release.settings import Title, Words
from eree.web.words import ENGLISH

_Colour = Annotated[
    StrictStr,
    Field(pattern="^#[0-9a-fA-F]{6}$", description="must be a colour such as '#1f5f74'"),
]


class ColourSettings(Settings):
    """The colour of links and buttons, on light and on dark pages."""

    accent: _Colour = ""
    accent_dark: _Colour = ""


class SiteSettings(Settings):
    """The whole file."""

    name: Title = ""
    logo: FileName = ""
    contact: Words = ""
    licence: Words = ""
    footer: Words = ""
    languages: Annotated[
        list[StrictStr],
        Field(min_length=1, description="must be a list of languages, such as ['en', 'es']"),
    ] = [ENGLISH]
    colours: Annotated[dict[StrictStr, Any], Field(description="must be a table: [colours]")] = {}
    names: Annotated[
        dict[StrictStr, FileName],
        Field(description="must give variables CSV files, such as { place = 'places.csv' }"),
    ] = {}
