"""The registry ``workspaces.yaml``, with workspaces and settings: reading after edits, and writing."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace

from kgd.config import Home
from kgd.config.edit import with_entry, without_entry
from kgd.config.entries import (
    SHARED_LIMIT,
    Entry,
    Registry,
    Settings,
    is_shared_file,
    parse,
    parse_shared,
    spelled,
)
from kgd.errors import Invalid, InvariantViolation, KgdError

__all__ = [
    "SHARED_LIMIT", "Entry", "Registry", "RegistryFile", "Settings", "is_shared_file", "parse", "parse_shared",
    "spelled",
]  # fmt: skip


class RegistryFile:
    """The registry of a home, read again after each edit. Safe for threads and for other processes.

    `problem` is the reason why the current file is not used; until it is repaired the last good version is used, of
    which a copy is kept on disk.
    """

    def __init__(self, home: Home) -> None:
        self.path, self._state = home.registry, home.state
        self._copy = os.path.join(home.state, "workspaces-good.yaml")
        self.problem: KgdError | None = None
        self._believed = False
        self._lock = threading.Lock()
        self._stamp: object = ()
        self._own = self._good = Registry({})

    def current(self) -> Registry:
        """The last good version of the file; costs one or two `stat` calls if it is unchanged."""
        if (_stamp(self.path), self._stamp_of_shared()) != self._stamp:
            with self._lock:
                # The stamp is taken before reading, so that a concurrent edit is seen the next time.
                own = _stamp(self.path)
                self._reload()
                shared = self._stamp_of_shared()
                self._good = self._merged(self._own)
                self._stamp = own, shared
        return self._good

    def register(self, entry: Entry, *, replace: bool = False, is_alive: Callable[[Entry], bool] | None = None) -> None:
        """Add the entry, or update the path of a moved workspace. Comments and order of the file stay.

        Raises:
            InvariantViolation: Another repository has that id, still exists (`is_alive`), and `replace` is not set.
            Invalid: The file is broken and was not changed.
        """

        def change(text: str, entries: dict[str, Entry]) -> str:
            known = entries.get(entry.id)
            if known == entry:
                return text
            moved = known is not None and known.path not in ("", entry.path)
            if known and moved and not replace and (is_alive is None or is_alive(known)):
                raise InvariantViolation(
                    f"another repository is registered as '{entry.id}'", at=known.path,
                    next="Use it there, or replace its entry with `kgd up --replace`.",
                )  # fmt: skip
            return with_entry(text, entry.id, entry.written())

        self._rewrite(change)

    def forget(self, id: str) -> None:
        """Remove an entry, if it exists."""
        self._rewrite(lambda text, entries: without_entry(text, id) if id in entries else text)

    def keep_shared(self, organisation: str, data: bytes) -> None:
        """Save a new version of the organisation's registry.

        Raises:
            Invalid: It is broken, has forbidden fields, or became empty: the last good version stays.
        """
        fresh = parse_shared(data)
        path = self._shared_path(organisation)
        before = _file(path)
        if not fresh and before and parse_shared(before):
            raise Invalid("the organisation's registry is empty now; its entries are kept", at=organisation,
                          next="If that is intended, remove `registry:` from workspaces.yaml.")  # fmt: skip
        if data != before:
            os.makedirs(self._state, mode=0o700, exist_ok=True)
            _replace(path, data)

    def _shared_path(self, organisation: str) -> str:
        """The copy's path, which depends on the address, so that organisations are not mixed up."""
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
        data = _file(self.path)
        try:
            fresh = parse(data, self.path)
            if self._own.entries and not fresh.entries:
                raise Invalid(
                    "the registry is empty now; its workspaces are kept until the daemon restarts", at=self.path,
                    next="Restore them, or run `kgd down`.",
                )  # fmt: skip
            self._own, self.problem, self._believed = fresh, None, True
            self._keep_copy(data)
        except KgdError as error:
            self.problem = self._named(error, "Fix it; until then its last good version is used.")
            if not self._believed:
                with contextlib.suppress(KgdError):
                    self._own = parse(_file(self._copy), self._copy)

    def _named(self, error: KgdError, otherwise: str) -> KgdError:
        """The error with the whole path, since there may be several homes."""
        if self.path not in error.at:
            error.next = f"{error.next or otherwise} The file is {self.path}."
        return error

    def _keep_copy(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
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
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return b""


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _replace(path: str, data: bytes) -> None:
    """Replace a file atomically and durably. A symbolic link stays a link."""
    target = os.path.realpath(path)
    fresh = f"{target}.{os.getpid()}.tmp"
    with open(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "wb"
    ) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, target)
