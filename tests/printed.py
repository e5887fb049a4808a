"""The words of a PDF that a browser printed, page by page, as people would read them."""

from __future__ import annotations

import re
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj\b(.*?)endobj", re.DOTALL)
_STREAM = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)
_SHOWN = re.compile(rb"/(\S+) [\d.]+ Tf|<([0-9A-Fa-f]+)> Tj|\[((?:<[0-9A-Fa-f]*>|[^\]])*)\] TJ|ET")


def pages(pdf: bytes) -> list[str]:
    """The text of each page, without the spaces between words."""
    known = {int(number): body for number, body in _OBJECT.findall(pdf)}
    found = []
    for body in known.values():
        if not re.search(rb"/Type /Page\b", body):
            continue
        fonts = {
            name.decode(): _letters(known, int(font))
            for name, font in re.findall(rb"/(F\d+) (\d+) 0 R", body)
        }
        content = re.search(rb"/Contents (\d+) 0 R", body)
        assert content
        found.append(_read(_opened(known[int(content[1])]), fonts))
    return found


def _opened(body: bytes) -> bytes:
    stream = _STREAM.search(body)
    assert stream
    packed = b"FlateDecode" in body  # the last byte of its checksum may look like the end of a line
    return zlib.decompressobj().decompress(stream[1]) if packed else stream[1]


def _letters(known: dict[int, bytes], font: int) -> dict[int, str]:
    """What the numbers of a font's letters stand for."""
    mapped = re.search(rb"/ToUnicode (\d+) 0 R", known[font])
    content = _opened(known[int(mapped[1])]) if mapped else b""
    found: dict[int, str] = {}
    for kind, lines in re.findall(rb"beginbf(char|range)(.*?)endbf", content, re.DOTALL):
        for line in lines.strip().splitlines():
            parts = [int(part, 16) for part in re.findall(rb"<([0-9A-Fa-f]+)>", line)]
            first, last, start = (parts[0], parts[0], parts[1]) if kind == b"char" else parts
            found |= {number: chr(start + number - first) for number in range(first, last + 1)}
    return found


def _read(content: bytes, fonts: dict[str, dict[int, str]]) -> str:
    text, font = [], dict[int, str]()
    for name, one, several in _SHOWN.findall(content):
        if name:
            font = fonts[name.decode()]
        digits = one + b"".join(re.findall(rb"<([0-9A-Fa-f]*)>", several))
        text += [font.get(int(digits[i : i + 4], 16), "") for i in range(0, len(digits), 4)]
    return "".join(text).replace(" ", "").replace("\xa0", "")
