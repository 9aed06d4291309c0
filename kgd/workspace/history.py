"""This file is where commits are listed and looked into by what people call them: an id, a short one, ``HEAD~2``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kgd.codec import bulk
from kgd.git.history import log as git_log
from kgd.git.objects import ObjectId
from kgd.model.uri import Uri
from kgd.workspace import memory_files, reverting
from kgd.workspace.node_files import node_changes
from kgd.workspace.outcome import Entry, NodeChange

if TYPE_CHECKING:
    from kgd.workspace.past import PastGraph
    from kgd.workspace.workspace import Workspace


class History:
    """What led to the tip of a workspace. Whatever takes a commit raises `NotFound` where there is none; see `Past`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._past = workspace, workspace.past

    def entries(
        self,
        *,
        uri: Uri | None = None,
        commit: str | None = None,
        since: int | None = None,
        until: int | None = None,
        author: str | None = None,
        limit: int = 20,
        after: str | None = None,
    ) -> tuple[Entry, ...]:
        """Commits, newest first. `since` and `until` are Unix seconds; `after` is the last commit already seen."""
        if commit is not None:
            return (self._past.entry(self._past.commit(self._past.commit_id(commit))),)
        store, sharded = self._workspace.store, self._workspace.sharded
        seen = self._past.commit_id(after) if after else None
        if uri is not None and bulk.folder_of(uri):
            version = self._workspace.node_version(uri)
            found = self._past.log(
                self._tip, self.files_of(uri), limit=limit, versions=version.count if version else 0,
                author=author, since=since, until=until, after=seen,
            )  # fmt: skip
        else:
            found = git_log(
                store, self._tip, paths=self.files_of(uri) if uri else (), author=author, since=since, until=until,
                limit=limit, after=seen, select=lambda changes: node_changes(store, sharded, changes),
            )  # fmt: skip
        return tuple(self._past.entry(one.commit, one.changes) for one in found)

    def files_of(self, uri: Uri) -> tuple[str, ...]:
        """The node's file, and that of its detail: a commit that changes one of them is a version of the node."""
        node = self._workspace.node(uri) if self._workspace.graph.card(uri) else None
        return tuple(path for path in (self._workspace.path(uri), memory_files.file_of(node)) if path)

    def commit_id(self, text: str, *, of_tip: bool = False) -> str:
        """The whole id, in hex; with `of_tip` only of a commit that led to the tip. See `Past.commit_id`."""
        return self._past.commit_id(text, of=self._tip if of_tip else None).hex()

    def changes(self, commit: str, only: Collection[Uri] | None = None) -> tuple[NodeChange, ...]:
        """What a commit made of nodes, or of these alone."""
        return self._past.changes(self._past.commit_id(commit), only)

    def changes_between(self, a: str, b: str) -> tuple[NodeChange, ...]:
        return self._past.changes_between(self._past.commit_id(a), self._past.commit_id(b))

    def graph_at(self, commit: str) -> PastGraph:
        """See `Past.graph_at`."""
        return self._past.graph_at(self._past.commit_id(commit), self._tip, self._workspace.graph)

    def undoable(self) -> Iterator[str]:
        """Those of the newest hundred commits that a person would want undone; see `reverting.undoable`."""
        return reverting.undoable(self.entries(limit=reverting.LOOKED_AT))

    @property
    def _tip(self) -> ObjectId:
        return bytes.fromhex(self._workspace.tip)
