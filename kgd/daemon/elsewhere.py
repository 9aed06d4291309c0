"""This file is where it is decided how another workspace is reached: open here, as a read-only clone, or on a hub.

Nothing here waits under a graph's lock, and nothing waits longer than a hub's deadline. That a hub or a remote cannot
be reached is an answer (`Absence`), not an exception, wherever a walk asks.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from kgd.config.registry import Entry, RegistryFile
from kgd.daemon.seen import LastSeen
from kgd.errors import Forbidden, KgdError, NotFound, Unauthorized, Unavailable
from kgd.git.remote_settings import remotes
from kgd.graph.across import Absence, Joined, OnHub, Place, Question, Sees
from kgd.graph.edges import EdgeSource
from kgd.graph.region import FAR, Patch, Reach
from kgd.model.access import Policy, Principal, Verb, sight
from kgd.model.uri import Uri
from kgd.sync.clones import Fetching
from kgd.sync.hub_walks import patch_from
from kgd.sync.hubs import DEADLINE, HubClient

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

GRACE = 0.2
"""Seconds that a call may be late; then whoever waits for it goes on without (a name is looked up without a limit)."""
TOKEN_SECONDS = 60.0
PAGES = 60
PAGE_TOKENS = 10_000
STUCK = 4
"""Calls to one hub that may hang before further ones are refused at once."""
REST_SECONDS = 5.0
"""How long a hub that let its deadline pass is not asked again: one walk pays for it, not every one."""

_FULL = Reach(FAR, FAR)

T = TypeVar("T")


class Opener(Protocol):
    """What the daemon offers: its workspaces."""

    def workspace(self, id: str | None = None, *, directory: Path | None = None) -> Workspace: ...
    def opened(self) -> list[Workspace]: ...


class Hub:
    """One hub under one token, with what is known of how it is.

    The token is looked up again after a minute, and at once when the hub did not take it: asking a keyring takes longer
    than asking a hub.
    """

    def __init__(self, url: str, secret: Callable[[], str], answered: Callable[[], None]) -> None:
        self.client = HubClient(url, self._token, answered=answered)
        self._secret, self._known, self._known_until = secret, "", 0.0
        self.resting_until = 0.0
        self.stuck = 0
        self.problem = ""

    def _token(self) -> str:
        if time.monotonic() >= self._known_until:
            self._known, self._known_until = self._secret(), time.monotonic() + TOKEN_SECONDS
        return self._known

    def forget_token(self) -> None:
        self._known_until = 0.0


class Elsewhere:
    """The workspaces that are not the caller's own, for one daemon. Safe for threads.

    Args:
        secret: The secret that a reference of the registry stands for.
        seen: The folder where it is kept when a hub or a remote was last reached.
    """

    def __init__(
        self, daemon: Opener, registry: RegistryFile, seen: Path, secret: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._daemon, self._registry, self._secret, self._clock = daemon, registry, secret, clock
        self._seen = LastSeen(seen, clock)
        self._hubs: dict[tuple[str, str], Hub] = {}
        self._remotes: dict[str, tuple[int, bool]] = {}
        self._lock = threading.Lock()

    def on_hub(self, workspace: str) -> bool:
        """Whether the registry knows this workspace from a hub, and not here."""
        entry = self._registry.current().entries.get(workspace)
        return entry is not None and bool(entry.hub) and not entry.path

    def is_clone(self, workspace: Workspace) -> bool:
        """Whether an open workspace is here only to be read."""
        entry = self._registry.current().entries.get(workspace.id)
        return entry is not None and bool(entry.remote) and not entry.path

    def world(self, principal: Principal | None = None) -> World:
        """The other workspaces, for one walk. Somebody with a token sees open and local ones of their scopes alone."""
        return World(self, self._daemon, principal)

    def call(self, workspace: str, tool: str, args: Mapping[str, Any], *, deadline: float = DEADLINE) -> dict[str, Any]:
        """One call of a hub's tool, which only reads.

        Raises:
            KgdError: What the hub refused.
            Unavailable: It did not answer in time; says when it was last seen.
        """
        entry = self._registry.current().entries[workspace]
        try:
            found = self._in_time(self._hub(entry), lambda hub: hub.call(workspace, tool, args, deadline=deadline),
                                  deadline)  # fmt: skip
        except Unavailable as error:
            at = self.last_seen(workspace)
            last = f"It was last seen {_moment(at)}." if at else "It was never seen from here."
            raise Unavailable(f"workspace '{workspace}' cannot be reached: {error.message}", at=error.at,
                              next=last) from error  # fmt: skip
        return found

    def client(self, workspace: str) -> HubClient:
        """The hub of a workspace, for calls that write, with the token as it is now."""
        hub = self._hub(self._registry.current().entries[workspace])
        hub.forget_token()
        return hub.client

    def trust(self, workspace: Workspace) -> Literal["local", "team", "remote"]:
        """How near whoever wrote into an open workspace is: this machine alone, those it is shared with, or others."""
        entry = self._registry.current().entries.get(workspace.id)
        if entry is not None and not entry.path:
            return "remote"
        return "team" if self._shared(workspace) else "local"

    def hubs(self) -> list[tuple[str, tuple[str, ...]]]:
        """The addresses of the hubs that the registry names, each with the ids of its workspaces."""
        found: dict[str, list[str]] = {}
        for id, entry in sorted(self._registry.current().entries.items()):
            if entry.hub:
                found.setdefault(entry.hub.rstrip("/"), []).append(id)
        return [(url, tuple(ids)) for url, ids in sorted(found.items())]

    def who(self, workspace: str) -> dict[str, Any]:
        """What the hub of a workspace says of the holder of the token that is kept for it.

        Raises:
            KgdError: It does not take the token, or cannot be reached.
        """
        hub = self._hub(self._registry.current().entries[workspace])
        return self._in_time(hub, lambda client: client.workspaces(deadline=DEADLINE), DEADLINE)

    def last_seen(self, workspace: str) -> float | None:
        """When its hub last answered any call, or its folder here was last there."""
        entry = self._registry.current().entries.get(workspace)
        return self._seen.at(_seen_as(entry)) if entry is not None else None

    def problems(self) -> list[str]:
        """Hubs that did not answer when they were last asked, one sentence each."""
        with self._lock:
            return sorted(f"hub {hub.client.url}: {hub.problem}" for hub in self._hubs.values() if hub.problem)

    def close(self) -> None:
        with self._lock:
            closing, self._hubs = list(self._hubs.values()), {}
        for hub in closing:
            hub.client.close()
        self._seen.close()

    # ---- for a walk

    def place(self, workspace: str) -> OnHub | Workspace | Absence:
        entries = self._registry.current().entries
        entry = entries.get(workspace)
        if entry is None:
            return Absence("unknown_workspace")
        if entry.hub and not entry.path:
            same = frozenset(id for id, one in entries.items() if _same_hub(one, entry) and not one.path)
            return OnHub(_key(entry), same)
        try:
            found = self._daemon.workspace(workspace)
        except KgdError as error:
            fetching = isinstance(error, Fetching)
            return Absence("fetching" if fetching else "unreachable", error.message, self.last_seen(workspace))
        self._seen.note([workspace])
        return found

    def explore(self, question: Question, deadline: float) -> Patch | Absence:
        """What a hub answers to one step of a walk, all its pages, or why it does not."""
        entry = self._registry.current().entries.get(question.workspace)
        if entry is None:
            return Absence("unknown_workspace")
        try:
            hub = self._hub(entry)
            found = self._in_time(hub, lambda client: _explore(client, question, deadline), deadline)
        except KgdError as error:
            return _absence(error, question, self.last_seen(question.workspace))
        return found

    def _shared(self, workspace: Workspace) -> bool:
        """Whether it has remotes; asked for with every answer, so its configuration is read only when it changed."""
        config = workspace.layout.git_dir / "config"
        try:
            stamp = config.stat().st_mtime_ns
        except OSError:
            return True
        known = self._remotes.get(workspace.id)
        if known is None or known[0] != stamp:
            try:
                known = stamp, bool(remotes(workspace.layout))
            except KgdError:
                known = stamp, True
            self._remotes[workspace.id] = known
        return known[1]

    def _hub(self, entry: Entry) -> Hub:
        key = entry.hub, entry.token
        with self._lock:
            hub = self._hubs.get(key)
            if hub is None:
                reference = entry.token
                hub = self._hubs[key] = Hub(
                    entry.hub, lambda: self._secret(reference) if reference else "",
                    lambda: self._seen.note([_seen_as(entry)]),
                )  # fmt: skip
            return hub

    def _in_time(self, hub: Hub, job: Callable[[HubClient], T], deadline: float) -> T:
        """The result of a job in a thread of its own, which is left behind when it hangs.

        Raises:
            KgdError: What the job raised.
            Unavailable: It took too long, or the hub is resting because an earlier one did.
        """
        if hub.stuck >= STUCK or time.monotonic() < hub.resting_until:
            raise Unavailable(f"it is not asked again for some seconds: {hub.problem}", at=hub.client.url)
        begun, done = time.monotonic(), Future[T]()
        threading.Thread(target=_settle, args=(done, job, hub.client), name="kgd-hub", daemon=True).start()
        try:
            found = done.result(deadline + GRACE)
        except TimeoutError:
            self._left_behind(hub, done)
            hub.problem = f"it did not answer within {deadline:.3g} s"
            hub.resting_until = time.monotonic() + REST_SECONDS
            raise Unavailable(hub.problem, at=hub.client.url) from None
        except Unauthorized:
            hub.forget_token()
            raise
        except Unavailable as error:
            hub.problem = error.message
            if time.monotonic() - begun > deadline * 0.9:
                hub.resting_until = time.monotonic() + REST_SECONDS
            raise
        hub.problem, hub.resting_until = "", 0.0
        return found

    def _left_behind(self, hub: Hub, done: Future[T]) -> None:
        def count(change: int) -> None:
            with self._lock:
                hub.stuck += change

        count(1)
        done.add_done_callback(lambda _: count(-1))


class World:
    """The other workspaces as one walk of one caller sees them (`kgd.graph.across.World`)."""

    def __init__(self, elsewhere: Elsewhere, daemon: Opener, principal: Principal | None) -> None:
        self._elsewhere, self._daemon, self._principal = elsewhere, daemon, principal
        self._spent: dict[str, float] = {}
        self._allowed = None if principal is None else {scope.workspace for scope in principal.scopes}

    def place(self, workspace: str) -> Place:
        if self._allowed is not None and workspace not in self._allowed:
            # A hub answers for what it serves itself: whoever asks has credentials of their own for everything else.
            return Absence("unknown_workspace")
        found = self._elsewhere.place(workspace)
        if isinstance(found, OnHub) and self._allowed is not None:
            return Absence("unknown_workspace")
        if isinstance(found, OnHub | Absence):
            return found
        return [Joined(workspace, source, _sees(workspace, self._principal)) for source in found.sources()]

    def holders(self, uri: Uri) -> Collection[str]:
        return [one.id for one in self._open() if one.graph.card(uri) is not None]

    def pointing(self) -> Collection[str]:
        return [one.id for one in self._open()]

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Patch | Absence]:
        """Every hub at once; what is left of its deadline in this walk is what each may take."""
        replies: dict[str, Patch | Absence] = {}

        def one(hub: str, question: Question) -> None:
            begun = time.monotonic()
            left = DEADLINE - self._spent.get(hub, 0.0)
            replies[hub] = self._elsewhere.explore(question, max(0.05, left))
            self._spent[hub] = self._spent.get(hub, 0.0) + time.monotonic() - begun

        first, *others = questions.items()
        threads = [threading.Thread(target=one, args=item, name="kgd-walk", daemon=True) for item in others]
        for thread in threads:
            thread.start()
        one(*first)
        for thread in threads:
            thread.join()
        return replies

    def _open(self) -> Iterable[Workspace]:
        return [one for one in self._daemon.opened() if self._allowed is None or one.id in self._allowed]


def seen(workspace: str, sources: Sequence[EdgeSource], principal: Principal | None) -> Sequence[EdgeSource]:
    """The sources of the asked workspace, as far as this caller may read them."""
    if principal is None:
        return sources
    sees = _sees(workspace, principal)
    return [Joined(workspace, source, sees) for source in sources]


def _sees(workspace: str, principal: Principal | None) -> Sees | None:
    """What tells which nodes of a workspace somebody may read; None for all of them, which needs no asking."""
    if principal is None:
        return None
    scopes = [scope for scope in principal.scopes if scope.workspace == workspace and scope.has(Verb.READ)]
    return None if any(scope.is_whole for scope in scopes) else sight(principal, Policy(workspace))


def _settle(done: Future[T], job: Callable[[HubClient], T], client: HubClient) -> None:
    try:
        done.set_result(job(client))
    except Exception as error:  # noqa: BLE001  it is raised again where it is waited for
        done.set_exception(error)


def _explore(client: HubClient, question: Question, deadline: float) -> Patch:
    end, pages, cursor, count = time.monotonic() + deadline, list[dict[str, Any]](), None, 0
    args = {
        "start": list(question.starts), "max_cost": question.max_cost, "max_depth": question.max_depth,
        "edge_types": list(question.edge_types), "direction": question.direction, "max_nodes": question.max_nodes,
        "budget": PAGE_TOKENS,
    }  # fmt: skip
    while True:
        try:
            page = client.call(
                question.workspace, "traverse", {**args, **({"cursor": cursor} if cursor else {})},
                deadline=max(0.05, end - time.monotonic()),
            )  # fmt: skip
        except Unavailable:
            if not pages:
                raise
            return patch_from(pages, question, more=True)
        pages.append(page)
        cursor = page.get("cursor")
        nodes = page.get("nodes")
        count += len(nodes) if isinstance(nodes, list) else 0
        # The hub's cursor also goes beyond the nodes that were asked for.
        if not isinstance(cursor, str) or not nodes or count >= question.max_nodes or len(pages) >= PAGES:
            return patch_from(pages, question, more=isinstance(cursor, str))


def _absence(error: KgdError, question: Question, last_seen: float | None) -> Patch | Absence:
    if isinstance(error, NotFound):
        if "://" in error.at:
            return Patch((), (), _FULL, gone=frozenset(question.starts))
        return Absence("unknown_workspace", error.message, last_seen)
    if isinstance(error, Forbidden) and "://" in error.at:
        return Patch((), (), _FULL, forbidden=frozenset(question.starts))
    if isinstance(error, Forbidden | Unauthorized):
        return Absence("forbidden", error.message, last_seen)
    return Absence("unreachable", error.message, last_seen)


def _seen_as(entry: Entry) -> str:
    """The name under which it is kept when a workspace was last reached: one for all workspaces of a hub."""
    if not entry.hub:
        return entry.id
    return f"hub-{hashlib.sha256(entry.hub.rstrip('/').encode()).hexdigest()[:16]}"


def _key(entry: Entry) -> str:
    return f"{entry.hub} {entry.token}"


def _same_hub(one: Entry, other: Entry) -> bool:
    return (one.hub, one.token) == (other.hub, other.token)


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
