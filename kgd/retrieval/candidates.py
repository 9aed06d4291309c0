"""Candidates for a query, by words and by meaning; a document once.

A document and its chunks are one `Unit`. The hit is its best chunk, and the document's score includes that chunk's.
Every other node is a unit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgd.index import ranking
from kgd.index.ranking import Found
from kgd.index.text import TextIndex
from kgd.index.text_context import whole_of
from kgd.index.words import parts_of, terms
from kgd.model.uri import Uri
from kgd.retrieval.query import Question, Step

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

GATHERED, GATHERED_SHORT = 200, 60
"""Texts with words of the query that are ranked; for long and short queries."""
NEAREST, NEAREST_SHORT = 60, 20
"""Texts near the query in meaning that are ranked; for long and short queries."""

ADDRESS = 0.5
"""Weight of the words of a web address: few and rare, they would otherwise rank first."""

LIKE = 0.5
"""Share of the range from the least to the nearest similarity that a text without words of a short query needs."""
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
    steps: tuple[Step, ...] = ()
    """The relations by which it was reached from another unit."""
    helped: Step | None = None
    """The relation that raised its score, if it also matched by itself."""

    def texts_by_words(self, most: int) -> list[Uri]:
        """The node itself and its best texts, at most `most`, in order of URI."""
        best = sorted(self.words, key=lambda uri: (-self.words[uri], uri))[:most]
        return sorted({*(best or sorted(self.texts)[:most]), self.key})

    def best(self) -> Uri | None:
        """The best text; ties by URI. None for a document that matched only as a whole."""
        whole = [uri for uri, found in self.texts.items() if found.tier >= ranking.ALL and uri == self.key]
        if whole:  # its own name has all the words
            return self.key
        order = sorted(
            self.texts, key=lambda uri: (uri == self.key, -self.words.get(uri, 0), -self.near.get(uri, -1), uri)
        )
        return order[0] if order else None


@dataclass(slots=True)
class Pool:
    """All units of one query, and the range of similarities."""

    question: Question
    words: list[str]
    share: float
    units: dict[Uri, Unit] = field(default_factory=dict)
    is_short: bool = False
    """The query has few words and may be a name."""
    is_full: bool = False
    """Further texts have words of the query."""
    floor: float = 0.0
    top: float = 0.0
    """The lowest and the highest similarity found."""
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
        similarity = unit.similarity
        if similarity is None or self.top <= self.floor:
            return 0.0
        return min(1.0, max(0.0, (similarity - self.floor) / (self.top - self.floor)))

    def speaks_of(self, unit: Unit) -> bool:
        """Whether a unit is a hit by itself: a text without words of a short query has to be near."""
        return not self.is_short or unit.tier > ranking.FILE or (not self.is_full and unit.vec >= LIKE)

    def take(self, found: Found, *, words: float = 0.0) -> Unit:
        key = self.key(found.uri)
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = Unit(key)
        unit.texts[found.uri] = found
        if words:
            unit.words[found.uri] = words
            if words > unit.part:
                unit.part = words
            if found.tier > unit.tier:
                unit.tier = found.tier
        return unit


def gather(workspace: Workspace, question: Question, sees: Sees | None) -> Pool:
    """The units that have words of the query or are near it; restricted to nodes that `sees` accepts."""
    index = workspace.text()
    filters = filters_of(question)
    few = len(terms(question.query)) < ranking.LONG
    limit = (GATHERED_SHORT if few else GATHERED) * (1 if sees is None else 2)
    gathered = index.gather(question.query, limit=limit, surrounded=question.max_depth > 0, sees=sees, **filters)
    pool = Pool(question, gathered.words, 0.0, is_short=few, is_full=len(gathered.texts) >= limit)
    pool.beside = gathered.beside if sees is None else []
    may = sees or anybody
    texts = [found for found in gathered.texts if may(found.uri)]
    for found in sorted(texts, key=lambda one: one.uri.startswith("file://")):  # documents first: see `Pool.key`
        pool.take(found, words=max(0.0, -found.rank) * (ADDRESS if _is_address(workspace, found.uri) else 1))
    if not (few and _is_answered(pool)):
        _add_near(workspace, index, pool, filters, may)
    _score_words(pool, gathered.wholes if sees is None else {}, workspace.id)
    _score_meaning(pool)
    return pool


def _is_address(workspace: Workspace, uri: Uri) -> bool:
    """Whether the node is a linked web page without name and summary."""
    if not uri.startswith(("https://", "http://")):
        return False
    card = workspace.graph.card(uri)
    return card is not None and not card.name and not card.summary


def _is_answered(pool: Pool) -> bool:
    """Whether the query is an identifier that was found; nearness in meaning is useless for such a word."""
    if pool.question.min_similarity > 0:
        return False
    asked = pool.question.query.strip()
    is_plain = asked.isalpha() and not parts_of(asked)
    is_identifier = asked.isascii() and not is_plain and not any(map(str.isspace, asked))
    return is_identifier and any(unit.tier >= ranking.BEGUN for unit in pool.units.values())


def filters_of(question: Question) -> dict[str, Any]:
    types = [*question.types, *(["chunk"] if "document" in question.types else [])]
    tags, namespace = question.tags or None, question.namespace
    return {"types": types or None, "tags": tags, "namespace": namespace, "stored": question.stored,
            "since": question.since, "until": question.until}  # fmt: skip


def _add_near(workspace: Workspace, index: TextIndex, pool: Pool, filters: dict[str, Any], may: Sees) -> None:
    meaning = workspace.meaning
    if not pool.question.query.strip() or not meaning.share:
        return
    within: Collection[Uri] | None = None
    if any(filters.values()) or may is not anybody:
        few = index.few_in(**filters)
        within = [uri for uri in few if may(uri)] if few is not None else None
    enough = NEAREST_SHORT if pool.is_short else NEAREST
    wanted = enough if within is not None or not any(filters.values()) else 4 * enough
    near = meaning.nearest(pool.question.query, wanted, within)
    while may is not anybody and len(near.hits) == wanted and sum(may(uri) for uri, _ in near.hits) < enough:
        wanted *= 8  # unreadable texts take places of readable ones
        near = meaning.nearest(pool.question.query, wanted, within)
    if not near.hits:  # the query has no vector, or the embedder is unavailable
        return
    known = {uri for unit in pool.units.values() for uri in unit.texts}
    least = pool.question.min_similarity or meaning.least
    fresh = [uri for uri, cosine in near.hits if uri not in known and cosine >= least and may(uri)]
    for found in index.passing(fresh, **filters):
        pool.take(found)
    measure(workspace, pool.question.query, pool.units.values())
    pool.share = meaning.share
    cosines = [cosine for unit in pool.units.values() for cosine in unit.near.values()]
    pool.floor = min([near.floor, *cosines]) if may is anybody else min(cosines, default=0.0)
    if meaning.least > 0:  # a single text must not count as the farthest
        pool.floor = min(pool.floor, meaning.least)


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
    best = max((unit.part for unit in pool.units.values()), default=0.0)
    if not best:
        return
    for path, score in wholes.items():
        unit = pool.units.get(Uri(f"document://{workspace}/{path}"))
        if unit is not None and score > 0:
            unit.lex = score
    documents = [unit for unit in pool.units.values() if unit.lex]
    best_whole = max((unit.lex for unit in documents), default=1.0)
    best_part = max((unit.part for unit in documents), default=0.0)
    for unit in pool.units.values():
        part = unit.part / best
        unit.lex = (part + unit.lex / best_whole * best_part / best) / 2 if unit.lex else part


def _score_meaning(pool: Pool) -> None:
    pool.top = max((unit.similarity for unit in pool.units.values() if unit.similarity is not None), default=0.0)
    for unit in pool.units.values():
        unit.vec = pool.nearness(unit)
        unit.score = (1 - pool.share) * unit.lex + pool.share * unit.vec
    normalise(pool.units.values())


def normalise(units: Iterable[Unit]) -> None:
    """Scale the scores so that the best is 1."""
    units = list(units)
    best = max((unit.score for unit in units), default=0.0)
    for unit in units:
        unit.score = unit.score / best if best else 0.0


def anybody(uri: Uri) -> bool:
    return True
