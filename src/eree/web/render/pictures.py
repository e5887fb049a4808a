"""Charts and maps as files: one SVG picture with its title, its figures and where it is from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import shorten, wrap
from typing import Any
from xml.sax.saxutils import escape

from eree.web.block import UNRELIABLE
from eree.web.export import Metadata
from eree.web.notes import BESIDE, EXACT
from eree.web.query import SORTS
from eree.web.render.charts import Bar, Bars, Grouped, HeatMap
from eree.web.render.maps import Picture
from eree.web.reply import SVG, Reply
from eree.web.words import say, spoken

#: Places of a bar's name, drawing and figure, in the width of a picture.
_WIDE, _NAMES, _PLOT, _FIGURES = 960, 280, 290, 720
_LINE, _ROW, _EDGE = 22, 24, 20
#: Letters of a name on a line.
_NAME = 38
#: The colours of the style sheet for light pages; a picture is shown on paper and in reports.
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1d2529}.title{font-size:17px;font-weight:600}"
    ".soft,.tick{font-size:12px;fill:#566269}.head{font-weight:600}.grid{stroke:#d9dedd}"
    ".axis{stroke:#566269}.bar{fill:#3f8aa3}.weak{fill:#b4d2dc}"
    ".whisker{stroke:#1d2529;stroke-width:1.4}.field{stroke:#fff}"
    ".heat-0{fill:#edf4f6}.heat-1{fill:#d2e5ea}.heat-2{fill:#afd0d9}.heat-3{fill:#86b7c5}"
    ".heat-4{fill:#5c9bae}.heat-5{fill:#367d93}.heat-6{fill:#1b5a6e}.none,.unknown{fill:#fff}"
    ".field.heat-5+text,.field.heat-6+text{fill:#fff}"
    ".shade-0{fill:#d7e6ea}.shade-1{fill:#a5cad4}.shade-2{fill:#6ba6b8}.shade-3{fill:#377e96}"
    ".shade-4{fill:#124a5d}.out,.map .out{fill:#f4f6f5;stroke:#566269;stroke-dasharray:3 2}"
    ".stripes{stroke:#fff;stroke-width:2.5}.dot{fill:#1d2529;stroke:#fff;stroke-width:.8}.stripe{fill:#fff;opacity:.75}"
    ".map path{stroke:#fff;stroke-width:.8px;vector-effect:non-scaling-stroke;fill-rule:evenodd}"
)
#: Where a colour is shown beside what it means, and the mark of an unreliable field.
_SWATCH = f'x="{_EDGE}" y="4" width="26" height="14"'
_DOT = '<circle class="dot" cx="{:.1f}" cy="6" r="2"/>'
_LINK = re.compile(r"<a [^>]*>")
#: A line of a picture: how high it is, and what is drawn there.
_Line = tuple[int, str]


def chart_file(shown: Mapping[str, Any], about: Metadata, name: str) -> Reply:
    """The chart that a page shows, as `drawing` has it."""
    if shown["heat"] is not None:
        lines = _heat(shown["heat"])
    else:
        grouped = shown["grouped"]
        lines = _bars(shown["bars"], "") if grouped is None else _groups(grouped)
        every = [shown["bars"]] if grouped is None else [bars for _, bars in grouped.groups]
        if any(UNRELIABLE in bar.cell.flags for bars in every for bar in bars.bars):
            lines.append(_meaning("weak", say("pale: unreliable")))
    (rows, down), (cols, across) = shown["of"]
    said: list[str] = []
    if down > rows.stop - rows.start:
        said.append(say("Rows %(first)s to %(last)s of %(all)s", **_part(rows, down)))
    if across > cols.stop - cols.start:
        said.append(say("Columns %(first)s to %(last)s of %(all)s", **_part(cols, across)))
    if said:
        said.append(SORTS[shown["answer"].query.sort])
    return _picture(about.caption, lines, about, name, said, errors=shown["heat"] is None)


def _part(shown: slice, every: int) -> dict[str, str]:
    """The first and the last of all that are in a picture."""
    ends = {"first": shown.start + 1, "last": min(shown.stop, every), "all": every}
    return {name: f"{number:,}" for name, number in ends.items()}


def map_file(picture: Picture, about: Metadata, name: str) -> Reply:
    """A map with its legend."""
    drawn = _LINK.sub("<g>", picture.drawn()).replace("</a>", "</g>")
    view = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', drawn)
    assert view is not None, "every map has a view"
    high = round(min(max((_WIDE - 2 * _EDGE) * float(view[2]) / float(view[1]), 200), 900))
    at = f'x="{_EDGE}" y="0" width="{_WIDE - 2 * _EDGE}" height="{high}"'
    lines = [(high + 10, drawn.replace('<svg class="map"', f'<svg class="map" {at}', 1))]
    for place, shade in enumerate(picture.legend):
        said = shade.low
        if shade.low != shade.high:
            said = spoken(say("%(low)s to %(high)s", low=shade.low, high=shade.high))
        lines.append(_meaning(f"shade-{place}", said))
    if any(area.hatched for area in picture.areas):
        stripes = f'<path class="stripes" d="M{_EDGE + 1} 18l8-14m0 14l8-14m0 14l8-14"/>'
        lines.append(_meaning("shade-3", say("hatched: unreliable"), stripes))
    if picture.without_figure > 0:
        lines.append(_meaning("out", say("no figure")))
    return _picture(picture.caption, lines, about, name, errors=False)


def _meaning(kind: str, said: str, upon: str = "") -> _Line:
    """What a colour means, with what is drawn upon it."""
    return _LINE, f'<rect class="{kind}" {_SWATCH}/>{upon}{_text(spoken(said), _EDGE + 36)}'


def _picture(
    caption: str,
    lines: Sequence[_Line],
    about: Metadata,
    name: str,
    part: Sequence[str] = (),
    *,
    errors: bool = True,
) -> Reply:
    """Lines below each other, between a title and where they are from; `part` is what is shown.

    A picture without errors says where they are.
    """
    notes = list[str]()
    if EXACT in about.notes:
        errors = True
    elif errors:
        notes.append(say("Intervals at %(level)s.", level=f"{float(about.confidence):.0%}"))
    else:
        notes.append(say("Figures have noise in them; the table at the address has their errors."))
    notes += [note for note in about.notes if errors or note not in BESIDE]
    caption, citation = spoken(caption), spoken(about.citation)
    of = " · ".join(map(spoken, (about.title, *part)))
    every = [(26, _text(line, _EDGE, "title")) for line in wrap(caption, 100)]
    every += [(20, _text(line, _EDGE)) for line in wrap(of, 130)]
    every += [(8, ""), *lines, (12, "")]
    for note in (*map(spoken, notes), citation):
        every += [(18, _text(line, _EDGE, "soft")) for line in wrap(note, 140)]
    drawn, top = [], _EDGE
    for high, part in every:
        drawn += [f'<g transform="translate(0 {top})">{part}</g>'] if part else []
        top += high
    size = f'width="{_WIDE}" height="{top + _EDGE}" viewBox="0 0 {_WIDE} {top + _EDGE}"'
    whole = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        f"<title>{escape(caption)} – {escape(of)}</title><style>{_STYLE}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n'
    )
    return Reply(200, SVG, whole.encode()).named(name, "attachment")


def _text(
    said: str,
    x: float,
    name: str = "",
    anchor: str = "start",
    letters: int = 0,
    size: str = "",
) -> str:
    """A text on a line, cut to some letters with the whole of it as its title."""
    shown = said
    if letters and len(said) > letters:
        shown = shorten(said, letters, placeholder="…")
    whole = f"<title>{escape(said)}</title>" if shown != said else ""
    kind = f' class="{name}"' if name else ""
    at = f'x="{x:g}" y="15" text-anchor="{anchor}"'
    return f"<text{kind} {at}{size}>{escape(shown)}{whole}</text>"


def _name(said: str, x: float = _NAMES, anchor: str = "end") -> str:
    """The name of a row before its drawing, or of a column; a long one on two lines."""
    first, *others = wrap(said, _NAME) or [""]
    if not others:
        return _text(said, x, anchor=anchor)
    above = _text(first, x, "soft", anchor)
    below = _text(" ".join(others), x, "soft", anchor, _NAME)
    return f'<g transform="translate(0 -5)">{above}</g><g transform="translate(0 7)">{below}</g>'


def _bars(bars: Bars, heading: str) -> list[_Line]:
    head = [(_ROW, _text(line, _EDGE, "head")) for line in wrap(heading, 110)]
    return [*head, (18, _plotted(bars.scale.axis())), *((_ROW, _bar(bar)) for bar in bars.bars)]


def _bar(bar: Bar) -> str:
    name = " · ".join(map(spoken, bar.labels))
    figure = f"{bar.figure} ({spoken(bar.interval)})" if bar.interval else bar.figure
    return _name(name) + _plotted(bar.drawing) + _text(figure, _FIGURES, letters=40)


def _plotted(drawing: str) -> str:
    """A drawing whose places are shares of its width, at its place."""
    wide = _FIGURES - _PLOT - 20
    return drawing.replace('width="100%"', f'x="{_PLOT}" y="0" width="{wide}"', 1)


def _groups(grouped: Grouped) -> list[_Line]:
    found: list[_Line] = []
    for labels, bars in grouped.groups:
        found += [*_bars(bars, " · ".join(map(spoken, labels)) or spoken(say("All"))), (10, "")]
    return found


def _heat(heat: HeatMap) -> list[_Line]:
    longest = min(max(map(len, heat.columns), default=0), _NAME)  # which leans out to the right
    wide = min(64.0, (_WIDE - _EDGE - _NAMES - 10 - 3 * longest) / max(len(heat.columns), 1))
    high = 24 + longest * 6
    names = "".join(
        f'<g transform="translate({_NAMES + 6 + (j + 0.5) * wide:.1f} {high - 16}) rotate(-60)">'
        f"{_name(name, 0, 'start')}</g>"
        for j, name in enumerate(heat.columns)
    )
    letters = max((len(field.text) for _, fields in heat.rows for field in fields), default=1)
    size = f' style="font-size:{min(13, 1.6 * (wide - 3) / letters):.1f}px"'  # no figure is wider
    found, middle = [(high, names)], _NAMES + 10 + 0.5 * wide
    row = _ROW + 4 if any(len(name) > _NAME for name, _ in heat.rows) else _ROW
    for name, fields in heat.rows:
        drawn = "".join(
            f'<rect class="field {field.kind}" x="{_NAMES + 10 + j * wide:.1f}" y="0"'
            f' width="{wide:.1f}" height="{row}"><title>{escape(field.said)}</title></rect>'
            + ("" if heat.dense else _text(field.text, middle + j * wide, "", "middle", size=size))
            + (_DOT.format(_NAMES + 15 + j * wide) if "weak" in field.kind.split() else "")
            for j, field in enumerate(fields)
        )
        found.append((row, _name(name) + drawn))
    found += [(8, ""), (_LINE, _text(spoken(say("From which figure on a colour begins")), _EDGE))]
    shades = (
        f'<g transform="translate({120 * shade} 0)">{_meaning(f"heat-{shade}", start)[1]}</g>'
        for shade, start in enumerate(heat.shades)
    )
    found.append((_LINE, "".join(shades)))
    if any("weak" in field.kind.split() for _, fields in heat.rows for field in fields):
        found.append(_meaning("heat-0", say("dot: unreliable"), _DOT.format(_EDGE + 13)))
    return found
