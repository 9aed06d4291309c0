"""The page *Search*: knowledge, then code and documents, with filters that are parts of the address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kgd.drawing.scene import in_words
from kgd.errors import KgdError
from kgd.index.snippets import spans
from kgd.model.change import Author
from kgd.model.uri import is_owned, path_of, scheme_of
from kgd.ui.node_reading import is_called, lead, titles
from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30
BUDGET = 20_000
"""Tokens of an answer with short texts."""
OFFERED = 4
"""Largest number of filters of one kind to offer: the most frequent ones."""
CALLED = 4
"""Largest number of files above the results whose name or path is the question."""
PERIODS = ((7, "last 7 days"), (28, "last 4 weeks"), (365, "last year"))
"""Periods to offer: days, and label."""
WORDS = re.compile(r"[\w-]+: ").match
"""Matches a reason that names a field and its words: ``name: refund``."""
AREA = "atom"
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


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is set, or can be set; its address sets or removes it. `count` hits of the page have the value."""

    label: str
    value: str
    to: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class HitRow:
    """One hit. `place` is the path above it. `texts` are the summary, and the text around a match if no word matched
    before. `notes` are reasons that a reader must see. A related hit lacks the words, and a relation leads to it."""

    uri: str
    name: str
    type: str
    place: str
    texts: tuple[str, ...]
    author: str
    at: str
    notes: tuple[str, ...]
    stale: str
    is_related: bool


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    fields = [one for one in FILTERS if not one.tool or visit.can(one.tool)]
    given = {one.name: value for one in fields if (value := visit.query.get(one.name, "").strip())}
    told: dict[str, Any] = {"question": question, "given": given, "fields": fields, "refused": None}
    try:
        answer = _answer(visit, question, given) if question or "tag" in given else {}
    except KgdError as error:
        answer, told["refused"] = {}, error
    found, code = ([_row(hit, question, name == "code") for hit in answer.get(name, ())] for name in ("hits", "code"))
    hits, related = [one for one in found if not one.is_related], [one for one in found if one.is_related]
    if not hits:
        hits, related = related, []
    told |= {
        "called": [(one.uri, path_of(one.uri)) for one in (*hits, *code) if is_called(one.uri, question)][:CALLED],
        "answer": answer,
        "hits": hits,
        "related": related,
        "code": code,
        "has_words": any(map(_has_words, answer.get("code", ()))),
        "nearest": _named(visit, answer.get("nearest", ())),
        "begun": "cursor" in visit.query,
        "chips": [
            Chip(one.label, given[one.name], _to(visit, question, given, one.name))
            for one in fields
            if one.name in given
        ],
        "offered": _offered(visit, question, given, hits),
        "counts": not answer.get("cursor") and "cursor" not in visit.query,
        "next": visit.to("search", **{"q": question, **given, "cursor": answer.get("cursor")}),
        "first": visit.to("search", **{"q": question, **given}),
        "narrowed_to": lambda name, value: _to(visit, question, given, name, value),
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
    tags, areas = _tags_and_areas(visit, [one.uri for one in hits])
    counted = {
        "type": Counter(one.type for one in hits),
        "author": Counter(one.author for one in hits if one.author),
        "tag": tags,
        "area": areas,
    }
    named = titles(visit, areas) | {value: in_words(value) for value in counted["type"]}
    found = [
        Chip(name, named.get(value) or value, _to(visit, question, given, name, value), count)
        for name, values in counted.items()
        if name not in given
        for value, count in values.most_common(OFFERED)
        if count < len(hits)
    ]
    if not {"since", "until"} & given.keys():
        found += _periods(visit, question, given, hits)
    if "stale" not in given and (stale := sum(bool(one.stale) for one in hits)):
        found.append(Chip("state", "stale", _to(visit, question, given, "stale", "yes"), stale))
    return found


def _tags_and_areas(visit: Visit, uris: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Count the tags of hits, and the areas that they are related to. Chips only help: without an answer, none."""
    if not uris:
        return Counter(), Counter()
    try:
        nodes = visit.call("get", uris=list(uris), include=["relations"], budget=BUDGET)["nodes"]
    except KgdError:
        return Counter(), Counter()
    targets = ({relation["target"] for relation in one.get("relations", ())} for one in nodes)
    return (
        Counter(tag for one in nodes for tag in one.get("tags", ())),
        Counter(uri for found in targets for uri in found if scheme_of(uri) == AREA),
    )


def _periods(visit: Visit, question: str, given: Mapping[str, str], hits: Sequence[HitRow]) -> list[Chip]:
    """Return the shortest periods, each with more hits than the one before, that do not hold all hits."""
    now, found, before = datetime.now(UTC), list[Chip](), 0
    moments = [datetime.fromisoformat(one.at) for one in hits if one.at]
    for days, label in PERIODS:
        count = sum(moment >= now - timedelta(days=days) for moment in moments)
        if before < count < len(hits):
            found.append(Chip("date", label, _to(visit, question, given, "since", f"{days} days ago"), count))
            before = count
    return found


def _row(hit: Mapping[str, Any], question: str, is_code: bool) -> HitRow:
    uri, updated = hit["uri"], hit.get("updated", {})
    path = path_of(uri) if is_owned(uri) else ""
    name, summary = hit["name"], lead(hit)
    texts = [text for text in (summary, hit.get("snippet")) if text and text != name]
    if texts and (spans(texts[0], question) or (summary and spans(name, question))):
        texts = texts[:1]
    return HitRow(
        uri,
        name,
        hit["type"],
        path.rpartition("/")[0],
        tuple(texts),
        Author.of(updated.get("by", "")).name,
        updated.get("at", ""),
        tuple(reason for reason in hit["why"] if reason.startswith(LAPSED)),
        hit.get("unverified", {}).get("reason", ""),
        any(reason.startswith("via ") for reason in hit["why"]) and not _has_words(hit),
    )


def _has_words(hit: Mapping[str, Any]) -> bool:
    """Whether a hit contains words of the question, rather than being only similar or related."""
    return any(WORDS(reason) or reason.startswith("lex ") for reason in hit["why"])


def _named(visit: Visit, uris: Sequence[str]) -> list[tuple[str, str]]:
    """Return nodes as pairs of URI and name."""
    known = titles(visit, uris)
    return [(uri, known.get(uri) or uri) for uri in uris]


ENTRIES = (Entry("search", "search", search),)
