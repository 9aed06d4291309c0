"""The branch of a plain git server that holds the workspace and is guarded.

A push of code may contain a ``kgd.yaml``, so the content of a push never changes the guarded branch. It is found in the
server's refs before the push, and recorded in its configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kgd.codec.settings import Settings
from kgd.errors import Damaged, InvariantViolation, KgdError
from kgd.git import refs
from kgd.git.discovery import setting
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS
from kgd.git.store import ObjectStore
from kgd.hooks.clone import settings_at

KEY = "kgd.branch"
USUAL = ("refs/heads/kgd", "refs/kgd/main")
"""Usual refs of a workspace in a code repository."""

Pushed = Iterable[tuple[str, ObjectId | None]]
"""Full names of refs, with their new values."""


def guarded(
    store: ObjectStore, git_dir: Path, pushed: Pushed, remember: Callable[[str], None]
) -> tuple[str, Settings] | None:
    """The full name of the guarded branch, and its ``kgd.yaml`` before the push.

    If there was none before, a branch of the push; None if there is no workspace after the push either.

    Args:
        remember: Called with the branch if the configuration does not name it yet.

    Raises:
        InvariantViolation: Several branches hold a workspace, and none is configured.
        KgdError: The branch cannot be read.
    """
    name = setting(git_dir, KEY)
    if not name:
        name = found_in(store, git_dir)
        if name:
            with contextlib.suppress(OSError):  # without the right to write it, each push finds it again
                remember(name)
    brought = dict(pushed)
    if name:
        tip = store.ref(name)
        settings = settings_at(store, tip) if tip else None
        new = brought.get(name)
        if settings is None and new is not None:
            settings = settings_at(store, new)
        return (name, settings) if settings else None
    for name in dict.fromkeys((*_candidates(git_dir), *sorted(brought))):
        new = brought.get(name)
        if new is not None and not _is_proposal(name) and (settings := _readable(store, new)):
            return name, settings
    return None


def found_in(store: ObjectStore, git_dir: Path) -> str | None:
    """The branch that holds a workspace now: HEAD's or a usual one, else any other.

    Raises:
        InvariantViolation: There are several.
    """
    usual, others = list(_candidates(git_dir)), sorted(refs.list_refs(git_dir, "refs/heads/"))
    for names in (usual, others):
        found = [
            name
            for name in dict.fromkeys(names)
            if not _is_proposal(name) and (tip := store.ref(name)) is not None and _readable(store, tip)
        ]
        if len(found) > 1:
            raise InvariantViolation(
                "several branches here hold a kgd.yaml, so the guarded branch is unknown",
                at=", ".join(found)[:120],
                next=f"On the server: `git config {KEY} <full name of the ref>`.",
            )
        if found:
            return found[0]
    return None


def _candidates(git_dir: Path) -> Iterator[str]:
    with contextlib.suppress(Damaged):
        if head := refs.checked_out(git_dir):
            yield head
    yield from USUAL


def _is_proposal(name: str) -> bool:
    return name.startswith(PROPOSALS) or "-proposals/" in name


def _readable(store: ObjectStore, tip: ObjectId) -> Settings | None:
    """The ``kgd.yaml`` there, if it is kgd's; code may have an unrelated file of that name."""
    try:
        return settings_at(store, tip)
    except KgdError:
        return None
