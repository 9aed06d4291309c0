"""The first walk over a code tree, measured against reading and hashing every file once.

The tree is generated, with about as many files as Django's, or given. All variants take turns on a warm page cache.
`python -m bench.bootstrap [--tree DIR] [--files N]` prints one JSON object a row.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from bench import corpus
from bench.house import House, settle
from bench.row import Row, compare
from kgd.codec.settings import first_files
from kgd.daemon.workspace_watch import WorkspaceWatch
from kgd.git.creation import create_in_code_repository
from kgd.model.uri import from_path
from kgd.overlay.overlay import Overlay
from kgd.workspace.workspace import Workspace

FILES = 7_000
ROUNDS = 5
TOUCHED = 20
TARGET = 5.0
GROWN, GROWTH = (10_000, 100_000), 1.1
READ_WITHIN = 500.0
_SKIPPED = frozenset({".git", ".kgd"})


def rows(files: int = FILES, tree: Path | None = None) -> list[dict[str, Any]]:
    if tree is not None:
        return _measure(tree)
    with tempfile.TemporaryDirectory(prefix="kgd-bench-") as folder:
        root = Path(folder, "tree")
        generate(root, files)
        what = f"until {TOUCHED} files that were written, moved and deleted are followed"
        return [*_measure(root), {"what": what, "files": files, "s": round(_followed(root), 4)}]


def growth(folder: Path, sizes: tuple[int, int] = GROWN) -> Iterator[Row]:
    """CPU per file of all processes from the start of a daemon until a code tree can be searched, at two sizes."""
    spent = []
    for files in sizes:
        root = folder / f"{files}"
        generate(root, files, lines=3.0)
        spent.append(_read_by_a_daemon(root, folder / f"home{files}") / files)
        shutil.rmtree(root)
    few, many = sizes
    what = f"CPU per file of reading a code tree, {many:,} files"
    yield compare(what, f"{few:,} files", "us", spent[1] * 1e6, spent[0] * 1e6, GROWTH)


def _read_by_a_daemon(root: Path, home: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with House(home) as house:
        house.call("up", directory=str(root), id=corpus.WORKSPACE)
        settle(house.call, READ_WITHIN)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def generate(root: Path, files: int, lines: float = 4.2) -> None:
    """A git repository shaped like a large Python project: many small files, some large, translations, a few images.

    `lines` is the mean of the logarithm of a file's number of lines.
    """
    chance = random.Random(7)
    for number in range(files):
        folder = root / f"package{number % 37:02d}" / f"module{number // 37 % 31:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        if number % 40 == 0:
            (folder / f"image{number:05d}.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\r" + chance.randbytes(3_000))
            continue
        count = int(chance.lognormvariate(lines, 1.2))
        text = "".join(f"    value_{n} = some_function(argument, {n})\n" for n in range(count))
        (folder / f"file{number:05d}{chance.choice(['.py', '.py', '.txt', '.html', '.po'])}").write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)


def _measure(root: Path) -> list[dict[str, Any]]:
    cache = Path(tempfile.mkdtemp(prefix="kgd-facts-")) / "facts"
    variants: dict[str, Callable[[], Any]] = {
        "bound": lambda: _read_and_hash(root),
        "bootstrap": lambda: Overlay(root, "bench").scan(),
        "restart": lambda: Overlay(root, "bench", cache=cache).scan(),
    }
    Overlay(root, "bench", cache=cache).scan()
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, run in variants.items():
            begun = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - begun)
    cache.unlink()
    cache.parent.rmdir()
    overlay = Overlay(root, "bench")
    overlay.scan()
    best = {name: min(seconds) for name, seconds in taken.items()}
    size = {"files": overlay.report().files, "bytes": overlay.report().bytes}
    peer = "read and SHA-1 every file once"
    bound = round(best["bound"], 4)
    return [
        {
            "what": what,
            **size,
            "peer": peer,
            "s": round(best[name], 4),
            "peer_s": bound,
            "ratio": round(best[name] / best["bound"], 3),
            "target": target,
        }
        for what, name, target in (
            ("bootstrap of a code tree", "bootstrap", TARGET),
            ("the same after a restart, facts kept", "restart", None),
        )
    ] + [{"what": f"rescan after {TOUCHED} files changed", **size, "s": round(_rescan(overlay, root), 4)}]


def _read_and_hash(root: Path) -> list[bytes]:
    return [hashlib.sha1(Path(path).read_bytes(), usedforsecurity=False).digest() for path in _paths(str(root))]


def _paths(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    yield from _paths(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def _rescan(overlay: Overlay, root: Path) -> float:
    """Times change, contents do not; a given tree gets its times back."""
    some = list(_paths(str(root)))[:: max(1, overlay.report().files // TOUCHED)][:TOUCHED]
    before = {path: os.stat(path) for path in some}
    for path in some:
        os.utime(path)
    begun = time.perf_counter()
    overlay.rescan()
    took = time.perf_counter() - begun
    for path, found in before.items():
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    return took


def _followed(root: Path) -> float:
    """The longest of three waits, for new files, for their other names, and for their end, with the watcher at work."""
    workspace = Workspace.open(create_in_code_repository(root, "bench", first_files("bench")), publish=False)
    tending = WorkspaceWatch(workspace, rescan_seconds=60)
    tending.start()
    overlay = workspace.overlay
    assert overlay is not None
    folder, names = next(path for path in root.iterdir() if path.name.startswith("package")), range(TOUCHED)

    def wait(there: str, gone: str) -> float:
        def served(kind: str) -> int:
            paths = (f"{folder.name}/{kind}{n}.txt" for n in names)
            return sum(overlay.card(from_path("file", "bench", path)) is not None for path in paths)

        begun = time.perf_counter()
        while (there and served(there) < TOUCHED) or (gone and served(gone)):
            time.sleep(0.002)
        return time.perf_counter() - begun

    try:
        waits = []
        for n in names:
            (folder / f"new{n}.txt").write_text(f"{n}\n")
        waits.append(wait("new", ""))
        for n in names:
            (folder / f"new{n}.txt").rename(folder / f"moved{n}.txt")
        waits.append(wait("moved", "new"))
        for n in names:
            (folder / f"moved{n}.txt").unlink()
        waits.append(wait("", "moved"))
        return max(waits)
    finally:
        tending.close()
        workspace.close()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="bootstrap against reading and hashing every file once")
    arguments.add_argument("--tree", type=Path)
    arguments.add_argument("--files", type=int, default=FILES)
    chosen = arguments.parse_args()
    for row in rows(chosen.files, chosen.tree):
        print(orjson.dumps(row).decode())
