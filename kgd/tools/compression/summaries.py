"""Requests to the caller's language model for summaries, and the check of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from kgd.compression.summaries import MAX_TOKENS, Group, Summary, judge, longest, question
from kgd.errors import KgdError
from kgd.resolution import Prompt
from kgd.tools.model_decisions import ask_client

if TYPE_CHECKING:
    from kgd.tools.session import Session

MOST_ASKED = 4
"""Largest number of questions per call. The user may have to allow each one."""


@dataclass(slots=True)
class Said:
    """The models' summaries that passed the checks, and the problems as sentences."""

    summaries: list[Summary] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    model: str = ""


class TextOfGroup(TypedDict):
    mark: str
    uri: str
    text: str


class GroupTask(TypedDict):
    group: str
    longest: int
    texts: list[TextOfGroup]


class SummaryTask(TypedDict):
    """A task for the calling agent if no model can do it. The agent passes its answer as `text` in the next call."""

    instructions: str
    groups: list[GroupTask]


def given(groups: Sequence[Group], answer: str) -> Said:
    """The caller's own answer to a task.

    Raises:
        Refused: The answer cannot be used.
    """
    believed, dropped = judge({group.id: group for group in groups}, answer)
    return Said(believed, dropped)


def asked(session: Session, groups: Sequence[Group]) -> Said:
    """Ask the client's model one question per group. May end the call with questions; holds no lock, writes nothing."""
    by_id = {group.id: group for group in groups}
    replies, left = ask_client(session, {id: Prompt(*question(group), MAX_TOKENS) for id, group in by_id.items()})
    said = Said(trouble=[*left.values()])
    for id, reply in replies.items():
        if reply.problem:
            said.trouble.append(reply.problem)
            continue
        try:
            believed, dropped = judge({id: by_id[id]}, reply.text)
        except KgdError as refusal:
            believed, dropped = [], [refusal.message]
        if not believed:
            session.daemon.attempts.failed(id, session.caller)
        said.summaries += believed
        said.trouble += dropped
        said.model = said.model or reply.model
    return said


def task(groups: Sequence[Group]) -> SummaryTask:
    told, _ = question(groups[0])
    told = told.replace(groups[0].id, "GROUP").replace(f"at most {longest(groups[0])}", "at most `longest`")
    listed: list[GroupTask] = [
        {
            "group": group.id,
            "longest": longest(group),
            "texts": [{"mark": mark, "uri": uri, "text": text} for mark, (uri, text) in group.texts.items()],
        }
        for group in groups
    ]
    return {"instructions": told, "groups": listed}
