"""Connecting to the daemon of a home, and starting or replacing it.

Uses few modules of the standard library: `kgd mcp` runs this each time a host starts it.
"""

from __future__ import annotations

import _socket as socket  # importing the module socket takes as long as starting Python
import os
import time

from kgd import __version__
from kgd.config import is_older_version, is_program_replaced, program_stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kgd.config import Home
    from kgd.errors import KgdError

START_SECONDS = 15.0
"""Seconds from the first attempt until a daemon must answer."""
HELLO_SECONDS = 5.0
RETIRE_SECONDS = 25.0
"""Seconds to wait for an older daemon to end; it gives its running calls twenty seconds."""
RETIRED_AT_MOST = 3
"""Older daemons that one call of `connect` replaces: after a downgrade, the next one is as old as the last."""
OUTDATED_SECONDS = 300.0
"""Seconds for which `connect` then replaces no daemon; otherwise, each message of a host would replace several."""
HELD = 75
"""Exit code of a daemon whose home already has a daemon (EX_TEMPFAIL)."""
HELLO_LIMIT = 65536
UNINSTALLED = "uninstalled"
"""The file in the state folder that tells running `kgd mcp` processes to end: the home is being removed."""


_outdated_until: dict[str, float] = {}
"""The end of this pause by socket, in monotonic seconds."""


class Refused(Exception):
    """The daemon answered the hello with an error, kept in `answer`."""

    def __init__(self, answer: dict[str, object]) -> None:
        self.answer = answer
        super().__init__(str(answer.get("message", "the daemon refused the connection")))


def hello(kind: str, client: str, tools: str = "", cwd: str | None = None) -> bytes:
    """The first line of a connection; `kind` is ``call`` or ``mcp``, `cwd` the base of relative paths."""
    try:
        cwd = os.getcwd() if cwd is None else cwd
    except FileNotFoundError:
        cwd = ""
    fields = {"kgd": kind, "version": __version__, "cwd": cwd, "client": client, "tools": tools}
    return ("{" + ",".join(f'"{key}":"{_escaped(value)}"' for key, value in fields.items()) + "}\n").encode()


def connect(
    home: Home, greeting: bytes, start: bool = True, on_older_hub: Callable[[str], object] = lambda version: None
) -> socket.socket | None:
    """A connection, after the hello, to a hub, or to a daemon that is not older than this program.

    A missing daemon is started, and an older one is replaced. An older hub is never ended, since it serves other
    machines: `on_older_hub` gets its version. If several clients try at once, one client starts the
    daemon and the others wait. Without `start`, the result is None if no daemon is running.

    Raises:
        KgdError: No daemon became ready in time, and the message ends with the last lines of the log; or each new one
            is older than this program.
    """
    deadline, retired = time.monotonic() + START_SECONDS, 0
    while True:
        sock = _open(home.socket)
        if sock is None:
            if not start:
                return None
            _start(home, deadline)
            continue
        try:
            version, is_current = _greet(sock, greeting)
        except BaseException:
            sock.close()
            raise
        if version and not is_current and is_hub(home):
            on_older_hub(version)
            return sock
        if not is_current:
            sock.close()
            if version and (retired == RETIRED_AT_MOST or time.monotonic() < _outdated_until.get(home.socket, 0.0)):
                _outdated_until[home.socket] = time.monotonic() + OUTDATED_SECONDS
                raise _downgraded(version)
            if version:
                deadline, retired = max(deadline, retire(home) + START_SECONDS), retired + 1
            if time.monotonic() > deadline:
                raise _unavailable(home, "the kgd daemon closes every connection")
            continue
        return sock


def is_hub(home: Home) -> bool:
    """Whether the running daemon is a hub, or does not answer. Costs a call of `status`, which every released version
    answers."""
    import json

    sock = _open(home.socket)
    if sock is None:
        return False
    try:
        sock.settimeout(HELLO_SECONDS)
        sock.sendall(hello("call", "kgd-start", cwd="/") + b'{"id":0,"call":"status","args":{}}\n')
        lines = b""
        while lines.count(b"\n") < 2 and (chunk := sock.recv(262144)):
            lines += chunk
        return bool(json.loads(lines.split(b"\n")[1])["result"]["daemon"].get("listening"))
    except OSError:
        return True  # a busy hub may not answer in time
    except (ValueError, LookupError):
        return False
    finally:
        sock.close()


def retire(home: Home) -> float:
    """Ask a daemon to finish its calls and end; returns the time when it had ended."""
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
    """Whether `kgd uninstall --all` is removing this home, or has removed it."""
    return not os.path.isdir(home.state) or os.path.exists(os.path.join(home.state, UNINSTALLED))


def running(home: Home) -> bool:
    """Whether a daemon holds this home's lock. Tries a shared lock, so that concurrent checks do not collide."""
    import fcntl

    try:
        fd = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def end(home: Home) -> int:
    """Send SIGTERM to a daemon that refuses connections, and return its pid; 0 if the system does not report the
    process at the socket, as in another container."""
    import signal
    import struct

    if not hasattr(socket, "SO_PEERCRED") or (sock := _open(home.socket)) is None:
        return 0
    try:
        pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        if pid:
            os.kill(pid, signal.SIGTERM)
        return int(pid)
    except OSError:
        return 0
    finally:
        sock.close()


def log_tail(home: Home) -> str:
    """The last five lines of the daemon's log, on one line."""
    try:
        with open(home.log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return " | ".join(file.read().decode("utf-8", "replace").splitlines()[-5:])
    except OSError:
        return ""


def _open(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        sock.close()
        return None
    except PermissionError:
        sock.close()
        from kgd.errors import Forbidden

        raise Forbidden("you may not open this socket", at=path, next="Set KGD_HOME to your own folder.") from None
    return sock


def _greet(sock: socket.socket, greeting: bytes) -> tuple[str, bool]:
    """The daemon's version, empty if it closed without an answer; and whether the daemon is not older than this
    program. Raises Refused if it answered with an error."""
    sock.settimeout(HELLO_SECONDS)
    line = b""
    try:
        sock.sendall(greeting)
        while not line.endswith(b"\n") and len(line) < HELLO_LIMIT:
            # Peek, then read exactly one line: the rest belongs to the next reader.
            seen = sock.recv(4096, socket.MSG_PEEK)
            if not seen:
                return "", False
            line += sock.recv(seen.find(b"\n") + 1 or len(seen))
    except OSError:
        return "", False
    sock.settimeout(None)
    stamp = program_stamp()
    if line.startswith(b'{"kgd":"%s"' % __version__.encode()) and b'"program":"%s"' % _escaped(stamp).encode() in line:
        return __version__, True
    import json

    found = json.loads(line)
    if "error" in found:
        raise Refused(found["error"])
    version = str(found.get("kgd", "0"))
    was_replaced = version == __version__ and is_program_replaced(str(found.get("program", stamp)), stamp)
    return version, not (was_replaced or is_older_version(version, __version__))


def _start(home: Home, deadline: float) -> None:
    """Start the daemon and wait until it listens, or wait a moment if another client is starting it."""
    import fcntl

    home.prepare()
    starting = os.open(os.path.join(home.state, "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if time.monotonic() > deadline:
            raise _unavailable(home, "no kgd daemon is running, and none could be started in time")
        try:
            fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
            return
        if sock := _open(home.socket):  # another client started it first
            sock.close()
            return
        if pid := _spawn(home):
            _wait_until_it_listens(home, pid, deadline)
        else:
            time.sleep(0.05)
    finally:
        os.close(starting)


def _spawn(home: Home) -> int:
    """Start a daemon that outlives this process; returns its pid, or 0 while an earlier daemon is ending."""
    import subprocess

    done = subprocess.run(
        [*home.daemon_command(), "--detach"], cwd=home.state, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode == HELD:
        return 0
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise _unavailable(home, f"the kgd daemon could not start: {''.join(reason)}")
    return int(done.stdout)


def _wait_until_it_listens(home: Home, pid: int, deadline: float) -> None:
    while not (sock := _open(home.socket)):
        if not running(home):
            raise _unavailable(home, "the kgd daemon ended during startup")
        if time.monotonic() > deadline:
            raise _unavailable(home, f"the kgd daemon (pid {pid}) was not ready in time")
        time.sleep(0.005)
    sock.close()


def _unavailable(home: Home, reason: str) -> KgdError:
    from kgd.errors import Unavailable

    tail = log_tail(home)
    return Unavailable(reason + (f"; its log ends: {tail[-200:]}" if tail else ""), next=f"See {home.log}.")


def _downgraded(version: str) -> KgdError:
    from kgd.errors import Unavailable

    return Unavailable(
        f"every new kgd daemon ({version}) is older than this program ({__version__})",
        next="kgd was downgraded: restart this program, or the agent that runs it.",
    )


def _escaped(text: str) -> str:
    """The text escaped for the inside of a JSON string, without importing json, which takes 7 ms."""
    clean = text.encode("utf-8", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in clean)
