"""Callers of the HTTP interface: the tools and workspaces that they may use, and their sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from kgd import __version__
from kgd.daemon.daemon import Daemon
from kgd.model.token import TokenRecord
from kgd.tools import SERVED
from kgd.tools.hubs.token_calls import call, visible
from kgd.tools.hubs.tokens import describe
from kgd.tools.operation import Answer, Operation
from kgd.tools.session import Session


class Caller(Protocol):
    """The caller of one request."""

    line: str
    """Key under which the connections and bodies of the caller are counted."""
    workspaces: Sequence[str]
    """Ids of all workspaces of the caller; answers may depend on them."""

    def spend(self, size: int) -> None:
        """Count bytes of a body. Blocks. Raises TooMuch."""

    def workspace(self, id: str) -> str:
        """The id, if the caller may use that workspace. Raises NotFound."""

    def tools(self) -> Mapping[str, Operation]:
        """The tools that the caller may call, by name."""

    def session(self, client: str) -> Session: ...

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool. Raises NotFound if the caller may not call it."""

    def who(self) -> dict[str, Any]:
        """The caller's identity and workspaces, as answered to the caller."""

    def known(self) -> Any:
        """Everything about the caller that an answer depends on, as plain data; None if no answer has a validator."""


class Door(Protocol):
    """Authentication: turns a request into a caller."""

    def caller(self, authorization: str) -> Caller:
        """The caller of a request, by its `Authorization` header. Blocks. Raises Unauthorized."""


class Holder:
    """The holder of a token, limited to its scopes."""

    def __init__(
        self,
        daemon: Daemon,
        record: TokenRecord,
        workspaces: Sequence[str],
        workspace: Callable[[str], str],
        still_live: Callable[[], None],
        spend: Callable[[int], None],
    ) -> None:
        self.record, self.workspace, self.spend = record, workspace, spend
        self.line = record.holder.line
        self._daemon, self.workspaces, self._still_live = daemon, workspaces, still_live

    def tools(self) -> Mapping[str, Operation]:
        return visible(SERVED, self.record.holder)

    def session(self, client: str) -> Session:
        return Session(
            self._daemon,
            client=client,
            context_id=None,
            trusted=False,
            principal=self.record.holder,
            still_live=self._still_live,
        )

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        return call(session, self.record, SERVED, name, arguments)

    def who(self) -> dict[str, Any]:
        return {
            "workspaces": self.workspaces,
            "principal": describe(self.record, self._daemon.tokens.now()),
            "version": __version__,
        }

    def known(self) -> Any:
        return replace(self.record.holder, expires=None).as_dict()
