"""Reading of nodes for pages: a whole node and its relations, and the rows of a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from kgd.drawing import shown_type
from kgd.errors import KgdError, NotFound
from kgd.freshness.citations import parse
from kgd.memories.tasks import FILES, items, read_paths, sections_in
from kgd.model.fields import CITES
from kgd.model.uri import CODE_TREE, build, is_owned, name_of, path_of, scheme_of, segments_of, uri_at, workspace_of
from kgd.tools import addressing
from kgd.tools.nodes import OWN_CLIENTS, SERVED
from kgd.ui.highlighting import highlighted
from kgd.ui.visit import Visit

WHOLE = 10_000
"""Token budget of one answer."""
MOST_ANSWERS = 60
"""Largest number of answers for one node; content and detail need about 20."""
PAGE = 2_500
"""Token budget of one page of relations, about 80 of them."""
NAMED = 100
ROWS = 100_000
"""Token budget of the nodes of a list, without their content."""
AREA, SYMBOL = "atom", "symbol"
AREAS = (AREA, "molecule")
DERIVED = ("file", "dir", "symbol", "document", "chunk", "thread", "message")
"""Schemes of nodes from the code tree and from imports."""
BESIDE = 2
"""Largest number of citations that a page shows beside a change, and of cited files whose other facts it lists."""
_CHANGED_IN = re.compile(r"changed in ([0-9a-f]{10})\Z").match
LOOKED_AT = 20
"""Largest number of a node's commits in which a page looks for the author of a field."""
MOST_CONFLICTS = 5
"""Largest number of conflicts of a node, and of nodes in a list, whose authors a page names."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A node that does not exist."""

    uri: str
    similar: tuple[str, ...] = ()
    invalid_file: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """One page of a node's relations in one direction. `of` is their total number."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    start: int = 0
    of: int = 0
    cursor: str = ""

    @property
    def groups(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The rows by type of relation; types and rows in the order of the rows."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows:
            found.setdefault(row["type"], []).append(row)
        return list(found.items())


@dataclass(frozen=True, slots=True)
class DisputedSummary:
    """A side of a conflict about a summary."""

    letter: str
    text: str
    author: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A node in a list, the same on all pages; the macro `node_row` renders it.

    `path` is its namespace and name; empty without a namespace. The node cites `files`, or is related to them or to
    `areas`; each is a path or name with its URI. `updated` is its last change, as in the answer of `get`. For a node in
    conflict, `version_authors` are the authors of its versions, `summaries` are the versions of its summary if they
    differ, and `updated` has the time of the newest version. The macro `states` renders the marks:
    `unverified`, `conflicts`, `lapsed`, the successor (`superseded_by`) and the ids of open `proposals`.
    """

    uri: str
    name: str
    type: str
    summary: str = ""
    path: str = ""
    files: tuple[tuple[str, str], ...] = ()
    areas: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    updated: Mapping[str, str] = field(default_factory=dict)
    unverified: Mapping[str, Any] | None = None
    conflicts: int = 0
    version_authors: tuple[str, ...] = ()
    summaries: tuple[DisputedSummary, ...] = ()
    lapsed: str = ""
    superseded_by: Mapping[str, str] | None = None
    proposals: tuple[str, ...] = ()


def whole(visit: Visit, uri: str, *beside: str, as_of: str | None = None) -> dict[str, Any] | Missing:
    """Return a node with all of its content, and the parts named in `beside`.

    Raises:
        KgdError: As `get` raises.
    """
    for _ in range(3):
        node = _whole(visit, uri, beside, as_of)
        if node is not None:
            return node
    raise NotFound("this node changes faster than it can be read", at=uri, next="Reload the page.")


def _whole(visit: Visit, uri: str, beside: tuple[str, ...], as_of: str | None) -> dict[str, Any] | Missing | None:
    """Return None if the node changed during the read."""
    question: dict[str, Any] = {
        "uris": [uri],
        "include": ["content", *beside],
        "as_of": as_of,
        "budget": WHOLE,
    }
    answer = visit.call("get", **question)
    if not answer["nodes"]:
        lacking = answer["missing"][0]
        return Missing(lacking["uri"], tuple(lacking["similar"]), lacking.get("invalid_file"))
    node: dict[str, Any] = {"content": "", **answer["nodes"][0]}
    for _ in range(MOST_ANSWERS):
        if not (cursor := answer.get("cursor")):
            break
        answer = visit.call("get", **question, cursor=cursor)
        more = answer["nodes"][0] if answer["nodes"] else {}
        if more.get("version") != node["version"]:
            return None
        node["content"] += more.get("content", "")
        if "relations" in more:
            node["relations"] = [*node.get("relations", ()), *more["relations"]]
        if detail := more.get("detail"):
            before = node["detail"]["text"] if "detail" in node else ""
            node["detail"] = {**detail, "text": before + detail["text"]}
    for cut in ("content_cut", "detail_cut", "relations_cut"):
        node.pop(cut, None)
    return node


def links(visit: Visit, uri: str, way: str, cursor: str | None = None, as_of: str | None = None) -> Links:
    """Return a page of a node's relations; `way` is ``relations`` or ``incoming``."""
    answer = visit.call("get", uris=[uri], include=[way], budget=PAGE, cursor=cursor, as_of=as_of)
    node = answer["nodes"][0] if answer["nodes"] else {}
    rows = [dict(row) for row in node.get(way, ())]
    other = "target" if way == "relations" else "source"
    known = names(visit, [row[other] for row in rows], as_of)
    for row in rows:
        end, card, home = row[other], known.get(row[other]), workspace_of(row[other])
        shown = {"type": scheme_of(end), **(card or {}), "uri": end}
        row |= {
            "other": end,
            "card": card,
            "name": (card or {}).get("name") or name_of(end),
            "type_of": "missing" if row.get("broken") else shown_type(shown),
            "foreign": home if home not in (None, visit.workspace) else "",
        }
    cut = node.get(f"{way}_cut", {})
    return Links(rows, cut.get("start", 0), cut.get("of", len(rows)), answer.get("cursor", ""))


def cited(visit: Visit, uri: str, as_of: str | None = None) -> list[dict[str, Any]]:
    """Return the citations of a node, each with the highlighted lines of its code."""
    answer = visit.call("get", uris=[uri], include=["citations"], as_of=as_of, budget=WHOLE)
    found = answer["nodes"][0].get("citations", []) if answer["nodes"] else []
    changes = cache(partial(_changes_of, visit))  # several citations may be of one file
    return [
        {**one, "lines": highlighted(one["code"], one["file"]) if "code" in one else (), **_commit_of(one, changes)}
        for one in found
    ]


def _changes_of(visit: Visit, file: str) -> Sequence[Mapping[str, Any]]:
    """Return the recent changes of a file; none if it has been deleted, or the visitor may not see them."""
    found: Sequence[Mapping[str, Any]] = visit.tried("context", paths=[file], budget=PAGE).get("changes", ())
    return found


def _commit_of(one: Mapping[str, Any], changes: Callable[[str], Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Return the commit that changed a citation, with its subject, if the page of the file lists it."""
    if found := _CHANGED_IN(one.get("reason", "")):
        for change in changes(one["file"]):
            if change.get("commit", "").startswith(found[1]):
                return {"commit": change["commit"], "subject": change["what"]}
    return {}


def code_beside(visit: Visit, uri: str) -> list[dict[str, Any]]:
    """Return the first citations of a node that have code; none if the visitor may not see code or the node."""
    try:
        return [one for one in cited(visit, uri) if one["lines"] or one.get("diff")][:BESIDE]
    except KgdError:
        return []


def open_conflicts(visit: Visit, uri: str) -> Sequence[Mapping[str, Any]]:
    """Return the first open conflicts of a node; none if it is deleted, the visitor may not see them, or they cannot be
    read."""
    found: Sequence[Mapping[str, Any]] = visit.tried("conflicts", uri=uri, limit=MOST_CONFLICTS).get("conflicts", ())
    return found


def version_authors(visit: Visit, node: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the authors of the versions of a node in conflict, with the time of each, newest first; empty if the
    visitor may not see the conflicts, or they cannot be read."""
    return authors_of(visit, open_conflicts(visit, node["uri"])) if node.get("conflicts") else []


def authors_of(visit: Visit, conflicts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the authors of the sides of a node's conflicts and of later texts, with the time of each, newest first."""
    fields = [field for one in conflicts for field in one["fields"].values()]
    sides = [side for field in fields for side in field["sides"] if side.get("author")]
    sides += [later for one in conflicts for later in written_since(visit, one).values() if later]
    newest = {side["author"]: side for side in sorted(sides, key=lambda side: str(side.get("at", "")))}
    return [{"author": author, "at": side.get("at", "")} for author, side in reversed(newest.items())]


def written_since(visit: Visit, conflict: Mapping[str, Any]) -> dict[str, Mapping[str, Any] | None]:
    """Return the disputed fields that have been written since, so that none of the sides is shown, each with its newest
    commit; None if that is not among the last `LOOKED_AT` of the node."""
    fields = [name for name, field in conflict["fields"].items() if not field["shown"]]
    answer = visit.tried("history", uri=conflict["uri"], diff=True, limit=LOOKED_AT) if fields else {}
    commits = answer.get("commits", ())
    return {
        name: next((one for one in commits if any(name in of["fields"] for of in one["diff"])), None) for name in fields
    }


def disputed_summaries(conflicts: Sequence[Mapping[str, Any]]) -> tuple[DisputedSummary, ...]:
    """Return the sides of a disputed summary; empty if it has no conflict, or has been written since."""
    found = next((one["fields"]["summary"] for one in conflicts if "summary" in one["fields"]), None)
    if found is None or not found["shown"]:
        return ()
    return tuple(
        DisputedSummary(side["side"], str(side["value"] or ""), side.get("author", ""), side["side"] == found["shown"])
        for side in found["sides"]
    )


def others_about_code(
    visit: Visit, node: Mapping[str, Any], cites: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return other nodes about the files that a node cites; none if the visitor may not see code."""
    found: dict[str, dict[str, Any]] = {}
    for uri in list(dict.fromkeys(one["file"] for one in cites))[:BESIDE] if visit.can("code_file") else ():
        notes = visit.tried("code_file", uri=uri, limit=0).get("notes", ())
        found |= {one["uri"]: one for one in notes if one["uri"] != node["uri"]}
    return list(found.values())


def names(visit: Visit, uris: Iterable[str], as_of: str | None = None) -> dict[str, dict[str, Any]]:
    """Return name, type and summary of the first `NAMED` nodes of this workspace that exist, and whether each has an
    open conflict, as `is_disputed`.

    A refused call returns no names, because names only help the reader.
    """
    here = [uri for uri in dict.fromkeys(uris) if workspace_of(uri) in (None, visit.workspace)][:NAMED]
    if not here:
        return {}
    answer = visit.tried("traverse", start=here, max_depth=0, max_nodes=NAMED, budget=WHOLE, as_of=as_of)
    disputed = {one["uri"] for one in answer.get("conflicts", ())}
    cards = [{**one, "is_disputed": one["uri"] in disputed} for one in answer.get("nodes", ())]
    found = {one["uri"]: one for one in cards}
    return found | {old: one for one in cards for old in one.get("asked", ())}


def listed(visit: Visit, found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each node, in the same order. Costs at most two calls of `get`, one for names of areas, and one
    for the authors of each of the first `MOST_CONFLICTS` nodes in conflict.

    Args:
        found: Nodes of this workspace from any answer, with at least `uri`. If `get` is refused, a row has only these
            fields.
    """
    rows = {one["uri"]: _row(one) for one in found}
    nodes: dict[str, Mapping[str, Any]] = {}
    for parts in (["relations", "proposals"], ["proposals"]):  # without relations if the first answer has no room
        left = [uri for uri in rows if uri not in nodes and scheme_of(uri) not in SERVED]
        if not left:
            break
        answer = visit.tried("get", uris=left, include=parts, budget=ROWS)
        nodes |= {one.get("asked", one["uri"]): one for one in answer.get("nodes", ())}
        if not answer.get("cursor"):
            break
    known = titles(visit, (uri for one in nodes.values() for uri in _targets(one) if scheme_of(uri) == AREA))
    rows |= {uri: _with_details(visit, rows[uri], node, known) for uri, node in nodes.items() if uri in rows}
    for uri in [uri for uri, row in rows.items() if row.conflicts][:MOST_CONFLICTS]:
        conflicts = open_conflicts(visit, nodes[uri]["uri"])
        authors = authors_of(visit, conflicts)
        rows[uri] = replace(
            rows[uri],
            version_authors=tuple(one["author"] for one in authors),
            summaries=disputed_summaries(conflicts),
            updated={**rows[uri].updated, **({"at": authors[0]["at"]} if authors and authors[0]["at"] else {})},
        )
    return [rows[one["uri"]] for one in found]


def _row(found: Mapping[str, Any]) -> Row:
    uri, scheme = found["uri"], scheme_of(found["uri"])
    name = found.get("name") or name_of(uri)
    path = path_of(uri) if is_owned(uri) else uri
    if scheme == SYMBOL:
        path = path.rpartition("/")[0]
    elif scheme in AREAS:
        path = ""
    return Row(
        uri,
        name,
        shown_type({"uri": uri, "type": found.get("type") or scheme}),
        lead({**found, "name": name}),
        "" if path == name else path,
        updated=found.get("updated", {}),
        unverified=found.get("unverified"),
        lapsed=found.get("lapsed", ""),
        superseded_by=found.get("superseded_by"),
    )


def _with_details(visit: Visit, row: Row, node: Mapping[str, Any], known: Mapping[str, str]) -> Row:
    cites = node.get("data", {}).get(CITES)
    texts = [one for one in (cites if isinstance(cites, list) else [cites]) if isinstance(one, str)]
    cited = filter(None, (parse(one, visit.workspace) for one in texts))
    files = {
        one.path: uri_at("dir" if one.text.endswith("/") else "file", visit.workspace, one.path) or "" for one in cited
    }
    for path in chain.from_iterable(map(read_paths, _listed_files(node))):
        if "*" not in path and (file := uri_at("file", visit.workspace, path.removeprefix("./"))):
            files.setdefault(path_of(file), file)
    for uri in _targets(node):
        if scheme_of(uri) in ("file", "dir") and workspace_of(uri) == visit.workspace:
            files.setdefault(path_of(uri) or "/", uri)
    areas = tuple((known[uri], uri) for uri in _targets(node) if uri in known and uri != row.uri)
    return replace(
        _row({**node, "uri": row.uri}),
        path=row.path if "/" in row.path else "",
        files=tuple(files.items()),
        areas=areas,
        tags=tuple(node.get("tags", ())),
        conflicts=len(node.get("conflicts", ())),
        proposals=tuple(node.get("proposals", ())),
    )


def _listed_files(node: Mapping[str, Any]) -> Iterable[str]:
    """The items of the section of a task that lists files."""
    sections = sections_in(node.get("data", {}).get("sections")) if node.get("type") == "task" else ()
    return chain.from_iterable(items(one.content) for one in sections if one.title == FILES)


def _targets(node: Mapping[str, Any]) -> Iterable[str]:
    return dict.fromkeys(one["target"] for one in node.get("relations", ()))


def lead(found: Mapping[str, Any]) -> str:
    """Return the summary to show below a node's name, which is its title everywhere; empty if it repeats the name."""
    summary = str(found.get("summary") or "")
    return "" if summary.rstrip(".") == str(found.get("name") or "").rstrip(".") else summary


def below(summary: str, content: str) -> str:
    """Return the content without its first paragraph if that repeats the summary.

    >>> below("Keys rotate", "Keys rotate.\n\nEvery night.\n")
    'Every night.\n'
    """
    first, _, rest = content.lstrip().partition("\n\n")
    return rest if " ".join(first.split()).rstrip(".") == summary.rstrip(".") else content


def way_to(visit: Visit, uri: str) -> list[tuple[str, str]]:
    """Return the breadcrumbs of a page about a node: titles and addresses from the workspace to the node. The page's
    address may have a short form of the URI, such as ``services/auth``."""
    session = visit.session()
    uri = addressing.resolve(session, addressing.choose(session, visit.workspace), uri)
    (row,) = listed(visit, [{"uri": uri}])
    area = [(name, visit.to("area", uri=of)) for name, of in row.areas[:1]]
    is_area = bool(area) or scheme_of(uri) in AREAS
    between = [("Areas", visit.to("areas")), *area] if is_area else above(visit, uri)
    return [(visit.workspace, visit.to("overview")), *between, (row.name, visit.to("node", uri=uri))]


def above(visit: Visit, uri: str) -> list[tuple[str, str]]:
    """Return the parts of a node's path above it, each with the address of its node or, if there is none, of a search
    below it. The parts above a file are its folders."""
    scheme, home = "dir" if scheme_of(uri) == "file" else scheme_of(uri), workspace_of(uri)
    if home != visit.workspace or (scheme in DERIVED and scheme != "dir"):
        return []
    segments = segments_of(uri)[:-1]
    parts = [build(scheme, home, segments[: number + 1]) for number in range(len(segments))]
    known = names(visit, parts)
    return [
        (
            name_of(one),
            visit.to("node", uri=one) if one in known else visit.to("search", q=name_of(one), **{"in": path_of(one)}),
        )
        for one in parts
    ]


def titles(visit: Visit, uris: Iterable[str]) -> dict[str, str]:
    """Return the names of nodes, as `names` does."""
    return {uri: card.get("name", "") for uri, card in names(visit, uris).items()}


def by_line(commit: Mapping[str, Any]) -> str:
    """Return the author with an agent's program, and the token that pushed the commit: the author alone is not
    authenticated."""
    client = commit.get("client", "")
    name = str(commit["author"]) if client in OWN_CLIENTS else f"{commit['author']} ({client})"
    return f"{name}, pushed by {commit['pushed_by']}" if commit.get("pushed_by") else name


def begins(typed: Sequence[str], text: str) -> bool:
    """Whether each typed word begins a word of a text. The typed words are in lower case."""
    own = re.split(r"[\W_]+", text.casefold())
    return all(one in text.casefold() if not one.isalnum() else any(w.startswith(one) for w in own) for one in typed)


def is_called(uri: str, text: str) -> bool:
    """Whether a text is the path of this file or folder, its end, or the file's name; case does not matter."""
    scheme = scheme_of(uri)
    text = text.strip("`\"'()? ").removeprefix("./").rstrip("/").casefold()
    if scheme not in CODE_TREE or not text or (scheme == "dir" and "/" not in text):
        return False
    return f"/{path_of(uri).casefold()}".endswith(f"/{text}")
