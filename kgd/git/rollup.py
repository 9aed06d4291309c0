"""This file is where small packs become larger ones: upkeep in the background, never in the write path.

Twenty packs of a level become one of the next. Levels are read from the disk (by the number of objects), so a restart
forgets nothing. A person's gc may take packs from under us at any time; what it spoils is tried again.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import pack, program
from kgd.git.files import sync_folder
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore

FANOUT = 20
"""Packs of one level that become one. Above some hundred packs libgit2's look-ups of absent ids take milliseconds."""
TRIES = 3
DEADLINE = 600.0


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one round did. `failed` says why a roll-up was given up for now; the packs are as they were."""

    rolled: int
    packs: int
    graph: bool
    failed: str = ""


def due(pack_dir: Path) -> bool:
    """Whether some level is full. Costs one read per pack."""
    return _fullest(pack_dir) is not None


def maintain(git_dir: Path) -> Upkeep:
    """Roll up every full level and, when that made a larger pack, write the commit-graph with changed paths.

    Safe beside the writer, readers and git; reentrant calls waste work but harm nothing.
    """
    pack_dir = git_dir / "objects" / "pack"
    rolled, large, failed, tries = 0, False, "", 0
    while (full := _fullest(pack_dir)) is not None and tries < TRIES:
        level, stems = full
        try:
            roll_up(git_dir, stems)
        except (program.GitFailed, KgdError, OSError, ValueError) as error:
            tries, failed = tries + 1, str(error)  # list again: a gc took some, and has their objects
            continue
        rolled, large, failed, tries = rolled + 1, large or level > 0, "", 0
    graph = False
    if large:
        with contextlib.suppress(program.GitFailed, KgdError):
            write_commit_graph(git_dir)
            graph = True
    return Upkeep(rolled, len(_stems(pack_dir)), graph, failed)


def roll_up(git_dir: Path, stems: list[Path]) -> Path:
    """Make one pack of several and remove them; the new one's stem. After an exception all of them are still there.

    Raises:
        GitFailed: Some object is gone; a gc has taken it elsewhere.
    """
    pack_dir = git_dir / "objects" / "pack"
    ids = list(dict.fromkeys(id for stem in sorted(stems, key=_written) for id in pack.ids_of(stem)))
    names = _names(ObjectStore(git_dir), ids)
    # In the order of writing, versions of one tree are neighbours and deltas small. git flushes both files, the folder
    # is ours to flush.
    command = ["pack-objects", "-q", "--window-memory=64m", "--threads=1", str(pack_dir / "pack")]
    said = program.run(
        git_dir,
        command,
        input=b"".join(b"%s %s\n" % (id.hex().encode(), names.get(id, b"")) for id in ids),
        deadline=DEADLINE,
    )
    made = pack_dir / f"pack-{said.decode().strip()}"
    if not pack.intact(made):
        raise ValueError("the new pack is not complete")
    sync_folder(pack_dir)
    for stem in stems:
        if stem != made and not stem.with_suffix(".keep").exists():
            for suffix in (".idx", ".rev", ".pack"):  # the index first: without it git does not see the pack
                stem.with_suffix(suffix).unlink(missing_ok=True)
    return made


def write_commit_graph(git_dir: Path) -> None:
    """What makes the history of one path quick: parents, generations and changed paths of all commits in one file."""
    program.run(
        git_dir, ["commit-graph", "write", "--reachable", "--changed-paths", "--no-progress"], deadline=DEADLINE
    )


def _fullest(pack_dir: Path) -> tuple[int, list[Path]] | None:
    levels: dict[int, list[Path]] = defaultdict(list)
    for stem in _stems(pack_dir):
        if not stem.with_suffix(".keep").exists():
            with contextlib.suppress(OSError, ValueError):
                levels[_level(pack.count_of(stem))].append(stem)
    full = sorted((level, stems) for level, stems in levels.items() if len(stems) >= FANOUT)
    return full[0] if full else None


def _stems(pack_dir: Path) -> list[Path]:
    return sorted(path.with_suffix("") for path in pack_dir.glob("pack-*.idx"))


def _level(count: int) -> int:
    level = 0
    while count >= FANOUT:
        count //= FANOUT
        level += 1
    return level


def _names(store: ObjectStore, ids: list[ObjectId]) -> dict[ObjectId, bytes]:
    """The name that each object has in its folder, by which git finds the versions of one file among all others."""
    wanted, names = frozenset(ids), dict[ObjectId, bytes]()
    for id in ids:
        found = store.kind_and_size(id)
        if found and found[0] == "tree":
            below = store.tree(id).items()
            names.update((child, name) for name, (_, child) in below if child in wanted and b"\n" not in name)
    return names


def _written(stem: Path) -> int:
    return stem.with_suffix(".pack").stat().st_mtime_ns
