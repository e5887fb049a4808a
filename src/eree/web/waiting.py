"""Who asks while releases are verified hears that, and how far it is, instead of nothing.

A process of its own answers at the door until the releases are served.  It opens nothing but the
file of the site, its logo and the package, and ends when it is told to, or when all who could tell
it are gone.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import struct
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from eree.errors import Refusal
from eree.web.app import Front, application, key_of
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.desk import Kept
from eree.web.generations import in_fork
from eree.web.operations import LogForm, Porch, percent
from eree.web.server import Door, checked_home, server_of
from eree.web.words import say

#: Releases that were verified before are served sooner than after so many seconds.
PATIENCE = 1.5
_SHARE = struct.Struct("d")
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WaitingRoom:
    """What answers at a door while releases are verified behind it."""

    def __init__(
        self,
        door: Door,
        *,
        home: str | None = None,
        site: str | os.PathLike[str] | None = None,
        log: LogForm | None = None,
    ) -> None:
        self._shared = mmap.mmap(-1, _SHARE.size)
        alive, self._lifeline = os.pipe()
        told, self._tell = os.pipe()
        self._gone, going = os.pipe()
        stops = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # until it is known who hears them
        self._maker, self._process = os.getpid(), os.fork()
        if self._process == 0:
            for number in _STOPS:  # the maker hears them for both, and its end is the end of this
                signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, stops)
        if self._process == 0:
            for end in (self._lifeline, self._tell, self._gone):
                os.close(end)
            in_fork(lambda: self._answer(door, home, site, log, (alive, told)))
        for end in (alive, told, going):
            os.close(end)

    @property
    def share(self) -> float:
        """How much is done; known to all processes."""
        done: float = _SHARE.unpack_from(self._shared)[0]
        return done

    @share.setter
    def share(self, done: float) -> None:
        _SHARE.pack_into(self._shared, 0, done)

    def entered(self) -> None:
        """Only the process that made it keeps it alive, and none that was forked meanwhile."""
        if os.getpid() != self._maker and self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def leave(self) -> None:
        """Let it come to its end; nobody is answered by it any more when this returns.

        A process that was forked meanwhile may say so as well.
        """
        with suppress(BrokenPipeError):  # it is gone already
            os.write(self._tell, b".")
        while os.read(self._gone, 1):
            pass
        if os.getpid() == self._maker and self._process:
            os.waitpid(self._process, 0)
            self._process = 0

    def close(self) -> None:
        """The same, once nobody needs to know any more whether it is gone."""
        self.leave()
        for end in (self._lifeline, self._tell, self._gone):
            os.close(end)

    def __enter__(self) -> WaitingRoom:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    # -------------------------------------------------------------- the process that answers

    def _answer(
        self,
        door: Door,
        home: str | None,
        site: str | os.PathLike[str] | None,
        log: LogForm | None,
        ends: tuple[int, int],
    ) -> None:
        if select.select(ends, [], [], PATIENCE)[0]:
            return
        with suppress(Refusal):  # which the tool itself says, and ends by
            branding = Branding() if site is None else Branding.read(site, named=False)
            public = door.address if home is None else checked_home(home)
            front = application(Catalogue(()), public, branding=branding)

            async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
                answer = front if scope["path"].startswith("/static/") else self._wait(front, scope)
                await answer(scope, receive, send)

            porch = Porch(
                waiting,
                front.desk,
                prefix=urlsplit(public).path,
                coming=lambda: self.share,
                log=log,
            )
            server = server_of(porch)
            server.ends = ends
            server.run(sockets=[door.socket])

    def _wait(self, front: Front, scope: Scope) -> Kept:
        """Says that what is asked for comes."""
        said = say(
            "what is served here is verified first, and %(share)s of that is done; try again soon",
            share=percent(self.share),
        )
        return front.refuse(503, said, key_of(scope))
