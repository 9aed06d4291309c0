"""Edits staged in memory: from a tip's tree to new blobs, trees and commits."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from kgd.errors import InvariantViolation, Limit
from kgd.git.objects import (
    EMPTY_TREE,
    FILE,
    FOLDER,
    Entry,
    Object,
    ObjectId,
    Signature,
    Tree,
    TreeLines,
    commit_body,
    make,
    parse_tree,
    raw,
    text,
)
from kgd.git.refs import move_ref
from kgd.git.store import READ_LIMIT, ObjectStore
from kgd.git.walk import DEPTH_LIMIT

log = logging.getLogger(__name__)

Sign: TypeAlias = "Callable[[Staging, bytes], bytes]"
"""Returns a staged commit with a signature, or unchanged if commits are not signed. Raises KgdError."""

KGD = ("kgd", "kgd@kgd.invalid")
"""Name and email of the committer, and of the author of kgd's own commits (merges, the first commit)."""
CACHED_ENTRIES = 400_000
"""Folder entries kept in memory between commits: about 60 MB at most."""
CACHED_LINES = 50_000
"""Entries of edited folders that are also kept as lines of a tree: about 10 MB at most."""


class Staging:
    """Edits of one tree, commit by commit, for one thread.

    Only touched folders are rewritten. Every object that the previous tree lacks is created and stays pending, even if
    the repository already has it: an unreferenced object may be removed before the commit is written.

    Usage for a batch: for each change, call `put` and `remove`, then `write_tree` and `commit`, or `discard`. At the
    end, write `objects` and call `flushed`, or `reset` to the value of the ref.
    """

    _root: ObjectId

    def __init__(self, store: ObjectStore, tree: ObjectId | None, sign: Sign | None = None) -> None:
        self._store, self._sign = store, sign
        self.reset(tree)

    @property
    def tree(self) -> ObjectId:
        """The tree as of the last `write_tree`."""
        return self._root

    @property
    def mark(self) -> tuple[ObjectId, int]:
        """The state that `discard` goes back to: the tree, and the number of `unsigned` commits."""
        return self._root, len(self.unsigned)

    @property
    def objects(self) -> list[Object]:
        """Objects to be written: each after the objects it refers to, so the newest commit is last."""
        return list(self._pending.values())

    @property
    def changed(self) -> bool:
        """Whether there are edits since the last `write_tree`."""
        return bool(self._dirty)

    # ---- reading

    def blob_at(self, path: str) -> ObjectId | None:
        """The id of the file at the path, edits included."""
        found = self.lookup(path)
        return found[1] if found and found[0] != FOLDER else None

    def lookup(self, path: str) -> Entry | None:
        """Mode and id at the path, edits included; an edited folder still has the id from before the edits."""
        folder, name = _split(path)
        return self._folder(folder).get(raw(name))

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder, edits included; empty if there is no folder."""
        return sorted(text(name) for name in self._folder(folder))

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at the path, edits included."""
        id = self.blob_at(path)
        return None if id is None else self.object(id)

    def object(self, id: ObjectId) -> bytes:
        """The bytes of an object, pending or stored."""
        pending = self._pending.get(id)
        return pending.body if pending else self._store.read(id)

    # ---- editing

    def put(self, path: str, data: bytes) -> ObjectId:
        """Write these bytes as the file at the path and return its blob id. Equal bytes are not an edit.

        Raises:
            InvariantViolation: A folder is there, a file is in the way, or git does not allow the name.
            Limit: The path is too deep.
        """
        folder, name = _split(path)
        key = raw(name)
        _check_names(path)
        before = self._folder(folder).get(key)
        if before and before[0] == FOLDER:
            raise InvariantViolation("a folder has this name", at=path)
        made = make("blob", data)
        if before != (FILE, made.id):
            self._touch(folder, key)
            self._add(made)
            self._folders[folder][key] = (FILE, made.id)
            self._entries += before is None
        return made.id

    def remove(self, path: str) -> bool:
        """Remove the file at the path and folders that become empty; False if there is no file."""
        if self.blob_at(path) is None:
            return False
        folder, name = _split(path)
        self._touch(folder, raw(name))
        while True:
            entries = self._folders[folder]
            del entries[raw(name)]
            self._entries -= 1
            if entries or not folder:
                return True
            del self._folders[folder], self._dirty[folder]
            self._lines.pop(folder, None)
            folder, name = _split(folder)

    def write(self, files: Mapping[str, bytes | None]) -> dict[str, ObjectId | None]:
        """Put and remove files (None), and return their blob ids by path. Removals come first, because a folder may
        replace a removed file."""
        changed: dict[str, ObjectId | None] = {path: None for path, data in files.items() if data is None}
        for path in changed:
            self.remove(path)
        return changed | {path: self.put(path, data) for path, data in sorted(files.items()) if data is not None}

    def write_tree(self) -> ObjectId:
        """Make the trees of all edits and return the root's id. The cost is proportional to the entries of the touched
        folders."""
        for path in sorted(self._dirty, key=lambda path: path.count("/") + 1 if path else 0, reverse=True):
            up, name = _split(path)
            made = make("tree", self._body(path))
            before = self._root if not path else self._folders[up][raw(name)][1]
            if made.id != before:
                self._add(made)
            if path:
                self._folders[up][raw(name)] = (FOLDER, made.id)
            else:
                self._root = made.id
        self._dirty.clear()
        self._fresh.clear()
        self._shrink()
        return self._root

    def commit(
        self,
        tree: ObjectId,
        parents: Sequence[ObjectId],
        author: Signature,
        message: str,
        *,
        committer: Signature | None = None,
        pure: bool = False,
    ) -> ObjectId:
        """Make a commit and return its id. The committer defaults to kgd, at the author's time.

        A `pure` commit is a function of its parents: it is the same at every copy, so it is never signed.

        Raises:
            KgdError: The commit cannot be signed.
        """
        by = committer or Signature(*KGD, author.time)
        body = commit_body(tree, parents, author, by, message)
        made = make("commit", self._sign(self, body) if self._sign and not pure else body)
        if pure:
            self.unsigned.append(made.id)
        self._pending.pop(made.id, None)
        self._pending[made.id] = made
        return made.id

    def advance(
        self,
        scratch: Path,
        ref: str,
        old: ObjectId | None,
        new: ObjectId,
        note: str = "",
        *,
        agree: Callable[[], None] | None = None,
    ) -> None:
        """Make `objects` durable, then move a ref to the commit among them. Ref locks are prepared in `scratch`.

        `agree` is called in between; if it raises, the ref does not move.

        Raises:
            RefMoved: The ref is not at `old`.
            OSError, Damaged: The objects or the ref could not be written; read the ref to learn whether it moved.
        """
        store, objects = self._store, self.objects
        written: Path | None = None
        try:
            written = store.write(objects) if objects else None
            if agree:
                agree()
            move_ref(store.git_dir, scratch, ref, old, new, note=note[:200])
        finally:
            try:
                store.release(written)
            except OSError as error:  # the .keep only protects the pack from a gc, and the next startup removes it
                log.warning("a .keep could not be removed", extra={"reason": str(error)})

    def discard(self, mark: tuple[ObjectId, int]) -> None:
        """Go back to a `mark`: drop all edits and `unsigned` commits since then. Pending objects stay, except those of
        edits without a tree."""
        tree, unsigned = mark
        del self.unsigned[unsigned:]
        for path in self._dirty:
            self._folders.pop(path, None)
            self._lines.pop(path, None)  # an interrupted `write_tree` may have updated them
        for id in self._fresh:
            self._pending.pop(id, None)
        self._dirty.clear()
        self._fresh.clear()
        if tree != self._root:
            self._root, self._entries, self._line_count = tree, 0, 0
            self._folders.clear()
            self._lines.clear()

    def flushed(self) -> None:
        """Drop the pending objects, which are durable and referenced now; keep the folders in memory."""
        self._pending.clear()
        self._fresh.clear()
        self.unsigned.clear()

    def reset(self, tree: ObjectId | None) -> None:
        """Start again from another tree; pending objects are dropped."""
        self.unsigned: list[ObjectId] = []
        """The pending commits that were made with `pure`."""
        self._root = tree or EMPTY_TREE
        self._folders: OrderedDict[str, Tree] = OrderedDict()
        self._entries = 0
        self._dirty: dict[str, set[bytes]] = {}
        """The edited names, by folder."""
        self._lines: dict[str, TreeLines] = {}
        """The trees of folders as of the last `write_tree`, and the number of their lines when they were made."""
        self._line_count = 0
        self._pending: dict[ObjectId, Object] = {}
        self._fresh: list[ObjectId] = []

    # ---- inside

    def _folder(self, path: str) -> Tree:
        """The entries of a folder; empty, and not cached, if there is no such folder."""
        known = self._folders.get(path)
        if known is not None:
            self._folders.move_to_end(path)
            return known
        if path:
            up, name = _split(path)
            entry = self._folder(up).get(raw(name))
            if entry is None or entry[0] != FOLDER:
                return {}
            id = entry[1]
        else:
            id = self._root
        entries = {} if id == EMPTY_TREE else parse_tree(self.object(id))
        self._folders[path] = entries
        self._entries += len(entries)
        return entries

    def _touch(self, path: str, name: bytes) -> None:
        """Mark an entry of the folder, and the folder and its parents, as edited; create missing folders."""
        chain = [path]
        while chain[-1] not in self._dirty and chain[-1]:
            chain.append(_split(chain[-1])[0])
        for at in reversed(chain):  # from the top: a file in the way refuses the edit before anything is changed
            entries = self._folder(at)
            if at not in self._folders:
                up, called = _split(at)
                if raw(called) in self._folder(up):
                    raise InvariantViolation("a file is in the way of a folder", at=at)
                self._folders[at] = entries
                self._folders[up][raw(called)] = (FOLDER, EMPTY_TREE)  # a placeholder until `write_tree`
                self._entries += 1
        for at in chain:
            self._dirty.setdefault(at, set())
        for inner, outer in pairwise(chain):
            self._dirty[outer].add(raw(_split(inner)[1]))
        self._dirty[path].add(name)

    def _body(self, path: str) -> bytes:
        """The bytes of an edited folder's tree."""
        entries, lines = self._folders[path], self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = TreeLines(entries)
            self._line_count += len(entries)
        else:
            lines.update(entries, self._dirty[path])
        return lines.body()

    def _add(self, made: Object) -> None:
        if made.id not in self._pending:
            self._pending[made.id] = made
            self._fresh.append(made.id)

    def _shrink(self) -> None:
        """Drop the least recently used folders, down to half the limit. No folder is dirty here."""
        if self._line_count > CACHED_LINES:
            self._lines.clear()
            self._line_count = 0
        if self._entries <= CACHED_ENTRIES:
            return
        self._entries = sum(map(len, self._folders.values()))
        while self._folders and self._entries > CACHED_ENTRIES // 2:
            self._entries -= len(self._folders.popitem(last=False)[1])


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _check_names(path: str) -> None:
    names = path.split("/")
    if len(names) > DEPTH_LIMIT:
        raise Limit(f"a path has at most {DEPTH_LIMIT} parts", at=path[:60])
    for name in names:
        if name in ("", ".", "..") or name.lower() == ".git" or "\0" in name:
            raise InvariantViolation("git does not allow this name", at=path[:60])


class Unwritten(ObjectStore):
    """A repository with additional objects in memory, for one thread and one computation.

    Every read sees these objects, including `tree`, `diff` and `commit`; `write` and refs do not.
    """

    def __init__(self, store: ObjectStore, objects: Iterable[Object] = ()) -> None:
        self.__dict__.update(store.__dict__)
        self._unwritten: dict[ObjectId, Object] = {}
        if isinstance(store, Unwritten):
            self._unwritten.update(store._unwritten)
        self.add(objects)

    def add(self, objects: Iterable[Object]) -> None:
        self._unwritten.update((made.id, made) for made in objects)

    def _read(self, id: ObjectId, limit: int = READ_LIMIT) -> tuple[str, bytes]:
        made = self._unwritten.get(id)
        return (made.kind, made.body) if made else super()._read(id, limit)
