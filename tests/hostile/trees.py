"""Git trees that git itself would not make: built entry by entry, then committed to the branch.

The objects are written as a pushed or copied repository could hold them; the ref is moved by git.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.hostile.target import git

FILE, PROGRAM, LINK, FOLDER, SUBMODULE = b"100644", b"100755", b"120000", b"40000", b"160000"


class Entry(NamedTuple):
    name: bytes
    mode: bytes
    id: bytes


class Smith:
    """Writes objects to one repository without validation."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir

    def write(self, kind: str, body: bytes) -> bytes:
        data = f"{kind} {len(body)}\0".encode() + body
        return self._store(hashlib.sha1(data).hexdigest(), zlib.compress(data, 1))

    def zeros(self, size: int) -> bytes:
        """A blob of zero bytes, never whole in memory here: in the repository it has a thousandth of its size."""
        head, block = f"blob {size}\0".encode(), bytes(1 << 20)
        digest, packer = hashlib.sha1(head), zlib.compressobj(1)
        parts = [packer.compress(head)]
        for _ in range(size >> 20):
            digest.update(block)
            parts.append(packer.compress(block))
        return self._store(digest.hexdigest(), b"".join([*parts, packer.flush()]))

    def _store(self, name: str, data: bytes) -> bytes:
        path = self.git_dir / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(data)
        return bytes.fromhex(name)

    def blob(self, data: bytes) -> bytes:
        return self.write("blob", data)

    def tree(self, entries: Iterable[Entry], *, in_order: bool = True) -> bytes:
        chosen = list(entries)
        if in_order:
            chosen.sort(key=lambda entry: entry.name + (b"/" if entry.mode == FOLDER else b""))
        return self.write("tree", b"".join(e.mode + b" " + e.name + b"\0" + e.id for e in chosen))

    def read(self, tree: str) -> list[Entry]:
        """The entries of an existing tree, such as `HEAD:nodes`."""
        listed = git(self.git_dir, "ls-tree", "-z", tree).split("\0")
        found = []
        for line in filter(None, listed):
            facts, _, name = line.partition("\t")
            mode, _, id = facts.split(" ")
            found.append(Entry(os.fsencode(name), mode.lstrip("0").encode(), bytes.fromhex(id)))
        return found

    def grafted(self, base: str, path: bytes, entry: tuple[bytes, bytes] | None) -> bytes:
        """The tree of `base` with (mode, id) at a path, or without that path. Missing folders are created."""
        name, _, rest = path.partition(b"/")
        try:
            entries = {e.name: e for e in self.read(base)}
        except AssertionError:
            entries = {}
        if rest:
            below = f"{base}{'' if base.endswith(':') else '/'}{os.fsdecode(name)}"
            entries[name] = Entry(name, FOLDER, self.grafted(below, rest, entry))
        elif entry is None:
            entries.pop(name, None)
        else:
            entries[name] = Entry(name, *entry)
        return self.tree(entries.values())

    def commit(self, tree: bytes, branch: str, message: str = "hostile") -> str:
        """A commit on top of the branch, which moves to it."""
        parent = git(self.git_dir, "rev-parse", branch)
        made = git(self.git_dir, "commit-tree", tree.hex(), "-p", parent, "-m", message)
        git(self.git_dir, "update-ref", branch, made, parent)
        return made

    def bomb(self, width: int = 10, depth: int = 10) -> bytes:
        """A tree of `width ** depth` files in `depth + 1` objects."""
        below = Entry(b"f0", FILE, self.blob(b"uri: concept://shop/bomb\n"))
        for level in range(depth):
            kind = FILE if level == 0 else FOLDER
            tree = self.tree(Entry(b"f%d" % n, kind, below.id) for n in range(width))
            below = Entry(b"", FOLDER, tree)
        return below.id
