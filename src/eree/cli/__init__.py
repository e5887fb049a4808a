"""The command line.

Exit status: 0 done, 1 the checked thing is faulty, 2 refused, 130 interrupted.
"""

import sys

from eree.cli.interrupts import Interrupts

__all__ = ["main"]


def main() -> None:
    """The command `eree`.  Signals are heard before the first slow import."""
    interrupts, begun = Interrupts(), False
    try:
        with interrupts:
            from eree.cli.ending import run

            begun = True  # from here on the command tells what an interrupt has left
            status = run(sys.argv[1:], interrupts)
    except KeyboardInterrupt:
        if begun:
            raise
        sys.stderr.write("eree: interrupted; nothing was left half-written\n")
        status = 130
    sys.exit(status)
