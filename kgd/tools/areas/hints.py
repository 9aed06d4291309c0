"""This file is where `put` learns what would not work in an area that it writes: patterns that match nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgd.areas.atlas import ATOM, MOLECULE
from kgd.areas.patterns import check_pattern
from kgd.errors import Invalid
from kgd.model.change import Edit, Upsert
from kgd.model.node import Json
from kgd.model.uri import scheme_of


def warnings(edits: Iterable[Edit]) -> list[str]:
    """What to say of the areas in a change. They are taken all the same: a node may hold anything."""
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
    molecule: Json = edit.data.get("moleculeId")
    if molecule is not None and not (isinstance(molecule, str) and molecule.startswith(f"{MOLECULE}://")):
        yield f"{edit.uri}: data.moleculeId is a URI, {MOLECULE}://<workspace>/<name>; so the atom belongs to none"
