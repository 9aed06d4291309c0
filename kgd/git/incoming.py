"""This file is where what another repository sent lies until it was looked at: beside our objects, never among them.

A scratch repository of its own borrows our objects, so that only new ones come. Nothing of ours leads there; when what
came has been vetted, its packs are moved in, flushed, and kept from a concurrent gc until a ref leads to them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Damaged, Limit
from kgd.git import pack, program
from kgd.git.files import sync_folder, write_new
from kgd.git.objects import LINK, PLAIN, ObjectId, raw
from kgd.git.store import ObjectStore

COPY_SECONDS = 600.0
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogAllRefUpdates = false\n"


def scratch_repository(parent: Path, haves: Iterable[ObjectId] = ()) -> Path:
    """A new bare repository. A few small files; whoever made it removes it.

    Args:
        haves: Commits of ours, for refs: from them git tells the other side what it need not send.
    """
    parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="net-", dir=parent))
    for folder in ("objects/pack", "objects/info", "refs/heads"):
        (made / folder).mkdir(parents=True)
    lines = [f"{id.hex()} refs/ours/{number}\n" for number, id in enumerate(haves)]
    write_new(made / "packed-refs", "".join(["# pack-refs with: sorted \n", *sorted(lines, key=_name)]).encode(),
              flush=False)  # fmt: skip
    write_new(made / "config", _CONFIG, flush=False)
    write_new(made / "HEAD", b"ref: refs/heads/none\n", flush=False)
    return made


def _name(line: str) -> str:
    return line[41:]


def copied(
    home: ObjectStore,
    parent: Path,
    tips: Mapping[str, ObjectId],
    shared: Iterable[ObjectId],
    *,
    beside: ObjectStore | None = None,
    missing: bool = False,
) -> Incoming:
    """Copy what `tips` lead to and `shared` does not from `home` into a scratch repository, as if it had been fetched.

    An object of ours that no ref leads to may be on the list of a running gc, whatever is done to it from now on. Its
    copy is in a pack that no such list can have.

    Args:
        shared: Commits that refs of ours protect.
        beside: Another repository to copy from as well.
        missing: Whether only that is copied which `home` does not have.

    Raises:
        GitFailed: Some object is missing.
    """
    scratch = scratch_repository(parent)
    try:
        lines = [*(id.hex() for id in tips.values()), *(f"^{id.hex()}" for id in shared)]
        source, other = (beside, home) if missing and beside else (home, beside)
        program.run(
            source.git_dir,
            ["-c", "core.commitGraph=false", "pack-objects", "-q", "--revs", "--non-empty", "--threads=1",
             "--window=0", *(["--local"] if missing else []), str(scratch / "objects/pack/pack")],
            input="\n".join([*lines, ""]).encode(), deadline=COPY_SECONDS, environment=_borrowing(other),
        )  # fmt: skip
        return Incoming(scratch, home, tips)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _borrowing(other: ObjectStore | None) -> program.Person | None:
    return program.nobody({"GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(other.objects_dir)}) if other else None


def quoted(path: Path) -> str:
    """The path as git's variables of several paths want it: one with a colon or quote is written as a C string."""
    text = str(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Incoming(ObjectStore):
    """Objects that were fetched, over those that we have. `ids` are the new ones; `tips` what the remote's refs hold.

    Use it as a context: at the end the scratch repository is gone, whether `keep` was called or not.
    """

    def __init__(self, scratch: Path, home: ObjectStore, tips: Mapping[str, ObjectId]) -> None:
        super().__init__(scratch)
        self._scratch, self._home = scratch, home
        self.tips = dict(tips)
        self._stems = sorted(path.with_suffix("") for path in self.pack_dir.glob("pack-*.idx"))
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
        """Our repository, read as if what came were in it."""
        return ObjectStore(self._home.git_dir, beside=self.objects_dir)

    def is_new(self, id: ObjectId) -> bool:
        return id in self.ids

    def exists(self, id: ObjectId) -> bool:
        return id in self.ids or self._home.exists(id)

    def kind_and_size(self, id: ObjectId) -> tuple[str, int] | None:
        return super().kind_and_size(id) if id in self.ids else self._home.kind_and_size(id)

    def keep(self) -> None:
        """Make everything that came ours: durable, and safe from a gc until `release_kept`.

        Raises:
            OSError: The disk is full or broken; what was moved already is unreferenced, which is harmless.
            Damaged: It cannot be read back.
        """
        target = self._home.pack_dir
        for stem in self._stems:
            there = target / stem.name
            while there.with_suffix(".idx").exists() or there.with_suffix(".pack").exists():
                # The same objects came before. A gc that runs may be about to remove that pack, but not a new name.
                there = target / f"pack-{hashlib.sha1(there.name.encode()).hexdigest()}"
            keep = there.with_suffix(".keep")
            keep.unlink(missing_ok=True)
            write_new(keep, pack.KEEP, flush=False)
            self._kept.append(there)
            for suffix in (".pack", ".idx"):
                _flush(stem.with_suffix(suffix))
                os.rename(stem.with_suffix(suffix), there.with_suffix(suffix))
        sync_folder(target)
        for tip in self.tips.values():
            if self._home.kind_and_size(tip) is None:
                raise Damaged("what was fetched is not there after it was moved", at=tip.hex())

    def release_kept(self) -> None:
        """A ref leads to what was kept now, or nobody wants it."""
        while self._kept:
            pack.release(self._kept.pop())

    def _read(self, id: ObjectId, limit: int) -> tuple[str, bytes]:
        return super()._read(id, limit) if id in self.ids else self._home._read(id, limit)


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


OWNED_FOLDERS = ("nodes", "conflicts", "memories", "log", "bulk", "kept")
"""The folders at the top of a workspace that kgd writes into (docs/format.md); each is a folder or absent."""

_WRONG_NAME = re.compile(
    rb"[\x00-\x1f\x7f\\]|\A\.git(?:modules)?[ .:]*\Z|\Agit(?:mod)?[a-z0-9]*~|\A\.{1,2}\Z|[ .]\Z", re.I
)
"""What some file system or git takes for something else: controls, ``.git`` and its short names on Windows, dots."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may come in at once. Sizes are bytes of single objects of a kind, inflated."""

    objects: int
    bytes: int
    """Of all objects together, inflated."""
    blob: int
    tree: int
    commit: int = 1 << 20
    depth: int = 72
    name: int = 255


def measure(store: ObjectStore, ids: Collection[ObjectId], most: Allowance) -> None:
    """Look at every object by its header: nothing is inflated that is larger than its kind may be.

    Raises:
        Limit: They are too many, or too large, alone or together.
        Damaged: One is not there.
    """
    if len(ids) > most.objects:
        raise Limit(f"there are more objects than the {most.objects} that are taken at once")
    total = 0
    largest = {"blob": most.blob, "tree": most.tree, "commit": most.commit, "tag": most.commit}
    for id in ids:
        found = store.kind_and_size(id)
        if found is None:
            raise Damaged("an object was not sent", at=id.hex())
        kind, size = found
        total += size
        if size > largest[kind]:
            raise Limit(f"a {kind} has {size} bytes, {largest[kind]} are taken at most", at=id.hex())
        if total > most.bytes:
            raise Limit(f"all objects together have more than the {most.bytes} bytes that are taken at once")


def harm_of(path: str, mode: bytes, most: Allowance) -> str:
    """Why nobody should have this file in a work tree, as the object of a sentence; empty where they may."""
    if not mode.startswith(PLAIN):
        return "a symbolic link" if mode == LINK else "a submodule, or an entry of no known kind"
    names = raw(path).split(b"/")
    if len(names) > most.depth:
        return f"folders that are nested deeper than {most.depth}"
    for number, name in enumerate(names):
        if len(name) > most.name or _WRONG_NAME.search(name) or not _is_text(name):
            return "a file whose name cannot be let into a work tree"
        if number and name.lower() == b".gitattributes":
            return "a .gitattributes below the top"
    return ""


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
