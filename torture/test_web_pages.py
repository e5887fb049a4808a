"""Every page of the query tool at every width in every colour scheme."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from browsing import SCHEMES, WIDTHS, look, views
from eree.web.server import QueryTool


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_accessible_and_never_wider_than_the_screen(
    width: int, scheme: str, browser: Browser, tool: QueryTool
) -> None:
    names = list(views(tool))
    assert look(browser, tool, names, width, scheme) == len(names) >= 20
