"""Symbols of Go source files, and the target of an import: a package that go.mod or go.work leads to."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, ClassVar

from kgd.symbols import CALLS, NOWHERE, Place, Project, declared, extended, folders, join, manifest, manifest_around
from kgd.symbols.walker import STOP, Walker, fields, first, text

if TYPE_CHECKING:
    from tree_sitter import Node

_VERSION = re.compile(r"v\d+\Z")
_IGNORE = re.compile(r"//\s*(?:go:build|\+build)\s+ignore\b")

IGNORED = "documentation"
"""The package whose files Go ignores; files with the build constraint ``ignore`` are assigned to it too."""


class Go(Walker):
    names = frozenset({"identifier", "type_identifier", "package_identifier", "field_identifier"})
    members: ClassVar = {"selector_expression": ("operand", "field"), "qualified_type": ("package", "name")}
    calls: ClassVar = {"call_expression": "function"}
    items: ClassVar = {"index_expression": "operand"}
    through: ClassVar = {"parenthesized_expression": "", "unary_expression": "operand", "slice_expression": "operand"}
    result = "result"
    defines: ClassVar = {"function_declaration": "function", "method_elem": "method"}
    handlers: ClassVar = {
        "comment": "constraint",
        "package_clause": "package",
        "import_spec": "imported",
        "method_declaration": "method",
        "type_spec": "type",
        "type_alias": "type",
        "field_declaration": "field",
        "type_elem": "embedded",
        "const_spec": "value",
        "var_spec": "value",
        "short_var_declaration": "short",
        "range_clause": "range",
        "parameter_declaration": "parameter",
        "call_expression": "called",
    }

    def package(self, node: Node, scope: str) -> str:
        self.found.package = self.found.package or text(first(node))
        return STOP

    def constraint(self, node: Node, scope: str) -> str:
        if not self.found.package and _IGNORE.match(text(node)):
            self.found.package = IGNORED
        return STOP

    def imported(self, node: Node, scope: str) -> str:
        module = text(node.child_by_field_name("path")).strip('"`')
        named = node.child_by_field_name("name")
        parts = [part for part in module.split("/") if not _VERSION.match(part)]
        if named is not None and named.type == "dot":
            self.found.take(module, "*")
        else:
            alias = text(named) if named is not None else parts[-1] if parts else ""
            self.found.take(module, "", "" if alias == "_" else alias)
        return STOP

    def method(self, node: Node, scope: str) -> str:
        receiver = node.child_by_field_name("receiver")
        parts = receiver.named_children if receiver else []
        owner = next((self.typed(part.child_by_field_name("type")) for part in parts), "")
        return self.define(node, owner.removesuffix("()"), "method")

    def type(self, node: Node, scope: str) -> str:
        body = node.child_by_field_name("type")
        kind = {"struct_type": "struct", "interface_type": "interface"}.get(body.type if body else "", "type")
        return self.define(node, scope, kind, whole=node.parent if _alone(node) else None)

    def field(self, node: Node, scope: str) -> None:
        kind = node.child_by_field_name("type")
        named = fields(node, "name")
        declared = self.typed(kind)
        for one in named:
            self.found.bind(scope, text(one), declared)
        if not named and kind is not None:
            self.inherit(scope, [kind])
            self.found.bind(scope, declared.removesuffix("()").rpartition(".")[2], declared)

    def embedded(self, node: Node, scope: str) -> None:
        if node.named_child_count == 1:
            self.inherit(scope, node.named_children)

    def value(self, node: Node, scope: str) -> None:
        values = [part for one in fields(node, "value") for part in one.named_children]
        declared = self.typed(node.child_by_field_name("type"))
        for number, one in enumerate(fields(node, "name")):
            name = text(one)
            if not scope and name != "_":
                whole = node.parent if _alone(node) else None
                self.define(node, scope, "constant" if node.type == "const_spec" else "variable", name, whole)
            self.found.bind(scope, name, declared or (self.chain(values[number]) if number < len(values) else ""))

    def short(self, node: Node, scope: str) -> None:
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        values = right.named_children if right is not None else []
        for number, one in enumerate(left.named_children if left is not None else []):
            self.found.bind(scope, text(one), self.chain(values[number]) if number < len(values) else "")

    def range(self, node: Node, scope: str) -> None:
        left, source = node.child_by_field_name("left"), self.chain(node.child_by_field_name("right"))
        names = [text(one) for one in left.named_children] if left is not None else []
        for number, name in enumerate(names):
            self.found.bind(scope, name, f"{source}[]" if number and source else "")

    def parameter(self, node: Node, scope: str) -> None:
        declared = self.typed(node.child_by_field_name("type"))
        for one in fields(node, "name"):
            self.found.bind(scope, text(one), declared)

    def called(self, node: Node, scope: str) -> None:
        self.found.use(CALLS, scope, self.chain(node.child_by_field_name("function")))

    def special(self, node: Node, left: int) -> str:
        if node.type in ("composite_literal", "type_assertion_expression", "type_conversion_expression"):
            return self.typed(node.child_by_field_name("type"), left - 1)
        return ""

    def chain(self, node: Node | None, left: int = 30) -> str:
        if node is not None and node.type == "call_expression":
            arguments = node.child_by_field_name("arguments")
            if text(node.child_by_field_name("function")) in ("new", "make") and arguments is not None:
                return self.typed(first(arguments), left - 1)
        return super().chain(node, left)

    def typed(self, node: Node | None, left: int = 20) -> str:
        if node is None or left == 0:
            return ""
        match node.type:
            case "type_identifier" | "qualified_type" | "identifier" | "selector_expression":
                return extended(self.chain(node), after="()")
            case "pointer_type" | "parenthesized_type" | "type_elem":
                return self.typed(first(node), left - 1)
            case "generic_type":
                return self.typed(node.child_by_field_name("type"), left - 1)
            case "slice_type" | "array_type":
                return f"*{self.typed(node.child_by_field_name('element'), left - 1)}"
            case "map_type" | "channel_type":
                return f"*{self.typed(node.child_by_field_name('value'), left - 1)}"
            case "parameter_list":
                one = first(node)
                return self.typed(one.child_by_field_name("type") if one is not None else None, left - 1)
        return ""


def _alone(node: Node) -> bool:
    """Whether this is the only part of a declaration, so that the declaration is the whole definition."""
    return node.parent is not None and node.parent.named_child_count == 1


def find(module: str, path: str, project: Project) -> Place:
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
            return _package(join(place, *parts[end:]), project)
    return _package(join(posixpath.dirname(home), "vendor", module), project)


def _package(folder: str, project: Project) -> Place:
    found = project.files(f"go:{folder}")
    return Place(tuple(one for one in found if not one.endswith("_test.go")), (), True)
