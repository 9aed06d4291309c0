"""The past of code in an answer: entries in the changelogs of areas, past commits, and the commits of requested lines.

Lines are requested as ``FILE:LINE``; the facts that cite them belong to the answer too. The history of the code is only
for callers on this machine. The holder of a token gets none: a message may describe files that they may not read, and
names of people stay on the machine.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from kgd.code_history import reading
from kgd.code_history.history import CodeHistory, PastCommit
from kgd.errors import Invalid, KgdError
from kgd.git import code_log
from kgd.git.code_log import LineOrigin, blame
from kgd.git.discovery import Place, find_place
from kgd.git.program import GitFailed
from kgd.model.escaping import printable
from kgd.model.node import cut_at_word
from kgd.model.uri import Uri, from_path, name_of, path_of, scheme_of
from kgd.tools import addressing, code_facts, file_paths, worktrees
from kgd.tools.areas import changelog
from kgd.tools.context.gathering import AREAS, DIRECT, Findings, in_words
from kgd.tools.nodes import catch_up, moment, overlay_of
from kgd.tools.paging import present
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

ENTRIES = 3
"""Largest number of entries of each area's changelog."""
AREAS_ASKED = 12
COMMITS_SHOWN = 8
LONGEST_LINE = 200
TOGETHER = 8
EXPERTS = 3
LIKELY = 6
SIMILAR = 5
SEARCHED = 60
"""Largest number of files found by text to rank with the files of past commits."""
PATHS_LOOKED = 200
"""Largest number of paths to look up in the history."""
OPTIONAL = ("known_by", "likely_files", "tried_before")
"""Lists that are left out of an answer if they are empty."""


class CodeCommit(TypedDict):
    """A commit of the code. `why` is the reason in the message's body, `kind` is ``fix`` or ``revert``."""

    commit: NotRequired[str]
    by: NotRequired[str]
    why: NotRequired[str]
    kind: NotRequired[str]
    reverted_by: NotRequired[list[str]]


class ChangeAnswer(CodeCommit):
    """An entry in the changelog of an `area`, or a code `commit` with its author and the requested `paths` that it
    changed."""

    at: str
    what: str
    area: NotRequired[str]
    task: NotRequired[str]
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
    asked = list(dict.fromkeys(paths))[:PATHS_LOOKED]
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
    answer: ChangeAnswer = {
        "at": moment(one.at),
        "what": cut_at_word(one.subject, LONGEST_LINE),
        "commit": one.id[:12],
    }
    answer |= present(
        why=cut_at_word(one.reason, LONGEST_LINE),
        by=one.author if named else "",
        kind=one.kind,
        reverted_by=[id[:12] for id in one.reverted_by],
    )
    return answer


def _entries(findings: Findings) -> list[ChangeAnswer]:
    """Entries of the areas' changelogs, newest first."""
    entries: list[ChangeAnswer] = []
    for area in findings.of_kind(*AREAS)[:AREAS_ASKED]:
        for one in changelog.entries(
            findings.workspace, area.uri, limit=ENTRIES, since=findings.since, until=findings.until
        )[0]:
            answer: ChangeAnswer = {
                "at": one.created_at,
                "what": cut_at_word(one.summary, LONGEST_LINE),
                "area": area.uri,
            }
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
        likely.append(answer | present(commits=[id[:12] for id in file.commits]))
    tried = history.commits_for(query, SIMILAR, since=findings.since, until=findings.until)
    return {"likely_files": likely, "tried_before": [_commit_answer(one, named=named) for one in tried]}


LINES = 40
"""Largest number of lines of a range."""
TEXT = 160
NO_CODE = "this workspace has no code tree"
PATHS = 5
"""Largest number of missing paths to report."""

log = logging.getLogger("kgd.history")


class AskedLines(NamedTuple):
    """The lines `first` to `last` of a file."""

    path: str
    first: int
    last: int


class LineAnswer(CodeCommit):
    """Adjacent lines of one origin. If `uncommitted`, they were written since the last commit; if `older`, before the
    history of a shallow clone. In both cases the other fields are missing.

    `was` is the position in the commit that wrote them, if the file or the lines have moved since.
    """

    path: str
    first: int
    last: int
    text: str
    uncommitted: NotRequired[bool]
    older: NotRequired[bool]
    at: NotRequired[str]
    what: NotRequired[str]
    was: NotRequired[str]


def separated(session: Session, workspace: Workspace, texts: Sequence[str]) -> tuple[list[str], list[AskedLines]]:
    """The texts without line numbers, and the requested lines, with their paths as given.

    ``FILE:12`` is a line, ``FILE:12-20`` a range, and ``FILE:12:5`` the line of a column.

    Raises:
        Invalid: A range is empty, or has more than `LINES` lines; or the text after the colon is not a line.
    """
    plain, asked = [], []
    for text in texts:
        if "://" in text or file_paths.is_known(session, workspace, text.strip()):
            plain.append(text)
            continue
        text = text.strip().rstrip(":") or text  # compilers and grep print a colon after the line
        found = addressing.lines_of(text)
        if found is None:
            _refuse_line(session, workspace, text)
            plain.append(text)
            continue
        path, first, last = found
        if not 1 <= first <= last < first + LINES:
            raise Invalid(
                f"a range has at most {LINES} lines, begins at line 1 or later, and names its first line first",
                at="paths",
                next="Write them as in FILE:12-20.",
            )
        plain.append(path)
        asked.append(AskedLines(path, first, last))
    return plain, asked


def _refuse_line(session: Session, workspace: Workspace, text: str) -> None:
    """Refuse a text such as ``src/app.py:x`` or ``:12``, which names a file or a line, but not both."""
    path, colon, line = text.partition(":")
    if not colon or any(sign in text for sign in ",\n"):
        return
    if not path or (session.principal is None and file_paths.locate_existing(session, workspace, path)):
        fault = f"'{line[:40]}' is not a line of {path}" if path else "there is no file before the colon"
        raise Invalid(fault, at=text[:80], next="Write a file and a line, as in src/app.py:12, or the file alone.")


def with_symbols(session: Session, workspace: Workspace, texts: Sequence[str]) -> tuple[list[str], list[Uri]]:
    """The texts with the file instead of each symbol, such as ``src/app.py#Shop.open``, and these symbols."""
    plain, symbols = list[str](), list[Uri]()
    for text in texts:
        pieces = file_paths.separated(session, workspace, text) if "#" in text or "symbol:" in text else [text]
        for piece in pieces:
            symbol = code_facts.at_address(session, workspace, piece)
            symbols += [symbol] if symbol is not None and symbol not in symbols else []
            plain.append(piece if symbol is None else path_of(symbol).rpartition("/")[0])
    return plain, symbols


def unknown_symbols(workspace: Workspace, symbols: Sequence[Uri], known: Collection[Uri]) -> list[str]:
    """A sentence for each of these symbols that neither the code has nor a fact, by `known`, is about."""
    overlay = overlay_of(workspace)
    found = []
    for symbol in symbols:
        path, _, name = path_of(symbol).rpartition("/")
        if overlay is not None and symbol not in known and not workspace.in_overlay(symbol):
            found.append(printable(f"{path} has no symbol {name}"))
    return found


def add_citing(findings: Findings, asked: Sequence[AskedLines]) -> None:
    """Add the nodes that cite a symbol with one of the lines, before nodes that cite the file."""
    workspace = findings.workspace
    if findings.session.principal is None:
        for path in dict.fromkeys(one.path for one in asked):
            catch_up(workspace, path)
    ranges = cache(partial(worktrees.symbol_lines, workspace, findings.session.own_cwd))
    for one in asked:
        within = ranges(one.path).items()
        symbols = [uri for uri, (first, last) in within if first <= one.last and one.first <= last]
        for fact in code_facts.facts_about(findings.session, workspace, symbols):
            how = f"{in_words(fact.type)} {name_of(fact.symbol)}, which contains the line"
            is_area = fact.type == "cites" and scheme_of(fact.uri) in AREAS
            if not is_area and (found := findings.add(fact.uri, DIRECT, how, -1.0)):
                found.on_line = found.of_symbol = True


def answers(session: Session, workspace: Workspace, asked: Sequence[AskedLines]) -> list[LineAnswer]:
    """The origin of each requested line; empty for a caller who may not see the code's history.

    The holder of a token gets only committed lines, because other lines of the work tree are not shared.
    """
    root = worktrees.root_for(workspace, session.own_cwd)
    code = find_place(root) if root is not None and history_of(session, workspace) is not None else None
    found: list[LineAnswer] = []
    is_readable = _readable(session, workspace)
    for one in asked if code is not None else ():
        assert code is not None
        if not is_readable(one.path):
            continue
        try:
            origins = blame(code, one.path, one.first, one.last)
            if session.principal is not None:
                origins = [line for line in origins if line.commit]
            found += _joined(session, workspace, code, one.path, origins)
        except (GitFailed, KgdError) as error:
            log.warning("lines cannot be attributed", extra={"path": one.path, "reason": str(error)[:300]})
    return found


WHOLE_ANSWER = "this answer is about"


def is_served(workspace: Workspace, path: str) -> bool:
    """Whether the path is a file of the code tree now. Ignored files and git's own are not."""
    overlay = overlay_of(workspace)
    return overlay is None or overlay.exists(from_path("file", workspace.id, path.rstrip("/")))


def _readable(session: Session, workspace: Workspace) -> Callable[[str], bool]:
    """`is_served` for the caller's work tree; in another work tree than the served one, runs git once per path."""
    code = worktrees.other_code(workspace, session.own_cwd)
    return cache(lambda path: is_served(workspace, path) if code is None else code.has(path) and code.belongs(path))


FEW_LEFT = 10
"""Number of unread files that an answer does not mention."""


def unread(session: Session, workspace: Workspace) -> str:
    """A sentence while much of the code is not read yet, so that symbols are missing; empty for the holder of a token,
    who would learn the size of the code."""
    overlay = overlay_of(workspace)
    if session.principal is not None or overlay is None or overlay.inside is None:
        return ""
    report = overlay.inside.report()
    left = report.get("left", 0)
    is_new = report.get("state") != "ready" and not report.get("symbols")
    return "the code is still being read: ask again in a moment" if is_new or left > FEW_LEFT else ""


def notes(
    session: Session, workspace: Workspace, asked: Sequence[AskedLines], found: Sequence[LineAnswer]
) -> list[str]:
    """Sentences about limits of an answer about code: unread files, another work tree, and history that the clone
    lacks."""
    tree = "everything except the lines is about" if asked else WHOLE_ANSWER
    told = [unread(session, workspace), worktrees.note(workspace, session.own_cwd, tree)]
    if (history := history_of(session, workspace)) is not None:
        told.append(
            history.limits(lacks=not found and any(map(_readable(session, workspace), (one.path for one in asked))))
        )
    return [one for one in told if one]


def unknown(session: Session, workspace: Workspace, asked: Sequence[AskedLines]) -> list[str]:
    """A sentence for each file that lacks the requested lines; empty for the holder of a token."""
    root = worktrees.root_for(workspace, session.own_cwd)
    if session.principal is not None or not asked:
        return []
    code = find_place(root) if root is not None else None
    if code is None:
        return [NO_CODE]
    found, is_readable = [], _readable(session, workspace)
    for one in asked:
        served = is_readable(one.path)
        length = code_log.length(code, one.path) if served else None
        if served and length is None:
            found.append(printable(f"{one.path} is not a text file, or too large, so it has no lines to show"))
        elif length is None and file_paths.is_directory(workspace, one.path):
            found.append(printable(f"{one.path.rstrip('/')} is a folder, so it has no lines"))
        elif length is None:
            like = file_paths.similar(workspace, one.path, None)
            found.append(printable(f"there is no readable file {one.path.rstrip('/')} in the code tree{like}"))
        elif length < one.first:
            lines = f"{length} line{'' if length == 1 else 's'}"
            found.append(printable(f"{one.path} has {lines}, so there is no line {one.first}"))
    return found


def unknown_paths(
    session: Session, workspace: Workspace, absent: Sequence[str], asked: Sequence[AskedLines]
) -> list[str]:
    """Report each requested path without a file, except the paths in `asked`, in one sentence.

    Without a code tree, one sentence reports that. Empty for the holder of a token.
    """
    if session.principal is not None:
        return []
    if workspace.layout.code_tree is None:
        return [NO_CODE]
    found = dict.fromkeys(absent)
    for one in asked:
        found.pop(one.path, None)
    return [
        printable(f"there is no {_file(path)} {path} in the code tree{node_or_similar(session, workspace, path)}")
        for path in list(found)[:PATHS]
    ]


def _file(path: str) -> str:
    """The kind of a missing path. Without an extension, it may be a folder."""
    return "file" if "." in path.rstrip("/").rpartition("/")[2] else "file or folder"


def node_or_similar(session: Session, workspace: Workspace, path: str) -> str:
    """The node that a path names, otherwise the files with similar paths, to add to a sentence; empty without any."""
    sees = session.sight(workspace.id)
    with contextlib.suppress(KgdError):
        uri = addressing.resolve(session, workspace, path)
        if workspace.exists(uri) and (sees is None or sees(uri)):
            return f"; {uri} is a node"
    return file_paths.similar(workspace, path, sees)


def _joined(
    session: Session, workspace: Workspace, code: Place, path: str, origins: Sequence[LineOrigin]
) -> Iterator[LineAnswer]:
    for (commit, is_older), group in groupby(origins, key=lambda one: (one.commit, one.is_older)):
        lines = list(group)
        first = lines[0]
        text = "\n".join(_cut(one.text.rstrip()) for one in lines)
        answer: LineAnswer = {
            "path": printable(path),
            "first": first.line,
            "last": lines[-1].line,
            "text": printable(text),
        }
        if is_older:
            answer["older"] = True
        elif not commit:
            answer["uncommitted"] = True
        else:
            answer |= {"commit": commit[:12], "at": moment(first.at), "what": first.subject}
            if session.principal is None:
                answer["by"] = first.author
            _explain(answer, session, workspace, code, commit)
            if (first.path, first.number) != (path, first.line):
                answer["was"] = printable(f"{first.path}:{first.number}")
        yield answer


def _explain(answer: LineAnswer, session: Session, workspace: Workspace, code: Place, commit: str) -> None:
    """Add the reason from the commit's message, and whether the commit is a fix or was reverted."""
    history = history_of(session, workspace)
    known = history.commit(commit) if history is not None else None
    if known is not None:
        reverted_by = [id[:12] for id in known.reverted_by]
        answer |= present(why=known.reason, kind=known.kind, reverted_by=reverted_by)
    else:  # older than the stored history
        told = reading.parse(code_log.message(code, commit)[1])
        answer |= present(why=reading.reason(told.body), kind=told.kind)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
