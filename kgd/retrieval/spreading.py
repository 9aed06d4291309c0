"""This file is where what surrounds a hit counts: its neighbours in a conversation, who speaks, what it leads to.

All of it is one hop: the best units hand on a part of their score along their edges, and what is reached keeps the
largest part that it was handed. More hops did not find more (docs/search.md), so what lies further away is context.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from kgd.graph.edges import Edge, EdgeSource
from kgd.index.ranking import BEGUN, SOME, Found
from kgd.model.uri import Uri, is_owned, scheme_of
from kgd.retrieval.pool import Pool, Unit, normalise
from kgd.retrieval.question import Once, Step

FOLLOWING = frozenset(["REPLIED_BY", "NEXT_CHUNK"])
"""Relations between what was said or stands one after the other."""
MENTIONS = "MENTIONS"
ORDERED = ("message://", "chunk://")
"""What stands one after the other."""
PERSON = 0.15
"""What is said by somebody whom the question names has so much more."""
BESIDE = 0.5
"""Of the score of a message, the part that it and its neighbours have together."""
HELPED = 0.4
"""Of the score that a unit has by itself: what is handed to it is worth a word from here on."""
AHEAD = 0.01
"""By how much the best unit stays ahead of what it handed its score to."""
MOST_EDGES = 60
"""Relations of one node that are gone along, the cheapest first."""
MOST_BROUGHT = 60
"""Nodes without words of the question that one hop may bring, those that were handed most."""
TEXTS = 5
"""Chunks of a document whose relations are gone along."""
MOST_CONTEXT = 100
"""Nodes that more than one hop may add."""


class Along(NamedTuple):
    """How much is handed on along relations of one kind, and by how many of the best units."""

    part: float
    best: int
    backwards: float
    """Of that part, what goes against the direction."""


BY_FOLLOWING = Along(0.3, 30, 1.0)
BY_MENTION = Along(0.4, 10, 0.5)
BY_RELATION = Along(0.3, 10, 0.5)


class Surroundings(NamedTuple):
    """What can be gone along: the stored graph, what texts mention, and what else has cards and order of chunks."""

    stored: EdgeSource
    mentions: Once | None
    sources_of: Callable[[Uri], int]
    """How many nodes have a stored relation to one."""
    others: Sequence[EdgeSource]
    find: Callable[[Sequence[Uri]], list[Found]]
    """Of these nodes those that may be hits."""
    measure: Callable[[Iterable[Unit]], None]
    sees: Callable[[Uri], bool]


def with_neighbours(pool: Pool, around: Surroundings) -> None:
    """Give each message half its score for what it and the messages before and after it say together."""
    if not pool.beside or not pool.question.follows("REPLIED_BY"):
        return
    fresh = [found for found in pool.beside if found.uri not in pool.units]
    added = [pool.take(found) for found in fresh]
    if pool.share:
        around.measure(added)
    for unit in added:
        _score_added(unit, pool)
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
    normalise(pool.units.values())


def with_people(pool: Pool, by_people: Callable[[Sequence[str], Sequence[int]], set[int]]) -> None:
    """Prefer what somebody says whom the question names."""
    ids = {found.id: unit for unit in pool.units.values() for found in unit.texts.values()}
    said = {ids[id].key for id in by_people(pool.words, list(ids))}
    for key in said:
        pool.units[key].score += PERSON
    if said:
        normalise(pool.units.values())


def hop(pool: Pool, around: Surroundings) -> None:
    """Let the best units hand on a part of their score. The best one keeps its place, and what was reached is in no
    higher tier than what leads there."""
    handed: dict[Uri, tuple[float, Unit, Step]] = {}
    order = best_of(pool, BY_FOLLOWING.best)
    giving = order
    if pool.is_short and (whole := [unit for unit in order if unit.tier >= BEGUN]):
        giving = whole  # what has a part of a name is not what was meant: what it leads to is none the more
    giving = [unit for unit in giving if pool.speaks_of(unit)]
    if around.mentions is not None:
        around.mentions.look_up([uri for unit in giving[: BY_MENTION.best] for uri in unit.texts_by_words(TEXTS)])
    for place, unit in enumerate(giving):
        for step, part in _leading(unit, around, pool, place):
            target = step.source if step.backwards else step.target
            key, gained = pool.key(target), unit.score * part
            if key != unit.key and gained > handed.get(key, (0.0,))[0]:
                handed[key] = (gained, unit, step)
    _bring(pool, around, handed)
    for key, (gained, unit, step) in handed.items():
        if reached := pool.units.get(key):
            if gained > reached.score:
                reached.steps, reached.from_unit = (step,), unit.key
            elif gained >= HELPED * reached.score:
                reached.helped = step
            reached.score += gained
            reached.tier = max(reached.tier, min(SOME, unit.tier))
    if order:
        others = max((unit.score for unit in pool.units.values() if unit is not order[0]), default=0.0)
        order[0].score = max(order[0].score, others + AHEAD)
    normalise(pool.units.values())


def further(pool: Pool, around: Surroundings, depth: int) -> None:
    """Add what lies up to `depth` relations away from the best units, the nearest first, at most `MOST_CONTEXT`."""
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
                reached.steps, reached.from_unit = (*unit.steps, step), unit.key
                heapq.heappush(frontier, (-gained, target, gone + 1, reached))
                added += 1


def best_of(pool: Pool, most: int) -> list[Unit]:
    """The best units, in order."""
    scores = ((-round(unit.score, 9), key) for key, unit in pool.units.items())
    return [pool.units[key] for _, key in heapq.nsmallest(most, scores)]


def _bring(pool: Pool, around: Surroundings, handed: dict[Uri, tuple[float, Unit, Step]]) -> None:
    """Make units of what was reached and has no words of its own, where it may be a hit at all."""
    fresh = (
        (-gained, step.source if step.backwards else step.target)
        for key, (gained, _, step) in handed.items()
        if key not in pool.units
    )
    brought = sorted(uri for _, uri in heapq.nsmallest(MOST_BROUGHT, fresh))
    added = [pool.take(found) for found in around.find(brought)] if brought else []
    if pool.share:
        around.measure(added)
    for unit in added:
        _score_added(unit, pool)


def _score_added(unit: Unit, pool: Pool) -> None:
    """By meaning alone: it has no words of the question, or too few to be among the best."""
    unit.vec = pool.nearness(unit)
    unit.score = pool.share * unit.vec


def _near_together(unit: Unit, pool: Pool, around: Surroundings) -> float:
    """How near a message and its neighbours are together: vectors of a few texts in one are about their mean."""
    edges = (*around.stored.out(unit.key), *around.stored.into(unit.key))
    beside = [pool.units.get(edge.target) for edge in edges if edge.type == "REPLIED_BY"][:4]
    return (unit.vec + sum(other.vec for other in beside if other)) / (1 + len(beside))


def _leading(unit: Unit, around: Surroundings, pool: Pool, place: int) -> Iterator[tuple[Step, float]]:
    """The relations of a unit that may bring another, and which part of its score goes along each."""
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
    """The mentions that say most; at most `MOST_EDGES`."""
    return list(islice(strengths.items(), MOST_EDGES))


def _both(source: EdgeSource, uri: Uri) -> Iterator[tuple[Edge, bool]]:
    for edge in source.out(uri)[:MOST_EDGES]:
        yield edge, False
    for edge in source.into(uri)[:MOST_EDGES]:
        yield edge, True


def _part(around: Surroundings, step: Step) -> float:
    """What goes along a stored relation: less where many lead to the same, since that tells little."""
    often = around.sources_of(step.target)
    part = BY_RELATION.part / (1 + 0.15 * math.log(max(1, often)))
    return part * (BY_RELATION.backwards if step.backwards else 1.0)


def _contains(one: Uri, other: Uri) -> bool:
    """Whether one is where the other lies: a thread of a message, a document of a chunk. That one is no news."""
    if scheme_of(one) == scheme_of(other) or not (is_owned(one) and is_owned(other)):
        return False
    a, b = (uri.split("/", 3)[3] for uri in (one, other))
    return a.startswith(f"{b}/") or b.startswith(f"{a}/") or a == b
