"""Runs the query tool: a catalogue behind a web server on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable

import uvicorn

from eree.errors import Refusal
from eree.web.app import application
from eree.web.catalogue import Catalogue

Progress = Callable[[str, float], None]


class QueryTool:
    """A query tool that is ready to be run: folders verified, a port taken."""

    def __init__(
        self,
        folders: Iterable[str | os.PathLike[str]],
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        home: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        if not 0 <= port <= 65_535:
            raise Refusal("a port is a number from 0 to 65535")
        self._socket = _listen(host, port)
        try:
            self.catalogue = Catalogue.open(folders, progress)
        except BaseException:
            self._socket.close()
            raise
        taken = self._socket.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{taken}"
        self.home = (home or self.address).rstrip("/")
        if not self.home.startswith(("http://", "https://")) or not self.home.isprintable():
            raise Refusal("the public address begins with http:// or https://")
        config = uvicorn.Config(
            application(self.catalogue, self.home),
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=20,
            limit_concurrency=512,
            h11_max_incomplete_event_size=32_768,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until interrupted or stopped."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Let what is being answered come to its end, then stop."""
        self._server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    """Take a port, before anything slow is done."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(kind, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, UnicodeError, OverflowError):
        found.close()
        raise Refusal(
            f"port {port} of {host} cannot be taken; choose another with --port and --host"
        ) from None
    return found
