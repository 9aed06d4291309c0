"""The `review` tool: a diff of the graph by author, to accept or to revert in part; and the list of recent commits.

Each node shows an author's net change: three writes to a field count as one. The approvals of a person are one file in
the folder of derived data. Without the file, no change counts as approved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import merge
from itertools import groupby, islice
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.git import program
from kgd.model.change import Author, ChangeSet, Revert
from kgd.model.uri import Uri
from kgd.tools import addressing, paging
from kgd.tools.differences import FieldDiff
from kgd.tools.file_paths import PathFilter, PathMatcher
from kgd.tools.nodes import is_agent, made_at, moment
from kgd.tools.operation import BELOW, CURSOR, MESSAGE, Command, Hints, Operation, option
from kgd.tools.paging import HARD_LIMIT, Room, clip, present
from kgd.tools.parameters import Many, Message, When, WorkspaceParams, future, moment_of, period
from kgd.tools.recent_commits import (
    MOST_COMMITS,
    Approvals,
    Reverts,
    by_agent,
    correction,
    is_commit_by,
    is_own,
    last_review,
    note_review,
    recent_commits,
)
from kgd.tools.session import Session
from kgd.tools.write.put import Rehearsed, rehearsed
from kgd.workspace.answers import Entry, NodeChange
from kgd.workspace.history.commits import changed_fields
from kgd.workspace.workspace import Workspace

LONGEST_VALUE = 2_000
BATCH = 26
"""Number of nodes read in one batch: a page of the browser, and one more to know whether another page follows."""
GROUPS_NAMED = 5
"""Largest number of groups to name in an error."""
FIELDS_OF_LONG, SHORT_VALUE = 40, 300
"""Limits for a node too large for an answer: number of fields, characters of each value."""
By = tuple[str, str, bool, str]
"""A writer: author, client, whether the client is an agent, and pusher."""


class ReviewParams(WorkspaceParams):
    since: Annotated[When, Field(description="monday, 2 days ago, an ISO date; else since the last review")] = None
    by: Annotated[str | None, Field(description="agent, person, or part of a name")] = None
    path: PathFilter = Field(default_factory=list)
    accept: Annotated[bool, Field(description="mark everything up to now as reviewed")] = False
    approve: Annotated[Many[str], Field(description="approve the changes to these nodes, for this person")] = Field(
        default_factory=list
    )
    revert: Annotated[Many[str], Field(description="revert the changes to these nodes")] = Field(default_factory=list)
    group: Annotated[
        Many[str],
        Field(
            description="with `revert` or `approve`: only the changes of these groups, named as `group` in the answer; "
            "one for all nodes, or one for each node in order"
        ),
    ] = Field(default_factory=list)
    commit: Annotated[str | None, Field(description="only the changes of this commit")] = None
    until: Annotated[str | None, Field(description="a commit or date: later ones are not shown or accepted")] = None
    message: Message = ""
    limit: Annotated[int | None, Field(ge=1, le=200, description="nodes")] = None
    cursor: str | None = None
    dry_run: bool = False


class Learned(TypedDict):
    """One author's changes to one node, the newest at the time `at`.

    If all of them are reverted, `reverted` is the commit that reverted the newest. `approved`: this person approved all
    of them. `reason`: where and why the file of an `invalid` node cannot be read.
    """

    uri: str
    at: str
    change: Literal["added", "changed", "removed", "invalid"]
    commits: list[str]
    fields: dict[str, FieldDiff]
    more_fields: NotRequired[int]
    reason: NotRequired[str]
    reverted: NotRequired[str]
    approved: NotRequired[bool]


class ByAuthor(TypedDict):
    """A group that began on an earlier page is `continued`; with more nodes on the next page, it `continues`."""

    group: str
    author: str
    agent: bool
    pushed_by: NotRequired[str]
    client: NotRequired[str]
    commits: int
    nodes: list[Learned]
    continued: NotRequired[bool]
    continues: NotRequired[bool]


class Reviewed(TypedDict):
    commit: str
    at: str


class ReviewResult(TypedDict):
    """`until` is the newest examined commit; `more` nodes are left out and follow at `cursor`.

    `agents` and `people` count commits in this period, independently of `by`; `own` counts this person's commits made
    without an agent. `reviewed` is the time and commit of this person's last review. `approved` are the nodes that this
    call approved. With `commit`, `older` and `newer` are the nearest commits by agents and other people with a change
    that is not approved, and `place` is the place of the commit among all of theirs, from the newest. `conflicts`
    counts the open conflicts of the workspace. With `dry_run`, `accepted` and `approved` are what the call would do.
    """

    workspace: str
    until: str
    commits: int
    agents: int
    people: int
    own: int
    authors: list[ByAuthor]
    since: NotRequired[str]
    cut: NotRequired[str]
    reviewed: NotRequired[Reviewed]
    more: NotRequired[int]
    cursor: NotRequired[str]
    accepted: NotRequired[str]
    approved: NotRequired[list[str]]
    dry_run: NotRequired[bool]
    older: NotRequired[str]
    newer: NotRequired[str]
    place: NotRequired[int]
    conflicts: NotRequired[int]
    reverted: NotRequired[Rehearsed]
    next: NotRequired[str]


def review(session: Session, params: ReviewParams) -> ReviewResult:
    """List changes by author since a time or the last review, and accept, approve or revert them.

    Raises:
        NotFound: No listed commit, or none of the group, changed a node to revert or approve.
    """
    _check_action(params)
    workspace = addressing.choose(session, params.workspace, params.revert, writing=bool(params.revert))
    tip = _commit_until(session, workspace, params.until, params.since) if params.until else workspace.tip
    person = session.author(workspace).name
    noted = last_review(workspace, person)
    reviewed = noted if params.since is None else None
    since = moment_of(params.since, datetime.now().astimezone()) if params.since else None
    every, is_cut = recent_commits(workspace, tip, reviewed, since)
    only = session.commit(workspace, params.commit) if params.commit else ""
    chosen = _chosen(every, params.by, only)
    approvals = Approvals(workspace, person)
    learned = _Learned(workspace, chosen, PathMatcher.of(session, workspace, params.path), Reverts(every), approvals)
    approved = _selected(session, workspace, params.approve, "approve", params.group, learned) if params.approve else {}
    if approved and not params.dry_run:
        approvals.add(approved)
    agents = sum(map(by_agent, every))
    answer: ReviewResult = {
        "workspace": workspace.id,
        "until": tip,
        "commits": len(chosen),
        "agents": agents,
        "people": len(every) - agents,
        "own": sum(is_own(one, person) for one in every),
        "authors": [],
    }
    learned.tell(answer, [workspace.id, params.since, params.by, params.path, *filter(None, [only])], params)
    answer |= present(
        since=moment(since) if since is not None else reviewed.hex() if reviewed is not None else "",
        cut=f"only the newest {MOST_COMMITS:,} commits were examined" if is_cut else "",
        approved=list(dict.fromkeys(uri for uris in approved.values() for uri in uris)),
        dry_run=params.dry_run,
        conflicts=workspace.conflicts.count(about=session.sight(workspace.id)),
        **(_beside(every, only, person, approvals) if only else {}),
    )
    if noted is not None:
        entry = workspace.past.entry(workspace.past.commit(noted), ())
        answer["reviewed"] = {"commit": noted.hex(), "at": made_at(entry)}
    if params.revert:
        answer["reverted"] = _revert(session, workspace, params, chosen, learned)
    elif params.accept:
        if not params.dry_run and not _contains(workspace, noted, tip):
            _accept(workspace, person, tip, approvals)
        answer["accepted"] = tip
    elif not answer["authors"]:
        answer |= present(next=correction(session, workspace, params.by, params.path) or future(params.since))
    else:
        answer["next"] = Advice(
            Do("review", accept="true"), " marks all as reviewed; ", Do("review", revert="URI"), " reverts a node."
        )
    return answer


def _commit_until(session: Session, workspace: Workspace, text: str, since: str | None) -> str:
    """The id of a commit, or of the newest commit that is not after a date.

    Raises:
        Invalid: The date is before `since`.
        NotFound: There is no such commit or date, or no commit is that old.
    """
    try:
        return session.commit(workspace, text)
    except NotFound:
        try:
            _, last = period(None, text)
        except Invalid:
            advice = Advice("Write a date, such as 2026-11-20, or a commit that ", Do("history"), " lists.")
            raise NotFound("there is no such commit or date", at=text[:60], next=advice) from None
    period(since or None, text)
    found = workspace.history.entries(until=last, limit=1)
    if not found:
        raise NotFound("there is no commit that old", at="until", next=Advice(Do("history"), " lists the commits."))
    return found[0].commit


def _chosen(every: Sequence[Entry], by: str | None, only: str) -> list[Entry]:
    """The commits of the wanted authors, or only one of them."""
    return [one for one in every if only in ("", one.commit) and is_commit_by(by, one)]


def _beside(every: Sequence[Entry], only: str, person: str, approvals: Approvals) -> dict[str, Any]:
    """The nearest commits on either side that wait for a review, and the place of the commit."""

    def waits(one: Entry) -> bool:
        return not is_own(one, person) and not all(approvals.covers(uri, [one.commit]) for uri in one.nodes)

    at = next((number for number, one in enumerate(every) if one.commit == only), None)
    if at is None:
        return {}
    older, newer = islice(every, at + 1, None), reversed(every[:at])
    return {
        "place": 0 if is_own(every[at], person) else sum(not is_own(one, person) for one in every[: at + 1]),
        "older": next((one.commit for one in older if waits(one)), ""),
        "newer": next((one.commit for one in newer if waits(one)), ""),
    }


def _check_action(params: ReviewParams) -> None:
    if sum((params.accept, bool(params.revert), bool(params.approve))) > 1:
        raise Invalid(
            "a call can do only one of accept, approve and revert",
            at="accept" if params.accept else "approve",
            next="Make one call for each, the revert first.",
        )
    if params.group and not params.revert and not params.approve:
        raise Invalid(
            "`group` requires `revert` or `approve`", at="group", next="Name the nodes, or filter the list with `by`."
        )
    if params.accept and (params.by or params.path or params.commit):
        raise Invalid(
            "a review can only be accepted as a whole", at="accept", next="Leave out `by`, `path` and `commit`."
        )


@dataclass(slots=True)
class _Sum:
    """One author's changes to one node, commit by commit."""

    commits: list[str]
    fields: dict[str, list[Any]] = field(default_factory=dict)
    existed: bool | None = None
    exists: bool = False
    unreadable: str = ""

    def add(self, change: NodeChange) -> None:
        if self.existed is None:
            self.existed = change.before is not None
        self.exists, self.unreadable = change.after is not None, change.unreadable
        for one in changed_fields(change):
            known = self.fields.setdefault(one.field, [one.before, one.after])
            known[1] = one.after


class _Learned:
    """The changes of many commits, summed by author and node.

    A commit's changed nodes are known from its files; nodes are read only when a page shows them. All nodes are
    counted, but only a page is put in order, because a review can have thousands of commits.

    Args:
        entries: Commits, newest first, each with its nodes sorted.
    """

    def __init__(
        self, workspace: Workspace, entries: Sequence[Entry], paths: PathMatcher, reverts: Reverts, approvals: Approvals
    ) -> None:
        self._workspace, self._paths, self._reverts, self._approvals = workspace, paths, reverts, approvals
        self._by: dict[By, list[Entry]] = {}
        for entry in reversed(entries):
            self._by.setdefault((entry.author, entry.client, by_agent(entry), entry.pushed_by), []).append(entry)
        self._order = {entry.commit: number for number, entry in enumerate(reversed(entries))}
        self._entries = {entry.commit: entry for entry in entries}

    def commits_of(self, uri: Uri, group: str | None = None) -> set[str]:
        """The commits that changed a node: all, or those of one group."""
        groups = [entries for who, entries in self._by.items() if group is None or name_of_group(who) == group]
        if group is not None and not groups:
            known = ", ".join(islice(map(name_of_group, sorted(self._by)), GROUPS_NAMED))
            raise NotFound(
                f"no listed changes are by {group[:80]}",
                at="group",
                next=f"Give one of these: {known}." if known else "",
            )
        if not self._is_asked(uri):
            return set()
        return {entry.commit for entries in groups for entry in entries if uri in entry.nodes}

    def tell(self, answer: ReviewResult, question: list[Any], params: ReviewParams) -> None:
        """Add a page to the answer, as much as there is room for."""
        last: tuple[By, Uri] | None = None
        last_group = ""
        if params.cursor:
            begin = paging.read("review", question, params.cursor)
            writer = (paging.text(begin, 0), paging.text(begin, 1), bool(begin[2]), paging.text(begin, 3))
            last, last_group = (writer, Uri(paging.text(begin, 4))), paging.text(begin, 5)
        left, authors = self._left(last), answer["authors"]
        room, shown = Room(HARD_LIMIT), 0
        for looked, (who, uri, learned) in enumerate(self._each(left)):
            if learned is not None:
                fits = shown != params.limit and room.take(learned)
                if not fits and shown:
                    assert last is not None
                    group = authors[-1]["group"]
                    answer["more"] = sum(len(set().union(*nodes)) for nodes in left.values()) - looked
                    answer["cursor"] = paging.write("review", question, [*last[0], last[1], group])
                    if group == name_of_group(who):
                        authors[-1]["continues"] = True
                    break
                if not fits:
                    room.take(learned := _shortened(learned), first=True)
                self._author(answer, who)["nodes"].append(learned)
                shown += 1
            last = who, uri
        if authors and authors[0]["group"] == last_group:
            authors[0]["continued"] = True

    def _is_asked(self, uri: Uri) -> bool:
        graph = self._workspace.graph
        return not self._paths.globs or self._paths.concerns(uri, (edge.target for edge in graph.out(uri)))

    def _left(self, behind: tuple[By, Uri] | None) -> dict[By, list[Sequence[Uri]]]:
        """The sorted nodes of each commit after this place, by author; the authors are sorted."""
        left: dict[By, list[Sequence[Uri]]] = {}
        for who in sorted(self._by):
            if behind is None or who >= behind[0]:
                after = behind[1] if behind and who == behind[0] else ""
                nodes = (entry.nodes[bisect_right(entry.nodes, after) :] for entry in self._by[who])
                left[who] = [tuple(filter(self._is_asked, one)) if self._paths.globs else one for one in nodes]
        return left

    def _each(self, left: Mapping[By, Sequence[Sequence[Uri]]]) -> Iterator[tuple[By, Uri, Learned | None]]:
        """Read the nodes in order, batch by batch. Each commit of a batch is read only once, oldest first."""
        wanted = ((who, uri) for who, nodes in left.items() for uri, _ in groupby(merge(*nodes)))
        while batch := list(islice(wanted, BATCH)):
            by_commit: dict[str, dict[Uri, _Sum]] = {}
            sums = self._sums(batch)
            for (_, uri), sum in sums.items():
                for commit in sum.commits:
                    by_commit.setdefault(commit, {})[uri] = sum
            commits = sorted(by_commit, key=self._order.__getitem__)
            only = {uri for _, uri in sums}
            for commit, changes in zip(commits, self._workspace.past.changes_of(commits, only), strict=True):
                for change in changes:
                    if (one := by_commit[commit].get(change.uri)) is not None:
                        one.add(change)
            for (who, uri), sum in sums.items():
                learned = _learned(uri, sum, made_at(self._entries[sum.commits[-1]]))
                reverts = self._reverts.of(uri)
                if learned is not None:
                    is_reverted = all(commit in reverts for commit in sum.commits)
                    learned |= present(
                        reverted=reverts[sum.commits[-1]][:12] if is_reverted else "",
                        approved=self._approvals.covers(uri, sum.commits),
                    )
                yield who, uri, learned

    def _sums(self, batch: Sequence[tuple[By, Uri]]) -> dict[tuple[By, Uri], _Sum]:
        """An empty sum for each node, with its commits, oldest first."""
        sums = {one: _Sum([]) for one in batch}
        for who in dict.fromkeys(who for who, _ in batch):
            wanted = {uri for by, uri in batch if by == who}
            for entry in self._by[who]:
                for uri in wanted.intersection(entry.nodes):
                    sums[who, uri].commits.append(entry.commit)
        return sums

    def _author(self, answer: ReviewResult, who: By) -> ByAuthor:
        author, client, agent, pusher = who
        group, last = name_of_group(who), answer["authors"][-1] if answer["authors"] else None
        if last and last["group"] == group:
            return last
        one: ByAuthor = {"group": group, "author": author, "agent": agent, "commits": len(self._by[who]), "nodes": []}
        one |= present(pushed_by=pusher, client=client)
        answer["authors"].append(one)
        return one


def name_of_group(who: By) -> str:
    """The display name of a group: author, program and pusher.

    >>> name_of_group(("Ann", "codex", True, "")), name_of_group(("Ann", "", True, "bob (laptop)"))
    ('Ann (codex)', 'Ann, an agent, pushed by bob (laptop)')
    """
    author, client, agent, pusher = who
    name = Author(author, "", client).signed + (", an agent" if agent and not is_agent(client) else "")
    return f"{name}, pushed by {pusher}" if pusher else name


def _learned(uri: Uri, sum: _Sum, at: str) -> Learned | None:
    """The net change of a node; None if nothing is left of it."""
    fields: dict[str, FieldDiff] = {
        name: {"before": clip(before, LONGEST_VALUE), "after": clip(after, LONGEST_VALUE)}
        for name, (before, after) in sorted(sum.fields.items())
        if before != after
    }
    existed = bool(sum.existed)
    if existed == sum.exists and not fields and not sum.unreadable:
        return None
    change: Literal["added", "changed", "removed", "invalid"] = "changed"
    if sum.unreadable:
        change = "invalid"
    elif existed != sum.exists:
        change = "added" if sum.exists else "removed"
    commits = [commit[:12] for commit in sum.commits]
    answer: Learned = {"uri": uri, "at": at, "change": change, "commits": commits, "fields": fields}
    answer |= present(reason=sum.unreadable)
    return answer


def _shortened(one: Learned) -> Learned:
    """The first fields of a node that is too large for an answer, each with the start of its value."""
    first = dict(islice(one["fields"].items(), FIELDS_OF_LONG))
    short: Learned = {**one, "commits": one["commits"][-FIELDS_OF_LONG:], "fields": clip(first, SHORT_VALUE)}
    short |= present(more_fields=max(0, len(one["fields"]) - FIELDS_OF_LONG))
    return short


def _selected(
    session: Session, workspace: Workspace, texts: Sequence[str], at: str, given: list[str], learned: _Learned
) -> dict[str, list[Uri]]:
    """The listed commits that changed these nodes, each with its nodes; only in the given groups."""
    wanted = [addressing.resolve(session, workspace, text, at=f"{at}[{n}]") for n, text in enumerate(texts)]
    groups: Sequence[str | None] = given * (len(wanted) if len(given) == 1 else 1) or [None] * len(wanted)
    if len(groups) != len(wanted):
        raise Invalid(
            "the number of groups does not match the number of nodes",
            at="group",
            next="Give one group for all nodes, or one for each node.",
        )
    nodes = dict[str, list[Uri]]()
    for uri, group in zip(wanted, groups, strict=True):
        commits = learned.commits_of(uri, group)
        if not commits:
            raise _unchanged(workspace, uri, group)
        for commit in commits:
            nodes.setdefault(commit, []).append(uri)
    return nodes


def _revert(
    session: Session, workspace: Workspace, params: ReviewParams, entries: Iterable[Entry], learned: _Learned
) -> Rehearsed:
    """Make one commit that reverts the listed changes to these nodes; other and later changes stay."""
    nodes = _selected(session, workspace, params.revert, "revert", params.group, learned)
    only = list(dict.fromkeys(uri for uris in nodes.values() for uri in uris))
    edits = tuple(Revert(one.commit, frozenset(nodes[one.commit])) for one in entries if one.commit in nodes)
    subject = params.message or f"review: revert {only[0]}" + (f" and {len(only) - 1} more" if only[1:] else "")
    changes = ChangeSet(edits, session.author(workspace), subject, operation="revert")
    outcome = session.submit(workspace, changes, dry_run=params.dry_run)
    return rehearsed(session, workspace, outcome, dry_run=params.dry_run)


def _unchanged(workspace: Workspace, uri: Uri, group: str | None) -> NotFound:
    if workspace.graph.card(uri) is None:
        close = ", ".join(addressing.similar(workspace, uri, None))
        return NotFound(
            "there is no such node among the listed changes",
            at=uri,
            next=f"Did you mean {close}?" if close else Advice(Do("review"), " lists the changed nodes."),
        )
    who = f" by {group}" if group else ""
    return NotFound(
        f"none of the listed changes{who} affects this node",
        at=uri,
        next=Advice("List more changes, for example with ", Do("review", since="monday"), "."),
    )


def _contains(workspace: Workspace, reviewed: bytes | None, tip: str) -> bool:
    """Whether an earlier review covered this commit; if so, there is nothing to record."""
    if reviewed is None:
        return False
    return not program.run(workspace.layout.git_dir, ["rev-list", "--max-count=1", tip, f"^{reviewed.hex()}"]).strip()


def _accept(workspace: Workspace, person: str, tip: str, approvals: Approvals) -> None:
    note_review(workspace, person, bytes.fromhex(tip))
    if tip == workspace.tip:  # otherwise, newer commits may have approvals
        approvals.clear()


REVIEW = Operation(
    name="review",
    title="Review new knowledge",
    description="Lists new knowledge by author, to approve, mark as reviewed or revert in part.",
    hints=Hints(destructive=True),
    run=review,
    commits={"revert": "reverted"},
    commands=(
        Command(
            "The past",
            "review new knowledge by author: accept it, approve or revert parts",
            (
                option("--since", "monday, yesterday, 2 days ago, 2026-11-20 (default: your last review)", "WHEN"),
                option("--author --by", value="WHO", dest="by"),
                BELOW,
                option("--accept"),
                option("--approve", "approve the changes to this node; may be repeated", "URI"),
                option("--revert", "revert the changes to this node; may be repeated", "URI"),
                option("--group", "with --revert or --approve: only changes by this author and program", "NAME"),
                MESSAGE,
                option("--commit", "only the changes of this commit", "COMMIT"),
                option("--until", "only up to this commit or date", "WHEN"),
                option("-n --limit", "maximum number of nodes", dest="limit"),
                CURSOR,
            ),
            place=70,
            print="printing_history.review",
            examples=(("kgd review", "new knowledge by author"), ("kgd review --accept", "mark all of it as reviewed")),
        ),
    ),
)
