"""Writers of changes: agents or people, and the filter by author."""

from __future__ import annotations

OWN_CLIENTS = ("", "kgd-cli", "kgd ui")
"""Programs that people use; every other client counts as an agent."""


def is_agent(client: str, email: str = "") -> bool:
    """Whether an agent, not a person, wrote the change."""
    return client not in OWN_CLIENTS or email.endswith("@token.invalid")


def is_by(wanted: str | None, *names: str, agent: bool) -> bool:
    """Whether a writer with these names matches a filter: ``agent``, ``person``, part of a name, or None for all."""
    if wanted in ("agent", "agents"):
        return agent
    if wanted in ("person", "people"):
        return not agent
    return wanted is None or wanted.casefold() in " ".join(names).casefold()
