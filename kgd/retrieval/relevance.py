"""Relevance of notes to a question: similarities of texts, and weighted sums with fixed weights.

`add_nearest` measures similarities: of the nearest texts of each lane, and of the nearest sentences of the best notes.
`score` ranks notes. `is_answered` decides whether any note answers the question, and `evidence` which notes are hits.
`python -m bench.finding.fitting` checks the weights; `docs/ranking.md` describes how they were found.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from kgd.index.exact_names import Sees
from kgd.index.text import TextIndex
from kgd.index.words import sentences
from kgd.model.uri import Lane, Uri

if TYPE_CHECKING:
    from kgd.retrieval.candidates import Pool, Unit
    from kgd.vectors.embedder import Scale
    from kgd.workspace.derived.meaning import Meaning, Near
    from kgd.workspace.workspace import Workspace

COMPARED = 8
"""Number of best notes that are compared by sentence."""

MEANING, MEANING_MOST = 2.5, 0.8
"""Weight of meaning in a note's score, as a multiple of the embedder's share, and at most. Notes are short, and
questions often say the same in other words."""
BY_FREQUENCY = 0.2
"""Part of the word score that depends on BM25. The rest depends on coverage, so many common words do not outweigh a
rare one."""

COVERED = 4.0
"""Weight of coverage in the evidence, relative to similarity."""
WORDS, SHORTEST, UNKNOWN, ANSWERED = 1.5, 3, 6.0, 3.5
"""See `is_answered`, with words of weight 1. The more words a question has, the smaller the share of them that a note
has."""
WORDS_POWER, UNKNOWN_POWER = 0.5, 4
"""`WORDS` and `UNKNOWN` are multiplied by these powers of the weight of words: the better an embedder, the more often
it finds notes that say the same with other words."""
ANSWERED_ALONE = 0.6
"""Increase of `ANSWERED` at the weight of words 0."""
BY_CHANCE = 0.2
"""Reduction of the similarity of a note's nearest sentence, when it decides whether the note answers a question: one of
many sentences is often similar by chance."""
LEAST, OF_BEST = 1.2, 0.4
"""Minimum evidence of a hit, absolute and as a share of the best evidence."""

NEAREST, NEAREST_SHORT = 60, 20
"""Maximum number of texts to rank by meaning, for long and for short queries."""


def score(covered: float, frequency: float, nearness: float, share: float) -> float:
    """The score of a note, 0..1.

    Args:
        covered: The weighted share of the question's words that the note has; rare words weigh more.
        frequency: BM25, relative to the best note.
        nearness: Similarity: 0 for an irrelevant note, 1 for the most similar note.
        share: The embedder's weight, 0 without vectors.
    """
    weight = min(MEANING_MOST, MEANING * share)
    return (1 - weight) * covered * (1 - BY_FREQUENCY + BY_FREQUENCY * frequency) + weight * nearness


def preselection(covered: float, similarity: float) -> float:
    """The order in which notes are compared by sentence; the weights are close to the weights of `score`."""
    return 0.2 * covered + similarity


def evidence(covered: float, likeness: float, weight: float = 1.0) -> float:
    """How much a note says about a question; `likeness` is a multiple of the least relevant similarity.

    `weight` is the weight of words: the better an embedder, the less it matters which words are the same.
    """
    return weight * COVERED * covered + likeness


def is_answered(covered: float, alike: float, unknown: float, words: int, weight: float = 1.0) -> bool:
    """Whether any note answers a question.

    Words and meaning are two independent signs of a question's subject, so the best coverage and the best similarity
    may be of two notes.

    Args:
        covered: The best coverage of all notes.
        alike: The best similarity (`Unit.alike`) of all notes, as a multiple of the least relevant one.
        unknown: The share of the question's words that no text in the workspace has.
        words: The number of words in the question.
        weight: See `evidence`.
    """
    known = evidence(covered, alike, weight) + math.pow(weight, WORDS_POWER) * WORDS * math.log(SHORTEST + words)
    return known - math.pow(weight, UNKNOWN_POWER) * UNKNOWN * unknown >= ANSWERED + (1 - weight) * ANSWERED_ALONE


def anybody(uri: Uri) -> bool:
    return True


def add_nearest(workspace: Workspace, index: TextIndex, pool: Pool, filters: dict[str, Any], may: Sees) -> None:
    """Add units for the nearest texts of each lane, and measure all units."""
    meaning = workspace.meaning
    if not any(map(str.isalnum, pool.question.query)) or not meaning.share:
        return
    within: Collection[Uri] | None = None
    is_narrow = any(filters[name] for name in ("types", "tags", "namespace"))
    if is_narrow or may is not anybody:
        few = index.few_in(**filters)
        within = [uri for uri in few if may(uri)] if few is not None else None
    floors: dict[Lane, float] = {}
    for lane in pool.question.lanes:
        near = _nearest(meaning, pool, lane, within, is_narrow, may)
        if not near.hits:
            continue
        floors[lane] = near.floor
        known = {uri for unit in pool.units.values() for uri in unit.texts}
        least = pool.question.min_similarity or _least_similarity(pool.scale, lane)
        fresh = [uri for uri, cosine in near.hits if uri not in known and cosine >= least and may(uri)]
        for found in index.passing(fresh, **filters):
            pool.take(found)
    if not floors:  # the query has no vector, or the embedder is unavailable
        return
    measure(workspace, pool.question.query, pool.units.values())
    _compare_sentences(workspace, pool.question.query, pool.units.values())
    pool.share = meaning.share
    for lane in pool.question.lanes:
        cosines = [cosine for unit in pool.units.values() if unit.lane is lane for cosine in unit.near.values()]
        floor = min([floors.get(lane, 1.0), *cosines]) if may is anybody else min(cosines, default=0.0)
        if pool.scale is not None:  # a single text must not be treated as the farthest
            floor = pool.scale.least if lane is Lane.NOTES else min(floor, pool.scale.least)
        alike = (unit.likeness for unit in pool.units.values() if unit.lane is lane)
        pool.ranges[lane] = floor, max((one for one in alike if one is not None), default=0.0)


def _least_similarity(scale: Scale | None, lane: Lane) -> float:
    """The minimum similarity of a text without any word of the query. One sentence of a note may be nearer."""
    if scale is None:
        return -1.0
    return scale.zero if lane is Lane.NOTES else scale.least


def _nearest(
    meaning: Meaning, pool: Pool, lane: Lane, within: Collection[Uri] | None, is_narrow: bool, may: Sees
) -> Near:
    """The texts of a lane nearest to the query; more than needed if filters or permissions may remove most of them."""
    enough = NEAREST_SHORT if pool.is_short else NEAREST
    wanted = enough if within is not None or not is_narrow else 4 * enough
    near = meaning.nearest(pool.question.query, wanted, within, lane)
    while may is not anybody and len(near.hits) == wanted and sum(may(uri) for uri, _ in near.hits) < enough:
        wanted *= 8  # texts that the caller may not read take the place of others
        near = meaning.nearest(pool.question.query, wanted, within, lane)
    return near


def measure(workspace: Workspace, query: str, units: Iterable[Unit]) -> None:
    """Add the similarities between the query and the texts of these units."""
    units = list(units)
    asked = [uri for unit in units for uri in unit.texts if uri not in unit.near]
    cosines = workspace.meaning.similarity(query, asked) if asked else {}
    for unit in units:
        for uri in unit.texts:
            if uri in cosines:
                unit.near[uri] = cosines[uri]
                unit.similarity = max(cosines[uri], -1.0 if unit.similarity is None else unit.similarity)
                unit.likeness = unit.alike = unit.similarity


def _compare_sentences(workspace: Workspace, query: str, units: Iterable[Unit]) -> None:
    """Add the similarity of the nearest sentence to the best notes."""
    notes = (
        (-preselection(unit.covered, unit.near[unit.key]), unit.key, unit)
        for unit in units
        if unit.lane is Lane.NOTES and unit.key in unit.near
    )
    best = {unit.texts[key].id: unit for _, key, unit in heapq.nsmallest(COMPARED, notes)}
    said = workspace.text_so_far().said(best) if best else {}
    texts = [sentences(*one) for one in said.values()]
    for id, closest in zip(said, workspace.meaning.closest(query, texts), strict=False):
        whole = best[id].near[best[id].key]
        best[id].likeness, best[id].alike = (whole + closest) / 2, max(whole, closest - BY_CHANCE)
