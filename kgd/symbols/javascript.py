"""Symbols of JavaScript and TypeScript source files, including JSX."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kgd.symbols import CALLS, extended
from kgd.symbols.walker import STOP, Walker, fields, first, text

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function", "function"})


class JavaScript(Walker):
    names = frozenset(
        {"identifier", "type_identifier", "property_identifier", "private_property_identifier", "jsx_identifier"}
    )
    words: ClassVar = {"this": "@self", "super": "@super"}
    wrappers = frozenset({"Promise", "Readonly", "Partial", "Required", "Awaited", "NonNullable"})
    collections = frozenset({"Array", "ReadonlyArray", "Set", "ReadonlySet", "Iterable", "IterableIterator"})
    members: ClassVar = {
        "member_expression": ("object", "property"),
        "nested_identifier": ("object", "property"),
        "nested_type_identifier": ("module", "name"),
    }
    calls: ClassVar = {"call_expression": "function", "new_expression": "constructor"}
    items: ClassVar = {"subscript_expression": "object"}
    through: ClassVar = {
        "await_expression": "",
        "parenthesized_expression": "",
        "non_null_expression": "",
        "assignment_expression": "right",
    }
    defines: ClassVar = {"type_alias_declaration": "type", "enum_declaration": "enum"}
    handlers: ClassVar = {
        "function_declaration": "function",
        "generator_function_declaration": "function",
        "function_signature": "function",
        "class_declaration": "cls",
        "abstract_class_declaration": "cls",
        "class": "cls",
        "interface_declaration": "interface",
        "internal_module": "namespace",
        "module": "namespace",
        "method_definition": "method",
        "method_signature": "method",
        "abstract_method_signature": "method",
        "field_definition": "field",
        "public_field_definition": "field",
        "property_signature": "field",
        "pair": "pair",
        "variable_declarator": "variable",
        "assignment_expression": "assignment",
        "formal_parameters": "parameters",
        "arrow_function": "arrow",
        "return_statement": "returned",
        "for_in_statement": "loop",
        "import_statement": "imported",
        "export_statement": "exported",
        "call_expression": "called",
        "new_expression": "call",
        "jsx_opening_element": "element",
        "jsx_self_closing_element": "element",
    }

    def function(self, node: Node, scope: str) -> str:
        name = self.define(node, scope, "function")
        self._returns(node, name)
        return name

    def cls(self, node: Node, scope: str) -> str:
        if node.child_by_field_name("name") is None:
            return scope
        name = self.define(node, scope, "class")
        for heritage in (child for child in node.children if child.type == "class_heritage"):
            for part in heritage.named_children:
                bases = part.named_children if part.type in ("extends_clause", "implements_clause") else [part]
                self.inherit(name, [base for base in bases if base.type != "type_arguments"])
        return name

    def interface(self, node: Node, scope: str) -> str:
        name = self.define(node, scope, "interface")
        for clause in (child for child in node.children if child.type in ("extends_type_clause", "extends_clause")):
            self.inherit(name, [base for base in clause.named_children if base.type != "type_arguments"])
        return name

    def namespace(self, node: Node, scope: str) -> str:
        return self.define(node, scope, "namespace", text(node.child_by_field_name("name")).strip("\"'"))

    def method(self, node: Node, scope: str) -> str:
        named = node.child_by_field_name("name")
        if named is None or named.type not in self.names:
            return scope
        name = self.define(node, scope, "method", text(named))
        self._returns(node, name)
        return name

    def field(self, node: Node, scope: str) -> str:
        named = node.child_by_field_name("name") or node.child_by_field_name("property")
        value = node.child_by_field_name("value")
        around = self.found.symbols.get(scope)
        if named is None or named.type not in self.names or around is None or around.kind == "function":
            return scope
        if value is not None and value.type in _FUNCTIONS:
            return self.define(node, scope, "method", text(named))
        self.found.bind(scope, text(named), self.typed(node.child_by_field_name("type")) or self.chain(value))
        return scope

    def pair(self, node: Node, scope: str) -> str:
        value, key = node.child_by_field_name("value"), node.child_by_field_name("key")
        if value is not None and value.type in _FUNCTIONS and key is not None and key.type in self.names:
            return self.define(value, scope, "function", text(key), node)
        return scope

    def variable(self, node: Node, scope: str) -> str:
        named, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if named is None:
            return scope
        module = _required(value)
        if module:
            for name, alias in _taken(named):
                self.found.take(module, name, alias, scope)
            return STOP
        if named.type != "identifier":
            self._hide(named, scope)
            return scope
        name, whole = text(named), node.parent if node.parent and node.parent.named_child_count == 1 else node
        if value is not None and value.type in _FUNCTIONS:
            made = self.define(value, scope, "function", name, whole)
            self._returns(value, made)
            return made
        if value is not None and value.type == "class":
            return self.define(value, scope, "class", name, whole)
        if not scope and (value is None or value.type != "object" or value.named_child_count):
            self.define(node, scope, "constant" if name.isupper() else "variable", name, whole)
        self.found.bind(scope, name, self.typed(node.child_by_field_name("type")) or self.chain(value))
        return name if value is not None and value.type == "object" and not scope else scope

    def assignment(self, node: Node, scope: str) -> str:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or left.type != "member_expression":
            return scope
        target = self.chain(left)
        owner, _, name = target.rpartition(".")
        if owner in ("exports", "module.exports") and right.type in _FUNCTIONS:
            return self.define(right, "", "function", name, node)
        if owner in ("exports", "module.exports"):
            if self.chain(right) != name:
                self.found.bind("", name, self.chain(right))
        elif target == "module.exports":
            module = _required(right)
            if module:
                self.found.take(module, "*")
            elif right.type in (*_FUNCTIONS, "class"):
                kind = "class" if right.type == "class" else "function"
                made = self.define(right, scope, kind, text(right.child_by_field_name("name")) or "default", node)
                self.found.bind("", "default", made)
                return made
            self.found.bind("", "default", self.chain(right))
        elif owner.endswith(".prototype") and right.type in _FUNCTIONS:
            return self.define(right, owner.removesuffix(".prototype"), "method", name, node)
        elif owner == "@self":
            above = scope.rpartition(".")[0]
            self.found.bind(above, name, self.found.outside(self.chain(right), scope))
        return scope

    def parameters(self, node: Node, scope: str) -> None:
        for one in node.named_children:
            pattern = one.child_by_field_name("pattern") if one.type.endswith("_parameter") else one
            if pattern is None:
                continue
            if pattern.type != "identifier":
                self._hide(pattern, scope)
                continue
            declared = self.typed(one.child_by_field_name("type"))
            self.found.bind(scope, text(pattern), declared)
            if any(child.type in ("accessibility_modifier", "readonly") for child in one.children):
                self.found.bind(scope.rpartition(".")[0], text(pattern), declared)

    def arrow(self, node: Node, scope: str) -> None:
        parameter = node.child_by_field_name("parameter")
        if parameter is not None and (scope, text(parameter)) not in self.found.types:
            self.found.bind(scope, text(parameter), "")

    def returned(self, node: Node, scope: str) -> None:
        self.found.bind(scope, "()", self.chain(first(node)))

    def loop(self, node: Node, scope: str) -> None:
        left, source = node.child_by_field_name("left"), self.chain(node.child_by_field_name("right"))
        if left is not None and left.type == "identifier":
            self.found.bind(scope, text(left), extended(source, after="[]"))

    def imported(self, node: Node, scope: str) -> str:
        module = _string(node.child_by_field_name("source"))
        bound = False
        for clause in (child for child in node.named_children if child.type == "import_require_clause"):
            self.found.take(_string(clause.child_by_field_name("source")), "", text(first(clause)))
        for clause in (child for child in node.named_children if child.type == "import_clause"):
            for part in clause.named_children:
                bound = True
                if part.type == "identifier":
                    self.found.take(module, "default", text(part))
                elif part.type == "namespace_import":
                    self.found.take(module, "", text(first(part)))
                for one in part.named_children if part.type == "named_imports" else ():
                    name = text(one.child_by_field_name("name"))
                    self.found.take(module, name, text(one.child_by_field_name("alias")) or name)
        if not bound:
            self.found.take(module)
        return STOP

    def exported(self, node: Node, scope: str) -> str:
        module = _string(node.child_by_field_name("source"))
        for part in node.named_children:
            for one in part.named_children if part.type == "export_clause" else ():
                name = text(one.child_by_field_name("name"))
                alias = text(one.child_by_field_name("alias")) or name
                if module:
                    self.found.take(module, name, alias)
                elif alias != name:
                    self.found.bind("", alias, name)
            if part.type == "namespace_export":
                self.found.take(module, "", text(first(part)))
        if module and not any(part.type in ("export_clause", "namespace_export") for part in node.named_children):
            self.found.take(module, "*")
        if any(child.type == "default" for child in node.children):
            declared = node.child_by_field_name("declaration") or node.child_by_field_name("value")
            name = text(declared.child_by_field_name("name")) if declared is not None else ""
            if declared is not None and not name and declared.type in _FUNCTIONS:
                return self.define(declared, scope, "function", "default", node)
            if declared is not None and not name and declared.type == "class":
                return self.define(declared, scope, "class", "default", node)
            self.found.bind("", "default", name or self.chain(declared))
        return STOP if module else scope

    def called(self, node: Node, scope: str) -> None:
        function = node.child_by_field_name("function")
        if module := _required(node):
            self.found.take(module)
        elif function is not None and function.type == "import":
            arguments = node.child_by_field_name("arguments")
            self.found.take(_string(first(arguments)) if arguments is not None else "")
        else:
            self.found.use(CALLS, scope, self.chain(function))

    def element(self, node: Node, scope: str) -> None:
        name = self.chain(node.child_by_field_name("name"))
        if name[:1].isupper() or "." in name:  # lower-case names are HTML elements
            self.found.use(CALLS, scope, name)

    def special(self, node: Node, left: int) -> str:
        match node.type:
            case "as_expression" | "satisfies_expression":
                return self.typed(node.named_children[-1])
            case "array":
                return extended(self.chain(first(node), left - 1), before="*")
            case "binary_expression" | "ternary_expression":
                one = node.child_by_field_name("left") or node.child_by_field_name("consequence")
                return self.chain(one, left - 1)
        return ""

    def typed(self, node: Node | None, left: int = 20) -> str:
        if node is None or left == 0:
            return ""
        match node.type:
            case "type_annotation" | "readonly_type" | "parenthesized_type":
                return self.typed(first(node), left - 1)
            case "type_identifier" | "nested_type_identifier" | "identifier" | "member_expression":
                return extended(self.chain(node), after="()")
            case "array_type":
                return f"*{self.typed(first(node), left - 1)}"
            case "union_type" | "intersection_type":
                return next((declared for part in node.named_children if (declared := self.typed(part, left - 1))), "")
            case "generic_type":
                named = node.child_by_field_name("name")
                inner = [
                    part for one in node.named_children if one.type == "type_arguments" for part in one.named_children
                ]
                return self.generic(named, inner, left)
        return ""

    def _returns(self, node: Node, name: str) -> None:
        body = node.child_by_field_name("body")
        given = self.chain(body) if node.type == "arrow_function" and body is not None else ""
        declared = self.typed(node.child_by_field_name("return_type")) or given
        if declared:
            self.found.bind(name, "()", declared)

    def _hide(self, pattern: Node, scope: str) -> None:
        """Bind the names of a destructuring pattern to an unknown value."""
        todo, budget = [pattern], 200
        while todo and budget:
            budget -= 1
            node = todo.pop()
            if node.type in ("identifier", "shorthand_property_identifier_pattern"):
                self.found.bind(scope, text(node), "")
            todo += [node.child_by_field_name("value") or node] if node.type == "pair_pattern" else node.named_children


def _required(node: Node | None) -> str:
    """The module of ``require('x')``."""
    if node is None or node.type != "call_expression" or text(node.child_by_field_name("function")) != "require":
        return ""
    arguments = node.child_by_field_name("arguments")
    return _string(first(arguments)) if arguments is not None else ""


def _taken(pattern: Node) -> list[tuple[str, str]]:
    """The names that ``const pattern = require(…)`` binds, as pairs of exported name and local name."""
    if pattern.type == "identifier":
        return [("", text(pattern))]
    found = []
    for part in pattern.named_children if pattern.type == "object_pattern" else ():
        if part.type == "shorthand_property_identifier_pattern":
            found.append((text(part), text(part)))
        elif part.type == "pair_pattern":
            found += [(text(key), text(value)) for key in fields(part, "key") for value in fields(part, "value")]
    return found


def _string(node: Node | None) -> str:
    return text(node).strip("\"'`") if node is not None and node.type in ("string", "template_string") else ""
