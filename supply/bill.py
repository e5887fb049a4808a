"""A bill of materials (SBOM) in CycloneDX 1.6: eree, what it comes with, and who needs what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from supply.packages import Package


def bill(packages: Mapping[str, Package]) -> dict[str, Any]:
    """The bill of some packages, eree among them; the same packages have the same serial number."""
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    made = datetime.fromtimestamp(int(moment), UTC) if moment else datetime.now(UTC)
    serial = uuid5(NAMESPACE_URL, " ".join(package.address for package in packages.values()))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _component(packages["eree"], "application"),
        },
        "components": [
            _component(package, "library") for name, package in packages.items() if name != "eree"
        ],
        "dependencies": [
            {
                "ref": package.address,
                "dependsOn": [packages[name].address for name in package.needs],
            }
            for package in packages.values()
        ],
    }


def _component(package: Package, kind: str) -> dict[str, Any]:
    licence = (
        {"expression": package.licence}
        if package.by_spdx
        else {"license": {"name": package.licence}}
    )
    return {
        "type": kind,
        "bom-ref": package.address,
        "name": package.name,
        "version": package.version,
        "licenses": [licence],
        "purl": package.address,
    }
