"""This file is where a caller is described: which daemon, from which directory, as whom, in which conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.git.identity import person
from kgd.model.change import Author

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.model.access import Principal
    from kgd.resolution.prompts import Ask
    from kgd.workspace.workspace import Workspace

Progress = Callable[[int, int | None, str], None]
"""Told (done, total, message) while something long runs; a total of None is "not known yet"."""


@dataclass(slots=True)
class Session:
    """One caller. `trusted` callers sit at this machine and may use `LOCAL` tools and `ingest` with `store`.

    `context_id` is the conversation of a connection that has one of its own; empty where the first answer begins one,
    None where there is none, as for one command. A call may name another.
    """

    daemon: Daemon
    cwd: Path | None = None
    client: str = ""
    context_id: str | None = ""
    trusted: bool = True
    progress: Progress = lambda done, total, message: None
    here: Workspace | None = None
    """The workspace of `cwd`, once it was looked for: finding it reads a dozen files."""
    principal: Principal | None = None
    """Who asks, as their token says; None is the person of this machine, whom nothing is forbidden."""
    ask: Ask | None = None
    """How to ask the caller's language model; None where the surface cannot."""

    def author(self, workspace: Workspace) -> Author:
        """Who the commits of this caller are by: the person of this machine, through this client."""
        who = person(workspace.layout)
        return Author(who.name, who.email, self.client)
