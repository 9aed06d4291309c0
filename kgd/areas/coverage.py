"""Coverage of a code tree by areas, folder by folder, with the areas of each file.

The tree and the patterns are walked together. Folders without patterns below them are not entered, and unchanged
folders are not walked again, so the cost depends on the changes, not on the size of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kgd.areas.patterns import DEEPEST, Front, Matcher
from kgd.model.uri import Uri

Owners = frozenset[Uri]


class Folder(Protocol):
    """A directory of a code tree in one immutable state."""

    @property
    def files(self) -> Mapping[str, object]: ...
    @property
    def folders(self) -> Mapping[str, Folder]: ...
    @property
    def file_count(self) -> int:
        """Number of files, including everything below the folder."""


@dataclass(slots=True)
class Tally:
    """Counts for one folder and everything below it. Immutable for callers.

    `covered` files have an area, `shared` files several. All files belong to the areas in `whole`; `parts` maps other
    areas to their number of files. `sets` are the areas of the folder's own files or, if `inside` is None, of all files
    below the folder.
    """

    of: Folder
    front: Front
    files: int
    covered: int = 0
    shared: int = 0
    parts: dict[Uri, int] = field(default_factory=dict)
    sets: dict[Owners, int] = field(default_factory=dict)
    inside: dict[str, Tally] | None = None

    @property
    def whole(self) -> Owners:
        return self.front.owners

    @property
    def areas(self) -> int:
        """Number of areas that have a file here."""
        return (len(self.whole) if self.files else 0) + len(self.parts)

    def files_of(self, area: Uri) -> int:
        return self.files if area in self.whole else self.parts.get(area, 0)

    def largest(self, limit: int) -> list[tuple[Uri, int]]:
        """The areas with the most files here; areas with equally many files are sorted by URI."""
        found = [(uri, self.files) for uri in self.whole] if self.files else []
        return sorted([*found, *self.parts.items()], key=lambda one: (-one[1], one[0]))[:limit]


class Coverage:
    """The extent to which one state of the areas covers one state of a code tree. Valid while the matcher does not
    change.

    Args:
        earlier: The coverage of an earlier state of the tree by the same areas.
        most: Largest number of the matcher's steps.

    Raises:
        Limit: Counting takes more steps.
    """

    def __init__(self, matcher: Matcher, tree: Folder, most: int, earlier: Coverage | None = None) -> None:
        self._matcher, self._upto = matcher, matcher.steps + most
        self._known: dict[Owners, Owners] = {}
        self._sets: dict[Owners, tuple[int, str]] | None = None
        self.tree = tree
        self.top: Tally = self._tally(tree, matcher.begin(), earlier.top if earlier else None, 0)

    def at(self, path: str) -> Tally | None:
        """The tally of the folder at a path without a final slash ("" for the top); None if there is no such folder."""
        found = self.top
        for name in path.split("/") if path else ():
            if name not in found.of.folders:
                return None
            found = self.below(found, name)
        return found

    def below(self, tally: Tally, name: str) -> Tally:
        """The tally of a direct subfolder."""
        known = tally.inside.get(name) if tally.inside is not None else None
        return known or self._alike(tally.of.folders[name], tally.front, 0)

    def owners(self, tally: Tally, name: str) -> Owners:
        """The areas of a file directly in a folder."""
        return self._matcher.owners(tally.front, name)

    def overlaps(self) -> list[tuple[Owners, int, str]]:
        """Sets of areas with common files, the number of these files, and one of their folders; most files first."""
        if self._sets is None:
            self._sets = {}
            for path, tally in self._all():
                for owners, count in tally.sets.items():
                    if len(owners) > 1:
                        before, where = self._sets.get(owners, (0, path))
                        self._sets[owners] = (before + count, min(where, path, key=lambda one: (one.count("/"), one)))
        found = [(owners, count, where) for owners, (count, where) in self._sets.items()]
        return sorted(found, key=lambda one: (-one[1], one[2], len(one[0])))

    def files_of(self, area: Uri, offset: int, limit: int) -> list[str]:
        """Paths of an area's files, a folder's files before its subfolders. Costs O(offset + limit), plus the folders
        that are partly in the area.
        """
        return list(_page(self._matcher, self.top, area, offset, limit))

    def _all(self) -> Iterator[tuple[str, Tally]]:
        todo = [("", self.top)]
        while todo:
            path, tally = todo.pop()
            yield path, tally
            todo += [(f"{path}/{name}" if path else name, one) for name, one in (tally.inside or {}).items()]

    def _tally(self, folder: Folder, front: Front, earlier: Tally | None, depth: int) -> Tally:
        if earlier is not None and earlier.of is folder:
            return earlier
        if front.is_settled or depth >= DEEPEST:
            return self._alike(folder, front, depth)
        made = Tally(folder, front, folder.file_count, inside={})
        for name in folder.files:
            self._count(made, self._matcher.owners(front, name, self._upto), 1)
        for name, inner in folder.folders.items():
            known = earlier.inside.get(name) if earlier is not None and earlier.inside else None
            below = self._tally(inner, self._matcher.into(front, name, self._upto), known, depth + 1)
            _add(made, below)
            if made.inside is not None:
                made.inside[name] = below
        return made

    def _alike(self, folder: Folder, front: Front, depth: int) -> Tally:
        """The tally of a folder whose files all have the same areas. Files too deep to match have no areas."""
        front = front.settled(none=depth >= DEEPEST)
        made = Tally(folder, front, folder.file_count)
        if made.files:
            self._count(made, front.owners, made.files)
        return made

    def _count(self, made: Tally, owners: Owners, files: int) -> None:
        made.covered += files if owners else 0
        if len(owners) > 1:
            made.shared += files
            owners = self._known.setdefault(owners, owners)
            made.sets[owners] = made.sets.get(owners, 0) + files
        if owners is not made.whole:
            for uri in owners - made.whole:
                made.parts[uri] = made.parts.get(uri, 0) + files


def _add(made: Tally, below: Tally) -> None:
    made.covered += below.covered
    made.shared += below.shared
    if below.whole is not made.whole and below.files:
        for uri in below.whole - made.whole:
            made.parts[uri] = made.parts.get(uri, 0) + below.files
    for uri, files in below.parts.items():
        made.parts[uri] = made.parts.get(uri, 0) + files


def _page(matcher: Matcher, top: Tally, area: Uri, offset: int, limit: int) -> Iterator[str]:
    """At most `limit` files of an area, beginning with number `offset`."""
    todo: list[tuple[str, Tally | Folder]] = [("", top)]
    while todo and limit > 0:
        path, one = todo.pop()
        is_whole = not isinstance(one, Tally) or area in one.whole
        count = one.files_of(area) if isinstance(one, Tally) else one.file_count
        if count <= offset:
            offset -= count
            continue
        folder = one.of if isinstance(one, Tally) else one
        for name in sorted(folder.files):
            if is_whole or (isinstance(one, Tally) and area in matcher.owners(one.front, name)):
                if offset:
                    offset -= 1
                elif limit:
                    limit -= 1
                    yield f"{path}/{name}" if path else name
        for name in sorted(folder.folders, reverse=True):
            inner = folder.folders[name]
            known = (one.inside or {}).get(name) if isinstance(one, Tally) else None
            if is_whole or known is not None:
                todo.append((f"{path}/{name}" if path else name, known or inner))
