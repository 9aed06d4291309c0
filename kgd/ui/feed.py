"""The feed of recent changes, grouped by author and hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kgd.model.uri import name_of
from kgd.tools import entries
from kgd.tools.nodes import is_agent
from kgd.ui.node_reading import by_line, lead, names
from kgd.ui.visit import Visit

RECENT = 30
"""Number of commits in the feed."""
GROUPS = 10
NAMED = 3
"""Largest number of nodes to name per commit."""
OTHER_DEEDS = {"merge": "merged", "commit": "edited by hand", "hand-edit": "edited by hand"}
"""Verbs of commits that no operation makes."""
USUAL = "wrote"
OWN_WORDS = ("put",)
"""Operations whose commit subject is the author's reason, or names the node."""
HOUR = len("2026-11-20T13")


@dataclass(frozen=True, slots=True)
class Change:
    """One node of a commit; `there` tells whether it still exists. A plain edit has no `deed`."""

    uri: str
    name: str
    summary: str
    deed: str
    there: bool = True


@dataclass(slots=True)
class Group:
    """The changes of one author within one hour, newest first.

    `client` is the program of an agent, and empty for a person; `reasons` are the authors' own messages; `more` counts
    the nodes without a line.
    """

    author: str
    client: str
    at: str
    changes: list[Change] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    more: int = 0


def feed(visit: Visit) -> list[Group]:
    """Return the newest changes of nodes, newest first, in at most `GROUPS` groups."""
    commits = [one for one in visit.call("history", limit=RECENT)["commits"] if one["nodes"]]
    known = names(visit, [uri for one in commits for uri in one["nodes"][:NAMED]])
    groups: list[Group] = []
    for commit in commits:
        group = _group_of(commit)
        if groups and _key(groups[-1]) == _key(group):
            group = groups[-1]
        elif len(groups) < GROUPS:
            groups.append(group)
        else:
            break
        _add(group, commit, known)
    return groups


def _group_of(commit: Mapping[str, Any]) -> Group:
    author = commit.get("accepted_by") or by_line(commit)
    client = commit.get("client", "")
    return Group(author, client if is_agent(client) else "", commit["at"])


def _key(group: Group) -> tuple[str, str, str]:
    return group.author, group.client, group.at[:HOUR]


def _add(group: Group, commit: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> None:
    deed = deeds().get(commit.get("operation", ""), USUAL)
    deed = "" if deed == USUAL else deed
    if why := reason_of(commit):
        group.reasons.append(why)
    seen = {one.uri for one in group.changes}
    for uri in commit["nodes"][:NAMED]:
        if uri not in seen:
            card = known.get(uri, {"uri": uri, "name": name_of(uri)})
            group.changes.append(Change(uri, card["name"], lead(card), deed, uri in known))
    group.more += len(commit["nodes"][NAMED:]) + commit.get("more_nodes", 0)


@cache
def deeds() -> Mapping[str, str]:
    """Verbs of commits by their `Kgd-Op` trailer."""
    return {word: verb for one in entries().values() for word, verb in one["commits"].items()} | OTHER_DEEDS


def reason_of(commit: Mapping[str, Any]) -> str:
    """Return the author's reason; empty for a generated subject."""
    subject: str = commit["message"].partition("\n")[0]
    nodes: Sequence[str] = commit["nodes"]
    own = commit.get("operation") in OWN_WORDS and not any(uri in subject for uri in nodes)
    return subject if own and nodes else ""
