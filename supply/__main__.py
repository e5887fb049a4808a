"""`python -m supply licences` prints the table of the install page, `… sbom` a bill of it all."""

from __future__ import annotations

import json
import sys

from supply.bill import bill
from supply.packages import EXTRAS, installed


def licences() -> str:
    """A row for each package: its licence, and what it comes with."""
    base, adding = installed(), {extra: installed([extra]) for extra in EXTRAS}
    rows = ["| package | licence | comes with |", "|---|---|---|"]
    for name, package in installed(EXTRAS).items():
        asked = [f"`{extra}`" for extra, added in adding.items() if name in added]
        home = "eree" if name in base else ", ".join(asked)
        if name != "eree":
            rows.append(f"| {name} | {package.licence} | {home} |")
    return "\n".join(rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["sbom"]:
        print(json.dumps(bill(installed(EXTRAS)), indent=1))
    elif sys.argv[1:] == ["licences"]:
        print(licences())
    else:
        sys.exit(__doc__)
