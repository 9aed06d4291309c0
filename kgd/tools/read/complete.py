"""The `complete` tool: nodes and workspaces whose addresses begin with a text, for completion in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Literal

from typing_extensions import TypedDict

from kgd.model.uri import OWNED
from kgd.tools import addressing
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

MOST = 60
"""Largest number of values."""
SCHEMES = sorted(OWNED - {"concept", "file", "dir", "symbol", "chunk", "message", "tag"})
"""Schemes that a bare word may begin: the schemes of nodes that people name."""


class CompleteParams(WorkspaceParams):
    kind: Literal["node", "task", "atom", "workspace"] = "node"
    text: str = ""


class CompleteResult(TypedDict):
    values: list[str]


def complete(session: Session, params: CompleteParams) -> CompleteResult:
    """List at most `MOST` values that begin with the text. Nodes are spelled as the text begins: as URIs, in short
    (`gotcha:keys`), or, for concepts, as bare paths.

    The cost does not depend on the number of nodes.

    Raises:
        KgdError: The workspace is unknown.
    """
    if params.kind == "workspace":
        found: Iterator[str] = (id for id in addressing.visible(session) if id.startswith(params.text))
    else:
        found = _nodes(addressing.choose(session, params.workspace), params)
    return {"values": sorted(set(islice(found, MOST)))}


def _nodes(workspace: Workspace, params: CompleteParams) -> Iterator[str]:
    def under(scheme: str, path: str, spelled: str) -> Iterator[str]:
        """The nodes of a scheme below the beginning of a path; `spelled` replaces scheme and workspace."""
        head = f"{scheme}://{workspace.id}/"
        return (spelled + uri[len(head) :] for uri in workspace.graph.beginning(head + path))

    text, (scheme, colon, rest) = params.text, params.text.partition(":")
    if colon and rest.startswith("//"):
        own = f"//{workspace.id}/"
        return under(scheme, rest.removeprefix(own), f"{scheme}:{own}") if rest.startswith(own) else iter(())
    if colon:
        return under(scheme, rest, f"{scheme}:")
    if params.kind != "node":
        return under(params.kind, "", f"{params.kind}:") if params.kind.startswith(text) else iter(())
    begun = [one for one in SCHEMES if one.startswith(text)]
    each = MOST // (len(begun) + 1)
    return chain(
        islice(under("concept", text, ""), MOST - each * len(begun)),
        *(islice(under(one, "", f"{one}:"), each) for one in begun),
    )


COMPLETE = Operation(
    name="complete",
    title="Complete an address",
    description="Nodes or workspaces whose addresses begin with a text.",
    hints=Hints(read_only=True, idempotent=True),
    run=complete,
)
