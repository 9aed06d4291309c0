"""Java's imports, by the JDK's own parser: packages and types as declared, looked up as the language says."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

PROGRAM = Path(__file__).with_name("Imports.java")
Edges = set[tuple[str, str]]


def edges(top: Path, files: Sequence[str]) -> Edges:
    """The imports of these files. Of several types of one name, the type that shares most folders with the importer."""
    read = subprocess.run(
        ["java", PROGRAM, top], input="\n".join(files), capture_output=True, text=True, check=True
    ).stdout
    types, packages = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    imports: list[tuple[str, bool, str]] = []
    file = package = ""
    for line in read.splitlines():
        kind, *fields = line.split("\t")
        if kind == "file":
            file, package = fields
            packages[package].append(file)
        elif kind == "import":
            imports.append((file, fields[0] == "static", fields[1]))
        else:
            types[f"{package}.{fields[0]}" if package else fields[0]].append(file)

    def targets(file: str, name: str, *, static: bool) -> Iterator[str]:
        owner, _, last = name.rpartition(".")
        if last == "*" and not static and owner in packages:
            yield from packages[owner]
            return
        at = owner if static or last == "*" else name
        while at:
            if at in types:
                yield max(types[at], key=lambda one: _shared(one, file))
                return
            at = at.rpartition(".")[0]

    return {
        (file, target)
        for file, static, name in imports
        for target in targets(file, name, static=static)
        if target != file
    }


def _shared(one: str, other: str) -> int:
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), 0)
