"""Messages in parts, measured against the same nodes with a file each, and a long thread against a short one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.row import Row, compare, value
from kgd.codec import documents, paths
from kgd.codec.settings import first_files
from kgd.git.creation import create_standalone
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, signature
from kgd.git.staging import Staging
from kgd.model.change import Author, ChangeSet, Edit, Upsert
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.workspace.parts import Folder
from kgd.workspace.served import Served
from kgd.workspace.workspace import Workspace

THREADS = 20
LONG = 10_000
BATCH = 2_000
APPENDS = 40
ANN = Author("Ann", "ann@example.org", "bench")
SAID = "The lease of a worker ends with its heartbeat, and its next owner then starts from scratch. " * 4


def message(thread: str, number: int) -> Node:
    uri = Uri(f"message://bench/{thread}/{number:08d}")
    later = Relation("REPLIED_BY", Uri(f"message://bench/{thread}/{number + 1:08d}"))
    return Node(
        uri, name=f"agent:{number}", content=f"{number}: {SAID}\n", data={"senderType": "agent"}, relations=(later,)
    )


def rows(folder: Path, *, messages: int = 20_000) -> Iterator[Row]:
    yield from _writes(folder / "writes")
    threads = [f"t{number}" for number in range(THREADS)]
    nodes = [message(thread, n) for thread in threads for n in range(messages // THREADS)]
    alone = _built(folder / "files", {paths.path_of(node.uri): documents.encode(node) for node in nodes})
    whole = _built(folder / "parts", _parts(nodes))
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(2):
        for in_parts, layout in ((True, whole), (False, alone)):
            times[in_parts].append(_load(layout))
    yield compare(
        "load of messages in parts", "a file each", "s", min(times[True]), min(times[False]), 1.0, nodes=len(nodes)
    )


def _writes(folder: Path) -> Iterator[Row]:
    workspace = Workspace.open(create_standalone(folder, "bench", first_files("bench")), publish=False)
    try:
        others = [Node(Uri(f"concept://bench/n{n}"), content=f"{n}: {SAID}\n", name=f"N {n}") for n in range(BATCH)]
        took = [_submit(workspace, [message(f"b{n}", i) for i in range(BATCH)]) for n in range(2)]
        files = _submit(workspace, others)
        yield compare("2,000 messages in one change", "2,000 concepts", "s", min(took), files, 1.0)
        for start in range(0, LONG, BATCH):
            _submit(workspace, [message("long", n) for n in range(start, start + BATCH)])
        _submit(workspace, [message("short", n) for n in range(100)])
        times: dict[str, list[float]] = {"long": [], "short": []}
        for n in range(APPENDS):
            for thread in times:
                times[thread].append(_submit(workspace, [message(thread, LONG + n)]))
        long, short = (statistics.median(times[thread]) * 1000 for thread in ("long", "short"))
        yield compare("one message for a thread of 10,000", "a thread of 100", "ms", long, short, 1.5)
        before = time.perf_counter()
        for n in range(0, LONG, 50):
            workspace.node(message("long", n).uri)
        yield value("reading one of 10,000 messages", "us", (time.perf_counter() - before) / (LONG / 50) * 1e6)
    finally:
        workspace.close()


def _submit(workspace: Workspace, nodes: list[Node]) -> float:
    edits: tuple[Edit, ...] = tuple(
        Upsert(n.uri, name=n.name, content=n.content, data=n.data, relations=n.relations) for n in nodes
    )
    before = time.perf_counter()
    workspace.submit(ChangeSet(edits, ANN))
    return time.perf_counter() - before


def _parts(nodes: list[Node]) -> dict[str, bytes]:
    folders: dict[str, dict[Uri, bytes | None]] = {}
    for node in nodes:
        folders.setdefault(paths.part_folder_of(node.uri) or "", {})[node.uri] = documents.encode(node)
    files: dict[str, bytes | None] = {}
    for path, inside in folders.items():
        folder = Folder(path, _Nothing(), lambda uri: ())
        folder.fill(inside)
        files |= folder.files()
    return {path: data for path, data in files.items() if data is not None}


class _Nothing:
    """An empty tree."""

    def blob_at(self, path: str) -> ObjectId | None:
        return None

    def read(self, path: str) -> bytes | None:
        return None

    def names(self, folder: str) -> list[str]:
        return []


def _built(folder: Path, files: Mapping[str, bytes]) -> Layout:
    layout = create_standalone(folder, "bench", first_files("bench"))
    workspace = Workspace.open(layout, publish=False)
    staging = Staging(workspace.store, workspace.store.tree_of(bytes.fromhex(workspace.tip)))
    tip = bytes.fromhex(workspace.tip)
    workspace.close()
    for path, data in files.items():
        staging.put(path, data)
    commit = staging.commit(staging.write_tree(), [tip], signature(ANN, 1), "all")
    store = layout.open()
    store.release(store.write(staging.objects))
    (layout.git_dir / "bench-tip").write_text(commit.hex())
    return layout


def _load(layout: Layout) -> float:
    store = layout.open()
    tip = bytes.fromhex((layout.git_dir / "bench-tip").read_text())
    served = Served(store, "bench", frozenset(), lambda path: None)
    before = time.perf_counter()
    served.load(store.tree_of(tip))
    took = time.perf_counter() - before
    served.close()
    return took
