"""The `graph_snapshot` operation: the whole graph for a program on this machine, as a file to map and the changes
since."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from kgd.graph import later_changes
from kgd.tools import addressing
from kgd.tools.operation import Hints, Operation, Reflects
from kgd.tools.parameters import Params
from kgd.tools.session import Session


class SnapshotParams(Params):
    anew: Annotated[bool, Field(description="rewrite the file first, because the current one cannot be read")] = False
    workspace: str | None = None


class SnapshotResult(TypedDict):
    """`tree` is the root tree that the file describes; the file with `changes` is the graph at `commit`."""

    workspace: str
    commit: str
    file: str
    tree: str
    changes: later_changes.Changes


def snapshot(session: Session, params: SnapshotParams) -> SnapshotResult:
    """The graph's file, and the changes since it was written."""
    workspace = addressing.choose(session, params.workspace)
    commit, moment = workspace.graph_moment(anew=params.anew)
    return {
        "workspace": workspace.id,
        "commit": commit,
        "file": str(moment.file),
        "tree": moment.tree,
        "changes": later_changes.changes(moment.graph),
    }


GRAPH_SNAPSHOT = Operation(
    name="graph_snapshot",
    title="Map the graph",
    description="A file with the graph for programs on this machine, and the changes since it was written.",
    Params=SnapshotParams,
    Result=SnapshotResult,
    hints=Hints(read_only=True, idempotent=True),
    run=snapshot,
    reflects=Reflects.WORKSPACE | Reflects.NOW,
)
