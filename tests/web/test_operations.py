"""What operators need: addresses that say how it goes, a log, a prefix, and verified once."""

from __future__ import annotations

import json
import re
import shutil
from collections import deque
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from eree.errors import Refusal
from eree.mechanisms.cache import computed_again
from eree.verification import verify as verifying
from eree.web.app import application
from eree.web.catalogue import Catalogue
from eree.web.operations import Counters, LogForm, Porch

PREFIX = "/office/jobs"
HOME = f"http://testserver{PREFIX}"


def porch(
    catalogue: Catalogue,
    *,
    prefix: str = "",
    counters: Counters | None = None,
    log: LogForm | None = None,
) -> TestClient:
    front = application(catalogue, f"http://testserver{prefix}")
    number = len(catalogue.data_sets)
    app = Porch(front, front.desk, prefix=prefix, data_sets=number, counters=counters, log=log)
    return TestClient(app, follow_redirects=False)


# ------------------------------------------------------------------------- health and metrics


def test_operators_hear_that_it_is_alive_and_whether_it_is_ready(catalogue: Catalogue) -> None:
    with porch(catalogue) as client:
        alive, ready = client.get("/health"), client.get("/ready")
        assert (alive.status_code, alive.text) == (200, "alive\n")
        assert (ready.status_code, ready.text) == (
            200,
            f"ready: {len(catalogue.data_sets)} data sets\n",
        )
        assert alive.headers["cache-control"] == ready.headers["cache-control"] == "no-store"
        assert client.get("/metrics").status_code == 404  # unless it is asked for
        assert client.post("/health").status_code == 404


def numbers(text: str) -> dict[str, float]:
    """Prometheus' text format, read by its rules."""
    found, typed = {}, dict[str, str]()
    for line in text.splitlines():
        if line.startswith("#"):
            said = re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) (.+)", line)
            assert said
            if said[1] == "TYPE":
                typed[said[2]] = said[3]
            continue
        sample = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*\})? (\S+)', line)
        assert sample, line
        family = re.sub(r"_(bucket|sum|count)$", "", sample[1])
        assert typed.get(sample[1]) in ("counter", "gauge") or typed[family] == "histogram"
        found[sample[1] + (sample[2] or "")] = float(sample[3])
    return found


def test_metrics_count_answers_and_nothing_of_what_is_asked(catalogue: Catalogue) -> None:
    counters, data = Counters(3), catalogue.data_sets[0]
    address = f"/d/{data.name}.json?rows={data.variables[0].name}&show=margin"
    with porch(catalogue, counters=counters) as client:
        for _ in range(3):
            assert client.get(address).status_code == 200
        counters.row = 2  # another process
        client.get("/nothing")
        reply = client.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = numbers(reply.text)
    assert found['eree_answers_total{kind="json",status="2xx"}'] == 3
    assert found['eree_answers_total{kind="page",status="4xx"}'] == 1
    assert found["eree_answer_seconds_count"] == 4
    assert found['eree_answer_seconds_bucket{le="+Inf"}'] == 4
    ends = [n for name, n in found.items() if name.startswith("eree_answer_seconds_bucket")]
    assert ends == sorted(ends)
    assert found["eree_kept_answers_total"] == 2
    assert found["eree_data_sets"] == len(catalogue.data_sets)
    assert found["eree_sent_bytes_total"] > 0 and found["eree_kept_bytes"] > 0
    assert data.variables[0].name not in reply.text and data.name not in reply.text


def test_metrics_tell_files_from_pages(catalogue: Catalogue) -> None:
    counters, name = Counters(), catalogue.data_sets[0].name
    ends = (".csv", ".sdmx", ".csvm", ".jsonstat", ".xlsx", ".parquet", "/chart.svg")
    with porch(catalogue, counters=counters) as client:
        for end in ends:
            assert client.get(f"/d/{name}{end}").status_code == 200
        found = numbers(client.get("/metrics").text)
    assert found['eree_answers_total{kind="file",status="2xx"}'] == len(ends)
    assert 'eree_answers_total{kind="page",status="2xx"}' not in found


# -------------------------------------------------------------------------------- the log

COMBINED = re.compile(
    r"(\S+) - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "
    r'"(GET) (\S+) HTTP/1\.1" (\d{3}) (\d+) "([^"]*)" "([^"]*)"'
)


def test_each_answer_is_a_line_of_the_log_that_nobody_can_break(
    catalogue: Catalogue, capfd: pytest.CaptureFixture[str]
) -> None:
    evil = 'x" 200 1 "-"\\'
    for form in ("combined", "json"):
        with porch(catalogue, log=form) as client:  # type: ignore[arg-type]
            client.get("/methods", headers={"user-agent": evil, "referer": "http://a/"})
            client.get('/nothing?a="b')
        first, second = capfd.readouterr().err.splitlines()
        if form == "json":
            read = [json.loads(line) for line in (first, second)]
            assert [one["status"] for one in read] == [200, 404]
            assert read[0]["agent"] == evil and read[0]["seconds"] > 0
            assert read[1]["address"].startswith("/nothing?a=")
            continue
        lines = [COMBINED.fullmatch(line) for line in (first, second)]
        assert lines[0] and lines[1]
        assert lines[0].group(3, 4, 6) == ("/methods", "200", "http://a/")
        assert lines[0].group(7) == r"x\x22 200 1 \x22-\x22\x5c"
        assert lines[1].group(4) == "404"


# -------------------------------------------------------------------------------- the prefix


class Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction") and value and value[0] != "#":
                self.found.add(value)


def test_behind_a_prefix_every_link_leads_on_behind_it(catalogue: Catalogue) -> None:
    with porch(catalogue, prefix=PREFIX) as client:
        todo, seen = deque([f"{PREFIX}/"]), set[str]()
        while todo and len(seen) < 150:
            address = todo.popleft()
            kind = re.sub(r"\?.*|[0-9]", "", address)
            if kind in seen:
                continue
            seen.add(kind)
            reply = client.get(address)
            assert reply.status_code in (200, 303), address
            if "location" in reply.headers:
                todo.append(reply.headers["location"])
            elif reply.headers["content-type"].startswith("text/html"):
                links = Links(reply.text).found
                assert all(link.startswith((f"{PREFIX}/", HOME)) for link in links), address
                todo += sorted(link.removeprefix("http://testserver") for link in links)
        assert len(seen) > 30
        name = catalogue.data_sets[0].name
        assert client.get(PREFIX).headers["location"] == f"{PREFIX}/"
        assert client.get("/").status_code == client.get(f"/d/{name}").status_code == 404
        assert client.get(f"{PREFIX}/health").status_code == 404  # not for the public
        assert client.get("/health").status_code == 200
        tracked = client.get(f"{PREFIX}/d/{name}?show=margin&utm_source=a")
        assert tracked.headers["location"] == f"{PREFIX}/d/{name}?show=margin"
        built = client.get(f"{PREFIX}/d/{name}/build?show=margin")
        assert built.headers["location"].startswith(f"{PREFIX}/d/{name}?")
        file = client.get(f"{PREFIX}/d/{name}.csv")
        assert file.headers["link"].startswith(f"<{PREFIX}/d/{name}/about.json>")
        about = client.get(f"{PREFIX}/d/{name}.json").json()["metadata"]
        assert about["address"].startswith(f"{HOME}/d/{name}?")
        wrong = client.get(f"{PREFIX}/d/{name}.json?what=1").json()["error"]
        assert wrong["instead"].startswith(f"{HOME}/d/{name}.json")


# --------------------------------------------------------------------------- verified before


def test_a_release_is_verified_once_as_long_as_nothing_changes(
    releases: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "cache"))
    folder, times = tmp_path / "public", list[str]()
    shutil.copytree(releases[1], folder)
    real = verifying.verify

    def counted(*given: object, **named: object) -> object:
        times.append("verified")
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(verifying, "verify", counted)
    first = Catalogue.open([folder]).data_sets[0].checks
    assert len(times) == 1
    assert Catalogue.open([folder]).data_sets[0].checks == first
    assert len(times) == 1
    with computed_again():
        Catalogue.open([folder])
    assert len(times) == 2
    file = min(folder.glob("tables/*.csv"))
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"1", b"2", 1))
    for _ in range(2):  # what is not sound is never taken for verified
        with pytest.raises(Refusal, match="is not served"):
            Catalogue.open([folder])
    assert len(times) == 4
    file.write_bytes(whole)
    Catalogue.open([folder])
    assert len(times) == 4
    (folder / "more").write_text("", encoding="utf-8")
    with pytest.raises(Refusal, match="is not part of the release"):
        Catalogue.open([folder])
