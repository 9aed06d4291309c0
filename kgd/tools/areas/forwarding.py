"""Calls of area tools that are forwarded to the hub of the workspace."""

from __future__ import annotations

from typing import Any

from kgd.errors import Unavailable
from kgd.tools import origins
from kgd.tools.areas.envelope import Envelope, answered
from kgd.tools.hub_reads import checked
from kgd.tools.parameters import Params
from kgd.tools.session import Session


def from_hub(session: Session, workspace: str, tool: str, params: Params) -> Envelope:
    """The hub's answer; text by other people is fenced.

    Raises:
        KgdError: The hub refused the call, or cannot be reached.
    """
    given = params.model_dump(exclude_unset=True, exclude={"workspace", "projectId"})
    said = session.daemon.elsewhere.call(workspace, tool, given)
    answer: dict[str, Any] = checked(Envelope, said)
    if answer.get("success") is not True:
        raise Unavailable("the hub's answer does not match its tool", next="The hub may run an older kgd.")
    return answered(origins.fence(answer["data"]))
