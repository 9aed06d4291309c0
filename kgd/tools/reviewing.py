"""This file is where it is reviewed what was learned: a difference of the graph by author, kept or taken back.

Of each node it is shown what one author made of it in all: a field that they wrote three times is one change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, NotFound
from kgd.git import program
from kgd.git.refs import move_ref
from kgd.model.change import ChangeSet, Revert
from kgd.model.globs import Glob, place_of
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.budget import HARD_LIMIT, Room, clip
from kgd.tools.dates import moment_of
from kgd.tools.nodes import moment
from kgd.tools.parameters import Many, Params, refuse_unseen
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool
from kgd.tools.writing import PutResult, answer_of
from kgd.workspace.past import changed_fields
from kgd.workspace.proposals import holder_name

if TYPE_CHECKING:
    from kgd.workspace.outcome import Entry
    from kgd.workspace.workspace import Workspace

REVIEWED = "refs/kgd/reviewed/"
"""Below it, for each person, up to where they have reviewed."""
MOST_COMMITS = 2_000
LONGEST_VALUE = 2_000
OWN_CLIENTS = ("", "kgd-cli")
"""Programs that a person sits at; whatever else writes is an agent."""
UNASKED = ("init", "merge", "accept")
"""Operations that bring in what others wrote, which is reviewed as theirs."""


class ReviewParams(Params):
    since: Annotated[str | None, Field(description="monday, 2 days ago, an ISO date; else since the last review")] = (
        None
    )
    by: Annotated[str | None, Field(description="agent, person, or part of a name")] = None
    path: Annotated[Many[str], Field(description="only nodes of these paths, such as /services/**")] = Field(
        default_factory=list
    )
    accept: Annotated[bool, Field(description="note that all up to now is reviewed")] = False
    revert: Annotated[Many[str], Field(description="take back what was done to these nodes")] = Field(
        default_factory=list
    )
    message: Annotated[str, Field(max_length=4_000)] = ""
    dry_run: bool = False
    workspace: str | None = None


class FieldLearned(TypedDict):
    before: Any
    after: Any


class Learned(TypedDict):
    """What one author made of one node."""

    uri: str
    change: Literal["added", "changed", "removed"]
    commits: list[str]
    fields: dict[str, FieldLearned]


class ByAuthor(TypedDict):
    author: str
    client: NotRequired[str]
    commits: int
    nodes: list[Learned]


class ReviewResult(TypedDict):
    """`until` is the commit up to which it was looked; `more` how many nodes had no room."""

    workspace: str
    until: str
    commits: int
    authors: list[ByAuthor]
    since: NotRequired[str]
    more: NotRequired[int]
    accepted: NotRequired[str]
    reverted: NotRequired[PutResult]
    next: NotRequired[str]


def review(session: Session, params: ReviewParams) -> ReviewResult:
    """What was learned since then, by author; `accept` notes it as reviewed, `revert` takes it back in part."""
    refuse_unseen(params.message, "message", lines=True)
    workspace = addressing.choose(session, params.workspace, params.revert, writing=bool(params.revert))
    tip, globs = workspace.tip, [Glob(path) for path in params.path]
    person = session.author(workspace).name
    reviewed = workspace.store.ref(REVIEWED + holder_name(person)) if params.since is None else None
    since = moment_of(params.since, datetime.now().astimezone()) if params.since else None
    entries = [one for one in _entries(workspace, tip, reviewed, since) if _is_by(one, params.by)]
    learned = _Learned(workspace, globs)
    for entry in reversed(entries):
        learned.add(entry)
    answer = learned.answer(tip, len(entries))
    if since is not None:
        answer["since"] = moment(since)
    elif reviewed is not None:
        answer["since"] = reviewed.hex()
    if params.revert:
        answer["reverted"] = _revert(session, workspace, params, entries, learned)
    elif params.accept:
        if params.by or params.path:
            raise Invalid("a review is accepted as a whole", at="accept", next="Leave out by and path.")
        if not params.dry_run:
            _note(workspace, person, bytes.fromhex(tip))
        answer["accepted"] = tip
    elif answer["authors"]:
        answer["next"] = "`kgd review --accept` notes it as reviewed; `kgd review --revert URI` takes that back."
    return answer


def _entries(workspace: Workspace, tip: str, reviewed: bytes | None, since: int | None) -> list[Entry]:
    """The commits in question, newest first, without those that only bring together what others did."""
    arguments = ["rev-list", f"--max-count={MOST_COMMITS}", tip]
    if since is not None:
        arguments.append(f"--since-as-filter={moment(since)}")
    if reviewed is not None:
        arguments.append(f"^{reviewed.hex()}")
    past = workspace.past
    said = program.run(workspace.layout.git_dir, arguments).decode().split()
    found = (past.entry(past.commit(bytes.fromhex(id)), limit=MOST_COMMITS) for id in said)
    return [one for one in found if len(one.parents) == 1 and one.operation not in UNASKED]


def _is_by(entry: Entry, wanted: str | None) -> bool:
    if wanted is None:
        return True
    is_agent = entry.client not in OWN_CLIENTS or entry.email.endswith("@token.invalid")
    if wanted in ("agent", "agents"):
        return is_agent
    if wanted in ("person", "people"):
        return not is_agent
    return wanted.casefold() in f"{entry.author} <{entry.email}> {entry.client}".casefold()


@dataclass(slots=True)
class _Sum:
    """What one author did to one node, commit by commit."""

    fields: dict[str, list[Any]] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    existed: bool = False
    exists: bool = False


class _Learned:
    """The differences of many commits, added up by author and node; commits are added from the oldest on."""

    def __init__(self, workspace: Workspace, globs: list[Glob]) -> None:
        self._workspace, self._globs = workspace, globs
        self._by: dict[tuple[str, str], dict[Uri, _Sum]] = {}
        self._commits: dict[tuple[str, str], int] = {}

    def add(self, entry: Entry) -> None:
        who = (entry.author, entry.client)
        nodes = self._by.setdefault(who, {})
        self._commits[who] = self._commits.get(who, 0) + 1
        for change in self._workspace.changes(entry.commit):
            if self._globs and not any(glob.covers(place_of(change.uri)) for glob in self._globs):
                continue
            if change.uri not in nodes:
                nodes[change.uri] = _Sum(existed=change.before is not None)
            sum = nodes[change.uri]
            sum.commits.append(entry.commit)
            sum.exists = change.after is not None
            for one in changed_fields(change):
                known = sum.fields.setdefault(one.field, [one.before, one.after])
                known[1] = one.after

    def commits_of(self, uri: Uri) -> set[str]:
        return {commit for nodes in self._by.values() if uri in nodes for commit in nodes[uri].commits}

    def answer(self, tip: str, commits: int) -> ReviewResult:
        room, authors, more = Room(HARD_LIMIT), list[ByAuthor](), 0
        for (author, client), nodes in sorted(self._by.items()):
            one: ByAuthor = {
                "author": author, "commits": self._commits[author, client], "nodes": [],
            }  # fmt: skip
            if client:
                one["client"] = client
            for uri, sum in sorted(nodes.items()):
                learned = _learned(uri, sum)
                if learned is None:
                    continue
                if room.take(learned, first=not authors and not one["nodes"]):
                    one["nodes"].append(learned)
                else:
                    more += 1
            if one["nodes"]:
                authors.append(one)
        answer: ReviewResult = {
            "workspace": self._workspace.id, "until": tip, "commits": commits, "authors": authors,
        }  # fmt: skip
        if more:
            answer["more"] = more
        return answer


def _learned(uri: Uri, sum: _Sum) -> Learned | None:
    """None where nothing is left of it: what was written and taken back again."""
    fields: dict[str, FieldLearned] = {
        name: {"before": clip(before, LONGEST_VALUE), "after": clip(after, LONGEST_VALUE)}
        for name, (before, after) in sorted(sum.fields.items())
        if before != after
    }
    if sum.existed == sum.exists and not fields:
        return None
    change: Literal["added", "changed", "removed"] = "changed"
    if sum.existed != sum.exists:
        change = "added" if sum.exists else "removed"
    return {"uri": uri, "change": change, "commits": [commit[:12] for commit in sum.commits], "fields": fields}


def _revert(
    session: Session, workspace: Workspace, params: ReviewParams, entries: Iterable[Entry], learned: _Learned
) -> PutResult:
    """One commit that takes back what the reviewed commits did to these nodes; what others changed since stays."""
    wanted = [addressing.resolve(session, workspace, text, at=f"revert[{n}]") for n, text in enumerate(params.revert)]
    untouched = [uri for uri in wanted if not learned.commits_of(uri)]
    if untouched:
        raise NotFound("nothing under review changed this node", at=untouched[0], next="Widen --since, --by or --path.")
    only = frozenset(wanted)
    commits = set[str]().union(*(learned.commits_of(uri) for uri in wanted))
    edits = tuple(Revert(one.commit, only) for one in entries if one.commit in commits)
    subject = params.message or f"review: take back {wanted[0]}" + (f" and {len(only) - 1} more" if wanted[1:] else "")
    changes = ChangeSet(edits, session.author(workspace), subject, operation="revert")
    return answer_of(workspace, session.submit(workspace, changes, dry_run=params.dry_run), dry_run=params.dry_run)


def _note(workspace: Workspace, person: str, tip: bytes) -> None:
    name = REVIEWED + holder_name(person)
    before = workspace.store.ref(name)
    if before != tip:
        move_ref(workspace.layout.git_dir, workspace.layout.derived_dir, name, before, tip, note="kgd: reviewed")


REVIEW = Tool(
    name="review",
    title="What was learned",
    description="A difference of the graph by author since then, to accept or to take back in part.",
    Params=ReviewParams,
    Result=ReviewResult,
    hints=Hints(destructive=True),
    run=review,
)
