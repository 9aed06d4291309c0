"""This file is where it is reviewed what was learned, by whom and since when: noted as seen, or taken back in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kgd.tools.dates import moment_of
from kgd.tools.nodes import moment
from kgd.tools.reviewing import is_agent
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.changes import FieldRow, NodeRow, foretold, rows
from kgd.ui.entry import Entry
from kgd.ui.reading import by_line, names

NODES = 25
COMMITS = 10
SINCE = (
    ("", "my last review"), ("today", "today"), ("yesterday", "yesterday"), ("monday", "Monday"),
    ("1 week ago", "a week ago"), ("4 weeks ago", "four weeks ago"),
)  # fmt: skip
BY = (("", "everybody"), ("agent", "agents"), ("person", "people"))
CHANGES = {"added": "created", "removed": "deleted"}
"""What a review calls it, in the words of a difference."""


@dataclass(frozen=True, slots=True)
class Author:
    """What one of them did, through one program."""

    name: str
    client: str
    agent: bool
    commits: int
    nodes: tuple[NodeRow, ...]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Since when, by whom, and where. `day` is a date, in place of one of the words."""

    since: str
    day: str
    by: str
    who: str
    path: str

    @property
    def is_whole(self) -> bool:
        """Whether it is all since the last review, which may be noted as seen."""
        return not (self.since or self.day or self.by or self.who or self.path)

    def asks(self) -> dict[str, Any]:
        """The parameters of the tool."""
        return {
            "since": self.day or self.since or None, "by": self.who or self.by or None,
            "path": [self.path] if self.path else None,
        }  # fmt: skip

    def says(self) -> dict[str, str]:
        """The same as it is in an address."""
        return {"since": self.since, "day": self.day, "by": self.by, "who": self.who, "path": self.path}


def review(asked: Asked) -> Handled:
    """What was learned; for whoever may not review, the commits as they came."""
    narrowed = _narrowed(asked.query)
    told: dict[str, Any] = {"narrowed": narrowed, "since": SINCE, "by": BY, "reviews": asked.can("review")}
    if not asked.can("review"):
        return Page("review.html", told | _commits(asked, narrowed))
    answer = asked.call(
        "review", limit=NODES, cursor=asked.query.get("cursor"), until=asked.query.get("until"), **narrowed.asks()
    )
    return Page("review.html", told | {"answer": answer, "authors": _authors(asked, answer)})


def take_back(asked: Asked) -> Handled:
    """What is ticked, as the commit that takes it back; then that commit is made."""
    narrowed, uris = _narrowed(asked.form), asked.many("uri")
    back = asked.to("review", **narrowed.says())
    if not uris:
        return Go(back, said="Nothing was ticked, so nothing was taken back.")
    makes = asked.form.get("step") == "make"
    answer = asked.call(
        "review", revert=uris, until=asked.form.get("until"), message=asked.form.get("message", "").strip(), limit=1,
        dry_run=not makes, **narrowed.asks(),
    )  # fmt: skip
    done = answer["reverted"]
    if makes:
        return Go(back, said=_said(done, len(uris)))
    told = {"narrowed": narrowed, "uris": uris, "until": asked.form.get("until", ""), "warnings": done["warnings"],
            "would": foretold(done.get("would"))}  # fmt: skip
    return Page("review_preview.html", told)


def accept(asked: Asked) -> Handled:
    """What was seen is reviewed; what came meanwhile is not."""
    until = asked.required("until")
    asked.call("review", accept=True, until=until, limit=1)
    return Go(asked.to("review"), said=f"Noted: you have reviewed everything up to {until[:10]}.")


def _said(done: Mapping[str, Any], count: int) -> str:
    if not done["commit"]:
        return "Nothing was left of it to take back."
    said = f"{count} node{'s' if count > 1 else ''} taken back, in commit {done['commit'][:10]}."
    return " ".join([said, *(f"Note: {text}." for text in done["warnings"])])


def _narrowed(given: Mapping[str, str]) -> Narrowed:
    return Narrowed(*(given.get(name, "").strip() for name in ("since", "day", "by", "who", "path")))


def _authors(asked: Asked, answer: Mapping[str, Any]) -> list[Author]:
    uris = [node["uri"] for by in answer["authors"] for node in by["nodes"]]
    known = names(asked, uris)
    titles = {uri: known[uri].get("name", "") for uri in uris if uri in known}
    return [
        Author(
            by_line(by), by.get("client", ""), by["agent"], by["commits"],
            tuple(_row(one, titles) for one in by["nodes"]),
        )
        for by in answer["authors"]
    ]  # fmt: skip


def _row(node: Mapping[str, Any], titles: Mapping[str, str]) -> NodeRow:
    (row,) = rows([{**node, "change": CHANGES.get(node["change"], node["change"])}], titles)
    more = node.get("more_fields", 0)
    return replace(row, fields=(*row.fields, FieldRow(f"and {more} more fields", ()))) if more else row


def _commits(asked: Asked, narrowed: Narrowed) -> dict[str, Any]:
    """What the history says of it."""
    since, now = narrowed.day or narrowed.since, datetime.now().astimezone()
    begin = moment(moment_of(since, now)) if since else None
    answer = asked.call(
        "history", since=begin, author=narrowed.who or None, diff=True, limit=COMMITS, cursor=asked.query.get("cursor")
    )
    shown = [
        Author(
            by_line(one), one.get("client", ""), is_agent(one.get("client", "")), 1, tuple(rows(one.get("diff", ())))
        )
        for one in answer["commits"]
    ]
    return {"answer": answer, "authors": shown}


ENTRIES = (
    Entry("review", "review", review),
    Entry("review", "review/take-back", take_back, ("POST",)),
    Entry("review", "review/accept", accept, ("POST",)),
)
