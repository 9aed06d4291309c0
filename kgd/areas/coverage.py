"""This file is where it is kept how much of a code tree areas cover: folder by folder, and which files are whose.

The tree and the patterns are walked together. A folder below which no pattern goes on is never entered, and one that a
scan left as it was is not walked again, so that a look costs what changed and not what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kgd.areas.patterns import Front, Matcher
from kgd.areas.places import DEEPEST
from kgd.model.uri import Uri

Owners = frozenset[Uri]


class Folder(Protocol):
    """A directory of a code tree as it is at one moment; it never changes."""

    @property
    def files(self) -> Mapping[str, object]: ...
    @property
    def folders(self) -> Mapping[str, Folder]: ...
    @property
    def file_count(self) -> int:
        """With everything below it."""


@dataclass(slots=True)
class Tally:
    """What is in one folder and below it. Not to be changed.

    `covered` files have an area, `shared` ones several. Everything here is of the areas in `whole`; those in `parts`
    have so many of the files. `sets` are the areas of its own files, or, where `inside` is None, of all below it alike.
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
    def uncovered(self) -> int:
        return self.files - self.covered

    @property
    def areas(self) -> int:
        """How many areas have a file here."""
        return (len(self.whole) if self.files else 0) + len(self.parts)

    def files_of(self, area: Uri) -> int:
        return self.files if area in self.whole else self.parts.get(area, 0)

    def largest(self, limit: int) -> list[tuple[Uri, int]]:
        """The areas with the most files here, those with as many by URI."""
        found = [(uri, self.files) for uri in self.whole] if self.files else []
        return sorted([*found, *self.parts.items()], key=lambda one: (-one[1], one[0]))[:limit]


class Coverage:
    """The coverage of one state of a code tree by one state of the areas. To be asked while the matcher stays as it is.

    Args:
        earlier: The coverage by the same areas of an earlier state of the tree.
        most: Steps of the matcher after which it is given up.

    Raises:
        Limit: It took more steps.
    """

    def __init__(self, matcher: Matcher, tree: Folder, most: int, earlier: Coverage | None = None) -> None:
        self._matcher, self._upto = matcher, matcher.steps + most
        self._known: dict[Owners, Owners] = {}
        self._sets: dict[Owners, tuple[int, str]] | None = None
        self.tree = tree
        self.top: Tally = self._tally(tree, matcher.begin(), earlier.top if earlier else None, 0)

    def at(self, path: str) -> Tally | None:
        """The tally of a folder, whose path ends in no slash; the top is "". None where there is no such folder."""
        found = self.top
        for name in path.split("/") if path else ():
            if name not in found.of.folders:
                return None
            found = self.below(found, name)
        return found

    def below(self, tally: Tally, name: str) -> Tally:
        """The tally of a folder right inside of another one."""
        known = tally.inside.get(name) if tally.inside is not None else None
        return known or self._alike(tally.of.folders[name], tally.front, 0)

    def owners(self, tally: Tally, name: str) -> Owners:
        """The areas of a file right inside of a folder."""
        return self._matcher.owners(tally.front, name)

    def overlaps(self) -> list[tuple[Owners, int, str]]:
        """Which areas have files in common: how many, and a folder where they have; the most files first."""
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
        """Paths of the files of an area, those of a folder before those of the folders in it. O(offset + limit), and
        the folders that it has a part of."""
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
        """Of a folder in which all files have the same areas. What is too deep to be matched has none."""
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
    """Files of an area from the `offset`-th on, at most `limit`."""
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
