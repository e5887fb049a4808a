"""The web process opens release folders and its own package, and nothing else.

The command itself is run, in a folder where confidential things lie beside the releases, and asked
over the network.  Twice: under Python's audit hook, and under the kernel's tracer, which sees what
libraries do without telling Python.  The same judges are shown trespasses, and must find each.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import eree
from processes import PATIENCE, running, until

#: Runs what it is given, either a trespass or the command; with a hook, prints what it noted.
PROGRAM = """
import sys
noted = []
FIRST = {"open", "os.listdir", "os.scandir", "sqlite3.connect", "shutil.copyfile", "os.remove",
         "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.rmtree",
         "tempfile.mkstemp", "tempfile.mkdtemp", "glob.glob", "os.rename", "os.link", "os.symlink",
         "os.setxattr", "os.fwalk", "os.walk", "pathlib.Path.glob", "pathlib.Path.rglob"}
OTHER = {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
         "socket.gethostbyname", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
         "os.spawn", "os.fork", "os.forkpty", "ctypes.dlopen", "mmap.__new__", "ftplib.connect",
         "http.client.connect", "urllib.Request"}
def note(event, given):
    if event in FIRST or event in OTHER:
        noted.append([event, *(fsdecode(x) if isinstance(x, (bytes, str)) else repr(x)
                               if not hasattr(x, "__fspath__") else fsdecode(x) for x in given)])
from os import fsdecode
import json
task, hooked, *words = sys.argv[1:]
if hooked == "hooked":
    sys.addaudithook(note)
try:
    if task:
        exec(task)
    else:
        sys.argv = ["eree", *words]
        from eree.cli import main
        main()
except Exception as error:
    print("FAILED", repr(error), file=sys.stderr)
finally:
    if hooked == "hooked":
        print(json.dumps(noted))
"""
#: Folders and files that the system has for every process; none is anybody's secret.
SYSTEM = (
    *("/usr/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/usr/share/locale"),
    *("/usr/lib/locale", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime"),
    *("/etc/ssl/openssl.cnf", "/etc/locale.alias", "/sys/fs/cgroup", "/sys/kernel/mm"),
    *("/sys/devices/system", "/proc/sys/vm", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/proc/filesystems", "/proc/mounts", "/proc/version_signature", "/dev/null", "/dev/urandom"),
    "/opt/pyca/cryptography/openssl",  # where a library was built, which is nowhere here
)
CHANGING = re.compile(
    r"^(creat|unlink|rename|mkdir|rmdir|link|symlink|truncate|chmod|fchmod|chown|lchown|fchown|"
    r"mknod|utime|futimes|utimensat|setxattr|lsetxattr|mount|umount|chroot|pivot_root|acct|swapon)"
)
CALL = re.compile(r"^(?P<process>\d+) +(?P<name>\w+)\((?P<given>.*)$")


@dataclass(frozen=True)
class Judge:
    """Knows what is public, and what a process of this package has of its own."""

    public: tuple[Path, ...]
    own: tuple[Path, ...]
    listed: tuple[Path, ...]

    @classmethod
    def of(cls, releases: list[Path], maps: list[str]) -> Judge:
        asked = "import json,sys,sysconfig as s;print(json.dumps([s.get_paths(),sys.path]))"
        made = subprocess.run(
            [sys.executable, "-P", "-c", asked],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        paths, searched = json.loads(made.stdout)
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        own = {Path(paths[name]).resolve() for name in names}
        own |= {Path(eree.__file__).resolve().parent, Path(sys.prefix) / "pyvenv.cfg"}
        base = Path(sys.base_prefix).resolve()
        own |= {base / "lib", base / "lib64", *map(Path, SYSTEM)}
        for program in (Path(sys.executable), Path(sys.executable).resolve()):
            names = (f"{program.name}._pth", "pybuilddir.txt", "pyvenv.cfg")
            own |= {program.with_name(name) for name in names}  # how Python finds itself
        return cls(
            (*(folder.resolve() for folder in releases), *map_files(maps)),
            tuple(own),
            tuple(Path(folder).resolve() for folder in searched if folder),
        )

    def may(self, path: Path, *, listing: bool = False) -> bool:
        """Whether it may be opened for reading; links were followed."""
        real = path.resolve()
        if listing and real in self.listed:
            return True
        if re.fullmatch(r"/proc/(self|\d+)/(cgroup|maps|status|stat|mounts|mountinfo)", str(path)):
            return True
        return any(real.is_relative_to(folder) for folder in (*self.public, *self.own))

    def inside(self, path: Path) -> bool:
        """Whether it is of a release."""
        return any(path.resolve().is_relative_to(folder) for folder in self.public)

    def audited(self, noted: list[list[str]], home: Path) -> list[str]:
        """What Python's audit hook has to complain of."""
        found = []
        for event, *given in noted:
            place = home / given[0] if given else home
            if event in ("open", "os.listdir", "os.scandir", "pathlib.Path.glob", "glob.glob"):
                if event == "open" and given[0].isdigit():
                    continue  # a file that is open already
                flags = int(given[2]) if event == "open" else 0
                writes = event == "open" and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                if writes or not self.may(place, listing=event != "open"):
                    found.append(f"{event} {given}")
            elif event == "pathlib.Path.rglob":
                if not self.inside(place):
                    found.append(f"{event} {given}")
            elif event == "socket.bind":
                if "127.0.0.1" not in given[1]:
                    found.append(f"{event} {given}")
            elif event == "mmap.__new__":
                if given[0] != "-1":
                    found.append(f"{event} {given}")
            elif event == "ctypes.dlopen":
                if given[0] != "None" and not self.may(place):
                    found.append(f"{event} {given}")
            else:
                found.append(f"{event} {given}")
        return found

    def traced(self, lines: list[str], home: Path) -> list[str]:
        """What the kernel's tracer has to complain of; what was tried and failed counts too."""
        found, started = [], False
        for line in joined(lines):
            call = CALL.match(line)
            if call is None:
                continue
            name, given = call["name"], call["given"]
            if name in ("open", "openat", "openat2"):
                opened = re.search(r"= \d+<(.*)>$", line)
                quoted = re.search(r'"([^"]*)"', given)
                base = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", given)
                assert quoted, line
                folder = Path(base.group(1)) if base else home
                path = Path(opened.group(1)) if opened else folder / quoted.group(1)
                writes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", given)
                may = self.may(path, listing="O_DIRECTORY" in given)
                if not may or (writes and path != Path("/dev/null")):
                    found.append(line)
            elif name == "execve":
                if started:
                    found.append(line)
                started = True
            elif name in ("sendto", "sendmsg", "sendmmsg"):
                if "sa_family" in given:
                    found.append(line)
            elif name == "bind":
                if 'inet_addr("127.0.0.1")' not in given:
                    found.append(line)
            elif (
                name in ("connect", "execveat", "open_by_handle_at")
                or (name == "io_uring_setup" and "(INJECTED)" not in given)
                or CHANGING.match(name)
                or (name == "socket" and "AF_INET, SOCK_STREAM" not in given)
            ):
                found.append(line)
        return found


def joined(lines: list[str]) -> Iterator[str]:
    """Calls that another thread came between, as one line each."""
    begun: dict[str, str] = {}
    for line in lines:
        process = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>").rstrip()
        elif resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)$", line):
            yield begun.pop(process) + resumed.group(1)
        else:
            yield line
    yield from begun.values()


def environment() -> dict[str, str]:
    """This package, wherever it is run from."""
    source = str(Path(eree.__file__).resolve().parents[1])
    return os.environ | {"PYTHONPATH": source, "PYTHONWARNINGS": ""}


def under_tracer(trace: Path) -> list[str]:
    calls = "trace=%file,%network,execve,execveat,open_by_handle_at,io_uring_setup,fchmod,fchown"
    # The server's loop hands calls to the kernel in a ring, which no tracer sees: it gets none.
    ring = "inject=io_uring_setup:error=ENOSYS"
    settings = ["-D", "-f", "-q", "-y", "-s", "4096", "-e", calls, "-e", ring]
    return ["strace", *settings, "-o", str(trace)]


def lines_of(trace: Path) -> list[str]:
    """The trace, once the tracer has written all of it."""
    end = re.compile(r"^(\d+) +execve(?s:.*)^\1 +\+\+\+ (exited|killed)", re.MULTILINE)

    def text() -> str:
        return trace.read_text("utf-8", errors="replace") if trace.exists() else ""

    assert until(lambda: end.search(text()) is not None), "the tracer wrote no end"
    return text().splitlines()


def map_files(maps: list[str]) -> list[Path]:
    """The public files that maps are read from; they lie beside confidential ones."""
    return [Path(text.partition("=")[2]).resolve() for text in maps]


def served(before: list[str], hooked: str, releases: list[Path], maps: list[str]) -> str:
    """Run the command beside what is confidential, ask it much, and stop it: what it printed."""
    home = releases[0].parent
    command = [sys.executable, "-P", "-B", "-c", PROGRAM, "", hooked, "serve", "--port", "0"]
    named = [word for text in maps for word in ("--map", text)]
    whole = [*before, *command, "--json", *named, *(folder.name for folder in releases)]
    with running(whole, cwd=home, env=environment()) as process:
        assert process.stdout is not None
        start = json.loads(process.stdout.readline())
        statuses = [status(start["address"] + path) for path in asked(start["data_sets"])]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert set(statuses) == {200, 400, 404} and statuses.count(200) > 60
    return out


def asked(names: list[str]) -> Iterator[str]:
    yield from ("/", "/index.json", "/openapi.json", "/api", "/static/style.css", "/static/none")
    yield "/methods"
    for name in names:
        for end in ("", ".json", ".csv", ".xlsx", ".parquet", ".jsonstat", "/chart", "/ranking"):
            yield f"/d/{name}{end}"
        for end in ("/threshold", "/about", "/about.json", "/nothing", "?rows=../../tables.db"):
            yield f"/d/{name}{end}"
        for end in ("/map", "/certificate.json"):
            yield f"/d/{name}{end}"
    yield from ("/../tables.db", "/static/..%2f..%2ftables.db", "/d/..%2ftables.db")
    yield "//etc/passwd"


def status(address: str) -> int:
    try:
        with urlopen(address, timeout=PATIENCE) as reply:
            reply.read()
            return int(reply.status)
    except HTTPError as error:
        with error:
            return int(error.code)


@pytest.fixture(scope="module")
def judge(releases: list[Path], maps: list[str]) -> Judge:
    return Judge.of(releases, maps)


def test_python_opens_nothing_but_the_releases_the_maps_and_the_package(
    releases: list[Path], maps: list[str], judge: Judge
) -> None:
    noted = json.loads(served([], "hooked", releases, maps).splitlines()[-1])
    home = releases[0].parent
    assert judge.audited(noted, home) == []
    opened = [home / given[0] for event, *given in noted if event == "open"]
    assert sum(judge.inside(path) for path in set(opened)) > 5  # the hook sees what is opened
    assert [opened.count(file) for file in map_files(maps)] == [1, 1]  # each map once
    assert sum(event == "socket.bind" for event, *_ in noted) == 1


def test_no_library_opens_anything_else_either(
    releases: list[Path], maps: list[str], judge: Judge, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    served(under_tracer(trace), "free", releases, maps)
    lines = lines_of(trace)
    assert judge.traced(lines, releases[0].parent) == []
    calls = list(joined(lines))
    begin = next(number for number, line in enumerate(calls) if " listen(" in line)
    of_releases = [
        number
        for number, line in enumerate(calls)
        if any(f"<{folder}/" in line for folder in judge.public) and "openat(" in line
    ]
    assert len(of_releases) > 20
    assert max(of_releases) < begin  # nothing of a release is opened once people may ask
    assert sum(" accept4(" in line for line in calls) > 60


#: What a server that went astray might do; {home} has the ledgers and the data, {public} is public.
TRESPASSES = {
    "ledger": "open('{home}/tables.db', 'rb').read(1)",
    "ledger by its door": "import sqlite3; sqlite3.connect('{home}/tables.db').close()",
    "ledger from here": "open('tables.db', 'rb').read(1)",
    "key": "import pathlib; pathlib.Path('{home}/key.pem').read_bytes()",
    "key that is not there": "import os; open('{home}/other.pem')",
    "data": "import os; os.read(os.open('{home}/data/schema.toml', os.O_RDONLY), 1)",
    "way up": "open('{public}/../tables.db', 'rb').read(1)",
    "link": "open('{public}/tables/linked.csv', 'rb').read(1)",
    "link to a folder": "open('{public}/beside/tables.db', 'rb').read(1)",
    "folder beside": "import os; os.listdir('{home}')",
    "folders beside": "import pathlib; list(pathlib.Path('{home}').iterdir())",
    "passwords": "open('/etc/passwd').read(1)",
    "home": "import os; os.listdir(os.path.expanduser('~'))",
    "writing": "open('{public}/note.txt', 'w').close()",
    "writing by number": "import os; os.open('{public}/note.txt', os.O_CREAT | os.O_WRONLY)",
    "removing": "import os; os.remove('{public}/release.json')",
    "renaming": "import os; os.rename('{public}/release.json', '{public}/old.json')",
    "new folder": "import os; os.mkdir('{public}/new')",
    "line out": "import socket; socket.socket().connect(('127.0.0.1', 9))",
    "line out, unwaited": "import socket; s = socket.socket(); s.setblocking(False);"
    " s.connect_ex(('192.0.2.1', 80))",
    "letter out": "import socket; socket.socket(type=2).sendto(b'x', ('127.0.0.1', 9))",
    "local line": "import socket; socket.socket(socket.AF_UNIX).connect('{home}/pg.sock')",
    "name": "import socket; socket.getaddrinfo('localhost', 80)",
    "open to all": "import socket; socket.socket().bind(('0.0.0.0', 0))",
    "program": "import subprocess; subprocess.run(['true'])",
    "shell": "import os; os.system('true')",
}
#: What Python is not told of.
UNHEARD = {
    "data by a library": "import pyarrow.parquet as p; p.read_table('{home}/data/place.parquet')",
    "folder by its number": "import os; f = os.open('{public}', os.O_RDONLY);"
    " os.open('../tables.db', os.O_RDONLY, dir_fd=f)",
    "changed place": "import os; os.chdir('{public}'); open('../tables.db').close()",
}


@pytest.fixture
def beside(releases: list[Path], tmp_path: Path) -> Path:
    """A copy of what lies around the releases, with a key, and links that lead out of one."""
    for name in ("tables.db", "key.pem"):
        (tmp_path / name).write_bytes(b"secret")
    data = releases[0].parent / "data"
    (tmp_path / "data").mkdir()
    for name in ("schema.toml", "place.parquet"):
        (tmp_path / "data" / name).write_bytes((data / name).read_bytes())
    (tmp_path / "public" / "tables").mkdir(parents=True)
    (tmp_path / "public" / "release.json").write_text("{}", encoding="utf-8")
    (tmp_path / "public" / "tables" / "linked.csv").symlink_to(tmp_path / "tables.db")
    (tmp_path / "public" / "beside").symlink_to("..")
    return tmp_path


def complaints(task: str, hooked: bool, home: Path) -> list[str]:
    """What a judge says of some code."""
    judge = Judge.of([home / "public"], [])
    task = task.format(home=home, public=home / "public")
    word = "hooked" if hooked else "free"
    before = [] if hooked else under_tracer(home / "trace")
    done = subprocess.run(
        [*before, sys.executable, "-P", "-B", "-c", PROGRAM, task, word],
        cwd=home,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    if hooked:
        return judge.audited(json.loads(done.stdout.splitlines()[-1]), home)
    return judge.traced(lines_of(home / "trace"), home)


@pytest.mark.parametrize("name", [*TRESPASSES, *UNHEARD])
def test_the_tracer_finds_every_trespass(name: str, beside: Path) -> None:
    assert complaints((TRESPASSES | UNHEARD)[name], False, beside)


@pytest.mark.parametrize("name", TRESPASSES)
def test_the_hook_finds_what_python_is_told_of(name: str, beside: Path) -> None:
    assert complaints(TRESPASSES[name], True, beside)


@pytest.mark.parametrize("hooked", [True, False], ids=["hook", "tracer"])
def test_what_is_public_is_no_trespass(hooked: bool, beside: Path) -> None:
    task = (
        "import os, socket, json.tool, decimal; open('{public}/release.json').read();"
        " os.listdir('{public}/tables'); s = socket.socket(); s.bind(('127.0.0.1', 0)); s.close()"
    )
    assert complaints(task, hooked, beside) == []
