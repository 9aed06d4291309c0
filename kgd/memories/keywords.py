"""Keywords of a text, used as tags to find it again, and new memories with these tags.

The result is deterministic and independent of other texts, so the same words give the same tags on every machine.
Identifiers and names rank before plain words, technical compounds (``rate-limit``) are treated as one word, and words
at the beginning of a text rank higher.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kgd.model.change import Upsert
from kgd.model.node import FACTS, MEMORY_TYPES, Relation, cut_at_word
from kgd.model.uri import Uri, scheme_of, slug

_FUNCTION = """
a about above across after again against all along already also although always am among an and another any anybody
anyone anything are around as at away back be became because become been before behind being below beside besides
between beyond both but by can cannot could did do does doing done down during each either else elsewhere ever every
everybody everyone everything except few for from further had has have having he hence her here hers him his how
however i if in inside instead into is it its itself just least less let like many may maybe me might mine more most
much must my myself near neither never no nobody none nor not nothing now of off often on once only onto or other
others otherwise our ours out outside over own per perhaps quite rather really same shall she should since so some
somebody someone something sometimes soon still such than that the their theirs them then there therefore these they
this those though through throughout thus to together too toward towards under unless until up upon us very via was we
well were what whatever when whenever where whereas wherever whether which while who whoever whole whom whose why will
with within without would yes yet you your yours aren couldn didn doesn don hadn hasn haven isn ll mustn shouldn ve
wasn weren won wouldn one two three four five six seven eight nine ten eleven twelve twenty thirty ninety hundred
thousand million first second third last next etc eg ie vs aber als am auch auf aus bei bis da damit dann das dass dem
den denn der des deshalb dessen die dies diese diesem diesen dieser dieses doch durch ein eine einem einen einer eines
er es für gegen hat haben ihr im ist ja jede jeder kann kein keine mehr mit muss nach nicht noch nur ob oder ohne sein
seine sich sie sind sollen sondern und uns unter vom von vor war weil wenn werden wie wir wird zu zum zur über
derselben demselben dasselbe dieselbe ainsi alors après au aussi autre aux avant avec ce cela ces cet cette chaque
comme dans de depuis des doit doivent du elle elles en entre est et être eux il ils la le les leur leurs lui mais même
ne nos notre nous ont ou où par pas peut plus pour quand que quel quelle qui sa sans se ses si sinon son sont sous sur
tout tous toute très un une vers vos votre vous al algo como con contra cuando del desde donde el ella ellos entonces
era esa ese eso esta este esto está están fue hasta hay las lo los más mi muy no nos nuestra nuestro o para pero por
porque que quien se ser si sin sobre su sus también tan tiene todo todos una unos y ya
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""English, German, French and Spanish words that are never keywords."""

_WEAK = """
able accept accepted access achieve actual actually add added adding adds adopt affect agree agreed allow allowed
allows answer appear apply ask asked avoid bad based became best better bit break breaks bring brings broke broken
brought built call called calling calls came care carries carry case cases cause caused causes certain change changed
changes check checked choose chose chosen class clear close closed code come comes complete completed consider contain
contains copy correct could create created creates current currently cut day days deal decide decided decision
decisions deliver delivers depend depends describe described detail details did different discover discovered
documented drop dropped due early easier easy edge edit empty end ends enough ensure entry especially event example
exist existed exists expect expected explain extra fact fail failed fails fall far fast field file files fill find
fine finish fix fixed follow followed following follows found full gave general generally get gets gets getting give
given gives go goes going gone good got great group grows half hand handed handle handles handling hands happen
happens hard held help helps here high hit hits hold holding holds hour hours idea implement implemented implements
important include included includes including initial instead introduce issue issues item items keep keeps kept kind
knew know known knows large larger late later lead leads leave leaves left less let lets level lie likely limit
limited line lines list lives load long longer longest look looked looks lot lower made main make makes making manner
matter mean means meant meet mention mentioned messages minute minutes miss missing month months move moved moves
moving ms name named names need needed needs new newer nightly normal note noted notes number numbers objective old
older open order others outcome page pages part particular parts pass passed people piece place please point points
possible prefer present primary probably problem problems proper properly provide provided provides put puts question
raise raised random rather reach reached reaches read reading reads ready real reason receive recent recommend reduce
refuse refuses related remain remember remove removed removes replace replaced report require required requires
respond response result results return returned returns right role rule rules run running runs said saw say says
seconds see seem seems seen send sends sent serious set sets setting several short show shown shows side similar
simple simply single size slow small smaller solve sort specific stable start started starts state stay stays step
still stop stopped stopping stops store stored stores sure switch take taken takes task tell tells thing things think
thought time times today told took total touch tried tries try trying turn turned turns twice type types understand
unlike unset update updated updates upgrade upgraded use used useful user users uses using usual usually value values
variable various verify version want wanted wants warn warning way ways week weekly weeks went will wish work worked
working works write writes writing written wrong year years kb mb gb tb january february march april june july august
september october november december monday tuesday wednesday thursday friday saturday sunday
accidentally afterwards anyway belong belongs carefully compare compares covers delete deleted deletes derive differ
differs enables exactly fetches forget forgets grew hidden hide hides hiding ignore ignores instantly invoke join
joins lack lacks loses lost matches merged mostly must ones own owns pick picks prevent prevents produce produces
protect protects refer refers relies rely rename renamed save saves select selects separate separately serve serves
shares silently skip skips spend splits suggest supports taking wait waiting waits whichever wins wraps
"""
WEAK_WORDS = frozenset(_WEAK.split())
"""Words that are common in all technical texts; they are keywords only if there are no better ones."""

_COMPOUNDS = """
access-control access-token acceptance-criteria allow-list api-key audit-log background-job background-task backup-job
base-image batch-size binary-search black-box block-list blue-green branch-protection breaking-change build-cache
bulk-import bulk-insert bulk-update byte-order cache-key circuit-breaker code-review cold-start command-line
config-file connection-pool content-type continuous-integration custom-element custom-properties custom-property
data-model data-race data-set dark-mode dead-letter dead-lock default-value dependency-injection deny-list
design-system disk-quota distributed-lock domain-model double-entry due-date dry-run edge-case entry-point
environment-variable error-handling error-message event-loop event-sourcing exit-code exponential-backoff feature-flag
feature-flags file-system fixed-point floating-point foreign-key full-text garbage-collection happy-path hash-map
health-check hot-path http-only idempotency-key index-scan input-validation integration-test integration-tests
key-rotation lazy-loading learning-rate line-endings line-item line-items liveness-probe load-balancer load-balancing
load-test lock-file log-level machine-learning materialized-view memory-leak merge-conflict message-queue mobile-app
natural-language null-pointer object-storage open-source opt-in optimistic-locking page-size password-reset
path-traversal primary-key prepared-statement private-key production-data prompt-injection public-key pull-request
query-plan race-condition rate-limit rate-limiter rate-limiting rate-limits read-model read-only read-replica
readiness-probe release-notes request-id retry-policy reverse-proxy root-cause round-trip row-level schema-migration
screen-reader search-index security-review service-account service-worker session-cache shared-memory side-effect
signing-key single-page slow-query soft-delete source-map stack-trace state-machine static-analysis status-code
stored-procedure string-interpolation system-prompt tech-debt test-data text-index third-party thread-pool thread-safe
thread-safety time-zone time-zones top-level tree-shaking type-check type-hints unit-test unit-tests use-case
user-agent validation-set vector-search version-control warm-up web-socket white-list work-tree write-ahead
zero-downtime
"""
COMPOUNDS = frozenset((one, two) for one, _, two in (pair.partition("-") for pair in _COMPOUNDS.split()))
"""Pairs of words that form one technical term."""


TEXT_LIMIT = 20_000
"""Maximum number of characters to read of a text."""
LONGEST = 40
SHORTEST = 2

NAME, COMPOUND, CODE, PART, WEAK = 0.5, 0.9, 0.8, -0.45, -0.7
"""Bonus for a name within a sentence, a technical term, an identifier, a part of an identifier, and a word common in
all texts; added to the score of 1 for a plain word."""
REPEATED = 0.25
LATER = 0.012
"""Amount subtracted from a word's score for each word before it."""

_WORD = re.compile(r"[^\W_]+(?:[-_'’./+#][^\W_]+)*[+#]{0,2}")
_HUMP = re.compile(r"[A-Z]{2,}v\d+|[^\W\d_]*?[^\W\dA-Z_](?=[A-Z])|[A-Z]+(?=[A-Z][^\W\dA-Z_])|[^\W_]+")
_MEASURE = re.compile(r"\d[\d.,]*(?:[^\W\d_]|[kmgt]b|ms|px|[kmg]?hz|min|e-?\d+)?").fullmatch
"""Measures such as 16ms, 3x, 3e-4, which are not keywords."""
_DIGEST = re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,40}").fullmatch
_SENTENCE_ENDS = frozenset(".!?:;\n#*|>")


class _Term(NamedTuple):
    text: str
    worth: float


def keywords(text: str, limit: int = 8) -> tuple[str, ...]:
    """At most `limit` keywords of the text, best first, in lower case and valid as tags.

    This is a pure function, linear in the length of the text.
    """
    worth: dict[str, float] = {}
    count: dict[str, int] = {}
    for position, term in enumerate(_terms(unicodedata.normalize("NFC", text[:TEXT_LIMIT]))):
        count[term.text] = count.get(term.text, 0) + 1
        worth[term.text] = max(worth.get(term.text, -9.0), term.worth - LATER * min(position, 60))
    scored = {name: value + REPEATED * min(count[name] - 1, 3) for name, value in worth.items()}
    best = sorted(scored, key=lambda name: (-scored[name], name))
    telling = [name for name in best if name not in WEAK_WORDS]
    return tuple((telling or best)[: max(0, limit)])


def terms(text: str) -> frozenset[str]:
    """All candidates for keywords of a text."""
    return frozenset(term.text for term in _terms(unicodedata.normalize("NFC", text[:TEXT_LIMIT])))


def _terms(text: str) -> Iterator[_Term]:
    """All candidates in text order."""
    before: str | None = None
    for match in _WORD.finditer(text):
        word = match.group()
        starts_sentence = _starts_sentence(text, match.start())
        lower = _folded(word)
        if before and (before, lower) in COMPOUNDS and text[match.start() - 1] in " \n\t":
            yield _Term(f"{before}-{lower}", 1 + COMPOUND)
        before = lower
        yield from _of_word(word, starts_sentence)


def _of_word(word: str, starts_sentence: bool) -> Iterator[_Term]:
    word = word.replace("’", "'").split("'")[0] if _is_possessive(word) else word
    pieces = re.split(r"[/._]|'", word)
    pieces = [piece for piece in pieces if piece]
    if "/" in word or ("." in word and any(c.isalpha() for c in word)):
        dotted = "." in word
        for number, piece in enumerate(pieces):  # a path, a file name, or words joined by a slash
            is_ending = dotted and number == len(pieces) - 1
            yield from _simple(piece, starts_sentence, PART if is_ending else CODE / 2 if dotted else 0.0)
        return
    if "_" in word and len(pieces) > 1:
        yield from _keyword("-".join(map(_folded, pieces)), CODE)
        for piece in pieces:
            yield from _keyword(_folded(piece), PART)
        return
    yield from _simple(word, starts_sentence, 0.0)


def _simple(word: str, starts_sentence: bool, extra: float) -> Iterator[_Term]:
    """Candidates in a word that may contain hyphens but no other joining characters."""
    lower = _folded(word)
    if "-" in word:
        yield from _keyword(lower, extra + COMPOUND / 2)
        for piece in lower.split("-"):
            yield from _keyword(piece, PART)
        return
    humps = _HUMP.findall(word)
    if len(humps) > 1 and any(c.islower() for c in word) and any(c.isupper() for c in word[1:]):
        yield from _keyword(lower, extra + CODE)
        for hump in humps:
            if len(hump) > 2:
                yield from _keyword(_folded(hump), PART)
    elif (word.isupper() and len(word) > 1) or (word[0].isupper() and not starts_sentence):
        yield from _keyword(lower, extra + NAME)
    elif any(c.isdigit() for c in word) and any(c.isalpha() for c in word):
        yield from _keyword(lower, extra + (0.0 if word[0].isdigit() else NAME))
    else:
        yield from _keyword(lower, extra)


def _keyword(text: str, extra: float) -> Iterator[_Term]:
    """The candidate, if it is valid as a keyword."""
    if not SHORTEST <= len(text) <= LONGEST or text in FUNCTION_WORDS or not any(c.isalpha() for c in text):
        return
    if _MEASURE(text) or _DIGEST(text):
        return
    weak = WEAK if text in WEAK_WORDS else 0.0
    yield _Term(text, 1 + extra + weak + min(len(text), 12) * 0.03)


def _folded(word: str) -> str:
    return unicodedata.normalize("NFC", word.lower())


def _is_possessive(word: str) -> bool:
    return word[-2:] in ("'s", "’s") or bool(re.search(r"['’](?:t|re|ve|ll|d|m)$", word))


def _starts_sentence(text: str, start: int) -> bool:
    while start and text[start - 1] in " \t\"'(`[":
        start -= 1
    return not start or text[start - 1] in _SENTENCE_ENDS


_LEADING_PATH = re.compile(r"\s*`?[^\s`]*[/.][^\s`]*`?:\s+(?=\S)")
LONGEST_NAME = 6, 40
"""Maximum number of words and of characters of a text in its URI."""


def memory(
    uri: Uri,
    type: str,
    text: str,
    *,
    tags: Sequence[str] = (),
    relations: Sequence[Relation] = (),
    detail: str | None = None,
) -> Upsert:
    """The edit that stores a text as a new node, with its beginning as the summary.

    A fact gets no name, which would keep the old text after an edit of the summary. A memory (decision, pattern,
    gotcha, insight, task) without tags gets the keywords of the text. If there is a detail, the text may be just its
    heading. The edit is refused (Stale) if the node exists.
    """
    summary = cut_at_word(text)
    found = tuple(tags) or (keywords(f"{text}\n\n{detail or ''}") if type in MEMORY_TYPES else ())
    return Upsert(
        uri,
        type=type,
        name=None if scheme_of(uri) in FACTS else summary,
        summary=summary,
        content=text if text != summary else None,
        tags=found,
        relations=tuple(relations),
        detail=detail,
        expect_version=0,
    )


def names_of(text: str) -> tuple[str, ...]:
    """The names that a fact with this text may get, always the same number: from its first words and, on a name clash
    or in a task, with a hash of the text."""
    topic = without_path(text)
    return first_words(text), first_words(topic), hashed_name(text, text), hashed_name(topic, text)


def without_path(text: str) -> str:
    """A text without a leading path such as ``src/main.py: ``."""
    return _LEADING_PATH.sub("", text)


def hashed_name(topic: str, text: str) -> str:
    """The first words of a topic with a hash of the whole text."""
    return f"{first_words(topic)}-{hashlib.sha256(' '.join(text.split()).encode()).hexdigest()[:8]}"


def first_words(text: str) -> str:
    """A name from a text: its first six words, or as many as fit into 40 characters."""
    words = slug(text).split("-")[: LONGEST_NAME[0]]
    while len(words) > 1 and len("-".join(words)) > LONGEST_NAME[1]:
        words.pop()
    return "-".join(words)[: LONGEST_NAME[1]] or "fact"
