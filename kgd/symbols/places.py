"""This file is where modules are found: what a file may be imported by, and what an import of a language means.

A file is known by keys such as ``path:shop/orders``, ``python:shop.orders`` or ``java:org.shop.Order``. Whoever
resolves asks for keys alone, so what has to be resolved again after a change is told by the keys that came, went or
changed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kgd.symbols.symbols import Symbols

Files = Callable[[str], Sequence[str]]
"""The files that a key stands for, sorted."""

_SCRIPTS = (".d.ts", ".d.mts", ".d.cts", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_ROOTS = ("src", "lib", "python")


class Place(NamedTuple):
    """Where an import leads: the file of a module, or the files of a package; `rest` is what is to be looked for there,
    one name after the other."""

    files: tuple[str, ...]
    rest: tuple[str, ...] = ()
    package: bool = False


NOWHERE = Place(())


def keys_of(path: str, symbols: Symbols) -> list[str]:
    """What a file can be asked for by."""
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


def find(module: str, path: str, symbols: Symbols, files: Files, scope: str = "") -> Place:
    """Where an import in `path` leads to."""
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
    """The files whose names are known in this one without an import."""
    if symbols.language == "go":
        return files(f"go:{posixpath.dirname(path)}")
    if symbols.language == "java":
        return files(f"javas:{symbols.package}")
    return ()


def below(path: str, name: str, files: Files) -> str:
    """The module `name` of a Python package, by the file that is the package; empty where there is none."""
    folder, _, own = path.rpartition("/")
    if own not in ("__init__.py", "__init__.pyi"):
        return ""
    return one_of(files(f"path:{folder}/{name}" if folder else f"path:{name}"), (".py", ".pyi"))


def script(path: str) -> str:
    """The path of a script as imports spell it: without what its name ends in."""
    return next((path.removesuffix(end) for end in _SCRIPTS if path.endswith(end)), path)


def _modules(plain: str) -> list[str]:
    """The dotted names a Python file may be imported by: from the top, from a folder for sources, or beside it."""
    parts = plain.split("/")
    starts = {0, len(parts) - 1} | {number + 1 for number, part in enumerate(parts[:-1]) if part in _ROOTS}
    # A package is imported from the folder above it, which may be any.
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
        return Place((f"{target}/",))  # a folder without an __init__ file
    found = nearest(files(f"python:{'.'.join(parts)}"), path)
    return Place((found,)) if found else NOWHERE


def _script(module: str, path: str, files: Files) -> Place:
    module = module.partition("?")[0]
    if module.startswith("."):
        return _module(posixpath.normpath(posixpath.join(posixpath.dirname(path), module)), files)
    if module[:2] in ("@/", "~/"):
        folder = posixpath.dirname(path)
        while True:
            for start in ("src", ""):
                found = _module(posixpath.normpath(posixpath.join(folder, start, module[2:])), files)
                if found.files:
                    return found
            if not folder:
                return NOWHERE
            folder = posixpath.dirname(folder)
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
    """A script by its path: as it is spelled, without an end, or with that of what it is compiled to."""
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
    """A package, or a class and what is in it."""
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
    """A path of Rust: its first step says where it begins, the others are looked for there."""
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
    for plain in (posixpath.join(folder, name), posixpath.join(folder, name, "mod")):
        found = one_of(files(f"path:{plain}"), (".rs",))
        if found:
            return Place((found,))
    return NOWHERE


def _above(path: str, files: Files) -> str:
    folder, _, own = path.rpartition("/")
    if own == "mod.rs":
        folder = posixpath.dirname(folder)
    elif own in ("lib.rs", "main.rs"):
        return ""
    for plain in (f"{folder}/mod", f"{folder}/lib", f"{folder}/main", folder):
        found = one_of(files(f"path:{plain.lstrip('/')}"), (".rs",))
        if found and found != path:
            return found
    return ""


def _crate(path: str, files: Files) -> str:
    if path.rpartition("/")[2] in ("lib.rs", "main.rs"):
        return path
    folder = posixpath.dirname(path)
    while True:
        for name in ("lib", "main"):
            found = one_of(files(f"path:{posixpath.join(folder, name)}"), (".rs",))
            if found:
                return found
        if not folder:
            return ""
        folder = posixpath.dirname(folder)


def one_of(found: Sequence[str], ends: Sequence[str]) -> str:
    """Of the files with one key the one that this language prefers."""
    for end in ends:
        for one in found:
            if one.endswith(end):
                return one
    return ""


def nearest(found: Iterable[str], path: str) -> str:
    """Of several modules of one name the one that shares most folders with who imports it."""
    here = path.split("/")

    def shared(one: str) -> tuple[bool, int, int, str]:
        there = one.split("/")
        same = 0
        while same < min(len(here), len(there)) and here[same] == there[same]:
            same += 1
        return one.endswith(".pyi"), -same, len(there), one

    return min(found, key=shared, default="")
