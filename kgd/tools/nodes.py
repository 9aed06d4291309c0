"""Nodes in answers: stored fields, fields from the code tree, and versions from history."""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from kgd.errors import Advice, Do
from kgd.git.objects import LAST_MOMENT
from kgd.graph.edges import Edge
from kgd.model.conflict import Conflict
from kgd.model.escaping import printable
from kgd.model.fields import FORMS, plain_weight
from kgd.model.node import SCALARS, SETS, Node, Relation, Source, with_plain_fields
from kgd.model.uri import Uri, name_of, scheme_of
from kgd.overlay.overlay import Overlay
from kgd.resolution import sides_of
from kgd.tools.paging import present
from kgd.tools.visibility import Sees
from kgd.workspace.answers import Entry, InvalidFile, OpenConflict, Version
from kgd.workspace.workspace import Workspace

UNSEEN_MESSAGE = "(this commit changed other nodes too)"

INIT = "init"
"""The operation of a workspace's first commit."""
SERVED = frozenset({"file", "dir", "symbol", "chunk"})
"""Schemes of the nodes that a code tree has."""

Trust = Literal["local", "team", "remote"]

OWN_CLIENTS = ("", "kgd-cli", "kgd ui")
"""Programs that people use; every other client counts as an agent."""


class Stamp(TypedDict):
    """Time and author, as the commit states them."""

    at: str
    by: str


class LastChange(Stamp):
    """The newest change that is not a verification, and time and author of a newer verification."""

    verified_at: NotRequired[str]
    verified_by: NotRequired[str]


class Origin(TypedDict):
    """The origin of a piece of knowledge; set by kgd, never by content.

    For agents, a node of the answer's own workspace has only the commit; its trust is local.
    """

    workspace: NotRequired[str]
    commit: NotRequired[str]
    author: NotRequired[str]
    trust: NotRequired[Trust]


class Brief(TypedDict):
    """A node in a list."""

    uri: str
    type: str
    name: str
    summary: NotRequired[str]


class RelationAnswer(TypedDict):
    type: str
    target: str
    weight: float
    data: NotRequired[dict[str, Any]]
    others: NotRequired[dict[str, Any]]
    broken: NotRequired[bool]


class IncomingAnswer(TypedDict):
    source: str
    type: str
    weight: float


class SideAnswer(TypedDict):
    """One version with its letter, and the commit that wrote it if the searched history has it."""

    side: str
    value: Any
    author: NotRequired[str]
    commit: NotRequired[str]
    at: NotRequired[str]


class ConflictField(TypedDict):
    """`shown` is the letter of the side in use, empty after a later write; `now` is the current value, given only for a
    single requested conflict."""

    base: Any
    sides: list[SideAnswer]
    shown: str
    now: NotRequired[Any]


class DisputedAnswer(TypedDict):
    """Different versions of a node's fields, by different people."""

    id: str
    uri: str
    fields: dict[str, ConflictField]


class ConflictAnswer(DisputedAnswer):
    next: str


class InvalidAnswer(TypedDict):
    """A hand-edited file that cannot be parsed. The last good value is served, if there is one."""

    path: str
    line: int
    reason: str
    next: str
    uri: NotRequired[str]


class UnverifiedAnswer(TypedDict):
    """The code that a node cites has changed since its verification. `commit` is the code commit, if there is one."""

    reason: str
    since: NotRequired[str]
    commit: NotRequired[str]


class SuccessorAnswer(TypedDict):
    """The node that supersedes or sums up another one."""

    uri: str
    name: str


class Standing(TypedDict):
    """Warnings about a node: it is stale, or another node replaces it."""

    unverified: NotRequired[UnverifiedAnswer]
    superseded_by: NotRequired[SuccessorAnswer]


class CitationAnswer(TypedDict):
    """Cited code. `state` compares the code with its last verification: verified, changed (for `reason`, `since`, with
    the `diff` if it is known), unverified (never verified) or absent. A symbol that is not found has a `reason` too.
    `code` starts at line `first`; `cited` are the first and the last cited line."""

    text: str
    file: str
    symbol: NotRequired[str]
    state: NotRequired[Literal["verified", "changed", "unverified", "absent"]]
    reason: NotRequired[str]
    since: NotRequired[str]
    code: NotRequired[str]
    first: NotRequired[int]
    cited: NotRequired[list[int]]
    diff: NotRequired[str]


class Cut(TypedDict):
    """Start, end and total length of a partial content or list."""

    start: int
    end: int
    of: int


class CommitLine(TypedDict):
    """`pushed_by` and `accepted_by` are verified, if known; the author is a claim of the commit."""

    commit: str
    at: str
    author: str
    pushed_by: NotRequired[str]
    accepted_by: NotRequired[str]
    message: str


class DetailAnswer(TypedDict):
    """The file behind a memory, below the folder of the workspace, and its text."""

    file: str
    text: str


class MentionsAnswer(TypedDict):
    """Nodes that this text names, and nodes whose texts name this node: a few of each, most specific first."""

    out: list[str]
    into: list[str]
    more: int


class MessageAnswer(TypedDict):
    """One message of a thread. `answers` is present if it replies to a message other than the previous one."""

    uri: str
    sender: str
    sender_type: str
    at: NotRequired[str]
    answers: NotRequired[str]
    content: str
    content_cut: NotRequired[Cut]
    tool_calls: NotRequired[list[dict[str, Any]]]


@with_plain_fields()
class NodeAnswer(TypedDict):
    uri: str
    type: str
    name: str
    version: int
    asked: NotRequired[str]
    continued: NotRequired[bool]
    summary: NotRequired[str]
    tags: NotRequired[list[str]]
    data: NotRequired[dict[str, Any]]
    source: NotRequired[dict[str, Any]]
    aliases: NotRequired[list[str]]
    others: NotRequired[dict[str, Any]]
    created: NotRequired[Stamp]
    updated: NotRequired[LastChange]
    origin: Origin
    content: NotRequired[str]
    content_cut: NotRequired[Cut]
    detail: NotRequired[DetailAnswer]
    detail_cut: NotRequired[Cut]
    relations: NotRequired[list[RelationAnswer]]
    relations_cut: NotRequired[Cut]
    incoming: NotRequired[list[IncomingAnswer]]
    incoming_cut: NotRequired[Cut]
    history: NotRequired[list[CommitLine]]
    mentions: NotRequired[MentionsAnswer]
    citations: NotRequired[list[CitationAnswer]]
    messages: NotRequired[list[MessageAnswer]]
    conflicts: NotRequired[list[ConflictAnswer]]
    proposals: NotRequired[list[str]]
    more_proposals: NotRequired[int]
    invalid_file: NotRequired[InvalidAnswer]
    unverified: NotRequired[UnverifiedAnswer]
    lapsed: NotRequired[str]
    superseded_by: NotRequired[SuccessorAnswer]


"""`NodeAnswer` is a node in full, without empty fields. At `version` 0 the node is in the code tree and not stored.
`others` are keys of its file that this version of kgd does not know, apart from the fields that kgd vouches for."""


@dataclass(frozen=True, slots=True)
class Found:
    """One node of one workspace, with the data for answers about it."""

    workspace: Workspace
    uri: Uri
    stored: Node | None
    served: Node | None
    """The node according to the code tree."""
    as_of: str | None
    version: Version | None
    """The version of `stored` or, after a concurrent write, an earlier one: content may be newer than its version,
    never older."""
    sees: Sees | None = None
    """Predicate for readable nodes, or None if unrestricted."""

    def relations(self) -> list[RelationAnswer]:
        """Stored relations and additional relations from the code tree, by weight; at equal weight, stored relations
        come first."""
        # `broken` reveals whether the target exists, so it is set for readable targets only.
        answers = [
            _relation(self.workspace, r, bool(self.as_of) or not self._shows(r.target))
            for r in (self.stored.relations if self.stored else ())
        ]
        if self.served is not None and (overlay := overlay_of(self.workspace)):
            known = {(answer["type"], answer["target"]) for answer in answers}
            for edge in overlay.out(self.uri):
                if (edge.type, edge.target) not in known and self._shows(edge.target):
                    answers.append({"type": edge.type, "target": edge.target, "weight": edge.weight})
        return sorted(answers, key=itemgetter("weight"))

    def incoming(self) -> list[IncomingAnswer]:
        sources = [self.workspace.history.graph_at(self.as_of)] if self.as_of else self.workspace.sources()
        edges: set[Edge] = set()
        for source in sources:
            edges.update(source.into(self.uri))
        shown = [edge for edge in sorted(edges) if self._shows(edge.target)]
        return [{"source": e.target, "type": e.type, "weight": e.weight} for e in shown]

    def detail(self) -> DetailAnswer | None:
        """The detail file of a memory, read at this call. From then on, an expected version also covers the detail."""
        found = self.workspace.detail(self.stored, self.as_of) if self.stored else None
        if found is None:
            return None
        if self.version is not None and not self.as_of:
            self.workspace.sent.note_detail(found[0], self.version.count)
        return {"file": found[0], "text": found[1]}

    def _shows(self, uri: Uri) -> bool:
        return self.sees is None or self.sees(uri)

    @property
    def content(self) -> str:
        return (self.stored.content if self.stored else "") or (self.served.content if self.served else "")


def title_of(workspace: Workspace, uri: Uri) -> str:
    """The name of a node, or the last segment of its URI."""
    card = workspace.graph.card(uri)
    return (card.name if card else "") or name_of(uri)


def brief(workspace: Workspace, uri: Uri) -> Brief:
    card = workspace.graph.card(uri)
    found: Brief = {"uri": uri, "type": card.type if card else "", "name": title_of(workspace, uri)}
    found |= present(summary=card.summary if card else "")
    return found


def overlay_of(workspace: Workspace) -> Overlay | None:
    """The overlay of a workspace's code tree, which the daemon sets; None without a code tree."""
    return cast("Overlay | None", workspace.overlay)


CAUGHT_UP_WITHIN = 20.0
"""Seconds that a call waits for a file to be read."""


def catch_up(workspace: Workspace, path: str, within: float = CAUGHT_UP_WITHIN) -> bool:
    """Bring the served file at a path up to date with the disk, including its symbols.

    Returns False if this takes longer than `within` seconds. Takes a few look-ups if the file is known.
    """
    overlay = overlay_of(workspace)
    if overlay is None:
        return True
    return (overlay.catch_up if overlay.inside is None else overlay.inside.catch_up)(path, within)


def find(workspace: Workspace, uri: Uri, as_of: str | None = None, sees: Sees | None = None) -> Found | None:
    """The node at a URI or former URI now, or under any of its URIs in the commit `as_of`; None if there is no such
    node.

    Args:
        sees: Predicate for the other nodes that answers about this node may show, or None. The node itself is not
            checked.
    """
    current = workspace.graph.resolve(uri)
    if as_of:
        version, (current, stored) = None, _then(workspace, uri, current, as_of, sees)
    else:
        version, stored = _now(workspace, current)
    overlay = overlay_of(workspace) if as_of is None and scheme_of(current) in SERVED else None
    served = overlay.node(current) if overlay is not None else None
    if stored is None and served is None:
        return None
    return Found(workspace, current, stored, served, as_of, version, sees)


def _then(workspace: Workspace, uri: Uri, now: Uri, as_of: str, sees: Sees | None) -> tuple[Uri, Node | None]:
    """The URI and value of a node in a commit. Tries the given URI first, then the current URI, then other URIs."""
    for name in dict.fromkeys((uri, now, *workspace.history.former(now, sees))):
        stored = workspace.node(name, as_of) if name == uri or sees is None or sees(name) else None
        if stored is not None:
            return name, stored
    return uri, None


def _now(workspace: Workspace, uri: Uri) -> tuple[Version | None, Node | None]:
    """The version and value of a stored node, read in this order.

    A write between the reads makes the version too old, so a `put` that expects this version is refused. In the other
    order, the old value would be sent under the new version, and a `put` that expects that version would overwrite an
    unseen change.
    """
    card = workspace.graph.card(uri)
    version = workspace.node_version(uri) if card is not None and card.blob is not None else None
    node = workspace.node(uri)
    if node is not None and version is None:  # created between the two reads
        version, node = workspace.node_version(uri), workspace.node(uri)
    return (version if node is not None else None), node


_IN_HEAD = tuple((name, FORMS[name][0]) for name in (*SCALARS, *SETS) if name not in ("type", "name", "content"))


def head(found: Found, asked: str) -> dict[str, Any]:
    """The fields of a `NodeAnswer` without content and lists. Records the node as sent under its version.

    `asked` is the URI in the call, which the answer repeats if it is a former URI.
    """
    node = found.stored or found.served
    assert node is not None
    answer: dict[str, Any] = {"uri": found.uri, "type": node.type, "name": node.title}
    answer["version"] = 0
    if asked != found.uri:
        answer["asked"] = asked
    if data := {**(found.served.data if found.served else {}), **node.data}:
        answer["data"] = data
    answer |= {name: form(value) for name, form in _IN_HEAD if (value := getattr(node, name))}
    if found.served and found.served.summary:
        answer.setdefault("summary", found.served.summary)
    if node.source:
        answer["source"] = source(node.source)
    if node.others:
        answer["others"] = dict(node.others)
    version = found.version
    if found.as_of:
        answer["version"] = found.workspace.version_at(found.uri, found.as_of)
    if version is not None:
        # An expectation of this version is later checked against exactly this content.
        found.workspace.sent.note(found.uri, version.count)
        answer["version"] = version.count
        answer["created"] = stamp(version.created_at, version.created_by)
        answer["updated"] = updated(version)
    answer["origin"] = origin(found, version)
    return answer


def origin(found: Found, version: Version | None) -> Origin:
    """The origin of a node in a workspace on this machine, whose trust is always local."""
    answer: Origin = {"workspace": found.workspace.id, "trust": "local"}
    if found.as_of:
        answer["commit"] = found.as_of
    elif version is not None:
        answer["commit"], answer["author"] = version.updated_commit, version.updated_by
    return answer


def conflicts(workspace: Workspace, uri: Uri, sees: Sees | None = None) -> list[ConflictAnswer]:
    """The open conflicts of a node, each with base, both sides and a next step."""
    return [conflict(one) for one in workspace.conflicts.find(uri, about=sees)]


def conflict(one: OpenConflict) -> ConflictAnswer:
    then = Advice("Read both sides, then resolve it: ", Do("resolve_conflicts"), " takes a side or a value per field.")
    return {**dispute(one.conflict), "next": then}


def dispute(one: Conflict) -> DisputedAnswer:
    return {"id": one.id, "uri": one.uri, "fields": {name: disputed(one, name) for name in one.fields}}


def disputed(one: Conflict, name: str) -> ConflictField:
    """One field of a conflict, its sides under the letters that resolutions use."""
    letters = sides_of(one, name)
    return {
        "base": one.fields[name].base,
        "sides": [{"side": letter, "value": value} for letter, value in letters.items()],
        "shown": list(letters)[one.shown.get(name, 0)],
    }


def invalid(workspace: Workspace, one: InvalidFile) -> InvalidAnswer:
    is_served = one.uri is not None and workspace.exists(one.uri)
    until = "its last good value is served until then" if is_served else "it is served as soon as it can be read"
    answer: InvalidAnswer = {
        "path": printable(one.path),
        "line": one.line,
        "reason": one.reason,
        "next": f"Fix that file in the work tree; {until}.",
    }
    answer |= present(uri=one.uri)
    return answer


def stamp(at: int, by: str) -> Stamp:
    return {"at": moment(at), "by": by}


def updated(version: Version) -> LastChange:
    """The last change of a node."""
    if not version.written_by:
        return {"at": moment(version.updated_at), "by": version.updated_by}
    return {
        "at": moment(version.written_at),
        "by": version.written_by,
        "verified_at": moment(version.updated_at),
        "verified_by": version.updated_by,
    }


def moment(at: float) -> str:
    """Unix seconds as RFC 3339 in UTC. Times before 1970 or after the year 9999 become the nearest valid time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(max(at, 0), LAST_MOMENT)))


def made_at(entry: Entry) -> str:
    """The time of a commit; empty for a workspace's first commit, whose date is a constant."""
    return moment(entry.at) if entry.parents or entry.operation != INIT else ""


def source(stored: Source) -> dict[str, Any]:
    """A source, in the form that both answers and changes use."""
    return {"type": stored.type, "id": stored.id} | ({"others": dict(stored.others)} if stored.others else {})


def _relation(workspace: Workspace, stored: Relation, unchecked: bool) -> RelationAnswer:
    answer: RelationAnswer = {"type": stored.type, "target": stored.target, "weight": plain_weight(stored.weight)}
    if stored.data:
        answer["data"] = dict(stored.data)
    if stored.others:
        answer["others"] = dict(stored.others)
    if not unchecked and workspace.is_broken(stored.target):
        answer["broken"] = True
    return answer


def line(entry: Entry, workspace: Workspace | None = None, sees: Sees | None = None) -> CommitLine:
    """A commit in one line. The message is replaced unless the caller may read all nodes that the commit changed."""
    message = entry.subject if workspace is None or sees_all(workspace, entry, sees) else UNSEEN_MESSAGE
    told: CommitLine = {"commit": entry.commit, "at": made_at(entry), "author": entry.author, "message": message}
    told |= present(pushed_by=entry.pushed_by, accepted_by=entry.accepted_by)
    return told


def sees_all(workspace: Workspace, entry: Entry, sees: Sees | None) -> bool:
    """Whether all nodes that a commit changed may be read. Reads the commit again: `entry` may list one node only.

    False for a restricted caller if the commit changed no nodes, or too many to list.
    """
    if sees is None:
        return True
    (whole,) = workspace.history.entries(commit=entry.commit)
    return bool(whole.nodes) and not whole.more_nodes and all(map(sees, whole.nodes))


def is_agent(client: str, email: str = "") -> bool:
    """Whether an agent, not a person, wrote the change."""
    return client not in OWN_CLIENTS or email.endswith("@token.invalid")


def is_by(wanted: str | None, *names: str, agent: bool) -> bool:
    """Whether a writer with these names matches a filter: ``agent``, ``person``, part of a name, or None for all."""
    if wanted in ("agent", "agents"):
        return agent
    if wanted in ("person", "people"):
        return not agent
    return wanted is None or wanted.casefold() in " ".join(names).casefold()
