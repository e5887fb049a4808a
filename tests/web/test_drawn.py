"""Charts and maps as pictures of points, which the browser draws from the file of the picture."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser

from browsing import jobs, opened
from eree.web.server import QueryTool

pytestmark = pytest.mark.xdist_group("browser")  # one browser, one query tool


@pytest.mark.parametrize(
    ("address", "coloured"),
    [
        ("/chart?rows=sector&show=margin", "#3f8aa3"),
        ("/chart?rows=sector&cols=ownership&as=heat&show=margin", "#1b5a6e"),
        ("/map?rows=place&show=margin", "#124a5d"),
    ],
)
def test_a_picture_is_saved_at_twice_its_size(
    address: str, coloured: str, browser: Browser, tool: QueryTool
) -> None:
    page = opened(browser, accept_downloads=True, color_scheme="dark").new_page()
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto(f"{tool.address}/d/{jobs(tool)}{address}")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Picture (PNG)").click()
    name, path = waiting.value.suggested_filename, waiting.value.path()
    assert name.startswith("jobs-") and name.endswith(".png")
    link = page.locator('.links a[href*=".svg?"]').get_attribute("href")
    file = page.request.get(f"{tool.address}{link}").text()
    high = re.search(r'height="(\d+)" viewBox="0 0 960 ', file)
    assert high
    with Image.open(BytesIO(Path(path).read_bytes())) as picture:
        assert picture.format == "PNG" and picture.size == (1920, 2 * int(high[1]))
        found = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    wanted = tuple(int(coloured[i : i + 2], 16) for i in (1, 3, 5))
    assert {(255, 255, 255), wanted} <= found  # its own colours, also on dark pages
    assert errors == []
    page.context.close()


def test_no_button_without_a_script(browser: Browser, tool: QueryTool) -> None:
    page = opened(browser, java_script_enabled=False).new_page()
    page.goto(f"{tool.address}/d/{jobs(tool)}/chart?rows=sector&show=margin")
    assert page.get_by_role("link", name="Picture (SVG)").count() == 1
    assert page.get_by_role("button", name="Picture (PNG)").count() == 0
    page.context.close()
