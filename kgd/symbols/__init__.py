"""Symbols of source code: what a file defines, imports, calls and inherits.

`kgd.symbols.extraction` reads one file; `kgd.symbols.resolution` follows names across files. Both are pure: equal bytes
give equal results on every machine with the same grammars.

Used names are chains. ``shop.Order().save`` is the member ``save`` of the result of calling ``shop.Order``; ``[]``
after a name is one element of a collection, ``*`` before a chain is a collection of such values. ``@self``, ``@class``
and ``@super`` are the enclosing object, class and bases; ``@module``, ``@parent`` and ``@crate`` are modules. An empty
chain is an unknown value; its name still hides others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

CALLS = "calls"
INHERITS = "inherits"
IMPORTS = "imports"
BOUND = "."
"""The name of an import that binds only the outermost package, as Python's ``import a.b`` does."""

SIGNATURE_LENGTH = 300
DOC_LENGTH = 300
LONGEST_CHAIN = 200
"""Maximum number of characters in a chain; longer chains are not written by hand."""


class Symbol(NamedTuple):
    """A definition. `name` is qualified (``Order.save``) and unique in its file: a second symbol of that name ends in
    ``~2``.

    Lines are counted from 1, and `end` is inclusive. `doc` is the first line of its documentation.
    """

    name: str
    kind: str
    line: int
    end: int
    signature: str = ""
    doc: str = ""


class Import(NamedTuple):
    """An import. `module` is as written; `name` is empty for the module itself, ``*`` for all of it, or `BOUND`.

    `alias` is the local name, empty if nothing is bound. `scope` is the symbol in which the name is bound.
    """

    module: str
    name: str = ""
    alias: str = ""
    scope: str = ""


class Use(NamedTuple):
    """A call or inheritance: `scope` (a symbol, or empty for the file) uses the name in `chain`."""

    kind: str
    scope: str
    chain: str


class Symbols(NamedTuple):
    """The symbols of one file. `types` maps (scope, name) of other names to chains.

    The name ``()`` stands for the result of the scope itself. `package` is the package that a file declares, or that a
    manifest assigns to its folder; the imports of a manifest are its declarations (`kgd.symbols.manifests`). `reason`
    is the reason why the file could not be read, or empty.
    """

    language: str
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    uses: tuple[Use, ...] = ()
    types: Mapping[tuple[str, str], str] = {}
    package: str = ""
    reason: str = ""


class Gathering:
    """Collects the symbols of a file in text order."""

    def __init__(self, language: str) -> None:
        self.language, self.package = language, ""
        self.symbols: dict[str, Symbol] = {}
        self.imports: dict[Import, None] = {}
        self.uses: dict[Use, None] = {}
        self.types: dict[tuple[str, str], str] = {}

    def define(self, scope: str, name: str, kind: str, line: int, end: int, signature: str = "", doc: str = "") -> str:
        """Add a symbol and return its qualified name, numbered if the file already has that name."""
        plain = qualified = f"{scope}.{name}" if scope else name
        number = 1
        while qualified in self.symbols:
            number += 1
            qualified = f"{plain}~{number}"
        self.symbols[qualified] = Symbol(
            qualified, kind, line, end, one_line(signature)[:SIGNATURE_LENGTH], one_line(doc)[:DOC_LENGTH]
        )
        return qualified

    def take(self, module: str, name: str = "", alias: str = "", scope: str = "") -> None:
        if module:
            self.imports[Import(module, name, alias, scope)] = None

    def use(self, kind: str, scope: str, chain: str) -> None:
        if chain and len(chain) <= LONGEST_CHAIN:
            self.uses[Use(kind, scope, chain)] = None

    def bind(self, scope: str, name: str, chain: str) -> None:
        """Record the value of a name. The first known value is kept."""
        if name and not self.types.get((scope, name)):
            self.types[scope, name] = chain if len(chain) <= LONGEST_CHAIN else ""

    def outside(self, value: str, scope: str) -> str:
        """A chain that starts with a parameter or a local name, rewritten for use outside the function."""
        first, dot, rest = value.partition(".")
        known = self.types.get((scope, first))
        return f"{known}{dot}{rest}" if known else "" if known == "" else value

    def done(self) -> Symbols:
        return Symbols(
            self.language,
            tuple(self.symbols.values()),
            tuple(self.imports),
            tuple(self.uses),
            dict(self.types),
            self.package,
        )


def one_line(text: str) -> str:
    return " ".join(text.split())


def extended(chain: str, before: str = "", after: str = "") -> str:
    """A chain extended at both ends; an unknown chain stays unknown."""
    return f"{before}{chain}{after}" if chain else ""


class Project(Protocol):
    """The files of the project. A result depends only on these answers, so an implementation may record them."""

    def symbols(self, path: str) -> Symbols | None:
        """The symbols of a file; None if there is no such file."""

    def files(self, key: str) -> Sequence[str]:
        """The files that provide a key of `kgd.symbols.resolution`, sorted."""


class Place(NamedTuple):
    """The target of an import: the file of a module, or the files of a package; `rest` are the names to look up in it,
    in order. A file that ends in a slash is a folder: a namespace package of Python."""

    files: tuple[str, ...]
    rest: tuple[str, ...] = ()
    package: bool = False


NOWHERE = Place(())


def folders(path: str) -> Iterator[str]:
    """The folders that contain a file, innermost first; the top comes last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def join(*parts: str) -> str:
    """A normalised path below the top; empty for the top itself."""
    whole = posixpath.normpath(posixpath.join(*parts))
    return "" if whole == "." else whole


def manifests_in(folder: str, project: Project) -> Sequence[str]:
    """The manifests in a folder, and similar files that mark the top of a project."""
    return project.files(f"manifests:{folder}")


def manifest(folder: str, names: Sequence[str], project: Project) -> str:
    """The first of these manifests in a folder; empty if it has none."""
    found = manifests_in(folder, project)
    return next((path for name in names if (path := posixpath.join(folder, name)) in found), "")


def manifest_around(path: str, names: Sequence[str], project: Project) -> str:
    """The first of these manifests in the innermost containing folder that has one; empty if no folder has one."""
    return next((found for one in folders(path) if (found := manifest(one, names, project))), "")


def declared(path: str, kind: str, project: Project) -> list[Import]:
    """A manifest's declarations of one kind, in order."""
    symbols = project.symbols(path) if path else None
    return [one for one in symbols.imports if one.module == kind] if symbols else []


def one_of(found: Sequence[str], ends: Sequence[str]) -> str:
    """The file that the language prefers among several files with the same key, by the order of extensions."""
    return next((one for end in ends for one in found if one.endswith(end)), "")


def nearest(found: Iterable[str], path: str) -> str:
    """Among several modules with the same name, the module that shares most folders with the importer."""
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
