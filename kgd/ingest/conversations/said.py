"""This file is where it is defined what every conversation is read as: who said what, when, in answer to what.

Nothing here says where it will live. What a source got wrong is a line of `trouble`, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OLDEST_KNOWN = 1_000
"""Milliseconds since 1970 below which a time is none: what has no date is counted from 0 instead."""

Kind = str
"""What sort of sender: user, assistant, system, tool, or whatever a source calls it."""

Status = Literal["open", "closed", "archived"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is the text that the source has, JSON in most."""

    name: str
    arguments: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One message as its source has it.

    `at` is Unix milliseconds. `id` is the source's own name for it, unique in its conversation. `parent` is the id of
    the message it answers; None where the source does not say, which means the one before it, and "" where it says
    that there is none. Replies to the message `closes` follow this one instead: a tool's result belongs to it.
    `place` is where in the source it stands.
    """

    text: str
    sender: str = ""
    kind: Kind = "user"
    at: int | None = None
    id: str = ""
    parent: str | None = None
    closes: str = ""
    answers: str = ""
    """The id of the tool call whose result this is."""
    tool_calls: tuple[ToolCall, ...] = ()
    place: str = ""
    title: str = ""
    """What it is called, where messages are documents."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread. `id` is the source's own name for it, or empty: then it is what the caller says that the source is.

    `status` is None where the source says nothing about it. `gone` has the messages that hold nothing, by id, with
    the id of what they answered (None: not said): replies to them are replies to that.
    """

    said: tuple[Said, ...]
    id: str = ""
    title: str = ""
    participants: tuple[str, ...] = ()
    status: Status | None = None
    gone: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """All that a source has. `trouble` has a line for each part that could not be taken, or not as it is."""

    conversations: tuple[Conversation, ...]
    trouble: tuple[str, ...] = ()
