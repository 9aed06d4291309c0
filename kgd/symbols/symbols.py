"""This file is where it is defined what reading a source file gives: symbols, imports, and uses of names.

Names that are used stand as chains, which `kgd.symbols.resolving` evaluates: ``shop.Order().save`` is the member
``save`` of what calling ``shop.Order`` gives; ``[]`` behind a name is one member of a collection, ``*`` before a chain
a collection of it. ``@self``, ``@class`` and ``@super`` are the object, the class and the bases around, ``@module``,
``@parent`` and ``@crate`` modules. An empty chain is a name of which nothing is known: it hides others all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CALLS = "calls"
INHERITS = "inherits"
IMPORTS = "imports"

SIGNATURE_LENGTH = 300
DOC_LENGTH = 300
LONGEST_CHAIN = 200
"""Characters; what is longer names nothing that a person wrote."""


class Symbol(NamedTuple):
    """A definition. `name` is qualified (``Order.save``) and unique in its file: a second one ends in ``~2``.

    Lines count from 1; `end` is the last one. `doc` is the first line of what its author says of it.
    """

    name: str
    kind: str
    line: int
    end: int
    signature: str = ""
    doc: str = ""


class Import(NamedTuple):
    """A name that a file takes from elsewhere.

    `module` is as it is written. `name` is what is taken from it: empty for the module itself, ``*`` for all of it.
    `alias` is what that is called here; empty where nothing is bound. `scope` is the symbol that it is bound in.
    """

    module: str
    name: str = ""
    alias: str = ""
    scope: str = ""


class Use(NamedTuple):
    """That `scope` (a symbol, or empty: the file) calls, or inherits from, what a chain names."""

    kind: str
    scope: str
    chain: str


class Symbols(NamedTuple):
    """What one file says. `types` has what is known of names that are no symbols: (scope, name) to a chain.

    The name ``()`` stands for what the scope itself gives back. `package` is the name of the package that a file
    says it belongs to, or that a manifest gives to its folder. `reason` says why nothing could be read, else empty.
    """

    language: str
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    uses: tuple[Use, ...] = ()
    types: Mapping[tuple[str, str], str] = {}
    package: str = ""
    reason: str = ""


class Gathering:
    """What is found while a file is read, in the order of its text."""

    def __init__(self, language: str) -> None:
        self.language, self.package = language, ""
        self.symbols: dict[str, Symbol] = {}
        self.imports: dict[Import, None] = {}
        self.uses: dict[Use, None] = {}
        self.types: dict[tuple[str, str], str] = {}

    def define(
        self, scope: str, name: str, kind: str, line: int, end: int, signature: str = "", doc: str = ""
    ) -> str:  # fmt: skip
        """Add a symbol; its qualified name, with a number where the file has that name already."""
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
        """Say what a name holds. The first thing that is known of it counts."""
        if name and not self.types.get((scope, name)):
            self.types[scope, name] = chain if len(chain) <= LONGEST_CHAIN else ""

    def done(self) -> Symbols:
        return Symbols(
            self.language, tuple(self.symbols.values()), tuple(self.imports), tuple(self.uses), dict(self.types),
            self.package,
        )  # fmt: skip


def one_line(text: str) -> str:
    return " ".join(text.split())
