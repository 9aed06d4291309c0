"""The registry ``workspaces.yaml``, with workspaces and settings: reading it after each edit, and editing the text of
an entry.

Edits support only the block style of ``workspaces.example.yaml`` and refuse other styles. The result is parsed before
it is saved.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kgd.config import Home
from kgd.config.entries import Entry, Registry, parse, parse_shared
from kgd.errors import Invalid, InvariantViolation, KgdError, Unavailable
from kgd.git import files


class _Held(threading.local):
    registry: Registry | None = None


class RegistryFile:
    """The registry of a home, read again after each edit. Thread-safe, also beside other processes.

    `problem` is the reason why the current file is not used. Until the file is fixed, the last good version is used; a
    copy of it is on disk.
    """

    def __init__(self, home: Home) -> None:
        self.path, self._state = home.registry, home.state
        self._copy = os.path.join(home.state, "workspaces-good.yaml")
        self.problem: KgdError | None = None
        self._believed = False
        self._lock = threading.Lock()
        self._held = _Held()
        self._stamp: object = ()
        self._own = self._good = Registry({})

    def current(self) -> Registry:
        """The last good version of the file; costs one or two `stat` calls if it is unchanged."""
        if self._held.registry is not None:
            return self._held.registry
        if (_stamp(self.path), self._stamp_of_shared()) != self._stamp:
            with self._lock:
                # The stamp is taken before reading, so that a concurrent edit is noticed the next time.
                own = _stamp(self.path)
                self._reload()
                shared = self._stamp_of_shared()
                self._good = self._merged(self._own)
                self._stamp = own, shared
        return self._good

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Within the block, `current` looks for edits only once in this thread."""
        self._held.registry = self.current()
        try:
            yield
        finally:
            self._held.registry = None

    def register(self, entry: Entry, *, replace: bool = False, is_alive: Callable[[Entry], bool] | None = None) -> None:
        """Add the entry, or update the path of a moved workspace. The file's comments and order are kept.

        Raises:
            InvariantViolation: The id belongs to another repository that still exists (`is_alive`), and `replace` is
                not set.
            Invalid: The file is malformed and was not changed.
        """

        def change(text: str, entries: dict[str, Entry]) -> str:
            known = entries.get(entry.id)
            if known == entry:
                return text
            moved = known is not None and known.path not in ("", entry.path)
            if known and moved and not replace and (is_alive is None or is_alive(known)):
                raise InvariantViolation(
                    f"another repository is registered as '{entry.id}'",
                    at=known.path,
                    next="Use that repository, or replace its entry with `kgd up --replace`.",
                )
            return with_entry(text, entry.id, entry.written())

        self._rewrite(change)

    def forget_remote(self, id: str) -> None:
        """Remove the remote of a workspace that has a path, with all fields about the remote."""
        given = ("remote", "ref", "token", "sync")

        def change(text: str, entries: dict[str, Entry]) -> str:
            known = entries.get(id)
            if known is None or not known.path:
                return text
            return with_entry(text, id, replace(known, remote="", ref="", token="", sync=None).written(), without=given)

        self._rewrite(change)

    def forget(self, id: str) -> None:
        """Remove an entry, if it exists."""
        self._rewrite(lambda text, entries: without_entry(text, id) if id in entries else text)

    def keep_shared(self, organisation: str, data: bytes) -> None:
        """Save a new version of the organisation's registry.

        Raises:
            Invalid: The new version is malformed, has forbidden fields, or is empty; the last good version is kept.
        """
        fresh = parse_shared(data)
        path = self._shared_path(organisation)
        before = _file(path)
        if not fresh and before and parse_shared(before):
            raise Invalid(
                "the organisation's registry is empty now; its entries are kept",
                at=organisation,
                next="If that is intended, remove `registry:` from workspaces.yaml.",
            )
        if data != before:
            os.makedirs(self._state, mode=0o700, exist_ok=True)
            _replace(path, data)

    def _shared_path(self, organisation: str) -> str:
        """The path of the copy. It depends on the address, so that organisations are not confused."""
        known = hashlib.sha256(organisation.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return os.path.join(self._state, f"registry-{known}.yaml")

    def _stamp_of_shared(self) -> object:
        return _stamp(self._shared_path(self._own.organisation)) if self._own.organisation else None

    def _merged(self, own: Registry) -> Registry:
        """The registry with the organisation's entries, which the file's own entries override."""
        if not own.organisation:
            return own
        try:
            shared = parse_shared(_file(self._shared_path(own.organisation)))
        except KgdError as error:  # another program changed the copy
            self.problem, shared = error, {}
        others = frozenset(shared) - frozenset(own.entries)
        return replace(own, entries={**shared, **own.entries}, shared=others)

    def _reload(self) -> None:
        try:
            data = _file(self.path)
            fresh = parse(data, self.path)
            if self._own.entries and not fresh.entries:
                raise Invalid(
                    "the registry is empty now; its workspaces are kept until the daemon restarts",
                    at=self.path,
                    next="Restore them, or run `kgd down`.",
                )
            self._own, self.problem, self._believed = fresh, None, True
            self._keep_copy(data)
        except KgdError as error:
            self.problem = self._named(error, "Fix it; until then its last good version is used.")
            if not self._believed:
                with contextlib.suppress(KgdError):
                    self._own = parse(_file(self._copy), self._copy)

    def _named(self, error: KgdError, otherwise: str) -> KgdError:
        """The error with the full path of the file, since there may be several homes."""
        if self.path not in error.at:
            error.next = f"{error.next or otherwise} The file is {self.path}."
        return error

    def _keep_copy(self, data: bytes) -> None:
        with contextlib.suppress(OSError, KgdError):
            if os.path.isdir(self._state) and data != _file(self._copy):
                _replace(self._copy, data)

    def _rewrite(self, change: Callable[[str, dict[str, Entry]], str]) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        guard = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            before = _file(self.path)
            try:
                known = parse(before, self.path).entries
            except KgdError as error:
                raise self._named(error, "Fix it first.") from None
            changed = change(before.decode(), known).encode()
            after = parse(changed, self.path)
            if changed != before:
                _replace(self.path, changed)
            self._keep_copy(changed)
            with self._lock:
                self.problem, self._stamp, self._believed = None, (), True
                self._own, self._good = after, self._merged(after)
        finally:
            os.close(guard)


def _file(path: str) -> bytes:
    """The content of a file; empty if there is none. Raises Unavailable if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise Unavailable(f"this file cannot be read: {error.strerror}", at=path, next="Repair it.") from None


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _replace(path: str, data: bytes) -> None:
    """Replace a file atomically and durably; if it is a symbolic link, replace its target."""
    files.replace(Path(os.path.realpath(path)), data, mode=0o600)


# ---- text edits of one entry, which keep the user's comments and order

_HEAD = re.compile(r"workspaces:[ ]*(#.*)?$").match
_PLAIN = re.compile(r"/[A-Za-z0-9/._-]*\Z").match


def with_entry(text: str, id: str, fields: Mapping[str, str | bool | float], *, without: tuple[str, ...] = ()) -> str:
    """`text` with this entry added at the end, or with its fields replaced; the fields `without` are removed.

    Raises:
        Invalid: ``workspaces`` is not in block style.
    """
    lines = text.splitlines()
    start, end, indent = _block(lines)
    if start < 0:
        lines += ["workspaces:"]
        start, end, indent = len(lines) - 1, len(lines), "  "
    first, last = _lines_of(lines, start, end, indent, id)
    if first < 0:
        made = [f"{indent}{id}:", *(f"{indent}  {name}: {_scalar(value)}" for name, value in fields.items())]
        lines[end:end] = made
        return "\n".join(lines) + "\n"
    replaced = ("path", "code", "standalone", *fields, *without)
    kept = [line for line in lines[first + 1 : last] if not _is_field(line, replaced)]
    inner = next((_indent(line) for line in lines[first + 1 : last] if _is_content(line)), f"{indent}  ")
    comments = {name: _comment(line) for line in lines[first + 1 : last] for name in fields if _names(line, name)}
    made = [f"{inner}{name}: {_scalar(value)}{comments.get(name, '')}" for name, value in fields.items()]
    lines[first + 1 : last] = made + kept
    return "\n".join(lines) + "\n"


def without_entry(text: str, id: str) -> str:
    """`text` without this entry and the comments inside it."""
    lines = text.splitlines()
    start, end, indent = _block(lines)
    first, last = _lines_of(lines, start, end, indent, id)
    if first >= 0:
        del lines[first:last]
        if not any(_is_content(line) for line in lines[start + 1 : end - (last - first)]):
            lines[start] = "workspaces: {}"
    return "\n".join(lines) + "\n"


def _block(lines: list[str]) -> tuple[int, int, str]:
    """(line of ``workspaces:``, line after its last entry, indent of its entries); -1 if missing."""
    for number, line in enumerate(lines):
        if line.strip() in ("workspaces: {}", "workspaces: null", "workspaces: ~"):
            lines[number] = "workspaces:"
            return number, number + 1, "  "
        if not line.startswith("workspaces"):
            continue
        if not _HEAD(line):
            raise Invalid(
                "'workspaces' is not written as a block, so kgd does not edit it",
                at=f"line {number + 1}",
                next="Write each workspace as a block, as in workspaces.example.yaml.",
            )
        end, indent = number + 1, ""
        for below in range(number + 1, len(lines)):
            if not _is_content(lines[below]):
                continue
            if not lines[below].startswith(" "):
                break
            indent, end = indent or _indent(lines[below]), below + 1
        return number, end, indent or "  "
    return -1, -1, "  "


def _lines_of(lines: list[str], start: int, end: int, indent: str, id: str) -> tuple[int, int]:
    """(line of the entry's key, line after its last field); -1 if missing."""
    is_key = re.compile(rf"{indent}(['\"]?){re.escape(id)}\1:[ ]*(#.*)?$").match
    for first in range(start + 1, end):
        if not is_key(lines[first]):
            continue
        last = first + 1
        for below in range(first + 1, end):
            if _is_content(lines[below]):
                if len(_indent(lines[below])) <= len(indent):
                    break
                last = below + 1
        return first, last
    return -1, -1


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _names(line: str, name: str) -> bool:
    return line.lstrip().startswith(f"{name}:")


def _is_field(line: str, names: tuple[str, ...]) -> bool:
    return any(_names(line, name) for name in names)


def _comment(line: str) -> str:
    """The comment after a value, including the space before it."""
    found = re.search(r"""(?:"[^"]*"|'[^']*'|[^"'#\s][^#]*?)(\s+#.*)$""", line.partition(":")[2].lstrip())
    return found.group(1) if found else ""


def _scalar(value: str | bool | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}"
    return value if _PLAIN(value) else json.dumps(value, ensure_ascii=False)
