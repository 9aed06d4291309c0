"""This file is where a client gets a connection to the daemon of a home, starting or replacing the daemon when needed.

Standard library only, and little of it: `kgd mcp` runs this each time a host starts it.
"""

from __future__ import annotations

import _socket as socket  # the module socket around it takes as long to import as Python to start
import os
import time

from kgd import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgd.config import Home
    from kgd.errors import KgdError

START_SECONDS = 15.0
"""From the first attempt to a daemon that answers."""
HELLO_SECONDS = 5.0
RETIRE_SECONDS = 25.0
"""An older daemon finishes long calls first; it gives up after twenty seconds itself."""
HELD = 75
"""Exit code of a daemon that found another one of its home (EX_TEMPFAIL)."""
HELLO_LIMIT = 65536
UNINSTALLED = "uninstalled"
"""The file in the state folder that tells running `kgd mcp` processes to end: the home is being removed."""


class Refused(Exception):
    """The daemon answered the hello with an error: its dictionary."""

    def __init__(self, answer: dict[str, object]) -> None:
        self.answer = answer
        super().__init__(str(answer.get("message", "the daemon refused the connection")))


def hello(kind: str, client: str, tools: str = "", cwd: str | None = None) -> bytes:
    """The first line of a connection; `kind` is ``call`` or ``mcp``. Paths are meant from `cwd`, or from here."""
    try:
        cwd = os.getcwd() if cwd is None else cwd
    except FileNotFoundError:
        cwd = ""
    fields = {"kgd": kind, "version": __version__, "cwd": cwd, "client": client, "tools": tools}
    return ("{" + ",".join(f'"{key}":"{_escaped(value)}"' for key, value in fields.items()) + "}\n").encode()


def connect(home: Home, greeting: bytes, seconds: float = START_SECONDS, start: bool = True) -> socket.socket | None:
    """A connection whose hello has been answered by a daemon that is not older than this program.

    A daemon that is absent is started, one that is older is told to finish and make room. Of many clients that come at
    once one starts it and the others wait. Without `start` an absent daemon gives None.

    Raises:
        KgdError: No daemon came up in time; the message ends with the last lines of its log.
    """
    deadline = time.monotonic() + seconds
    while True:
        sock = _open(home.socket)
        if sock is None:
            if not start:
                return None
            _start(home, deadline)
            continue
        try:
            version = _greet(sock, greeting)
        except BaseException:
            sock.close()
            raise
        if version is None or is_older(version):
            sock.close()
            if version:
                deadline = max(deadline, retire(home) + seconds)
            if time.monotonic() > deadline:
                raise _unavailable(home, "the kgd daemon closes every connection")
            continue
        return sock


def is_older(version: str) -> bool:
    return version != __version__ and _numbers(version) < _numbers(__version__)


def retire(home: Home) -> float:
    """Ask an older daemon to finish what it has read and leave; returns the time at which it had closed."""
    if sock := _open(home.socket):
        try:
            sock.settimeout(RETIRE_SECONDS)
            sock.sendall(hello("call", "kgd-start") + b'{"id":0,"call":"retire"}\n')
            while sock.recv(4096):
                pass
        except OSError:
            pass
        finally:
            sock.close()
    return time.monotonic()


def is_uninstalled(home: Home) -> bool:
    """Whether `kgd uninstall --all` removes this home now, or has removed it."""
    return not os.path.isdir(home.state) or os.path.exists(os.path.join(home.state, UNINSTALLED))


def running(home: Home) -> bool:
    """Whether a daemon holds this home. Asks the lock, which cannot lie; a shared one, so that askers do not meet."""
    import fcntl

    try:
        fd = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def log_tail(home: Home, lines: int = 5) -> str:
    """The last lines of the daemon's log, on one line."""
    try:
        with open(home.log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return " | ".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""


def _open(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    return sock


def _greet(sock: socket.socket, greeting: bytes) -> str | None:
    """The daemon's version; None where it went away before it answered.

    Raises:
        Refused: It answered with an error.
    """
    sock.settimeout(HELLO_SECONDS)
    line = b""
    try:
        sock.sendall(greeting)
        while not line.endswith(b"\n") and len(line) < HELLO_LIMIT:
            # Byte by byte would be slow and more than a line would be the next reader's: peek, then take the line.
            seen = sock.recv(4096, socket.MSG_PEEK)
            if not seen:
                return None
            line += sock.recv(seen.find(b"\n") + 1 or len(seen))
    except OSError:
        return None
    sock.settimeout(None)
    if line.startswith(b'{"kgd":"%s"' % __version__.encode()):
        return __version__
    import json

    found = json.loads(line)
    if "error" in found:
        raise Refused(found["error"])
    return str(found.get("kgd", "0"))


def _start(home: Home, deadline: float) -> None:
    """One attempt: start the daemon and wait until it listens, or wait a moment because another client is at it."""
    import fcntl

    home.prepare()
    starting = os.open(os.path.join(home.state, "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if time.monotonic() > deadline:
            raise _unavailable(home, "no kgd daemon answers, and none could be started in time")
        try:
            fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
            return
        if sock := _open(home.socket):  # somebody else was quicker
            sock.close()
            return
        if pid := _spawn(home):
            _wait_until_it_listens(home, pid, deadline)
        else:
            time.sleep(0.05)
    finally:
        os.close(starting)


def _spawn(home: Home) -> int:
    """Start a daemon that outlives us; its pid, or 0 where an earlier one is still leaving."""
    import subprocess

    done = subprocess.run(
        [*home.daemon_command(), "--detach"], cwd=home.state, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode == HELD:
        return 0
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise _unavailable(home, f"the kgd daemon does not start: {''.join(reason)}")
    return int(done.stdout)


def _wait_until_it_listens(home: Home, pid: int, deadline: float) -> None:
    while not (sock := _open(home.socket)):
        if not running(home):
            raise _unavailable(home, "the kgd daemon ended while it started")
        if time.monotonic() > deadline:
            raise _unavailable(home, f"the kgd daemon (pid {pid}) does not get ready")
        time.sleep(0.005)
    sock.close()


def _unavailable(home: Home, reason: str) -> KgdError:
    from kgd.errors import Unavailable

    tail = log_tail(home)
    return Unavailable(reason + (f"; its log ends: {tail[-200:]}" if tail else ""), next=f"See {home.log}.")


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return tuple(numbers)


def _escaped(text: str) -> str:
    """A JSON string's inside, without the 7 ms that importing json takes."""
    clean = text.encode("utf-8", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in clean)
