"""The check of a workspace: that stored files are readable, and that derived data matches stored data.

`kgd fsck` prints the findings, and the fault tests end with this check. The check writes nothing, but it reads the
whole tip.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

from kgd.codec import documents, front_matter, paths
from kgd.codec.front_matter import Memory
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, misspelt_settings
from kgd.errors import KgdError
from kgd.git.history import versions
from kgd.git.program import Bounds, GitFailed, run
from kgd.git.refs import HEAD
from kgd.graph.live_graph import LiveGraph
from kgd.model.fields import misspelt
from kgd.model.node import Node
from kgd.workspace import memory_files
from kgd.workspace.answers import Finding
from kgd.workspace.parts import misspelt_keys
from kgd.workspace.served import Served
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing import admission

FSCK_DEADLINE = 600.0
BEAT_SECONDS = 0.2
Progress = Callable[[int, int | None, str], None]


Beat = Callable[..., None]
"""Receives the numbers of checked items and, if known, of all items; raises if no caller waits for the result."""


_MEND = "Fix the file, or revert the commit that broke it with `kgd undo COMMIT`."
_HARMLESS = ("dangling", "Checking", "notice:", "unreachable")


def check(workspace: Workspace, progress: Progress = lambda done, total, message: None) -> list[Finding]:
    """All findings, worst first: ``damage``, ``error``, ``warning``.

    Args:
        progress: Called repeatedly with the name of the current part, and with the number of checked items and of all
            items of the part, or 0 and None if they are unknown. If `progress` raises, the check and its git program
            end.
    """
    found: list[Finding] = []
    parts = (_objects, _files, _doubled, _memories, _graph, _versions, _index, _ref)
    for part in parts:

        def beat(done: int = 0, total: int = 0, name: str = part.__name__[1:]) -> None:
            progress(done, total or None, f"checking {name}")

        beat()
        try:
            found += part(workspace, beat)
        except KgdError as refusal:  # report an unreadable part and continue with the others
            beat()  # raises again if the refusal came from it
            found.append(Finding("damage", refusal.at or "objects", refusal.message, refusal.next))
    order = {"damage": 0, "error": 1, "warning": 2}
    return sorted(found, key=lambda finding: (order[finding.level], finding.where))


def _objects(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    """Check the repository with git itself."""
    lines = _git_fsck(workspace, beat)
    if lines:  # a roll-up or a gc may remove packs while git reads; real damage is found again
        again = set(_git_fsck(workspace, beat))
        lines = [line for line in lines if line in again]
    for line in lines:
        yield Finding("damage", "objects", line[:200], "Fetch the repository from another copy, then check again.")


def _git_fsck(workspace: Workspace, beat: Beat) -> list[str]:
    stop = threading.Event()
    bounds = Bounds(FSCK_DEADLINE, FSCK_DEADLINE, stop=stop)
    command = ["fsck", "--strict", "--full", "--no-progress"]
    try:
        with ThreadPoolExecutor(1, "kgd-fsck") as thread:
            running = thread.submit(run, workspace.layout.git_dir, command, bounds=bounds)
            try:
                while not wait([running], BEAT_SECONDS).done:
                    beat()
            finally:
                stop.set()
            said = running.result()
        lines = said.decode("utf-8", "replace").splitlines()
    except GitFailed as error:
        lines = error.said.splitlines() or [f"git fsck ended with {error.code}"]
    return [line for line in lines if line and not line.startswith(_HARMLESS)]


def _files(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    """Check that every file that kgd owns is readable and in the right place."""
    store = workspace.store
    home = memory_files.Home(workspace.id, workspace.sharded, lambda path: None)
    nodes = len(workspace.graph)
    for number, (path, mode, blob) in enumerate(store.files(store.tree_of(bytes.fromhex(workspace.tip)))):
        beat(number, max(nodes, number + 1))
        if not path.startswith(("nodes/", "conflicts/", "log/")) and not paths.is_part_path(path) and path != SETTINGS:
            continue
        if mode != b"100644":
            yield Finding("error", path, "is not a plain file", "Remove it: only plain files belong here.")
            continue
        try:
            data = store.read(blob)
            if path.startswith("conflicts/"):
                documents.read_record(data, path, workspace.sharded, workspace.id)
            elif path == SETTINGS:
                yield from _misspelt(path, misspelt_settings(decode_settings(data, newer=True)))
            elif paths.is_part_path(path):
                yield from _misspelt(path, misspelt_keys(data, path, workspace.id))
            elif path.startswith("log/"):
                admission.admit_entry(path, data, data, home)
            else:
                node = documents.decode(data, at=path)
                paths.check_place(node.uri, path, workspace.id, workspace.sharded)
                yield from _texts(node, data, path)
                yield from _misspelt(path, misspelt(node))
        except KgdError as refusal:
            yield Finding("error", path, refusal.message, refusal.next or _MEND)


def _texts(node: Node, data: bytes, path: str) -> Iterator[Finding]:
    """Report violations of rules that a merge or a sync does not check."""
    try:
        admission.admit_text(node, None, data)
    except KgdError as refusal:
        yield Finding("warning", path, refusal.message, refusal.next or _MEND)


def _misspelt(path: str, found: Iterable[str]) -> Iterator[Finding]:
    for said in found:
        yield Finding("warning", path, said, "Correct the key, or leave it: kgd keeps it.")


def _doubled(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    """Report nodes stored more than once."""
    for uri, path in workspace.doubled():
        yield Finding("error", path, f"contains {uri}, which is also in another part", "Remove it from this file.")


def _memories(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    """Check that each memory is named by its node, each named memory exists, and node and memory agree."""
    store = workspace.store
    tree = store.tree_of(bytes.fromhex(workspace.tip))
    found: dict[str, Memory] = {}
    for path in (file.path for file in store.files(tree) if file.path.startswith(paths.MEMORY_FOLDER)):
        if paths.is_memory_path(path):
            data = memory_files.read_blob(store, tree, path) or b""
            try:
                found[path] = front_matter.decode(data, at=path)
            except KgdError as refusal:
                if not data.startswith(b"---"):
                    continue  # a user's own file, which does not need a node
                yield Finding("warning", path, refusal.message, refusal.next or "Fix the file.")
    named: dict[str, Node] = {}
    uris = list(workspace.graph.uris())
    for number, uri in enumerate(uris):
        beat(number, len(uris))
        if paths.MEMORY_FOLDER.encode() not in (workspace.stored(uri) or b""):
            continue
        node = workspace.node(uri)
        file = memory_files.file_of(node)
        if node is None or file is None:
            continue
        memory = found.get(file)
        if memory is None:
            yield Finding("error", uri, f"its memory {file} is missing", f"Restore it, or `kgd put {uri} --detail`.")
        elif not memory_files.belongs(memory, node):
            whose = memory_files.owner_of(memory)
            yield Finding("error", uri, f"it names {file}, the memory of {whose}", "Remove data.file with `--unset`.")
        else:
            named[file] = node
            data = memory_files.read_blob(store, tree, file) or b""
            if memory_files.mirrored(data, memory, node) != data:
                yield Finding("warning", file, f"its front matter differs from {uri}", "Correct the file or the node.")
    for path in sorted(found.keys() - named.keys()):
        owner = memory_files.owner_of(found[path])
        yield Finding(
            "warning",
            path,
            f"its owner is {owner}, but no node names this memory",
            "Delete it, or set data.file of the node to this path.",
        )


def _graph(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    """Compare the graph with a fresh load of the tip."""
    tree = workspace.store.tree_of(bytes.fromhex(workspace.tip))
    fresh = Served(workspace.store, workspace.id, workspace.sharded, lambda path: None)
    fresh.load(tree)
    if _facts(fresh.graph) != _facts(workspace.graph) and not fresh.invalid_files():
        yield Finding("error", "graph", "the graph in memory differs from the tip", "Run `kgd reindex`.")


def _versions(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    said = versions(workspace.layout.git_dir, bytes.fromhex(workspace.tip), counted=workspace.counted)
    counted = {row.path: row.count for row in said}
    nodes = ((path, count) for path, count in counted.items() if paths.is_node_path(path))
    wrong = [path for path, count in nodes if workspace.version(path, anew=True) != count]
    if wrong:
        yield Finding(
            "error", "versions", f"{len(wrong)} versions differ from history, such as {wrong[0]}", "Run `kgd reindex`."
        )


def _index(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    indexed, stored = workspace.text().count(), len(workspace.graph)
    if indexed != stored:
        yield Finding("error", "index", f"{indexed} nodes are indexed, but {stored} are stored", "Run `kgd reindex`.")


def _ref(workspace: Workspace, beat: Beat) -> Iterator[Finding]:
    head = workspace.store.ref(HEAD)
    if head is None or head.hex() != workspace.tip:
        yield Finding(
            "error", HEAD, "the ref is not at the tip that kgd last wrote", "Restart the daemon with `kgd down`."
        )


def _facts(graph: LiveGraph) -> dict[str, object]:
    with graph.lock:
        return {uri: (graph.card(uri), tuple(graph.out(uri)), graph.aliases(uri)) for uri in graph.uris()}
