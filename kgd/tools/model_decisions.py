"""Decisions of conflicts by models: first the client's model, then the provider of the user's settings.

`consult` asks models and judges their answers, and writes nothing. `settle` writes each decision as a separate commit,
if the node still has the values that the question showed. Undecided conflicts stay open, and the answer gives the
reason for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.config.credentials import secret
from kgd.errors import KgdError, NotFound
from kgd.freshness.moving import settlement
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Edit, Settle
from kgd.model.conflict import Conflict
from kgd.model.node import Json
from kgd.model.uri import Uri
from kgd.resolution import Prompt, Provider, Reply, judge, prompt_for
from kgd.tools.session import Session
from kgd.workspace.answers import OpenConflict
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import is_as_shown
from kgd.workspace.writing.settling import is_about_node


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


Via = Literal["auto", "sampling", "agent", "provider"]
Rung = Literal["agent", "sampling", "provider"]

PROVIDER: Rung = "provider"
MOST_ASKED = 8
"""Largest number of conflicts per call to ask models about. A person may have to allow each question."""

NO_MODEL = "no model is available"


@dataclass(frozen=True, slots=True)
class Decision:
    """A model's decision about one conflict, which passed `judge`."""

    conflict: Conflict
    fields: Mapping[str, Json]
    by: Rung
    model: str

    @property
    def label(self) -> str:
        """The value of the commit's trailer: always one line, for any model name."""
        name = "".join(c for c in self.model if c.isprintable())[:80].strip() or "unknown"
        return f"{self.by} model={name}"

    def answer(self, commit: str | None) -> Resolved:
        """The answer about the decision, after its commit."""
        return {
            "id": self.conflict.id,
            "uri": self.conflict.uri,
            "by": self.by,
            "model": self.model[:80],
            "commit": commit,
            "fields": dict(self.fields),
        }


def _asked(session: Session, by: Rung) -> str:
    """The name under which attempts are counted."""
    return PROVIDER if by == PROVIDER else session.caller


@dataclass(slots=True)
class Consultation:
    """The decisions, and the reason for each undecided conflict, both by conflict id."""

    decided: dict[str, Decision] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


class Resolved(TypedDict):
    """A settled conflict. `by` is agent, sampling or provider; `already` means that it was settled before this call."""

    id: str
    uri: str
    by: NotRequired[Rung]
    model: NotRequired[str]
    commit: NotRequired[str | None]
    fields: NotRequired[dict[str, Any]]
    already: NotRequired[bool]
    author: NotRequired[str]
    at: NotRequired[str]
    version: NotRequired[int]


def consult(session: Session, conflicts: Iterable[Conflict], via: Via = "auto") -> Consultation:
    """Ask models to decide conflicts, at most `MOST_ASKED` of them. Writes nothing and holds no lock.

    May end the call with questions to its client. `via` selects the models: "auto" asks the client's model and then the
    provider; "agent" asks neither.
    """
    found = Consultation()
    asking: dict[str, tuple[Conflict, Prompt]] = {}
    for conflict in conflicts:
        prompt = prompt_for(conflict)
        why_not = "it is too large for a model" if prompt is None else ""
        why_not = why_not or ("" if len(asking) < MOST_ASKED else "one call asks about a few only: call again")
        if prompt is None or why_not:
            found.left[conflict.id] = why_not
        else:
            asking[conflict.digest] = conflict, prompt
    if via in ("auto", "sampling"):
        _ask_client(session, asking, found)
    if via in ("auto", "provider"):
        _ask_provider(session, asking, found)
    for conflict, _ in asking.values():
        found.left.setdefault(conflict.id, NO_MODEL if via != "agent" else "it is yours to decide")
    return found


def _ask_client(session: Session, asking: dict[str, tuple[Conflict, Prompt]], found: Consultation) -> None:
    replies, left = ask_client(session, {digest: prompt for digest, (_, prompt) in asking.items()})
    found.left.update({asking[digest][0].id: reason for digest, reason in left.items()})
    _judge(session, asking, replies, "sampling", found)


def _ask_provider(session: Session, asking: dict[str, tuple[Conflict, Prompt]], found: Consultation) -> None:
    """Ask the endpoint in the user's settings, if they have one. A workspace cannot configure an endpoint."""
    settings = session.daemon.registry.current().settings
    if not settings.resolver_url or not settings.resolver_model or not asking:
        return
    attempts = session.daemon.attempts
    prompts = {}
    for digest, (conflict, prompt) in asking.items():
        if why_not := attempts.why_not(digest, PROVIDER):
            found.left[conflict.id] = why_not
        else:
            prompts[digest] = prompt
    if not prompts:
        return
    try:
        token = secret(settings.resolver_token) if settings.resolver_token else ""
    except KgdError as error:
        found.left.update({asking[digest][0].id: f"provider: {error.message}" for digest in prompts})
        return
    provider = Provider(settings.resolver_url, settings.resolver_model, token, settings.resolver_seconds)
    attempts.asked(prompts, PROVIDER)
    replies = provider.ask(prompts)
    for digest, reply in replies.items():
        if reply.text or reply.model:
            attempts.answered(digest, PROVIDER)
    _judge(session, asking, replies, "provider", found)


def _judge(
    session: Session,
    asking: dict[str, tuple[Conflict, Prompt]],
    replies: Mapping[str, Reply],
    by: Rung,
    found: Consultation,
) -> None:
    """Keep the replies that pass `judge`; the other conflicts stay undecided.

    A reply that fails counts as a failed attempt, unless it is empty and names no model.
    """
    attempts, asked = session.daemon.attempts, _asked(session, by)
    for digest, reply in replies.items():
        conflict, _ = asking[digest]
        problem = reply.problem
        if not problem:
            try:
                fields = judge(conflict, reply.text)
            except KgdError as refusal:
                problem = refusal.message
            else:
                found.decided[conflict.id] = Decision(conflict, fields, by, reply.model)
                found.left.pop(conflict.id, None)
                del asking[digest]
                continue
        if reply.text or reply.model:
            attempts.failed(digest, asked)
        found.left[conflict.id] = f"{by}: {problem}"


def settle(session: Session, workspace: Workspace, found: Consultation) -> list[Resolved]:
    """Write the decisions, one commit per conflict. A conflict that has since been settled keeps its settlement.

    A refused decision counts as a failed attempt, and its reason goes into `found.left`.
    """
    resolved: list[Resolved] = []
    for id, decision in found.decided.items():
        settled = decision.conflict, Settle(id, decision.fields, as_shown=True)
        edits, _ = with_moves(session, workspace, [settled])
        changes = ChangeSet(edits, session.author(workspace), operation="resolve", resolved_by=decision.label)
        try:
            outcome = session.submit(workspace, changes, verb=Verb.RESOLVE)
        except NotFound:
            resolved.append({"id": id, "uri": decision.conflict.uri, "already": True})
        except KgdError as refusal:
            session.daemon.attempts.failed(decision.conflict.digest, _asked(session, decision.by))
            found.left[id] = refusal.message
        else:
            resolved.append(decision.answer(outcome.commit))
            if version := dict(outcome.nodes).get(workspace.graph.resolve(decision.conflict.uri)):
                resolved[-1]["version"] = version
                workspace.sent.note_written(outcome.commit or "", outcome.nodes)
    return resolved


def with_moves(
    session: Session, workspace: Workspace, chosen: Sequence[tuple[Conflict, Settle]]
) -> tuple[tuple[Edit, ...], list[str]]:
    """The edits of `settlement` for these decisions, and its warnings. The holder of a token learns no path."""
    if session.principal is not None:
        return tuple(edit for _, edit in chosen), []
    found = [settlement(workspace, conflict, edit) for conflict, edit in chosen]
    return tuple(edit for edits, _ in found for edit in edits), [one for _, told in found for one in told]


def askable(workspace: Workspace, conflicts: Iterable[OpenConflict]) -> tuple[list[Conflict], dict[str, str]]:
    """The conflicts that a model may decide, and the reason for excluding each other conflict, by id.

    A model sees only the record of a conflict, so the node must still have the value in the record.
    """
    fresh, left = [], {}
    for one in conflicts:
        if not is_about_node(one.conflict):
            left[one.id] = "it concerns more than the fields of one node: read both sides and decide"
            continue
        try:
            shown = is_as_shown(workspace.node(workspace.graph.resolve(one.uri)), one.conflict)
        except KgdError:
            shown = False
        if shown:
            fresh.append(one.conflict)
        else:
            left[one.id] = "the value has changed since: choose one with `fields`"
    return fresh, left


def on_the_way(session: Session, workspace: Workspace, uris: Sequence[Uri]) -> list[Resolved]:
    """Have models settle open conflicts of these nodes, for tools that encounter conflicts during other work.

    Considers at most `MOST_ASKED` conflicts. May end the call with questions to its client.
    """
    if not workspace.conflict_count:
        return []
    met = [
        one for uri in dict.fromkeys(uris) for one in workspace.conflicts.find(uri, about=session.settles(workspace))
    ]
    fresh, _ = askable(workspace, met[:MOST_ASKED])
    return settle(session, workspace, consult(session, fresh)) if fresh else []
