"""Filters of a search that the index cannot answer: the last author, the area, and staleness.

They are tested for each hit of a bounded list, so that a search never reads all nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from kgd.areas.atlas import ATOM, STEPS, Atlas
from kgd.errors import Advice, Do, Invalid, Limit, NotFound
from kgd.freshness import citations
from kgd.freshness.freshness import Freshness
from kgd.model.uri import CODE_TREE, Uri, path_of, scheme_of, uri_at
from kgd.retrieval.code import file_of
from kgd.retrieval.relevance import anybody
from kgd.tools import visibility
from kgd.tools.areas import ids
from kgd.tools.session import Session

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KINDS: Final[tuple[Literal["atom", "molecule"], ...]] = ("atom", "molecule")
LOOKED = 200
"""Number of hits in each list of a search to test."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Whether a hit passes. Takes up to one read of a node per hit.

    Args:
        author: A folded part of the name of the last author; empty for any.
        areas: The areas to be in; None for no restriction.
        stale: The nodes to choose from; None for any.
    """

    workspace: Workspace
    author: str
    areas: frozenset[Uri] | None
    stale: Collection[Uri] | None

    @classmethod
    def of(cls, session: Session, workspace: Workspace, *, author: str, area: str, stale: bool) -> Self | None:
        """The filter of a call; None if it has none.

        Raises:
            NotFound: There is no such area.
            Forbidden: The caller may not read the area.
        """
        if not (author.strip() or area.strip() or stale):
            return None
        sees = visibility.sight(session, workspace.id)
        doubted = Freshness.of(workspace).doubted if sees is None else frozenset[Uri]()
        areas = _areas(session, workspace, area.strip()) if area.strip() else None
        return cls(workspace, author.strip().casefold(), areas, doubted if stale else None)

    def __call__(self, uri: Uri) -> bool:
        return (
            (self.stale is None or uri in self.stale)
            and (not self.author or self.author in self._last_author(uri))
            and (self.areas is None or uri in self.areas or not self.areas.isdisjoint(self._areas_of(uri)))
        )

    def _last_author(self, uri: Uri) -> str:
        version = self.workspace.node_version(uri)
        return version.updated_by.casefold() if version else ""

    def _areas_of(self, uri: Uri) -> set[Uri]:
        """The areas that a hit is about: of its file, or those that it cites or has relations with."""
        paths, related = set[str](), set[Uri]()
        for one in _about(self.workspace, uri):
            if scheme_of(one) in CODE_TREE:
                paths.add(path_of(one))
            else:
                related.add(one)
        with suppress(Limit):
            related |= Atlas.of(self.workspace).matching(sorted(paths), most=STEPS).by_atom.keys()
        return related


def _about(workspace: Workspace, uri: Uri) -> Iterator[Uri]:
    """The file of a hit in the code; the targets of relations, by their present URIs, and the cited files of any other
    node."""
    own = file_of(uri)
    if scheme_of(own) in CODE_TREE:
        yield own
        return
    yield from (edge.target for edge in workspace.graph.out(uri))
    node = workspace.readable(uri)
    for one in citations.of(node, workspace.id) if node is not None else ():
        if file := uri_at("file", workspace.id, one.path):
            yield file


def _areas(session: Session, workspace: Workspace, text: str) -> frozenset[Uri]:
    """The area with this URI, id or name, in any case; of a molecule, with its atoms."""
    found, sees = set[Uri](), visibility.sight(session, workspace.id) or anybody
    for kind in KINDS:
        with suppress(Invalid, NotFound):
            found.add(ids.area(session, workspace, kind, text, at="area"))
    if not found:
        found = {one.uri for one, _ in workspace.text_so_far().called(text, sees, types=KINDS)}
    if not found:
        raise NotFound(
            "there is no such area", at="area", next=Advice("Look for it with ", Do("search", types=ATOM), ".")
        )
    atoms = (atom.uri for uri in tuple(found) for atom in Atlas.of(workspace).atoms_of(uri))
    return frozenset(found.union(filter(sees, atoms)))
