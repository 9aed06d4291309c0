"""Go's imports, by the rules of go.mod: the module around a file, local `replace` lines, `vendor` and `go.work`.

`go list` is not needed. Unlike it, files for all platforms count; files with `//go:build ignore` and tests do not.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|`[^`]*`|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PACKAGE = re.compile(r"^\s*package\s+(\w+)", re.MULTILINE)
_IMPORT = re.compile(r"^import\s*(?:\(([^)]*)\)|(?:[\w.]+\s+)?([\"`][^\"`]+[\"`]))", re.MULTILINE)
_STRING = re.compile(r"[\"`]([^\"`]+)[\"`]")
_IGNORE = re.compile(r"^//\s*(?:go:build|\+build)\s+ignore\b", re.MULTILINE)
_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_REPLACE = re.compile(r"^\s*(?:replace\s+)?([^\s(]+)(?:\s+v\S+)?\s*=>\s*(\.{1,2}\S*)", re.MULTILINE)
_USE = re.compile(r"^\s*(?:use\s+)?(\.\S*)\s*$", re.MULTILINE)
Edges = set[tuple[str, str]]


def edges(top: Path, files: Sequence[str]) -> Edges:
    modules: dict[str, tuple[str, dict[str, str]]] = {}
    for found in sorted(top.rglob("go.mod")):
        folder, said = found.parent.relative_to(top).as_posix(), found.read_text("utf-8", "replace")
        if named := _MODULE.search(said):
            replaced = {name: posixpath.normpath(posixpath.join(folder, to)) for name, to in _REPLACE.findall(said)}
            modules["" if folder == "." else folder] = (named[1], replaced)
    used: dict[str, list[str]] = {}
    for found in top.rglob("go.work"):
        folder = found.parent.relative_to(top).as_posix()
        used["" if folder == "." else folder] = [
            posixpath.normpath(posixpath.join(folder, one)) for one in _USE.findall(found.read_text())
        ]
    texts = {file: (top / file).read_text("utf-8", "replace") for file in files}
    packages = defaultdict[str, list[str]](list)
    for file, text in texts.items():
        if not file.endswith("_test.go") and not _IGNORE.search(text):
            packages[posixpath.dirname(file)].append(file)
    result: Edges = set()
    for file, text in texts.items():
        around = _folders(file)
        home: str | None = next((one for one in around if one in modules), None)
        if home is None:
            continue
        name, replaced = modules[home]
        places = {name: home}
        for work in (one for one in around if one in used):
            for one in used[work]:
                inside = "" if one == "." else one
                if inside in modules:
                    places[modules[inside][0]] = inside
        for other, at in replaced.items():
            places[other] = "" if at == "." else at
        for module in _imports(text):
            place = _folder(module, places, posixpath.join(home, "vendor"), packages)
            if place is not None:
                result |= {(file, target) for target in packages[place] if target != file}
    return result


def _folder(module: str, places: dict[str, str], vendor: str, packages: dict[str, list[str]]) -> str | None:
    for name in sorted(places, key=len, reverse=True):
        if module == name or module.startswith(f"{name}/"):
            found = posixpath.join(places[name], module[len(name) + 1 :]).rstrip("/")
            return found if found in packages else None
    found = posixpath.join(vendor, module)
    return found if found in packages else None


def _imports(text: str) -> Iterator[str]:
    plain = _COMMENT.sub(lambda m: m[0] if m[0][0] in '"`' else " ", text)
    for group, single in _IMPORT.findall(plain):
        yield from _STRING.findall(group or single)


def _folders(file: str) -> list[str]:
    folder, found = posixpath.dirname(file), list[str]()
    while True:
        found.append(folder)
        if not folder:
            return found
        folder = posixpath.dirname(folder)
