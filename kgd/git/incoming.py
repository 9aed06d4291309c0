"""Objects from other repositories: fetched into a separate folder, then measured and vetted before they are kept.

A scratch repository borrows our objects, so only new objects are transferred. None of our refs points into it. Vetted
packs are moved into our repository, flushed, and protected from a concurrent gc until a ref points to them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Damaged, Limit
from kgd.git import pack, program
from kgd.git.files import sync_folder, write_new
from kgd.git.objects import LINK, PLAIN, Commit, Entry, ObjectId, is_text, raw
from kgd.git.store import ObjectStore
from kgd.git.walk import ENTRY_BUDGET

COPY_SECONDS = 600.0
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n"


def scratch_repository(parent: Path, haves: Iterable[ObjectId] = ()) -> Path:
    """Create a bare repository of a few small files; the caller removes it.

    Args:
        haves: Our commits, stored as refs: git tells the remote that it need not send these commits.
    """
    parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="net-", dir=parent))
    for folder in ("objects/pack", "objects/info", "refs/heads"):
        (made / folder).mkdir(parents=True)
    lines = sorted((f"{id.hex()} refs/ours/{number}\n" for number, id in enumerate(haves)), key=lambda line: line[41:])
    write_new(made / "packed-refs", "".join(["# pack-refs with: sorted \n", *lines]).encode(), flush=False)
    write_new(made / "config", _CONFIG, flush=False)
    write_new(made / "HEAD", b"ref: refs/heads/none\n", flush=False)
    return made


def copied(
    home: ObjectStore,
    parent: Path,
    tips: Mapping[str, ObjectId],
    shared: Iterable[ObjectId],
    *,
    beside: ObjectStore | None = None,
    missing: bool = False,
) -> Incoming:
    """Copy objects from `home` into a scratch repository, as if fetched: those reachable from `tips` but not from
    `shared`.

    A running gc may already have marked an unreferenced object of ours for deletion. The copy of the object is in a new
    pack, which that gc does not know.

    Args:
        shared: Commits that our refs protect.
        beside: Another repository to copy from as well.
        missing: Copy only objects that `home` lacks.

    Raises:
        GitFailed: An object is missing.
    """
    scratch = scratch_repository(parent)
    try:
        lines = [*(id.hex() for id in tips.values()), *(f"^{id.hex()}" for id in shared)]
        source, other = (beside, home) if missing and beside else (home, beside)
        program.run(
            source.git_dir,
            [
                "-c",
                "core.commitGraph=false",
                "pack-objects",
                "-q",
                "--revs",
                "--non-empty",
                "--threads=1",
                "--window=0",
                *(["--local"] if missing else []),
                str(scratch / "objects/pack/pack"),
            ],
            input="\n".join([*lines, ""]).encode(),
            deadline=COPY_SECONDS,
            environment=_borrowing(other),
        )
        return Incoming(scratch, home, tips)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _borrowing(other: ObjectStore | None) -> program.Person | None:
    return program.without_user({"GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(other.objects_dir)}) if other else None


def quoted(path: Path) -> str:
    """The path in the syntax of git's path-list variables: a path with a colon or quote becomes a C string."""
    text = str(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Incoming(ObjectStore):
    """Fetched objects, readable together with ours. `ids` are the ids of the new objects; `tips` are the values of the
    remote's refs.

    Use it as a context manager: on exit the scratch repository is removed, whether or not `keep` was called.
    """

    def __init__(self, scratch: Path, home: ObjectStore, tips: Mapping[str, ObjectId]) -> None:
        super().__init__(scratch)
        self._scratch, self._home = scratch, home
        self.tips = dict(tips)
        self._stems = pack.stems(self.pack_dir)
        self.ids: frozenset[ObjectId] = frozenset(id for stem in self._stems for id in pack.ids_of(stem))
        self._kept: list[Path] = []

    def __enter__(self) -> Incoming:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.release_kept()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def with_ours(self) -> ObjectStore:
        """Our repository, read as if it held the new objects."""
        return ObjectStore(self._home.git_dir, beside=self.objects_dir)

    def is_new(self, id: ObjectId) -> bool:
        return id in self.ids

    def exists(self, id: ObjectId) -> bool:
        return id in self.ids or self._home.exists(id)

    def kind_and_size(self, id: ObjectId) -> tuple[str, int] | None:
        return super().kind_and_size(id) if id in self.ids else self._home.kind_and_size(id)

    def keep(self) -> None:
        """Move all fetched objects into our repository: durable, and safe from a gc until `release_kept`.

        Raises:
            OSError: The disk is full or broken. Packs that were already moved are unreferenced, which is harmless.
            Damaged: The objects cannot be read back.
        """
        target = self._home.pack_dir
        for stem in self._stems:
            self._kept.append(pack.place(stem, target, pack.KEEP))
        sync_folder(target)
        for tip in self.tips.values():
            if self._home.kind_and_size(tip) is None:
                raise Damaged("a fetched commit is missing after it was moved", at=tip.hex())

    def release_kept(self) -> None:
        """Stop protecting the kept packs: a ref leads to them now, or they are not needed."""
        while self._kept:
            pack.release(self._kept.pop())

    def _read(self, id: ObjectId, limit: int) -> tuple[str, bytes]:
        return super()._read(id, limit) if id in self.ids else self._home._read(id, limit)


OWNED_FOLDERS = ("nodes", "conflicts", "memories", "log", "bulk", "kept")
"""Top-level folders of a workspace that kgd writes (docs/format.md); each is a folder or absent."""

_WRONG_NAME = re.compile(
    rb"[\x00-\x1f\x7f\\]|\A\.git(?:modules)?[ .:]*\Z|\Agit(?:mod)?[a-z0-9]*~|\A\.{1,2}\Z|[ .]\Z", re.I
)
"""Names with a special meaning to git or a file system: control characters, ``.git`` and its short forms on Windows,
and dots."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits of one transfer. The size limit of each kind applies to a single inflated object, in bytes."""

    objects: int
    bytes: int
    """Total size of all objects in bytes, inflated."""
    blob: int
    tree: int
    commit: int = 1 << 20
    depth: int = 72
    name: int = 255


def measure(store: ObjectStore, ids: Collection[ObjectId], most: Allowance) -> None:
    """Check every object by its header; an object larger than the limit of its kind is never inflated.

    Raises:
        Limit: There are too many objects, or an object or their total size is too large.
        Damaged: An object is missing.
    """
    if len(ids) > most.objects:
        raise Limit(f"the transfer has more than {most.objects} objects; send fewer at once")
    total = 0
    largest = {"blob": most.blob, "tree": most.tree, "commit": most.commit, "tag": most.commit}
    for id in ids:
        found = store.kind_and_size(id)
        if found is None:
            raise Damaged("an object was not sent", at=id.hex())
        kind, size = found
        total += size
        if size > largest[kind]:
            raise Limit(f"a {kind} has {size} bytes; the limit is {largest[kind]}", at=id.hex())
        if total > most.bytes:
            raise Limit(f"the objects have more than {most.bytes} bytes in total; send fewer at once")


def new_entries(
    store: ObjectStore,
    commits: Iterable[Commit],
    most: int,
    *,
    budget: int = ENTRY_BUDGET,
    tick: Callable[[], object] = lambda: None,
) -> Iterator[tuple[Commit, str, Entry]]:
    """The paths and entries that each commit added or changed compared with its first parent.

    Args:
        most: Maximum number of changed paths in all commits together.
        budget: As for `ObjectStore.diff`.
        tick: Called for every thousand paths; may raise.

    Raises:
        Limit, Damaged: As `ObjectStore.diff`, or more than `most` paths changed.
    """
    count = 0
    for commit in commits:
        for path, entry in store.changed_entries(store.tree_before(commit), commit.tree, budget=budget):
            count += 1
            if count > most:
                raise Limit(f"the new commits change more than {most} files", at=commit.id.hex()[:12])
            if count % 1000 == 1:
                tick()
            if entry is not None:
                yield commit, path, entry


def unsafe_reason(path: str, mode: bytes, most: Allowance) -> str:
    """The reason why a file must not be written to a work tree, as a noun phrase; empty if the file may be written."""
    if not mode.startswith(PLAIN):
        return "a symbolic link" if mode == LINK else "a submodule, or an entry of an unknown kind"
    names = raw(path).split(b"/")
    if len(names) > most.depth:
        return f"folders nested deeper than {most.depth}"
    for number, name in enumerate(names):
        if len(name) > most.name or _WRONG_NAME.search(name) or not is_text(name):
            return "a file name that is not allowed in a work tree"
        if number and name.lower() == b".gitattributes":
            return "a .gitattributes file below the top folder"
    return ""
