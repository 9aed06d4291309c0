"""The overview: pending work with its actions, recent changes, coverage, health, and the first steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgd.agents.install import is_set_up
from kgd.exchange import rules
from kgd.model.node import SUMMARY_LIMIT
from kgd.model.uri import uri_at
from kgd.tools.workspaces.status import remedy
from kgd.ui.changes import mapping_text
from kgd.ui.feed import Group, feed
from kgd.ui.pages.areas import coverage_of
from kgd.ui.pages.attention import waiting
from kgd.ui.rendering import counted
from kgd.ui.visit import Entry, Handled, Page, Visit

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


@dataclass(frozen=True, slots=True)
class Stage:
    title: str
    state: str
    words: str
    about: str
    blocker: str
    next: str


def overview(visit: Visit) -> Handled:
    status = visit.call("status")
    stages = [_stage(one) for one in status["stages"]]
    stuck = [one for one in stages if one.state in ("blocked", "degraded")]
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


ENTRIES = (Entry("overview", "overview", overview),)
