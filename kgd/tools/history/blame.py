"""The `blame` tool: the commit that wrote each line of a node's content, from its versions in git."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.node import Node
from kgd.model.text_merge import origin_versions
from kgd.model.uri import Uri
from kgd.tools import addressing, paging, visibility
from kgd.tools.nodes import CommitLine, line
from kgd.tools.operation import BUDGET, CURSOR, URI, Command, Hints, Operation
from kgd.tools.paging import LEAST, Room, fitting, present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.answers import Entry
from kgd.workspace.workspace import Workspace

MOST_VERSIONS = 100
"""Largest number of versions to compare per call. If a node has more, the range of the oldest compared version is
marked `earlier`."""
MOST_CHARACTERS = 10_000_000
"""Number of characters, over all versions, after which no older version is read."""


class BlameParams(WorkspaceParams):
    uri: str
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000
    cursor: str | None = None


class Range(CommitLine):
    """Lines that one commit wrote. If `earlier`, this is the oldest compared commit, and the lines may be older."""

    first: int
    last: int
    client: NotRequired[str]
    text: str
    earlier: NotRequired[bool]


class BlameResult(TypedDict):
    """`lines` is the length of the content, `versions` the number of compared versions."""

    workspace: str
    uri: str
    lines: int
    versions: int
    ranges: list[Range]
    cursor: NotRequired[str]


def blame(session: Session, params: BlameParams) -> BlameResult:
    """Attribute each line of the current content to the commit that wrote it. A moved line is treated as new.

    Adjacent lines of one commit form a range; ranges are in the order of the lines. A cursor is valid until the node
    changes.

    Raises:
        NotFound: Nothing is stored about the node, or it moved to a URI that the caller may not read.
        KgdError: The address is wrong, the caller may not read the node, or the cursor belongs to another call.
    """
    workspace = addressing.choose(session, params.workspace, [params.uri])
    asked = addressing.resolve(session, workspace, params.uri)
    session.allow(workspace, Verb.READ, [asked])
    uri, sees = workspace.graph.resolve(asked), session.sight(workspace.id)
    current = workspace.node(uri)
    if current is None or (sees and not sees(uri)):  # the node may have moved to a hidden URI
        advice: str = Advice("See the facts about it with ", Do("context"), ".")
        if not workspace.in_overlay(asked):
            advice = addressing.did_you_mean(workspace, asked, sees)
        raise NotFound("nothing is stored about this node", at=asked, next=advice)
    versions, is_whole = _versions(workspace, uri, sees)
    if versions and _lines(versions[-1][1]) != _lines(current):  # a merge chose another side than the newest commit
        versions.append((workspace.history.entries(commit=workspace.tip)[0], current))
    texts = [_lines(node) for _, node in versions]
    merges = {number for number, (entry, node) in enumerate(versions) if len(entry.parents) > 1 or node is current}
    owners = origin_versions(texts, merges)
    tip = versions[-1][0].commit if versions else ""
    question = [uri, tip]
    begin = paging.index(paging.read("blame", question, params.cursor), 0) if params.cursor else 0
    answer: BlameResult = {
        "workspace": workspace.id,
        "uri": uri,
        "lines": len(owners),
        "versions": len(versions),
        "ranges": [],
    }
    room = Room(params.budget)
    for number, group in groupby(range(begin, len(owners)), key=lambda index: owners[index]):
        indices = list(group)
        first, last = indices[0], indices[-1] + 1
        entry = versions[number][0]
        text = "\n".join(texts[-1][first:last])
        earlier = number == 0 and not is_whole
        told: Range = {
            "first": first + 1,
            "last": last,
            "text": "",
            **line(entry, workspace, sees),  # type: ignore[typeddict-item]
        }
        told |= present(client=entry.client, earlier=earlier)
        if not room.take({**told, "text": text}):
            last = first + _fitting(texts[-1][first:last], room, must=not answer["ranges"])
            if last > first:
                told["text"], told["last"] = "\n".join(texts[-1][first:last]), last
                answer["ranges"].append(told)
            answer["cursor"] = paging.write("blame", question, [last])
            break
        told["text"] = text
        answer["ranges"].append(told)
    return answer


def _fitting(lines: list[str], room: Room, *, must: bool) -> int:
    """The number of lines that fit into the room.

    If no line fits and the answer `must` have one, the first line is cut in place and counted.
    """
    left = room.left - LEAST
    count = 0
    for text in lines:
        left -= len(text.encode("utf-8", "replace")) + 2
        if left < 0:
            break
        count += 1
    if not count and must:
        lines[0] = lines[0][: fitting(lines[0], max(LEAST, room.left - LEAST))]
        return 1
    return count


def _versions(
    workspace: Workspace, uri: Uri, sees: visibility.Sees | None
) -> tuple[list[tuple[Entry, Node | None]], bool]:
    """The commits of a node, each with the node's value after it, oldest first; and whether the list is complete.

    Continues with the commits under a former URI of the node, if the caller may read that URI.
    """
    found: list[tuple[Entry, Node | None]] = []
    room, after, seen = MOST_CHARACTERS, None, {uri}
    while True:
        entries = workspace.history.entries(uri=uri, limit=MOST_VERSIONS + 1 - len(found), after=after)
        for entry in entries:
            if len(found) == MOST_VERSIONS or room <= 0:
                return found[::-1], False
            try:
                node = workspace.node(uri, entry.commit)
            except KgdError:
                continue  # an unreadable version has no lines to compare
            found.append((entry, node))
            room -= len(node.content) if node else 0
        before = _before(workspace, uri, found[-1]) if found and entries else None
        if before is None or before in seen:
            return found[::-1], True
        if sees is not None and not sees(before):
            return found[::-1], False
        uri, after = before, found[-1][0].commit
        seen.add(uri)


def _before(workspace: Workspace, uri: Uri, oldest: tuple[Entry, Node | None]) -> Uri | None:
    """The URI from which a node's oldest commit moved it, or renamed its file without an alias; None if that commit
    created the node."""
    entry, node = oldest
    if node is None:
        return None
    if not node.aliases:
        return workspace.history.renamed_from(uri, entry.commit)
    gone = {change.uri for change in workspace.history.changes(entry.commit) if change.after is None}
    return next((alias for alias in node.aliases if alias in gone), None)


def _lines(node: Node | None) -> list[str]:
    content = node.content if node else ""
    return content.removesuffix("\n").split("\n") if content else []


BLAME = Operation(
    name="blame",
    title="Author of each line",
    description="The lines of a node's content, each with the commit that wrote it.",
    hints=Hints(read_only=True, idempotent=True),
    run=blame,
    forwards=True,
    scope=Verb.READ,
    commands=(
        Command(
            "The past",
            "show the author and commit of each line of a node's content",
            (URI, BUDGET, CURSOR),
            place=20,
            examples=(("kgd blame services/auth", "who wrote each line of its content"),),
            print="printing_history.blame",
        ),
    ),
)
