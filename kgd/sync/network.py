"""Access to remotes as the person who runs kgd: their environment, and the credential that a reference names."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kgd.config import person_environment
from kgd.config.credentials import secret
from kgd.git.remote import PATIENCE, Network


def network_of(
    token: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    stop: threading.Event | None = None,
) -> Network:
    """The access that `token`, a reference to a credential, gives to a remote.

    Args:
        environment: Replaces the person's own environment.
        patience: Seconds without progress before a call ends.
        stop: Ends a running call.

    Raises:
        KgdError: The credential cannot be read.
    """
    theirs = dict(environment or {}) or person_environment()
    return Network(theirs, secret(token) if token else "", patience, stop=stop)
