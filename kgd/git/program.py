"""This file is where the git program is run: with a fixed environment, a deadline and a cap, and never a shell.

libgit2 runs no hooks, filters or helpers; the program runs all of them. So it is used for plumbing only (log, repack,
commit-graph, fetch), and every switch by which a repository or an environment could make it run something is off.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Limit, Unavailable

DEADLINE = 60.0
OUTPUT_LIMIT = 256 << 20
_RECORD_PARTS = 256
STOP_SECONDS = 0.1
"""How soon a program that may be stopped from outside notices it."""

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
    "log.showSignature=false",
    "log.mailmap=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.fsckObjects=true",
)
_KEPT_GIT_VARIABLES = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_PROXY_COMMAND")


class GitFailed(Exception):
    """The program ended with an error. `said` is the end of what it wrote, for logs and `kgd status`.

    `complaints` is the last 4 KiB of its standard error, `out` what `run` had read of its standard output.
    """

    def __init__(self, arguments: Sequence[str], code: int, complaints: str) -> None:
        self.said = complaints[-400:].strip()
        super().__init__(f"git {' '.join(arguments[:2])} ended with {code}: {self.said}")
        self.code, self.complaints, self.out = code, complaints, b""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a program that talks to somebody else may go.

    `idle` seconds without a word of it, or `total` in all, and it is killed. `file_bytes` is what one file it writes
    may have, `memory_bytes` its address space: a pack that inflates without end ends there. None is no bound.
    """

    idle: float = DEADLINE
    total: float = DEADLINE
    file_bytes: int | None = None
    memory_bytes: int | None = None
    stop: threading.Event | None = None
    """Once it is set the program is killed."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person's own environment, and variables that kgd adds for one call and that win over everything."""

    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def nobody(variables: Mapping[str, str]) -> Person:
    """No person at all, as without an environment, and these variables."""
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
    """What the program wrote to its standard output.

    With `environment` (a person's own) their configuration, credentials and ssh agent are used: for asking remotes on
    their behalf only. Without it nothing outside the repository has a say. `bounds` takes the place of `deadline`.

    Commands that need the work tree name it: ``["--work-tree=...", "ls-files", ...]``.

    Raises:
        GitFailed: It ended with an error.
        Unavailable: There is no git program, or the deadline passed; the program and its children were killed.
        Limit: It wrote more than `limit` bytes, likewise.
    """
    bounds = bounds or Bounds(deadline, deadline)
    with _started(git_dir, arguments, input is not None, bounds, cwd, environment) as running:
        if input is not None and running.process.stdin:
            _begin(threading.Thread(target=_feed, args=(running.process, input), daemon=True))
        out = bytearray()
        assert running.process.stdout is not None
        while part := os.read(running.process.stdout.fileno(), 1 << 16):
            out += part
            running.heard = time.monotonic()
            if len(out) > limit:
                raise Limit(f"git {arguments[0]} wrote more than {limit} bytes")
        try:
            running.finish()
        except GitFailed as failed:
            failed.out = bytes(out)
            raise
    return bytes(out)


def stream(
    git_dir: Path, arguments: Sequence[str], *, separator: bytes = b"\0", deadline: float = DEADLINE
) -> Iterator[bytes]:
    """The records the program writes, each ended by one byte, as they come. Closing early kills the program.

    Raises:
        GitFailed, Unavailable, Limit: As `run` does, once the output is used up; Limit for a record of some MiB.
    """
    with _started(git_dir, arguments, False, Bounds(deadline, deadline), None, None) as running:
        assert running.process.stdout is not None
        rest: list[bytes] = []
        while part := os.read(running.process.stdout.fileno(), 1 << 16):
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
    """A program with its deadline; its standard error is drained beside, or a talkative program would stand still."""

    def __init__(self, process: subprocess.Popen[bytes], arguments: Sequence[str], bounds: Bounds) -> None:
        self.process, self.arguments, self.bounds = process, arguments, bounds
        self.late, self.stopped = 0.0, False
        self.heard = self._began = time.monotonic()
        self._said = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._ended = threading.Event()

    def start(self) -> None:
        _begin(self._listener)
        _begin(threading.Thread(target=self._watch, daemon=True))

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
        """The whole group: git leaves its children running when it is killed alone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self.process.stderr.fileno(), 1 << 14):
                self._said += part
                self.heard = time.monotonic()
                del self._said[:-4096]


@contextlib.contextmanager
def _started(
    git_dir: Path | None,
    arguments: Sequence[str],
    fed: bool,
    bounds: Bounds,
    cwd: Path | None,
    environment: Mapping[str, str] | Person | None,
) -> Iterator[_Running]:
    program = path()
    # git refuses to start where core.worktree names a folder that is missing just now; plumbing needs none.
    where = [f"--git-dir={git_dir}", f"--work-tree={git_dir}"] if git_dir else []
    switches = [word for switch in _SWITCHES for word in ("-c", switch)]
    try:
        process = subprocess.Popen(
            [program, *switches, *where, *arguments],
            stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or git_dir,
            env=_environment(program, environment),
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"git could not be started: {error.strerror}") from error
    _confine(process.pid, bounds)
    running = _Running(process, arguments, bounds)
    try:
        running.start()
        yield running
    finally:
        running.close()


def _begin(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise Unavailable(f"git could not be started: {error}") from error


def _confine(pid: int, bounds: Bounds) -> None:
    """Limits that its children inherit: what writes files or inflates packs is started by the program later on."""
    for kind, most in ((resource.RLIMIT_FSIZE, bounds.file_bytes), (resource.RLIMIT_AS, bounds.memory_bytes)):
        if most is not None:
            with contextlib.suppress(ProcessLookupError, ValueError, OSError, AttributeError):
                resource.prlimit(pid, kind, (most, most))


def config_variables(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Environment variables that give the git program these settings, above every configuration file."""
    variables: dict[str, str] = {}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {"GIT_CONFIG_COUNT": str(len(variables) // 2), **variables}


def hardened_environment() -> dict[str, str]:
    """What a git program of ours knows of the world where nobody's configuration has a say."""
    return _environment(path(), None)


def path() -> str:
    """The path of the git program.

    Raises:
        Unavailable: git is not installed.
    """
    found = shutil.which("git") or shutil.which("git", path=os.defpath)
    if not found:
        raise Unavailable("there is no git program", next="Install git 2.39 or newer.")
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
