"""This file is where the tree of a grammar is walked, for what its languages have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from kgd.symbols.grammars import text
from kgd.symbols.symbols import CALLS, INHERITS, Gathering

if TYPE_CHECKING:
    from tree_sitter import Node

STOP = "\0"
"""The answer of a handler that has read its node whole."""
_DEEPEST = 30
_HEAD_END = re.compile(r"(?:\s|[{=:]|=>)+\Z")
_COMMENT = re.compile(r"^[\s/*!#\-]+|[\s*/]+$")


class Walker:
    """Reads one file. A language says what its kinds of nodes mean: `handlers` for definitions and what they bind,
    the tables for expressions.

    Nodes are visited in the order of the text, without recursion: a text may be nested as deep as it likes.
    """

    handlers: ClassVar[Mapping[str, str]] = {}
    """Kind of node to the name of the method that reads it; the method gives the scope of what is inside."""
    names: ClassVar[frozenset[str]] = frozenset({"identifier", "type_identifier"})
    members: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Kind of an expression to the fields with the object and with the name of its member."""
    calls: ClassVar[Mapping[str, str]] = {}
    """Kind of an expression to the field with what is called."""
    through: ClassVar[Mapping[str, str]] = {}
    """Kind of an expression that is what it holds, to the field (or none: the first one) that holds it."""
    items: ClassVar[Mapping[str, str]] = {}
    """Kind of an expression for one member of a collection, to the field with the collection."""
    words: ClassVar[Mapping[str, str]] = {}
    """Kind of a node that is a word of the language, to its chain."""

    def __init__(self, language: str) -> None:
        self.found = Gathering(language)
        self._methods: dict[str, Callable[[Node, str], str]] = {
            kind: getattr(self, name) for kind, name in self.handlers.items()
        }

    def walk(self, root: Node) -> None:
        todo = [(root, "")]
        while todo:
            node, scope = todo.pop()
            method = self._methods.get(node.type)
            inner = method(node, scope) if method else scope
            if inner is not STOP:
                todo += [(child, inner) for child in reversed(node.named_children)]

    def define(self, node: Node, scope: str, kind: str, name: str = "", whole: Node | None = None) -> str:
        """Add what a node defines. `whole` is the statement around it, where that is more."""
        whole = whole or node
        name = name or text(node.child_by_field_name("name"))
        if not name or len(name) > 200:
            return scope
        body = node.child_by_field_name("body") or node.child_by_field_name("value")
        end = body.start_byte if body is not None and body.start_byte > whole.start_byte else whole.end_byte
        head = (whole.text or b"")[: end - whole.start_byte].decode("utf-8", "replace")
        return self.found.define(
            scope, name, kind, whole.start_point[0] + 1, whole.end_point[0] + 1, _HEAD_END.sub("", head), doc(whole)
        )

    def chain(self, node: Node | None, left: int = _DEEPEST) -> str:
        """An expression as a chain; empty where it is none."""
        if node is None or left == 0:
            return ""
        kind = node.type
        if kind in self.words:
            return self.words[kind]
        if kind in self.names:
            return text(node)
        if kind in self.members:
            owner, name = self.members[kind]
            start = self.chain(node.child_by_field_name(owner), left - 1)
            return f"{start}.{text(node.child_by_field_name(name))}" if start else ""
        if kind in self.calls:
            start = self.chain(node.child_by_field_name(self.calls[kind]), left - 1)
            return f"{start}()" if start else ""
        if kind in self.items:
            start = self.chain(node.child_by_field_name(self.items[kind]), left - 1)
            return f"{start}[]" if start else ""
        if kind in self.through:
            field = self.through[kind]
            return self.chain(node.child_by_field_name(field) if field else first(node), left - 1)
        return self.special(node, left)

    def special(self, node: Node, left: int) -> str:
        """The chain of an expression that only this language has."""
        return ""

    def typed(self, node: Node | None, left: int = _DEEPEST) -> str:
        """What the text of a type says of a value, as a chain."""
        return ""

    def call(self, node: Node, scope: str) -> str:
        """A call, of whatever kind."""
        self.found.use(CALLS, scope, self.chain(node.child_by_field_name(self.calls[node.type])))
        return scope

    def inherit(self, scope: str, bases: Iterable[Node]) -> None:
        for base in bases:
            told = self.typed(base)
            if told and not told.startswith("*"):
                self.found.use(INHERITS, scope, told.removesuffix("()"))


def first(node: Node) -> Node | None:
    return node.named_children[0] if node.named_child_count else None


def fields(node: Node | None, *names: str) -> list[Node]:
    """All children in the fields of these names."""
    if node is None:
        return []
    return [child for name in names for child in node.children_by_field_name(name)]


def doc(node: Node) -> str:
    """The first line of the comment that ends right above a node."""
    at = node
    while at.prev_named_sibling is None and at.parent is not None and at.parent.start_point[0] == at.start_point[0]:
        at = at.parent  # the statement around it: `export function …`
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
