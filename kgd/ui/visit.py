"""One request of a page: its visitor, workspace, fields and calls of tools, and the report of its change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlencode

from kgd.daemon.daemon import Daemon
from kgd.errors import MALFORMED, Forbidden, Invalid, KgdError, NotFound
from kgd.git.program import GitFailed
from kgd.model.access import Verb
from kgd.model.token import TokenRecord
from kgd.tools import EVERY, SERVED, addressing
from kgd.tools import call as call_locally
from kgd.tools.hubs.token_calls import allowed, call, refusal
from kgd.tools.operation import Answer
from kgd.tools.recent_commits import unreviewed
from kgd.tools.session import Session
from kgd.ui.sessions import Visitor
from kgd.ui.words import advises, next_step, sentence

CLIENT = "kgd ui"
ROOT = "/ui"
LONGEST_PLACE = 4_000
THEMES = ("light", "dark")
"""Themes that override the system's."""


class Incomplete(NotFound):
    """An address lacks a value, such as the node that its page shows."""


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered page: a template and its variables."""

    template: str
    told: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect after a change; the next page shows `said` once.

    `undo` is the commit of the change: the message then links to it and has a button that reverts it. `theme` is the
    theme to keep in the browser: one of `THEMES`, or ``system``.
    """

    to: str
    said: str = ""
    undo: str = ""
    theme: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """A response that is not a page, such as a picture."""

    body: bytes
    media_type: str
    filename: str = ""


Handled = Page | Redirect | Download


@dataclass(frozen=True, slots=True)
class Visit:
    """One request. Its methods may block.

    `query` and `form` hold the last value of each name; `many` returns all values of a name in `query` or `form`.
    `record` is the visitor's token at this moment; None for the user of this machine, with all permissions.
    `here` is the requested address, and `back` the page to return to: the same, or the page above for a form.
    `is_refresh`: the request comes from a script of an open page. `theme` is one of `THEMES`; empty for the system's
    theme. `browser` is the id of its session in `browsers`.
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
    is_refresh: bool = False
    theme: str = ""
    browser: str = ""
    back: str = ""

    @property
    def may_do_all(self) -> bool:
        """Whether the visitor is the user of this machine, who may call every tool."""
        return self.record is None

    @property
    def status_of_missing(self) -> int:
        """The status of a page about a thing that does not exist. Scripts do not show an answer with status 404."""
        return 200 if self.is_refresh else 404

    def can(self, tool: str) -> bool:
        """Whether the visitor may call a tool; the tool checks the scope itself."""
        if self.record is None:
            return tool in EVERY
        return allowed(SERVED, self.record.holder, tool) is not None

    def may(self, tool: str, verb: Verb = Verb.WRITE) -> bool:
        """Whether to show a tool's form: whether one of the visitor's scopes has the verb in this workspace.

        The tool checks the paths of the scope when the form is sent.
        """
        if self.record is None:
            return self.can(tool)
        scopes = self.record.holder.scopes
        return self.can(tool) and any(one.has(verb) for one in scopes if one.workspace == self.workspace)

    def form_for(self, tool: str) -> None:
        """Check that a form of a tool may be shown.

        Raises:
            Forbidden: The tool would refuse the form.
        """
        if not self.may(tool):
            raise Forbidden(
                "you do not have permission to edit this", next="Ask the hub's administrator for a wider scope."
            )

    def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool on this workspace, without the arguments that are None.

        Raises:
            KgdError: The tool's error.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if self.workspace:
            given.setdefault("workspace", self.workspace)
        try:
            if self.record is None:
                return call_locally(self.session(), tool, given)
            return call(self.session(), self.record, SERVED, tool, given)
        except Invalid as error:
            if error.at != "cursor":
                raise
            raise Invalid("this part of the list does not exist", next="Open the list from its beginning.") from error

    def tried(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool for an optional part of a page. Returns an empty answer if the tool refuses, for example because
        the visitor may not call it, or a node is gone."""
        try:
            return self.call(tool, **arguments)
        except KgdError:
            return {}

    def refusal(self, tool: str, **arguments: Any) -> KgdError | None:
        """Return the error that a call of a tool would raise, found by a dry run without quota and audit log."""
        given = {"workspace": self.workspace, **arguments}
        if self.record is not None:
            return refusal(self.session(), self.record, SERVED, tool, given)
        try:
            call_locally(self.session(), tool, {**given, "dry_run": True})
        except KgdError as error:
            return error
        return None

    def counts(self, status: Answer | None = None) -> Mapping[str, int]:
        """Return the pending work of this workspace by page; empty if the status is unavailable. O(1), except that
        it reads the new commits after each change. `more`: whether there are more commits than `review` counts.

        Args:
            status: The answer of the tool `status`, if the page has called it already.
        """
        status = status or (self.tried("status") if self.can("status") else {})
        if not status:
            return {}
        stale = status["counts"].get("unverified", 0)
        counts = {"stale": stale, "conflicts": status["conflicts"], "proposals": status["proposals"]}
        if self.may_do_all:
            with suppress(KgdError, GitFailed):  # a damaged history has no count, and does not stop the page
                session = self.session()
                workspace = addressing.choose(session, self.workspace)
                counts["review"], counts["more"] = unreviewed(workspace, session.author(workspace).name)
        return counts

    def session(self) -> Session:
        if self.record is None:
            return Session(self.daemon, client=CLIENT, context_id=None, is_refresh=self.is_refresh)
        return Session(
            self.daemon,
            client=CLIENT,
            context_id=None,
            principal=self.record.holder,
            still_live=self.still_live,
        )

    def workspaces(self) -> list[str]:
        """Return the sorted ids of the workspaces that the visitor may see."""
        return self.served() if self.served else self.daemon.workspace_ids()

    def on_hubs(self) -> dict[str, str]:
        """Return the workspaces of other hubs, each with the hub's address."""
        entries = self.daemon.registry.current().entries if self.record is None else {}
        return {id: entry.hub for id, entry in entries.items() if entry.hub}

    def opens(self) -> bool:
        """Whether the workspace can be opened. Costs little if it is open."""
        try:
            addressing.choose(self.session(), self.workspace)
        except (KgdError, GitFailed):
            return False
        return True

    def text(self, name: str) -> str:
        """Return a field of the form with normalised line ends and without surrounding whitespace."""
        return self.form.get(name, "").replace("\r\n", "\n").strip()

    def number(self, name: str) -> int:
        """Return a non-negative number of the address; 0 if it is missing or malformed."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    def required(self, name: str) -> str:
        """Return a required value of the form or the address.

        Raises:
            Incomplete: The value is missing.
        """
        value = self.form.get(name) or self.query.get(name)
        if not value:
            raise Incomplete("this address is incomplete", next="Open the page through a link.")
        return value

    def to(self, page: str, **query: Any) -> str:
        """Return the address of a page of this workspace, without empty arguments."""
        return address(self.workspace, page, **query)


@dataclass(frozen=True, slots=True)
class Entry:
    """An address below a workspace, and its handler, which runs in a worker thread.

    `name` is the page's name in the navigation. A handler of POST makes a change and returns `Redirect`, or a page with
    the error.
    """

    name: str
    place: str
    handle: Callable[[Visit], Handled]
    methods: tuple[str, ...] = ("GET",)


def address(workspace: str, page: str, **query: Any) -> str:
    """Return the address of a page; a list becomes a repeated argument."""
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    place = f"{ROOT}/w/{workspace}/{page}" if workspace else f"{ROOT}/{page}"
    return f"{place}?{urlencode(given, doseq=True)}" if given else place


def own(place: str) -> str:
    """Return the address if it is one of our pages, without its query if it is too long; otherwise the start page."""
    is_ours = place.startswith(f"{ROOT}/") and place.isascii() and place.isprintable() and "\\" not in place
    if len(place) > LONGEST_PLACE:
        place = place.partition("?")[0]
    return place if is_ours and len(place) <= LONGEST_PLACE else f"{ROOT}/"


SHOWN = 10
"""Number of digits of a commit in a message."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message, and the commit in a workspace that it reports; without a commit there is nothing to undo."""

    text: str
    commit: str = ""
    workspace: str = ""

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the commit, the digits of the commit in the text, and the text after it."""
        return self.text.partition(self.commit[:SHOWN]) if self.commit else (self.text, "", "")

    def written(self) -> str:
        """Return the notice as a text that `read` accepts."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Notice | None:
        """Return the notice of a text; None for an empty text. A text of an earlier version is the message itself."""
        try:
            return cls(**json.loads(text)) if text else None
        except MALFORMED:
            return cls(text)


NOTHING = "Nothing was changed."


def reported(
    to: str, answer: Mapping[str, Any], done: str = "Saved", nothing: str = NOTHING, more: str = ""
) -> Redirect:
    """Redirect to a page that reports a change with its commit, its warnings and similar nodes, and can undo it.

    Args:
        answer: The answer of a tool that writes.
        done: The words before the commit, which `nothing` replaces without one.
        more: A last sentence.
    """
    commit = answer.get("commit") or ""
    told = f"{done} with commit {commit[:SHOWN]}." if commit else nothing
    disputed = [one for one in answer.get("warnings", ()) if advises(one, "resolve_conflicts")]
    warnings = [_ended(sentence(next_step(one))) for one in answer.get("warnings", ()) if one not in disputed]
    if disputed:
        what = "The fact is" if len(disputed) == 1 else f"{len(disputed)} facts are"
        warnings.append(f"{what} in conflict: choose a version on the page Conflicts.")
    like = (f"It may duplicate {', '.join(one['like'])}." for one in answer.get("similar", ()))
    return Redirect(to, " ".join(filter(None, (told, *warnings, *like, more))), undo=commit)


def _ended(text: str) -> str:
    """A text with a full stop, unless it ends as a sentence."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
