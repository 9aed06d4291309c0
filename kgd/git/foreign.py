"""This file is where it is judged what of somebody else's objects may come in at all: how large, and of what name.

A push and a fetch ask the same of it. Nothing here reads an object that it has not measured by its header.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from kgd.errors import Damaged, Limit
from kgd.git.objects import LINK, PLAIN, ObjectId, raw
from kgd.git.store import ObjectStore

OWNED_FOLDERS = ("nodes", "conflicts", "memories", "log", "bulk", "kept")
"""The folders at the top of a workspace that kgd writes into (docs/format.md); each is a folder or absent."""

_WRONG_NAME = re.compile(
    rb"[\x00-\x1f\x7f\\]|\A\.git(?:modules)?[ .:]*\Z|\Agit(?:mod)?[a-z0-9]*~|\A\.{1,2}\Z|[ .]\Z", re.I
)
"""What some file system or git takes for something else: controls, ``.git`` and its short names on Windows, dots."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may come in at once. Sizes are bytes of single objects of a kind, inflated."""

    objects: int
    bytes: int
    """Of all objects together, inflated."""
    blob: int
    tree: int
    commit: int = 1 << 20
    depth: int = 72
    name: int = 255


def measure(store: ObjectStore, ids: Collection[ObjectId], most: Allowance) -> None:
    """Look at every object by its header: nothing is inflated that is larger than its kind may be.

    Raises:
        Limit: They are too many, or too large, alone or together.
        Damaged: One is not there.
    """
    if len(ids) > most.objects:
        raise Limit(f"there are more objects than the {most.objects} that are taken at once")
    total = 0
    largest = {"blob": most.blob, "tree": most.tree, "commit": most.commit, "tag": most.commit}
    for id in ids:
        found = store.kind_and_size(id)
        if found is None:
            raise Damaged("an object was not sent", at=id.hex())
        kind, size = found
        total += size
        if size > largest[kind]:
            raise Limit(f"a {kind} has {size} bytes, {largest[kind]} are taken at most", at=id.hex())
        if total > most.bytes:
            raise Limit(f"all objects together have more than the {most.bytes} bytes that are taken at once")


def harm_of(path: str, mode: bytes, most: Allowance) -> str:
    """Why nobody should have this file in a work tree, as the object of a sentence; empty where they may."""
    if not mode.startswith(PLAIN):
        return "a symbolic link" if mode == LINK else "a submodule, or an entry of no known kind"
    names = raw(path).split(b"/")
    if len(names) > most.depth:
        return f"folders that are nested deeper than {most.depth}"
    for number, name in enumerate(names):
        if len(name) > most.name or _WRONG_NAME.search(name) or not _is_text(name):
            return "a file whose name cannot be let into a work tree"
        if number and name.lower() == b".gitattributes":
            return "a .gitattributes below the top"
    return ""


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
