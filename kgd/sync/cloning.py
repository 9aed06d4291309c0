"""Clones of workspaces: fetched, vetted like everything from a remote, and then put in place completely or not at all.

`Clones` keeps read-only clones of workspaces for which the registry has a remote but no path. Such a clone has no work
tree. It is fetched once in the background; after that it only pulls. `replacement` is the command that replaces an old
copy of a workspace after `kgd forget`.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kgd.codec.settings import PATH, Settings, decode_settings
from kgd.config.entries import Entry
from kgd.errors import KgdError, Refused, Unavailable
from kgd.git import creation, refs, remote_settings
from kgd.git.creation import WHERE
from kgd.git.discovery import setting
from kgd.git.incoming import Incoming
from kgd.git.layout import CODE_BRANCH, ORIGIN, OWN_BRANCH, RETIRED, Layout, locate
from kgd.git.objects import ObjectId
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import Remote, RemoteUrl, parse_url
from kgd.git.store import ObjectStore
from kgd.sync.vetting import vet

PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""Seconds between a failed fetch and the next attempt: the first pause, which doubles each time, and the longest."""
CLOSE_SECONDS = 3.0

log = logging.getLogger("kgd.clones")


class NothingThere(Trouble):
    """The remote answers, but has no workspace under the expected refs."""


def clone(
    layout: Layout,
    url: RemoteUrl,
    network: Network,
    entry: Entry,
    *,
    direction: str = "both",
    allow: Callable[[str], None] | None = None,
) -> str:
    """Clone the remote into the repository of `layout`, without a work tree; returns the cloned ref.

    The remote becomes `origin` of the new repository.

    Args:
        entry: `id` is the expected workspace id, or empty for any; `ref` is the remote's ref, or empty for the usual
            names; `token` and `sync` become settings of the remote.
        allow: Called with the workspace's id before anything is kept; an exception leaves nothing behind.

    Raises:
        NothingThere: The remote has no workspace.
        Trouble: The remote cannot be reached, or its workspace has another id.
        KgdError: The content of the workspace was refused.
    """
    cloned = ""

    def fill(half: Path) -> None:
        nonlocal cloned
        remote = GitRemote(url, ObjectStore(half, layout.work_tree), network)
        usual = WHERE if layout.in_code else (*WHERE, OWN_BRANCH)
        cloned, tip = _look(remote, [entry.ref] if entry.ref else usual)
        with remote.fetch({cloned: tip}) as incoming:
            tip = incoming.tips[cloned]
            settings = _settings(incoming, tip)
            vet(incoming, tip, entry.id or settings.workspace, settings.sharded, newer=True)
            if allow is not None:
                allow(settings.workspace)
            incoming.keep()
            for name in (refs.HEAD, layout.branch):
                refs.move_ref(half, half / "kgd", name, None, tip, note=f"kgd: cloned {cloned}")
        made = replace(layout, git_dir=half)
        remote_settings.add(made, Remote("origin", url, cloned, entry.token, entry.sync, direction))

    creation.build_repository(layout, fill)
    return cloned


def _look(remote: GitRemote, wanted: Sequence[str]) -> tuple[str, ObjectId]:
    """The first of these refs on the remote, with its commit."""
    for one in wanted:
        if tip := remote.ls(one).get(one):
            return one, tip
    raise NothingThere(
        "vanished",
        f"the remote has no workspace under {' or '.join(wanted)}",
        at=remote.url.text,
        next="Name its ref with `ref:` in workspaces.yaml.",
    )


def _settings(incoming: Incoming, tip: ObjectId) -> Settings:
    """The settings of a workspace, whose id and sharding never change after its first commit."""
    blob = incoming.entry(incoming.tree_of(tip), PATH)
    if blob is None:
        raise Refused("the remote's ref has no workspace", next="Name another ref with --ref.")
    return decode_settings(incoming.read(blob), newer=True)


class Fetching(Unavailable):
    """The clone is being fetched for the first time; try again later."""


class Clones:
    """The read-only clones of one home. Thread-safe.

    Args:
        network: Returns the network settings for an entry; its event ends a transfer early.
    """

    def __init__(self, folder: Path, network: Callable[[Entry, threading.Event], Network]) -> None:
        self._folder, self._network = folder, network
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._running: dict[Path, threading.Thread] = {}
        self._failed: dict[Path, _Failure] = {}

    def layout(self, entry: Entry) -> Layout:
        """The clone for an entry with a remote but no path. Starts to fetch it if it is missing, and never waits.

        Raises:
            Fetching: The clone is being fetched.
            Unavailable: The last attempt failed. A later call starts another attempt.
        """
        if (there := self.found(entry)) is not None:
            return there
        place = self.place(entry)
        with self._lock:
            failure = self._failed.get(place)
            if failure is not None and time.monotonic() < failure.until:
                raise Unavailable(
                    f"the clone could not be fetched: {failure.error.message}", at=entry.remote, next=failure.error.next
                )
            if place not in self._running and not self._stop.is_set():
                thread = threading.Thread(target=self._run, args=(entry, place), name="kgd-clone", daemon=True)
                self._running[place] = thread
                thread.start()
        raise Fetching(f"workspace '{entry.id}' is being fetched", at=entry.remote, next="Ask again in a moment.")

    def found(self, entry: Entry) -> Layout | None:
        """The clone for an entry, if it has been fetched."""
        place = self.place(entry)
        return locate(place) if (place / ".git").exists() else None

    def problems(self) -> list[str]:
        """Clones that could not be fetched, one sentence each."""
        with self._lock:
            return sorted(f"{place.name}: {failure.error}" for place, failure in self._failed.items())

    def close(self) -> None:
        """End running fetches and kill their git programs. No partial clone is left."""
        self._stop.set()
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(CLOSE_SECONDS)

    def place(self, entry: Entry) -> Path:
        """The folder of a clone. Its name depends on address and ref, so a changed entry gets a new clone."""
        known = hashlib.sha256(f"{entry.remote}\0{entry.ref}".encode()).hexdigest()[:10]
        return self._folder / f"{entry.id}-{known}"

    def _run(self, entry: Entry, place: Path) -> None:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            layout = Layout(place / ".git", place, None, OWN_BRANCH)
            clone(layout, parse_url(entry.remote), self._network(entry, self._stop), entry, direction="pull")
            log.info("cloned", extra={"workspace": entry.id, "path": str(place)})
            failed = None
        except (KgdError, OSError) as error:
            failed = error if isinstance(error, KgdError) else Unavailable(f"disk error: {error.strerror}")
            log.warning("a clone failed", extra={"workspace": entry.id, "reason": str(failed)})
        with self._lock:
            del self._running[place]
            if failed is None:
                self._failed.pop(place, None)
            else:
                before = self._failed.get(place)
                pause = min(LONGEST_PAUSE, before.pause * 2) if before else PAUSE
                self._failed[place] = _Failure(failed, pause, time.monotonic() + pause)


class _Failure(NamedTuple):
    error: KgdError
    pause: float
    until: float


LONGEST_COMMAND = 360
"""Characters of a command that an error message can hold: a cut command could delete the wrong folder."""


def replacement(layout: Layout, workspace: str, remote: Remote) -> str:
    """The next step that replaces this copy: a shell command, or the page that explains it if it is too long."""
    command = command_for(layout, workspace, remote)
    if len(command) > LONGEST_COMMAND:
        return "Replace this copy as docs/forget.md shows."
    return f"Save unpushed changes (docs/forget.md), then `{command}`"


def command_for(layout: Layout, workspace: str, remote: Remote) -> str:
    """The shell command that deletes this copy, also the one that `kgd uninstall` keeps, and gets the workspace from
    the remote.

    A clone of the code has its own copy of the branch, from which `kgd up` would make the old workspace again; the
    command fetches it first.
    """
    folder = layout.folder.parent if layout.in_code else layout.folder
    here, usual = shlex.quote(str(folder)), CODE_BRANCH if layout.in_code else OWN_BRANCH
    add = [remote.name, remote.url.text]
    add += ["--ref", remote.ref] if remote.ref != usual else []
    add += ["--token", remote.token] if remote.token else []
    steps = [f"cd {here}", "kgd uninstall"]
    if layout.in_code:
        kept, code = layout.git_dir.with_name(RETIRED), layout.git_dir.parent
        name = str(kept.relative_to(folder)) if kept.is_relative_to(folder) else str(kept)
        origin = setting(code, f"remote.{ORIGIN}.url")
        steps.append(f"rm -rf {shlex.quote(name)}*")
        steps += [f"git fetch {ORIGIN}"] if origin else []
        steps.append(f"kgd up --id {workspace}")
        if origin == remote.url.text and len(add) == 2:
            return " && ".join([*steps, "kgd share"])
    else:
        form = "--bare" if layout.is_bare else "--standalone"
        name = shlex.quote(f"./{folder.name}")
        steps += ["cd ..", f"rm -rf {name}", f"mkdir {name}", f"cd {name}", f"kgd up {form} --id {workspace}"]
    return " && ".join([*steps, f"kgd remote add {shlex.join(add)}"])
