"""The `author` tool: what a person or an agent wrote recently, the areas they know, and their pending work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, Atlas
from kgd.errors import Advice, Do, KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.change import VERIFY, Author
from kgd.model.uri import Uri, path_of, scheme_of
from kgd.tools import addressing, paging, visibility
from kgd.tools.nodes import Brief, UnverifiedAnswer, brief, line, made_at, moment
from kgd.tools.operation import CURSOR, Command, Hints, Operation, option
from kgd.tools.origins import marks
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.proposals.seen import ProposalAnswer, is_from_agent, proposal_answer, seen
from kgd.tools.read.search import areas_of
from kgd.tools.recent_commits import MOST_COMMITS, by_agent, known_authors, recent_commits
from kgd.tools.session import Session
from kgd.workspace.answers import Entry
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace

EXAMINED = 100
"""Number of an author's newest nodes that are searched for areas and stale facts."""
LISTED = 10
"""Largest number of areas, namespaces, proposals and stale facts in an answer."""
RECENT = 5
"""Largest number of commits in an answer."""
NAMED = 3
"""Largest number of nodes listed for one commit."""


class AuthorParams(WorkspaceParams):
    name: Annotated[str, Field(min_length=1, max_length=200, description="a person, an agent or a token's holder")]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: str | None = None


class WrittenNode(Brief):
    """`at` and `commit` belong to the author's last change to the node, and `client` is the agent's program that made
    it. `changed_by` is the author of the node's newest change, unless it is this author. `disputed` are the fields in
    conflict; `name` and `summary` are then this author's own."""

    at: str
    commit: str
    client: NotRequired[str]
    disputed: NotRequired[list[str]]
    changed_by: NotRequired[str]
    unverified: NotRequired[UnverifiedAnswer]


class RecentChange(TypedDict):
    """A commit with its first `NAMED` nodes."""

    commit: str
    at: str
    message: str
    operation: str
    nodes: list[str]
    more_nodes: NotRequired[int]


class KnownArea(TypedDict):
    """`facts` are the nodes by this author that cite its files or relate to them, are related to it, or describe it."""

    uri: str
    name: str
    facts: int


class WrittenWith(TypedDict):
    """A program; empty for changes without an agent."""

    client: str
    nodes: int


class KnownNamespace(TypedDict):
    namespace: str
    nodes: int


class AuthorResult(TypedDict):
    """`nodes` are newest first, without nodes that the author only verified. Areas, namespaces and stale facts are
    those of the newest `EXAMINED` nodes; `without_area` is the number of these nodes that have no area. A token with a
    narrow scope gets neither this number nor stale facts.

    `written_with` has the programs of the last changes to the newest `EXAMINED` nodes, and `conflicts` the number of
    these nodes that have an open conflict.

    `changes` counts the author's commits between `first` and `last`; `recent` are the newest ones. `changed` counts
    `nodes`, and `more` is true if there are more than `EXAMINED`.

    `clients` are the programs of these commits. `agent` is true if the newest `EXAMINED` commits are all by agents, or,
    without commits, all proposals. `cut` means that older commits were not examined.
    """

    workspace: str
    name: str
    agent: bool
    clients: list[str]
    changes: int
    first: NotRequired[str]
    last: NotRequired[str]
    changed: int
    more: NotRequired[bool]
    written_with: list[WrittenWith]
    conflicts: NotRequired[int]
    recent: list[RecentChange]
    nodes: list[WrittenNode]
    areas: list[KnownArea]
    without_area: NotRequired[int]
    namespaces: list[KnownNamespace]
    proposals: list[ProposalAnswer]
    stale: list[WrittenNode]
    more_stale: NotRequired[int]
    cut: NotRequired[str]
    cursor: NotRequired[str]


def author(session: Session, params: AuthorParams) -> AuthorResult:
    """Return the recent work of one author, from the newest commits.

    ``Ann (codex)`` means Ann, unless an author has that name. Part of a name is enough if only one author has it.

    Raises:
        NotFound: No recent commit and no open proposal is by this author.
    """
    workspace = addressing.choose(session, params.workspace)
    sees = session.sight(workspace.id)
    every, is_cut = recent_commits(workspace, workspace.tip, None, None)
    start = paging.index(paging.read("author", params.name, params.cursor), 0) if params.cursor else 0
    end = start + params.limit
    for name in dict.fromkeys((params.name, Author.of(params.name).name, *_only_author(every, params.name))):
        wanted = name.casefold()
        theirs = _commits_by(every, wanted)
        last = _last_changes(workspace, theirs, sees, most=max(end, EXAMINED) + 1)
        makers = ((one, Author.of(one.author)) for one in proposals.listed(workspace))
        offered = (one for one, by in makers if wanted in (by.name.casefold(), by.client.casefold()))
        open_now = list(islice(seen(session, workspace, offered), LISTED))
        if sees is not None:
            theirs = [one for one in theirs if any(map(sees, one.nodes))]
        if theirs or open_now:
            break
    else:
        advice = known_authors(session, every, params.name) or Advice("Find the name with ", Do("history"), ".")
        raise NotFound("no recent change is by this author", at=params.name[:80], next=advice)
    newest = list(islice(last, EXAMINED))
    stale = marks(workspace, newest, sees)
    listed = dict(islice(last.items(), start, end))
    areas, without_area = _areas(workspace, newest, sees)
    disputed = _disputed(workspace, {*newest, *listed}, sees)
    later = _later_authors(every, listed, {one.commit for one in theirs})
    answer: AuthorResult = {
        "workspace": workspace.id,
        "name": next((one.author for one in theirs if one.author.casefold() == wanted), name),
        "agent": all(map(by_agent, theirs[:EXAMINED])) if theirs else all(map(is_from_agent, open_now)),
        "clients": sorted({one.client for one in theirs if one.client}),
        "changes": len(theirs),
        "changed": min(len(last), EXAMINED),
        "written_with": _written_with(last[uri] for uri in newest),
        "recent": [_recent(workspace, one, sees) for one in theirs[:RECENT]],
        "nodes": [_node(workspace, uri, one, later.get(uri, ""), disputed.get(uri)) for uri, one in listed.items()],
        "areas": areas,
        "namespaces": _namespaces(newest),
        "proposals": [proposal_answer(workspace, one, proposals.look(workspace, one)) for one in open_now],
        "stale": [
            {**_node(workspace, uri, last[uri]), "unverified": one} for uri, one in islice(stale.items(), LISTED)
        ],
    }
    answer |= present(
        conflicts=len(disputed.keys() & set(newest)),
        first=moment(theirs[-1].at) if theirs else "",
        last=moment(theirs[0].at) if theirs else "",
        without_area=without_area if sees is None else 0,
        more=len(last) > EXAMINED,
        more_stale=max(0, len(stale) - LISTED),
        cut=f"only the newest {MOST_COMMITS:,} commits were examined" if is_cut else "",
        cursor=paging.write("author", params.name, [end]) if end < len(last) else "",
    )
    return answer


def _written_with(changes: Iterable[Entry]) -> list[WrittenWith]:
    programs = Counter(map(_agent, changes)).most_common(LISTED)
    return [{"client": client, "nodes": count} for client, count in programs]


def _last_changes(
    workspace: Workspace, theirs: Iterable[Entry], sees: visibility.Sees | None, *, most: int
) -> dict[Uri, Entry]:
    """The last change of each node that the author wrote, newest first; ends when there are `most`."""
    last: dict[Uri, Entry] = {}
    for entry in theirs:
        if entry.operation == VERIFY:
            continue
        for uri in entry.nodes:
            if uri not in last and workspace.graph.card(uri) and (sees is None or sees(uri)):
                last[uri] = entry
                if len(last) == most:
                    return last
    return last


def _later_authors(every: Iterable[Entry], uris: Iterable[Uri], own: set[str]) -> dict[Uri, str]:
    """The author of the newest change of each node, if it is not one of the author's own commits."""
    found: dict[Uri, str] = {}
    left = set(uris)
    for entry in every:
        if not left:
            break
        if entry.operation != VERIFY and (here := left.intersection(entry.nodes)):
            left -= here
            if entry.commit not in own:
                found |= dict.fromkeys(here, entry.author)
    return found


def _commits_by(every: Iterable[Entry], name: str) -> list[Entry]:
    """The commits of an author, a program or a pusher. One loop without calls, since it passes all commits."""
    return [
        one
        for one in every
        if name in (one.author.casefold(), one.client.casefold(), one.pushed_by.rpartition(" (")[0].casefold())
    ]


def _agent(entry: Entry) -> str:
    """The program of an agent that made a commit; empty for a person's own."""
    return entry.client if by_agent(entry) else ""


def _only_author(every: Iterable[Entry], part: str) -> list[str]:
    """The author whose name contains the text; none if there are several."""
    names = {one.author for one in every if part.casefold() in one.author.casefold()}
    return list(names) if len(names) == 1 else []


def _disputed(workspace: Workspace, uris: set[Uri], sees: visibility.Sees | None) -> dict[Uri, list[str]]:
    """The fields in conflict of each of these nodes that has any."""
    found: dict[Uri, list[str]] = {}
    for one in workspace.conflicts.of(uris, about=sees):
        found.setdefault(one.uri, []).extend(one.conflict.fields)
    return found


def _own_words(workspace: Workspace, uri: Uri, commit: str) -> dict[str, str]:
    """The name and summary of a node at a commit."""
    with suppress(KgdError):
        if node := workspace.past.node_at(uri, bytes.fromhex(commit)):
            return {"name": node.title, "summary": node.summary}
    return {}


def _node(
    workspace: Workspace, uri: Uri, entry: Entry, changed_by: str = "", disputed: list[str] | None = None
) -> WrittenNode:
    at = made_at(entry) or moment(entry.at)
    found: WrittenNode = {**brief(workspace, uri), "at": at, "commit": entry.commit}  # type: ignore[typeddict-item]
    if disputed:
        found |= {**_own_words(workspace, uri, entry.commit), "disputed": disputed}  # type: ignore[typeddict-item]
    found |= present(client=_agent(entry), changed_by=changed_by)
    return found


def _recent(workspace: Workspace, entry: Entry, sees: visibility.Sees | None) -> RecentChange:
    uris = [uri for uri in entry.nodes if sees is None or sees(uri)]
    found: RecentChange = {
        "commit": entry.commit,
        "at": moment(entry.at),
        "message": line(entry, workspace, sees)["message"],
        "operation": entry.operation,
        "nodes": list(uris[:NAMED]),
    }
    found |= present(more_nodes=len(uris[NAMED:]) + (entry.more_nodes if sees is None else 0))
    return found


def _areas(workspace: Workspace, uris: Iterable[Uri], sees: visibility.Sees | None) -> tuple[list[KnownArea], int]:
    """The areas of these nodes, with the most facts first, and the number of nodes without an area."""
    atlas, counts, without = Atlas.of(workspace), Counter[Uri](), 0
    for uri in uris:
        areas = {uri} if scheme_of(uri) == ATOM else set(filter(atlas.atom, areas_of(workspace, uri, sees)))
        counts.update(areas)
        without += not areas
    found = ((atlas.atom(uri), count) for uri, count in counts.most_common(LISTED))
    return [{"uri": atom.uri, "name": atom.name, "facts": count} for atom, count in found if atom], without


def _namespaces(uris: Iterable[Uri]) -> list[KnownNamespace]:
    counts = Counter(path_of(uri).lstrip("/").rpartition("/")[0] for uri in uris if scheme_of(uri) != ATOM)
    return [{"namespace": name, "nodes": count} for name, count in counts.most_common(LISTED) if name]


AUTHOR = Operation(
    name="author",
    title="An author's recent work",
    description="The nodes that a person or an agent wrote recently, their areas, open proposals and stale facts.",
    hints=Hints(read_only=True, idempotent=True),
    run=author,
    scope=Verb.READ,
    commands=(
        Command(
            "The past",
            "show an author's recent nodes, areas and open work",
            (
                option(
                    "name",
                    "a person or an agent, such as 'Ann Person' or claude-code; a unique part of the name is enough",
                    "NAME",
                ),
                option("-n --limit", "maximum number of nodes", dest="limit"),
                CURSOR,
            ),
            place=75,
            examples=(
                ("kgd author claude-code", "the facts that an agent wrote"),
                ("kgd author ann", "part of a name is enough"),
            ),
            print="printing_history.author",
        ),
    ),
)
