"""The page *Search*: knowledge, then code and documents, with filters that are parts of the address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kgd.drawing import in_words
from kgd.errors import KgdError
from kgd.index.snippets import spans
from kgd.model.change import Author
from kgd.model.uri import Uri, path_of
from kgd.tools import addressing
from kgd.tools.read.search import areas_of
from kgd.ui.node_reading import AREA, Row, is_called, listed, titles
from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30
BUDGET = 20_000
"""Tokens of an answer with short texts."""
OFFERED = 4
"""Largest number of filters of one kind to offer: the most frequent ones."""
CALLED = 4
"""Largest number of files above the results whose name or path is the question."""
CODE = "code"
"""The part of the results with code and documents."""
PERIODS = ((7, "last 7 days"), (28, "last 4 weeks"), (365, "last year"))
"""Periods to offer: days, and label."""
WORDS = re.compile(r"[\w-]+: ").match
"""Matches a reason that names a field and its words: ``name: refund``."""
LAPSED = ("expired on", "not valid before")
"""Beginnings of the reasons that a reader must see."""


@dataclass(frozen=True, slots=True)
class FilterField:
    """One filter: its name in the address, its label, its parameter of the tool `search`, and an example.

    It is offered to visitors who may call `tool`.
    """

    name: str
    label: str
    parameter: str
    example: str = ""
    tool: str = ""


FILTERS = (
    FilterField("type", "Type", "types", "decision"),
    FilterField("author", "Author", "author", "ann"),
    FilterField("tag", "Tag", "tags", "security"),
    FilterField("area", "Area", "area", "payments"),
    FilterField("in", "Path", "namespace", "services"),
    FilterField("since", "From", "since", "last week"),
    FilterField("until", "To", "until", "2026-05"),
    FilterField("stale", "Stale", "stale", tool="stale"),
)


REPEATED = 5
"""An excerpt repeats a summary if it begins with more than this number of characters of the summary's end."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is set, or can be set; its address sets or removes it. `count` hits of the page have the value.
    `type` is the type of a filter by type."""

    label: str
    value: str
    to: str
    count: int = 0
    type: str = ""


@dataclass(frozen=True, slots=True)
class HitRow:
    """One hit. `texts` are the summary and, if neither name nor summary has a word of the question, the text around a
    match. A related hit has no such word; a relation leads to it."""

    row: Row
    texts: tuple[str, ...]
    is_related: bool

    @property
    def author(self) -> str:
        return Author.of(self.row.updated.get("by", "")).name


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    fields = [one for one in FILTERS if not one.tool or visit.can(one.tool)]
    given = {one.name: value for one in fields if (value := visit.query.get(one.name, "").strip())}
    told: dict[str, Any] = {"question": question, "given": given, "fields": fields, "refused": None}
    try:
        answer = _answer(visit, question, given) if question or "tag" in given else {}
    except KgdError as error:
        answer, told["refused"] = {}, error
    found, code = (_rows(visit, answer.get(name, ()), question) for name in ("hits", "code"))
    hits, related = [one for one in found if not one.is_related], [one for one in found if one.is_related]
    if not hits:
        hits, related = related, []
    uris = [one.row.uri for one in (*hits, *code)]
    told |= {
        "called": [(uri, path_of(uri)) for uri in uris if is_called(uri, question)][:CALLED],
        "answer": answer,
        "hits": hits,
        "related": related,
        "code": code,
        "part": (part := CODE if code and visit.query.get("part") == CODE else ""),
        "has_words": any(map(_has_words, answer.get("code", ()))),
        "nearest": listed(visit, [{"uri": uri} for uri in answer.get("nearest", ())]),
        "begun": "cursor" in visit.query,
        "chips": [
            Chip(one.label, _in_words(visit, one.name, given[one.name]), _to(visit, question, given, one.name))
            for one in fields
            if one.name in given
        ],
        "offered": _offered(visit, question, given, hits),
        "counts": not answer.get("cursor") and "cursor" not in visit.query,
        "next": visit.to("search", **{"q": question, **given, "part": part, "cursor": answer.get("cursor")}),
        "first": visit.to("search", **{"q": question, **given}),
        "in_code": visit.to("search", **{"q": question, **given, "part": CODE, "cursor": visit.query.get("cursor")}),
        "in_knowledge": visit.to("search", **{"q": question, **given, "cursor": visit.query.get("cursor")}),
        "filtered": lambda name, value: _to(visit, question, given, name, value),
        "writes": visit.may("put"),
    }
    return Page("search.html", told)


def _answer(visit: Visit, question: str, given: Mapping[str, str]) -> Mapping[str, Any]:
    parameters = {
        one.parameter: bool(given[one.name]) if one.name == "stale" else given[one.name]
        for one in FILTERS
        if one.name in given
    }
    cursor = visit.query.get("cursor")
    return visit.call(
        "search", query=question, limit=HITS, budget=BUDGET, include="updated", cursor=cursor, **parameters
    )


def _to(visit: Visit, question: str, given: Mapping[str, str], name: str, value: str = "") -> str:
    """Return the address with a filter set to a value, or removed."""
    return visit.to("search", **{"q": question, **given, name: value})


def _offered(visit: Visit, question: str, given: Mapping[str, str], hits: Sequence[HitRow]) -> list[Chip]:
    """Return filters that would narrow these hits: values that some of them have and others lack, by frequency."""
    workspace = addressing.choose(visit.session(), visit.workspace)
    named = {uri: name for one in hits for name, uri in one.row.areas}
    about = [{one.row.uri, *areas_of(workspace, Uri(one.row.uri))} for one in hits]
    counted = {
        "type": Counter(one.row.type for one in hits),
        "author": Counter(one.author for one in hits if one.author),
        "tag": Counter(tag for one in hits for tag in one.row.tags),
        "area": Counter(uri for uris in about for uri in uris if uri in named),
    }
    named |= {value: in_words(value) for value in counted["type"]}
    found = [
        Chip(name, named.get(value) or value, _to(visit, question, given, name, value), count, value * (name == "type"))
        for name, values in counted.items()
        if name not in given
        for value, count in values.most_common(OFFERED)
        if count < len(hits)
    ]
    if not {"since", "until"} & given.keys():
        found += _periods(visit, question, given, hits)
    if "stale" not in given and (stale := sum(bool(one.row.unverified) for one in hits)):
        found.append(Chip("state", "stale", _to(visit, question, given, "stale", "yes"), stale))
    return found


def _periods(visit: Visit, question: str, given: Mapping[str, str], hits: Sequence[HitRow]) -> list[Chip]:
    """Return the shortest periods, each with more hits than the one before, that do not hold all hits."""
    now, found, before = datetime.now(UTC), list[Chip](), 0
    moments = [datetime.fromisoformat(one.row.updated["at"]) for one in hits if one.row.updated]
    for days, label in PERIODS:
        count = sum(moment >= now - timedelta(days=days) for moment in moments)
        if before < count < len(hits):
            found.append(Chip("date", label, _to(visit, question, given, "since", f"{days} days ago"), count))
            before = count
    return found


def _rows(visit: Visit, hits: Sequence[Mapping[str, Any]], question: str) -> list[HitRow]:
    """Return the rows of hits. An excerpt that an earlier row has, word for word, is left out."""
    found = [_row(hit, row, question) for hit, row in zip(hits, listed(visit, hits), strict=True)]
    seen: set[str] = set()
    for number, one in enumerate(found):
        if len(one.texts) > 1 and one.texts[1] in seen:
            found[number] = replace(one, texts=one.texts[:1])
        seen.update(one.texts[1:])
    return found


def _row(hit: Mapping[str, Any], row: Row, question: str) -> HitRow:
    shown = excerpt(hit.get("snippet") or "", row.summary, [path for path, _ in row.files], question)
    texts = [text for text in (row.summary, shown) if text and text != row.name]
    if texts and (spans(texts[0], question) or (row.summary and spans(row.name, question))):
        texts = texts[:1]
    if lapsed := next((reason for reason in hit["why"] if reason.startswith(LAPSED)), ""):
        row = replace(row, lapsed=lapsed)
    return HitRow(row, tuple(texts), is_related(hit))


def excerpt(snippet: str, summary: str, paths: Sequence[str], question: str) -> str:
    """Return the text around a match, without a beginning that repeats the end of the summary; empty if the words of
    the question are only in these paths, which the row shows.

    >>> excerpt("…to a cart. Seen in the van.", "Added to a cart", ["src/van.py"], "van")
    '…Seen in the van.'
    >>> excerpt("…to a cart. Seen in `src/van.py`.", "Added to a cart", ["src/van.py"], "van")
    ''
    """
    rest = snippet
    for path in paths:
        rest = rest.replace(path, "")
    if spans(snippet, question) and not spans(rest, question):
        return ""
    body, end = snippet.removeprefix("…"), f"{summary.rstrip('.')}."
    repeated = next((n for n in range(len(end), REPEATED, -1) if body.startswith(f"{end[-n:]} ")), 0)
    return f"…{body[repeated:].lstrip()}" if repeated else snippet


def is_related(hit: Mapping[str, Any]) -> bool:
    """Whether only a relation leads to a hit."""
    return any(reason.startswith("via ") for reason in hit["why"]) and not _has_words(hit)


def _has_words(hit: Mapping[str, Any]) -> bool:
    """Whether a hit contains words of the question, rather than being only similar or related."""
    return "lex" in hit or any(map(WORDS, hit["why"]))


def _in_words(visit: Visit, name: str, value: str) -> str:
    """Return the value of a filter as its chip shows it: the name of an area, or the word for a type."""
    if name == "type":
        return in_words(value)
    return titles(visit, [value]).get(value, value) if name == "area" and value.startswith(f"{AREA}://") else value


ENTRIES = (Entry("search", "search", search),)
