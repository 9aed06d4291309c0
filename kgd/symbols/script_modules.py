"""The target of an import in JavaScript and TypeScript: the file that the TypeScript compiler would resolve it to.

It handles relative paths, `paths` and `baseUrl` of the nearest tsconfig.json or jsconfig.json, `imports` and `exports`
of the nearest package.json, and packages of the same workspace. If a package points to compiled output that is not in
the tree, the source is the target. JavaScript imports only scripts; TypeScript also imports declarations.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from kgd.symbols import (
    NOWHERE,
    Import,
    Place,
    Project,
    declared,
    folders,
    join,
    manifest,
    manifest_around,
    nearest,
)

ENDS = (".d.ts", ".d.mts", ".d.cts", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_PLAIN = (".ts", ".tsx", ".d.ts", ".js", ".jsx")
"""The extensions that an import may omit, in the order in which the compiler tries them."""
_WRITTEN = {
    ".js": _PLAIN,
    ".jsx": (".tsx", ".ts", ".d.ts", ".jsx", ".js"),
    ".mjs": (".mts", ".d.mts", ".mjs"),
    ".cjs": (".cts", ".d.cts", ".cjs"),
}
"""For an extension in an import, the extensions of the files that it may refer to."""
_CONFIGS = ("tsconfig.json", "jsconfig.json")
_WORKSPACES = ("package.json", "pnpm-workspace.yaml", "lerna.json")
_OUTPUT = frozenset(
    """
    dist lib build out output esm esm5 esm2015 cjs es types typings dts umd mjs node browser development production
    """.split()
)
_DEEPEST = 8
"""Maximum length of a chain of configurations that extend one another."""
_NODE = """
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events fs
http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream
string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib
"""
_BUILT_IN = frozenset(_NODE.split())


def plain_path(path: str) -> str:
    """The path of a script without its extension, as imports spell it."""
    return next((path.removesuffix(end) for end in ENDS if path.endswith(end)), path)


def find(module: str, path: str, project: Project) -> Place:
    file = _find(module.partition("?")[0], path, project)
    return Place((file,)) if file else NOWHERE


def _find(module: str, path: str, project: Project) -> str:
    folder = posixpath.dirname(path)
    if module.startswith(("./", "../")) or module in (".", ".."):
        return _module(join(folder, module) + ("/" if module.endswith(("/", ".")) else ""), path, project)
    if module.startswith(("/", "node:")) or not module:
        return ""
    if module.startswith("#"):
        return _own_import(module, path, project)
    found = _configured(module, path, project)
    if found is None and module[:2] in ("@/", "~/"):  # not a package: by convention the source folder
        tries = (join(around, start, module[2:]) for around in folders(path) for start in ("src", ""))
        found = next((file for one in tries if (file := _module(one, path, project))), "")
    return found or _package(module, path, project)


def _module(target: str, path: str, project: Project) -> str:
    """A script by its path: as spelled, without an extension, or with the extension of its source; otherwise a
    folder."""
    if target.startswith(".."):
        return ""
    if not target.endswith("/"):
        found = _script(target, path, project)
        if found:
            return found
    folder = join(target)
    own = manifest(folder, ("package.json",), project)
    for one in declared(own, "entry", project):
        if found := _script(join(folder, one.name), path, project) or _script(
            join(folder, one.name, "index"), path, project
        ):
            return found
    return _script(join(folder, "index"), path, project)


def _script(target: str, path: str, project: Project) -> str:
    for plain, ends in _tries(target, path.endswith((".js", ".jsx", ".mjs", ".cjs"))):
        found = project.files(f"path:{plain}")
        for end in ends:
            if f"{plain}{end}" in found:
                return f"{plain}{end}"
    return ""


def _tries(target: str, from_script: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Paths without extension, and the extensions to try; a script does not import a declaration."""
    written = next((end for end in ENDS if target.endswith(end)), "")
    plain = target.removesuffix(written)
    tries: list[tuple[str, Sequence[str]]] = []
    if written:
        tries.append((plain, _WRITTEN.get(written, (written,))))
    if written != target:
        tries.append((target, _PLAIN))
    for one, ends in tries:
        yield one, [end for end in ends if not (from_script and end.startswith(".d."))]


# ---- tsconfig.json


def _configured(module: str, path: str, project: Project) -> str | None:
    """The module by `paths` or `baseUrl`; None if neither applies."""
    config = manifest_around(path, _CONFIGS, project)
    if not config:
        return None
    base, paths = _paths(config, project)
    if base is None and not paths:
        for one in declared(config, "reference", project):
            base, paths = _paths(_config_at(config, one.name, project), project)
            if base is not None or paths:
                break
    best = _best([one.name for _, one in paths], module)
    if best:
        rest = _rest(best, module)
        for start, one in paths:
            if one.name == best and (file := _module(join(start, one.alias.replace("*", rest)), path, project)):
                return file
        return ""
    if base is not None and (file := _module(join(base, module), path, project)):
        return file
    return None


def _paths(config: str, project: Project) -> tuple[str | None, list[tuple[str, Import]]]:
    """The base folder of a configuration, and its `paths` with the folder that they are relative to."""
    base: str | None = None
    paths: list[tuple[str, Import]] = []
    todo = [config]
    for _ in range(_DEEPEST):
        if not todo or not todo[0]:
            break
        one = todo.pop(0)
        folder = posixpath.dirname(one)
        if base is None:
            base = next((join(folder, said.name) for said in declared(one, "base", project)), None)
        if not paths:
            paths = [(folder, said) for said in declared(one, "path", project)]
        todo += [_config_at(one, said.name, project) for said in reversed(declared(one, "extends", project))]
        todo = [one for one in todo if one]
    return base, [(base if base is not None else folder, said) for folder, said in paths]


def _config_at(config: str, name: str, project: Project) -> str:
    """The configuration named by another configuration; empty if it is not in the tree."""
    if not name.startswith("."):
        return ""
    target = join(posixpath.dirname(config), name)
    for one in (target, f"{target}.json", join(target, "tsconfig.json")):
        if not one.startswith("..") and manifest(posixpath.dirname(one), (posixpath.basename(one),), project):
            return one
    return ""


def _best(patterns: Sequence[str], name: str) -> str:
    """The pattern that matches a name: an exact match, otherwise the match with the longest text before its star."""
    if name in patterns:
        return name
    fitting = [one for one in patterns if one.count("*") == 1 and _fits(one, name)]
    return max(fitting, key=lambda one: one.index("*"), default="")


def _fits(pattern: str, name: str) -> bool:
    before, _, behind = pattern.partition("*")
    return len(name) >= len(before) + len(behind) and name.startswith(before) and name.endswith(behind)


def _rest(pattern: str, name: str) -> str:
    """The text that matches the star of a pattern."""
    before, star, behind = pattern.partition("*")
    return name[len(before) : len(name) - len(behind)] if star else ""


# ---- packages


def _own_import(module: str, path: str, project: Project) -> str:
    own = manifest_around(path, ("package.json",), project)
    return _mapped(own, "import", module, path, project) if own else ""


def _package(module: str, path: str, project: Project) -> str:
    """A module of another package in the tree, or of the importer's own package by name."""
    parts = module.split("/")
    size = 2 if module.startswith("@") else 1
    name, rest = "/".join(parts[:size]), "/".join(parts[size:])
    if name in _BUILT_IN:
        return ""
    linked = [one for one in project.files(f"npm:{name}") if _is_linked(one, name, path, project)]
    return _entry(nearest(linked, path), rest, path, project) if linked else ""


def _is_linked(package: str, name: str, path: str, project: Project) -> bool:
    """Whether a file may import a package of the tree: its own package, a package in its workspace, or a dependency by
    path."""
    target, inside = posixpath.dirname(package), False
    for folder in folders(path):
        own = manifest(folder, ("package.json",), project)
        if own and not inside:
            inside = True
            if own == package:
                return bool(declared(own, "export", project))
            if any(one.name == name and join(folder, one.alias) == target for one in declared(own, "link", project)):
                return True
        for listing in (manifest(folder, (one,), project) for one in _WORKSPACES):
            patterns = tuple(one.name for one in declared(listing, "workspace", project))
            inner = target.removeprefix(f"{folder}/") if folder else target
            if patterns and (inner != target or not folder) and _listed(patterns, inner):
                return True
    return False


@lru_cache(maxsize=1024)
def _listed(patterns: tuple[str, ...], folder: str) -> bool:
    """Whether a folder is listed as a workspace."""
    kept = [one for one in patterns if not one.startswith("!")]
    dropped = [one[1:] for one in patterns if one.startswith("!")]
    return any(_matches(one, folder) for one in kept) and not any(_matches(one, folder) for one in dropped)


def _matches(pattern: str, folder: str) -> bool:
    pattern = posixpath.normpath(pattern)
    if pattern.endswith("**"):
        return f"{folder}/".startswith(pattern[:-2]) or PurePosixPath(folder).match(pattern)
    return len(pattern.split("/")) == len(folder.split("/")) and PurePosixPath(folder).match(pattern)


def _entry(package: str, rest: str, path: str, project: Project) -> str:
    """A package's main module, or the module at a path inside the package."""
    folder = posixpath.dirname(package)
    if declared(package, "export", project):
        return _mapped(package, "export", f"./{rest}" if rest else ".", path, project)
    if rest:
        return _output(folder, rest, path, project) or _module(join(folder, "src", rest), path, project)
    entries = (one.name for one in declared(package, "entry", project))
    found = next((file for one in entries if (file := _output(folder, one, path, project))), "")
    return found or next((f for one in ("index", "src/index") if (f := _script(join(folder, one), path, project))), "")


def _mapped(package: str, kind: str, subpath: str, path: str, project: Project) -> str:
    """The first file to which `exports` or `imports` maps a subpath, under any condition."""
    listed = declared(package, kind, project)
    best = _best([one.name for one in listed], subpath)
    rest = _rest(best, subpath) if best else ""
    for one in listed:
        if one.name != best or not one.alias.startswith("."):
            continue
        if file := _output(posixpath.dirname(package), one.alias.replace("*", rest), path, project):
            return file
    return ""


def _output(folder: str, target: str, path: str, project: Project) -> str:
    """A file of a package, or the source that it is compiled from."""
    if found := _module(join(folder, target), path, project):
        return found
    plain = plain_path(join(target))
    for one in declared(manifest(folder, _CONFIGS, project), "output", project):
        output = join(one.name)
        if plain.startswith(f"{output}/"):
            source = join(folder, one.alias or "src", plain[len(output) + 1 :])
            if found := _module(source, path, project):
                return found
    parts = plain.split("/")
    for size in range(1, len(parts)):
        if parts[size - 1] not in _OUTPUT:
            break
        if found := _module(join(folder, "src", *parts[size:]), path, project):
            return found
    return ""
