"""A separate program in its own mount namespace: writes until a small disk is full, for many sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pygit2

from kgd.git import creation, integrity, layout, refs
from tests.git.support import FIRST_FILES, Pen, fsck, git

Result = tuple[list[bytes], int, list[str]]


def main() -> None:
    place, kind, sizes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    total: Counter[str] = Counter()
    complaints: list[str] = []
    for n in range(sizes):
        mount(place, f"size={260 + 24 * n}k")
        try:
            made = creation.create_standalone(place / "w", "demo", FIRST_FILES)
            acknowledged, refused = (naive if kind == "naive" else careful)(made)
            mount(place, "remount,size=32m")
            tip = "refs/heads/main" if kind == "naive" else refs.HEAD
            reachable = set(git(made.git_dir, "rev-list", tip, check=False).split())
            lost = [id for id in acknowledged if id.hex() not in reachable]
            total.update(acknowledged=len(acknowledged), refused=refused, lost=len(lost))
            if kind == "careful":
                complaints += afterwards(made)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    print(json.dumps({**total, "complaints": complaints[:5]}))


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def careful(made: layout.Layout) -> tuple[list[bytes], int]:
    """Twelve refusals in a row, with smaller and larger changes, are taken for a full disk."""
    pen, acknowledged, refused, in_a_row = Pen(made), list[bytes](), 0, 0
    while in_a_row < 12 and len(acknowledged) < 200:
        try:
            body = b"%d " % len(acknowledged) * (10 if in_a_row % 2 else 200)
            acknowledged.append(pen.write({f"nodes/{len(acknowledged) % 9}.yaml": body}))
            in_a_row = 0
        except OSError:
            refused, in_a_row = refused + 1, in_a_row + 1
    return acknowledged, refused


def afterwards(made: layout.Layout) -> list[str]:
    """With space again: recovery, another write, a full check, and nothing left lying about."""
    said = fsck(made.git_dir)
    report = integrity.recover(made)
    if report.broken_objects or report.broken_packs or report.notes:
        said.append(f"recovery: {report}")
    Pen(made).write({"nodes/after.yaml": b"space again\n"})
    said += fsck(made.git_dir)
    return said + [str(p) for p in made.git_dir.rglob("*") if p.suffix in (".keep", ".kgd", ".lock")]


def naive(made: layout.Layout) -> tuple[list[bytes], int]:
    repository, acknowledged, refused, in_a_row = pygit2.Repository(str(made.work_tree)), list[bytes](), 0, 0
    who = pygit2.Signature("a", "a@x", 1, 0)
    while in_a_row < 12 and len(acknowledged) < 200:
        try:
            parent = repository.references["refs/heads/main"].target
            builder = repository.TreeBuilder(repository[parent].tree)
            builder.insert("x", repository.create_blob(b"%d " % (refused + len(acknowledged)) * 50), 0o100644)
            message = f"{refused} {len(acknowledged)}"
            commit = repository.create_commit("refs/heads/main", who, who, message, builder.write(), [parent])
            acknowledged.append(commit.raw)
            if repository.references["refs/heads/main"].target != commit:
                in_a_row += 1
        except (pygit2.GitError, OSError):
            refused, in_a_row = refused + 1, in_a_row + 1
    return acknowledged, refused


main()
