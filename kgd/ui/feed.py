"""The feed of recent changes, grouped by author and hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

from kgd.errors import KgdError
from kgd.model.uri import name_of
from kgd.tools import entries
from kgd.tools.nodes import is_agent
from kgd.ui.changes import reason_of
from kgd.ui.node_reading import lead
from kgd.ui.rendering import sentence
from kgd.ui.visit import Visit

RECENT = 40
"""Number of commits in the feed."""
GROUPS = 5
NAMED = 3
"""Largest number of nodes to name per commit."""
FORMER = 3
"""Largest number of deleted nodes whose names are looked up in the history."""
CARDS = 100_000
"""Token budget for the nodes of the feed, without their content."""
BY_HAND = "edited by hand"
OTHER_VERBS = {"merge": "merged", "commit": BY_HAND, "hand-edit": BY_HAND}
"""Verbs of commits that no operation makes."""
USUAL = "wrote"
HOUR = len("2026-11-20T13")


@dataclass(frozen=True, slots=True)
class Change:
    """One node of a commit; `there` is false for a deleted node.

    `summary` is empty if another commit, or the other side of a conflict, may have written it.
    """

    uri: str
    name: str
    summary: str
    verb: str
    there: bool = True


@dataclass(slots=True)
class Group:
    """The changes of one author within one hour, newest first.

    `pushed_by` is the token that pushed them; `client` is the program of an agent, and empty for a person. `reasons`
    are the author's own messages; `rest` has the commits with nodes that `changes` lacks, and the number of these
    nodes.
    """

    author: str
    pushed_by: str
    client: str
    at: str
    changes: list[Change] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    rest: list[tuple[str, int]] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Author, token, program and hour, as the id of an element."""
        return quote("|".join((self.at[:HOUR], self.author, self.pushed_by, self.client)))

    @property
    def is_long(self) -> bool:
        """Whether the group has more than one change."""
        return len(self.changes) + len(self.rest) > 1

    @property
    def gist(self) -> str:
        """The changes in one line: ``created “Till” and 4 more``."""
        first = self.changes[0]
        more = len(self.changes) - 1 + sum(count for _, count in self.rest)
        return f"{first.verb if first.there else 'deleted'} “{first.name}”" + (f" and {more:,} more" if more else "")


def feed(visit: Visit) -> list[Group]:
    """Return the newest changes of nodes, newest first, in at most `GROUPS` groups."""
    commits = [one for one in visit.call("history", limit=RECENT)["commits"] if one["nodes"]]
    known = _nodes(visit, {uri: one["commit"] for one in reversed(commits) for uri in one["nodes"][:NAMED]})
    groups: dict[str, Group] = {}
    for commit in commits:
        group = _group_of(commit)
        if group.id in groups or len(groups) < GROUPS:
            _add(groups.setdefault(group.id, group), commit, known)
    return list(groups.values())


def titles_of(visit: Visit, commits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a title for each commit: its author's reason, or its changes; `commits` are newest first."""
    known = _nodes(visit, {uri: one["commit"] for one in reversed(commits) for uri in one["nodes"]})
    titles = []
    for commit in commits:
        group = Group("", "", "", commit["at"])
        _add(group, commit, known)
        titles.append(next(iter(group.reasons), "") or sentence(group.gist))
    return titles


def _group_of(commit: Mapping[str, Any]) -> Group:
    accepted_by, client = commit.get("accepted_by", ""), commit.get("client", "")
    pushed_by = "" if accepted_by else commit.get("pushed_by", "")
    return Group(accepted_by or commit["author"], pushed_by, client if is_agent(client) else "", commit["at"])


def _add(group: Group, commit: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> None:
    if why := reason_of(commit):
        group.reasons.append(why.partition("\n")[0])
    seen = {one.uri for one in group.changes}
    for uri in commit["nodes"][:NAMED]:
        if uri not in seen:
            group.changes.append(_change(uri, commit, known.get(uri, {})))
    if more := len(commit["nodes"][NAMED:]) + commit.get("more_nodes", 0):
        group.rest.append((commit["commit"], more))


def _change(uri: str, commit: Mapping[str, Any], node: Mapping[str, Any]) -> Change:
    verb, there = verbs().get(commit.get("operation", ""), USUAL), "version" in node
    is_only = node.get("version") == 1
    is_last = there and node["origin"].get("commit") == commit["commit"]
    is_first = is_only or (not is_last and node.get("created", {}).get("at") == commit["at"])
    if verb == USUAL:
        verb = "created" if is_first else "changed" if there else ""
    elif verb == BY_HAND and is_first:
        verb = "created by hand"
    is_of_commit = is_only and "conflicts" not in node
    return Change(uri, node.get("name") or name_of(uri), lead(node) if is_of_commit else "", verb, there)


def _nodes(visit: Visit, commits: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Return the nodes by URI; a deleted one has only its name. `commits` has the newest commit that changed each."""
    found: dict[str, Mapping[str, Any]] = {}
    if not commits:
        return found
    with suppress(KgdError):  # the nodes only help the reader
        for one in visit.call("get", uris=list(commits), include=[], budget=CARDS)["nodes"]:
            found |= {one["uri"]: one, one.get("asked", one["uri"]): one}
    for uri in [uri for uri in commits if uri not in found][:FORMER]:
        with suppress(KgdError):  # the first commit, or no permission for the previous one
            before = visit.call("get", uris=[uri], include=[], as_of=f"{commits[uri]}~1", budget=CARDS)["nodes"]
            found[uri] = {"name": before[0]["name"]} if before else {}
    return found


@cache
def verbs() -> Mapping[str, str]:
    """Verbs of commits by their `Kgd-Op` trailer."""
    return {word: verb for one in entries().values() for word, verb in one["commits"].items()} | OTHER_VERBS
