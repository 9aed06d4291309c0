"""The page *Review*: new knowledge by author and time, approved, marked as reviewed or reverted in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kgd.errors import Invalid
from kgd.tools import addressing
from kgd.tools.nodes import is_agent, moment
from kgd.tools.operation import Answer
from kgd.tools.parameters import moment_of
from kgd.ui.changes import FieldRow, NodeRow, named_in, previewed_commit, rows
from kgd.ui.node_reading import by_line, names, titles
from kgd.ui.rendering import counted
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit, reported
from kgd.ui.words import labelled

NODES = 25
COMMITS = 10
"""Largest number of commits of a page without permission to review, and of a row."""
LAST_REVIEW, ANY_TIME = "my last review", "any time"
"""Placeholders of the date field: the period if it is empty."""
BY = (("", "Anyone"), ("agent", "Agents"), ("person", "People"))
DAY = len("2026-11-20")
CHANGES = {"added": "created", "removed": "deleted"}
"""Changes of a review, in the words of a diff."""


@dataclass(frozen=True, slots=True)
class Author:
    """The changes of one author through one program. `name` is the author, an agent's program and, if it was
    pushed, the token.

    `own` changes are by the visitor, without an agent. `group` is the name in the answer. A group that began on an
    earlier page is `continued`; with more nodes on the next page, it `continues`.
    """

    author: str
    name: str
    agent: bool
    commits: int
    nodes: tuple[NodeRow, ...]
    group: str = ""
    continued: bool = False
    continues: bool = False
    own: bool = False

    @property
    def days(self) -> list[tuple[str, list[NodeRow]]]:
        """The nodes without a conflict, by the day of their last change, newest day first. Each day has the time of
        its last change."""
        found: dict[str, list[NodeRow]] = {}
        for one in sorted(
            (one for one in self.nodes if not one.is_disputed), key=lambda one: one.at[:DAY], reverse=True
        ):
            found.setdefault(one.at[:DAY], []).append(one)
        return [(nodes[0].at, nodes) for nodes in found.values()]

    @property
    def markable(self) -> list[NodeRow]:
        """The nodes that can be marked as reviewed."""
        return [one for one in self.nodes if not (one.is_disputed or one.reverted or one.is_approved)]

    @property
    def disputed(self) -> list[NodeRow]:
        """The nodes in conflict, which cannot be approved."""
        return [one for one in self.nodes if one.is_disputed]


@dataclass(frozen=True, slots=True)
class ReviewFilter:
    """The filter of a review or of the proposals. `since` is a date or a time in words."""

    since: str
    by: str
    who: str
    path: str

    @property
    def is_whole(self) -> bool:
        """Whether the filter is empty, so that a review can be marked as done."""
        return not (self.since or self.by or self.who or self.path)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the tool."""
        return {
            "since": self.since or None,
            "by": self.who or self.by or None,
            "path": [self.path] if self.path else None,
        }

    def query(self) -> dict[str, str]:
        """Return the filter as the query of an address."""
        return {"since": self.since, "by": self.by, "who": self.who, "path": self.path}

    @property
    def whom(self) -> str:
        """The authors in words: ``agents``, ``anyone``, or a part of a name."""
        return self.who or dict(BY).get(self.by, self.by).lower()

    def words(self, usual: str) -> str:
        """Describe the filter in one line: ``Since Monday, by agents, /services/**``; `usual` is the period without
        `since`."""
        period = self.since or usual
        told = ("Any time" if period == ANY_TIME else f"Since {period}", f"by {self.whom}", self.path)
        return ", ".join(filter(None, told))


def review(visit: Visit) -> Handled:
    """Show new knowledge by author; without permission to review, by commit."""
    wanted = filter_of(visit.query)
    told: dict[str, Any] = {
        "wanted": wanted,
        "usual": LAST_REVIEW,
        "by": [],
        "reviews": visit.can("review"),
    }
    if not visit.can("review"):
        return Page("review.html", told | _commits(visit, wanted))
    answer = found_by(visit, wanted, "review", limit=NODES, until=visit.query.get("until"))
    authors = _authors(visit, answer)
    agents, others = answer["agents"], answer["people"] - answer["own"]
    counts = {"": agents + others, "agent": agents, "person": others}
    told |= {
        "answer": answer,
        "authors": authors,
        "markable": [f"{one.uri} {by.group}" for by in authors for one in by.markable],
        "by": [(by, words, counts[by]) for by, words in BY],
        "unreviewed": _unreviewed(visit, wanted, answer),
    }
    return Page("review.html", told)


def found_by(visit: Visit, wanted: ReviewFilter, tool: str, **arguments: Any) -> Answer:
    """Return the part of a list that the address and a filter select."""
    try:
        return visit.call(tool, cursor=visit.query.get("cursor") or None, **arguments, **wanted.parameters())
    except Invalid as error:
        raise labelled(error, since="Since") from None


def revert(visit: Visit) -> Handled:
    """Preview the revert of the selected nodes, then make it. Each is sent with the group that it was selected in."""
    wanted, ticks = filter_of(visit.form), visit.many("uri")
    back = visit.to("review", **wanted.query())
    if not ticks:
        return Redirect(back, said="Select facts to revert.")
    makes = visit.form.get("step") == "make"
    picked = [one.partition(" ") for one in ticks]
    nodes = len({uri for uri, _, _ in picked})
    answer = visit.call(
        "review",
        revert=[uri for uri, _, _ in picked],
        group=[group for _, _, group in picked],
        until=visit.form.get("until"),
        message=visit.text("message"),
        limit=1,
        dry_run=not makes,
        **wanted.parameters(),
    )
    done = answer["reverted"]
    if makes:
        return reported(back, done, f"Reverted {counted(nodes, 'fact')}", "Nothing was left to revert.")
    told = {
        "wanted": wanted,
        "ticks": ticks,
        "nodes": nodes,
        "groups": dict.fromkeys(group for _, _, group in picked),
        "until": visit.form.get("until", ""),
        "warnings": done["warnings"],
        "would": previewed_commit(visit, done.get("would")),
    }
    return Page("review_preview.html", told)


def approve(visit: Visit) -> Handled:
    """Approve the selected changes, each with the group that it was selected in."""
    wanted, picked = filter_of(visit.form), [one.partition(" ") for one in visit.many("uri")]
    cursor, until = (visit.form.get(name, "") for name in ("cursor", "until"))
    page = {"cursor": cursor, "until": until} if cursor else {}
    back = visit.to("review", **page, **wanted.query())
    if not picked:
        return Redirect(back, said="Select facts first.")
    visit.call(
        "review",
        approve=[uri for uri, _, _ in picked],
        group=[group for _, _, group in picked],
        until=visit.form.get("until"),
        limit=1,
        **wanted.parameters(),
    )
    return Redirect(back)


def accept(visit: Visit) -> Handled:
    """Mark the changes up to the shown commit as reviewed; without one, all changes."""
    accepted = visit.call("review", accept=True, until=visit.text("until") or None, limit=1)["accepted"]
    return Redirect(visit.to("review"), said=f"Reviewed up to {accepted[:10]}.")


def filter_of(given: Mapping[str, str]) -> ReviewFilter:
    """Return the filter in an address or a form."""
    return ReviewFilter(*(given.get(name, "").strip() for name in ("since", "by", "who", "path")))


def _unreviewed(visit: Visit, wanted: ReviewFilter, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of unreviewed commits by agents and other people, and whether there are `more`.

    Without a date, the answer has the exact number; the navigation shows it as well.
    """
    if wanted.since:
        counts = visit.counts()
        return {"count": counts.get("review", 0), "more": counts.get("more", False)}
    return {"count": answer["agents"] + answer["people"] - answer["own"], "more": "cut" in answer}


def _authors(visit: Visit, answer: Mapping[str, Any]) -> list[Author]:
    """Return the authors, first those with changes that can be approved, and last the visitor."""
    session = visit.session()
    viewer = session.author(addressing.choose(session, visit.workspace)).name
    known = names(visit, named_in(node for by in answer["authors"] for node in by["nodes"]))
    authors = [
        Author(
            by["author"],
            by_line(by),
            by["agent"],
            by["commits"],
            tuple(_row(one, known) for one in by["nodes"]),
            by["group"],
            by.get("continued", False),
            by.get("continues", False),
            own=by["author"] == viewer and not by["agent"],
        )
        for by in answer["authors"]
    ]
    return sorted(authors, key=lambda by: (by.own, not by.days))


def _author_of(commit: Mapping[str, Any], known: Mapping[str, str]) -> Author:
    client, found = commit.get("client", ""), rows(commit.get("diff", ()), known)
    changed = tuple(replace(one, commits=(commit["commit"],), at=commit["at"]) for one in found)
    return Author(commit["author"], by_line(commit), is_agent(client), 1, changed)


def _row(node: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> NodeRow:
    card, shown = known.get(node["uri"], {}), {uri: known[uri]["name"] for uri in named_in([node]) if uri in known}
    (row,) = rows([{**node, "change": CHANGES.get(node["change"], node["change"])}], shown)
    more = node.get("more_fields", 0)
    fields = (*row.fields, FieldRow(f"and {more} more fields", ())) if more else row.fields
    return replace(
        row,
        fields=fields,
        reverted=node.get("reverted", ""),
        is_approved=node.get("approved", False),
        stale=card.get("unverified"),
        is_disputed=card.get("is_disputed", False),
        commits=tuple(node["commits"][-COMMITS:]),
        at=node["at"],
    )


def _commits(visit: Visit, wanted: ReviewFilter) -> dict[str, Any]:
    """Return the commits of the history."""
    since, now = wanted.since, datetime.now().astimezone()
    begin = moment(moment_of(since, now)) if since else None
    answer = visit.call(
        "history", since=begin, author=wanted.who or None, diff=True, limit=COMMITS, cursor=visit.query.get("cursor")
    )
    known = titles(visit, named_in(one for commit in answer["commits"] for one in commit.get("diff", ())))
    shown = [_author_of(one, known) for one in answer["commits"]]
    return {"answer": answer, "authors": shown}


ENTRIES = (
    Entry("review", "review", review),
    Entry("review", "review/revert", revert, ("POST",)),
    Entry("review", "review/approve", approve, ("POST",)),
    Entry("review", "review/accept", accept, ("POST",)),
)
