"""The tools that write areas, one commit per call: `manage_graph` creates, updates and deletes atoms and molecules;
`manage_changelog` adds immutable entries about changes of an area and their reasons, and lists them, newest first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, MOLECULE, Atlas
from kgd.errors import Invalid, KgdError, Stale
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Delete, Edit, Log, Unrelate, Upsert, subject_from
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri
from kgd.tools import addressing, origins
from kgd.tools.areas import changelog, ids, parameters
from kgd.tools.areas.answers import (
    AreaAnswer,
    EntryAnswer,
    Envelope,
    answer_of,
    answered,
    entry_answer,
    enveloped,
    from_hub,
)
from kgd.tools.areas.parameters import Checks, Use
from kgd.tools.nodes import title_of
from kgd.tools.operation import USUAL, Hints, Operation
from kgd.tools.parameters import When, period
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.admission import RELATED, related_relations

_GLOBS = WithJsonSchema({"type": "array", "items": {"type": "string"}, "description": "globs"})
_ATOMS = WithJsonSchema({"type": "array", "items": {"type": "object"}, "description": "[{atomId, reason}]"})
_MOLECULES = WithJsonSchema({"type": "array", "items": {"type": "object"}, "description": "[{moleculeId, reason}]"})
"""The specification uses JSON strings, which are accepted too."""
_NULLABLE = WithJsonSchema({"type": ["string", "null"]})

_SHARED = frozenset({"operation", "entityType", "workspace", "projectId"})
_FIELDS = {
    ATOM: frozenset({"name", "knowledge", "paths", "moleculeId", "relatedAtoms"}),
    MOLECULE: frozenset({"name", "knowledge", "relatedMolecules"}),
}


class ManageGraphParams(parameters.AreaParams):
    operation: Literal["create", "update", "delete"]
    entityType: Literal["atom", "molecule"]
    id: str | None = None
    version: int | None = None
    projectId: str | None = None
    name: str | None = None
    paths: Annotated[Any, _GLOBS] = None
    knowledge: str | None = None
    knowledgeMode: Literal["overwrite", "append"] = "overwrite"
    moleculeId: Annotated[str | None, _NULLABLE] = None
    relatedAtoms: Annotated[Any, _ATOMS] = None
    relatedMolecules: Annotated[Any, _MOLECULES] = None
    createdByTaskId: Annotated[str | None, Field(description="task:// or a URL")] = None
    lastTaskId: str | None = None
    cascade: bool = False

    checks: ClassVar[Checks] = {
        "name": parameters.name,
        "paths": parameters.patterns,
        "knowledge": parameters.knowledge,
        "relatedAtoms": lambda value: parameters.related(value, ATOM, "relatedAtoms"),
        "relatedMolecules": lambda value: parameters.related(value, MOLECULE, "relatedMolecules"),
    }

    @classmethod
    def use(cls, operation: str, given: Mapping[str, Any]) -> Use:
        kind = given.get("entityType")
        fields = _FIELDS[kind] if kind else _FIELDS[ATOM] | _FIELDS[MOLECULE]
        if operation == "create":
            needs = ("name", *(("paths",) if kind == ATOM else ()), "createdByTaskId")
            return Use(needs, _SHARED | fields | {"lastTaskId"})
        if operation == "update":
            return Use(("id", "version", "lastTaskId"), _SHARED | fields | {"knowledgeMode"})
        return Use(("id", "version"), _SHARED | {"cascade", "lastTaskId"})

    @classmethod
    def contradictions(cls, operation: str, given: Mapping[str, Any]) -> Iterator[KgdError]:
        maker, last = given.get("createdByTaskId"), given.get("lastTaskId")
        if operation == "create" and maker and last and maker != last:
            yield Invalid(
                "for a new area, the last task is the task that creates it", at="lastTaskId", next="Leave it out."
            )
        if operation == "update" and given.get("knowledgeMode") == "append" and not _has_text(given, "knowledge"):
            yield Invalid("there is nothing to append", at="knowledge")
        if operation == "delete" and given.get("cascade") and given.get("entityType") == ATOM:
            yield Invalid("only a molecule can be deleted with its atoms", at="cascade", next="Leave it out.")


def _has_text(given: Mapping[str, Any], name: str) -> bool:
    """Whether a text is not blank; a refused text counts as not blank."""
    return bool((given.get(name, "refused") or "").strip())


class DeletedAnswer(TypedDict):
    id: str
    name: str
    deleted: bool


class ManageGraphData(TypedDict, total=False):
    """The atom or molecule after the call, or its deletion; for a molecule, also the result for its atoms."""

    atom: AreaAnswer | DeletedAnswer
    molecule: AreaAnswer | DeletedAnswer
    orphanedAtoms: list[str]
    deletedAtoms: list[str]
    warnings: list[str]


def manage_graph(session: Session, params: ManageGraphParams) -> Envelope[ManageGraphData]:
    """Carry out one of the three operations. A refused call writes nothing."""
    return answered(_OPERATIONS[params.operation](session, params))


# ---- create


def _create(session: Session, params: ManageGraphParams) -> dict[str, Any]:
    kind = params.entityType
    assert params.name is not None
    assert params.createdByTaskId is not None
    name = parameters.name(params.name)
    fields = _fields(params)
    workspace = ids.project(session, params.workspace, params.projectId, writing=True)
    task, before = ids.task(session, workspace, params.createdByTaskId, at="createdByTaskId")
    data = {**fields, "createdByTaskId": task, "lastTaskId": task}
    if params.moleculeId:
        data["moleculeId"] = ids.molecule_of_project(session, workspace, params.moleculeId)
    relations = _relations(session, workspace, params)
    while True:
        uri = ids.new_uri(workspace, kind, name)
        edit = Upsert(
            uri,
            type=kind,
            name=name,
            content=parameters.knowledge(params.knowledge or ""),
            data=data,
            relations=tuple(relations or ()),
            expect_version=0,
        )
        try:
            return _done(session, workspace, params, uri, (*before, edit))
        except Stale:  # a concurrent call created an area of this name
            continue


# ---- update


def _update(session: Session, params: ManageGraphParams) -> dict[str, Any]:
    kind = params.entityType
    assert params.id is not None
    assert params.lastTaskId is not None
    name = parameters.name(params.name) if params.name is not None else None
    fields: dict[str, Any] = _fields(params)
    workspace = ids.project(session, params.workspace, params.projectId, [params.id], writing=True)
    uri = ids.area(session, workspace, kind, params.id, at="id", verb=Verb.WRITE)
    task, before = ids.task(session, workspace, params.lastTaskId, at="lastTaskId")
    if kind == ATOM and "moleculeId" in params.model_fields_set:
        named = params.moleculeId
        fields["moleculeId"] = ids.molecule_of_project(session, workspace, named) if named else None
    relations = _relations(session, workspace, params)
    node = workspace.readable(uri)
    if node is None:
        raise ids.gone(kind, "id")
    edit = Upsert(
        uri,
        name=name,
        content=_knowledge(params, node.content, task),
        data={**fields, "lastTaskId": task},
        relations=tuple(relations or ()),
        expect_version=params.version,
    )
    return _done(session, workspace, params, uri, (*before, edit, *_dropped(node, relations)))


def _knowledge(params: ManageGraphParams, old: str, task: Uri) -> str | None:
    """The new knowledge; None if the call leaves it unchanged."""
    if params.knowledge is None:
        return None
    text = parameters.knowledge(params.knowledge)
    if params.knowledgeMode == "overwrite":
        return text
    return parameters.knowledge(f"{old}\n\n---[{changelog.moment_of(time.time())} task:{task}]---\n{text}")


def _dropped(node: Node, relations: list[Relation] | None) -> tuple[Edit, ...]:
    """Edits that remove the relations missing from the new list."""
    if relations is None:
        return ()
    kept = {relation.target for relation in relations}
    return tuple(Unrelate(node.uri, one.target, RELATED) for one in related_relations(node) if one.target not in kept)


# ---- delete


def _delete(session: Session, params: ManageGraphParams) -> dict[str, Any]:
    kind = params.entityType
    assert params.id is not None
    workspace = ids.project(session, params.workspace, params.projectId, [params.id], writing=True)
    uri = ids.area(session, workspace, kind, params.id, at="id", verb=Verb.WRITE)
    before: tuple[Edit, ...] = ()
    data: dict[str, Any] = {"moleculeId": None}
    if params.lastTaskId:
        data["lastTaskId"], before = ids.task(session, workspace, params.lastTaskId, at="lastTaskId")
    name = title_of(workspace, uri)
    members = [atom.uri for atom in Atlas.of(workspace).atoms_of(uri)] if kind == MOLECULE else []
    edits: list[Edit] = [Delete(uri, params.version)]
    edits += [Delete(atom) if params.cascade else Upsert(atom, data=data) for atom in members]
    warnings = _submit(session, workspace, f"delete {kind} {name}", (*before, *edits))
    answer: dict[str, Any] = {kind: {"id": uri, "name": name, "deleted": True}, **warnings}
    if kind == MOLECULE:
        answer["deletedAtoms" if params.cascade else "orphanedAtoms"] = members
    return answer


# ---- shared


def _fields(params: ManageGraphParams) -> dict[str, Any]:
    """The fields of `data` that do not depend on a workspace."""
    if params.entityType == ATOM and params.paths is not None:
        return {"paths": parameters.patterns(params.paths)}
    return {}


def _relations(session: Session, workspace: Workspace, params: ManageGraphParams) -> list[Relation] | None:
    """The relations of a given list, in its order; None if no list is given."""
    kind = params.entityType
    at = "relatedAtoms" if kind == ATOM else "relatedMolecules"
    given = getattr(params, at)
    if given is None:
        return None
    found: dict[Uri, Relation] = {}
    for number, (text, reason) in enumerate(parameters.related(given, kind, at)):
        target = ids.related(session, workspace, kind, text, at=f"{at}[{number}].{kind}Id")
        if target in found:
            raise Invalid(f"this {kind} is given twice", at=f"{at}[{number}]", next="Put both reasons into one entry.")
        data: Mapping[str, Any] = {"position": number, **({"reason": reason} if reason else {})}
        found[target] = Relation(RELATED, target, data=data)
    return list(found.values())


def _done(
    session: Session, workspace: Workspace, params: ManageGraphParams, uri: Uri, edits: tuple[Edit, ...]
) -> dict[str, Any]:
    """Commit the edits and return the new state of the atom or molecule."""
    name = (params.name or "").strip() or title_of(workspace, uri)
    warnings = _submit(session, workspace, f"{params.operation} {params.entityType} {name}", edits)
    found = answer_of(workspace, uri, session.sight(workspace.id), changelog_limit=None)
    return {params.entityType: found, **warnings}


def _submit(session: Session, workspace: Workspace, message: str, edits: tuple[Edit, ...]) -> dict[str, Any]:
    """Commit the edits; returns `warnings` if there are any."""
    changes = ChangeSet(edits, session.author(workspace), message=message, operation="manage_graph")
    outcome = session.submit(workspace, changes)
    warnings = [*outcome.warnings, *ids.unmatched(session, workspace, edits)]
    return {"warnings": warnings} if warnings else {}


_OPERATIONS = {"create": _create, "update": _update, "delete": _delete}

MANAGE_GRAPH = Operation(
    name="manage_graph",
    title="Write areas",
    description=(
        "Create (name, createdByTaskId; an atom: paths), update (id, version, lastTaskId) or delete (id, version) an "
        "atom or molecule. knowledgeMode append adds a dated block. Deleting a molecule keeps its atoms unless "
        "cascade."
    ),
    hints=Hints(destructive=True),
    run=manage_graph,
    commits={"manage_graph": "wrote"},
    refusal=enveloped,
    offered=USUAL,
    place=60,
    scope=Verb.WRITE,
)


MAX_LIMIT = 1_000

_OF_ENTRIES = frozenset({"operation", "parentType", "parentId", "workspace", "projectId"})


class ManageChangelogParams(parameters.AreaParams):
    operation: Literal["append", "search"]
    parentType: Literal["atom", "molecule"]
    parentId: str
    taskId: str | None = None
    summary: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 20
    offset: Annotated[int, Field(ge=0)] = 0
    since: When = None
    until: When = None
    projectId: str | None = None

    checks: ClassVar[Checks] = {"summary": parameters.summary}

    @classmethod
    def use(cls, operation: str, given: Mapping[str, Any]) -> Use:
        if operation == "append":
            return Use(("taskId", "summary"), _OF_ENTRIES)
        return Use((), _OF_ENTRIES | {"limit", "offset", "since", "until"})


class ManageChangelogData(TypedDict, total=False):
    """`append` returns `entry`; `search` returns `entries` and `total`."""

    entry: EntryAnswer
    entries: list[EntryAnswer]
    total: int


def manage_changelog(session: Session, params: ManageChangelogParams) -> Envelope[ManageChangelogData]:
    """`append` adds one immutable entry; `search` returns a page of entries and their total."""
    return answered(_append(session, params) if params.operation == "append" else _search(session, params))


def _append(session: Session, params: ManageChangelogParams) -> dict[str, Any]:
    assert params.taskId is not None
    assert params.summary is not None
    text = parameters.summary(params.summary)
    workspace = ids.project(session, params.workspace, params.projectId, [params.parentId], writing=True)
    parent = ids.area(session, workspace, params.parentType, params.parentId, at="parentId", verb=Verb.WRITE)
    task, before = ids.task(session, workspace, params.taskId, at="taskId")
    entry = changelog.new_entry(parent, task, text, time.time())
    card = workspace.graph.card(parent)
    message = subject_from("log", params.parentType, f"{card.name if card else parent}:", text.splitlines()[0])
    edits = (*before, Log(entry))
    session.submit(workspace, ChangeSet(edits, session.author(workspace), message, operation="manage_changelog"))
    return {"entry": entry_answer(entry)}


def _search(session: Session, params: ManageChangelogParams) -> dict[str, Any]:
    if far := addressing.far(session, params.workspace or params.projectId, [params.parentId]):
        return {**from_hub(session, far, "manage_changelog", params)["data"]}
    workspace = ids.project(session, params.workspace, params.projectId, [params.parentId])
    parent = ids.area(session, workspace, params.parentType, params.parentId, at="parentId")
    since, until = period(params.since, params.until)
    page, total = changelog.entries(
        workspace, parent, limit=params.limit, offset=params.offset, since=since, until=until
    )
    data = {"entries": [entry_answer(entry) for entry in page], "total": total}
    return origins.fence(data) if origins.trust_in(session, workspace) == "remote" else data


MANAGE_CHANGELOG = Operation(
    name="manage_changelog",
    title="Changelog of an area",
    description="append: record what changed in an area and why (taskId, summary). search: its entries, newest first.",
    hints=Hints(),
    run=manage_changelog,
    commits={"manage_changelog": "added to the changelog of"},
    refusal=enveloped,
    offered=USUAL,
    place=70,
    scope=Verb.WRITE,
)
