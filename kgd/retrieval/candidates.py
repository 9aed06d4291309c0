"""Candidates for a query, by words and by meaning. A document is one candidate.

A document and its chunks are one `Unit`. The hit is the document's best chunk, whose score is part of the document's
score. Every other node is a separate unit. Texts from a day, month or year in the question rank higher, and facts that
do not currently hold rank last.

A file's score combines its full text, its best symbol or chunk, its path and past commits. A file is represented by its
best part, or by itself if no part matches well enough; more parts of the same file follow with lower scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kgd.errors import KgdError
from kgd.index import exact_names, ranking
from kgd.index.code_index import FileHit, Quote
from kgd.index.doc_texts import whole_of
from kgd.index.exact_names import Sees
from kgd.index.ranking import Found
from kgd.index.text import TextIndex
from kgd.index.words import NAME_SHARE, WEAK, WEAK_SHARE, parts_of, terms, words_of
from kgd.model.dates import DAY, Named, Span, named_in
from kgd.model.uri import Lane, Uri, build, is_owned, name_of, scheme_of, segments_of, workspace_of
from kgd.retrieval import relevance
from kgd.retrieval.query import Question, Step
from kgd.retrieval.relevance import anybody

if TYPE_CHECKING:
    from kgd.vectors.embedder import Scale
    from kgd.workspace.workspace import Workspace

TEXT_WEIGHT, COVERED_WEIGHT, PART_WEIGHT, PATH_WEIGHT = 0.25, 0.36, 0.32, 0.22
"""Weights of a file's whole text by BM25, of its share of the query's weight, of its best part, and of its path."""
PAST_WEIGHT = 2.0
"""Weight of past commits with similar messages."""
NOTED_BONUS = 0.07
"""Added to the score of a file that one of the best notes is about."""
QUOTED_BONUS = 2.0
"""Added to the score of a file that quotes the query; more than any other file can have. Tests, examples and vendored
code get half of it."""
LEAST = 0.04
"""Minimum score for a file to be listed by itself."""
FITS = 0.5
"""Minimum score for a part to represent its file."""
NEXT_PART = 0.5
"""Factor for each additional part of the same file."""
MOST_PARTS = 3
ASIDE_FACTOR = 0.6
"""Factor for tests, examples and vendored code, unless the query asks for them."""
QUOTED = "quoted text"
"""The reason for a hit with a run of the query's words."""

_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testing|specs?|__tests__|examples?|docs?|vendor|node_modules|fixtures|locale)(?:/|_)"
    r"|(?:^|/)test_|[._]test\.|\.spec\.|\.min\."
)

MOST_NAMED = 60
"""Maximum number of nodes with one name to rank by their uses."""
NAME_BONUS = 0.4
"""Bonus of a symbol whose name is in the query, multiplied by `Unit.named`."""
WHOLE_NAME, PART_NAME = 2.0, 1.0
"""The value of `Unit.named` if the whole query is the name, and if the name is one of its words. Uses and spelling add
less than 1."""


class Ranked(NamedTuple):
    """A hit without explanation; `unit` is None for bare files, for the symbol around a `quote` of the query, and for
    hits from a plain text search."""

    uri: Uri
    score: float
    found: Found
    unit: Unit | None
    reason: str = ""
    """The reason for a hit without a unit, if its text is not the reason."""
    quote: Quote | None = None
    """The place of the query's words in the code of this hit."""


def listed(
    units: Iterable[tuple[Unit, Uri, float]],
    texts: Mapping[Uri, FileHit],
    paths: Sequence[Found],
    past: Mapping[Uri, float],
    noted: Collection[Uri],
    query: str,
    file_of: Callable[[Uri], Uri],
) -> list[Ranked]:
    """The hits in the code, best first; ties by URI.

    Args:
        units: Symbols and chunks, with the node that represents each, and their scores, 0..1.
        texts: Files found by their full text, with scores on any scale. Those that quote the query come first, as the
            symbol with the quoted line.
        paths: Files and directories found by the words of their paths.
        past: Files changed by past commits with similar messages, with scores, 0..1.
        noted: Files that the best notes are about.
        file_of: Returns the file of a symbol or chunk.
    """
    best_text = max((one.score for one in texts.values()), default=0.0) or 1.0
    text = {uri: TEXT_WEIGHT * one.score / best_text + COVERED_WEIGHT * one.covered for uri, one in texts.items()}
    best_path = max((-one.rank for one in paths), default=0.0) or 1.0
    path = {one.uri: max(0.0, -one.rank) / best_path * (1.0 if one.tier == ranking.FILE else 0.5) for one in paths}
    parts: dict[Uri, list[tuple[float, Uri, Unit]]] = {}
    for unit, uri, score in units:
        parts.setdefault(file_of(uri), []).append((score, uri, unit))
    found = {one.uri: one for one in paths}
    is_aside_asked = asks_for_aside(query)
    hits = []
    for file in {*text, *path, *parts, *past}:
        own = sorted(parts.get(file, ()), key=lambda one: (-one[0], one[1]))
        best = own[0][0] if own else 0.0
        score = text.get(file, 0.0) + PART_WEIGHT * best + PATH_WEIGHT * path.get(file, 0.0)
        score += NOTED_BONUS if file in noted else 0.0
        bonus = QUOTED_BONUS if file in texts and texts[file].quoted else 0.0
        if is_aside(file) and not is_aside_asked:
            score *= ASIDE_FACTOR
            bonus /= 2
        if past:
            score = (score + PAST_WEIGHT * past.get(file, 0.0)) / (1 + PAST_WEIGHT)
        quote = texts[file].quote if file in texts else None
        if quote:
            uri = symbol_of(file, quote.symbol) if quote.symbol else file
            hits.append(Ranked(uri, score + bonus, Found(0.0, uri, 0, ranking.FILE), None, QUOTED, quote))
            own, bonus = [one for one in own if one[1] != uri], 0.0
        shown = own if best >= FITS else []
        if not shown and not quote and score >= LEAST and scheme_of(file) in ("file", "dir"):
            hits.append(Ranked(file, score + bonus, found.get(file) or Found(0.0, file, 0, ranking.FILE), None))
        for number, (_, uri, unit) in enumerate(shown[:MOST_PARTS]):
            part = score * NEXT_PART**number if number else score + bonus
            hits.append(Ranked(uri, part, unit.texts.get(uri) or Found(0.0, uri, 0, 1), unit))
    return sorted(hits, key=lambda one: (-one.score, one.uri))


def file_of(uri: Uri) -> Uri:
    """The file of a symbol or chunk in the code tree; returns any other node unchanged."""
    if is_owned(uri) and scheme_of(uri) in ("symbol", "chunk"):
        return Uri(f"file{uri[uri.index(':') :].rpartition('/')[0]}")
    return uri


def symbol_of(file: Uri, name: str) -> Uri:
    """The symbol of this name in a file of the code tree; the file if no URI can hold the name."""
    try:
        return build("symbol", workspace_of(file) or "", [*segments_of(file), name.encode()])
    except (KgdError, UnicodeEncodeError):
        return file


def is_aside(uri: Uri) -> bool:
    """Whether a file, or a part of one, is a test, an example or vendored code."""
    return _ASIDE.search(uri.split("/", 3)[-1]) is not None


def asks_for_aside(query: str) -> bool:
    """Whether a word of a query refers to such files."""
    return _ASIDE.search(f"{query.replace(' ', '/')}/") is not None


def add_named(pool: Pool, index: TextIndex, filters: dict[str, Any], may: Sees) -> None:
    """Add units for the nodes whose name is in the query."""
    asked = exact_names.asked_in(pool.question.query)
    whole = exact_names.fold(pool.question.query.strip().removesuffix("()"))
    for name in asked:
        how = WHOLE_NAME if exact_names.fold(name.removesuffix("()")) == whole else PART_NAME
        for found, is_exact in sorted(index.called(name, may, **filters), key=_by_spelling)[:MOST_NAMED]:
            unit = pool.take(found._replace(tier=ranking.ALL if how == WHOLE_NAME else ranking.SOME))
            unit.named = max(unit.named, how + (0.3 if is_exact else 0.0))
            unit.called = unit.called or found.uri
            pool.called[found.uri] = unit.key


def _by_spelling(called: tuple[Found, bool]) -> tuple[bool, bool, bool, Uri]:
    """The sort key: nodes spelled as in the query first; tests, and additional definitions in one file, last."""
    found, is_exact = called
    return not is_exact, is_aside(found.uri), "~" in found.uri, found.uri


def is_asked(unit: Unit, pool: Pool) -> bool:
    """Whether a unit's name is the subject of the query, and not one of many words of a sentence."""
    return unit.named > (0.0 if pool.is_short else WHOLE_NAME - 1)


def by_uses(pool: Pool, uses: Callable[[Uri], int]) -> None:
    """Order the named units by spelling, nesting and uses; tests and examples come last."""
    for uri, key in pool.called.items():
        unit = pool.units.get(key)
        if unit is None:
            continue
        often = uses(uri)
        unit.named += 0.5 * often / (often + 5) - 0.1 * min(4, uri.rpartition("/")[2].count("."))
        if unit.lane is Lane.CODE and is_aside(uri):
            unit.named -= 0.5


GATHERED, GATHERED_SHORT = 200, 60
"""Maximum number of texts to rank by words of the query, for long and for short queries."""

ADDRESS = 0.5
"""Factor for the words of a web address, which are few and rare, and would otherwise make it rank first."""

LIKE = 0.5
"""For a text without words of a short query: the minimum position in the range from the lowest to the highest
similarity."""
COVERED, COVERED_STRANGE = 0.28, 0.5
"""Minimum share of a query's weight that a text must have to answer it (see `Search.covered`); the second is for
strange queries."""
COVERED_BY_SOURCES = 0.2
"""Minimum share of a strange query's weight that a source must have."""
ALIKE = 2.0
"""Relevance at which a source or code answers a strange query."""
ALIKE_UNKNOWN = 3.0
"""As `ALIKE`, if no text has any word of the query. Symbols reach up to 3 for a made-up word."""
LEAST_COVERED = 0.15
RICH, MANY_NOTES = 200, 20
"""With at least `RICH` texts, a word that no text has is strange; with at least `MANY_NOTES` notes, a note needs
`COVERED`."""
STRANGE = 0.4
"""A query is strange if at least this share of its words is in no text of the workspace: it is about something else."""
_PARTS = ("chunk://", "file://")
"""Schemes of nodes that may be represented by a document."""

DATE_BONUS = 0.4
"""Added to the score of a text from the period in question."""
AFTER = 0.5
"""Share of the bonus for texts from the following days, which often describe that period."""
DAYS_AFTER = 7
LAPSED = 0.01
"""Factor for the score of a fact that does not hold now: it ranks below every other hit."""


@dataclass(slots=True)
class Unit:
    """A potential hit. Scores are 0..1 within one answer."""

    key: Uri
    texts: dict[Uri, Found] = field(default_factory=dict)
    """The unit's texts that matched by words or by meaning."""
    words: dict[Uri, float] = field(default_factory=dict)
    part: float = 0.0
    """Maximum of `words`."""
    near: dict[Uri, float] = field(default_factory=dict)
    """Cosines."""
    similarity: float | None = None
    """Maximum of `near`."""
    likeness: float | None = None
    """`similarity`; for the best notes, the mean of it and of the similarity of the nearest sentence."""
    alike: float | None = None
    """`similarity`; for the best notes, at least the similarity of the nearest sentence, reduced by `BY_CHANCE`."""
    lex: float = 0.0
    vec: float = 0.0
    score: float = 0.0
    tier: int = ranking.FILE
    """Tier of its best text; `FILE` if it has none of the words."""
    lane: Lane = Lane.CODE
    covered: float = 0.0
    """Greatest share of the query's weight in one of its texts."""
    is_weak: bool = False
    """Whether its texts have only weak words of a query that has others."""
    evidence: float | None = None
    """How much a note says about the query, once it is asked; see `Pool.evidence`."""
    named: float = 0.0
    """How well the node's name matches the requested name; 0 if it does not match."""
    called: Uri | None = None
    """The node with that name."""
    because: str = ""
    """The reason for a hit whose text need not match the query: it is about a symbol that the query names, or it is the
    last of a chain of successors."""
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
    """Whether the query has few words and may be a name."""
    scale: Scale | None = None
    """The relevance of similarities; None if unknown."""
    share: float = 0.0
    """The share that similarity has in a score; 0 without vectors."""
    units: dict[Uri, Unit] = field(default_factory=dict)
    full: set[Lane] = field(default_factory=set)
    """Lanes in which more texts have words of the query than were gathered."""
    ranges: dict[Lane, tuple[float, float]] = field(default_factory=dict)
    """The lowest and the highest similarity found in each lane."""
    covered: dict[int, float] = field(default_factory=dict)
    """The share of the query's words in each text, by number."""
    weak: set[int] = field(default_factory=set)
    """Numbers of the texts that have only weak words of a query with others."""
    known: set[str] = field(default_factory=set)
    """Words of the query that occur in any text, folded."""
    least_covered: float = 0.0
    """Share of the query's weight that a note needs if there are no vectors."""
    unknown: float = 0.0
    """Share of the query's words that no text has; less if there are few texts."""
    word_weight: float = 1.0
    """Weight of common and missing words beside relevance; nearer to 1 if there are few texts."""
    needed: float = 1e-9
    """Evidence that a note needs to be a hit: any, if it is not known how similar a relevant text is."""
    is_strange: bool = False
    """Whether the query is about something that the workspace does not have; see `settle`."""
    files: Mapping[Uri, FileHit] = field(default_factory=dict)
    """Files of the code tree found by their full text, best first."""
    noted: Collection[Uri] = ()
    """Files that the best notes are about."""
    past: Mapping[Uri, float] = field(default_factory=dict)
    """Files that past commits suggest, with scores, 0..1."""
    called: dict[Uri, Uri] = field(default_factory=dict)
    """Nodes whose name is in the query, with their units."""
    lapsed: dict[Uri, str] = field(default_factory=dict)
    """Nodes that do not hold now, with the reason."""
    ahead: Collection[Uri] = ()
    """Nodes that come before all units."""
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
        """The relative similarity of a unit: 0 for the farthest text that was compared, 1 for the nearest."""
        similarity, (floor, top) = unit.likeness, self.ranges.get(unit.lane, (0.0, 0.0))
        if similarity is None or top <= floor:
            return 0.0
        return min(1.0, max(0.0, (similarity - floor) / (top - floor)))

    def speaks_of(self, unit: Unit) -> bool:
        """Whether a unit is a hit by itself: it has the name, enough of the words, or a similar meaning, or is about a
        symbol of that name.

        Sources and code need less evidence than notes, unless the query is strange. But weak words alone are none.
        """
        if unit.named or unit.because or self.question.min_similarity > 0:
            return True
        if unit.lane is Lane.NOTES:
            return unit.tier >= ranking.BEGUN or self.evidence(unit) >= self.needed
        if self.is_far(unit):
            return False
        is_near = unit.lane not in self.full and unit.vec >= LIKE
        if unit.is_weak and not (self.is_short and self.has_name_of(unit)):
            return is_near and not self.is_strange
        if unit.covered and unit.covered >= (COVERED_STRANGE if self.is_strange else self.least_covered):
            return True
        if not self.is_strange or (unit.lane is Lane.SOURCES and unit.covered >= COVERED_BY_SOURCES):
            return not self.is_short or unit.tier > ranking.FILE or is_near
        alike = self.relevance(unit.similarity)
        return alike > 0 and (self.scale is None or alike >= ALIKE) and (not self.is_short or is_near)

    def is_far(self, unit: Unit) -> bool:
        """Whether no text has any word of the query, and the unit is not similar enough to answer without words."""
        if self.known or unit.tier > ranking.FILE or unit.covered or self.scale is None:
            return False
        return self.relevance(unit.likeness) < ALIKE_UNKNOWN

    def has_name_of(self, unit: Unit) -> bool:
        """Whether the query has each word of the unit's name, and others that are not weak: ``class App``."""
        asked = {word.casefold() for word in words_of(self.question.query)}
        for uri in (unit.key, *unit.texts):
            name = [word.casefold() for word in words_of(name_of(uri).partition(".")[0])]
            if name and asked.issuperset(name) and not WEAK.issuperset(asked):
                return True
        return False

    def relevance(self, similarity: float | None) -> float:
        """The relevance of a text with this similarity; the similarity itself if its relevance is unknown."""
        if similarity is None:
            return 0.0
        return max(0.0, similarity) if self.scale is None else self.scale.relevance(similarity)

    def evidence(self, note: Unit) -> float:
        """How much a note says about the query; see `relevance`."""
        if note.evidence is None:
            note.evidence = relevance.evidence(note.covered, self.relevance(note.likeness), self.word_weight)
        return note.evidence

    def settle(self, texts: int) -> None:
        """Decide whether the query is strange and what answers it, after all lanes were searched.

        Names count twice. If there are few `texts`, a missing word means little, and common words mean more.
        """
        rich = min(1.0, texts / RICH)
        self.word_weight = 1.0 - rich * (1.0 - self.scale.words) if self.scale is not None else 1.0
        weights = {
            word.casefold(): NAME_SHARE
            if parts_of(word) or (place and any(map(str.isupper, word)))
            else WEAK_SHARE
            if word.casefold() in WEAK
            else 1.0
            for place, word in enumerate(self.written)
        }
        unknown = sum(weight for word, weight in weights.items() if word not in self.known)
        if weights:
            self.unknown = rich * unknown / sum(weights.values())
        self.is_strange = len(weights) > 2 and texts >= RICH and self.unknown >= STRANGE
        if not self.share:
            self.needed = relevance.evidence(COVERED_STRANGE if self.is_strange else self.least_covered, 0.0)
        elif self.scale is not None:
            notes = [unit for unit in self.units.values() if unit.lane is Lane.NOTES]
            covered = max((unit.covered for unit in notes), default=0.0)
            alike = max((self.relevance(unit.alike) for unit in notes), default=0.0)
            self.needed = math.inf
            if relevance.is_answered(covered, alike, self.unknown, len(self.words), self.word_weight):
                best = max(map(self.evidence, notes), default=0.0)
                self.needed = max(relevance.LEAST, relevance.OF_BEST * best)

    def by_lane(self) -> Iterator[list[Unit]]:
        """The units of each searched lane that has any."""
        for lane in self.question.lanes:
            if units := [unit for unit in self.units.values() if unit.lane is lane]:
                yield units

    def take(self, found: Found, *, words: float = 0.0) -> Unit:
        key = self.key(found.uri)
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = Unit(key, lane=found.lane)
        elif found.lane < unit.lane:
            unit.lane = found.lane
        unit.texts.setdefault(found.uri, found)
        if (covered := self.covered.get(found.id)) is not None:
            unit.is_weak = found.id in self.weak and (unit.is_weak or not unit.covered)
            unit.covered = max(unit.covered, covered)
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
    index = workspace.text_so_far()
    filters = filters_of(question)
    asked = terms(question.query)
    few = len(asked) < ranking.LONG
    limit = (GATHERED_SHORT if few else GATHERED) * (1 if sees is None else 2)
    written = [term.word for term in asked if not term.is_gram]
    pool = Pool(question, [term.word.casefold() for term in asked], written, few, workspace.meaning.scale)
    may = sees or anybody
    wholes: dict[str, float] = {}
    for lane in question.lanes:
        gathered = index.gather(
            question.query, lane, limit=limit, surrounded=question.max_depth > 0, sees=sees, **filters
        )
        pool.covered |= gathered.covered
        pool.known |= gathered.known
        pool.weak |= gathered.weak
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
    add_named(pool, index, filters, may)
    if not (few and _is_answered(pool)):
        relevance.add_nearest(workspace, index, pool, filters, may)
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
    """Whether the query is an identifier that was found; similarity in meaning is useless for an identifier."""
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


def _score_words(pool: Pool, wholes: dict[str, float], workspace: str) -> None:
    """Score units by words. Half of a document's score comes from its best chunk and half from the whole document, each
    relative to the best of its kind."""
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
        if unit.lane is Lane.NOTES and pool.covered:
            unit.score = relevance.score(unit.covered, unit.lex, unit.vec, pool.share)
        else:
            unit.score = (1 - pool.share) * unit.lex + pool.share * unit.vec
    normalise(pool)


def normalise(pool: Pool) -> None:
    """Scale the scores of each lane so that its best is 1."""
    for units in pool.by_lane():
        best = max((unit.score for unit in units), default=0.0)
        for unit in units:
            unit.score = unit.score / best if best else 0.0


def with_dates(pool: Pool, index: TextIndex) -> None:
    """Raise the scores of texts with a date that the question mentions. Costs two SQL statements, or none if the
    question does not mention a date."""
    named = named_in(pool.question.query, datetime.fromtimestamp(pool.question.now, UTC))
    if not named:
        return
    ids = {found.id: unit for unit in pool.units.values() for found in unit.texts.values() if found.id}
    gained: dict[Uri, float] = {}
    for id, date in index.dates_of(ids).items():
        key = ids[id].key
        gained[key] = max(gained.get(key, 0.0), *(_closeness(one, date) for one in named))
    for key, share in gained.items():
        pool.units[key].score += DATE_BONUS * share
    if any(gained.values()):
        normalise(pool)


def _closeness(named: Named | Span, date: int) -> float:
    """1 for a date within the named period, less for the following days, otherwise 0."""
    spans = [named] if isinstance(named, Span) else named.spans(date)
    return max((_in_span(span, date) for span in spans), default=0.0)


def _in_span(span: Span, date: int) -> float:
    if span.begin <= date < span.end:
        return 1.0
    return AFTER if span.end <= date < span.end + DAYS_AFTER * DAY else 0.0


def lapses(uris: Iterable[Uri], index: TextIndex, now: float) -> dict[Uri, str]:
    """The nodes among these that do not currently hold, with the reason."""
    return {uri: lapse for uri, valid in index.validity_of(uris).items() if (lapse := valid.lapse(now))}
