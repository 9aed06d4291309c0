"""This file is where a workspace is checked: what is stored can be read, and what is derived equals what is stored.

`kgd fsck` prints the findings; they are also the last assertion of the fault tests. Reads only. Cost: all of the tip.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.git.history import versions
from kgd.git.program import GitFailed, run
from kgd.git.refs import HEAD
from kgd.graph.live import LiveGraph
from kgd.workspace.outcome import Finding
from kgd.workspace.served import Served
from kgd.workspace.workspace import Workspace

FSCK_DEADLINE = 600.0
_HARMLESS = ("dangling", "Checking", "notice:", "unreachable")


def check(workspace: Workspace) -> list[Finding]:
    """Everything that is wrong, worst first: ``damage``, ``error``, ``warning``. An empty list is a clean bill."""
    found: list[Finding] = []
    for part in (_objects, _files, _graph, _versions, _index, _ref):
        try:
            found += part(workspace)
        except KgdError as refusal:  # one part that cannot be read says so, and hides no other
            found.append(Finding("damage", refusal.at or "objects", refusal.message, refusal.next))
    order = {"damage": 0, "error": 1, "warning": 2}
    return sorted(found, key=lambda finding: (order[finding.level], finding.where))


def _objects(workspace: Workspace) -> Iterator[Finding]:
    """What git itself says about the repository."""
    lines = _git_fsck(workspace)
    if lines:  # a roll-up or a person's gc takes packs away while git reads; what is damaged is so twice
        again = set(_git_fsck(workspace))
        lines = [line for line in lines if line in again]
    for line in lines:
        yield Finding("damage", "objects", line[:200], "Fetch the repository from another copy, then check again.")


def _git_fsck(workspace: Workspace) -> list[str]:
    try:
        said = run(workspace.layout.git_dir, ["fsck", "--strict", "--full", "--no-progress"], deadline=FSCK_DEADLINE)
        lines = said.decode("utf-8", "replace").splitlines()
    except GitFailed as error:
        lines = error.said.splitlines() or [f"git fsck ended with {error.code}"]
    return [line for line in lines if line and not line.startswith(_HARMLESS)]


def _files(workspace: Workspace) -> Iterator[Finding]:
    """Every file of the tip that kgd owns can be read and stands where it belongs."""
    store = workspace.store
    for path, mode, blob in store.files(store.tree_of(bytes.fromhex(workspace.tip))):
        if not path.startswith(("nodes/", "conflicts/")):
            continue
        if mode != b"100644":
            yield Finding("error", path, "is no plain file", "Remove it: only plain files belong here.")
            continue
        try:
            data = store.read(blob)
            if path.startswith("conflicts/"):
                documents.read_record(data, path, workspace.sharded, workspace.id)
            else:
                node = documents.decode(data, at=path)
                if paths.path_of(node.uri, workspace.sharded) != path:
                    yield Finding("error", path, f"holds {node.uri}, which belongs elsewhere", "Move it with `kgd mv`.")
        except KgdError as refusal:
            yield Finding("error", path, refusal.message, "Mend the file, or revert the commit that broke it.")


def _graph(workspace: Workspace) -> Iterator[Finding]:
    """The graph says what a fresh load of the tip says."""
    tree = workspace.store.tree_of(bytes.fromhex(workspace.tip))
    fresh = Served(workspace.store, workspace.id, workspace.sharded, lambda path: None)
    fresh.load(tree)
    if _facts(fresh.graph) != _facts(workspace.graph) and not fresh.invalid_files():
        yield Finding("error", "graph", "the graph in memory differs from the tip", "Run `kgd reindex`.")


def _versions(workspace: Workspace) -> Iterator[Finding]:
    counted = {row.path: row.count for row in versions(workspace.layout.git_dir, bytes.fromhex(workspace.tip))}
    nodes = ((path, count) for path, count in counted.items() if paths.is_node_path(path))
    wrong = [path for path, count in nodes if workspace.version(path, anew=True) != count]
    if wrong:
        yield Finding(
            "error", "versions", f"{len(wrong)} versions differ from history, {wrong[0]} first", "Run `kgd reindex`."
        )


def _index(workspace: Workspace) -> Iterator[Finding]:
    indexed, stored = workspace.indexed_count(), len(workspace.graph)
    if indexed != stored:
        yield Finding("error", "index", f"{indexed} nodes are indexed, {stored} are stored", "Run `kgd reindex`.")


def _ref(workspace: Workspace) -> Iterator[Finding]:
    head = workspace.store.ref(HEAD)
    if head is None or head.hex() != workspace.tip:
        yield Finding("error", HEAD, "the ref is not where this process left it", "Restart the daemon with `kgd down`.")


def _facts(graph: LiveGraph) -> dict[str, object]:
    with graph.lock:
        return {uri: (graph.card(uri), tuple(graph.out(uri)), graph.aliases(uri)) for uri in graph.uris()}
