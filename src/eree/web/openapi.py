"""The OpenAPI document of the query tool; every list of values in it comes from the catalogue."""

from __future__ import annotations

from typing import Any

import eree
from eree.web.catalogue import Catalogue
from eree.web.comparison import MOST_DAMAGE
from eree.web.dataset import JOBS, MOST_FIND, DataSet, Variable
from eree.web.export import EXPORTS
from eree.web.query import CONFIDENCES, GROUP, MOST_PAGE, MOST_SIDES, SORTS, WHERE, YES, quoted

_REFUSALS = {
    "400": "The query asks for what the data set does not have",
    "404": "There is nothing at this address",
    "413": "The answer would have too many cells",
    "414": "The address is too long",
    "503": "Too many questions at once; try again after the seconds that Retry-After says",
}


def openapi(catalogue: Catalogue, home: str) -> dict[str, Any]:
    """The document, in version 3.1."""
    paths: dict[str, Any] = {
        "/index.json": {"get": _operation("catalogue", "All data sets", [], _ref("Catalogue"))}
    }
    for data in catalogue.data_sets:
        paths |= _paths(data)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "eree query tool",
            "version": eree.__version__,
            "description": "Released tables and protected cubes, with their errors.",
        },
        "servers": [{"url": home}],
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _paths(data: DataSet) -> dict[str, Any]:
    settings, name = _settings(data), data.name
    found: dict[str, Any] = {}
    pages = (("", "table", "Table"), ("/ranking", "ranking", "Ranking"))
    for page, word, schema in pages:
        found[f"/d/{name}{page}.json"] = {
            "get": _operation(f"{name}-{word}", f"{data.title}: {word}", settings, _ref(schema))
        }
    money = {"type": "string", "pattern": "^[0-9]{1,15}(\\.[0-9]{1,4})?$"}
    extras = [
        _parameter("per_job", money | {"default": "3.50"}, "The threshold for each job."),
        _parameter(
            "damage",
            {"type": "string", "maxLength": MOST_DAMAGE},
            "A line for each area: its codes, then the amount, with spaces between.",
        ),
    ]
    jobs = _parameter("measure", {"enum": [JOBS]}, "What is counted.")
    given = [*(jobs if one["name"] == "measure" else one for one in settings), *extras]
    found[f"/d/{name}/threshold.json"] = {
        "get": _operation(f"{name}-threshold", f"{data.title}: threshold", given, _ref("Threshold"))
    }
    for word in ("about", "certificate"):
        found[f"/d/{name}/{word}.json"] = {
            "get": _operation(f"{name}-{word}", f"{data.title}: {word}", [], {"type": "object"})
        }
    for ending, (kind, _) in EXPORTS.items():
        body = {"type": "object"} if "json" in kind else {"type": "string", "format": "binary"}
        found[f"/d/{name}.{ending}"] = {
            "get": _operation(
                f"{name}-{ending}", f"{data.title}: {ending}", settings, body, kind.split(";")[0]
            )
        }
    for variable in data.variables:
        find = _parameter("find", {"type": "string", "maxLength": MOST_FIND}, "Words to find.")
        found[f"/d/{name}/codes/{quoted(variable.name)}.json"] = {
            "get": _operation(
                f"{name}-codes-{variable.name}", f"Codes of {variable.label}", [find], _ref("Codes")
            )
        }
    return found


def _settings(data: DataSet) -> list[dict[str, Any]]:
    """The parameters of a query."""
    names = [variable.name for variable in data.variables]
    side = {
        "type": "array",
        "items": {"type": "string", "enum": names},
        "uniqueItems": True,
        "maxItems": MOST_SIDES,
    }
    found = [
        _parameter("rows", side, "Variables on the rows."),
        _parameter("cols", side, "Variables on the columns; none stands on the rows as well."),
    ]
    for variable in data.variables:
        codes = [*variable.groups, *variable.codes]
        listed = {"type": "array", "items": {"enum": codes}, "uniqueItems": True}
        found.append(
            _parameter(f"{WHERE}{variable.name}", listed, f"Keep these codes of {variable.label}.")
        )
        if variable.levels:
            found.append(_level(variable))
    found += [
        _parameter("measure", {"enum": list(data.measures)}, "What is counted."),
        _parameter("show", {"enum": list(data.errors)}, "The error that pages show."),
        _parameter(
            "confidence", {"enum": list(CONFIDENCES)}, "The probability that intervals hold."
        ),
        _parameter("sort", {"enum": list(SORTS)}, "The order of the rows."),
        _parameter("page", _PAGE, "A page of the rows."),
        _parameter("across", _PAGE, "A page of the columns."),
        _parameter("subtotals", {"enum": [YES]}, "Whether pages show subtotals."),
    ]
    return found


def _level(variable: Variable) -> dict[str, Any]:
    described = f"Show {variable.label} by groups of this level; only where the table is by it."
    return _parameter(f"{GROUP}{variable.name}", {"enum": list(variable.levels)}, described)


def _parameter(name: str, schema: dict[str, Any], described: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": described,
        "schema": schema,
        **({"style": "form", "explode": True} if schema.get("type") == "array" else {}),
    }


def _operation(
    name: str,
    summary: str,
    parameters: list[dict[str, Any]],
    schema: dict[str, Any],
    kind: str = "application/json",
) -> dict[str, Any]:
    refusal = {"application/json": {"schema": _ref("Refusal")}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": summary, "content": {kind: {"schema": schema}}},
            **{
                status: {"description": reason, "content": refusal}
                for status, reason in _REFUSALS.items()
            },
        },
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_PAGE = {"type": "integer", "minimum": 1, "maximum": MOST_PAGE}
_BOUND = {"type": ["number", "null"]}
_FIGURE: dict[str, Any] = {
    "type": "object",
    "required": ["estimate", "low", "high", "margin", "relative", "flags"],
    "properties": {
        "estimate": {"type": "number"},
        **dict.fromkeys(("low", "high", "margin", "relative", "standard_error"), _BOUND),
        "flags": {
            "type": "array",
            "items": {"enum": ["negative", "unreliable", "absent", "open"]},
        },
    },
}
_LIST = {"type": "array", "items": {"$ref": "#/components/schemas/Figure"}}
_SCHEMAS: dict[str, Any] = {
    "Figure": _FIGURE,
    "Table": {
        "type": "object",
        "required": ["metadata", "query", "cells", "totals"],
        "properties": {
            "metadata": {"type": "object"},
            "query": {"type": "string"},
            "cells": _LIST,
            "totals": {
                "type": "object",
                "required": ["all"],
                "properties": {
                    "all": {"$ref": "#/components/schemas/Figure"},
                    "rows": _LIST,
                    "columns": _LIST,
                },
            },
        },
    },
    "Ranking": {
        "type": "object",
        "required": ["metadata", "query", "areas"],
        "properties": {"areas": _LIST},
    },
    "Threshold": {
        "type": "object",
        "required": ["metadata", "query", "areas", "per_job"],
        "properties": {"areas": _LIST, "per_job": {"type": "string"}},
    },
    "Codes": {
        "type": "object",
        "required": ["variable", "codes"],
        "properties": {"codes": {"type": "array", "items": {"type": "object"}}},
    },
    "Catalogue": {
        "type": "object",
        "required": ["data_sets"],
        "properties": {"data_sets": {"type": "array", "items": {"type": "object"}}},
    },
    "Refusal": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["status", "message"],
                "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
            }
        },
    },
}
