"""This file is where one request for a page is described: who asks, where, and how the tools are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from kgd import tools
from kgd.daemon.daemon import Daemon
from kgd.errors import Forbidden, NotFound
from kgd.model.access import Verb
from kgd.model.token import TokenRecord
from kgd.tools.session import Session
from kgd.tools.token_calls import call, visible
from kgd.tools.tool import Answer
from kgd.ui.sessions import Visitor

CLIENT = "kgd ui"
ROOT = "/ui"


@dataclass(frozen=True, slots=True)
class Page:
    """A page to be shown: a template and what it is told."""

    template: str
    told: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Go:
    """Another page to be looked at, after something was done; `said` is shown there once."""

    to: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that is no page, such as a picture."""

    body: bytes
    media_type: str
    filename: str = ""


Handled = Page | Go | Whole


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. Its methods may block.

    `query` and `form` hold the last value of each name; `many` all values of a name in either. `record` is the token
    that the visitor came in with, as it is at this moment; None for the person of this machine, who may do everything.
    """

    daemon: Daemon
    visitor: Visitor
    workspace: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    many: Callable[[str], list[str]]
    path: Mapping[str, str]
    here: str
    record: TokenRecord | None = None
    still_live: Callable[[], None] = lambda: None
    served: Callable[[], list[str]] | None = None

    @property
    def may_do_all(self) -> bool:
        """Whether it is the person of this machine, who may call what no token may."""
        return self.record is None

    def can(self, tool: str) -> bool:
        """Whether this visitor may call that tool at all; what it may touch is judged inside."""
        if self.record is None:
            return tool in tools.EVERY
        return tool in visible(tools.SERVED, self.record.holder)

    def may(self, tool: str, verb: Verb = Verb.WRITE) -> bool:
        """Whether a form of that tool is worth showing: there is something here that this visitor may do that to.

        What it may touch is judged by the tool, when it is sent.
        """
        if self.record is None:
            return self.can(tool)
        scopes = self.record.holder.scopes
        return self.can(tool) and any(one.has(verb) for one in scopes if one.workspace == self.workspace)

    def form_for(self, tool: str, verb: Verb = Verb.WRITE) -> None:
        """Return if the page of a form may be shown.

        Raises:
            Forbidden: Whatever is written into it would be refused.
        """
        if not self.may(tool, verb):
            raise Forbidden("this form is not for you", next="Ask whoever gave you your token for more.")

    def call(self, tool: str, **arguments: Any) -> Answer:
        """The answer of a tool about this workspace; an argument that is None is left out.

        Raises:
            KgdError: As the tool refuses.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if self.workspace:
            given.setdefault("workspace", self.workspace)
        if self.record is None:
            return tools.call(self.session(), tool, given)
        return call(self.session(), self.record, tools.SERVED, tool, given)

    def session(self) -> Session:
        if self.record is None:
            return Session(self.daemon, client=CLIENT, context_id=None)
        return Session(
            self.daemon, client=CLIENT, context_id=None, trusted=False, principal=self.record.holder,
            still_live=self.still_live,
        )  # fmt: skip

    def workspaces(self) -> list[str]:
        """The ids of the workspaces that this visitor may see, sorted."""
        return self.served() if self.served else self.daemon.workspace_ids()

    def on_hubs(self) -> dict[str, str]:
        """Those of them whose pages are not here but on a hub, each with the hub's address."""
        entries = self.daemon.registry.current().entries if self.record is None else {}
        return {id: entry.hub for id, entry in entries.items() if entry.hub}

    def required(self, name: str) -> str:
        """A value that the form or the address has to have.

        Raises:
            NotFound: It has none.
        """
        value = self.form.get(name) or self.query.get(name)
        if not value:
            raise NotFound(f"this address says no {name}", at=name, next="Come here from another page.")
        return value

    def to(self, page: str, **query: Any) -> str:
        """The address of a page of this workspace; an argument that is None or empty is left out."""
        return address(self.workspace, page, **query)


def address(workspace: str, page: str, **query: Any) -> str:
    """The address of a page; a list is repeated."""
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    place = f"{ROOT}/w/{workspace}/{page}" if workspace else f"{ROOT}/{page}"
    return f"{place}?{urlencode(given, doseq=True)}" if given else place
