"""Search: `retrieve` ranks nodes by words, meaning and the edges between them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from kgd.errors import Advice, Do, Unavailable
from kgd.graph.edges import EdgeSource, card_of
from kgd.graph.succession import Chains
from kgd.index import exact_names, ranking
from kgd.index.code_index import FileHit
from kgd.index.exact_names import Sees
from kgd.index.ranking import Found, Hit
from kgd.model.uri import KNOWLEDGE, Lane, Uri, from_path, scheme_of
from kgd.retrieval import candidates, spreading
from kgd.retrieval.candidates import COVERED_STRANGE, Pool, Ranked, Unit, filters_of, gather
from kgd.retrieval.query import Answered, Link, Mentions, Question, Retrieved, Step
from kgd.retrieval.relevance import anybody, measure
from kgd.retrieval.spreading import Subject, Surroundings

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SCORE_DIGITS = 6
STALE_SHARE = 0.6
"""Share of its score that a stale or superseded node keeps."""
EDGES_PER_HIT = 5
NOTED_BY, NOTED = 3, 30
"""The number of best notes whose files rank higher, and the number of files by text to consider."""
NEAREST_NAMED = 3
"""Number of nearest texts to return if nothing answers the query."""
LOOKED_THROUGH = 100_000
"""Maximum number of tagged nodes to check for a restricted caller."""

BANDS = {ranking.ALL: (0.7, 1.0), ranking.BEGUN: (0.5, 0.7), ranking.SOME: (0.2, 0.5), ranking.FILE: (0.05, 0.1)}
"""Score ranges for a short query: with all words, with the last one as a prefix, with some words, and by meaning
alone."""
KNOWLEDGE_RANGE = (0.1, 1.0)
"""Score range for a longer query."""
FEW_CALLED = 3
"""Largest number of files with the same name that a name inside a sentence puts first."""
FILES = 60
"""Maximum number of files to rank by full text or path."""


ALONE = "meaning alone"
"""The reason for a hit that has no words of the query, no requested name and no relation."""
ABOUT_PATH = "about this path"
"""The reason for a hit that is about the path that is the query."""
ABOUT_SYMBOL = "about the symbol "
"""Begins the reason for a hit that is about a symbol that the query names."""

QUOTES = "`\"'()? "
"""Characters around a path in a question."""
About = Callable[[Sequence[Uri]], Mapping[Uri, Sequence[Uri]]]
"""Returns the notes about files."""
Likely = Callable[[str], Mapping[Uri, float]]
"""Returns the files that past commits suggest for a query, with scores, 0..1."""


def retrieve(
    workspace: Workspace,
    question: Question,
    mentions: Mentions | None = None,
    *,
    sees: Sees | None = None,
    stale: Collection[Uri] = (),
    sources: Sequence[EdgeSource] | None = None,
    about: About | None = None,
    likely: Likely | None = None,
    first: Mapping[Uri, str] | None = None,
    subjects: Mapping[Uri, Subject] | None = None,
    offset: tuple[int, int] = (0, 0),
) -> Retrieved:
    """At most `limit` hits each in knowledge and in code, starting from `offset`, with their cheapest relations.

    The result is deterministic and does not depend on earlier pages.

    Args:
        mentions: Names of nodes in texts; without it, mentions are not followed.
        sees: Predicate for nodes that the caller may read; other nodes have no influence.
        stale: Nodes that rank lower.
        sources: Edge sources as the caller may see them; by default the workspace's own.
        about: Without it, notes do not lead to the files that they are about.
        likely: Without it, past commits have no influence.
        first: Notes about the path or the symbol that is the query, each with the reason. Those that pass its filters
            come before all other knowledge, except notes of that name.
        subjects: Notes about files and symbols that the query names among other words. They rank higher.

    Raises:
        Unavailable: `min_similarity` was given, but there are no vectors.
    """
    own = workspace.sources() if sources is None else sources
    named = mentions if question.follows(spreading.MENTIONS) else None
    around = _surroundings(workspace, question, own, named, sees)
    pool = _filled(workspace, question, around, sees, subjects or {})
    if likely is not None and pool.files and not pool.is_short and not question.types:
        pool.past = likely(question.query)
    notes: Mapping[Uri, Sequence[Uri]] = {}
    if about is not None and pool.files and question.max_depth:
        notes = about(list(pool.files)[:NOTED])
    wanted = (offset[0] + question.limit + 1, offset[1] + question.limit + 1)
    ahead = _ahead(workspace, pool, around, first or {}) if question.max_depth else []
    known = _knowledge(workspace, pool, around, stale, sees, max(wanted[0], NOTED_BY), ahead)
    best = {one.unit.key for one in known[:NOTED_BY] if one.unit is not None}
    pool.noted = frozenset(file for file, some in notes.items() if not best.isdisjoint(some))
    in_code = _code(workspace, pool, around, stale, sees, wanted[1]) if Lane.CODE in question.lanes else []
    pages = [
        [one for one in order[start:end] if one.score >= question.min_score]
        for order, start, end in zip((known, in_code), offset, wanted, strict=True)
    ]
    hits, found = (_explained(workspace, pool, page[: question.limit]) for page in pages)
    edges = links([*hits, *found], own, named, question, sees) if question.edges else ()
    nearest = () if known else tuple(uri for uri in _nearest(pool) if _is_node(uri, around))[:NEAREST_NAMED]
    more, more_code = (len(page) > question.limit for page in pages)
    return Retrieved(tuple(hits), tuple(edges), more, tuple(found), more_code, nearest)


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
    found = workspace.text_so_far().by_tags(
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
    edges = links(hits, own, None, question, sees) if question.edges else ()
    return Retrieved(tuple(hits), tuple(edges), len(page) > question.limit)


def _filled(
    workspace: Workspace, question: Question, around: Surroundings, sees: Sees | None, subjects: Mapping[Uri, Subject]
) -> Pool:
    """The units of a query with their scores."""
    pool = gather(workspace, question, sees)
    is_plain = not (question.tags or question.is_of_a_period)
    if sees is None and question.max_depth and is_plain:  # the text of a file may be hidden from other callers
        files, known = workspace.files_with(question.query, FILES)
        pool.files = {from_path("file", workspace.id, one.path): one for one in files}
        pool.known |= known
    pool.settle(workspace.text_so_far().size())
    if question.min_similarity > 0:
        _only_similar(pool)
    if question.max_depth > 0:
        spreading.with_neighbours(pool, around)
        spreading.with_people(pool, workspace.text_so_far().by_people)
        spreading.with_subjects(pool, around, subjects)
        spreading.hop(pool, around)
    candidates.with_dates(pool, workspace.text_so_far())
    if question.max_depth > 1:
        spreading.further(pool, around, question.max_depth)
    candidates.by_uses(pool, lambda uri: sum(len(source.into(uri)) for source in (around.stored, *around.others)))
    texts = (uri for unit in pool.units.values() for uri in (unit.key, *unit.texts))
    pool.lapsed = candidates.lapses(texts, workspace.text_so_far(), question.now)
    return pool


def _ahead(workspace: Workspace, pool: Pool, around: Surroundings, first: Mapping[Uri, str]) -> list[Ranked]:
    """These nodes as hits, superseded ones last, without sources, code and facts that do not hold now."""
    if not first or pool.question.min_similarity > 0:
        return []
    texts = {found.uri: found for found in around.find(list(first)) if found.lane is Lane.NOTES}
    lapsed = candidates.lapses(texts, workspace.text_so_far(), pool.question.now)
    holding = [uri for uri in first if uri in texts and uri not in lapsed]
    current = Chains(around.stored).current_first(holding)
    return [Ranked(uri, 1.0, texts[uri], None, first[uri]) for uri in current]


def _knowledge(
    workspace: Workspace,
    pool: Pool,
    around: Surroundings,
    stale: Collection[Uri],
    sees: Sees | None,
    wanted: int,
    ahead: Sequence[Ranked],
) -> list[Ranked]:
    """The first `wanted` hits in knowledge: notes whose name is the query, those `ahead`, then notes that match, then
    sources, then nodes reached only along edges."""
    before = {one.uri for one in ahead}
    units = [unit for unit in pool.units.values() if unit.lane in KNOWLEDGE and unit.key not in before]
    pool.ahead = before
    placed = (
        _placed(unit, score, pool.question, around) for unit, score in _in_order(workspace, pool, units, around, stale)
    )
    hits: Iterator[Ranked] = filter(None, placed)
    named = list[Ranked]()
    for hit in hits if ahead else ():
        if not _is_called(hit, pool):
            hits = chain([hit], hits)
            break
        named.append(hit)
    order = list(islice(chain(named, ahead, hits), wanted))
    return order + _beyond(workspace, pool, order, KNOWLEDGE, sees, wanted)


def _is_called(hit: Ranked, pool: Pool) -> bool:
    """Whether the query is the name of a note that holds now."""
    unit = hit.unit
    if unit is None or unit.lane is not Lane.NOTES:
        return False
    return unit.named >= candidates.WHOLE_NAME and not _is_among(unit, pool.lapsed)


def _beyond(
    workspace: Workspace, pool: Pool, order: Sequence[Ranked], lanes: Sequence[Lane], sees: Sees | None, wanted: int
) -> list[Ranked]:
    """More texts with words of the query, from lanes that have more such texts than were ranked."""
    full = sorted(pool.full.intersection(lanes))
    if len(order) >= wanted or not full or pool.is_strange or pool.question.min_similarity > 0:
        return []
    index, filters = workspace.text_so_far(), {**filters_of(pool.question), "lanes": full}
    known = {*(uri for unit in pool.units.values() for uri in unit.texts), *(one.uri for one in order)}
    found = index.search(pool.question.query, limit=wanted + len(known), sees=sees, files=False, **filters)
    rest = {hit.uri: hit.score for hit in found if hit.uri not in known}
    texts = {one.uri: one for one in index.passing(list(rest), **filters)}
    lowest = order[-1].score if order else 1.0
    return [Ranked(uri, round(lowest * rest[uri], SCORE_DIGITS), texts[uri], None) for uri in rest if uri in texts]


def _code(
    workspace: Workspace, pool: Pool, around: Surroundings, stale: Collection[Uri], sees: Sees | None, wanted: int
) -> list[Ranked]:
    """Up to `wanted` hits in the code tree: definitions of names in the query, then other hits."""
    units = [unit for unit in pool.units.values() if unit.lane is Lane.CODE]
    placed = (
        _placed(unit, score, pool.question, around) for unit, score in _in_order(workspace, pool, units, around, stale)
    )
    every = [one for one in placed if one]
    if pool.question.min_similarity > 0 or pool.question.tags:
        return every[:wanted]
    named = [one for one in every if one.unit is not None and candidates.is_asked(one.unit, pool)]
    called = _files_called(workspace, pool.question, sees)
    known = {one.uri for one in (*called, *named)}
    rest = [one for one in _by_file(workspace, pool, every, sees, wanted) if one.uri not in known]
    order = (called + named + rest)[:wanted]
    return order + _beyond(workspace, pool, order, [Lane.CODE], sees, wanted)


def _by_file(workspace: Workspace, pool: Pool, order: Sequence[Ranked], sees: Sees | None, wanted: int) -> list[Ranked]:
    """Hits in the code, ranked by all evidence for their files."""
    question, index = pool.question, workspace.text_so_far()
    texts: dict[Uri, FileHit] = {}
    if not question.types:
        texts = {
            uri: one
            for uri, one in pool.files.items()
            if question.covers(uri) and (not pool.is_strange or one.covered >= COVERED_STRANGE)
        }
    paths = index.bare_files(
        question.query,
        types=question.types or None,
        namespace=question.namespace,
        limit=max(FILES, wanted),
        sees=sees,
        since=question.since,
        until=question.until,
    )
    units = [
        (one.unit, one.uri, 1.0 + one.unit.named * candidates.NAME_BONUS if one.unit.named else one.unit.score)
        for one in order
        if one.unit is not None
    ]
    past = {uri: score for uri, score in pool.past.items() if question.covers(uri)}
    hits = candidates.listed(units, texts, paths, past, pool.noted, question.query, candidates.file_of)
    return [one._replace(score=round(min(1.0, one.score), SCORE_DIGITS)) for one in hits]


def _nearest(pool: Pool) -> list[Uri]:
    """The units of knowledge nearest to a query that no unit answers, best first."""
    units = [unit for unit in pool.units.values() if unit.lane in KNOWLEDGE and unit.score > 0]
    return [unit.key for unit in sorted(units, key=lambda one: (one.lane, -one.covered, -one.score, one.key))]


def _only_similar(pool: Pool) -> None:
    if not pool.share:
        raise Unavailable(
            "there are no vectors (yet) to compute similarity",
            at="min_similarity",
            next=Advice(Do("status"), " shows the embedder; omit min_similarity to search by words."),
        )
    least = pool.question.min_similarity
    pool.units = {key: unit for key, unit in pool.units.items() if (unit.similarity or 0.0) >= least}


def _in_order(
    workspace: Workspace, pool: Pool, units: Sequence[Unit], around: Surroundings, stale: Collection[Uri]
) -> Iterator[tuple[Unit, float]]:
    """Units with their final scores. Whether a node is superseded is looked up only when it reaches the top. A
    superseded node follows its successor, unless the query is its name or the successor does not hold now. The last of
    many successors takes its place, even if it was not among the units."""
    scored = ((_scored(unit, pool, stale), unit) for unit in units)
    known = {unit.key: (_place(unit, pool), -score) for score, unit in scored if score}
    heap = [(*at, False, key) for key, at in known.items()]
    heapq.heapify(heap)
    chains = Chains(around.stored)
    while heap:
        place, minus, is_lower, key = heapq.heappop(heap)
        if is_lower or (last := chains.newest(key)) is None:
            yield pool.units[key], -minus
            continue
        if _bring_newest(workspace, pool, around, last, key):
            known[last] = (place[0], 0.0, place[2]), minus
            heapq.heappush(heap, (*known[last], False, last))
        before = known.get(last)
        lower = round(minus * STALE_SHARE, SCORE_DIGITS)
        if before is not None and before[0][:2] == place[:2]:
            place, lower = max(place, before[0]), max(lower, before[1])
        heapq.heappush(heap, (place, lower, True, key))


def _bring_newest(workspace: Workspace, pool: Pool, around: Surroundings, last: Uri, superseded: Uri) -> bool:
    """Add the last successor of a node to the units, if it may be a hit, holds now, and was neither gathered nor
    reached."""
    key = pool.key(last)
    if key != last or key in pool.units or last in pool.ahead:
        return False
    found = next(iter(around.find([last])), None)
    if found is None or found.lane is not pool.units[superseded].lane:
        return False
    if candidates.lapses([last], workspace.text_so_far(), pool.question.now):
        return False
    pool.take(found).because = f"supersedes {superseded}"
    return True


def _place(unit: Unit, pool: Pool) -> tuple[bool, float, bool]:
    """The sort key: units with the requested name first, then notes that match by themselves, then all others; lapsed
    facts come last."""
    named = round(unit.named, 3) if unit.named and candidates.is_asked(unit, pool) else 0.0
    return _is_among(unit, pool.lapsed), -named, not (unit.lane is Lane.NOTES and pool.speaks_of(unit))


def _is_among(unit: Unit, uris: Collection[Uri]) -> bool:
    """Whether the unit's node or one of its texts is among these nodes."""
    return bool(uris) and (unit.key in uris or any(uri in uris for uri in unit.texts))


def _scored(unit: Unit, pool: Pool, stale: Collection[Uri]) -> float:
    """The score of a unit; 0 if it is not related to the query."""
    if unit.named:
        return candidates.LAPSED if _is_among(unit, pool.lapsed) else 1.0
    if not pool.speaks_of(unit) and not unit.steps:
        return 0.0
    if unit.score <= 0 or pool.question.min_similarity > max(0.0, unit.similarity or 0.0):
        return 0.0
    low, high = BANDS[unit.tier] if pool.is_short else KNOWLEDGE_RANGE
    score = low + (high - low) * unit.score
    if _is_among(unit, stale):
        score *= STALE_SHARE
    if _is_among(unit, pool.lapsed):
        score *= candidates.LAPSED
    return round(score, SCORE_DIGITS)


def _placed(unit: Unit, score: float, question: Question, around: Surroundings) -> Ranked | None:
    """The hit of a unit: its best text, or its node. None for a document without a node."""
    uri = unit.called or unit.best()
    if uri is None or ("document" in question.types and "chunk" not in question.types):
        uri = next((one for one in (unit.key, *unit.texts) if _is_node(one, around)), None)
    if uri is None:
        return None
    return Ranked(uri, score, unit.texts.get(uri) or Found(0.0, uri, 0, ranking.SOME), unit)


def _is_node(uri: Uri, around: Surroundings) -> bool:
    return card_of((around.stored, *around.others), uri) is not None


def _files_called(workspace: Workspace, question: Question, sees: Sees | None) -> list[Ranked]:
    """The bare files and directories that the query names, then those named inside a sentence, if at most `FEW_CALLED`
    have the name."""
    if question.is_of_a_period:
        return []
    index, query, sees = workspace.text_so_far(), question.query, sees or anybody
    found = dict.fromkeys(index.files_called(query.strip().strip(QUOTES), sees))
    for name in exact_names.asked_in(query):
        called = index.files_called(name, sees)
        found |= dict.fromkeys(called if len(called) <= FEW_CALLED else ())
    return [
        Ranked(uri, 1.0, Found(0.0, uri, 0, ranking.FILE), None, "name or path")
        for uri in found
        if question.covers(uri) and (not question.types or scheme_of(uri) in question.types)
    ]


def _surroundings(
    workspace: Workspace,
    question: Question,
    sources: Sequence[EdgeSource],
    mentions: Mentions | None,
    sees: Sees | None,
) -> Surroundings:
    index = workspace.text_so_far()

    def find(uris: Sequence[Uri]) -> list[Found]:
        return index.passing([uri for uri in uris if sees is None or sees(uri)], **filters_of(question))

    def look(units: Iterable[Unit]) -> None:
        measure(workspace, question.query, units)

    @cache
    def sources_of(uri: Uri) -> int:
        return workspace.graph.sources_of(uri) if sees is None else len({edge.target for edge in sources[0].into(uri)})

    return Surroundings(sources[0], mentions, sources_of, sources[1:], find, look, sees or anybody)


def _explained(workspace: Workspace, pool: Pool, page: Sequence[Ranked]) -> list[Answered]:
    found: dict[Uri, Hit] = {}
    known = [one.found for one in page if one.found.id]
    if known:
        found = {hit.uri: hit for hit in workspace.text_so_far().explain(pool.question.query, known)}
    answers = []
    for one in page:
        hit = found.get(one.uri) or Hit(one.uri, 0.0, "", ())
        unit = one.unit
        past = ("past commits",) if candidates.file_of(one.uri) in pool.past else ()
        if unit is None:
            reasons = tuple(filter(None, (one.reason, *hit.why, *past))) or ("text",)
            whole = Answered(one.uri, one.score, hit.snippet, reasons, (one.uri,))
            if one.quote:
                whole = whole._replace(snippet=one.quote.text, line=one.quote.line, lex=1.0)
            answers.append(whole)
            continue
        steps = unit.steps
        is_alone = not (hit.why or past or steps or unit.helped or unit.named or unit.because)
        why = [*filter(None, [unit.because]), *hit.why, *([ALONE] if is_alone else []), *past]
        why += [f"via {_shown(step)}" for step in steps[-1:]]
        why += [f"helped by {_shown(unit.helped)}"] if unit.helped and not steps else []
        lex, vec, path = round(unit.lex, 4), round(unit.vec, 4), _path(one.uri, steps)
        why += [pool.lapsed[one.uri]] if one.uri in pool.lapsed else []
        reasons = tuple(filter(None, why))
        answers.append(Answered(one.uri, one.score, hit.snippet, reasons, path, lex, vec, unit.similarity, steps))
    return answers


def _shown(step: Step) -> str:
    return f"{step.type} -> {step.target}" if step.backwards else f"{step.type} <- {step.source}"


def _path(uri: Uri, steps: Sequence[Step]) -> tuple[Uri, ...]:
    """The nodes from the starting node to the hit, each once."""
    path: list[Uri] = []
    for step in steps:
        path += [step.target, step.source] if step.backwards else [step.source, step.target]
    return tuple(dict.fromkeys([*path, uri]))


def links(
    hits: Sequence[Answered],
    sources: Sequence[EdgeSource],
    mentions: Mentions | None,
    question: Question,
    sees: Sees | None,
) -> list[Link]:
    """The relations by which hits were reached, then the cheapest relations of each hit."""
    found: dict[tuple[Uri, Uri, str], Link] = {}
    if mentions is not None:
        uris = [hit.uri for hit in hits]
        mentions.look_up(uris, uris)
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
