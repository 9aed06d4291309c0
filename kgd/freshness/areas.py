"""Staleness of areas: whether an area's files changed a lot since its knowledge was last confirmed.

An area has patterns instead of citations. Writing or verifying an area confirms it. From then on, the lines that
commits change in its files are counted; at `SHARE` of the area's lines, it is stale (docs/staleness.md has the
measurements).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kgd.errors import KgdError
from kgd.freshness.citations import Unverified, confirmed_at
from kgd.freshness.code import ID, Churn, Code
from kgd.model.uri import Uri, path_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SHARE = 0.5
"""An area is stale from this ratio of lines added and removed to the current lines of its files."""
LEAST = 60
"""Minimum number of changed lines for an area to be stale, since a small file may be rewritten in a day."""
COMMITS = 3_000
"""Maximum number of code commits to count, newest first."""
FILES = 50_000
"""Maximum number of files in a code tree whose areas are measured."""


class Area(Protocol):
    @property
    def uri(self) -> Uri: ...


class Matched(Protocol):
    @property
    def by_atom(self) -> Mapping[Uri, Sequence[str]]: ...


class Atlas(Protocol):
    """The areas, and the paths of each."""

    def atoms(self) -> Sequence[Area]: ...
    def matching(self, paths: Sequence[str]) -> Matched: ...


@dataclass(frozen=True, slots=True)
class Moved:
    """How much an area's code has changed since the area was last confirmed."""

    changed: int
    """Lines added and removed by commits."""
    commits: int
    lines: int
    """Current lines of its files."""
    last: int
    """Unix time of the newest of these commits."""


class Areas:
    """The stale areas of one workspace. Not thread-safe."""

    def __init__(self, workspace: Workspace, code: Code, atlas: Atlas) -> None:
        self._workspace, self._code, self._atlas = workspace, code, atlas
        self._seen: tuple[str, dict[Uri, bytes | None]] | None = None
        self._scan: object = None
        self._found: dict[Uri, Unverified] = {}
        self.moved: Mapping[Uri, Moved] = {}
        """The areas with any change since they were confirmed. The mapping is replaced, never modified."""

    def unverified(self) -> dict[Uri, Unverified]:
        """The stale areas; recomputed only after a new commit of the code or a write to an area."""
        blobs = {area.uri: card.blob for area in self._atlas.atoms() if (card := self._workspace.graph.card(area.uri))}
        # Line counts come from a scan, which may be later than the commit that changed the files.
        scan = getattr(self._workspace.overlay, "view", None)
        seen = (self._code.look() if blobs else "", blobs)
        if seen != self._seen or scan is not self._scan:
            self.moved = {}
            self._found = self._count({uri: written_at(self._workspace, uri) for uri in blobs}) if seen[0] else {}
            self._seen, self._scan = seen, scan
        return self._found

    def _count(self, confirmed: Mapping[Uri, int]) -> dict[Uri, Unverified]:
        churn = self._code.churn(min(confirmed.values()), COMMITS)
        touched = self._atlas.matching(sorted({one.path for one in churn})).by_atom if churn else {}
        found: dict[Uri, Unverified] = {}
        moved: dict[Uri, Moved] = {}
        lines = self._lines(set(touched)) if touched else {}
        if lines is None:
            return {}
        for uri, paths in touched.items():
            mine = self._since_confirmed(uri, churn, confirmed.get(uri, 0), set(paths))
            if mine:
                commits = len({one.commit for one in mine})
                moved[uri] = Moved(sum(one.lines for one in mine), commits, lines.get(uri, 0), mine[0].at)
            if mark := judge(mine, lines.get(uri, 0)):
                found[uri] = mark
        self.moved = moved
        return found

    def _since_confirmed(self, uri: Uri, churn: Iterable[Churn], when: int, paths: set[str]) -> list[Churn]:
        """The changes in an area, newest first, since the commit at which it was verified, or since it was written."""
        node = self._workspace.readable(uri)
        if node is None:
            return []
        verified = confirmed_at(node)
        mine = []
        for one in churn:
            if one.commit[:ID] in verified:
                break
            if one.at > when and one.path in paths:
                mine.append(one)
        return mine

    def _lines(self, wanted: set[Uri]) -> dict[Uri, int] | None:
        """The current lines of each of these areas; None if unknown. O(files)."""
        overlay = self._workspace.overlay
        uris = getattr(overlay, "uris", None)
        node = getattr(overlay, "node", None)
        if uris is None or node is None:
            return None
        files = {path_of(uri): uri for uri in uris() if uri.startswith("file:")}
        if not files or len(files) > FILES:  # an empty tree has not been scanned yet, or is absent
            return None
        found: dict[Uri, int] = {}
        for area, paths in self._atlas.matching(list(files)).by_atom.items():
            if area in wanted:
                served = (node(files[path]) for path in paths)
                found[area] = sum(int(one.data.get("line_count") or 0) for one in served if one)
        return found


def judge(churn: Sequence[Churn], lines: int) -> Unverified | None:
    """Whether these changes, newest first, make an area of this many lines stale, and since which commit.

    An area whose files are all gone is stale.
    """
    needed, sum_so_far = max(LEAST, SHARE * lines), 0
    since: Churn | None = None
    for one in reversed(churn):
        sum_so_far += one.lines
        if since is None and sum_so_far >= needed:
            since = one
    if since is None:
        return None
    commits = len({one.commit for one in churn})
    return Unverified(
        since.commit,
        since.at,
        f"{sum_so_far:,} lines changed in {commits:,} commit{'s' if commits > 1 else ''} since it was last confirmed, "
        f"in an area of {lines:,} lines",
    )


def written_at(workspace: Workspace, uri: Uri) -> int:
    """When a node was last written, in Unix seconds; 0 if unknown."""
    try:
        version = workspace.node_version(uri)
    except KgdError:
        return 0
    return version.updated_at if version else 0
