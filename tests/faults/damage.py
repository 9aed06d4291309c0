"""Repositories to be damaged, and the damage: one kind, one file and one place from a seed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from kgd.git.layout import Layout, locate
from kgd.git.pack_upkeep import roll_up
from kgd.model.change import Append, Delete, Move
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, to, upsert, uri
from tests.faults.audit import git

WORDS = ["lease", "clock", "n7", "summary", "moved"]


def make_template(place: Path) -> Layout:
    """A mixture: large and small packs, loose objects of a person, packed refs, a broken link."""
    layout = new_layout(place)
    ws = Workspace.open(layout)
    for n in range(24):
        edits = [upsert(f"n{n}", to(f"n{(n + 1) % 24}", weight=0.5), name=f"N{n}", summary=f"the lease of clock {n}")]
        edits.append(Append(uri(f"log/{n % 8}"), f"<{n}>"))  # type: ignore[arg-type]
        ws.submit(change(*edits, request=f"request-of-{n}"))
    ws.close()
    packs = sorted(path.with_suffix("") for path in (layout.git_dir / "objects/pack").glob("*.idx"))
    roll_up(layout.git_dir, packs[: max(1, len(packs) // 2)])
    git(layout.git_dir, "pack-refs", "--all")
    ws = Workspace.open(layout)
    ws.close()
    by_hand(layout)
    ws = Workspace.open(layout)
    ws.submit(change(Move(uri("n3"), uri("moved/n3")), Delete(uri("n5")), message="moved and deleted"))
    ws.submit(change(upsert("n7", summary="a new summary"), request="the last"))
    ws.close()
    return layout


def by_hand(layout: Layout) -> None:
    """Loose objects: what a person commits."""
    file = layout.work_tree / "nodes/concept/n9.yaml"
    file.write_text(file.read_text() + "content: |\n  by hand\n")
    words = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-qam", "by hand"]
    subprocess.run(["git", "-C", layout.work_tree, *words], check=True)


def copy(template: Layout, place: Path) -> Layout:
    shutil.copytree(template.work_tree, place, symlinks=True)
    found = locate(place)
    assert found is not None
    return found


# ---- kinds of damage: each maps a file's bytes to damaged bytes


def emptied(data: bytes, dice: random.Random) -> bytes:
    return b""


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))] if data else b""


def flipped(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return b"?"
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def zeroed(data: bytes, dice: random.Random) -> bytes:
    """A range of zero bytes, as a power cut leaves it."""
    start = dice.randrange(max(1, len(data)))
    return data[:start] + bytes(len(data[start : start + 4096])) + data[start + 4096 :]


def garbage(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(max(1, len(data)))
    length = min(len(data) - start, dice.choice((1, 16, 512, 4096)))
    return data[:start] + dice.randbytes(length) + data[start + length :]


KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (emptied, cut, flipped, zeroed, garbage)


def spoil(path: Path, kind: Callable[[bytes, random.Random], bytes], dice: random.Random, *, quietly: bool) -> None:
    """Replace the bytes of a file; `quietly` keeps its times, as a failing disk does."""
    before, data = path.stat(), path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(kind(data, dice))
    path.chmod(before.st_mode & 0o777)
    if quietly:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def stored(layout: Layout) -> list[Path]:
    """Objects: loose ones and packs."""
    objects = layout.git_dir / "objects"
    return sorted(path for path in objects.rglob("*") if path.is_file() and path.suffix in ("", ".pack", ".idx"))


def ref_files(layout: Layout) -> list[Path]:
    names = ("HEAD", "packed-refs", "refs/kgd/head", layout.branch)
    return [layout.git_dir / name for name in names if (layout.git_dir / name).exists()]


def derived_files(layout: Layout) -> list[Path]:
    return sorted(path for path in layout.derived_dir.iterdir() if path.is_file() and path.name != "lock")
