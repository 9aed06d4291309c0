"""Authentication of HTTP requests by their token: the caller with its tools, workspaces and session.

A hub's callers are the holders of its tokens (`Holder`). A daemon without a hub has one caller, this machine's user,
whose programs send the token of the home (`LocalUser`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgd import __version__, tools, tracing
from kgd.daemon.daemon import Daemon
from kgd.errors import NotFound, Unauthorized
from kgd.hub.listen import Listen
from kgd.model.access import Verb
from kgd.model.token import TokenRecord
from kgd.model.token import read as read_token
from kgd.tools import EVERY, SERVED
from kgd.tools.hubs.token_calls import allowed, call
from kgd.tools.hubs.tokens import describe
from kgd.tools.operation import Answer, Operation
from kgd.tools.session import Session


class Holder:
    """The holder of a token, limited to its scopes."""

    line: str
    """Key under which the connections and bodies of the caller are counted."""
    workspaces: Sequence[str]
    """Ids of all workspaces of the caller; answers may depend on them."""

    def __init__(self, daemon: Daemon, gate: Gate, record: TokenRecord) -> None:
        self._daemon, self._gate, self.record = daemon, gate, record
        self.line = record.holder.line
        self.workspaces = gate.workspaces(record)

    def spend(self, size: int) -> None:
        """Count bytes of a body. Blocks. Raises TooMuch."""
        self._gate.spend(self.record, size)

    def workspace(self, id: str) -> str:
        """The id of the workspace, if the caller may use it. Raises NotFound."""
        return self._gate.workspace(self.record, id)

    def tool(self, name: str) -> Operation | None:
        """The tool of this name, if the caller may call it."""
        return allowed(SERVED, self.record.holder, name)

    def session(self, client: str) -> Session:
        return Session(
            self._daemon,
            client=client,
            context_id=None,
            principal=self.record.holder,
            still_live=lambda: self._gate.still_live(self.record),
        )

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool. Raises NotFound if the caller may not call it."""
        return call(session, self.record, SERVED, name, arguments)

    def who(self) -> dict[str, Any]:
        """The caller's identity and workspaces, as reported to the caller."""
        return {
            "workspaces": self.workspaces,
            "principal": describe(self.record, self._daemon.tokens.now()),
            "version": __version__,
        }

    def known(self) -> Any:
        """Everything about the caller that an answer depends on, as plain data; None if answers have no validator."""
        return replace(self.record.holder, expires=None).as_dict()


class LocalUser:
    """The user of this machine, through a local program."""

    line = "person"
    workspaces: Sequence[str] = ()

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def spend(self, size: int) -> None:
        """The local user has no quota."""

    def workspace(self, id: str) -> str:
        if id not in self._daemon.workspace_ids():
            raise NotFound("there is no such workspace here", at="workspace", next="See /v1/workspaces.")
        return id

    def tool(self, name: str) -> Operation | None:
        return EVERY.get(name)

    def session(self, client: str) -> Session:
        return Session(self._daemon, client=client, context_id=None)

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        return tools.call(session, name, arguments)

    def who(self) -> dict[str, Any]:
        ids = self._daemon.workspace_ids()
        everything = [{"workspace": id, "verbs": [verb.value for verb in Verb], "paths": ["/**"]} for id in ids]
        principal = {
            "id": "",
            "name": "the person of this machine",
            "kind": "person",
            "state": "live",
            "scopes": everything,
            "created": self._daemon.since,
            "expires": "",
        }
        return {"workspaces": ids, "principal": principal, "version": __version__}

    def known(self) -> None:
        """Answers have no validator, because many of them depend on more than commits."""


Caller = Holder | LocalUser
FindCaller = Callable[[str], Caller]
"""Returns the caller of a request, by its `Authorization` header. Blocks. Raises Unauthorized."""


def of_home(daemon: Daemon, token: str) -> FindCaller:
    """Authenticates this machine's programs by the token of the home."""
    user, known = LocalUser(daemon), token.encode()

    def caller(authorization: str) -> LocalUser:
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8", "surrogatepass"), known):
            raise Unauthorized(
                "the token of this home is needed",
                next="Send the content of http.token as `Authorization: Bearer TOKEN`; `kgd config` shows its path.",
            )
        return user

    return caller


TOKEN_LIMIT = 200


class Gate:
    """Authenticates requests. Results are not cached, so that a revoked token fails at its next request."""

    def __init__(self, daemon: Daemon, listen: Listen, keep_alive: Callable[[str], None] = lambda id: None) -> None:
        """`keep_alive` renews the token of a browser that signed in; it takes the token's id, and may block."""
        self._daemon, self._listen, self._keep_alive = daemon, listen, keep_alive

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """The record of the token in an Authorization header, with only the scopes of served workspaces.

        Counts the request and its bytes. Blocks for about 100 us.

        Raises:
            Unauthorized: The token is missing, or is not a live token of this hub.
            TooMuch: Its quota is exceeded.
            Unavailable, Damaged, Forbidden: The tokens cannot be read.
        """
        return self._counted(self._daemon.tokens.recognise(token_in(authorization)), size)

    def again(self, id: str, size: int = 0) -> TokenRecord:
        """The current record of a token by its id, for a browser session that began with the token.

        Raises:
            Unauthorized: The token has been revoked or has expired since then.
            TooMuch, Unavailable, Damaged, Forbidden: As in `admit`.
        """
        self._keep_alive(id)
        return self._counted(self._daemon.tokens.again(id), size)

    def caller(self, authorization: str) -> Holder:
        """The caller of the HTTP API. Raises like `admit`."""
        return Holder(self._daemon, self, self.admit(authorization))

    def spend(self, record: TokenRecord, size: int) -> None:
        """Count bytes of a body. Raises TooMuch."""
        if size > 0:
            self._daemon.tokens.spend(record, "bytes", size)

    def still_live(self, record: TokenRecord) -> None:
        """Check the token again right before a write. Raises Unauthorized if it has been revoked."""
        if record.holder.is_signed_in:
            self._keep_alive(record.holder.id)
        self._daemon.tokens.still_live(record.holder.id)

    def workspaces(self, record: TokenRecord) -> list[str]:
        """The ids of the served workspaces in the token's scopes."""
        return sorted({scope.workspace for scope in record.holder.scopes} & set(self._daemon.workspace_ids()))

    def workspace(self, record: TokenRecord, id: str) -> str:
        """The id of the workspace, if the token may use it.

        Raises:
            NotFound: The token may not use the workspace, or there is no such workspace; the error does not tell which.
        """
        if id not in self.workspaces(record):
            error = NotFound("there is no such workspace for this token", at="workspace", next="See /v1/workspaces.")
            self._daemon.tokens.refused(record.holder.id, "workspace", error, id)
            raise error
        tracing.note(workspace=id)
        return id

    def _counted(self, found: TokenRecord, size: int) -> TokenRecord:
        record = self._served(found)
        tracing.note(token=record.holder.id)
        self._daemon.tokens.spend(record, "requests", 1)
        self.spend(record, size)
        return record

    def _served(self, record: TokenRecord) -> TokenRecord:
        served = self._listen.workspaces
        if not served:
            return record
        holder = record.holder
        kept = tuple(scope for scope in holder.scopes if scope.workspace in served)
        return replace(record, holder=replace(holder, scopes=kept))


def token_in(authorization: str) -> str:
    """The token of ``Bearer TOKEN``, or of ``Basic`` with the token as the password of any user, as git sends it.

    Raises:
        Unauthorized: There is no token, or it is malformed.
    """
    scheme, _, rest = authorization.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "basic":
        try:
            rest = base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            rest = ""
    elif scheme.lower() != "bearer":
        rest = ""
    if not rest or len(rest) > TOKEN_LIMIT:
        raise Unauthorized("a token is needed", next="Send it as `Authorization: Bearer TOKEN`.")
    read_token(rest)  # detects a typo before any look-up
    return rest
