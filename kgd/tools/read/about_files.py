"""Notes about files: areas that own them, nodes that cite them, and nodes related to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kgd.areas.atlas import STEPS, Atlas
from kgd.errors import Limit
from kgd.freshness.freshness import Freshness
from kgd.model.uri import CODE_TREE, Uri, path_of, scheme_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

MOST = 20
"""Notes about one file."""


def about(workspace: Workspace, files: Sequence[Uri]) -> dict[Uri, list[Uri]]:
    """For each file of the code tree, the notes about it: citing nodes, related nodes, then areas by name."""
    paths = {uri: path_of(uri) for uri in files if scheme_of(uri) == "file"}
    areas: dict[str, list[Uri]] = {}
    with suppress(Limit):
        for atom, owned in Atlas.of(workspace).matching(list(paths.values()), most=STEPS).by_atom.items():
            for path in owned:
                areas.setdefault(path, []).append(atom)
    found = {}
    for uri, path in paths.items():
        citing = Freshness.of(workspace).citing(path)
        related = [edge.target for edge in workspace.graph.into(uri)[:MOST] if scheme_of(edge.target) not in CODE_TREE]
        found[uri] = list(dict.fromkeys([*citing, *related, *areas.get(path, ())]))[:MOST]
    return found
