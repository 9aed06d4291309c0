"""The program `kgd`, its hubs and its parsers of code, forked from a process that has imported them.

Each of them still has its own process, arguments, directory, environment, streams and exit code. Forking skips the
start of the interpreter and most imports, which is two thirds of the cost. Tests of the start use `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from kgd.client import start as client
from kgd.config import Home, one_thread_each

ROOT = Path(__file__).resolve().parent.parent
CLI, SERVE, PARSER = "kgd.cli", "kgd.serve.__main__", "kgd.daemon.code_index_process"
"""Modules with the functions `main` of the three programs."""
STARTS = {CLI: SERVE, SERVE: PARSER}
"""The program that another program starts."""
DAEMON = [sys.executable, "-P", "-m", "kgd.serve"]
"""The beginning of the command by which a forked `kgd` starts its daemon."""
IMPORTED = {
    CLI: (
        "kgd.cli.output",
        "kgd.cli.layout",
        "kgd.cli.main",
        "kgd.cli.output",
        "kgd.cli.printing",
        "kgd.cli.printing_history",
        "kgd.cli.printing_running",
        "kgd.cli.progress",
        "kgd.client.connection",
        "kgd.client.start",
    ),
    SERVE: (
        "kgd.codec.guard",
        "kgd.daemon.endpoint",
        "kgd.daemon.sign_in",
        "kgd.hub.app",
        "kgd.mcp.server",
        "kgd.serve.__main__",
        "kgd.serve.hub",
        "kgd.serve.parts",
        "kgd.tools.ingest",
        "kgd.tools.workspaces.setup",
        "kgd.tools.workspaces.sync",
        "kgd.vectors.builtin",
    ),
    PARSER: (),
}
"""Modules that almost every run imports. None of them reads the environment before it is called."""
USUAL = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
"""Variables of the process that forks."""


def run(
    words: Sequence[str], directory: Path, environment: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `kgd` with these arguments, and return its exit code and output. Threads may call this at the same time."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        code = start(words, directory, environment, [given.fileno(), out.fileno(), err.fileno()]).wait()
        shown = [_text(stream) for stream in (out, err)]
    return subprocess.CompletedProcess(["kgd", *words], code, *shown)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode().replace("\r\n", "\n").replace("\r", "\n")


class Process:
    """A running command or hub."""

    def __init__(self, told: socket.socket) -> None:
        self._told, self.pid = told, _number(told)
        self.returncode: int | None = None
        self.stderr: IO[str] | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative after a signal. Raises TimeoutError after `timeout` seconds."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            self.returncode = _number(self._told)
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


def _number(told: socket.socket) -> int:
    said = told.recv(16)
    assert said, "the process that forks has ended"
    return int(said)


def start(
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    streams: Sequence[int],
    *,
    program: str = CLI,
    session: bool = False,
    server: socket.socket | None = None,
) -> Process:
    """Start a program with these files as its standard streams. `server` is the connection to the process that forks
    it, if not this process started that one."""
    if found := [name for name in environment if _matters_at_start(name, environment[name])]:
        raise ValueError(f"run this command with subprocess: the interpreter reads {found} when it starts")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, tempfile.TemporaryFile() as order:
        order.write(json.dumps([words, os.fspath(directory), dict(environment), session]).encode())
        order.seek(0)
        server = server or _server(os.getpid(), program)
        socket.send_fds(server, [b"+"], [*streams, order.fileno(), theirs.fileno()])
    return Process(ours)


def daemon(home: Home) -> None:
    """Start the daemon of a home unless one runs. A client in this process would start an interpreter for it."""
    if not client.running(home):
        run(["status", "--quiet"], Path("/"), {**os.environ, "KGD_HOME": home.config})


def hub(arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
    """Start a hub; its log is read from `stderr`."""
    log, end = os.pipe()
    with open(os.devnull, "r+b") as nothing:
        words = ["--foreground", *arguments]
        made = start(words, Path("/"), environment, [nothing.fileno(), nothing.fileno(), end], program=SERVE)
    os.close(end)
    made.stderr = open(log)  # noqa: SIM115
    return made


def has_usual_start(environment: Mapping[str, str]) -> bool:
    """Whether a program with this environment can be forked."""
    return not any(_matters_at_start(name, value) for name, value in environment.items())


def _matters_at_start(variable: str, value: str) -> bool:
    usual = {os.environ.get(variable), USUAL.get(variable)}
    return variable.startswith(("PYTHON", "LC_", "LANG")) and value not in usual


@cache
def _server(owner: int, program: str) -> socket.socket:
    """Start a process that forks a program; return the connection to it. It ends with this process, its owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    quiet = subprocess.DEVNULL
    usual = {name: value for name, value in os.environ.items() if not name.startswith("KGD_")} | USUAL
    files = [theirs.fileno(), *([_server(owner, STARTS[program]).fileno()] if program in STARTS else [])]
    command = [sys.executable, "-P", "-m", "tests.forked", program, *map(str, files)]
    with theirs:
        process = subprocess.Popen(command, pass_fds=files, stdin=quiet, stdout=quiet, cwd=ROOT, env=usual)
    atexit.register(process.wait)
    atexit.register(ours.close)
    atexit.register(ours.shutdown, socket.SHUT_RDWR)  # running commands have copies of it
    return ours


def _next_command(orders: socket.socket) -> list[int]:
    """Fork for each order, and report exit codes. Return the order's files in the child; at the end, an empty list."""
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the tests, which end this process
    signal.set_wakeup_fd(wake.fileno())
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            _report(running)
        if orders not in ready:
            continue
        message, files, _, _ = socket.recv_fds(orders, 1, 5)
        if not message:
            return []
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for one in (orders, ended, wake):
                one.close()
            return files
        running[child] = files.pop()
        _tell(running[child], child)
        for file in files:
            os.close(file)


def _report(running: dict[int, int]) -> None:
    """Send the exit codes of the processes that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = running.pop(pid)
        _tell(end, os.waitstatus_to_exitcode(status))
        os.close(end)


def _tell(end: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # a command that started a daemon may have been killed
        os.write(end, str(number).encode())


def _fork_daemons(server: socket.socket) -> None:
    """Fork the daemon that this process starts. The client's clock stands still until the server has imported it."""
    usual, waited = subprocess.run, 0.0

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        nonlocal waited
        if command[: len(DAEMON)] != DAEMON:
            return usual(command, **options)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
            streams = [file.fileno() for file in (nothing, out, err)]
            words, began = command[len(DAEMON) :], time.monotonic()
            made = start(words, options["cwd"], os.environ, streams, program=SERVE, server=server)
            waited += time.monotonic() - began
            return subprocess.CompletedProcess(command, made.wait(), *(_text(file).encode() for file in (out, err)))

    subprocess.run = run  # type: ignore[assignment]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() - waited, sleep=time.sleep)
    patch.object(client, "time", clock).start()


class Parser(Process):
    """A parser of code, with the interface of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], server: socket.socket | None) -> None:
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")
        with open(os.devnull, "wb") as nothing, open(stdin, "rb"), open(stdout, "wb"):
            made = start(words, Path("/"), os.environ, [stdin, stdout, nothing.fileno()], program=PARSER, server=server)
        self._told, self.pid, self.returncode = made._told, made.pid, None

    def wait(self, timeout: float | None = None) -> int:
        try:
            return super().wait(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(PARSER, timeout or 0.0) from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def parsers(server: socket.socket | None = None) -> Iterator[None]:
    """Fork the parsers that daemons in this process start."""

    def popen(command: Sequence[str], **options: Any) -> Any:
        if list(command[1:3]) != ["-m", PARSER] or not has_usual_start(os.environ):
            return subprocess.Popen(command, **options)
        return Parser(command[3:], server)

    child_process = importlib.import_module("kgd.workspace.child_process")  # commands do not need it
    with patch.object(child_process, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen})):
        yield


def _be(program: str, main: Callable[..., int], files: list[int], started: socket.socket | None) -> int:
    """Run the ordered program in this process. `started`: the server of the program that it starts."""
    *streams, order, told = files
    os.close(told)
    with open(order) as text:
        words, directory, environment, session = json.load(text)
    if started and program == CLI:
        _fork_daemons(started)
    for number, file in enumerate(streams):
        os.dup2(file, number)
    for file in set(streams):
        os.close(file)
    if session:
        os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]
    sys.argv = [os.path.join(os.path.dirname(str(sys.modules[program].__file__)), "__main__.py"), *words]
    if pygit2 := sys.modules.get("pygit2"):  # it looked up the user's configuration when it was loaded
        levels = pygit2.enums.ConfigLevel
        pygit2.settings.search_path[levels.GLOBAL] = environment["HOME"]
        pygit2.settings.search_path[levels.XDG] = os.path.join(environment["HOME"], ".config/git")
    try:
        with parsers(started) if program == SERVE else contextlib.nullcontext():
            return main(words) if program == PARSER else main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        return end.code


def _end(code: int) -> None:
    """End this process without finalizing the interpreter, which would first copy all memory shared with the server."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _serve() -> int:
    name, *files = sys.argv[1:]
    orders, *others = (socket.socket(fileno=int(file)) for file in files)
    for one in (orders, *others):
        one.set_inheritable(False)
    if not orders.recv(1, socket.MSG_PEEK):  # the imports take a second, and many test files start no daemon
        return 0
    one_thread_each()
    main = importlib.import_module(name).main  # `kgd.cli` also has a module of this name, once that is imported
    for module in IMPORTED[name]:
        importlib.import_module(module)
    if name == SERVE:
        sys.modules["kgd.vectors.builtin"].Builtin.load()
    gc.freeze()
    given = _next_command(orders)
    if not given:
        return 0
    code = _be(name, main, given, others[0] if others else None)
    atexit.register(_end, code)
    return code


if __name__ == "__main__":
    sys.exit(_serve())
