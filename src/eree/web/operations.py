"""For operators: whether the tool is alive and ready, how much it does, and who asked for what.

Everything counted is in memory that all worker processes share, so that each reports for all.
Nothing of a query is counted: labels are the kind of an answer and its status.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, cast, get_args

import numpy as np
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eree.errors import Refusal
from eree.random.exact import Integers
from eree.web.desk import Desk, Kept, header_of
from eree.web.reply import PLAIN, Reply, moved

HEALTH, READY, METRICS = "/health", "/ready", "/metrics"
LogForm = Literal["combined", "json"]


def log_form(name: str | None) -> LogForm | None:
    """The form of a log by its name."""
    if name is None or name in get_args(LogForm):
        return cast("LogForm | None", name)
    raise Refusal(f"there is no form of log {name!r}; there are {' and '.join(get_args(LogForm))}")


_KINDS = ("page", "json", "file", "asset", "other")
_FILES = ("csv", "csvm", "jsonstat", "parquet", "sdmx", "svg", "xlsx")
_ENDINGS = {"json": "json"} | dict.fromkeys(_FILES, "file")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: Numbers that each worker process has: answers by kind and status, by seconds, and others.
_STATUSES = 6
_ANSWERS, _TIMES = len(_KINDS) * _STATUSES, len(_SECONDS) + 1
_NUMBERS = ("bytes", "microseconds", "again", "open", "kept", "data_sets")
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_WIDTH = _ANSWERS + _TIMES + len(_NUMBERS)


class Counters:
    """Numbers of so many processes, in memory that they share; each writes to its own row."""

    def __init__(self, rows: int = 1) -> None:
        shared = mmap.mmap(-1, rows * _WIDTH * 8)
        self._all: Integers = np.frombuffer(shared, dtype=np.int64).reshape(rows, _WIDTH)
        self.row = 0

    def answered(self, path: str, status: int, seconds: float, size: int) -> None:
        """Count an answer."""
        own = self._all[self.row]
        own[_kind(path) * _STATUSES + min(status // 100, _STATUSES - 1)] += 1
        own[_ANSWERS + int(np.searchsorted(_SECONDS, seconds))] += 1
        self.add("bytes", size)
        self.add("microseconds", round(seconds * 1e6))

    def add(self, name: str, number: int) -> None:
        """Add to a number of this process."""
        self._all[self.row, _ANSWERS + _TIMES + _NUMBERS.index(name)] += number

    def set(self, name: str, number: int) -> None:
        """Set a number of this process."""
        self._all[self.row, _ANSWERS + _TIMES + _NUMBERS.index(name)] = number

    def leave(self) -> None:
        """Forget what only a running process has."""
        for name in ("open", "kept", "data_sets"):
            self.set(name, 0)

    def text(self) -> str:
        """All numbers in Prometheus' text format."""
        sums = self._all.sum(0).tolist()
        answers, times = sums[:_ANSWERS], sums[_ANSWERS : _ANSWERS + _TIMES]
        of = dict(zip(_NUMBERS, sums[_ANSWERS + _TIMES :], strict=True))
        of["data_sets"] = int(self._all[:, -1].max())  # all processes serve the same
        lines = _headed("eree_answers_total", "counter", "Answers by kind and class of status.")
        for place, number in enumerate(answers):
            kind, status = _KINDS[place // _STATUSES], place % _STATUSES
            if number:
                lines.append(f'eree_answers_total{{kind="{kind}",status="{status}xx"}} {number}')
        lines += _headed("eree_answer_seconds", "histogram", "Seconds until an answer was sent.")
        below = 0
        for end, number in zip((*map(str, _SECONDS), "+Inf"), times, strict=True):
            below += number
            lines.append(f'eree_answer_seconds_bucket{{le="{end}"}} {below}')
        lines.append(f"eree_answer_seconds_sum {of['microseconds'] / 1e6}")
        lines.append(f"eree_answer_seconds_count {below}")
        for name, number, kind, said in (
            ("eree_sent_bytes_total", "bytes", "counter", "Bytes of the bodies of answers."),
            ("eree_kept_answers_total", "again", "counter", "Answers that were kept before."),
            ("eree_open_questions", "open", "gauge", "Questions at work or waiting."),
            ("eree_kept_bytes", "kept", "gauge", "Bytes of answers that are kept."),
            ("eree_data_sets", "data_sets", "gauge", "Data sets that are served."),
        ):
            lines += [*_headed(name, kind, said), f"{name} {of[number]}"]
        return "\n".join(lines) + "\n"


def _headed(name: str, kind: str, said: str) -> list[str]:
    return [f"# HELP {name} {said}", f"# TYPE {name} {kind}"]


def _kind(path: str) -> int:
    if path.startswith("/static/"):
        return _KINDS.index("asset")
    last = path.rpartition("/")[2]
    kind = _ENDINGS.get(last.rpartition(".")[2]) if "." in last else None
    if kind is None:
        kind = "other" if path in (HEALTH, READY, METRICS) else "page"
    return _KINDS.index(kind)


class Porch:
    """What stands before the application: the prefix of all paths, and what operators ask.

    With a `prefix` no other path is answered, but for those of operators.
    """

    def __init__(
        self,
        app: ASGIApp,
        desk: Desk,
        *,
        prefix: str = "",
        data_sets: int = 0,
        counters: Counters | None = None,
        log: LogForm | None = None,
        coming: Callable[[], float] | None = None,
    ) -> None:
        """`coming` is how much is verified of what is not served yet."""
        self._app, self.desk, self._prefix = app, desk, prefix
        self._counters, self._data_sets, self._seen = counters, data_sets, 0
        self._log, self._coming = log, coming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, count it and write it down."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        inner, app = self._inside(scope)
        if self._counters is None and self._log is None:
            await app(inner, receive, send)
            return
        status, size, begun = 500, 0, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await app(inner, receive, noted)
        finally:
            seconds = time.perf_counter() - begun
            if self._counters is not None:
                self._counters.answered(inner["path"], status, seconds, size)
                self._count()
            if self._log is not None:
                line = _LINES[self._log](scope, status, size, seconds)
                with suppress(OSError):  # in one go, whatever other processes write
                    os.write(2, f"{line}\n".encode())

    def _inside(self, scope: Scope) -> tuple[Scope, ASGIApp]:
        """The request as the application knows it, and who answers it."""
        path: str = scope["path"]
        found = self._operators(path) if scope["method"] in ("GET", "HEAD") else None
        if found is not None:
            return scope, Kept(found)
        if self._prefix:
            if path == self._prefix:
                return scope, Kept(moved(301, f"{path}/"))
            raw: bytes = scope.get("raw_path") or path.encode()
            cut = len(self._prefix)  # which has no letters that are written as %XX
            inside = raw.startswith(f"{self._prefix}/".encode())
            path, raw = (path[cut:], raw[cut:]) if inside else ("//", b"//")  # no page
            scope = {**scope, "path": path, "raw_path": raw}
        return scope, self._app

    def _operators(self, path: str) -> Reply | None:
        if path == HEALTH:
            return Reply(200, PLAIN, b"alive\n")
        if path == READY:
            if self._coming is not None:
                return Reply(503, PLAIN, f"verifying: {percent(self._coming())} done\n".encode())
            if self.desk.full_lines() >= self._data_sets > 0:
                return Reply(503, PLAIN, b"all places are taken\n")
            return Reply(200, PLAIN, f"ready: {self._data_sets} data sets\n".encode())
        if path != METRICS or self._counters is None:
            return None
        self._count()
        return Reply(200, _PROMETHEUS, self._counters.text().encode())

    def _count(self) -> None:
        """What is so now."""
        assert self._counters is not None
        self._counters.add("again", self.desk.again - self._seen)
        self._seen = self.desk.again
        self._counters.set("open", len(self.desk))
        self._counters.set("kept", int(self.desk.kept.currsize))
        self._counters.set("data_sets", self._data_sets)


def percent(done: float) -> str:
    """How much is done of what is not all done."""
    return f"{min(int(100 * done), 99)}%"


def _combined(scope: Scope, status: int, size: int, seconds: float) -> str:
    """A line of the combined log format."""
    del seconds
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
    asked = f"{scope['method']} {_address(scope)} HTTP/{scope['http_version']}"
    referer, agent = (_escaped(header_of(scope, name)) for name in (b"referer", b"user-agent"))
    client = (scope.get("client") or ("-",))[0]
    return f'{client} - - [{when}] "{asked}" {status} {size} "{referer or "-"}" "{agent or "-"}"'


def _as_json(scope: Scope, status: int, size: int, seconds: float) -> str:
    """The same as one JSON object."""
    found = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "client": (scope.get("client") or ("-",))[0],
        "method": scope["method"],
        "address": _address(scope),
        "status": status,
        "bytes": size,
        "seconds": round(seconds, 6),
        "referer": header_of(scope, b"referer").decode("latin-1"),
        "agent": header_of(scope, b"user-agent").decode("latin-1"),
    }
    return json.dumps(found)


_LINES: dict[str, Callable[[Scope, int, int, float], str]] = {
    "combined": _combined,
    "json": _as_json,
}


def _address(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return _escaped(raw + b"?" * bool(query) + query)


def _escaped(text: bytes) -> str:
    """A text that stays within its quotes and on its line."""
    return "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\x{c:02x}" for c in text)
