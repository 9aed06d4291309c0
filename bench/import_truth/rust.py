"""Rust's imports, by an independent reading of Cargo.toml, the `mod` tree of each target, and `use` declarations.

The target of a path is the file of its last module; a re-exported item counts where it is imported from. Crates
come from Cargo: the package's own library, and dependencies with a path, direct or through the workspace. Bodies of
macros are not read, except of `cfg_…!`.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Edges = set[tuple[str, str]]
_TOKEN = re.compile(
    r"""//[^\n]*|/\*|(?:b|c)?r(\#*)"|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]{1,10}?|[^\\'\n])'|'\w+|(?:r\#)?[A-Za-z_]\w*|::|[^\s]""",
    re.DOTALL,
)
_TARGETS = ("src/bin", "tests", "examples", "benches")


@dataclass(eq=False)
class Module:
    """A module: its file, and its items by name."""

    file: str
    parent: Module | None
    public: bool = True
    children: dict[str, Module] = field(default_factory=dict)
    uses: list[tuple[list[str], str]] = field(default_factory=list)
    """Paths and local names; `*` for all."""


@dataclass(eq=False)
class Crate:
    root: Module
    externs: Mapping[str, str]
    """The package folders of other crates by the names they are used by."""


def edges(top: Path, files: Sequence[str]) -> Edges:
    judge = _Judge(top, set(files))
    return {(a, b) for crate in judge.crates() for a, b in judge.of(crate) if a != b}


class _Judge:
    def __init__(self, top: Path, files: set[str]) -> None:
        self._top, self._files = top, files
        self._libraries: dict[str, Crate] = {}
        self._tokens: dict[str, list[str]] = {}
        self._mods: list[tuple[str, str]] = []
        self._known: dict[tuple[int, int, str], tuple[Crate, Module, bool] | None] = {}

    def crates(self) -> list[Crate]:
        manifests = {}
        for found in sorted(self._top.rglob("Cargo.toml")):
            try:
                manifests[_plain(found.parent.relative_to(self._top).as_posix())] = tomllib.loads(found.read_text())
            except (tomllib.TOMLDecodeError, UnicodeDecodeError):
                continue
        made = []
        for folder, said in manifests.items():
            if "package" not in said:
                continue
            externs = dict(_externs(folder, said, manifests))
            library = posixpath.join(folder, said.get("lib", {}).get("path", "src/lib.rs"))
            if library in self._files:
                self._libraries[folder] = Crate(self._load(library, root=True), externs)
                made.append(self._libraries[folder])
                own = said.get("lib", {}).get("name") or said["package"].get("name", "")
                externs = {**externs, own.replace("-", "_"): folder}
            made += [Crate(self._load(one, root=True), externs) for one in self._roots(folder, said) if one != library]
        return made

    def _roots(self, folder: str, said: Mapping[str, Any]) -> list[str]:
        found = {posixpath.join(folder, one) for one in ("src/main.rs", "build.rs")}
        for kind in ("bin", "test", "example", "bench"):
            found |= {posixpath.join(folder, one["path"]) for one in said.get(kind, []) if "path" in one}
        for one in self._files:
            place, _, name = one.rpartition("/")
            above, _, last = place.rpartition("/")
            for inside in _TARGETS:
                at = posixpath.join(folder, inside)
                if place == at or (above == at and name == "main.rs" and last):
                    found.add(one)
        return sorted(found & self._files)

    def _load(self, file: str, parent: Module | None = None, *, root: bool = False) -> Module:
        module = Module(file, parent)
        folder, _, name = file.rpartition("/")
        below = folder if root or name == "mod.rs" else file.removesuffix(".rs")
        if file not in self._tokens:
            self._tokens[file] = _tokens((self._top / file).read_text("utf-8", "replace"))
        self._read(self._tokens[file], module, folder, below)
        return module

    def _read(self, tokens: list[str], module: Module, folder: str, below: str) -> None:
        """Fill a module from the tokens of its file."""
        stack, inner, path, at = [(module, below)], "", "", 0
        held: list[tuple[Module, str] | None] = []
        while at < len(tokens):
            here, place = stack[-1]
            token, after = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
            if token == "#" and tokens[at + 1 : at + 4] == ["[", "path", "="]:
                path = tokens[at + 4].strip('"')
            if token == "mod" and tokens[at + 2 : at + 3] == [";"]:
                public = at > 0 and tokens[at - 1] in ("pub", ")")
                self._submodule(here, after, place, path, folder if len(stack) == 1 else place, public=public)
                path = ""
            elif token == "mod" and tokens[at + 2 : at + 3] == ["{"]:
                child = here.children[after] = Module(here.file, here)
                inner = after
                held.append(stack[-1])
                stack.append((child, posixpath.join(place, inner)))
                at += 3
                continue
            elif token == "use" and tokens[at - 1 : at] != ["$"]:
                end = tokens.index(";", at) if ";" in tokens[at:] else len(tokens)
                here.uses += _used(tokens[at + 1 : end])
                at = end
            elif token == "extern" and after == "crate":
                named = tokens[at + 4] if tokens[at + 3] == "as" else tokens[at + 2]
                here.uses.append((["::", tokens[at + 2]], named))
                at += 2
            elif after == "!" and _is_name(token) and not token.startswith("cfg"):
                at = _behind(tokens, at + 2)
                continue
            elif token == "{":
                held.append(None)
            elif token == "}" and held and held.pop() is not None:
                stack.pop()
            at += 1

    def _submodule(self, here: Module, name: str, below: str, path: str, folder: str, *, public: bool) -> None:
        plain = posixpath.join(below, name.removeprefix("r#"))
        tried = [posixpath.normpath(posixpath.join(folder, path))] if path else [f"{plain}.rs", f"{plain}/mod.rs"]
        found = next((one for one in tried if one in self._files), None)
        above: Module | None = here
        while above is not None and above.file != found:
            above = above.parent
        if found is not None and above is None:
            self._mods.append((here.file, found))
            here.children[name] = self._load(found, here)
            here.children[name].public = public

    def of(self, crate: Crate) -> Iterator[tuple[str, str]]:
        yield from self._mods
        self._mods = []
        todo = [crate.root]
        while todo:
            module = todo.pop()
            todo += module.children.values()
            for path, _ in module.uses:
                found = self._follow(crate, module, path)
                if found is not None:
                    yield module.file, found[0].file

    def _follow(self, crate: Crate, module: Module, path: list[str], depth: int = 12) -> tuple[Module, bool] | None:
        """The last module of a path, and whether the path ends in it rather than in an item of it."""
        first, *rest = path
        at: tuple[Crate, Module, bool] | None
        match first:
            case "crate":
                at = (crate, crate.root, True)
            case "self":
                at = (crate, module, True)
            case "super":
                at = (crate, module.parent, True) if module.parent else None
            case "::":
                at, rest = self._extern(crate, rest[0]), rest[1:]
            case _:
                at = self._named(crate, module, first, depth, skip=path) or self._extern(crate, first)
        for name in rest:
            if at is None:
                return None
            inside, here, is_module = at
            if not is_module or name == "*" or name == "self":
                continue
            if name == "super":
                at = (inside, here.parent, True) if here.parent else None
                continue
            found = self._named(inside, here, name, depth)
            if found is not None and inside is not crate and not found[1].public and found[1].parent is here:
                found = None  # a private module of another crate: an item of its name is meant
            at = found if found is not None and found[2] else (inside, here, False)
        return (at[1], at[2]) if at is not None else None

    def _named(
        self, crate: Crate, module: Module, name: str, depth: int, skip: list[str] | None = None
    ) -> tuple[Crate, Module, bool] | None:
        """The meaning of a name in a module: a child, or imported by name or by a glob."""
        if name in module.children:
            return crate, module.children[name], True
        if depth == 0:
            return None
        key = (id(module), id(skip), name)
        if key not in self._known:
            self._known[key] = None  # while it is looked up, it has no meaning
            self._known[key] = self._imported(crate, module, name, depth, skip)
        return self._known[key]

    def _imported(
        self, crate: Crate, module: Module, name: str, depth: int, skip: list[str] | None
    ) -> tuple[Crate, Module, bool] | None:
        for path, alias in module.uses:
            if path is skip or alias != name or (len(path) == 1 and path[0] == name):
                continue
            found = self._follow(crate, module, path, depth - 1)
            if found is not None:
                return crate, *found
        for path, alias in module.uses:
            if alias == "*" and path is not skip and path[0] != name:
                found = self._follow(crate, module, path, depth - 1)
                if found is not None and found[1] and found[0] is not module and name in found[0].children:
                    return crate, found[0].children[name], True
        return None

    def _extern(self, crate: Crate, name: str) -> tuple[Crate, Module, bool] | None:
        other = self._libraries.get(crate.externs.get(name, "\0"))
        return (other, other.root, True) if other else None


def _externs(folder: str, said: Mapping[str, Any], manifests: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    above = next((one for one in _above(folder) if "workspace" in manifests.get(one, {})), None)
    shared = manifests[above]["workspace"].get("dependencies", {}) if above is not None else {}
    for group in (said, *said.get("target", {}).values()):
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, one in group.get(kind, {}).items():
                base = folder
                if isinstance(one, dict) and one.get("workspace"):
                    one, base = shared.get(name), above or ""
                if isinstance(one, dict) and "path" in one:
                    at = _plain(posixpath.normpath(posixpath.join(base, one["path"])))
                    lib = manifests.get(at, {}).get("lib", {}).get("name")
                    package = manifests.get(at, {}).get("package", {}).get("name", name)
                    used = name if "package" in one else lib or package
                    yield used.replace("-", "_"), at


def _above(folder: str) -> Iterator[str]:
    while True:
        yield folder
        if not folder:
            return
        folder = posixpath.dirname(folder)


def _plain(folder: str) -> str:
    return "" if folder == "." else folder


def _is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"


def _used(tokens: list[str]) -> list[tuple[list[str], str]]:
    """The paths and local names of a `use` declaration."""
    found: list[tuple[list[str], str]] = []
    before: list[list[str]] = []
    path: list[str] = []
    alias = ""

    def end() -> None:
        nonlocal path, alias
        whole = [step for part in before for step in part] + path
        if path and path[-1] == "self" and len(whole) > 1:
            whole = whole[:-1]
        if path:
            found.append((whole, alias or whole[-1]))
        path, alias = [], ""

    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            before.append(path)
            path = []
        elif token == "}":
            end()
            before.pop()
        elif token == ",":
            end()
        elif token == "as":
            alias, at = tokens[at + 1], at + 1
        elif token == "::":
            if not path and not before:
                path.append("::")
        else:
            path.append(token)
        at += 1
    end()
    return found


def _behind(tokens: list[str], at: int) -> int:
    """The place behind the bracketed group that starts at `at`, or after a name before it."""
    if at < len(tokens) and _is_name(tokens[at]):
        at += 1  # macro_rules! name
    if at >= len(tokens) or tokens[at] not in "([{":
        return at
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] in "([{") - (tokens[at] in ")]}")
        at += 1
        if depth == 0:
            break
    return at


def _tokens(text: str) -> list[str]:
    found, at = list[str](), 0
    while match := _TOKEN.search(text, at):
        token, at = match[0], match.end()
        if token == "/*":
            depth = 1
            while depth and (mark := re.compile(r"/\*|\*/").search(text, at)):
                depth, at = depth + (1 if mark[0] == "/*" else -1), mark.end()
        elif match[1] is not None:
            end = text.find(f'"{match[1]}', at)
            at = len(text) if end < 0 else end + 1 + len(match[1])
            found.append('""')
        elif not token.startswith("//"):
            found.append(token)
    return found
