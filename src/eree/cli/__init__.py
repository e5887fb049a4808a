"""The command line.

Exit status: 0 done, 1 the checked thing is faulty, 2 refused, 130 interrupted.
"""

import sys

from eree.cli.interrupts import Interrupts

__all__ = ["main"]


def main() -> None:
    """The command `eree`.  Signals are heard before the first slow import."""
    with Interrupts() as interrupts:
        from eree.cli.exit_status import run

        status = run(sys.argv[1:], interrupts)
    sys.exit(status)
