"""The `get` tool: nodes in full, paged by a token budget."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, KgdError
from kgd.ingest import message_nodes
from kgd.ingest.message_nodes import LAST, REPLIED_BY, Message, spelt
from kgd.model.access import Verb
from kgd.model.dates import validity_in
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, scheme_of, workspace_of
from kgd.tools import addressing, as_markdown, nodes, origins, paging, visibility
from kgd.tools.hub_reads import FarNode, HubReads
from kgd.tools.model_decisions import Resolved, on_the_way
from kgd.tools.nodes import Cut, Found, InvalidAnswer, MessageAnswer, NodeAnswer
from kgd.tools.operation import (
    ADDRESS,
    AS_OF,
    BUDGET,
    CONTEXT_ID,
    CURSOR,
    URIS,
    USUAL,
    Command,
    Hints,
    Operation,
    Reflects,
    option,
)
from kgd.tools.origins import mark
from kgd.tools.paging import HARD_LIMIT, LEAST, RESERVE, Room, clip, fitting, present, size_of
from kgd.tools.parameters import Many, Paged
from kgd.tools.proposals.seen import changing
from kgd.tools.read import citations
from kgd.tools.read.traverse_across import Detail, detail_of
from kgd.tools.session import Session, enter_working_set, note_reads
from kgd.workspace.proposals.proposals import LONGEST, Marks
from kgd.workspace.workspace import Workspace

LISTS = ("relations", "incoming")
HISTORY_LINES = 5
MISSING_SHOWN = 20
PROPOSALS_NAMED = 3


Part = Literal[
    "content", "relations", "incoming", "history", "mentions", "citations", "messages", "messages_back", "proposals"
]

ONWARD, BACK = "messages", "messages_back"
"""Parts of an answer. ONWARD: oldest first, from the thread's start or after a message. BACK: newest first, from the
thread's end or before a message."""
PAGE = 25
"""Number of messages per look-up."""
AROUND = 400
"""Number of bytes of a message in an answer, apart from its text."""


class GetParams(Paged):
    uris: Annotated[Many[str], Field(min_length=1, max_length=200, description="URIs or paths")]
    include: Many[Part] = Field(default_factory=lambda: list[Part](("content", "relations")))
    as_of: Annotated[str | None, Field(description="a commit")] = None
    conflicts: Literal["show", "resolve"] = "show"
    budget: Annotated[int, Field(ge=1, description="tokens")] = 4_000
    context_id: str | None = None


class Missing(Detail):
    """A requested node without an answer. `reason` is gone, forbidden, unreachable or unknown_workspace for a node of a
    hub; not_then for a node that did not exist at the requested commit; invalid for text that is not an address."""

    uri: str
    similar: list[str]
    invalid_file: NotRequired[InvalidAnswer]
    reason: NotRequired[str]
    workspace: NotRequired[str]


class ProposedAnswer(TypedDict):
    """The first line of an open proposal. Its commit claims the `author`; nothing verifies it."""

    id: str
    message: str
    author: str
    at: str


class GetResult(TypedDict):
    """`proposed` describes the open proposals of the nodes, as far as there is room.

    `proposals_left_out` is the number of open proposals that the part `proposals` does not consider: they are
    broken or large, or a later call compares them."""

    workspace: str
    nodes: list[NodeAnswer]
    missing: list[Missing]
    context_id: NotRequired[str]
    as_of: NotRequired[str]
    proposed: NotRequired[list[ProposedAnswer]]
    proposals_left_out: NotRequired[int]
    cursor: NotRequired[str]
    hint: NotRequired[dict[str, Any]]
    resolved: NotRequired[list[Resolved]]


def get(session: Session, params: GetParams) -> GetResult:
    """Read nodes in the requested order."""
    far = addressing.far(session, params.workspace, params.uris, reads=True)
    workspace = None if far else addressing.choose(session, params.workspace, params.uris)
    home = workspace.id if workspace else far or ""
    commit = session.commit(workspace, params.as_of) if params.as_of and workspace else params.as_of
    question = [home, params.uris, params.include, commit]
    begin = Position.read(question, params.cursor)
    check(params.include, params.as_of, is_far=far is not None)
    room = Room(params.budget)
    answer: dict[str, Any] = {"workspace": home, "nodes": [], "missing": []}
    named, refused = addressing.each(params.uris, lambda n, text: _spelt(session, workspace, home, text, n))
    asked = list(named.values())
    answer["missing"] += [] if begin.node or begin.inside else [_refused(params.uris[n], refused[n]) for n in refused]
    if params.conflicts == "resolve" and not commit and workspace:
        answer |= present(resolved=_settled(session, workspace, asked))
    marks = changing(session, workspace) if "proposals" in params.include and workspace and not commit else None
    seen, reads = list[Uri](), None
    for index in range(begin.node, len(asked)):
        found: Found | FarNode | Missing
        if workspace is None or addressing.on_hub(session, asked[index]):
            check(params.include, None, is_far=True)
            reads = reads or HubReads(session, params.include, commit if far else None)
            found = _from_hub(reads, home, asked, index)
        else:
            found = _near(session, workspace, asked[index], commit, similar=len(answer["missing"]) < MISSING_SHOWN)
        if isinstance(found, dict):
            answer["missing"].append(found)
            room.take(found)
            continue
        start = begin if index == begin.node else Position(index)
        marked = _marked(marks, found) if marks is not None and not start.inside else {}
        node, rest = _fitted(found, asked[index], params.include, room, start, marked, first=not answer["nodes"])
        if node is not None:
            if "citations" in params.include and isinstance(found, Found) and not start.inside:
                citations.add(session, found, node, room)
            answer["nodes"].append(_with_trust(session, home, found, node))
            seen.append(found.uri)
        if rest is not None:
            answer["cursor"] = paging.write("get", question, rest.written())
            break
    if marks is not None:
        answer |= present(proposed=_proposed(marks, answer["nodes"], room), proposals_left_out=marks.left_out)
    answer |= present(as_of=commit)
    answer.update(enter_working_set(session, params.context_id, seen))
    if workspace is not None and not commit:
        note_reads(session, workspace, answer, seen)
    return answer  # type: ignore[return-value]


def _marked(marks: Marks, found: Found | FarNode) -> dict[str, Any]:
    """The first open proposals that change the node, and the number of the others."""
    ids = marks.of(found.uri) if isinstance(found, Found) and found.workspace is marks.workspace else []
    more = {"more_proposals": len(ids) - PROPOSALS_NAMED} if len(ids) > PROPOSALS_NAMED else {}
    return {"proposals": ids[:PROPOSALS_NAMED], **more} if ids else {}


def _proposed(marks: Marks, shown: Sequence[NodeAnswer], room: Room) -> list[ProposedAnswer]:
    """The first line of each proposal that the nodes name, each once, oldest first."""
    named = {id for node in shown for id in node.get("proposals", ())}
    every: list[ProposedAnswer] = [
        {
            "id": id,
            "message": fenced_line(one.subject, LONGEST),
            "author": fenced_line(one.author, LONGEST),
            "at": nodes.moment(one.at),
        }
        for id, _, one in marks.found
        if id in named
    ]
    return list(takewhile(room.take, every))


def _spelt(session: Session, workspace: Workspace | None, home: str, text: str, number: int) -> Uri:
    at = f"uris[{number}]"
    if workspace is None:
        return addressing.resolve_far(session, home, text, at=at)
    return addressing.resolve(session, workspace, text, at=at)


def _refused(text: str, refusal: KgdError) -> Missing:
    detail = f"{refusal.message}. {refusal.next}".strip()
    return {"uri": text[:300], "similar": [], "reason": addressing.reason_of(refusal), "detail": detail[:300]}


def _near(session: Session, workspace: Workspace, asked: Uri, commit: str | None, *, similar: bool) -> Found | Missing:
    """Find a node of a workspace on this machine. `commit` applies only to the call's own workspace."""
    owner = addressing.owner_of(session, workspace, asked)
    session.allow(owner, Verb.READ, [asked])
    sees = session.sight(owner.id)
    then = commit if owner is workspace else None
    found = nodes.find(owner, asked, then, sees)
    if found is None and then and _is_stored(session, owner, asked, sees):
        return {"uri": asked, "similar": [], "reason": "not_then"}
    if found is None or not session.may(owner, found.uri, Verb.READ):  # a renamed node may no longer be readable
        return _missing(owner, asked, sees, similar=similar)
    return found


def _is_stored(session: Session, workspace: Workspace, uri: Uri, sees: visibility.Sees | None) -> bool:
    """Whether the node exists now and the caller may read it."""
    now = nodes.find(workspace, uri, sees=sees)
    return now is not None and now.stored is not None and session.may(workspace, now.uri, Verb.READ)


def _from_hub(reads: HubReads, home: str, asked: Sequence[Uri], index: int) -> FarNode | Missing:
    """A node of a hub. The hub reads it in one call with the later requested nodes of the same workspace."""
    workspace = workspace_of(asked[index]) or home
    following = [uri for uri in asked[index + 1 :] if (workspace_of(uri) or home) == workspace]
    found = reads.look(workspace, asked[index], following)
    if isinstance(found, FarNode):
        return found
    answer: dict[str, Any] = {"uri": asked[index], "similar": list(found.similar), **detail_of(found)}
    return cast("Missing", {**answer, "reason": found.reason, "workspace": workspace})


def _with_trust(session: Session, home: str, found: Found | FarNode, node: dict[str, Any]) -> dict[str, Any]:
    """Add the trust level of the node's workspace, and fence text by others.

    For an agent of this machine, the origin of its own nodes is only the commit; the other facts are in other fields of
    the answer.
    """
    if isinstance(found, FarNode):
        return node
    trust = origins.trust_in(session, found.workspace)
    if trust == "local":
        if session.by_agent and session.principal is None and found.workspace.id == home:
            node["origin"] = {"commit": node["origin"]["commit"]} if "commit" in node["origin"] else {}
        return node
    node["origin"]["trust"] = trust
    return origins.fence(node) if trust == "remote" else node


def _settled(session: Session, workspace: Workspace, asked: Sequence[Uri]) -> list[Resolved]:
    """Let models settle the open conflicts of the requested nodes before the nodes are read."""
    return on_the_way(session, workspace, [workspace.graph.resolve(uri) for uri in asked])


class Position:
    """A position in an answer: the node, and the offsets in its content and lists."""

    __slots__ = ("content", "detail", "last", "node", "offsets")

    def __init__(
        self, node: int, content: int = 0, detail: int = 0, offsets: Sequence[int] = (0, 0), last: str = ""
    ) -> None:
        self.node, self.content, self.detail, self.offsets = node, content, detail, tuple(offsets)
        self.last = last
        """The last answered message."""

    @classmethod
    def read(cls, question: Any, cursor: str | None) -> Position:
        if cursor is None:
            return cls(0)
        position = paging.read("get", question, cursor)
        node, content, detail, *offsets = (paging.index(position, n) for n in range(5))
        return cls(node, content, detail, offsets, paging.text(position, 5))

    def written(self) -> list[int | str]:
        return [self.node, self.content, self.detail, *self.offsets, self.last]

    @property
    def inside(self) -> bool:
        return bool(self.content or self.detail or any(self.offsets) or self.last)


def _fitted(
    found: Found | FarNode,
    asked: str,
    include: Sequence[str],
    room: Room,
    start: Position,
    marked: Mapping[str, Any],
    *,
    first: bool,
) -> tuple[dict[str, Any] | None, Position | None]:
    """As much of the node as fits, and the position where the next page starts; (None, start) if nothing fits.

    Args:
        marked: Further fields of the node.
    """
    answer = {**_head(found, asked, include, continued=start.inside), **marked}
    if not room.take(answer, first=first):
        return None, start
    content = found.content if "content" in include else ""
    done = start.content
    if content[done:]:
        end = done + _take_text(content[done:], room, first=first)
        if end > done:
            answer["content"] = content[done:end]
        if done or end < len(content):
            answer["content_cut"] = _cut(done, end, len(content))
        if end < len(content):
            return answer, Position(start.node, end, start.detail, start.offsets)
    detail = found.detail() if "content" in include else None
    text, done = (detail["text"], start.detail) if detail else ("", 0)
    if detail and text[done:]:
        end = done + _take_text(text[done:], room, first=first and not content[start.content :])
        if end > done:
            answer["detail"] = {"file": detail["file"], "text": text[done:end]}
        if done or end < len(text):
            answer["detail_cut"] = _cut(done, end, len(text))
        if end < len(text):
            return answer, Position(start.node, len(content), end, start.offsets)
    offsets = list(start.offsets)
    for number, name in enumerate(LISTS):
        if name not in include:
            continue
        items: Sequence[Any] = found.relations() if name == "relations" else found.incoming()
        begin = offsets[number]
        offsets[number] = _take_items(items, begin, room)
        if begin < len(items):
            answer[name] = items[begin : offsets[number]]
        if begin or offsets[number] < len(items):
            answer[f"{name}_cut"] = _cut(begin, offsets[number], len(items))
        if offsets[number] < len(items):
            return answer, Position(start.node, len(content), len(text), offsets)
    way = part(include)
    if way is not None and isinstance(found, Found):
        messages, last = page(found, way, room, start.last)
        answer |= present(messages=messages)
        if last is not None:
            return answer, Position(start.node, len(content), len(text), offsets, last)
    return answer, None


def _head(found: Found | FarNode, asked: str, include: Sequence[str], *, continued: bool) -> dict[str, Any]:
    if isinstance(found, FarNode):
        answer = {**found.head, **({"asked": asked} if asked != found.uri else {})}
    else:
        answer = nodes.head(found, asked)
    if continued:
        kept = {name: answer[name] for name in ("uri", "type", "name", "version", "origin")}
        return {**kept, "continued": True}
    if isinstance(found, Found):
        _add_state(answer, found, include)
    for limit in (8_000, 1_000, 100):
        if size_of(answer) <= HARD_LIMIT - RESERVE - LEAST:
            break
        answer = {**clip(answer, limit), "uri": found.uri}
    return answer


def _add_state(answer: dict[str, Any], found: Found, include: Sequence[str]) -> None:
    if not found.as_of:
        if found.workspace.conflict_count:
            answer |= present(conflicts=nodes.conflicts(found.workspace, found.uri, found.sees))
        answer |= present(invalid_file=_invalid_file(found.workspace, found.uri))
        if "mentions" in include:
            answer["mentions"] = visibility.mentions_of(found.workspace, found.uri, found.sees)
        mark(found.workspace, [answer], found.sees)
        if (data := answer.get("data")) and (valid := validity_in(data)) and (lapse := valid.lapse(time.time())):
            answer["lapsed"] = lapse
    if "history" in include:
        past = found.workspace.history
        former = past.former(found.uri, found.sees)
        lines = past.entries(uri=found.uri, former=former, limit=HISTORY_LINES)
        answer["history"] = [nodes.line(entry, found.workspace, found.sees) for entry in lines]


def _take_text(text: str, room: Room, *, first: bool) -> int:
    """The number of characters that fit. A part that is too small is left out, unless the answer would otherwise be
    empty."""
    if room.take(text):
        return len(text)
    if room.left < LEAST and not first:
        return 0
    length = fitting(text, max(room.left, LEAST))
    room.take(text[:length], first=True)
    room.left = 0
    return length


def _take_items(items: Sequence[Any], begin: int, room: Room) -> int:
    end = begin
    while end < len(items) and room.take(items[end]):
        end += 1
    # Paging would never end if the cursor did not advance.
    return end if end > begin or begin >= len(items) or room.used > LEAST else begin + 1


def _cut(start: int, end: int, of: int) -> Cut:
    return {"start": start, "end": end, "of": of}


def _missing(workspace: Any, uri: Any, sees: visibility.Sees | None, *, similar: bool) -> Missing:
    answer: Missing = {"uri": uri, "similar": addressing.similar(workspace, uri, sees) if similar else []}
    answer |= present(invalid_file=_invalid_file(workspace, uri))
    return answer


def _invalid_file(workspace: Any, uri: Any) -> InvalidAnswer | None:
    return next((nodes.invalid(workspace, one) for one in workspace.invalid_files() if one.uri == uri), None)


def from_memory(session: Session, params: GetParams) -> bool:
    return (
        params.as_of is None
        and params.conflicts == "show"
        and not {"history", "mentions", "citations", "messages", "messages_back", "proposals"} & set(params.include)
        and addressing.at_hand(session, params.workspace, params.uris)
        and _all_stored(session, params.uris)
    )


def _all_stored(session: Session, texts: Sequence[str]) -> bool:
    """Whether every text is the canonical URI of a stored node with a known version. Any other text needs the code tree
    and the index."""
    graphs = [workspace.graph for workspace in session.daemon.opened() if workspace.knows_versions]
    return all(any(text in graph for graph in graphs) for text in texts)


GET = Operation(
    name="get",
    title="Read nodes",
    description=(
        "Read nodes in full: content, relations, version, open conflicts. `include` chooses other parts: incoming "
        "relations, the last commits, mentions, citations with their code, messages of a thread, open proposals. "
        "`missing` lists absent nodes with similar names. A long answer continues with `cursor`."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=get,
    from_memory=from_memory,
    computes=True,
    text=as_markdown.nodes,
    reflects=Reflects.TIP | Reflects.CODE,
    page="the node's page",
    offered=USUAL,
    place=20,
    scope=Verb.READ,
    commands=(
        Command(
            "Reading",
            "show nodes: summary, content, relations",
            (
                URIS,
                option(
                    "--include",
                    (
                        "instead of content and relations: content, relations, incoming, history, mentions, citations "
                        "(with their code), messages (of a thread, or behind a message), messages_back (newest first), "
                        "proposals (open ones that change the node); may be repeated"
                    ),
                    "PART",
                ),
                AS_OF,
                BUDGET,
                CURSOR,
                CONTEXT_ID,
            ),
            place=10,
            print="printing.get",
            examples=(
                ("kgd get services/auth", "the concept, or the path if there is no such concept"),
                ("kgd get ./src/auth/session.py --include incoming", "the relations that lead to a file"),
            ),
        ),
        Command(
            "Reading",
            "show everything about a node, with incoming relations, history and messages; or a commit",
            (option("uri", f"{ADDRESS}; or a commit, such as HEAD or 3f2a91c", "URI"), AS_OF, CURSOR),
            name="show",
            also="history",
            takes="commit",
            place=70,
            examples=(
                ("kgd show services/auth", "with incoming relations and history"),
                ("kgd show HEAD", "the changes of the newest commit"),
            ),
            print="printing.get",
        ),
    ),
)


def check(include: Sequence[str], as_of: str | None, *, is_far: bool) -> None:
    """Check that the call can be answered.

    Raises:
        Invalid: The call includes messages, and reads a past commit or a workspace on a hub.
    """
    if (ONWARD in include or BACK in include) and (as_of or is_far):
        raise Invalid(
            "messages are read at the present commit, from workspaces of this machine",
            at="include",
            next="Search for them there, or get each by its own URI.",
        )


def part(include: Sequence[str]) -> str | None:
    """The included part; ONWARD if both parts are included, None without messages."""
    return ONWARD if ONWARD in include else BACK if BACK in include else None


def page(found: Found, way: str, room: Room, last: str) -> tuple[list[MessageAnswer], str | None]:
    """The messages of one page, and the position after which the next page starts; None at the end.

    O(answer). A message larger than a whole page is cut; reading its own URI returns all of it. Hidden messages are
    left out. Nodes other than threads and messages have no messages.

    Args:
        way: ONWARD or BACK.
        room: Reduced by the size of the messages.
        last: The position returned with the previous page; empty for the first page.
    """
    if scheme_of(found.uri) not in ("thread", "message"):
        return [], None
    thread = found.uri if scheme_of(found.uri) == "thread" else message_nodes.thread_of(found.uri)
    begin = message_nodes.first_of(found.workspace, thread)
    ends = begin if way == ONWARD else Uri(begin + LAST)
    at = Uri(last) if last else ends if thread == found.uri else found.uri
    made: list[MessageAnswer] = []
    while uris := _next(found, thread, at, way):
        for number, uri in enumerate(uris):
            before = at if way == ONWARD else uris[number + 1] if number + 1 < len(uris) else None
            message = message_nodes.read(found.workspace, uri) if found.sees is None or found.sees(uri) else None
            if message is not None and not _take(made, _answer(found, message, before), room, must=bool(last)):
                return made, at
            at = uri
    return made, None


def _next(found: Found, thread: Uri, at: Uri, way: str) -> list[Uri]:
    if way == BACK:
        return message_nodes.listed(found.workspace, thread, PAGE, before=at)[::-1]
    return message_nodes.listed(found.workspace, thread, PAGE, after=at)


def _take(made: list[MessageAnswer], answer: MessageAnswer, room: Room, *, must: bool) -> bool:
    """Add a message to the page; returns False if there is no room.

    The first message of a page is cut if there is room for a part of it, or if it `must` be added so that paging
    advances.
    """
    if room.take(answer):
        made.append(answer)
        return True
    if made or (room.left < LEAST + AROUND and not must):
        return False
    content = answer["content"]
    answer.pop("tool_calls", None)
    end = fitting(content, max(LEAST, room.left - AROUND))
    answer["content"], answer["content_cut"] = content[:end], {"start": 0, "end": end, "of": len(content)}
    room.left = 0
    made.append(answer)
    return True


def _answer(found: Found, message: Message, before: Uri | None) -> MessageAnswer:
    answer: MessageAnswer = {
        "uri": message.uri,
        "sender": message.sender,
        "sender_type": message.kind,
        "content": message.content,
    }
    if message.at is not None:
        answer["at"] = spelt(message.at)
    answered = [edge.target for edge in found.workspace.graph.into(message.uri) if edge.type == REPLIED_BY]
    if answered and before not in answered and (found.sees is None or found.sees(answered[0])):
        answer["answers"] = answered[0]
    answer |= present(tool_calls=[dict(call) for call in message.tool_calls])
    return answer
