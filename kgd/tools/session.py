"""This file is where a caller is described: which daemon, from which directory, as whom, in which conversation."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.graph.context import ActiveContext
from kgd.model.change import Author

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.workspace.workspace import Workspace

Progress = Callable[[int, int, str], None]
"""Told (done, total, message) while something long runs; total 0 is "not known yet"."""

CONTEXT_SIZE = 100
CONTEXTS_KEPT = 1_024


class Contexts:
    """The working sets of all conversations of one daemon, by `context_id`. Forgotten with the process.

    The least recently used one goes when there are too many: an id is minted by whoever asks, so their number is
    bounded here and not by good manners.
    """

    def __init__(self, size: int = CONTEXT_SIZE, keep: int = CONTEXTS_KEPT) -> None:
        self._size, self._keep = size, keep
        self._lock = threading.Lock()
        self._known: OrderedDict[str, ActiveContext] = OrderedDict()

    def get(self, context_id: str) -> tuple[str, ActiveContext, bool]:
        """The id, its working set, and whether it starts empty just now. Without an id a new one is minted."""
        with self._lock:
            known = self._known.get(context_id) if context_id else None
            if known is not None:
                self._known.move_to_end(context_id)
                return context_id, known, False
            made = context_id or f"ctx-{secrets.token_hex(8)}"
            self._known[made] = context = ActiveContext(self._size)
            while len(self._known) > self._keep:
                self._known.popitem(last=False)
            return made, context, True


@dataclass(slots=True)
class Session:
    """One caller. `trusted` callers sit at this machine and may use `LOCAL` tools and `ingest` with `store`.

    `context_id` is the conversation of a connection that has one of its own; a call may name another.
    """

    daemon: Daemon
    cwd: Path | None = None
    client: str = ""
    context_id: str = ""
    trusted: bool = True
    contexts: Contexts = field(default_factory=Contexts)
    progress: Progress = lambda done, total, message: None

    def author(self, workspace: Workspace) -> Author:
        """Who the commits of this caller are by: the person of this machine, through this client."""
        return Author(*workspace.person(), client=self.client)
