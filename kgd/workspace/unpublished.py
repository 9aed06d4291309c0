"""This file is where it is known what lies in the work tree without being published as it lies there, and whose it is.

A person's edit is part of the workspace before it is published; what a publication placed before it was given up is
not published either. Neither may read as news, and the one may be taken back, which the other may not.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Damaged, KgdError, Limit
from kgd.git.files import replace
from kgd.git.objects import Object, ObjectId
from kgd.git.refs import HEAD
from kgd.git.store import Lookup, ObjectStore
from kgd.workspace.aside import hex_of, id_of
from kgd.workspace.work_tree import FILE_LIMIT, Found, WorkTree, is_owned


@dataclass(frozen=True, slots=True)
class _Lies:
    """What lies at a path. `before`: what was published there when a person wrote it; None where we placed it."""

    id: ObjectId | None
    data: bytes | None
    before: Found | None = None


class Unpublished:
    """What is known of the paths of one work tree that are not as they are published. For the publication's thread.

    Args:
        memory: The file in which it is kept what a person wrote, over a stop.
    """

    def __init__(self, store: ObjectStore, tree: WorkTree, memory: Path) -> None:
        self._store, self._tree, self._memory = store, tree, memory
        self._published: Lookup | None = None
        self.bases, self._lying = _load(memory, store)
        """Files that were published past while a person's version of them waited: what that version started from."""
        self._saved = self._persons()
        self._is_loaded = True

    # ---- telling it

    def published(self, tree: ObjectId) -> None:
        """Which tree is the published one."""
        self._published = Lookup(self._store, tree)
        if self._is_loaded:  # what was published since it was written down, and the process killed, says nothing more
            self._is_loaded = False
            for path, known in list(self._lying.items()):
                if known.before not in (None, Found(self._published_blob(path))) and path not in self.bases:
                    del self._lying[path]

    def took(self, path: str, id: ObjectId | None, data: bytes | None) -> None:
        """A person wrote it, and it is part of the workspace now."""
        if id is not None and data is not None and not self._store.exists(id):
            with contextlib.suppress(OSError, KgdError):  # it was merged, so its own bytes are in no commit
                self._store.release(self._store.write([Object(id, "blob", data)]))
        self._lying[path] = _Lies(id, data, Found(self._published_blob(path)))
        self.settled(path)

    def lies(self, path: str, blob: ObjectId | None) -> None:
        """The path holds bytes of ours though they are not published: a publication was given up half way.

        What a person wrote there and what was to be placed may be the same: then it stays theirs.
        """
        known = self._lying.get(path)
        if known is None or known.before is None or known.id != blob:
            self._lying[path] = _Lies(blob, None if blob is None else self._store.read(blob))

    def forget(self, path: str) -> None:
        """The path is as it is published, and no version of a person waits there."""
        self._lying.pop(path, None)
        self.settled(path)

    def passed(self, path: str, old: ObjectId | None) -> None:
        """The path was published without touching the file, which is a person's and started from `old`."""
        if path not in self.bases:
            self.bases[path] = old
            self._save()

    def settled(self, path: str) -> None:
        """No version of a person waits at the path any more."""
        if path in self.bases:
            del self.bases[path]
            self._save()

    def remember(self) -> None:
        """Keep what a person wrote that is taken and not published: what they take back while kgd is down is known."""
        if self._saved != self._persons():
            self._save()

    # ---- asking it

    def paths(self) -> list[str]:
        """Paths that may not be as they are published."""
        return list(self._lying)

    def lying(self) -> dict[str, ObjectId | None]:
        """Paths that hold, by a person or by us, what is known and not published, and what is. A look at each that may.

        Of one that is as it is published, whoever saw to that, nothing is remembered.
        """
        found: dict[str, ObjectId | None] = {}
        for path, known in list(self._lying.items()):
            there, published = self._tree.look(path), self._published_blob(path)
            if there == Found(published) and not self.is_undone(path, there):
                del self._lying[path]
            elif there == Found(known.id):
                found[path] = published
        return found

    def ids(self, path: str) -> frozenset[ObjectId | None]:
        """What is known to be at the path though it was not published: ids of bytes, None for their absence."""
        known = self._lying.get(path)
        return frozenset([known.id]) if known else frozenset()

    def is_known(self, path: str, found: Found) -> bool:
        """Whether what is at the path was taken already, so that it may be replaced."""
        known = self._lying.get(path)
        return not found.odd and known is not None and known.id == found.id

    def is_undone(self, path: str, found: Found) -> bool:
        """Whether a person took back what they had written, while that is in the workspace and not published."""
        known = self._lying.get(path)
        return known is not None and known.before == found != Found(known.id)

    def latest(self, path: str) -> bytes | None:
        """What a person has there before they go on: their last version, what that started from, or what is published.

        Their last version also where it was published past since.
        """
        if path in self._lying:
            return self._lying[path].data
        return self.text(self.bases[path] if path in self.bases else self._published_blob(path))

    def text(self, id: ObjectId | None) -> bytes | None:
        """A blob's bytes; None also where somebody committed one that nobody can read."""
        try:
            return self._store.read(id, FILE_LIMIT) if id else None
        except (Damaged, Limit):
            return None

    # ---- inside

    def _published_blob(self, path: str) -> ObjectId | None:
        return self._published.entry(path) if self._published else None

    def _persons(self) -> dict[str, tuple[ObjectId | None, ObjectId | None]]:
        return {path: (known.id, known.before.id) for path, known in self._lying.items() if known.before is not None}

    def _save(self) -> None:
        persons = self._persons()
        bases = {path: hex_of(id) for path, id in self.bases.items()}
        taken = {path: [hex_of(id), hex_of(before)] for path, (id, before) in persons.items()}
        tip = hex_of(self._store.ref(HEAD))
        replace(self._memory, json.dumps({"bases": bases, "taken": taken, "tip": tip}).encode())
        self._saved = persons


def _load(memory: Path, store: ObjectStore) -> tuple[dict[str, ObjectId | None], dict[str, _Lies]]:
    """What was published past, and what of a person's was taken; of what is not to be read, nothing."""
    bases, lying = dict[str, ObjectId | None](), dict[str, _Lies]()
    try:
        saved = json.loads(memory.read_bytes())
        found = [(str(path), id_of(base)) for path, base in saved["bases"].items()]
        taken = [(str(path), id_of(id), id_of(before)) for path, (id, before) in saved["taken"].items()]
        at, tip = id_of(saved.get("tip")), store.ref(HEAD)
        if not (at and tip and store.exists(at) and store.is_ancestor(at, tip)):
            taken = []  # the tip was taken back behind it: nobody has what a person wrote
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError, KgdError):
        return bases, lying
    for path, base in found:
        with contextlib.suppress(KgdError, ValueError):
            _read(store, base)
            if _is_a_file(path):
                bases[path] = base
    for path, id, before in taken:
        with contextlib.suppress(KgdError, ValueError):
            _read(store, before)
            if _is_a_file(path):
                lying[path] = _Lies(id, _read(store, id), Found(before))
    return bases, lying


def _is_a_file(path: str) -> bool:
    """Whether a file of the workspace can be called so. Raises ValueError for what is no text of UTF-8."""
    return bool(path.encode()) and is_owned(path)


def _read(store: ObjectStore, id: ObjectId | None) -> bytes | None:
    return None if id is None else store.read(id, FILE_LIMIT)
