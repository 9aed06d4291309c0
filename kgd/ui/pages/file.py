"""The page of a file: the team's knowledge about it, then its code with the knowledge about each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

from markupsafe import Markup

from kgd.errors import Invalid, NotFound
from kgd.model.change import Author
from kgd.model.escaping import printable
from kgd.model.uri import build, from_path, name_of, path_of, scheme_of, segments_of, workspace_of
from kgd.ui.changes import mapping_text
from kgd.ui.highlighting import highlighted
from kgd.ui.node_reading import AREAS, DisputedSummary, authors_of, disputed_summaries, open_conflicts
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit

LINES = 500
"""Number of lines of a page."""
COLOURED = 10_000
"""Lines up to which a page reads the file from its first line, because a text or comment may begin on any line."""
BUDGET = 8_000
"""Token budget of the knowledge about a file."""
WHY_BUDGET = 2_000
LINKED = 200
"""Largest number of importing and imported files on the page."""
WALK = 1_000_000
"""Token budget of a walk, larger than any answer of `LINKED` files."""
SHOWN = 6
"""Number of cards that are not folded."""


@dataclass(slots=True)
class Card:
    """A node about the file. Nodes with lines have a `number`, which their lines show in the margin."""

    item: Mapping[str, Any]
    number: int = 0
    places: Sequence[Mapping[str, Any]] = ()
    updated: Mapping[str, Any] = field(default_factory=dict)
    version_authors: Sequence[Mapping[str, str]] = ()
    summaries: Sequence[DisputedSummary] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code. `begins` are the notes whose place begins here, and `stamp` has their authors and the time of the
    newest one. A line is cited if a place has it, and a start if a place or a definition begins there."""

    number: int
    code: Markup
    begins: tuple[Card, ...] = ()
    stamp: Mapping[str, Any] = field(default_factory=dict)
    is_cited: bool = False
    is_start: bool = False


def file(visit: Visit) -> Handled:
    """Show a file and the knowledge about it, around the line in the address."""
    uri, asked = _asked(visit), visit.number("why") or visit.number("line")
    first = max(asked - 1, 0) // LINES * LINES + 1
    start = 1 if first < COLOURED else first
    code = visit.call("code_file", uri=uri, first=start, limit=first + LINES - start)
    if code["state"] == "absent" and (folder := _folder(visit, uri)):
        return Redirect(folder)
    briefing = visit.call("context", paths=[uri], budget=BUDGET)
    cards, related = _cards(visit, code, briefing["items"])
    lines = _lines(code, cards, first, start)
    known = {
        "code": code,
        "cards": cards,
        "related": related,
        "briefing": briefing,
        "shown": SHOWN,
        "lines": lines,
        "next": first + LINES if first + LINES <= code.get("lines", 0) else 0,
        "before": first - LINES if lines else 0,
        "imports": _imports(visit, uri, "out"),
        "importers": _imports(visit, uri, "in"),
        "most": LINKED,
        "folders": _folders(visit, uri),
        "why": _why(visit, code, visit.number("why")) if visit.number("why") else None,
        "line_at": lambda line: _line_at(visit, uri, line, first),
        "writes": visit.may("put"),
        "fact": _fact(visit, code),
    }
    return Page("file.html", known, visit.status_of_missing if code["state"] == "absent" else 200)


def redirected(visit: Visit) -> Redirect | None:
    """Return a redirect from the page of a node to the page of its file; None if it has none.

    A stored definition has its own page, and so has an address with more than the node, such as a version or a form.
    """
    place = _place(visit)
    return Redirect(place) if place else None


def _place(visit: Visit) -> str:
    uri = visit.query.get("uri", "")
    if set(visit.query) != {"uri"} or _workspace_of_code(uri) != visit.workspace:
        return ""
    if scheme_of(uri) == "file":
        return visit.to("file", uri=uri)
    found = visit.call("get", uris=[uri], include=[])["nodes"]
    if not found or found[0]["version"]:
        return ""
    line = found[0].get("data", {}).get("line", 1)
    *path, _ = segments_of(found[0]["uri"])
    return f"{visit.to('file', uri=build('file', visit.workspace, path), line=line)}#L{line}"


def _workspace_of_code(uri: str) -> str | None:
    """Return the workspace of the URI of a file or definition; None for all other texts."""
    is_code = uri.startswith(("file://", "symbol://")) and uri.count("/") > 2
    return workspace_of(uri) if is_code else None


def _asked(visit: Visit) -> str:
    """Return the URI of the file in the address, which names it by URI or by path."""
    if path := visit.query.get("path", "").strip("/"):
        with suppress(Invalid):
            return from_path("file", visit.workspace, path)
    uri = path or visit.required("uri")
    if _workspace_of_code(uri) is None or scheme_of(uri) != "file":
        raise NotFound("this is not a file of the code tree", at=uri[:100], next="Open it from the list of folders.")
    return uri


def _folder(visit: Visit, uri: str) -> str:
    """Return the address of the page of a folder with the path of a file's URI; empty if there is none."""
    folder = from_path("dir", visit.workspace, path_of(uri))
    if not visit.call("get", uris=[folder], include=[])["nodes"]:
        return ""
    return visit.to("areas/folders", path=folder) if visit.can("coverage") else visit.to("node", uri=folder)


# ---- knowledge


def _cards(visit: Visit, code: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> tuple[list[Card], list[Card]]:
    """Return the nodes about the file or its areas, and the nodes related to these. Nodes with lines come first, in the
    order of their lines."""
    notes = {one["uri"]: one for one in code["notes"]}
    found = [one for one in items if one["uri"] != code["uri"] or one.get("summary") or one.get("text")]
    given = {one["uri"] for one in items}
    found += [one | {"kind": one["type"]} for one in code["notes"] if one["uri"] not in given]
    begins = {uri: min(place["first"] for place in places) for uri in notes if (places := _places(notes, uri))}
    found.sort(key=lambda one: begins.get(one["uri"], inf))
    numbers = {one["uri"]: number for number, one in enumerate(found, 1) if one["uri"] in begins}
    stamps = _stamps(visit, [one["uri"] for one in found if "updated" not in notes.get(one["uri"], {})])
    conflicts = {one["uri"]: open_conflicts(visit, one["uri"]) if one.get("conflicts") else () for one in found}
    cards = [
        Card(
            one,
            numbers.get(one["uri"], 0),
            notes.get(one["uri"], {}).get("places", ()),
            notes.get(one["uri"], {}).get("updated") or stamps.get(one["uri"], {}),
            authors_of(visit, conflicts[one["uri"]]),
            disputed_summaries(conflicts[one["uri"]]),
        )
        for one in found
    ]
    own = {*notes, *_areas(visit, code["uri"]), code["uri"]}
    return [one for one in cards if one.item["uri"] in own], [one for one in cards if one.item["uri"] not in own]


def _areas(visit: Visit, uri: str) -> list[str]:
    """Return the URIs of the areas of a file, and of their groups."""
    found = visit.call("query_graph", operation="context", paths=[uri], includeChangelog=False)["data"]
    atoms = [*found["orphanAtoms"], *(atom for one in found["molecules"] for atom in one["atoms"])]
    return [one["id"] for one in (*found["molecules"], *atoms)]


def _places(notes: Mapping[str, Mapping[str, Any]], uri: str) -> list[Mapping[str, Any]]:
    """Return the places of a node that are in the shown text."""
    return [place for place in notes.get(uri, {}).get("places", ()) if "first" in place]


def _stamps(visit: Visit, uris: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the author and the time of each node's last change; without nodes that do not fit into one answer."""
    nodes = visit.tried("get", uris=list(uris), include=[], budget=WALK).get("nodes", ()) if uris else ()
    return {one["uri"]: one["updated"] for one in nodes if "updated" in one}


def _why(visit: Visit, code: Mapping[str, Any], line: int) -> dict[str, Any]:
    """Return the origin of a line, and the knowledge about it."""
    answer = visit.call("context", paths=[f"{code['path']}:{line}"], budget=WHY_BUDGET)
    return {
        "line": line,
        "origin": next(iter(answer.get("lines", ())), None),
        "notes": [one for one in code["notes"] if any(_has(place, line) for place in one["places"])],
        "areas": [one for one in answer["items"] if one["kind"] in AREAS],
        "fact": _fact(visit, code, line),
    }


def _fact(visit: Visit, code: Mapping[str, Any], line: int = 0) -> str:
    """Return the address of a form for a fact that cites the file, or the innermost definition around a line."""
    around = [one for one in code.get("symbols", ()) if one["first"] <= line <= one["last"]]
    symbol = max(around, key=lambda one: one["first"])["name"] if around else ""
    cited = f"{code['path']}#{symbol}" if symbol else code["path"]
    return visit.to("node/new", about=code["uri"], data=mapping_text({"cites": [cited]}))


# ---- code


def _lines(code: Mapping[str, Any], cards: Sequence[Card], first: int, start: int) -> list[Line]:
    """Return the lines from `first` on, of a text that begins at line `start`."""
    if not code.get("text"):
        return []
    rows = highlighted(code["text"], code["path"])[first - start :]
    begins: dict[int, list[Card]] = {}
    cited: set[int] = set()
    for card in cards:
        for place in card.places:
            if "first" in place and place["last"] >= first:
                line = max(place["first"], first)
                cited.update(range(line, place["last"] + 1))
                begins.setdefault(line, []).append(card)
    starts = {first, *begins, *(one["first"] for one in code.get("symbols", ()))}
    return [
        Line(number, row, *_margin(begins.get(number, ())), number in cited, number in starts)
        for number, row in enumerate(rows, first)
    ]


def _margin(cards: Sequence[Card]) -> tuple[tuple[Card, ...], Mapping[str, Any]]:
    """Return the notes that begin at a line, each once, with their authors in the order of the notes and the time of
    the newest note. A note in conflict has the authors of its versions."""
    notes = tuple({card.number: card for card in cards}.values())
    lines = [line for note in notes for line in _authors(note)]
    authors = list({Author.of(line).name: line for line in reversed(lines)}.values())[::-1]
    dates = [_newest(note) for note in notes if note.updated]
    return notes, {"authors": authors, "at": max(dates)} if authors and dates else {}


def _authors(note: Card) -> list[str]:
    return [one["author"] for one in note.version_authors] or [note.updated["by"]] * bool(note.updated)


def _newest(note: Card) -> str:
    """Return the time of the newest version of a note in conflict, otherwise of the note's last change."""
    return max((one["at"] for one in note.version_authors), default="") or str(note.updated["at"])


def _has(place: Mapping[str, Any], line: int) -> bool:
    return "first" in place and place["first"] <= line <= place["last"]


def _line_at(visit: Visit, uri: str, line: int, first: int) -> str:
    """Return the address of a line, on this page, which begins at line `first`, or on another page."""
    is_here = first <= line < first + LINES
    return f"#L{line}" if is_here else f"{visit.to('file', uri=uri, line=line)}#L{line}"


def _imports(visit: Visit, uri: str, direction: str) -> list[tuple[str, str]]:
    """Return the paths and URIs of the files that import this file (``in``), or that it imports (``out``)."""
    answer = visit.tried(
        "traverse",
        start=[uri],
        direction=direction,
        edge_types=["imports"],
        max_depth=1,
        max_nodes=LINKED + 1,
        budget=WALK,
    )
    return sorted((printable(path_of(one["uri"])), one["uri"]) for one in answer.get("nodes", ()) if one.get("via"))


def _folders(visit: Visit, uri: str) -> list[tuple[str, str]]:
    """Return the names and addresses of the folders above a file."""
    segments = segments_of(uri)[:-1] if visit.can("coverage") else []
    above = [build("dir", visit.workspace, segments[: number + 1]) for number in range(len(segments))]
    return [(name_of(one), visit.to("areas/folders", path=one)) for one in above]


ENTRIES = (Entry("file", "file", file),)
