"""Rankings and thresholds on a page are those of the release."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from html import unescape
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import eree
from eree.survey.query import Axis
from eree.web import damages as reading
from eree.web.comparison import ranking, threshold
from eree.web.cubes import CubeSet
from eree.web.damages import called, code_of, damages, money
from eree.web.linked import LinkedTable
from eree.web.query import Query


@pytest.mark.parametrize(("name", "by"), [("jobs", "place"), ("people", "county")])
def test_areas_are_ranked_as_the_release_ranks_them(
    name: str, by: str, tables: dict[str, LinkedTable]
) -> None:
    data = tables[name]
    found = ranking(data, Query((by,), confidence="0.95"))
    want = eree.rank(data.release, name, [by], None, "0.95").rows.to_pylist()
    assert [
        (a.rank, a.best, a.worst, a.codes[0], a.cell.value, int(a.cell.low)) for a in found.areas
    ] == [(r["rank"], r["best"], r["worst"], str(r[by]), r["noisy"], r["low"]) for r in want]


def test_ranks_of_a_cube_hold_what_they_may_be(cube: CubeSet) -> None:
    found = ranking(cube, Query(("occupation",)))
    values = [area.cell.value for area in found.areas]
    assert values == sorted(values, reverse=True)
    assert all(area.best <= area.rank <= area.worst for area in found.areas)


def test_decisions_are_those_of_the_release(tables: dict[str, LinkedTable]) -> None:
    data = tables["jobs"]
    codes = data.variable("place").codes[:6]
    amounts = {code: str(10**k) for k, code in enumerate(codes)}
    text = "\n".join(f"{code} {amount}" for code, amount in amounts.items())
    found = threshold(data, Query(("place",)), "3.50", text)
    want = eree.threshold(data.release, "jobs", ["place"], amounts, "3.50", "0.9").rows.to_pylist()
    mine = [(a.codes[0], int(a.cell.low), a.decision, a.per_job) for a in found.areas]
    assert mine == [(r["place"], r["low"], r["decision"], r["per_job"]) for r in want]
    assert {a.decision for a in found.areas} >= {"above", "below"}


def test_a_threshold_is_one_for_each_job(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    query = "rows=ownership&measure=workplaces&show=margin&damage=private+100000"
    refused = client.get(f"/d/{name}/threshold.json?{query}")
    assert refused.status_code == 400 and "for each job" in refused.json()["error"]["message"]
    page = client.get(f"/d/{name}/threshold?{query}")
    jobs = client.get(f"/d/{name}/threshold?{query.replace('measure=workplaces&', '')}")
    assert page.status_code == 200 and page.text == jobs.text and "Workplaces" not in page.text
    settings = client.get("/openapi.json").json()["paths"][f"/d/{name}/threshold.json"]["get"]
    (measure,) = (one for one in settings["parameters"] if one["name"] == "measure")
    assert measure["schema"]["enum"] == ["jobs"]


def test_enter_in_the_form_shows_the_table_and_a_filter_keeps_the_damage(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    name = tables["jobs"].name
    page = client.get(f"/d/{name}/threshold?rows=place&show=margin").text
    form = page.partition('id="builder"')[2]
    assert "name=" not in form.partition("<button")[2].partition(">")[0]  # what Enter presses
    sent = f"/d/{name}/build?tab=threshold&at.place=rows&per_job=2&damage=17+5"
    for button in ("choose=place", "again=place&find=17"):
        picker = client.get(f"{sent}&{button}").headers["location"]
        text = client.get(picker).text
        assert '<input type="hidden" name="per_job" value="2">' in text
        assert '<input type="hidden" name="damage" value="17 5">' in text
        assert "per_job=2&amp;damage=17%205" in text  # of the way back


def test_groups_of_a_cube_may_have_damage(cube: CubeSet) -> None:
    group = cube.variable("occupation").levels["major"][0].code
    query = Query(("occupation",), groups={"occupation": "major"})
    (area,) = threshold(cube, query, "1", f"{group} 1000000000000").areas
    assert area.decision == "above" and area.codes == (group,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "line 1 of the damage must have 1 code and an amount"),
        ("a 1 2", "the damage in line 1 must be a number"),
        ("a 1,25", "a comma is no decimal point: write 1.25 in line 1"),
        ("a,$1.250,5", "a comma is no decimal point: write 1250.5 in line 1"),
        ("a,1,250", "line 1 may be read in several ways; put a semicolon"),
        ("b -1", "the damage in line 1 must be a number"),
        ("a 1,2500", "the damage in line 1 must be a number"),
        ("a 007", "the damage in line 1 must be a number"),
        ("a 1\nz 1", "line 2 of the damage names 'z'"),
        ("a 1\na 2", "line 2 gives an area a second damage"),
        ("a -1", "the damage in line 1 must be a number"),
        ("a 1e9", "the damage in line 1 must be a number"),
        ("a =1+1", "the damage in line 1 must be a number"),
    ],
)
def test_damage_that_cannot_be_read_is_refused(text: str, why: str) -> None:
    _, (slip,) = damages(text, [named("ab")])
    assert slip.reason.startswith(why)


def named(codes: Iterable[str], **names: str) -> dict[str, str]:
    """Areas as they may be called."""
    return {code: code for code in codes} | {name.casefold(): c for c, name in names.items()}


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("17031" + ' "' * 50_000 + " x", 1),
        (" ".join(["a"] * 100_000), 1),
        ((("17031" + ' "' * 400 + " ") * 4) + "1", 4),
    ],
)
def test_reading_a_line_looks_for_few_names(
    line: str, variables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = reading.code_of

    def counted(text: str, known: Mapping[str, str]) -> str:
        asked.append(text)
        return real(text, known)

    monkeypatch.setattr(reading, "code_of", counted)
    known = [named({"17031"}, **{"a long name of an area": "17031"})] * variables
    found, (slip,) = damages(line, known)
    assert not found and len(slip.reason) < 300
    assert len(asked) < 100 and sum(map(len, asked)) < 10_000 + 2 * len(line)


@pytest.mark.parametrize(
    "heading",
    [
        *("place\tdamage", "Area;Damage in $", "code,damage_2026", "lugar daños", "x\ty\tAmount"),
        *('"county","Total damage (USD)"', "COUNTY,TOTAL_COST", "condado;pérdidas en dólares"),
        *("place\tdamage_usd", "DAMAGE_2026_USD", "county\tdamage total", "code;Perdidas"),
        *("condado\tmonto", "place\tDamage [$]", "place;damage (2026)", "x y,value"),
    ],
)
def test_a_heading_is_no_damage(heading: str) -> None:
    found, slips = damages(f"\n{heading}\na\t5\nb\t6\n", [named("ab")])
    assert not slips and list(found) == [("a",), ("b",)]
    assert damages(heading, [named("ab")])[1]  # alone it is a slip
    assert damages(f"a 5\n{heading}", [named("ab")])[1]
    for first in (
        *("c 5", "a five", "5", "c five", "c 125k", "003 1.2M", "03 €500", "c -5", "c ?"),
        *("Costilla 125000", "Costa Mesa 125000", "99 Costilla 1250", "Amount 08024 1250"),
        *("Total damage 99", "Damage 2026", "Lossville 12.5", "Lossville", "damage, 5"),
        # figures of another unit would be read as dollars
        *("c\tDamage (thousands of $)", "c;Damage ($1000)", "c,damage in $1000", "c\tdamage, k$"),
        *("c\tThousands of dollars damage", "c;$1000 damage", "c;1000 USD cost", "c,kUSD damage"),
        *("c\tMiles de dólares: daños", "c\tdamage in millions loss", "c,in thousands,amount"),
        *("Adms $125,000 in damages", "08001 125000 loss", "Adms;125000;loss", "x\t5\tcosts"),
        *("c 125,000 cost $", "c 5 damage", "place thousand damage", "damage k"),
    ):
        assert damages(f"{first}\nb 6", [named("ab")])[1]


def test_damage_is_read_from_what_spreadsheets_paste() -> None:
    found, slips = damages("a\t1.50\r\n\n b,  2\n", [named("ab")])
    assert not slips
    assert {codes: (one.line, one.amount) for codes, one in found.items()} == {
        ("a",): (1, Fraction(3, 2)),
        ("b",): (3, Fraction(2)),
    }
    assert money("3.50") == Fraction(7, 2) and money("$1,250,000.5") == Fraction(2_500_001, 2)
    assert money("1,25") is None and money("-1") is None and money("1e3") is None


@pytest.mark.parametrize("between", [" ", "\t", ";", ",", ", ", " ; ", "  "])
@pytest.mark.parametrize(
    "amount", ["300000", "$300000", "300,000", "$300,000", "$ 300,000.00", '"$300,000"', "300,000$"]
)
def test_damage_is_read_however_it_is_written(amount: str, between: str) -> None:
    known = [named({"a", "44-45"}), named("xy")]
    text = f"a{between}x{between}{amount}\n44-45{between}y{between}{amount};"
    found, slips = damages(text, known)
    assert not slips and list(found) == [("a", "x"), ("44-45", "y")]
    assert {one.amount for one in found.values()} == {300_000}
    # 300 and 250 may be two amounts
    _, slips = damages(text.replace("000", "250"), known)
    assert len(slips) == 2 * ("," in between and amount in ("300,000", "300,000$"))


@pytest.mark.parametrize(
    "line",
    [
        *("New York\t5,000", "NY,5,000", '"NY","5,000"', '"New York, city","5,000"', "NY 5000"),
        *("new york, CITY;5,000", "New York, city 5000", "New York, city,5,000", "  ny ; $5,000"),
    ],
)
def test_an_area_is_named_by_its_code_or_its_name_quoted_or_not(line: str) -> None:
    known = {"NY": "NY", "ny": "NY", "new york, city": "NY", "new york": "NY"}
    found, slips = damages(line, [known])
    assert not slips and {codes: one.amount for codes, one in found.items()} == {("NY",): 5_000}


def test_a_name_that_two_areas_have_is_none() -> None:
    axis = Axis("place", "Place", ("1", "2", "3", "4"), ("Up", "up", "Down", "1"))
    known = called(axis)
    assert [code_of(text, known) for text in ("UP", " down ", '"3"', "1")] == ["", "3", "3", "1"]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("damage=72 3\nzz 5\n62 $3k", ("names 'zz'", "damage in line 3", "<mark>62 $3k</mark>")),
        ("damage=72 1&per_job=three", ("threshold per job must be above 0", "<mark>three</mark>")),
        ("damage=72 1&per_job=0", ("threshold per job must be above 0",)),
        ("damage=72 1" + "1" * 6_000, ("must be a number of 0 or more",)),
    ],
)
def test_a_slip_keeps_the_form_and_marks_the_line(
    own: str, said: tuple[str, ...], client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    address = f"/d/{tables['jobs'].name}/threshold"
    query = f"rows=sector&where.ownership=private&confidence=0.95&show=margin&{own}"
    reply = client.get(f"{address}?{quote(query, safe='&=')}")
    assert reply.status_code == 400 and reply.headers["cache-control"] == "public, max-age=2"
    text = unescape(reply.text)
    for words in (*said, 'role="alert"', 'aria-invalid="true"', "autofocus"):
        assert words in text, words
    for pair in own.split("&"):  # all that was entered is there
        assert pair.partition("=")[2] in text
    assert 'value="private" checked' in text and 'value="0.95" selected' in text
    refused = client.get(f"{address}.json?{quote(query, safe='&=')}")
    assert refused.status_code == 400 and said[0] in refused.json()["error"]["message"]


def test_all_slips_are_told_at_once(client: TestClient, tables: dict[str, LinkedTable]) -> None:
    data = tables["jobs"]
    there = {str(row["sector"]) for row in data.release.table("jobs").to_pylist()}
    empty = [code for code in data.variable("sector").codes if code not in there]
    lines = "zz 5\n62 1,25\n72 1" + "".join(f"\n{code} 7" for code in empty)
    query = f"rows=sector&show=margin&per_job=3,50&damage={lines}"
    text = unescape(client.get(f"/d/{data.name}/threshold?{quote(query, safe='&=')}").text)
    form = text.partition('id="slips"')[2].partition("</ul>")[0]
    assert form.count("<li>") == 3 + len(empty)
    for words in ("write 3.50.", "names 'zz'", "write 1.25 in line 2"):
        assert words in form
    assert "above 0" not in form


def test_files_of_rankings_and_thresholds_have_the_names_of_areas(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    axis = data.variable("place").axis("county")
    names = dict(zip(axis.codes, axis.labels, strict=True))
    damage = quote(f"{axis.labels[0]};300000")
    query = "rows=place&group.place=county&show=margin"
    for page in (f"ranking{{}}?{query}", f"threshold{{}}?{query}&damage={damage}"):
        address = f"/d/{data.name}/{page}"
        areas = client.get(address.format(".json")).json()["areas"]
        assert areas and all(area["place_label"] == names[area["place"]] for area in areas)
        text = client.get(address.format(".csv")).text.lstrip("\ufeff")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["place_label"] for row in rows] == [area["place_label"] for area in areas]


def test_a_threshold_has_no_control_of_digits(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    """A verdict goes by every digit, so that all of them are shown."""
    asked = f"/d/{tables['jobs'].name}/threshold?rows=sector&show=margin&damage=62%205000"
    pages = [client.get(asked.replace("&show", f"{own}&show")).text for own in ("", "&exact=yes")]
    for page in pages:
        assert "Figures are rounded" not in page and "very digit" not in page
    assert 'name="exact" value="yes"' in pages[1]  # it stays for the other pages


def test_slips_without_areas_and_without_jobs_keep_the_form_too(
    client: TestClient, tables: dict[str, LinkedTable]
) -> None:
    data = tables["jobs"]
    rows = data.release.table("jobs").to_pylist()
    there = {(str(row["place"]), str(row["sector"])) for row in rows}
    place, sector = next(
        (place, sector)
        for place in data.variable("place").codes
        for sector in data.variable("sector").codes
        if (place, sector) not in there
    )
    for query, why in (
        ("show=margin&damage=72 1", "put a variable on rows"),
        (f"rows=place&rows=sector&show=margin&damage={place} {sector} 7", "No job is in"),
    ):
        reply = client.get(f"/d/{data.name}/threshold?{quote(query, safe='&=')}")
        assert reply.status_code == 400 and why in reply.text
        assert query.partition("damage=")[2] in reply.text


def test_a_comparison_needs_areas_and_a_threshold(tables: dict[str, LinkedTable]) -> None:
    with pytest.raises(eree.Refusal, match="put a variable on rows"):
        ranking(tables["jobs"], Query())
    with pytest.raises(eree.Refusal, match="must be above 0"):
        threshold(tables["jobs"], Query(("place",)), "0", "")
    with pytest.raises(eree.Refusal, match="at most 200,000 characters"):
        threshold(tables["jobs"], Query(("place",)), "1", " " * 200_001)


def test_groups_of_a_table_may_have_damage(tables: dict[str, LinkedTable]) -> None:
    data, query = tables["jobs"], Query(("place",), groups={"place": "county"})
    codes = [group.code for group in data.variable("place").levels["county"]]
    found = threshold(data, query, "1", "\n".join(f"{code} 1" for code in codes)).areas
    truth = ranking(data, query).areas
    assert {a.codes: a.cell.value for a in found} == {a.codes: a.cell.value for a in truth}
    assert threshold(data, query, "1", "").examples() == codes[:3]


def test_decisions_of_many_areas_are_shown_page_by_page(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.site.PAGE_AREAS", 3)
    there = ranking(tables["jobs"], Query(("place",))).areas[:8]
    damage = "\n".join(f"{area.codes[0]} {10**n}" for n, area in enumerate(there))
    where = f"/d/{tables['jobs'].name}/threshold"
    asked = f"rows=place&show=margin&damage={quote(damage)}"
    shown, seen, address = list[str](), [], f"{where}?{asked}"
    while address:
        page = client.get(address).text
        rows = page.partition("<tbody>")[2].partition("</tbody>")[0]
        shown += [code for code in (area.codes[0] for area in there) if f">{code}<" in rows]
        seen.append(rows.count("<tr>"))
        counts = re.findall(r"<strong>(\d+)</strong>", page.partition("</ul>")[0])
        assert sum(map(int, counts)) == 8  # of all pages
        address = unescape((re.findall(r'rel="next" href="([^"]+)"', page) or [""])[0])
    assert seen == [3, 3, 2] and sorted(shown) == sorted(area.codes[0] for area in there)
    assert len(client.get(f"{where}.json?{asked}").json()["areas"]) == 8
    assert client.get(f"{where}.csv?{asked}").text.count("\n") == 9
    late = client.get(f"{where}?page=9&{asked}")
    assert late.status_code == 400 and "the last one is 3" in late.text
    lost = client.get(f"{where}?page=2&rows=place&show=margin&damage=~{'a' * 16}")
    assert lost.status_code == 400 and 'aria-invalid="true"' in lost.text  # the form is there


def test_pages_of_a_drawing_keep_how_it_is_drawn(
    client: TestClient, tables: dict[str, LinkedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eree.web.answer.PAGE_COLUMNS", 2)
    where = f"/d/{tables['jobs'].name}/chart?rows=ownership&cols=sector&show=margin&as=panels"
    page = client.get(where).text
    assert "across=2&amp;show=margin&amp;as=panels" in page
