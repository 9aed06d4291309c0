"""This file is where a write is told what the cited code holds at that moment, and where somebody verifies a node."""

from __future__ import annotations

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

KEPT = 6
"""Contents of one citation that stay noted as verified, so that who changes between branches finds each as it was."""


def noted(workspace: Workspace, changes: ChangeSet) -> tuple[ChangeSet, tuple[str, ...]]:
    """The same changes with the contents noted that their citations have now, and warnings about those that name none.

    A citation that names its commit is noted by that. Who writes `content` or `summary` of a node that cites code says
    anew what they found there: from then on the content of now alone is verified.
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
    """The change that notes what the code behind a node holds now, so that the node counts as verified.

    What was verified before stays verified too: the same words held for both. A relation to a file is taken for a
    citation from now on.

    Raises:
        NotFound: There is no such node.
        Invalid: It cites no code, or something that is not there (any more).
    """
    current = workspace.resolve(uri)
    node = workspace.node(current)
    if node is None:
        raise NotFound("there is no such node", at=uri, next=Advice("Look for it with ", Do("search"), "."))
    code = Freshness.of(workspace).code
    if code is None:
        raise Invalid("this workspace has no code tree here to verify against", at=uri)
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
            "this node cites no code", at=uri, next='Say what it is about: data {"cites": ["path#symbol"]}.'
        )  # fmt: skip
    return Upsert(current, data=data)


def _verified_now(code: Code, node: Node, cited: Mapping[str, Citation]) -> Iterator[tuple[str, Json]]:
    notes = notes_of(node)
    for text, one in cited.items():
        now = code.shareable(one.path, one.symbol)
        if not now.id and not one.at and text not in notes:
            continue  # it never was a file here: a book, or somebody else's code
        if not now.id:
            why = "is not in the code tree" if now.known else "cannot be read here"
            raise Invalid(
                f"{one.path[:200]} {why}", at=node.uri,
                next="Cite what took its place (data.cites, or the relation), then verify.",
            )  # fmt: skip
        if now.id not in notes.get(text, ()):
            yield note(text, now.id), True
        for id in sorted(notes.get(text, set()) - {now.id})[KEPT - 1 :]:
            yield note(text, id), None


def _with_notes(workspace: Workspace, freshness: Freshness, code: Code, edit: Upsert, warnings: list[str]) -> Upsert:
    uri = workspace.resolve(edit.uri)
    restated = edit.content is not None or edit.summary is not None
    cites = edit.data.get(CITES)
    symbols = [one for relation in edit.relations if (one := _about_symbol(relation, workspace.id))]
    if cites is None and not symbols and not (restated and freshness.cited(uri)):
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
            warnings.append(f"{one.text[:200]} is cited, and nothing of that id is known here: no change can be told")
            continue
        if not now.id:
            if now.known and one.text in texts and _looks_like_a_path(one.path):
                warnings.append(f"{one.text[:200]} is cited, and there is no such file in the code tree")
            continue
        if one.symbol and not now.has_symbol and one.text in texts:
            warnings.append(f"{one.symbol[:80]} was not found in {one.path[:200]}: the whole file counts instead")
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
    """Papers and books are cited too."""
    return " " not in text and ("/" in text or "." in text)
