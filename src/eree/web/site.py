"""The pages and files of the query tool, as functions of an address: no framework, no state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from eree.errors import Refusal
from eree.web.address import (
    as_asked,
    described_by,
    query_of,
    refuse_settings,
    with_own_settings,
)
from eree.web.answer import answer, flags_on, page_of, pages_of
from eree.web.catalogue import Missing
from eree.web.codelists import KEPT_SECONDS, codes_in, fields_of
from eree.web.comparison import (
    DEFAULT_PER_JOB,
    Slips,
    Threshold,
    pair,
    ranking,
    threshold,
)
from eree.web.damages import Slip
from eree.web.dataset import DataSet, Variable
from eree.web.export import (
    EXPORTS,
    MOST_ADDRESS,
    file_name,
    plain_name,
    profile_file,
)
from eree.web.figures import JOBS
from eree.web.forms import damage_of, shortened
from eree.web.house import House
from eree.web.lists import no_such_file
from eree.web.methods import protected_words, step_words
from eree.web.notes import by_period, certified, described
from eree.web.query import EXTRAS, TABS, WHERE, YES, Query, quoted, read, readable, sent, written
from eree.web.refusals import NotKnown, reason_of
from eree.web.render.charts import CHARTS, drawing
from eree.web.render.layout import Layout
from eree.web.render.lines import ticks_between
from eree.web.render.maps import PAGE_AREAS, Picture, chosen
from eree.web.render.pictures import chart_file, map_file
from eree.web.reply import HTML, Reply, moved
from eree.web.reply import as_json as in_json
from eree.web.sentences import told
from eree.web.words import say

#: The two areas that a ranking compares, and as many names of areas as it proposes.
PAIR, MOST_KNOWN = ("one", "two"), 300
#: Letters of a list that could not be kept which the form has again.
MOST_SHOWN = 100_000
#: Codes of a list that are ticked one by one.
MOST_TICKED = 2_000


class Site(House):
    """All that can be asked of a catalogue."""

    def table(self, name: str, query: str, as_json: bool) -> Reply:
        """The table builder with its result; or the result as JSON."""
        data, asked = self._asked(name, query)
        made = answer(data, asked)
        if as_json:
            made.asked()  # refuses a page that is not there
            return self._with_metadata(data, asked, made.as_json())
        page = made.page()
        return self._data_page(
            "table.html",
            data,
            asked,
            bare=not query,
            answer=page,
            layout=Layout(page, made),
            pages=made.pages(),
            across=made.pages_across,
            count=len(made.rows),
            columns=len(made.cols),
        )

    def export(self, name: str, ending: str, query: str) -> Reply:
        """The result as a file."""
        if ending not in EXPORTS:
            raise no_such_file(EXPORTS)
        data, asked = self._asked(name, query)
        kind, make = EXPORTS[ending]
        about, here = self._about(data, asked), f"{self.prefix}/d/{data.name}"
        if ending == "csvm":
            about = replace(about, address=as_asked(f"{self.home}{here}.csv", query))
        body = make(answer(data, asked), about)
        endings = {"jsonstat": "jsonstat.json", "sdmx": "sdmx.csv"}
        named = file_name(data, asked, endings.get(ending, ending))
        link = ("link", described_by(f"{self.path}{here}", query, ending))
        return Reply(200, kind, body, (link,)).named(named, "attachment")

    def chart(self, name: str, query: str, file: bool = False) -> Reply:
        """Bars, in groups or panels where there are columns, or a heat map; or that as a file."""
        data = self.catalogue.data_set(name)
        asked, own = with_own_settings(data, query, ("as",))
        asked = asked if query else asked.charted(data)
        if own and own["as"] not in CHARTS:
            raise Refusal(say("a chart is drawn as one of %(known)s", known=", ".join(CHARTS)))
        made = answer(data, asked)
        shown = drawing(made, own.get("as", ""))
        if file:
            page = [f"page-{asked.page}"] if asked.page > 1 else []
            named = file_name(data, asked, "chart.svg", shown["drawn"], *page)
            return chart_file(shown, self._about(data, asked), named)
        extras, across = list(own.items()), made.pages_across
        return self._data_page(
            "chart.html", data, asked, extras=extras, across=across, count=len(made.rows), **shown
        )

    def map(self, name: str, query: str, file: bool = False) -> Reply:
        """Areas on a map, where there is one; or that as a file."""
        data = self.catalogue.data_set(name)
        mapped = self._maps[data.name]
        if not mapped:
            raise Missing(say("there is no map for this data set"))
        asked = query_of(data, query).counted()
        picture = Picture(data, asked, chosen(asked, mapped))
        if file:
            about, named = self._about(data, asked), file_name(data, picture.query, "map.svg")
            return map_file(picture, about, named)
        over = [n for n in asked.by if n != picture.mapped.variable.name]
        return self._data_page(
            "map.html",
            data,
            asked,
            picture=picture,
            areas=picture.ordered[page_of(len(picture.areas), PAGE_AREAS, asked.page)],
            others=[Picture.shows(asked, one) for one in mapped],
            summed=[data.variable(n).label for n in over],
            pages=pages_of(len(picture.areas), PAGE_AREAS),
            count=len(picture.areas),
            found_flags=flags_on(area.cell for area in picture.areas),
        )

    def ranking(self, name: str, query: str, as_json: bool) -> Reply:
        """Areas ranked, with the ranks that they may truly have."""
        data = self.catalogue.data_set(name)
        asked, own = with_own_settings(data, query, PAIR)
        asked, names = asked.counted(), [own.get(one, "") for one in PAIR]
        if not asked.by and not as_json:  # the form says what to do
            return self._data_page("ranking.html", data, asked, areas=())
        made = ranking(data, asked)
        two, slips, wrong = None, list[str](), [False, False]
        try:
            two = pair(data, asked, *names) if all(names) else None
        except Refusal as refusal:
            if as_json or len(asked.by) > 1:  # there is no form of two areas
                raise
            slips = [reason_of(refusal)]
            one = refusal.name if isinstance(refusal, NotKnown) else None
            wrong = [one in (None, name.strip()) for name in names]
        if as_json:
            found = made.as_json() | ({"pair": two.as_json()} if two else {})
            return self._with_metadata(data, asked, found, "ranking.")
        shown = made.shown(page_of(len(made), PAGE_AREAS, asked.page))
        axis = data.variable(asked.by[0]).axis(asked.groups.get(asked.by[0]))
        return self._data_page(
            "ranking.html",
            data,
            asked,
            areas=shown,
            pair=two,
            names=names,
            slips=slips,
            wrong=wrong,
            known=axis.told_apart[:MOST_KNOWN],
            extras=[(one, own[one]) for one in PAIR if one in own and not slips],
            pages=pages_of(len(made), PAGE_AREAS),
            count=len(made),
            decimals=made.figures.decimals if asked.exact else None,
            rank_ticks=ticks_between(("1", "", f"{max(len(made), 2):,}")),
            found_flags=flags_on(area.cell for area in shown),
        )

    def threshold(self, name: str, query: str, as_json: bool) -> Reply:
        """Damage per job against a threshold."""
        data = self.catalogue.data_set(name)
        return self._threshold(data, *with_own_settings(data, query, EXTRAS), as_json)

    def _threshold(
        self,
        data: DataSet,
        asked: Query,
        extras: Mapping[str, str],
        as_json: bool,
        slips: Iterable[Slip] = (),
    ) -> Reply:
        asked = asked.counted()
        if not as_json:  # readers come from a table of workplaces, and look for jobs here
            asked = replace(asked, measure=JOBS)
        per_job = extras.get("per_job", DEFAULT_PER_JOB)
        text, gone = damage_of(data, extras.get("damage", ""), self.catalogue.lists)
        try:
            if first := (*slips, *gone):
                raise Slips(first)
            made = threshold(data, asked, per_job, text)
        except Slips as found:  # a reader gets the form back as it was
            if as_json:
                raise
            made, slips = Threshold(data, asked, per_job), found.slips
        if as_json:
            least, sent = f"above-{made.per_job}", blake2b(text.encode(), digest_size=4).hexdigest()
            return self._with_metadata(data, asked, made.as_json(), "threshold.", least, sent)
        some = page_of(len(made.areas), PAGE_AREAS, asked.page) if made.areas else slice(0)
        return self._data_page(
            "threshold.html",
            data,
            asked,
            made=made,
            areas=made.areas[some],
            slips=slips,
            damage=text,
            extras=[pair for pair in extras.items() if len(pair[1]) <= MOST_ADDRESS],
            pages=pages_of(len(made.areas), PAGE_AREAS),
            count=len(made.areas),
            decimals=0,  # a verdict goes by every digit
            examples=(examples := made.examples()),
            example="\n".join(f"{c} {125_000 * k}" for k, c in enumerate(examples, start=1)),
            threshold_ticks=ticks_between((say("less"), f"${made.shown}", say("more"))),
            found_flags=flags_on(area.cell for area in made.areas[some]),
        )

    def about(self, name: str, query: str, as_json: bool) -> Reply:
        """The guarantee, the attacker, the noise, the certificate, the citation."""
        data, asked = self._asked(name, query)
        certificates = self._certificates[data.name]
        if as_json:
            words = ("statements", "warnings", "assumptions")
            found = described(data, self.home) | {name: getattr(data, name) for name in words}
            found |= {"noise": data.noise(), "record": data.release.record}
            return in_json(found | certified(data, certificates))
        return self._data_page(
            "about.html",
            data,
            asked,
            bare=not query,
            certificates=certificates,
            step=step_words(*data.units),
            protected=protected_words(*data.units),
            odds=told(data.guarantee.statement("worlds", 1, "Which of them is the true one").words),
            maps=self._maps[data.name],
        )

    def certificate(self, name: str, query: str) -> Reply:
        """What was claimed and found of a data set's noise, and what was checked."""
        data = self.catalogue.data_set(name)
        refuse_settings(say("a certificate"), query)
        return in_json(certified(data, self._certificates[data.name]))

    def profile(self, name: str, file: str, query: str) -> Reply:
        """Numbers of workplaces by size, as a file."""
        data = self.catalogue.data_set(name)
        refuse_settings(say("this file"), query)
        made = profile_file(data, file)
        if made is None:
            raise Missing(say("there is no such file; the page About lists those that there are"))
        stem, _, ending = file.rpartition(".")
        named = f"{plain_name(f'{data.name}-{stem}')}.{ending}"
        return Reply(200, *made).named(named, "attachment")

    def codes(self, name: str, variable: str, query: str, as_json: bool) -> Reply:
        """The codes of a variable, found by words, to keep some of them."""
        data, known = self._variable(name, variable)
        asked, extras = with_own_settings(data, query, ("find", "tab", *EXTRAS))
        find = extras.get("find", "")
        if extras.get("tab", "") not in TABS:
            raise Refusal(say("there is no such page of a data set"))
        if as_json:
            names, about = ("code", "label", "level"), {"variable": known.name}
            listed = [{n: getattr(c, n) for n in names} for c in known.listed(find)]
            return in_json({**about, "label": known.label, "find": find, "codes": listed})
        return self._codes_page(data, known, asked, extras)

    def keep_list(
        self,
        name: str,
        variable: str,
        sent_as: tuple[str, bytes],
        as_json: bool,
        sender: str = "",
    ) -> Reply:
        """Keep a list of codes that a reader sends, and go on to the table with it."""
        data, known = self._variable(name, variable)
        fields = fields_of(*sent_as)
        texts = [value for field, value in fields if field in ("codes", "file") and value.strip()]
        rest = [pair for pair in fields if pair[0] not in ("codes", "file", "skip")]
        try:
            skip = ("skip", YES) in fields
            lists = [codes_in(known, text, skip=skip) for text in texts or [""]]
            held = known.held(code for one in lists for code in one.codes)
            found = self.catalogue.lists.keep(data.list_of(known), len(known.codes), held, sender)
        except Refusal as refusal:
            if as_json:
                raise
            made, text = sent(data, rest), "\n".join(texts)
            own = {"tab": made.page, **dict(made.extras)}
            shown = {
                "slips": (reason_of(refusal),),
                "pasted": text if len(text) < MOST_SHOWN else "",
            }
            return self._codes_page(data, known, made.query, own, **shown)
        if as_json:
            end = datetime.now(UTC) + timedelta(seconds=KEPT_SECONDS)
            said = {"list": found, "codes": len(held), "heading": lists[0].heading}
            said |= {"kept_until": end.isoformat("T", "seconds")}
            return in_json({**said, "query": written([(f"{WHERE}{known.name}", found)])}, 201)
        where = sent(data, [*rest, (f"{WHERE}{known.name}", found)]).address(data)
        return moved(303, self.path + self.prefix + where)

    def _variable(self, name: str, variable: str) -> tuple[DataSet, Variable]:
        data = self.catalogue.data_set(name)
        if variable not in {one.name for one in data.variables}:
            raise Missing(say("there is no such variable in this data set"))
        return data, data.variable(variable)

    def _codes_page(
        self, data: DataSet, variable: Variable, asked: Query, own: Mapping[str, str], **given: Any
    ) -> Reply:
        kept = variable.spelled_out(codes := asked.where.get(variable.name, ()))
        return self._data_page(
            "codes.html",
            data,
            asked,
            variable=variable,
            kept=kept if len(kept) <= MOST_TICKED else codes,
            lines=variable.listed(own.get("find", "")),
            find=own.get("find", ""),
            here=f"/codes/{quoted(variable.name)}",
            own=[(n, own[n]) for n in ("find", "tab") if n in own],
            back=own.get("tab", ""),
            extras=[(n, own[n]) for n in EXTRAS if n in own],
            **given,
        )

    def build(self, name: str, query: str) -> Reply:
        """Sends a form on to the address of its query."""
        data = self.catalogue.data_set(name)
        return moved(303, self.path + self.prefix + sent(data, read(query)).address(data))

    def send(self, name: str, sent_as: tuple[str, bytes], as_json: bool, sender: str = "") -> Reply:
        """The same of a form that is posted: what no address has room for is kept."""
        data = self.catalogue.data_set(name)
        made = sent(data, readable(fields_of(*sent_as)))
        try:
            where = shortened(data, made, self.catalogue.lists, sender).address(data)
        except Slips as slips:
            return self._threshold(data, made.query, dict(made.extras), as_json, slips.slips)
        return moved(303, self.path + self.prefix + where)

    # ------------------------------------------------------------------------------ inside

    def _asked(self, name: str, query: str) -> tuple[DataSet, Query]:
        data = self.catalogue.data_set(name)
        return data, query_of(data, query)

    def _data_page(
        self, template: str, data: DataSet, query: Query, bare: bool = False, **given: Any
    ) -> Reply:
        """A page of a data set; one that was asked for `bare` is found without its query."""
        tab = template.removesuffix(".html").replace("table", "")
        own = [*given.get("extras", ()), *given.pop("own", ())]
        page = given.pop("here", f"/{tab}" if tab else "")
        here = f"/d/{data.name}{page}" + ("" if bare else f"?{query.address(own)}")
        known = {
            "data": data,
            "query": query,
            "about": self._about(data, query),
            "apart": by_period(data, self._apart[data.name]),
            "tab": tab,
            "tabs": {n: tab for n, tab in TABS.items() if n != "map" or self._maps[data.name]},
            "extras": [],
            "slips": (),
            "pasted": "",
            "damage": "",
            "pages": 1,
        }
        status = 400 if given.get("slips") else 200
        made = self.pages.render(template, self.language, here, **(known | given))
        return Reply(status, HTML, made)
