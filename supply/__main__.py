"""`python -m supply licences` prints docs/licences.csv, `… sbom` a bill of it all."""

from __future__ import annotations

import csv
import json
import sys
from io import StringIO

from supply.bill import bill
from supply.packages import EXTRAS, installed


def licences() -> str:
    """A row for each package: its licence, and what it comes with."""
    base, adding = installed(), {extra: installed([extra]) for extra in EXTRAS}
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["package", "licence", "comes with"])
    for name, package in installed(EXTRAS).items():
        asked = [extra for extra, added in adding.items() if name in added]
        if name != "eree":
            table.writerow([name, package.licence, "eree" if name in base else ", ".join(asked)])
    return text.getvalue()


if __name__ == "__main__":
    if sys.argv[1:] == ["sbom"]:
        print(json.dumps(bill(installed(EXTRAS)), indent=1))
    elif sys.argv[1:] == ["licences"]:
        print(licences(), end="")
    else:
        sys.exit(__doc__)
