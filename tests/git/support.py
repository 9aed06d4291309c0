"""Shared by this room: the git program as a user runs it, and a small writer."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

from kgd.git import refs
from kgd.git.layout import Layout
from kgd.git.objects import Object, ObjectId, Signature
from kgd.git.staging import Staging

FIRST_FILES = {"kgd.yaml": b"workspace: demo\nformat: 1\n", ".gitattributes": b"* -text\nnodes/** merge=kgd\n"}
ANN = Signature("Ann", "ann@example.org", 1_700_000_100)


def git(where: Path, *arguments: str, check: bool = True, input: str | None = None) -> str:
    command = ["git", "-C", str(where), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=input, errors="surrogateescape")
    if check and done.returncode:
        raise AssertionError(f"git {arguments} failed: {done.stderr}")
    return done.stdout


def fsck(git_dir: Path) -> list[str]:
    """What a full, strict check complains about; unreachable objects are no complaint.

    Asked twice: a roll-up removes packs while git reads, but real damage stays.
    """
    found = _complaints(git_dir)
    return sorted(found & _complaints(git_dir)) if found else []


def _complaints(git_dir: Path) -> set[str]:
    command = ["git", "-C", str(git_dir), "fsck", "--strict", "--full", "--no-progress"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return {line for line in lines if line and not line.startswith(("dangling", "Checking", "notice"))}


def write_loose(objects: Path, item: Object) -> Path:
    """Write a loose object, as git does."""
    path = objects / item.id.hex()[:2] / item.id.hex()[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(b"%s %d\0%s" % (item.kind.encode(), len(item.body), item.body), 1))
    return path


class Pen:
    """A writer: one commit a call, durable when it returns."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.store = layout.open()
        self.head = self.staged = self._tip()
        self.staging = Staging(self.store, self.store.tree_of(self.head))

    def write(self, files: Mapping[str, bytes | None], message: str = "change", author: Signature = ANN) -> ObjectId:
        self.stage(files, message, author)
        return self.flush()

    def stage(self, files: Mapping[str, bytes | None], message: str = "change", author: Signature = ANN) -> ObjectId:
        for path, data in files.items():
            if data is None:
                self.staging.remove(path)
            else:
                self.staging.put(path, data)
        self.staged = self.staging.commit(self.staging.write_tree(), [self.staged], author, message)
        return self.staged

    def flush(self) -> ObjectId:
        stem = None
        try:
            stem = self.store.write(self.staging.objects)
            refs.move_ref(self.layout.git_dir, self.layout.derived_dir, refs.HEAD, self.head, self.staged)
        except BaseException:
            self.store.release(stem)
            self.head = self.staged = self._tip()
            self.staging.reset(self.store.tree_of(self.head))
            raise
        self.store.release(stem)
        self.staging.flushed()
        self.head = self.staged
        return self.head

    def _tip(self) -> ObjectId:
        tip = self.store.ref(refs.HEAD)
        assert tip is not None
        return tip
