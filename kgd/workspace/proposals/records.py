"""Records about a proposal apart from its content: its owner, comments, bundles of nodes, and what several hubs share.

The author of a commit can be anything that its creator chose, so the reflog records the owner as the identity of a
token. The token's line is recorded as well, since the limit on open proposals applies to it. A proposal without an
owner belongs to the user of this machine.

The commit message lists the bundles. The nodes of a bundle are accepted together; otherwise a duplicate could be
deleted without its replacement.

Comments are stored beside the proposal: in the reflog of its ref or, if several hubs share it, in the records that the
hubs exchange. Later commits of the proposal keep them, and so does its decision (`kgd.workspace.proposals.decided`).

Several hubs share their proposals through the upstream; one hub alone needs only its own refs. The refs of a proposal
at a hub are copies of the upstream's. Each change is made in the upstream first, by compare-and-swap, so if two hubs
decide about a proposal, only the first succeeds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kgd.errors import Invalid, Limit, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS, RefMoved, RefUpdate, move_ref, read_log
from kgd.git.staging import Staging
from kgd.model.access import Principal
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import refuse_secret_text

if TYPE_CHECKING:
    from kgd.workspace.proposals.proposals import Proposal

LONGEST_REASON = 400
_BUNDLE = re.compile(r"^\[([0-9a-f]{16})\] ([a-z]+) (\S+://\S+(?: \S+://\S+)*)$")

_PUSHED = "kgd: pushed by "
_LINE = re.compile(r"kgd: (?:pushed|proposed) by (.*) \[([0-9A-Za-z]*) ([0-9A-Za-z]*)( agent)?\]").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """The proposer: `Principal.identity` and `Principal.line`, and ``holder (id)`` of a pusher."""

    owner: str = ""
    line: str = ""
    pusher: str = ""
    pushed_by_agent: bool = False

    def is_of(self, who: Principal) -> bool:
        """Whether this principal, or a token derived from its own, made the proposal."""
        return who.identity in (self.owner, self.line)


NOBODY = Origin()


def pushed(holder: Principal) -> str:
    """The reflog message of a push with this holder's token."""
    kind = "" if holder.kind == "person" else " agent"
    return f"{_PUSHED}{holder.name} ({holder.id}) [{holder.identity} {holder.line}{kind}]"


def proposed(name: str, holder: Principal | None) -> str:
    """The reflog message of a submission; a holder of None is a person on this machine."""
    owner = f"{holder.identity} {holder.line}" if holder else " "
    return f"kgd: proposed by {name[:100]} [{owner}]"


def origin(git_dir: Path, ref: str) -> Origin:
    """The origin of this repository's proposal, from its reflog."""
    for line in reversed(read_log(git_dir, ref)):
        if found := _LINE(line.note):
            return Origin(found[2], found[3], found[1] if line.note.startswith(_PUSHED) else "", bool(found[4]))
    return NOBODY


@dataclass(frozen=True, slots=True)
class Bundle:
    """A change of several nodes. `id` is a hash of the change and its evidence, so equal changes have equal ids."""

    id: str
    kind: str
    nodes: tuple[Uri, ...]
    reason: str


def bundle_id(*evidence: str) -> str:
    return hashlib.sha256("\n".join(evidence).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def written(bundle: Bundle) -> str:
    """The bundle as text for a message; `read` parses it."""
    return f"[{bundle.id}] {bundle.kind} {' '.join(bundle.nodes)}\n  {fenced_line(bundle.reason, LONGEST_REASON)}"


def read(message: str) -> list[Bundle]:
    """The bundles in a message, in order."""
    lines = message.splitlines()
    return [
        Bundle(found[1], found[2], tuple(map(Uri, found[3].split())), reason.strip())
        for line, reason in zip(lines, [*lines[1:], ""], strict=True)
        if (found := _BUNDLE.match(line))
    ]


def incomplete(told: Iterable[Bundle], chosen: Iterable[Uri], left: Iterable[Uri]) -> Uri | None:
    """An open node of a bundle of which only a part was chosen; None if all bundles are complete."""
    wanted, waiting = set(chosen), set(left)
    for bundle in told:
        missing = [uri for uri in bundle.nodes if uri in waiting and uri not in wanted]
        if missing and wanted.intersection(bundle.nodes):
            return missing[0]
    return None


class Rejection(NamedTuple):
    """Who rejected a proposal, when (Unix seconds), and why. `withdrawn` if it was its proposer."""

    by: str
    at: int
    reason: str
    withdrawn: bool


class SharedProposals(Protocol):
    """Thread-safe. Names are without a prefix, as in `Proposal.name`. Every method raises Unavailable if the
    upstream or the shared state cannot be reached."""

    def turn(self) -> AbstractContextManager[None]:
        """A context in which this hub knows all proposals and the others make none."""

    def refresh(self) -> None:
        """Copy the upstream's proposals."""

    def put(self, name: str, commit: ObjectId, note: str) -> None:
        """Create or continue a proposal in the upstream. The hub's own ref is up to the caller.

        Args:
            note: Its origin, as `records.pushed` or `records.proposed` writes it.

        Raises:
            RefMoved: Another hub has created or changed it.
        """

    def comment(self, name: str, commit: ObjectId, note: str) -> None:
        """Add a note to a proposal, for all hubs. Raises Overruled as `also`."""

    def comments(self, name: str) -> Sequence[tuple[str, int]]:
        """The notes of `comment` and `also`, oldest first, each with its time in Unix seconds. Reads only this hub's
        copy."""

    def also(self, name: str, commit: ObjectId, staging: Staging, *, left: str) -> Sequence[RefUpdate]:
        """The part of an acceptance that concerns the proposal's own ref: it is removed, or if something is left to
        decide, marked, so that two hubs cannot decide at the same time.

        Args:
            left: The note to add, as `partly_accepted` writes it; empty if nothing is left.

        Raises:
            Overruled: The proposal is no longer at this commit.
        """

    def remove(self, name: str, commit: ObjectId) -> None:
        """Remove a proposal that the tip contains. Raises Overruled as `also`."""

    def reject(self, name: str, commit: ObjectId, by: str, reason: str, *, withdrawn: bool) -> str:
        """Reject a proposal, for all hubs; return as `deciding.reject`. Raises Overruled as `also`."""

    def rejection(self, name: str, commit: str) -> Rejection | None:
        """The last rejection of a proposal with this name at a commit with this prefix, by any hub."""

    def last_number(self, holder: str) -> int:
        """The largest number that a name of this holder's proposals has used; 0 if there is none. A number is not used
        again, since a call that is repeated at another hub would decide about another proposal."""

    def changed(self) -> None:
        """Follow an acceptance, and wake the other hubs. Never raises."""


@dataclass(slots=True)
class _Shared:
    proposals: SharedProposals | None = None


def share(workspace: Workspace, proposals: SharedProposals) -> None:
    """Keep the proposals of this workspace in its upstream from now on."""
    workspace.beside(_Shared, lambda _: _Shared()).proposals = proposals


def shared(workspace: Workspace) -> SharedProposals | None:
    """The proposals that hubs share; None if this hub is alone."""
    return workspace.beside(_Shared, lambda _: _Shared()).proposals


@contextlib.contextmanager
def turn(workspace: Workspace) -> Iterator[SharedProposals | None]:
    """The context of `SharedProposals.turn`; an empty context without shared proposals."""
    found = shared(workspace)
    with found.turn() if found else contextlib.nullcontext():
        yield found


LONGEST_COMMENT = 1_000
"""Largest number of characters of a comment."""
LONGEST_NAME = 100
MOST_COMMENTS = 100
"""Largest number of comments on a proposal."""
_BEGIN = "kgd: comment by "


class Comment(NamedTuple):
    """`at` is in Unix seconds."""

    by: str
    at: int
    text: str


def comments_on(workspace: Workspace, proposal: Proposal) -> tuple[Comment, ...]:
    """The comments on an open or decided proposal, oldest first."""
    if proposal.remote:
        return ()
    if (hubs := shared(workspace)) and proposal.ref.startswith(PROPOSALS):
        notes = hubs.comments(proposal.name)
    else:
        notes = [(line.note, line.time) for line in read_log(workspace.layout.git_dir, proposal.ref)]
    return tuple(found for note, at in notes if (found := _comment_in(note, at)))


def comments_after(workspace: Workspace, proposal: Proposal, by: str) -> tuple[Comment, ...]:
    """The comments after the last one by this author, oldest first; all comments if the author made none. None if the
    author cannot answer, because the discussion is full."""
    said = comments_on(workspace, proposal)
    last = max((number for number, one in enumerate(said, 1) if one.by == by[:LONGEST_NAME]), default=0)
    return said[last:] if len(said) < MOST_COMMENTS else ()


def add_comment(workspace: Workspace, proposal: Proposal, by: str, text: str) -> None:
    """Add a comment; durable on return. Line ends become blanks.

    Raises:
        Invalid: The comment is empty, or the proposal is kept at a remote.
        Limit: The comment is too long, or the proposal has too many.
        HoldsSecret: The comment has a secret.
        Overruled: Another hub has just decided about the proposal.
        Unavailable: The comment could not be written.
    """
    text = " ".join(text.split())
    refuse_secret_text(text, "the comment", at="text")
    if not text:
        raise Invalid("the comment is empty", at="text")
    if proposal.remote:
        raise Invalid(
            f"this proposal is on the remote '{proposal.remote}'",
            at=proposal.name,
            next="Comment on it there, or reject it with a reason.",
        )
    if len(text) > LONGEST_COMMENT:
        raise Limit(f"a comment has at most {LONGEST_COMMENT:,} characters", at="text")
    if len(comments_on(workspace, proposal)) >= MOST_COMMENTS:
        raise Limit(f"a proposal has at most {MOST_COMMENTS} comments", at=proposal.name, next="Accept or reject it.")
    note, commit = f"{_BEGIN}{json.dumps(by[:LONGEST_NAME], ensure_ascii=False)} {text}", bytes.fromhex(proposal.commit)
    if hubs := shared(workspace):
        hubs.comment(proposal.name, commit, note)
    else:
        try:
            move_ref(workspace.layout.git_dir, workspace.derived_dir, proposal.ref, commit, commit, note=note)
        except RefMoved:
            raise Unavailable("the proposal has just changed", at=proposal.name, next="Read it again.") from None
    workspace.tell_uncommitted()


def is_comment(note: str) -> bool:
    """Whether a line of a reflog, or of a record, is a comment."""
    return note.startswith(_BEGIN)


def is_origin(note: str) -> bool:
    """Whether a line of a reflog names the proposer."""
    return _LINE(note) is not None


_IN_PART = "kgd: accepted in part by "


def partly_accepted(by: str) -> str:
    """The note of an acceptance that leaves something to decide."""
    return f"{_IN_PART}{by[:LONGEST_NAME]}"


def is_partial(note: str) -> bool:
    """Whether a line of a reflog, or of a record, reports a partial acceptance."""
    return note.startswith(_IN_PART)


def _comment_in(note: str, at: int) -> Comment | None:
    """The comment in a note; None for another note."""
    if not is_comment(note):
        return None
    try:
        by, end = json.JSONDecoder().raw_decode(note, len(_BEGIN))
    except ValueError:
        return None
    return Comment(str(by), at, note[end:].strip())
