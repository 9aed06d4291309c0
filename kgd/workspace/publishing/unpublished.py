"""Unpublished files: known differences between work tree and published tree, and their authors.

A person's edit is committed before it is published, and an abandoned publication leaves files behind. kgd does not
treat either of them as a new edit. A person may undo a committed edit, but not an abandoned publication.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgd.errors import Damaged, KgdError, Limit
from kgd.git import state_files
from kgd.git.files import replace
from kgd.git.objects import Object, ObjectId
from kgd.git.refs import HEAD
from kgd.git.store import ObjectStore
from kgd.git.walk import Lookup
from kgd.workspace.files.parts import FILE_LIMIT
from kgd.workspace.publishing.publication_plan import hex_of, id_of
from kgd.workspace.publishing.work_tree import Found, WorkTree, is_owned


@dataclass(frozen=True, slots=True)
class _Content:
    """The known content of a path. `before` is the version that was published when a person wrote the content; None if
    kgd wrote it."""

    id: ObjectId | None
    data: bytes | None
    before: Found | None = None


class Unpublished:
    """Paths of one work tree that differ from the published tree. Used only in the publication's thread.

    Args:
        memory: The file that keeps a person's edits across a restart.
    """

    def __init__(self, store: ObjectStore, tree: WorkTree, memory: Path) -> None:
        self._store, self._tree, self._memory = store, tree, memory
        self._published: Lookup | None = None
        self.bases, self._contents = _load(memory, store)
        """For each file published without touching a person's waiting version: the version that the person started
        from."""
        self._saved = self._persons()
        self._is_loaded = True

    # ---- notes

    def set_published(self, tree: ObjectId) -> None:
        """Set the published tree."""
        self._published = Lookup(self._store.tree, tree)
        if self._is_loaded:  # an entry that was published after it was saved, before a kill, is obsolete
            self._is_loaded = False
            for path, known in list(self._contents.items()):
                if known.before not in (None, Found(self._published_blob(path))) and path not in self.bases:
                    del self._contents[path]

    def record_edit(self, path: str, id: ObjectId | None, data: bytes | None) -> None:
        """Record a person's edit that is now part of the workspace."""
        if id is not None and data is not None and not self._store.exists(id):
            with contextlib.suppress(OSError, KgdError):  # after a merge, the edit's own bytes are not in any commit
                self._store.release(self._store.write([Object(id, "blob", data)]))
        self._contents[path] = _Content(id, data, Found(self._published_blob(path)))
        self.end_skip(path)

    def record_own(self, path: str, blob: ObjectId | None) -> None:
        """Record kgd's own unpublished bytes at a path, left by an abandoned publication.

        If a person wrote the same bytes, they remain recorded as the person's.
        """
        known = self._contents.get(path)
        if known is None or known.before is None or known.id != blob:
            self._contents[path] = _Content(blob, None if blob is None else self._store.read(blob))

    def forget(self, path: str) -> None:
        """Record that the path matches the published tree, and that no version of a person is waiting there."""
        self._contents.pop(path, None)
        self.end_skip(path)

    def skip(self, path: str, old: ObjectId | None) -> None:
        """Record that the path was published without touching a person's file, which started from `old`."""
        if path not in self.bases:
            self.bases[path] = old
            self._save()

    def end_skip(self, path: str) -> None:
        """Record that no version of a person is waiting at the path any longer."""
        if path in self.bases:
            del self.bases[path]
            self._save()

    def save_edits(self) -> None:
        """Save a person's committed but unpublished edits, so that kgd recognises an edit that is undone while kgd is
        not running."""
        if self._saved != self._persons():
            self._save()

    # ---- reads

    def paths(self) -> list[str]:
        """Paths that may differ from the published tree."""
        return list(self._contents)

    def differing(self) -> dict[str, ObjectId | None]:
        """Paths with known unpublished content, with the published blob of each. Checks each candidate in the work
        tree.

        Paths that match the published tree are forgotten.
        """
        found: dict[str, ObjectId | None] = {}
        for path, known in list(self._contents.items()):
            there, published = self._tree.look(path), self._published_blob(path)
            if there == Found(published) and not self.is_undone(path, there):
                del self._contents[path]
            elif there == Found(known.id):
                found[path] = published
        return found

    def ids(self, path: str) -> frozenset[ObjectId | None]:
        """Known unpublished content of the path, as blob ids; None means absent."""
        known = self._contents.get(path)
        return frozenset([known.id]) if known else frozenset()

    def is_committed(self, path: str, found: Found) -> bool:
        """Whether the content of the path is already committed, so that it may be replaced."""
        known = self._contents.get(path)
        return not found.odd and known is not None and known.id == found.id

    def is_undone(self, path: str, found: Found) -> bool:
        """Whether a person undid an edit that is committed but not published."""
        known = self._contents.get(path)
        return known is not None and known.before == found != Found(known.id)

    def latest(self, path: str) -> bytes | None:
        """The version from which a person's next edit starts: their last version, the version from which that one
        started, or the published version."""
        if path in self._contents:
            return self._contents[path].data
        return self.text(self.bases[path] if path in self.bases else self._published_blob(path))

    def text(self, id: ObjectId | None) -> bytes | None:
        """A blob's bytes; None if it cannot be read."""
        try:
            return self._store.read(id, FILE_LIMIT) if id else None
        except (Damaged, Limit):
            return None

    # ---- inside

    def _published_blob(self, path: str) -> ObjectId | None:
        return self._published.entry(path) if self._published else None

    def _persons(self) -> dict[str, tuple[ObjectId | None, ObjectId | None]]:
        return {path: (known.id, known.before.id) for path, known in self._contents.items() if known.before is not None}

    def _save(self) -> None:
        persons = self._persons()
        bases = {path: hex_of(id) for path, id in self.bases.items()}
        taken = {path: [hex_of(id), hex_of(before)] for path, (id, before) in persons.items()}
        tip = hex_of(self._store.ref(HEAD))
        replace(self._memory, json.dumps({"bases": bases, "taken": taken, "tip": tip}).encode())
        self._saved = persons


def _load(memory: Path, store: ObjectStore) -> tuple[dict[str, ObjectId | None], dict[str, _Content]]:
    """The saved bases and edits, without unreadable entries."""
    bases, contents = dict[str, ObjectId | None](), dict[str, _Content]()
    found, taken, at = state_files.read(memory, _parse) or ([], [], None)
    try:
        tip = store.ref(HEAD)
        if not (at and tip and store.exists(at) and store.is_ancestor(at, tip)):
            taken = []  # the tip was reset to an earlier commit, so no version has the user's text
    except (ValueError, KgdError):
        return bases, contents
    for path, base in found:
        with contextlib.suppress(KgdError, ValueError):
            _read(store, base)
            if _is_a_file(path):
                bases[path] = base
    for path, id, before in taken:
        with contextlib.suppress(KgdError, ValueError):
            _read(store, before)
            if _is_a_file(path):
                contents[path] = _Content(id, _read(store, id), Found(before))
    return bases, contents


def _parse(
    saved: Any,
) -> tuple[list[tuple[str, ObjectId | None]], list[tuple[str, ObjectId | None, ObjectId | None]], ObjectId | None]:
    """The bases, the edits and the tip of a state file; a file of another shape raises."""
    bases = [(str(path), id_of(base)) for path, base in saved["bases"].items()]
    taken = [(str(path), id_of(id), id_of(before)) for path, (id, before) in saved["taken"].items()]
    return bases, taken, id_of(saved.get("tip"))


def _is_a_file(path: str) -> bool:
    """Whether a file of the workspace can have this path. Raises ValueError if the path is not UTF-8."""
    return bool(path.encode()) and is_owned(path)


def _read(store: ObjectStore, id: ObjectId | None) -> bytes | None:
    return None if id is None else store.read(id, FILE_LIMIT)
