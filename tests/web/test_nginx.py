"""The query tool behind a real nginx, with the file that offices are given."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest

import pages
from processes import running, until
from started import Tool, started

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
EXAMPLE = pages.ROOT / "examples" / "deploy" / "nginx.conf"
#: What a main file has around it; all of it in a folder of the test.
MAIN = """
daemon off;
pid {home}/pid;
error_log {home}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    {site}
}}
"""


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_given: object) -> None:
        return None


def asked(address: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    try:
        reply = build_opener(_Stay).open(Request(address, headers=headers), timeout=60)
    except HTTPError as error:
        reply = error
    with reply:
        return reply.status, {k.lower(): v for k, v in reply.headers.items()}, reply.read()


def listening(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def both(
    releases: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Tool]]:
    """The address behind the proxy, and the tool itself."""
    home = tmp_path_factory.mktemp("nginx")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    front = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        tool = stack.enter_context(
            started(*releases, "--workers", "2", "--metrics", "--address", f"{front}/jobs")
        )
        site = EXAMPLE.read_text(encoding="utf-8")
        for before, after in (
            ("127.0.0.1:8000", tool.address.removeprefix("http://")),
            ("listen 80;", f"listen 127.0.0.1:{port};"),
            ("server_name data.example.org;", "server_name 127.0.0.1;"),
        ):
            assert before in site
            site = site.replace(before, after)
        (home / "nginx.conf").write_text(MAIN.format(home=home, site=site), encoding="utf-8")
        command = [str(NGINX), "-p", str(home), "-c", str(home / "nginx.conf"), "-e", "stderr"]
        proxy = stack.enter_context(running(command))
        assert until(lambda: proxy.poll() is not None or listening(port))
        assert proxy.poll() is None, proxy.communicate()
        yield f"{front}/jobs", tool


def test_behind_nginx_answers_are_the_same_under_the_prefix(both: tuple[str, Tool]) -> None:
    home, tool = both
    status, _, body = asked(f"{home}/index.json")
    assert status == 200
    for data in json.loads(body)["data_sets"]:
        assert data["address"].startswith(f"{home}/d/")
        for ending in ("", ".json", ".csv", ".parquet", "/about"):
            status, headers, body = asked(data["address"] + ending)
            own = asked(f"{tool.address}/jobs/d/{data['name']}{ending}")
            assert (status, body) == (200, own[2])
            assert headers["content-security-policy"] == own[1]["content-security-policy"]
            tag = headers["etag"]
            assert asked(data["address"] + ending, **{"if-none-match": tag})[0] == 304
    page = asked(home + "/")[2].decode()
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', page))
    assert links and all(link.startswith("/jobs/") for link in links)
    assert all(asked(home.removesuffix("/jobs") + link)[0] == 200 for link in links)
    assert asked(home)[1]["location"].endswith("/jobs/")


def test_behind_nginx_texts_are_packed_once(both: tuple[str, Tool]) -> None:
    home, _ = both
    for path in ("/methods", "/index.json", "/static/style.css"):
        plain, packed = asked(home + path), asked(home + path, **{"accept-encoding": "gzip"})
        assert packed[1]["content-encoding"] == "gzip"
        assert gzip.decompress(packed[2]) == plain[2] and len(packed[2]) < len(plain[2])


def test_nginx_keeps_what_is_for_operators_and_what_is_too_much(both: tuple[str, Tool]) -> None:
    home, tool = both
    for path in ("/metrics", "/health", "/ready"):
        assert asked(home.removesuffix("/jobs") + path)[0] == 404
        assert asked(home + path)[0] == 404
        assert asked(tool.address + path)[0] == 200
    assert asked(f"{home}/d/x?{'a' * 9_000}")[0] == 414  # by the tool, whose words people read
    assert asked(f"{home}/", **{"x-long": "a" * 40_000})[0] == 400
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: asked(f"{home}/methods")[0], range(600)))
    assert set(statuses) == {200, 429}
