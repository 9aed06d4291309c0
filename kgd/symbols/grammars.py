"""Tree-sitter grammars: each comes in a wheel of its own, which may be missing."""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import warnings
from typing import TYPE_CHECKING, NamedTuple

try:
    import tree_sitter
except ImportError:  # the extra `code` brings it
    tree_sitter = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree


class Wheel(NamedTuple):
    """The module of a grammar, and its function that returns the language."""

    module: str
    function: str = "language"


KNOWN = {
    "javascript": Wheel("tree_sitter_javascript"),
    "typescript": Wheel("tree_sitter_typescript", "language_typescript"),
    "tsx": Wheel("tree_sitter_typescript", "language_tsx"),
    "go": Wheel("tree_sitter_go"),
    "java": Wheel("tree_sitter_java"),
    "rust": Wheel("tree_sitter_rust"),
}
"""Grammars whose names are resolved. Other languages are searched by the tag queries of their grammars."""

OTHERS = frozenset({
    "ada", "c", "clojure", "cpp", "crystal", "csharp", "d", "dart", "elixir", "elm", "erlang", "fortran", "fsharp",
    "haskell", "julia", "kotlin", "lua", "matlab", "nim", "objective-c", "ocaml", "pascal", "perl", "php", "r",
    "racket", "ruby", "scala", "scheme", "shell", "solidity", "swift", "verilog", "vhdl", "zig",
})  # fmt: skip
"""Languages that are read if a wheel with ``queries/tags.scm`` is installed."""
_NAMES = {"csharp": "c_sharp", "shell": "bash", "objective-c": "objc"}


def wheel_of(language: str) -> Wheel:
    return KNOWN.get(language) or Wheel(f"tree_sitter_{_NAMES.get(language, language)}")


def to_install(language: str) -> str:
    """The package to install so that a language can be read."""
    if language in KNOWN:
        return "the extra `code` of kgd (docs/code.md)"
    return f"tree-sitter {wheel_of(language).module.replace('_', '-')}"


@functools.cache
def grammar(language: str) -> Language | None:
    """The grammar of a language; None if its wheel or tree-sitter is missing or incompatible."""
    wheel = wheel_of(language)
    if tree_sitter is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # older wheels return a number instead of a capsule
            return tree_sitter.Language(getattr(importlib.import_module(wheel.module), wheel.function)())
    except (ImportError, AttributeError, ValueError, TypeError):
        return None


@functools.cache
def tags(language: str) -> str:
    """The grammar authors' query for definitions and calls; empty if the wheel has none."""
    try:
        return (importlib.resources.files(wheel_of(language).module) / "queries" / "tags.scm").read_text("utf-8")
    except (ImportError, OSError, UnicodeDecodeError):
        return ""


def can_read(language: str) -> bool:
    if language == "python":
        return True
    if grammar("tsx" if language == "tsx" else language) is None:
        return False
    return language in KNOWN or bool(tags(language))


def tree(language: str, data: bytes) -> Tree:
    """The syntax tree of a text, parse errors included. The language must have a grammar."""
    return tree_sitter.Parser(grammar(language)).parse(data)


def matches(query: Query, root: Node) -> list[dict[str, list[Node]]]:
    """The matches of a query in a tree: nodes by capture name."""
    return [captures for _, captures in tree_sitter.QueryCursor(query).matches(root)]


@functools.cache
def tag_query(language: str) -> Query | None:
    """The query of `tags`; None if it does not fit the grammar."""
    found = grammar(language)
    try:
        return tree_sitter.Query(found, tags(language)) if found is not None else None
    except (tree_sitter.QueryError, ValueError):
        return None


def text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""
