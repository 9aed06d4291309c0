"""The object store: objects by id, trees, commits, differences and merge bases of an open repository.

All reads go through libgit2's object database, each header before its body, and never through its work tree, index or
merge: an unvetted tree can make those hang or use up all memory. Tree walks are our own, with budgets
(`kgd.git.objects`).
"""

from __future__ import annotations

import ctypes
import functools
import heapq
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pygit2
from pygit2 import _libgit2

from kgd.errors import Damaged, Limit, Unavailable
from kgd.git import pack, program, refs
from kgd.git.discovery import check_configuration, open_bare
from kgd.git.objects import (
    EMPTY_TREE,
    FOLDER,
    Commit,
    Entry,
    Object,
    ObjectId,
    Tree,
    object_id,
    parse_commit,
    parse_tree,
    raw,
)
from kgd.git.walk import ENTRY_BUDGET, differences

READ_LIMIT = 64 << 20
"""Maximum size in bytes of an object that `read` inflates by default; a tree of a million entries is smaller."""
READ_AGAIN_AFTER = (0.0, 0.0, 0.01, 0.05, 0.2, 0.6)
"""Seconds before each new attempt to read an object, through a new handle. A gc may remove its pack again, and a
multi-pack-index may list a removed pack until git has written a new index. For a missing object there is one more
attempt."""
OLDEST_LIBGIT2 = (1, 9, 7)
OPEN_PACKS = 8
"""Pack files that libgit2 keeps open in this process, for all repositories. It closes the least recently used pack, and
opens it again when needed, in about 0.1 ms."""
MAPPED_AT_ONCE, MAPPED_IN_ALL = 128 << 10, 1 << 20
"""Maximum bytes of pack files mapped into memory; without a limit, resident memory grows with the history. With four
times as much, reads of random objects take as long."""
CACHED = 8 << 20
"""Bytes of small trees and commits that libgit2 caches, for all repositories."""

_UNREADABLE = (KeyError, OSError, ValueError, MemoryError, pygit2.GitError)
"""pygit2's errors for a missing or broken object; ValueError for an unknown kind, MemoryError for a false size."""
_NOT_FOUND = -3
"""libgit2's ``GIT_ENOTFOUND``."""
_ANOTHER_COPY = "Run `kgd fsck`; another copy of the workspace may have it."
_OF_ANOTHER_USER = "It belongs to another user: work in a clone of your own, with `git clone` and `kgd up`."
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}

pygit2.settings.mwindow_file_limit = OPEN_PACKS
pygit2.settings.mwindow_size = MAPPED_AT_ONCE
pygit2.settings.mwindow_mapped_limit = MAPPED_IN_ALL
pygit2.settings.cache_max_size(CACHED)


T = TypeVar("T")


class Difference(NamedTuple):
    path: str
    old: ObjectId | None
    new: ObjectId | None


class FileEntry(NamedTuple):
    path: str
    mode: bytes
    id: ObjectId


class _Handle(NamedTuple):
    """An open repository, and the address of its object database for `read_header`."""

    repository: pygit2.Repository
    database: ctypes.c_void_p


class ObjectStore:
    """The objects and refs of one repository. Any number of threads may read; a read takes about 20 us."""

    def __init__(self, git_dir: Path, work_tree: Path | None = None, *, beside: Path | None = None) -> None:
        """Open the repository.

        Args:
            work_tree: The path of its work tree, if ``core.worktree`` names one.
            beside: A second folder to read objects from, such as the quarantine of a push.

        Raises:
            Unavailable: libgit2 is too old, or kgd cannot trust or read the repository.
        """
        if pygit2.LIBGIT2_VER < OLDEST_LIBGIT2:
            raise Unavailable(f"libgit2 {pygit2.LIBGIT2_VERSION} is too old", next="Install pygit2 1.21 or newer.")
        self.git_dir, self.work_tree = git_dir, work_tree
        self.objects_dir = git_dir / "objects"
        self.pack_dir = git_dir / "objects" / "pack"
        self._hopeless = 0
        """When the packs had last changed at the time of a read that failed in all attempts, in ns since 1970."""
        self._places = (self.objects_dir, beside) if beside else (self.objects_dir,)
        self.reopened = 0
        self._reopening = threading.Lock()
        self._ending = ""
        """Suffix of the path that the open handle uses for its packs."""
        self._packs = frozenset[str]()
        """Names of the pack files that `renew` last saw."""
        check_configuration(git_dir, work_tree)
        self._handle = self._open()

    # ---- objects

    def read(self, id: ObjectId, limit: int = READ_LIMIT) -> bytes:
        """The bytes of an object.

        Raises:
            Damaged: The object is missing or broken.
            Limit: The object has more than `limit` bytes; it was not inflated.
        """
        return self._read(id, limit)[1]

    def kind_and_size(self, id: ObjectId) -> tuple[str, int] | None:
        """Kind and size from the object's header, without inflating the object; None if it is missing.

        Raises:
            Damaged: The object is broken.
        """
        oid = pygit2.Oid(raw=id)
        for repository, database in self._handles():
            try:
                kind, size = read_header(database, id)
                return _KINDS[kind], size
            except _UNREADABLE as error:
                found = self._loose(id, lambda place: pack.read_loose_header(place, id))
                if found or (isinstance(error, KeyError) and oid not in repository.odb):
                    return found
                last = error
        self._hopeless = self._packs_changed()
        raise Damaged("an object cannot be read", at=id.hex(), next=_ANOTHER_COPY) from last

    def exists(self, id: ObjectId) -> bool:
        return pygit2.Oid(raw=id) in self._repository.odb or any(pack.is_loose(place, id) for place in self._places)

    def tree(self, id: ObjectId) -> Tree:
        """The entries of one folder: name to (mode, id)."""
        # Git does not store the empty tree, but a commit may have it.
        return {} if id == EMPTY_TREE else parse_tree(self._expect(id, "tree"))

    def commit(self, id: ObjectId) -> Commit:
        return parse_commit(id, self._expect(id, "commit"))

    def tree_of(self, commit: ObjectId) -> ObjectId:
        return self.commit(commit).tree

    def tree_before(self, commit: Commit) -> ObjectId | None:
        """The tree of a commit's first parent; None for a first commit."""
        return self.tree_of(commit.parents[0]) if commit.parents else None

    def entry(self, tree: ObjectId, path: str) -> ObjectId | None:
        """The blob at a path below a tree; None if the path is missing or is a folder."""
        found = self.lookup(tree, path)
        return found[1] if found and found[0] != FOLDER else None

    def lookup(self, tree: ObjectId, path: str) -> Entry | None:
        """Mode and id of the entry at the path; the empty path is the tree itself."""
        at: Entry = (FOLDER, tree)
        for name in raw(path).split(b"/") if path else ():
            if at[0] != FOLDER:
                return None
            found = self.tree(at[1]).get(name)
            if found is None:
                return None
            at = found
        return at

    # ---- walks

    def files(self, tree: ObjectId, *, budget: int = ENTRY_BUDGET) -> Iterator[FileEntry]:
        """Every entry below the tree that is not a folder, with its mode, in git's order.

        Raises:
            Damaged: A folder cannot be read, or contains a name that points outside it.
            Limit: There are more than `budget` entries, folders are deeper than `DEPTH_LIMIT`, or the tree repeats the
                same objects too often.
        """
        for path, _, new in self.changes(None, tree, budget=budget):
            if new is not None:
                yield FileEntry(path, *new)

    def changed_entries(
        self, old: ObjectId | None, new: ObjectId | None, *, budget: int = ENTRY_BUDGET
    ) -> Iterator[tuple[str, Entry | None]]:
        """The path and the new entry (mode and id) of each difference; see `diff`."""
        for path, _, after in self.changes(old, new, budget=budget):
            yield path, after

    def changes(
        self, old: ObjectId | None, new: ObjectId | None, *, budget: int = ENTRY_BUDGET
    ) -> Iterator[tuple[str, Entry | None, Entry | None]]:
        """Like `diff`, with mode and id of both versions."""
        return differences(self.tree, old, new, budget)

    def diff(self, old: ObjectId | None, new: ObjectId | None, *, budget: int = ENTRY_BUDGET) -> Iterator[Difference]:
        """The files that differ between two trees (None: no tree), in git's order. Equal folders cost nothing.

        A file whose mode alone changed has equal ids; links and submodules are treated as files.

        Raises:
            Limit: More than `budget` entries were compared, folders are deeper than `DEPTH_LIMIT`, or the trees repeat
                the same objects too often.
        """
        for path, before, after in self.changes(old, new, budget=budget):
            yield Difference(path, before and before[1], after and after[1])

    def history(
        self, tips: Iterable[ObjectId], *, until: Iterable[ObjectId] = (), limit: int | None = None
    ) -> Iterator[Commit]:
        """Commits reachable from `tips` through any parent, newest committer time first, each once.

        Stops at commits in `until`, but may still reach their ancestors along other paths. Takes about 40 us per
        commit.
        """
        seen = set(until)
        waiting: list[tuple[int, int, Commit]] = []
        for id in tips:
            if id not in seen:
                seen.add(id)
                commit = self.commit(id)
                heapq.heappush(waiting, (-commit.committer.time, len(seen), commit))
        while waiting and (limit is None or limit > 0):
            _, _, commit = heapq.heappop(waiting)
            yield commit
            limit = None if limit is None else limit - 1
            for id in commit.parents:
                if id not in seen:
                    seen.add(id)
                    parent = self.commit(id)
                    heapq.heappush(waiting, (-parent.committer.time, len(seen), parent))

    def commits_between(self, known: Iterable[ObjectId], tip: ObjectId, *, limit: int) -> list[ObjectId]:
        """The commits reachable from `tip` and not from `known`, parents before children. Exact, unlike `history`.

        Raises:
            Limit: There are more than `limit`.
            Damaged: One of them cannot be read.
        """
        names = [tip.hex(), *(f"^{id.hex()}" for id in known)]
        listed = self._rev_list(tip, "--topo-order", "--reverse", f"--max-count={limit + 1}", *names)
        if len(listed) > limit:
            raise Limit(f"there are more than {limit} new commits", at=tip.hex())
        return [bytes.fromhex(line) for line in listed]

    def check_history(self, tip: ObjectId, known: Iterable[ObjectId] = ()) -> None:
        """Read the changes of each commit between `known` and `tip`, to check that every tree is within the limits.

        A hostile tree in an old commit would harm readers of the history. Takes about 0.3 ms per commit.

        Raises:
            Damaged, Limit: As `diff`.
        """
        for commit in self.history([tip], until=known):
            for _ in self.diff(self.tree_before(commit), commit.tree):
                pass

    # ---- relations between commits

    def ref(self, name: str) -> ObjectId | None:
        """See `kgd.git.refs.read_ref`."""
        return refs.read_ref(self.git_dir, name)

    def is_ancestor(self, a: ObjectId, b: ObjectId) -> bool:
        """Whether `a` is reachable from `b` through parents; a commit is its own ancestor. Starts no process."""
        try:
            return a == b or self._repository.descendant_of(pygit2.Oid(raw=b), pygit2.Oid(raw=a))
        except _UNREADABLE:
            return self.merge_bases(a, b) == [a]

    def count(self, tip: ObjectId, known: Iterable[ObjectId], *, limit: int) -> int:
        """The number of commits reachable from `tip` and not from `known`, but at most `limit`. Runs git (some ms).

        Raises:
            Damaged: One of them is missing or cannot be read.
        """
        names = [tip.hex(), *(f"^{id.hex()}" for id in known)]
        return int(self._rev_list(tip, "--count", f"--max-count={limit}", *names)[0])

    def ahead_behind(self, a: ObjectId, b: ObjectId) -> tuple[int, int]:
        """The number of commits reachable from `a` alone, and from `b` alone. Runs git (some ms).

        Raises:
            Damaged: One of them is missing or cannot be read.
        """
        ahead, behind = self._rev_list(a, "--count", "--left-right", f"{a.hex()}...{b.hex()}")
        return int(ahead), int(behind)

    def merge_base(self, a: ObjectId, b: ObjectId) -> ObjectId | None:
        """One best common ancestor; None for unrelated histories. Starts no process if libgit2 can read the history.

        Raises:
            Damaged: As `merge_bases`.
        """
        try:
            base = self._repository.merge_base(pygit2.Oid(raw=a), pygit2.Oid(raw=b))
        except _UNREADABLE:
            return next(iter(self.merge_bases(a, b)), None)
        return bytes(base.raw) if base else None

    def merge_bases(self, a: ObjectId, b: ObjectId) -> list[ObjectId]:
        """All best common ancestors, sorted by id; empty for unrelated histories.

        Takes about 20 us if one commit is an ancestor of the other. Otherwise there may be several bases, of which
        pygit2 returns one, so git is run (some ms).
        """
        try:
            base = self._repository.merge_base(pygit2.Oid(raw=a), pygit2.Oid(raw=b))
        except _UNREADABLE:  # a loose commit in between, or packs that a gc has replaced
            self._reopen(self._handle)
        else:
            if base is None:
                return []
            if base.raw in (a, b):
                return [bytes(base.raw)]
        try:
            output = program.run(self.git_dir, ["merge-base", "--all", a.hex(), b.hex()], environment=self._sight())
        except program.GitFailed as error:
            if error.code == 1 and not error.said:  # no common ancestor
                return []
            raise Damaged(f"history between two commits cannot be read: {error.said}", at=a.hex()) from error
        return sorted(bytes.fromhex(line) for line in output.decode().split())

    def _rev_list(self, tip: ObjectId, *arguments: str) -> list[str]:
        # Not libgit2's walk: pygit2 runs it without the interpreter's lock, see `kgd.git.discovery`.
        try:
            return program.run(self.git_dir, ["rev-list", *arguments], environment=self._sight()).decode().split()
        except program.GitFailed as error:
            raise Damaged(f"history cannot be read: {error.said}", at=tip.hex()) from error

    # ---- writing

    def write(self, objects: Sequence[Object]) -> Path:
        """Make objects durable and read them back, before any ref may lead to them.

        Returns the pack to `release` once the ref has moved (or will not move). After an exception, do not move a ref
        to them.

        Raises:
            OSError: The disk is full, read-only or broken.
            Damaged: The objects cannot be read back.
        """
        stem = pack.write(self.pack_dir, objects)
        try:
            self.confirm(objects)
        except BaseException:
            pack.release(stem)
            raise
        return stem

    def renew(self, *, anew: bool = False) -> None:
        """Close packs that a roll-up or a gc has removed; until then libgit2 keeps them open and mapped.

        With `anew`, also drop what libgit2 caches for the other packs: their indexes, and bases of deltas, up to 16 MB
        per pack.
        """
        packs = frozenset(name for name in os.listdir(self.pack_dir) if name.endswith(".pack"))
        if anew or self._packs - packs:
            self._reopen(self._handle)
        self._packs = packs

    def release(self, stem: Path | None) -> None:
        if stem:
            pack.release(stem)

    def confirm(self, objects: Sequence[Object]) -> None:
        """Check through the open handle that every object is present, and the last one (the tip) byte for byte.

        Raises:
            Damaged: An object is missing or differs.
        """
        for id, kind, body in objects:
            if self.kind_and_size(id) != (kind, len(body)):
                raise Damaged("an object that was just written is missing", at=id.hex())
        if objects and object_id(objects[-1].kind, self.read(objects[-1].id)) != objects[-1].id:
            raise Damaged("an object that was just written reads differently", at=objects[-1].id.hex())

    # ---- inside

    def _read(self, id: ObjectId, limit: int) -> tuple[str, bytes]:
        oid, was_missing = pygit2.Oid(raw=id), False
        for repository, database in self._handles():
            try:
                kind, size = read_header(database, id)
                if size > limit:
                    raise Limit(f"an object has {size} bytes, the limit is {limit}", at=id.hex(), next=_ANOTHER_COPY)
                return _KINDS[kind], repository.odb.read(oid)[1]
            except _UNREADABLE as error:
                found = self._loose(id, lambda place: pack.read_loose(place, id, limit))
                if found:
                    return found
                missing, last = isinstance(error, KeyError), error
            if missing and was_missing:
                break
            was_missing = missing
        if not missing:
            self._hopeless = self._packs_changed()
        what = "missing" if missing else "broken"
        raise Damaged(f"an object is {what}", at=id.hex(), next=_ANOTHER_COPY) from last

    @property
    def _repository(self) -> pygit2.Repository:
        return self._handle.repository

    def _handles(self) -> Iterator[_Handle]:
        """Yield the open handle, then a new one after each pause of `READ_AGAIN_AFTER`.

        There are no pauses if an object has already proved to be broken with the current packs: a damaged pack may have
        many broken objects.
        """
        yield (handle := self._handle)
        for pause in READ_AGAIN_AFTER[: 1 if self._hopeless == self._packs_changed() else None]:
            time.sleep(pause)
            self._reopen(handle)
            yield (handle := self._handle)

    def _packs_changed(self) -> int:
        return os.stat(self.pack_dir).st_mtime_ns

    def _loose(self, id: ObjectId, read: Callable[[Path], T | None]) -> T | None:
        try:
            return next(filter(None, map(read, self._places)), None)
        except (ValueError, OSError) as error:
            raise Damaged("an object is broken", at=id.hex(), next=_ANOTHER_COPY) from error

    def _expect(self, id: ObjectId, kind: str) -> bytes:
        found, body = self._read(id, READ_LIMIT)
        if found != kind:
            raise Damaged(f"expected a {kind}, but this is a {found}", at=id.hex())
        return body

    def _open(self) -> _Handle:
        try:
            # Bare: only objects and refs are needed, and the work tree may be missing.
            repository = open_bare(self.git_dir)
            # Packs only: `pack.read_loose` reads loose objects, since libgit2 would block all threads on a truncated
            # one.
            objects = pygit2.Odb()
            # libgit2 shares packs of the same path with the earlier handle, caches included.
            self._ending = "" if self._ending else "/."
            for place in self._places:
                objects.add_backend(pygit2.OdbBackendPack(f"{place}{self._ending}"), 1)
            repository.set_odb(objects)
            return _Handle(repository, _database_of(repository))
        except (pygit2.GitError, OSError, KeyError) as error:
            advice = _OF_ANOTHER_USER if "not owned by" in str(error) else ""
            raise Unavailable(f"the repository cannot be opened: {error}", at=str(self.git_dir), next=advice) from error

    def _sight(self) -> program.Person | None:
        """The variables that make the git program see the same objects."""
        if len(self._places) == 1:
            return None
        return program.without_user(
            {"GIT_OBJECT_DIRECTORY": str(self._places[1]), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._places[0])}
        )

    def _reopen(self, stale: _Handle) -> None:
        """Open a new handle: an old handle still lists packs that a gc or a roll-up has replaced."""
        with self._reopening:
            if self._handle is stale:
                self._handle = self._open()
                self.reopened += 1


@functools.cache
def _library() -> ctypes.PyDLL:
    """The libgit2 that pygit2's extension module is linked against.

    A call holds the interpreter's lock, as calls of pygit2 do. Without the lock, twelve threads would read 2.5 times
    more slowly, and kgd would depend on libgit2's thread safety, which was never tested.
    """
    library = ctypes.PyDLL(_libgit2.__file__)
    pointer = ctypes.c_void_p
    library.git_repository_odb.argtypes = [ctypes.POINTER(pointer), pointer]
    library.git_odb_read_header.argtypes = [
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_int),
        pointer,
        ctypes.c_char_p,
    ]
    library.git_odb_free.argtypes = [pointer]
    library.git_odb_free.restype = None
    return library


def _database_of(repository: pygit2.Repository) -> ctypes.c_void_p:
    """The address of libgit2's object database of a repository, which is valid as long as the repository has it."""
    library, database = _library(), ctypes.c_void_p()
    if library.git_repository_odb(ctypes.byref(database), int.from_bytes(repository._pointer, sys.byteorder)):
        raise KeyError("the repository has no object database")
    library.git_odb_free(database)  # this reference; the repository has its own
    return database


def read_header(database: ctypes.c_void_p, id: bytes) -> tuple[int, int]:
    """libgit2's number for the kind of an object, and its size in bytes. The object is not inflated. Takes about 1 us.

    `pygit2.Odb.read_header` (1.21) is not safe: if the base of a delta is broken, its error path writes a zero byte
    beyond a buffer on the stack, at an offset of the object's size, and the process crashes. So libgit2's own function
    is called.

    Raises:
        KeyError: The object is missing.
        ValueError: The object is broken.
    """
    size, kind = ctypes.c_size_t(), ctypes.c_int()
    code = _library().git_odb_read_header(ctypes.byref(size), ctypes.byref(kind), database, id)
    if code == _NOT_FOUND:
        raise KeyError(id.hex())
    if code:
        raise ValueError(f"libgit2 returned {code} for {id.hex()}")
    return kind.value, size.value
