"""Symbols of Rust source files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from kgd.symbols.rust_modules import MOD
from kgd.symbols.symbols import CALLS
from kgd.symbols.walker import STOP, Walker, first, text

if TYPE_CHECKING:
    from tree_sitter import Node

_HOLDERS = frozenset(
    """
    Box Rc Arc Option Result RefCell Cell Mutex RwLock Ref RefMut Cow Pin
    """.split()
)
_COLLECTIONS = frozenset(["Vec", "VecDeque", "HashSet", "BTreeSet", "HashMap", "BTreeMap"])
_SAME = frozenset(
    """
    unwrap expect clone as_ref as_mut borrow borrow_mut to_owned iter iter_mut into_iter values
    """.split()
)
"""Methods whose result has, for name resolution, the type of their receiver."""


_PATH = re.compile(r'#\[\s*path\s*=\s*"([^"]+)"')


class Rust(Walker):
    names = frozenset({"identifier", "type_identifier", "field_identifier"})
    words: ClassVar = {"self": "self", "super": "@parent", "crate": "@crate"}
    members: ClassVar = {
        "field_expression": ("value", "field"),
        "scoped_identifier": ("path", "name"),
        "scoped_type_identifier": ("path", "name"),
    }
    calls: ClassVar = {"call_expression": "function"}
    items: ClassVar = {"index_expression": ""}
    through: ClassVar = {
        "generic_function": "function",
        "reference_expression": "value",
        "try_expression": "",
        "await_expression": "",
        "parenthesized_expression": "",
        "unary_expression": "",
        "generic_type": "type",
    }
    result = "return_type"
    defines: ClassVar = {"struct_item": "struct", "union_item": "struct", "enum_item": "enum"}
    handlers: ClassVar = {
        "mod_item": "module",
        "function_item": "function",
        "function_signature_item": "function",
        "impl_item": "implementation",
        "trait_item": "trait",
        "type_item": "alias",
        "const_item": "value",
        "static_item": "value",
        "macro_definition": "macro",
        "field_declaration": "field",
        "use_declaration": "used",
        "extern_crate_declaration": "linked",
        "let_declaration": "let",
        "parameter": "parameter",
        "self_parameter": "own",
        "for_expression": "loop",
        "call_expression": "call",
        "macro_invocation": "expanded",
    }

    def module(self, node: Node, scope: str) -> str:
        if node.child_by_field_name("body") is None:
            name = text(node.child_by_field_name("name"))
            self.found.take(f"{MOD}={_attribute(node)}".removesuffix("="), name, name, scope)
            return STOP
        return self.define(node, scope, "module")

    def function(self, node: Node, scope: str) -> str:
        inside = node.parent is not None and node.parent.parent is not None
        owner = node.parent.parent.type if inside and node.parent and node.parent.parent else ""
        return self.define(node, scope, "method" if owner in ("impl_item", "trait_item") else "function")

    def implementation(self, node: Node, scope: str) -> str:
        name = self.typed(node.child_by_field_name("type")).removesuffix("()").rpartition(".")[2]
        if not name or name.startswith(("*", "@")):
            return scope
        inner = f"{scope}.{name}" if scope else name
        trait = node.child_by_field_name("trait")
        if trait is not None:
            self.inherit(inner, [trait])
        return inner

    def trait(self, node: Node, scope: str) -> str:
        name = self.define(node, scope, "trait")
        bounds = node.child_by_field_name("bounds")
        if bounds is not None:
            self.inherit(name, bounds.named_children)
        return name

    def alias(self, node: Node, scope: str) -> str:
        name = self.define(node, scope, "type")
        self.found.bind(
            scope,
            text(node.child_by_field_name("name")),
            self.typed(node.child_by_field_name("type")).removesuffix("()"),
        )
        return name

    def value(self, node: Node, scope: str) -> str:
        self.define(node, scope, "constant" if node.type == "const_item" else "variable")
        self.found.bind(scope, text(node.child_by_field_name("name")), self.typed(node.child_by_field_name("type")))
        return scope

    def macro(self, node: Node, scope: str) -> str:
        self.define(node, scope, "macro")
        return STOP

    def field(self, node: Node, scope: str) -> str:
        self.found.bind(scope, text(node.child_by_field_name("name")), self.typed(node.child_by_field_name("type")))
        return scope

    def used(self, node: Node, scope: str) -> str:
        todo = [(node.child_by_field_name("argument"), "")]
        while todo:
            part, before = todo.pop()
            if part is None:
                continue
            path = f"{before}::" if before else ""
            match part.type:
                case "scoped_use_list":
                    inner = path + text(part.child_by_field_name("path"))
                    listed = part.child_by_field_name("list")
                    todo += [(one, inner) for one in (listed.named_children if listed is not None else [])]
                case "use_list":
                    todo += [(one, before) for one in part.named_children]
                case "use_wildcard":
                    self.found.take(path + text(first(part)), "*", "", scope)
                case "use_as_clause":
                    self._take(
                        path + text(part.child_by_field_name("path")), text(part.child_by_field_name("alias")), scope
                    )
                case "self":
                    self._take(before, before.rpartition("::")[2], scope)
                case _:
                    whole = path + text(part)
                    self._take(whole, whole.rpartition("::")[2], scope)
        return STOP

    def linked(self, node: Node, scope: str) -> str:
        name = text(node.child_by_field_name("name"))
        self.found.take(f"::{name}", "", text(node.child_by_field_name("alias")) or name, scope)
        return STOP

    def _take(self, path: str, alias: str, scope: str) -> None:
        module, _, name = path.rpartition("::")
        alias = "" if alias == "_" else alias
        if module:
            self.found.take(module, name, alias, scope)
        else:
            self.found.take(path, "", alias, scope)

    def let(self, node: Node, scope: str) -> str:
        declared = self.typed(node.child_by_field_name("type")) or self.chain(node.child_by_field_name("value"))
        self._bind(node.child_by_field_name("pattern"), scope, declared)
        return scope

    def parameter(self, node: Node, scope: str) -> str:
        self._bind(node.child_by_field_name("pattern"), scope, self.typed(node.child_by_field_name("type")))
        return scope

    def own(self, node: Node, scope: str) -> str:
        self.found.bind(scope, "self", "@self")
        return scope

    def loop(self, node: Node, scope: str) -> str:
        source = self.chain(node.child_by_field_name("value"))
        self._bind(node.child_by_field_name("pattern"), scope, f"{source}[]" if source else "")
        return scope

    def expanded(self, node: Node, scope: str) -> str:
        """A macro's arguments have no syntax tree; a name right before brackets is treated as a call."""
        self.found.use(CALLS, scope, self.chain(node.child_by_field_name("macro")))
        todo = [child for child in node.named_children if child.type == "token_tree"]
        while todo:
            before = ""
            for one, after in zip(parts := todo.pop().children, [*parts[1:], None], strict=True):
                if one.type == "identifier" and before not in (".", "::") and after is not None:
                    if after.type == "token_tree" and (after.text or b"")[:1] == b"(":
                        self.found.use(CALLS, scope, text(one))
                elif one.type == "token_tree":
                    todo.append(one)
                before = text(one) if one.type in (".", "::") else ""
        return STOP

    def special(self, node: Node, left: int) -> str:
        if node.type == "struct_expression":
            return self.typed(node.child_by_field_name("name"))
        if node.type == "type_cast_expression":
            return self.typed(node.child_by_field_name("type"))
        if node.type == "index_expression":
            start = self.chain(first(node), left - 1)
            return f"{start}[]" if start else ""
        return ""

    def chain(self, node: Node | None, left: int = 30) -> str:
        if node is None or left == 0:
            return ""
        match node.type:
            case "call_expression":
                function = node.child_by_field_name("function")
                if (
                    function is not None
                    and function.type == "field_expression"
                    and text(function.child_by_field_name("field")) in _SAME
                ):
                    return self.chain(function.child_by_field_name("value"), left - 1)
            case "scoped_identifier" | "scoped_type_identifier":
                path = node.child_by_field_name("path")
                if path is not None and path.type == "self":
                    return f"@module.{text(node.child_by_field_name('name'))}"
            case "identifier" | "type_identifier" if text(node) == "Self":
                return "@class"
            case "index_expression":
                return self.special(node, left)
        return super().chain(node, left)

    def typed(self, node: Node | None, left: int = 20) -> str:
        if node is None or left == 0:
            return ""
        match node.type:
            case "type_identifier" if text(node) == "Self":
                return "@self"
            case "type_identifier" | "scoped_type_identifier" | "scoped_identifier" | "identifier":
                name = self.chain(node)
                return f"{name}()" if name else ""
            case "reference_type" | "pointer_type":
                return self.typed(node.child_by_field_name("type"), left - 1)
            case "dynamic_type" | "abstract_type":
                return self.typed(node.child_by_field_name("trait"), left - 1)
            case "array_type":
                return f"*{self.typed(node.child_by_field_name('element'), left - 1)}"
            case "generic_type":
                named = node.child_by_field_name("type")
                arguments = node.child_by_field_name("type_arguments")
                inner = (
                    [one for one in arguments.named_children if one.type != "lifetime"] if arguments is not None else []
                )
                last = text(named).rpartition("::")[2]
                if last in _HOLDERS and inner:
                    return self.typed(inner[0], left - 1)
                if last in _COLLECTIONS and inner:
                    return f"*{self.typed(inner[-1], left - 1)}"
                return self.typed(named, left - 1)
        return ""

    def _bind(self, pattern: Node | None, scope: str, declared: str) -> None:
        while pattern is not None and pattern.type in ("mut_pattern", "ref_pattern", "reference_pattern"):
            pattern = pattern.named_children[-1] if pattern.named_children else None
        if pattern is not None and pattern.type == "identifier":
            self.found.bind(scope, text(pattern), declared)


def _attribute(node: Node) -> str:
    """The path in an attribute of ``mod name;``; empty if there is none."""
    above = node.prev_named_sibling
    while above is not None and (above.type == "attribute_item" or "comment" in above.type):
        if found := _PATH.match(text(above)):
            return found[1]
        above = above.prev_named_sibling
    return ""
