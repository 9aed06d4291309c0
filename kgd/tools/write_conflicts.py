"""This file is where a change meets a conflict: one that is open on its nodes, or one it makes itself by coming late.

An open one may be settled beside the change, where the change does not touch what is in conflict. An upsert that
expects an older version is carried out if only other fields changed since. Where its three-way merge with what was
written meanwhile clashes, and a model settles the clash, it is carried out as decided, expecting the version that the
model was shown. Otherwise it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kgd.errors import KgdError, Stale
from kgd.model.access import Verb
from kgd.model.change import Append, ChangeSet, Edit, Relate, Unrelate, Untag, Upsert
from kgd.model.conflict import Conflict
from kgd.model.fields import SCALARS, split, with_field
from kgd.model.merge import merge
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.consulting import MOST_ASKED, NO_MODEL, Consultation, Decision, Resolved, askable, consult
from kgd.tools.session import Session
from kgd.workspace.edits import upserted

TRIES = 4
"""How often a change is submitted while others write to the same nodes."""

if TYPE_CHECKING:
    from kgd.workspace.outcome import Outcome
    from kgd.workspace.workspace import Workspace


def beside(session: Session, workspace: Workspace, edits: Iterable[Edit]) -> Consultation:
    """What models decide about the open conflicts of the nodes that a change touches, and that it leaves alone itself.

    Asked before anything is written, and to be settled after the change, so that its expected versions still hold.
    """
    if not workspace.conflicts.total:
        return Consultation()
    edits = list(edits)
    uris = {workspace.graph.resolve(uri): None for edit in edits if (uri := _subject(edit))}
    met = [
        one
        for uri in uris
        for one in workspace.conflicts.find(uri, about=session.settles(workspace))
        if not any(_decides(workspace, edit, uri, one.conflict) for edit in edits)
    ]
    fresh, _ = askable(workspace, met[:MOST_ASKED])
    return consult(session, fresh)


def carried_out(session: Session, workspace: Workspace, changes: ChangeSet) -> tuple[Outcome, list[Resolved]]:
    """Carry out the change, if need be merged with what was written since its versions were read.

    Raises:
        Stale: Both changed the same, and no model settled it: nothing was written.
        KgdError: Any other refusal; nothing was written.
    """
    try:
        return rebased(session, workspace, changes), []
    except Stale as refusal:
        ones = _late_ones(workspace, changes)
        late = _compared(workspace, ones[0]) if len(ones) == 1 else None
        if late is None or late.conflict is None or not session.may(workspace, late.conflict.uri, Verb.READ):
            raise
        found = consult(session, [late.conflict])
        decision = found.decided.get(late.conflict.id)
        edit = late.decided(decision) if decision else None
        if decision is None or edit is None:
            why = found.left.get(late.conflict.id)
            if why and why != NO_MODEL:
                refusal.next = f"{refusal.next} (No model settled it: {why}.)"[:300]
            raise
        edits = tuple(edit if old is late.edit else old for old in changes.edits)
        outcome = session.submit(workspace, replace(changes, edits=edits, resolved_by=decision.label))
        return outcome, [{
            "id": late.conflict.id, "uri": late.conflict.uri, "by": decision.by, "model": decision.model[:80],
            "commit": outcome.commit, "fields": dict(decision.fields),
        }]  # fmt: skip


def rebased(session: Session, workspace: Workspace, changes: ChangeSet, *, dry_run: bool = False) -> Outcome:
    """Submit the change; an upsert that expects an older version then expects the present one, if no field clashes.

    Raises:
        Stale: An upsert changes what was changed since its version, or what it had is not known.
        KgdError: Any other refusal; nothing was written.
    """
    tried = changes
    for _ in range(TRIES - 1):
        try:
            return session.submit(workspace, tried, dry_run=dry_run)
        except Stale:
            edits = list(changes.edits)
            for late in (late_ones := _late_ones(workspace, changes)):
                found = _compared(workspace, late) if session.may(workspace, late.uri, Verb.READ) else None
                if found is None or not found.is_clear:
                    raise
                edits = [replace(late, expect_version=found.version) if edit is late else edit for edit in edits]
            if not late_ones:
                raise
            tried = replace(changes, edits=tuple(edits))
    return session.submit(workspace, tried, dry_run=dry_run)


def after(outcome: Outcome, resolved: Iterable[Resolved]) -> Outcome:
    """The outcome of a change with the versions that settling conflicts right after it made.

    A version with another writer's change between keeps the older number, so that a change expecting it is compared.
    """
    versions = dict(outcome.nodes)
    for one in resolved:
        if (version := one.get("version")) and versions.get(Uri(one["uri"])) == version - 1:
            versions[Uri(one["uri"])] = version
    return replace(outcome, nodes=tuple(versions.items()))


@dataclass(frozen=True, slots=True)
class _Late:
    """An upsert that expects an older version, merged with what the node is now."""

    edit: Upsert
    conflict: Conflict | None
    read: Node
    merged: Node
    current: Node
    version: int

    @property
    def is_clear(self) -> bool:
        """Whether nothing that the upsert names was changed since, not even to the same value, as by two counters."""
        edit, read, now = self.edit, self.read, self.current
        fields = [field for field in (*SCALARS, "source") if getattr(edit, field) is not None or field in edit.unset]
        is_same = all(getattr(read, field) == getattr(now, field) for field in fields)
        is_same &= all(read.data.get(key) == now.data.get(key) for key in edit.data)
        return self.conflict is None and is_same and upserted(self.current, self.edit) == self.merged

    def decided(self, decision: Decision) -> Upsert | None:
        """The upsert that makes of the node what was decided; None where none does exactly that."""
        try:
            wanted = self.merged
            for field, value in decision.fields.items():
                wanted = with_field(wanted, field, value)
            edit = self._towards(wanted)
            return edit if upserted(self.current, edit) == wanted else None
        except KgdError:
            return None

    def _towards(self, wanted: Node) -> Upsert:
        edit = self.edit
        named = {field: getattr(wanted, field) for field in SCALARS if getattr(edit, field) is not None}
        changes: dict[str, Any] = {
            **named,
            "data": {key: wanted.data.get(key) for key in edit.data},
            "relations": tuple(found for r in edit.relations if (found := wanted.relation(r.type, r.target))),
            "expect_version": self.version,
        }
        if edit.source is not None:
            changes["source"] = wanted.source
        return replace(edit, **changes)


def _late_ones(workspace: Workspace, changes: ChangeSet) -> list[Upsert]:
    return [
        edit
        for edit in changes.edits
        if isinstance(edit, Upsert) and edit.expect_version and not _is_current(workspace, edit)
    ]


def _compared(workspace: Workspace, edit: Upsert) -> _Late | None:
    """How a late upsert goes with what the node is now; None where what its author had is not known."""
    if edit.detail is not None:  # prose is brought together by who wrote it
        return None
    uri = workspace.graph.resolve(edit.uri)
    # The version is asked before the node: who writes in between makes it too old, and the write is then refused.
    version, current = workspace.node_version(uri), workspace.node(uri)
    if version is None or current is None:
        return None
    try:
        read = workspace.history.node_read(uri, edit.expect_version or 0)
        if read is None:
            return None
        merged = merge(read, current, upserted(read, edit))
    except KgdError:
        return None
    if merged.node is None:
        return None
    return _Late(edit, merged.conflict, read, merged.node, current, version.count)


def _is_current(workspace: Workspace, edit: Upsert) -> bool:
    version = workspace.node_version(workspace.graph.resolve(edit.uri))
    return version is not None and version.count == edit.expect_version


def _subject(edit: Edit) -> Uri | None:
    if isinstance(edit, Relate | Unrelate):
        return edit.source
    return getattr(edit, "uri", None)


def _decides(workspace: Workspace, edit: Edit, uri: Uri, conflict: Conflict) -> bool:
    """Whether this edit says itself what becomes of something that is in conflict."""
    subject = _subject(edit)
    if subject is None or workspace.graph.resolve(subject) != uri:
        return False
    return any(_names(edit, split(field)) for field in conflict.fields)


def _names(edit: Edit, field: list[str]) -> bool:
    head, *rest = field
    match edit:
        case Upsert() if head in (*SCALARS, "source"):
            return getattr(edit, head) is not None or head in edit.unset
        case Upsert() if head == "data":
            return rest[0] in edit.data or not {"data", f"data.{rest[0]}"}.isdisjoint(edit.unset)
        case Upsert() if head == "relations":
            return "relations" in edit.unset or any(r.key == (rest[0], rest[1]) for r in edit.relations)
        case Append():
            return head not in ("type", "name", "summary", "source", "data", "relations")
        case Relate():
            return head not in (*SCALARS, "source", "data") and rest[:2] in ([], [*edit.relation.key])
        case Unrelate():
            return head not in (*SCALARS, "source", "data") and rest[:2] in ([], [edit.type, edit.target])
        case Untag():
            return head not in (*SCALARS, "source", "data", "relations")
    return True
