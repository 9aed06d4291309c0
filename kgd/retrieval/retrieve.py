"""Search: `retrieve` ranks nodes by words, meaning and the edges between them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd.errors import Unavailable
from kgd.graph.edges import EdgeSource
from kgd.index import ranking
from kgd.index.ranking import Found, Hit
from kgd.model.node import ranks_behind
from kgd.model.uri import Uri
from kgd.retrieval import dates, spreading
from kgd.retrieval.candidates import Pool, Sees, Unit, anybody, filters_of, gather, measure
from kgd.retrieval.query import Answered, Link, Mentions, Once, Question, Retrieved, Step
from kgd.retrieval.spreading import Surroundings

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SCORE_DIGITS = 6
EDGES_PER_HIT = 5
LOOKED_THROUGH = 100_000
"""Tagged nodes that are checked for a restricted caller."""

BANDS = {ranking.ALL: (0.7, 1.0), ranking.BEGUN: (0.5, 0.7), ranking.SOME: (0.2, 0.5), ranking.FILE: (0.05, 0.1)}
"""Score ranges for a short query: with all words, with the last one as a prefix, with some, by meaning alone."""
KNOWLEDGE = (0.1, 1.0)
"""Score range for a longer query."""
BARE, BARE_SOME = 0.2, 0.05
"""Highest scores of bare files: with all words in their path, and with some. Below 0.1 for a long query."""


class Ranked(NamedTuple):
    """A hit without explanation; `unit` is None for bare files and for hits from a plain text search."""

    uri: Uri
    score: float
    found: Found
    unit: Unit | None


def retrieve(
    workspace: Workspace,
    question: Question,
    mentions: Mentions | None = None,
    *,
    sees: Sees | None = None,
    doubted: Collection[Uri] = (),
    sources: Sequence[EdgeSource] | None = None,
    offset: int = 0,
) -> Retrieved:
    """The hits from `offset` on, at most `limit`, with the cheapest relations of each.

    Deterministic: pages requested before do not matter.

    Args:
        mentions: Names of nodes in texts; without it they are not followed.
        sees: The nodes that the caller may read; others have no influence.
        doubted: Nodes that rank behind their equals.
        sources: Edge sources as the caller may see them; by default the workspace's own.

    Raises:
        Unavailable: `min_similarity` was given, but there are no vectors.
    """
    own = workspace.sources() if sources is None else sources
    named = Once(mentions) if mentions is not None and question.follows(spreading.MENTIONS) else None
    wanted = offset + question.limit + 1

    def ranked(asked: Question) -> tuple[list[Ranked], Pool]:
        around = _surroundings(workspace, asked, own, named, sees)
        return rank(workspace, asked, around, sees, doubted, wanted)

    order, pool = _stored_first(ranked, question, wanted) if question.stored_first else ranked(question)
    page = [one for one in order[offset:wanted] if one.score >= question.min_score]
    hits = _explained(workspace, pool, page[: question.limit])
    edges = links(hits, own, named, question, sees) if question.max_depth else ()
    return Retrieved(tuple(hits), tuple(edges), len(page) > question.limit)


def tagged(
    workspace: Workspace,
    question: Question,
    *,
    sees: Sees | None = None,
    sources: Sequence[EdgeSource] | None = None,
    offset: int = 0,
) -> Retrieved:
    """Nodes with any of the query's tags: most matches first, then the newest, then by URI."""
    wanted = offset + question.limit + 1
    most = wanted if sees is None else LOOKED_THROUGH
    found = workspace.text().by_tags(
        question.tags,
        types=question.types or None,
        namespace=question.namespace,
        since=question.since,
        until=question.until,
        limit=most,
    )
    seen = [hit for hit in found if hit.score >= question.min_score and (sees is None or sees(hit.uri))]
    page = seen[offset:wanted]
    hits = [Answered(hit.uri, hit.score, hit.snippet, hit.why, (hit.uri,)) for hit in page[: question.limit]]
    own = workspace.sources() if sources is None else sources
    edges = links(hits, own, None, question, sees) if question.max_depth else ()
    return Retrieved(tuple(hits), tuple(edges), len(page) > question.limit)


def rank(
    workspace: Workspace,
    question: Question,
    around: Surroundings,
    sees: Sees | None,
    doubted: Collection[Uri],
    wanted: int,
) -> tuple[list[Ranked], Pool]:
    """At least the first `wanted` hits, if there are that many."""
    pool = gather(workspace, question, sees)
    if question.min_similarity > 0:
        _only_similar(pool)
    if question.max_depth > 0:
        spreading.with_neighbours(pool, around)
        spreading.with_people(pool, workspace.text().by_people)
        spreading.hop(pool, around)
    dates.with_dates(pool, workspace.text())
    if question.max_depth > 1:
        spreading.further(pool, around, question.max_depth)
    pool.lapsed = dates.lapses(pool.units.values(), workspace.text(), question.now)
    placed = (_placed(unit, score, question, around) for unit, score in _in_order(pool, around, doubted))
    order = list(islice((one for one in placed if one), wanted))
    if question.min_similarity <= 0:
        order = _with_rest(workspace, question, pool, order, sees, wanted)
    return order, pool


def _stored_first(
    ranked: Callable[[Question], tuple[list[Ranked], Pool]], question: Question, wanted: int
) -> tuple[list[Ranked], Pool]:
    """Stored nodes first, then nodes that are only served from the code tree.

    For a short query, nodes without its words follow later.
    """
    order, pool = ranked(replace(question, stored=True))
    first = [one for one in order if not (pool.is_short and one.unit and one.unit.tier == ranking.FILE)]
    if len(first) >= wanted:
        return first, pool
    lowest, known = first[-1].score if first else 1.0, {one.uri for one in first}
    order, pool = ranked(question)
    rest = [one._replace(score=round(lowest * one.score, SCORE_DIGITS)) for one in order if one.uri not in known]
    return first + rest, pool


def _only_similar(pool: Pool) -> None:
    if not pool.share:
        raise Unavailable(
            "there are no vectors (yet) to compute similarity", at="min_similarity",
            next="`kgd status` shows the embedder; leave min_similarity out to search by words.",
        )  # fmt: skip
    least = pool.question.min_similarity
    pool.units = {key: unit for key, unit in pool.units.items() if (unit.similarity or 0.0) >= least}


def _in_order(pool: Pool, around: Surroundings, doubted: Collection[Uri]) -> Iterator[tuple[Unit, float]]:
    """Units with their final scores. Whether a node is superseded is looked up only when it reaches the top."""
    scored = ((_scored(unit, pool, doubted), unit.key) for unit in pool.units.values())
    heap = [(-score, key, False) for score, key in scored if score]
    heapq.heapify(heap)
    while heap:
        minus, key, is_known = heap[0]
        if not is_known and any(ranks_behind(edge.type) for edge in around.stored.out(key)):
            heapq.heapreplace(heap, (round(minus * ranking.DOUBTED_SHARE, SCORE_DIGITS), key, True))
        else:
            heapq.heappop(heap)
            yield pool.units[key], -minus


def _scored(unit: Unit, pool: Pool, doubted: Collection[Uri]) -> float:
    """The score of a unit; 0 if it is not related to the query."""
    if not pool.speaks_of(unit) and not unit.steps:
        return 0.0
    if unit.score <= 0 or pool.question.min_similarity > max(0.0, unit.similarity or 0.0):
        return 0.0
    low, high = BANDS[unit.tier] if pool.is_short else KNOWLEDGE
    score = low + (high - low) * unit.score
    if doubted and (unit.key in doubted or any(uri in doubted for uri in unit.texts)):
        score *= ranking.DOUBTED_SHARE
    if pool.lapsed and (unit.key in pool.lapsed or any(uri in pool.lapsed for uri in unit.texts)):
        score *= dates.LAPSED
    return round(score, SCORE_DIGITS)


def _placed(unit: Unit, score: float, question: Question, around: Surroundings) -> Ranked | None:
    """The hit of a unit: its best text, or its node. None for a document without a node."""
    uri = unit.best()
    if uri is None or ("document" in question.types and "chunk" not in question.types):
        uri = next((one for one in (unit.key, *unit.texts) if _is_node(one, around)), None)
    if uri is None:
        return None
    return Ranked(uri, score, unit.texts.get(uri) or Found(0.0, uri, 0, ranking.SOME), unit)


def _is_node(uri: Uri, around: Surroundings) -> bool:
    return any(source.card(uri) is not None for source in (around.stored, *around.others))


def _with_rest(
    workspace: Workspace, question: Question, pool: Pool, order: list[Ranked], sees: Sees | None, wanted: int
) -> list[Ranked]:
    """Append further nodes with the words, and bare files of the code tree."""
    if len([one for one in order if one.score > BARE]) >= wanted:
        return order
    filters: dict[str, Any] = {"types": question.types or None, "namespace": question.namespace,
                               "since": question.since, "until": question.until}  # fmt: skip
    stored = question.stored
    known = {uri for unit in pool.units.values() for uri in unit.texts}
    index, size = workspace.text(), len(order)
    if pool.is_full:
        lowest = order[-1].score if order else 1.0
        rest = index.search(
            question.query, tags=question.tags or None, stored=stored, limit=wanted + len(known), sees=sees, **filters
        )
        plain = {hit.uri: hit.score for hit in rest if hit.uri not in known}
        found = {one.uri: one for one in index.passing(list(plain), stored=stored, **filters)}
        return order + [
            Ranked(uri, round(lowest * score, SCORE_DIGITS), found.get(uri, Found(0.0, uri, 0, ranking.FILE)), None)
            for uri, score in plain.items()
        ]
    if question.tags or stored or question.since is not None or question.until is not None:
        return order
    ends = (BARE, BARE_SOME) if pool.is_short else (KNOWLEDGE[0], BARE_SOME)
    bare = index.bare_files(question.query, limit=wanted + size, sees=sees, **filters)
    for one in bare:
        good = max(0.0, -one.rank)
        end = ends[0] if one.tier == ranking.FILE else ends[1]
        order.append(Ranked(one.uri, round(end * (0.5 + good / (good + 4) / 2), SCORE_DIGITS), one, None))
    order.sort(key=lambda one: (-one.score, one.uri))
    return order


def _surroundings(
    workspace: Workspace,
    question: Question,
    sources: Sequence[EdgeSource],
    mentions: Once | None,
    sees: Sees | None,
) -> Surroundings:
    index = workspace.text()

    def find(uris: Sequence[Uri]) -> list[Found]:
        return index.passing([uri for uri in uris if sees is None or sees(uri)], **filters_of(question))

    def look(units: Iterable[Unit]) -> None:
        measure(workspace, question.query, units)

    def sources_of(uri: Uri) -> int:
        return workspace.graph.sources_of(uri) if sees is None else len({edge.target for edge in sources[0].into(uri)})

    return Surroundings(sources[0], mentions, sources_of, sources[1:], find, look, sees or anybody)


def _explained(workspace: Workspace, pool: Pool, page: Sequence[Ranked]) -> list[Answered]:
    found: dict[Uri, Hit] = {}
    known = [one.found for one in page if one.found.id]
    if known:
        found = {hit.uri: hit for hit in workspace.text().explain(pool.question.query, known)}
    answers = []
    for one in page:
        hit = found.get(one.uri) or Hit(one.uri, 0.0, "", ())
        unit = one.unit
        if unit is None:
            answers.append(Answered(one.uri, one.score, hit.snippet, hit.why, (one.uri,)))
            continue
        steps = unit.steps
        why = [*hit.why, _weighed(unit, pool)]
        why += [f"via {_shown(step)}" for step in steps[-1:]]
        why += [f"helped by {_shown(unit.helped)}"] if unit.helped and not steps else []
        lex, vec, path = round(unit.lex, 4), round(unit.vec, 4), _path(one.uri, steps)
        why += [pool.lapsed[one.uri]] if one.uri in pool.lapsed else []
        reasons = tuple(filter(None, why))
        answers.append(Answered(one.uri, one.score, hit.snippet, reasons, path, lex, vec, unit.similarity, steps))
    return answers


def _weighed(unit: Unit, pool: Pool) -> str:
    parts = [f"lex {unit.lex:.2f}"] if unit.lex else []
    if pool.share and unit.vec:
        parts.append(f"vec {unit.vec:.2f}")
    return ", ".join(parts)


def _shown(step: Step) -> str:
    return f"{step.type} -> {step.target}" if step.backwards else f"{step.type} <- {step.source}"


def _path(uri: Uri, steps: Sequence[Step]) -> tuple[Uri, ...]:
    """The nodes from the seed to the hit, each once."""
    path: list[Uri] = []
    for step in steps:
        path += [step.target, step.source] if step.backwards else [step.source, step.target]
    return tuple(dict.fromkeys([*path, uri]))


def links(
    hits: Sequence[Answered],
    sources: Sequence[EdgeSource],
    mentions: Once | None,
    question: Question,
    sees: Sees | None,
) -> list[Link]:
    """The relations by which hits were reached, then the cheapest of each hit."""
    found: dict[tuple[Uri, Uri, str], Link] = {}
    if mentions is not None:
        mentions.look_up([hit.uri for hit in hits])
    may = sees or anybody

    def note(source: Uri, target: Uri, type: str, weight: float, *, derived: bool) -> None:
        if may(source) and may(target):
            found.setdefault((source, target, type), Link(source, target, type, weight, derived))

    for hit in hits:
        for step in hit.steps:
            note(step.source, step.target, step.type, 1.0, derived=step.type == spreading.MENTIONS)
        for edge in [one for one in sources[0].out(hit.uri) if question.follows(one.type)][:EDGES_PER_HIT]:
            note(hit.uri, edge.target, edge.type, edge.weight, derived=False)
        for edge in [one for one in sources[0].into(hit.uri) if question.follows(one.type)][:EDGES_PER_HIT]:
            note(edge.target, hit.uri, edge.type, edge.weight, derived=False)
        if mentions is not None:
            for target, _ in spreading.strongest(mentions.mentioned(hit.uri))[:EDGES_PER_HIT]:
                note(hit.uri, target, spreading.MENTIONS, 1.0, derived=True)
            for source, _ in spreading.strongest(mentions.mentioning(hit.uri))[:EDGES_PER_HIT]:
                note(source, hit.uri, spreading.MENTIONS, 1.0, derived=True)
    return list(found.values())
