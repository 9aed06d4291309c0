"""Symbols of Rust source files, and the target of a path: found through the `mod` tree of its crate and the crates that
Cargo.toml names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from kgd.symbols import CALLS, NOWHERE, Place, Project, declared, extended, folders, join, manifest, one_of
from kgd.symbols.walker import STOP, Walker, first, text

if TYPE_CHECKING:
    from tree_sitter import Node

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
    wrappers = frozenset(
        """
        Box Rc Arc Option Result RefCell Cell Mutex RwLock Ref RefMut Cow Pin
        """.split()
    )
    collections = frozenset({"Vec", "VecDeque", "HashSet", "BTreeSet", "HashMap", "BTreeMap"})
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

    def value(self, node: Node, scope: str) -> None:
        self.define(node, scope, "constant" if node.type == "const_item" else "variable")
        self.found.bind(scope, text(node.child_by_field_name("name")), self.typed(node.child_by_field_name("type")))

    def macro(self, node: Node, scope: str) -> str:
        self.define(node, scope, "macro")
        return STOP

    def field(self, node: Node, scope: str) -> None:
        self.found.bind(scope, text(node.child_by_field_name("name")), self.typed(node.child_by_field_name("type")))

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

    def let(self, node: Node, scope: str) -> None:
        declared = self.typed(node.child_by_field_name("type")) or self.chain(node.child_by_field_name("value"))
        self._bind(node.child_by_field_name("pattern"), scope, declared)

    def parameter(self, node: Node, scope: str) -> None:
        self._bind(node.child_by_field_name("pattern"), scope, self.typed(node.child_by_field_name("type")))

    def own(self, node: Node, scope: str) -> None:
        self.found.bind(scope, "self", "@self")

    def loop(self, node: Node, scope: str) -> None:
        item = extended(self.chain(node.child_by_field_name("value")), after="[]")
        self._bind(node.child_by_field_name("pattern"), scope, item)

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
        match node.type:
            case "struct_expression":
                return self.typed(node.child_by_field_name("name"))
            case "type_cast_expression":
                return self.typed(node.child_by_field_name("type"))
            case "index_expression":
                return extended(self.chain(first(node), left - 1), after="[]")
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
                return extended(self.chain(node), after="()")
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
                return self.generic(named, inner, left)
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


MOD = "@mod"
"""The `module` of an import that stands for ``mod name;``, followed by ``=`` and the path if an attribute gives one."""
_CARGO = ("Cargo.toml",)
_TARGETS = frozenset({"bin", "tests", "examples", "benches"})
_DEEPEST = 40
"""Maximum number of nested modules."""


def find(steps: Sequence[str], path: str, project: Project) -> Place:
    """The target of a path: its first step selects a module, and the others are looked up there."""
    first, rest = steps[0], tuple(steps[1:])
    match first:
        case "crate" | "@crate":
            return Place((_root(path, project),), rest)
        case "super" | "@parent":
            above = parent(path, project)
            while above and rest[:1] == ("super",):
                above, rest = parent(above, project), rest[1:]
            return Place((above,), rest) if above else NOWHERE
        case "self" | "@module":
            return Place((path,), rest)
        case "":  # `::name`, always a crate
            found = crate(rest[0], path, project) if rest else ""
            return Place((found,), rest[1:]) if found else NOWHERE
    found = crate(first, path, project)
    return Place((found,), rest) if found else Place((path,), tuple(steps))


def submodule(path: str, inside: str, name: str, attribute: str, project: Project) -> str:
    """The file for ``mod name;`` in a file, or in the inline modules `inside` that file; empty if there is none."""
    name = name.removeprefix("r#")
    folder, _, own = path.rpartition("/")
    around = join(folder if _holds_siblings(path, own, project) else path.removesuffix(".rs"), *inside.split("."))
    if attribute:
        found = join(around if inside else folder, attribute)
        return one_of(project.files(f"path:{found.removesuffix('.rs')}"), (".rs",))
    return _rust_file((join(around, name), join(around, name, "mod")), project)


def _holds_siblings(path: str, own: str, project: Project) -> bool:
    """Whether the child modules of a file are in the same folder, as for the root of a crate."""
    return own in ("lib.rs", "main.rs", "mod.rs", "build.rs") or _is_target(path, project)


def _is_target(path: str, project: Project) -> bool:
    """Whether a file is a crate's root, by its path or by Cargo.toml: a binary, a test, an example, a benchmark."""
    folder, _, own = path.rpartition("/")
    package, said = _package(path, project)
    if said and path == join(package, _lib(said, project)[1]):
        return True
    above, _, last = folder.rpartition("/")
    if last not in _TARGETS or own == "mod.rs":
        return False
    return above == (join(package, "src") if last == "bin" else package)


def parent(path: str, project: Project) -> str:
    """The file of the parent of a file's module; empty for the root of a crate."""
    folder, _, own = path.rpartition("/")
    if own in ("lib.rs", "main.rs", "build.rs") or _is_target(path, project):
        return ""
    name = posixpath.basename(folder) if own == "mod.rs" else own.removesuffix(".rs")
    if own == "mod.rs":
        folder = posixpath.dirname(folder)
    plains = [join(folder, "mod"), join(folder, "lib"), join(folder, "main"), folder]
    found = [file for plain in plains if (file := _rust_file((plain,), project)) and file != path]
    return next((one for one in found if _declares(one, name, project)), found[0] if found else "")


def _declares(path: str, name: str, project: Project) -> bool:
    symbols = project.symbols(path)
    return symbols is not None and any(
        one.module.startswith(MOD) and one.name.removeprefix("r#") == name for one in symbols.imports
    )


def _root(path: str, project: Project) -> str:
    """The root of a file's crate."""
    for _ in range(_DEEPEST):
        above = parent(path, project)
        if not above:
            break
        path = above
    return path


def crate(name: str, path: str, project: Project) -> str:
    """The root of the library to which `name` refers in a file: a dependency with a path, or the package's own
    library."""
    package, said = _package(path, project)
    if not said:
        return ""
    own, file = _lib(said, project)
    known = declared(said, "dependency", project)
    direct = [one for one in known if one.name == name]
    if name == own and not direct and path != join(package, file):
        return _rust_file((join(package, file).removesuffix(".rs"),), project)
    for one in direct or (known if project.files(f"crate:{name}") else []):  # a library may be named differently
        folder = join(package, one.alias) if one.alias else _shared(one.scope, package, project)
        if folder is None:
            continue
        manifest_at = manifest(folder, _CARGO, project)
        library, file = _lib(manifest_at, project) if manifest_at else ("", "")
        if name == one.name or (library == name and library):
            return _rust_file((join(folder, file).removesuffix(".rs"),), project) if manifest_at else ""
    return ""


def _package(path: str, project: Project) -> tuple[str, str]:
    """The folder and the manifest of the package that a file belongs to; both empty if there is none."""
    for folder in folders(path):
        found = manifest(folder, _CARGO, project)
        if found and declared(found, "lib", project):
            return folder, found
    return "", ""


def _lib(said: str, project: Project) -> tuple[str, str]:
    """The name of a package's library, and its path."""
    return next(((one.name, one.alias) for one in declared(said, "lib", project)), ("", ""))


def _shared(used: str, package: str, project: Project) -> str | None:
    """The folder of a dependency that the workspace declares; None if it has no path."""
    for folder in (package, *folders(package)) if package else ("",):
        for one in declared(manifest(folder, _CARGO, project), "shared", project):
            if one.name == used:
                return join(folder, one.alias)
    return None


def _rust_file(plains: Iterable[str], project: Project) -> str:
    """The first existing file among paths without extension; empty if there is none."""
    return next((found for plain in plains if (found := one_of(project.files(f"path:{plain}"), (".rs",)))), "")
