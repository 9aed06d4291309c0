"""Authentication of a hub's requests by their token."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace

from kgd.daemon.daemon import Daemon
from kgd.errors import NotFound, Unauthorized
from kgd.hub.callers import Holder
from kgd.hub.listen import Listen
from kgd.model.token import TokenRecord
from kgd.model.token import read as read_token

TOKEN_LIMIT = 200


class Gate:
    """Authenticates requests. Results are not cached, so that a revoked token fails at its next request."""

    def __init__(self, daemon: Daemon, listen: Listen) -> None:
        self._daemon, self._listen = daemon, listen

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """The record of the token in an Authorization header, with only the scopes of served workspaces.

        Counts the request and its bytes. Blocks for about 100 us.

        Raises:
            Unauthorized: The token is missing or not a live token of this hub.
            TooMuch: Its quota is exceeded.
            Unavailable, Damaged, Forbidden: The tokens cannot be read.
        """
        return self._counted(self._daemon.tokens.recognise(token_in(authorization)), size)

    def again(self, id: str, size: int = 0) -> TokenRecord:
        """The current record of a token by its id, for a browser session that began with the token.

        Raises:
            Unauthorized: It was revoked or has expired meanwhile.
            TooMuch, Unavailable, Damaged, Forbidden: As in `admit`.
        """
        return self._counted(self._daemon.tokens.again(id), size)

    def caller(self, authorization: str) -> Holder:
        """The caller of the HTTP API. Raises like `admit`."""
        record = self.admit(authorization)
        return Holder(
            self._daemon,
            record,
            self.workspaces(record),
            lambda id: self.workspace(record, id),
            lambda: self.still_live(record),
            lambda size: self.spend(record, size),
        )

    def spend(self, record: TokenRecord, size: int) -> None:
        """Count bytes of a body. Raises TooMuch."""
        if size > 0:
            self._daemon.tokens.spend(record, "bytes", size)

    def still_live(self, record: TokenRecord) -> None:
        """Check the token again right before a write. Raises Unauthorized if it was revoked meanwhile."""
        self._daemon.tokens.still_live(record.holder.id)

    def workspaces(self, record: TokenRecord) -> list[str]:
        """The ids of the served workspaces in its scopes."""
        return sorted({scope.workspace for scope in record.holder.scopes} & set(self._daemon.workspace_ids()))

    def workspace(self, record: TokenRecord, id: str) -> str:
        """The id, if the token may use the workspace.

        Raises:
            NotFound: It may not, or the workspace does not exist; the error is the same.
        """
        if id not in self.workspaces(record):
            error = NotFound("there is no such workspace for this token", at="workspace", next="See /v1/workspaces.")
            self._daemon.tokens.refused(record.holder.id, "workspace", error, id)
            raise error
        return id

    def _counted(self, found: TokenRecord, size: int) -> TokenRecord:
        record = self._served(found)
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
    read_token(rest)  # reports a typo before any look-up
    return rest
