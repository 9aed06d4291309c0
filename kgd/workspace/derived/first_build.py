"""The first graph and the first versions of a large workspace, made by two processes at once.

Reading a million nodes takes a minute and 0.6 GB, and counting their versions takes 0.4 GB. Separate processes do not
slow down the daemon, and free this memory when they end. They also end when their standard input ends.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from kgd.git import pack
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.arrays import write_snapshot
from kgd.index.version_cache import VersionFile
from kgd.workspace import child_process
from kgd.workspace.derived.indexed_text import opened_store
from kgd.workspace.derived.version_cache import VersionCache
from kgd.workspace.history.commits import Past
from kgd.workspace.served import Served
from kgd.workspace.writing.signing import Seal

PROGRAM = ("-m", "kgd.workspace.derived.first_build")
MUCH = 50_000
"""Number of packed objects from which two processes save time; starting them takes a fifth of a second."""
GRAPH, VERSIONS = "graph", "versions"

log = logging.getLogger(__name__)


def is_worth_it(store: ObjectStore) -> bool:
    """Whether the repository may have many nodes. O(packs)."""
    try:
        return sum(pack.count_of(index.with_suffix("")) for index in store.pack_dir.glob("*.idx")) >= MUCH
    except (OSError, ValueError):
        return False


def run(store: ObjectStore, served: Served, tip: ObjectId, files: dict[str, Path]) -> None:
    """Write the files of a commit: the snapshot (`GRAPH`), the version cache (`VERSIONS`), or both.

    If a file cannot be written, it stays as it was, and the caller has to write it.
    """
    place = str(store.git_dir), str(store.work_tree or "")
    about = *place, served.workspace, ",".join(sorted(served.sharded)), tip.hex()
    processes = []
    try:
        for what, file in files.items():
            command = [sys.executable, *PROGRAM, *about, what, str(file)]
            quiet = subprocess.DEVNULL
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd="/"))
        codes = [process.wait() for process in processes]
        if any(codes):
            log.warning("the daemon reads a large workspace itself", extra={"codes": codes})
    except OSError as error:
        log.warning("the daemon reads a large workspace itself", extra={"reason": str(error)})
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()


def main(arguments: list[str]) -> int:
    """`arguments`: the repository's git directory, its work tree or nothing, the workspace's id, its sharded schemes,
    the commit, and what to write into which file."""
    git_dir, work_tree, workspace, schemes, commit, what, file = arguments
    child_process.end_with_input()
    store = opened_store(git_dir, work_tree)
    sharded, tip = frozenset(filter(None, schemes.split(","))), bytes.fromhex(commit)
    served = Served(store, workspace, sharded, Past(store, workspace, sharded, lambda uri: "").last_good)
    if what == VERSIONS:
        VersionCache(
            store, VersionFile(Path(file), is_child=True), lambda: None, Seal(store.git_dir), served.counted
        ).count(tip)
    else:
        served.load(store.tree_of(tip))
        name, frozen, care = served.export()
        write_snapshot(Path(file), name, care, frozen.parts())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
