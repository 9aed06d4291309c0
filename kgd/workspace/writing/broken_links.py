"""Broken links of a change: warnings about remaining relations to the nodes that the change removes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

from kgd.graph.live_graph import LiveGraph
from kgd.model.node import Node
from kgd.model.uri import Uri

NAMED = 20
"""Maximum number of removed nodes with a warning of their own."""


class BrokenLinks(str):
    """A warning about broken relations to the removed node `uri`; to several further nodes if it is None."""

    uri: Uri | None = None
    sources: Sequence[Uri] = ()
    """The sources of the relations to `uri`, one for each relation."""

    @classmethod
    def to(cls, uri: Uri, sources: Sequence[Uri]) -> BrokenLinks:
        made = cls(
            f"1 relation of another node leads to {uri} and is now a broken link"
            if len(sources) == 1
            else f"{len(sources)} relations of other nodes lead to {uri} and are now broken links"
        )
        made.uri, made.sources = uri, sources
        return made

    def seen_by(self, sees: Callable[[Uri], bool]) -> BrokenLinks | None:
        """The warning about the relations of readable nodes; None if there are none, or if they are not known."""
        seen = list(filter(sees, self.sources))
        return self.to(self.uri, seen) if self.uri is not None and seen else None


def broken_by(
    changed: Mapping[Uri, Node | None], graph: LiveGraph, in_overlay: Callable[[Uri], bool]
) -> Iterator[BrokenLinks]:
    """Warnings about relations that a change breaks.

    A relation is not broken if its target is still in the code tree, or is a former name of a node. O(relations to the
    removed nodes and of the changed ones).

    Args:
        changed: The changed nodes after the change; None for a removed node.
        graph: The graph before the change.
    """
    names = {alias for node in changed.values() if node for alias in node.aliases}

    def is_there(uri: Uri) -> bool:
        return changed.get(uri) is not None or uri in names or in_overlay(uri)

    @cache  # one node may have relations to thousands of removed nodes, as a document to its chunks
    def kept(source: Uri) -> set[tuple[str, Uri]]:
        return {(one.type, one.target) for one in node.relations} if (node := changed[source]) else set()

    def sources(gone: Uri) -> Iterator[Uri]:
        every = (gone, *graph.aliases(gone))
        lost = [one for one in every if not is_there(one)]
        for edge in graph.into(gone) if lost else ():
            source = edge.target
            if source in changed:
                is_broken = any((edge.type, one) in kept(source) for one in lost)
            else:
                is_broken = lost == list(every) or any(graph.relates(source, edge.type, one) for one in lost)
            if is_broken:
                yield source

    removed = (uri for uri in sorted(changed) if changed[uri] is None and uri in graph)
    broken = ((uri, found) for uri in removed if (found := list(sources(uri))))
    for uri, found in islice(broken, NAMED):
        yield BrokenLinks.to(uri, found)
    if more := sum(1 for _ in broken):
        yield BrokenLinks(f"relations of other nodes lead to {more} more deleted nodes and are now broken links")
