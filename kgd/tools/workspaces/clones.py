"""Clones of shared workspaces: cloned from the remote of a registry entry or address, and registered with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kgd.config.entries import Entry
from kgd.errors import InvariantViolation
from kgd.git import creation
from kgd.git import layout as layouts
from kgd.git.discovery import Place
from kgd.git.layout import Layout, own_layout
from kgd.git.remote_settings import parse_url
from kgd.sync.cloning import NothingThere, clone
from kgd.sync.hub_sign_in import network_of
from kgd.tools.session import Session


@dataclass(frozen=True, slots=True)
class Cloned:
    """A new clone, with the address and ref of its source."""

    layout: Layout
    source: str


def is_at(entry: Entry, directory: Path) -> bool:
    return bool(entry.path) and Path(entry.path).resolve() == directory


def is_free(entry: Entry, directory: Path) -> bool:
    """Whether the entry has a remote and the directory is missing, or empty and the entry's own path."""
    return bool(remote_of(entry)) and (not directory.exists() or (is_at(entry, directory) and _is_empty(directory)))


def remote_of(entry: Entry) -> str:
    """The git address of a workspace: the address of its hub, otherwise its remote; empty if it has neither."""
    return f"{entry.hub.rstrip('/')}/git/{entry.id}" if entry.hub else entry.remote


def clone_to(
    session: Session,
    where: Path | Place,
    entry: Entry,
    environment: Mapping[str, str],
    *,
    allow: Callable[[str], None],
    bare: bool = False,
) -> Cloned | None:
    """Clone a workspace into a directory, or into the code repository at `where`; None if the remote has no workspace
    yet.

    Args:
        where: An empty or missing directory, or the place of a code repository.
        entry: The entry whose remote and ref to clone. An empty id accepts any workspace.
        environment: Replaces the user's environment for git and for the token, unless empty.
        allow: Called with the id of the remote's workspace before anything is kept; may raise to refuse it.
        bare: The clone in a directory gets no work tree.

    Raises:
        InvariantViolation: The directory has files, or ``.kgd`` of the code repository is not free.
        KgdError: The remote cannot be reached, or its content was refused. Nothing was made.
    """
    if isinstance(where, Place):
        layout = layouts.code_layout(where)
        creation.check_place_is_free(where, layout)
    else:
        layout = _free(where, bare=bare)
    url = parse_url(remote_of(entry), layout.folder)
    network = network_of(entry.token, environment=environment, progress=session.progress)
    made = [one for one in (layout.git_dir.parent, *layout.git_dir.parent.parents) if not one.exists()]
    layout.git_dir.parent.mkdir(parents=True, exist_ok=True)
    try:
        ref = clone(layout, url, network, replace(entry, token="", sync=None), allow=allow)
    except NothingThere:
        return None
    finally:
        if not layout.git_dir.exists():
            with contextlib.suppress(OSError):
                for folder in made:
                    folder.rmdir()
    if isinstance(where, Place):
        creation.finish(where, layout)
    else:
        creation.fill_work_tree(layout)
    return Cloned(layout, f"{url.text} {ref}")


def register(session: Session, layout: Layout, entry: Entry) -> None:
    """Register a clone with its remote, through which it syncs. Replaces the workspace's entry."""
    registry = session.daemon.registry
    path = str(layout.code_tree if layout.in_code and layout.code_tree else layout.folder)
    known = registry.current().entries.get(entry.id)
    if known is not None and known.hub:
        registry.forget(entry.id)
    wanted = replace(entry, path=path, standalone=not layout.in_code, remote=remote_of(entry), hub="")
    registry.register(wanted, replace=True)


def _free(directory: Path, *, bare: bool) -> Layout:
    if directory.exists() and not _is_empty(directory):
        raise InvariantViolation(
            "the directory has files", at=str(directory), next="Name an empty or missing directory."
        )
    return own_layout(directory, bare=bare)


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())
