"""The list of revoked tokens of a workspace, in its upstream under ``refs/kgd/revoked``.

Several hubs keep their tokens in a database. If an older backup of it is restored, this list still has the tokens that
were revoked since then. Each token is a file with its expiry; expired tokens are dropped. The list has no secrets.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Protocol

from kgd.errors import KgdError, Unavailable
from kgd.git.incoming import Allowance, measure
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import REVOKED, RefMoved
from kgd.git.remote_errors import LostRace
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.sync.round import Transport

TRIES = 20
_PATH = re.compile(r"[0-9A-Za-z]{2}/[0-9A-Za-z]{6}").fullmatch
LARGEST = 32
"""The largest file in bytes."""
LIMITS = Allowance(objects=1_000_000, bytes=64 << 20, blob=LARGEST, tree=8 << 20)


class Host(Protocol):
    """A workspace."""

    @property
    def layout(self) -> Layout: ...
    @property
    def store(self) -> ObjectStore: ...


def exchange(host: Host, transport: Transport, ours: Mapping[str, int], now: int) -> dict[str, int]:
    """Add revoked tokens to the upstream's list. Returns the whole list: expiry in Unix seconds by token id.

    Raises:
        Unwritten: The list was read, but not written.
        KgdError: The list could not be read.
    """
    for _ in range(TRIES):
        with contextlib.ExitStack() as held:
            tip = transport.ls(REVOKED).get(REVOKED)
            if tip is not None and tip != host.store.ref(REVOKED):
                incoming = held.enter_context(transport.fetch({REVOKED: tip}))
                measure(incoming, incoming.ids, LIMITS)
                incoming.keep()
            listed, known = _read(host.store, tip), _read(host.store, host.store.ref(REVOKED))
            # `known` has more than the upstream if the upstream was restored from a backup.
            missing = {id: at for id, at in {**known, **ours}.items() if id not in listed and at > now}
            if not missing and tip == host.store.ref(REVOKED):
                return listed
            try:
                made = _add(host, tip, missing, [id for id, at in listed.items() if at <= now], now)
                if made != tip:
                    transport.push(REVOKED, tip, made)
                return listed | missing
            except (LostRace, RefMoved):
                continue
            except (KgdError, OSError) as error:
                raise Unwritten(listed | missing, error) from error
    raise Unavailable("other hubs are revoking tokens", next="Revoke it again.")


class Unwritten(Unavailable):
    """The list was read, but not written. `listed` includes what could not be written."""

    def __init__(self, listed: dict[str, int], reason: Exception) -> None:
        super().__init__(f"the list of revoked tokens could not be written: {reason}")
        self.listed = listed


def _read(store: ObjectStore, tip: ObjectId | None) -> dict[str, int]:
    if tip is None:
        return {}
    found = {}
    for file in store.files(store.tree_of(tip)):
        content = store.read(file.id, LARGEST).strip()
        if _PATH(file.path) and content.isdigit():
            found[file.path.replace("/", "")] = int(content)
    return found


def _add(host: Host, tip: ObjectId | None, added: Mapping[str, int], dropped: list[str], now: int) -> ObjectId:
    """A commit on `tip` with these changes, or `tip` if nothing changes. Our ref protects it from git's garbage
    collection."""
    staging = Staging(host.store, host.store.tree_of(tip) if tip else None)
    staging.write({_path(id): b"%d\n" % expires for id, expires in added.items()})
    staging.write({_path(id): None for id in dropped})
    made = tip
    if staging.changed or made is None:
        parents = [tip] if tip else []
        made = staging.commit(staging.write_tree(), parents, Signature(*KGD, now), "revoked tokens")
    staging.advance(host.layout.derived_dir, REVOKED, host.store.ref(REVOKED), made, "kgd: revoked tokens")
    return made


def _path(id: str) -> str:
    return f"{id[:2]}/{id[2:]}"
