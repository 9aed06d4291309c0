"""Names of a node: the keys under which other texts mention it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgd.errors import KgdError
from kgd.index.feed import Indexed
from kgd.index.mentions import Key
from kgd.mentions.matching import LEAST_LETTERS, WRITTEN, is_file, phrase_key
from kgd.model.uri import Uri, path_of, scheme_of

PARTS = frozenset({"chunk", "message"})
"""Schemes and types of parts, which have no name of their own."""
CODE = "symbol"
MODULES = 3
"""Folders and modules before a symbol in its longest name."""

_TITLE = re.compile(r"(?P<name>.*\S)\s*\([^()]{1,60}\)\s*")
_ENDING = re.compile(r"\.\w{1,10}$")


def keys_of(text: Indexed) -> set[Key]:
    """The keys of a node: its name and aliases, a title such as ``X (film)`` also as X; a symbol in a program's
    spelling, with and without its modules; a file by its path and each suffix of it."""
    scheme = scheme_of(text.uri)
    if is_part(text):
        return set()
    if scheme in ("file", "dir"):
        return {_written(end) for end in path_ends(place(text.uri))} if scheme == "file" else set()
    if scheme == CODE or text.type == CODE:
        return {_written(name) for name in _symbol(text)}
    found = set[Key]()
    for name in (text.name, *text.aliases):
        found |= set(_named(name))
    return found


def is_part(text: Indexed) -> bool:
    return scheme_of(text.uri) in PARTS or text.type in PARTS


def _named(name: str) -> Iterator[Key]:
    forms = [name]
    if title := _TITLE.fullmatch(name):
        forms.append(title["name"])
    for form in forms:
        if words := phrase_key(form):
            key = " ".join(words)
            yield Key(key, words[0], len(words), f"{form}\n{key}")


def place(uri: Uri) -> str:
    """The path of an owned URI; empty if it cannot be decoded."""
    try:
        return path_of(uri)
    except KgdError:
        return ""


def path_ends(path: str) -> list[str]:
    """A path and each of its suffixes, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[n:]) for n in range(len(parts))]


def _symbol(text: Indexed) -> set[str]:
    """``Session.refresh`` of ``src/auth/session.py``, also as ``session.Session.refresh``, and ``refresh`` alone."""
    folder, _, qualified = place(text.uri).rpartition("/")
    qualified = qualified or text.name
    modules = _ENDING.sub("", folder).removesuffix("/__init__").split("/")
    found = {qualified, *(".".join([*modules[-n:], qualified]) for n in range(1, MODULES + 1))}
    last = qualified.rpartition(".")[2]
    if len(last) >= LEAST_LETTERS and not last.startswith("__"):
        found.add(last)
    return {name for name in found if len(name) >= LEAST_LETTERS}


def _written(text: str) -> Key:
    phrase = "" if is_file(text) else " ".join(re.findall(r"[^\W_]+", text))  # paths are kept in any case
    return Key(WRITTEN + text, "", 0, phrase)
