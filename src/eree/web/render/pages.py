"""Pages: templates, and the few files that they need."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from sys import getsizeof
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from jinja2 import BytecodeCache, DictLoader, Environment, StrictUndefined, Template, nodes
from jinja2 import __version__ as made_by
from jinja2.bccache import Bucket
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context, Macro
from jinja2.visitor import NodeTransformer
from markupsafe import Markup, escape

import eree
from eree.mechanisms.cache import Arrays, arrays_by_package
from eree.web.block import FLAG_NAMES, NEGATIVE, OPEN
from eree.web.branding import Branding
from eree.web.dataset import ERRORS, DataSet, Variable
from eree.web.machines import Machines
from eree.web.query import CONFIDENCES, SORTS, Query, carried, quoted
from eree.web.render.charts import interval, number
from eree.web.render.layout import marked, marks
from eree.web.render.lines import decision_line, rank_line
from eree.web.shares import SHARES
from eree.web.words import (
    Joined,
    Said,
    language,
    languages,
    say,
    speaking_by,
    spoken,
    translated,
    translated_number,
)

KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
#: A variable with more codes is filtered on a page of its own.
SHORT_LIST = 24
#: A longer list of codes is cut, and says so.
MOST_LINES = 600
#: Bytes of parts of pages that are kept, all of forms.
MOST_PARTS = 16 << 20
#: Words that the script shows, which come with every page that is not English.
SCRIPT = (
    say("Copy"),
    say("Copied"),
    say("Copy for a spreadsheet"),
    say("Picture (PNG)"),
    say("Selected"),
    say("The search got no answer; press Find."),
)
_VERDICTS = {"above": say("above"), "below": say("below"), "undecided": say("undecided")}
#: What is put into a text.
_PART = re.compile(r"%\((\w+)\)s")
#: A link within the tool; texts of others cannot look like one, because quotes in them are escaped.
_LINK = re.compile(r'(?<!hreflang="[a-z]{2}") (?:href|action)="(?=/(?!static/))')
#: The same of any kind, which gets the path of the public address.
_OURS = re.compile(r'\b(?:href|src|action|formaction)="(?=/)')


class _Translated(NodeTransformer):
    """Puts the texts of a template into it, in the language that is spoken meanwhile."""

    def visit_Call(self, node: nodes.Call) -> nodes.Expr:  # noqa: N802 - as the visitor has it
        self.generic_visit(node)
        match node:
            case nodes.Call(
                node=nodes.Name(name="_" | "gettext"), args=[nodes.Const(value=str(key))]
            ):
                given = {one.key: one.value for one in node.kwargs}
                texts = _PART.split(translated(key))
                texts[::2] = [text.replace("%%", "%") for text in texts[::2]]
                parts: list[nodes.Expr] = [nodes.TemplateData(text) for text in texts]
                parts[1::2] = [given[name] for name in texts[1::2]]
                return nodes.Concat(parts) if given else parts[0]
        return node


class _Code(CodeGenerator):
    """Code of templates in which what finalizes a text escapes it as well, in one call."""

    def _output_child_pre(
        self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo
    ) -> None:
        del node, frame, finalize
        self.write("(environment.finalize(")


class _Template(Template):
    """A template whose macros need nothing of the page that takes them."""

    def _get_default_module(self, _context: Context | None = None) -> Any:
        return super()._get_default_module()


class _Compiled(BytecodeCache):
    """Templates of one language as they were compiled, each by its name and source."""

    def __init__(self, kept: Arrays) -> None:
        self.kept = kept

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template that is here, unless it is of another source or for other Python."""
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key].tobytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template."""
        self.kept[bucket.key] = np.frombuffer(bucket.bytecode_to_string(), dtype=np.uint8)


def _shown(text: Any) -> str:
    """What stands on a page, in its language, as HTML."""
    return text if type(text) is Markup else escape(spoken(text))


class _Templates(Environment):
    """Templates in one language."""

    template_class, code_generator_class = _Template, _Code

    def __init__(self, language: Mapping[str, str], **given: Any) -> None:
        super().__init__(**given)
        self._language = language

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        found = super()._parse(source, name, filename)
        with speaking_by(self._language):
            _Translated().visit(found)
        return found

    def compile_all(self, sources: Mapping[str, str]) -> None:
        """Have all templates ready: as the user's cache folder has them, or compiled now."""

        def compiled(known: Arrays) -> Arrays:
            self.bytecode_cache = _Compiled(known)
            for name in sources:
                self.get_template(name)
            return known

        what = json.dumps([made_by, sources, dict(self._language)])
        digest = hashlib.sha256(what.encode()).hexdigest()
        compiled(arrays_by_package(f"templates {digest}", lambda: compiled({})))


class Pages:
    """Renders templates; every file of the package is in memory before the first request."""

    def __init__(self, home: str, branding: Branding, machines: Machines) -> None:
        self.branding, self._machines = branding, machines
        self._path = urlsplit(home).path
        room = files("eree.web")
        self._sources = {
            path.name: path.read_text(encoding="utf-8")
            for path in sorted(room.joinpath("templates").iterdir(), key=lambda path: path.name)
            if path.name.endswith(".html")
        }
        self.static = {
            path.name: path.read_bytes()
            for path in room.joinpath("static").iterdir()
            if path.name.rpartition(".")[2] in KINDS
        }
        self.static["style.css"] += branding.style
        if branding.logo:
            self.static[branding.logo] = branding.picture
        self._parts, self._held = dict[tuple[object, ...], str](), 0
        self._templates = {code: self._in_language(code, home) for code in branding.languages}

    def _in_language(self, code: str, home: str) -> _Templates:
        found = _Templates(
            language(code),
            loader=DictLoader(self._sources),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.i18n"],
            finalize=_shown,
        )
        translate: Any = found  # what the extension adds is not typed
        translate.install_gettext_callables(translated, translated_number, newstyle=True)
        found.filters |= {"spoken": spoken, "begun": begun}
        found.globals |= {
            "once": self._once,
            "variable_key": _variable_key,
            "figures_key": _figures_key,
            "version": eree.__version__,
            "stamp": self.stamp,
            "home": home,
            "site": self.branding,
            "languages": languages(),
            "prefix": self.prefix,
            "script_words": _script_words,
            "errors": ERRORS,
            "confidence_choices": [(c, f"{float(c):.0%}") for c in CONFIDENCES],
            "percent": lambda share: f"{float(share):.0%}",
            "error_choices": _error_choices,
            "shares": SHARES.items(),
            "sorts": SORTS,
            "short_list": SHORT_LIST,
            "most_lines": MOST_LINES,
            "figure_of": marked,
            "flags": marks,
            "flag_names": FLAG_NAMES,
            "interval_of": interval,
            "number": number,
            "in_english": _in_english,
            "verdict": lambda word: spoken(_VERDICTS[word]),
            "ticked": _ticked,
            "kept_codes": _kept_codes,
            "without": lambda found, names: [v for v in found if v.name not in names],
            "carried": carried,
            "quoted": quoted,
            "rank_line": rank_line,
            "decision_line": decision_line,
            "flag_means": {
                NEGATIVE: say(
                    "below 0, which only noise can make; it is kept so that totals are right"
                ),
                OPEN: say("nothing public bounds it from above"),
            },
            "Markup": Markup,
        }
        return found

    def compile(self) -> None:
        """Compile all templates; otherwise each is compiled when it is first asked for."""
        for found in self._templates.values():
            found.compile_all(self._sources)

    def _once(self, macro: Macro, key: tuple[object, ...] | None, *given: Any) -> str:
        """A part of a page; where it has a key, it is made once for all pages."""
        if key is None:
            return macro(*given)
        found = self._parts.get(key)
        if found is None:
            found = macro(*given)
            own = getsizeof(found) + 1_000  # with some for the bookkeeping
            if self._held + own > MOST_PARTS:
                self._parts, self._held = {}, 0
            if own <= MOST_PARTS // 8:
                self._parts[key] = found
                self._held += own
        return found

    def prefix(self, code: str) -> str:
        """What addresses of pages in a language begin with: nothing in the first."""
        return "" if code == self.branding.languages[0] else f"/{code}"

    @cached_property
    def stamp(self) -> str:
        """Changes whenever a static file does."""
        whole = b"".join(self.static[name] for name in sorted(self.static))
        return hashlib.sha256(whole).hexdigest()[:12]

    def render(self, template: str, code: str, here: str, **given: Any) -> bytes:
        """A page in a language, whose links lead to pages in it; `here` is its own address.

        Quotation marks in texts are escaped, so that what looks like a link is one of ours.
        """
        known = {"language": code, "here": here}
        with speaking_by(language(code)):
            made = self._templates[code].get_template(template).render(known | given)
            if prefix := self.prefix(code):
                made = _LINK.sub(lambda found: f"{found[0]}{prefix}", made)
            if template != "error.html":
                head = self._machines.head(here, prefix, given)
                made = made.replace("</head>", f"{head}</head>", 1)
        if self._path:
            made = _OURS.sub(lambda found: f"{found[0]}{self._path}", made)
        return made.encode()


def _variable_key(
    language: str, data: DataSet, query: Query, variable: Variable
) -> tuple[object, ...] | None:
    """What the form of a variable goes by; none where a filter keeps some of countless codes."""
    name = variable.name
    if name in query.where:
        return None
    side = "rows" if name in query.rows else "cols" if name in query.cols else ""
    own = getattr(query, side) if side else (name,)
    before = own[: own.index(name)][-1:]
    return language, data.name, name, side, before, query.groups.get(name)


def _figures_key(language: str, data: DataSet, query: Query, tab: str) -> tuple[object, ...]:
    """What the form of figures and errors goes by."""
    nested = len(query.rows) > 1 or len(query.cols) > 1
    own = query.measure, query.share, query.show, query.confidence, query.sort
    return language, data.name, tab, *own, query.subtotals, query.exact, nested


def _ticked(variable: Variable, listed: Markup, kept: Sequence[str]) -> Markup:
    """The codes of a form, of which those are ticked that a filter keeps.

    Before them is what it keeps that has no line of its own: a group of one code, or a list.
    """
    found, others = str(listed), []
    for code in kept:  # quotation marks in texts are escaped
        value = f'value="{escape(code)}"'
        if f"{value}>" in found:
            found = found.replace(f"{value}>", f"{value} checked>")
        else:
            others.append(code)
    return _kept_codes(variable, others) + Markup(found)  # noqa: S704 - it is escaped already


def _kept_codes(variable: Variable, kept: Sequence[str]) -> Markup:
    """The codes that a filter keeps of countless ones, ticked."""
    name, found = escape(variable.name), []
    for code in kept:
        ticked = f'<input type="checkbox" name="where.{name}" value="{escape(code)}" checked>'
        said = escape(spoken(variable.describe(code)))
        found.append(f"<li><label>{ticked} {said}</label></li>")
    return Markup("".join(found))  # noqa: S704 - what is not ours is escaped


def begun(text: str) -> str:
    """A text as the beginning of a sentence."""
    shown = str(spoken(text))
    return shown[:1].upper() + shown[1:]


def _in_english(text: str) -> str:
    """An attribute that says that a text is English where the page is not, and cannot say it."""
    foreign = _script_words() and not isinstance(text, (Said, Joined))
    return Markup(' lang="en"') if foreign else ""


def _error_choices(data: DataSet, share: str) -> list[tuple[str, str]]:
    """How errors may be shown; a share has no standard error."""
    return [(k, ERRORS[k]) for k in data.errors if not share or k != "standard-error"]


def _script_words() -> str:
    """The words of the script in the language of the page; nothing in English."""
    found = {str(word): spoken(word) for word in SCRIPT}
    return "" if all(word == other for word, other in found.items()) else json.dumps(found)
