"""This file is where the code is shown with its areas: what is known where, and where nobody has written anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.model.uri import build, scheme_of, segments_of, workspace_of
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.entry import Entry

ROWS = 100
FILES = 50
LISTED = 50
ENTRIES_SHOWN = 20
MOLECULES = 200
ATOM, MOLECULE = "atom", "molecule"
FIELDS = ("name", "paths", "knowledge", "task", "molecule")


def areas(asked: Asked) -> Handled:
    """One folder of the code with what has an area in it; where there is no code here, the areas by name."""
    if not asked.can("coverage"):
        return every(asked)
    order = "gaps" if asked.query.get("order") == "gaps" else "name"
    try:
        answer = asked.call(
            "coverage", path=asked.query.get("path", ""), order=order, limit=ROWS, cursor=asked.query.get("cursor")
        )
    except Invalid as error:
        if error.at:
            raise
        return every(asked, error)
    above = _above(answer.get("folder", {}).get("uri", ""))
    told = {"answer": answer, "order": order, "above": above, "begun": "cursor" in asked.query}
    return Page("areas.html", told | {"makes": asked.may("manage_graph")})


def every(asked: Asked, no_code: KgdError | None = None) -> Handled:
    """All areas by name, or those with some words."""
    kind = MOLECULE if asked.query.get("kind") == MOLECULE else ATOM
    offset, words = _number(asked.query.get("offset", "")), asked.query.get("words", "").strip()
    answer = asked.call(
        "query_graph", operation="search", entityType=kind, query=words or None, limit=LISTED, offset=offset,
        includeChangelog=False,
    )["data"]  # fmt: skip
    told = {"areas": answer[f"{kind}s"], "total": answer["total"], "kind": kind, "offset": offset, "words": words,
            "next": offset + LISTED if offset + LISTED < answer["total"] else 0, "no_code": no_code}  # fmt: skip
    return Page("areas_all.html", told | {"makes": asked.may("manage_graph"), "has_code": asked.can("coverage")})


def area(asked: Asked) -> Handled:
    """One area: what is known there, its files, and what changed and why."""
    uri = asked.required("uri")
    kind = _kind(uri)
    answer = asked.call("query_graph", operation="get", entityType=kind, id=uri, includeChangelog=False)["data"]
    told = {"area": answer[kind], "kind": kind, "members": answer.get("atoms", ()), "files": None, "stale": None}
    if kind == ATOM and asked.can("coverage"):
        told["files"] = _files(asked, answer[kind]["id"])
        told["stale"] = asked.call("get", uris=[uri], include=[])["nodes"][0].get("unverified")
    return Page("areas_one.html", told | _changelog(asked, kind, uri) | {"typed": asked.form, "error": None})


def log(asked: Asked) -> Handled:
    """One more entry of an area's changelog."""
    uri = asked.required("uri")
    asked.call(
        "manage_changelog", operation="append", parentType=_kind(uri), parentId=uri,
        taskId=asked.form.get("task", "").strip(), summary=_plain(asked.form.get("summary", "")),
    )  # fmt: skip
    return Go(asked.to("area", uri=uri), said="Noted in the changelog.")


def new(asked: Asked) -> Handled:
    """The form of a new area, begun with a folder where one is named."""
    asked.form_for("manage_graph")
    path = asked.query.get("path", "").strip("/")
    typed = {"name": path.rpartition("/")[2].capitalize(), "paths": f"{path}/**" if path else ""}
    return Page("areas_new.html", {"typed": typed, "molecules": _molecules(asked), "error": None})


def make(asked: Asked) -> Handled:
    """Make it, and go there; what was refused is shown with what was typed."""
    typed = {name: _plain(asked.form.get(name, "")) for name in FIELDS}
    try:
        done = asked.call(
            "manage_graph", operation="create", entityType=ATOM, name=typed["name"], knowledge=typed["knowledge"],
            paths=[line.strip() for line in typed["paths"].splitlines() if line.strip()],
            createdByTaskId=typed["task"], moleculeId=typed["molecule"] or None,
        )  # fmt: skip
    except KgdError as error:
        told = {"typed": typed, "molecules": _molecules(asked), "error": error}
        return Page("areas_new.html", told, status=422)
    return Go(asked.to("area", uri=done["data"][ATOM]["id"]), said="The area is made.")


def _files(asked: Asked, uri: str) -> Mapping[str, Any] | None:
    """A page of its files; None where there is no code tree to have any."""
    try:
        return asked.call("coverage", area=uri, limit=FILES, cursor=asked.query.get("cursor"))
    except Invalid:
        return None


def _changelog(asked: Asked, kind: str, uri: str) -> dict[str, Any]:
    offset = _number(asked.query.get("entries", ""))
    found = asked.call(
        "manage_changelog", operation="search", parentType=kind, parentId=uri, limit=ENTRIES_SHOWN, offset=offset
    )["data"]
    older = offset + ENTRIES_SHOWN if offset + ENTRIES_SHOWN < found["total"] else 0
    return {"entries": found["entries"], "entries_total": found["total"], "older": older, "offset": offset}


def _molecules(asked: Asked) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = asked.call(
        "query_graph", operation="search", entityType=MOLECULE, limit=MOLECULES, includeChangelog=False
    )["data"]["molecules"]
    return found


def _above(uri: str) -> list[tuple[str, str]]:
    """The folders on the way to this one, each with its URI; the top is not among them."""
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
        raise NotFound("this is no area", at=uri[:100], next="Choose one from the list of areas.")
    return kind


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


ENTRIES = (
    Entry("areas", "areas", areas),
    Entry("areas", "areas/all", every),
    Entry("areas", "areas/new", new),
    Entry("areas", "areas/new", make, ("POST",)),
    Entry("areas", "area", area),
    Entry("areas", "area/log", log, ("POST",)),
)
