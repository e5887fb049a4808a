"""The web process opens release folders and its own package, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

#: Serves some requests under an audit hook that notes every file, folder, socket and process.
SERVED = """
import json, os, sys
noted = []
def note(event, given):
    if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
        path = given[0]
        if isinstance(path, (str, bytes, os.PathLike)):
            writes = event == "open" and isinstance(given[1], str) and set(given[1]) & set("wax+")
            noted.append((event, os.path.abspath(os.fsdecode(path)), bool(writes)))
    elif event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen",
                   "os.system", "os.exec", "os.posix_spawn"):
        noted.append((event, "", True))
    elif event in ("os.remove", "os.rename", "os.mkdir", "shutil.rmtree", "tempfile.mkstemp"):
        noted.append((event, os.path.abspath(str(given[0])), True))
sys.addaudithook(note)
from asyncio import run
from eree.web.app import application
from eree.web.catalogue import Catalogue
maps = [text for text in sys.argv[1:] if "=" in text]
catalogue = Catalogue.open([path for path in sys.argv[1:] if "=" not in path], maps=maps)
app = application(catalogue, "http://home")
statuses = []
async def get(path, query=b""):
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
             "query_string": query, "headers": [], "root_path": "", "scheme": "http",
             "http_version": "1.1", "server": ("home", 80), "client": ("1.2.3.4", 5)}
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
    await app(scope, receive, send)
async def main():
    started = len(noted)
    await get("/")
    await get("/methods")
    await get("/static/style.css")
    for data in catalogue.data_sets:
        for end in ("", ".json", ".csv", ".xlsx", ".parquet", ".jsonstat", "/chart", "/map",
                    "/ranking", "/threshold", "/about", "/certificate.json", "/nothing"):
            await get(f"/d/{data.name}{end}")
    await get("/../../etc/passwd")
    return started
started = run(main())
print(json.dumps({"noted": noted, "started": started, "statuses": statuses}))
"""


def files(maps: list[str]) -> list[Path]:
    """The public files that maps are read from, which lie beside confidential ones."""
    return [Path(text.partition("=")[2]).resolve() for text in maps]


def inside(path: Path, folders: list[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def own() -> list[Path]:
    """The package, its libraries, and what the system has for every process."""
    library = [Path(p).resolve() for p in sys.path if p]
    prefixes = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix)]
    system = ["/proc", "/sys", "/dev", "/etc", "/usr/lib", "/usr/share", "/lib", "/lib64"]
    return [*library, *prefixes, *map(Path, system)]


def test_python_opens_nothing_but_the_releases_the_maps_and_the_package(
    releases: list[Path], maps: list[str]
) -> None:
    command = [sys.executable, "-c", SERVED, *map(str, releases), *maps]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["statuses"].count(200) > 30 and 404 in found["statuses"]
    public = [*(folder.resolve() for folder in releases), *files(maps)]
    seen = set()
    for event, name, writes in found["noted"]:
        assert not writes or "__pycache__" in name, (event, name)
        path = Path(name).resolve()
        if inside(path, public):
            seen.add(path)
        else:
            assert inside(path, own()) or path == Path.cwd(), (event, name)
    assert len(seen) > 5  # the hook does see what is opened
    opened = [Path(name).resolve() for event, name, _ in found["noted"] if event == "open"]
    assert [opened.count(file) for file in files(maps)] == [1, 1]  # each map once
    for _, name, _ in found["noted"][found["started"] :]:  # and no release is opened afterwards
        assert not inside(Path(name).resolve(), public), name


def test_no_library_opens_anything_else_either(
    releases: list[Path], maps: list[str], tmp_path: Path
) -> None:
    """Libraries open files without telling Python; the kernel is told."""
    trace = tmp_path / "trace"
    calls = "trace=open,openat,openat2,creat,connect,unlink,rename,mkdir"
    command = ["strace", "-f", "-q", "-e", calls, "-o", str(trace)]
    program = [sys.executable, "-B", "-c", SERVED, *map(str, releases), *maps]
    subprocess.run([*command, *program], capture_output=True, check=True)
    public = [*(folder.resolve() for folder in releases), *files(maps)]
    seen = set()
    for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
        if "= -1" in line or "resumed>" in line:
            continue
        assert not re.search(r"\b(connect|creat|unlink|rename|mkdir)\(", line), line
        name = re.search(r'"([^"]*)"', line)
        if name is None:
            continue
        path = Path(name.group(1)).resolve()
        if inside(path, public):
            seen.add(path)
        else:
            assert inside(path, own()) or path == Path.cwd(), line
        assert ("O_WRONLY" not in line and "O_RDWR" not in line) or inside(path, [Path("/dev")]), (
            line
        )
    assert sum(path.suffix == ".parquet" for path in seen) >= 6
