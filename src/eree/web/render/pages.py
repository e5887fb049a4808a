"""Pages: templates, and the few files that they need."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

import eree
from eree.web.block import NEGATIVE, OPEN
from eree.web.dataset import ERRORS
from eree.web.query import CONFIDENCES, SORTS, carried, quoted, written
from eree.web.render.charts import decision_line, interval, number, rank_line
from eree.web.render.layout import marked, marks

KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: A variable with more codes is filtered on a page of its own.
SHORT_LIST = 24
#: A longer list of codes is cut, and says so.
MOST_LINES = 600
#: A link to an address of ours, which gets the prefix of the office's proxy.
_OURS = re.compile(r'\b(href|src|action|formaction)="/')


class Pages:
    """Renders templates; every file of the package is in memory before the first request."""

    def __init__(self, home: str, prefix: str = "") -> None:
        self._prefix = rf'\1="{prefix}/' if prefix else ""
        room = files("eree.web")
        sources = {
            path.name: path.read_text(encoding="utf-8")
            for path in room.joinpath("templates").iterdir()
            if path.name.endswith(".html")
        }
        self.static = {
            path.name: path.read_bytes()
            for path in room.joinpath("static").iterdir()
            if path.name.rpartition(".")[2] in KINDS
        }
        self._environment = Environment(
            loader=DictLoader(sources),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "version": eree.__version__,
            "stamp": self.stamp,
            "home": home,
            "errors": ERRORS,
            "confidence_choices": [(c, f"{float(c):.0%}") for c in CONFIDENCES],
            "error_choices": lambda data: [(k, ERRORS[k]) for k in data.errors],
            "sorts": SORTS,
            "short_list": SHORT_LIST,
            "most_lines": MOST_LINES,
            "figure_of": marked,
            "flags": marks,
            "interval_of": interval,
            "number": number,
            "carried": carried,
            "written": written,
            "quoted": quoted,
            "rank_line": rank_line,
            "decision_line": decision_line,
            "flag_means": {
                NEGATIVE: "below 0, which only noise can make; it is kept so that totals are right",
                OPEN: "nothing public bounds it from above",
            },
            "Markup": Markup,
        }
        for name in sources:
            self._environment.get_template(name)

    @cached_property
    def stamp(self) -> str:
        """Changes whenever a static file does."""
        whole = b"".join(self.static[name] for name in sorted(self.static))
        return hashlib.sha256(whole).hexdigest()[:12]

    def render(self, template: str, **given: Any) -> bytes:
        """A page; texts in it have no quotation marks, so that these are links of ours."""
        made = self._environment.get_template(template).render(**given)
        if self._prefix:
            made = _OURS.sub(self._prefix, made)
        return made.encode()
