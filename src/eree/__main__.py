"""`python -m eree` is the command `eree`."""

from eree.cli import main

main()
