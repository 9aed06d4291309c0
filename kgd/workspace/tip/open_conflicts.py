"""Open conflicts: finding and counting them while reading as few records as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import islice

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.git.store import ObjectStore
from kgd.model.uri import Uri
from kgd.workspace.answers import OpenConflict
from kgd.workspace.tip.served import Served

READ_TO_COUNT = 20
"""If more records than this are about some nodes, only their paths are counted."""
SUBJECTS = 20_000
"""Maximum number of cached subjects of records."""

Counts = Callable[[Uri], bool]


class OpenConflicts:
    """The open conflicts of a workspace, as served."""

    def __init__(self, store: ObjectStore, served: Served, workspace: str, sharded: frozenset[str]) -> None:
        self._store, self._served, self._workspace, self._sharded = store, served, workspace, sharded

    @property
    def total(self) -> int:
        """The number of open conflicts, from memory."""
        return self._served.conflict_count

    def find(
        self,
        uri: Uri | None = None,
        *,
        limit: int = 200,
        after: str = "",
        digest: str = "",
        about: Counts | None = None,
    ) -> tuple[OpenConflict, ...]:
        """Open conflicts of one node, or all, in the order of their records, starting after the record `after`.

        Args:
            digest: Find only the record with this name; no other record is read.
            about: Predicate for nodes; a record is included if it holds for all nodes that the record mentions. Records
                are read only until `limit` is reached.
        """
        chosen = (path for path in self._paths(uri) if path > after)
        if digest:
            chosen = (path for path in chosen if path.endswith(f"/{digest}.yaml"))
        if about is not None:
            chosen = (path for path in chosen if (named := self._subject(path)) is None or about(named))
        found = (one for path in chosen if (one := self._read(path)))
        if about is not None:
            found = (one for one in found if about(one.uri) and all(map(about, one.conflict.mentioned_uris())))
        return tuple(islice(found, limit))

    def count(self, uri: Uri | None = None, *, about: Counts | None = None) -> int:
        """The number of open conflicts of one node, or of nodes for which `about` holds. Reads a record only if its
        path does not identify its node.

        If there are many records, other nodes mentioned in a record are ignored, so that ten thousand records can be
        counted quickly.
        """
        if about is not None and len(few := self.find(uri, limit=READ_TO_COUNT, about=about)) < READ_TO_COUNT:
            return len(few)
        found = self._paths(uri)
        if about is None:
            return len(found)
        named = ((path, self._subject(path)) for path in found)
        return sum(
            about(one) if one else (read := self._read(path)) is not None and about(read.uri) for path, one in named
        )

    def of(self, uris: Collection[Uri], *, about: Counts | None = None) -> tuple[OpenConflict, ...]:
        """Open conflicts about these nodes. Costs one look-up for each node."""
        if not self.total:
            return ()
        return tuple(one for uri in sorted(uris) for one in self.find(uri, about=about) if one.uri == uri)

    def _paths(self, uri: Uri | None) -> list[str]:
        folder = paths.conflict_path(uri, "x", self._sharded).rpartition("/")[0] if uri else None
        return self._served.conflict_paths(folder)

    def _subject(self, path: str) -> Uri | None:
        """The node of a record, from the record's path if possible, because reading thousands of records would be
        slow."""
        return _subject_in(path, self._workspace, self._sharded)

    def _read(self, path: str) -> OpenConflict | None:
        tree = self._served.tree
        blob = self._store.entry(tree, path) if tree else None
        try:
            conflict = (
                documents.read_record(self._store.read(blob), path, self._sharded, self._workspace) if blob else None
            )
        except KgdError:
            return None
        return OpenConflict(conflict.id, path, conflict) if conflict else None


@lru_cache(maxsize=SUBJECTS)
def _subject_in(path: str, workspace: str, sharded: frozenset[str]) -> Uri | None:
    folder, _, name = path.removeprefix("conflicts/").rpartition("/")
    try:
        uri = paths.uri_of(f"nodes/{folder}.yaml", workspace, sharded)
    except KgdError:
        return None
    told = uri is not None and paths.conflict_path(uri, name.removesuffix(".yaml"), sharded) == path
    return uri if told else None
