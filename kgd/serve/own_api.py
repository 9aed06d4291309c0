"""This file is where the person's own programs call everything over HTTP on this machine, with the token of the home.

It is the hub's interface with another door: the same requests, answers and refusals, and every tool of the command
line. A cookie opens nothing here, so that no page of another site can have a browser ask.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from kgd import __version__, tools
from kgd.daemon.daemon import Daemon
from kgd.errors import NotFound, Unauthorized
from kgd.model.access import Verb
from kgd.tools.session import Session
from kgd.tools.tool import Answer, Operation


class Person:
    """The person of this machine, by a program of theirs. A `kgd.hub.callers.Caller`."""

    line = "person"
    workspaces: Sequence[str] = ()

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def spend(self, size: int) -> None:
        """The person of this machine has no quota."""

    def workspace(self, id: str) -> str:
        if id not in self._daemon.workspace_ids():
            raise NotFound("there is no such workspace here", at="workspace", next="See /v1/workspaces.")
        return id

    def tools(self) -> Mapping[str, Operation]:
        return tools.EVERY

    def session(self, client: str) -> Session:
        return Session(self._daemon, client=client, context_id=None)

    def call(self, session: Session, name: str, arguments: Mapping[str, Any]) -> Answer:
        return tools.call(session, name, arguments)

    def who(self) -> dict[str, Any]:
        ids = self._daemon.workspace_ids()
        everything = [{"workspace": id, "verbs": [verb.value for verb in Verb], "paths": ["/**"]} for id in ids]
        principal = {
            "id": "", "name": "the person of this machine", "kind": "person", "state": "live", "scopes": everything,
            "created": self._daemon.since, "expires": "",
        }  # fmt: skip
        return {"workspaces": ids, "principal": principal, "version": __version__}

    def known(self) -> None:
        """Much of what these tools answer is in no commit, so no answer is taken for unchanged."""


class OwnDoor:
    """Lets in whoever knows the token of the home. A `kgd.hub.callers.Door`."""

    def __init__(self, daemon: Daemon, token: str) -> None:
        self._person, self._digest = Person(daemon), _digest(token)

    def caller(self, authorization: str) -> Person:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_digest(token.strip()), self._digest):
            raise Unauthorized(
                "the token of this home is needed",
                next="Send what is in its file http.token as `Authorization: Bearer TOKEN`; `kgd config` says where.",
            )  # fmt: skip
        return self._person


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
