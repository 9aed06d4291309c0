"""Judgement of one node: whether it is stale, since when, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgd.freshness.citations import Citation
from kgd.freshness.code import READ, Code, Present

NAMED = 3
"""Citations named in a reason; the others are counted."""


@dataclass(frozen=True, slots=True)
class Unverified:
    """A stale node: the code changed since its statements were verified.

    `since_commit` is the commit that changed the code, in hex; empty if the change is not committed, or not found.
    `since` is the time of that commit, or of the file, in Unix seconds.
    """

    since_commit: str
    since: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A citation whose content is not a verified one."""

    citation: Citation
    since_commit: str
    since: int | None
    reason: str


def judge(citation: Citation, verified: Iterable[str], code: Code, *, deep: bool) -> Finding | None:
    """The problem of a citation; None if it holds, nothing was verified, or its state is unknown.

    Without `deep` no commit is searched, and git is not run.
    """
    known = set(verified)
    now = code.present(citation.path, citation.symbol)
    if not known or not now.known or now.id in known:
        return None
    change = _change(citation, now)
    if not deep:
        return Finding(citation, "", now.changed_at or None, change)
    revisions = code.history(citation.path)
    after = None
    for number, (one, id) in enumerate(
        zip(revisions, code.ids(citation.path, citation.symbol, revisions), strict=True)
    ):
        if id in known:
            if after is None:
                return Finding(citation, "", now.changed_at or None, f"{change}, not committed yet")
            return Finding(citation, after.commit, after.at, f"{change} in {after.commit[:10]}")
        if number >= READ and citation.symbol:
            break
        after = one
    return Finding(citation, "", None, f"{change}; the verified version is not in the history of this checkout")


def summed_up(findings: Sequence[Finding]) -> Unverified | None:
    """One mark for all findings, dated by the earliest change."""
    if not findings:
        return None
    dated = [one for one in findings if one.since is not None]
    first = min(dated, key=lambda one: (one.since, one.citation.text)) if dated else findings[0]
    ordered = [first, *(one for one in findings if one is not first)]
    reason = "; ".join(one.reason for one in ordered[:NAMED])
    if len(ordered) > NAMED:
        reason += f"; and {len(ordered) - NAMED} more"
    return Unverified(first.since_commit, first.since, reason)


def _change(citation: Citation, now: Present) -> str:
    if not now.id:
        return f"{citation.path} is gone"
    if citation.symbol and not now.has_symbol:
        return f"{citation.symbol} is gone from {citation.path}"
    return f"{citation.symbol} in {citation.path} changed" if citation.symbol else f"{citation.path} changed"
