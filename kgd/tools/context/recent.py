"""Past changes: entries in the changelogs of areas, and the history of the code.

The history of the code is only for callers on this machine. The holder of a token gets none: a message may describe
files that they may not read, and names of people stay on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory, PastCommit
from kgd.model.node import cut_at_word
from kgd.model.uri import Uri
from kgd.tools.areas import answers
from kgd.tools.context.gathering import AREAS, Findings
from kgd.tools.nodes import moment, printable
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

ENTRIES = 3
"""Largest number of entries of each area's changelog."""
AREAS_ASKED = 12
COMMITS_SHOWN = 8
LINE = 200
TOGETHER = 8
EXPERTS = 3
LIKELY = 6
SIMILAR = 5
SEARCHED = 60
"""Largest number of files found by text to rank with the files of past commits."""
PATHS = 200
"""Largest number of paths to look up in the history."""
OPTIONAL = ("known_by", "likely_files", "tried_before")
"""Lists that are left out of an answer if they are empty."""


class ChangeAnswer(TypedDict):
    """An entry in the changelog of an `area`, or a code `commit` with its author and the requested `paths` that it
    changed.

    `why` is the reason in the message's body, `kind` is ``fix`` or ``revert``.
    """

    at: str
    what: str
    why: NotRequired[str]
    area: NotRequired[str]
    task: NotRequired[str]
    commit: NotRequired[str]
    by: NotRequired[str]
    kind: NotRequired[str]
    reverted_by: NotRequired[list[str]]
    paths: NotRequired[list[str]]


class TogetherAnswer(TypedDict):
    """A file that also changed in `count` of the `of` newest commits on the requested paths."""

    path: str
    count: int
    of: int


class KnownByAnswer(TypedDict):
    """An author of the paths, with the number of their commits."""

    name: str
    commits: int
    last: str


class LikelyFileAnswer(TypedDict):
    """A file that the task is likely to touch, and past commits that suggest it."""

    path: str
    why: list[str]
    commits: NotRequired[list[str]]


def history_of(session: Session, workspace: Workspace) -> CodeHistory | None:
    """The history of the code, or None if the caller may not see it. A token never gets the names of the code's
    authors."""
    return CodeHistory.of(workspace) if session.sees_code_history(workspace) else None


def sides(findings: Findings, paths: Sequence[str], files: Sequence[str], query: str) -> dict[str, Sequence[Any]]:
    """The lists about the past in an answer, by name.

    Args:
        paths: The requested paths; directories end in a slash.
        files: The files among and below the paths.
        query: The text of a task or a question; empty without one.
    """
    history = history_of(findings.session, findings.workspace)
    asked = list(dict.fromkeys(paths))[:PATHS]
    entries = _entries(findings)
    if history is None:
        return {"changes": entries, "changed_together": []}
    named = findings.session.principal is None
    lately = history.lately(asked, COMMITS_SHOWN, since=findings.since, until=findings.until)
    experts = history.experts(asked, EXPERTS) if named else []
    return {
        "changes": [*entries, *(_commit(one, [*asked, *files], named=named) for one in lately)],
        "changed_together": [
            {"path": one.path, "count": one.times, "of": one.of} for one in history.companions(asked, TOGETHER)
        ],
        "known_by": [{"name": one.name, "commits": one.commits, "last": moment(one.last)[:10]} for one in experts],
        **(_about(findings, history, query, named=named) if query.strip() else {}),
    }


def _commit_answer(one: PastCommit, *, named: bool) -> ChangeAnswer:
    """A commit of the code, without its paths, and with its author if `named`."""
    answer: ChangeAnswer = {"at": moment(one.at), "what": cut_at_word(one.subject, LINE)}
    if one.reason:
        answer["why"] = cut_at_word(one.reason, LINE)
    answer["commit"] = one.id[:12]
    if named:
        answer["by"] = one.author
    if one.kind:
        answer["kind"] = one.kind
    if one.reverted_by:
        answer["reverted_by"] = [id[:12] for id in one.reverted_by]
    return answer


def _entries(findings: Findings) -> list[ChangeAnswer]:
    """Entries of the areas' changelogs, newest first."""
    entries: list[ChangeAnswer] = []
    for area in findings.of_kind(*AREAS)[:AREAS_ASKED]:
        for one in answers.entries(
            findings.workspace, area.uri, limit=ENTRIES, since=findings.since, until=findings.until
        )[0]:
            answer: ChangeAnswer = {"at": one.created_at, "what": cut_at_word(one.summary, LINE), "area": area.uri}
            if one.task and findings.may_see(Uri(one.task)):
                answer["task"] = one.task
            entries.append(answer)
    return sorted(entries, key=lambda one: (one["at"], one["area"]), reverse=True)


def _commit(one: PastCommit, asked: Sequence[str], *, named: bool) -> ChangeAnswer:
    answer = _commit_answer(one, named=named)
    whole, folders = set(asked), tuple(path for path in asked if path.endswith("/") or not path)
    mine = [path for path in one.paths if path in whole or path.startswith(folders)]
    answer["paths"] = [printable(path) for path in mine[:3]]
    return answer


def _about(findings: Findings, history: CodeHistory, query: str, *, named: bool) -> dict[str, Sequence[Any]]:
    """Files that a task is likely to touch, and past commits about it."""
    found, _ = findings.workspace.files_with(query, SEARCHED)
    seeds = {one.path: one.score for one in found}
    likely: list[LikelyFileAnswer] = []
    for file in history.files_for(query, LIKELY, seeds):
        answer: LikelyFileAnswer = {"path": printable(file.path), "why": list(file.why)}
        if file.commits:
            answer["commits"] = [id[:12] for id in file.commits]
        likely.append(answer)
    tried = history.commits_for(query, SIMILAR, since=findings.since, until=findings.until)
    return {"likely_files": likely, "tried_before": [_commit_answer(one, named=named) for one in tried]}
