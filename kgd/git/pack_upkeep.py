"""Upkeep of packs: their roll-up in the background, never in the write path, and git's commit-graph.

Small packs are combined into larger packs. The level of a pack follows from its number of objects, so a restart loses
nothing. All packs together stay below 1.5 times a fresh repack, apart from some hundred KiB of small packs. A user's gc
may remove packs at any time; a failed roll-up is repeated.

A multi-pack-index assigns each object to one pack, and ``git multi-pack-index expire`` deletes packs without any object
assigned to them. If it assigns objects to a pack that was rolled up, expiring deletes the new pack, which has their
only copy. So a ``.keep`` protects the new pack as long as git may be writing an index from an earlier list of packs
(`settle`).

The commit-graph records changed paths, which makes the history of a path fast.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from kgd.errors import KgdError, Unavailable
from kgd.git import pack, program
from kgd.git.files import sync_folder
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore

FANOUT = 20
"""Number of packs of the lowest level that are combined. With hundreds of packs, libgit2 takes milliseconds to look up
an absent id."""
SMALL, GROWTH = 400, 4
"""A pack with fewer than `SMALL` objects is of the lowest level; `GROWTH` packs of a higher level are combined. The
lowest level is mostly flushes without deltas, up to ten times as large as a repack; higher levels repeat some objects
in full."""
SMALL_BYTES, SMALL_SHARE = 64 << 10, 12
"""The lowest level is combined before it has `FANOUT` packs if, without its largest pack, it has this many bytes and at
least a twelfth of all bytes."""
LISTED = 20_000
"""Maximum number of objects of a roll-up for which kgd lists the objects. For more, git walks the whole history."""
LISTED_HERE = 4_000
"""Maximum number of objects that this process reads for a list. For more it starts a child process, in some 0.2 s:
reading takes up to 60 MB, part of which the heaps would keep, and blocks the interpreter for seconds."""
ROLLED = b"kgd rolled up\n"
"""Content of the ``.keep`` of a new pack. Later roll-ups ignore it; the user's git honours it."""
PARTIAL = "kgd-roll-up-"
"""Prefix of the name of the folder in which a new pack is made."""
PROTECTED_SECONDS = 60.0
"""Seconds for which a new pack is protected."""
TRIES = 3
DEADLINE = 600.0


def due(pack_dir: Path) -> bool:
    """Whether a level is full. Costs one read per pack."""
    return _fullest(pack_dir) is not None


def settle(pack_dir: Path) -> None:
    """Remove a multi-pack-index that names removed packs, as ``git repack`` does, and the protection of older packs."""
    index = pack_dir / "multi-pack-index"
    named = _packs_named(index)
    if not all((pack_dir / name).exists() for name in named):
        index.unlink(missing_ok=True)
    for keep in pack_dir.glob("pack-*.keep"):
        with contextlib.suppress(FileNotFoundError):
            if keep.read_bytes() == ROLLED and time.time() - keep.stat().st_mtime > PROTECTED_SECONDS:
                keep.unlink()


def maintain(git_dir: Path, stop: threading.Event | None = None) -> str:
    """Roll up every full level. `stop` ends it early. Returns the reason if a roll-up was given up; the packs are then
    unchanged.

    Safe to run alongside the writer, readers and git; concurrent calls waste work but do no harm.
    """
    pack_dir = git_dir / "objects" / "pack"
    failed, tries = "", 0
    while (full := _fullest(pack_dir)) is not None and tries < TRIES and not (stop and stop.is_set()):
        try:
            roll_up(git_dir, full, stop)
        except (program.GitFailed, subprocess.TimeoutExpired, KgdError, OSError, ValueError) as error:
            tries, failed = tries + 1, str(error)  # list again: a gc has replaced packs
            continue
        failed, tries = "", 0
    return failed


def roll_up(git_dir: Path, stems: list[Path], stop: threading.Event | None = None) -> Path:
    """Combine several packs into one, remove them, and return the stem of the new pack. After an exception, all old
    packs remain.

    Raises:
        GitFailed: An object is missing, because a gc has moved it elsewhere.
        Unavailable: It was stopped, or took too long.
    """
    pack_dir = git_dir / "objects" / "pack"
    # Deltas of small packs are not reused, since git would then store their undeltified objects in full.
    deltas = ["--no-reuse-delta", "--window-memory=64m", "--threads=1"]
    if sum(map(pack.count_of, stems)) > LISTED:
        deltas.append("--stdin-packs")
        listed = b"".join(b"%s.pack\n" % stem.name.encode() for stem in stems)
    else:
        listed = _listed(git_dir, stems)
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=git_dir / "objects") as folder:
        command = ["pack-objects", "-q", *deltas, f"{folder}/pack"]
        output = program.run(git_dir, command, input=listed, bounds=program.Bounds(DEADLINE, DEADLINE, stop=stop))
        partial = Path(folder, f"pack-{output.decode().strip()}")
        if not pack.intact(partial):
            raise ValueError("the new pack is not complete")
        # A gc that listed the new pack before it had a `.keep`, and packed its objects later, would delete the only
        # copy.
        made = pack.place(partial, pack_dir, ROLLED)
    sync_folder(pack_dir)
    for stem in stems:
        if _is_free(stem):
            for suffix in (".idx", ".rev", ".pack", ".keep"):  # the index first: without it git does not see the pack
                stem.with_suffix(suffix).unlink(missing_ok=True)
    settle(pack_dir)
    return made


def _fullest(pack_dir: Path) -> list[Path] | None:
    """The packs of the lowest full level."""
    levels: dict[int, list[Path]] = defaultdict(list)
    sizes = dict[Path, int]()
    for stem in pack.stems(pack_dir):
        if _is_free(stem):
            with contextlib.suppress(OSError, ValueError):
                sizes[stem] = stem.with_suffix(".pack").stat().st_size
                levels[level_of(pack.count_of(stem))].append(stem)
    all_bytes = sum(sizes.values())
    for level, stems in sorted(levels.items()):
        if len(stems) >= (GROWTH if level else FANOUT):
            return stems
        if level == 0 and sum(sorted(map(sizes.__getitem__, stems))[:-1]) > max(SMALL_BYTES, all_bytes // SMALL_SHARE):
            return stems
    return None


def _is_free(stem: Path) -> bool:
    """Whether the pack may be rolled up: it has no ``.keep``, or one from an earlier roll-up."""
    try:
        return stem.with_suffix(".keep").read_bytes() == ROLLED
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _packs_named(index: Path) -> list[str]:
    """The indexes of packs that a multi-pack-index names (gitformat-pack); none if there is no such file."""
    try:
        with open(index, "rb") as file:
            head = file.read(12)
            if head[:5] != b"MIDX\1":
                return []
            table = file.read(12 * (head[6] + 1))
            rows = (table[at : at + 12] for at in range(0, len(table), 12))
            starts = {row[:4]: int.from_bytes(row[4:], "big") for row in rows}
            ends = sorted(starts.values())
            begin = starts[b"PNAM"]
            file.seek(begin)
            names = file.read(ends[ends.index(begin) + 1] - begin)
    except (FileNotFoundError, KeyError, IndexError):
        return []
    return names.rstrip(b"\0").decode("utf-8", "replace").split("\0")


def level_of(count: int) -> int:
    """The level of a pack with `count` objects; 0 is the lowest."""
    level, bound = 0, SMALL
    while count >= bound:
        level, bound = level + 1, bound * GROWTH
    return level


def _listed(git_dir: Path, stems: list[Path]) -> bytes:
    """`_list` in a separate process if there are many objects. Raises ValueError if the process fails."""
    if sum(map(pack.count_of, stems)) <= LISTED_HERE:
        return _list(git_dir, stems)
    code = f"import sys; sys.path[:] = {sys.path!r}; from kgd.git import pack_upkeep; pack_upkeep.list_for_parent()"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, git_dir, *(stem.name for stem in stems)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
        start_new_session=True,
    )
    if done.returncode:
        raise ValueError(f"objects could not be listed: {done.stderr.decode(errors='replace').strip()[-200:]}")
    return done.stdout


def list_for_parent() -> None:
    """Run the child process of `_listed`."""
    git_dir, *names = sys.argv[1:]
    sys.stdout.buffer.write(_list(Path(git_dir), [Path(git_dir, "objects/pack", name) for name in names]))


def _list(git_dir: Path, stems: list[Path]) -> bytes:
    """The objects of some packs as input for git, in the order in which they were written, so that versions of one tree
    are neighbours."""
    names = dict.fromkeys(
        (
            id
            for stem in sorted(stems, key=lambda stem: stem.with_suffix(".pack").stat().st_mtime_ns)
            for id in pack.ids_of(stem)
        ),
        b"",
    )
    _name(ObjectStore(git_dir), names)
    lines = bytearray()  # a list of lines would take five times as much
    for id, name in names.items():
        lines += b"%s %s\n" % (id.hex().encode(), name)
    return bytes(lines)


def _name(store: ObjectStore, names: dict[ObjectId, bytes]) -> None:
    """Record the name that each object has in its folder; git uses these names to find the versions of one file."""
    once = dict[bytes, bytes]()
    for id in names:
        found = store.kind_and_size(id)
        if found and found[0] == "tree":
            for name, (_, child) in store.tree(id).items():
                if child in names and b"\n" not in name:
                    names[child] = once.setdefault(name, name)


UNLISTED, UNLISTED_SHARE = 2_000, 20
"""A new commit-graph is due if this many objects, and at least a twentieth of all, were packed since the last one."""
GRAPH_DEADLINE = 600.0


def is_graph_due(git_dir: Path) -> bool:
    """Whether the commit-graph lacks changed paths, or may lack many commits, as after a fetch, a clone or many
    changes.

    Without a commit-graph, git compares the trees of every commit to find the commits of one path. For 200,000 commits
    that takes 4 s; with a commit-graph, 0.3 s. Costs one read per pack.
    """
    info = git_dir / "objects" / "info"
    written = 0
    with contextlib.suppress(OSError), open(info / "commit-graph", "rb") as file:
        if b"BIDX" in file.read(200):  # the table of chunks
            written = os.fstat(file.fileno()).st_mtime_ns
    every = unlisted = 0
    for stem in pack.stems(git_dir / "objects" / "pack"):
        with contextlib.suppress(OSError, ValueError):
            count = pack.count_of(stem)
            every += count
            unlisted += count if stem.with_suffix(".pack").stat().st_mtime_ns > written else 0
    return unlisted > max(UNLISTED, every // UNLISTED_SHARE)


def renew_graph(git_dir: Path, stop: threading.Event | None = None) -> bool:
    """Write the commit-graph; returns False if git did not write it, as in a shallow repository. `stop` ends it
    early."""
    with contextlib.suppress(program.GitFailed, KgdError):
        write_graph(git_dir, stop)
    return not is_graph_due(git_dir)


def write_graph(git_dir: Path, stop: threading.Event | None = None) -> None:
    """Write parents, generations and changed paths of all commits into one file, which makes path history quick.

    Raises:
        GitFailed: Another process writes it, or history has a hole.
        Unavailable: It was stopped, or took too long.
    """
    command = ["commit-graph", "write", "--reachable", "--changed-paths", "--no-progress"]
    try:
        program.run(git_dir, command, bounds=program.Bounds(GRAPH_DEADLINE, GRAPH_DEADLINE, stop=stop))
    except Unavailable:  # git was killed, and its lock would block every later attempt
        (git_dir / "objects" / "info" / "commit-graph.lock").unlink(missing_ok=True)
        raise
