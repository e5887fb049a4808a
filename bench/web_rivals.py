"""Servers to stand beside the query tool: `python -m bench.web_rivals NAME FOLDER`.

`bare` is an endpoint of Starlette that sends the same bytes to everyone, without looking at the
question: what is left for a server that has nothing to do.  `DuckDB` answers questions about a cube
in SQL from a table in memory, as one would write it in an hour: sums alone, without errors, totals,
flags or metadata.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import duckdb
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def bare(folder: Path) -> Any:
    body = (folder / "body").read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/d/{name}", answer)])


def in_sql(folder: Path) -> Any:
    cells = folder / "tables" / "cells.parquet"
    base = duckdb.connect()
    base.execute("SET threads = 1")
    base.execute(f"CREATE TABLE cells AS SELECT * FROM '{cells}'")
    known = {row[0] for row in base.execute("DESCRIBE cells").fetchall()}

    def answer(request: Request) -> Response:
        by, where = [], {}
        for name, value in parse_qsl(request.url.query):
            if name in ("rows", "cols") and value in known:
                by.append(value)
            elif name.startswith("where.") and name[6:] in known:
                where.setdefault(name[6:], []).append(value)
        kept = " AND ".join(f'"{name}" IN ({_marks(codes)})' for name, codes in where.items())
        sides = "".join(f'"{name}", ' for name in by)
        text = f"SELECT {sides}sum(noisy) AS jobs FROM cells"
        text += f" WHERE {kept}" if kept else ""
        text += " GROUP BY ALL ORDER BY ALL" if by else ""
        codes = [code for codes in where.values() for code in codes]
        found = base.cursor().execute(text, codes).fetchall()
        cells = [
            dict(zip((*by, "jobs"), (*row[:-1], float(row[-1])), strict=True)) for row in found
        ]
        return Response(json.dumps({"cells": cells}), media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", answer)])


def _marks(codes: list[str]) -> str:
    return ", ".join("?" for _ in codes)


def main() -> None:
    name, folder = sys.argv[1:]
    app = {"bare": bare, "DuckDB": in_sql}[name](Path(folder))
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    print(json.dumps({"address": f"http://127.0.0.1:{taken.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[taken])


if __name__ == "__main__":
    main()
