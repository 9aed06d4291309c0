"""Python's imports, by `ast` and by the interpreter's own `PathFinder` on the tree's roots."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

Edges = set[tuple[str, str]]


def edges(top: Path, files: Sequence[str], roots: Sequence[str]) -> Edges:
    """The imports of these files. `roots` are the folders on the path; a file's own base folder is added to it.

    The base of a file is the folder of its outermost package, or its own folder: no file is loaded without it. Names of
    the standard library are searched in `roots` only.
    """
    importlib.invalidate_caches()
    judge = _Judge(top, [str(top / root) for root in roots])
    return {(file, target) for file in files for target in judge.targets(file) if target != file}


class _Judge:
    def __init__(self, top: Path, roots: list[str]) -> None:
        self._top, self._roots = top, roots
        self._specs: dict[tuple[str, tuple[str, ...]], ModuleSpec | None] = {}
        self._bound: dict[str, set[str]] = {}

    def targets(self, file: str) -> Iterator[str]:
        tree = _parsed(self._top / file)
        if tree is None:
            return
        base, package = self._base(file)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._file(self._find(alias.name, base))
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                if node.level and (not above or node.level > len(package) + 1):
                    continue
                name = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield from self._from(name, alias.name, base, relative=bool(node.level))

    def _from(self, module: str, name: str, base: str, *, relative: bool) -> Iterator[str]:
        spec = self._find(module, base, relative=relative)
        if spec is None:
            return
        own = list(self._file(spec))
        if name == "*" or (own and name in self._names(own[0], module)) or not spec.submodule_search_locations:
            yield from own
            return
        yield from list(self._file(self._find(f"{module}.{name}", base, relative=relative))) or own

    def _find(self, name: str, base: str, *, relative: bool = False) -> ModuleSpec | None:
        first, *rest = name.split(".")
        standard = not relative and first in sys.stdlib_module_names
        path: list[str] | None = self._roots if standard else list(dict.fromkeys([base, *self._roots]))
        if relative:
            path = [base]
        spec, whole = self._spec(first, path or []), first
        for part in rest:
            if spec is None or not spec.submodule_search_locations:
                return None
            whole += f".{part}"
            spec = self._spec(whole, list(spec.submodule_search_locations))
        return spec

    def _spec(self, name: str, path: Iterable[str]) -> ModuleSpec | None:
        key = (name, tuple(path))
        if key not in self._specs:
            self._specs[key] = PathFinder.find_spec(name, list(key[1]))
        return self._specs[key]

    def _file(self, spec: ModuleSpec | None) -> Iterator[str]:
        if spec is not None and spec.origin and spec.has_location:
            origin = Path(spec.origin)
            if origin.is_relative_to(self._top):
                yield origin.relative_to(self._top).as_posix()

    def _base(self, file: str) -> tuple[str, list[str]]:
        """The folder on the path for a file, and the names of the packages around the file."""
        folder, package = (self._top / file).parent, list[str]()
        while (folder / "__init__.py").exists() and folder != self._top:
            package.insert(0, folder.name)
            folder = folder.parent
        if not package:  # relative imports in a folder without `__init__.py`: a namespace package below its root
            package, at = [], (self._top / file).parent
            while at != self._top and str(at) not in self._roots:
                package.insert(0, at.name)
                at = at.parent
            return str((self._top / file).parent), package
        return str(folder), package

    def _names(self, file: str, module: str) -> set[str]:
        """The names that a package binds itself, submodules aside."""
        if file not in self._bound:
            tree = _parsed(self._top / file)
            self._bound[file] = set(_bound(tree.body, module)) if tree and file.endswith("__init__.py") else set()
        return self._bound[file]


def _bound(body: Sequence[ast.stmt], module: str) -> Iterator[str]:
    for one in body:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield one.name
            case ast.Import():
                yield from (a.asname for a in one.names if a.asname and a.name != f"{module}.{a.asname}")
            case ast.ImportFrom():
                own = (one.level == 1 and not one.module) or one.module == module
                yield from (a.asname or a.name for a in one.names if not (own and a.asname in (None, a.name)))
            case ast.Assign() | ast.AnnAssign():
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                named = (n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
                yield from (n.id for n in named if isinstance(n.ctx, ast.Store))
            case ast.If() | ast.Try() | ast.With():
                for field in ("body", "orelse", "finalbody"):
                    yield from _bound(getattr(one, field, []), module)
                for handler in getattr(one, "handlers", []):
                    yield from _bound(handler.body, module)


def _parsed(file: Path) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return None
