"""The chosen part of a proposal: whole nodes, and single fields of changed nodes.

A part is taken from the files that a merge of the proposal would change. Fields that belong together, such as the parts
of a bundle or a node and its memory file, are chosen together or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgd.codec import documents, paths
from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.git.staging import Staging
from kgd.model.fields import with_field
from kgd.model.node import Node, default_type
from kgd.model.uri import Uri
from kgd.workspace.answers import NodeChange
from kgd.workspace.files.memory_files import Home
from kgd.workspace.history.commits import field_diff
from kgd.workspace.proposals import records
from kgd.workspace.proposals.records import Bundle
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.admission import check
from kgd.workspace.writing.touched_nodes import touched_by

SEE_CHANGES = Advice("See its changes with ", Do("proposals", name="NAME"), ".")
Files = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whole nodes, and of other nodes only the named fields. Without any, the whole proposal is chosen."""

    nodes: frozenset[Uri] = frozenset()
    fields: Mapping[Uri, Collection[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.fields)


def files_of(
    workspace: Workspace, staging: Staging, left: Files, chosen: Chosen, told: Sequence[Bundle]
) -> dict[str, bytes | None]:
    """The files of the chosen part, out of the files `left` to accept.

    Raises:
        Invalid: A node or field cannot be accepted alone.
        NotFound: The proposal does not change a chosen node or field.
    """
    files, found, waiting = Files(), set[Uri](), set[Uri]()
    wanted = chosen.nodes | chosen.fields.keys()
    for path, data in left.items():
        touched = touched_by(staging, {path: data}, workspace.id, workspace.sharded)
        waiting |= touched.uris
        if not touched.uris & wanted:
            continue
        if missing := sorted(touched.uris - wanted):
            raise _incomplete(missing[0])
        for uri in sorted(touched.uris - chosen.nodes):
            data = _with_fields(workspace, staging, path, data, uri, chosen.fields[uri])
        files[path] = data
        found |= touched.uris
    if absent := sorted(wanted - found):
        raise NotFound("the proposal does not change this node", at=absent[0], next=SEE_CHANGES)
    if (other := records.incomplete(told, wanted, waiting)) is not None:
        raise _incomplete(other)
    return files


def _with_fields(
    workspace: Workspace, staging: Staging, path: str, data: bytes | None, uri: Uri, names: Collection[str]
) -> bytes:
    """The node's file at the tip with these fields of the merged file."""
    old = staging.read(path)
    if path != paths.path_of(uri, workspace.sharded):
        raise Invalid(
            "this node also has a conflict or another file", at=uri, next="Accept all changes to this node together."
        )
    if old is None or data is None:
        what = "creates" if old is None else "deletes"
        raise Invalid(f"the proposal {what} this node", at=uri, next="Accept the whole node.")
    node = before = documents.decode(old, at=path)
    values = {one.field: one.after for one in field_diff(before, documents.decode(data, at=path))}
    for name in names:
        if name not in values:
            told = f"the proposal does not change the field '{name[:60]}'"
            raise NotFound(told, at=uri, next=SEE_CHANGES)
        node = _with_value(node, name, values[name])
    made = documents.rewrite(old, node)
    check(path, made, old, Home(workspace.id, workspace.sharded, staging.read))
    return made


def undecided(change: NodeChange, present: Node | None) -> NodeChange:
    """The change without the fields that the node already has."""
    if change.before is None or change.after is None or present is None:
        return change
    here = {one.field: one.after for one in field_diff(change.before, present)}
    before = change.before
    for one in field_diff(change.before, change.after):
        if one.field in here and here[one.field] == one.after:
            before = _with_value(before, one.field, one.after)
    return replace(change, before=before)


def _with_value(node: Node, name: str, value: Any) -> Node:
    if name == "type" and value is None:
        value = default_type(node.uri)
    return with_field(node, name, value)


def _incomplete(other: Uri) -> Invalid:
    return Invalid(
        "one of these nodes cannot be accepted alone", at="only", next=f"Accept {other[:160]} too: they are one change."
    )
