"""Network access to remotes with the user's environment and a referenced credential."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kgd.config import person_environment
from kgd.git.remote import PATIENCE, Network
from kgd.git.transfer_progress import Progress
from kgd.sync.hub_sign_in import bearer


def network_of(
    token: str = "",
    *,
    environment: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    stop: threading.Event | None = None,
    progress: Progress | None = None,
) -> Network:
    """Network access with the credential that `token` refers to.

    Args:
        environment: Replaces the user's environment, unless empty.
        patience: Seconds without progress before a call ends.
        stop: Ends a running call.
        progress: Called with the steps of a transfer, in another thread.

    Raises:
        KgdError: The credential cannot be read.
    """
    variables = dict(environment or {}) or person_environment()
    return Network(variables, bearer(token) if token else "", patience, stop=stop, progress=progress)
