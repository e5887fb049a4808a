"""Pages in other languages: nothing is left in English, and every link stays in the language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

import eree
import wording
from eree import verification
from eree.policy.schema import Counted
from eree.web import words
from eree.web.app import application
from eree.web.branding import Branding
from eree.web.catalogue import Catalogue
from eree.web.render import pages
from eree.web.render.maps import maps_of
from eree.web.sentences import told
from eree.web.words import Joined, language, languages, say, speaking, spoken
from served import HOME

#: Parts of a page that are in English in every language, or in none.
SKIPPED = ("code", "pre", "script", "style")
#: Names that are the same in all languages: parameters, kinds of files, units, letters of flags.
NAMES = "alpha epsilon delta eree CSV JSON Excel Parquet stat least squares e bn m k a n o u"


#: Names of settings and of their values, which are written in addresses as they are.
SETTINGS = (
    "where name group measure share show confidence sort page across subtotals exact find"
    " margin interval relative standard error code jobs yes workplaces place as about json csv xlsx"
    " heat bars grouped panels parquet rows cols all"
)
#: Words of English that no sentence in Spanish has.
ENGLISH = "the which that their are was were with from there this these of and worker or jobs"


def views(catalogue: Catalogue) -> list[str]:
    """A page of every kind, with and without figures."""
    found = ["/", "/?find=jobs", "/methods", "/api", "/nothing"]
    for data in catalogue.data_sets:
        one, *more = [v.name for v in data.variables if len(v.codes) <= 60]
        both = f"rows={one}" + (f"&cols={more[0]}" if more else "")
        nested = "&".join(f"rows={name}" for name in [one, *more][:2]) + "&subtotals=yes"
        damage = f"rows={one}&damage={data.variable(one).codes[0]}%205000&show=margin"
        found += [
            f"/d/{data.name}{path}"
            for path in (
                *("", "/chart", "/ranking", "/threshold", "/about", f"/codes/{one}"),
                *(f"?{both}&show=interval", f"/chart?{both}&show=margin", f"?{nested}&show=margin"),
                *("?show=relative", f"?rows={one}&exact=yes&show=margin"),
                *(f"/threshold?{damage}", "/threshold?damage=0&show=margin"),
                f"/codes/{one}?find=1",
            )
        ]
        if "workplaces" in data.measures:
            found.append(f"/d/{data.name}?rows={one}&measure=workplaces&show=margin")
        if maps_of(data, catalogue.maps):
            found.append(f"/d/{data.name}/map")
    return found


def refused(catalogue: Catalogue) -> list[str]:
    """Addresses that are refused, each for another reason."""
    data = next(data for data in catalogue.data_sets if data.name.startswith("jobs"))
    cube = next(data for data in catalogue.data_sets if data.kind == "cube")
    five = "&".join(f"rows={v.name}" for v in cube.variables[:5])
    damage = "/threshold?rows=sector&damage="
    found = [
        *("?rows=sectr", "?where.sector=1", "?where.place=1800", "?where.sector=~aaaaaaaaaaaaaaaa"),
        *("?rows=sector&group.sector=no", "?rows=ownership&group.ownership=no", "?page=01"),
        *("?page=0", "?page=9", "?show=no", "?show=standard-error", "?confidence=1", "?sort=up"),
        *("?share=half", "?measure=money", "?exact=no", "?rows=place&rows=place", "?rows=%FF"),
        *("?rows=place&group.sector=supersector", "?sort=jobs&sort=code", "?where.sector=11" * 2),
        *("?rows=sector&group.sector=supersector&group.sector=sector", "?rows=a%00b", "/nothing"),
        *("?where.sector=11&where.sector=11", "?zz=1", "?rows", "/chart?as=pie", "/sizes/no.pdf"),
        *("/ranking.pdf", "/codes/nothing", "/codes/sector?tab=x"),
        "/codes/sector?find=" + "a+" * 13,
        *("/build?x=1", "/build?tab=x", "/about?x=1", "/ranking?rows=no"),
        *("/ranking?rows=sector&one=11&two=11", "/ranking?rows=sector&one=11&two=nowhere"),
        *("/ranking?rows=sector&rows=place&one=11&two=72", f"{damage}11", f"{damage}zz%205"),
        *(f"{damage}11%205%0A11%206", f"{damage}11%20x", f"{damage}11%201&per_job=0"),
        *("/threshold?damage=1&show=margin", f"{damage}{'1' * 6_001}", "?rows=" + "x" * 9_000),
        *("/map?rows=x", "/lists/x"),
    ]
    there = [f"/d/{data.name}{path}" for path in found]
    others = ("/map", f"?{five}", "?share=rows&show=standard-error")
    there += [f"/d/{cube.name}{path}" for path in others]
    return [*there, "/d/nothing", "/methods?x=1", "/?x=1", "/static/no"]


class Outside(HTMLParser):
    """The words of a page that stand outside of marks, and of what says that it is English."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[bool] = []
        self.depth, self.words = 0, list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in ("meta", "link", "input", "img", "br"):
            english = tag in SKIPPED or given.get("lang") == "en" or given.get("translate") == "no"
            self.open.append(tag != "html" and (english or any(self.open)))
        for name in ("aria-label", "title", "placeholder", "alt"):
            self._read(given.get(name) or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name in ("aria-label", "title", "placeholder", "alt"):
            self._read(dict(attrs).get(name) or "")

    def handle_endtag(self, _tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self.open):
            self._read(data)

    def _read(self, text: str) -> None:
        for part in re.findall(r"⟦|⟧|[^\W\d_]+", re.sub(r"https?://[^\s⟧]+", "", text)):
            if part in "⟦⟧":
                self.depth += 1 if part == "⟦" else -1
                assert self.depth >= 0
            elif not self.depth:
                self.words.append(part)


@pytest.fixture
def marked(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Pages in a language of marks around the English texts, but not around what they name."""
    part = re.compile(r"%\(\w+\)s")
    known = {key: f"⟦{part.sub(lambda found: f'⟧{found[0]}⟦', key)}⟧" for key in wording.texts()}

    def other(code: str) -> Mapping[str, str]:
        return known if code == "xx" else {}

    monkeypatch.setattr(words, "language", other)
    monkeypatch.setattr(pages, "language", other)
    monkeypatch.setattr(pages, "languages", lambda: {"en": "English", "xx": "⟦X⟧"})
    app = application(catalogue, HOME, branding=Branding(languages=("en", "xx")))
    with TestClient(app, base_url=HOME, follow_redirects=False) as found:
        yield found


def data_words(catalogue: Catalogue) -> set[str]:
    """Words that come from releases and maps, and are in no language of ours."""
    found = [NAMES]
    for data in catalogue.data_sets:
        found += [data.name, *data.profiles, data.release.identity, data.release.data_set]
        for table in data.release.record["tables"]:
            found += [table["name"], table["mechanism"], *table["by"], *table.get("parameters", ())]
        for v in data.variables:
            groups = [group for level in v.levels.values() for group in level]
            found += [v.name, v.label, *v.codes, *v.labels, *v.levels]
            found += [text for group in groups for text in (group.code, group.label)]
        if "kind" not in data.release.record:
            found += [a.label for a in data.release.schema.attributes.values()]
        else:
            found.append(str(data.release.record["covers"]))
    found += [shapes.file for shapes in catalogue.maps.values()]
    return {part.casefold() for text in found for part in re.findall(r"[^\W\d_]+", text)}


def test_no_visible_text_of_a_page_is_left_in_english(
    marked: TestClient, catalogue: Catalogue
) -> None:
    known = data_words(catalogue)
    assert not known & {"total", "rows", "interval", "figures", "shown"}  # it would not notice
    left: dict[str, str] = {}
    for address in views(catalogue):
        text = marked.get(f"/xx{address}").text
        assert '<html lang="xx">' in text, address
        assert 'lang="en"' not in text.replace('hreflang="en"', "").replace('<a lang="en"', "")
        left |= {w: address for w in Outside(text).words if w.casefold() not in known}
    assert not left, sorted(left.items())


def test_every_refusal_is_in_the_language_of_the_page(
    marked: TestClient, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, reasons = data_words(catalogue) | {*SETTINGS.split()}, set[str]()
    shown = re.compile(r'class="(?:lead|warning)[^>]*>.*?</p>|class="slips".*?</ul>')

    def reason(reply: Any) -> str:
        assert reply.status_code >= 400 and '<html lang="xx">' in reply.text, reply.url
        return re.sub("^.*<main[^>]*>|</main>.*$", "", reply.text, flags=re.DOTALL)

    def check(text: str, *asked: str) -> None:
        words = {
            part for one in asked for part in re.findall(r"[^\W\d_]+", unquote(one).casefold())
        }
        left = {word.casefold() for word in Outside(text).words} - known - words
        assert not left, (asked, left)
        reasons.update(shown.findall(text))

    for address in refused(catalogue):
        check(reason(marked.get(f"/xx{address}")), address)
    data = next(data for data in catalogue.data_sets if data.name.startswith("jobs"))
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in ("codes=zz", "codes=zz9%0Azz8", "codes=" + "zz9%0A" * 9, "codes=%FF%00", "codes="):
        reply = marked.post(f"/xx/d/{data.name}/lists/sector", content=body, headers=form)
        check(reason(reply), body)
    for path, body in ((f"/d/{data.name}/lists/sector", b"a" * 1_000_001), ("/d/no/lists/a", b"")):
        check(reason(marked.post(f"/xx{path}", content=body, headers=form)), path)
    for path in ("/methods", f"/d/{data.name}/lists/sector"):
        check(reason(marked.put(f"/xx{path}")), path)

    monkeypatch.setattr("eree.web.answer.MOST_CELLS", 10)
    check(reason(marked.get(f"/xx/d/{data.name}?rows=sector&cols=ownership&show=interval")), "")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("eree.web.site.answer", broken)
    check(reason(marked.get(f"/xx/d/{data.name}?rows=ownership&show=interval")), "")
    assert len(reasons) > 45


def test_spanish_pages_are_in_spanish(spanish: TestClient, catalogue: Catalogue) -> None:
    english = {*ENGLISH.split()} - data_words(catalogue)
    assert len(english) > 10  # names of industries have some
    for address in [*views(catalogue), *refused(catalogue)]:
        reply = spanish.get(f"/es{address}")
        if "html" in reply.headers["content-type"]:
            left = {word.casefold() for word in Outside(reply.text).words} & english
            assert not left, (address, left)


def test_every_statement_of_a_guarantee_can_be_said_in_spanish() -> None:
    relations = (eree.Strong("0.1"), eree.Weak("0.1", ("sex",)), eree.EDGE, eree.NODE)
    counted = (Counted(1), Counted(3), Counted(1, chosen=True))
    found = [
        statement.words
        for relation in (*relations, eree.RECORD, eree.ESTABLISHMENT)
        for price in ((1, 0), (2, "1e-6"), (5_000, 0))
        for jobs in counted
        for statement in eree.Guarantee(relation, *price).statements(jobs=jobs)
    ]
    assert len({*found}) > 100
    numbers = re.compile(r"\d[\d.,e+]*\d")
    for said in found:
        with speaking("es"):
            text = str(spoken(told(said)))
        assert not {*text.casefold().split()} & {*ENGLISH.split()}, text
        assert numbers.findall(text) == numbers.findall(said)
        assert told(said) == said  # files keep the English one


def test_checks_of_one_thing_can_be_said_in_spanish() -> None:
    """Every sentence of one file, table or mechanism that verifying may say."""
    code = "".join(path.read_text("utf-8") for path in Path(verification.__path__[0]).glob("*.py"))
    found = {*re.findall(r'"(1 [a-z][^"]*)"', code)}
    assert len(found) >= 3
    for said in found:
        with speaking("es"):
            assert str(spoken(told(said))) != said


def test_names_stay_as_they_are() -> None:
    with speaking("es"):
        said = str(spoken(told("what is protected of the data set jobs is declared")))
    assert "jobs" in said and not said.startswith("what")


@pytest.mark.parametrize(
    "text",
    [
        "x" + " times that share" * 1_500,
        "on its author's word: " + " is said to be made of table" * 900 + " of release" * 900,
    ],
)
def test_a_long_sentence_is_not_looked_for(text: str) -> None:
    assert type(told(text)) is str  # nobody waits for it, and no depth of calls is exceeded
    assert str(spoken(told(text[:990]))) is not None


def test_what_is_not_known_stays_as_it_is() -> None:
    for text in ("a sentence of another version: of the record", "place in county", ""):
        assert told(text) == text and type(told(text)) is str


@pytest.mark.parametrize("code", [code for code in languages() if code != "en"])
def test_a_language_has_every_text_and_no_other_with_the_same_parts(code: str) -> None:
    found, parts = language(code), re.compile(r"%\(\w+\)s|</?\w+|href=\"[^\"]*\"")
    assert set(found) == wording.texts()
    for key, text in found.items():
        assert text.strip(), key
        assert sorted(parts.findall(key)) == sorted(parts.findall(text)), key
        assert "%" not in parts.sub("", text), key
        if "<" not in key:  # it may stand in an attribute, as it is
            assert not set(text) & set('"<>&'), key
    assert len(set(found.values())) > 0.95 * len(found)


@pytest.fixture(scope="module")
def spanish(catalogue: Catalogue) -> Iterator[TestClient]:
    app = application(catalogue, HOME, branding=Branding(languages=("en", "es")))
    with TestClient(app, base_url=HOME, follow_redirects=False) as found:
        yield found


def test_pages_in_spanish_lead_to_pages_in_spanish_and_to_their_english_twins(
    spanish: TestClient, catalogue: Catalogue
) -> None:
    for address in views(catalogue):
        text = spanish.get(f"/es{address}").text
        assert '<html lang="es">' in text
        links = re.findall(r'<(a|link|form)( [^>]*?)?(?:href|action)="(/[^"]*)"', text)
        own = [link for _, before, link in links if "hreflang" not in (before or "")]
        assert own and all(re.match(r"/es(/|$)|/static/|/es\?", link) for link in own), address
        twins = {link for _, before, link in links if 'hreflang="en"' in (before or "")}
        assert len(twins) == 1, address
        (twin,) = (link.replace("&amp;", "&") for link in twins)
        alternate = re.findall(r'<link rel="alternate" hreflang="(\w+)" href="([^"]*)"', text)
        named = [(code, link.replace("&amp;", "&")) for code, link in alternate]
        assert named == [("en", f"{HOME}{twin}"), ("es", f"{HOME}/es{twin}")]  # whole, and itself
        english = spanish.get(twin)
        assert '<html lang="en">' in english.text and 'hreflang="es" href="/es/' in english.text
        if "/nothing" not in address and "damage=0" not in address:
            assert english.status_code == 200, twin
            title = re.search("<h1>(.*?)</h1>", text)
            assert title and title[1] != ""


def test_forms_in_spanish_lead_to_spanish_pages(spanish: TestClient, catalogue: Catalogue) -> None:
    name = catalogue.data_sets[0].name
    found = spanish.get(f"/es/d/{name}/build?at.place=rows&tab=")
    assert found.status_code == 303
    assert found.headers["location"].startswith(f"/es/d/{name}?rows=place")
    data = {"at.place": "rows", "tab": "threshold", "damage": "x" * 3_001}
    posted = spanish.post(f"/es/d/{name}/build", data=data)
    assert posted.headers["location"].startswith(f"/es/d/{name}/threshold?rows=place")
    whole = spanish.get(f"/es/d/{name}?rows=place&show=margin").text
    assert f'readonly value="{HOME}/es/d/{name}?rows=place&amp;show=margin"' in whole
    page = spanish.get(f"/es/d/{name}?rows=place&zz=1&show=margin")
    assert page.status_code == 400
    assert f'href="/es/d/{name}?rows=place&amp;show=margin"' in page.text


def test_plain_data_are_english_in_every_language(
    spanish: TestClient, catalogue: Catalogue
) -> None:
    name = catalogue.data_sets[0].name
    for path in (f"/d/{name}.json", f"/d/{name}/about.json", "/index.json", f"/d/{name}.csv"):
        assert spanish.get(f"/es{path}").content == spanish.get(path).content


def test_a_site_of_one_language_names_no_other(client: TestClient) -> None:
    text = client.get("/").text
    assert "hreflang" not in text
    assert client.get("/es").status_code == client.get("/es/").status_code == 404


def test_the_first_language_has_addresses_without_a_prefix(catalogue: Catalogue) -> None:
    client = TestClient(application(catalogue, HOME, branding=Branding(languages=("es", "en"))))
    assert '<html lang="es">' in client.get("/").text
    assert '<html lang="en">' in client.get("/en/").text


def test_a_text_remembers_what_it_was_made_of() -> None:
    inner: Any = say("%(low)s to %(high)s", low=1, high=say("Total"))
    text = Joined("; ", (inner, "x", say("Jobs")))
    assert text == "1 to Total; x; Jobs"
    with speaking("es"):
        assert spoken(text) == "1 a Total; x; Empleos"
        assert spoken("Jobs") == "Jobs"  # of a release, and not ours
    assert spoken(text) == text
