"""Manifests: files that determine which folders and packages imports refer to.

Their declarations are stored as imports of `Symbols`: `module` is the kind of declaration, the other fields are its
parts.

| manifest | declarations |
|---|---|
| pyproject.toml, setup.cfg, tox.ini, pytest.ini | ``root`` folder |
| package.json | ``workspace`` pattern, ``export`` and ``import`` subpath target, ``entry`` target, ``link`` name folder |
| pnpm-workspace.yaml, lerna.json | ``workspace`` pattern |
| tsconfig.json, jsconfig.json | ``extends`` and ``reference`` path, ``base`` folder, ``path`` pattern target, ``output`` folder source |
| go.mod, go.work | ``replace`` module folder, ``use`` folder |
| Cargo.toml | ``lib`` name path, ``dependency`` and ``shared`` name folder, ``edition`` year |
"""  # noqa: E501

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kgd.errors import MALFORMED
from kgd.symbols import Import, Symbols

_TYPESCRIPT = re.compile(r"[tj]sconfig[\w.-]*\.json")
_GO_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_GO_REPLACE = re.compile(r"^\s*(?:replace\s+)?([^\s(]+)(?:\s+v\S+)?\s*=>\s*(\.{1,2}(?:/\S*)?)", re.MULTILINE)
_GO_USE = re.compile(r"^\s*(?:use\s+)?(\.\S*)\s*$", re.MULTILINE)
_COMMENTED = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*(?://[^\n]*\s*|/\*.*?\*/\s*)*[}\]])', re.DOTALL)
_LISTED = re.compile(r"^\s*-\s*[\"']?([^\"'#\n]+?)[\"']?\s*(?:#.*)?$", re.MULTILINE)
_MOST = 2_000
"""Maximum number of declarations in one manifest."""

Found = Iterator[Import]


def is_manifest(name: str) -> bool:
    return name in _READERS or bool(_TYPESCRIPT.fullmatch(name))


def read(name: str, data: bytes) -> Symbols:
    """The package that a manifest names, and its declarations; both are empty if the manifest cannot be read."""
    reader = _READERS.get(name, _typescript)
    try:
        text = data.decode("utf-8-sig", "replace")
        found = [one for one in reader(text) if all(isinstance(part, str) for part in one)][:_MOST]
    except (configparser.Error, *MALFORMED):
        return Symbols("manifest")
    package = next((one.name for one in found if one.module == "package"), "")
    return Symbols("manifest", package=package, imports=tuple(one for one in found if one.module != "package"))


# ---- Python


def _pyproject(text: str) -> Found:
    said = tomllib.loads(text)
    yield Import("package", _at(said, "project", "name") or "")
    tool = said.get("tool", {})
    found = [
        *_list(_at(tool, "setuptools", "packages", "find", "where")),
        *_of_package_dir(_at(tool, "setuptools", "package-dir")),
        *(_list(_at(tool, "pytest", "ini_options", "pythonpath"))),
        *(_list(_at(tool, "pyright", "extraPaths"))),
        *(one.get("from", "") for one in _list(_at(tool, "poetry", "packages")) if isinstance(one, dict)),
        *(one.rpartition("/")[0] for one in _list(_at(tool, "hatch", "build", "targets", "wheel", "packages"))),
        *_list(_at(tool, "maturin", "python-source")),
        *_list(_at(tool, "pdm", "build", "package-dir")),
    ]
    yield from (Import("root", one) for one in dict.fromkeys(found) if one)


def _of_package_dir(said: Any) -> list[str]:
    """The folders above packages, from a mapping of packages to folders."""
    found = []
    for package, folder in (said or {}).items():
        inside = f"/{package.replace('.', '/')}"
        found += [folder] if not package else [folder.removesuffix(inside)] if folder.endswith(inside) else []
    return found


def _ini(text: str) -> Found:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    found = [
        parser.get("options.packages.find", "where", fallback=""),
        *(parser.get(section, "pythonpath", fallback="") for section in ("tool:pytest", "pytest")),
    ]
    mapped = (line.partition("=") for line in parser.get("options", "package_dir", fallback="").splitlines())
    found += _of_package_dir({name.strip(): folder.strip() for name, equal, folder in mapped if equal})
    yield from (Import("root", one) for text in found for one in text.split())


# ---- JavaScript and TypeScript


def _package(text: str) -> Found:
    said = json.loads(text)
    yield Import("package", said.get("name") or "")
    yield from _workspaces(said)
    for kind, field in (("export", "exports"), ("import", "imports")):
        listed = said.get(field)
        if isinstance(listed, dict) and any(key.startswith((".", "#")) for key in listed):
            for subpath, target in listed.items():
                yield from (Import(kind, subpath, one) for one in _leaves(target))
        else:
            yield from (Import(kind, ".", one) for one in _leaves(listed))
    for field in ("types", "typings", "source", "module", "main"):
        if said.get(field):
            yield Import("entry", said[field])
    for field in ("dependencies", "devDependencies", "peerDependencies"):
        for name, version in (said.get(field) or {}).items():
            scheme, _, folder = version.partition(":")
            if scheme in ("file", "link", "portal") and folder:
                yield Import("link", name, folder)


def _leaves(target: Any) -> Iterator[str]:
    """The targets under all conditions of an export, in order."""
    if isinstance(target, str):
        yield target
    elif isinstance(target, dict | list):
        for one in target.values() if isinstance(target, dict) else target:
            yield from _leaves(one)


def _workspaces(said: Mapping[str, Any]) -> Found:
    listed = said.get("workspaces") or said.get("packages") or []
    for one in listed.get("packages", []) if isinstance(listed, dict) else listed:
        yield Import("workspace", one)


def _lerna(text: str) -> Found:
    yield from _workspaces(json.loads(text))


def _pnpm(text: str) -> Found:
    _, _, listed = text.partition("packages:")
    yield from (Import("workspace", one) for one in _LISTED.findall(re.split(r"\n(?=\w)", listed)[0]))


def _typescript(text: str) -> Found:
    said = json.loads(_COMMENTED.sub(lambda match: match[1] or "", text))
    yield from (Import("extends", one) for one in _list(said.get("extends")))
    yield from (Import("reference", one.get("path", "")) for one in said.get("references") or [])
    options = said.get("compilerOptions") or {}
    if options.get("baseUrl"):
        yield Import("base", options["baseUrl"])
    for pattern, targets in (options.get("paths") or {}).items():
        yield from (Import("path", pattern, target) for target in targets)
    for field in ("outDir", "declarationDir"):
        if options.get(field):
            yield Import("output", options[field], options.get("rootDir") or "")


# ---- Go


def _go_module(text: str) -> Found:
    if found := _GO_MODULE.search(text):
        yield Import("package", found[1])
    yield from (Import("replace", module, folder) for module, folder in _GO_REPLACE.findall(text))


def _go_work(text: str) -> Found:
    yield from (Import("use", folder) for folder in _GO_USE.findall(text))
    yield from (Import("replace", module, folder) for module, folder in _GO_REPLACE.findall(text))


# ---- Rust


def _cargo(text: str) -> Found:
    said = tomllib.loads(text)
    name = _at(said, "package", "name")
    yield Import("package", name.replace("-", "_") if name else "")
    lib = said.get("lib") or {}
    if name:
        yield Import("lib", (lib.get("name") or name).replace("-", "_"), lib.get("path") or "src/lib.rs")
    for group in (said, *(said.get("target") or {}).values()):
        for field in ("dependencies", "dev-dependencies", "build-dependencies"):
            for used, one in (group.get(field) or {}).items():
                if isinstance(one, dict) and (one.get("workspace") or "path" in one):
                    yield Import("dependency", used.replace("-", "_"), one.get("path") or "", used)
    for used, one in (_at(said, "workspace", "dependencies") or {}).items():
        if isinstance(one, dict) and "path" in one:
            yield Import("shared", used, one["path"])


def _at(said: Any, *steps: str) -> Any:
    for step in steps:
        said = said.get(step) if isinstance(said, dict) else None
    return said


def _list(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said] if said else []


_READERS: dict[str, Callable[[str], Found]] = {
    "pyproject.toml": _pyproject,
    "setup.cfg": _ini,
    "tox.ini": _ini,
    "pytest.ini": _ini,
    "package.json": _package,
    "pnpm-workspace.yaml": _pnpm,
    "lerna.json": _lerna,
    "go.mod": _go_module,
    "go.work": _go_work,
    "Cargo.toml": _cargo,
}
