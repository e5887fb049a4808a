"""A query tool in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import eree
import pages
from processes import PATIENCE, running


class Tool:
    """A query tool in processes of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.address = json.loads(process.stdout.readline())["address"]

    def get(self, path: str) -> bytes:
        with urlopen(self.address + path, timeout=PATIENCE) as reply:
            found = reply.read()
        assert isinstance(found, bytes)
        return found

    def names(self) -> list[str]:
        return [data["name"] for data in json.loads(self.get("/index.json"))["data_sets"]]

    def workers(self) -> set[int]:
        """The processes that the process that it started has started."""
        return {w for child in children(self.process.pid) for w in children(child)}


def children(process: int) -> set[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except OSError:
        return set()
    return set(map(int, text.split()))


@contextmanager
def started(*arguments: str | Path) -> Iterator[Tool]:
    source = str(Path(eree.__file__).resolve().parents[1])
    command = [sys.executable, "-m", "eree", "serve", *map(str, arguments), "--port", "0", "--json"]
    surroundings = pages.environment() | {"PYTHONPATH": source}
    with running(command, env=surroundings) as process:
        try:
            yield Tool(process)
        finally:
            process.terminate()
            process.wait(PATIENCE)
