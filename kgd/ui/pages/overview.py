"""This file is where one glance says whether anything needs a person, how things are, and what was learned lately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import KgdError
from kgd.model.uri import name_of
from kgd.tools import remedies
from kgd.tools.reviewing import is_agent
from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry
from kgd.ui.reading import by_line, names

RECENT = 12
NAMED = 3
"""Nodes that are named of one commit."""
STAGES = {
    "commit": "Writing down", "publish": "Bringing changes into your files", "integrate": "Taking in your own edits",
    "index": "Search by words", "embedding": "Search by meaning", "mentions": "Who names whom",
    "upkeep": "Keeping the repository small", "fetch": "Fetching from the remote", "push": "Sending to the remote",
}  # fmt: skip
STATES = {
    "ok": "works", "waiting": "at work", "blocked": "is stuck", "degraded": "works in part", "off": "is switched off",
}  # fmt: skip
KINDS = (
    ("conflicts", "conflict", "conflicts", "conflicts", "Two people wrote the same thing differently.", True),
    ("proposals", "proposal", "proposals", "proposals", "A change waits to be accepted or rejected.", True),
    ("unverified", "fact to verify", "facts to verify", "stale", "The code behind it is another one by now.", True),
    ("invalid_files", "unreadable file", "unreadable files", "unreadable", "Edited by hand, and not to be read.", True),
    ("failed", "failed job", "failed jobs", "", "Something could not be taken in.", True),
    ("broken_links", "broken link", "broken links", "broken", "A relation leads to what nobody wrote.", False),
)  # fmt: skip
"""What may wait for a person: how it is counted and called, on which page it is dealt with, why, and whether it needs
one."""
DEEDS = {
    "revert": "took back", "undo": "took back", "verify": "verified", "resolve": "settled", "accept": "accepted",
    "ingest": "took in", "import": "imported", "manage_changelog": "noted what changed in",
    "merge": "brought together", "suggestion": "accepted a suggestion about", "commit": "wrote by hand",
    "hand-edit": "wrote by hand",
}  # fmt: skip
"""What a commit did, by its operation; others wrote."""
OWN_WORDS = ("put",)
"""Operations whose commits say why in their author's words, or name the node."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that a person may want to look at: how many of them, and where that is done.

    What does not `need` anybody is only shown.
    """

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
    """One change: what was done by whom to which nodes, each with its name and whether it is still there.

    `by` says whether an agent or a person did it, and nothing where kgd did; `why` is what they said of it.
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


def overview(asked: Asked) -> Handled:
    status = asked.call("status")
    waiting = _waiting(asked, status)
    stages = [_stage(one) for one in status["stages"]]
    stuck = [one for one in stages if one.state in ("blocked", "degraded")]
    told = {
        "status": status, "waiting": waiting, "stages": stages, "stuck": stuck, "degraded": _degraded(status),
        "sentence": sentence(waiting, [one.title for one in stuck]), "learned": _learned(asked),
        "failed": [job for job in status["jobs"] if job["state"] == "failed"],
        "running": [job for job in status["jobs"] if job["state"] == "running"],
        "coverage": _coverage(asked), "is_new": asked.may_do_all and not status["counts"].get("nodes"),
        "is_alone": asked.may_do_all and not any(one["name"].startswith(("fetch", "push")) for one in status["stages"]),
        "writes": asked.may("put"), "suggests": asked.may_do_all, "polls": True,
    }  # fmt: skip
    return Page("overview.html", told)


def sentence(waiting: list[Waiting], stuck: list[str]) -> str:
    """Whether anything needs a person, in one sentence: ``3 conflicts and 2 proposals wait for you.``"""
    needs = [f"{one.count:,} {one.one if one.count == 1 else one.many}" for one in waiting if one.needs]
    said = []
    if needs:
        alone = len(needs) == 1 and next(one for one in waiting if one.needs).count == 1
        said.append(f"{_listed(needs)} wait{'s' if alone else ''} for you.")
    if stuck:
        verb = "does not work as it should" if len(stuck) == 1 else "do not work as they should"
        said.append(f"{_listed(stuck)} {verb}.")
    return " ".join(said) or "Nothing needs you."


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _waiting(asked: Asked, status: Mapping[str, Any]) -> list[Waiting]:
    counts = {
        **status["counts"], "conflicts": status["conflicts"], "proposals": status["proposals"],
        "failed": sum(job["state"] == "failed" for job in status["jobs"]),
    }  # fmt: skip
    return [
        Waiting(count, one, many, "#jobs" if key == "failed" else asked.to(page), why, needs)
        for key, one, many, page, why, needs in KINDS
        if (count := counts.get(key, 0))
    ]


def _stage(stage: Mapping[str, Any]) -> Stage:
    kind, _, remote = stage["name"].partition(" ")
    title = f"{STAGES.get(kind, kind)} {remote}".strip()
    return Stage(
        title, stage["state"], STATES.get(stage["state"], stage["state"]), stage.get("about", ""),
        stage.get("blocker", "").rstrip("."), stage.get("next", ""),
    )  # fmt: skip


def _degraded(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What does not work beside the stages, and what helps."""
    known = {f"{one['name']}: {one.get('blocker', '')}" for one in status["stages"]}
    return [(text, "" if "`" in text else remedies.of(text)) for text in status["degraded"] if text not in known]


def _learned(asked: Asked) -> list[Learned]:
    commits = asked.call("history", limit=RECENT)["commits"]
    known = names(asked, [uri for one in commits for uri in one["nodes"][:NAMED]])
    made = [
        Learned(
            DEEDS.get(one.get("operation", ""), "wrote"),
            tuple((uri, known.get(uri, {}).get("name") or name_of(uri), uri in known) for uri in one["nodes"][:NAMED]),
            len(one["nodes"]) - len(one["nodes"][:NAMED]) + one.get("more_nodes", 0), one["message"].partition("\n")[0],
            one.get("accepted_by") or by_line(one), one.get("client", ""), _by(one), one["at"], _why(one),
        )
        for one in commits
        if one.get("operation") != "init"
    ]  # fmt: skip
    return [one for number, one in enumerate(made) if not number or not _goes_on(made[number - 1], one)]


def _by(commit: Mapping[str, Any]) -> str:
    if commit.get("operation") == "merge":
        return ""
    return "agent" if is_agent(commit.get("client", "")) else "person"


def _why(commit: Mapping[str, Any]) -> str:
    """What the author said of it; nothing where the subject only names what was done to which node."""
    subject: str = commit["message"].partition("\n")[0]
    own = commit.get("operation") in OWN_WORDS and not any(uri in subject for uri in commit["nodes"])
    return subject if own and commit["nodes"] else ""


def _goes_on(newer: Learned, older: Learned) -> bool:
    """Whether two changes, one right after the other, are one to whoever reads of them."""
    return not newer.why + older.why and (newer.deed, newer.nodes, newer.author, newer.client) == (
        older.deed, older.nodes, older.author, older.client,
    )  # fmt: skip


def _coverage(asked: Asked) -> Mapping[str, Any] | None:
    """How much of the code has an area; None where there is no code, or nobody may know."""
    if not asked.can("coverage"):
        return None
    try:
        answer = asked.call("coverage", limit=1)
    except KgdError:
        return None
    folder: Mapping[str, Any] | None = answer.get("folder")
    return folder if folder and folder["files"] else None


ENTRIES = (Entry("overview", "overview", overview),)
