"""Access to other workspaces: open here, as a read-only clone, or on a hub.

Nothing here waits while holding a graph's lock, or longer than a hub's deadline. In a walk, an unreachable hub is an
answer (`Absence`), not an exception.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.errors import Forbidden, KgdError, NotFound, Unauthorized, Unavailable
from kgd.git.remote_settings import remotes
from kgd.graph.cross_workspace import FAR, Absence, Joined, OnHub, Patch, Place, Question, Reach, Sees
from kgd.graph.edges import EdgeSource
from kgd.model.access import Policy, Principal, Verb, sight
from kgd.model.uri import Uri
from kgd.sync.cloning import Fetching
from kgd.sync.hubs import DEADLINE, Hub, HubClient, patch_from
from kgd.workspace.workspace import Workspace

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon

PAGES = 60
PAGE_TOKENS = 10_000
ASKED_EVERY, ASKED_AGAIN, ASKING_SECONDS = 60.0, 10.0, 1.0
"""Seconds until `status` asks a healthy hub again; the same for a hub with a problem; and seconds to wait for hubs."""
SEEN_EVERY = 30.0
"""Seconds between two writes of the time when a hub was last reached; an orderly stop writes the latest time."""

_FULL = Reach(FAR, FAR)

log = logging.getLogger("kgd.elsewhere")


class Elsewhere:
    """Other workspaces, for one daemon. Thread-safe.

    Args:
        secret: Returns the secret for a reference of the registry.
        seen: Folder for the times when hubs and remotes were last reached.
    """

    def __init__(self, daemon: Daemon, registry: RegistryFile, seen: Path, secret: Callable[[str], str]) -> None:
        self._daemon, self._registry, self._secret = daemon, registry, secret
        self._seen = LastSeen(seen, time.time)
        self._hubs: dict[tuple[str, str], Hub] = {}
        self._remotes: dict[str, tuple[int, bool]] = {}
        self._lock = threading.Lock()

    def on_hub(self, workspace: str) -> bool:
        """Whether this workspace is registered on a hub and not on this machine."""
        entry = self._registry.current().entries.get(workspace)
        return entry is not None and bool(entry.hub) and not entry.path

    def world(self, principal: Principal | None = None) -> World:
        """The other workspaces, for one walk. With a token, a walk sees only local workspaces in the token's scopes."""
        return World(self, self._daemon, principal)

    def call(self, workspace: str, tool: str, args: Mapping[str, Any], *, deadline: float = DEADLINE) -> dict[str, Any]:
        """Call a read-only tool of a hub.

        Raises:
            KgdError: The hub refused.
            Unavailable: It did not answer in time; the error shows when it was last seen.
        """
        hub = self._hub(self._registry.current().entries[workspace])
        try:
            return hub.ask(lambda client: client.call(workspace, tool, args, reads=True, deadline=deadline), deadline)
        except Unavailable as error:
            at = self.last_seen(workspace)
            last = f"It was last seen {_moment(at)}." if at else "It has never been reached from here."
            raise Unavailable(
                f"workspace '{workspace}' cannot be reached: {error.message}", at=error.at, next=last
            ) from error

    def client(self, workspace: str) -> HubClient:
        """The client of a workspace's hub, for writes, with a freshly read token."""
        hub = self._hub(self._registry.current().entries[workspace])
        hub.forget_token()
        return hub.client

    def trust(self, workspace: Workspace) -> Literal["local", "team", "remote"]:
        """The writers of an open workspace: this machine only, a team that shares it, or others (read-only clones)."""
        entry = self._registry.current().entries.get(workspace.id)
        if entry is not None and not entry.path:
            return "remote"
        return "team" if self._shared(workspace) else "local"

    def hubs(self) -> list[tuple[str, tuple[str, ...]]]:
        """The URLs of the registered hubs, once for each token, with the ids of the workspaces."""
        found: dict[tuple[str, str], list[str]] = {}
        for id, entry in sorted(self._registry.current().entries.items()):
            if entry.hub:
                found.setdefault((entry.hub.rstrip("/"), entry.token), []).append(id)
        return [(url, tuple(ids)) for (url, _), ids in sorted(found.items())]

    def who(self, workspace: str) -> dict[str, Any]:
        """The holder of the registered token, from the workspace's hub.

        Raises:
            KgdError: The hub rejects the token or cannot be reached.
        """
        hub = self._hub(self._registry.current().entries[workspace])
        return hub.ask(lambda client: client.workspaces(deadline=DEADLINE), DEADLINE)

    def ask_hubs(self) -> None:
        """Ask every registered hub, with each of its tokens, that was not asked for a while, so that `problems` lists
        those that do not answer or reject the token. Waits for at most `ASKING_SECONDS`."""
        now, threads = time.monotonic(), []
        for hub in {self._hub(entry) for entry in self._registry.current().entries.values() if entry.hub}:
            if now - hub.checked_at >= (ASKED_AGAIN if hub.problem else ASKED_EVERY):
                hub.checked_at = now
                threads.append(threading.Thread(target=self._ask, args=(hub,), name="kgd-hub-check", daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, now + ASKING_SECONDS - time.monotonic()))

    @staticmethod
    def _ask(hub: Hub) -> None:
        with contextlib.suppress(KgdError):  # kept as the hub's problem
            hub.ask(lambda client: client.workspaces(deadline=DEADLINE), DEADLINE)

    def last_seen(self, workspace: str) -> float | None:
        """The time when the workspace's hub last answered any call, or its local folder was last found."""
        entry = self._registry.current().entries.get(workspace)
        return self._seen.at(_seen_as(entry)) if entry is not None else None

    def problems(self) -> list[str]:
        """Hubs that did not answer the last call or rejected its token, one sentence each."""
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
        """A hub's answer to one step of a walk, joined from all pages, or the reason why there is no answer."""
        entry = self._registry.current().entries.get(question.workspace)
        if entry is None:
            return Absence("unknown_workspace")
        try:
            return self._hub(entry).ask(lambda client: _explore(client, question, deadline), deadline)
        except KgdError as error:
            return _absence(error, question, self.last_seen(question.workspace))

    def _shared(self, workspace: Workspace) -> bool:
        """Whether a workspace has remotes. Called for every answer, so the configuration is read only if it changed."""
        try:
            stamp = os.stat(f"{workspace.layout.git_dir}/config").st_mtime_ns
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
                    entry.hub,
                    lambda: self._secret(reference) if reference else "",
                    lambda: self._seen.note([_seen_as(entry)]),
                )
            return hub


class World:
    """The other workspaces as one caller's walk sees them (`kgd.graph.cross_workspace.World`)."""

    def __init__(self, elsewhere: Elsewhere, daemon: Daemon, principal: Principal | None) -> None:
        self._elsewhere, self._daemon, self._principal = elsewhere, daemon, principal
        self._spent: dict[str, float] = {}
        self._allowed = None if principal is None else {scope.workspace for scope in principal.scopes}

    def place(self, workspace: str) -> Place:
        if self._allowed is not None and workspace not in self._allowed:
            # A hub answers only for its own workspaces; clients have their own credentials for other hubs.
            return Absence("unknown_workspace")
        found = self._elsewhere.place(workspace)
        if isinstance(found, OnHub | Absence):
            return Absence("unknown_workspace") if isinstance(found, OnHub) and self._allowed is not None else found
        return [Joined(workspace, source, _sees(workspace, self._principal)) for source in found.sources()]

    def holders(self, uri: Uri) -> Collection[str]:
        return [one.id for one in self._open() if one.graph.card(uri) is not None]

    def pointing(self) -> Collection[str]:
        return [one.id for one in self._open()]

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Patch | Absence]:
        """Ask all hubs at the same time; each hub has the remaining time of its deadline for this walk."""
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
        return self._daemon.opened(self._allowed)


class LastSeen:
    """Times when other workspaces were last reached; each is the mtime of an empty file, to survive a restart."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder, self._clock = folder, clock
        self._known: dict[str, float] = {}
        self._written: dict[str, float] = {}

    def note(self, workspaces: Iterable[str]) -> None:
        now = self._clock()
        for workspace in workspaces:
            self._known[workspace] = now
            written = self._written.get(workspace, 0.0)
            if now - written >= SEEN_EVERY or now < written:
                self._write(workspace, now)

    def at(self, workspace: str) -> float | None:
        """The time, or None for never; up to 30 s too early if the daemon was killed."""
        if workspace not in self._known:
            try:
                self._known[workspace] = self._written[workspace] = (self._folder / workspace).stat().st_mtime
            except OSError:
                return None
        return self._known[workspace]

    def close(self) -> None:
        """Save when each workspace and hub was last reached."""
        for workspace, at in list(self._known.items()):
            if self._written.get(workspace) != at:
                self._write(workspace, at)

    def _write(self, workspace: str, at: float) -> None:
        self._written[workspace] = at
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / workspace).touch()
            os.utime(self._folder / workspace, (at, at))
        except OSError:
            log.warning("the time when a hub was last seen could not be stored", extra={"workspace": workspace})


def seen(workspace: str, sources: Sequence[EdgeSource], principal: Principal | None) -> Sequence[EdgeSource]:
    """The sources of a workspace, restricted to nodes that this caller may read."""
    if principal is None:
        return sources
    sees = _sees(workspace, principal)
    return [Joined(workspace, source, sees) for source in sources]


def _sees(workspace: str, principal: Principal | None) -> Sees | None:
    """Predicate for readable nodes of a workspace, or None if unrestricted."""
    if principal is None:
        return None
    scopes = [scope for scope in principal.scopes if scope.workspace == workspace and scope.has(Verb.READ)]
    return None if any(scope.is_whole for scope in scopes) else sight(principal, Policy(workspace))


def _explore(client: HubClient, question: Question, deadline: float) -> Patch:
    end, pages, cursor, count = time.monotonic() + deadline, list[dict[str, Any]](), None, 0
    args = {
        "start": list(question.starts),
        "max_cost": question.max_cost,
        "max_depth": question.max_depth,
        "edge_types": list(question.edge_types),
        "direction": question.direction,
        "max_nodes": question.max_nodes,
        "budget": PAGE_TOKENS,
    }
    while True:
        try:
            page = client.call(
                question.workspace,
                "traverse",
                {**args, **({"cursor": cursor} if cursor else {})},
                reads=True,
                deadline=max(0.05, end - time.monotonic()),
            )
        except Unavailable:
            if not pages:
                raise
            return patch_from(pages, question, more=True)
        pages.append(page)
        cursor = page.get("cursor")
        nodes = page.get("nodes")
        count += len(nodes) if isinstance(nodes, list) else 0
        # The hub's cursor continues beyond `max_nodes`.
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
    """The file name for the time a workspace was last reached; one for all workspaces of a hub."""
    if not entry.hub:
        return entry.id
    return f"hub-{hashlib.sha256(entry.hub.rstrip('/').encode()).hexdigest()[:16]}"


def _key(entry: Entry) -> str:
    return f"{entry.hub} {entry.token}"


def _same_hub(one: Entry, other: Entry) -> bool:
    return (one.hub, one.token) == (other.hub, other.token)


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
