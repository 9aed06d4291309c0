"""The version cache: versions by path and commits by request id, from the database and the newest flushes.

A version decides whether an edit is stale, so it is never estimated. Callers wait while history is counted, and a
damaged database is rebuilt before it is used.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kgd.codec.paths import CONFLICTS
from kgd.errors import Advice, Damaged, Do, KgdError, Unavailable
from kgd.git.history import Change, Versioned
from kgd.git.history import versions as git_versions
from kgd.git.objects import ObjectId
from kgd.git.program import GitFailed
from kgd.git.store import ObjectStore
from kgd.index.database import IndexDamaged
from kgd.index.version_cache import VersionFile
from kgd.workspace.answers import Version
from kgd.workspace.parts import is_about_parts
from kgd.workspace.writing.signing import Seal
from kgd.workspace.writing.writer import Staged

READY_WITHIN = 120.0
"""Seconds a caller waits for versions or the text index before `Unavailable`."""
REQUESTS_READ = 20_000
"""Maximum number of commits read for request ids in a rebuild; a retry comes soon or not at all."""
LOOKED_KEPT = 4_096
"""Maximum number of cached versions; the least recently stored is evicted first."""

A = TypeVar("A")


class VersionCache:
    """Versions by path and commits by request id. The thread that flushes records, `Derived` writes, and any thread
    reads.

    Args:
        mend: Starts a rebuild of the database in the follower's thread; called when a read finds damage.
        counts: Returns the paths whose versions a commit's changes increase: nodes in a part, and the node of a detail.
    """

    def __init__(
        self,
        store: ObjectStore,
        file: VersionFile,
        mend: Callable[[], None],
        seal: Seal,
        counts: Callable[[Sequence[Change]], Iterable[str]],
    ) -> None:
        self._store, self._rows, self._mend, self._seal = store, file, mend, seal
        self._counts = counts
        self._lock = threading.Lock()
        self._fresh: dict[str, Version] = {}
        """Versions that the database may lack. An entry is removed once the database has it, if it has not changed
        since."""
        self._looked: OrderedDict[str, Version | None] = OrderedDict()
        """Recent answers of the database, since both staging and counting a change look up its versions."""
        self._era = 0
        """Incremented when an entry of `_looked` may become wrong; a look-up in progress is then not cached."""
        self._requests: dict[str, ObjectId] = {}
        self.problem = ""
        """Why the newest count of the history failed, so that versions are unknown; empty after a success."""
        self._apart: tuple[tuple[ObjectId, ObjectId] | None, Mapping[str, int]] = (None, {})
        """The last counts of `version_at`, and the two commits between which they were counted."""
        self._owed = 0
        self._ready = threading.Event()
        self._ready.set()

    # ---- notes

    def begin(self, *, anew: bool = False) -> None:
        """Announce a count of history: callers wait until `end` is called as often as `begin`. With `anew`, known
        versions are dropped."""
        with self._lock:
            self._owed += 1
            self._ready.clear()
            self._era += 1
            self._looked.clear()
            if anew:
                self._fresh.clear()

    def end(self) -> None:
        with self._lock:
            self._owed -= 1
            if not self._owed:
                self._ready.set()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def bump(self, staged: Sequence[Staged[object]]) -> dict[str, Version]:
        """Count a flush and return its new versions by path."""
        bumped: dict[str, Version] = {}
        for one in staged:
            if one.author is None:
                continue
            who, when = f"{one.author.name} <{one.author.email}>", one.author.time
            commit = one.commit.hex() if one.commit else ""
            for path in dict.fromkeys(self._counts(self._changes(one))):
                old = self.version(path)
                if old:
                    new = replace(old, count=old.count + 1, updated_at=when, updated_by=who, updated_commit=commit)
                    at, by = _written(old) if one.verifies else (0, "")
                    new = replace(new, written_at=at, written_by=by)
                else:
                    new = Version(1, when, who, when, who, commit)
                with self._lock:
                    self._fresh[path] = bumped[path] = new
                    self._era += 1
                    self._looked.pop(path, None)
        return bumped

    def remember(self, requests: Mapping[str, ObjectId]) -> None:
        with self._lock:
            self._requests.update(requests)

    # ---- reads

    def version(self, path: str, *, anew: bool = False) -> Version | None:
        """The version from history, including the newest flush. With `anew` the cache is skipped.

        Raises:
            Unavailable: Versions are still being counted after two minutes, or the database cannot be read.
        """
        with self._lock:
            if fresh := self._fresh.get(path):
                return fresh
            if path in self._looked and not anew:
                return self._looked[path]
            era = self._era
        found = self._ask(
            lambda: self._fresh.get(path) or self._rows.version(path), "versions are being counted from history"
        )
        self._cache({path: found}, era)
        return found

    def known(self, path: str) -> Version | None:
        """As `version`, but None instead of waiting or failing. Its count is 0 if no commit changed the path."""
        if not self.is_ready or self.problem:
            return None
        with contextlib.suppress(KgdError):
            return self.version(path) or Version(0, 0, "", 0, "", "")
        return None

    def prepare(self, paths: Collection[str]) -> None:
        """Look up and cache the versions of these paths with one query, unless it would wait or fail."""
        with self._lock:
            unknown = [path for path in paths if path not in self._fresh and path not in self._looked]
            era = self._era
        if unknown and self.is_ready:
            with contextlib.suppress(KgdError):  # the look-up of a single path reports it
                found = self._rows.versions(unknown)
                self._cache({path: found.get(path) for path in unknown}, era)

    def _cache(self, found: Mapping[str, Version | None], era: int) -> None:
        """Cache answers that were looked up in an era, if it has not ended."""
        with self._lock:
            if era == self._era:
                self._looked.update(found)
                while len(self._looked) > LOOKED_KEPT:
                    self._looked.popitem(last=False)

    def version_at(self, path: str, commit: ObjectId, tip: ObjectId) -> int:
        """The number of commits up to `commit` that changed the path. Takes time linear in the number of later commits
        or, if the commit is not an ancestor of the tip, in the length of the history.

        Raises:
            Unavailable: As `version`.
        """
        is_before = self._store.is_ancestor(commit, tip)
        with self._lock:
            key, counts = self._apart
        if key != (commit, tip):
            span = (tip, commit) if is_before else (commit, None)
            found = git_versions(self._store.git_dir, span[0], since=span[1], counted=self._counts)
            counts = {row.path: row.count for row in found}
            with self._lock:
                self._apart = (commit, tip), counts
        if not is_before:
            return counts.get(path, 0)
        version = self.version(path)
        return (version.count if version else 0) - counts.get(path, 0)

    def look(self, paths: Collection[str]) -> dict[str, Version]:
        """As `version`, for several paths and without waiting. Used by the follower, for which other threads wait."""
        with self._lock:
            fresh = {path: self._fresh[path] for path in paths if path in self._fresh}
        return self._rows.versions(path for path in paths if path not in fresh) | fresh

    def request(self, request: str) -> ObjectId | None:
        """The commit of a request id, from this session or an earlier one. Raises the errors of `version` as well.

        Raises:
            Unavailable: History cannot be read, so an unknown id may have been used.
        """
        with self._lock:
            fresh = self._requests.get(request)
        if fresh is not None:
            return fresh
        commit = self._ask(lambda: self._rows.request(request), "request ids are being read from history")
        if commit is None and self.problem:
            raise Unavailable(
                f"history cannot be read, so this request id may have been used: {self.problem}",
                next=Advice(
                    "Repeat the call with the same request_id after ", Do("status"), " reports an intact history."
                ),
            )
        return bytes.fromhex(commit) if commit else None

    # ---- the follower's thread

    def write(self, flushes: Sequence[tuple[Mapping[str, Version], Mapping[str, ObjectId]]], tip: ObjectId) -> None:
        """Write the versions of flushes, from `bump`, and their requests to the database; `tip` is the tip of the last
        flush."""
        last: dict[str, Version] = {}
        for versions, _ in flushes:
            last |= versions
        with self._rows.write():
            self._rows.bump(last.items(), head=tip.hex())
            for request, commit in ((id, commit) for _, requests in flushes for id, commit in requests.items()):
                self._rows.remember(request, commit.hex())

    def written(self, versions: Mapping[str, Version], requests: Mapping[str, ObjectId]) -> None:
        """Drop versions and requests that are now in the database."""
        with self._lock:
            for path, version in versions.items():
                if self._fresh.get(path) is version:
                    del self._fresh[path]
            for request in requests:
                self._requests.pop(request, None)

    def count(self, tip: ObjectId) -> None:
        """Update the database from any state to `tip`, by reading the history.

        If the database cannot be read or written, the counts stay in memory, so that answers remain correct.
        """
        try:
            self._count(tip)
        except (Damaged, GitFailed) as error:
            self.problem = str(error)[:200]
            raise

    def _count(self, tip: ObjectId) -> None:
        since, is_same_key = None, False
        try:
            head, is_same_key = self._rows.head(), self._rows.seal() == self._seal.name
            if head == tip.hex() and is_same_key:
                return
            since = bytes.fromhex(head) if head else None
            if since and not (self._store.exists(since) and self._store.is_ancestor(since, tip)):
                since = None
            rows = self._counted(since, tip)
        except Unavailable:
            since, rows = None, self._counted(None, tip)
        requests = self._read_requests(since if is_same_key else None, tip)
        try:
            with self._rows.write():
                self._rows.note_seal(self._seal.name)
                if since:
                    self._rows.bump(rows, head=tip.hex())
                else:
                    self._rows.replace(rows, head=tip.hex())
                for request, commit in requests:
                    self._rows.remember(request, commit.hex())
            if not since:
                self._rows.trim()
        except Unavailable:
            rows = rows if since else list(self._counted(None, tip))  # read again, before the lock is taken
            with self._lock:
                for path, row in rows:
                    self._fresh.setdefault(path, row)
                self._requests = dict(reversed(requests)) | self._requests
            self.problem = ""
            raise
        self.problem = ""

    # ---- inside

    def _read_requests(self, since: ObjectId | None, tip: ObjectId) -> list[tuple[str, ObjectId]]:
        """Request ids up to `tip`, the oldest request first, since the first record of an id is kept."""
        commits = self._store.history([tip], until=[since] if since else [], limit=REQUESTS_READ)
        asked = [(self._seal.request(self._store, commit.id, commit.message), commit.id) for commit in commits]
        return [(request, commit) for request, commit in reversed(asked) if request]

    def _counted(self, since: ObjectId | None, tip: ObjectId) -> Iterable[tuple[str, Version]]:
        """Versions up to `tip` by path, counted on top of the database's state at `since`, or from the first commit.

        In the second case, versions are read as they are used, since there may be a million.
        """
        counted: Iterable[Versioned] = git_versions(self._store.git_dir, tip, since=since, counted=self._counts)
        if since is None:
            return ((row.path, _version(row)) for row in counted)
        counted = list(counted)
        before = self._rows.versions(row.path for row in counted)
        return [(row.path, self._added(before.get(row.path), row)) for row in counted]

    def _added(self, old: Version | None, new: Versioned) -> Version:
        """A version with later commits added. Their newest one is not the newest of all if it was made beside the known
        one and is not later. The same holds for changes that are not verifications."""
        added = _version(new)
        if old is None:
            return added
        ids = [(one.updated_at, one.updated_by, one.updated_commit) for one in (old, added)]
        newest = old if ids[0] > ids[1] and self._is_beside(old, added.updated_commit) else added
        known, later = _written(old), (new.written_at, new.written_by)
        is_known = not new.written_by or (known > later and self._is_beside(old, new.written_commit))
        at, by = known if is_known else later
        written = (at, by) if (at, by) != (newest.updated_at, newest.updated_by) else (0, "")
        return replace(
            newest,
            count=old.count + new.count,
            created_at=old.created_at,
            created_by=old.created_by,
            written_at=written[0],
            written_by=written[1],
        )

    def _is_beside(self, old: Version, later: str) -> bool:
        """Whether a later counted commit does not descend from the newest commit of a known version."""
        return not self._store.is_ancestor(bytes.fromhex(old.updated_commit), bytes.fromhex(later))

    def _ask(self, question: Callable[[], A], waits_for: str) -> A:
        for last in (False, True):
            if not self._ready.wait(READY_WITHIN):
                raise come_back(waits_for)
            try:
                return question()
            except IndexDamaged:
                if last:
                    raise
                self._mend()
        raise AssertionError("unreachable")

    def _changes(self, one: Staged[object]) -> list[Change]:
        """The files of a commit, with their former blobs only where these determine which paths are counted."""
        files, tree = one.changed or {}, None
        if one.commit and any(map(_needs_former, files)):
            parents = self._store.commit(one.commit).parents
            tree = self._store.tree_of(parents[0]) if parents else None
        return [
            Change(path, self._store.entry(tree, path) if tree and _needs_former(path) else None, blob)
            for path, blob in files.items()
        ]


def _needs_former(path: str) -> bool:
    """Whether the former file determines which paths are counted."""
    return is_about_parts(path) or path.startswith(CONFLICTS)


def come_back(why: str) -> Unavailable:
    return Unavailable(
        f"not ready yet: {why}", next=Advice("Repeat the call in a moment; ", Do("status"), " shows the progress.")
    )


def _version(new: Versioned) -> Version:
    is_written = (new.written_at, new.written_by) == (new.updated_at, new.updated_by)
    written = (0, "") if is_written else (new.written_at, new.written_by)
    return Version(
        new.count, new.created_at, new.created_by, new.updated_at, new.updated_by, new.updated_commit, *written
    )


def _written(old: Version) -> tuple[int, str]:
    """Time and author of the newest change that is not a verification."""
    return (old.written_at, old.written_by) if old.written_by else (old.updated_at, old.updated_by)
