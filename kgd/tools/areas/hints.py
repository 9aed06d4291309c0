"""Checks of areas that `put` and `submit_subgraph` write: patterns without a match, and missing molecules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kgd.areas.atlas import ATOM, MOLECULE
from kgd.areas.patterns import check_pattern
from kgd.errors import Invalid
from kgd.model.change import Edit, Upsert
from kgd.model.node import Json
from kgd.model.uri import Uri, scheme_of
from kgd.tools import visibility
from kgd.tools.areas import ids
from kgd.tools.session import Session
from kgd.tools.visibility import Sees

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


def warnings(edits: Sequence[Edit]) -> list[str]:
    """Warnings about the patterns of a change that match nothing. Such patterns are still stored."""
    return [text for edit in edits if isinstance(edit, Upsert) and scheme_of(edit.uri) == ATOM for text in _of(edit)]


def _of(edit: Upsert) -> Iterator[str]:
    paths: Json = edit.data.get("paths")
    if paths is not None and not isinstance(paths, list):
        yield f"{edit.uri}: data.paths is a list of patterns; it matches nothing so"
    for text in paths if isinstance(paths, list) else ():
        try:
            check_pattern(text if isinstance(text, str) else "", "paths")
        except Invalid as error:
            yield f"{edit.uri}: a path pattern matches nothing: {error.message}"


def check_molecules(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> None:
    """Refuse an atom that is put into a missing molecule, as `manage_graph` does.

    Files, merges and deletions of molecules may leave such atoms; these belong to no molecule.

    Raises:
        Invalid: The value is no URI of a molecule.
        InvariantViolation: The molecule is of another project.
        Forbidden: The caller may not read it, whether or not it exists.
        NotFound: Neither the workspace nor this change has it.
    """
    upserts = [edit for edit in edits if isinstance(edit, Upsert)]
    here = {edit.uri for edit in upserts}
    sees = visibility.sight(session, workspace.id)
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
                f"data.moleculeId is a URI, {MOLECULE}://{workspace.id}/<name>",
                at=edit.uri,
                next="Give the URI of the molecule, or null.",
            )
        ids.molecule_of_project(session, workspace, named, at=f"{edit.uri} data.moleculeId")


def _molecule(workspace: Workspace, uri: Uri, sees: Sees | None) -> Json:
    """The molecule that the stored atom names, if the caller may read the atom."""
    current = workspace.graph.resolve(uri)
    node = workspace.readable(current) if sees is None or sees(current) else None
    return node.data.get("moleculeId") if node else None
