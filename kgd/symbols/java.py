"""Symbols of Java source files, and the target of an import."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kgd.symbols import CALLS, NOWHERE, Place, Project, by_nearness, extended, nearest
from kgd.symbols.walker import STOP, Walker, first, text

if TYPE_CHECKING:
    from tree_sitter import Node


class Java(Walker):
    words: ClassVar = {"this": "@self", "super": "@super"}
    members: ClassVar = {"field_access": ("object", "field"), "scoped_identifier": ("scope", "name")}
    calls: ClassVar = {"object_creation_expression": "type"}
    items: ClassVar = {"array_access": "array"}
    through: ClassVar = {"parenthesized_expression": ""}
    collections = frozenset(
        """
        List Set Collection Iterable Iterator ArrayList LinkedList HashSet TreeSet Queue Deque Map HashMap TreeMap
        LinkedHashMap ConcurrentHashMap
        """.split()
    )
    result = "type"
    handlers: ClassVar = {
        "package_declaration": "package",
        "import_declaration": "imported",
        "class_declaration": "cls",
        "record_declaration": "cls",
        "enum_declaration": "cls",
        "interface_declaration": "cls",
        "annotation_type_declaration": "cls",
        "method_declaration": "method",
        "constructor_declaration": "method",
        "field_declaration": "variables",
        "constant_declaration": "variables",
        "local_variable_declaration": "variables",
        "formal_parameter": "parameter",
        "resource": "parameter",
        "enhanced_for_statement": "loop",
        "method_invocation": "called",
        "object_creation_expression": "created",
        "explicit_constructor_invocation": "above",
    }
    _kinds: ClassVar = {
        "record_declaration": "record",
        "enum_declaration": "enum",
        "interface_declaration": "interface",
        "annotation_type_declaration": "annotation",
    }

    def package(self, node: Node, scope: str) -> str:
        self.found.package = text(next((one for one in node.named_children if "identifier" in one.type), None))
        return STOP

    def imported(self, node: Node, scope: str) -> str:
        name = text(next((one for one in node.named_children if "identifier" in one.type), None))
        if any(child.type == "asterisk" for child in node.children):
            self.found.take(name, "*")
        else:
            module, _, last = name.rpartition(".")
            self.found.take(module, last, last)
        return STOP

    def cls(self, node: Node, scope: str) -> str:
        name = self.define(node, scope, self._kinds.get(node.type, "class"))
        for part in node.named_children:
            if part.type in ("superclass", "super_interfaces", "extends_interfaces"):
                listed = [
                    inner
                    for one in part.named_children
                    for inner in (one.named_children if one.type == "type_list" else [one])
                ]
                self.inherit(name, listed)
        return name

    def method(self, node: Node, scope: str) -> str:
        return self.define(node, scope, "constructor" if node.type == "constructor_declaration" else "method")

    def variables(self, node: Node, scope: str) -> None:
        declared = self.typed(node.child_by_field_name("type"))
        for one in node.children_by_field_name("declarator"):
            value = "" if declared else self.chain(one.child_by_field_name("value"))
            self.found.bind(scope, text(one.child_by_field_name("name")), declared or value)

    def parameter(self, node: Node, scope: str) -> None:
        declared = self.typed(node.child_by_field_name("type")) or self.chain(node.child_by_field_name("value"))
        self.found.bind(scope, text(node.child_by_field_name("name")), declared)

    def loop(self, node: Node, scope: str) -> None:
        declared, source = self.typed(node.child_by_field_name("type")), self.chain(node.child_by_field_name("value"))
        self.found.bind(scope, text(node.child_by_field_name("name")), declared or extended(source, after="[]"))

    def called(self, node: Node, scope: str) -> None:
        self.found.use(CALLS, scope, self.chain(node).removesuffix("()"))

    def created(self, node: Node, scope: str) -> None:
        self.found.use(CALLS, scope, self.typed(node.child_by_field_name("type")).removesuffix("()"))

    def above(self, node: Node, scope: str) -> None:
        self.found.use(CALLS, scope, self.chain(node.child_by_field_name("constructor")))

    def chain(self, node: Node | None, left: int = 30) -> str:
        if node is None or left == 0:
            return ""
        if node.type == "method_invocation":
            owner, name = node.child_by_field_name("object"), text(node.child_by_field_name("name"))
            if owner is None:
                return f"{name}()"
            return extended(self.chain(owner, left - 1), after=f".{name}()")
        if node.type in ("object_creation_expression", "cast_expression"):
            return self.typed(node.child_by_field_name("type"))
        return super().chain(node, left)

    def typed(self, node: Node | None, left: int = 20) -> str:
        if node is None or left == 0:
            return ""
        match node.type:
            case "type_identifier" | "identifier":
                return "" if text(node) == "var" else f"{text(node)}()"
            case "scoped_type_identifier" | "scoped_identifier":
                return f"{text(node)}()"
            case "array_type":
                return f"*{self.typed(node.child_by_field_name('element'), left - 1)}"
            case "annotated_type":
                return self.typed(node.named_children[-1], left - 1)
            case "generic_type":
                name = first(node)
                inner = [
                    one for part in node.named_children if part.type == "type_arguments" for one in part.named_children
                ]
                return self.generic(name, inner, left)
        return ""


def find(module: str, path: str, project: Project) -> Place:
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
