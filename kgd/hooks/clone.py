"""The clone in which a git command runs (a workspace's own repository or any copy of it), and its guarded branch.

A workspace's repository inside a code repository is found from the code as well. Read-only.

On a plain git server, the guarded branch holds the workspace. A push of code may contain a ``kgd.yaml``, so the content
of a push never changes which branch is guarded. The branch is found in the server's refs before the push, and recorded
in the server's configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgd.codec.settings import PATH, Settings, decode_settings
from kgd.errors import Damaged, InvariantViolation, KgdError, NotFound, Unavailable
from kgd.git import layout as layouts
from kgd.git import program, refs
from kgd.git.discovery import Place, find_place, repository_of, setting
from kgd.git.objects import ObjectId
from kgd.git.refs import PROPOSALS
from kgd.git.store import ObjectStore
from kgd.model.node import NODE_BYTES


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository as the running git command sees it.

    `git_dir` belongs to this work tree, `common_dir` holds objects and configuration; they differ only in a linked
    worktree. `top` is the work tree, or None in a bare repository.
    """

    git_dir: Path
    common_dir: Path
    top: Path | None

    def open(self) -> ObjectStore:
        """Open the clone's objects. Raises Unavailable if the clone borrows objects, is partial, or uses SHA-256."""
        return ObjectStore(self.common_dir, self.top)

    def head(self) -> ObjectId | None:
        """The checked-out commit; None before the first one."""
        branch = refs.checked_out(self.git_dir)
        if branch is None:
            return refs.read_ref(self.git_dir, "HEAD")
        return refs.read_ref(self.common_dir, branch)

    def git(self, *arguments: str, input: bytes | None = None) -> bytes:
        """The output of git in this work tree. Runs no hooks or programs that the repository or the user configured.

        Raises:
            GitFailed, Unavailable, Limit: As in `kgd.git.program.run`.
        """
        tree = [f"--work-tree={self.top}"] if self.top else []
        return program.run(self.git_dir, [*tree, *arguments], input=input, cwd=self.top or self.git_dir)

    def configured(self, name: str, environment: Mapping[str, str]) -> list[tuple[str, str]]:
        """Every value of a git setting as (origin, value); the last value is in effect."""
        arguments = ["config", "--show-origin", "-z", "--get-all", name]
        try:
            said = program.run(self.git_dir, arguments, cwd=self.git_dir, environment=environment)
        except program.GitFailed:
            return []
        words = said.decode("utf-8", "surrogateescape").split("\0")[:-1]
        found = zip(words[::2], words[1::2], strict=True)
        return [(origin, value) for origin, value in found if not origin.startswith("command line")]


def of_command(cwd: Path, environment: Mapping[str, str]) -> Clone:
    """The clone in which git runs this program as its strategy or hook, from `GIT_DIR` or the current directory.

    Raises:
        NotFound: There is no repository.
    """
    named = environment.get("GIT_DIR")
    place = find_place(cwd / named if named else cwd)
    if place is None:
        raise NotFound("there is no git repository here", at=str(cwd))
    tree = environment.get("GIT_WORK_TREE")
    if tree:
        return Clone(place.git_dir, place.common_dir, (cwd / tree).resolve())
    bare = place.main_tree is None and place.git_dir == place.common_dir
    top = None if bare or environment.get("GIT_QUARANTINE_PATH") else place.top or (cwd.resolve() if named else None)
    return Clone(place.git_dir, place.common_dir, top)


def of_directory(directory: Path) -> Clone:
    """The clone that a directory belongs to. The directory may be in the code, in the workspace, or in a copy of
    either.

    Raises:
        NotFound: There is no repository.
        InvariantViolation: The repository is not a workspace.
    """
    layout = layouts.locate(directory)
    if layout is not None:
        if not layout.in_code:
            found = find_place(directory)
            if found is not None:
                return _clone(found)
        return Clone(layout.git_dir, layout.git_dir, layout.work_tree)
    place = repository_of(directory, "Run it in a clone of a workspace.")
    clone = _clone(place)
    if clone.top is None:
        return clone  # a server's repository: the workspace may be pushed later, or share the repository with code
    head = clone.head()
    if head is None or settings_at(clone.open(), head) is None:
        raise InvariantViolation(
            "this git repository is not a workspace",
            at=str(place.top or place.git_dir),
            next="Run it in a clone of a workspace, or create a workspace with `kgd up`.",
        )
    return clone


def settings_at(store: ObjectStore, commit: ObjectId) -> Settings | None:
    """The `kgd.yaml` of a commit, or None if it is not a workspace.

    Raises:
        KgdError: The file cannot be read.
    """
    return settings_in(store, store.tree_of(commit))


def settings_in(store: ObjectStore, tree: ObjectId) -> Settings | None:
    """The `kgd.yaml` of a tree."""
    blob = store.entry(tree, PATH)
    return None if blob is None else decode_settings(store.read(blob, NODE_BYTES), newer=True)


def refuse_redirection(environment: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise Unavailable if a variable redirects git's index or objects, which kgd does not follow."""
    for name in names:
        if environment.get(name):
            raise Unavailable(f"the environment sets {name}, which kgd does not follow", next=f"Run `unset {name}`.")


def _clone(place: Place) -> Clone:
    return Clone(place.git_dir, place.common_dir, place.top or place.main_tree)


KEY = "kgd.branch"
USUAL = ("refs/heads/kgd", "refs/kgd/main")
"""Usual refs of a workspace in a code repository."""

Pushed = Iterable[tuple[str, ObjectId | None]]
"""Full names of refs, and their new values."""


def guarded(
    store: ObjectStore, git_dir: Path, pushed: Pushed, remember: Callable[[str], None]
) -> tuple[str, Settings] | None:
    """The full name of the guarded branch, and its ``kgd.yaml`` before the push.

    If no branch held a workspace before the push, this is a branch of the push; None if no branch holds one after the
    push either.

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
            with contextlib.suppress(OSError):  # if it cannot be written, each push finds the branch again
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
    """The branch that currently holds a workspace: HEAD's branch, otherwise one of the usual refs, otherwise any other
    branch.

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
