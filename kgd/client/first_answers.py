"""The file of earlier answers with which `kgd mcp` answers a host before its daemon has started.

The daemon writes the file; a `kgd mcp` that finds no daemon reads it. An answer is used only for a request with the
same method, parameters, protocol version and toolsets, and only while the installed program and the registry file are
the same as for the daemon that gave it. Any other file is ignored.
"""

from __future__ import annotations

import os
import sys

from kgd import __version__

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
    import json
    from zlib import crc32

    try:
        with open(path_of(home), "rb") as file:
            checksum, _, body = file.read().partition(b"\n")
        if int(checksum) != crc32(body):
            return None
        fields = json.loads(body)
        found = FirstAnswers()
        found.answers, found.registry, found.usual = fields["answers"], fields["registry"], fields["usual"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if installation and fields.get("installation") == installation else None


def write(home: Home, installation: str, kept: FirstAnswers) -> None:
    """Replace the file atomically. The file is not flushed: after a power cut, its checksum may be wrong."""
    import json
    from zlib import crc32

    fields = {
        "installation": installation,
        "registry": kept.registry,
        "usual": kept.usual,
        "answers": kept.answers,
    }
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
    import json

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
