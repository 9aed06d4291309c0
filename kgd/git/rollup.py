"""The roll-up of packs: small packs become larger ones in the background, never in the write path.

Levels follow from the files (by the number of objects), so a restart loses nothing. All packs together stay below 1.5
times a fresh repack, apart from some hundred KiB of small packs. A user's gc may remove packs at any time; a failed
roll-up is repeated.

A multi-pack-index names one pack for each object, and ``git multi-pack-index expire`` deletes packs that it names for
no object. If it names a pack that was rolled up, expiring deletes the only copy of its objects. So a ``.keep`` protects
the new pack as long as git may be writing an index from an earlier list of packs (`settle`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import pack, program
from kgd.git.files import sync_folder
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore

FANOUT = 20
"""Packs of the lowest level that become one. Above some hundred packs libgit2's look-ups of absent ids take
milliseconds."""
SMALL, GROWTH = 400, 4
"""Objects below which a pack is of the lowest level, and packs of a higher level that become one. The lowest level is
mostly flushes without deltas, up to ten times the size of a repack; higher ones repeat some objects in full."""
SMALL_BYTES, SMALL_SHARE = 64 << 10, 12
"""Bytes of the lowest level, its largest pack aside, that become one pack before there are `FANOUT` packs, if they are
also a twelfth of all bytes."""
LISTED = 20_000
"""Maximum number of objects of a roll-up that are listed here. Above that, git walks all of history."""
LISTED_HERE = 4_000
"""Maximum number of objects that this process reads for a list. For more it starts a child process, in some 0.2 s:
reading takes up to 60 MB, part of which the heaps would keep, and blocks the interpreter for seconds."""
ROLLED = b"kgd rolled up\n"
"""Content of the ``.keep`` of a new pack. Later roll-ups ignore it; the user's git honours it."""
PARTIAL = "kgd-roll-up-"
"""Start of the name of the folder in which a new pack is made."""
PROTECTED_SECONDS = 60.0
"""Seconds for which a new pack stays protected."""
TRIES = 3
DEADLINE = 600.0


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The result of one round. `failed` is the reason if a roll-up was given up; the packs are then unchanged."""

    rolled: int
    packs: int
    failed: str = ""


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


def maintain(git_dir: Path, stop: threading.Event | None = None) -> Upkeep:
    """Roll up every full level. `stop` ends it early.

    Safe beside the writer, readers and git; concurrent calls waste work but do no harm.
    """
    pack_dir = git_dir / "objects" / "pack"
    rolled, failed, tries = 0, "", 0
    while (full := _fullest(pack_dir)) is not None and tries < TRIES and not (stop and stop.is_set()):
        try:
            roll_up(git_dir, full, stop)
        except (program.GitFailed, subprocess.TimeoutExpired, KgdError, OSError, ValueError) as error:
            tries, failed = tries + 1, str(error)  # list again: a gc has replaced some
            continue
        rolled, failed, tries = rolled + 1, "", 0
    return Upkeep(rolled, len(pack.stems(pack_dir)), failed)


def roll_up(git_dir: Path, stems: list[Path], stop: threading.Event | None = None) -> Path:
    """Make one pack of several, remove them, and return the new one's stem. After an exception all of them remain.

    Raises:
        GitFailed: An object is gone; a gc has moved it elsewhere.
        Unavailable: It was stopped, or took too long.
    """
    pack_dir = git_dir / "objects" / "pack"
    # The deltas of small packs are not reused: git would keep their full objects in full.
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
        # A gc that lists the new pack before its `.keep`, and packs its objects after, would delete the only copy.
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
                levels[_level(pack.count_of(stem))].append(stem)
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


def _level(count: int) -> int:
    level, bound = 0, SMALL
    while count >= bound:
        level, bound = level + 1, bound * GROWTH
    return level


def _listed(git_dir: Path, stems: list[Path]) -> bytes:
    """`_list` in a separate process if there are many objects. Raises ValueError if the process fails."""
    if sum(map(pack.count_of, stems)) <= LISTED_HERE:
        return _list(git_dir, stems)
    code = f"import sys; sys.path[:] = {sys.path!r}; from kgd.git import rollup; rollup.list_for_parent()"
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
    """The other process of `_listed`."""
    git_dir, *names = sys.argv[1:]
    sys.stdout.buffer.write(_list(Path(git_dir), [Path(git_dir, "objects/pack", name) for name in names]))


def _list(git_dir: Path, stems: list[Path]) -> bytes:
    """The objects of some packs for git, in the order of writing: versions of one tree are neighbours."""
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
    """Record each object's name in its folder, by which git finds the versions of one file."""
    once = dict[bytes, bytes]()
    for id in names:
        found = store.kind_and_size(id)
        if found and found[0] == "tree":
            for name, (_, child) in store.tree(id).items():
                if child in names and b"\n" not in name:
                    names[child] = once.setdefault(name, name)
