"""Facts about moved code: the edits that replace the former path of a file or folder with its new one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kgd.code_history.history import CodeHistory
from kgd.errors import KgdError
from kgd.freshness.citations import RENAMED, VERIFIED, Citation, moved, note, parse
from kgd.freshness.freshness import Checked, Freshness
from kgd.model.change import Delete, Edit, Move, Settle, difference
from kgd.model.conflict import PLACE, Conflict
from kgd.model.escaping import printable
from kgd.model.fields import CITES
from kgd.model.merge_graph import with_decision
from kgd.model.node import Json, Node, Relation
from kgd.model.uri import IN_CODE, Uri, path_of, scheme_of, uri_at, workspace_of
from kgd.workspace.writing.settling import is_about_node

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


def is_moved(workspace: Workspace, old: str, new: str) -> bool:
    """Whether the code tree on this machine has a file or folder at `new`, and nothing at `old`."""
    code = Freshness.of(workspace).code
    if code is None:
        return False
    was = code.present(old)
    return was.known and not was.id and bool(code.shareable(new).id)


def moving_edits(workspace: Workspace, old: str, new: Uri) -> tuple[tuple[Edit, ...], int]:
    """The edits that replace the path `old` with the file or folder `new` in citations and relations of all facts, and
    the number of these facts.

    Verified content stays verified: it is recorded under the new citation. Nodes stored for the former path, and for
    paths below it, move as well, unless the new path has one; nodes that only a relation created are deleted.
    """
    freshness = Freshness.of(workspace)
    freshness.settle()
    to, graph = _Rename(workspace.id, old, new), workspace.graph
    edits: list[Edit] = []
    bare: list[Edit] = []
    sources = set(freshness.citing_below(old))
    for target in _targets(workspace, old):
        sources.update(edge.target for edge in graph.into(target))
        if (stored := workspace.node(target)) is not None and stored.is_bare:
            bare.append(Delete(target))
        elif stored is not None and (there := to.uri(target)) and graph.card(there) is None:
            edits.append(Move(target, there))
    facts = 0
    for uri in sorted(sources):
        if (before := workspace.node(uri)) is not None and (made := difference(before, to.node(before, freshness))):
            edits += made
            facts += 1
    return (*edits, *bare), facts


def settlement(workspace: Workspace, conflict: Conflict, settle: Settle) -> tuple[tuple[Edit, ...], list[str]]:
    """The edits that settle a conflict, and warnings. If the chosen side cites renamed code, or has a relation to it,
    the node gets the present path.

    An invalid decision is returned as it is, since its settlement refuses it.
    """
    if PLACE in settle.fields or not is_about_node(conflict):
        return (settle,), []
    uri = workspace.graph.resolve(conflict.uri)
    try:
        node = workspace.node(uri)
        for name, value in settle.fields.items():
            node = with_decision(node, uri, name, value)
        undisputed = node
        for name in settle.fields:
            undisputed = with_decision(undisputed, uri, name, None)
    except KgdError:
        return (settle,), []
    if node is None:
        return (settle,), []
    there, moved = _following(workspace, undisputed, node)
    warnings = [f"{printable(was)} was renamed; the resolution names {printable(now)}" for was, now in moved.items()]
    return (settle, *difference(node, there)), warnings


def _following(workspace: Workspace, before: Node | None, node: Node) -> tuple[Node, dict[str, str]]:
    """The node with the present paths of renamed code in all citations and relations that `before` lacks, and these
    paths by the former ones."""
    freshness = Freshness.of(workspace)
    if freshness.code is None:
        return node, {}
    known = {one.key for one in before.relations} if before else set()
    new = [one for one in node.relations if one.key not in known]
    paths = {one.path for one in _cited(node, workspace.id)} - {one.path for one in _cited(before, workspace.id)}
    paths |= {path for one in new if (path := _path(one, workspace.id))}
    renamed = CodeHistory.of(workspace).renamed
    found = {path: now for path in sorted(paths) if (now := renamed(path))}
    for was, now in found.items():
        there = uri_at("dir" if (freshness.code.root / now).is_dir() else "file", workspace.id, now)
        if there is not None:
            to = _Rename(workspace.id, was, there)
            chosen = (replace(one, target=target) for one in new if (target := to.uri(one.target)))
            node = to.node(node, freshness).with_relation(*chosen)
    return node, found


def _cited(node: Node | None, workspace: str) -> Iterator[Citation]:
    cites = node.data.get(CITES) if node else None
    for text in cites if isinstance(cites, list) else [cites]:
        if isinstance(text, str) and (one := parse(text, workspace)):
            yield one


def _path(relation: Relation, workspace: str) -> str:
    """The path of the code to which a relation leads; empty for others."""
    scheme, path = scheme_of(relation.target), path_of(relation.target)
    if scheme not in IN_CODE or workspace_of(relation.target) != workspace:
        return ""
    return path.rpartition("/")[0] if scheme == "symbol" else path


def _targets(workspace: Workspace, old: str) -> Iterator[Uri]:
    """The nodes and missing targets of relations at a path of the code tree, or below it."""
    for scheme in IN_CODE:
        if uri := uri_at(scheme, workspace.id, old):
            yield from (one for one in workspace.graph.named(uri) if one == uri or one.startswith(f"{uri}/"))


class _Rename:
    """Former paths, URIs and nodes, with the new path instead."""

    def __init__(self, workspace: str, old: str, new: Uri) -> None:
        self._workspace, self._old, self._new, self._path = workspace, old, new, path_of(new)

    def path(self, path: str) -> str | None:
        """The new path; None for other paths."""
        rest = path.removeprefix(self._old)
        return self._path + rest if rest != path and rest[:1] in ("", "/") else None

    def uri(self, uri: Uri) -> Uri | None:
        scheme = scheme_of(uri)
        path = self.path(path_of(uri)) if scheme in IN_CODE and workspace_of(uri) == self._workspace else None
        if path is None or path == self._path:
            return None if path is None else self._new
        return uri_at(scheme, self._workspace, path)

    def node(self, node: Node, freshness: Freshness) -> Node:
        """The node that cites the new path, and is related to it."""
        cites = node.data.get(CITES)
        data: dict[str, Json] = dict(node.data)
        if isinstance(cites, str):
            data[CITES] = self._text(cites)
        elif isinstance(cites, list):
            texts = [self._text(one) for one in cites if isinstance(one, str)]
            if len(texts) == len(cites):  # otherwise a hand-edited list, which admission takes only unchanged
                data[CITES] = list(dict.fromkeys(texts))
        if notes := self._notes(node, freshness.checked(node.uri, node)):
            data[VERIFIED] = notes
        if renames := self._renames(node):
            data[RENAMED] = renames
        kept = [one for one in node.relations if not self.uri(one.target)]
        known = {one.key for one in kept}
        renamed = [replace(one, target=there) for one in node.relations if (there := self.uri(one.target))]
        relations = (*kept, *(one for one in renamed if one.key not in known))
        return replace(node, data=data, relations=relations)

    def _renames(self, node: Node) -> dict[str, Json]:
        """The recorded renames, followed by this one for each path that the node names."""
        given = node.data.get(RENAMED)
        known: dict[str, Json] = dict(given) if isinstance(given, dict) else {}
        named = {one.path for one in _cited(node, self._workspace)}
        named |= {path for one in node.relations if (path := _path(one, self._workspace))}
        renames = {was: (isinstance(now, str) and self.path(now)) or now for was, now in known.items()}
        renames |= {path: now for path in named if (now := self.path(path))}
        return {was: now for was, now in renames.items() if was != now}

    def _text(self, text: str) -> str:
        return moved(text, self._workspace, self.path)

    def _notes(self, node: Node, checked: list[Checked]) -> dict[str, Json]:
        """The verifications, with the new citation in place of the former path."""
        given = node.data.get(VERIFIED)
        notes: dict[str, Json] = dict(given) if isinstance(given, dict) else {}
        for one in checked:
            if (text := self._text(one.citation.text)) != one.citation.text:
                for id in one.verified:
                    notes.pop(note(one.citation.text, id), None)
                    notes[note(text, id)] = True
        return notes
