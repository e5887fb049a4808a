"""Ctrl-C, a polite kill and a closed terminal."""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # nothing slow is imported before signals are heard
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

SENTENCE = "interrupted; nothing was left half-written"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TIDY_SECONDS = 3.0  # while it tidies up, a second Ctrl-C is not heard


class Interrupts:
    """Turns a signal into a `KeyboardInterrupt`: stop once, and tidy up undisturbed.

    A process that still imports what it needs has nothing to tidy up and ends at once: an exception
    would surface as whatever a half-imported library makes of it.  A signal that is ignored when
    the command starts stays ignored: SIGHUP under `nohup`, SIGINT in what a shell runs in the
    background.
    """

    def __init__(self) -> None:
        self.last: float | None = None
        self.starting, self.ended = True, False

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self.last is not None

    def check(self) -> None:
        """Stop if an interrupt came that a library has swallowed."""
        if self.came:
            raise KeyboardInterrupt

    def begin(self) -> None:
        """From here on there may be something to tidy up."""
        self.starting = False

    def end(self) -> None:
        """From here on nothing is left to stop."""
        self.ended = True

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._swallowed
        return self

    def __exit__(self, *reason: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = self._unraisable

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self.ended:
            return
        if self.starting:
            try:
                if "--json" in sys.argv:
                    os.write(1, f'{{"error": "{SENTENCE}"}}\n'.encode())
                os.write(2, f"eree: {SENTENCE}\n".encode())
            finally:  # nobody may be there to read it
                os._exit(130)
        earlier, self.last = self.last, time.monotonic()
        if earlier is None or self.last - earlier > TIDY_SECONDS:
            raise KeyboardInterrupt

    def _swallowed(self, fault: UnraisableHookArgs) -> None:
        """An interrupt in a callback, where Python can raise nothing: `check` finds it later."""
        if not issubclass(fault.exc_type, KeyboardInterrupt):
            self._unraisable(fault)
