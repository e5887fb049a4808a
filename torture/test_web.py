"""The query tool is asked questions by the thousand."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from starlette.testclient import TestClient

from eree.web.catalogue import Catalogue
from web import test_answer, test_app, test_charts, test_headings, test_query
from web.test_answer import cubes
from web.test_crawl import crawl, every_kind
from web.test_openapi import ask_all

__all__ = ["cubes", "every_kind"]
#: Tests that ask random questions, of which `make test` asks few.
SAMPLED = [
    test_answer.test_rows_columns_and_totals_add_up,
    test_answer.test_a_figure_is_the_same_in_every_table,
    test_answer.test_cubes_answer_as_the_cube_does,
    test_answer.test_an_answer_has_the_figures_of_four_tables_of_the_cube,
    test_app.test_no_address_is_answered_with_an_error_of_ours,
    test_charts.test_bars_and_fields_are_the_figures_of_the_page,
    test_headings.test_headings_fill_the_table_without_a_gap,
    test_headings.test_subtotals_are_sums_of_their_rows,
    test_query.test_a_query_is_read_back_from_its_address,
    test_query.test_a_form_leads_to_the_query_that_it_shows,
]


@pytest.mark.parametrize("sampled", SAMPLED, ids=lambda test: test.__name__)
def test_random_questions_by_the_thousand(
    sampled: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    inner = sampled.hypothesis.inner_test
    names = [name for name in signature(inner).parameters if name != "data"]
    fixtures = {name: request.getfixturevalue(name) for name in names}

    @settings(max_examples=2_000, deadline=None)
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        inner(**fixtures, data=data)

    ask()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_operation_answers_a_hundred_questions_as_its_document_says(
    mode: GenerationMode, client: TestClient, catalogue: Catalogue
) -> None:
    ask_all(mode, client, catalogue, 100)


def test_many_links_and_forms_of_every_kind_lead_somewhere(every_kind: Catalogue) -> None:
    crawl(every_kind, 5)
