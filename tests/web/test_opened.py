"""The web process opens release folders, maps and its own package, and nothing else.

Before it listens, and not afterwards, it may also read and write entries of the cache folder.
The command itself is run, in a folder where confidential things lie beside the releases, and asked
over the network.  Twice: under Python's audit hook, and under the kernel's tracer, which sees what
libraries do without telling Python.  The same judges are shown trespasses, and must find each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import eree
from eree.mechanisms.cache import certificate_of
from eree.web.catalogue import Catalogue
from processes import PATIENCE, running, until

pytestmark = pytest.mark.xdist_group("opened")

#: Notes what Python is about to open, where there is to be a hook.
HOOK = """
import json, os, sys
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
    if event == "mmap.__new__" and given[0] >= 0:
        given = (os.readlink(f"/proc/self/fd/{given[0]}"), *given[1:])
    if event in FIRST or event in OTHER:
        noted.append([event, *(fsdecode(x) if isinstance(x, (bytes, str)) else repr(x)
                               if not hasattr(x, "__fspath__") else fsdecode(x) for x in given)])
from os import fsdecode
given = sys.argv[1:]
hooked = given.pop(0) == "hooked"
if hooked:
    sys.addaudithook(note)
"""
#: Runs the command; a file that was open before gets what a hook noted, and when it listened.
COMMAND = f"""
import sys
report = open(sys.argv.pop(1), "w")
{HOOK}
try:
    if hooked:
        from eree.web.server import QueryTool
        def run(tool, ready=None, run=QueryTool.run):
            noted.append(["listening"])
            run(tool, ready)
        QueryTool.run = run
    sys.argv = ["eree", *given]
    from eree.cli import main
    main()
finally:
    json.dump(noted, report)
    report.close()
"""
#: Runs trespasses, each in a process of its own; a look at MARK tells the tracer where one begins.
MARK = "/mark-of-trespass/"
TASKS = f"""{HOOK}
for number, (home, task) in enumerate(json.loads(given[0])):
    os.path.exists("{MARK}" + str(number))
    child = os.fork()
    if not child:
        try:
            os.chdir(home)
            noted.clear()
            exec(task)
        except Exception:
            pass  # what is tried and fails counts too
        finally:
            print(json.dumps(noted), flush=True)
            os._exit(0)
    os.waitpid(child, 0)
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
#: What the cache folder takes.  Newer machines know these calls only with the folder beside a name.
OWN_CHANGE = re.compile("(mkdir|rename|unlink)(?:at2?)?")
NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')
CALL = re.compile(r"^(?P<process>\d+) +(?P<name>\w+)\((?P<given>.*)$")


@dataclass(frozen=True)
class Judge:
    """Knows what is public, and what a process of this package has of its own."""

    public: tuple[Path, ...]
    own: tuple[Path, ...]
    listed: tuple[Path, ...]
    cache: Path

    @classmethod
    def of(cls, releases: list[Path], maps: list[str], cache: Path) -> Judge:
        paths, searched = paths_of_python()
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
            cache.resolve(),
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

    def entries(self, *paths: Path) -> bool:
        """Whether all are entries of the cache folder, and no links that lead out of it."""
        return all(path.resolve().parent == self.cache for path in paths)

    def cached(self, event: str, given: list[str], home: Path) -> bool:
        """Whether an event is of the cache folder alone."""
        if event in ("os.mkdir", "os.listdir", "os.scandir"):
            return (home / given[0]).resolve() == self.cache
        if event in ("open", "tempfile.mkstemp", "os.remove", "mmap.__new__"):
            return self.entries(home / given[0])
        return event == "os.rename" and self.entries(home / given[0], home / given[1])

    def audited(self, noted: list[list[str]], home: Path) -> list[str]:
        """What Python's audit hook has to complain of."""
        found, listening = [], False
        for event, *given in noted:
            place = home / given[0] if given else home
            if event == "listening":
                listening = True
            elif not listening and self.cached(event, given, home):
                continue
            elif event in ("open", "os.listdir", "os.scandir", "pathlib.Path.glob", "glob.glob"):
                if event == "open" and given[0].isdigit():
                    continue  # a file that is open already
                flags = int(given[2]) if event == "open" else 0
                writes = event == "open" and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                if writes or not self.may(place, listing=event != "open"):
                    found.append(f"{event} {given}")
            elif event == "pathlib.Path.rglob":
                package = place.resolve().is_relative_to(Path(eree.__file__).resolve().parent)
                if not (package or self.inside(place)):
                    found.append(f"{event} {given}")
            elif event == "socket.bind":
                if "127.0.0.1" not in given[1]:
                    found.append(f"{event} {given}")
            elif event == "mmap.__new__":
                if given[0] != "-1":
                    found.append(f"{event} {given}")
            elif event == "os.fork":
                continue  # of who waits with those that come early, whom the tracer sees
            elif event == "ctypes.dlopen":
                if given[0] != "None" and not self.may(place):
                    found.append(f"{event} {given}")
            else:
                found.append(f"{event} {given}")
        return found

    def traced(self, lines: list[str], home: Path, *, started: bool = False) -> list[str]:
        """What the kernel's tracer has to complain of; what was tried and failed counts too."""
        found, calls = [], [call for call in map(CALL.match, joined(lines)) if call is not None]
        heard = [number for number, call in enumerate(calls) if call["name"] == "listen"]
        waiting = set[str]()  # who says that releases are being verified listens before the tool
        for number, call in enumerate(calls):
            name, given, line = call["name"], call["given"], call[0]
            listening = number > max(heard, default=len(calls)) or call["process"] in waiting
            if name in ("open", "openat", "openat2"):
                opened = re.search(r"= \d+<(.*)>$", line)
                quoted = re.search(r'"([^"]*)"', given)
                base = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", given)
                assert quoted, line
                folder = Path(base.group(1)) if base else home
                path = Path(opened.group(1)) if opened else folder / quoted.group(1)
                writes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", given)
                listing = "O_DIRECTORY" in given
                if not listening and (
                    self.entries(path) or (listing and path.resolve() == self.cache)
                ):
                    continue
                may = self.may(path, listing=listing)
                if not may or (writes and path != Path("/dev/null")):
                    found.append(line)
            elif name == "listen":
                waiting.add(call["process"])
            elif own := OWN_CHANGE.fullmatch(name):
                paths = [Path(base or home) / text for base, text in NAMED.findall(given)]
                makes, empties = own[1] == "mkdir", "AT_REMOVEDIR" in given
                folder = makes and paths[0].resolve() == self.cache
                entry = not (makes or empties) and self.entries(*paths)
                if listening or not (folder or entry):
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


@cache
def paths_of_python() -> tuple[dict[str, str], list[str]]:
    """Where a new process of this Python has its parts, and where it looks for modules."""
    asked = "import json,sys,sysconfig as s;print(json.dumps([s.get_paths(),sys.path]))"
    made = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    paths, searched = json.loads(made.stdout)
    return paths, searched


def under_tracer(trace: Path) -> list[str]:
    calls = "trace=%file,%network,execve,execveat,open_by_handle_at,io_uring_setup,fchmod,fchown"
    # The server's loop hands calls to the kernel in a ring, which no tracer sees: it gets none.
    ring = "inject=io_uring_setup:error=ENOSYS"
    settings = ["-D", "-f", "--seccomp-bpf", "-q", "-y", "-s", "4096", "-e", calls, "-e", ring]
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


def served(before: list[str], report: Path | None, releases: list[Path], maps: list[str]) -> None:
    """Run the command beside what is confidential, ask it much, and stop it; a hook reports."""
    home = releases[0].parent
    how = ["/dev/null", "free"] if report is None else [str(report), "hooked"]
    command = [sys.executable, "-P", "-B", "-c", COMMAND, *how, "serve", "--port", "0"]
    named = [word for text in maps for word in ("--map", text)]
    whole = [*before, *command, "--json", *named, *(folder.name for folder in releases)]
    with running(whole, cwd=home, env=environment()) as process:
        assert process.stdout is not None
        start = json.loads(process.stdout.readline())
        statuses = [status(start["address"] + path) for path in asked(start["data_sets"])]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    assert set(statuses) == {200, 400, 404} and statuses.count(200) > 60


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
        if name.startswith("tracts"):  # intervals at another level might come from the cache
            yield f"/d/{name}/chart?confidence=0.99&show=margin"
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


@pytest.fixture
def missing(
    releases: list[Path], maps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The one entry that is needed and not in the cache folder; it is quickly made."""
    Catalogue.open(releases, maps=maps)
    kept = shutil.copytree(os.environ["EREE_CACHE"], tmp_path / "kept")
    monkeypatch.setenv("EREE_CACHE", str(tmp_path / "one"))
    certificate_of(eree.mechanism("log-laplace-tight", alpha="0.1", epsilon=1))
    (entry,) = (tmp_path / "one").iterdir()
    (kept / entry.name).unlink()
    monkeypatch.setenv("EREE_CACHE", str(kept))
    return kept / entry.name


@pytest.fixture
def judge(releases: list[Path], maps: list[str], missing: Path) -> Judge:
    """Allows the cache folder that holds all that is needed but one entry."""
    return Judge.of(releases, maps, missing.parent)


def only_digests_beside(missing: Path, before: set[Path], releases: list[Path]) -> bool:
    """Whether the missing entry was made and, beside it, only digests of large files that settled.

    Entries are such files as well.

    How many of these are new depends on how long ago the files were written.
    """
    new = set(missing.parent.iterdir()) - before
    files = [path for folder in releases for path in folder.rglob("*") if path.is_file()]
    found = [sha256(path.read_bytes()).digest() for path in files]
    found += [path.read_bytes()[:32] for path in before]
    digests = {f'["{digest.hex()}"]'.encode() for digest in found}
    others = {path.read_bytes()[32:] for path in new - {missing}}
    return missing in new and others <= digests


def test_python_opens_nothing_but_the_releases_the_maps_and_the_package(
    releases: list[Path], maps: list[str], judge: Judge, missing: Path, tmp_path: Path
) -> None:
    before = set(judge.cache.iterdir())
    served([], tmp_path / "noted.json", releases, maps)
    noted = json.loads((tmp_path / "noted.json").read_text("utf-8"))
    home = releases[0].parent
    assert judge.audited(noted, home) == []
    opened = [home / given[0] for event, *given in noted if event == "open"]
    assert sum(judge.inside(path) for path in set(opened)) > 5  # the hook sees what is opened
    assert [opened.count(file) for file in map_files(maps)] == [1, 1]  # each map once
    assert sum(event == "socket.bind" for event, *_ in noted) == 1
    assert sum(event == "listening" for event, *_ in noted) == 1
    assert sum(event == "os.fork" for event, *_ in noted) == 1
    assert len({path for path in opened if judge.entries(path)}) > 1
    assert only_digests_beside(missing, before, releases)


def test_no_library_opens_anything_else_either(
    releases: list[Path], maps: list[str], judge: Judge, missing: Path, tmp_path: Path
) -> None:
    before = set(judge.cache.iterdir())
    trace = tmp_path / "trace"
    served(under_tracer(trace), None, releases, maps)
    lines = lines_of(trace)
    assert judge.traced(lines, releases[0].parent) == []
    calls = list(joined(lines))
    begin = max(number for number, line in enumerate(calls) if " listen(" in line)
    of_releases = [
        number
        for number, line in enumerate(calls)
        if any(f"<{folder}/" in line for folder in judge.public) and "openat(" in line
    ]
    assert len(of_releases) > 20
    assert max(of_releases) < begin  # nothing of a release is opened once people may ask
    assert sum(" accept4(" in line for line in calls) > 60
    assert sum(f"<{judge.cache}/" in line and "openat(" in line for line in calls) > 1
    assert only_digests_beside(missing, before, releases)


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
    "mapping": "import mmap; f = open('{home}/tables.db', 'rb'); noted.clear();"
    " mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)",
    "mapping while it listens": "import mmap; {listen}; f = open('{home}/cache/entry', 'rb');"
    " noted.pop(); mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)",
    "program": "import subprocess; subprocess.run(['true'])",
    "shell": "import os; os.system('true')",
    "cache while it listens": "{listen}; open('{home}/cache/entry', 'rb').read(1)",
    "cache listed while it listens": "import os; {listen}; os.listdir('{home}/cache')",
    "cache written while it listens": "{listen}; open('{home}/cache/new', 'w').close()",
    "cache made while it listens": "import os; {listen}; os.mkdir('{home}/cache')",
    "link in the cache": "open('{home}/cache/linked', 'rb').read(1)",
    "folder in the cache": "import os; os.mkdir('{home}/cache/deep')",
    "way up from the cache": "open('{home}/cache/../tables.db', 'rb').read(1)",
    "out of the cache": "import os; os.rename('{home}/cache/entry', '{public}/entry')",
    "into the cache": "import os; os.rename('{public}/release.json', '{home}/cache/new')",
}
#: Begins to listen, and says so to the hook, which does not hear of it.
LISTEN = (
    "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
    " noted.append(['listening'])"
)
#: What Python does not hear of.
UNHEARD = {
    "data by a library": "import pyarrow.parquet as p; p.read_table('{home}/data/place.parquet')",
    "folder by its number": "import os; f = os.open('{public}', os.O_RDONLY);"
    " os.open('../tables.db', os.O_RDONLY, dir_fd=f)",
    "changed place": "import os; os.chdir('{public}'); open('../tables.db').close()",
}


#: What is no trespass.
PUBLIC = {
    "release": "import os, socket, json.tool, decimal; open('{public}/release.json').read();"
    " os.listdir('{public}/tables'); s = socket.socket(); s.bind(('127.0.0.1', 0)); s.close()",
    "cache": "import os, tempfile; os.listdir('{home}/cache'); open('{home}/cache/entry').read();"
    " f, name = tempfile.mkstemp(dir='{home}/cache'); os.rename(name, '{home}/cache/new');"
    " os.remove('{home}/cache/entry'); os.mkdir('{home}/cache')",
}
TRIED = TRESPASSES | UNHEARD | PUBLIC
#: What a judge says of each, by the hook or by the tracer.
Trespassers = Callable[[bool], dict[str, list[str]]]


def beside(home: Path, data: Path) -> Path:
    """A copy of what lies around releases, with a key, and links that lead out of a release."""
    home.mkdir()
    for name in ("tables.db", "key.pem"):
        (home / name).write_bytes(b"secret")
    (home / "data").mkdir()
    for name in ("schema.toml", "place.parquet"):
        (home / "data" / name).write_bytes((data / name).read_bytes())
    (home / "public" / "tables").mkdir(parents=True)
    (home / "public" / "release.json").write_text("{}", encoding="utf-8")
    (home / "public" / "tables" / "linked.csv").symlink_to(home / "tables.db")
    (home / "public" / "beside").symlink_to("..")
    (home / "cache").mkdir()
    (home / "cache" / "entry").write_bytes(b"certificate")
    (home / "cache" / "linked").symlink_to(home / "tables.db")
    return home


@pytest.fixture(scope="module")
def trespassers(releases: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Trespassers:
    """Each is tried in a home of its own."""

    @cache
    def complaints(hooked: bool) -> dict[str, list[str]]:
        top = tmp_path_factory.mktemp("trespassers")
        homes = [beside(top / str(n), releases[0].parent / "data") for n in range(len(TRIED))]
        tasks = [
            (str(home), task.format(home=home, public=home / "public", listen=LISTEN))
            for home, task in zip(homes, TRIED.values(), strict=True)
        ]
        before = [] if hooked else under_tracer(top / "trace")
        word = "hooked" if hooked else "free"
        done = subprocess.run(
            [*before, sys.executable, "-P", "-B", "-c", TASKS, word, json.dumps(tasks)],
            cwd=top,
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        judges = [Judge.of([home / "public"], [], home / "cache") for home in homes]
        if hooked:
            noted = [json.loads(line) for line in done.stdout.splitlines()]
            found = [j.audited(n, h) for j, n, h in zip(judges, noted, homes, strict=True)]
        else:
            _, *parts = parted(lines_of(top / "trace"))
            found = [
                j.traced(p, h, started=True) for j, p, h in zip(judges, parts, homes, strict=True)
            ]
        return dict(zip(TRIED, found, strict=True))

    return complaints


def parted(lines: list[str]) -> Iterator[list[str]]:
    """The lines of a trace up to the first trespass, and those of each."""
    part: list[str] = []
    for line in lines:
        if MARK in line and " execve(" not in line:
            yield part
            part = []
        part.append(line)
    yield part


@pytest.mark.parametrize("name", [*TRESPASSES, *UNHEARD])
def test_the_tracer_finds_every_trespass(name: str, trespassers: Trespassers) -> None:
    assert trespassers(False)[name]


@pytest.mark.parametrize("name", TRESPASSES)
def test_the_hook_finds_what_python_is_reported_of(name: str, trespassers: Trespassers) -> None:
    assert trespassers(True)[name]


@pytest.mark.parametrize("hooked", [True, False], ids=["hook", "tracer"])
@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_no_trespass(name: str, hooked: bool, trespassers: Trespassers) -> None:
    assert trespassers(hooked)[name] == []
