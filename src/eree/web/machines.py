"""What machines look for: robots.txt, a sitemap, catalogues in DCAT, and what a page is about."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from textwrap import shorten
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape as in_xml

from eree.errors import Refusal
from eree.web.branding import Branding
from eree.web.dataset import DataSet
from eree.web.reply import PARQUET, XLSX, Reply, as_json
from eree.web.standards import interval_of
from eree.web.words import Joined, say, spoken

#: Kinds of files of an answer that catalogues name, with their titles.
FILES = {
    "csv": ("text/csv", "CSV"),
    "xlsx": (XLSX, "Excel"),
    "parquet": (PARQUET, "Parquet"),
    "json": ("application/json", "JSON"),
}
_MAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_BRACKETS = re.compile(r" ?(<\s*>|\(\s*\))")
_LINK = re.compile(r"https?://[^\s<>\"]+[^\s<>\".,;)]")
_US = "https://project-open-data.cio.gov/v1.1/schema"


class Machines:
    """What a site says of itself to machines."""

    def __init__(self, data_sets: tuple[DataSet, ...], home: str, branding: Branding) -> None:
        self._found, self._home, self._branding = data_sets, home.rstrip("/"), branding
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def robots(self) -> Reply:
        """Pages may be found; each query is one of countless, and need not be."""
        path = urlsplit(self._home).path
        lines = ["User-agent: *", f"Disallow: {path}/*?", f"Allow: {path}/static/"]
        lines.append(f"Sitemap: {self._home}/sitemap.xml")
        return Reply(200, "text/plain; charset=utf-8", ("\n".join(lines) + "\n").encode())

    def sitemap(self) -> Reply:
        """All pages that have no query, in all languages."""
        others = self._branding.languages[1:]
        made = max((data.made for data in self._found), default="")
        pages = [("/", made), ("/methods", ""), ("/api", "")]
        for data in self._found:
            pages += [(f"/d/{data.name}", data.made), (f"/d/{data.name}/about", data.made)]
        lines = ['<?xml version="1.0" encoding="UTF-8"?>']
        lines.append('<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">')
        for prefix in ("", *(f"/{code}" for code in others)):
            for page, changed in pages:
                when = f"<lastmod>{changed}</lastmod>" if changed else ""
                where = in_xml(f"{self._home}{prefix}{page}")
                lines.append(f"<url><loc>{where}</loc>{when}</url>")
        lines.append("</urlset>")
        return Reply(200, "application/xml", ("\n".join(lines) + "\n").encode())

    # --------------------------------------------------------------------------- catalogues

    def dcat_us(self) -> Reply:
        """The catalogue in the schema that US offices use (DCAT-US 1.1)."""
        return as_json(
            {
                "@context": f"{_US}/catalog.jsonld",
                "@id": f"{self._home}/data.json",
                "@type": "dcat:Catalog",
                "conformsTo": _US,
                "describedBy": f"{_US}/catalog.json",
                "dataset": [self._us(data) for data in self._found],
            }
        )

    def _us(self, data: DataSet) -> dict[str, Any]:
        publisher, mail = self._publisher(data), self._mail(data)
        if not publisher or mail is None:
            raise Refusal(
                say(
                    "the catalogue for US offices names a publisher and an e-mail address for every"
                    " data set, and %(title)s has none; say them in [about] of plans, or as name"
                    " and contact in site.toml",
                    title=data.title,
                )
            )
        beside = _BRACKETS.sub("", mail.string.replace(mail[0], ""))
        found = {
            "@type": "dcat:Dataset",
            "identifier": self._address(data),
            "title": str(data.title),
            "description": str(self._described(data)),
            "keyword": list(map(str, _keywords(data))),
            "modified": data.made,
            "issued": data.made,
            "publisher": {"@type": "org:Organization", "name": publisher},
            "contactPoint": {
                "@type": "vcard:Contact",
                "fn": beside.strip(" ,;:") or publisher,
                "hasEmail": f"mailto:{mail[0]}",
            },
            "accessLevel": "public",
            "landingPage": self._address(data),
            "describedBy": f"{self._home}/openapi.json",
            "describedByType": "application/json",
            "license": self._licence(data),
            "temporal": "/".join(interval_of(data.release.period) or ()),
            "language": ["en"],
            "distribution": [
                {
                    "@type": "dcat:Distribution",
                    "title": f"{word}, the first table",
                    "downloadURL": f"{self._address(data)}.{ending}",
                    "mediaType": kind,
                }
                for ending, (kind, word) in FILES.items()
            ],
        }
        return {name: value for name, value in found.items() if value}

    def dcat_ap(self) -> Reply:
        """The catalogue in the application profile of European portals (DCAT-AP), as JSON-LD."""
        name = self._branding.name or urlsplit(self._home).netloc
        made = max((data.made for data in self._found), default="")
        found = {
            "@context": _CONTEXT,
            "@id": f"{self._home}/catalogue.jsonld",
            "@type": "dcat:Catalog",
            "dct:title": _in_english(name),
            "dct:description": _in_english(f"Data sets of {name} with noise that protects people."),
            "dct:publisher": _agent(name),
            "foaf:homepage": {"@id": f"{self._home}/"},
            "dct:modified": _date(made),
            "dct:language": {"@id": f"{_EU}language/ENG"},
            "dcat:dataset": [self._ap(data) for data in self._found],
        }
        reply = as_json({k: v for k, v in found.items() if v})
        return replace(reply, kind="application/ld+json")

    def _ap(self, data: DataSet) -> dict[str, Any]:
        mail = self._mail(data)
        publisher, licence = self._publisher(data), self._licence(data)
        when = interval_of(data.release.period)
        found: dict[str, Any] = {
            "@id": self._address(data),
            "@type": "dcat:Dataset",
            "dct:title": _in_english(data.title),
            "dct:description": _in_english(self._described(data)),
            "dct:identifier": data.name,
            "dcat:keyword": [_in_english(word) for word in _keywords(data)],
            "dcat:landingPage": {"@id": self._address(data)},
            "dct:issued": _date(data.made),
            "dct:accessRights": {"@id": f"{_EU}access-right/PUBLIC"},
            "dcat:theme": {"@id": f"{_EU}data-theme/ECON"},
            "dct:publisher": _agent(publisher) if publisher else None,
            "dcat:contactPoint": {
                "@type": "vcard:Kind",
                "vcard:fn": publisher or data.name,
                "vcard:hasEmail": {"@id": f"mailto:{mail[0]}"},
            }
            if mail
            else None,
            "dct:temporal": {
                "@type": "dct:PeriodOfTime",
                "dcat:startDate": _date(when[0]),
                "dcat:endDate": _date(when[1]),
            }
            if when
            else None,
            "dcat:distribution": [
                {
                    "@id": f"{self._address(data)}.{ending}",
                    "@type": "dcat:Distribution",
                    "dct:title": _in_english(f"{word}, the first table"),
                    "dcat:accessURL": {"@id": self._address(data)},
                    "dcat:downloadURL": {"@id": f"{self._address(data)}.{ending}"},
                    "dcat:mediaType": {"@id": f"{_IANA}{kind}"},
                    **({"dct:license": {"@id": licence}} if licence else {}),
                }
                for ending, (kind, word) in FILES.items()
            ],
        }
        return {k: v for k, v in found.items() if v}

    # -------------------------------------------------------------------------- parts of pages

    def head(self, here: str, prefix: str, given: Mapping[str, Any]) -> str:
        """What the head of a page says: its one address, a card for links, and its data set."""
        data, about = given.get("data"), given.get("about")
        site = self._branding.name or "eree"
        title = site if about is None else spoken(about.caption)
        said, known = spoken(say("Data sets of %(site)s, with their errors.", site=site)), ""
        if data is not None:
            said, known = self._said_of(data, prefix)
        said = shorten(said, 300, placeholder="…")
        address = f"{self._home}{prefix}{here}"
        cards = {
            "og:type": "website",
            "og:site_name": site,
            "og:title": title,
            "og:description": said,
            "og:url": address,
        }
        lines = [f'<link rel="canonical" href="{escape(address)}">']
        lines += [f'<meta property="{n}" content="{escape(text)}">' for n, text in cards.items()]
        lines.append(f'<meta name="description" content="{escape(said)}">')
        if data is not None and given.get("tab") in ("", "about"):
            lines.append(f'<script type="application/ld+json">{known}</script>')
        return "\n".join(lines) + "\n"

    def _said_of(self, data: DataSet, prefix: str) -> tuple[str, str]:
        """What is said of a data set on all of its pages, and as schema.org has it.

        Both are in the language of the pages whose addresses begin with the prefix.
        """
        if (data.name, prefix) not in self._known:
            text = json.dumps(self.schema_org(data), ensure_ascii=False)
            for sign, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
                text = text.replace(sign, code)
            self._known[data.name, prefix] = spoken(self._described(data)), text
        return self._known[data.name, prefix]

    def schema_org(self, data: DataSet) -> dict[str, Any]:
        """A data set as schema.org has them."""
        publisher = self._publisher(data)
        found = {
            "@context": "https://schema.org/",
            "@type": "Dataset",
            "@id": self._address(data),
            "url": self._address(data),
            "identifier": data.name,
            "name": spoken(data.title),
            "description": spoken(self._described(data)),
            "keywords": [spoken(word) for word in _keywords(data)],
            "version": data.release.identity,
            "dateModified": data.made,
            "temporalCoverage": "/".join(interval_of(data.release.period) or ()),
            "license": self._licence(data),
            "isAccessibleForFree": True,
            "creator": {"@type": "Organization", "name": publisher} if publisher else None,
            "variableMeasured": [spoken(label) for label in data.measures.values()],
            "measurementTechnique": spoken(say("noise under %(promise)s", promise=data.promise)),
            "distribution": [
                {
                    "@type": "DataDownload",
                    "encodingFormat": kind,
                    "contentUrl": f"{self._address(data)}.{ending}",
                }
                for ending, (kind, _) in FILES.items()
            ],
        }
        return {name: value for name, value in found.items() if value}

    def _address(self, data: DataSet) -> str:
        return f"{self._home}/d/{data.name}"

    def _said(self, data: DataSet, name: str) -> str:
        """What a release says of itself, else what the site does."""
        return data.release.described.get(name) or str(getattr(self._branding, name, ""))

    def _mail(self, data: DataSet) -> re.Match[str] | None:
        """The first e-mail address of whom to ask, with what stands around it."""
        contacts = (data.release.described.get("contact", ""), self._branding.contact)
        return next(filter(None, map(_MAIL.search, contacts)), None)

    def _publisher(self, data: DataSet) -> str:
        return data.release.described.get("publisher") or self._branding.name

    def _licence(self, data: DataSet) -> str:
        """The address of the licence; empty where only words are known."""
        found = _LINK.search(self._said(data, "licence"))
        return found[0] if found else ""

    def _described(self, data: DataSet) -> str:
        told = (data.series, data.note, data.release.described.get("note", ""))
        sides: str = Joined(", ", [variable.label for variable in data.variables])
        own = say(
            "%(title)s: %(universe)s, by %(sides)s, with noise under %(promise)s.",
            title=data.title,
            universe=data.universe,
            sides=sides or say("one figure"),
            promise=data.promise,
        )
        ended = [f"{one}." if one[-1] not in ".!?" else one for one in told if one]
        return Joined(" ", [own, *ended])


def _keywords(data: DataSet) -> list[str]:
    words: list[str] = [say("employment"), say("jobs"), say("differential privacy")]
    words += [variable.label for variable in data.variables]
    return list(dict.fromkeys(words))


_EU = "http://publications.europa.eu/resource/authority/"
_IANA = "https://www.iana.org/assignments/media-types/"
_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def _in_english(text: str) -> dict[str, str]:
    return {"@value": str(text), "@language": "en"}


def _date(day: str) -> dict[str, str] | None:
    return {"@value": day, "@type": "xsd:date"} if day else None


def _agent(name: str) -> dict[str, str]:
    return {"@type": "foaf:Agent", "foaf:name": name}
