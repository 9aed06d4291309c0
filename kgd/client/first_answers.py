"""The beginning of a host's conversation, before the daemon has started: answers from a file of earlier answers.

The daemon writes the file; a `kgd mcp` that finds no daemon reads it. An answer is used only for a request with the
same method, parameters, protocol version and toolsets, and only while the installed program and the registry file are
the same as for the daemon that gave it. Any other file is ignored.

The daemon then receives the whole conversation in order; requests with a known answer get other ids. Its answers to
these requests are compared with those already given, and dropped.
"""

from __future__ import annotations

import json
import os
import sys
from zlib import crc32

from kgd import __version__
from kgd.client import EARLY, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kgd.config import Home

METHODS = frozenset({"initialize", "server/discover", "tools/list", "prompts/list", "resources/templates/list"})
"""Methods whose answers depend only on values that the file compares."""
ENVELOPE = "io.modelcontextprotocol/"
"""Prefix of the keys in `_meta` that belong to the protocol; other keys may differ in every request."""
PROTOCOL_VERSION = ENVELOPE + "protocolVersion"
ONLY = "only:"
FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
CHANGED = {
    "prompts/list": "notifications/prompts/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
}
TOOLS_CHANGED = "notifications/tools/list_changed"


class FirstAnswers:
    """The content of the file.

    Attributes:
        answers: Results as JSON text, by `key_of`.
        registry: The stamp of the registry file for which `usual` is valid.
        usual: The toolsets of a client that does not name any.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.registry: object = None
        self.usual = ""


def path_of(home: Home) -> str:
    return os.path.join(home.state, "first-answers.json")


def read(home: Home, installation: str) -> FirstAnswers | None:
    """The file's content; None if it is missing, damaged, or from another installation."""
    try:
        with open(path_of(home), "rb") as file:
            checksum, _, body = file.read().partition(b"\n")
        if int(checksum) != crc32(body):
            return None
        fields = json.loads(body)
        found = FirstAnswers()
        found.answers, found.registry, found.usual = fields["answers"], fields["registry"], fields["usual"]
    except (OSError, ValueError, KeyError, TypeError):  # an import of kgd.errors would delay the first answer
        return None
    return found if installation and fields.get("installation") == installation else None


def write(home: Home, installation: str, kept: FirstAnswers) -> None:
    """Replace the file atomically. The file is not flushed: after a power cut, its checksum may be wrong."""
    fields = {"installation": installation, "registry": kept.registry, "usual": kept.usual, "answers": kept.answers}
    body = json.dumps(fields).encode()
    fresh = f"{path_of(home)}.{os.getpid()}.tmp"
    with open(fresh, "wb") as file:
        file.write(b"%d\n" % crc32(body) + body)
    os.replace(fresh, path_of(home))


def key_of(toolsets: str, version: str, method: str, parameters: Any) -> str | None:
    """The key of an answer; None if the request cannot occur again in the same form.

    Args:
        toolsets: As returned by `normal`.
        version: The connection's protocol version; empty for `initialize`, which negotiates it.
    """
    meta = parameters.get("_meta") if isinstance(parameters, dict) else None
    if isinstance(meta, dict) and not all(name.startswith(ENVELOPE) for name in meta):
        return None
    return json.dumps([toolsets, version, method, parameters], sort_keys=True, separators=(",", ":"))


def normal(toolsets: str) -> str:
    """A choice of toolsets in its normal spelling, which is the same for equal choices."""
    names = sorted({name.strip() for name in toolsets.removeprefix(ONLY).split(",") if name.strip()})
    return (ONLY if names and toolsets.startswith(ONLY) else "") + ",".join(names)


def registry_stamp(home: Home) -> list[int] | None:
    """A stamp that changes with each edit of the registry file, which contains the settings."""
    try:
        found = os.stat(home.registry)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def installation() -> str:
    """A stamp that changes whenever the program does: its version, its source files, or the installed packages.

    Empty if the files cannot be listed. Costs one `stat` per source file, two milliseconds in total.
    """
    try:
        return _installation()
    except OSError:
        return ""


def _installation() -> str:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = size = changed = 0
    folders = [package]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found = entry.stat()
                    files, size, changed = files + 1, size + found.st_size, changed + found.st_mtime_ns
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    packages = [
        f"{path} {os.stat(path).st_mtime_ns}"
        for path in sys.path
        if os.path.basename(path) in ("site-packages", "dist-packages") and os.path.isdir(path)
    ]
    return "\n".join([__version__, sys.version, f"{package} {files} {size} {changed}", *packages])


class FirstContact:
    """The messages between a host and a daemon that has not answered yet.

    If the first message has no known answer, no answer is given at all: that message decides the protocol.
    """

    def __init__(self, home: Home, toolsets: str) -> None:
        kept = read(home, installation())
        if kept and not toolsets and kept.registry != registry_stamp(home):
            kept = None
        self._answers = kept.answers if kept else {}
        self._toolsets = normal(toolsets) if toolsets or not kept else kept.usual
        self._version = ""
        """The version that `initialize` negotiated; empty in the modern protocol, whose requests name it."""
        self._has_begun = False
        self._due: dict[str, tuple[str, bytes]] = {}
        """Method and expected line of each repeated request, by its new id."""
        self._count = 0

    def split(self, lines: bytes) -> tuple[bytes, bytes]:
        """The answers for the host, and the lines for the daemon."""
        answers, onward = bytearray(), bytearray()
        for line in lines.splitlines(keepends=True):
            answer = self._answer(line) if self._answers else None
            if answer is None:
                if not self._has_begun:
                    self._answers = {}
                onward += line
                continue
            method, key, result = answer
            answers += _line(key, result)
            again = f"{EARLY}{self._count}"
            self._count += 1
            self._due[again] = method, _line(again, result)
            onward += renamed(line, again)
        return bytes(answers), bytes(onward)

    @property
    def is_checking(self) -> bool:
        """Whether the daemon has yet to send an answer that the host already has."""
        return bool(self._due)

    def check(self, lines: bytes) -> bytes:
        """The daemon's lines for the host. An answer that differs from the answer already given becomes a
        notification."""
        passed = bytearray()
        for line in lines.splitlines(keepends=True):
            key = json.loads(line).get("id") if EARLY.encode() in line else None
            if key not in self._due:
                passed += line
                continue
            method, expected = self._due.pop(key)
            if line != expected and self._version:
                notification = {"jsonrpc": "2.0", "method": CHANGED.get(method, TOOLS_CHANGED)}
                passed += json.dumps(notification).encode() + b"\n"
        return bytes(passed)

    def _answer(self, line: bytes) -> tuple[str, str | int, str] | None:
        """Method, id and result of a request with a known answer."""
        try:
            message = json.loads(line.decode())
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or not message.keys() <= FIELDS or message.get("jsonrpc") != "2.0":
            return None
        method, key, parameters = message.get("method"), message.get("id"), message.get("params")
        if not isinstance(method, str) or not isinstance(key, str | int) or not _is_plain(key):
            return None
        version = self._version_of(method, parameters)
        sought = None if version is None else key_of(self._toolsets, version, method, parameters)
        result = self._answers.get(sought) if sought else None
        if result is None:
            return None
        if not self._has_begun and method == "initialize":
            self._version = json.loads(result)["protocolVersion"]
        self._has_begun = True
        return method, key, result

    def _version_of(self, method: str, parameters: Any) -> str | None:
        """The protocol version of a request; None if it has none."""
        if self._version:
            return self._version
        if method == "initialize":
            return None if self._has_begun else ""
        meta = parameters.get("_meta") if isinstance(parameters, dict) else None
        found = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
        return found if isinstance(found, str) else None


def _is_plain(key: str | int) -> bool:
    """Whether an id can be written in only one way, so that the answer has the same bytes as the daemon's."""
    if isinstance(key, str):
        return key.isascii() and key.isprintable()
    return not isinstance(key, bool) and abs(key) < 2**53


def _line(key: str | int, result: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (json.dumps(key).encode(), result.encode())
