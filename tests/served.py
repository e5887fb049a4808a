"""The tables of the release that the query tool is tried on."""

from __future__ import annotations

from typing import Any

TABLES: list[dict[str, Any]] = [
    {"name": "jobs", "by": ["place", "sector", "ownership"], "epsilon": "2"},
    {"name": "people", "by": ["county", "sex", "education"], "epsilon": "4"},
    {"name": "tracts", "by": ["county", "tract"], "epsilon": "2"},
    {"name": "women", "by": ["county"], "where": {"sex": ["F"]}, "epsilon": "2"},
    {"name": "branches", "by": ["place", "county", "supersector"], "epsilon": "2"},
    {"name": "bent", "by": ["county", "sector"], "epsilon": "1", "mechanism": "log-laplace-tight"},
]
