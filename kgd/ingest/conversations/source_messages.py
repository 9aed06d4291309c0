"""Conversations as read from a source: messages with sender, time, and the message that each answers.

Independent of where they are stored. An error in the source is a line of `trouble`, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OLDEST_KNOWN = 1_000
"""Milliseconds since 1970; smaller times are counters of messages without a date."""

Kind = str
"""Kind of sender: user, assistant, system, tool, or a source's own word."""

Status = Literal["open", "closed", "archived"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is the text in the source, usually JSON."""

    name: str
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """One message of a source.

    `at` is in Unix milliseconds. `id` is the source's own id, unique in its conversation. `parent` is the id of the
    message it answers: None if unknown, which means the previous one; "" if it answers none. Replies to the message
    `closes` follow this one instead: a tool's result belongs to it. `place` is its location in the source.
    """

    text: str
    sender: str = ""
    kind: Kind = "user"
    at: int | None = None
    id: str = ""
    parent: str | None = None
    closes: str = ""
    answers: str = ""
    """Id of the tool call with this result."""
    tool_calls: tuple[ToolCall, ...] = ()
    place: str = ""
    title: str = ""
    """Title, if the messages are documents."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread. `id` is the source's own id; if empty, the caller's name of the source is used.

    `status` is None if unknown. `gone` maps the ids of empty messages to the ids they answered (None: unknown), so that
    replies can bridge them.
    """

    messages: tuple[SourceMessage, ...]
    id: str = ""
    title: str = ""
    participants: tuple[str, ...] = ()
    status: Status | None = None
    gone: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """All conversations of a source. `trouble` has a line for each part that was left out or changed."""

    conversations: tuple[Conversation, ...]
    trouble: tuple[str, ...] = ()
