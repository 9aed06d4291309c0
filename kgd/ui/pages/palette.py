"""The palette: the pages, actions, nodes and files that match the words typed so far, as a part of every page; and the
navigation of every page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kgd.drawing import in_words
from kgd.errors import KgdError
from kgd.index.snippets import spans
from kgd.model.uri import CODE_TREE, name_of, parse, path_of, scheme_of, workspace_of
from kgd.ui.node_reading import ROWS, SYMBOL, Row, begins, is_called, listed
from kgd.ui.pages.search import BUDGET, HITS, is_related
from kgd.ui.visit import Entry, Handled, Page, Visit

FOUND = 6
"""Largest number of nodes, and of files, to show."""
NEAR = 20
"""Number of characters before a match that a row on a phone has room for."""
MOST_WORDS = 200
"""Largest number of characters to search for."""
RECENT, ASKED = 5, 3
"""Largest number of the last nodes, and of the last searches, in a palette without words."""


class Destination(NamedTuple):
    """A page: its name in the address, and its label.

    `words` find it in the palette as well, and `title` is its longer label there. The navigation of
    every page lists it if it `is_listed`.
    """

    name: str
    label: str
    words: str
    title: str = ""
    is_listed: bool = True


DESTINATIONS = (
    Destination("overview", "Overview", "home start attention recent"),
    Destination("review", "Review", "changes log since"),
    Destination("conflicts", "Conflicts", "resolve settle disagree"),
    Destination("proposals", "Proposals", "accept reject submissions"),
    Destination("stale", "Stale", "verify unverified outdated", title="Stale facts"),
    Destination("areas", "Areas", "coverage folders atoms"),
    Destination("graph", "Graph", "picture relations map"),
    Destination("broken", "Broken links", "missing targets", is_listed=False),
    Destination("workspaces", "Workspace settings", "remotes sharing access tokens sync browsers workspaces"),
)
NAVIGATION = {one.name: one.label for one in DESTINATIONS if one.is_listed}
"""Labels of the pages in the navigation, by name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of the palette: an address to open or, with `sends`, to post to.

    With `does`, it is an action of the page's scripts instead. `node` is the node that it opens, `about` the kind of
    code, `folder` and `file` the place of a definition, with its line, and `closeness` its sort key.
    """

    title: str
    to: str = ""
    node: Row | None = None
    closeness: int | None = None
    sends: bool = False
    does: str = ""
    about: str = ""
    folder: str = ""
    file: str = ""
    words: str = field(default="", compare=False)

    def fits(self, typed: list[str]) -> bool:
        """Whether each typed word begins a word of the row."""
        return begins(typed, f"{self.title} {self.words}")

    def place(self, typed: list[str]) -> int:
        """The sort key: first the node that the words name, then rows whose titles they begin."""
        return self.closeness if self.closeness is not None else 1 if begins(typed, self.title) else 2


def palette(visit: Visit) -> Handled:
    """Show what fits the words typed so far; every page and action if there are none."""
    question = visit.query.get("q", "").strip()[:MOST_WORDS]
    typed = question.casefold().split()
    nodes, code = _found(visit, question)
    groups = [
        ("Recent", _recent(visit) if not question else []),
        ("Go to", [one for one in _pages(visit) if one.fits(typed)]),
        ("Actions", [one for one in _actions(visit) if one.fits(typed)]),
        ("Knowledge", nodes),
        ("Code", code),
    ]
    # Rows that fit by their titles come first, because Enter opens the first row.
    groups.sort(key=lambda group: min((one.place(typed) for one in group[1]), default=2))
    return Page(
        "palette.html",
        {"question": question, "from_match": from_match, "groups": [group for group in groups if group[1]]},
    )


def _pages(visit: Visit) -> Iterator[Choice]:
    for page in DESTINATIONS:
        yield Choice(page.title or page.label, visit.to(page.name), words=page.words)
    yield Choice("Manual", "/ui/manual", words="help documentation")
    yield Choice("Glossary", "/ui/glossary", words="help terms")
    yield Choice("All workspaces", "/ui/", words="switch")


def _actions(visit: Visit) -> Iterator[Choice]:
    """The actions that the visitor may carry out, first those on the node of the page."""
    if uri := visit.query.get("at", ""):
        if visit.may("put"):
            yield Choice("Edit this fact", visit.to("node/edit", uri=uri), words="change fix")
        yield Choice("Show this fact in the graph", visit.to("graph", **{"from": uri}), words="picture relations")
        yield Choice("History of this fact", visit.to("node/history", uri=uri), words="versions changes log")
    if visit.may("put"):
        yield Choice("New fact", visit.to("node/new"), words="write add node create remember")
    if visit.may("manage_graph"):
        yield Choice("New area", visit.to("areas/new"), words="create add atom")
    if visit.can("sync"):
        yield Choice("Sync now", visit.to("workspaces/sync"), sends=True, words="fetch push remote pull")
    if visit.can("review"):
        yield Choice("Mark all as reviewed", visit.to("review/accept"), sends=True, words="accept everything changes")
    yield Choice("Copy the link to this page", does="copy", words="share colleague address url")
    yield Choice("Keyboard shortcuts", does="keys", words="help")
    yield Choice("Sign out", "/ui/out", sends=True, words="leave log end")


def _recent(visit: Visit) -> list[Choice]:
    """The nodes and searches that this browser remembers, without nodes that are gone or hidden from the visitor."""
    seen = [uri for uri in dict.fromkeys(visit.many("seen")) if _is_readable(visit, uri)][:RECENT]
    found = visit.tried("get", uris=seen, include=[], budget=ROWS).get("nodes", ()) if seen else ()
    there = {uri for one in found for uri in (one["uri"], one.get("asked"))}
    rows = listed(visit, [{"uri": uri} for uri in seen if uri in there])
    nodes = [_choice(visit, {"uri": row.uri}, row) for row in rows]
    asked = list(filter(None, dict.fromkeys(text.strip()[:MOST_WORDS] for text in visit.many("asked"))))
    return [*nodes, *(Choice(f"Search “{text}”", visit.to("search", q=text)) for text in asked[:ASKED])]


def _is_readable(visit: Visit, text: str) -> bool:
    """Whether a text is the URI of a node of this workspace that the visitor may read: one other URI would make `get`
    refuse all of them."""
    try:
        uri = parse(text)
    except KgdError:
        return False
    sees = visit.session().sight(visit.workspace)
    return workspace_of(uri) == visit.workspace and (sees is None or sees(uri))


def _found(visit: Visit, question: str) -> tuple[list[Choice], list[Choice]]:
    """Nodes and code whose names or texts match, in the order of the search page; last, a row for all of them."""
    # Half-typed words may be an invalid query; the search page reports that.
    answer = visit.tried("search", query=question, limit=HITS, budget=BUDGET) if question else {}
    hits = [one for one in answer.get("hits", ()) if not is_related(one)]
    chosen = [_ordered(one, question)[:FOUND] for one in (hits, answer.get("code", ()))]
    nodes, code = (
        [_choice(visit, hit, row, question) for hit, row in zip(some, listed(visit, some), strict=True)]
        for some in chosen
    )
    if len(hits) > FOUND:
        count = "" if "cursor" in answer else f"{len(hits)} "
        nodes.append(Choice(f"All {count}results", visit.to("search", q=question), closeness=2))
    return nodes, list(_with_kinds(visit, code))


def _ordered(hits: Sequence[Mapping[str, Any]], question: str) -> list[Mapping[str, Any]]:
    """Put the node that the words name first. The others keep the order of the search, as on its page, if the words
    begin the name of its best hit. Half-typed words may begin only names of later hits, which then come first."""
    places = [closeness(hit, question) for hit in hits]
    by_name = next((place for place in places if place), 2) > 1
    ordered = sorted(zip(places, hits, strict=True), key=lambda found: found[0] if by_name else bool(found[0]))
    return [hit for _, hit in ordered]


def _with_kinds(visit: Visit, code: list[Choice]) -> Iterator[Choice]:
    """Add the kind of each file or definition, and the file and line of a definition."""
    symbols = [one.node.uri for one in code if one.node and scheme_of(one.node.uri) == SYMBOL]
    answer = visit.tried("get", uris=symbols, include=[], budget=ROWS) if symbols else {}
    found = {one["uri"]: one.get("data", {}) for one in answer.get("nodes", ())}
    for one in code:
        data = found.get(one.node.uri, {}) if one.node else {}
        kind = data.get("kind") or (in_words(one.node.type) if one.node else "")
        if one.node and "line" in data:
            folder, slash, file = one.node.path.rpartition("/")
            one = replace(one, folder=f"{folder}{slash}", file=f"{file}:{data['line']}")
        yield replace(one, about=kind)


def from_match(text: str, question: str) -> tuple[str, str]:
    """Split a text a few characters before the first word of a question in it, so that a narrow row can leave out the
    first part; no first part if the text begins near the word.

    >>> from_match("Print again after a weekend; the carrier refunds the first one", "refund")
    ('Print again after a weekend; the ', 'carrier refunds the first one')
    """
    begin = next((begin for begin, _ in spans(text, question)), 0)
    if begin <= NEAR:
        return "", text
    at = text.rfind(" ", 0, text.rfind(" ", 0, begin)) + 1
    return text[:at], text[at:]


def closeness(found: Mapping[str, Any], question: str) -> int:
    """The sort key of a hit: 0 if the question is its name or path, 1 if each word of it begins a word of the name,
    otherwise 2. Hits of the same key keep the order of the answer. A definition in the code does not precede a node by
    its name alone.
    """
    uri, name = found["uri"], str(found.get("name") or name_of(found["uri"]))
    is_name = name.casefold().rstrip(".") == question.strip().casefold().rstrip(".")
    if is_called(uri, question) or (is_name and scheme_of(uri) != SYMBOL):
        return 0
    return 1 if begins(question.casefold().split(), path_of(uri) if scheme_of(uri) in CODE_TREE else name) else 2


def _choice(visit: Visit, found: Mapping[str, Any], row: Row | None, question: str = "") -> Choice:
    """The row of a node: a file or directory by its path, any other node by its name."""
    uri = found["uri"]
    is_code = scheme_of(uri) in CODE_TREE
    title = path_of(uri) if is_code else row.name if row else found["name"]
    return Choice(title, visit.to("node", uri=uri), row, closeness=closeness(found, question) if question else None)


ENTRIES = (Entry("search", "palette", palette),)
