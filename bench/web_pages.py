"""Pages of the query tool as a browser gets them: how heavy they are, how soon they are usable."""

from __future__ import annotations

import re
import shutil
import statistics
import urllib.request
from dataclasses import dataclass
from urllib.parse import urljoin

from playwright.sync_api import sync_playwright

FILES = re.compile(r'(?:href|src)="(/static/[^"]+)"')
#: When the page could be read and used, and when all of it was there, since it was asked for.
TIMES = """async () => {
  const [found] = performance.getEntriesByType("navigation");
  const shown = () => performance.getEntriesByName("first-contentful-paint")[0];
  while (!shown() || !found.loadEventEnd) await new Promise(done => setTimeout(done, 10));
  return [Math.max(found.domContentLoadedEventEnd, shown().startTime), found.loadEventEnd];
}"""


@dataclass(frozen=True)
class Weight:
    """The bytes of a page with all its files, plain and packed."""

    data: str
    page: str
    plain: int
    packed: int


@dataclass(frozen=True)
class Loaded:
    """Milliseconds: medians over fresh visits, and the longest until loaded."""

    data: str
    page: str
    usable: float
    loaded: float
    longest: float


def weight(address: str, data: str, page: str, path: str) -> Weight:
    """Ask for a page and its files as a browser does, and as one that cannot unpack."""
    sizes = []
    for packed in ("identity", "gzip"):
        body = _body(address + path, packed)
        text = _body(address + path, "identity").decode()
        files = dict.fromkeys(FILES.findall(text))
        sizes.append(len(body) + sum(len(_body(urljoin(address, f), packed)) for f in files))
    return Weight(data, page, *sizes)


def _body(address: str, packed: str) -> bytes:
    asked = urllib.request.Request(address, headers={"accept-encoding": packed})
    body: bytes = urllib.request.urlopen(asked).read()
    return body


def loaded(address: str, data: str, page: str, path: str, visits: int) -> Loaded:
    """Visit a page with an empty cache, each time as somebody new."""
    times = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for visit in range(visits + 1):
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(address + path, wait_until="load")
            seen = tab.evaluate(TIMES)
            if visit:  # the first one also starts what the browser needs for any page
                times.append(seen)
            context.close()
        browser.close()
    usable, whole = zip(*times, strict=True)
    longest = max(*whole, *usable)
    return Loaded(data, page, statistics.median(usable), statistics.median(whole), longest)
