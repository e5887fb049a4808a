"""A real nginx before the query tool, with the file that offices are given."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
EXAMPLE = Path(__file__).parents[1] / "examples" / "deploy" / "nginx.conf"
#: What a main file has around it; all of it in one folder.
MAIN = """
user {user};
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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def proxied(
    home: Path,
    port: int,
    tool: str,
    changes: Mapping[str, str] | None = None,
    start: Sequence[str] = (),
) -> Iterator[None]:
    """The example before a tool's address, on a port; it answers within.

    `changes` are other settings of the example, such as a shorter time; `start` is a command that
    starts it.
    """
    home, site = home.resolve(), EXAMPLE.read_text(encoding="utf-8")
    needed = {
        "127.0.0.1:8000": tool.removeprefix("http://"),
        "listen 80;": f"listen 127.0.0.1:{port};",
        "server_name data.example.org;": "server_name 127.0.0.1;",
        "/var/lib/nginx/eree": str(home / "kept"),
    }
    for before, after in (needed | dict(changes or {})).items():
        assert before in site, before
        site = site.replace(before, after)
    main = MAIN.format(home=home, site=site, user=getpass.getuser())
    (home / "nginx.conf").write_text(main, encoding="utf-8")
    command = [*start, str(NGINX), "-p", str(home), "-c", str(home / "nginx.conf"), "-e", "stderr"]
    with subprocess.Popen(command) as process:
        try:
            while not _listening(port):
                assert process.poll() is None, "nginx did not start; it says why on stderr"
                time.sleep(0.01)
            yield
        finally:
            process.terminate()


def _listening(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0
