"""This file is where a caller is described: which daemon, from which directory, as whom, in which conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.config import git_own_file
from kgd.errors import Limit, Unauthorized
from kgd.freshness.noting import noted
from kgd.git.identity import person
from kgd.model.access import Policy, Principal, Verb, authorize, may
from kgd.model.change import Author, ChangeSet, Revert
from kgd.model.token import LEEWAY_SECONDS
from kgd.model.uri import Uri
from kgd.tools import sight
from kgd.workspace.touched import authorize_all, named

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.resolution.prompts import Ask
    from kgd.workspace.outcome import Outcome
    from kgd.workspace.touched import Permit, Touched
    from kgd.workspace.workspace import Workspace

Progress = Callable[[int, int | None, str], None]
"""Told (done, total, message) while something long runs; a total of None is "not known yet"."""

LONGEST_REQUEST = 150
"""Characters of a request id that came with a token; the token's id is noted before it."""


@dataclass(slots=True)
class Session:
    """One caller. `trusted` callers sit at this machine and may use `LOCAL` tools and `ingest` with `store`.

    `context_id` is the conversation of a connection that has one of its own; empty where the first answer begins one,
    None where there is none, as for one command. A call may name another.
    """

    daemon: Daemon
    cwd: Path | None = None
    client: str = ""
    context_id: str | None = ""
    trusted: bool = True
    by_agent: bool = False
    """An agent asks, over MCP: a text that it read may have told it to."""
    progress: Progress = lambda done, total, message: None
    here: Workspace | None = None
    """The workspace of `cwd`, once it was looked for: finding it reads a dozen files."""
    principal: Principal | None = None
    """Who asks, as their token says; None is the person of this machine, whom nothing is forbidden."""
    ask: Ask | None = None
    """How to ask the caller's language model; None where the surface cannot."""
    still_live: Callable[[], None] = lambda: None
    """Looks again, right before something is written, whether the caller's token holds; raises Unauthorized if not."""
    wrote: tuple[str, str] | None = None
    """Workspace and commit of the last change by a token, for what follows a write whatever its answer looks like."""

    @property
    def caller(self) -> str:
        """The client, as questions to its model are counted: by its token and its name."""
        return f"{self.principal.id if self.principal else ''} {self.client}"

    def author(self, workspace: Workspace) -> Author:
        """Who the commits of this caller are by: the holder of the token, or the person of this machine."""
        if self.principal is not None:
            return Author(self.principal.name, holder_email(self.principal), self.client)
        who = person(workspace.layout, git_own_file())
        return Author(who.name, who.email, self.client)

    def allow(self, workspace: Workspace, verb: Verb, uris: Iterable[Uri]) -> None:
        """Return if the caller may do this to each of these nodes of the workspace.

        Raises:
            Unauthorized: The token has expired.
            Forbidden: Names the first node that they may not.
        """
        if self.principal is not None:
            self._check_live()
            policy = workspace.policy
            for uri in uris:
                authorize(self.principal, policy, verb, uri)

    def may(self, workspace: Workspace, uri: Uri, *verbs: Verb) -> bool:
        """Whether the caller may do all of this to the node."""
        return self.principal is None or all(may(self.principal, workspace.policy, verb, uri) for verb in verbs)

    def commit(self, workspace: Workspace, text: str) -> str:
        """The id of a commit that the caller names.

        The holder of a token can name the commits that led to the tip, by an id or from ``HEAD``: proposals and what
        was rejected are not for them.

        Raises:
            NotFound: There is none for them.
        """
        return workspace.history.commit_id(text, of_tip=self.principal is not None)

    def reverting(self, workspace: Workspace, changes: ChangeSet) -> ChangeSet:
        """The changes with the commits that they revert as ids. Raises as `commit`."""
        edits = (
            replace(edit, commit=self.commit(workspace, edit.commit)) if isinstance(edit, Revert) else edit
            for edit in changes.edits
        )
        return replace(changes, edits=tuple(edits))

    def settles(self, workspace: Workspace, *, reads: bool = True) -> Callable[[Uri], bool] | None:
        """What tells of which nodes the caller may settle conflicts, and see them; None where they may all."""
        if self.principal is None:
            return None
        verbs = (Verb.READ, Verb.RESOLVE) if reads else (Verb.RESOLVE,)
        return lambda uri: self.may(workspace, uri, *verbs)

    def permit(self, workspace: Workspace, verb: Verb = Verb.WRITE) -> Permit | None:
        """What a change of this caller is asked for right before it is staged; None where nothing is forbidden."""
        if self.principal is None:
            return None

        def check(touched: Touched, policy: Policy) -> None:
            self._check_live()
            self.still_live()
            authorize_all(self.principal, policy, verb, touched)

        return check

    def submit(
        self, workspace: Workspace, changes: ChangeSet, *, dry_run: bool = False, verb: Verb = Verb.WRITE
    ) -> Outcome:
        """Carry out a ChangeSet as this caller may: the one way in which tools change a workspace.

        Raises:
            Unauthorized, Forbidden: Nothing was written.
            KgdError: As `Workspace.submit`.
        """
        if self.principal is not None:
            # Before anything is looked at, so that no other refusal tells what is behind a path that is not theirs.
            self.allow(workspace, verb, named(changes.edits))
            changes = replace(self.reverting(workspace, changes), request_id=self.request(changes.request_id))
            outcome = workspace.submit(changes, dry_run=dry_run, permit=self.permit(workspace, verb))
            if outcome.commit:
                self.wrote = workspace.id, outcome.commit
            return self.seen(workspace, outcome)
        changes, told = noted(workspace, changes)
        outcome = workspace.submit(changes, dry_run=dry_run)
        return replace(outcome, warnings=(*outcome.warnings, *told)) if told else outcome

    def seen(self, workspace: Workspace, outcome: Outcome) -> Outcome:
        """The outcome without what it says of nodes that the caller may not read."""
        sees = sight.sight(self, workspace.id)
        if sees is None:
            return outcome
        similar = (replace(one, like=tuple(filter(sees, one.like))) for one in outcome.similar)
        return replace(
            outcome,
            similar=tuple(one for one in similar if one.like),
            warnings=tuple(sight.warnings(sees, sight.relations_told(workspace, sees, outcome.warnings))),
        )

    def request(self, request_id: str) -> str:
        """The request id as it is noted: of two holders who choose the same, neither gets the other's result."""
        if not request_id or self.principal is None:
            return request_id
        if len(request_id) > LONGEST_REQUEST:
            raise Limit(f"a request id has at most {LONGEST_REQUEST} characters", at="request_id")
        return f"{self.principal.id}/{request_id}"

    def _check_live(self) -> None:
        if self.principal is not None and self.principal.has_expired(time.time() - LEEWAY_SECONDS):
            raise Unauthorized("this token has expired", next="Ask whoever made it for a new one.")


def holder_email(principal: Principal) -> str:
    """By what a commit tells whose token made it; no mail goes there."""
    return f"{principal.id}@token.invalid"
