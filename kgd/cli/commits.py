"""A commit as the argument of a command that shows nodes."""

from __future__ import annotations

from typing import Any

from kgd.cli.commands import Verb
from kgd.cli.output import show
from kgd.client.connection import Connection
from kgd.errors import NotFound


def shown_commit(connection: Connection, chosen: Verb, options: dict[str, Any]) -> int:
    """Print a commit with its changes, and return the exit code.

    Raises:
        NotFound: There is no such commit.
    """
    owner = {"workspace": options["workspace"]} if options.get("workspace") else {}
    try:
        answer = connection.call(chosen.also, {chosen.takes: options["uri"], "diff": True, **owner})
    except NotFound:
        refusal = "there is no such node, and no such commit"
        raise NotFound(refusal, at=options["uri"], next="Find it with `kgd search` or `kgd log`.") from None
    show("printing_history.history", answer, options)
    return 0
