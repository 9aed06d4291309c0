"""Calls by holders of tokens: the operations, quotas and request ids of each token.

Every surface with tokens uses `call`. Permissions on nodes are checked inside the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson

from kgd import metrics, tracing
from kgd.daemon.tokens import TooMuch
from kgd.errors import KgdError, Limit, NotFound, Unauthorized
from kgd.model.access import Principal, Verb
from kgd.model.token import TokenRecord
from kgd.tools.operation import Answer, Operation
from kgd.tools.parameters import read
from kgd.tools.session import Session

CHARACTERS_A_NODE = 450
"""Number of characters of an ingested text that count as one node of the quota."""


def visible(tools: Mapping[str, Operation], principal: Principal) -> dict[str, Operation]:
    """The operations that this principal may call at all; the operation itself checks the permission for each node.
    Imports all of them."""
    return {name: tool for name, tool in tools.items() if _may_call(principal, tool)}


def allowed(tools: Mapping[str, Operation], principal: Principal, name: str) -> Operation | None:
    """The operation of this name, if it is among `visible`."""
    tool = tools.get(name)
    return tool if tool and _may_call(principal, tool) else None


def _may_call(principal: Principal, tool: Operation) -> bool:
    if tool.scope is Verb.ADMIN:
        return any(Verb.ADMIN in scope.verbs for scope in principal.scopes)
    return tool.scope is not None


def call(
    session: Session, record: TokenRecord, tools: Mapping[str, Operation], name: str, arguments: Mapping[str, Any]
) -> Answer:
    """The answer of an operation to the holder of a token.

    A request id belongs to its token, so two tokens may use the same id. A repeated request gets the first answer.

    Raises:
        NotFound: The holder may not call the operation.
        KgdError: The operation or a quota refused; nothing was written.
        Unavailable: For example, the workspace's upstream did not accept the change; the change is then kept here.
    """
    workspace = arguments.get("workspace")
    action = name if name in tools else "call"
    with noted(session, record.holder, action, workspace if isinstance(workspace, str) else ""), tracing.span(action):
        return _call(session, record, tools, name, arguments)


def refusal(
    session: Session, record: TokenRecord, tools: Mapping[str, Operation], name: str, arguments: Mapping[str, Any]
) -> KgdError | None:
    """The error that an operation would raise, found by its dry run; None if it would succeed.

    For a page that shows in advance what its visitor may do: it costs no quota, and is not in the audit log.
    """
    if (tool := allowed(tools, record.holder, name)) is None:
        return NotFound(f"there is no tool '{name[:60]}' here")
    try:
        tool.call(session, {**arguments, "dry_run": True})
    except KgdError as error:
        return error
    return None


@contextmanager
def noted(session: Session, holder: Principal | None, action: str, workspace: str) -> Iterator[None]:
    """Write a refusal inside the context to the audit log, if the caller has a token."""
    try:
        yield
    except (TooMuch, Unauthorized):
        raise  # already logged by the check of the token
    except KgdError as error:
        if holder is not None:
            session.daemon.tokens.refused(holder.id, action, error, workspace)
        raise


def _call(
    session: Session, record: TokenRecord, tools: Mapping[str, Operation], name: str, arguments: Mapping[str, Any]
) -> Answer:
    holder = record.holder
    tool = allowed(tools, holder, name)
    if tool is None:
        known = ", ".join(visible(tools, holder))
        raise NotFound(f"there is no tool '{name[:60]}' here", next=f"Known: {known}.")
    if tool.hints.read_only:
        return tool.call(session, arguments)
    tokens = session.daemon.tokens
    read(tool.Params, arguments)  # an invalid call costs no quota
    asked = canonical(arguments)
    request = str(arguments.get("request_id") or "")
    key = f"{name} {request}" if request and not arguments.get("dry_run") else ""
    if key and (earlier := tokens.earlier_answer(holder.id, key, asked)) is not None:
        first: dict[str, Any] = orjson.loads(earlier)
        _settle(session, first)
        metrics.REPEATED.add()
        return {**first, "repeated": True}
    tokens.spend(record, "nodes", _nodes(arguments))
    session.wrote = None
    answer = tool.call(session, arguments)
    if not arguments.get("dry_run"):
        workspace, told = _told(session, answer)
        tracing.note(change=told)
        if told or "commit" not in answer:
            tokens.note(holder.id, name, workspace, told)
        else:
            tokens.unchanged(holder.id, name, workspace)
        if key:
            tokens.keep_answer(holder.id, key, asked, orjson.dumps(answer).decode())
        _settle(session, answer)
    return answer


def canonical(asked: Any) -> bytes:
    """Plain data as bytes; equal data gives equal bytes.

    Raises:
        Limit: The data is nested too deeply.
    """
    try:
        return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        raise Limit("the parameters are nested too deeply", next="Stay within 200 levels.") from None


def _settle(session: Session, answer: Answer) -> None:
    """Push a change upstream before success is returned. Proposals are not pushed."""
    if answer.get("commit") and answer.get("outcome") != "proposed":
        session.daemon.upstream.push(str(answer["workspace"]))
    elif session.wrote and ("success" in answer or "counts" in answer):  # these answers do not name a commit
        session.daemon.upstream.push(session.wrote[0])


def _nodes(arguments: Mapping[str, Any]) -> int:
    changes = arguments.get("changes", arguments.get("resolutions"))
    if isinstance(text := arguments.get("text"), str):
        return 1 + len(text) // CHARACTERS_A_NODE
    return len(changes) if isinstance(changes, list) else 1


def _told(session: Session, answer: Answer) -> tuple[str, str]:
    """The workspace, and the commit or proposal, for the audit log."""
    if session.wrote and ("success" in answer or "counts" in answer):
        return session.wrote[0], f"commit {session.wrote[1]}"
    told = (f"{field} {found}" for field in ("commit", "proposal") if isinstance(found := answer.get(field), str))
    return str(answer.get("workspace", "")), next(told, "")
