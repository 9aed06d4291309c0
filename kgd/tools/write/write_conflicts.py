"""Conflicts that a change encounters: open conflicts on its nodes, and a conflict of its own if it expects an outdated
version.

An open conflict may be settled along with the change if the change leaves the disputed fields alone. An upsert that
expects an older version is applied if only other fields have changed since then. If the upsert clashes with the later
changes in a three-way merge and a model settles the clash, the model's decision is applied, provided that the node
still has the version that the model saw. Otherwise the upsert is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kgd.errors import KgdError, Stale
from kgd.model.access import Verb
from kgd.model.change import Append, ChangeSet, Edit, Relate, Unrelate, Untag, Upsert
from kgd.model.conflict import Conflict
from kgd.model.fields import is_other, split, with_field
from kgd.model.merge import merge
from kgd.model.node import SCALARS, Node
from kgd.model.uri import Uri
from kgd.tools.model_decisions import MOST_ASKED, NO_MODEL, Consultation, Decision, Resolved, askable, consult
from kgd.tools.session import Session
from kgd.workspace.answers import Outcome
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import upserted

TRIES = 4
"""Largest number of attempts to submit a change while others write to the same nodes."""


def beside(session: Session, workspace: Workspace, edits: Iterable[Edit]) -> Consultation:
    """Ask models about the open conflicts of the nodes that a change touches, except conflicts that the change decides.

    Models are asked before anything is written. Conflicts are settled after the change, so that its expected versions
    still hold.
    """
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


def reconciled(
    session: Session, workspace: Workspace, changes: ChangeSet, refusal: Stale, *, dry_run: bool
) -> tuple[Outcome, list[Resolved]]:
    """Apply a change that was refused as stale, merged with the later writes.

    Returns the outcome, and the conflict that a model settled, if any. A dry run asks no model.

    Raises:
        Stale: The same field has changed, and no model settled the conflict; nothing was written.
        KgdError: Any other refusal; nothing was written.
    """
    try:
        return _rebased(session, workspace, changes, refusal, dry_run=dry_run), []
    except Stale as clash:
        if dry_run:
            raise
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
                clash.next = f"{clash.next} (No model resolved it: {why}.)"[:300]
            raise
        edits = tuple(edit if old is late.edit else old for old in changes.edits)
        outcome = session.submit(workspace, replace(changes, edits=edits, resolved_by=decision.label))
        return outcome, [decision.answer(outcome.commit)]


def _rebased(session: Session, workspace: Workspace, changes: ChangeSet, refusal: Stale, *, dry_run: bool) -> Outcome:
    """Submit a change again. An outdated expected version of an upsert becomes the current one if no field clashes.

    Raises:
        Stale: An upsert changes a field that changed since its version, or the content at that version is unknown.
        KgdError: Any other refusal; nothing was written.
    """
    for _ in range(TRIES - 1):
        edits = list(changes.edits)
        for late in (late_ones := _late_ones(workspace, changes)):
            found = _compared(workspace, late) if session.may(workspace, late.uri, Verb.READ) else None
            if found is None or not found.is_clear:
                raise refusal
            edits = [replace(late, expect_version=found.version) if edit is late else edit for edit in edits]
        if not late_ones:
            raise refusal
        try:
            return session.submit(workspace, replace(changes, edits=tuple(edits)), dry_run=dry_run)
        except Stale as again:
            refusal = again
    raise refusal


def after(outcome: Outcome, resolved: Iterable[Resolved]) -> Outcome:
    """The outcome, with the versions of nodes whose conflicts were settled right after the change.

    If another writer changed a node in between, the node's older version stays in the outcome, so that a later change
    that expects it is compared with the newer node.
    """
    versions = dict(outcome.nodes)
    for one in resolved:
        if (version := one.get("version")) and versions.get(Uri(one["uri"])) == version - 1:
            versions[Uri(one["uri"])] = version
    return replace(outcome, nodes=tuple(versions.items()))


@dataclass(frozen=True, slots=True)
class _Late:
    """An upsert that expects an older version, merged with the current node."""

    edit: Upsert
    conflict: Conflict | None
    read: Node
    merged: Node
    current: Node
    version: int

    @property
    def is_clear(self) -> bool:
        """Whether no field of the upsert has changed since then. Equal changes are treated as changes, because both may
        increment a counter."""
        edit, read, now = self.edit, self.read, self.current
        fields = [field for field in (*SCALARS, "source") if getattr(edit, field) is not None or field in edit.unset]
        is_same = all(getattr(read, field) == getattr(now, field) for field in fields)
        is_same &= all(read.data.get(key) == now.data.get(key) for key in edit.data)
        is_same &= all(read.others.get(key) == now.others.get(key) for key in edit.others)
        return self.conflict is None and is_same and upserted(self.current, self.edit) == self.merged

    def decided(self, decision: Decision) -> Upsert | None:
        """The upsert that turns the current node into the decided node; None if no upsert does exactly that."""
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
            "others": {key: wanted.others.get(key) for key in edit.others},
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
    """Compare an outdated upsert with the current node; None if the node at its expected version is unknown."""
    if edit.detail is not None:  # only an author can merge prose
        return None
    uri = workspace.graph.resolve(edit.uri)
    # Read the version before the node: a write in between makes it outdated, and the upsert is then refused.
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
    """Whether this edit itself decides a disputed field."""
    subject = _subject(edit)
    if subject is None or workspace.graph.resolve(subject) != uri:
        return False
    return any(_names(edit, field) for field in conflict.fields)


def _names(edit: Edit, field: str) -> bool:
    head, *rest = split(field)
    if is_other(field):
        return isinstance(edit, Upsert) and (head in edit.others or head in edit.unset)
    match edit:
        case Upsert() if head in (*SCALARS, "source"):
            return getattr(edit, head) is not None or head in edit.unset
        case Upsert() if head == "data":
            return rest[0] in edit.data or not {"data", f"data.{rest[0]}"}.isdisjoint(edit.unset)
        case Upsert() if head == "relations":
            return "relations" in edit.unset or any(r.key == (rest[0], rest[1]) for r in edit.relations)
        case Append():
            return head == "content" or head not in (*SCALARS, "source", "data", "relations")
        case Relate():
            return head not in (*SCALARS, "source", "data") and rest[:2] in ([], [*edit.relation.key])
        case Unrelate():
            return head not in (*SCALARS, "source", "data") and rest[:2] in ([], [edit.type, edit.target])
        case Untag():
            return head not in (*SCALARS, "source", "data", "relations")
    return True
