"""The house: pages that no data set is needed for, and what all pages have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self
from urllib.parse import urlsplit

from eree.web.address import looked_for, refuse_settings
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue, Missing
from eree.web.dataset import DataSet
from eree.web.export import Metadata, file_name, metadata
from eree.web.machines import Machines
from eree.web.methods import mechanisms_used, step_words
from eree.web.notes import described
from eree.web.openapi import openapi
from eree.web.query import Query, default_query, written
from eree.web.render.maps import maps_of
from eree.web.render.pages import KINDS, Pages
from eree.web.reply import HEADINGS, HTML, JSON, OTHERWISE, Reply
from eree.web.reply import as_json as in_json
from eree.web.words import say


class House:
    """The pages around the data sets of a catalogue; `home` is the public address of the tool.

    Pages are in the first language of its branding; `within` has the same in another.
    """

    def __init__(self, catalogue: Catalogue, home: str, branding: Branding | None = None) -> None:
        self.catalogue, self.home = catalogue, home.rstrip("/")
        self.path = urlsplit(self.home).path  # what all addresses begin with
        self.machines = Machines(catalogue.data_sets, self.home, branding or Branding())
        self.pages = Pages(self.home, branding or Branding(), self.machines)
        self.language = self.pages.branding.languages[0]
        self._apart = {data.name: catalogue.noised_apart(data) for data in catalogue.data_sets}
        self._certificates: dict[str, list[dict[str, Any]]] = {
            data.name: data.certificates() for data in catalogue.data_sets
        }
        self._maps = {data.name: maps_of(data, catalogue.maps) for data in catalogue.data_sets}

    def within(self, language: str) -> Self:
        """The same in another language."""
        found = copy(self)
        found.language = language
        return found

    @property
    def prefix(self) -> str:
        """What addresses of pages in its language begin with."""
        return self.pages.prefix(self.language)

    def first(self, query: str, as_json: bool) -> Reply:
        """The list of data sets, all or those that have words."""
        find = looked_for(say("the first page"), query)
        found = self.catalogue.found(find)
        if as_json:
            return in_json({"data_sets": [described(data, self.home) for data in found]})
        groups: dict[str, list[DataSet]] = {}
        for data in sorted(found, key=lambda data: bool(data.heading)):  # without: first
            groups.setdefault(data.heading, []).append(data)
        here = f"/?{written([('find', find)])}" if find else "/"
        known = {"every": self.catalogue.data_sets, "found": found, "mapped": self._maps}
        return self._page("home.html", here, groups=groups, find=find, **known)

    def api(self, query: str) -> Reply:
        """The OpenAPI document."""
        refuse_settings(say("this document"), query)
        return Reply(200, JSON, self._openapi)

    @cached_property
    def _openapi(self) -> bytes:
        return json.dumps(openapi(self.catalogue, self.home), ensure_ascii=False).encode()

    def help(self, query: str) -> Reply:
        """How addresses are made, for those who program."""
        refuse_settings(say("this page"), query)
        known = {"data_sets": self.catalogue.data_sets, "default_query": default_query}
        return self._page("api.html", "/api", **known)

    def methods(self, query: str) -> Reply:
        """How figures are protected, for the public."""
        refuse_settings(say("this page"), query)
        found = self.catalogue.data_sets
        steps = dict.fromkeys(step_words(*data.units) for data in found)
        used = mechanisms_used(found, self._certificates)
        known = {"data_sets": found, "steps": list(steps), "mechanisms": used}
        return self._page("methods.html", "/methods", **known)

    def static(self, name: str) -> Reply:
        """A file that pages need."""
        if name not in self.pages.static:
            raise Missing(say("there is no such file"))
        return Reply(200, KINDS[name.rpartition(".")[2]], self.pages.static[name])

    def refused(
        self,
        status: int,
        reason: str,
        as_json: bool,
        near: str = "",
        instead: str = "",
        left: Sequence[str] = (),
    ) -> Reply:
        """A page that says what went wrong, and what would work.

        `near` is the data set that was asked for, `instead` an address that leaves out what means
        nothing.
        """
        if as_json:
            error = {"status": status, "message": reason[:1].upper() + reason[1:]}
            error |= {"instead": f"{self.home}{instead}"} if instead else {}
            return in_json({"error": error}, status)
        known = {"status": status, "heading": HEADINGS.get(status, OTHERWISE), "reason": reason}
        known |= {"instead": instead, "left": left, "data": self.catalogue.by_name.get(near)}
        return Reply(status, HTML, self.pages.render("error.html", self.language, "/", **known))

    def _page(self, template: str, here: str, **given: Any) -> Reply:
        return Reply(200, HTML, self.pages.render(template, self.language, here, **given))

    def _about(self, data: DataSet, query: Query) -> Metadata:
        return metadata(data, query, self._apart[data.name], self.home)

    def _with_metadata(
        self, data: DataSet, query: Query, made: Mapping[str, Any], page: str = "", *own: str
    ) -> Reply:
        about = self._about(data, query).as_json()
        found = in_json({"metadata": about, "query": query.address(), **made})
        return found.named(file_name(data, query, f"{page}json", *own))
