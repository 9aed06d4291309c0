"""Module look-up: the keys that a file can be imported by, and the target of an import in each language.

A file is known by keys such as ``path:shop/orders``, ``java:org.shop.Order`` or ``manifests:shop``. Resolution looks up
only keys and the symbols of files, so changes of these determine which files must be resolved again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from kgd.symbols import python, script_modules
from kgd.symbols.go import IGNORED
from kgd.symbols.symbols import (
    NOWHERE,
    Import,
    Place,
    Project,
    Symbols,
    by_nearness,
    declared,
    folders,
    join,
    manifest,
    manifest_around,
    nearest,
)


def keys_of(path: str, symbols: Symbols) -> list[str]:
    """The keys that a file provides."""
    folder, _, name = path.rpartition("/")
    match symbols.language:
        case "python":
            return python.keys_of(path)
        case "javascript" | "typescript" | "tsx":
            return script_modules.keys_of(path)
        case "go":
            return [f"go:{folder}"] if symbols.package != IGNORED else []
        case "java":
            top = [symbol.name for symbol in symbols.symbols if "." not in symbol.name]
            before = f"{symbols.package}." if symbols.package else ""
            return [f"javas:{symbols.package}", *(f"java:{before}{name}" for name in top)]
        case "rust":
            return [f"path:{path.removesuffix('.rs')}"]
        case "manifest":
            named = [f"npm:{symbols.package}"] if name == "package.json" and symbols.package else []
            crates = [f"crate:{one.name}" for one in symbols.imports if one.module == "lib"]
            return [f"manifests:{folder}", *named, *crates]
    return []


def find(one: Import, path: str, symbols: Symbols, project: Project) -> Place:
    """The target of an import in `path`, in any language except Rust."""
    match symbols.language:
        case "python":
            return python.find(one.module, one.name, path, project)
        case "javascript" | "typescript":
            return script_modules.find(one.module, path, project)
        case "go":
            return _go(one.module, path, project)
        case "java":
            return _java(one.module, path, project)
    return NOWHERE


def siblings(path: str, symbols: Symbols, project: Project) -> Sequence[str]:
    """The files whose names are visible in this file without an import."""
    if symbols.language == "go":
        return project.files(f"go:{posixpath.dirname(path)}")
    if symbols.language == "java":
        return project.files(f"javas:{symbols.package}")
    return ()


def _go(module: str, path: str, project: Project) -> Place:
    """A package of the enclosing module, of a module that go.mod or go.work maps to a folder, or of `vendor`."""
    home = manifest_around(path, ("go.mod",), project)
    own = project.symbols(home) if home else None
    if own is None or not own.package:
        return NOWHERE
    places = {own.package: posixpath.dirname(home)}
    works = [work for one in folders(path) if (work := manifest(one, ("go.work",), project))]
    for work in works:
        for used in declared(work, "use", project):
            folder = join(posixpath.dirname(work), used.name)
            other = project.symbols(manifest(folder, ("go.mod",), project) or work)
            if other is not None and other.package:
                places[other.package] = folder
    for said in (home, *works):
        for one in declared(said, "replace", project):
            places[one.name] = join(posixpath.dirname(said), one.alias)
    parts = module.split("/")
    for end in range(len(parts), 0, -1):
        place = places.get("/".join(parts[:end]))
        if place is not None:
            return _go_package(join(place, *parts[end:]), project)
    return _go_package(join(posixpath.dirname(home), "vendor", module), project)


def _go_package(folder: str, project: Project) -> Place:
    found = project.files(f"go:{folder}")
    return Place(tuple(one for one in found if not one.endswith("_test.go")), (), True)


def _java(module: str, path: str, project: Project) -> Place:
    """A package, or a class and names in it."""
    found = project.files(f"javas:{module}")
    if found:
        return Place(tuple(by_nearness(found, path)), (), True)
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        found = project.files(f"java:{'.'.join(parts[:end])}")
        if found:
            return Place((nearest(found, path),), tuple(parts[end - 1 :]))
    return NOWHERE
