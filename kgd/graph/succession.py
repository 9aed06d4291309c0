"""Succession: which node supersedes or sums up another node, by relations in either direction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kgd.graph.edges import Edge, EdgeSource
from kgd.graph.live_graph import LiveGraph
from kgd.model.node import SUPERSEDES, ranks_behind
from kgd.model.uri import Uri

LONGEST = 50
"""Maximum number of successions to follow from one node to find that it is in a cycle."""
LONGEST_CHAIN = 10_000
"""Maximum number of successions to follow to the last one."""


def successor(source: EdgeSource, uri: Uri, sees: Callable[[Uri], bool] | None = None) -> Uri | None:
    """The node that supersedes a node or sums it up; None if there is none that `sees` covers.

    A node that declares this itself (`superseded_by`, `summarised_by`) decides; otherwise the closest node that
    `supersedes` it. A successor that does not exist supersedes nothing, and nodes that supersede each other in a cycle
    are all valid. O(relations of the node, and relations to it); for a node without such relations, a look at their
    types.
    """
    found = _closest(source, uri, sees)
    return None if found is None or _leads_to(source, found, uri) else found


def successors(source: EdgeSource, uris: Sequence[Uri], sees: Callable[[Uri], bool] | None = None) -> dict[Uri, Uri]:
    """The successors (see `successor`) of the nodes among these that have one."""
    likely = source.may_have(uris, is_succession) if isinstance(source, LiveGraph) else uris
    found = ((uri, successor(source, uri, sees)) for uri in likely)
    return {uri: one for uri, one in found if one is not None}


def _closest(source: EdgeSource, uri: Uri, sees: Callable[[Uri], bool] | None = None) -> Uri | None:
    if isinstance(source, LiveGraph) and not source.may_have((uri,), is_succession):
        return None
    found = (one for one in _successors(source, uri) if sees is None or sees(one))
    return next((one for one in found if source.card(one) is not None), None)


def _leads_to(source: EdgeSource, uri: Uri | None, end: Uri) -> bool:
    """Whether the successors of a node, at most `LONGEST`, lead to another node."""
    for _ in range(LONGEST):
        if uri is None or uri == end:
            break
        uri = _closest(source, uri)
    return uri == end


class Chains:
    """The last successors of nodes in one source, for one answer. A chain is walked once for all of its nodes.

    Nodes that `sees` does not cover end a chain.
    """

    def __init__(self, source: EdgeSource, sees: Callable[[Uri], bool] | None = None) -> None:
        self._source, self._sees = source, sees
        self._last: dict[Uri, Uri | None] = {}

    def newest(self, uri: Uri) -> Uri | None:
        """The last of a node's successors; None if it has none or is in a cycle. A chain that leads to a cycle ends
        at the first node of the cycle that it reaches.

        Follows at most `LONGEST_CHAIN` nodes that are not known yet.
        """
        path: dict[Uri, None] = {}
        end: Uri | None = uri
        while end is not None and end not in self._last and end not in path and len(path) < LONGEST_CHAIN:
            path[end] = None
            end = _closest(self._source, end, self._sees)
        steps = list(path)
        if end is None:  # the last step has no successor
            end = steps.pop()
            self._last[end] = None
        elif end in path:
            cycle = steps.index(end)
            self._last |= dict.fromkeys(steps[cycle:])
            steps = steps[:cycle]
        else:
            end = self._last.get(end) or end
        self._last |= dict.fromkeys(steps, end)
        return self._last[uri]

    def current_first(self, uris: Iterable[Uri]) -> list[Uri]:
        """The nodes in their order, superseded nodes last."""
        return sorted(uris, key=lambda uri: self.newest(uri) is not None)


def predecessors(source: EdgeSource, uri: Uri, declared: Iterable[Uri] = ()) -> set[Uri]:
    """The nodes that a node supersedes or sums up, directly or through others, as far as `LONGEST` steps lead.

    `declared` are further nodes that it supersedes, by relations that are not stored yet.
    """
    found, last = set[Uri](), {*declared, *_predecessors(source, uri)}
    for _ in range(LONGEST):
        last = {one for one in last if one != uri} - found
        if not last:
            break
        found |= last
        last = {before for one in last for before in _predecessors(source, one)}
    return found - {uri}


def _predecessors(source: EdgeSource, uri: Uri) -> Iterator[Uri]:
    yield from (edge.target for edge in source.out(uri) if _supersedes(edge))
    yield from (edge.target for edge in source.into(uri) if ranks_behind(edge.type))


def _successors(source: EdgeSource, uri: Uri) -> Iterator[Uri]:
    own = source.out(uri)
    yield from (edge.target for edge in own if ranks_behind(edge.type) and edge.target != uri)
    known = {uri, *(edge.target for edge in own if _supersedes(edge))}
    yield from (edge.target for edge in source.into(uri) if _supersedes(edge) and edge.target not in known)


def is_succession(type: str) -> bool:
    """Whether a relation of this type makes one of its nodes the successor of the other."""
    return ranks_behind(type) or type.lower() == SUPERSEDES


def _supersedes(edge: Edge) -> bool:
    return edge.type.lower() == SUPERSEDES
