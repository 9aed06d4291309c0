"""The git program: run with a fixed environment, a deadline and an output cap, never through a shell.

libgit2 runs no hooks, filters or helpers; the git program runs them all. So the program is used only for plumbing (log,
repack, commit-graph, fetch), with every setting turned off that would let a repository or an environment make it run
other programs.

`http_backend` is git's server program, which a hub starts for each request, with settings of its own.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Invalid, Limit, Unavailable

DEADLINE = 60.0
OUTPUT_LIMIT = 256 << 20
_RECORD_PARTS = 256
STOP_SECONDS = 0.1
"""Maximum delay in seconds until a stoppable program notices its stop event."""
GRACE_SECONDS = 5.0
"""How long a program and its children may take to end after SIGTERM, before SIGKILL. Most end in milliseconds. On a
machine with a heavy load they may need more than a second, and a lock file that SIGKILL leaves has to be removed by
hand."""

_HARDENED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
}
_ALWAYS = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_FLUSH": "0",
}
_SWITCHES = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
    "core.quotePath=false",
    "core.fsync=all",
    "diff.external=",
    "diff.renames=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.multiPackIndex=false",  # git ignores packs in a multi-pack-index that no object is assigned to
    "log.showSignature=false",
    "log.mailmap=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.fsckObjects=true",
)
_KEPT_GIT_VARIABLES = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_PROXY_COMMAND")

LOCAL = ("-c", "protocol.allow=never")
"""Arguments before a command, without which git would fetch each missing object of a partial clone."""


class GitFailed(Exception):
    """The program ended with an error. `said` is the end of its error output, for logs and `kgd status`.

    `complaints` is the last 4 KiB of its standard error; `out` is the standard output that `run` had read.
    """

    def __init__(self, arguments: Sequence[str], code: int, complaints: str) -> None:
        self.said = complaints[-400:].strip()
        super().__init__(f"git {' '.join(arguments[:2])} ended with {code}: {self.said}")
        self.code, self.complaints, self.out = code, complaints, b""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a program that talks to a remote.

    The program is killed after `idle` seconds without output, or `total` seconds overall. `file_bytes` limits each file
    that it writes, and `memory_bytes` its address space, which stops a decompression bomb. None means no limit.
    """

    idle: float = DEADLINE
    total: float = DEADLINE
    file_bytes: int | None = None
    memory_bytes: int | None = None
    stop: threading.Event | None = None
    """Setting it kills the program."""
    hear: Callable[[bytes], None] | None = None
    """Called with each piece of the error output, in another thread. It must not raise."""


@dataclass(frozen=True, slots=True)
class Person:
    """The user's own environment, and variables that kgd adds for one call; the latter take precedence."""

    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def without_user(variables: Mapping[str, str]) -> Person:
    """An empty user environment with these variables."""
    return Person({}, {**_HARDENED, **variables})


def run(
    git_dir: Path | None,
    arguments: Sequence[str],
    *,
    input: bytes | None = None,
    deadline: float = DEADLINE,
    limit: int = OUTPUT_LIMIT,
    cwd: Path | None = None,
    environment: Mapping[str, str] | Person | None = None,
    bounds: Bounds | None = None,
) -> bytes:
    """Run git and return its standard output.

    `environment` is the user's own, and brings their configuration, credentials and ssh agent into effect. Pass it only
    to talk to remotes on their behalf. Without it, nothing outside the repository has an effect. `bounds` replaces
    `deadline`.

    A command that needs the work tree must pass it explicitly: ``["--work-tree=...", "ls-files", ...]``.

    Raises:
        GitFailed: git ended with an error.
        Invalid: An argument contains a null byte.
        Unavailable: There is no git program, or the deadline passed; the program and its children were killed.
        Limit: git wrote more than `limit` bytes and was killed.
    """
    bounds = bounds or Bounds(deadline, deadline)
    with _started(git_dir, arguments, input, bounds, cwd, environment) as running:
        out = bytearray()
        for part in running.parts():
            out += part
            if len(out) > limit:
                raise Limit(f"git {arguments[0]} wrote more than {limit} bytes")
        try:
            running.finish()
        except GitFailed as failed:
            failed.out = bytes(out)
            raise
    return bytes(out)


def stream(
    git_dir: Path,
    arguments: Sequence[str],
    *,
    separator: bytes = b"\0",
    deadline: float = DEADLINE,
    bounds: Bounds | None = None,
    input: bytes | None = None,
) -> Iterator[bytes]:
    """Yield the records of the output as they arrive, each ended by `separator`. Closing early kills the program.

    `bounds` replaces `deadline`.

    Raises:
        GitFailed, Unavailable, Limit: As `run`, after the last record; Limit also if a record has several MiB.
    """
    bounds = bounds or Bounds(deadline, deadline)
    with _started(git_dir, arguments, input, bounds, None, None) as running:
        rest: list[bytes] = []
        for part in running.parts():
            rest.append(part)
            if separator in part:
                *whole, last = b"".join(rest).split(separator)
                yield from whole
                rest = [last]
            elif len(rest) > _RECORD_PARTS:
                raise Limit(f"git {arguments[0]} wrote an endless record")
        if last := b"".join(rest):
            yield last
        running.finish()


class _Running:
    """A running program with its deadline. A thread drains its standard error, so that a verbose program does not
    block."""

    def __init__(self, process: subprocess.Popen[bytes], arguments: Sequence[str], bounds: Bounds) -> None:
        self.process, self.arguments, self.bounds = process, arguments, bounds
        self.late, self.stopped = 0.0, False
        self.heard = self._began = time.monotonic()
        self._said = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._ended = threading.Event()

    def start(self, input: bytes | None) -> None:
        _begin(self._listener)
        _begin(threading.Thread(target=self._watch, daemon=True))
        if input is not None:
            _begin(threading.Thread(target=_feed, args=(self.process, input), daemon=True))

    def parts(self) -> Iterator[bytes]:
        """The pieces of its output as they arrive."""
        assert self.process.stdout is not None
        while part := os.read(self.process.stdout.fileno(), 1 << 16):
            self.heard = time.monotonic()
            yield part

    def finish(self) -> None:
        code = self.process.wait()
        self._listener.join(1)
        if self.stopped:
            raise Unavailable(f"git {self.arguments[0]} was stopped")
        if self.late:
            raise Unavailable(f"git {self.arguments[0]} did not finish within {self.late:g} s")
        if code:
            raise GitFailed(self.arguments, code, bytes(self._said).decode("utf-8", "replace"))

    def close(self) -> None:
        self._ended.set()
        self._kill()
        self.process.wait()
        if self._listener.is_alive():
            self._listener.join(1)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _watch(self) -> None:
        idle, total, stop = self.bounds.idle, self.bounds.total, self.bounds.stop
        while not self._ended.wait(self._pause(idle, total, stop)):
            now = time.monotonic()
            if stop is not None and stop.is_set():
                self.stopped = True
                self._kill()
                return
            if now >= min(self.heard + idle, self._began + total):
                self.late = total if now >= self._began + total else idle
                self._kill()
                return

    def _pause(self, idle: float, total: float, stop: threading.Event | None) -> float:
        left = max(0.0, min(self.heard + idle, self._began + total) - time.monotonic())
        return left if stop is None else min(left, STOP_SECONDS)

    def _kill(self) -> None:
        """End the whole process group: if only git ends, its children survive.

        SIGTERM comes first, because git then removes its lock files. A push to a folder on this machine holds a lock
        there, and after SIGKILL the lock would block every later push.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.process.poll() is not None:
                return
            os.killpg(self.process.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, 0)  # raises ProcessLookupError when the group is empty
                time.sleep(0.005)
            os.killpg(self.process.pid, signal.SIGKILL)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self.process.stderr.fileno(), 1 << 14):
                self._said += part
                self.heard = time.monotonic()
                del self._said[:-4096]
                if self.bounds.hear is not None:
                    self.bounds.hear(part)


@contextlib.contextmanager
def _started(
    git_dir: Path | None,
    arguments: Sequence[str],
    input: bytes | None,
    bounds: Bounds,
    cwd: Path | None,
    environment: Mapping[str, str] | Person | None,
) -> Iterator[_Running]:
    program = path()
    # git refuses to start if core.worktree names a missing folder; plumbing needs no work tree.
    where = [f"--git-dir={git_dir}", f"--work-tree={git_dir}"] if git_dir else []
    switches = [word for switch in _SWITCHES for word in ("-c", switch)]
    try:
        process = subprocess.Popen(
            [program, *switches, *where, *arguments],
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or git_dir,
            env=_environment(program, environment),
            start_new_session=True,
        )
    except ValueError as error:  # a null byte, which no argument of a program can have
        raise Invalid("the text contains a null byte", next="Remove the null byte.") from error
    except OSError as error:
        raise Unavailable(f"git could not be started: {error.strerror}") from error
    _confine(process.pid, bounds)
    running = _Running(process, arguments, bounds)
    try:
        running.start(input)
        yield running
    finally:
        running.close()


def _begin(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise Unavailable(f"git could not be started: {error}") from error


def _confine(pid: int, bounds: Bounds) -> None:
    """Set limits that git's children inherit, since the children write the files and inflate the packs."""
    for kind, most in ((resource.RLIMIT_FSIZE, bounds.file_bytes), (resource.RLIMIT_AS, bounds.memory_bytes)):
        if most is not None:
            with contextlib.suppress(ProcessLookupError, ValueError, OSError, AttributeError):
                resource.prlimit(pid, kind, (most, most))


def config_variables(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Environment variables that give the git program these settings, which override every configuration file."""
    variables: dict[str, str] = {}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {"GIT_CONFIG_COUNT": str(len(variables) // 2), **variables}


def path() -> str:
    """The path of the git program.

    Raises:
        Unavailable: git is not installed.
    """
    found = shutil.which("git") or shutil.which("git", path=os.defpath)
    if not found:
        raise Unavailable("git is not installed", next="Install git 2.39 or newer.")
    return found


def _environment(program: str, person: Mapping[str, str] | Person | None) -> dict[str, str]:
    search = os.pathsep.join([os.path.dirname(program), os.defpath])
    if person is None:
        return {"PATH": search, **_HARDENED, **_ALWAYS}
    theirs, added = (person.environment, person.variables) if isinstance(person, Person) else (person, {})
    own = {k: v for k, v in theirs.items() if not k.startswith("GIT_") or k in _KEPT_GIT_VARIABLES}
    return {"PATH": search, **own, **_ALWAYS, **added}


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ValueError):
        process.stdin.write(data)
        process.stdin.close()


PACK_LIMIT = 128 << 20
"""Maximum size in bytes of a pack in transit."""
MEMORY_LIMIT = 2 << 30
FILE_LIMIT = 1 << 30
BIG_FILE = 1 << 20
"""Size in bytes from which git streams a blob, so that a decompression bomb costs no memory."""
PUSHED_PREFIXES = ("refs/heads", "refs/for")

_SERVER: Sequence[tuple[str, str]] = (
    ("http.receivepack", "true"),
    ("http.uploadpack", "true"),
    ("http.getanyfile", "false"),
    ("http.uploadarchive", "false"),
    ("transfer.hideRefs", "refs"),
    *(("transfer.hideRefs", f"!{prefix}") for prefix in PUSHED_PREFIXES),
    *(("receive.procReceiveRefs", prefix) for prefix in PUSHED_PREFIXES),
    ("receive.fsckObjects", "true"),
    ("receive.maxInputSize", str(PACK_LIMIT)),
    ("receive.unpackLimit", "1"),  # one pack per push, which is safe from a gc until the refs have moved
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
    ("receive.autogc", "false"),
    ("receive.updateServerInfo", "false"),
    ("receive.advertiseAtomic", "false"),
    ("receive.advertisePushOptions", "false"),
    ("uploadpack.allowFilter", "true"),
    ("core.fsmonitor", "false"),
    ("core.fsync", "all"),
    ("core.bigFileThreshold", str(BIG_FILE)),
    ("core.alternateRefsCommand", "true"),
    ("pack.threads", "1"),
    ("pack.windowMemory", str(64 << 20)),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.version", "2"),
)


def http_backend() -> list[str]:
    """Git's own server program, for one request to one repository.

    Its children inherit limits of memory and file size.

    Raises:
        Unavailable: Git is not installed.
    """
    bounds = f"ulimit -v {MEMORY_LIMIT >> 10} 2>/dev/null; ulimit -f {FILE_LIMIT >> 9} 2>/dev/null"
    return ["/bin/sh", "-c", f'{bounds}; exec "$0" http-backend', path()]


def http_environment(
    git_dir: Path, hooks: Path, request: Mapping[str, str], shown: str, hidden: Iterable[str] = ()
) -> dict[str, str]:
    """The complete environment of `http_backend`: the repository and the request's CGI variables, and nothing else.

    The program reads no user configuration, runs only kgd's hooks, and hides every internal ref. It never moves a ref
    itself: all updates go to the proc-receive hook.

    Args:
        hooks: A folder with kgd's own hooks, used instead of the repository's.
        shown: An internal ref that clients may fetch, but never push.
        hidden: Additional refs that this client can neither see nor push to.
    """
    settings = [*_SERVER, ("uploadpack.hideRefs", f"!{shown}"), ("core.hooksPath", str(hooks))]
    settings += [("transfer.hideRefs", name) for name in hidden]
    return {
        **_environment(path(), None),
        **config_variables(settings),
        "GIT_PROJECT_ROOT": str(git_dir),
        "GIT_HTTP_EXPORT_ALL": "1",
        **request,
    }
