"""This file is where one node is shown whole: what it says, what it leads to, who wrote it, and what can be done."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import unquote

from kgd.errors import KgdError
from kgd.freshness.citations import parse
from kgd.model.uri import from_path, scheme_of
from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.changes import deed_of
from kgd.ui.entry import Entry
from kgd.ui.reading import Links, Missing, links, names, whole
from kgd.ui.values import as_text

FEW = 5
LOOKED_THROUGH = 5
"""Answers of history that are read to find what came before and after the commit that is looked at."""
FORMS = ("relate", "append", "move")
"""What the address may ask for as `do`."""
OWN_PLACE = ("cites", "verified")
"""Keys of the data that the page shows elsewhere, as what the node says of the code."""
TALK = ("thread", "message")


def node(asked: Asked) -> Handled:
    """The page of one node; as of a commit nothing can be done to it there."""
    uri, as_of = asked.required("uri"), asked.query.get("as_of")
    found = whole(asked, uri, *(("history", "mentions") if not as_of else ()), as_of=as_of)
    if isinstance(found, Missing):
        return missing(asked, found, as_of)
    return Page("node.html", told(asked, found, as_of))


def told(asked: Asked, found: dict[str, Any], as_of: str | None = None) -> dict[str, Any]:
    """What the page is told of a node; also where a form of it was refused."""
    uri = found["uri"]
    data = found.get("data", {})
    writes = asked.may("put") and not as_of
    wanted = asked.query.get("do") or asked.form.get("do", "")
    answer: dict[str, Any] = {
        "node": found, "as_of": found["origin"].get("commit", "") if as_of else "", "writes": writes,
        "out": page_of_links(asked, uri, "relations", "out", as_of),
        "into": page_of_links(asked, uri, "incoming", "into", as_of),
        "data_shown": [(key, as_text(value)) for key, value in data.items() if key not in OWN_PLACE],
        "cites": cited(asked, data), "do": wanted if writes and wanted in (*FORMS, "relation") else "",
        "is_talk": scheme_of(uri) in TALK, "may_verify": writes and asked.may_do_all and bool(data.get("cites")),
        "typed": {}, "refused": None, "deed_of": deed_of,
        "change_at": lambda one: asked.to(
            "node", uri=uri, do="relation", type=one["type"], target=one["target"], weight=one["weight"]
        ) + "#do",
        "more_out": lambda cursor: asked.to("node", uri=uri, as_of=as_of, out=cursor) + "#out",
        "more_into": lambda cursor: asked.to("node", uri=uri, as_of=as_of, into=cursor) + "#into",
    }  # fmt: skip
    mentions = found.get("mentions", {})
    known = names(asked, [*mentions.get("out", ()), *mentions.get("into", ())])
    answer["named"] = {one: card["name"] for one, card in known.items()}
    if as_of:
        answer |= beside(asked, uri, answer["as_of"])
    if answer["do"] == "relation":
        answer["typed"] = {name: asked.query.get(name, "") for name in ("type", "target", "weight")}
    return answer


def page_of_links(asked: Asked, uri: str, way: str, name: str, as_of: str | None) -> Links:
    return links(asked, uri, way, asked.query.get(name), as_of)


def cited(asked: Asked, data: dict[str, Any]) -> list[dict[str, Any]]:
    """What a node cites of the code, each with the file's page and whether anybody ever checked it."""
    given = data.get("cites")
    texts = [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]
    notes = data.get("verified")
    keys = [str(key) for key in notes] if isinstance(notes, dict) else []
    return [
        {"text": text, "file": file_of(asked, text), "was_checked": any(key.startswith(f"{text}@") for key in keys)}
        for text in texts
    ]


def file_of(asked: Asked, citation: str) -> str:
    """The file that a citation begins with; empty where that is none."""
    found = parse(citation, asked.workspace)
    try:
        return from_path("file", asked.workspace, found.path) if found else ""
    except KgdError:
        return ""


def missing(asked: Asked, lacking: Missing, as_of: str | None) -> Handled:
    """A page that says that nobody has written this yet, with all that is known of it."""
    commits: list[dict[str, Any]] = []
    with contextlib.suppress(KgdError):  # what may not be asked was never there for them
        commits = list(asked.call("history", uri=lacking.uri, limit=FEW)["commits"])
    return Page(
        "node_missing.html",
        {"missing": lacking, "as_of": as_of or "", "commits": commits, "writes": asked.may("put"),
         "name": unquote(lacking.uri.rpartition("/")[2])},
    )  # fmt: skip


def beside(asked: Asked, uri: str, commit: str) -> dict[str, Any]:
    """The versions of a node right before and after the one that a commit has, where they can be found."""
    (at,) = asked.call("history", commit=commit)["commits"]
    commits: list[dict[str, Any]] = []
    cursor = None
    for _ in range(LOOKED_THROUGH):
        answer = asked.call("history", uri=uri, limit=200, cursor=cursor)
        commits += answer["commits"]
        cursor = answer.get("cursor")
        if not cursor or any(one["commit"] == commit for one in answer["commits"]):
            break
    # A commit that did not change this node shows what the one before it in time left.
    number = next((n for n, one in enumerate(commits) if one["commit"] == commit), -1)
    own = number >= 0
    if not own:
        number = next((n for n, one in enumerate(commits) if one["at"] <= at["at"]), len(commits))
    older = commits[number + own] if number + own < len(commits) else None
    return {"at": at, "older": older, "newer": commits[number - 1] if number > 0 else None, "is_newest": number == 0}


ENTRIES = (Entry("node", "node", node),)
