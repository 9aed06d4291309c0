"""Recording verifications: the content of cited code when a node is written, and explicit verification of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.freshness import citations
from kgd.freshness.citations import VERIFIED, Citation, note, notes_of
from kgd.freshness.code import ID, Code
from kgd.freshness.freshness import Freshness
from kgd.model.change import ChangeSet, Edit, Relate, Upsert
from kgd.model.fields import CITES
from kgd.model.node import Json, Node, Relation
from kgd.model.uri import Uri, scheme_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

_LINE = re.compile(r".:\d+(?:-\d+)?\Z").search
KEPT = 6
"""Number of verified contents kept per citation, so that a node stays verified when switching branches."""


def noted(workspace: Workspace, changes: ChangeSet) -> tuple[ChangeSet, tuple[str, ...]]:
    """The changes, with the current contents of the cited code recorded in them, and warnings about unresolved
    citations.

    A citation with a commit is verified by that commit. Writing `content` or `summary` of a citing node restates it:
    from then on, only the current content of the code is verified.
    """
    freshness = Freshness.of(workspace)
    if freshness.code is None:
        return changes, ()
    edits: list[Edit] = []
    warnings: list[str] = []
    for edit in changes.edits:
        if isinstance(edit, Upsert) and VERIFIED not in edit.data:
            edit = _with_notes(workspace, freshness, freshness.code, edit, warnings)
        edits.append(edit)
        if isinstance(edit, Relate):
            alike = Upsert(edit.source, relations=(edit.relation,))
            notes = _with_notes(workspace, freshness, freshness.code, alike, warnings)
            edits += [replace(notes, relations=())] if notes.data else []
    return replace(changes, edits=tuple(edits)), tuple(warnings)


def verification(workspace: Workspace, uri: Uri) -> Upsert:
    """The change that records the current content of the code behind a node, which verifies it.

    Earlier verifications stay valid for their versions of the code. A relation to a file is turned into a citation.

    Raises:
        NotFound: The node does not exist.
        Invalid: The node does not cite code, or cites a file that does not exist (any more).
    """
    current = workspace.resolve(uri)
    node = workspace.node(current)
    if node is None:
        raise NotFound("there is no such node", at=uri, next=Advice("Look for it with ", Do("search"), "."))
    code = Freshness.of(workspace).code
    if code is None:
        raise Invalid("this workspace has no code tree on this machine to verify against", at=uri)
    cited = {one.text: one for one in citations.of(node, workspace.id)}
    for relation in node.relations:
        if one := citations.by_relation(relation, workspace.id):
            cited.setdefault(one.text, one)
    data: dict[str, Json] = {}
    if marks := dict(_verified_now(code, node, cited)):
        data[VERIFIED] = marks
    if isinstance(node.data.get("paths"), list) and (head := code.look()):
        older = {note("", commit): None for commit in citations.confirmed_at(node)}
        data[VERIFIED] = {**marks, **older, note("", head[:ID]): True}
    if not data and not any(one.at or one.text in notes_of(node) for one in cited.values()):
        raise Invalid(
            "this node does not cite any code", at=uri, next='Add a citation: data {"cites": ["path#symbol"]}.'
        )
    return Upsert(current, data=data)


def _verified_now(code: Code, node: Node, cited: Mapping[str, Citation]) -> Iterator[tuple[str, Json]]:
    notes = notes_of(node)
    for text, one in cited.items():
        now = code.shareable(one.path, one.symbol)
        if not now.id and not one.at and text not in notes:
            continue  # not a file of this tree, but a book or code elsewhere
        if not now.id:
            why = "is not in the code tree" if now.known else "cannot be read here"
            raise Invalid(
                f"{one.path[:200]} {why}",
                at=node.uri,
                next="Cite its replacement (data.cites, or the relation), then verify.",
            )
        if now.id not in notes.get(text, ()):
            yield note(text, now.id), True
        for id in sorted(notes.get(text, set()) - {now.id})[KEPT - 1 :]:
            yield note(text, id), None


def _with_notes(workspace: Workspace, freshness: Freshness, code: Code, edit: Upsert, warnings: list[str]) -> Upsert:
    uri = workspace.resolve(edit.uri)
    restated = edit.content is not None or edit.summary is not None
    cites = edit.data.get(CITES)
    symbols = [one for relation in edit.relations if (one := _about_symbol(relation, workspace.id))]
    if cites is None and not symbols and not (restated and freshness.citations(uri)):
        return edit
    before = workspace.node(uri) or Node(uri)
    texts = [one for one in (cites if isinstance(cites, list) else [cites]) if isinstance(one, str)]
    after = replace(before, data={**before.data, **({CITES: texts} if cites is not None else {})})
    old = notes_of(before)
    known = {one.text for one in citations.of(before, workspace.id)}
    marks: dict[str, Any] = {}
    for one in {one.text: one for one in [*citations.of(after, workspace.id), *symbols]}.values():
        now = code.shareable(one.path, one.symbol)
        is_new = one.text not in old and not one.at
        if one.at and one.text not in known and code.id_at(one.at, one.path) is None:
            warnings.append(f"{one.text[:200]} has an unknown commit or blob, so changes cannot be detected")
            continue
        if not now.id:
            if now.known and one.text in texts and _looks_like_a_path(one.path):
                cure = "; cite a file or PATH#SYMBOL, without line numbers" if _LINE(one.text) else ""
                warnings.append(f"{one.text[:200]} is cited, but the code tree has no such file{cure}")
            continue
        if one.symbol and not now.has_symbol and one.text in texts:
            warnings.append(f"{one.symbol[:80]} was not found in {one.path[:200]}; the whole file is compared instead")
        if is_new or (restated and one.text in known):
            marks[note(one.text, now.id)] = True
    kept = {one.text for one in citations.of(after, workspace.id)}
    renewed = {key.rpartition("@")[0] for key in marks}
    for text, ids in old.items():
        if text in renewed or text not in kept:
            marks.update({note(text, id): None for id in ids if note(text, id) not in marks})
    return replace(edit, data={**edit.data, VERIFIED: marks}) if marks else edit


def _about_symbol(relation: Relation, workspace: str) -> Citation | None:
    is_about = relation.type == "about" and scheme_of(relation.target) == "symbol"
    return citations.by_relation(relation, workspace) if is_about else None


def _looks_like_a_path(text: str) -> bool:
    """Whether a text looks like a path; papers and books can be cited as well."""
    return " " not in text and ("/" in text or "." in text)
