"""The target of an import in Python: the file that the interpreter would load.

A name is looked up in the folders on the path: the base of the importing file (the folder that contains its outermost
package, or its own folder), the tops of the projects that contain it with their source folders, the top of the tree,
and the tops of other projects in the tree. A name that is also a module of the standard library is looked up only in
folders that are certainly on `sys.path`.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator

from kgd.symbols.symbols import NOWHERE, Place, Project, declared, folders, join, manifests, nearest, one_of

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
    return any(posixpath.basename(one) in _PROJECT for one in manifests(folder, project))


def _declared(folder: str, project: Project) -> Iterator[str]:
    for one in manifests(folder, project):
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
