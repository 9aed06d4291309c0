"""Suggestions from usage (E19) and from texts: nodes for recurring names, merges of duplicates, and changed weights.

Users list, accept or dismiss them. Nothing changes before a user accepts a suggestion. A dismissed suggestion returns
when its evidence has doubled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.index.change_feed import Position
from kgd.mentions.candidates import (
    NEAR,
    NOT_THINGS,
    Candidate,
    Double,
    Named,
    candidates,
    doubles,
    may_be_double,
    merged,
)
from kgd.mentions.mentions import COMMON, COMMON_SHARE, Mentions
from kgd.model.change import ChangeSet, Edit, Relate, Upsert
from kgd.model.fields import plain_weight
from kgd.model.node import NAME_LIMIT, Relation
from kgd.model.uri import Uri, build
from kgd.model.usage import Suggestion
from kgd.tools.differences import foretold
from kgd.tools.proposals.proposals import Decided
from kgd.tools.session import Session
from kgd.workspace.served import Beside
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace

ENTITY = "entity"
TEXTS_READ = 5_000
"""Number of newest texts in which candidates are counted."""
NODES_COMPARED = 20_000
"""Number of newest nodes compared with each other by name; some of them are also compared by meaning."""
COMPARED_BY_MEANING = 300
"""Number of newest nodes per type that are compared by meaning with all nodes of their type."""
COMPARED_EACH = 3
OFFERED = 20
"""Number of suggestions of each kind that are shown at a time."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A node to create at `source`, or two nodes to merge, of which `source` stays. `count` is the amount of
    evidence."""

    kind: Literal["entity", "merge"]
    source: Uri
    reason: str
    count: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        named = f"{self.kind} {self.source} {self.more.get('target', '')}"
        return "suggestion-" + hashlib.sha256(named.encode()).hexdigest()[:16]


def offered(workspace: Workspace) -> list[Offer]:
    """The current suggestions: recurring names, most frequent first, then duplicates, most similar first.

    Reads the newest texts and names, up to a limit, once after each change of the workspace.
    """
    usage = Usage.of(workspace)
    decided = usage.decided()
    found = [one for one in _Offers.of(workspace).all() if not usage.is_decided(one, decided)]
    return [one for kind in (ENTITY, "merge") for one in [o for o in found if o.kind == kind][:OFFERED]]


def double(workspace: Workspace) -> list[Double]:
    """Pairs of nodes that may be duplicates and were not dismissed, most similar first; costs as much as `offered`."""
    usage = Usage.of(workspace)
    decided = usage.decided()
    return [one for one in _Offers.of(workspace).doubles() if not usage.is_decided(_merge(one), decided)]


def proposed_edits(workspace: Workspace, offer: Offer) -> tuple[Edit, ...]:
    """The edits of an accepted suggestion.

    Raises:
        NotFound: One of the nodes is gone, or cannot be read.
    """
    if offer.kind == ENTITY:
        return (Upsert(offer.source, type=ENTITY, name=offer.more["name"], expect_version=0),)
    both = (offer.source, Uri(offer.more["target"]))
    # Read the versions first: a text may then be newer than its version, never older.
    one, other = (workspace.version(workspace.path(uri), anew=True) for uri in both)
    keep, drop = (workspace.readable(uri) for uri in both)
    if keep is None or drop is None:
        raise NotFound("one of the two nodes no longer exists", at=offer.source, next="List the suggestions again.")
    return merged(keep, [drop], (one, other))


class _Offers(Beside):
    """Suggestions of a workspace, cached until the workspace changes."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._found: tuple[Position | None, list[Offer]] = None, []
        self._doubled: tuple[Position | None, list[Double]] = None, []

    def all(self) -> Sequence[Offer]:
        with self._lock:
            end = self._workspace.feed().end()
            if end != self._found[0]:
                self._found = end, [*self._entities(), *map(_merge, self._doubles(end))]
            return self._found[1]

    def doubles(self) -> Sequence[Double]:
        with self._lock:
            return self._doubles(self._workspace.feed().end())

    def _entities(self) -> Iterator[Offer]:
        workspace, derived = self._workspace, Mentions.of(self._workspace)
        derived.catch_up()
        texts = [text for text in workspace.feed().newest(TEXTS_READ) if text.type != "symbol"]
        said = ((text.uri, f"{text.summary}\n\n{text.content}") for text in texts)
        found = candidates(said, derived.known, most=max(COMMON, int(len(texts) * COMMON_SHARE)))
        for one in found:
            uri = _entity(workspace, one.name)
            if uri is not None and not workspace.exists(uri):
                yield _offer(uri, one, len(texts))

    def _doubles(self, end: Position) -> list[Double]:
        """The duplicates at this position of the feed; the last ones are kept, since two lists need them."""
        if end != self._doubled[0]:
            found = self._workspace.feed().named(NODES_COMPARED, NOT_THINGS)
            nodes = [Named(uri, type, (name, *also)) for uri, type, name, also in found if may_be_double(uri, type)]
            self._doubled = end, doubles(nodes, self._near)
        return self._doubled[1]

    def _near(self, nodes: Sequence[Named]) -> Iterator[tuple[Uri, Uri, float]]:
        """Pairs of nodes with similar meaning; none without vectors."""
        meaning = self._workspace.meaning
        if not meaning.share or len(nodes) < 2:
            return
        newest = [node.uri for node in nodes[:COMPARED_BY_MEANING] if self._says_something(node.uri)]
        yield from meaning.pairs(newest, [node.uri for node in nodes], NEAR, COMPARED_EACH)

    def _says_something(self, uri: Uri) -> bool:
        """Whether a node has text. A name alone does not show the meaning of a node."""
        stored = self._workspace.readable(uri)
        return stored is not None and bool(stored.summary.strip() or stored.content.strip())


def _entity(workspace: Workspace, name: str) -> Uri | None:
    try:
        return build(ENTITY, workspace.id, [name.encode()]) if len(name) <= NAME_LIMIT else None
    except (KgdError, UnicodeEncodeError):
        return None


def _offer(uri: Uri, one: Candidate, of: int) -> Offer:
    reason = f"'{one.name}' is named in {one.count} of the {of} newest texts, but no node has that name"
    return Offer("entity", uri, reason, one.count, {"name": one.name, "texts": list(one.texts)})


def _merge(one: Double) -> Offer:
    return Offer("merge", one.keep, one.reason, 1, {"target": one.drop})


ALL = "suggestions"
"""Stands for all suggestions in a list of ids."""
LISTED = 50


class SuggestionAnswer(TypedDict):
    """A suggested relation, weight, entity or merge, with its reason. `resolutions` accept it.

    `now` is the current weight, if any. An `entity` would be created at `source` with that `name`, which `texts`
    mention. A `merge` keeps `source` and removes `target`.
    """

    id: str
    kind: Literal["relate", "shorten", "lengthen", "entity", "merge"]
    source: str
    reason: str
    target: NotRequired[str]
    type: NotRequired[str]
    weight: NotRequired[float]
    now: NotRequired[float]
    name: NotRequired[str]
    texts: NotRequired[list[str]]


def is_suggestion(id: str) -> bool:
    return id == ALL or id.startswith("suggestion-")


def listed(session: Session, workspace: Workspace, ids: Iterable[str] = (ALL,)) -> list[SuggestionAnswer]:
    """The open suggestions with these ids, or all; at most `LISTED`."""
    wanted = set(ids)
    found = [_answer(one) for one in _open(session, workspace)]
    found += [
        {"id": one.id, "kind": one.kind, "source": one.source, "reason": one.reason, **one.more}  # type: ignore[typeddict-item]
        for one in _offers(session, workspace)
    ]
    return [one for one in found if ALL in wanted or one["id"] in wanted][:LISTED]


def decide(session: Session, workspace: Workspace, id: str, take: str | None, *, dry_run: bool = False) -> Decided:
    """Carry out a suggestion in one commit by the caller, or dismiss it.

    Raises:
        Invalid: `take` is neither accept nor reject.
        NotFound: No such suggestion is open.
    """
    every: list[Suggestion | Offer] = [*_open(session, workspace), *_offers(session, workspace)]
    found = next((one for one in every if one.id == id), None)
    if found is None:
        raise NotFound(
            "there is no open suggestion with this id",
            at=id[:80],
            next=Advice("List them with ", Do("conflicts", suggestions="true"), '; over MCP pass ids ["suggestions"].'),
        )
    if take not in ("accept", "reject"):
        raise Invalid(
            "a suggestion can only be accepted or rejected", at="take", next="Set `take` to accept or reject."
        )
    answer: Decided = {"id": id, "take": "reject"}
    if take == "accept":
        edits, message = _carried_out(workspace, found)
        changes = ChangeSet(edits, session.author(workspace), message[:300], operation="suggestion")
        outcome = session.submit(workspace, changes, dry_run=dry_run)
        answer = {
            "id": id,
            "take": "accept",
            "commit": outcome.commit,
            "nodes": [uri for uri, _ in outcome.nodes],
            "warnings": list(outcome.warnings),
        }
        if outcome.would:
            answer["would"] = foretold(outcome.would)  # unfiltered: only users of this machine have suggestions
    if not dry_run:
        Usage.of(workspace).decide(found.id, found.count)
    return answer


def _carried_out(workspace: Workspace, one: Suggestion | Offer) -> tuple[tuple[Edit, ...], str]:
    """The edits of a suggestion, and the commit message."""
    if isinstance(one, Offer):
        what = f"{one.more['target']} becomes {one.source}" if one.kind == "merge" else f"new: {one.source}"
        return proposed_edits(workspace, one), f"{what}: {one.reason}"
    edit = Relate(one.source, Relation(one.type, one.target, one.weight), frozenset({"weight"}))
    return (edit,), f"{one.source} {one.type} {one.target}: {one.reason}"


def _offers(session: Session, workspace: Workspace) -> list[Offer]:
    """The open offers. Token holders get no offers: the names come from texts that they may not be allowed to read."""
    return offered(workspace) if session.principal is None else []


def _open(session: Session, workspace: Workspace) -> list[Suggestion]:
    """The open suggestions. Token holders get no suggestions: the reads of this machine's users are private."""
    return Usage.of(workspace).suggestions() if session.principal is None else []


def _answer(one: Suggestion) -> SuggestionAnswer:
    answer: SuggestionAnswer = {
        "id": one.id,
        "kind": one.kind,
        "source": one.source,
        "target": one.target,
        "type": one.type,
        "weight": plain_weight(one.weight),
        "reason": one.reason,
    }
    if one.now is not None:
        answer["now"] = plain_weight(one.now)
    return answer
