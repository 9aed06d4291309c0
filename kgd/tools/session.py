"""Sessions: the caller of an operation, with directory, identity, conversation and its working set, and positions at a
hub.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired
from weakref import ref

from typing_extensions import TypedDict

from kgd.config import git_own_file
from kgd.daemon.daemon import Daemon
from kgd.errors import Forbidden, Invalid, Limit, Unauthorized
from kgd.freshness.freshness import noted
from kgd.git.layout import person
from kgd.model.access import Policy, Principal, Scope, Verb, authorize, may, sees_all
from kgd.model.change import Author, ChangeSet, Revert
from kgd.model.token import LEEWAY_SECONDS
from kgd.model.uri import Uri, workspace_of
from kgd.model.usage import Link
from kgd.resolution import Ask
from kgd.sync.hubs import META, split
from kgd.tools import visibility, worktrees
from kgd.tools.paging import present
from kgd.tools.visibility import Sees
from kgd.workspace.answers import Outcome
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Permit, Touched, authorize_all

Progress = Callable[[int, int | None, str], None]
"""Called with (done, total, message) during a long call; total is None while it is unknown."""

KNOWN = 100_000
"""Largest number of cached answers per set of scopes: at most 10 MB. A few sets are kept. A search checks every text
that has a word of the query.
"""
LONGEST_REQUEST = 150
"""Largest number of characters of a token holder's request id; it is stored after the token's id."""


@dataclass(slots=True)
class Session:
    """One caller.

    `context_id` is the conversation of the connection: empty if the first answer starts one, None for a single command.
    A call may name another conversation.
    """

    daemon: Daemon
    cwd: Path | None = None
    client: str = ""
    context_id: str | None = ""
    by_agent: bool = False
    """The caller is an agent over MCP, which may act on a text that it read."""
    progress: Progress = lambda done, total, message: None
    found: ref[Workspace] | None = None
    """The workspace of `cwd`, cached: finding it reads a dozen files. Weak, so that a closed one does not stay in
    memory."""
    principal: Principal | None = None
    """The holder of the caller's token; None for this machine's user, who is not restricted."""
    ask: Ask | None = None
    """Asks the caller's language model; None if the surface cannot."""
    still_live: Callable[[], None] = lambda: None
    """Checks the caller's token again right before a write; raises Unauthorized if it was revoked."""
    is_refresh: bool = False
    """The call renews an answer that the caller still shows, so it is not another question."""
    wrote: tuple[str, str] | None = None
    """Workspace and commit of the last change by a token, for answers that do not name them."""

    @property
    def here(self) -> Workspace | None:
        """The workspace of `cwd`, if it is known."""
        return self.found() if self.found else None

    @here.setter
    def here(self, workspace: Workspace | None) -> None:
        self.found = ref(workspace) if workspace else None

    @property
    def own_cwd(self) -> Path | None:
        """The caller's directory on this machine; None for the holder of a token."""
        return self.cwd if self.principal is None else None

    @property
    def caller(self) -> str:
        """The key for counting questions to a client's model: its token and its name."""
        return f"{self.principal.id if self.principal else ''} {self.client}"

    def author(self, workspace: Workspace) -> Author:
        """The author of the caller's commits: the holder of the token, or this machine's user."""
        if self.principal is not None:
            return Author(self.principal.name, holder_email(self.principal), self.client)
        who = person(workspace.layout, git_own_file())
        return Author(who.name, who.email, self.client)

    def enter(self, workspace: Workspace) -> None:
        """Raise unless the caller has a scope in this workspace.

        Raises:
            Forbidden: None of the caller's scopes is in this workspace.
        """
        if self.principal is not None and all(scope.workspace != workspace.id for scope in self.principal.scopes):
            raise Forbidden(
                f"'{self.principal.name}' has no scope in '{workspace.id}'",
                at="workspace",
                next="Name a workspace that the token is for; `whoami` lists them.",
            )

    def sight(self, workspace_id: str) -> Sees | None:
        """Predicate for the nodes that the caller may read, in this workspace or related from it; None if
        unrestricted."""
        principal = self.principal
        if principal is None or sees_all(principal, workspace_id):
            return None
        known = _known(principal.scopes, workspace_id)

        def sees(uri: Uri) -> bool:
            answer = known.get(uri)
            if answer is None:
                if len(known) >= KNOWN:
                    known.clear()
                # Only tokens restrict reading, so the rules of the other workspace's policy are not needed.
                home = workspace_of(uri) or workspace_id
                answer = known[uri] = may(principal, Policy(home), Verb.READ, uri)
            return answer

        return sees

    def allow(self, workspace: Workspace, verb: Verb, uris: Iterable[Uri]) -> None:
        """Raise unless the caller has the permission on each of these nodes.

        Raises:
            Unauthorized: The token has expired.
            Forbidden: Names the first node without permission.
        """
        if self.principal is not None:
            self._check_live()
            policy = workspace.policy
            for uri in uris:
                authorize(self.principal, policy, verb, uri)

    def may(self, workspace: Workspace, uri: Uri, *verbs: Verb) -> bool:
        """Whether the caller has all of these permissions on the node."""
        return self.principal is None or all(may(self.principal, workspace.policy, verb, uri) for verb in verbs)

    def sees_code_history(self, workspace: Workspace) -> bool:
        """Whether the policy shows the history of the code to the caller."""
        return self.principal is None or workspace.policy.shows_code_history(self.principal)

    def commit(self, workspace: Workspace, text: str) -> str:
        """The id of a commit that the caller names.

        The holder of a token can name only ancestors of the tip, by an id or from ``HEAD``; proposals and rejected
        commits cannot be named.

        Raises:
            NotFound: The caller can name no such commit.
        """
        return workspace.history.commit_id(text, of_tip=self.principal is not None)

    def reverting(self, workspace: Workspace, changes: ChangeSet) -> ChangeSet:
        """The changes with the ids of the commits they revert. Raises as `commit` does."""
        edits = (
            replace(edit, commit=self.commit(workspace, edit.commit)) if isinstance(edit, Revert) else edit
            for edit in changes.edits
        )
        return replace(changes, edits=tuple(edits))

    def settles(self, workspace: Workspace, *, reads: bool = True) -> Callable[[Uri], bool] | None:
        """Predicate for the nodes whose conflicts the caller may settle and see; None if unrestricted."""
        if self.principal is None:
            return None
        verbs = (Verb.READ, Verb.RESOLVE) if reads else (Verb.RESOLVE,)
        return lambda uri: self.may(workspace, uri, *verbs)

    def permit(self, workspace: Workspace, verb: Verb = Verb.WRITE) -> Permit | None:
        """A check that runs right before a change is staged; None if the caller is unrestricted."""
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
        """Apply a ChangeSet with the caller's permissions. All operations change a workspace through this method.

        Raises:
            Unauthorized, Forbidden: Nothing was written.
            KgdError: As `Workspace.submit`.
        """
        if self.principal is not None:
            # Checked first, so that no later refusal reveals nodes outside the scopes.
            self.allow(workspace, verb, changes.named)
            changes = replace(self.reverting(workspace, changes), request_id=self.request(changes.request_id))
            outcome = workspace.submit(changes, dry_run=dry_run, permit=self.permit(workspace, verb))
            if outcome.commit:
                self.wrote = workspace.id, outcome.commit
            return self.seen(workspace, outcome)
        changes, told = noted(workspace, changes, lambda: worktrees.other_code(workspace, self.own_cwd))
        outcome = workspace.submit(changes, dry_run=dry_run)
        return replace(outcome, warnings=(*outcome.warnings, *told)) if told else outcome

    def seen(self, workspace: Workspace, outcome: Outcome) -> Outcome:
        """The outcome without nodes that the caller may not read."""
        sees = self.sight(workspace.id)
        if sees is None:
            return outcome
        similar = (replace(one, like=tuple(filter(sees, one.like))) for one in outcome.similar)
        return replace(
            outcome,
            similar=tuple(one for one in similar if one.like),
            warnings=tuple(visibility.warnings(sees, outcome.warnings)),
        )

    def request(self, request_id: str) -> str:
        """The request id with the token's id before it, so that holders do not share ids."""
        if not request_id or self.principal is None:
            return request_id
        if len(request_id) > LONGEST_REQUEST:
            raise Limit(f"a request id has at most {LONGEST_REQUEST} characters", at="request_id")
        return f"{self.principal.id}/{request_id}"

    def _check_live(self) -> None:
        if self.principal is not None and self.principal.has_expired(time.time() - LEEWAY_SECONDS):
            raise Unauthorized("this token has expired", next="Ask its issuer for a new one.")


def holder_email(principal: Principal) -> str:
    """The author's email for commits made with a token: a signed-in person's own address, otherwise a placeholder."""
    return principal.email or f"{principal.id}@token.invalid"


@lru_cache(maxsize=4)
def _known(scopes: tuple[Scope, ...], workspace_id: str) -> dict[Uri, bool]:
    """Cached answers for one set of scopes. They stay valid, because read permission depends only on scopes, which
    never change."""
    return {}


def answered_at(
    session: Session, asked: Any, workspace: Any, answer: Callable[[], Mapping[str, Any]], *, reads: bool = True
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The answer of an MCP call, and the `_meta` of its result: the commit that it includes. Blocks.

    Only hubs use it; see `kgd.sync.hubs`.

    Args:
        asked: The `_meta` of the request.
        workspace: The requested workspace, if the request names one.
        reads: Whether the call only reads. It then fails without the positions in `asked`; a write waits for
            them, then continues without them.

    Raises:
        Invalid: The positions are malformed.
        Unavailable: This hub does not have them yet.
        KgdError: Raised by `answer`.
    """
    if session.principal is None:
        return answer(), {}
    daemon, own = session.daemon, {scope.workspace for scope in session.principal.scopes}
    for id, positions in _positions(asked).items():
        if id in own:
            daemon.reach(id, positions, required=reads)
    before = {one.id: one.tip for one in daemon.opened(own)} if reads else {}
    found = answer()
    named = (found.get("workspace"), workspace, *(own if len(own) == 1 else ()))
    id = next((one for one in named if isinstance(one, str)), "")
    if id not in own:
        return found, {}
    opened = daemon.opened_as(id)
    position = before.get(id) if reads else opened.tip if opened else None
    return found, {META: {id: position}} if position else {}


def _positions(asked: Any) -> dict[str, list[str]]:
    given = asked.get(META, {}) if isinstance(asked, Mapping) else {}
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for one in given.values()):
        raise Invalid("positions must be an object of strings by workspace", at=META, next="Send what a hub returned.")
    return {str(id): split(one) for id, one in given.items()}


NAMED = 8
"""Number of evicted nodes that a hint names; the others are only counted."""


class Hint(TypedDict):
    """A hint to record what the conversation learned, with a `put` that needs only the text."""

    message: str
    evicted: NotRequired[list[str]]
    more_evicted: NotRequired[int]
    put: dict[str, Any]


def enter_working_set(
    session: Session, context_id: str | None, uris: Sequence[Uri], *, starting: bool = False
) -> dict[str, Any]:
    """Add nodes to the caller's working set; returns ``context_id``, and ``hint`` after evictions or on a first walk.

    Returns nothing for a caller without a conversation.

    Args:
        uris: Cheapest first. The cheapest is touched last, so that the nodes nearest to the question stay longest.
        starting: Whether the call is a walk. Only a walk uses up the single hint of a new working set.
    """
    if context_id is None and session.context_id is None:
        return {}
    session.daemon.contexts.resize(session.daemon.registry.current().settings.context_size)
    known, context = session.daemon.contexts.open(context_id or session.context_id or None)
    evicted = context.touch(reversed(uris))
    hint = _evicted(evicted) if evicted else _empty() if starting and context.take_started_empty() else None
    return {"context_id": known, **present(hint=hint)}


def note_reads(
    session: Session, workspace: Workspace, answer: Any, read: Sequence[Uri], shown: Sequence[Link] = ()
) -> None:
    """Count the nodes that a local conversation read by name, and the relations shown with them."""
    if session.principal is None and (conversation := answer.get("context_id")):
        here = [workspace.graph.resolve(uri) for uri in read if workspace_of(uri) in (None, workspace.id)]
        Usage.of(workspace).note(conversation, here, shown)


def working_set(session: Session, workspace: Workspace, context_id: str) -> list[Uri]:
    """The nodes that a conversation saw last, most recent first.

    The holder of a token gets only readable nodes of this workspace.
    """
    seen = session.daemon.contexts.seen(context_id)
    if session.principal is None:
        return seen
    return [uri for uri in seen if workspace_of(uri) == workspace.id and session.may(workspace, uri, Verb.READ)]


def _evicted(uris: Sequence[Uri]) -> Hint:
    hint: Hint = {
        "message": f"{len(uris)} nodes left your working set. Record what you learned about them before it is lost.",
        "evicted": list(uris[:NAMED]),
        "put": _ready(uris[:NAMED]),
    }
    hint |= present(more_evicted=len(uris[NAMED:]))
    return hint


def _empty() -> Hint:
    return {
        "message": "This is your first walk here. If you learned something in earlier work, record it now.",
        "put": _ready(()),
    }


def _ready(uris: Sequence[Uri]) -> dict[str, Any]:
    relations = [{"type": "about", "target": uri, "weight": 0.5} for uri in uris]
    change = {"op": "upsert", "type": "insight", "name": "<what you learned>", "summary": "<in one sentence>"}
    return {"changes": [{**change, **present(relations=relations)}], "message": "<why it matters>"}
