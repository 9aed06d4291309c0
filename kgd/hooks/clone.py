"""The clone that a git command runs in: a workspace's own repository or any copy of it.

A workspace's repository inside a code repository is found from the code as well. Read-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgd.codec.settings import PATH, Settings, decode_settings
from kgd.errors import InvariantViolation, NotFound, Unavailable
from kgd.git import layout as layouts
from kgd.git import program, refs
from kgd.git.discovery import Place, find_place
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.model.node import NODE_BYTES


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository as the running git command sees it.

    `git_dir` belongs to this work tree, `common_dir` holds objects and configuration; they differ only in a linked
    worktree. `top` is the work tree, None in a bare repository.
    """

    git_dir: Path
    common_dir: Path
    top: Path | None

    def open(self) -> ObjectStore:
        """Its objects. Raises Unavailable if it borrows objects, is a partial clone, or uses SHA-256."""
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
        """Every value of a git setting as (origin, value); the last one is in effect."""
        arguments = ["config", "--show-origin", "-z", "--get-all", name]
        try:
            said = program.run(self.git_dir, arguments, cwd=self.git_dir, environment=environment)
        except program.GitFailed:
            return []
        words = said.decode("utf-8", "surrogateescape").split("\0")[:-1]
        found = zip(words[::2], words[1::2], strict=True)
        return [(origin, value) for origin, value in found if not origin.startswith("command line")]


def of_command(cwd: Path, environment: Mapping[str, str]) -> Clone:
    """The clone in which git runs us as its strategy or hook, from `GIT_DIR` or the current directory.

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
    """The clone of a workspace for a directory of the code, of the workspace, or of a copy.

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
    place = find_place(directory)
    if place is None:
        raise NotFound("there is no git repository here", at=str(directory), next="Run it in a clone of a workspace.")
    clone = _clone(place)
    if clone.top is None:
        return clone  # a server's: the workspace may come with a later push, or share the repository with code
    head = clone.head()
    if head is None or settings_at(clone.open(), head) is None:
        raise InvariantViolation(
            "this git repository is not a workspace",
            at=str(place.top or place.git_dir),
            next="Run it in a clone of a workspace, or make one with `kgd up`.",
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
