"""Runs what a Markdown page shows, and compares it with what the page says comes out.

- A block with a title (```csv title="tiny/job.csv") is written to that file.
- In a ```console block every `$ command` runs in a shell, and the lines below it are its output.
- A ```python block runs in the page's own process; a ```text block right after it is its output.

A page runs from top to bottom in one folder.  `…` in a line of output stands for anything, and a
line that is `…` alone for any number of lines.  The figures of a release are never the same twice:
in the output of a block under the comment `<!-- noisy -->` a number, or a range of numbers, stands
for any other, and columns may be of any width.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from processes import LONGEST

ROOT = Path(__file__).parents[1]
NOISY = "<!-- noisy -->"
BLOCK = re.compile(
    rf'^({NOISY}\n)?```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
FIGURE = r"-?\d[\d,.-]*%?"
WIDTH = "80"
#: What somebody may have set for a terminal or for Python, and would change what commands print.
LEFT_OUT = (
    *("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONDEVMODE", "PYTHONSAFEPATH", "COVERAGE_PROCESS"),
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


def run(page: str, folder: Path) -> list[str]:
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
            came = shell(step.text, folder) if step.kind == "shell" else session.python(step.text)
            shown = step.output or ""
            if not (matches(blurred(shown), blurred(came)) if step.noisy else matches(shown, came)):
                complaints.append(f"{step.text}\n--- shown\n{step.output}\n--- came\n{came}")
    finally:
        session.close()
    return complaints


def blurred(text: str) -> str:
    """A text in which all numbers are alike, and all columns as narrow as can be."""
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


def shell(command: str, folder: Path) -> str:
    """What a command prints, on either stream."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
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
        self.process: subprocess.Popen[str] | None = None

    def python(self, text: str) -> str:
        """What a block prints; a traceback counts as printed."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self.LOOP],
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{text!r}\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "\0\n":
                break
            lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            try:
                self.process.communicate(timeout=LONGEST)
            finally:
                self.process.kill()
                self.process.wait()
