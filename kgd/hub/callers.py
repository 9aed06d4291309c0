"""This file is where those who call the HTTP interface are described: what they may call, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from kgd import __version__
from kgd.daemon.daemon import Daemon
from kgd.model.token import TokenRecord
from kgd.tools import SERVED
from kgd.tools.session import Session
from kgd.tools.token_calls import call, visible
from kgd.tools.tokens import describe
from kgd.tools.tool import Answer, Operation


class Caller(Protocol):
    """Who asks, for one request."""

    line: str
    """Whose connections and bodies are counted together."""
    workspaces: Sequence[str]
    """The ids of all of theirs: what an answer may depend on."""

    def spend(self, size: int) -> None:
        """Count so many bytes of a body. Blocks. Raises TooMuch."""

    def workspace(self, id: str) -> str:
        """The id, if it is one of theirs. Raises NotFound."""

    def tools(self) -> Mapping[str, Operation]:
        """What they may call."""

    def session(self, client: str) -> Session: ...

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool. Raises NotFound where it is none of theirs."""

    def who(self) -> dict[str, Any]:
        """What is here for them, and who they are."""

    def known(self) -> Any:
        """All of theirs that an answer depends on, as plain data; None where no answer carries a validator."""


class Door(Protocol):
    """How a request becomes a caller."""

    def caller(self, authorization: str) -> Caller:
        """Who asks. Blocks. Raises Unauthorized."""


class Holder:
    """Whoever holds a token, as far as its scopes go."""

    def __init__(
        self, daemon: Daemon, record: TokenRecord, workspaces: Sequence[str], workspace: Callable[[str], str],
        still_live: Callable[[], None], spend: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.record, self.workspace, self.spend = record, workspace, spend
        self.line = record.holder.line
        self._daemon, self.workspaces, self._still_live = daemon, workspaces, still_live

    def tools(self) -> Mapping[str, Operation]:
        return visible(SERVED, self.record.holder)

    def session(self, client: str) -> Session:
        return Session(
            self._daemon, client=client, context_id=None, trusted=False, principal=self.record.holder,
            still_live=self._still_live,
        )  # fmt: skip

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
