"""The tools `history`, `diff`, `revert` and `undo`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Forbidden, InvariantViolation, NotFound, Unavailable
from kgd.git import is_revision
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Revert
from kgd.model.escaping import printable
from kgd.model.uri import CODE_TREE, Uri, path_of, scheme_of
from kgd.tools import addressing, nodes, paging, visibility
from kgd.tools.differences import LONGEST_VALUE, NodeDiff, node_diff
from kgd.tools.file_paths import PathFilter, PathMatcher
from kgd.tools.nodes import UNSEEN_MESSAGE, CommitLine, DisputedAnswer, line, made_at, sees_all
from kgd.tools.operation import (
    BELOW,
    CURSOR,
    LIMIT,
    MESSAGE,
    SINCE,
    UNTIL,
    USUAL,
    Command,
    Hints,
    Operation,
    flag,
    option,
)
from kgd.tools.origins import Origin
from kgd.tools.paging import HARD_LIMIT, Room, clip, present
from kgd.tools.parameters import When, WorkspaceParams, future, period
from kgd.tools.recent_commits import correction, is_callers
from kgd.tools.session import Session
from kgd.tools.write.put import Rehearsed, nothing_left, rehearsed, reopened
from kgd.workspace.answers import Entry
from kgd.workspace.history.history import LOOKED_AT, subject_of_revert
from kgd.workspace.history.history import UNDO as UNDO_OPERATION
from kgd.workspace.workspace import Workspace

NODES_PER_DIFF = 50
NODES_NAMED = 50
"""Largest number of nodes listed for one commit."""
MOST_NODES = 10_000
"""Largest number of nodes of a commit to compare with `path`."""
LOOKED_THROUGH = 1_000
"""Number of consecutive commits without a readable change after which an answer ends with a cursor."""


class HistoryParams(WorkspaceParams):
    uri: str | None = None
    commit: str | None = None
    since: When = None
    until: When = None
    author: Annotated[str | None, Field(max_length=200)] = None
    path: PathFilter = Field(default_factory=list)
    diff: bool = False
    limit: Annotated[int, Field(ge=1, le=200)] = 20
    cursor: str | None = None


class Commit(CommitLine):
    client: NotRequired[str]
    operation: NotRequired[str]
    nodes: list[str]
    more_nodes: NotRequired[int]
    diff: NotRequired[list[NodeDiff]]
    more_diff: NotRequired[int]
    resolved: NotRequired[list[DisputedAnswer]]


class HistoryResult(TypedDict):
    workspace: str
    commits: list[Commit]
    next: NotRequired[str]
    cursor: NotRequired[str]
    origin: NotRequired[Origin]


def history(session: Session, params: HistoryParams) -> HistoryResult:
    """List commits, newest first. A node's commits include the commits under its former URIs.

    Raises:
        NotFound: The node does not exist and never did, as far as the caller may know. Suggests similar names.
    """
    texts = [params.uri] if params.uri else []
    workspace = addressing.choose(session, params.workspace, texts)
    uri = addressing.resolve(session, workspace, params.uri) if params.uri else None
    session.allow(workspace, Verb.READ, [uri] if uri else [])
    sees = session.sight(workspace.id)
    if uri is not None and (sees is None or sees(workspace.graph.resolve(uri))):
        uri = workspace.graph.resolve(uri)
    names = [uri, *workspace.history.former(uri, sees)] if uri is not None else []
    wanted = _below(workspace, PathMatcher.of(session, workspace, params.path), sees) if params.path else sees
    question = [uri, params.commit, params.since, params.until, params.author, params.path, params.diff]
    begin = paging.read("history", question, params.cursor) if params.cursor else ["", 0]
    after, rounds = str(begin[0]), paging.index(begin, 1)
    commit = session.commit(workspace, params.commit) if params.commit is not None else None
    every = _entries(workspace, params, names, commit, session.commit(workspace, after) if after else None)
    found = every if wanted is None else _in_sight(every, wanted, rounds)
    room = Room(HARD_LIMIT)
    answer: HistoryResult = {"workspace": workspace.id, "commits": []}
    entry: Entry | None = None
    for entry in found:
        shown = answer["commits"]
        is_room = entry is not None and len(shown) < params.limit
        told = _commit(workspace, entry, names, params.diff, sees, wanted) if entry and is_room else None
        if told is None or (not room.take(told) and shown):
            # The cursor holds the last shown commit and the number of rounds after it, so it does not name a hidden
            # commit.
            answer["cursor"] = paging.write("history", question, [after, rounds if entry else rounds + 1])
            break
        shown.append(told)
        after, rounds = told["commit"], 0
    if not (answer["commits"] or "cursor" in answer or params.cursor):
        if uri is not None:
            _check_known(session, workspace, uri, params.uri or "", sees)
        advice = correction(session, workspace, params.author, params.path) or future(params.since)
        answer |= present(next=advice or _of_code(session, uri))
    elif entry and "cursor" not in answer and not (params.author or params.since or params.commit or params.path):
        answer |= present(next=_before_rename(workspace, names, entry, sees))
    return answer


def _before_rename(workspace: Workspace, names: Sequence[Uri], oldest: Entry, sees: visibility.Sees | None) -> str:
    """The call that lists earlier commits, if a node's oldest commit renamed its file without an alias."""
    found = (workspace.history.renamed_from(one, oldest.commit) for one in names)
    former = next(filter(None, found), None)
    if former is None or not (sees is None or sees(former)):
        return ""
    return Advice(
        f"It was {former} before its file was renamed: ", Do("history", uri=former), " lists the earlier commits."
    )


def _of_code(session: Session, uri: Uri | None) -> str:
    """The calls that show changes of the facts about a path of the code tree, and the code's commits; empty for the
    holder of a token."""
    if uri is None or scheme_of(uri) not in CODE_TREE or session.principal is not None:
        return ""
    path = printable(path_of(uri))
    facts, code = Do("history", path=path), Do("context", paths=f"./{path}")
    return Advice(
        "This lists only the changes of the path's own node; ",
        facts,
        " lists the changes of facts about it, and ",
        code,
        " lists the commits of the code.",
    )


def _check_known(session: Session, workspace: Workspace, uri: Uri, given: str, sees: visibility.Sees | None) -> None:
    """Raise NotFound unless the node is served, or has commits that only the filters exclude. The text `given` for the
    node may name a commit."""
    found = nodes.find(workspace, uri, sees=sees)
    is_here = found is not None and (sees is None or sees(found.uri))
    if not is_here and not workspace.history.entries(uri=uri, limit=1):
        broken = next((one for one in workspace.invalid_files() if one.uri == uri), None)
        if broken and sees is None:
            told = nodes.invalid(workspace, broken)
            place = f"{told['path']}:{told['line']}"
            raise NotFound(f"its file cannot be read: {told['reason']}", at=place, next=told["next"])
        if commit := _commit_called(session, workspace, given):
            advice = Advice(Do("history", commit=commit, diff="true"), " shows it.")
            raise NotFound("this is a commit, not a node", at=given, next=advice)
        raise addressing.missing_node(workspace, uri, sees)


def _commit_called(session: Session, workspace: Workspace, text: str) -> str:
    """The short id of the commit with this id or name; empty if there is none."""
    if is_revision(text):
        with suppress(NotFound):
            return session.commit(workspace, text)[:10]
    return ""


def _entries(
    workspace: Workspace, params: HistoryParams, names: Sequence[Uri], commit: str | None, after: str | None
) -> Iterator[Entry]:
    """The requested commits, newest first; reads pages lazily. `names` are a node's URIs, the current URI first."""
    since, until = period(params.since, params.until)
    size = params.limit + 1
    while True:
        page = workspace.history.entries(
            uri=names[0] if names else None,
            former=names[1:],
            commit=commit,
            since=since,
            until=until,
            author=params.author,
            limit=size,
            after=after,
            most_nodes=MOST_NODES if params.path else NODES_NAMED,
        )
        yield from page
        if commit is not None or len(page) < size:
            return
        after, size = page[-1].commit, min(2 * size, LOOKED_THROUGH)


def _below(workspace: Workspace, paths: PathMatcher, sees: visibility.Sees | None) -> visibility.Sees:
    """Predicate for the readable nodes that the filter covers, themselves or by a relation to readable code."""

    def covered(uri: Uri) -> bool:
        if sees is not None and not sees(uri):
            return False
        targets = (edge.target for edge in workspace.graph.out(uri) if sees is None or sees(edge.target))
        return paths.concerns(uri, targets)

    return covered


def _in_sight(found: Iterator[Entry], sees: visibility.Sees, rounds: int) -> Iterator[Entry | None]:
    """The entries that changed a readable node.

    Yields None after `LOOKED_THROUGH` consecutive other entries, not counting `rounds` times that many entries that
    earlier calls scanned.
    """
    unseen = 0
    for entry in found:
        if any(map(sees, entry.nodes)):
            yield entry
            unseen = rounds = 0
        else:
            unseen += 1
            if unseen >= (rounds + 1) * LOOKED_THROUGH:
                yield None


class DiffParams(WorkspaceParams):
    range: Annotated[str, Field(description="A..B, or one commit")]
    uri: str | None = None


class DiffResult(TypedDict):
    workspace: str
    before: str | None
    after: str
    diff: list[NodeDiff]


def diff(session: Session, params: DiffParams) -> DiffResult:
    workspace = addressing.choose(session, params.workspace, [params.uri] if params.uri else [])
    uri = addressing.resolve(session, workspace, params.uri) if params.uri else None
    first, dots, last = params.range.partition("..")
    if not dots:
        commit = session.commit(workspace, first)
        changes, before, after = workspace.history.changes(commit), None, commit
    else:
        before = session.commit(workspace, first or "HEAD")
        after = session.commit(workspace, last.lstrip(".") or "HEAD")
        changes = workspace.history.changes_between(before, after)
    found = [node_diff(change, whole=True) for change in changes if uri is None or change.uri == uri]
    return {"workspace": workspace.id, "before": before, "after": after, "diff": found}


class RevertParams(WorkspaceParams):
    commit: str
    message: str = ""
    dry_run: bool = False


def revert(session: Session, params: RevertParams) -> Rehearsed:
    workspace = addressing.choose(session, params.workspace, writing=True)
    return _revert_named(session, workspace, params.commit, "revert", params.message, dry_run=params.dry_run)


class UndoParams(WorkspaceParams):
    commit: str | None = None
    dry_run: bool = False


def undo(session: Session, params: UndoParams) -> Rehearsed:
    """Revert one commit: without its id, the newest change by the caller that is not undone yet; a revert counts as a
    change. Each further call undoes the change before that one. Files just saved by hand are committed first; this
    compares the stamps of all files of the work tree.

    Without an id, changes by others remain. A change without any remaining effect is skipped, for example if a merge
    brought the same edit from two people.

    Raises:
        InvariantViolation: The user's newest change is not in the history, because it cannot be read: an edit of a
            file, or commits on the branch.
        NotFound: The last `LOOKED_AT` commits contain no such change.
    """
    workspace = addressing.choose(session, params.workspace, writing=True)
    if params.commit is not None:
        return _revert_named(session, workspace, params.commit, UNDO_OPERATION, dry_run=params.dry_run)
    workspace.settle()
    if not (session.by_agent or session.principal):
        _refuse_unmerged_commits(workspace)
        _refuse_unreadable_edits(workspace)
    is_own, others, commits = is_callers(session, workspace), list[Entry](), list[str]()
    for entry in workspace.history.undoable():
        if not is_own(entry):
            others.append(entry)
            continue
        commits.append(entry.commit)
        answer, is_something = _revert_commits(session, workspace, commits, UNDO_OPERATION, dry_run=params.dry_run)
        if is_something:
            if others:
                more = f", and {len(others) - 1} more" if others[1:] else ""
                answer["warnings"].append(f"newer changes by others remain: {_named(others[0])}{more}")
            return answer
    of_yours, newest = (" of yours", f"; the newest change is {_named(others[0])}") if others else ("", "")
    raise NotFound(
        f"the last {LOOKED_AT} commits have nothing{of_yours} left to undo{newest}",
        next=Advice("Name a commit: ", Do("undo", commit="COMMIT"), "."),
    )


def _refuse_unmerged_commits(workspace: Workspace) -> None:
    """Refuse to undo an older change while the user's own commits are not merged: the user probably means these."""
    if (reason := workspace.branch_refusal) is None:
        return
    fix = f"Fix it with another commit, such as `{workspace.layout.git_command} revert --no-edit HEAD`; "
    earlier = Advice(fix, Do("undo", commit="COMMIT"), " reverts an earlier change.")
    is_other = workspace.layout.is_bare or isinstance(reason, Forbidden | Unavailable)
    raise InvariantViolation(
        f"your newest commits with git are not merged: {reason.message}",
        at=reason.at,
        next=reason.next if is_other else earlier,
    )


def _refuse_unreadable_edits(workspace: Workspace) -> None:
    """Refuse an undo without a commit if an edit by hand cannot be read: the user probably means this edit."""
    if not (edits := workspace.unreadable_edits()):
        return
    one = edits[0]
    is_stored = one.uri is None or workspace.exists(one.uri)
    command = f"{workspace.layout.git_command} restore -- {shlex.quote(printable(one.path))}"
    discard = f"discard the edit with `{command}`" if is_stored else "move it out of the way"
    raise InvariantViolation(
        f"an edit by hand cannot be read, so it is not committed: {one.reason}",
        at=f"{printable(one.path)}:{one.line}",
        next=Advice(f"Fix the file or {discard}; ", Do("undo", commit="COMMIT"), " reverts an earlier change."),
    )


def _named(entry: Entry) -> str:
    return f"{entry.commit[:10]} by {entry.author}"


def _revert_named(
    session: Session, workspace: Workspace, named: str, operation: str, message: str = "", *, dry_run: bool
) -> Rehearsed:
    """Revert the commit that the caller names. If nothing is left to revert, a warning gives the reason.

    `HEAD` counts from the user's newest commit, so files just saved and commits made with git are merged first.
    """
    if named.strip().upper().startswith("HEAD"):
        workspace.settle()
        if not (session.by_agent or session.principal):
            _refuse_unmerged_commits(workspace)
    commit = session.commit(workspace, named)
    answer, is_something = _revert_commits(session, workspace, [commit], operation, message, dry_run=dry_run)
    if not is_something:
        answer["warnings"].append(nothing_left(session, workspace, commit))
    return answer


def _revert_commits(
    session: Session, workspace: Workspace, commits: Sequence[str], operation: str, message: str = "", *, dry_run: bool
) -> tuple[Rehearsed, bool]:
    """Revert the last of `commits` and record the others as reverted with it.

    Returns the answer, and whether there was anything to revert.
    """
    (entry,) = workspace.history.entries(commit=commits[-1])
    message = message or (subject_of_revert(entry.subject, entry.operation) if len(commits) > 1 else "")
    changes = ChangeSet(tuple(map(Revert, commits)), session.author(workspace), message, operation=operation)
    outcome = session.submit(workspace, changes, dry_run=dry_run)
    answer = rehearsed(session, workspace, outcome, dry_run=dry_run)
    answer["reverted"] = line(entry)
    answer["warnings"] += reopened(session, workspace, answer, commits)
    return answer, bool(outcome.commit or (outcome.would and not outcome.would.is_empty))


def _commit(
    workspace: Workspace,
    entry: Entry,
    only: Sequence[Uri],
    with_diff: bool,
    sees: visibility.Sees | None,
    wanted: visibility.Sees | None,
) -> Commit:
    seen = [uri for uri in entry.nodes if wanted is None or wanted(uri)]
    text = "\n\n".join(part for part in (entry.subject, entry.body) if part)
    shows_all = sees_all(workspace, entry, sees)
    answer: Commit = {
        "commit": entry.commit,
        "at": made_at(entry),
        "author": entry.author,
        "message": clip(text, LONGEST_VALUE) if shows_all else UNSEEN_MESSAGE,
        "nodes": list(seen[:NODES_NAMED]),
    }
    answer |= present(
        pushed_by=entry.pushed_by,
        accepted_by=entry.accepted_by,
        client=entry.client,
        operation=entry.operation,
        more_nodes=len(seen[NODES_NAMED:]) + (entry.more_nodes if wanted is None else 0),
    )
    if with_diff:
        changes = [
            change
            for change in workspace.history.changes(entry.commit)
            if (not only or change.uri in only) and (wanted is None or wanted(change.uri))
        ]
        answer["diff"] = [node_diff(change) for change in changes[:NODES_PER_DIFF]]
        answer |= present(more_diff=len(changes[NODES_PER_DIFF:]))
        if entry.operation == "resolve":
            settled = islice(workspace.history.resolved(entry.commit), NODES_PER_DIFF)
            answer["resolved"] = [nodes.dispute(one) for one in settled if wanted is None or wanted(one.uri)]
    return answer


HISTORY = Operation(
    name="history",
    title="What changed, and why",
    description=(
        "Commits with author, message and changed nodes, newest first; for a node, an author or a period. `diff`"
        " adds each changed field before and after."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=history,
    forwards=True,
    page="the history",
    offered=USUAL,
    place=90,
    scope=Verb.READ,
    commands=(
        Command(
            "The past",
            "show who changed what and why, for one node or all",
            (
                option("uri", "a URI or path", "URI", nargs="?"),
                option("--commit", "only this commit", "COMMIT"),
                SINCE,
                UNTIL,
                option("--author", "only commits of this author", "TEXT"),
                BELOW,
                option("--diff", "include the changed fields"),
                LIMIT,
                CURSOR,
            ),
            place=10,
            print="printing_history.history",
            examples=(("kgd history services/auth --diff", "the changes of one node, by field"),),
        ),
        Command(
            "The past",
            "list the commits of the workspace or of one node, newest first",
            (
                option("uri", "a URI or path", "URI", nargs="?"),
                option("--author", "only commits of this author", "TEXT"),
                SINCE,
                UNTIL,
                BELOW,
                LIMIT,
                CURSOR,
                flag("--long", "show whole subjects; a terminal otherwise cuts them", dest="verbose"),
            ),
            name="log",
            place=30,
            without="uri",
            print="printing_history.log",
            examples=(
                ("kgd log --author Ann --since 'last week'", "the commits of one author"),
                ("kgd log --path src/auth", "the commits about some code"),
            ),
        ),
    ),
)
DIFF = Operation(
    name="diff",
    title="Differences between two commits",
    description="By node and field.",
    hints=Hints(read_only=True, idempotent=True),
    run=diff,
    commands=(
        Command(
            "The past",
            "show the differences between two commits, by field",
            (
                option("range", "A..B, or one commit for its own changes", "A..B"),
                option("uri", "only this node", "URI", nargs="?"),
            ),
            place=40,
            examples=(
                ("kgd diff HEAD", "the changes of the newest commit"),
                ("kgd diff HEAD~1..HEAD services/auth", "the changes of one node between two commits"),
            ),
            print="printing_history.diff",
        ),
    ),
)
REVERT = Operation(
    name="revert",
    title="Revert a commit",
    description="Applies the inverse change through the merge; later changes are kept.",
    hints=Hints(destructive=True),
    run=revert,
    commits={"revert": "reverted"},
    commands=(
        Command(
            "The past",
            "undo one commit; later changes are kept",
            (option("commit", "the commit", "COMMIT"), MESSAGE),
            place=50,
            examples=(('kgd revert 3f2a91c0de -m "The host was wrong"', "undo one commit with a new commit"),),
            print="printing.put",
        ),
    ),
)
UNDO = Operation(
    name="undo",
    title="Undo the last change",
    description="Reverts your newest change that is not undone yet, or the given commit; a revert counts as a change. "
    "Without a commit, changes by others remain.",
    hints=Hints(destructive=True),
    run=undo,
    commits={"undo": "reverted"},
    commands=(
        Command(
            "The past",
            "undo your newest change; run it again to undo the one before",
            (option("commit", "a commit by any author", "COMMIT", nargs="?"),),
            place=60,
            print="printing.put",
        ),
    ),
)
