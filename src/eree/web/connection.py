"""One connection of a browser: how long it may take to ask, and how much it may send.

The web server has no such limits of its own.  Whoever sends a request a byte at a time, sends no
end of headers or never reads the answer would hold a place for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eree.web.guard import SECURITY
from eree.web.memory import Headers

#: Connections at once whose questions are answered, and that are accepted at all.
MOST_CONNECTIONS, MOST_ACCEPTED = 512, 768
#: Bytes and lines of the headers of a request.
MOST_HEAD, MOST_LINES = 32_768, 100
#: Seconds within which a request arrives whole, and in which something of an answer is read.
ASK_SECONDS, READ_SECONDS = 15.0, 60.0
#: So long a refusal waits to be read, before the connection is closed.
LAST_SECONDS = 2.0


class Connection(HttpToolsProtocol):
    """The server's protocol, with limits."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._answering = self.app
        self._size = self._lines = self._hosts = 0
        self._asking = self._fresh = self._deaf = False
        self._unread = 0
        self._late: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_ACCEPTED:
            transport.abort()
            return
        self._wait(ASK_SECONDS)
        self._watch = self.loop.call_later(READ_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all clocks."""
        self._wait_no_more()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; what is still no whole head after so much is refused."""
        if self._deaf:
            return
        self._fresh = False
        super().data_received(data)
        if self._asking and not self._fresh:
            self._size += len(data)
            if self._size > MOST_HEAD and not self.transport.is_closing():
                self._refuse(431, "the headers of a request are too large")

    def on_message_begin(self) -> None:
        """A request begins: it has so many seconds to arrive."""
        super().on_message_begin()
        self._size = self._lines = self._hosts = 0
        self._asking = self._fresh = True
        self._wait(ASK_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count headers."""
        super().on_header(name, value)
        self._lines += 1
        self._hosts += self.headers[-1][0] == b"host"
        self._size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """A request is known: it is answered, unless it is too much."""
        self._asking = False
        self.app = self._answering
        if self._size > MOST_HEAD or self._lines > MOST_LINES:
            self.app = _Said(431, "the headers of a request are too large")
        elif self._hosts > 1 or (self._hosts == 0 and self.parser.get_http_version() == "1.1"):
            self.app = _Said(400, "a request names one host")
        elif len(self.connections) > MOST_CONNECTIONS:
            self.app = _Said(503, "too many questions at once; try again soon")
        super().on_headers_complete()
        if self.parser.should_upgrade():  # whatever else it would speak, we do not
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Let a body pass by, unread: no page has a use for one."""

    def on_message_complete(self) -> None:
        """A request has arrived whole."""
        self._wait_no_more()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        del msg
        self._refuse(400, "this is no request that a browser makes")

    def _refuse(self, status: int, words: str) -> None:
        """Answer at once, hear nothing more, and close when that may have been read.

        A connection that is closed at once, with something unread, is reset, and the answer lost.
        """
        self._deaf = True
        headers, body = _plain(status, words)
        lines = [b"%b: %b\r\n" % pair for pair in [*self.server_state.default_headers, *headers]]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(LAST_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._wait_no_more()
        self._late = self.loop.call_later(seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        """Close a connection on which no request has come to its end."""
        if not self.transport.is_closing():
            self.transport.close()

    def _look(self) -> None:
        """Break off an answer that nobody reads."""
        unread = self.transport.get_write_buffer_size()
        if unread and unread == self._unread:
            self.transport.abort()
            return
        self._unread = unread
        self._watch = self.loop.call_later(READ_SECONDS, self._look)


class _Said:
    """An application that says one thing."""

    def __init__(self, status: int, words: str) -> None:
        self._status, (self._headers, self._body) = status, _plain(status, words)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say it."""
        del receive
        await send(
            {"type": "http.response.start", "status": self._status, "headers": self._headers}
        )
        body = b"" if scope["method"] == "HEAD" else self._body
        await send({"type": "http.response.body", "body": body})


def _plain(status: int, words: str) -> tuple[Headers, bytes]:
    """A refusal in one line, after which the connection is closed."""
    body = f"{words}\n".encode()
    headers: Headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *SECURITY,
    ]
    if status == 503:
        headers.append((b"retry-after", b"2"))
    return headers, body
