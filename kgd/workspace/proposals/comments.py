"""Comments on an open proposal, by its reviewers and its proposer.

They are stored beside the proposal and deleted with it: in the reflog of its ref or, if several hubs share it, in the
records that the hubs exchange (`kgd.workspace.proposals.shared`). Later commits of the proposal keep them.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from kgd.errors import Invalid, Limit, Unavailable
from kgd.git.refs import RefMoved, move_ref, read_log
from kgd.workspace.proposals.proposals import Proposal
from kgd.workspace.proposals.shared import shared
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import refuse_secret_text

LONGEST = 1_000
"""Largest number of characters of a comment."""
LONGEST_NAME = 100
MOST = 100
"""Largest number of comments on a proposal."""
_BEGIN = "kgd: comment by "


class Comment(NamedTuple):
    """`at` is in Unix seconds."""

    by: str
    at: int
    text: str


def of(workspace: Workspace, proposal: Proposal) -> tuple[Comment, ...]:
    """The comments on a proposal, oldest first."""
    if proposal.remote:
        return ()
    if hubs := shared(workspace):
        notes = hubs.comments(proposal.name)
    else:
        notes = [(line.note, line.time) for line in read_log(workspace.layout.git_dir, proposal.ref)]
    return tuple(found for note, at in notes if (found := _read(note, at)))


def after(workspace: Workspace, proposal: Proposal, by: str) -> tuple[Comment, ...]:
    """The comments after the last one by this author, oldest first; all comments if the author made none. None if the
    author cannot answer, because the discussion is full."""
    said = of(workspace, proposal)
    last = max((number for number, one in enumerate(said, 1) if one.by == by[:LONGEST_NAME]), default=0)
    return said[last:] if len(said) < MOST else ()


def add(workspace: Workspace, proposal: Proposal, by: str, text: str) -> None:
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
    if len(text) > LONGEST:
        raise Limit(f"a comment has at most {LONGEST:,} characters", at="text")
    if len(of(workspace, proposal)) >= MOST:
        raise Limit(f"a proposal has at most {MOST} comments", at=proposal.name, next="Accept or reject it.")
    note, commit = f"{_BEGIN}{json.dumps(by[:LONGEST_NAME], ensure_ascii=False)} {text}", bytes.fromhex(proposal.commit)
    if hubs := shared(workspace):
        hubs.comment(proposal.name, commit, note)
    else:
        try:
            move_ref(workspace.layout.git_dir, workspace.derived_dir, proposal.ref, commit, commit, note=note)
        except RefMoved:
            raise Unavailable("the proposal has just changed", at=proposal.name, next="Read it again.") from None
    workspace.tell_uncommitted()


def is_note(note: str) -> bool:
    """Whether a line of a reflog, or of a record, is a comment."""
    return note.startswith(_BEGIN)


def _read(note: str, at: int) -> Comment | None:
    """The comment in a note; None for another note."""
    if not is_note(note):
        return None
    try:
        by, end = json.JSONDecoder().raw_decode(note, len(_BEGIN))
    except ValueError:
        return None
    return Comment(str(by), at, note[end:].strip())
