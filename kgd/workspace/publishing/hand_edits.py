"""Edits by hand: noticing and checking a person's changes in the work tree, and distinguishing them from kgd's own.

Hints list paths to check; a scan checks all paths. An edit is committed once its bytes have not changed for a moment
and have passed admission. An inadmissible file is reported and waits, without delaying others. A missing file is
treated as deleted only while its folder exists, and only if few files are missing at once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kgd.codec import paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.errors import Invalid, KgdError
from kgd.git.layout import git_in
from kgd.git.objects import FOLDER, PLAIN, ObjectId, object_id
from kgd.git.store import ObjectStore
from kgd.git.walk import Lookup
from kgd.workspace.answers import InvalidFile
from kgd.workspace.memory_files import Home
from kgd.workspace.publishing.publication_plan import Unpublished
from kgd.workspace.publishing.work_tree import Found, WorkTree, is_owned, is_temporary
from kgd.workspace.writing.admission import check

RECENT_SECONDS = 600.0
RECENT_PATHS = 2_000
RECENT_VERSIONS = 6

QUIET = 0.3
QUIET_CAP = 2.0
"""Seconds without a change before an edit is committed, at most; after this time it is committed despite further
changes."""
BRAKE_SHARE = 0.2
BRAKE_COUNT = 10
"""If more node files are missing than both limits allow, their deletion is held until a person confirms it."""
HINTS_LIMIT = 500
"""With more hints than this a scan is cheaper, as after a checkout, which touches everything."""


@dataclass(frozen=True, slots=True)
class HandEdit:
    """A person's edit of one file; `data` is None for a deletion. `base` is the version that the person started
    from."""

    path: str
    data: bytes | None
    base: bytes | None

    @property
    def id(self) -> ObjectId | None:
        return None if self.data is None else object_id("blob", self.data)


class Look(NamedTuple):
    """The result of one look: edits to commit now, whether files are still changing, and paths to restore."""

    edits: list[HandEdit]
    unsettled: bool
    restore: list[str]


@dataclass(slots=True)
class _Seen:
    id: ObjectId | None
    first: float
    since: float
    refused: bool = False


class HandEdits:
    """The observed state of one work tree. Used only in the publication's thread, except for `invalid_files` and
    `hint`, which are thread-safe."""

    def __init__(
        self, store: ObjectStore, tree: WorkTree, workspace: str, sharded: frozenset[str], memory: Path
    ) -> None:
        self._tree, self._store = tree, store
        self.unpublished, self.buffers = Unpublished(store, tree, memory), Buffers()
        self.home = Home(workspace, sharded, self._text)
        """Edits are checked against the files in the work tree."""
        self.left_out: frozenset[str] = frozenset()
        """Paths that a sparse checkout leaves out of the work tree: their files are not missing."""
        self._left_out_folders: tuple[ObjectId, frozenset[str], list[str]] = (b"", frozenset(), [])
        self._hinting = threading.Lock()
        self._hints: set[str] = set()
        """Files, and folders that appeared or disappeared."""
        self._rescan = True
        self._seen: dict[str, _Seen] = {}
        self._missing: frozenset[str] = frozenset()
        self._missing_since = 0.0
        self._confirmed = False
        self.scan_seconds = 0.0
        """CPU time of the last look at all files."""
        self._invalid: dict[str, InvalidFile] = {}
        self.held = ""
        """Why the deletion of missing files is held, and what to do; empty if none is held."""

    # ---- notes

    def hint(self, changed: Iterable[str] | None) -> None:
        """Record paths below the work tree that may have changed; None means any path. Thread-safe."""
        with self._hinting:
            if changed is None:
                self._rescan = True
                return
            self._hints.update(changed)
            if len(self._hints) > HINTS_LIMIT:
                self._rescan = True

    def committed(self, edit: HandEdit) -> None:
        """Record that the edit is now part of the workspace."""
        self.unpublished.record_edit(edit.path, edit.id, edit.data)
        self._seen.pop(edit.path, None)
        self._invalid.pop(edit.path, None)
        for seen in self._seen.values():  # an edit refused because of this file may be admissible now
            seen.refused = False
        self.buffers.note(edit.path, edit.base, edit.data)

    def refuse(self, path: str, error: KgdError) -> None:
        """Report inadmissible bytes at the path; they are checked again after they change."""
        seen = self._seen.get(path)
        if seen:
            seen.refused = True
        try:
            uri = paths.uri_of(path, self.home.workspace, self.home.sharded)
        except KgdError:
            uri = None
        self._invalid[path] = InvalidFile.refused(path, uri, error)

    def published(self, path: str, old: ObjectId | None, new: ObjectId | None) -> None:
        """Record that the path was published; an editor may still have the `old` version open."""
        self._forget(path)
        self.buffers.note(path, self.unpublished.text(old), self.unpublished.text(new))

    def confirm(self) -> None:
        """Confirm the deletion of the held files."""
        self._confirmed, self._rescan = True, True

    # ---- reads

    def invalid_files(self) -> tuple[InvalidFile, ...]:
        return tuple(found for _, found in sorted(self._invalid.copy().items()))

    def may_pass(self, path: str) -> bool:
        """Whether the file waits for a person, so that publication skips it."""
        seen = self._seen.get(path)
        return (
            path in self._invalid
            or path in self._missing
            or path in self.unpublished.bases
            or (seen is not None and seen.refused)
        )

    def missing_folders(self, published: ObjectId) -> list[str]:
        """Top-level folders of the published tree that are completely missing. This is never treated as a deletion."""
        if not self._tree.exists():
            return [""]
        missing = [
            folder
            for folder in ("nodes", "memories", "bulk")
            if self._store.lookup(published, folder) and self._tree.look(folder) == Found(None)
        ]
        if missing and self.left_out:
            if self._left_out_folders[:2] != (published, self.left_out):
                empty = [folder for folder in missing if self._is_left_out(published, folder)]
                self._left_out_folders = published, self.left_out, empty
            missing = [folder for folder in missing if folder not in self._left_out_folders[2]]
        return missing

    def look(
        self,
        published: ObjectId,
        head: ObjectId,
        *,
        settle: bool = False,
        holds: Callable[[str], bool] = lambda path: False,
    ) -> Look:
        """Compare the work tree with the published tree and return a person's edits.

        Takes one look-up per hinted file and one scan per hinted folder. After a hint without a path or about a special
        file, it scans everything once. `head` is the tree of the tip; content that is in it is not an edit. With
        `settle`, only missing files wait until changes have stopped. Changes of a path that the user's index `holds`
        are left alone.
        """
        began = time.thread_time()
        missing_folders = self.missing_folders(published)
        if missing_folders:
            return Look([], False, missing_folders)
        found, base, full = self._to_compare(published)
        now, tip = time.monotonic(), Lookup(self._store.tree, head)
        edits: list[HandEdit] = []
        missing: set[str] = set()
        restore: list[str] = []
        for path, at in found.items():
            if self._is_settled(path, at, base.get(path), tip):
                continue
            if holds(path):
                self._seen.pop(path, None)
                continue
            if at.id is None:
                self._forget(path, same=False)
                (restore.append if path == SETTINGS else missing.add)(path)
            elif self._is_quiet(path, at.id, now, settle) and (edit := self._read(path, at.id)):
                edits.append(edit)
        if full:
            for path in [p for p in (*self._seen, *self._invalid) if p not in found]:
                self._forget(path, same=False)
            absent = {path for path in base if path not in found and not holds(path)}
            missing |= absent - {SETTINGS}
            restore += absent & {SETTINGS}
            missing = {path for path in missing if None not in self.unpublished.ids(path) and tip.entry(path)}
            edits += self._deletions(frozenset(missing), base, now)
            self.scan_seconds = time.thread_time() - began
        elif missing - self._missing:
            self._rescan = True  # only a scan shows whether one file is missing or all are
        moving = any(not seen.refused for seen in self._seen.values())
        return Look(edits, moving or self._rescan or bool(self._missing and not self.held), restore)

    def started_from(self, path: str, data: bytes, latest: bytes | None) -> bytes | None:
        """The version from which a person made `data`: the latest, or a recent one that an editor had open."""
        if latest is None or not self._is_readable(path, latest):
            return latest  # a file that cannot be read was repaired: no older version is merged with it
        return self.buffers.closest(path, data, latest)

    # ---- inside

    def _to_compare(self, published: ObjectId) -> tuple[dict[str, Found], dict[str, ObjectId | None], bool]:
        """The files of the work tree and of the published tree to compare, and whether these are all files."""
        with self._hinting:
            hints, self._hints = self._hints, set()
            full, self._rescan = self._rescan or bool(self._missing and not self.held), False
        files = {path for path in hints if is_owned(path)}
        folders = {path for path in hints - files if self._tree.is_folder(path)}
        full = full or any(self._hides_files(path, published) for path in hints - files - folders)
        if full:
            found, base = self._scan(published)
            found |= {
                path: self._tree.look(path)
                for path in self.unpublished.paths()
                if path not in found and path not in base
            }
        else:
            asked = sorted({*files, *self._seen, *self._invalid, *self.unpublished.bases})
            found = {path: self._tree.look(path) for path in asked}
            there = Lookup(self._store.tree, published)
            base = {path: there.entry(path) for path in asked}
            for folder in folders:
                inside, base_inside = self._scan(published, folder)
                found |= {**dict.fromkeys(base_inside, Found(None)), **inside}
                base |= base_inside
        return found, base, full

    def _is_left_out(self, published: ObjectId, folder: str) -> bool:
        tree = self._folder(published, folder)
        return not tree or all(f"{folder}/{name}" in self.left_out for name, _, _ in self._store.files(tree))

    def _text(self, path: str) -> bytes | None:
        data = self._tree.read(path)
        return self.unpublished.latest(path) if data is None and path in self.left_out else data

    def _scan(self, published: ObjectId, below: str = "") -> tuple[dict[str, Found], dict[str, ObjectId | None]]:
        """The files of the work tree and of the published tree, in all of kgd's folders or in one."""
        files, odd_folders = self._tree.scan(below)
        base: dict[str, ObjectId | None] = {}
        tree = self._folder(published, below)
        for name, mode, id in self._store.files(tree) if tree else ():
            path = f"{below}/{name}" if below else name
            if is_owned(path) and mode.startswith(PLAIN):  # not a committed link or submodule
                base[path] = id
        hidden = tuple(folder + "/" for folder in odd_folders)
        if hidden:
            base = {path: id for path, id in base.items() if not path.startswith(hidden)}
        return files, base

    def _folder(self, published: ObjectId, path: str) -> ObjectId | None:
        entry = self._store.lookup(published, path)
        return entry[1] if entry and entry[0] == FOLDER else None

    def _hides_files(self, path: str, published: ObjectId) -> bool:
        """Whether a path that is neither one of kgd's folders nor one of its files is a special file, or was a
        published folder."""
        at = self._tree.look(path)
        if at.odd:
            return not is_temporary(path.rpartition("/")[2])
        return at.id is None and self._folder(published, path) is not None

    def _is_settled(self, path: str, at: Found, base: ObjectId | None, head: Lookup) -> bool:
        """Whether the content of a path needs no further check: it is known, or was reported as special."""
        if at.odd:
            self._seen.pop(path, None)
            self.refuse(path, Invalid(at.odd))
        elif (at.id == base and not self.unpublished.is_undone(path, at)) or self.unpublished.is_committed(path, at):
            self._forget(path, same=at.id == base)
        elif at.id == head.entry(path):
            self._forget(path)
        else:
            return False
        return True

    def _is_quiet(self, path: str, id: ObjectId, now: float, settle: bool) -> bool:
        seen = self._seen.get(path)
        if seen is None or seen.id != id:
            self._seen[path] = seen = _Seen(id, seen.first if seen and not seen.refused else now, now)
        if seen.refused:
            return False
        return settle or now - seen.since >= QUIET or now - seen.first >= QUIET_CAP

    def _read(self, path: str, id: ObjectId) -> HandEdit | None:
        """The edit, checked; None if the file just changed, or was refused and reported."""
        data = self._tree.read(path)
        if data is None or object_id("blob", data) != id:
            return None
        base = self._base(path, data)
        try:
            check(path, data, base, self.home)
        except KgdError as error:
            self.refuse(path, error)
            return None
        self._invalid.pop(path, None)
        return HandEdit(path, data, base)

    def _deletions(self, missing: frozenset[str], base: dict[str, ObjectId | None], now: float) -> list[HandEdit]:
        if missing != self._missing:
            self._missing, self._missing_since = missing, now
        nodes = sum(path.startswith(("nodes/", "bulk/")) for path in missing)
        total = sum(path.startswith(("nodes/", "bulk/")) for path in base)
        if nodes > BRAKE_COUNT and nodes > BRAKE_SHARE * total and not self._confirmed:
            git = git_in(self._tree.root)
            self.held = (
                f"{nodes} of {total} node files are missing in the work tree; kgd deletes them only if you confirm: "
                f"`kgd doctor --confirm-deletions` deletes them, as does `{git} commit -am deleted`; "
                f"`{git} checkout -- nodes` restores them"
            )
            return []
        self.held = ""
        if not missing:
            self._confirmed = False
        if not missing or now - self._missing_since < QUIET:
            return []
        self._missing = frozenset()
        return [HandEdit(path, None, self._base(path, None)) for path in sorted(missing)]

    def _base(self, path: str, data: bytes | None) -> bytes | None:
        """The version that the person started from."""
        latest = self.unpublished.latest(path)
        return latest if data is None else self.started_from(path, data, latest)

    def _is_readable(self, path: str, data: bytes) -> bool:
        try:
            check(path, data, None, self.home)
        except KgdError:
            return False
        return True

    def _forget(self, path: str, *, same: bool = True) -> None:
        self._seen.pop(path, None)
        self._invalid.pop(path, None)
        if same:
            self.unpublished.forget(path)


class Buffers:
    """Versions that an editor may have open, by path: the last few versions of the last few files."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, list[tuple[bytes, float]]] = OrderedDict()
        """By path, versions with their times, the newest last."""

    def note(self, path: str, before: bytes | None, now: bytes | None) -> None:
        """Record the former and the current version of a file, in this order."""
        kept = [known for known in self._texts.pop(path, []) if known[0] != now]
        at = time.monotonic()
        if before is not None and before != now and all(before != text for text, _ in kept):
            kept.insert(0, (before, at))
        if now is not None:
            kept.append((now, at))
        self._texts[path] = kept[-RECENT_VERSIONS:]
        while len(self._texts) > RECENT_PATHS:
            self._texts.popitem(last=False)

    def ids(self, path: str) -> frozenset[ObjectId]:
        return frozenset(object_id("blob", text) for text, _ in self._texts.get(path, []))

    def closest(self, path: str, data: bytes, latest: bytes | None) -> bytes | None:
        """The version from which `data` was most likely made: `latest` or another recent version.

        Saving an editor's old buffer would revert later publications, so the recent version closest to the saved text
        is taken as the base. Saving an old version unchanged is treated as a deliberate revert.
        """
        start = time.monotonic() - RECENT_SECONDS
        recent = [text for text, when in reversed(self._texts.get(path, [])) if when >= start]
        candidates = [*([] if latest is None else [latest]), *recent]
        if data in candidates or not candidates:
            return latest
        lines = set(data.split(b"\n"))
        return min(candidates, key=lambda text: len(set(text.split(b"\n")) ^ lines))
