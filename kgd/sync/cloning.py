"""A clone of a workspace: fetched, vetted like everything from a remote, and put in place whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kgd.codec.settings import PATH, Settings, decode_settings
from kgd.config.registry import Entry
from kgd.errors import Refused
from kgd.git import creation, refs, remote_settings
from kgd.git.adopt import WHERE
from kgd.git.incoming import Incoming
from kgd.git.layout import OWN_BRANCH, Layout
from kgd.git.objects import ObjectId
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_settings import Remote
from kgd.git.store import ObjectStore
from kgd.git.trouble import Trouble
from kgd.git.url import RemoteUrl
from kgd.sync.vetting import vet


class NothingThere(Trouble):
    """The remote answers, and holds no workspace under the refs that were looked at."""


def clone(
    layout: Layout, url: RemoteUrl, network: Network, entry: Entry, *, direction: str = "both",
    allow: Callable[[str], None] | None = None,
) -> str:  # fmt: skip
    """Make the repository of `layout` from what the remote holds; the ref that was cloned. No work tree is written.

    The remote becomes `origin` of the new repository.

    Args:
        entry: `id` is the id that the workspace must have, empty for any; `ref` where the remote keeps it, empty for
            the usual names; `token` and `sync` are kept for the remote.
        allow: Called with the workspace's id before anything is kept; an exception leaves nothing behind.

    Raises:
        NothingThere: The remote has no workspace.
        Trouble: The remote cannot be asked, or its workspace has another id.
        KgdError: The content was refused.
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
    """The first of these refs that a remote has, with its commit."""
    for one in wanted:
        if tip := remote.ls(one).get(one):
            return one, tip
    raise NothingThere("vanished", f"the remote has no workspace under {' or '.join(wanted)}", at=remote.url.text,
                       next="Name its ref with `ref:` in workspaces.yaml.")  # fmt: skip


def _settings(incoming: Incoming, tip: ObjectId) -> Settings:
    """The id and the sharding of a workspace, which are fixed with its first commit."""
    blob = incoming.entry(incoming.tree_of(tip), PATH)
    if blob is None:
        raise Refused("what the remote has under this name is no workspace", next="Name another ref with --ref.")
    return decode_settings(incoming.read(blob), newer=True)
