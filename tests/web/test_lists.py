"""Rankings and decisions as files have what the JSON answers have."""

from __future__ import annotations

import csv
import io

import openpyxl
from starlette.testclient import TestClient

from eree.web.linked import LinkedTable


def test_rankings_and_decisions_are_files_with_the_same_figures(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["people"].name
    code = tables["people"].variable("county").codes[0]
    for page, query in (
        ("ranking", "rows=county&show=margin"),
        ("threshold", f"rows=county&show=margin&per_job=3.50&damage={code}%20125000"),
    ):
        address = f"/d/{name}/{page}"
        whole = client.get(f"{address}.json?{query}").json()
        areas = whole["areas"]
        reply = client.get(f"{address}.csv?{query}")
        assert reply.headers["content-type"] == "text/csv; charset=utf-8"
        assert f'{page}.csv"' in reply.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(reply.content.decode("utf-8-sig"), newline="")))
        book = openpyxl.load_workbook(io.BytesIO(client.get(f"{address}.xlsx?{query}").content))
        head, *lines = book["Data"].iter_rows(values_only=True)
        assert len(rows) == len(areas) == len(lines) > 0
        for area, row, line in zip(areas, rows, lines, strict=True):
            cells = dict(zip(head, line, strict=True))
            assert row["release"] == whole["metadata"]["release"]
            for key, value in area.items():
                if key == "flags":
                    assert (row[key], cells[key] or "") == (" ".join(value), " ".join(value))
                elif isinstance(value, str):
                    assert row[key] == cells[key] == value
                elif value is not None:
                    assert float(row[key]) == value == cells[key]
        assert whole["metadata"]["citation"] in [row[1] for row in book["About"].values]
        assert client.get(f"{address}.parquet?{query}").status_code == 404
    refused = client.get(f"/d/{name}/ranking.csv?show=margin")
    assert refused.status_code == 400 and refused.json()["error"]["message"]
