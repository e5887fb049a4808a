"""The OpenAPI document of the query tool; every list of values in it comes from the catalogue."""

from __future__ import annotations

from typing import Any

import eree
from eree.web.block import FLAGS
from eree.web.catalogue import Catalogue
from eree.web.codelists import FORM
from eree.web.damages import MONEY
from eree.web.dataset import MOST_FIND, DataSet, Variable
from eree.web.desk import Limits
from eree.web.export import EXPORTS
from eree.web.figures import JOBS
from eree.web.lists import LISTS
from eree.web.query import (
    AT,
    CONFIDENCES,
    GROUP,
    MOST_PAGE,
    MOST_SIDES,
    SIDES,
    SORTS,
    TABS,
    WHERE,
    YES,
    quoted,
)
from eree.web.shares import SHARES

#: Longer lists of codes have an address of their own.
MOST_LISTED = 100
_REFUSALS = {
    "400": "The query asks for what the data set does not have",
    "404": "There is nothing at this address",
    "413": "The answer would have too many cells",
    "414": "The address is too long",
    "503": "Too many questions at once; try again after the seconds that Retry-After says",
}
_UNREAD = {"408": "What is sent took too long to arrive", "413": "What is sent is too long"}


def openapi(catalogue: Catalogue, home: str) -> dict[str, Any]:
    """The document, in version 3.1."""
    paths: dict[str, Any] = {
        "/index.json": _get(
            "catalogue",
            "All data sets, or those that have some words",
            [_parameter("find", {"type": "string", "maxLength": MOST_FIND}, "Words to find.")],
            _ref("Catalogue"),
        )
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
    settings, name, title = _settings(data), data.name, data.title
    money = {"type": "string", "pattern": f"^{MONEY}$", "default": "3.50"}
    lines = "A line for each area: its codes, then the amount, with spaces, tabs or ; between;"
    lines += " or the name of such lines that were sent to /build with POST, as ~ and 16 letters."
    jobs = _parameter("measure", {"enum": [JOBS]}, "What is counted.")
    threshold = [
        *(jobs if one["name"] == "measure" else one for one in settings),
        _parameter("per_job", money, "The threshold for each job."),
        _parameter("damage", {"type": "string", "maxLength": Limits().address}, lines),
    ]
    pair = [
        _parameter(one, {"type": "string"}, "One of two areas that are compared: a code or a name.")
        for one in ("one", "two")
    ]
    found = {
        f"/d/{name}{address}.json": _get(f"{name}-{page}", f"{title}: {page}", given, schema)
        for address, page, given, schema in (
            ("", "table", settings, _ref("Table")),
            ("/ranking", "ranking", [*settings, *pair], _ref("Ranking")),
            ("/threshold", "threshold", threshold, _ref("Threshold")),
            ("/about", "about", [], {"type": "object"}),
            ("/certificate", "certificate", [], {"type": "object"}),
        )
    }
    for ending, (kind, _) in EXPORTS.items():
        body = {"type": "object"} if "json" in kind else {"type": "string", "format": "binary"}
        found[f"/d/{name}.{ending}"] = _get(
            f"{name}-{ending}", f"{title}: {ending}", settings, body, kind.partition(";")[0]
        )
    for page, given in (("ranking", settings), ("threshold", threshold)):
        for ending in LISTS:
            kind = EXPORTS[ending][0].partition(";")[0]
            body = {"type": "string", "format": "binary"}
            said = f"{title}: {page} as {ending}"
            found[f"/d/{name}/{page}.{ending}"] = _get(
                f"{name}-{page}-{ending}", said, given, body, kind
            )
    for profile in data.profiles:
        for ending, kind in (("csv", "text/csv"), ("json", "application/json")):
            found[f"/d/{name}/sizes/{quoted(profile)}.{ending}"] = _get(
                f"{name}-{profile}-{ending}",
                f"Workplaces by size: {profile}",
                [],
                {"type": "object"} if ending == "json" else {"type": "string", "format": "binary"},
                kind,
            )
    find = _parameter("find", {"type": "string", "maxLength": MOST_FIND}, "Words to find.")
    for variable in data.variables:
        found[f"/d/{name}/codes/{quoted(variable.name)}.json"] = _get(
            f"{name}-codes-{variable.name}", f"Codes of {variable.label}", [find], _ref("Codes")
        )
        found[f"/d/{name}/lists/{quoted(variable.name)}"] = _post_list(name, variable)
    found[f"/d/{name}/build"] = _post_form(data, threshold)
    return found


def _post_list(name: str, variable: Variable) -> dict[str, Any]:
    """How a list of codes is sent."""
    said = f"Keep a list of codes of {variable.label} for a day"
    text = {"type": "string", "description": "A code or a group on each line."}
    kept = {"description": said, "content": {"application/json": {"schema": _ref("List")}}}
    refusal = {"application/json": {"schema": _ref("Refusal")}}
    return _post(f"{name}-list-{variable.name}", said, ("text/plain", text), {"201": kept}, refusal)


def _post_form(data: DataSet, settings: list[dict[str, Any]]) -> dict[str, Any]:
    """How a form is sent, with more codes or lines of damage than an address has room for."""
    fields: dict[str, Any] = {"tab": {"enum": list(TABS), "description": "The page to go on to."}}
    for variable in data.variables:
        said = f"Where {variable.label} stands in the table."
        fields[f"{AT}{variable.name}"] = {"enum": ["", *SIDES], "description": said}
    of = [variable.name for variable in data.variables]
    order = {"type": "array", "items": {"enum": of}, "description": "The order of variables."}
    fields |= {"order": order} if of else {}
    for one in settings:
        if one["name"] not in (*SIDES, "page", "across"):
            schema = {key: value for key, value in one["schema"].items() if key != "uniqueItems"}
            fields[one["name"]] = schema | {"description": one["description"]}
    form = {"type": "object", "properties": fields, "additionalProperties": False}
    there = {"description": "The address of the query.", "schema": {"type": "string"}}
    moved = {"description": "Leads to the address of the query", "headers": {"Location": there}}
    page = {"text/html": {"schema": {"type": "string"}}}
    said = f"{data.title}: the address of a query, where long lists have short names"
    return _post(f"{data.name}-build", said, (FORM, form), {"303": moved}, page)


def _post(
    name: str,
    summary: str,
    body: tuple[str, dict[str, Any]],
    answers: dict[str, Any],
    refusal: dict[str, Any],
) -> dict[str, Any]:
    """What a path answers to a body of some kind that is sent with POST, and how it refuses."""
    refused = {n: {"description": r, "content": refusal} for n, r in (_REFUSALS | _UNREAD).items()}
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "requestBody": {"required": True, "content": {body[0]: {"schema": body[1]}}},
            "responses": answers | refused,
        }
    }


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
        codes, said = [*variable.groups, *variable.codes], f"Keep these codes of {variable.label}."
        one: dict[str, Any] = {"type": "string"}
        if len(codes) <= MOST_LISTED:
            one = {"anyOf": [{"enum": codes}, {"type": "string", "pattern": "^~[a-z2-7]{16}$"}]}
        else:
            said += f" They are listed at /d/{data.name}/codes/{quoted(variable.name)}.json."
        listed = {"type": "array", "items": one, "uniqueItems": True}
        found.append(_parameter(f"{WHERE}{variable.name}", listed, said))
        if variable.levels:
            level = f"Show {variable.label} by groups of this level; only where the table is by it."
            known = {"enum": list(variable.levels)}
            found.append(_parameter(f"{GROUP}{variable.name}", known, level))
    found += [
        _parameter("measure", {"enum": list(data.measures)}, "What is counted."),
        _parameter("share", {"enum": list(SHARES)}, "Percents of these totals, not counts."),
        _parameter("show", {"enum": list(data.errors)}, "The error that pages show."),
        _parameter(
            "confidence", {"enum": list(CONFIDENCES)}, "The probability that intervals hold."
        ),
        _parameter("sort", {"enum": list(SORTS)}, "The order of the rows."),
        _parameter("page", _PAGE, "A page of the rows."),
        _parameter("across", _PAGE, "A page of the columns."),
        _parameter("subtotals", {"enum": [YES]}, "Whether pages show subtotals."),
        _parameter("exact", {"enum": [YES]}, "Whether pages show every digit; files always do."),
    ]
    return found


def _parameter(name: str, schema: dict[str, Any], described: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": described,
        "schema": schema,
        **({"style": "form", "explode": True} if schema.get("type") == "array" else {}),
    }


def _get(
    name: str,
    summary: str,
    parameters: list[dict[str, Any]],
    schema: dict[str, Any],
    kind: str = "application/json",
) -> dict[str, Any]:
    """What a path answers to GET, and how it refuses."""
    refusal = {"application/json": {"schema": _ref("Refusal")}}
    answers = {"200": {"description": summary, "content": {kind: {"schema": schema}}}}
    answers |= {
        status: {"description": reason, "content": refusal} for status, reason in _REFUSALS.items()
    }
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": parameters,
            "responses": answers,
        }
    }


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties}


_PAGE = {"type": "integer", "minimum": 1, "maximum": MOST_PAGE}
_BOUND, _TEXT = {"type": ["number", "null"]}, {"type": "string"}
_FIGURES = {"type": "array", "items": _ref("Figure")}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_SCHEMAS: dict[str, Any] = {
    "Figure": _object(
        "estimate low high margin relative flags",
        estimate={"type": "number"},
        **dict.fromkeys(("low", "high", "margin", "relative", "standard_error"), _BOUND),
        flags={"type": "array", "items": {"enum": list(FLAGS)}},
    ),
    "Table": _object(
        "metadata query cells totals",
        metadata={"type": "object"},
        query=_TEXT,
        cells=_FIGURES,
        totals=_object("all", all=_ref("Figure"), rows=_FIGURES, columns=_FIGURES),
    ),
    "Ranking": _object("metadata query areas", areas=_FIGURES),
    "Threshold": _object("metadata query areas per_job", areas=_FIGURES, per_job=_TEXT),
    "List": _object(
        "list codes heading kept_until query",
        codes={"type": "integer"},
        **dict.fromkeys(("list", "heading", "kept_until", "query"), _TEXT),
    ),
    "Codes": _object("variable codes", codes=_OBJECTS),
    "Catalogue": _object("data_sets", data_sets=_OBJECTS),
    "Refusal": _object(
        "error", error=_object("status message", status={"type": "integer"}, message=_TEXT)
    ),
}
