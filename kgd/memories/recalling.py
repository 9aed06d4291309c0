"""Look-up of memories by tags and by connections, for Python callers."""

from __future__ import annotations

from collections.abc import Sequence

from kgd.graph.traverse import traverse
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace

CONNECTED_TO = "connected_to"
MOST = 10_000


def by_tags(workspace: Workspace, tags: Sequence[str], limit: int = 10) -> list[Uri]:
    """Nodes with any of these tags: most matches first, then the newest, then by URI."""
    return [hit.uri for hit in workspace.text().by_tags(tags, limit=limit)]


def connected(workspace: Workspace, uri: Uri, depth: int = 1) -> list[Uri]:
    """Nodes within `depth` relations of type `connected_to`, nearest first, without the start."""
    start = workspace.graph.resolve(uri)
    walk = traverse([workspace.graph], start, max_cost=None, max_depth=depth, edge_types=[CONNECTED_TO], max_nodes=MOST)
    found = [node for node in walk.nodes if node.uri != start]
    return [node.uri for node in sorted(found, key=lambda node: len(node.path))]
