"""Where engines spill: a folder that only we can read, and that goes when we go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from eree.errors import Refusal

SPILL_PREFIX = "eree-spill-"


class SpillFolder:
    """A folder that only we can read, and that goes when we go, even by SIGKILL.

    A shell makes it and then waits on a pipe whose other end only this process holds; when the pipe
    closes, for whatever reason, the shell removes it.  At no moment is the folder nobody's: an
    interrupt before we read its name breaks the other pipe, which the shell must outlive.
    """

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, f"{SPILL_PREFIX}{'X' * 8}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C, meant for us, leaves it alone
        )
        assert self._keeper.stdout is not None
        with self._keeper.stdout as answers:
            made = answers.readline().removesuffix(b"\n")
        if not made:
            self._end()
            home = os.environ.get("TMPDIR") or "the system's place for them"
            raise Refusal(f"no temporary folder can be made in {home}; point TMPDIR at another")
        self.path = Path(os.fsdecode(made))

    def remove(self) -> None:
        """Remove the folder now."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._end()

    def _end(self) -> None:
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        self._keeper.wait()


_KEEPER = """
trap '' PIPE
made=$(mktemp -d -t "$0") || exit
printf '%s\\n' "$made"
exec >&-
read -r _
test ! -e "$made" || exec rm -rf -- "$made"
"""
