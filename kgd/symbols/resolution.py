"""Name resolution across files: imports, calls and inheritance.

Ambiguous names are left out: kgd keeps only edges of which a reader of the code would be certain.

A file is known by keys such as ``path:shop/orders``, ``java:org.shop.Order`` or ``manifests:shop``. Resolution looks up
only keys and the symbols of files, so changes of these determine which files must be resolved again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from kgd.symbols import (
    BOUND,
    CALLS,
    IMPORTS,
    INHERITS,
    NOWHERE,
    Import,
    Place,
    Project,
    Symbol,
    Symbols,
    go,
    java,
    python,
    rust,
    script_modules,
)
from kgd.symbols.rust import MOD, crate, submodule

_DEEPEST = 25
"""Maximum length of a chain of aliases."""
_BUDGET = 4_000
"""Maximum steps for one chain; only code crafted to exhaust the resolver needs more."""
_BUDGET_OF_FILE = 400_000
_CLASSES = frozenset(
    """
    class struct interface trait enum record annotation type namespace module
    """.split()
)
_HOLDS_OTHERS = frozenset({"namespace", "module"})


class End(NamedTuple):
    """One end of an edge: a symbol or, if the name is empty, the file."""

    path: str
    name: str = ""


class Link(NamedTuple):
    type: str
    source: End
    target: End


class _What(NamedTuple):
    """The meaning of a chain: a ``module``, a ``package`` of several files, a ``symbol``, an ``instance`` of one,
    ``many`` of them, or the bases of one (``super``)."""

    kind: str
    path: str
    name: str = ""
    files: tuple[str, ...] = ()


def resolve(path: str, project: Project) -> list[Link]:
    """The edges that start in a file, sorted."""
    symbols = project.symbols(path)
    if symbols is None:
        return []
    found: set[Link] = set()
    resolver = Resolver(project)
    for one in symbols.imports:
        for file in resolver.imported(path, symbols, one):
            if file != path:
                found.add(Link(IMPORTS, End(path), End(file)))
    for use in symbols.uses:
        resolver.begin()
        around = use.scope if use.kind == CALLS else use.scope.rpartition(".")[0]
        what = resolver.chain(path, around, use.chain)
        if what is None or what.kind not in ("symbol", "super", "module"):
            continue
        if what.kind == "super":
            what = next(iter(resolver.bases(what.path, what.name)), None)
        elif what.kind == "module":
            what = resolver.member(what, "default")
        if what is None or what.kind != "symbol":
            continue
        source, target = End(path, use.scope), End(what.path, what.name)
        if use.kind == INHERITS and use.scope not in resolver.table(path):
            own = resolver.chain(path, "", use.scope)  # `impl Trait for Type` for a type from another module
            if own is None or own.kind != "symbol":
                continue
            source = End(own.path, own.name)
        if source != target:
            found.add(Link(use.kind, source, target))
    return sorted(found)


class Resolver:
    """Evaluates chains for one file, and caches what it looks up."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._tables: dict[str, dict[str, Symbol]] = {}
        self._places: dict[tuple[str, Import], Place] = {}
        self._inherited: dict[str, dict[str, list[str]]] = {}
        self._walked: dict[Place, _What | None] = {}
        self._searched: dict[str, set[tuple[str, str]]] = {}
        """The modules that the current search for a name visited, by file and scope."""
        self._absent: set[tuple[str, str, str]] = set()
        """Names that are not provided by any star import of a module."""
        self._known: dict[tuple[str, str, str], _What | None] = {}
        self._open: set[tuple[str, str, str]] = set()
        self._budget, self._left = _BUDGET, _BUDGET_OF_FILE

    def begin(self) -> None:
        """Start a new chain with a full budget, as far as the budget of the file allows."""
        self._left -= _BUDGET - max(self._budget, 0)
        self._budget = min(_BUDGET, self._left)

    def table(self, path: str) -> dict[str, Symbol]:
        """The symbols of a file by name."""
        table = self._tables.get(path)
        if table is None:
            symbols = self._project.symbols(path)
            table = self._tables[path] = {one.name: one for one in (symbols.symbols if symbols else ())}
        return table

    def imported(self, path: str, symbols: Symbols, one: Import) -> Sequence[str]:
        """The files that an import refers to."""
        self.begin()
        if one.name == BOUND:
            return ()
        place = self._place(path, symbols, one)
        if one.module.startswith(MOD):
            return place.files
        if symbols.language == "rust":
            return self._rust_file(place, one)
        if place.rest:
            what = self._walk(place)
            place = Place((what.path,)) if what is not None and what.path else Place(place.files[:1])
        if place.package:
            if one.name and one.name != "*":
                what = self.member(_What("package", "", "", place.files), one.name)
                return (what.path,) if what is not None else ()
            return place.files
        if not place.files:
            return ()
        file = place.files[0]
        if one.name and one.name != "*" and not self._binds(file, one.name):
            below = python.below(file, one.name, self._project)
            if below:
                return (below,)
        return () if file.endswith("/") else (file,)

    def _binds(self, file: str, name: str) -> bool:
        """Whether a package itself defines a name, which then hides its submodule of that name."""
        if name in self.table(file):
            return True
        symbols = self._project.symbols(file)
        package = f"/{posixpath.dirname(file)}"
        return symbols is not None and any(
            one.alias == name
            and not one.scope
            and one.name  # except for its own submodules
            and one.module != "."
            and not package.endswith(f"/{one.module.replace('.', '/')}")
            for one in symbols.imports
        )

    def _rust_file(self, place: Place, one: Import) -> Sequence[str]:
        """The file of the last module in a path; the items after it are resolved in that module."""
        if not place.files:
            return ()
        what, file = _What("module", place.files[0]), place.files[0]
        for name in [*place.rest, *([one.name] if one.name not in ("", "*") else [])]:
            found = self.member(what, name)
            if found is None or not self._is_module(found):
                break
            what, file = found, found.path
        return (file,)

    def _is_module(self, what: _What) -> bool:
        if what.kind == "symbol":
            symbol = self.table(what.path).get(what.name)
            return symbol is not None and symbol.kind == "module"
        return what.kind == "module"

    # Chains

    def chain(self, path: str, scope: str, text: str, depth: int = _DEEPEST) -> _What | None:
        """The meaning of a chain in a scope of a file."""
        key = (path, scope, text)
        if key in self._known:
            return self._known[key]
        self._budget -= 1
        if depth == 0 or key in self._open or self._budget < 0:
            return None
        self._open.add(key)
        try:
            found = self._chain(path, scope, text, depth)
        finally:
            self._open.discard(key)
        if self._budget >= 0 and not self._open:
            self._known[key] = found
        return found

    def _chain(self, path: str, scope: str, text: str, depth: int) -> _What | None:
        if text.startswith("*"):
            inner = self.chain(path, scope, text[1:], depth - 1)
            return inner._replace(kind="many") if inner is not None and inner.kind == "instance" else None
        what: _What | None = None
        for number, step in enumerate(text.split(".")):
            name = step.rstrip("()[]")
            what = self._name(path, scope, name, depth) if number == 0 else self.member(what, name, depth)
            for at in range(len(name), len(step), 2):
                what = self._applied(what, step[at : at + 2], depth) if what is not None else None
            if what is None:
                return None
        return what

    def _applied(self, what: _What, suffix: str, depth: int) -> _What | None:
        if suffix == "[]":
            return what._replace(kind="instance") if what.kind == "many" else what if what.kind == "symbol" else None
        if what.kind == "module":  # a Node module that is a function or a class
            inner = self.member(what, "default", depth)
            return self._applied(inner, suffix, depth) if inner is not None and inner.kind == "symbol" else None
        if what.kind == "instance":
            return what  # a callable instance is represented by its type
        if what.kind != "symbol":
            return None
        symbol = self.table(what.path).get(what.name)
        if symbol is not None and symbol.kind in _CLASSES:
            return what._replace(kind="instance")
        return self._answer(what, depth)

    def _answer(self, what: _What, depth: int) -> _What | None:
        """The declared result of a function."""
        symbols = self._project.symbols(what.path)
        declared = symbols.types.get((what.name, "()")) if symbols else None
        return self.chain(what.path, what.name, declared, depth - 1) if declared else None

    # Names

    def _name(self, path: str, scope: str, name: str, depth: int) -> _What | None:
        symbols = self._project.symbols(path)
        if symbols is None:
            return None
        if name.startswith("@"):
            return self._word(path, scope, name, symbols)
        here, end = scope, self._module_around(path, scope) if symbols.language == "rust" else ""
        while True:
            found = self._in_scope(path, here, name, symbols, depth, here == scope)
            if found is not False:
                return found if isinstance(found, _What) else None
            if here == end:
                break
            here = here.rpartition(".")[0]
        if symbols.language == "rust" and name.islower() and (library := crate(name, path, self._project)):
            return _What("module", library)
        for file in siblings(path, symbols, self._project):
            if file != path:
                found_in = self._top(file, name, depth)
                if found_in is not None:
                    return found_in
        if symbols.language == "java" and (place := self._java(path, symbols, name)):
            return place
        return self._through_stars(path, end, name, symbols, depth)

    def _in_scope(
        self, path: str, scope: str, name: str, symbols: Symbols, depth: int, innermost: bool
    ) -> _What | bool | None:
        """The meaning of a name in one scope: False if it has no meaning there, None if its meaning is unknown."""
        table = self.table(path)
        qualified = f"{scope}.{name}" if scope else name
        kind = table[scope].kind if scope in table else ""
        is_class = kind in _CLASSES and kind not in _HOLDS_OTHERS
        # Only Java looks into the enclosing classes; in other languages a class body sees at most its own names.
        if is_class and symbols.language != "java" and not (innermost and symbols.language == "python"):
            return False
        declared = symbols.types.get((scope, name))
        if declared is not None and not (qualified in table and table[qualified].kind in _CLASSES):
            if declared:
                found = self.chain(path, scope, declared, depth - 1)
                if found is not None:
                    return found
            if qualified not in table:
                return self._import(path, scope, name, symbols, depth)
        if qualified in table and table[qualified].kind != "constructor":
            return _What("symbol", path, qualified)
        if is_class and symbols.language == "java":
            found = self.member(_What("symbol", path, scope), name, depth - 1)
            if found is not None:
                return found
        imported = self._import(path, scope, name, symbols, depth)
        if imported is None and any(one.alias == name and one.scope == scope for one in symbols.imports):
            return None  # imported from outside the tree, so outer scopes do not matter
        return imported or False

    def _import(self, path: str, scope: str, name: str, symbols: Symbols, depth: int) -> _What | None:
        for one in symbols.imports:
            if one.alias == name and one.scope == scope:
                found = self._taken(path, symbols, one, depth)
                if found is not None:
                    return found
        return None

    def _taken(self, path: str, symbols: Symbols, one: Import, depth: int) -> _What | None:
        place = self._place(path, symbols, one)
        if not place.files:
            return None
        if place.package:
            what: _What | None = _What("package", "", "", place.files)
        elif place.rest:
            what = self._walk(place, depth)
        else:
            what = _What("module", place.files[0])
        if what is None or one.name in ("", BOUND) or one.module.startswith(MOD):
            return what
        return self.member(what, one.name, depth - 1)

    def _place(self, path: str, symbols: Symbols, one: Import) -> Place:
        """The target of an import, cached."""
        found = self._places.get((path, one))
        if found is None:
            found = self._places[path, one] = self._find(path, symbols, one)
        return found

    def _find(self, path: str, symbols: Symbols, one: Import) -> Place:
        if symbols.language != "rust":
            return find(one, path, symbols, self._project)
        if one.module.startswith(MOD):
            attribute = one.module.removeprefix(MOD).removeprefix("=")
            file = submodule(path, one.scope, one.name, attribute, self._project)
            return Place((file,)) if file else NOWHERE
        steps = one.module.split("::")
        inner = self._module_around(path, one.scope)
        while inner and steps[0] in ("self", "super"):  # a module within the file
            if steps[0] == "super":
                inner = inner.rpartition(".")[0]
            steps = steps[1:] or ["self"]
            if steps[0] != "super":
                return Place((path,), tuple(filter(None, [*inner.split("."), *[s for s in steps if s != "self"]])))
        return rust.find(steps, path, self._project)

    def _module_around(self, path: str, scope: str) -> str:
        table = self.table(path)
        while scope and not (scope in table and table[scope].kind == "module"):
            scope = scope.rpartition(".")[0]
        return scope

    def _walk(self, place: Place, depth: int = _DEEPEST) -> _What | None:
        if place in self._walked:
            return self._walked[place]
        what: _What | None = _What("module", place.files[0])
        for name in place.rest:
            what = self.member(what, name, depth - 1)
        if what is not None:
            self._walked[place] = what
        return what

    def _word(self, path: str, scope: str, word: str, symbols: Symbols) -> _What | None:
        if word in ("@crate", "@parent", "@module"):
            around = self._module_around(path, scope)
            if around and word != "@crate":
                above = around if word == "@module" else around.rpartition(".")[0]
                return _What("symbol", path, above) if above else _What("module", path)
            place = rust.find([word], path, self._project)
            return _What("module", place.files[0]) if place.files else None
        table = self.table(path)
        while scope:
            if scope in table and table[scope].kind in _CLASSES - _HOLDS_OTHERS:
                kind = {"@self": "instance", "@class": "symbol"}.get(word, "super")
                return _What(kind, path, scope)
            here, scope = scope, scope.rpartition(".")[0]
            if here not in table and symbols.language == "rust":  # an `impl` for a type from another module
                found = self.chain(path, scope, here.rpartition(".")[2])
                return found._replace(kind="instance" if word == "@self" else "symbol") if found else None
        return None

    def _java(self, path: str, symbols: Symbols, name: str) -> _What | None:
        """The first name of a package, or a class in the unnamed package."""
        if not name[:1].islower():
            return None
        files = self._project.files(f"javas:{name}")
        return _What("package", "", name, tuple(files)) if files else None

    def _through_stars(self, path: str, scope: str, name: str, symbols: Symbols, depth: int) -> _What | None:
        """The meaning of a name through star imports. A search visits each module only once, because star imports may
        form cycles."""
        visited = self._searched.get(name)
        if visited is not None:
            return self._stars(path, scope, name, symbols, depth, visited)
        visited = self._searched[name] = set()
        try:
            found = self._stars(path, scope, name, symbols, depth, visited)
        finally:
            del self._searched[name]
        if found is None and self._budget >= 0:
            self._absent.update((file, inner, name) for file, inner in visited)
        return found

    def _stars(
        self, path: str, scope: str, name: str, symbols: Symbols, depth: int, visited: set[tuple[str, str]]
    ) -> _What | None:
        if (path, scope) in visited or (path, scope, name) in self._absent:
            return None
        visited.add((path, scope))
        for one in symbols.imports:
            if one.name != "*" or one.scope != scope:
                continue
            place = self._place(path, symbols, one)
            if not place.files or depth <= 0:
                continue
            if place.package:
                found = self.member(_What("package", "", "", place.files), name, depth - 1)
            elif place.rest:
                found = self.member(self._walk(place, depth - 1), name, depth - 1)
            elif place.files[0] == path and not scope:
                continue
            else:
                found = self._top(place.files[0], name, depth - 1)
            if found is not None:
                return found
        return None

    # Members

    def member(self, what: _What | None, name: str, depth: int = _DEEPEST) -> _What | None:
        """The meaning of a name within another meaning."""
        self._budget -= 1
        if what is None or depth <= 0 or self._budget < 0:
            return None
        match what.kind:
            case "module":
                if what.path.endswith("/"):  # a namespace package
                    found = python.below(what.path, name, self._project)
                    return _What("module", found) if found else None
                return self._top(what.path, name, depth - 1)
            case "package":
                for file in what.files:
                    found_in = self._top(file, name, depth - 1, imports=False)
                    if found_in is not None:
                        return found_in
                return None
            case "super":
                for base in self.bases(what.path, what.name, depth - 1):
                    found_in = self._inside(base, name, depth - 1, {(what.path, what.name)})
                    if found_in is not None:
                        return found_in
                return None
            case "symbol":
                symbol = self.table(what.path).get(what.name)
                if symbol is not None and symbol.kind == "property":
                    return self.member(self._answer(what, depth), name, depth - 1)
        return self._inside(what, name, depth, set())

    def _top(self, path: str, name: str, depth: int, *, imports: bool = True) -> _What | None:
        """The meaning of a name in a module: defined, imported, or a module below it."""
        symbols = self._project.symbols(path)
        if symbols is None or depth <= 0:
            return None
        table = self.table(path)
        if name in table and table[name].kind not in ("variable", "constant"):
            return _What("symbol", path, name)
        declared = symbols.types.get(("", name))
        if declared:
            found = self.chain(path, "", declared, depth - 1)
            if found is not None:
                return found
        if name in table:
            return _What("symbol", path, name)
        if imports:
            taken = self._import(path, "", name, symbols, depth - 1)
            if taken is not None:
                return taken
            below = python.below(path, name, self._project)
            if below:
                return _What("module", below)
            return self._through_stars(path, "", name, symbols, depth - 1)
        return None

    def _inside(self, what: _What, name: str, depth: int, seen: set[tuple[str, str]]) -> _What | None:
        if (what.path, what.name) in seen or depth <= 0 or what.kind == "many":
            return None
        seen.add((what.path, what.name))
        symbols = self._project.symbols(what.path)
        if symbols is None:
            return None
        qualified = f"{what.name}.{name}"
        table = self.table(what.path)
        if qualified in table and table[qualified].kind != "constructor":
            return _What("symbol", what.path, qualified)
        if symbols.language == "go":
            for file in siblings(what.path, symbols, self._project):
                if qualified in self.table(file):
                    return _What("symbol", file, qualified)
        declared = symbols.types.get((what.name, name))
        if declared:
            return self.chain(what.path, what.name, declared, depth - 1)
        if what.name in table and table[what.name].kind in _HOLDS_OTHERS:
            taken = self._import(what.path, what.name, name, symbols, depth - 1)
            if taken is not None:
                return taken
        for base in self.bases(what.path, what.name, depth - 1):
            found = self._inside(base._replace(kind=what.kind), name, depth - 1, seen)
            if found is not None:
                return found
        return None

    def bases(self, path: str, name: str, depth: int = _DEEPEST) -> list[_What]:
        """The base classes of a class, in declaration order."""
        inherited = self._inherited.get(path)
        if inherited is None:
            symbols = self._project.symbols(path)
            inherited = self._inherited[path] = {}
            for use in symbols.uses if symbols else ():
                if use.kind == INHERITS:
                    inherited.setdefault(use.scope, []).append(use.chain)
        chains = (self.chain(path, name.rpartition(".")[0], one, depth - 1) for one in inherited.get(name, ()))
        return [base for base in chains if base is not None and base.kind == "symbol"]


def keys_of(path: str, symbols: Symbols) -> list[str]:
    """The keys that a file provides."""
    folder, _, name = path.rpartition("/")
    match symbols.language:
        case "python":
            return python.keys_of(path)
        case "javascript" | "typescript" | "tsx":
            return [f"path:{script_modules.plain_path(path)}"]
        case "go":
            return [f"go:{folder}"] if symbols.package != go.IGNORED else []
        case "java":
            top = [symbol.name for symbol in symbols.symbols if "." not in symbol.name]
            before = f"{symbols.package}." if symbols.package else ""
            return [f"javas:{symbols.package}", *(f"java:{before}{name}" for name in top)]
        case "rust":
            return [f"path:{path.removesuffix('.rs')}"]
        case "manifest":
            named = [f"npm:{symbols.package}"] if name == "package.json" and symbols.package else []
            crates = [f"crate:{one.name}" for one in symbols.imports if one.module == "lib"]
            return [f"manifests:{folder}", *named, *crates]
    return []


def find(one: Import, path: str, symbols: Symbols, project: Project) -> Place:
    """The target of an import in `path`, in any language except Rust."""
    match symbols.language:
        case "python":
            return python.find(one.module, one.name, path, project)
        case "javascript" | "typescript":
            return script_modules.find(one.module, path, project)
        case "go":
            return go.find(one.module, path, project)
        case "java":
            return java.find(one.module, path, project)
    return NOWHERE


def siblings(path: str, symbols: Symbols, project: Project) -> Sequence[str]:
    """The files whose names are visible in this file without an import."""
    if symbols.language == "go":
        return project.files(f"go:{posixpath.dirname(path)}")
    if symbols.language == "java":
        return project.files(f"javas:{symbols.package}")
    return ()
