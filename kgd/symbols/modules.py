"""Module look-up: the keys that a file can be imported by, and the target of an import in each language.

A file is known by keys such as ``path:shop/orders``, ``python:shop.orders`` or ``java:org.shop.Order``. Resolution asks
only for keys, so the files to resolve again after a change follow from the keys that were added, removed or changed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kgd.symbols.symbols import Symbols

Files = Callable[[str], Sequence[str]]
"""The files that provide a key, sorted."""

_SCRIPTS = (".d.ts", ".d.mts", ".d.cts", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_ROOTS = ("src", "lib", "python")


class Place(NamedTuple):
    """The target of an import: the file of a module, or the files of a package; `rest` are the names to look up in it,
    in order."""

    files: tuple[str, ...]
    rest: tuple[str, ...] = ()
    package: bool = False


NOWHERE = Place(())


def keys_of(path: str, symbols: Symbols) -> list[str]:
    """The keys that a file provides."""
    folder, _, name = path.rpartition("/")
    match symbols.language:
        case "python":
            plain = path.removesuffix("i").removesuffix(".py").removesuffix(".pyw")
            plain = folder if name in ("__init__.py", "__init__.pyi") else plain
            return [f"path:{plain}", *(f"python:{module}" for module in _modules(plain))]
        case "javascript" | "typescript":
            plain = script(path)
            return [f"path:{plain}", *([f"path:{folder}"] if plain.rpartition("/")[2] == "index" else [])]
        case "go":
            return [f"go:{folder}"]
        case "java":
            top = [symbol.name for symbol in symbols.symbols if "." not in symbol.name]
            before = f"{symbols.package}." if symbols.package else ""
            return [f"javas:{symbols.package}", *(f"java:{before}{name}" for name in top)]
        case "rust":
            return [f"path:{path.removesuffix('.rs')}"]
        case "manifest" if symbols.package:
            kind = {"go.mod": "gomod", "package.json": "npm"}.get(name, "cargo")
            return [f"{kind}:{symbols.package}"]
    return []


def find(module: str, path: str, symbols: Symbols, files: Files) -> Place:
    """The target of an import in `path`."""
    match symbols.language:
        case "python":
            return _python(module, path, files)
        case "javascript" | "typescript":
            return _script(module, path, files)
        case "go":
            return _go(module, files)
        case "java":
            return _java(module, files)
        case "rust":
            return rust(module.split("::"), path, files)
    return NOWHERE


def siblings(path: str, symbols: Symbols, files: Files) -> Sequence[str]:
    """The files whose names are visible in this one without an import."""
    if symbols.language == "go":
        return files(f"go:{posixpath.dirname(path)}")
    if symbols.language == "java":
        return files(f"javas:{symbols.package}")
    return ()


def below(path: str, name: str, files: Files) -> str:
    """The file of module `name` in a Python package, given the package's own file; empty if there is none."""
    folder, _, own = path.rpartition("/")
    if own not in ("__init__.py", "__init__.pyi"):
        return ""
    return one_of(files(f"path:{folder}/{name}" if folder else f"path:{name}"), (".py", ".pyi"))


def script(path: str) -> str:
    """The path of a script as imports spell it, without its extension."""
    return next((path.removesuffix(end) for end in _SCRIPTS if path.endswith(end)), path)


def _modules(plain: str) -> list[str]:
    """The dotted names that may import a Python file: from the top, from a source folder, or from beside it."""
    parts = plain.split("/")
    starts = {0, len(parts) - 1} | {number + 1 for number, part in enumerate(parts[:-1]) if part in _ROOTS}
    # A package is imported from the folder above it, which can be any.
    return [".".join(parts[start:]) for start in sorted(starts | set(range(max(0, len(parts) - 4), len(parts))))]


def _python(module: str, path: str, files: Files) -> Place:
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    if dots:
        folder = path
        for _ in range(dots):
            if not folder:
                return NOWHERE
            folder = posixpath.dirname(folder)
        target = "/".join([*([folder] if folder else []), *parts])
        found = one_of(files(f"path:{target}"), (".py", ".pyi"))
        if found:
            return Place((found,))
        return Place((f"{target}/",))  # a namespace package
    found = nearest(files(f"python:{'.'.join(parts)}"), path)
    return Place((found,)) if found else NOWHERE


def _script(module: str, path: str, files: Files) -> Place:
    module = module.partition("?")[0]
    if module.startswith("."):
        return _module(posixpath.normpath(posixpath.join(posixpath.dirname(path), module)), files)
    if module[:2] in ("@/", "~/"):
        for folder in _folders(path):
            for start in ("src", ""):
                found = _module(posixpath.normpath(posixpath.join(folder, start, module[2:])), files)
                if found.files:
                    return found
        return NOWHERE
    parts = module.split("/")
    size = 2 if module.startswith("@") else 1
    name, rest = "/".join(parts[:size]), "/".join(parts[size:])
    for manifest in files(f"npm:{name}"):
        folder = posixpath.dirname(manifest)
        for inside in (rest, f"src/{rest}") if rest else ("index", "src/index", "lib/index", "dist/index"):
            found = _module(posixpath.normpath(posixpath.join(folder, inside)), files)
            if found.files:
                return found
    return NOWHERE


def _module(target: str, files: Files) -> Place:
    """A script by its path: as spelled, without an extension, or with the extension of its source."""
    if target.startswith(".."):
        return NOWHERE
    for plain in dict.fromkeys((target, script(target))):
        found = one_of(
            files(f"path:{'' if plain == '.' else plain}"), (".ts", ".tsx", ".mts", ".js", ".jsx", ".mjs", ".cjs")
        )
        if found:
            return Place((found,))
    return NOWHERE


def _go(module: str, files: Files) -> Place:
    parts = module.split("/")
    for end in range(len(parts), 0, -1):
        for manifest in files(f"gomod:{'/'.join(parts[:end])}"):
            found = files(f"go:{posixpath.join(posixpath.dirname(manifest), *parts[end:])}")
            return Place(tuple(one for one in found if not one.endswith("_test.go")), (), True)
    return NOWHERE


def _java(module: str, files: Files) -> Place:
    """A package, or a class and names in it."""
    found = files(f"javas:{module}")
    if found:
        return Place(tuple(found), (), True)
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        found = files(f"java:{'.'.join(parts[:end])}")
        if found:
            return Place((found[0],), tuple(parts[end - 1 :]))
    return NOWHERE


def rust(steps: list[str], path: str, files: Files) -> Place:
    """The target of a Rust path: its first step selects a module, the others are looked up there."""
    first, rest = steps[0], tuple(steps[1:])
    if first in ("crate", "@crate"):
        root = _crate(path, files)
        return Place((root,), rest) if root else NOWHERE
    if first == "@mod":
        return _submodule(path, rest[0], files) if rest else NOWHERE
    if first in ("super", "@parent"):
        above = _above(path, files)
        return Place((above,), rest) if above else NOWHERE
    if first in ("self", "@module"):
        return Place((path,), rest)
    for manifest in files(f"cargo:{first}"):
        folder = posixpath.dirname(manifest)
        found = files(f"path:{posixpath.join(folder, 'src/lib')}")
        if found:
            return Place((found[0],), rest)
    return Place((path,), tuple(steps))


def _submodule(path: str, name: str, files: Files) -> Place:
    folder, _, own = path.rpartition("/")
    if own not in ("lib.rs", "main.rs", "mod.rs"):
        folder = path.removesuffix(".rs")
    found = _rust_file((posixpath.join(folder, name), posixpath.join(folder, name, "mod")), files)
    return Place((found,)) if found else NOWHERE


def _above(path: str, files: Files) -> str:
    folder, _, own = path.rpartition("/")
    if own == "mod.rs":
        folder = posixpath.dirname(folder)
    elif own in ("lib.rs", "main.rs"):
        return ""
    return _rust_file((f"{folder}/mod", f"{folder}/lib", f"{folder}/main", folder), files, other_than=path)


def _crate(path: str, files: Files) -> str:
    if path.rpartition("/")[2] in ("lib.rs", "main.rs"):
        return path
    plains = (posixpath.join(folder, name) for folder in _folders(path) for name in ("lib", "main"))
    return _rust_file(plains, files)


def _rust_file(plains: Iterable[str], files: Files, other_than: str = "") -> str:
    """The first existing file among paths without extension; empty if there is none."""
    for plain in plains:
        found = one_of(files(f"path:{plain.lstrip('/')}"), (".rs",))
        if found and found != other_than:
            return found
    return ""


def _folders(path: str) -> Iterator[str]:
    """The folders around a file, innermost first; the last is the top."""
    while path:
        path = posixpath.dirname(path)
        yield path


def one_of(found: Sequence[str], ends: Sequence[str]) -> str:
    """The file of a key that the language prefers, by the order of its extensions."""
    return next((one for end in ends for one in found if one.endswith(end)), "")


def nearest(found: Iterable[str], path: str) -> str:
    """Of several modules of one name, the module that shares most folders with its importer."""
    here = path.split("/")

    def shared(one: str) -> tuple[bool, int, int, str]:
        there = one.split("/")
        same = 0
        while same < min(len(here), len(there)) and here[same] == there[same]:
            same += 1
        return one.endswith(".pyi"), -same, len(there), one

    return min(found, key=shared, default="")
