"""Answers as Markdown for models: short addresses, one line per fact, stored text in fences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson

from kgd.model.uri import OWNED

COMMIT = 12
"""Number of characters shown of a commit's id; parameters accept this short form."""


def address(uri: str, home: str) -> str:
    """The shortest address that parameters accept for this URI in the workspace `home`, in backticks.

    ``atom://shop/Check%20out`` becomes ``atom:Check out``; URIs of other workspaces and of the web are left as they
    are.
    """
    scheme, _, place = uri.partition("://")
    if scheme not in OWNED or not place.startswith(f"{home}/"):
        return f"`{uri}`"
    path = place[len(home) + 1 :]
    plain = path.replace("%20", " ")
    return f"`{scheme}:{plain if plain == plain.strip() else path}`"


def line(text: object) -> str:
    """A text in one line."""
    shown = str(text)
    return shown if shown.isprintable() else " ".join(shown.split())


def fence(text: str) -> str:
    """A block that the text cannot close: its fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}\n{text.removesuffix(chr(10))}\n{marks}"


_USUAL_TYPES = {"file": "resource", "dir": "concept"}


def titled(node: Mapping[str, Any], home: str) -> str:
    """The address of a node, with type and name unless they are part of the address: ``decision:One signer``."""
    shown = address(node["uri"], home)
    parts = [shown]
    scheme = node["uri"].partition(":")[0]
    usual = scheme if scheme in OWNED else "resource"
    if node["type"] != _USUAL_TYPES.get(scheme, usual):
        parts.append(f"({line(node['type'])})")
    if (name := line(node["name"])) and not shown.endswith((f":{name}`", f"/{name}`")):
        parts.append(name)
    return " ".join(parts)


def rest(answer: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """One line for each remaining field, so that no field is missing."""
    for name, value in answer.items():
        if name not in known and value not in ([], {}, None):
            yield f"{name}: {_shown(value)}"


def _shown(value: object) -> str:
    """A text, or a list of texts without commas, in plain words; other values as JSON."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, list) and all(
        isinstance(one, str) and one and one.isprintable() and "," not in one for one in value
    ):
        return ", ".join(value)
    return orjson.dumps(value).decode()
