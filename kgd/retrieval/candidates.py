"""Candidates for a query, by words and by meaning. A document is one candidate.

A document and its chunks are one `Unit`. The hit is its best chunk, and the document's score includes that chunk's.
Every other node is a unit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgd.index import ranking
from kgd.index.code_index import FileHit
from kgd.index.ranking import Found
from kgd.index.text import TextIndex
from kgd.index.text_context import whole_of
from kgd.index.words import WEAK, WEAK_SHARE, parts_of, terms
from kgd.model.lane import Lane
from kgd.model.uri import Uri
from kgd.retrieval import names
from kgd.retrieval.query import Question, Step

if TYPE_CHECKING:
    from kgd.workspace.derived.meaning import Meaning, Near
    from kgd.workspace.workspace import Workspace

GATHERED, GATHERED_SHORT = 200, 60
"""Largest number of texts to rank by words of the query; for long and short queries."""
NEAREST, NEAREST_SHORT = 60, 20
"""Largest number of texts to rank by meaning; for long and short queries."""

ADDRESS = 0.5
"""Weight of the words of a web address: they are few and rare, and would otherwise rank first."""

LIKE = 0.5
"""Least position, in the range from the lowest to the highest similarity, of a text without words of a short query."""
COVERED, COVERED_STRANGE = 0.28, 0.5
"""Least share of a query's weight in a text that answers it (see `Search.covered`); the second is for a strange
query."""
COVERED_BY_SOURCES = 0.2
"""Least share of a strange query's weight in a source."""
ALIKE, PERHAPS_ALIKE = 2.0, 1.35
"""Similarity at which a text answers a query without having its words, as a multiple of the least relevant one: for any
text, and for one of the nearest texts if the query is not strange."""
FULLY = 0.5
"""Share of the query's weight above which the words of a note count in full."""
NEARLY = 0.8
"""Least share of the highest similarity for such a text."""
LEAST_COVERED = 0.15
RICH, MANY_NOTES = 200, 20
"""Number of texts from which a word that none has is strange, and of notes from which a note needs `COVERED`."""
STRANGE = 0.4
"""Share of the words that no text in the workspace has, from which a query is strange: it is about something else."""
_PARTS = ("chunk://", "file://")
"""Schemes of nodes that may be represented by a document."""

Sees = Callable[[Uri], bool]


@dataclass(slots=True)
class Unit:
    """A potential hit. Scores are 0..1 within one answer."""

    key: Uri
    texts: dict[Uri, Found] = field(default_factory=dict)
    """Its texts that matched by words or by meaning."""
    words: dict[Uri, float] = field(default_factory=dict)
    part: float = 0.0
    """Maximum of `words`."""
    near: dict[Uri, float] = field(default_factory=dict)
    """Cosines."""
    similarity: float | None = None
    """Maximum of `near`."""
    lex: float = 0.0
    vec: float = 0.0
    score: float = 0.0
    tier: int = ranking.FILE
    """Tier of its best text; `FILE` if it has none of the words."""
    through: float = 0.0
    """How well the code that the node is about answers the query, 0..1."""
    lane: Lane = Lane.CODE
    covered: float = 0.0
    """Greatest share of the query's words in one of its texts."""
    named: float = 0.0
    """How well its name matches the requested name; 0 if it does not."""
    called: Uri | None = None
    """The node with that name."""
    steps: tuple[Step, ...] = ()
    """The relations by which it was reached from another unit."""
    helped: Step | None = None
    """The relation that raised its score, if the unit also matched by itself."""

    def texts_by_words(self, most: int) -> list[Uri]:
        """The node itself and its best texts, at most `most`, in order of URI."""
        best = sorted(self.words, key=lambda uri: (-self.words[uri], uri))[:most]
        return sorted({*(best or sorted(self.texts)[:most]), self.key})

    def best(self) -> Uri | None:
        """The best text; ties by URI. None for a document that matched only as a whole."""
        own = self.texts.get(self.key)
        if own is not None and own.tier >= ranking.ALL:  # its own name has all the words
            return self.key
        order = sorted(
            self.texts, key=lambda uri: (uri == self.key, -self.words.get(uri, 0), -self.near.get(uri, -1), uri)
        )
        return order[0] if order else None


@dataclass(slots=True)
class Pool:
    """All units of one query, and the range of similarities."""

    question: Question
    words: Sequence[str]
    """The words of the query, folded."""
    written: Sequence[str]
    """The words as written, without grams."""
    is_short: bool
    """The query has few words and may be a name."""
    least: float
    """The least similarity of a relevant text."""
    share: float = 0.0
    """Share of the similarity in a score; 0 without vectors."""
    units: dict[Uri, Unit] = field(default_factory=dict)
    full: set[Lane] = field(default_factory=set)
    """Lanes in which further texts have words of the query."""
    ranges: dict[Lane, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest similarity found in each lane."""
    covered: dict[int, float] = field(default_factory=dict)
    """The share of the query's words in each text, by number."""
    known: set[str] = field(default_factory=set)
    """Words of the query that occur in any text, folded."""
    least_covered: float = 0.0
    """Share of the query's weight that a note needs."""
    is_strange: bool = False
    """Whether the query is about something that the workspace does not have; see `settle`."""
    files: Mapping[Uri, FileHit] = field(default_factory=dict)
    """Files of the code tree by their whole text, best first."""
    noted: Collection[Uri] = ()
    """Files that the best notes are about."""
    past: Mapping[Uri, float] = field(default_factory=dict)
    """Files that past commits suggest, with scores, 0..1."""
    called: dict[Uri, Uri] = field(default_factory=dict)
    """Nodes whose name is in the query, with their units."""
    lapsed: dict[Uri, str] = field(default_factory=dict)
    """Nodes that do not hold now, with the reason."""
    beside: list[Found] = field(default_factory=list)
    """Messages that have words of the query together with their neighbours."""

    def key(self, uri: Uri) -> Uri:
        """The unit of a node: a chunk belongs to its document, unless chunks are requested by type."""
        if not uri.startswith(_PARTS) or "chunk" in self.question.types:
            return uri
        if uri.startswith("file://"):
            document = Uri(f"document{uri[4:]}")
            return document if document in self.units else uri
        path = whole_of(uri)
        return Uri(f"document://{uri.split('/', 3)[2]}/{path}") if path else uri

    def nearness(self, unit: Unit) -> float:
        """Nearness of a unit: 0 for the farthest text that was compared, 1 for the nearest."""
        similarity, (floor, top) = unit.similarity, self.ranges.get(unit.lane, (0.0, 0.0))
        if similarity is None or top <= floor:
            return 0.0
        return min(1.0, max(0.0, (similarity - floor) / (top - floor)))

    def speaks_of(self, unit: Unit) -> bool:
        """Whether a unit is a hit by itself: it has the name, enough of the words, or a similar meaning.

        Sources and code need less than notes, unless the query is strange.
        """
        if unit.named or self.question.min_similarity > 0:
            return True
        if unit.covered and unit.covered >= (COVERED_STRANGE if self.is_strange else self.least_covered):
            return True
        if unit.through and not self.is_strange and (unit.similarity or 0.0) >= self.least:
            return True
        is_enough = unit.lane is Lane.SOURCES and unit.covered >= COVERED_BY_SOURCES
        if is_enough or (unit.lane is not Lane.NOTES and not self.is_strange):
            is_near = unit.lane not in self.full and unit.vec >= LIKE
            return not self.is_short or unit.tier > ranking.FILE or is_near
        if self.is_short and (unit.lane in self.full or unit.vec < LIKE):
            return False
        similarity, (_, top) = unit.similarity or 0.0, self.ranges.get(unit.lane, (0.0, 0.0))
        if not self.least or similarity >= ALIKE * self.least:
            return similarity > 0
        return similarity >= max(PERHAPS_ALIKE * self.least, NEARLY * top) and not self.is_strange

    def settle(self, texts: int) -> None:
        """Decide whether the query is strange, after all lanes were searched.

        Names count twice. Among few `texts` a missing word means nothing.
        """
        weights = {
            word.casefold(): 2.0
            if place and any(map(str.isupper, word))
            else WEAK_SHARE
            if word.casefold() in WEAK
            else 1.0
            for place, word in enumerate(self.written)
        }
        lacking = sum(weight for word, weight in weights.items() if word not in self.known)
        self.is_strange = len(weights) > 2 and texts >= RICH and lacking >= STRANGE * sum(weights.values())

    def by_lane(self) -> Iterator[list[Unit]]:
        """The units of each searched lane, if it has any."""
        for lane in self.question.lanes:
            if units := [unit for unit in self.units.values() if unit.lane is lane]:
                yield units

    def take(self, found: Found, *, words: float = 0.0) -> Unit:
        key = self.key(found.uri)
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = Unit(key, lane=found.lane)
        unit.lane = min(unit.lane, found.lane)
        unit.texts.setdefault(found.uri, found)
        unit.covered = max(unit.covered, self.covered.get(found.id, 0.0))
        if words:
            unit.words[found.uri] = words
            if words > unit.part:
                unit.part = words
            if found.tier > unit.tier:
                unit.tier = found.tier
        return unit


def gather(workspace: Workspace, question: Question, sees: Sees | None) -> Pool:
    """The units of each lane with words of the query or a similar meaning, restricted to nodes that `sees` accepts.

    Scores are relative to the best of the lane.
    """
    index = workspace.text()
    filters = filters_of(question)
    asked = terms(question.query)
    few = len(asked) < ranking.LONG
    limit = (GATHERED_SHORT if few else GATHERED) * (1 if sees is None else 2)
    written = [term.word for term in asked if not term.is_gram]
    pool = Pool(question, [term.word.casefold() for term in asked], written, few, workspace.meaning.least)
    may = sees or anybody
    wholes: dict[str, float] = {}
    for lane in question.lanes:
        gathered = index.gather(
            question.query, lane, limit=limit, surrounded=question.max_depth > 0, sees=sees, **filters
        )
        pool.covered |= gathered.covered
        pool.known |= gathered.known
        if len(gathered.texts) >= limit:
            pool.full.add(lane)
        if sees is None:
            pool.beside += gathered.beside
            wholes |= gathered.wholes
        texts = [found for found in gathered.texts if may(found.uri)]
        for found in sorted(texts, key=lambda one: one.uri.startswith("file://")):  # documents first: see `Pool.key`
            pool.take(found, words=max(0.0, -found.rank) * (ADDRESS if _is_address(workspace, found.uri) else 1))
    if sees is None:
        pool.known.update(index.people(pool.words))
    pool.least_covered = max(LEAST_COVERED, COVERED * min(1.0, index.notes() / MANY_NOTES))
    names.add(pool, index, filters, may)
    if not (few and _is_answered(pool)):
        _add_near(workspace, index, pool, filters, may)
    _score_words(pool, wholes, workspace.id)
    _score_meaning(pool)
    return pool


def _is_address(workspace: Workspace, uri: Uri) -> bool:
    """Whether the node is a linked web page without name and summary."""
    if not uri.startswith(("https://", "http://")):
        return False
    card = workspace.graph.card(uri)
    return card is not None and not card.name and not card.summary


def _is_answered(pool: Pool) -> bool:
    """Whether the query is an identifier that was found; similarity in meaning is useless for such a word."""
    if pool.question.min_similarity > 0:
        return False
    asked = pool.question.query.strip()
    is_plain = asked.isalpha() and not parts_of(asked)
    is_identifier = asked.isascii() and not is_plain and not any(map(str.isspace, asked))
    return is_identifier and any(unit.tier >= ranking.BEGUN for unit in pool.units.values())


def filters_of(question: Question) -> dict[str, Any]:
    types = [*question.types, *(["chunk"] if "document" in question.types else [])]
    tags, namespace = question.tags or None, question.namespace
    return {
        "types": types or None,
        "tags": tags,
        "namespace": namespace,
        "lanes": question.lanes,
        "since": question.since,
        "until": question.until,
    }


def _add_near(workspace: Workspace, index: TextIndex, pool: Pool, filters: dict[str, Any], may: Sees) -> None:
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
        least = pool.question.min_similarity or meaning.least
        fresh = [uri for uri, cosine in near.hits if uri not in known and cosine >= least and may(uri)]
        for found in index.passing(fresh, **filters):
            pool.take(found)
    if not floors:  # the query has no vector, or the embedder is unavailable
        return
    measure(workspace, pool.question.query, pool.units.values())
    pool.share = meaning.share
    for lane in pool.question.lanes:
        cosines = [cosine for unit in pool.units.values() if unit.lane is lane for cosine in unit.near.values()]
        floor = min([floors.get(lane, 1.0), *cosines]) if may is anybody else min(cosines, default=0.0)
        if meaning.least > 0:  # a single text must not count as the farthest
            floor = min(floor, meaning.least)
        pool.ranges[lane] = floor, max(cosines, default=0.0)


def _nearest(
    meaning: Meaning, pool: Pool, lane: Lane, within: Collection[Uri] | None, is_narrow: bool, may: Sees
) -> Near:
    """The texts of a lane nearest to the query; more if filters or permissions may remove most of them."""
    enough = NEAREST_SHORT if pool.is_short else NEAREST
    wanted = enough if within is not None or not is_narrow else 4 * enough
    near = meaning.nearest(pool.question.query, wanted, within, lane)
    while may is not anybody and len(near.hits) == wanted and sum(may(uri) for uri, _ in near.hits) < enough:
        wanted *= 8  # unreadable texts displace readable ones
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


def _score_words(pool: Pool, wholes: dict[str, float], workspace: str) -> None:
    """Half of a document's score is its best chunk, half the whole document, each relative to the best of its kind."""
    for path, score in wholes.items():
        unit = pool.units.get(Uri(f"document://{workspace}/{path}"))
        if unit is not None and score > 0:
            unit.lex = score
    for units in pool.by_lane():
        best = max((unit.part for unit in units), default=0.0)
        if not best:
            continue
        documents = [unit for unit in units if unit.lex]
        best_whole = max((unit.lex for unit in documents), default=1.0)
        best_part = max((unit.part for unit in documents), default=0.0)
        for unit in units:
            part = unit.part / best
            unit.lex = (part + unit.lex / best_whole * best_part / best) / 2 if unit.lex else part


def _score_meaning(pool: Pool) -> None:
    for unit in pool.units.values():
        unit.vec = pool.nearness(unit)
        lex = unit.lex * min(1.0, unit.covered / FULLY) if unit.lane is Lane.NOTES and pool.covered else unit.lex
        unit.score = (1 - pool.share) * lex + pool.share * unit.vec
    normalise(pool)


def normalise(pool: Pool) -> None:
    """Scale the scores of each lane so that its best is 1."""
    for units in pool.by_lane():
        best = max((unit.score for unit in units), default=0.0)
        for unit in units:
            unit.score = unit.score / best if best else 0.0


def anybody(uri: Uri) -> bool:
    return True
