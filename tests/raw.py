"""Requests as bytes, and what bytes of answers say."""

from __future__ import annotations

import re


def get(path: bytes, *headers: bytes) -> bytes:
    lines = [b"GET " + path + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]
    return b"\r\n".join([*lines, b"", b""])


def statuses(reply: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z][^\r\n]*\r\n", reply)]
