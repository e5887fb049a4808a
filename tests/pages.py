"""Runs what a Markdown page shows, and compares it with what the page says comes out.

- A block with a title (```csv title="tiny/job.csv") is written to that file.
- In a ```console block every `$ command` runs in a shell, and the lines below it are its output.
- A ```python block runs in the page's own process; a ```text block right after it is its output.

A page runs from top to bottom in one folder.  `…` in a line of output stands for anything, and a
line that is `…` alone for any number of lines.  The figures of a release are never the same twice:
in the output of a block under the comment `<!-- noisy -->` a number, or a range of numbers, stands
for any other, a decision about a threshold for any decision, and columns may be of any width.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

import forks
from processes import LONGEST

ROOT = Path(__file__).parents[1]
NOISY = "<!-- noisy -->"
BLOCK = re.compile(
    rf'^({NOISY}\n)?```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
FIGURE = r"-?\d[\d,.-]*%?"
#: In a cell of a table, or in a list of Python's; the words are those of prose as well.
DECISION = r"(?<=[ '])(?:above|below|undecided)(?=(?: *│|'))"
WIDTH = "80"
#: What somebody may have set for a terminal or for Python, and would change what commands print.
LEFT_OUT = (
    *("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONSAFEPATH", "COVERAGE_PROCESS"),
    *("EREE_LEDGER", "EREE_VERBOSE"),
)


@dataclass(frozen=True)
class Step:
    """One thing to do, with what should come of it (None: whatever it prints)."""

    kind: str
    text: str
    output: str | None = None
    file: str | None = None
    noisy: bool = False


def steps(page: str) -> list[Step]:
    """What a page does, in its order."""
    found: list[Step] = []
    for comment, language, title, body in BLOCK.findall(page):
        noisy = bool(comment)
        if title:
            found.append(Step("file", body, file=title))
        elif language == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, output = command.partition("\n")
                found.append(Step("shell", line, output, noisy=noisy))
        elif language == "python":
            found.append(Step("python", body))
        elif language == "text" and found and found[-1].kind == "python":
            found[-1] = Step("python", found[-1].text, body, noisy=noisy)
    return found


def run(page: str, folder: Path, *, cold: bool = False) -> list[str]:
    """Run a page in a folder; the complaints, each with what was shown and what came."""
    complaints = []
    session = Session(folder)
    try:
        for step in steps(page):
            if step.file is not None:
                path = folder / step.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.text, encoding="utf-8")
                continue
            if step.kind == "shell":
                came = shell(step.text, folder, cold=cold)
            else:
                came = session.python(step.text)
            shown = step.output or ""
            if not (matches(blurred(shown), blurred(came)) if step.noisy else matches(shown, came)):
                complaints.append(f"{step.text}\n--- shown\n{step.output}\n--- came\n{came}")
    finally:
        session.close()
    return complaints


def blurred(text: str) -> str:
    """A text in which all numbers are alike, and decisions, and columns as narrow as can be."""
    text = re.sub(DECISION, "undecided", text)
    text = re.sub(rf"{FIGURE}(?: to {FIGURE}| or more)?", "0", text)
    return re.sub(r"([ ━─])\1+", r"\1", text)


def matches(shown: str, came: str) -> bool:
    """Whether an output is the one shown, where `…` may be anything."""
    parts = []
    for line in shown.splitlines():
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*".join(re.escape(p) for p in line.rstrip().split("…")) + r"[ ]*\n")
    return re.fullmatch("".join(parts), came) is not None


def environment() -> dict[str, str]:
    """The surroundings of a command: this environment's `eree`, a plain terminal of fixed width."""
    here = str(Path(sys.executable).parent)
    plain = {k: v for k, v in os.environ.items() if k not in LEFT_OUT}
    return plain | {
        "PATH": f"{here}{os.pathsep}{plain.get('PATH', '')}",
        "COLUMNS": WIDTH,
        "LC_ALL": "C.UTF-8",
        "PYTHONWARNINGS": "error",
    }


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


@cache
def server() -> forks.Server:
    """One for all commands of this process."""
    return forks.Server(environment())


def started(
    arguments: Sequence[str | Path],
    streams: Sequence[int],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: str | None = None,
) -> forks.Running:
    """`eree` with some arguments, or Python with some code, in a process of its own."""
    surroundings = environment() | dict(env or {})
    return forks.start(
        server().address, [*map(str, arguments)], cwd or Path.cwd(), surroundings, streams, code
    )


def command(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: str | None = None,
) -> Done:
    """How a command ends; with code, how Python does that is given the code."""
    with Path(os.devnull).open("rb") as nothing, TemporaryFile() as out, TemporaryFile() as err:
        streams = [file.fileno() for file in (nothing, out, err)]
        status = started(arguments, streams, cwd=cwd, env=env, code=code).wait()
        out.seek(0)
        err.seek(0)
        return Done(status, out.read().decode(), err.read().decode())


def shell(command: str, folder: Path, *, cold: bool = False) -> str:
    """What a command prints, on either stream; cold, `eree` imports what it needs itself."""
    around = environment()
    if not cold:
        forked = server()
        around[forks.ADDRESS] = forked.address
        around["PATH"] = f"{forked.folder}{os.pathsep}{around['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=around,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST,
    )
    return done.stdout


class Session:
    """A Python process that a page's blocks share, so that one may use what another made."""

    LOOP = (
        "import sys, traceback\n"
        "names = {'__name__': '__main__'}\n"
        "for line in sys.stdin:\n"
        "    try:\n"
        "        exec(compile(eval(line), 'page', 'exec'), names)\n"
        "    except Exception:\n"
        "        traceback.print_exc(file=sys.stdout)\n"
        "    print('\\0', flush=True)\n"
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: forks.Running | None = None

    def python(self, text: str) -> str:
        """What a block prints; a traceback counts as printed."""
        if self.process is None:
            (stdin, self.write), (self.read, stdout) = os.pipe(), os.pipe()
            self.process = started([], [stdin, stdout, stdout], cwd=self.folder, code=self.LOOP)
            os.close(stdin)
            os.close(stdout)
            self.output = os.fdopen(self.read, encoding="utf-8")
        os.write(self.write, f"{text!r}\n".encode())
        lines = []
        for line in self.output:
            if line == "\0\n":
                break
            lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            os.close(self.write)
            self.output.close()
            self.process.wait()
