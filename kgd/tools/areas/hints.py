"""This file is where `put` learns what would not work in an area that it writes: patterns that match nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from kgd.areas.atlas import ATOM, MOLECULE
from kgd.areas.patterns import check_pattern
from kgd.errors import Invalid
from kgd.model.change import Edit, Upsert
from kgd.model.node import Json
from kgd.model.uri import Uri, scheme_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


def warnings(workspace: Workspace, edits: Sequence[Edit]) -> list[str]:
    """What to say of the areas in a change. They are taken all the same: a node may hold anything."""
    upserts = [edit for edit in edits if isinstance(edit, Upsert)]
    here = {edit.uri for edit in upserts}
    return [text for edit in upserts if scheme_of(edit.uri) == ATOM for text in _of(workspace, edit, here)]


def _of(workspace: Workspace, edit: Upsert, here: Collection[Uri]) -> Iterator[str]:
    paths: Json = edit.data.get("paths")
    if paths is not None and not isinstance(paths, list):
        yield f"{edit.uri}: data.paths is a list of patterns; it matches nothing so"
    for text in paths if isinstance(paths, list) else ():
        try:
            check_pattern(text if isinstance(text, str) else "", "paths")
        except Invalid as error:
            yield f"{edit.uri}: a path pattern matches nothing: {error.message}"
    molecule: Json = edit.data.get("moleculeId")
    if molecule is not None and not (isinstance(molecule, str) and molecule.startswith(f"{MOLECULE}://")):
        yield f"{edit.uri}: data.moleculeId is a URI, {MOLECULE}://<workspace>/<name>; so the atom belongs to none"
    elif isinstance(molecule, str) and molecule.startswith(f"{MOLECULE}://{workspace.id}/") and molecule not in here:
        if workspace.exists(workspace.graph.resolve(Uri(molecule))):
            return
        yield f"{edit.uri}: there is no molecule {molecule[:200]}; so the atom belongs to none"
