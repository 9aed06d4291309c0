"""Tree-sitter grammars, each from a wheel that may be missing, and the syntax tree walker shared by the languages."""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kgd.symbols import CALLS, INHERITS, Gathering, extended

try:
    import tree_sitter
except ImportError:  # installed by the extra `code`
    tree_sitter = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree


class Wheel(NamedTuple):
    """The module of a grammar, and the name of its function that returns the language."""

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
"""Grammars of the languages in which names are resolved. For other languages, definitions are found by the grammar's
tag query."""

OTHERS = frozenset(
    """
    ada c clojure cpp crystal csharp d dart elixir elm erlang fortran fsharp haskell julia kotlin lua matlab nim
    objective-c ocaml pascal perl php r racket ruby scala scheme shell solidity swift verilog vhdl zig
    """.split()
)
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
    """The syntax tree of a text, including parse errors. The language must have a grammar."""
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


STOP = "\0"
"""Returned by a handler that has read its whole node."""
_DEEPEST = 30
_HEAD_END = re.compile(r"(?:\s|[{=:]|=>)+\Z")
_COMMENT = re.compile(r"^[\s/*!#\-]+|[\s*/]+$")


class Walker:
    """Reads one file. A language declares `handlers` and `defines` for definitions, and tables for expressions.

    Nodes are visited in text order without recursion, so a text may be nested to any depth.
    """

    handlers: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of node to the method that reads it; the method returns the scope of the node's children if they
    have their own."""
    defines: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of node that defines a symbol in the usual form to the kind of the symbol."""
    result: ClassVar[str] = ""
    """The field of a definition that has the type of its result."""
    names: ClassVar[frozenset[str]] = frozenset({"identifier", "type_identifier"})
    members: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Maps a kind of expression to its fields for the object and for the member's name."""
    calls: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of call to the field with the callee."""
    through: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of expression that only wraps another to the field that contains it (empty: the first child)."""
    items: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of expression for a member of a collection to the field with the collection."""
    words: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of node that is a keyword to its chain."""
    wrappers: ClassVar[frozenset[str]] = frozenset()
    """Generic types whose value is treated as a value of their first argument."""
    collections: ClassVar[frozenset[str]] = frozenset()
    """Generic types that hold values of their last argument."""

    def __init__(self, language: str) -> None:
        self.found = Gathering(language)
        self._methods: dict[str, Callable[[Node, str], str | None]] = {
            kind: getattr(self, name) for kind, name in self.handlers.items()
        }

    def walk(self, root: Node) -> None:
        todo = [(root, "")]
        while todo:
            node, scope = todo.pop()
            method = self._methods.get(node.type)
            inner = method(node, scope) if method else None
            if node.type in self.defines:
                inner = self.define(node, scope, self.defines[node.type])
            if inner is not STOP:
                todo += [(child, scope if inner is None else inner) for child in reversed(node.named_children)]

    def define(self, node: Node, scope: str, kind: str, name: str = "", whole: Node | None = None) -> str:
        """Add a definition and return its scope. `whole` is the enclosing statement, if that is larger."""
        whole = whole or node
        name = name or text(node.child_by_field_name("name"))
        if not name or len(name) > 200:
            return scope
        body = node.child_by_field_name("body") or node.child_by_field_name("value")
        end = body.start_byte if body is not None and body.start_byte > whole.start_byte else whole.end_byte
        head = (whole.text or b"")[: end - whole.start_byte].decode("utf-8", "replace")
        made = self.found.define(
            scope, name, kind, whole.start_point[0] + 1, whole.end_point[0] + 1, _HEAD_END.sub("", head), doc(whole)
        )
        if self.result and (result := self.typed(node.child_by_field_name(self.result))):
            self.found.bind(made, "()", result)
        return made

    def chain(self, node: Node | None, left: int = _DEEPEST) -> str:
        """An expression as a chain; empty if the expression cannot be written as a chain."""
        if node is None or left == 0:
            return ""
        kind = node.type
        if kind in self.words:
            return self.words[kind]
        if kind in self.names:
            return text(node)
        if kind in self.members:
            owner, name = self.members[kind]
            member = f".{text(node.child_by_field_name(name))}"
            return extended(self.chain(node.child_by_field_name(owner), left - 1), after=member)
        if kind in self.calls:
            return extended(self.chain(node.child_by_field_name(self.calls[kind]), left - 1), after="()")
        if kind in self.items:
            return extended(self.chain(node.child_by_field_name(self.items[kind]), left - 1), after="[]")
        if kind in self.through:
            field = self.through[kind]
            return self.chain(node.child_by_field_name(field) if field else first(node), left - 1)
        return self.special(node, left)

    def special(self, node: Node, left: int) -> str:
        """The chain of an expression that is specific to the language."""
        return ""

    def typed(self, node: Node | None, left: int = _DEEPEST) -> str:
        """The value that a type describes, as a chain."""
        return ""

    def generic(self, named: Node | None, arguments: Sequence[Node], left: int) -> str:
        """The value that a generic type describes."""
        name = text(named).rpartition("::")[2]
        if name in self.wrappers and arguments:
            return self.typed(arguments[0], left - 1)
        if name in self.collections and arguments:
            return f"*{self.typed(arguments[-1], left - 1)}"
        return self.typed(named, left - 1)

    def call(self, node: Node, scope: str) -> None:
        """Record a call."""
        self.found.use(CALLS, scope, self.chain(node.child_by_field_name(self.calls[node.type])))

    def inherit(self, scope: str, bases: Iterable[Node]) -> None:
        for base in bases:
            declared = self.typed(base)
            if declared and not declared.startswith("*"):
                self.found.use(INHERITS, scope, declared.removesuffix("()"))


def first(node: Node) -> Node | None:
    return node.named_children[0] if node.named_child_count else None


def fields(node: Node | None, *names: str) -> list[Node]:
    """All children in fields of these names."""
    if node is None:
        return []
    return [child for name in names for child in node.children_by_field_name(name)]


def doc(node: Node) -> str:
    """The first line of the comment right above a node."""
    at = node
    while at.prev_named_sibling is None and at.parent is not None and at.parent.start_point[0] == at.start_point[0]:
        at = at.parent  # the surrounding statement, as in `export function …`
    above = at.prev_named_sibling
    found = ""
    while above is not None and ("comment" in above.type or above.type == "attribute_item"):
        if at.start_point[0] - above.end_point[0] > 1:
            break
        if "comment" in above.type:
            lines = (_COMMENT.sub("", line) for line in text(above).splitlines())
            found = next((line for line in lines if line), found)
        at, above = above, above.prev_named_sibling
    return found
