"""The limited process: receives the bytes of untrusted documents and returns their text. It has limited memory and
processor time, and no access to the network, other programs, or any file except its libraries, so that a malicious file
causes only a line in a report.
"""

from __future__ import annotations

import contextlib
import json
import mimetypes
import resource
import struct
import sys
from typing import Any, BinaryIO

from kgd.ingest.readers import Text, Unreadable, html, office

MEMORY = 1 << 30
"""Limit of the address space in bytes."""
CPU_SECONDS = 30
"""Processor time in seconds for one document."""
LENGTH = struct.Struct(">Q")

_REFUSED = tuple(
    """
    socket. subprocess. os.exec os.fork os.posix_spawn os.spawn os.system os.remove os.rename os.mkdir os.rmdir os.link
    os.symlink os.chmod os.chown os.truncate shutil. urllib. ftplib. http. smtplib. ctypes.dlopen pty. winreg.
    """.split()
)


def main() -> None:
    """Answer one request after another until the pipe is closed."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # libraries may print to standard output
    _limit()
    while (asked := _receive(source)) is not None:
        format = asked.decode()
        data = _receive(source)
        if data is None:
            return
        _allow_time()
        answer = json.dumps(_answer(format, data), ensure_ascii=True).encode()
        sink.write(LENGTH.pack(len(answer)) + answer)
        sink.flush()


def _answer(format: str, data: bytes) -> dict[str, Any]:
    try:
        read = _read(format, data)
    except Unreadable as error:
        return {"unreadable": error.message, "next": error.next}
    except MemoryError:
        return {"unreadable": "reading it needs too much memory", "next": "", "spent": True}
    except RecursionError:
        return {"unreadable": "it is nested too deeply", "next": ""}
    except Exception as error:  # noqa: BLE001 - a library's error about a broken file becomes one line
        return {"unreadable": f"it is not a valid {format} file ({type(error).__name__})", "next": ""}
    return {
        "format": read.format,
        "kind": read.kind,
        "title": read.title,
        "text": read.text,
        "trouble": list(read.trouble),
    }


def _read(format: str, data: bytes) -> Text:
    """Read a document. A reader imports its library only for a document of its format."""
    match format:
        case "html":
            return html.read(data)
        case "pdf":
            return office.read_pdf(data)
        case "epub":
            return office.read_book(data)
    return office.read(format, data)


def _limit() -> None:
    mimetypes.init([])  # a library needs it, and would otherwise read the system's files
    sys.modules["numpy"] = None  # type: ignore[assignment]  # optional for a library, and large
    limits = {resource.RLIMIT_AS: MEMORY, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 64}
    for kind, amount in limits.items():
        with contextlib.suppress(OSError, ValueError):  # not every system has every limit
            resource.setrlimit(kind, (amount, amount))
    places = (*filter(None, sys.path), sys.prefix, sys.base_prefix, "/dev/null", "/usr/share/zoneinfo")

    def refuse(event: str, details: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode = str(details[0]), str(details[1] or "r")
            if isinstance(details[0], int) or (path.startswith(places) and not set(mode) & set("wax+")):
                return
            raise PermissionError("opening files is not allowed here")
        if event.startswith(_REFUSED):
            raise PermissionError("only reading is allowed here")

    sys.addaudithook(refuse)


def _allow_time() -> None:
    """Extend the limit of processor time beyond the time already used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + CPU_SECONDS, hard))


def _receive(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = source.read(length)
    return data if len(data) == length else None
