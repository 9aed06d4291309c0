"""Symbols, imports and uses of names: the result of reading a source file.

Used names are chains, which `kgd.symbols.resolution` evaluates. ``shop.Order().save`` is the member ``save`` of the
result of calling ``shop.Order``; ``[]`` after a name is one element of a collection, ``*`` before a chain is a
collection of such values. ``@self``, ``@class`` and ``@super`` are the surrounding object, class and bases;
``@module``, ``@parent`` and ``@crate`` are modules. An empty chain is an unknown value; its name still hides others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CALLS = "calls"
INHERITS = "inherits"
IMPORTS = "imports"
BOUND = "."
"""Name of an import that binds only the outermost package, as in Python's ``import a.b``."""

SIGNATURE_LENGTH = 300
DOC_LENGTH = 300
LONGEST_CHAIN = 200
"""Characters; longer chains are not written by hand."""


class Symbol(NamedTuple):
    """A definition. `name` is qualified (``Order.save``) and unique in its file: a second one ends in ``~2``.

    Lines count from 1, `end` included. `doc` is the first line of its documentation.
    """

    name: str
    kind: str
    line: int
    end: int
    signature: str = ""
    doc: str = ""


class Import(NamedTuple):
    """An import. `module` is as written; `name` is empty for the module itself, ``*`` for all of it, or `BOUND`.

    `alias` is the local name, empty if nothing is bound. `scope` is the symbol that the name is bound in.
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

    The name ``()`` is the result of the scope itself. `package` is the package that a file declares, or that a manifest
    gives to its folder; the imports of a manifest are its declarations (`kgd.symbols.manifests`). `reason` is empty, or
    the reason why the file could not be read.
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
        """Record the value of a name. The first known value counts."""
        if name and not self.types.get((scope, name)):
            self.types[scope, name] = chain if len(chain) <= LONGEST_CHAIN else ""

    def outside(self, value: str, scope: str) -> str:
        """A chain that starts with a parameter or a local name, rewritten for use outside of the function."""
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
