from __future__ import annotations

from browsing import browser, tool
from ledgers import place, postgres, where
from served import catalogue, client, cube, maps, releases, tables

__all__ = [
    "browser",
    "catalogue",
    "client",
    "cube",
    "maps",
    "place",
    "postgres",
    "releases",
    "tables",
    "tool",
    "where",
]
