"""The OpenAPI document says what there is, and what it says is what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.testclient import TestClient

from eree.web.catalogue import Catalogue
from eree.web.openapi import openapi

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


def test_lists_of_values_come_from_the_catalogue(client: TestClient, catalogue: Catalogue) -> None:
    document = client.get("/openapi.json").json()
    for data in catalogue.data_sets:
        given = document["paths"][f"/d/{data.name}.json"]["get"]["parameters"]
        known = {one["name"]: one["schema"] for one in given}
        names = [variable.name for variable in data.variables]
        assert known["rows"]["items"]["enum"] == names
        assert known["show"]["enum"] == list(data.errors)
        for variable in data.variables:
            listed, _of_readers = known[f"where.{variable.name}"]["items"]["anyOf"]
            assert set(variable.codes) <= set(listed["enum"])


def test_long_lists_of_codes_have_an_address_of_their_own(
    client: TestClient, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = next(one for one in catalogue.data_sets if one.name.startswith("jobs"))
    monkeypatch.setattr("eree.web.openapi.MOST_LISTED", 5)
    given = openapi(catalogue, "")["paths"][f"/d/{data.name}.json"]["get"]["parameters"]
    (place,) = (one for one in given if one["name"] == "where.place")
    assert place["schema"]["items"] == {"type": "string"}
    address = f"/d/{data.name}/codes/place.json"
    assert place["description"].endswith(f"They are listed at {address}.")
    assert client.get(address).status_code == 200


def test_forms_and_lists_may_be_sent_as_the_document_says(
    client: TestClient, catalogue: Catalogue
) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for data in catalogue.data_sets:
        of, lists = f"/d/{data.name}/build", f"/d/{data.name}/lists/{data.variables[0].name}"
        build, kept = paths[of]["post"], paths[lists]["post"]
        (schema,) = (one["schema"] for one in build["requestBody"]["content"].values())
        first = data.variables[0].name
        assert schema["properties"][f"at.{first}"]["enum"] == ["", "rows", "cols"]
        assert {"tab", "order", "show", "damage", f"where.{first}"} <= set(schema["properties"])
        answer = client.post(of, data={f"at.{first}": "rows", "show": "interval"})
        assert str(answer.status_code) in build["responses"]
        assert answer.headers["location"] == f"/d/{data.name}?rows={first}&show=interval"
        wrong = client.post(of, data={f"at.{first}": "top"})
        assert wrong.status_code == 400 and "on rows, on cols, or nowhere" in wrong.text
        assert wrong.headers["content-type"].split(";")[0] in build["responses"]["400"]["content"]
        assert build["responses"].keys() & kept["responses"].keys() >= {"400", "404", "408", "413"}
        assert "too long" in kept["responses"]["413"]["description"]
        assert client.put(of).headers["allow"] == "GET, HEAD, POST"
        assert client.get(lists).headers["allow"] == "POST"


def operations(client: TestClient, catalogue: Catalogue) -> Iterator[Any]:
    """Those of a table, of a cube and of the whole; the other tables have the same."""
    document = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    rejected = document.config.checks.negative_data_rejection
    rejected.expected_statuses = [*rejected.expected_statuses, "414"]  # an address that is too long
    shown = ("/index", f"/d/{catalogue.data_sets[0].name}", f"/d/{catalogue.data_sets[-1].name}")
    for found in document.get_all_operations():
        operation = found.ok()
        if operation.path.startswith(shown):
            yield operation


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_operation_answers_as_its_document_says(
    mode: GenerationMode, client: TestClient, catalogue: Catalogue
) -> None:
    ask_all(mode, client, catalogue, 2)


def ask_all(mode: GenerationMode, client: TestClient, catalogue: Catalogue, examples: int) -> None:
    """Ask every operation so many questions."""
    count = 0
    for operation in operations(client, catalogue):
        if mode is GenerationMode.NEGATIVE and not operation.query:
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        ask()
        count += 1
    assert count > 15
