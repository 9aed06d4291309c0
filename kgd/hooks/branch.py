"""This file is where a plain git server knows which of its branches is the workspace that it guards.

Whoever may push code may push a ``kgd.yaml`` with it: what a push brings never says which branch is guarded, once there
is one. It is looked for in what the server held before, and remembered in its configuration when it is first seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kgd.codec.settings import Settings
from kgd.errors import Damaged, InvariantViolation, KgdError
from kgd.git import refs
from kgd.git.objects import ObjectId
from kgd.git.place import setting
from kgd.git.refs import PROPOSALS
from kgd.git.store import ObjectStore
from kgd.hooks.clone import settings_at

KEY = "kgd.branch"
USUAL = ("refs/heads/kgd", "refs/kgd/main")
"""Where a workspace lies in a repository that holds code."""

Pushed = Iterable[tuple[str, ObjectId | None]]
"""Full names of refs, and what a push wants them to be."""


def guarded(
    store: ObjectStore, git_dir: Path, pushed: Pushed, remember: Callable[[str], None]
) -> tuple[str, Settings] | None:
    """The full name of the branch that holds the workspace here, and what its ``kgd.yaml`` says before the push.

    Only where there was none before, it is one that the push brings. None where there is none after it either.

    Args:
        remember: Told which one it is where the configuration does not say so yet.

    Raises:
        InvariantViolation: Several branches could be it, and nobody has said which.
        KgdError: It cannot be read.
    """
    name = setting(git_dir, KEY)
    if not name:
        name = found_in(store, git_dir)
        if name:
            with contextlib.suppress(OSError):  # whoever pushes may not write it; then the next one finds it again
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
    """The one branch that holds a workspace, by what is there now: HEAD's or a usual one, else any other.

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
                "several branches here hold a kgd.yaml, so it is not known which of them is guarded",
                at=", ".join(found)[:120], next=f"On the server: `git config {KEY} <full name of the ref>`.",
            )  # fmt: skip
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
    """What the ``kgd.yaml`` there says; code may have a file of that name that is none of ours."""
    try:
        return settings_at(store, tip)
    except KgdError:
        return None
