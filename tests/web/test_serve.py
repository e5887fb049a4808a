"""`eree serve` as its user meets it: what it says, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

import eree
import pages
from eree.cli.exit_status import run
from eree.cli.interrupts import Interrupts
from eree.errors import Refusal
from eree.web.catalogue import Catalogue
from eree.web.server import Door, QueryTool
from processes import PATIENCE, running

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@contextmanager
def started(
    *arguments: str | Path, cwd: Path, ignoring: Iterable[signal.Signals] = ()
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command that serves, and what it had printed when it said where."""
    source = str(Path(eree.__file__).resolve().parents[1])
    command = [sys.executable, "-m", "eree", *map(str, arguments)]
    surroundings = pages.environment() | {"PYTHONPATH": source}
    with running(command, ignoring=ignoring, cwd=cwd, env=surroundings) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(("Serving", '{"address"')):
                break
        yield process, lines


def asked(address: str, path: str) -> dict[str, object]:
    with urlopen(address + path, timeout=PATIENCE) as reply:
        found = json.load(reply)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("number", STOPS, ids=lambda number: number.name)
def test_it_says_where_it_serves_and_a_signal_ends_it(
    number: signal.Signals, releases: list[Path]
) -> None:
    with started("serve", "cube", "--port", "0", cwd=releases[0].parent) as (server, lines):
        said = re.fullmatch(
            r"Serving 1 data set at (http://127\.0\.0\.1:\d+)  \(stop with Ctrl-C\)\n", lines[0]
        )
        assert said
        listed = asked(said.group(1), "/index.json")["data_sets"]
        assert isinstance(listed, list) and len(listed) == 1
        server.send_signal(number)
        assert server.communicate(timeout=PATIENCE) == ("", "")
        assert server.returncode == 0


@pytest.mark.parametrize(("host", "said"), [("0.0.0.0", True), ("127.0.0.2", False)])
def test_it_says_that_other_machines_may_reach_it(
    host: str, said: bool, releases: list[Path]
) -> None:
    given = ("serve", "cube", "--port", "0", "--host", host)
    with started(*given, cwd=releases[0].parent) as (server, _):
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=PATIENCE)
    assert err.startswith(f"eree: other machines may reach http://{host}:") if said else not err


def test_a_server_under_nohup_outlives_its_terminal(releases: list[Path]) -> None:
    """What it is started to ignore it ignores; a polite kill still ends it."""
    ignored = [signal.SIGINT, signal.SIGHUP]
    with started(
        "serve", "cube", "--port", "0", "--json", cwd=releases[0].parent, ignoring=ignored
    ) as (server, lines):
        for number in ignored:
            server.send_signal(number)
        assert asked(json.loads(lines[0])["address"], "/index.json")["data_sets"]
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"^SigIgn:\s*([0-9a-f]+)$", status, re.MULTILINE)
        assert found and all(int(found[1], 16) >> (number - 1) & 1 for number in ignored)
        server.terminate()
        assert server.communicate(timeout=PATIENCE) == ("", "")
        assert server.returncode == 0


def test_the_start_is_one_json_object_and_the_port_is_free_again(releases: list[Path]) -> None:
    home, port = releases[0].parent, "0"
    for names in (["tables", "cube"], ["cube"]):
        with started("serve", *names, "--port", port, "--json", cwd=home) as (server, lines):
            said = json.loads(lines[0])
            assert {"address", "data_sets"} <= said.keys()
            assert (len(said["data_sets"]) > 1) is ("tables" in names)
            for name in said["data_sets"]:
                assert asked(said["address"], f"/d/{name}.json")["cells"]
            port = said["address"].rsplit(":", 1)[1]
            server.terminate()
            assert server.communicate(timeout=PATIENCE) == ("", "")


def test_the_public_address_is_the_one_that_is_cited(releases: list[Path]) -> None:
    tool = QueryTool(releases[1:], port=0, home="https://data.example.org/")
    assert tool.home == "https://data.example.org"
    assert tool.address.startswith("http://127.0.0.1:")
    tool.run(tool.stop)  # stopped as soon as it has begun


# ---------------------------------------------------------------------------- what is refused

Spoil = Callable[[Path, Path], list[str]]


def changed(folder: Path, file: str) -> None:
    with (folder / file).open("a", encoding="utf-8") as text:
        text.write("9\n")


def replaced(folder: Path, home: Path) -> list[str]:
    file = folder / "tables" / "cells.csv"
    file.rename(home / "cells.csv")
    file.symlink_to(home / "cells.csv")
    return [str(folder)]


def piped(folder: Path, _home: Path) -> list[str]:
    (folder / "release.json").unlink()
    os.mkfifo(folder / "release.json")  # whoever opens it waits for ever
    return [str(folder)]


def linked(folder: Path, home: Path) -> list[str]:
    (folder / "release.json").rename(home / "release.json")
    (folder / "release.json").symlink_to("/etc/shadow")
    return [str(folder)]


REFUSED: dict[str, tuple[Spoil, str]] = {
    "nothing named": (lambda f, h: [], r"Missing argument 'DIR…'; see 'eree serve --help'"),
    "nothing there": (lambda f, h: [f"{h}/no"], r"\S+/no holds no release.json; name the folder"),
    "a file": (lambda f, h: [f"{f}/release.json"], r"\S+ is a file; name the folder of a release"),
    "folder of folders": (
        lambda f, h: [str(h)],
        r"\S+ is no release, but holds some; name them: \S+/public",
    ),
    "folder of other things": (lambda f, h: [f"{f}/tables"], r"\S+/tables holds no release.json"),
    "named twice": (lambda f, h: [str(f), f"{f}/"], r"\S+ holds a release that is named twice"),
    "copied": (
        lambda f, h: [str(f), str(shutil.copytree(f, h / "copy"))],
        r"\S+/copy holds a release that is named twice; name each once",
    ),
    "changed": (
        lambda f, h: [changed(f, "tables/cells.csv") or str(f)],
        r"\S+ is not served: release \(tables/cells.csv\): was changed: .*",
    ),
    "changed record": (
        lambda f, h: [changed(f, "release.json") or str(f)],
        r"\S+release.json cannot be read as a release's record",
    ),
    "a link out": (replaced, r"\S+ is not served: cells.csv in it is no plain file and may lead.*"),
    "a link for the record": (linked, r"\S+ is not served: release.json in it is no plain file.*"),
    "a pipe": (piped, r"\S+ is not served: release.json in it is no plain file and may lead.*"),
    "port too large": (
        lambda f, h: [str(f), "--port", "65536"],
        r"a port is a number from 0 to 65535",
    ),
    "no port": (lambda f, h: [str(f), "--port", "x"], r"Invalid value for '--port': 'x' is not.*"),
    "no host": (
        lambda f, h: [str(f), "--host", "no.such.host.invalid"],
        r"no.such.host.invalid is no address of this machine; choose one with --host.*",
    ),
    "a host elsewhere": (
        lambda f, h: [str(f), "--host", "192.0.2.1"],
        r"192.0.2.1 is no address of this machine; .*",
    ),
    "no address": (
        lambda f, h: [str(f), "--port", "0", "--address", "data.example.org"],
        r"the public address is one such as https://data.example.org",
    ),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "JSON"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    name: str,
    as_json: bool,
    releases: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil, reason = REFUSED[name]
    folder = shutil.copytree(releases[1], tmp_path / "public")
    given = spoil(folder, tmp_path)
    port = [] if "--port" in given or not given else ["--port", "0"]
    assert run(["serve", *given, *port, *["--json"] * as_json], Interrupts()) == 2
    out, err = capsys.readouterr()
    assert re.fullmatch(rf"eree: {reason}[^\n]*\n", err), err
    assert bool(out) is as_json
    if as_json:
        assert json.loads(out).keys() == {"error"}
    assert "root:" not in out + err


@pytest.mark.parametrize(
    "address",
    [
        "ftp://data.example.org",
        "https://",
        "//data.example.org",
        "https://data.example.org/?a=b",
        "https://data.example.org/#top",
        "https://someone@data.example.org",
        "https://data.example.org/jobs//more",
        "https://data.example.org/../jobs",
        "https://data.example.org:port",
        "https://data.example.org/a b",
        "https://data.example.org/\r\nset-cookie:a",
        'https://data.example.org/"><script>',
        "https://dätä.example.org",
        "https://[::1",
        "",
    ],
)
def test_a_public_address_that_is_none_is_refused(address: str, releases: list[Path]) -> None:
    with pytest.raises(Refusal, match="the public address is one such as"):
        QueryTool(releases, port=0, home=address)


def test_a_port_in_use_is_refused_before_anything_is_read(
    releases: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = (
            f"eree: port {port} of 127.0.0.1 is in use; choose another with --port, or --port 0\n"
        )
        assert run(["serve", str(tmp_path / "nowhere"), "--port", port], Interrupts()) == 2
        assert capsys.readouterr() == ("", said)
        demo = ["demo", "--out", str(tmp_path / "demo"), "--serve", "--port", port]
        assert run(demo, Interrupts()) == 2
        assert capsys.readouterr() == ("", said)
    assert not (tmp_path / "demo").exists()


def test_a_port_is_given_back_where_nothing_is_served(tmp_path: Path) -> None:
    door = Door(port=0)
    with pytest.raises(Refusal, match=r"holds no release\.json"):
        QueryTool([tmp_path / "nowhere"], door=door)
    assert door.socket.fileno() == -1


# ------------------------------------------------------------------------- what is served


def test_a_link_to_a_release_is_as_good_as_its_folder(releases: list[Path], tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(releases[1])
    assert len(Catalogue.open([tmp_path / "latest"]).data_sets) == 1


def test_progress_names_the_folder_and_never_goes_back(
    releases: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EREE_CACHE", "")  # where it is known to be sound
    reported: list[tuple[str, float]] = []
    Catalogue.open(releases, lambda step, done: reported.append((step, done)))
    shares = [done for _, done in reported]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    for folder in releases:
        assert any(re.fullmatch(rf"verifying {folder}: .+", step) for step, _ in reported)
        assert (f"reading {folder}" in {step for step, _ in reported}) is True
    assert len(set(shares)) > 8  # large releases take long to verify


def test_an_interrupt_while_verifying_ends_it(
    releases: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupts = Interrupts()

    def pressed(*_: object, **__: object) -> None:
        interrupts._stop(signal.SIGINT, None)

    monkeypatch.setenv("EREE_CACHE", "")  # where it is known to be sound
    monkeypatch.setattr("eree.verification.verify.verify", pressed)
    assert run(["serve", str(releases[1]), "--port", "0"], interrupts) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_demo_can_end_with_a_query_tool_over_its_release_and_its_cube(tmp_path: Path) -> None:
    demo = ["demo", "--out", "demo", "--jobs", "2000", "--serve", "--port", "0"]
    with started(*demo, cwd=tmp_path) as (server, lines):
        assert "Browser  eree serve demo/release demo/cube\n" in lines
        address = re.search(r"http://127\.0\.0\.1:\d+", lines[-1])
        assert address and lines[-1].startswith("Serving 3 data sets at")
        listed = asked(address.group(), "/index.json")["data_sets"]
        assert isinstance(listed, list)
        assert [entry["kind"] for entry in listed] == ["table", "table", "cube"]
        for entry in listed:
            assert asked(address.group(), f"/d/{entry['name']}.json")["cells"]
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=PATIENCE) == ("", "")
        assert server.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_make_serve_is_the_demo_with_its_query_tool() -> None:
    recipes = {}
    for target in ("demo", "serve"):
        made = subprocess.run(
            ["make", "--no-print-directory", "--dry-run", "--always-make", target],
            cwd=pages.ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        recipes[target] = made.stdout.splitlines()[-1]
    assert recipes["serve"].endswith("eree demo --out build/demo --serve")
    assert "make serve" in recipes["demo"]
