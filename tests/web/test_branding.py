"""The office's own site: its name, logo, colours, and names of areas, from one file."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import eree
from eree.web.app import application
from eree.web.branding import CONTRAST, Branding, contrast, palettes
from eree.web.catalogue import Catalogue
from eree.web.server import QueryTool
from served import HOME
from uses import eree_command

LOGO = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg>'
SITE = """
name = "Office of <Job> Statistics"
logo = "logo.svg"
contact = "jobs@example.org"
licence = "CC BY 4.0"
footer = "A service of the state."
languages = ["en", "es"]
[colours]
accent = "#7a1f3d"
accent_dark = "#ffb3c8"
[names]
place = "places.csv"
county = "counties.csv"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "logo.svg").write_bytes(LOGO)
    (tmp_path / "places.csv").write_text("place,name\n1709077,Saint-Élan\n", encoding="utf-8")
    (tmp_path / "counties.csv").write_text("code,name\n17001,Adams <i>\n", encoding="utf-8-sig")
    (tmp_path / "site.toml").write_text(SITE, encoding="utf-8")
    return tmp_path


def test_pages_carry_what_the_office_says(home: Path, catalogue: Catalogue) -> None:
    branding = Branding.read(home / "site.toml")
    client = TestClient(application(catalogue, HOME, branding=branding), base_url=HOME)
    for address in ("/", "/methods", f"/es/d/{catalogue.data_sets[0].name}", "/nothing"):
        page = client.get(address).text
        assert "Office of &lt;Job&gt; Statistics</title>" in page and "<Job>" not in page
        assert '<a href="mailto:jobs@example.org">' in page
        assert "CC BY 4.0" in page and "A service of the state." in page
        (logo,) = re.findall('<img src="(/static/logo.svg[^"]*)" alt=""', page)
    found = client.get(logo)
    assert (found.content, found.headers["content-type"]) == (LOGO, "image/svg+xml")
    assert found.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    style = client.get("/static/style.css").text
    assert style.rstrip().endswith(
        ":root { --accent: #7a1f3d; }\n@media screen and (prefers-color-scheme: dark)"
        " { :root { --accent: #ffb3c8; } }"
    )


@pytest.fixture
def named(releases: list[Path], maps: list[str], home: Path) -> Catalogue:
    names = Branding.read(home / "site.toml").names
    known = Catalogue.open(releases[:1]).data_sets[0].variable("place").codes[0]
    names = dict(names) | {"place": {known: "Saint-Élan"}}
    return Catalogue.open(releases, maps=maps, names=names)


def test_areas_have_names_in_tables_rankings_filters_and_maps(named: Catalogue) -> None:
    data = next(d for d in named.data_sets if d.name.startswith("jobs"))
    code = data.variable("place").codes[0]
    client = TestClient(application(named, HOME), base_url=HOME)
    for path in ("?rows=place", "/chart?rows=place", "/ranking?rows=place", "/map?rows=place"):
        assert "Saint-Élan" in client.get(f"/d/{data.name}{path}&show=margin").text, path
    assert "Saint-Élan" in client.get(f"/d/{data.name}/codes/place").text
    kept = client.get(f"/d/{data.name}?rows=sector&where.place={code}&show=margin").text
    assert "Saint-Élan" in kept
    level = client.get(f"/d/{data.name}?rows=place&group.place=county&show=margin").text
    assert "Adams &lt;i&gt;" in level
    people = next(d for d in named.data_sets if d.name.startswith("people"))
    assert "Adams &lt;i&gt;" in client.get(f"/d/{people.name}?rows=county&show=margin").text


def test_a_map_names_areas_that_have_no_other_name(
    releases: list[Path], maps: list[str], catalogue: Catalogue
) -> None:
    """And labels that a release has stay as they are."""
    plain = Catalogue.open(releases[:1])
    for one, other in zip(plain.data_sets, catalogue.data_sets, strict=False):
        for before, after in zip(one.variables, other.variables, strict=True):
            titles = catalogue.maps[before.name].titles if before.name in catalogue.maps else {}
            for code, label, name in zip(before.codes, before.labels, after.labels, strict=True):
                assert name == (titles.get(code, label) if label == code else label)


@pytest.mark.parametrize("code", ["29-1141", "29-0000"])
def test_a_cube_takes_names_as_well(releases: list[Path], code: str) -> None:
    occupations = next(
        v for v in Catalogue.open(releases[1:]).data_sets[0].variables if v.name == "occupation"
    )
    level = "major" if code.endswith("0000") else None
    axis = occupations.axis(level)
    names = {level or "occupation": {axis.codes[0]: "Renamed"}}
    (cube,) = Catalogue.open(releases[1:], names=names).data_sets
    client = TestClient(application(Catalogue((cube,)), HOME), base_url=HOME)
    shown = f"&group.occupation={level}" if level else ""
    page = client.get(f"/d/{cube.name}?rows=occupation{shown}&show=margin").text
    assert "Renamed" in page


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (('name = "', 'nam = "'), "nam: is not a setting that eree knows; did you mean name?"),
        (("#7a1f3d", "#7a1f3"), "colours.accent: must be a colour such as '#1f5f74'"),
        (("#7a1f3d", "#d98cab"), "colours.accent: has a contrast of 2."),
        (("#ffb3c8", "#7a1f3d"), "colours.accent_dark: has a contrast of 1."),
        (('"es"', '"xx"'), "languages: has 'xx', but pages are in en, es"),
        (('"es"', '"en"'), "languages: names a language twice"),
        (("logo.svg", "logo.gif"), "logo: must be an SVG or a PNG file"),
        (("logo.svg", "none.svg"), "logo: cannot be read"),
        (("places.csv", "none.csv"), "names.place: cannot be read as a CSV file"),
        (("CC BY", "CC\\tBY"), "licence: must be a text in quotes"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(
    home: Path, changed: tuple[str, str], words: str
) -> None:
    (home / "site.toml").write_text(SITE.replace(*changed), encoding="utf-8")
    with pytest.raises(eree.Faulty) as refused:
        Branding.read(home / "site.toml")
    assert any(words in str(fault) for fault in refused.value.faults), refused.value.faults


@pytest.mark.parametrize(
    "content",
    [
        b"<svg><script>alert(1)</script></svg>",
        b'<svg onload="x()"/>',
        b'<svg><a href="https://example.org"/></svg>',
        b'<svg><image href="data:image/png;base64,x"/></svg>',
        b"<svg><style>@import url(https://example.org/x.css)</style></svg>",
        b'<!DOCTYPE svg [<!ENTITY x "y">]><svg/>',
        b"<html></html>",
        b"<svg",
        '<?xml version="1.0" encoding="utf-16"?><svg xmlns="http://www.w3.org/2000/svg"'
        ' onload="alert(1)"/>'.encode("utf-16"),
        b'<?xml version="1.0" encoding="utf-7"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        b'<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:script>x</s:script></s:svg>',
        b"<svg></svg>",  # of no namespace, which no browser shows
        b'<svg xmlns="http://www.w3.org/2000/svg"><g></svg>',
        b"<svg>" + b" " * 200_001,
    ],
)
def test_a_logo_that_could_do_more_than_be_seen_is_refused(home: Path, content: bytes) -> None:
    (home / "logo.svg").write_bytes(content)
    with pytest.raises(eree.Faulty, match="logo"):
        Branding.read(home / "site.toml")


@pytest.mark.parametrize(
    ("inside", "fit"),
    [
        ('<g style="fill:#123"><path d="M0 0h9" fill="url(#a)"/></g>', True),
        (
            """<!-- of 2026 --><defs><linearGradient id="a"/></defs><rect fill="url( '#a')"/>""",
            True,
        ),
        ('<x:meta http-equiv="refresh" content="0;url=https://example.org"/>', False),
        ('<x:object data="https://example.org"/>', False),
        ('<x:form action="https://example.org"><x:button/></x:form>', False),
        ('<x:input type="password"/>', False),
        ('<path style="fill:u\\72l(https://example.org)"/>', False),
        ("""<path style="fill:image-set('https://example.org')"/>""", False),
        ('<path fill="url( https://example.org)"/>', False),
        ("""<path fill="url('//example.org#a')"/>""", False),
        ('<feImage><animate attributeName="href" to="https://example.org"/></feImage>', False),
        ('<path><set attributeName="href" to="#a"/></path>', False),
        ('<pattern y:href="https://example.org"/>', False),
        ('<linearGradient id="b" y:href="#a"/>', True),
        ('<g xml:base="//example.org/"><path fill="url(#a)"/></g>', False),
        ("""<path style="fill:image('//example.org')"/>""", False),
        ("<title>encoding='x'</title>", True),
        ("<handler/>", False),
        ('<path onclick="x()"/>', False),
        ("<?xml-stylesheet href='https://example.org'?>", False),
    ],
)
def test_a_logo_is_made_of_shapes_alone(home: Path, inside: str, fit: bool) -> None:
    spaces = 'xmlns:x="http://www.w3.org/1999/xhtml" xmlns:y="http://www.w3.org/1999/xlink"'
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" {spaces}>{inside}</svg>'
    (home / "logo.svg").write_text(picture, encoding="utf-8")
    with nullcontext() if fit else pytest.raises(eree.Faulty, match="shapes alone"):
        assert Branding.read(home / "site.toml").logo


def test_a_pipe_is_no_file_of_names(home: Path) -> None:
    (home / "places.csv").unlink()
    os.mkfifo(home / "places.csv")  # which nobody writes to
    with pytest.raises(eree.Faulty, match=r"names\.place"):
        Branding.read(home / "site.toml")


@pytest.mark.parametrize(
    "text", ["c,n\n1\n", "c,n\n1,a\n1,b\n", "c,n\n1,a\u202eb\n", "c,n\n,a\n", "c,n\n1, \n"]
)
def test_names_that_cannot_be_are_refused(home: Path, text: str) -> None:
    (home / "places.csv").write_text(text, encoding="utf-8")
    with pytest.raises(eree.Faulty, match=r"names\.place"):
        Branding.read(home / "site.toml")


def test_files_of_names_say_at_the_start_what_they_fit(releases: list[Path], home: Path) -> None:
    (home / "places.csv").write_text("code,name\n0,Nowhere\n", encoding="utf-8")
    tool = QueryTool(releases, port=0, site=home / "site.toml")
    tool.run(tool.stop)
    (line,) = (one for one in tool.said()["lines"] if one.startswith("names of place"))
    assert re.fullmatch(
        r"names of place: 0 of \d+ codes have one; names without a code here: 1", line
    )


def test_names_of_what_no_data_set_has_are_refused(releases: list[Path], home: Path) -> None:
    (home / "site.toml").write_text('[names]\nplaec = "places.csv"\n', encoding="utf-8")
    asked = ("serve", releases[0], "--port", "0", "--site", home / "site.toml")
    status, _, said = eree_command(*asked)
    assert status == 2
    assert "has a variable or a level 'plaec' to name; did you mean place?" in said


@given(st.from_regex("^#[0-9a-f]{6}$", fullmatch=True))
def test_contrast_is_symmetric_and_between_1_and_21(colour: str) -> None:
    assert contrast(colour, colour) == 1
    assert 1 <= contrast(colour, "#ffffff") == contrast("#ffffff", colour) <= 21
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # as WCAG's examples


def test_our_own_colours_keep_the_rule() -> None:
    for palette in palettes():
        for other in ("paper", "sheet", "tint", "faint", "accent-ink"):
            assert contrast(palette["accent"], palette[other]) >= CONTRAST


def test_the_first_page_finds_data_sets_by_words(client: TestClient, catalogue: Catalogue) -> None:
    def listed(find: str) -> set[str]:
        return set(re.findall(r'<h[23]><a href="/d/([^"]+)"', client.get(f"/?find={find}").text))

    by_county = {d.name for d in catalogue.data_sets if {"county"} & {v.name for v in d.variables}}
    assert by_county < listed("county") | by_county and by_county <= listed("COUNTY")
    assert listed("county sex") == {
        d.name for d in catalogue.data_sets if d.name.startswith("people")
    }
    assert listed("nothinghasthis") == set()
    assert "0 of 7 data sets have these words." in client.get("/?find=nothinghasthis").text
    assert listed("") == {d.name for d in catalogue.data_sets}
    assert client.get("/?find=a&find=b").status_code == client.get("/?x=1").status_code == 400
    assert client.get("/?find=" + "a+" * 13).status_code == 400
    page = client.get('/?find="><script>').text
    assert "<script>" not in page.split("<main")[1]
