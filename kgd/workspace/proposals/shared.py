"""The proposals of a workspace that several hubs share; one hub alone needs only its own refs.

The refs of a proposal at a hub are copies of the upstream's. Each change is made in the upstream first, by
compare-and-swap, so if two hubs decide about a proposal, only the first succeeds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kgd.git.objects import ObjectId
from kgd.git.refs import RefUpdate
from kgd.git.staging import Staging
from kgd.workspace.workspace import Workspace


class Rejection(NamedTuple):
    """Who rejected a proposal, when (Unix seconds), and why."""

    by: str
    at: int
    reason: str


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
        """The notes of `comment`, oldest first, each with its time in Unix seconds. Reads only this hub's copy."""

    def also(self, name: str, commit: ObjectId, staging: Staging, *, is_done: bool) -> Sequence[RefUpdate]:
        """The part of an acceptance that concerns the proposal's own ref: it is removed, or if something is left to
        decide, marked, so that two hubs cannot decide at the same time.

        Raises:
            Overruled: The proposal is no longer at this commit.
        """

    def remove(self, name: str, commit: ObjectId) -> None:
        """Remove a proposal that the tip contains. Raises Overruled as `also`."""

    def reject(self, name: str, commit: ObjectId, by: str, reason: str) -> str:
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
