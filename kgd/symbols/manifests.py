"""This file is where a package's manifest is read, for the name that other files import it by."""

from __future__ import annotations

import json
import re
import tomllib

from kgd.symbols.symbols import Symbols

NAMES = {"go.mod": "go", "package.json": "npm", "Cargo.toml": "cargo"}
_MODULE = re.compile(rb"^module\s+\"?([^\s\"]+)", re.MULTILINE)


def extract(name: str, data: bytes) -> Symbols:
    """The package of a manifest; none where it does not say, or cannot be read."""
    return Symbols("manifest", package=_package(name, data))


def _package(name: str, data: bytes) -> str:
    if name == "go.mod":
        found = _MODULE.search(data)
        return found[1].decode("utf-8", "replace") if found else ""
    try:
        told = json.loads(data) if name == "package.json" else tomllib.loads(data.decode()).get("package")
    except (ValueError, RecursionError):
        return ""
    named = told.get("name") if isinstance(told, dict) else None
    if not isinstance(named, str):
        return ""
    return named.replace("-", "_") if name == "Cargo.toml" else named
