"""Commands as forks of one process that has imported everything.

Every command is a process of its own: its streams, folder, environment, limits, signals and exit
status are real.  It only does not spend two seconds on importing what the one before imported.

Permissions of files bind it even if root runs the tests, as they bind most users.

Nothing but imports happens before the fork.  Processes that have to start cold (imports that are
interrupted, imports that are missing) are started by their tests themselves.

As a script it is the process that forks, or, under the name `eree`, the command of that name for
shells: it hands over its streams and ends as its fork ends.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import socket
import sys
from array import array

TYPE_CHECKING = False  # the command for shells starts fast
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ADDRESS = "EREE_FORKS"
_LENGTH = 8
_STREAMS = 3
_UNFLUSHED = 120  # the status of a Python that cannot write what it has left to write
_IMPORTS = (
    "duckdb",
    "flint",
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "numpy",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "scipy.integrate",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.signal",
    "scipy.sparse.linalg",
    "scipy.special",
    "scipy.stats",
    "sqlalchemy.dialects.sqlite",
)


class Running:
    """A process that was started elsewhere."""

    def __init__(self, connection: socket.socket) -> None:
        self.answer = connection.makefile("r")
        connection.close()
        self.pid = int(self.answer.readline())

    def wait(self) -> int:
        """Its exit status; a signal that ended it as a negative number."""
        with self.answer:
            return int(self.answer.readline())


class Server:
    """The process that forks; it ends with the one that started it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import subprocess
        import tempfile
        from pathlib import Path

        from disks import OBEDIENT

        self.folder = tempfile.mkdtemp(prefix="eree-forks-")
        self.address = f"{self.folder}/socket"
        command = Path(self.folder) / "eree"
        command.write_text(
            f"#!{sys.executable} -IS\n__name__ = 'eree'\n"
            f"exec(compile(open({__file__!r}).read(), 'eree', 'exec'))\n",
            encoding="utf-8",
        )
        command.chmod(0o700)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [*OBEDIENT, sys.executable, __file__, self.address],
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # a fork has one thread
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.read(1) == b"."
        atexit.register(self.close)

    def close(self) -> None:
        """End it, and whatever it still runs."""
        import shutil

        if self.process.poll() is None:
            self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(
    address: str,
    arguments: Sequence[str],
    folder: Path | str,
    environment: Mapping[str, str],
    streams: Sequence[int],
    code: str | None = None,
) -> Running:
    """Start `eree` with some arguments, or Python with some code."""
    request = json.dumps(
        {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "largest_file": resource.getrlimit(resource.RLIMIT_FSIZE),
            "code": code,
        }
    ).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    head = len(request).to_bytes(_LENGTH, "big")
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", streams))
    connection.sendmsg([head], [rights])
    connection.sendall(request)
    return Running(connection)


# ------------------------------------------------------------------------ the process that forks


def serve(address: str) -> str | None:
    """Fork for every request; returns in the forks, when all is as the request wants it."""
    import gc
    import importlib
    import pkgutil
    import selectors

    import eree
    import eree_study

    for package in (eree, eree_study):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is shared stays shared
    os.setpgid(0, 0)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watch = selectors.DefaultSelector()
    for source in (0, listening, woken):
        watch.register(source, selectors.EVENT_READ)
    waiting: dict[int, socket.socket] = {}
    os.write(1, b".")
    while True:
        ready = [key.fd for key, _ in watch.select()]
        if 0 in ready:  # the end of who started it
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            os._exit(0)
        if woken.fileno() in ready:
            woken.recv(1024)
            _answer(waiting)
        if listening.fileno() in ready:
            connection, _ = listening.accept()
            request, streams = _received(connection)
            child = os.fork()
            if child == 0:
                break
            waiting[child] = connection
            connection.sendall(f"{child}\n".encode())
            for stream in streams:
                os.close(stream)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    watch.close()
    for held in (listening, woken, wake, connection, *waiting.values()):
        held.close()
    return _become(request, streams)


def _answer(waiting: dict[int, socket.socket]) -> None:
    """Report the status of every fork that has ended."""
    for child in list(waiting):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with waiting.pop(child) as connection:
                try:
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                except OSError:  # nobody waits any more
                    continue


def _received(connection: socket.socket) -> tuple[dict[str, object], list[int]]:
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH, _STREAMS)
    assert len(head) == _LENGTH
    with connection.makefile("rb") as file:
        return json.loads(file.read(int.from_bytes(head, "big"))), streams


def _become(request: dict[str, object], streams: list[int]) -> str | None:
    """Take the streams, the folder, the environment and the limits that were asked for."""
    import random
    import tempfile
    import warnings

    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    environment, limits = request["environment"], request["largest_file"]
    assert isinstance(environment, dict)
    assert isinstance(limits, list)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    for number, name, mode, errors in (
        (0, "stdin", "r", "surrogateescape"),
        (1, "stdout", "w", "surrogateescape"),
        (2, "stderr", "w", "backslashreplace"),
    ):
        buffering = 1 if name == "stderr" or os.isatty(number) else -1
        stream = os.fdopen(number, mode, buffering, encoding, errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.environ.clear()
    os.environ.update(environment)
    resource.setrlimit(resource.RLIMIT_FSIZE, tuple(limits))
    os.chdir(str(request["folder"]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests ignore
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    warnings.simplefilter("error" if environment.get("PYTHONWARNINGS") == "error" else "ignore")
    random.seed()
    tempfile.tempdir = None
    arguments, code = request["arguments"], request["code"]
    assert isinstance(arguments, list)
    sys.argv = ["eree" if code is None else "-c", *arguments]
    return None if code is None else str(code)


def work(code: str | None) -> int:
    """The command, or the code; the exit status."""
    import traceback

    from eree.cli import main

    try:
        if code is None:
            main()
        else:
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(status: int) -> None:
    """End as Python does, but do not take apart what was imported: that takes a second."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or _UNFLUSHED
    os._exit(status)


if __name__ == "__main__":
    end(work(serve(sys.argv[1])))
elif __name__ == "eree":
    from pathlib import Path

    ended = start(os.environ[ADDRESS], sys.argv[1:], Path.cwd(), os.environ, (0, 1, 2)).wait()
    if ended < 0:
        os.kill(os.getpid(), -ended)
    os._exit(ended)
