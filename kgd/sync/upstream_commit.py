"""The ref of an upstream as the commit point of a workspace that several hubs write; see
`kgd.workspace.writing.writer.CommitPoint`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from kgd.errors import KgdError, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import RefUpdate
from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import Remote
from kgd.git.rewriting import brought_back
from kgd.sync.round import Transport
from kgd.sync.vetting import vet
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.writing.writer import Overruled, Undecided

DECIDED = ("refused", "credentials", "host-key", "certificate", "redirect", "vanished", "ownership", "protocol")
"""Kinds of trouble after which the upstream certainly has not accepted a push, and will not."""
RACE = "race"
TRIES = 3


class Connection(Transport, Protocol):
    """The calls to a shared upstream; implemented by `kgd.git.remote.GitRemote`."""

    def push(self, ref: str, old: ObjectId | None, new: ObjectId, also: Sequence[RefUpdate] = ()) -> str | None: ...
    def delete(self, ref: str, old: ObjectId) -> None: ...


Upstream = Callable[[], tuple[Remote, Connection]]
"""Returns the remote, and the connection to it with its current credential. Raises Unavailable."""


class UpstreamCommit:
    """Implements `CommitPoint`. One instance serves one open workspace.

    Args:
        turn: Lets hubs take turns, or does nothing.
        moved: Called after this hub moved the ref, to wake the others.
    """

    def __init__(
        self,
        host: Host,
        upstream: Upstream,
        *,
        turn: Callable[[], AbstractContextManager[object]],
        moved: Callable[[ObjectId], object],
    ) -> None:
        self._host, self._upstream = host, upstream
        self._turn, self._moved = turn, moved

    def turn(self) -> AbstractContextManager[object]:
        return self._turn()

    @contextmanager
    def advance(self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate] = ()) -> Iterator[tuple[ObjectId, bool]]:
        with ExitStack() as held:
            yield self._decide(old, new, also, held) if new != old else (held.enter_context(self.newest()), False)

    def _decide(
        self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate], held: ExitStack
    ) -> tuple[ObjectId, bool]:
        """The ref's value after an attempt to move it to `new`, and whether the attempt succeeded."""
        expected, has = old, self._host.store.is_ancestor
        for _ in range(TRIES):
            trouble = self._push(expected, new, also)
            if trouble is None:
                self._moved(new)
                return new, True
            if trouble.kind in DECIDED:
                raise trouble
            try:
                expected = held.enter_context(self.newest())
            except KgdError as error:
                raise (error if trouble.kind == RACE else unknown(error)) from None
            if trouble.kind != RACE:
                if has(new, expected):
                    return expected, True
                raise unknown(trouble)
            if expected == new or not has(expected, new):
                return expected, False
            self._check(also)
            # The upstream lacks only commits of this hub: from before hubs shared it, or since a backup was restored.
        raise Unavailable("the upstream's ref could not be locked", next="Repeat the call.")

    def _check(self, also: Sequence[RefUpdate]) -> None:
        """Raise Overruled if a ref of a refused push no longer has its old value."""
        _, transport = self._upstream()
        for one in also:
            if transport.ls(one.name).get(one.name) != one.old:
                raise Overruled(one.name)

    def _push(self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate]) -> Trouble | None:
        """Why the ref may not have moved to `new`; None if it has."""
        remote, transport = self._upstream()
        try:
            taken_as = transport.push(remote.ref, old, new, also)
        except LostRace as lost:
            return Trouble(RACE, str(lost))
        except Trouble as trouble:
            return trouble
        if taken_as:
            return Trouble(
                "refused",
                f"the upstream keeps this hub's pushes as proposals, such as {taken_as}",
                next="Give the hub's credential the right to push to the branch.",
            )
        return None

    @contextmanager
    def newest(self, told: ObjectId | None = None) -> Iterator[ObjectId]:
        host, (remote, transport) = self._host, self._upstream()
        ref = remote.ref
        # A reported commit that is missing here has to be fetched, so the upstream need not be asked for its tip first.
        tip = told if told and not host.store.exists(told) else transport.ls(ref).get(ref)
        if tip is None:
            raise Unavailable("the upstream has lost its branch", at=ref, next="Restore it from a backup.")
        if tip.hex() == host.tip:
            yield tip
            return
        with transport.fetch({ref: tip}) as incoming:
            tip = incoming.tips[ref]
            if not vet(incoming, tip, host.workspace, host.sharded):
                raise Unavailable("the upstream has an unrelated history", at=remote.url.text)
            if brought_back(incoming.with_ours(), tip, bytes.fromhex(host.tip)):
                raise Unavailable(
                    "the upstream removed a secret from its history, and this hub's copy still contains it",
                    at=remote.url.text,
                    next="Stop this hub, delete its copy of the workspace, and start it again (docs/forget.md).",
                )
            incoming.keep()
            yield tip


def unknown(error: KgdError) -> Undecided:
    """The error for a push with an unknown result."""
    return Undecided(
        f"it is not known whether the upstream has accepted the change: {error.message}",
        at=error.at,
        next="Repeat the call with the same request_id: the change is made only once.",
    )
