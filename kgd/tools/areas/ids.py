"""Ids in calls of area tools: projects, atoms, molecules and tasks.

Also checks areas that `put` and `submit_subgraph` write: patterns without a match, and missing molecules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from kgd.areas.atlas import ATOM, MOLECULE
from kgd.areas.patterns import Matcher, check_pattern
from kgd.errors import Advice, Do, Invalid, InvariantViolation, KgdError, Limit, NotFound
from kgd.model.access import Verb
from kgd.model.change import Edit, Upsert
from kgd.model.node import Json
from kgd.model.uri import MAX_SEGMENT_BYTES, OWNED, Uri, build, is_external, is_owned, path_of, scheme_of, workspace_of
from kgd.model.uri import parse as parse_uri
from kgd.tools import addressing
from kgd.tools.nodes import overlay_of
from kgd.tools.parameters import refuse_unseen
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

Kind = Literal["atom", "molecule"]
TASK = "task"
FILES_LOOKED = 50_000
"""Largest number of files to compare with new patterns."""
STEPS = 1_000_000
"""Largest cost of this comparison, roughly in microseconds."""


def project(
    session: Session, workspace: str | None, project_id: str | None, texts: Iterable[str] = (), *, writing: bool = False
) -> Workspace:
    """The workspace of a call; `projectId` is its id.

    Raises:
        Invalid: Two different workspaces are given.
        NotFound: There is no such workspace, or the choice is ambiguous.
    """
    chosen = addressing.choose(session, workspace or project_id, texts, writing=writing)
    if workspace and project_id and project_id not in (workspace, chosen.id):
        raise Invalid(
            "projectId and workspace name two different projects", at="projectId", next="Give only one of them."
        )
    return chosen


def area(session: Session, workspace: Workspace, kind: Kind, text: str, *, at: str, verb: Verb = Verb.READ) -> Uri:
    """The current URI of a stored atom or molecule, by its URI, a former URI, or its short id.

    Raises:
        Invalid: The text is not an id, or is the id of another kind or project.
        Forbidden: The caller lacks the permission, whether or not the area exists.
        NotFound: There is no such area.
    """
    uri = _spelt(session, workspace, kind, text, at)
    owner = workspace_of(uri)
    if owner != workspace.id:
        raise Invalid(f"this {kind} belongs to project '{owner}', but the call is about '{workspace.id}'", at=at)
    session.allow(workspace, verb, [uri])
    current = workspace.graph.resolve(uri)
    session.allow(workspace, verb, [current] if current != uri else [])
    if current not in workspace.graph:
        raise gone(kind, at, similar(session, workspace, uri))
    return current


def gone(kind: Kind, at: str, like: Sequence[str] = ()) -> NotFound:
    advice = f"Did you mean {', '.join(like)}?" if like else Advice("Find it with ", Do("search", types=kind), ".")
    return NotFound(f"there is no such {kind}", at=at, next=advice)


def similar(session: Session, workspace: Workspace, uri: Uri) -> list[str]:
    """The areas of a missing area's kind among `addressing.similar`."""
    found = addressing.similar(workspace, uri, session.sight(workspace.id))
    return [one for one in found if scheme_of(one) == scheme_of(uri)]


def molecule_of_project(session: Session, workspace: Workspace, text: str, *, at: str = "moleculeId") -> Uri:
    """The molecule that an atom of this project should belong to.

    Raises:
        InvariantViolation: The molecule belongs to another project.
        Invalid, Forbidden, NotFound: As `area`.
    """
    uri = _spelt(session, workspace, MOLECULE, text, at)
    owner = workspace_of(uri)
    if owner != workspace.id:
        raise InvariantViolation(
            f"an atom of '{workspace.id}' cannot belong to a molecule of '{owner}'",
            at=at,
            next="Choose a molecule of the same project; relatedAtoms may lead to other projects.",
        )
    return area(session, workspace, "molecule", text, at=at)


def related(session: Session, workspace: Workspace, kind: Kind, text: str, *, at: str) -> Uri:
    """The target of a relation. A target in another project is not checked.

    Raises:
        Invalid, Forbidden, NotFound: As `area`.
    """
    uri = _spelt(session, workspace, kind, text, at)
    return uri if workspace_of(uri) != workspace.id else area(session, workspace, kind, text, at=at)


def task(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[Uri, tuple[Edit, ...]]:
    """The task that a call names and, for a tracker's URL that is new here, the edit that stores it as a resource.

    Raises:
        Invalid: The text is neither a task of kgd nor a URL.
        Forbidden: The caller may not read the task.
        NotFound: There is no such task.
    """
    text = text.strip()
    if is_external(text):
        try:
            uri = workspace.graph.resolve(parse_uri(text))
        except KgdError as error:
            error.at = at
            raise
        return uri, () if uri in workspace.graph else (Upsert(uri),)
    uri = addressing.resolve(session, workspace, _spelt(session, workspace, TASK, text, at), at=at)
    if addressing.on_hub(session, uri):
        raise NotFound("a task on a hub cannot be looked up from here", at=at, next="Give its URL in your tracker.")
    owner = addressing.owner_of(session, workspace, uri)
    session.allow(owner, Verb.READ, [uri])
    current = owner.graph.resolve(uri)
    if current not in owner.graph:
        raise NotFound(
            "there is no such task",
            at=at,
            next=Advice("Create it with ", Do("put", type="task"), ", or give its URL in your tracker."),
        )
    return current, ()


def new_uri(workspace: Workspace, kind: Kind, name: str) -> Uri:
    """A URI that is made from the name and was never used for an area.

    The first candidate is the URI that `put` makes from type and name; `-2`, `-3` and so on are tried after it.
    """
    stem = name.encode("utf-8", "surrogateescape")
    if len(stem) > MAX_SEGMENT_BYTES - 8 or stem in (b".", b".."):
        digest = hashlib.sha256(stem).hexdigest()[:8]
        stem = f"{stem[:200].decode('utf-8', 'ignore').rstrip()}-{digest}".encode()
    number = 1
    while True:
        uri = build(kind, workspace.id, [stem if number == 1 else b"%s-%d" % (stem, number)])
        if not _was_used(workspace, uri):
            return uri
        number += 1


def _was_used(workspace: Workspace, uri: Uri) -> bool:
    graph = workspace.graph
    return (
        uri in graph
        or graph.resolve(uri) != uri
        or graph.twin(uri) is not None
        or workspace.node_version(uri) is not None
    )


def _spelt(session: Session, workspace: Workspace, scheme: str, text: str, at: str) -> Uri:
    """A canonical URI of this scheme. A short id is a whole name, or a path below `<scheme>://<workspace>/`."""
    text = text.strip()
    refuse_unseen(text, at)
    if not text:
        raise Invalid(
            f"the id of the {scheme} is missing", at=at, next=f"Give its id, {scheme}://{workspace.id}/<name>."
        )
    if text.partition(":")[0] in OWNED and ":" in text:
        uri = addressing.spell(session, workspace, text, at=at)
        if scheme_of(uri) != scheme:
            raise Invalid(
                f"this id does not begin with {scheme}://", at=at, next=f"Its id is {scheme}://{workspace.id}/<name>."
            )
        return uri
    try:
        whole = build(scheme, workspace.id, [text.encode("utf-8", "surrogateescape")])
    except (Invalid, Limit):
        whole = None
    if whole is not None and workspace.graph.resolve(whole) in workspace.graph:
        return whole
    uri = addressing.spell(session, workspace, f"{scheme}:{text}", at=at)
    if not is_owned(uri) or scheme_of(uri) != scheme:
        raise Invalid(f"this id does not begin with {scheme}://", at=at)
    return uri


def warnings(session: Session, workspace: Workspace, edits: Sequence[Edit], created: Collection[str]) -> list[str]:
    """Warnings about patterns that match nothing, and about areas without a pattern. Both are still stored."""
    atoms = [edit for edit in edits if isinstance(edit, Upsert) and scheme_of(edit.uri) == ATOM]
    found = [text for edit in atoms for text in _of(edit, edit.uri in created)]
    return [*found, *unmatched(session, workspace, edits)]


def _of(edit: Upsert, is_new: bool) -> Iterator[str]:
    paths: Json = edit.data.get("paths")
    if paths == [] or (paths is None and is_new):
        yield f'{edit.uri} covers no file, because it has no path patterns; set data.paths, as in ["src/auth/**"]'
    if paths is not None and not isinstance(paths, list):
        yield f"{edit.uri}: data.paths must be a list of patterns; in this form it matches nothing"
    for text in paths if isinstance(paths, list) else ():
        try:
            check_pattern(text if isinstance(text, str) else "", "paths")
        except Invalid as error:
            yield f"{edit.uri}: a path pattern matches nothing: {error.message}"


def unmatched(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> list[str]:
    """Warnings about well-formed patterns that match no file of the code tree. None for the holder of a token, nor for
    a tree of more than `FILES_LOOKED` files."""
    overlay = overlay_of(workspace) if session.principal is None else None
    atoms = [edit for edit in edits if isinstance(edit, Upsert) and scheme_of(edit.uri) == ATOM]
    given = [(edit.uri, text) for edit in atoms for text in _patterns(edit)]
    tree = overlay.view.root if overlay is not None else None
    if overlay is None or tree is None or not given or tree.file_count > FILES_LOOKED:
        return []
    matcher = Matcher((Uri(text), [text]) for _, text in given)
    left: set[str] = {text for _, text in given}
    try:
        for uri in overlay.view.uris():
            if not left:
                break
            if scheme_of(uri) == "file":
                left.difference_update(matcher.matches(path_of(uri), STEPS))
    except Limit:  # patterns that are too slow to match, perhaps on purpose
        return []
    return [f"{uri}: no file of the code tree matches {text}" for uri, text in given if text in left]


def _patterns(edit: Upsert) -> Iterator[str]:
    paths: Json = edit.data.get("paths")
    for text in paths if isinstance(paths, list) else ():
        with suppress(Invalid):
            yield check_pattern(text if isinstance(text, str) else "", "paths")


def check_molecules(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> None:
    """Refuse an atom that is put into a missing molecule, as `manage_graph` does.

    Hand-edited files, merges and deletions of molecules can leave such atoms. They then have no molecule.

    Raises:
        Invalid: The value is not the URI of a molecule.
        InvariantViolation: The molecule belongs to another project.
        Forbidden: The caller may not read the molecule, whether or not it exists.
        NotFound: Neither the workspace nor this change has the molecule.
    """
    upserts = [edit for edit in edits if isinstance(edit, Upsert)]
    here = {edit.uri for edit in upserts}
    sees = session.sight(workspace.id)
    for edit in upserts:
        named: Json = edit.data.get("moleculeId")
        if (
            scheme_of(edit.uri) != ATOM
            or named is None
            or named in here
            or named == _molecule(workspace, edit.uri, sees)
        ):
            continue
        if not (isinstance(named, str) and named.startswith(f"{MOLECULE}://")):
            raise Invalid(
                f"data.moleculeId must be a URI, {MOLECULE}://{workspace.id}/<name>",
                at=edit.uri,
                next="Give the URI of the molecule, or null.",
            )
        molecule_of_project(session, workspace, named, at=f"{edit.uri} data.moleculeId")


def _molecule(workspace: Workspace, uri: Uri, sees: Sees | None) -> Json:
    """The molecule that the stored atom names, if the caller may read the atom."""
    current = workspace.graph.resolve(uri)
    node = workspace.readable(current) if sees is None or sees(current) else None
    return node.data.get("moleculeId") if node else None
