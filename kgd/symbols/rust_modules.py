"""The target of a path in Rust, found through the `mod` tree of its crate and the crates that Cargo.toml names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from kgd.symbols.symbols import NOWHERE, Place, Project, declared, folders, join, manifest, one_of

MOD = "@mod"
"""The `module` of an import that stands for ``mod name;``, followed by ``=`` and the path if an attribute gives one."""
_CARGO = ("Cargo.toml",)
_TARGETS = frozenset({"bin", "tests", "examples", "benches"})
_DEEPEST = 40
"""Maximum number of nested modules."""


def find(steps: Sequence[str], path: str, project: Project) -> Place:
    """The target of a path: its first step selects a module, and the others are looked up there."""
    first, rest = steps[0], tuple(steps[1:])
    if first in ("crate", "@crate"):
        return Place((_root(path, project),), rest)
    if first in ("super", "@parent"):
        above = parent(path, project)
        while above and rest[:1] == ("super",):
            above, rest = parent(above, project), rest[1:]
        return Place((above,), rest) if above else NOWHERE
    if first in ("self", "@module"):
        return Place((path,), rest)
    if not first:  # `::name`, always a crate
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
