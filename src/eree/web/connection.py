"""Connections with patience: what does not come whole in time, or is not read, is hung up on.

A client that sends half a request, or nothing, or does not read its answer, has a connection and
nothing else; it keeps that for so long only, and there are only so many.
"""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle, Transport
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: In so many seconds a request must be there, and a full buffer must be read.
PATIENCE = 20.0
#: The most bytes of a request before it is answered; bodies are never read.
MOST_BYTES = 32_768
#: The most connections at once.
MOST_CONNECTIONS = 512

_REFUSAL = (
    b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"retry-after: 2\r\nconnection: close\r\n\r\n%b"
)


class Connection(HttpToolsProtocol):
    """A connection that waits neither for a request nor for a reader without end."""

    _timer: TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin to wait for a request, if there is room for one more client."""
        super().connection_made(cast(Transport, transport))
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(b"503 Service Unavailable", b"Too many clients at once; try again soon.")
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        if self.transport.is_closing():
            return
        self._unread += len(data)
        if self._unread <= MOST_BYTES:
            super().data_received(data)
        elif self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
        else:
            self._refuse(b"431 Request Header Fields Too Large", b"This request is too long.")

    def on_headers_complete(self) -> None:
        """The request is there; the rest is up to us."""
        self._unread = 0
        self._rest()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer is sent; wait for another request."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._unread = 0
            self._wait()

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._rest()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._rest()
        self._timer = self.loop.call_later(PATIENCE, self.transport.abort)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes, words: bytes) -> None:
        self.transport.write(_REFUSAL % (status, len(words), words))
        self.transport.close()
