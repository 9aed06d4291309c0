"""Spreading of scores along edges: neighbours in a conversation, speakers, and relations.

Scores spread by one hop: the best units pass a part of their scores along their edges, and each node keeps the largest
part that it receives. More hops did not improve results (docs/ranking.md), so nodes further away are only context.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from kgd.graph.edges import Edge, EdgeSource
from kgd.index.ranking import BEGUN, SOME, Found
from kgd.model.uri import Lane, Uri, is_owned, lane_of, scheme_of
from kgd.retrieval.candidates import Pool, Unit, normalise
from kgd.retrieval.query import Mentions, Step

FOLLOWING = frozenset(["REPLIED_BY", "NEXT_CHUNK"])
"""Relations between consecutive messages or chunks."""
MENTIONS = "MENTIONS"
_OF_CODE = ("symbol://", "file://", "dir://")
ORDERED = ("message://", "chunk://")
"""Schemes of nodes that are in sequence."""
PERSON = 0.15
"""Bonus for texts of a speaker named in the query."""
SUBJECT = 0.5
"""Bonus for notes about a symbol or file named in the query."""
SUBJECT_IN_FILE = 2.0
"""Bonus for notes about a symbol of a file if the query names both: it exceeds that of a note that is only about the
file and has all words of the query."""
BESIDE = 0.5
"""Share of a message's score that comes from the message and its neighbours together."""
HELPED = 0.35
"""A score that was passed on is reported if it is at least this share of the unit's own score."""
AHEAD = 0.01
"""The lead that the best unit keeps over the units to which it passed its score."""
MOST_EDGES = 60
"""Maximum number of a node's relations to follow, the cheapest first."""
MOST_BROUGHT = 60
"""Maximum number of nodes without words of the query that one hop adds, those with the highest passed scores."""
TEXTS = 5
"""Maximum number of a document's chunks whose relations are followed."""
MOST_CONTEXT = 100
"""Maximum number of nodes added by more hops."""


class Along(NamedTuple):
    """The part of a score that is passed along one kind of relation, and the number of best units that pass it on."""

    part: float
    best: int
    backwards: float
    """Factor for passing a score against the relation's direction."""


BY_FOLLOWING = Along(0.3, 30, 1.0)
BY_MENTION = Along(0.4, 10, 0.5)
BY_RELATION = Along(0.3, 10, 0.5)


class Subject(NamedTuple):
    """Why a note is about a file or symbol named in the query, and the bonus for it."""

    why: str
    bonus: float = SUBJECT


class Surroundings(NamedTuple):
    """The sources of edges: the stored graph, mentions, and others with cards and the order of chunks."""

    stored: EdgeSource
    mentions: Mentions | None
    sources_of: Callable[[Uri], int]
    """Returns the number of nodes with a stored relation to a node."""
    others: Sequence[EdgeSource]
    find: Callable[[Sequence[Uri]], list[Found]]
    """Filters these nodes to possible hits."""
    measure: Callable[[Iterable[Unit]], None]
    sees: Callable[[Uri], bool]


def with_neighbours(pool: Pool, around: Surroundings) -> None:
    """Make half of each message's score depend on the text of the message and its neighbours together."""
    if not pool.beside or not pool.question.follows("REPLIED_BY"):
        return
    _add(pool, around, [found for found in pool.beside if found.uri not in pool.units])
    best = -min(found.rank for found in pool.beside)
    together = {found.uri: max(0.0, -found.rank) / best if best > 0 else 0.0 for found in pool.beside}
    messages = [unit for unit in pool.units.values() if scheme_of(unit.key) == "message"]
    near = {unit.key: _near_together(unit, pool, around) for unit in messages} if pool.share else {}
    nearest = max(near.values(), default=0.0)
    scores = {
        unit.key: (1 - pool.share) * together.get(unit.key, 0.0)
        + (pool.share * near[unit.key] / nearest if nearest > 0 else 0.0)
        for unit in messages
    }
    highest = max(scores.values(), default=0.0)
    for unit in messages:
        unit.score = (1 - BESIDE) * unit.score + BESIDE * (scores[unit.key] / highest if highest else 0.0)
    normalise(pool)


def with_people(pool: Pool, by_people: Callable[[Sequence[str], Sequence[int]], set[int]]) -> None:
    """Raise the scores of texts by speakers named in the query."""
    ids = {found.id: unit for unit in pool.units.values() for found in unit.texts.values()}
    said = {ids[id].key for id in by_people(pool.words, list(ids))}
    for key in said:
        pool.units[key].score += PERSON
    if said:
        normalise(pool)


def with_subjects(pool: Pool, around: Surroundings, subjects: Mapping[Uri, Subject]) -> None:
    """Raise the scores of notes about files and symbols named in the query."""
    fresh = [uri for uri in subjects if uri not in pool.units]
    _add(pool, around, (found for found in (around.find(fresh) if fresh else ()) if found.lane is Lane.NOTES))
    for uri, subject in subjects.items():
        if unit := pool.units.get(uri):
            unit.score, unit.because = unit.score + subject.bonus, subject.why
    if subjects:
        normalise(pool)


def hop(pool: Pool, around: Surroundings) -> None:
    """Pass scores from the best units along their edges. The best unit keeps its place, and no unit gets a higher tier
    than the unit that leads to it."""
    handed: dict[Uri, tuple[float, Unit, Step]] = {}
    best = {lane: best_of(pool, BY_FOLLOWING.best, lane) for lane in pool.question.lanes}
    for order in best.values():
        giving = order
        if pool.is_short and (whole := [unit for unit in order if unit.tier >= BEGUN]):
            giving = whole  # a unit that matches only part of a name is probably not meant, so it passes nothing on
        giving = [unit for unit in giving if pool.speaks_of(unit)]
        if around.mentions is not None:
            texts = [uri for unit in giving[: BY_MENTION.best] for uri in unit.texts_by_words(TEXTS)]
            around.mentions.look_up(texts, texts)
        for place, unit in enumerate(giving):
            for step, part in _leading(unit, around, pool, place):
                target = step.source if step.backwards else step.target
                key, gained = pool.key(target), unit.score * part
                if key != unit.key and gained > handed.get(key, (0.0,))[0] and _may_pass(unit, target, pool):
                    handed[key] = (gained, unit, step)
    _bring(pool, around, handed)
    for key, (gained, unit, step) in handed.items():
        if reached := pool.units.get(key):
            if gained > reached.score:
                reached.steps = (step,)
            elif gained >= HELPED * reached.score:
                reached.helped = step
            reached.score += gained
            reached.tier = max(reached.tier, min(SOME, unit.tier))
    for lane, order in best.items():
        if order:
            rest = (unit.score for unit in pool.units.values() if unit is not order[0] and unit.lane is lane)
            order[0].score = max(order[0].score, max(rest, default=0.0) + AHEAD)
    normalise(pool)


def _may_pass(unit: Unit, target: Uri, pool: Pool) -> bool:
    """Whether a unit passes its score on. Code never leads to knowledge, because its neighbours would fill the list."""
    reached = pool.units.get(pool.key(target))
    lane = reached.lane if reached else lane_of(target, "code" if target.startswith(_OF_CODE) else "")
    return unit.lane is not Lane.CODE or lane is Lane.CODE


def further(pool: Pool, around: Surroundings, depth: int) -> None:
    """Add nodes up to `depth` relations away from the best units, nearest first, at most `MOST_CONTEXT`."""
    best = [unit for unit in best_of(pool, BY_RELATION.best) if unit.steps or pool.speaks_of(unit)]
    frontier = [(-unit.score, unit.key, len(unit.steps), unit) for unit in best]
    heapq.heapify(frontier)
    added = 0
    while frontier and added < MOST_CONTEXT:
        minus, _, gone, unit = heapq.heappop(frontier)
        if gone >= depth:
            continue
        handed: dict[Uri, tuple[float, Unit, Step]] = {}
        for step, part in _leading(unit, around, pool, 0):
            target = pool.key(step.source if step.backwards else step.target)
            gained = -minus * part
            if target not in pool.units and gained > handed.get(target, (0.0,))[0]:
                handed[target] = (gained, unit, step)
        _bring(pool, around, handed)
        for target, (gained, _, step) in sorted(handed.items(), key=lambda item: (-item[1][0], item[0])):
            if (reached := pool.units.get(target)) and not reached.steps:
                reached.score, reached.tier = gained, min(SOME, unit.tier)
                reached.steps = (*unit.steps, step)
                heapq.heappush(frontier, (-gained, target, gone + 1, reached))
                added += 1


def best_of(pool: Pool, most: int, lane: Lane | None = None) -> list[Unit]:
    """The best units, in order; only units of `lane` if given."""
    units = pool.units if lane is None else {key: unit for key, unit in pool.units.items() if unit.lane is lane}
    scores = sorted((-round(unit.score, 9), key) for key, unit in units.items())  # faster than a heap of most of them
    return [units[key] for _, key in scores[:most]]


def _bring(pool: Pool, around: Surroundings, handed: dict[Uri, tuple[float, Unit, Step]]) -> None:
    """Add units for nodes that were reached but have no words of the query, if they may be hits."""
    fresh = (
        (-gained, step.source if step.backwards else step.target)
        for key, (gained, _, step) in handed.items()
        if key not in pool.units
    )
    brought = sorted(uri for _, uri in heapq.nsmallest(MOST_BROUGHT, fresh))
    _add(pool, around, around.find(brought) if brought else [])


def _add(pool: Pool, around: Surroundings, texts: Iterable[Found]) -> None:
    """Add units for texts with no or too few words of the query, and score them by meaning alone."""
    added = [pool.take(found) for found in texts]
    if pool.share:
        around.measure(added)
    for unit in added:
        unit.vec = pool.nearness(unit)
        unit.score = pool.share * unit.vec


def _near_together(unit: Unit, pool: Pool, around: Surroundings) -> float:
    """Similarity of a message together with its neighbours: the vector of joined texts is approximately the mean of
    their vectors."""
    edges = (*around.stored.out(unit.key), *around.stored.into(unit.key))
    beside = [pool.units.get(edge.target) for edge in edges if edge.type == "REPLIED_BY"][:4]
    return (unit.vec + sum(other.vec for other in beside if other)) / (1 + len(beside))


def _leading(unit: Unit, around: Surroundings, pool: Pool, place: int) -> Iterator[tuple[Step, float]]:
    """The relations to follow from a unit, each with the part of the unit's score that it passes on."""
    for step, part in _all_leading(unit, around, pool, place):
        if pool.question.follows(step.type) and around.sees(step.source) and around.sees(step.target):
            yield step, part


def _all_leading(unit: Unit, around: Surroundings, pool: Pool, place: int) -> Iterator[tuple[Step, float]]:
    for uri in unit.texts_by_words(TEXTS):
        in_order = uri.startswith(ORDERED)
        if place >= BY_RELATION.best and not in_order:
            continue
        for source in (around.stored, *(around.others if in_order else ())):
            for edge, backwards in _both(source, uri):
                step = Step(edge.target, edge.type, uri, True) if backwards else Step(uri, edge.type, edge.target)
                if edge.type in FOLLOWING:
                    yield step, BY_FOLLOWING.part
                elif source is around.stored and place < BY_RELATION.best and not _contains(uri, edge.target):
                    yield step, _part(around, step) * (1 - edge.weight / 2)
        if around.mentions is not None and place < BY_MENTION.best and pool.question.follows(MENTIONS):
            for target, strength in strongest(around.mentions.mentioned(uri)):
                yield Step(uri, MENTIONS, target), BY_MENTION.part * strength
            for other, strength in strongest(around.mentions.mentioning(uri)):
                yield Step(other, MENTIONS, uri, True), BY_MENTION.part * BY_MENTION.backwards * strength


def strongest(strengths: Mapping[Uri, float]) -> list[tuple[Uri, float]]:
    """The strongest mentions, at most `MOST_EDGES`."""
    return list(islice(strengths.items(), MOST_EDGES))


def _both(source: EdgeSource, uri: Uri) -> Iterator[tuple[Edge, bool]]:
    for edge in source.out(uri)[:MOST_EDGES]:
        yield edge, False
    for edge in source.into(uri)[:MOST_EDGES]:
        yield edge, True


def _part(around: Surroundings, step: Step) -> float:
    """The part of a score passed along a stored relation; less for a target of many relations, which is unspecific."""
    often = around.sources_of(step.target)
    part = BY_RELATION.part / (1 + 0.15 * math.log(max(1, often)))
    return part * (BY_RELATION.backwards if step.backwards else 1.0)


def _contains(one: Uri, other: Uri) -> bool:
    """Whether the first node contains the second, as a thread its messages or a document its chunks, so that the second
    adds nothing."""
    if scheme_of(one) == scheme_of(other) or not (is_owned(one) and is_owned(other)):
        return False
    a, b = (uri.split("/", 3)[3] for uri in (one, other))
    return a.startswith(f"{b}/") or b.startswith(f"{a}/") or a == b
