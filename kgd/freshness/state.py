"""This file is where it is decided for one node whether it is unverified, since when, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgd.freshness.citations import Citation
from kgd.freshness.code import READ, Code, Present

NAMED = 3
"""Citations that a reason names; it says how many more there are."""


@dataclass(frozen=True, slots=True)
class Unverified:
    """What a node says about code was verified, and the code is another since.

    `since_commit` is the commit of the code that changed it, in hex; empty where the change is not committed, or is not
    among the commits that were looked through. `since` is that commit's time in Unix seconds, or the file's.
    """

    since_commit: str
    since: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One citation whose content is none of those that were verified."""

    citation: Citation
    since_commit: str
    since: int | None
    reason: str


def judge(citation: Citation, verified: Iterable[str], code: Code, *, deep: bool) -> Finding | None:
    """What is wrong with a citation; None where it holds, where nothing was verified, and where nothing can be told.

    Without `deep` no commit is looked for, and git is not asked.
    """
    known = set(verified)
    now = code.present(citation.path, citation.symbol)
    if not known or not now.known or now.id in known:
        return None
    what = _what(citation, now)
    if not deep:
        return Finding(citation, "", now.changed_at or None, what)
    revisions = code.history(citation.path)
    after = None
    for number, (one, id) in enumerate(
        zip(revisions, code.ids(citation.path, citation.symbol, revisions), strict=True)
    ):
        if id in known:
            if after is None:
                return Finding(citation, "", now.changed_at or None, f"{what}, in no commit yet")
            return Finding(citation, after.commit, after.at, f"{what} in {after.commit[:10]}")
        if number >= READ and citation.symbol:
            break
        after = one
    return Finding(citation, "", None, f"{what}: what was verified is not in the history of this checkout")


def summed_up(findings: Sequence[Finding]) -> Unverified | None:
    """One mark for all that is wrong, dated by the change that came first."""
    if not findings:
        return None
    dated = [one for one in findings if one.since is not None]
    first = min(dated, key=lambda one: (one.since, one.citation.text)) if dated else findings[0]
    ordered = [first, *(one for one in findings if one is not first)]
    reason = "; ".join(one.reason for one in ordered[:NAMED])
    if len(ordered) > NAMED:
        reason += f"; and {len(ordered) - NAMED} more"
    return Unverified(first.since_commit, first.since, reason)


def _what(citation: Citation, now: Present) -> str:
    if not now.id:
        return f"{citation.path} is gone"
    if citation.symbol and not now.has_symbol:
        return f"{citation.symbol} is gone from {citation.path}"
    return f"{citation.symbol} in {citation.path} changed" if citation.symbol else f"{citation.path} changed"
