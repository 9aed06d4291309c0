"""Reconciliation of imported nodes with stored ones: new, changed there, changed here, or equal.

An imported node stores a digest of its content at that time. The digest shows which side changed: only the source (its
version is stored), only the workspace (it stays), or both (the workspace stays, and the report names the node).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgd.codec import canonical
from kgd.errors import Limit
from kgd.exchange.plan import IMPORTED, NAMED_FILE, Trouble, Wanted, digest, noted
from kgd.model.change import Edit, Unrelate, Untag, Upsert
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace.workspace import Workspace

FIELDS = ("type", "name", "summary", "content")


@dataclass(frozen=True, slots=True)
class Step:
    """The edits of one wanted node, which belong together. `what` is "new", "changed", or "edit"."""

    edits: tuple[Edit, ...]
    at: str
    what: str
    uri: Uri


@dataclass(slots=True)
class Reconciled:
    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0
    troubles: list[Trouble] = field(default_factory=list)


def reconcile(workspace: Workspace, wanted: Sequence[Wanted], *, replace: bool = False) -> Reconciled:
    """The steps for each wanted node, in order. `replace` prefers the source where the stored node differs."""
    out = Reconciled()
    seen: dict[str, str] = {}
    for one in wanted:
        key = collision_key(one.node.uri)
        if (other := seen.setdefault(key, one.at)) != one.at:
            reason = f"{other} has the same name, or differs only by case or normal form; not imported"
            out.troubles.append(Trouble(one.at, reason))
            continue
        try:
            canonical.check_depth(one.node.data)
            canonical.check_depth(one.node.others)
        except Limit as refusal:
            out.troubles.append(Trouble(one.at, f"{refusal.message}; not imported"))
            continue
        _one(workspace, noted(one), out, replace=replace)
    return out


def _one(workspace: Workspace, one: Wanted, out: Reconciled, *, replace: bool) -> None:
    node = one.node
    current = workspace.resolve(node.uri)
    version = workspace.node_version(current)  # read first: the write then detects an edit in between
    stored = workspace.node(current)
    if stored is None or stored.is_bare:
        twin = workspace.graph.twin(node.uri) if stored is None else None
        if twin is not None:
            out.troubles.append(
                Trouble(one.at, f"its name differs from {twin} only by case or normal form; not imported")
            )
            return
        seen = version.count if version and stored else 0  # a deleted node still has a version; the write expects none
        out.steps.append(Step((_whole(one, seen),), one.at, "new", node.uri))
        return
    now, then = digest(stored, detail_of(workspace, stored)), one.base or stored.data.get(IMPORTED)
    coming = digest(node, one.detail)
    if coming in (now, then) and not (replace and coming != now):
        out.unchanged += 1
        return
    is_same_source = _key(stored) == _key(node)
    if replace or (is_same_source and now == then):
        out.steps.append(Step(_difference(stored, one, version.count if version else 0), one.at, "changed", stored.uri))
        return
    out.kept += 1
    why = (
        "it changed here and in the source since the last import"
        if is_same_source
        else f"{stored.uri} exists here and did not come from the source"
    )
    out.troubles.append(Trouble(one.at, f"{why}; the node here was kept (--replace takes the source's)"))


def _key(node: Node) -> tuple[str, str] | None:
    return node.source.key if node.source else None


def detail_of(workspace: Workspace, node: Node) -> str:
    """The prose of the node's memory file; empty if it has none."""
    found = workspace.detail(node)
    return found[1] if found else ""


def _whole(one: Wanted, version: int) -> Upsert:
    if one.detail and one.file:
        one = dataclasses.replace(one, node=dataclasses.replace(one.node, data={**one.node.data, NAMED_FILE: one.file}))
    return _upsert(one, one.node.uri, version)


def _upsert(one: Wanted, uri: Uri, version: int, unset: Sequence[str] = ()) -> Upsert:
    """An edit with all fields of a wanted node and the prose of its memory file."""
    node, detail = one.node, one.detail.strip("\n") if one.detail.strip() else None
    return Upsert(
        uri,
        node.type,
        node.name or None,
        node.summary or None,
        node.content or None,
        node.tags,
        node.data,
        node.source,
        node.relations,
        unset=tuple(unset),
        expect_version=version,
        detail=detail,
        others=node.others,
    )


def _difference(stored: Node, one: Wanted, version: int) -> tuple[Edit, ...]:
    """The edits that make the stored node equal to the wanted one. Fields of kgd alone (aliases, file name) stay."""
    node, uri = one.node, stored.uri
    edits: list[Edit] = []
    gone = tuple(tag for tag in stored.tags if tag not in node.tags)
    if gone:
        edits.append(Untag(uri, gone))
    keys = {relation.key for relation in node.relations}
    edits += [Unrelate(uri, r.target, r.type) for r in stored.relations if r.key not in keys]
    unset = [name for name in FIELDS if getattr(stored, name) and not getattr(node, name)]
    unset += [f"data.{key}" for key in stored.data if node.data.get(key) != stored.data[key] and key != NAMED_FILE]
    if stored.content and node.content != stored.content and "content" not in unset:
        unset.append("content")
    if not one.detail.strip() and stored.data.get(NAMED_FILE):
        unset.append("detail")
    edits.append(_upsert(one, uri, version, unset))
    return tuple(edits)
