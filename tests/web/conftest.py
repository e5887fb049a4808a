"""One release of tables and one protected cube, both real, and a query tool over them."""

from __future__ import annotations

from browsing import browser, tool
from served import catalogue, client, cube, maps, releases, tables

__all__ = ["browser", "catalogue", "client", "cube", "maps", "releases", "tables", "tool"]
