"""`python -m supply.pythons WHEEL 3.12 …` installs a wheel with each version, and tries it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from supply.trial import OFFICE, faults

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def interpreter(version: str) -> str | None:
    """A Python of a version: on the path, or one of pyenv's."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(home.glob(f"{version}.*/bin/python"))
    asking = ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    for found in filter(None, (which(f"python{version}"), *map(str, kept))):
        said = subprocess.run([found, *asking], capture_output=True, text=True)
        if said.stdout.strip() == version:  # a name on the path may lead nowhere
            return found
    return None


def tried(wheel: str, version: str) -> str:
    """What came of it, in words; empty if the version is not there."""
    found = interpreter(version)
    if found is None:
        return ""
    with TemporaryDirectory() as folder:
        python = Path(folder, "env", "bin", "python")
        subprocess.run([found, "-m", "venv", python.parents[1]], check=True)
        pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check"]
        wanted = f"{Path(wheel).resolve()}[serve,study,postgres]"
        subprocess.run([*pip, "install", "--constraint", CONSTRAINTS, wanted], check=True)
        subprocess.run([*pip, "check"], check=True)
        wrong = faults(python, Path(folder), [*OFFICE, "demo --out demo --jobs 20000"])
    return "\n".join(wrong) or "installed, and everything of the trial works"


if __name__ == "__main__":
    results = {version: tried(sys.argv[1], version) for version in sys.argv[2:]}
    for version, words in results.items():
        print(f"Python {version}: {words or 'not tried, it is not installed here'}")
    sys.exit(any(words.startswith("eree ") for words in results.values()))
