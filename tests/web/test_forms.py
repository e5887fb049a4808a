"""Forms hold what a query asks for, and the parts of them that are kept have a bound."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.machines import Machines
from eree.web.render import pages
from eree.web.render.pages import Pages
from questions import queries
from served import HOME


class Form(HTMLParser):
    """The filters of a form: what is ticked, and what may be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ticked: dict[str, list[str]] = {}
        self.offered: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        name = known.get("name") or ""
        if tag == "input" and known.get("type") == "checkbox" and name.startswith("where."):
            name = name.removeprefix("where.")
            self.offered.setdefault(name, []).append(known["value"] or "")
            if "checked" in known:
                self.ticked.setdefault(name, []).append(known["value"] or "")


@settings(max_examples=15)
@given(st.data())
def test_a_form_ticks_what_a_filter_keeps_and_nothing_else(
    client: TestClient, catalogue: Catalogue, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(catalogue.data_sets))
    query = data.draw(queries(chosen)).on_page(1)
    form = Form(client.get(f"/d/{chosen.name}/about?{query.address()}").text)
    assert not form.ticked  # there is no form on this page
    form = Form(client.get(f"/d/{chosen.name}/ranking?{query.address()}").text)
    ticked = {name: set(codes) for name, codes in form.ticked.items()}
    assert ticked == {name: set(codes) for name, codes in query.where.items()}
    for variable in chosen.variables:
        if len(variable.codes) <= pages.SHORT_LIST:
            assert set(variable.codes) <= set(form.offered[variable.name])


@pytest.mark.parametrize("most", [20_000, 100_000])
def test_parts_of_forms_are_kept_within_a_bound(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(pages, "MOST_PARTS", most)
    made = Pages(HOME, Branding(), Machines(catalogue.data_sets, HOME, Branding()))
    counted = []

    def part(length: int) -> str:
        counted.append(length)
        return "x" * length

    for number in range(500):
        for _ in range(2):
            found = made._once(part, ("part", number), 100 * (number % 7))  # type: ignore[arg-type]
            assert found == "x" * (100 * (number % 7))
        assert sum(map(len, made._parts.values())) < most
    assert len(counted) == 500  # what was made last is still there
    before = dict(made._parts)
    for _ in range(2):
        made._once(part, ("large",), most)  # type: ignore[arg-type]
    assert len(counted) == 502 and ("large",) not in made._parts and len(before) > 5
