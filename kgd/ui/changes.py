"""This file is where what differs in nodes becomes rows of a page: each field by a name a person knows, with marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kgd.model.fields import split
from kgd.model.node import Json
from kgd.ui.differences import Mark, marked
from kgd.ui.values import as_text

_CUT = re.compile(r"… \(\d+ characters\)\Z").search
LONGEST_MARK = 20_000
"""Characters of one stretch that are shown."""
TITLES = {
    "node": "the whole node", "uri": "what it is called", "twin": "two nodes of one name", "type": "type",
    "name": "name", "summary": "summary", "content": "content", "detail": "detail", "source": "source",
    "tags": "tags", "aliases": "other names",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field that differs."""

    title: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, or one file that is no node's (`uri` is empty then), with what differs in it."""

    uri: str
    name: str
    change: str
    fields: tuple[FieldRow, ...]
    is_cut: bool = False
    """Whether a text in it is longer than the answer."""


DEEDS = {
    "put": "changed", "relate": "related", "unrelate": "took a relation away", "append to": "added text",
    "untag": "took tags away", "verify": "verified", "settle": "settled a conflict", "delete": "deleted",
    "move": "gave it another address", "review: take back": "took it back",
}  # fmt: skip
"""What a commit did to a node, by the words before the node's URI in a subject that nobody wrote."""


def deed_of(subject: str, uri: str) -> str:
    """What a subject says was done to a node where it only names it; empty where somebody wrote it."""
    return DEEDS.get(subject.removesuffix(uri).rstrip(), "") if subject.endswith(f" {uri}") else ""


def titled(field: str) -> str:
    """What a person calls a field: ``data/owner`` is *owner (data)*."""
    head, *rest = split(field)
    if head == "relations" and len(rest) >= 2:
        what = f", its {' / '.join(rest[2:])}" if len(rest) > 2 else ""
        return f"relation {rest[0]} to {rest[1]}{what}"
    if head == "data" and rest:
        return f"{' / '.join(rest)} (data)"
    if head == "memories" and rest:
        what = {"": "whole file", "prose": "text"}.get("/".join(rest[1:]), " / ".join(rest[1:]))
        return f"{what} of memories/{rest[0]}"
    return TITLES.get(field, " / ".join([head, *rest]))


def written(value: Json) -> str:
    """A value of a field as text. A relation is its cost, and what else it says."""
    if isinstance(value, Mapping) and set(value) == {"weight"}:
        return f"cost {value['weight']}"
    return as_text(value)


def is_cut(value: Json) -> bool:
    """Whether an answer ends some text in it before its end."""
    if isinstance(value, Mapping):
        return any(map(is_cut, value.values()))
    if isinstance(value, list):
        return any(map(is_cut, value))
    return isinstance(value, str) and _CUT(value) is not None


def marks(old: str, new: str) -> tuple[Mark, ...]:
    """The newer text with what was taken out in its place, none of it longer than a page bears."""
    return tuple(clipped(mark) for mark in marked(old, new))


def _marks_of(change: str, field: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Of a node that is new everything is: only its text is shown."""
    after = written(field["after"])
    return (clipped(Mark("same", after)),) if change == "created" else marks(written(field["before"]), after)


def clipped(mark: Mark) -> Mark:
    if len(mark.text) <= LONGEST_MARK:
        return mark
    return Mark(mark.kind, f"{mark.text[:LONGEST_MARK]}… ({len(mark.text):,} characters)")


def rows(diff: Iterable[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> list[NodeRow]:
    """The nodes of a tool's `diff`."""
    return [
        NodeRow(
            one["uri"], (names or {}).get(one["uri"], ""), one["change"],
            tuple(
                FieldRow(titled(name), _marks_of(one["change"], field))
                for name, field in one["fields"].items()
            ),
            any(is_cut(value) for field in one["fields"].values() for value in (field["before"], field["after"])),
        )
        for one in diff
    ]  # fmt: skip


def foretold(would: Mapping[str, Any] | None) -> dict[str, Any]:
    """The commit that a dry run tells of, for `commit_shown` of the templates."""
    if would is None:
        return {"message": "", "author": "", "rows": [], "more": 0}
    found = rows(would["diff"])
    for one in would.get("files", ()):
        change = "created" if one["before"] is None else "deleted" if one["after"] is None else "changed"
        text = FieldRow("text", marks(one["before"] or "", one["after"] or ""))
        found.append(NodeRow("", one["path"], change, (text,)))
    return {"message": would["message"], "author": would["author"], "rows": found, "more": would.get("more_diff", 0)}
