"""The pages of the manual and the glossary, and the search of its sections, ranked by the words of a query.

`static/manual.js` searches the folder of files by the same rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from kgd.ui import manual
from kgd.ui.manual import Section, sections
from kgd.ui.visit import ROOT, Download, Entry, Handled, Page, Visit

HOME = f"{ROOT}/manual"
LONGEST_QUERY = 200


def _page(name: str, heading: str) -> str:
    place = HOME if name == manual.INDEX else f"{HOME}/{quote(name)}"
    return f"{place}#{quote(heading)}" if heading else place


PLACES = manual.Places(page=_page, picture=lambda name: f"{HOME}/{manual.PICTURES}/{quote(name)}")


def _around() -> dict[str, Any]:
    """Return the variables of every page: the list of pages, and addresses."""
    return {"groups": manual.groups(), "place": _page, "find": HOME}


def page(visit: Visit) -> Handled:
    name, query = visit.path.get("page", ""), " ".join(visit.query.get("q", "").split())[:LONGEST_QUERY]
    if query and not name:
        return Page("manual_search.html", {**_around(), "query": query, "found": find(query)})
    return Page("manual.html", {**_around(), "read": manual.read(name or manual.INDEX, PLACES)})


def glossary(visit: Visit) -> Handled:
    return Page("glossary.html", {**_around(), "words": manual.glossary(PLACES)})


def picture(visit: Visit) -> Handled:
    name = visit.path["name"]
    return Download(manual.picture(name), "image/svg+xml" if name.endswith(".svg") else "image/png")


LIMIT = 20
WORDS = 8
"""Number of words of a query that count; the others are ignored."""
SNIPPET = 220
"""Length of an excerpt in characters."""
COVERED = 0.6
"""Least share of the query, by the rarity of its words, that a hit must contain."""
LATER = {"Reference": 0.5, "Decisions": 0.4}
"""Factors for groups that describe details: a guide comes first."""
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do does for from has have how i if in is it its me my no not of on or our so than"
        " that the their then there this to was we what when where which who why will with you your",
    )
)
"""Words that are ignored, like single letters, unless a query has no others."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that matches, and an excerpt with marked words."""

    section: Section
    snippet: Markup


def find(query: str) -> list[Hit]:
    """Return the best matches, at most `LIMIT`; first those whose title begins with the query.

    A word matches the beginning of a word, in any case.
    """
    asked = list(dict.fromkeys(_split(query)))
    rare = _rare(asked) or asked
    words = [_beginning(word) for word in rare[:WORDS]]
    counts = [[len(word.findall(text)) for word in words] for text in _texts()]
    rarity = [
        math.log(1 + len(counts) / matches) if (matches := sum(1 for row in counts if row[at])) else 0.0
        for at in range(len(words))
    ]
    total = sum(rarity)
    ranked = sorted(
        (-_points(section, words, row, rarity) - 100 * _begins(section, asked) - 50 * _begins(section, rare), number)
        for number, (section, row) in enumerate(zip(sections(), counts, strict=True))
        if total and sum(rare for rare, found in zip(rarity, row, strict=True) if found) >= COVERED * total
    )
    return [Hit(found := sections()[number], _snippet(found.text, words)) for _, number in ranked[:LIMIT]]


def _begins(section: Section, words: Sequence[str]) -> bool:
    """Whether the title of a page or section begins with these words, apart from common words."""
    titles = [_split(title) for title in (section.chapter.title, section.heading.title)]
    titles += [_rare(title) for title in titles]
    return any(title[: len(words)] == words for title in titles)


def _split(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _rare(words: Sequence[str]) -> list[str]:
    return [word for word in words if len(word) > 1 and word not in COMMON]


def _points(section: Section, words: Sequence[re.Pattern[str]], found: Sequence[int], rarity: Sequence[float]) -> float:
    longer = 1 + len(section.text) / 1000
    title, heading = section.chapter.title.lower(), section.heading.title.lower()
    return LATER.get(section.chapter.group, 1.0) * sum(
        rare * (3 * bool(word.search(title)) + 2 * bool(word.search(heading)) + times / (times + longer))
        for word, times, rare in zip(words, found, rarity, strict=True)
    )


def _snippet(text: str, words: Sequence[re.Pattern[str]]) -> Markup:
    """Return the excerpt with the most words of the query, cut at spaces."""
    matches = sorted((match.start(), at) for at, word in enumerate(words) for match in word.finditer(text.lower()))
    best = max(
        matches,
        key=lambda one: (len({at for place, at in matches if 0 <= place - one[0] < SNIPPET - 40}), -one[0]),
        default=(0, 0),
    )[0]
    start = text.rfind(" ", 0, max(best - 30, 0)) + 1 if best > 30 else 0
    end = len(text) if len(text) <= start + SNIPPET else max(text.rfind(" ", start, start + SNIPPET), start + 1)
    shown = Markup("").join(
        Markup("<mark>{}</mark>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(_marked(words).split(text[start:end]))
    )
    return Markup("{}{}{}").format("… " if start else "", shown, " …" if end < len(text) else "")


def _marked(words: Sequence[re.Pattern[str]]) -> re.Pattern[str]:
    return re.compile("(" + "|".join(rf"{word.pattern}\w*" for word in words) + ")", re.I)


def _beginning(word: str) -> re.Pattern[str]:
    """Return the pattern of a word. A plural finds the singular; two letters find only themselves."""
    if len(word) < 3:
        return re.compile(rf"\b{word}\b")
    return re.compile(rf"\b{word[:-1] if len(word) > 3 and word.endswith('s') else word}")


@cache
def _texts() -> tuple[str, ...]:
    """Return the searched text of each section: titles and text in lower case."""
    return tuple(f"{one.chapter.title} {one.heading.title} {one.text}".lower() for one in sections())


ENTRIES = (
    Entry("manual", "manual", page),
    Entry("manual", f"manual/{manual.PICTURES}/{{name}}", picture),
    Entry("manual", "manual/{page:path}", page),
    Entry("glossary", "glossary", glossary),
)
