"""Questions to the client's own language model, within the limits on asking it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kgd.resolution.prompts import Prompt, Reply

if TYPE_CHECKING:
    from kgd.tools.session import Session


def ask_client(session: Session, prompts: Mapping[str, Prompt]) -> tuple[dict[str, Reply], dict[str, str]]:
    """The replies to these prompts, and the reason for each prompt that was not sent, both by the prompt's id.

    May end the call with questions to the client. Both are empty if the client lends no model.
    """
    ask, attempts, caller = session.ask, session.daemon.attempts, session.caller
    if ask is None:
        return {}, {}
    fresh = [id for id in prompts if id not in ask.answered]
    reasons = (attempts.why_not(id, caller) if ask.open else "no model was asked about it: call again" for id in fresh)
    left = {id: reason for id, reason in zip(fresh, reasons, strict=True) if reason}
    sent = {id: prompt for id, prompt in prompts.items() if id not in left}
    if not sent:
        return {}, left
    attempts.asked((id for id in fresh if id not in left), caller)
    replies = {id: reply for id, reply in ask(sent).items() if id in prompts}
    for id, reply in replies.items():
        if reply.text or reply.model:
            attempts.answered(id, caller)
    return replies, left
