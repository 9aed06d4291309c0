"""The project around a file, as name resolution sees it: files by key, symbols by path, and manifests by folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kgd.symbols.symbols import Import, Symbols


class Project(Protocol):
    """The files of the project. A result depends only on these answers, so an implementation may record them."""

    def symbols(self, path: str) -> Symbols | None:
        """The symbols of a file; None if there is no such file."""

    def files(self, key: str) -> Sequence[str]:
        """The files that provide a key of `kgd.symbols.modules`, sorted."""


class Place(NamedTuple):
    """The target of an import: the file of a module, or the files of a package; `rest` are the names to look up in it,
    in order. A file that ends in a slash is a folder: a namespace package of Python."""

    files: tuple[str, ...]
    rest: tuple[str, ...] = ()
    package: bool = False


NOWHERE = Place(())


def folders(path: str) -> Iterator[str]:
    """The folders around a file, innermost first; the top comes last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def join(*parts: str) -> str:
    """A normalised path below the top; empty for the top itself."""
    whole = posixpath.normpath(posixpath.join(*parts))
    return "" if whole == "." else whole


def manifests(folder: str, project: Project) -> Sequence[str]:
    """The manifests and similar marks of a project's top in a folder."""
    return project.files(f"manifests:{folder}")


def manifest(folder: str, names: Sequence[str], project: Project) -> str:
    """The first of these manifests in a folder; empty if it has none."""
    found = manifests(folder, project)
    return next((path for name in names if (path := posixpath.join(folder, name)) in found), "")


def manifest_around(path: str, names: Sequence[str], project: Project) -> str:
    """The first of these manifests in the innermost folder around a file that has any; empty if none has."""
    return next((found for one in folders(path) if (found := manifest(one, names, project))), "")


def declared(path: str, kind: str, project: Project) -> list[Import]:
    """What a manifest declares of one kind, in order."""
    symbols = project.symbols(path) if path else None
    return [one for one in symbols.imports if one.module == kind] if symbols else []


def one_of(found: Sequence[str], ends: Sequence[str]) -> str:
    """The file of a key that the language prefers, by the order of its extensions."""
    return next((one for end in ends for one in found if one.endswith(end)), "")


def nearest(found: Iterable[str], path: str) -> str:
    """Of several modules of one name, the module that shares most folders with its importer."""
    return next(iter(by_nearness(found, path)), "")


def by_nearness(found: Iterable[str], path: str) -> list[str]:
    """Files, sorted by the number of folders that they share with `path`, most first."""
    here = path.split("/")

    def distance(one: str) -> tuple[bool, int, int, str]:
        there = one.split("/")
        same = 0
        while same < min(len(here), len(there)) and here[same] == there[same]:
            same += 1
        return one.endswith(".pyi"), -same, len(there), one

    return sorted(found, key=distance)
