"""Several worker processes over one copy of the data, and releases that come and go.

One process takes the port and watches.  It starts another, which opens and verifies the releases
and forks the workers: what was read before is shared by all of them.  When there is something new
this is done once more, beside; once the new workers answer, the old ones come to their end.  If
what is new cannot be served, the old ones stay.

The first process holds one end of a pipe for each such generation.  Closed, by it or by its
end, it tells all processes of the generation to stop.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from eree.errors import Refusal
from eree.web.operations import Counters
from eree.web.server import STOPPING_SECONDS, QueryTool

#: Processes that may answer at once.
MOST_WORKERS = 64
#: A worker that ended by itself is replaced, but no more often than each so many seconds.
_PAUSE = 0.5
#: Makes a query tool in the process that forks the workers.
Make = Callable[[], QueryTool]
#: What a generation says of itself once it is known to answer.
Said = dict[str, Any]


@dataclass
class _Generation:
    """The processes that serve the same releases."""

    number: int
    process: int
    lifeline: int
    report: int
    heard: bytes = b""
    said: Said = field(default_factory=dict)
    ready: int = 0

    def listen(self) -> bool:
        """Take what it reports; whether it may report more."""
        part = os.read(self.report, 65_536)
        *lines, self.heard = (self.heard + part).split(b"\n")
        for line in filter(None, lines):
            found = json.loads(line)
            self.ready += "ready" in found
            self.said |= found
        if not part:
            os.close(self.report)
            self.report = -1
        return bool(part)


class Generations:
    """A query tool of several processes, whose releases may change while it runs.

    `changes` says something that changes when the releases do; it is asked every so many seconds.
    """

    def __init__(
        self,
        make: Make,
        *,
        workers: int = 1,
        counters: Counters | None = None,
        changes: Callable[[], object] | None = None,
        every: float = 30.0,
    ) -> None:
        self._make, self._workers, self._counters = make, workers, counters
        self._changes, self._every = changes, every
        self._current: _Generation | None = None
        self._coming: _Generation | None = None
        self._leaving: list[_Generation] = []
        self._number, self._stop = 0, False
        self._look = self._later = False

    def run(self, ready: Callable[[Said], None], failed: Callable[[str], None]) -> None:
        """Serve until interrupted or stopped; `failed` hears why something new is not served."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        earlier = {number: self._hear(number) for number in _HEARD}
        try:
            self._supervise(woken, ready, failed)
        finally:
            self._end()
            for number, handler in earlier.items():
                if handler is not None:
                    signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            os.close(woken)
            os.close(wake)

    def _hear(self, number: signal.Signals) -> Any:
        if signal.getsignal(number) is signal.SIG_IGN:
            return None
        return signal.signal(number, self._signalled)

    def _signalled(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP and self._changes is not None:
            self._look = True
        elif number != signal.SIGCHLD:
            self._stop = True

    def _supervise(
        self, woken: int, ready: Callable[[Said], None], failed: Callable[[str], None]
    ) -> None:
        known = self._seen()
        self._coming = self._start()
        while not self._stop:
            coming = self._coming
            sources = [woken, *([coming.report] if coming else [])]
            heard = select.select(sources, [], [], self._every if self._changes else None)[0]
            if woken in heard:
                os.read(woken, 4096)
            elif not heard and self._later:
                self._look, self._later = True, False
            if coming is not None and coming.report in heard:
                self._listen(coming, ready, failed)
            self._reap()
            if self._busy():
                continue
            now = self._seen()
            if self._current is None:  # it ended by itself
                time.sleep(_PAUSE)
            elif now == known and not self._look:
                continue
            known, self._look = now, False
            self._coming = self._start()

    def _seen(self) -> object:
        return self._changes() if self._changes else None

    def _busy(self) -> bool:
        return self._stop or self._coming is not None

    def _listen(
        self, coming: _Generation, ready: Callable[[Said], None], failed: Callable[[str], None]
    ) -> None:
        more = coming.listen()
        if coming.ready >= self._workers:
            self._coming = None
            if coming.report >= 0:
                os.close(coming.report)
            if self._current is not None:
                self._let_go(self._current)
            self._current = coming
            ready(coming.said)
        elif not more:
            self._coming = None
            self._let_go(coming)
            reason = str(coming.said.get("refused", "the releases could not be opened"))
            self._later = "refused" not in coming.said  # what is no refusal may pass
            if self._current is None:
                raise Refusal(reason)
            failed(reason)

    def _start(self) -> _Generation:
        self._number += 1
        alive, lifeline = os.pipe()
        report, tell = os.pipe()
        process = os.fork()
        if process == 0:
            held = [] if self._current is None else [self._current.lifeline]
            in_fork(lambda: self._nursery(alive, tell, (lifeline, report, *held)))
        os.close(alive)
        os.close(tell)
        return _Generation(self._number, process, lifeline, report)

    def _let_go(self, generation: _Generation) -> None:
        os.close(generation.lifeline)
        generation.lifeline = -1
        self._leaving.append(generation)

    def _reap(self) -> None:
        """Notice what has ended; a generation that ended by itself is started again."""
        for one in list(self._leaving):
            if os.waitpid(one.process, os.WNOHANG)[0]:
                self._leaving.remove(one)
        current = self._current
        if current is not None and os.waitpid(current.process, os.WNOHANG)[0]:
            os.close(current.lifeline)
            self._current = None

    def _end(self) -> None:
        """Tell all to stop, and wait for them as long as answers may take."""
        if self._current is not None:
            self._let_go(self._current)
        if self._coming is not None:
            self._let_go(self._coming)
            os.kill(self._coming.process, signal.SIGTERM)  # it may still be verifying
        self._current = self._coming = None
        until = time.monotonic() + STOPPING_SECONDS + 2
        while self._leaving and time.monotonic() < until:
            self._reap()
            time.sleep(0.02)
        for one in self._leaving:
            os.kill(one.process, signal.SIGKILL)
            os.waitpid(one.process, 0)

    # --------------------------------------------------------------- the process that forks

    def _nursery(self, alive: int, tell: int, others: Iterable[int]) -> None:
        """Open the releases, fork the workers, and replace one that ends by itself."""
        signal.set_wakeup_fd(-1)
        for end in others:  # the ends of pipes that the first process has
            os.close(end)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the first process hears them for all
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        try:
            tool = _unless_told(alive, self._make)
        except Refusal as refusal:
            _report(tell, refused=str(refusal))
            return
        _report(tell, **tool.said())
        gc.collect()
        gc.freeze()  # what is shared stays shared
        workers = {self._worker(place, tool, alive, tell): place for place in range(self._workers)}
        early, since = 0, time.monotonic()
        while workers:
            stopped = bool(select.select([alive], [], [], _PAUSE)[0])
            while workers and (process := os.waitpid(-1, 0 if stopped else os.WNOHANG)[0]):
                place = workers.pop(process)
                if stopped:
                    continue
                early, since = (
                    early + 1 if time.monotonic() - since < _EARLY else 1,
                    time.monotonic(),
                )
                if early > _MOST_EARLY:
                    for other in workers:
                        os.kill(other, signal.SIGTERM)
                    _report(tell, refused="worker processes end again and again; see what they say")
                    return
                workers[self._worker(place, tool, alive, tell)] = place

    def _worker(self, place: int, tool: QueryTool, alive: int, tell: int) -> int:
        process = os.fork()
        if process == 0:
            if self._counters is not None:
                self._counters.row = self._number % 2 * self._workers + place

            def work() -> None:
                tool.run(lambda: _report(tell, ready=True), alive)
                if self._counters is not None:
                    self._counters.leave()

            in_fork(work)
        return process


#: A worker that ends within so many seconds of another is one of a row; a longer row is the end.
_EARLY, _MOST_EARLY = 2.0, 20
_HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def _unless_told(alive: int, make: Make) -> QueryTool:
    """Opens releases, which may take long; ends the process where it is told to stop meanwhile."""
    over, done = os.pipe()

    def watch() -> None:
        if alive in select.select([alive, over], [], [])[0]:
            os._exit(1)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        return make()
    finally:
        os.close(done)
        watching.join()  # a process of several threads is not to be forked
        os.close(over)


def _report(tell: int, **said: Any) -> None:
    try:
        os.write(tell, json.dumps(said).encode() + b"\n")
    except BrokenPipeError:  # heard already: this is one that replaces another
        return


def in_fork(work: Callable[[], None]) -> NoReturn:
    """Do some work in a fork, and end it without what the first process has to tidy up."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
