"""In-memory index of a workspace's areas: molecules, atoms, and the paths of each.

Patterns are in the atoms' files, not in the graph. The first request reads all of these files; later requests read only
changed files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgd.areas.coverage import Coverage, Folder
from kgd.areas.patterns import Matcher, check_pattern, normalise
from kgd.errors import KgdError, Limit
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, scheme_of
from kgd.workspace.served import Beside, Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

ATOM, MOLECULE = "atom", "molecule"
STEPS = 10_000_000
"""Limit of steps for matching the paths of one call: some seconds, during which other requests for areas wait."""
COUNTING_STEPS = 30_000_000
"""Limit of steps for the first count of a tree after a change of patterns."""


@dataclass(frozen=True, slots=True)
class Molecule:
    uri: Uri
    name: str


@dataclass(frozen=True, slots=True)
class Atom:
    """An area. `patterns` are its valid patterns; `molecule` is the current URI of an existing molecule, or None."""

    uri: Uri
    name: str
    patterns: tuple[str, ...]
    molecule: Uri | None

    @property
    def depth(self) -> int:
        """The folder depth at which the narrowest pattern starts. An area of the whole tree has 0."""
        return max((pattern.split("*")[0].count("/") for pattern in self.patterns), default=0)


@dataclass(frozen=True, slots=True)
class Matches:
    """The atom of each path, and the paths without an atom, in the spelling and order of the request.

    Atoms are sorted by name, then by URI.
    """

    by_atom: dict[Uri, list[str]]
    unmatched: list[str]


class Atlas(Beside):
    """The areas of one workspace, including all acknowledged writes. Safe for any number of threads."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._molecules: dict[Uri, Molecule] = {}
        self._atoms: dict[Uri, Atom] = {}
        self._members: dict[Uri, set[Uri]] = {}
        """Atoms by the molecule that they name, which may not exist."""
        self._listed: list[Atom] | None = None
        self._matcher = Matcher()
        self._coverage: Coverage | None = None
        self._uncountable: Limit | None = None
        self._changed = Changed(workspace, ATOM, MOLECULE)

    def molecules(self) -> list[Molecule]:
        """Molecules by name, then by URI. O(molecules)."""
        with self._lock:
            self._refresh()
            return sorted(self._molecules.values(), key=_by_name)

    def atoms(self) -> list[Atom]:
        """Atoms by name, then by URI; cached until an area changes."""
        with self._lock:
            self._refresh()
            if self._listed is None:
                self._listed = sorted(map(self._shown, self._atoms.values()), key=_by_name)
            return list(self._listed)

    def molecule(self, uri: Uri) -> Molecule | None:
        with self._lock:
            self._refresh()
            return self._molecules.get(uri)

    def atom(self, uri: Uri) -> Atom | None:
        with self._lock:
            self._refresh()
            found = self._atoms.get(uri)
            return self._shown(found) if found else None

    def atoms_of(self, molecule: Uri) -> list[Atom]:
        """The atoms of a molecule, by name, then by URI. O(answer)."""
        with self._lock:
            self._refresh()
            named = {
                uri
                for one in (molecule, *self._workspace.graph.aliases(molecule))
                for uri in self._members.get(one, ())
            }
            found = (self._shown(self._atoms[uri]) for uri in named)
            return sorted((atom for atom in found if atom.molecule == molecule), key=_by_name)

    def begins(self, folder: str) -> bool:
        """Whether some area's pattern is this directory of the code tree, or begins with it."""
        with self._lock:
            return self._refresh().begins(folder)

    @contextmanager
    def coverage(self, tree: Folder) -> Iterator[Coverage]:
        """How much of a code tree the areas cover. Other requests wait until the block ends.

        Files are counted again if the tree or a pattern has changed since the last call.

        Raises:
            Limit: Counting takes too many steps. Counting is not tried again until a pattern changes.
        """
        with self._lock:
            matcher, known = self._refresh(), self._coverage
            if self._uncountable is not None:
                raise self._uncountable
            if known is None or known.tree is not tree:
                try:
                    self._coverage = known = Coverage(matcher, tree, COUNTING_STEPS, known)
                except Limit:
                    self._uncountable = Limit(
                        "the areas have too many patterns to count a code tree of this size",
                        next="Begin patterns with a folder: src/**/*.py takes less time than **/*.py.",
                    )
                    raise self._uncountable from None
            yield known

    def matching(
        self,
        paths: Sequence[str],
        *,
        sees: Callable[[Uri], bool] | None = None,
        at_home: bool = True,
        most: int | None = None,
    ) -> Matches:
        """The areas of these paths; a path may have any number of them.

        Args:
            paths: In any spelling that `patterns.normalise` reads; paths outside the code tree are unmatched.
            sees: Predicate for the atoms to consider; by default all.
            at_home: Whether absolute paths are from this machine; other absolute paths cannot be resolved.
            most: Largest number of steps, because other requests wait.

        Raises:
            Limit: Matching takes more steps.
        """
        root = self._workspace.layout.code_tree if at_home else None
        by_atom: dict[Uri, list[str]] = {}
        unmatched = []
        with self._lock:
            matcher = self._refresh()
            upto = matcher.steps + most if most is not None else None
            for path in dict.fromkeys(paths):
                place = normalise(path, root, workspace=self._workspace.id)
                hits = matcher.matches(place, upto) if place is not None else ()
                found = [uri for uri in hits if sees is None or sees(uri)]
                for uri in found:
                    by_atom.setdefault(uri, []).append(path)
                if not found:
                    unmatched.append(path)
            ordered = sorted((self._atoms[uri] for uri in by_atom), key=_by_name)
        return Matches({atom.uri: by_atom[atom.uri] for atom in ordered}, unmatched)

    # ---- following the workspace

    def _refresh(self) -> Matcher:
        changed = self._changed.unread()
        if changed:
            self._listed = None
        for uri in changed:
            self._forget(uri)
            self._take(uri)
            atom = self._atoms.get(uri)
            if scheme_of(uri) == ATOM and self._matcher.put(uri, atom.patterns if atom else ()):
                self._coverage = self._uncountable = None
        return self._matcher

    def _take(self, uri: Uri) -> None:
        node = self._workspace.readable(uri)
        if node is None:
            return
        if scheme_of(uri) == MOLECULE:
            self._molecules[uri] = Molecule(uri, node.title)
            return
        self._atoms[uri] = atom = Atom(uri, node.title, patterns_in(node), molecule_in(node))
        if atom.molecule:
            self._members.setdefault(atom.molecule, set()).add(uri)

    def _forget(self, uri: Uri) -> None:
        self._molecules.pop(uri, None)
        atom = self._atoms.pop(uri, None)
        if atom and atom.molecule:
            members = self._members[atom.molecule]
            members.discard(uri)
            if not members:
                del self._members[atom.molecule]

    def _shown(self, atom: Atom) -> Atom:
        """The atom with its molecule's current URI, or None if the molecule was deleted."""
        if atom.molecule is None or atom.molecule in self._molecules:
            return atom
        current = self._workspace.graph.resolve(atom.molecule)
        return replace(atom, molecule=current if current in self._molecules else None)


def patterns_in(node: Node) -> tuple[str, ...]:
    """The valid patterns in ``data.paths``; other values match nothing."""
    stored: Json = node.data.get("paths")
    found = []
    for text in stored if isinstance(stored, list) else ():
        try:
            found += [check_pattern(text, "paths")] if isinstance(text, str) else []
        except KgdError:
            continue
    return tuple(found)


def molecule_in(node: Node) -> Uri | None:
    """The molecule in ``data.moleculeId``, which may not exist."""
    stored: Json = node.data.get("moleculeId")
    return Uri(stored) if isinstance(stored, str) and stored else None


def _by_name(one: Atom | Molecule) -> tuple[str, Uri]:
    return one.name, one.uri
