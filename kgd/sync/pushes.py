"""The fetch of a remote's ledger of pushes, beside its commits; see `kgd.workspace.pushers`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from kgd.errors import KgdError
from kgd.git.incoming import Allowance, Incoming, measure
from kgd.git.objects import ObjectId
from kgd.git.refs import NOTES
from kgd.workspace import pushers
from kgd.workspace.adoption import Host

ALLOWED = Allowance(objects=5_000_000, bytes=1 << 30, blob=pushers.LARGEST, tree=8 << 20)

log = logging.getLogger("kgd.sync")


class Transport(Protocol):
    """The part of `kgd.sync.round.Transport` that this needs."""

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]: ...
    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming: ...


def take(host: Host, transport: Transport) -> None:
    """Add what the remote recorded to what is recorded here. A failure is logged, and the round continues without."""
    try:
        there = transport.ls(NOTES).get(NOTES)
        if there is None or there == host.store.ref(NOTES):
            return
        with transport.fetch({NOTES: there}) as incoming:
            measure(incoming, incoming.ids, ALLOWED)
            incoming.keep()
            pushers.take(host.layout, host.store, incoming.tips[NOTES])
    except (KgdError, OSError) as error:
        log.warning("the ledger of pushes was not fetched", extra={"reason": str(error)[:200]})
