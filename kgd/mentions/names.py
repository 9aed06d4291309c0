"""This file is where it is said which names a node goes by in other texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgd.errors import KgdError
from kgd.index.feed import Indexed
from kgd.index.mentions import Key
from kgd.mentions.matching import LEAST_LETTERS, WRITTEN, is_file, phrase_key
from kgd.model.uri import Uri, path_of, scheme_of

PARTS = frozenset({"chunk", "message"})
"""Schemes and types of what is a part of something and has no name that anybody would say."""
CODE = "symbol"
MODULES = 3
"""Folders and modules before a symbol, in its longest name."""

_TITLE = re.compile(r"(?P<name>.*\S)\s*\([^()]{1,60}\)\s*")
_ENDING = re.compile(r"\.\w{1,10}$")


def keys_of(text: Indexed) -> set[Key]:
    """The keys of a node: its name and other names, a title such as ``X (film)`` also as X; a symbol as it is written
    in a program, with and without the modules before it; a file by its path and the ends of that."""
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
    """The path of a URI of ours; empty where it has none that can be read."""
    try:
        return path_of(uri)
    except KgdError:
        return ""


def path_ends(path: str) -> list[str]:
    """A path and what is left of it from each of its segments on, the longest first."""
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
    phrase = (
        "" if is_file(text) else " ".join(re.findall(r"[^\W_]+", text))
    )  # paths are kept whether they lead anywhere or not
    return Key(WRITTEN + text, "", 0, phrase)
