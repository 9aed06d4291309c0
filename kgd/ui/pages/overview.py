"""The overview: pending work with its actions, the feed of recent changes by author and hour, coverage, health, and the
first steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kgd.agents.install import is_set_up
from kgd.exchange import rules
from kgd.model.node import SUMMARY_LIMIT
from kgd.model.uri import name_of, uri_at
from kgd.tools import entries
from kgd.tools.nodes import is_agent
from kgd.tools.workspaces.status import remedy
from kgd.ui.changes import mapping_text, reason_of
from kgd.ui.node_reading import lead
from kgd.ui.pages.areas import coverage_of
from kgd.ui.pages.attention import waiting
from kgd.ui.rendering import counted
from kgd.ui.visit import Entry, Handled, Page, Visit
from kgd.ui.words import sentence

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
LANGUAGES = {
    "cpp": "C++",
    "csharp": "C#",
    "fsharp": "F#",
    "javascript": "JavaScript",
    "matlab": "MATLAB",
    "objective-c": "Objective-C",
    "ocaml": "OCaml",
    "php": "PHP",
    "tsx": "TSX",
    "typescript": "TypeScript",
    "vhdl": "VHDL",
}
"""Names of languages that are not their identifier with a capital letter."""
FINDINGS = {
    "together": ("Change together", "insight", "{} change together because "),
    "reverted": ("Often reverted", "gotcha", "{} was often reverted because "),
    "fixes": ("Needs many fixes", "gotcha", "{} needs many fixes because "),
}
"""Findings in the code's history: their title, and the type and the beginning of a fact that gives the reason."""
LESSONS = 3
RULES = 3
"""Largest number of places of rules to name."""
QUESTIONS = 5
FEW = 5
"""A workspace with fewer nodes shows the first steps."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A finding about the code. `parts` are pairs of text and address; `commit` is its newest commit, `shown`
    the address of this commit on a page, and `why` the address of the form of a fact that gives the reason."""

    title: str
    parts: tuple[tuple[str, str], ...]
    commit: str = ""
    why: str = ""
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One of the first steps. `text` is its reason, `place` the address of a page, and `label` the text of the link."""

    title: str
    is_done: bool
    text: str = ""
    place: str = ""
    label: str = ""
    commands: tuple[str, ...] = ()


def overview(visit: Visit) -> Handled:
    status = visit.call("status")
    stages = [_stage(one) for one in status["stages"]]
    stuck = [one for one in stages if one["state"] in ("blocked", "degraded")]
    nodes, coverage, changes = status["counts"].get("nodes", 0), coverage_of(visit), feed(visit)
    is_new = visit.may_do_all and not nodes
    is_young = visit.may_do_all and nodes < FEW
    is_alone = visit.may_do_all and not any(one["name"].startswith(("fetch", "push")) for one in status["stages"])
    told = {
        "status": status,
        "waiting": waiting(visit, status),
        "stages": stages,
        "stuck": stuck,
        "symbols": _symbols(status.get("code", {}), "symbol"),
        "degraded": _degraded(status),
        "unread": unread(status),
        "feed": changes,
        "questions": visit.call("questions", limit=QUESTIONS) if visit.can("questions") else None,
        "running": [job for job in status["jobs"] if job["state"] == "running"],
        "coverage": coverage,
        "lessons": _lessons(visit, status) if is_new else [],
        "steps": _steps(visit, status, changes, is_alone) if is_young else [],
        "is_new": is_new,
        "is_alone": is_alone,
        "writes": visit.may("put"),
        "suggests": visit.may_do_all,
        "polls": True,
    }
    return Page("overview.html", told)


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stage of the status with its title, and its state in words."""
    kind, _, remote = stage["name"].partition(" ")
    title, words = f"{STAGES.get(kind, kind)} {remote}".strip(), STATES.get(stage["state"], stage["state"])
    blocker = stage.get("blocker", "").rstrip(".")
    return {"next": "", **stage, "title": title, "words": words, "blocker": blocker}


def unread(status: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """The number of files without a parser, their languages, and the package to install, for each package."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for one in status.get("code", {}).get("missing", ()):
        rows.setdefault(one["install"], []).append(one)
    return [
        (sum(one["files"] for one in found), ", ".join(one["language"] for one in found), install)
        for install, found in rows.items()
    ]


def _degraded(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return other problems, with their remedies."""
    known = {f"{one['name']}: {one.get('blocker', '')}" for one in status["stages"]}
    return [(text, "" if "`" in text else remedy(text)) for text in status["degraded"] if text not in known]


def _lessons(visit: Visit, status: Mapping[str, Any]) -> list[Lesson]:
    """Return findings from the code and its history, for a workspace without facts."""
    found = [
        Lesson(
            FINDINGS[one["kind"]][0],
            _linked(visit, one["what"], one["paths"]),
            one["commits"][0],
            _form(visit, one) if visit.may("put") else "",
            f"{visit.to('file', path=one['paths'][0])}#commit-{one['commits'][0][:10]}",
        )
        for one in status.get("findings", ())
        if one["kind"] in FINDINGS
    ]
    code, counts = status.get("code", {}), status["counts"]
    if code.get("symbols"):
        found.append(_plain("Code", f"{_symbols(code, 'definition')} that facts can cite"))
    if counts.get("files"):
        folders = counted(counts.get("directories", 0), "folder")
        found.append(_plain("Files", f"{counted(counts['files'], 'file')} in {folders}, none of them in an area yet"))
        found.append(_plain("History", "After 50 commits: which files change together, and which need many fixes"))
    return found[:LESSONS]


def _symbols(code: Mapping[str, Any], word: str) -> str:
    """Return the number of symbols with their languages: ``3 Python symbols``, ``5 symbols (Go, Python)``."""
    names = [LANGUAGES.get(one, one.capitalize()) for one in code.get("languages", ())]
    if len(names) == 1:
        return counted(code.get("symbols", 0), f"{names[0]} {word}")
    return counted(code.get("symbols", 0), word) + (f" ({', '.join(names)})" if names else "")


def _steps(visit: Visit, status: Mapping[str, Any], changes: Sequence[Group], is_alone: bool) -> list[Step]:
    """Return the first steps in a workspace, with the finished ones."""
    has_agent = any(one.client for one in changes) or is_set_up(visit.daemon.home.state)
    nodes, code = status["counts"].get("nodes", 0), status["workspace"].get("code_tree")
    steps = [
        Step("Connect an agent.", has_agent, "It can then read and write facts.", commands=("kgd agents install",))
    ]
    if rules := _rules(status):
        commands = tuple(f"kgd import {place}" for place in rules)
        steps.append(Step("Import your rules.", False, "Every agent then sees them.", commands=commands))
    remember = 'kgd remember "Tokens expire after an hour"'
    steps.append(Step("Write the first fact.", nodes > 0, "", visit.to("node/new"), "Write it here", (remember,)))
    if not code:
        why = "Every agent can then search them."
        steps.append(Step("Import your documents.", False, why, commands=("kgd ingest FOLDER",)))
    share = "kgd share" if code else "kgd remote add origin URL"
    only_here = "This workspace is only on this machine."
    return [*steps, Step("Share it with your team.", not is_alone, only_here, commands=(share,))]


def _form(visit: Visit, finding: Mapping[str, Any]) -> str:
    """Return the address of a form for the reason of a finding, which cites its files."""
    _, type, begins = FINDINGS[finding["kind"]]
    paths = finding["paths"]
    summary = begins.format(" and ".join(path.rpartition("/")[2] for path in paths))
    return visit.to(
        "node/new",
        type=type,
        summary=summary if len(summary) < SUMMARY_LIMIT else "",
        content=f"{finding['what']}, up to commit {finding['commits'][0]}.",
        about=[f"./{path}" for path in paths],
        data=mapping_text({"cites": paths}),
    )


def _rules(status: Mapping[str, Any]) -> list[str]:
    """Return the places of agents' rules in the code, which an import reads."""
    code = status["workspace"].get("code_tree")
    return rules.at_top(Path(code))[:RULES] if code else []


def _plain(title: str, text: str) -> Lesson:
    return Lesson(title, ((text, ""),))


def _linked(visit: Visit, text: str, paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Split a text so that each path in it is a part with the address of the file's page."""
    parts, rest = [], text
    for path in sorted(paths, key=text.find):
        before, path, rest = rest.partition(path)
        parts += [(before, ""), (path, visit.to("node", uri=uri_at("file", visit.workspace, path)))]
    return (*parts, (rest, ""))


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


def titles_of(visit: Visit, commits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return a title for each commit: its author's reason, or its changes; `commits` are newest first."""
    known = _nodes(visit, {uri: one["commit"] for one in reversed(commits) for uri in one["nodes"]})
    for commit in commits:
        group = Group("", "", "", commit["at"])
        _add(group, commit, known)
        yield next(iter(group.reasons), "") or sentence(group.gist)


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
    for one in visit.tried("get", uris=list(commits), include=[], budget=CARDS).get("nodes", ()):
        found |= {one["uri"]: one, one.get("asked", one["uri"]): one}
    for uri in [uri for uri in commits if uri not in found][:FORMER]:
        before = visit.tried("get", uris=[uri], include=[], as_of=f"{commits[uri]}~1", budget=CARDS).get("nodes")
        found[uri] = {"name": before[0]["name"]} if before else {}
    return found


@cache
def verbs() -> Mapping[str, str]:
    """Verbs of commits by their `Kgd-Op` trailer."""
    return {word: verb for one in entries().values() for word, verb in one["commits"].items()} | OTHER_VERBS


ENTRIES = (Entry("overview", "overview", overview),)
