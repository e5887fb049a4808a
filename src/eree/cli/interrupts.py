"""Ctrl-C, a polite kill and a closed terminal."""

from __future__ import annotations

import signal
import time

TYPE_CHECKING = False  # nothing slow is imported before signals are heard
if TYPE_CHECKING:
    from types import FrameType

TIDY_SECONDS = 3.0  # while it tidies up, a second Ctrl-C is not heard


class Interrupts:
    """Turns a signal into a `KeyboardInterrupt`: stop once, and tidy up undisturbed.

    A signal that is ignored when the command starts stays ignored: SIGHUP under `nohup`, SIGINT in
    what a shell runs in the background.
    """

    def __init__(self) -> None:
        self.last: float | None = None
        self.working = True

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self.last is not None

    def check(self) -> None:
        """Stop if an interrupt came that a library has swallowed."""
        if self.came:
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        return self

    def __exit__(self, *reason: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # nothing is left to stop

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        earlier, self.last = self.last, time.monotonic()
        if self.working and (earlier is None or self.last - earlier > TIDY_SECONDS):
            raise KeyboardInterrupt
