"""History: listing commits, and reading them by id, short id or revision such as ``HEAD~2``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, dropwhile, islice, takewhile
from operator import not_
from typing import NamedTuple

from kgd.codec import documents, paths
from kgd.git.objects import ObjectId, object_id
from kgd.model.change import subject_from
from kgd.model.conflict import Conflict
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import memory_files
from kgd.workspace.answers import Entry, NodeChange, Version
from kgd.workspace.history.commits import Past, PastGraph
from kgd.workspace.served import SentVersions, Served, Written

REVERT = "revert"
UNDO = "undo"
"""The operation of a commit made by undo, which the next undo skips. A `revert` is an ordinary change: the next undo
reverts it."""
ACCEPT = "accept"
"""The operation of a commit that accepts a proposal: a merge if it was accepted as a whole, a plain commit if in
part."""
NOT_UNDONE = ("init", "merge", "forget")
"""Operations whose commits are not undone."""
REVERTING, RESTORING = "revert:", "restore:"
"""The first word of the subject of a revert, and of the revert of a revert."""
MOST_RENAMED = 100
"""Maximum number of files of a commit that are compared to find a rename."""
LOOKED_AT = 100
"""Maximum number of commits to search for a commit that can be undone."""

_REVERTS = re.compile("Reverts (a part of )?([0-9a-f]{40})(?:: (.+))?").fullmatch
"""A line in kgd's message for a reverted commit: in part or as a whole, its id, and the nodes if not all."""
_REVERTS_OF_GIT = re.compile("^This reverts commit ([0-9a-f]{40})", re.M).findall


class History:
    """The commits that led to the tip. Every method that takes a commit raises `NotFound` if the commit is unknown.

    Args:
        count: Returns the version of a file; 0 if it has none.
        known: Returns the version of a file without waiting, with a count of 0 if it has none; None if it is not known.
        tip: Returns the id of the tip.
    """

    def __init__(
        self,
        past: Past,
        served: Served,
        sent: SentVersions,
        count: Callable[[str], int],
        known: Callable[[str], Version | None],
        tip: Callable[[], ObjectId],
    ) -> None:
        self._past, self._served, self._sent = past, served, sent
        self._count, self._known, self._tip = count, known, tip

    def entries(
        self,
        *,
        uri: Uri | None = None,
        former: Sequence[Uri] = (),
        commit: str | None = None,
        since: int | None = None,
        until: int | None = None,
        author: str | None = None,
        limit: int = 20,
        after: str | None = None,
        most_nodes: int = 50,
    ) -> tuple[Entry, ...]:
        """Commits, newest first; with `uri`, only commits of the node, and of its `former` URIs if given.

        `since` and `until` are Unix seconds; `after` is the last commit already seen. An entry has at most `most_nodes`
        nodes.
        """
        if commit is not None:
            return (self._past.entry(self._past.commit(self._past.commit_id(commit)), limit=most_nodes),)
        found = self._past.log(
            self._tip(),
            [file for one in (*filter(None, [uri]), *former) for file in self.files_of(one)],
            limit=limit,
            author=author,
            since=since,
            until=until,
            after=self._past.commit_id(after) if after else None,
            version=self._known(self._served.path_of(uri)) if uri is not None and not former else None,
        )
        return tuple(self._past.entry(one.commit, one.changes, limit=most_nodes) for one in found)

    def former(self, uri: Uri, sees: Callable[[Uri], bool] | None = None) -> tuple[Uri, ...]:
        """The URIs from which a node was moved, except hidden URIs and URIs that another node has now."""
        graph = self._served.graph
        return tuple(one for one in graph.aliases(uri) if graph.resolve(one) == uri and (sees is None or sees(one)))

    def renamed_from(self, uri: Uri, created: str) -> Uri | None:
        """The node whose file a person renamed to make this one, without an alias: the only node that was removed by
        the commit that created this one, and had the same content or, without content, the same other fields.

        None if there is none, or if the commit changed more than `MOST_RENAMED` files, which are not compared.
        """
        commit, store = self._past.commit(bytes.fromhex(created)), self._past.store
        if len(commit.parents) != 1:
            return None
        files = list(islice(store.diff(store.tree_of(commit.parents[0]), commit.tree), MOST_RENAMED + 1))
        if not 1 < len(files) <= MOST_RENAMED:
            return None
        changes = self.changes(created)
        made = next((one.after for one in changes if one.uri == uri and one.before is None), None)
        gone = [one.uri for one in changes if one.after is None and _is_renamed(one.before, made)]
        return gone[0] if len(gone) == 1 else None

    def files_of(self, uri: Uri) -> tuple[str, ...]:
        """The node's file, its detail file and the folder of its conflicts: a commit that changes a file, or resolves a
        conflict, is a version of the node."""
        data = self._served.bytes_of(uri) if self._served.graph.card(uri) else None
        node = documents.decode(data, at=uri) if data is not None else None
        folder = paths.conflict_path(uri, "", self._served.sharded).rpartition("/")[0]
        return tuple(filter(None, (self._served.path_of(uri), memory_files.file_of(node), folder)))

    def commit_id(self, text: str, *, of_tip: bool = False) -> str:
        """The full id in hex; with `of_tip`, only if it is the tip or an ancestor. See `Past.commit_id`."""
        return self._past.commit_id(text, of=self._tip() if of_tip else None).hex()

    def changes(self, commit: str, only: Collection[Uri] | None = None) -> tuple[NodeChange, ...]:
        """The node changes of a commit: all, or only the changes to the nodes in `only`."""
        return self._past.changes(self._past.commit_id(commit), only)

    def resolved(self, commit: str) -> Iterator[Conflict]:
        """See `Past.resolved`."""
        return self._past.resolved(self._past.commit_id(commit))

    def changes_between(self, a: str, b: str) -> tuple[NodeChange, ...]:
        return self._past.changes_between(self._past.commit_id(a), self._past.commit_id(b))

    def graph_at(self, commit: str) -> PastGraph:
        """See `Past.graph_at`."""
        return self._past.graph_at(self._past.commit_id(commit), self._tip(), self._served.graph)

    def undoable(self) -> Iterator[Entry]:
        """The commits among the newest hundred that can be undone, without their nodes; see the function `undoable`.
        Reads no trees."""
        return undoable(self.newest())

    def newest(self) -> Sequence[Entry]:
        """The newest hundred commits, without their nodes. Reads no trees."""
        newest = self._past.store.history([self._tip()], limit=LOOKED_AT)
        return self._past.without_nodes(one.id.hex() for one in newest)

    def node_read(self, uri: Uri, version: int) -> Node | None:
        """The node as it was sent with a version number; None if that was not recorded, or differs from history.

        The recorded content may be newer than the version if there was a write in between. Raises as `Workspace.node`.
        """
        path, store = self._served.path_of(uri), self._past.store
        sent = self._sent.get(path, version)
        if isinstance(sent, Written):
            return self._past.node_at(uri, sent.commit)
        before = self._count(path) - version
        entries = self.entries(uri=uri, limit=before + 1) if sent is not None and before >= 0 else ()
        if not 0 <= before < len(entries):
            return None
        # A merge may have chosen another side than the newest commit: then the next change began with the node as sent.
        after = bytes.fromhex(entries[before - 1].parents[0]) if before and entries[before - 1].parents else self._tip()
        for commit in (bytes.fromhex(entries[before].commit), after):
            node = self._past.node_at(uri, commit)
            if self._served.locations.part_with(uri):  # no blob in a part
                blob = object_id("blob", documents.encode(node)) if node else None
            else:
                blob = store.entry(store.tree_of(commit), path)
            if blob == sent:
                return node
        return None


def _is_renamed(before: Node | None, after: Node | None) -> bool:
    if before is None or after is None:
        return False
    if before.content or after.content:
        return before.content == after.content
    return replace(before, uri=after.uri, aliases=after.aliases) == after


class Reverted(NamedTuple):
    """A reverted commit. `nodes` are the nodes whose changes were reverted; empty if all were."""

    commit: str
    nodes: frozenset[str] = frozenset()
    is_whole: bool = False


def lines_of_reverts(reverted: Collection[Reverted]) -> str:
    """The last lines of a revert's message; `reverted_by` reads them."""
    is_named = len({one.nodes for one in reverted}) > 1
    return "\n".join(
        f"Reverts {'' if one.is_whole else 'a part of '}{one.commit}"
        + (f": {' '.join(sorted(one.nodes))}" if is_named and one.nodes else "")
        for one in reverted
    )


def reverted_by(entry: Entry) -> list[Reverted]:
    """The commits that a commit reverted, according to its message.

    kgd writes its lines after the author's text, so the text cannot name other commits. A commit made without kgd is
    read like one of `git revert`.
    """
    if entry.operation == "commit":
        return [Reverted(id) for id in _REVERTS_OF_GIT(entry.body)]
    if entry.operation not in (REVERT, UNDO):
        return []
    lines = dropwhile(not_, map(_REVERTS, reversed(entry.body.splitlines())))
    return [
        Reverted(line[2], frozenset((line[3] or "").split()), not line[1]) for line in takewhile(bool, lines) if line
    ]


def subject_of_revert(subject: str, operation: str) -> str:
    """The subject of a commit that reverts another one. The revert of a revert restores the original, which is named
    once.

    >>> subject_of_revert("revert: put concept://shop/a", REVERT)
    'restore: put concept://shop/a'
    """
    original, is_reverted = subject, False
    while operation in (REVERT, UNDO) and (prefix := next(filter(original.startswith, (REVERTING, RESTORING)), "")):
        original, is_reverted = original.removeprefix(prefix).lstrip(), is_reverted != (prefix == REVERTING)
    return subject_from(RESTORING if is_reverted else REVERTING, original)


def undoable(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The commits among these that can be undone: no merges, no undos, no lists of removed commits, and no commits that
    are already undone.

    An undone commit is skipped, and commits that it had reverted can be undone again. A proposal accepted as a whole is
    one change: its merge stands for the commits of the proposal.

    Args:
        entries: The newest commits, the tip first.
    """
    undone, own = set[str](), _own(entries)
    for entry in children_first(entries):
        if entry.commit in undone or entry.commit not in own:
            continue
        if entry.operation == UNDO:
            undone |= {one.commit for one in reverted_by(entry) if one.is_whole}
        elif entry.operation == ACCEPT or (entry.operation not in NOT_UNDONE and len(entry.parents) == 1):
            yield entry


def children_first(entries: Sequence[Entry]) -> list[Entry]:
    """The entries in their order, except that each one follows its children. git orders the commits of parallel
    branches by their clocks, which may run backwards."""
    places = {entry.commit: place for place, entry in enumerate(entries)}
    parents = [list[int]() for _ in entries]
    for own, entry in zip(parents, entries, strict=True):
        for id in entry.parents:
            if id in places:
                own.append(places[id])
    children = Counter(chain.from_iterable(parents))
    ready, found = [place for place in range(len(entries)) if not children[place]], list[Entry]()
    while ready:  # in ascending order, so it is a heap
        place = heappop(ready)
        found.append(entries[place])
        for parent in parents[place]:
            children[parent] -= 1
            if not children[parent]:
                heappush(ready, parent)
    return found


def _own(entries: Sequence[Entry]) -> set[str]:
    """The commits that did not arrive only through the acceptance of a proposal."""
    known = {entry.commit: entry for entry in entries}
    found, open = set[str](), [entry.commit for entry in entries[:1]]
    while open:
        commit = open.pop()
        if commit in known and commit not in found:
            found.add(commit)
            entry = known[commit]
            open += entry.parents[:1] if entry.operation == ACCEPT else entry.parents
    return found
