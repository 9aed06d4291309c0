"""The overview, with the lists of stale facts, broken links and unreadable files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kgd.errors import KgdError
from kgd.model.uri import name_of
from kgd.tools import entries
from kgd.tools.history.recent import is_agent
from kgd.tools.workspaces import remedies
from kgd.ui.node_reading import by_line, names
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit

RECENT = 12
STALE = 30
BROKEN = 100
NAMED = 3
"""Largest number of nodes to name per commit."""
STAGES = {
    "commit": "Writes",
    "publish": "Publishing to your files",
    "integrate": "Reading your edits",
    "index": "Search by words",
    "embedding": "Search by meaning",
    "mentions": "Mentions",
    "code": "Reading your code",
    "upkeep": "Repository maintenance",
    "fetch": "Fetch",
    "push": "Push",
}
STATES = {
    "ok": "OK",
    "waiting": "in progress",
    "blocked": "blocked",
    "degraded": "degraded",
    "off": "off",
}
KINDS = (
    ("conflicts", "conflict", "conflicts", "conflicts", "Two versions of the same field.", True),
    ("proposals", "proposal", "proposals", "proposals", "A change to accept or reject.", True),
    ("unverified", "fact to verify", "facts to verify", "stale", "The cited code has changed.", True),
    ("invalid_files", "unreadable file", "unreadable files", "unreadable", "Hand edits that cannot be parsed.", True),
    ("failed", "failed job", "failed jobs", "", "An import failed.", True),
    ("broken_links", "broken link", "broken links", "broken", "The target of a relation is missing.", False),
)
"""Pending work: key of the count, singular, plural, page, explanation, and whether it needs attention."""
OTHER_DEEDS = {"merge": "merged", "commit": "edited by hand", "hand-edit": "edited by hand"}
"""Verbs of commits that no operation makes."""
OWN_WORDS = ("put",)
"""Operations whose commit subject is the author's reason, or names the node."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A kind of pending work, with its page. `needs` says whether it needs attention."""

    count: int
    one: str
    many: str
    place: str
    why: str
    needs: bool = True


@dataclass(frozen=True, slots=True)
class Stage:
    title: str
    state: str
    words: str
    about: str
    blocker: str
    next: str


@dataclass(frozen=True, slots=True)
class Learned:
    """One recent change. `nodes` are triples of URI, name, and whether the node still exists.

    `by` is ``agent``, ``person``, or empty for kgd itself; `why` is the author's reason.
    """

    deed: str
    nodes: tuple[tuple[str, str, bool], ...]
    more: int
    message: str
    author: str
    client: str
    by: str
    at: str
    why: str = ""


def overview(visit: Visit) -> Handled:
    status = visit.call("status")
    waiting = _waiting(visit, status)
    stages = [_stage(one) for one in status["stages"]]
    stuck = [one for one in stages if one.state in ("blocked", "degraded")]
    told = {
        "status": status,
        "waiting": waiting,
        "stages": stages,
        "stuck": stuck,
        "degraded": _degraded(status),
        "sentence": sentence(waiting, [one.title for one in stuck]),
        "learned": _learned(visit),
        "failed": [job for job in status["jobs"] if job["state"] == "failed"],
        "running": [job for job in status["jobs"] if job["state"] == "running"],
        "coverage": _coverage(visit),
        "is_new": visit.may_do_all and not status["counts"].get("nodes"),
        "is_alone": visit.may_do_all and not any(one["name"].startswith(("fetch", "push")) for one in status["stages"]),
        "writes": visit.may("put"),
        "suggests": visit.may_do_all,
        "polls": True,
    }
    return Page("overview.html", told)


def sentence(waiting: list[Waiting], stuck: list[str]) -> str:
    """Summarise the pending work in one sentence: ``3 conflicts and 2 proposals need your attention.``"""
    needs = [f"{one.count:,} {one.one if one.count == 1 else one.many}" for one in waiting if one.needs]
    said = []
    if needs:
        alone = len(needs) == 1 and next(one for one in waiting if one.needs).count == 1
        said.append(f"{_listed(needs)} need{'s' if alone else ''} your attention.")
    if stuck:
        said.append(f"Problems: {_listed(stuck)}.")
    return " ".join(said) or ("Nothing is urgent." if waiting else "Nothing needs your attention.")


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _waiting(visit: Visit, status: Mapping[str, Any]) -> list[Waiting]:
    counts = {
        **status["counts"],
        "conflicts": status["conflicts"],
        "proposals": status["proposals"],
        "failed": sum(job["state"] == "failed" for job in status["jobs"]),
    }
    return [
        Waiting(count, one, many, "#jobs" if key == "failed" else visit.to(page), why, needs)
        for key, one, many, page, why, needs in KINDS
        if (count := counts.get(key, 0))
    ]


def _stage(stage: Mapping[str, Any]) -> Stage:
    kind, _, remote = stage["name"].partition(" ")
    title = f"{STAGES.get(kind, kind)} {remote}".strip()
    return Stage(
        title,
        stage["state"],
        STATES.get(stage["state"], stage["state"]),
        stage.get("about", ""),
        stage.get("blocker", "").rstrip("."),
        stage.get("next", ""),
    )


def _degraded(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return other problems, with their remedies."""
    known = {f"{one['name']}: {one.get('blocker', '')}" for one in status["stages"]}
    return [(text, "" if "`" in text else remedies.of(text)) for text in status["degraded"] if text not in known]


def _learned(visit: Visit) -> list[Learned]:
    commits = visit.call("history", limit=RECENT)["commits"]
    known = names(visit, [uri for one in commits for uri in one["nodes"][:NAMED]])
    made = [
        Learned(
            deeds().get(one.get("operation", ""), "wrote"),
            tuple((uri, known.get(uri, {}).get("name") or name_of(uri), uri in known) for uri in one["nodes"][:NAMED]),
            len(one["nodes"]) - len(one["nodes"][:NAMED]) + one.get("more_nodes", 0),
            one["message"].partition("\n")[0],
            one.get("accepted_by") or by_line(one),
            one.get("client", ""),
            _by(one),
            one["at"],
            _why(one),
        )
        for one in commits
        if one.get("operation") != "init"
    ]
    return [one for number, one in enumerate(made) if not number or not _goes_on(made[number - 1], one)]


@cache
def deeds() -> Mapping[str, str]:
    """Verbs of commits by their `Kgd-Op` trailer."""
    return {word: verb for one in entries().values() for word, verb in one["commits"].items()} | OTHER_DEEDS


def _by(commit: Mapping[str, Any]) -> str:
    if commit.get("operation") == "merge":
        return ""
    return "agent" if is_agent(commit.get("client", "")) else "person"


def _why(commit: Mapping[str, Any]) -> str:
    """Return the author's reason; empty for a generated subject."""
    subject: str = commit["message"].partition("\n")[0]
    own = commit.get("operation") in OWN_WORDS and not any(uri in subject for uri in commit["nodes"])
    return subject if own and commit["nodes"] else ""


def _goes_on(newer: Learned, older: Learned) -> bool:
    """Whether two consecutive changes read as one."""
    return not newer.why + older.why and (newer.deed, newer.nodes, newer.author, newer.client) == (
        older.deed,
        older.nodes,
        older.author,
        older.client,
    )


def _coverage(visit: Visit) -> Mapping[str, Any] | None:
    """Return the coverage of the code by areas; None without code or permission."""
    if not visit.can("coverage"):
        return None
    try:
        answer = visit.call("coverage", limit=1)
    except KgdError:
        return None
    folder: Mapping[str, Any] | None = answer.get("folder")
    return folder if folder and folder["files"] else None


def stale(visit: Visit) -> Handled:
    """List the facts whose cited code has changed."""
    answer = visit.call("stale", limit=STALE, cursor=visit.query.get("cursor"))
    return Page("stale.html", {"answer": answer, "begun": "cursor" in visit.query})


def verify(visit: Visit) -> Handled:
    """Verify one fact, or the selected facts, for the current code."""
    one = visit.form.get("one", "")
    uris = [one] if one else visit.many("uri")
    if not uris:
        return Redirect(visit.to("stale"), said="Select facts to verify.")
    done = visit.call("stale", verify=uris, limit=1)["verified"]
    said = f"Verified: {len(uris)} fact{'s' if len(uris) > 1 else ''}"
    return Redirect(
        visit.to("stale"), said=f"{said}, in commit {done['commit'][:10]}." if done["commit"] else f"{said} already."
    )


def broken(visit: Visit) -> Handled:
    """List the missing targets of relations."""
    answer = visit.call("broken", limit=BROKEN, cursor=visit.query.get("cursor"))
    known = names(visit, [link["source"] for one in answer["broken"] for link in one["links"]])
    return Page("broken.html", {"answer": answer, "known": known, "begun": "cursor" in visit.query})


def unreadable(visit: Visit) -> Handled:
    """List hand-edited files that cannot be parsed."""
    status = visit.call("status")
    total = status["counts"].get("invalid_files", 0)
    folder = f"{status['workspace']['path']}/" if visit.may_do_all else ""
    return Page("unreadable.html", {"files": status["invalid_files"], "total": total, "folder": folder, "polls": True})


ENTRIES = (
    Entry("overview", "overview", overview),
    Entry("overview", "stale", stale),
    Entry("overview", "stale", verify, ("POST",)),
    Entry("overview", "broken", broken),
    Entry("overview", "unreadable", unreadable),
)
