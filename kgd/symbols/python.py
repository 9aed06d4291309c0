"""Symbols of Python source files, by the language's own parser; and the target of an import: the file that the
interpreter would load.

An imported name is looked up in the folders on the path: the base of the importing file (the folder that contains its
outermost package, or its own folder), the tops of the projects that contain it with their source folders, the top of
the tree, and the tops of other projects in the tree. A name that is also a module of the standard library is looked up
only in folders that are certainly on `sys.path`.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import posixpath
import re
import sys
import threading
import warnings
from collections.abc import Iterator

from kgd.symbols import (
    BOUND,
    CALLS,
    INHERITS,
    NOWHERE,
    Gathering,
    Place,
    Project,
    Symbols,
    declared,
    extended,
    folders,
    join,
    manifests_in,
    nearest,
    one_of,
)

DOTS = 500
"""Maximum length of a chain of names joined by dots: for an import, Python's parser keeps every prefix of the chain."""
_CHAIN = re.compile(r"(?:\.[\s\\]*\w*[\s\\]*)+")
_COLLECTIONS = frozenset(
    """
    list set frozenset tuple List Set FrozenSet Tuple Sequence MutableSequence Iterable Iterator Collection Generator
    AsyncIterator AsyncIterable AbstractSet deque Deque
    """.split()
)
_PARSING = threading.Lock()
"""One parse at a time, because warning filters are global to all threads."""
_MAPPINGS = frozenset(["dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict"])
_WRAPPERS = frozenset(["Optional", "Annotated", "Final", "ClassVar", "Awaitable", "Coroutine", "Type", "type"])

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(source: str | bytes) -> ast.Module | None:
    """The tree of a module; None if Python's parser refuses it or would need too much memory."""
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    if any(one[0].count(".") > DOTS for one in _CHAIN.finditer(text)):
        return None
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the parsed code
            with _uninterrupted():
                return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep other threads from running while the tree is built.

    CPython 3.11 shares its recursion counter between threads, and raises SystemError if another thread parses at the
    same time; `inspect.signature` parses as well. During the parse, only garbage collection lets another thread run.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def extract(data: bytes) -> Symbols:
    """The symbols of a module, or the reason why it cannot be read."""
    tree = parse(data)
    if tree is None:
        return Symbols("python", reason="it is not valid Python")
    reader = _Reader(data)
    try:
        reader.body(tree.body, "", "")
    except RecursionError:
        return Symbols("python", reason="it is nested too deeply")
    return reader.found.done()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.found = Gathering("python")
        self._lines = data.splitlines()

    def body(self, statements: list[ast.stmt], scope: str, cls: str) -> None:
        """Read statements; `cls` is the innermost class that contains them, or empty."""
        for one in statements:
            self._visit(one, scope, cls)

    def _visit(self, node: ast.AST, scope: str, cls: str) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope, cls)
                return
            case ast.ClassDef():
                self._class(node, scope, cls)
                return
            case ast.Import():
                for alias in node.names:
                    self._import(alias, scope)
            case ast.ImportFrom():
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    self.found.take(module, alias.name, "" if alias.name == "*" else alias.asname or alias.name, scope)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, chain(value), node, scope, cls)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._assign(target, typed(annotation) or (chain(value) if value else ""), node, scope, cls)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, chain(value), node, scope, cls)
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self._assign(target, extended(chain(source), after="[]"), node, scope, cls)
            case ast.comprehension(target=target, iter=source):
                self._assign(target, extended(chain(source), after="[]"), node, scope, cls)
            case ast.withitem(context_expr=value, optional_vars=target) if target:
                self._assign(target, chain(value), node, scope, cls)
            case ast.Return(value=value) if scope and scope != cls:
                self.found.bind(scope, "()", chain(value))
            case ast.Call():
                self.found.use(CALLS, scope, chain(node.func))
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope, cls)

    def _import(self, alias: ast.alias, scope: str) -> None:
        first = alias.name.partition(".")[0]
        if alias.asname or first == alias.name:
            self.found.take(alias.name, "", alias.asname or alias.name, scope)
        else:
            self.found.take(first, BOUND, first, scope)
            self.found.take(alias.name, "", "", scope)

    def _class(self, node: ast.ClassDef, scope: str, cls: str) -> None:
        self._outside(node, scope, cls)
        name = self._define(scope, node, "class")
        for base in node.bases:
            # `Base[T]` is treated as `Base`.
            self.found.use(INHERITS, name, chain(base.value if isinstance(base, ast.Subscript) else base))
        for around in [*node.bases, *(keyword.value for keyword in node.keywords)]:
            self._visit(around, scope, cls)
        self.body(node.body, name, name)

    def _function(self, node: Function, scope: str, cls: str) -> None:
        self._outside(node, scope, cls)
        method = scope == cls != ""
        declared = {chain(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        is_property = method and bool(declared & {"property", "cached_property"})
        name = self._define(scope, node, "property" if is_property else "method" if method else "function")
        if node.returns:
            self.found.bind(name, "()", typed(node.returns))
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        if method and positional and "staticmethod" not in declared:
            is_class = "classmethod" in declared or node.name in ("__new__", "__init_subclass__", "__class_getitem__")
            self.found.bind(name, positional.pop(0).arg, "@class" if is_class else "@self")
        for one in [*positional, *arguments.kwonlyargs]:
            self.found.bind(name, one.arg, typed(one.annotation) if one.annotation else "")
        for several in (arguments.vararg, arguments.kwarg):
            if several:
                self.found.bind(name, several.arg, f"*{typed(several.annotation)}" if several.annotation else "")
        for value in [*arguments.defaults, *(default for default in arguments.kw_defaults if default)]:
            self._visit(value, scope, cls)
        self.body(node.body, name, cls)

    def _outside(self, node: Function | ast.ClassDef, scope: str, cls: str) -> None:
        """Record the decorators, which are called in the scope that contains the definition."""
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                self.found.use(CALLS, scope, chain(decorator))
            self._visit(decorator, scope, cls)

    def _define(self, scope: str, node: Function | ast.ClassDef, kind: str) -> str:
        start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        doc = ast.get_docstring(node, clean=False) or ""
        head = self._text(node.lineno, max(node.lineno, node.body[0].lineno - 1))
        return self.found.define(
            scope, node.name, kind, start, node.end_lineno or node.lineno, _head(head), doc.strip().partition("\n")[0]
        )

    def _assign(self, target: ast.expr, value: str, node: ast.AST, scope: str, cls: str) -> None:
        match target:
            case ast.Name(id=name):
                if not scope and isinstance(node, ast.Assign | ast.AnnAssign) and name not in self.found.symbols:
                    line, end = node.lineno, node.end_lineno or node.lineno
                    kind = "constant" if name.isupper() else "variable"
                    self.found.define("", name, kind, line, end, self._text(line, line))
                if value != name:
                    self.found.bind(scope, name, value)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self.found.types.get((scope, owner)) == "@self":
                # Resolved here because a parameter is unknown outside the method.
                self.found.bind(cls, name, self.found.outside(value, scope))
            case ast.Tuple(elts=several) | ast.List(elts=several):
                for one in several:
                    self._assign(one, "", node, scope, cls)

    def _text(self, line: int, end: int) -> str:
        return b"\n".join(self._lines[line - 1 : min(end, line + 20)]).decode("utf-8", "replace")


def _head(text: str) -> str:
    """The signature ``def f(a, b) -> int`` at the start of a text: up to the first colon outside brackets."""
    depth, quote = 0, ""
    for at, character in enumerate(text):
        match character:
            case _ if quote:
                quote = "" if character == quote else quote
            case '"' | "'":
                quote = character
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            case ":" if depth == 0:
                return text[:at]
    return text


def chain(node: ast.expr | None, left: int = 30) -> str:
    """An expression as a chain; empty if the expression cannot be written as a chain."""
    if left == 0:
        return ""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return extended(chain(value, left - 1), after=f".{attr}")
        case ast.Call(func=ast.Name(id="super")):
            return "@super"
        case ast.Call(func=function):
            return extended(chain(function, left - 1), after="()")
        case ast.Subscript(value=value):
            return extended(chain(value, left - 1), after="[]")
        case ast.Await(value=value) | ast.NamedExpr(value=value):
            return chain(value, left - 1)
        case ast.List(elts=[first, *_]) | ast.Set(elts=[first, *_]) | ast.ListComp(elt=first):
            return extended(chain(first, left - 1), before="*")
        case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first):
            return chain(first, left - 1)
    return ""


def typed(node: ast.expr | None) -> str:
    """The value that an annotation describes, as a chain."""
    match node:
        case ast.Constant(value=str(text)) if len(text) < 200:
            tree = parse(text)
            body = tree.body if tree else []
            return typed(body[0].value) if len(body) == 1 and isinstance(body[0], ast.Expr) else ""
        case ast.Name(id="Self"):
            return "@self"
        case ast.Name() | ast.Attribute():
            return extended(chain(node), after="()")
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return next((one for one in (typed(left), typed(right)) if one), "")
        case ast.Subscript(value=value, slice=inner):
            name = chain(value).rpartition(".")[2]
            several = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            if not several:
                return ""
            if name in _COLLECTIONS:
                return f"*{typed(several[0])}"
            if name in _MAPPINGS:
                return f"*{typed(several[-1])}"
            if name in ("Type", "type"):
                return chain(several[0])
            if name in _WRAPPERS or name == "Union":
                return typed(several[0])
            return f"{chain(value)}()" if name else ""
    return ""


def span(tree: ast.Module, name: str) -> tuple[int, int] | None:
    """The lines of a definition, counted from 0, the end excluded; None if the dotted name is not defined."""
    scope: ast.AST = tree
    found: ast.stmt | None = None
    for step in re.split(r"\.|::", name):
        for one in _members(scope):
            if _defines(one, step):
                found = one  # members are in reverse order, and the last definition takes effect
                break
        else:
            return None
        scope = found or scope
    if found is None:
        return None
    decorators = [decorator.lineno for decorator in getattr(found, "decorator_list", [])]
    return min([found.lineno, *decorators]) - 1, found.end_lineno or found.lineno


def _members(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a scope from last to first, including those in if, try and with."""
    todo = list(getattr(scope, "body", []))
    while todo:
        one = todo.pop()
        if isinstance(one, ast.If | ast.Try | ast.With):
            todo += [*one.body, *getattr(one, "orelse", [])]
            todo += [s for handler in getattr(one, "handlers", []) for s in handler.body]
        else:
            yield one


def _defines(one: ast.stmt, name: str) -> bool:
    match one:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return one.name == name
        case ast.Assign(targets=targets):
            return any(isinstance(target, ast.Name) and target.id == name for target in targets)
        case ast.AnnAssign(target=ast.Name(id=found)):
            return found == name
    return False


ENDS = (".py", ".pyi")
MARKS = frozenset({"setup.py", "conftest.py", "manage.py", "noxfile.py"})
"""Python files that mark the top of a project, or a folder that pytest adds to `sys.path`."""
_PROJECT = ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", *MARKS)
_SOURCES = ("src", "lib", "python")
_MOST = 50
"""Maximum number of modules with one name in the tree; a more common name is ambiguous."""


def keys_of(path: str) -> list[str]:
    """The keys under which a Python file is looked up."""
    folder, _, name = path.rpartition("/")
    plain = path.removesuffix("i").removesuffix(".py").removesuffix(".pyw")
    plain = folder if name in ("__init__.py", "__init__.pyi") else plain
    marks = [f"manifests:{folder}"] if name in MARKS else []
    return [f"path:{plain}", *(f"python:{module}" for module in _modules(plain)), *marks]


def _modules(plain: str) -> list[str]:
    """The dotted names that may import a Python file: from the top, or from a folder near it."""
    parts = plain.split("/")
    starts = {0, *(number + 1 for number, part in enumerate(parts[:-1]) if part in _SOURCES)}
    return [".".join(parts[start:]) for start in sorted(starts | set(range(max(0, len(parts) - 4), len(parts))))]


def find(module: str, name: str, path: str, project: Project) -> Place:
    """The module of ``import module`` or ``from module import name``."""
    dots = len(module) - len(module.lstrip("."))
    parts = [part for part in module.split(".") if part]
    if dots:
        folder = path
        for _ in range(dots):
            if not folder:
                return NOWHERE
            folder = posixpath.dirname(folder)
        found = _file(join(folder, *parts), project)
        return Place((found or f"{join(folder, *parts)}/",))
    name = "" if name in ("", "*", ".") else name
    standard = parts[0] in sys.stdlib_module_names
    if standard and not project.files(f"python:{parts[0]}"):
        return NOWHERE
    tried = set[str]()
    for root in _strong(path, project) if standard else _roots(path, project):
        if root in tried:
            continue
        tried.add(root)
        place = _in(root, parts, name, project)
        if place.files or _file(join(root, parts[0]), project):
            return place  # a package hides other packages of its name, even if it lacks the module
    return NOWHERE if standard else _elsewhere(parts, name, path, project)


def _in(root: str, parts: list[str], name: str, project: Project) -> Place:
    """A module below a root, or the namespace package that contains `name`."""
    folder = join(root, *parts)
    if found := _file(folder, project):
        return Place((found,))
    return Place((f"{folder}/",)) if name and _file(join(folder, name), project) else NOWHERE


def _file(plain: str, project: Project) -> str:
    """The file of a module or package; a package takes precedence over a module."""
    found = project.files(f"path:{plain}")
    return one_of(found, ("/__init__.py",)) or one_of(found, ENDS)


def _is_package(folder: str, project: Project) -> bool:
    return f"{folder}/__init__.py" in project.files(f"path:{folder}")


def _base(path: str, project: Project) -> str:
    """The folder that contains a file's outermost package or, without a package, the file's own folder."""
    return next(folder for folder in folders(path) if not folder or not _is_package(folder, project))


def _roots(path: str, project: Project) -> Iterator[str]:
    yield _base(path, project)
    yield from _tops(path, project)
    for folder in folders(path):
        if not folder or _is_project(folder, project):
            yield from (join(folder, one) for one in _SOURCES)


def _strong(path: str, project: Project) -> Iterator[str]:
    """The roots that are certainly on `sys.path`, which excludes the folder of a module outside any package."""
    base = _base(path, project)
    if base != posixpath.dirname(path):
        yield base
    yield from _tops(path, project)


def _tops(path: str, project: Project) -> Iterator[str]:
    """The tops of the projects that contain a file, with the source folders that they declare."""
    for folder in folders(path):
        if not folder or _is_project(folder, project):
            yield from _declared(folder, project)
            if not folder or not _is_package(folder, project):
                yield folder


def _is_project(folder: str, project: Project) -> bool:
    return any(posixpath.basename(one) in _PROJECT for one in manifests_in(folder, project))


def _declared(folder: str, project: Project) -> Iterator[str]:
    for one in manifests_in(folder, project):
        if posixpath.basename(one) in _PROJECT and not one.endswith(".py"):
            yield from (join(folder, root.name) for root in declared(one, "root", project))


def _elsewhere(parts: list[str], name: str, path: str, project: Project) -> Place:
    """A module of another project in the tree."""
    for steps in (parts, [*parts, name]) if name else (parts,):
        found = project.files(f"python:{'.'.join(steps)}")
        if len(found) > _MOST:
            return NOWHERE
        fitting = {
            one: root
            for one in found
            if (root := _root_of(one, steps)) is not None
            and (len(steps) > 1 or one.endswith("/__init__.py"))  # a loose module is not installed
            and _is_root(root, project)
        }
        if chosen := nearest(fitting, path):
            return Place((chosen,)) if steps is parts else Place((f"{join(fitting[chosen], *parts)}/",))
    return NOWHERE


def _root_of(file: str, steps: list[str]) -> str | None:
    """The folder relative to which these steps import a file; None if there is no such folder."""
    plain = posixpath.dirname(file) if file.endswith(("/__init__.py", "/__init__.pyi")) else file.rpartition(".")[0]
    tail = "/".join(steps)
    return plain[: -len(tail) - 1] if plain.endswith(f"/{tail}") else "" if plain == tail else None


def _is_root(folder: str, project: Project) -> bool:
    """Whether the folder is a project's top or one of its source folders."""
    if _is_package(folder, project):
        return False
    if _is_project(folder, project):
        return True
    above, _, last = folder.rpartition("/")
    return _is_project(above, project) and (last in _SOURCES or folder in _declared(above, project))


def below(path: str, name: str, project: Project) -> str:
    """The file of module `name` in a package, given the package's own file or its folder; empty if there is none."""
    folder, _, own = path.rpartition("/")
    return _file(join(folder, name), project) if own in ("", "__init__.py", "__init__.pyi") else ""
