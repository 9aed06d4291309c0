"""Conversion of a hub's `traverse` answer into a graph patch. Every field is validated.

The result is plain cards and relations of bounded size. The `Region` that receives the patch ensures that a hub adds
only nodes of its own workspaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kgd.errors import KgdError
from kgd.graph.cross_workspace import FAR, AnsweredNode, Patch, Question, Reach
from kgd.graph.edges import UNIT, WEIGHT_DIGITS, Card, Edge
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, parse, workspace_of

MOST_LINKS = 50_000
LONGEST_NAME = 300
LONGEST_SUMMARY = 100
LONGEST_TYPE = 100
_WHOLE = ("max_cost", "max_depth")
"""Limits that the question sets; reaching them does not make the answer incomplete."""


def patch_from(pages: Sequence[dict[str, Any]], question: Question, *, more: bool) -> Patch:
    """The patch from the pages of one answer; `more` tells whether the hub had further pages.

    Malformed entries are dropped. If the hub cut its answer short, the patch covers less than the question asked for.
    """
    nodes, links = list(_nodes(pages, question)), []
    gone, forbidden, moved = set[Uri](), set[Uri](), dict[Uri, Uri]()
    for page in pages:
        for one in _dicts(page.get("edges")):
            links += _link(one)
        for one in _dicts(page.get("broken_links")):
            links += _link(one)
            target = _uri(one.get("target"))
            if target and one.get("reason") in ("missing", "gone"):
                gone.add(target)
            elif target and one.get("reason") == "forbidden":
                forbidden.add(target)
        starts = set(question.starts)
        gone |= starts & _texts(page.get("missing"))
        forbidden |= starts & _texts(
            [one.get("uri") for one in _dicts(page.get("absent")) if one.get("reason") == "forbidden"]
        )
        for one in _dicts(page.get("nodes")):
            current = _uri(one.get("uri"))
            moved.update((old, current) for old in starts & _texts(one.get("asked")) if current)
    cut = more or any(one.get("limit") not in _WHOLE for page in pages for one in _dicts(page.get("cut")))
    return Patch(
        tuple(nodes),
        tuple(links[:MOST_LINKS]),
        _reach(question, nodes, cut),
        moved,
        frozenset(gone),
        frozenset(forbidden),
        {told.card.uri: stamp for told, stamp in _stamped(pages, nodes)},
    )


def _nodes(pages: Sequence[dict[str, Any]], question: Question) -> Iterable[AnsweredNode]:
    hops: dict[Uri, int] = {}
    for one in (one for page in pages for one in _dicts(page.get("nodes"))):
        uri, cost, steps = _uri(one.get("uri")), one.get("cost"), _hops(one, hops)
        if uri is None or uri in hops or len(hops) >= question.max_nodes:
            continue
        if not isinstance(cost, int | float) or not 0 <= cost <= FAR // UNIT or steps is None:
            continue
        hops[uri] = steps
        card = Card(
            uri,
            _line(one.get("type"), LONGEST_TYPE) or "concept",
            _line(one.get("name"), LONGEST_NAME),
            _line(one.get("summary"), LONGEST_SUMMARY),
            None if one.get("stored") is False else b"",
            workspace_of(uri) or question.workspace,
        )
        yield AnsweredNode(card, round(cost * UNIT), steps)


def _hops(one: dict[str, Any], known: Mapping[Uri, int]) -> int | None:
    """The number of relations on the path to a node. Hubs up to version 0.1.0 list the whole path."""
    if "path" in one:
        return len(one["path"]) if isinstance(one["path"], list) else None
    via = one.get("via", {})
    if not via or not isinstance(via, dict):
        return 0 if via == {} else None
    steps = [*_dicts(via.get("through")), via]
    before = _uri(steps[0].get("from"))
    return known[before] + len(steps) if before and before in known else None


def _reach(question: Question, nodes: Sequence[AnsweredNode], cut: bool) -> Reach:
    cost = FAR if question.max_cost is None else round(question.max_cost * UNIT)
    hops = FAR if question.max_depth is None else question.max_depth
    return Reach(min(cost, max((told.cost for told in nodes), default=0)) if cut else cost, hops)


def _stamped(
    pages: Sequence[dict[str, Any]], nodes: Sequence[AnsweredNode]
) -> Iterable[tuple[AnsweredNode, tuple[str, str]]]:
    known = {told.card.uri: told for told in nodes}
    for one in (one for page in pages for one in _dicts(page.get("nodes"))):
        told, origin = known.get(_uri(one.get("uri")) or Uri("")), one.get("origin")
        if told and isinstance(origin, dict):
            yield told, stamp_of(origin)


def stamp_of(origin: dict[str, Any]) -> tuple[str, str]:
    """The commit and the author of an origin, empty if missing."""
    commit = origin.get("commit")
    is_id = isinstance(commit, str) and len(commit) in (40, 64) and set(commit) <= set("0123456789abcdef")
    return str(commit) if is_id else "", _line(origin.get("author"), LONGEST_NAME)


def _link(one: dict[str, Any]) -> list[tuple[Uri, Edge]]:
    source, target, weight = _uri(one.get("source")), _uri(one.get("target")), one.get("weight")
    type = _line(one.get("type"), LONGEST_TYPE)
    if not source or not target or not type or isinstance(weight, bool) or not isinstance(weight, int | float):
        return []
    return [(source, Edge(round(float(weight), WEIGHT_DIGITS), target, type))] if 0 <= weight <= 1 else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> set[str]:
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _line(value: Any, limit: int) -> str:
    return fenced_line(value, limit) if isinstance(value, str) else ""


def _uri(value: Any) -> Uri | None:
    """The value as a URI, or None if it is not canonical; hubs send canonical URIs."""
    return _canonical(value) if isinstance(value, str) and len(value) <= 4_096 else None


@lru_cache(maxsize=4_096)
def _canonical(value: str) -> Uri | None:
    """The result is cached: each URI occurs several times in an answer, and again in the next answer."""
    try:
        uri = parse(value)
    except KgdError:
        return None
    return uri if uri == value else None
