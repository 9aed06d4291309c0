"""The user's index: the changes that they staged, which kgd leaves alone for a while, and a sparse checkout.

`git add` and `git merge` write the index before the commit. If kgd moved the branch in between, git would refuse the
commit. So kgd neither commits staged files nor moves the branch until the user commits, or until nothing was staged for
`STAGED_SECONDS` and no git command runs: a person may stage files and forget them, and their edits must be served.
"""

from __future__ import annotations

import time

from kgd.git import index_file, user_index
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.workspace.publishing.publish_steps import Blocked, Signature

STAGED_SECONDS = 120.0
"""Seconds for which kgd leaves staged changes to the user, unless a git command still runs after that time."""


class UserStaging:
    """The staged changes and the left-out files of one work tree. Used only in the publication's thread."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._found: Signature | None = None
        self._stamp: index_file.Stamp | None = None
        self.left_out: frozenset[str] = frozenset()
        """Paths that a sparse checkout leaves out of the work tree."""
        self._key: tuple[index_file.Stamp, ObjectId | None] | None = None
        self._staged: dict[str, ObjectId | None] = {}
        self._since = 0
        """When the user last staged something, in nanoseconds since 1970."""
        self._held: bool | None = None
        self._settle = False
        self.is_in_use = False
        """Whether an edit waits for the user's commit."""

    def look(self, found: Signature, *, settle: bool) -> bool:
        """Set the state of git's files for the other calls; returns whether edits that waited are released.

        With `settle`, only a running git command keeps staged changes back.
        """
        self._found, self._settle, self._held = found, settle, None
        if found.stamp != self._stamp:
            self._stamp, self.left_out = found.stamp, user_index.left_out(self._layout.git_dir)
            self._changes()  # before a program can move the branch alone
        was = self.is_in_use
        self.is_in_use = was and self._is_held()
        return was and not self.is_in_use

    def holds(self, path: str) -> bool:
        """Whether kgd leaves the path alone: it is staged, or not in a sparse checkout."""
        if path in self.left_out:
            return True
        if path not in self._changes() or not self._is_held():
            return False
        self.is_in_use = True
        return True

    def check(self) -> None:
        """Raise Blocked if the branch must not move now, because the user is about to commit."""
        layout = self._layout
        if self._changes() and self._is_held():
            git, (first, *more) = layout.git_command, sorted(self._staged)
            what = f"{first} and {len(more)} more are" if more else f"{first} is"
            raise Blocked(
                f"{what} staged by you; `{git} commit` commits, `{git} reset` unstages; otherwise "
                f"kgd commits after {STAGED_SECONDS / 60:g} minutes",
                is_brief=False,
            )
        if user_index.is_commit_open(layout.git_dir, layout.branch) and self._is_git_running():
            raise Blocked("a git command is running in the work tree", is_brief=False)

    def published(self, found: Signature) -> None:
        """Record that kgd itself wrote the index and moved the branch."""
        self._stamp = found.stamp
        if not self._staged:
            self._key = (found.stamp, found.branch)

    def about(self) -> str:
        """A sentence about a sparse checkout; empty without one."""
        count = len(self.left_out)
        return f"the checkout is sparse: {count} file{'s are' if count > 1 else ' is'} not in it" if count else ""

    # ---- inside

    def _changes(self) -> dict[str, ObjectId | None]:
        assert self._found is not None
        key = (self._found.stamp, self._found.branch)
        if key != self._key:
            before, is_moved = self._staged, self._key is not None and self._key[0] == key[0]
            self._key, branch = key, self._found.branch
            self._staged = user_index.staged(self._layout.git_dir, branch) if branch else {}
            # A program that moves the branch alone stages nothing; a soft reset does, for the user's next commit.
            if is_moved and not user_index.is_after_reset(self._layout.git_dir, self._layout.branch):
                self._staged = {path: blob for path, blob in self._staged.items() if path in before}
            if not self._staged.items() <= before.items():
                self._since = min(time.time_ns(), self._found.stamp[1])
        return self._staged

    def _is_held(self) -> bool:
        if self._held is None:
            is_recent = not self._settle and time.time_ns() - self._since < STAGED_SECONDS * 1e9
            self._held = bool(self._changes()) and (is_recent or self._is_git_running())
        return self._held

    def _is_git_running(self) -> bool:
        return user_index.is_git_running(self._layout.work_tree, self._layout.git_dir)
