"""This file is where one node is read for its page: whole, however many answers of `get` that takes, and its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgd.errors import KgdError, NotFound
from kgd.model.uri import name_of, workspace_of
from kgd.ui.asked import Asked

WHOLE = 10_000
"""Tokens that one answer may take."""
MOST_ANSWERS = 60
"""A node's content and the file behind it are some 20 answers long at most."""
PAGE = 2_500
"""Tokens of one page of relations, some 80 of them."""
NAMED = 100


@dataclass(frozen=True, slots=True)
class Missing:
    """What is said of a node that is not there."""

    uri: str
    similar: tuple[str, ...] = ()
    invalid_file: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """One page of a node's relations one way. `cursor` goes on; `of` is how many there are in all."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    start: int = 0
    of: int = 0
    cursor: str = ""


def whole(asked: Asked, uri: str, *beside: str, as_of: str | None = None) -> dict[str, Any] | Missing:
    """The node with all of its content, and what else of it `beside` asks for.

    Raises:
        KgdError: As `get` refuses.
    """
    for _ in range(3):
        node = _whole(asked, uri, beside, as_of)
        if node is not None:
            return node
    raise NotFound("this node is written faster than it can be read", at=uri, next="Load the page again.")


def _whole(asked: Asked, uri: str, beside: tuple[str, ...], as_of: str | None) -> dict[str, Any] | Missing | None:
    """None where it changed while it was read."""
    question: dict[str, Any] = {
        "uris": [uri], "include": ["content", *beside], "as_of": as_of, "budget": WHOLE,
    }  # fmt: skip
    answer = asked.call("get", **question)
    if not answer["nodes"]:
        lacking = answer["missing"][0]
        return Missing(lacking["uri"], tuple(lacking["similar"]), lacking.get("invalid_file"))
    node: dict[str, Any] = {"content": "", **answer["nodes"][0]}
    for _ in range(MOST_ANSWERS):
        if not (cursor := answer.get("cursor")):
            break
        answer = asked.call("get", **question, cursor=cursor)
        more = answer["nodes"][0] if answer["nodes"] else {}
        if more.get("version") != node["version"]:
            return None
        node["content"] += more.get("content", "")
        if detail := more.get("detail"):
            before = node["detail"]["text"] if "detail" in node else ""
            node["detail"] = {**detail, "text": before + detail["text"]}
    for cut in ("content_cut", "detail_cut"):
        node.pop(cut, None)
    return node


def links(asked: Asked, uri: str, way: str, cursor: str | None = None, as_of: str | None = None) -> Links:
    """A page of the relations of a node: ``relations`` that it has, or ``incoming`` ones of others."""
    answer = asked.call("get", uris=[uri], include=[way], budget=PAGE, cursor=cursor, as_of=as_of)
    node = answer["nodes"][0] if answer["nodes"] else {}
    rows = [dict(row) for row in node.get(way, ())]
    other = "target" if way == "relations" else "source"
    known = names(asked, [row[other] for row in rows], as_of)
    for row in rows:
        row["other"] = row[other]
        row["card"] = known.get(row[other])
        row["name"] = (row["card"] or {}).get("name") or name_of(row[other])
        home = workspace_of(row[other])
        row["foreign"] = home if home not in (None, asked.workspace) else ""
    cut = node.get(f"{way}_cut", {})
    return Links(rows, cut.get("start", 0), cut.get("of", len(rows)), answer.get("cursor", ""))


def names(asked: Asked, uris: Iterable[str], as_of: str | None = None) -> dict[str, dict[str, Any]]:
    """Name, type and summary of those nodes of this workspace that are there; of the first of them, if they are many.

    They are for reading alone, so that what refuses them only leaves them out.
    """
    here = [uri for uri in dict.fromkeys(uris) if workspace_of(uri) in (None, asked.workspace)][:NAMED]
    if not here:
        return {}
    try:
        answer = asked.call("traverse", start=here, max_depth=0, max_nodes=NAMED, budget=WHOLE, as_of=as_of)
    except KgdError:
        return {}
    found = {one["uri"]: one for one in answer["nodes"]}
    return found | {old: one for one in answer["nodes"] for old in one.get("asked", ())}


def by_line(commit: Mapping[str, Any]) -> str:
    """The author, and the token that pushed it where one did: an author is whatever its maker wrote."""
    return f"{commit['author']}, pushed by {commit['pushed_by']}" if commit.get("pushed_by") else str(commit["author"])
