"""The pages *Areas*: the list of areas, coverage of the code by folder, one area, and a form for a new area."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.model.uri import build, from_path, scheme_of, segments_of, workspace_of
from kgd.tools.operation import Answer
from kgd.ui.node_reading import Row, lead, listed, titles
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit
from kgd.ui.words import labelled

ORDERS = {"gaps": "Uncovered first", "covered": "Covered first", "name": "By name"}
ROWS = 100
FACTS = 20
FILES = 20
LISTED = 50
OPENED = 20
"""Largest number of folders that are opened in the table of another one."""
LITTLE = 2
"""Percentage of changed lines up to which the code of an area counts as unchanged."""
GAPS = 6
"""Largest number of files and folders with the lowest coverage that the list of areas names."""
MEMBERS = 4
"""Largest number of areas that the list of groups names in each."""
LOOKED_UP = 5_000
"""Largest number of files and facts that the list of areas counts."""
ENTRIES_SHOWN = 20
MOLECULES = 200
ATOM, MOLECULE = "atom", "molecule"
FIELDS = ("name", "paths", "knowledge", "task", "molecule")
OF_FOLDERS = frozenset({"path", "order", "cursor"})
"""Parts of older addresses of the folders, which were at the address of the list."""
_PARAGRAPH = re.compile(r"(?:\s*#.*\n)*\s*(?:[-*+>] |\d+[.)] )?(.+(?:\n(?!\s*(?:[-*+>#] |\d+[.)] |\n)).+)*)")
"""The first paragraph or item of a text in Markdown, after its headings."""
_MARKUP = re.compile(r"\*{1,3}|!?\[+([^\]|]*\|)?([^\]]*)\]+(?:\([^)]*\))?")
"""Emphasis and links in Markdown; group 2 is the text of a link."""
RULE = 300
"""Largest number of characters of an area's rules in the list."""


def areas(visit: Visit) -> Handled:
    """List the areas or their groups by name, or search them by words; show the files without an area."""
    if OF_FOLDERS & visit.query.keys():
        return Redirect(visit.to("areas/folders", **visit.query))
    kind = MOLECULE if visit.query.get("kind") == MOLECULE else ATOM
    offset, words = visit.number("offset"), visit.query.get("words", "").strip()
    answer = _searched(visit, kind, limit=LISTED, offset=offset, query=words or None)
    found = answer[f"{kind}s"]
    told = {
        "areas": [
            one | {"row": row, "rule": _rule(one["knowledge"])}
            for one, (row, _) in zip(found, _areas(visit, found), strict=True)
        ],
        "known": known_facts(visit, answer["atoms"]) if kind == ATOM else {},
        "groups": titles(visit, filter(None, (one.get("moleculeId") for one in found))),
        "members": {
            one["id"]: _searched(visit, ATOM, limit=MEMBERS, moleculeId=one["id"])
            for one in answer.get("molecules", ())
        },
        "coverage": coverage_of(visit),
        "total": answer["total"],
        "kind": kind,
        "offset": offset,
        "words": words,
        "next": offset + LISTED if offset + LISTED < answer["total"] else 0,
    }
    return Page("areas.html", told | {"makes": visit.may("manage_graph")})


def every(visit: Visit) -> Handled:
    """Redirect the older address of the list."""
    return Redirect(visit.to("areas", **visit.query))


def folders(visit: Visit) -> Handled:
    """Show the coverage of one folder of the code; without code, the list of areas."""
    if not visit.can("coverage"):
        return Redirect(visit.to("areas"))
    order = asked if (asked := visit.query.get("order")) in ORDERS else next(iter(ORDERS))
    try:
        answer = visit.call(
            "coverage", path=visit.query.get("path", ""), order=order, limit=ROWS, cursor=visit.query.get("cursor")
        )
    except Invalid as error:
        if error.at:
            raise
        return Redirect(visit.to("areas"))
    told = {
        "answer": answer,
        "order": order,
        "orders": ORDERS,
        "above": _above(answer.get("folder", {}).get("uri", "")),
        "begun": "cursor" in visit.query,
        "entries": list(_tree(visit, answer, order)),
        "opened": visit.many("open")[:OPENED],
        "shows_moved": _shows_moved(answer),
        "makes": visit.may("manage_graph"),
    }
    return Page("areas_folders.html", told)


def _tree(visit: Visit, answer: Mapping[str, Any], order: str, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a folder and, below each opened folder, its rows. `left` are the entries that a folder has
    beyond its rows."""
    for one in _entries(answer, order):
        is_open = not one.get("is_file") and one["uri"] in visit.many("open")[:OPENED]
        yield {**one, "depth": depth, "is_open": is_open}
        if is_open:
            inside = visit.call("coverage", path=one["uri"], order=order, limit=ROWS)
            yield from _tree(visit, inside, order, depth + 1)
            if left := inside["total"] - len(inside["folders"]) - len(inside["files"]):
                yield {"left": left, "uri": one["uri"], "name": one["name"], "depth": depth + 1}


def _shows_moved(answer: Mapping[str, Any]) -> bool:
    """Whether to list the areas whose code moved most: not if each of them shows at most `LITTLE` percent."""
    moved = answer.get("moved")
    if not moved:
        return moved is not None
    return any(round(100 * one["changed"] / max(1, one["lines"])) > LITTLE for one in moved)


def _entries(answer: Mapping[str, Any], order: str) -> list[Mapping[str, Any]]:
    """Return the folders and files in the order of the tool, a file with its own coverage."""
    files = [one | {"files": 1, "covered": int(bool(one["areas"])), "is_file": True} for one in answer["files"]]
    entries = [*answer["folders"], *files]
    if order == "gaps":
        entries.sort(key=lambda one: one["covered"] / one["files"] if one["files"] else 1)
    return entries


def coverage_of(visit: Visit) -> Mapping[str, Any] | None:
    """Return the coverage of the code by areas, and as `gaps` the entries of its top folder with the lowest coverage;
    None without code or permission."""
    if not visit.can("coverage"):
        return None
    answer = visit.tried("coverage", order="gaps", limit=GAPS)
    if not (folder := answer.get("folder")) or not folder["files"]:
        return None
    return {**folder, "gaps": [one for one in _entries(answer, "gaps") if one["covered"] < one["files"]]}


def area(visit: Visit) -> Handled:
    """Show one area: its rules, the facts about its files, the files, and its changelog."""
    uri = visit.required("uri")
    kind = _kind(uri)
    answer = visit.call("query_graph", operation="get", entityType=kind, id=uri, includeChangelog=False)["data"]
    (node,) = visit.call("get", uris=[uri], include=["proposals"])["nodes"]
    members = _areas(visit, answer.get("atoms", ()))
    related = [*(answer[kind].get("relatedAtoms") or ()), *(answer[kind].get("relatedMolecules") or ())]
    around = [answer[kind].get("moleculeId"), *(one.get("atomId") or one.get("moleculeId") for one in related)]
    told = {
        "area": answer[kind],
        "kind": kind,
        "members": members,
        "summary": lead(node),
        "node": node,
        "files": None,
        "files_begun": "cursor" in visit.query,
        "stale": None,
        "facts": None,
        "named": titles(visit, filter(None, around)),
        "typed": visit.form,
        "error": None,
    }
    if kind == ATOM and visit.can("coverage"):
        facts = visit.call("area_facts", area=uri, limit=FACTS, cursor=visit.query.get("facts"))
        told |= {
            "files": _files(visit, answer[kind]["id"]),
            "stale": node.get("unverified"),
            "facts": facts,
            "rows": list(_facts(visit, uri, facts["facts"])),
            "facts_begun": "facts" in visit.query,
        }
    return Page("areas_one.html", told | _changelog(visit, kind, uri))


def log(visit: Visit) -> Handled:
    """Add an entry to an area's changelog."""
    uri = visit.required("uri")
    visit.call(
        "manage_changelog",
        operation="append",
        parentType=_kind(uri),
        parentId=uri,
        taskId=visit.text("task"),
        summary=visit.text("summary"),
    )
    return Redirect(visit.to("area", uri=uri), said="Added to the changelog.")


def new(visit: Visit) -> Handled:
    """Show the form of a new area, filled in for a folder or a file if the address names one."""
    visit.form_for("manage_graph")
    path, file = (visit.query.get(name, "").strip("/") for name in ("path", "file"))
    stem = (path or file).rpartition("/")[2].partition(".")[0]
    typed = {"name": stem.capitalize(), "paths": file or (f"{path}/**" if path else "")}
    return Page("areas_new.html", {"typed": typed, "molecules": _molecules(visit), "error": None})


def make(visit: Visit) -> Handled:
    """Create an area; an error shows the form again with its texts."""
    typed = {name: visit.text(name) for name in FIELDS}
    try:
        done = visit.call(
            "manage_graph",
            operation="create",
            entityType=ATOM,
            name=typed["name"],
            knowledge=typed["knowledge"],
            paths=[line.strip() for line in typed["paths"].splitlines() if line.strip()],
            createdByTaskId=typed["task"],
            moleculeId=typed["molecule"] or None,
        )
    except KgdError as error:
        told = {"typed": typed, "molecules": _molecules(visit), "error": labelled(error, paths="File patterns")}
        return Page("areas_new.html", told, status=422)
    return Redirect(visit.to("area", uri=done["data"][ATOM]["id"]), said="Area created.")


def _areas(visit: Visit, found: Sequence[Mapping[str, Any]]) -> list[tuple[Row, list[str]]]:
    """Return the row and the patterns of each area."""
    rows = listed(visit, [{"uri": one["id"], "name": one["name"]} for one in found])
    return [
        (replace(row, path="", files=(), areas=()), one.get("paths") or [])
        for row, one in zip(rows, found, strict=True)
    ]


def known_facts(visit: Visit, found: Sequence[Mapping[str, Any]]) -> dict[str, Answer]:
    """Return the number of facts, the authors and the number of files of each area, until `LOOKED_UP` files and facts
    have been counted."""
    known: dict[str, Answer] = {}
    looked_up = 0
    for one in found if visit.can("coverage") else ():
        if not (answer := visit.tried("area_facts", area=one["id"], limit=1)):
            continue
        known[one["id"]] = answer
        looked_up += answer["files"] + answer["total"]
        if looked_up > LOOKED_UP:
            break
    return known


def _searched(visit: Visit, kind: str, **arguments: Any) -> Answer:
    """Return areas or groups without their changelogs, and their total number."""
    found: Answer = visit.call("query_graph", operation="search", entityType=kind, includeChangelog=False, **arguments)[
        "data"
    ]
    return found


def _rule(knowledge: str) -> str:
    """Return the beginning of an area's rules, without headings, emphasis and links.

    >>> _rule("# Money\\n\\nAmounts are *cents*, see [[rounding]].\\nRound once.\\n\\nMore")
    'Amounts are cents, see rounding. Round once.'
    """
    found = _PARAGRAPH.match(knowledge[: 4 * RULE])
    return " ".join(_MARKUP.sub(r"\2", found[1]).split())[:RULE] if found else ""


def _facts(visit: Visit, area: str, found: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Return the row of each fact, with its files in the area first."""
    for row, one in zip(listed(visit, found), found, strict=True):
        files = {path: from_path("file", visit.workspace, path) for path in one["files"]} | dict(row.files)
        others = tuple((name, uri) for name, uri in row.areas if uri != area)
        yield replace(row, files=tuple(files.items()), areas=others)


def _files(visit: Visit, uri: str) -> Mapping[str, Any] | None:
    """Return a page of an area's files; None without a code tree."""
    try:
        return visit.call("coverage", area=uri, limit=FILES, cursor=visit.query.get("cursor"))
    except Invalid:
        return None


def _changelog(visit: Visit, kind: str, uri: str) -> dict[str, Any]:
    offset = visit.number("entries")
    found = visit.call(
        "manage_changelog", operation="search", parentType=kind, parentId=uri, limit=ENTRIES_SHOWN, offset=offset
    )["data"]
    older = offset + ENTRIES_SHOWN if offset + ENTRIES_SHOWN < found["total"] else 0
    return {"entries": found["entries"], "entries_total": found["total"], "older": older, "offset": offset}


def _molecules(visit: Visit) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = _searched(visit, MOLECULE, limit=MOLECULES)["molecules"]
    return found


def _above(uri: str) -> list[tuple[str, str]]:
    """Return the path to a folder below the root: names and URIs."""
    if not uri:
        return []
    names = segments_of(uri)
    return [
        (name.decode("utf-8", "replace"), build("dir", workspace_of(uri) or "", names[: number + 1]))
        for number, name in enumerate(names)
    ]


def _kind(uri: str) -> str:
    kind = scheme_of(uri) if ":" in uri else ""
    if kind not in (ATOM, MOLECULE):
        raise NotFound("this is not an area", at=uri[:100], next="Choose an area from the list.")
    return kind


ENTRIES = (
    Entry("areas", "areas", areas),
    Entry("areas", "areas/all", every),
    Entry("areas", "areas/folders", folders),
    Entry("areas", "areas/new", new),
    Entry("areas", "areas/new", make, ("POST",)),
    Entry("areas", "area", area),
    Entry("areas", "area/log", log, ("POST",)),
)
