"""The `query_graph` tool: reads areas by id, by words, or by the paths that they cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, MOLECULE, STEPS, Atlas, Atom
from kgd.errors import Invalid, KgdError
from kgd.model.access import Verb
from kgd.model.uri import Uri
from kgd.tools import addressing, origins
from kgd.tools.areas import ids, parameters
from kgd.tools.areas.answers import (
    AreaAnswer,
    Envelope,
    Room,
    ShortEntry,
    answer_of,
    answered,
    enveloped,
    from_hub,
    related_in,
    short_entries,
    shown_molecule,
)
from kgd.tools.areas.parameters import Checks, Use
from kgd.tools.operation import USUAL, Hints, Operation
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

LOOKED_THROUGH = 2_000
"""Largest number of hits of a text search to which the other filters are applied; `total` cannot exceed it."""
MAX_LIMIT = 1_000
TOLD_BY = 20
"""Largest number of paths to try if no workspace is named; each may cost a look-up on the disk."""

_EVERYWHERE = frozenset({"operation", "workspace", "projectId", "includeChangelog", "changelogLimit"})
_USES = {
    "get": Use(("id", "entityType"), _EVERYWHERE),
    "search": Use(("entityType",), _EVERYWHERE | {"query", "moleculeId", "orphansOnly", "limit", "offset"}),
    "context": Use(("paths",), _EVERYWHERE),
}


_PATHS = WithJsonSchema({"type": "array", "items": {"type": "string"}, "description": "for context"})
"""The specification uses comma-separated text, which is accepted too."""


class QueryGraphParams(parameters.AreaParams):
    operation: Literal["get", "search", "context"]
    entityType: Literal["atom", "molecule"] | None = None
    id: str | None = None
    projectId: str | None = None
    paths: Annotated[Any, _PATHS] = None
    query: str | None = None
    moleculeId: str | None = None
    orphansOnly: bool = False
    includeChangelog: bool = True
    changelogLimit: Annotated[int, Field(ge=0, le=MAX_LIMIT)] = 5
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 20
    offset: Annotated[int, Field(ge=0)] = 0

    checks: ClassVar[Checks] = {"paths": parameters.requested_paths, "query": parameters.query}

    @classmethod
    def use(cls, operation: str, given: Mapping[str, Any]) -> Use:
        return _USES[operation]

    @classmethod
    def contradictions(cls, operation: str, given: Mapping[str, Any]) -> Iterator[KgdError]:
        if operation != "search":
            return
        atoms_only = [name for name in ("moleculeId", "orphansOnly") if given.get(name)]
        if given.get("entityType") == MOLECULE:
            for name in atoms_only:
                yield Invalid(f"'{name}' is only for atoms", at=name, next="Leave it out, or set entityType to atom.")
        elif len(atoms_only) == 2:
            yield Invalid("an orphan has no molecule", at="orphansOnly", next="Give either moleculeId or orphansOnly.")

    @property
    def entries(self) -> int | None:
        """Number of changelog entries to include with each area; None for no list."""
        return self.changelogLimit if self.includeChangelog else None


class ContextAtom(TypedDict, total=False):
    id: str
    name: str
    knowledge: str
    matchedPaths: list[str]
    relatedAtoms: list[dict[str, str]]
    changelog: list[ShortEntry]


class ContextMolecule(TypedDict, total=False):
    id: str
    name: str
    knowledge: str
    atoms: list[ContextAtom]
    changelog: list[ShortEntry]


class GraphContext(TypedDict):
    """Knowledge about paths. Molecules, and atoms within each, are ordered by name, then by id."""

    molecules: list[ContextMolecule]
    orphanAtoms: list[ContextAtom]
    unmatchedPaths: list[str]


class QueryGraphData(TypedDict, total=False):
    """`get` returns `atom`, or `molecule` with its `atoms`. `search` returns `atoms` or `molecules`, with `total`.
    `context` returns `molecules`, `orphanAtoms` and `unmatchedPaths`.
    """

    atom: AreaAnswer
    molecule: AreaAnswer
    atoms: list[AreaAnswer]
    molecules: list[dict[str, Any]]
    total: int
    orphanAtoms: list[ContextAtom]
    unmatchedPaths: list[str]


Found = tuple["Workspace", dict[str, Any]]


def query_graph(session: Session, params: QueryGraphParams) -> Envelope[QueryGraphData]:
    """Answer one of the three operations. Text by other people is fenced, so that every character is visible."""
    if far := addressing.far(session, params.workspace or params.projectId, [params.id] if params.id else []):
        return from_hub(session, far, "query_graph", params)
    workspace, data = _OPERATIONS[params.operation](session, params)
    return answered(origins.fence(data) if origins.trust_in(session, workspace) == "remote" else data)


def _get(session: Session, params: QueryGraphParams) -> Found:
    assert params.id is not None
    assert params.entityType is not None
    workspace = ids.project(session, params.workspace, params.projectId, [params.id])
    uri = ids.area(session, workspace, params.entityType, params.id, at="id")
    sees = session.sight(workspace.id)
    found = answer_of(workspace, uri, sees, changelog_limit=params.entries)
    if found is None:
        raise ids.gone(params.entityType, "id")
    data: dict[str, Any] = {params.entityType: found}
    if params.entityType == MOLECULE:
        members = (one.uri for one in Atlas.of(workspace).atoms_of(uri) if sees is None or sees(one.uri))
        data["atoms"] = _answers(workspace, members, sees, None)
    return workspace, data


def _search(session: Session, params: QueryGraphParams) -> Found:
    """Areas by relevance if words are given, otherwise by name, then by id."""
    assert params.entityType is not None
    texts = [params.moleculeId] if params.moleculeId else []
    workspace = ids.project(session, params.workspace, params.projectId, texts)
    sees = session.sight(workspace.id)
    uris = [uri for uri in _candidates(session, workspace, params, sees) if sees is None or sees(uri)]
    page = uris[params.offset : params.offset + params.limit]
    found = _answers(workspace, page, sees, params.entries)
    return workspace, {f"{params.entityType}s": found, "total": len(uris)}


def _candidates(session: Session, workspace: Workspace, params: QueryGraphParams, sees: Sees | None) -> list[Uri]:
    """The areas to search: all of the kind, by name, or the matches of the words, best first."""
    atlas, is_molecule = Atlas.of(workspace), params.entityType == MOLECULE
    molecule = None
    if params.moleculeId and not is_molecule:
        molecule = ids.area(session, workspace, "molecule", params.moleculeId, at="moleculeId")

    def counts(atom: Atom | None) -> bool:
        if atom is None or (molecule is not None and atom.molecule != molecule):
            return False
        return molecule is not None or not params.orphansOnly or _is_orphan(atom, sees)

    if words := parameters.query(params.query or ""):
        hits = workspace.text().search(words, types=[params.entityType or ATOM], limit=LOOKED_THROUGH, sees=sees)
        named = (hit.uri for hit in hits)
        return [uri for uri in named if (atlas.molecule(uri) if is_molecule else counts(atlas.atom(uri)))]
    if is_molecule:
        return [one.uri for one in atlas.molecules()]
    return [one.uri for one in (atlas.atoms_of(molecule) if molecule else atlas.atoms()) if counts(one)]


def _is_orphan(atom: Atom, sees: Sees | None) -> bool:
    return atom.molecule is None or (sees is not None and not sees(atom.molecule))


def _answers(workspace: Workspace, uris: Any, sees: Sees | None, entries: int | None) -> list[AreaAnswer]:
    room, found = Room(), []
    for uri in uris:
        if (one := answer_of(workspace, uri, sees, changelog_limit=entries)) is not None:
            room.take(one)
            found.append(one)
    return found


def _context(session: Session, params: QueryGraphParams) -> Found:
    paths = parameters.requested_paths(params.paths)
    # A token holder's paths are from another machine, so they do not determine the workspace.
    told = paths[:TOLD_BY] if session.principal is None else []
    workspace = ids.project(session, params.workspace, params.projectId, told)
    return workspace, {**context_of(session, workspace, paths, entries=params.entries)}


def context_of(
    session: Session, workspace: Workspace, paths: Sequence[str], *, entries: int | None = 5
) -> GraphContext:
    """The areas that cover the paths, with their knowledge, limited to areas that the caller may see.

    Args:
        entries: Number of newest changelog entries to include with each area; None for no list.
    """
    sees = session.sight(workspace.id)
    matches = Atlas.of(workspace).matching(paths, sees=sees, at_home=session.principal is None, most=STEPS)
    room = Room()
    groups: dict[Uri, list[ContextAtom]] = {}
    orphans: list[ContextAtom] = []
    for uri, matched in matches.by_atom.items():
        node = workspace.readable(uri)
        if node is None:  # deleted since it matched
            continue
        atom: ContextAtom = {
            "id": uri,
            "name": node.title,
            "knowledge": node.content,
            "matchedPaths": matched,
            "relatedAtoms": related_in(workspace, node, sees, named=True),
        }
        if entries is not None:
            atom["changelog"] = short_entries(workspace, uri, entries)
        room.take(atom)
        molecule = shown_molecule(workspace, node, sees)
        (groups.setdefault(molecule, []) if molecule else orphans).append(atom)
    molecules = [one for uri, atoms in groups.items() if (one := _molecule(workspace, uri, atoms, entries))]
    molecules.sort(key=lambda one: (one["name"], one["id"]))
    return {"molecules": molecules, "orphanAtoms": orphans, "unmatchedPaths": matches.unmatched}


def _molecule(workspace: Workspace, uri: Uri, atoms: list[ContextAtom], entries: int | None) -> ContextMolecule:
    node = workspace.readable(uri)
    name, knowledge = (node.title, node.content) if node else (uri, "")
    found: ContextMolecule = {"id": uri, "name": name, "knowledge": knowledge, "atoms": atoms}
    if entries is not None:
        found["changelog"] = short_entries(workspace, uri, entries)
    return found


_OPERATIONS = {"get": _get, "search": _search, "context": _context}

QUERY_GRAPH = Operation(
    name="query_graph",
    title="Read areas",
    description=(
        "Knowledge by area of the code. An atom owns path globs, a molecule groups atoms. context (paths): knowledge "
        "about these files, and files without an area. get (entityType, id). search (entityType; query, moleculeId, "
        "orphansOnly)."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=query_graph,
    refusal=enveloped,
    offered=USUAL,
    place=50,
    scope=Verb.READ,
)
